//! `dc-gateway`: see the library.

use clap::Parser as _;
use dc_gateway::command::Arguments;
use mesh_runtime::daemon::asking::usage;

fn main() -> std::process::ExitCode {
    match Arguments::try_parse() {
        Ok(arguments) => arguments.execute(),
        Err(error) => usage(&error),
    }
}
