//! `dc-gateway`: see the library.

use clap::Parser as _;
use dc_gateway::command::{Arguments, usage};

fn main() -> std::process::ExitCode {
    match Arguments::try_parse() {
        Ok(arguments) => arguments.execute(),
        Err(error) => usage(&error),
    }
}
