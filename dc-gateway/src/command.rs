//! The command line of the controller's gateway.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use mesh_runtime::daemon;
use mesh_runtime::daemon::asking::Asking;
use mesh_runtime::daemon::config::data_directory;
use mesh_runtime::driver::clock::{Clock as _, SystemClock};
use serde_json::{Value, json};

use crate::config::Config;
use crate::status::{consents_in_lines, in_words};
use crate::vault::{OpenError, Vault};

const NAME: &str = "dc-gateway";

/// The gateway of a data controller: collects what people consented to, and erases it in time
///
/// It publishes the controller's policy in the mesh's repository, listens to the radio, and keeps the addresses of
/// those who broadcast that they accept this policy: encrypted, until the policy's deadline, or until they withdraw. Of
/// everybody else it keeps a number: how many were refused, and for which reason.
#[derive(Debug, Parser)]
#[command(name = NAME, version, max_term_width = 100, after_help = CODES)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const CODES: &str = "\
Start with a configuration (examples/daemons/dc-gateway.toml explains every setting):
  dc-gateway run --config dc-gateway.toml
  dc-gateway status --config dc-gateway.toml

Exit codes: 0 ended as asked, 1 could not go on, 64 bad configuration or usage.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run until SIGTERM or Ctrl-C; SIGHUP reads policy and mesh file again
    Run(RunArguments),
    /// Say what a running gateway does: its policy, what it holds, what it refused
    Status(Asking),
    /// Print the signed consents to what is held, for an auditor. This is secret: see --help
    ///
    /// A JSON object a line, with a person's address, the key that she made for this controller, and her signature. Nothing
    /// else that this gateway tells has addresses. Give it only to an auditor, over a channel that nobody else reads.
    Consents(Asking),
    /// Read the policy file again, and publish what it says
    Reload(Asking),
    /// Take the policy back: nothing is collected any more until `reload`; what is held stays until its deadline
    WithdrawPolicy(Asking),
}

/// How to run.
#[derive(Debug, Args)]
pub struct RunArguments {
    /// The configuration (examples/daemons/dc-gateway.toml explains it)
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Only say whether the configuration is good
    #[arg(long)]
    check_config: bool,
}

impl Arguments {
    /// Does what the command line says.
    pub fn execute(self) -> ExitCode {
        match self.command {
            Command::Run(arguments) => arguments.execute(),
            Command::Status(asking) => asking.ask(NAME, &json!({ "command": "status" }), in_any_words),
            Command::Consents(asking) => asking.ask(NAME, &json!({ "command": "consents" }), shown_consents),
            Command::Reload(asking) => asking.ask(NAME, &json!({ "command": "reload" }), in_any_words),
            Command::WithdrawPolicy(asking) => asking.ask(NAME, &json!({ "command": "withdraw-policy" }), in_any_words),
        }
    }
}

/// The gateway cannot run: its mesh file has expired, say, or the disk is full. What is due is erased all the same. The
/// trace has no record of it.
fn erase_what_is_due(data: &Path) {
    let (vault, key) = (data.join("vault.redb"), data.join("vault.key"));
    if !vault.exists() {
        return;
    }
    match Vault::open(&vault, &key, SystemClock.now()) {
        Ok((_, swept)) if swept.erased.is_empty() => {}
        Ok((_, swept)) => tracing::warn!(records = swept.erased.len(), "what is due was erased, without a record"),
        // Another gateway runs here, and erases it.
        Err(OpenError::InUse(_)) => {}
        Err(error) => tracing::error!(%error, "what is due could not be erased"),
    }
}

impl RunArguments {
    /// Runs the gateway.
    pub fn execute(&self) -> ExitCode {
        daemon::main(NAME, async {
            let config = Config::load(&self.config);
            if self.check_config {
                config?;
                println!("the configuration is good");
                return Ok(());
            }
            let done = match config {
                Ok(config) => crate::run(config, daemon::asked_to_end()).await,
                Err(failure) => Err(failure),
            };
            if let (Err(_), Ok(data)) = (&done, data_directory(&self.config)) {
                erase_what_is_due(&data);
            }
            done
        })
    }
}

/// The signed consents. That there are none is said beside them: an empty file says nothing to an auditor's reader.
fn shown_consents(answer: &Value) -> String {
    let lines = consents_in_lines(answer);
    if lines.is_empty() {
        eprintln!("{NAME}: nothing that is held came with a signature, so there is no consent to show");
    }
    lines
}

/// What it said, or its status.
fn in_any_words(answer: &Value) -> String {
    match answer.get("said").and_then(Value::as_str) {
        Some(said) => format!("{said}\n"),
        None => in_words(answer),
    }
}
