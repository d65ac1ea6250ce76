//! What `conform` is asked to do.

pub(crate) mod audit;
pub(crate) mod graph;
pub(crate) mod inject;
pub(crate) mod model;
pub(crate) mod show;
pub(crate) mod simulate;
pub(crate) mod verify;

use std::io::{self, Write as _};

use conformance::audit::sources::SourceError;
use conformance::each_guard::EachGuardError;
use conformance::inject::InjectError;
use conformance::scenario::ScenarioError;
use conformance::show::ShowError;
use conformance::simulate::SimulateError;

/// Why a command was not carried out. Exit code 2.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// There is no such model.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The graphs as they are do not hold.
    #[error(transparent)]
    EachGuard(#[from] EachGuardError),
    /// Something that an auditor needs is missing or cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A trace is damaged, or cannot be read.
    #[error(transparent)]
    Show(#[from] ShowError),
    /// No violation was put anywhere.
    #[error(transparent)]
    Inject(#[from] InjectError),
    /// There is no simulation.
    #[error(transparent)]
    Simulate(#[from] SimulateError),
    /// `--device` names nobody.
    #[error("there is no trace of `{0}`")]
    NoDevice(String),
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
