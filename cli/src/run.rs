//! The daemons of a mesh, in the same binary: `consent-mesh run repository --config FILE`.

use std::process::ExitCode;

use clap::Subcommand;

/// Which daemon.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// The policy repository: stores controllers' policies and hands them out
    Repository(repository_svc::command::RunArguments),
}

impl Command {
    /// Runs it to its end.
    pub fn execute(self) -> ExitCode {
        match self {
            Self::Repository(arguments) => arguments.execute(),
        }
    }
}
