//! The daemons of a mesh, in the same binary: `consent-mesh run repository --config FILE`.

use std::process::ExitCode;

use clap::Subcommand;

/// Which daemon.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// The policy repository: stores controllers' policies and hands them out
    Repository(repository_svc::command::RunArguments),
    /// A data subject's gateway: decides about controllers' policies, and advertises for those it accepts
    DsGateway(ds_gateway::command::RunArguments),
    /// A data controller's gateway: publishes its policy, listens, and keeps what people consented to
    DcGateway(dc_gateway::command::RunArguments),
}

impl Command {
    /// Runs it to its end.
    pub fn execute(self) -> ExitCode {
        match self {
            Self::Repository(arguments) => arguments.execute(),
            Self::DsGateway(arguments) => arguments.execute(),
            Self::DcGateway(arguments) => arguments.execute(),
        }
    }
}
