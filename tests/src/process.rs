//! The daemons as processes of the release build.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use mesh_runtime::daemon::END_WITH_STANDARD_INPUT;
use rustix::process::{Pid, Signal, kill_process};

use crate::PATIENCE;

/// The binary that is shipped, built once per test program; or the one that the variable `CONSENT_MESH` names.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(binary) = std::env::var_os("CONSENT_MESH") {
            return binary.into();
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let build = ["build", "--release", "--locked", "--package", "consent-mesh", "--message-format", "json"];
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut build_it = Command::new(cargo);
        build_it.args(build).current_dir(workspace).stderr(Stdio::inherit());
        // What cargo says to a test about the test's own package would make it build dependencies anew that read it.
        let about_us = |name: &str| {
            ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_BIN_"].iter().any(|start| name.starts_with(start))
        };
        for (name, _) in std::env::vars().filter(|(name, _)| about_us(name)) {
            build_it.env_remove(name);
        }
        let output = build_it.output().unwrap();
        assert!(output.status.success(), "consent-mesh does not build");
        let text = String::from_utf8(output.stdout).unwrap();
        let messages = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let executable = |message: serde_json::Value| {
            let is_ours = message["target"]["name"] == "consent-mesh";
            is_ours.then(|| message["executable"].as_str().map(PathBuf::from)).flatten()
        };
        messages.filter_map(executable).next_back().expect("cargo says where the binary is")
    })
}

/// A running daemon. It ends with the test, whatever happens.
pub struct Daemon {
    child: Child,
    /// Held open, not written to.
    _input: Option<ChildStdin>,
}

impl Daemon {
    /// Starts `consent-mesh run KIND --config FILE`; what it says is appended to a log.
    pub fn start(kind: &str, config: &Path, log: &Path) -> Self {
        let log = File::options().create(true).append(true).open(log).unwrap();
        let mut child = Command::new(binary())
            .args(["run", kind, "--config"])
            .arg(config)
            .env(END_WITH_STANDARD_INPUT, "1")
            .env("RUST_LOG", std::env::var("RUST_LOG").unwrap_or_else(|_| "info".into()))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        Self { child, _input: input }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// SIGHUP.
    pub fn hang_up(&self) {
        self.signal(Signal::HUP);
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// SIGTERM, and how it ended.
    pub fn stop(mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "a daemon does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Resident memory in bytes.
    pub fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let kilobytes: u64 = line.trim().strip_suffix(" kB").unwrap().trim().parse().unwrap();
        kilobytes * 1024
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
