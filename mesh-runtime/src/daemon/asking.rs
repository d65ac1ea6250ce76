//! The command line of whoever asks a daemon that runs.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::Value;

use super::{BAD_CONFIGURATION, Failure, config, control, report};

/// How to find a daemon that runs, and how to print its answer.
#[derive(Debug, clap::Args)]
pub struct Asking {
    /// The configuration of the daemon
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Its data directory, if it is not the one of the configuration
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Print the daemon's answer as JSON
    #[arg(long)]
    json: bool,
}

impl Asking {
    /// Asks, and prints the answer in words.
    pub fn ask(&self, name: &str, request: &Value, words: impl FnOnce(&Value) -> String) -> ExitCode {
        let data = self.data.clone().map_or_else(|| config::data_directory(&self.config), Ok);
        let asked = data.map_err(Failure::configuration);
        match asked.and_then(|data| control::ask(&data, request).map_err(Failure::runtime)) {
            Ok(answer) => {
                let text = if self.json { format!("{answer}\n") } else { words(&answer) };
                // Whoever reads may have gone: `… | head`.
                let _ = std::io::stdout().write_all(text.as_bytes());
                ExitCode::SUCCESS
            }
            Err(failure) => report(name, &failure),
        }
    }
}

/// "1 item", "2 items".
pub fn counted(number: u64, one: &str) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}

/// Says what is wrong with a command line, or what was asked of it: help, or the version.
pub fn usage(error: &clap::Error) -> ExitCode {
    // Nobody can be told of a failure here.
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(BAD_CONFIGURATION) } else { ExitCode::SUCCESS }
}
