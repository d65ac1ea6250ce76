//! `conform`: verifies models of the program graphs, draws them, and audits what was recorded of their runs.

mod commands;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// An audit makes and drops several small things for each record; this allocator is faster at that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Verify the program graphs that the daemons run, and audit what they did.
#[derive(Parser)]
#[command(name = "conform", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Audit(commands::audit::Audit),
    Verify(commands::verify::Verify),
    Graph(commands::graph::Draw),
    Show(commands::show::Show),
    Simulate(commands::simulate::Simulate),
    Inject(commands::inject::Inject),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Audit(asked) => asked.run(),
        Command::Verify(asked) => asked.run(),
        Command::Graph(asked) => asked.run(),
        Command::Show(asked) => asked.run(),
        Command::Simulate(asked) => asked.run(),
        Command::Inject(asked) => asked.run(),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
