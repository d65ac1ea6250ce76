//! `consent-mesh`: PILOT privacy policies, who takes part in a mesh, its daemons and a demo of them, and a look at the air.
//!
//! One file per group of commands; each command is a function from its arguments to an [`Answer`], which becomes
//! the exit code. [`console`] is the only way to the terminal, [`input`] the only way to read files, [`replace`] to
//! rewrite them.

mod air;
mod console;
mod demo;
mod doctor;
mod example;
mod generate;
mod input;
mod keys;
mod mesh;
mod policy;
mod replace;
mod run;
mod vocabulary;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use mesh_runtime::daemon::BAD_CONFIGURATION;
use pilot_core::diagnostic::is_invisible;

use crate::console::{Answer, Console, Failure};

/// Author and compare PILOT privacy policies, and run a mesh that obeys them
///
/// A PILOT policy says who may collect which data, under which condition, for which purposes, until when, and to whom
/// it may be transferred. People (data subjects) and organisations (data controllers) both write them; data may flow
/// where the controller's policy is at least as restrictive as the subject's.
#[derive(Debug, Parser)]
#[command(name = "consent-mesh", version, after_help = AFTER_HELP, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

const AFTER_HELP: &str = "\
Without a command, `demo` is run: a whole mesh at work on this machine for a few seconds.

A policy file (see `consent-mesh policy --help`):
  policy offers-and-hotels {
    collect cookie by flights.com
      when cookie.secure = true
      for special_offers
      until 2024-12-21
    transfer to hotels.com
      for hotel_ads
      until 2024-04-19
  }

Exit codes: 0 yes or fine, 1 no (refused, not formatted, findings with --deny), 2 bad input or usage.
Of `run`, `repository`, `ds-gateway` and `dc-gateway`: 0 done, 1 could not go on or nobody answers, 64 bad configuration or usage.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a whole mesh on this machine: a shopping mall and its visitors (what happens without a command)
    Demo(demo::Demo),
    /// Walk through the paper's running example: a cookie banner, and what Alice may choose
    Example,
    /// Check, format, show and compare policies
    #[command(subcommand, after_help = policy::language())]
    Policy(policy::Command),
    /// Show and check the words that policies are made of
    #[command(subcommand, after_help = vocabulary::FORM)]
    Vocabulary(vocabulary::Command),
    /// Make and show the keys of a device or an operator
    #[command(subcommand)]
    Keys(keys::Command),
    /// Say who takes part in a mesh: the operator's mesh file
    #[command(subcommand, after_help = mesh::LIFE)]
    Mesh(mesh::Command),
    /// Ask a policy repository that runs, or run one
    Repository(repository_svc::command::Arguments),
    /// Ask a data subject's gateway that runs, decide, withdraw; or run one
    DsGateway(ds_gateway::command::Arguments),
    /// Ask a data controller's gateway that runs; or run one
    DcGateway(dc_gateway::command::Arguments),
    /// Watch the frames on the air, or decode a recorded advertisement
    #[command(subcommand)]
    Air(air::Command),
    /// Can a gateway run here? Looks at Bluetooth, the clock and the broker, and says what to do
    Doctor(doctor::Doctor),
    /// Run a daemon of a mesh
    #[command(subcommand)]
    Run(run::Command),
    /// Print a completion script for a shell
    Completions(generate::Completions),
    /// Print the manual page, or write those of all commands into a directory
    Man(generate::Man),
}

/// The commands that are those of a daemon, and have its exit codes.
const DAEMONS: [&str; 4] = ["repository", "ds-gateway", "dc-gateway", "run"];

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let command = match cli.command {
        // Daemons have logs and exit codes of their own.
        Some(Command::Run(command)) => return command.execute(),
        Some(Command::Repository(arguments)) => return arguments.execute(),
        Some(Command::DsGateway(arguments)) => return arguments.execute(),
        Some(Command::DcGateway(arguments)) => return arguments.execute(),
        other => other,
    };
    let mut console = Console::new();
    let answer = run(command.unwrap_or_else(|| Command::Demo(demo::Demo::default())), &mut console);
    console.finish(answer)
}

/// Says what is wrong with the command line, or what was asked of it: help, or the version.
fn usage(error: &clap::Error) -> ExitCode {
    // An argument, which may be the name of a file that looks like an option, must not steer the terminal.
    let printed = if std::env::args_os().any(|argument| argument.to_string_lossy().contains(is_invisible)) {
        let plain = error.render().to_string();
        let is_hidden = |character: char| character != '\n' && is_invisible(character);
        write!(io::stderr(), "{}", plain.replace(is_hidden, "\u{fffd}"))
    } else {
        error.print()
    };
    // Nobody can be told of a failure here.
    drop(printed);
    if error.use_stderr() && std::env::args_os().nth(1).is_some_and(|command| DAEMONS.iter().any(|it| command == *it)) {
        return ExitCode::from(BAD_CONFIGURATION);
    }
    // 0 after help, 2 after an error.
    u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}

fn run(command: Command, console: &mut Console) -> Result<Answer, Failure> {
    match command {
        Command::Demo(demo) => demo::run(&demo, console),
        Command::Example => example::run(console),
        Command::Policy(command) => policy::run(command, console),
        Command::Vocabulary(command) => vocabulary::run(command, console),
        Command::Keys(command) => keys::run(command, console),
        Command::Mesh(command) => mesh::run(command, console),
        Command::Air(command) => air::run(command, console),
        Command::Doctor(arguments) => doctor::run(&arguments, console),
        Command::Run(_) | Command::Repository(_) | Command::DsGateway(_) | Command::DcGateway(_) => Ok(Answer::Yes),
        Command::Completions(arguments) => generate::completions(&arguments, console),
        Command::Man(arguments) => generate::man(&arguments, console),
    }
}
