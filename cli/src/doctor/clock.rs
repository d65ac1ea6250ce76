//! The clock: frames are accepted for two minutes, so one that is wrong by more makes a gateway deaf and dumb.

use std::time::Duration;

use dbus::blocking::Connection;
use dbus::blocking::stdintf::org_freedesktop_dbus::Properties as _;
use mesh_runtime::driver::clock::Sanity;

use super::Finding;
use crate::input;

/// How long the system may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) fn look() -> Finding {
    if let Err(problem) = Sanity::default().believe(input::clock()) {
        return Finding::bad(
            problem.to_string(),
            "set the clock: `timedatectl set-ntp true`; without it nothing is sent or kept",
        );
    }
    match is_synchronised() {
        Some(true) => Finding::fine("the clock is synchronised"),
        Some(false) => Finding::bad(
            "the clock is not synchronised",
            "`timedatectl set-ntp true`, and wait until `timedatectl` says yes",
        ),
        None => Finding::note(
            "nobody says whether the clock is synchronised",
            "see that it is right within a minute: frames of other moments are refused",
        ),
    }
}

/// What systemd-timedated says, whichever program keeps the time. `None` if it is not there.
fn is_synchronised() -> Option<bool> {
    let bus = Connection::new_system().ok()?;
    let timedate = bus.with_proxy("org.freedesktop.timedate1", "/org/freedesktop/timedate1", PATIENCE);
    timedate.get("org.freedesktop.timedate1", "NTPSynchronized").ok()
}
