//! The command line of the repository.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use mesh_runtime::air::simulated::HubAddress;
use mesh_runtime::daemon;
use mesh_runtime::daemon::asking::{Asking, counted};
use serde_json::{Value, json};

use crate::config::{Config, EMBEDDED_BROKER, Overrides, SIMULATED_AIR};

const NAME: &str = "repository-svc";

/// The policy repository of a consent mesh: stores controllers' policies and hands them out
///
/// Controllers upload signed policy statements; the repository acknowledges them once they are on its disk, and hands
/// them on unchanged. Subjects verify every signature themselves, so nobody has to trust the repository.
#[derive(Debug, Parser)]
#[command(name = NAME, version, max_term_width = 100, after_help = CODES)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const CODES: &str = "Exit codes: 0 ended as asked, 1 could not go on, 64 bad configuration or usage.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run until SIGTERM or Ctrl-C; SIGHUP looks at the mesh file at once
    Run(RunArguments),
    /// Say what a running repository does
    Status(Asking),
}

/// How to run.
#[derive(Debug, Args)]
pub struct RunArguments {
    /// The configuration (examples/daemons/repository.toml explains it)
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Only say whether the configuration is good
    #[arg(long)]
    check_config: bool,
    /// Keep everything here instead of where the configuration says
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Run an MQTT broker on loopback and use it, for a mesh on one machine
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = EMBEDDED_BROKER)]
    embedded_broker: Option<SocketAddr>,
    /// Run a simulated air on loopback, through which gateways on this machine hear each other
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = SIMULATED_AIR)]
    simulated_air: Option<HubAddress>,
}

impl Arguments {
    /// Does what the command line says.
    pub fn execute(self) -> ExitCode {
        match self.command {
            Command::Run(arguments) => arguments.execute(),
            Command::Status(asking) => asking.ask(NAME, &json!({ "command": "status" }), in_words),
        }
    }
}

impl RunArguments {
    /// Runs the repository.
    pub fn execute(self) -> ExitCode {
        daemon::main(NAME, async {
            let overrides =
                Overrides { data: self.data, embedded_broker: self.embedded_broker, simulated_air: self.simulated_air };
            let config = Config::load(&self.config, overrides)?;
            if self.check_config {
                println!("the configuration is good");
                return Ok(());
            }
            crate::run(config, daemon::asked_to_end()).await
        })
    }
}

/// The status as sentences.
fn in_words(status: &Value) -> String {
    let number = |name: &str| status.get(name).and_then(Value::as_u64).unwrap_or_default();
    let text = |name: &str| status.get(name).and_then(Value::as_str).unwrap_or("?");
    let connected = status.get("connected").and_then(Value::as_bool).unwrap_or_default();
    let mut words = format!(
        "{} is {}.\nIt lists the policies of {}, at revision {}.\n",
        text("device"),
        if connected { "connected to its broker" } else { "not connected to its broker" },
        counted(number("listed"), "device"),
        number("revision"),
    );
    let (uploads, downloads) = (counted(number("uploads"), "upload"), counted(number("downloads"), "download"));
    words += &format!("Since its start it answered {uploads} and {downloads}.\n");
    let complaints = status.get("complaints").and_then(Value::as_object);
    for (kind, count) in complaints.into_iter().flatten() {
        words += &format!("Refused as {kind}: {count}.\n");
    }
    words
}
