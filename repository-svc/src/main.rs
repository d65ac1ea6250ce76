//! `repository-svc`: see the library.

use clap::Parser as _;
use mesh_runtime::daemon::asking::usage;
use repository_svc::command::Arguments;

fn main() -> std::process::ExitCode {
    match Arguments::try_parse() {
        Ok(arguments) => arguments.execute(),
        Err(error) => usage(&error),
    }
}
