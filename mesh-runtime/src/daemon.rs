//! What every daemon does besides running its graph: it reads a configuration, says what it does, listens to signals and
//! to its user, and ends.
//!
//! A daemon is a `Config`, which exists only if everything in it is well formed, and `run(config, shutdown)`. Its `main`
//! is [`main`]: logs, configuration (bad configuration: one clear sentence, exit 64), run, drain.
//!
//! * [`config`]: sections that several daemons have;
//! * [`membership`]: who is in the mesh, as the operator's file says now;
//! * [`control`]: a socket on which the user asks and decides;
//! * [`asking`]: the command line of whoever does so;
//! * [`complaints`]: what was refused, counted, and said once in a while;
//! * [`state_file`]: what must survive a restart, written in one step;
//! * [`logging`]: where it says what it does.

pub mod asking;
pub mod complaints;
pub mod config;
pub mod control;
pub mod logging;
pub mod membership;
pub mod state_file;

use std::future::Future;
use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};

/// The exit code for a bad configuration (`EX_USAGE` of `sysexits.h`).
pub const BAD_CONFIGURATION: u8 = 64;

/// Why a daemon ended.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// What it was told makes no sense: a person must change it.
    #[error("{0}")]
    Configuration(String),
    /// It could not go on.
    #[error("{0}")]
    Runtime(String),
}

impl Failure {
    /// What it was told makes no sense.
    pub fn configuration(error: impl std::fmt::Display) -> Self {
        Self::Configuration(error.to_string())
    }

    /// It could not go on.
    pub fn runtime(error: impl std::fmt::Display) -> Self {
        Self::Runtime(error.to_string())
    }

    fn code(&self) -> ExitCode {
        match self {
            Self::Configuration(_) => ExitCode::from(BAD_CONFIGURATION),
            Self::Runtime(_) => ExitCode::FAILURE,
        }
    }
}

/// Runs a daemon to its end: one thread, since a gateway has little to do and a small machine little memory.
pub fn main(name: &str, daemon: impl Future<Output = Result<(), Failure>>) -> ExitCode {
    logging::start();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return report(name, &Failure::runtime(error)),
    };
    match runtime.block_on(daemon) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report(name, &failure),
    }
}

/// Says why it ended, on one line.
pub fn report(name: &str, failure: &Failure) -> ExitCode {
    eprintln!("{name}: {failure}");
    failure.code()
}

/// If this variable is set, the end of standard input ends a daemon: whoever started it has gone.
pub const END_WITH_STANDARD_INPUT: &str = "CONSENT_MESH_END_WITH_STANDARD_INPUT";

/// Resolves when the process is asked to end: SIGTERM, Ctrl-C, or see [`END_WITH_STANDARD_INPUT`].
pub async fn asked_to_end() {
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        tracing::error!("cannot listen to signals");
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        () = end_of_standard_input() => {}
    }
}

async fn end_of_standard_input() {
    if std::env::var_os(END_WITH_STANDARD_INPUT).is_none() {
        return std::future::pending().await;
    }
    let (ended, end) = tokio::sync::oneshot::channel();
    // A thread of its own, which the end of the process does not wait for.
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        let _ = ended.send(());
    });
    let _ = end.await;
}
