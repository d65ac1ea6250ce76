//! Bluetooth Low Energy on Linux: BlueZ, over D-Bus.
//!
//! ```text
//!   Air ── wanted ──► Speaker ──► bluer ─────┐
//!                                            ├──► D-Bus ──► bluetoothd ──► kernel ──► controller
//!   Air ◄─ sightings ─ Listener ◄─ btleplug ─┘
//! ```
//!
//! A gateway either [speaks](speak) or [listens](listen): a subject's does not scan, a controller's does not advertise.
//! Both ends are tasks that never give up. Whatever goes wrong (no bluetoothd, no adapter, one that is switched off or was
//! pulled out) the radio is down, the log says so once, and it is tried again after [`FIRST_RETRY`] to [`LAST_RETRY`]. A radio
//! that works is looked at every [`CHECK_INTERVAL`], since a bluetoothd that was restarted remembers nothing of us.
//!
//! * [`adapter`]: what BlueZ says about an adapter, and whether that will do; [`room`]: how long frames can be;
//! * `speaker`: frames on the air, from an address that was looked at;
//! * `listener`: what BlueZ reports; [`ear`]: what of it counts, without radio or D-Bus; `rest`: a queue that never ends.
//!
//! Nothing here switches an adapter on: whoever switched it off had a reason.
//!
//! **Addresses in logs.** BlueZ's object paths have addresses in them, so errors about single devices are never shown, and
//! what the libraries log is off (`daemon::logging`).

use std::time::Duration;

pub mod adapter;
mod attempts;
pub mod ear;
mod listener;
mod privacy;
mod rest;
pub mod room;
mod speaker;

pub use adapter::{BluezError, Facts, inspect};

use attempts::Attempts;

use super::frame::LEGACY_FRAME_BYTES;
use super::{Address, Air, Carrier};

/// The pause after the first failure. It doubles with each.
pub const FIRST_RETRY: Duration = Duration::from_millis(250);
/// The longest pause: so long after bluetoothd or the adapter is back, at most, the radio works again.
pub const LAST_RETRY: Duration = Duration::from_secs(8);
/// How often a radio that seems to work is looked at.
pub const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// How long BlueZ may take to answer.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// How many frames are on the air at a time, if the controller has so many advertising sets. Others need some, too.
pub const MAX_SETS: usize = 4;
/// How often a frame is repeated, if BlueZ does as it is told (from 5.7x on; before, 1.28 seconds).
pub const ADVERTISING_INTERVAL: Duration = Duration::from_millis(100);

/// Which radio, and how it carries frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The adapter's name, such as `hci0`.
    pub adapter: AdapterName,
    /// Where frames are in an advertisement.
    pub carrier: Carrier,
}

/// A name of an adapter: `hci` and a number. It becomes part of a D-Bus path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdapterName(String);

impl AdapterName {
    /// `None` if this is no such name.
    pub fn new(name: &str) -> Option<Self> {
        let digits = name.strip_prefix("hci")?;
        let is_number = (1..=5).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_digit());
        is_number.then(|| Self(name.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for AdapterName {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

/// The address under which an adapter will be seen, if it is seen under one for good, and if that is the `wanted` one.
///
/// An adapter that is not there is waited for, unless there is a wanted address to go on with: [`speak`] looks again.
pub async fn identify(settings: &Settings, wanted: Option<Address>) -> Result<Address, BluezError> {
    let name = &settings.adapter;
    let mut attempts = Attempts::new(name.clone());
    loop {
        let looked = inspect(name).await;
        let checked = looked.and_then(|facts| facts.state.check_address(name, wanted).map(|()| facts.state.address));
        match (checked, wanted) {
            (Ok(address), _) => return Ok(address),
            (Err(error), _) if error.is_lasting() => return Err(error),
            (Err(_), Some(address)) => return Ok(address),
            (Err(error), None) => attempts.failed(error).await,
        }
    }
}

/// A radio that advertises, from this address only: while the adapter has another, it is silent. It hears nothing.
///
/// It has room for nothing until it is known how much. Must be called inside a tokio runtime.
#[must_use]
pub fn speak(settings: Settings, address: Address) -> Air {
    let (air, radio) = Air::new(0);
    tokio::spawn(speaker::Speaker::new(settings, address, radio).run());
    air
}

/// A radio that scans without pause. It says nothing. Must be called inside a tokio runtime.
#[must_use]
pub fn listen(settings: Settings) -> Air {
    let (air, radio) = Air::new(LEGACY_FRAME_BYTES);
    tokio::spawn(listener::Listener::new(settings, radio).run());
    air
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_adapters() {
        assert!(["hci0", "hci12", "hci65535"].iter().all(|name| AdapterName::new(name).is_some()));
        assert!(
            ["", "hci", "eth0", "hci0/dev_00", "hci-1", "hci123456", "hci٣"]
                .iter()
                .all(|n| AdapterName::new(n).is_none())
        );
    }
}
