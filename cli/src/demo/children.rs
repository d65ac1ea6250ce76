//! The daemons of the demo: child processes of this binary.
//!
//! Each has a pipe to us as its standard input and ends when that closes, so nothing is left behind even if the demo is
//! killed.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use mesh_runtime::daemon::END_WITH_STANDARD_INPUT;
use rustix::process::{Pid, Signal, kill_process};

/// How long a daemon may take to end after it was asked to, before it is killed.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often somebody looks whether it has ended.
const LOOK: Duration = Duration::from_millis(20);

/// A running daemon.
#[derive(Debug)]
pub(super) struct Daemon {
    pub(super) name: String,
    child: Child,
    /// Held open, not written to.
    _input: Option<ChildStdin>,
}

impl Daemon {
    /// Starts `consent-mesh run KIND --config FILE`.
    pub(super) fn start(kind: &str, name: &str, config: &Path, log: &Path) -> io::Result<Self> {
        let log = File::create(log)?;
        let mut child = Command::new(std::env::current_exe()?)
            .args(["run", kind, "--config"])
            .arg(config)
            .env(END_WITH_STANDARD_INPUT, "1")
            // Ctrl-C goes to the demo alone, which asks everybody before it ends them.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        let input = child.stdin.take();
        Ok(Self { name: name.to_owned(), child, _input: input })
    }

    /// Whether it has ended by itself.
    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

/// Never leaves a process behind.
impl Drop for Daemon {
    fn drop(&mut self) {
        if !self.has_ended() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Asks all of them to end, and waits until they have; returns the names of those that had to be killed.
pub(super) fn end(mut daemons: Vec<Daemon>) -> Vec<String> {
    for daemon in &mut daemons {
        if !daemon.has_ended() {
            let pid = i32::try_from(daemon.child.id()).ok().and_then(Pid::from_raw);
            // It may have ended meanwhile.
            let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
        }
    }
    let asked = Instant::now();
    while asked.elapsed() < PATIENCE && daemons.iter_mut().any(|daemon| !daemon.has_ended()) {
        std::thread::sleep(LOOK);
    }
    daemons.iter_mut().filter_map(|daemon| (!daemon.has_ended()).then(|| daemon.name.clone())).collect()
}
