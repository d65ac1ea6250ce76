//! `conform`: verifies models of the program graphs, and draws the graphs.

mod commands;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Verify the program graphs that the daemons run.
#[derive(Parser)]
#[command(name = "conform", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Verify(commands::verify::Verify),
    Graph(commands::graph::Draw),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Verify(asked) => asked.run(),
        Command::Graph(asked) => asked.run(),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
