//! `consent-mesh policy`: the tools of people who write policies. One file per command.

mod batch;
mod check;
mod compare;
mod diff;
mod fmt;
mod show;

use clap::Subcommand;
use pilot_core::function::Function;
use pilot_core::value::Kind;

use crate::console::{Answer, Console, Failure};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check policy files: syntax, names, and what is probably not meant
    Check(check::Check),
    /// Format policy files in place
    Fmt(fmt::Fmt),
    /// Show policies as text, JSON, CBOR, English or digest
    Show(show::Show),
    /// Is a controller's policy at least as restrictive as a subject's?
    Compare(compare::Compare),
    /// Which subjects does a controller gain or lose by changing its policy?
    Diff(diff::Diff),
}

/// The policy language in one screen.
pub(crate) fn language() -> String {
    let mut text = String::from(
        "\
The policy language:
  policy NAME {
    collect DATATYPE by ENTITY
      when CONDITION          optional
      for PURPOSE, PURPOSE    or: for nothing
      until TIME              2024-12-21, 2024-12-21T10:00:00Z or Unix seconds
    transfer to ENTITY        any number of transfers, each with
      for PURPOSE             its own `when`, `for` and `until`
      until TIME
  }
  policy NAME { nothing }     the empty policy
  // a comment                or: # a comment

Datatypes, entities, purposes and attributes are names of the vocabulary. Conditions compare attributes, constants and functions with = != < <= > >= and join them with `and`, `or`, `not` and parentheses:
  age >= 18 and (place = \"museum\" or hour(now) < 18) and not cookie.secure

Functions:
",
    );
    for function in Function::ALL {
        let kinds: Vec<&str> = function.parameters().iter().map(|kind| Kind::word(*kind)).collect();
        text += &format!("  {}({})\n      {}\n", function.name(), kinds.join(", "), function.about());
    }
    text
}

pub(crate) fn run(command: Command, console: &mut Console) -> Result<Answer, Failure> {
    match command {
        Command::Check(arguments) => check::run(&arguments, console),
        Command::Fmt(arguments) => fmt::run(&arguments, console),
        Command::Show(arguments) => show::run(&arguments, console),
        Command::Compare(arguments) => compare::run(&arguments, console),
        Command::Diff(arguments) => diff::run(&arguments, console),
    }
}
