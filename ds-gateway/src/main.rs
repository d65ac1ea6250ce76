//! `ds-gateway`: see the library.

use std::process::ExitCode;

use clap::Parser as _;
use ds_gateway::command::Arguments;

fn main() -> ExitCode {
    match Arguments::try_parse() {
        Ok(arguments) => arguments.execute(),
        Err(error) => ds_gateway::command::usage(&error),
    }
}
