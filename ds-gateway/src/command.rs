//! The command line: `ds-gateway run`, and the other commands, which speak to a gateway that runs.

mod words;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use mesh_runtime::air::bluez;
use mesh_runtime::daemon::asking::Asking;
use mesh_runtime::daemon::config::AirSetting;
use mesh_runtime::daemon::{self, Failure};
use serde_json::json;

use crate::config::Config;
use crate::opening::Opening;

/// The name in messages.
pub const NAME: &str = "ds-gateway";

/// Say by radio, and only to those whose policy you accept, that they may have your address
///
/// A gateway has your policies, in which you say who may collect what about you, for which purposes, until when, and who
/// may receive it next. It asks a repository for the policies of all controllers of a mesh, and advertises for those that
/// ask for no more than you allow.
#[derive(Debug, Parser)]
#[command(name = NAME, version, max_term_width = 100, after_help = AFTER_HELP)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Start with examples/daemons/ds-gateway.toml, which explains every setting:
  ds-gateway run --config ds-gateway.toml --check-config
  ds-gateway run --config ds-gateway.toml
In another terminal:
  ds-gateway decide --config ds-gateway.toml
  ds-gateway withdraw --config ds-gateway.toml --controller mall-gate

Exit codes: 0 done, 1 it failed or no gateway runs, 64 bad configuration or usage.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the gateway until SIGTERM or Ctrl-C; SIGHUP looks at all files again
    Run(RunArguments),
    /// Say how things are
    Status(Asking),
    /// For each controller known: yes or no, and why
    Decide(Asking),
    /// Take back what was released: the gateway falls silent at once, and those who have it are told to erase it
    Withdraw {
        /// From this device or organisation only [default: from everybody]
        #[arg(long, value_name = "NAME")]
        controller: Option<String>,
        #[command(flatten)]
        asking: Asking,
    },
    /// Let a controller have data again from which you have withdrawn
    Admit {
        /// The device or organisation
        #[arg(long, value_name = "NAME")]
        controller: String,
        #[command(flatten)]
        asking: Asking,
    },
    /// Read your policies again
    Reload(Asking),
    /// Print what an auditor needs to find you in traces. This is secret: see --help
    ///
    /// Traces name items by pseudonyms. An opening says which one is yours: it has your address, the key that makes the
    /// pseudonyms of your trace, and the public key that your trace is signed with. Whoever has it knows that this device is
    /// yours, and can tell from your trace what you released to whom and what you withdrew; together with a controller's
    /// audit key, also what is yours in the controller's trace. Give it only to an auditor whom you trust, over a channel
    /// that nobody else reads. It cannot be taken back. It does not let anybody act for you.
    Opening {
        /// The configuration (TOML)
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
}

/// What it takes to run a gateway.
#[derive(Debug, Args)]
pub struct RunArguments {
    /// The configuration (TOML)
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Only say whether the configuration can be used; nothing is written
    #[arg(long)]
    check_config: bool,
}

impl Arguments {
    /// Does what was asked.
    pub fn execute(&self) -> ExitCode {
        let name = |controller: &Option<String>| json!(controller);
        match &self.command {
            Command::Run(run) => run.execute(),
            Command::Status(asking) => asking.ask(NAME, &json!({ "command": "status" }), words::status),
            Command::Decide(asking) => asking.ask(NAME, &json!({ "command": "decide" }), words::decisions),
            Command::Withdraw { controller, asking } => {
                asking.ask(NAME, &json!({ "command": "withdraw", "controller": name(controller) }), words::withdrawn)
            }
            Command::Admit { controller, asking } => {
                asking.ask(NAME, &json!({ "command": "admit", "controller": controller }), words::admitted)
            }
            Command::Reload(asking) => asking.ask(NAME, &json!({ "command": "reload" }), words::reloaded),
            Command::Opening { config } => print_opening(config),
        }
    }
}

/// Reads key files only, so a gateway may run meanwhile.
fn print_opening(config: &Path) -> ExitCode {
    let opening = Config::load(config).and_then(with_address);
    let json =
        opening.and_then(|config| Opening::of(&config).and_then(|opening| opening.to_json()).map_err(Failure::runtime));
    match json {
        Ok(json) => {
            println!("{}", *json);
            ExitCode::SUCCESS
        }
        Err(failure) => daemon::report(NAME, &failure),
    }
}

/// An adapter knows its address, if the configuration does not say it.
fn with_address(mut config: Config) -> Result<Config, Failure> {
    if let (AirSetting::Bluez(settings), None) = (&config.air, config.address) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::runtime)?;
        let facts = runtime.block_on(bluez::inspect(&settings.adapter)).map_err(Failure::runtime)?;
        config.address = Some(facts.state.address);
    }
    Ok(config)
}

impl RunArguments {
    /// Runs the gateway, or looks at its configuration.
    pub fn execute(&self) -> ExitCode {
        let config = match Config::load(&self.config) {
            Ok(config) => config,
            Err(failure) => return daemon::report(NAME, &failure),
        };
        if self.check_config {
            println!("{}: the configuration can be used", self.config.display());
            return ExitCode::SUCCESS;
        }
        daemon::main(NAME, crate::run(config, daemon::asked_to_end()))
    }
}
