//! `repository-svc`: see the library.

use clap::Parser as _;

fn main() -> std::process::ExitCode {
    repository_svc::command::Arguments::parse().execute()
}
