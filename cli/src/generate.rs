//! Shell completions and manual pages, generated from the definition of the command line.

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::Cli;
use crate::console::{Answer, Console, Failure};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  consent-mesh completions bash > ~/.local/share/bash-completion/completions/consent-mesh
  consent-mesh completions fish > ~/.config/fish/completions/consent-mesh.fish
  consent-mesh completions zsh > ~/.zfunc/_consent-mesh")]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

pub(crate) fn completions(arguments: &Completions, console: &mut Console) -> Result<Answer, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "consent-mesh", &mut script);
    console.write_all(&script)?;
    Ok(Answer::Yes)
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  consent-mesh man | man -l -
  consent-mesh man --out ~/.local/share/man/man1")]
pub(crate) struct Man {
    /// Write one page per command into this directory, which is made if it does not exist
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) fn man(arguments: &Man, console: &mut Console) -> Result<Answer, Failure> {
    // `help` has no page of its own, so none may refer to it.
    let command = Cli::command().disable_help_subcommand(true);
    match &arguments.out {
        None => clap_mangen::Man::new(command).render(console)?,
        Some(directory) => std::fs::create_dir_all(directory)
            .and_then(|()| clap_mangen::generate_to(command, directory))
            .map_err(|error| Failure::Write(directory.as_path().into(), error))?,
    }
    Ok(Answer::Yes)
}
