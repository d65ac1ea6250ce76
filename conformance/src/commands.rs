//! What `conform` is asked to do.

pub(crate) mod graph;
pub(crate) mod model;
pub(crate) mod verify;

use std::io::{self, Write as _};

use conformance::each_guard::EachGuardError;
use conformance::scenario::ScenarioError;

/// Why a command was not carried out. Exit code 2.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// There is no such model.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The graphs as they are do not hold.
    #[error(transparent)]
    EachGuard(#[from] EachGuardError),
    /// Options that exclude each other, or miss one.
    #[error("{0}")]
    Usage(&'static str),
    /// Nobody reads the output.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

/// Prints a text. A reader that has read enough is no error.
pub(crate) fn print(text: &str) -> Result<(), CommandError> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
