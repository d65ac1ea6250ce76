//! `consent-mesh keys`: the secrets of a device or an operator.

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use mesh_runtime::keys::SecretKeys;

use crate::console::{Answer, Console, Failure};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make the secret keys of a device or an operator, and show the public ones
    New(New),
    /// Show the public keys that belong to a file of secret keys
    Show(Show),
}

#[derive(Debug, Args)]
#[command(after_help = "\
The file holds an Ed25519 key to sign with and an X25519 key to open what is sealed to its owner. It is made with mode \
0600 and never overwritten. Make it on the machine that will use it, and give the operator what is printed: the public \
keys.

Examples:
  consent-mesh keys new gate.key > gate.pub
  consent-mesh keys new operator.key

Exit codes: 0 done, 2 errors.")]
pub(crate) struct New {
    /// File to make
    file: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The first line verifies what the owner signs, the second seals what is sent to the owner. A file that others may read, \
or that belongs to somebody else, is refused.

Examples:
  consent-mesh keys show gate.key
  consent-mesh keys show operator.key | head -n 1     what daemons have as the operator's key

Exit codes: 0 done, 2 errors.")]
pub(crate) struct Show {
    /// File of secret keys
    file: PathBuf,
}

pub(crate) fn run(command: Command, console: &mut Console) -> Result<Answer, Failure> {
    let keys = match command {
        Command::New(New { file }) => SecretKeys::create(&file)?,
        Command::Show(Show { file }) => SecretKeys::load(&file)?,
    };
    writeln!(console, "{}", keys.public())?;
    Ok(Answer::Yes)
}
