//! `repository-svc`: see the library.

use clap::Parser as _;
use repository_svc::command::{Arguments, usage};

fn main() -> std::process::ExitCode {
    match Arguments::try_parse() {
        Ok(arguments) => arguments.execute(),
        Err(error) => usage(&error),
    }
}
