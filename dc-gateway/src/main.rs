//! `dc-gateway`: see the library.

use clap::Parser as _;

fn main() -> std::process::ExitCode {
    dc_gateway::command::Arguments::parse().execute()
}
