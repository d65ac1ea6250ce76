//! Emulated Bluetooth LE controllers that hear each other, for a kernel with `/dev/vhci`: see `consent_mesh_tests::radio`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use consent_mesh_tests::radio::vhci::{Radio, Wanted, tell};

/// Emulated Bluetooth LE controllers that hear each other.
#[derive(Debug, Parser)]
enum Command {
    /// Runs controllers until it is ended.
    Run {
        /// A socket to be made for orders.
        #[arg(long)]
        control: PathBuf,
        /// A file to append what is sent and heard to.
        #[arg(long)]
        log: PathBuf,
        /// What is lost follows from it.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Their addresses, in the order of their adapters; `ADDRESS=legacy` for one of Bluetooth 4.
        #[arg(required = true)]
        controllers: Vec<Wanted>,
    },
    /// Gives an order to controllers that run: `unplug N`, `plug N`, `loss PERCENT`, `cut on`, `cut off`,
    /// `mark NAME`, `beacon public|random ADDRESS [DATA]`.
    Tell {
        /// Their socket.
        #[arg(long)]
        control: PathBuf,
        /// The order.
        #[arg(required = true)]
        order: Vec<String>,
    },
}

fn main() -> ExitCode {
    let done = match Command::parse() {
        Command::Run { control, log, seed, controllers } => Radio::run(controllers, seed, &log, &control),
        Command::Tell { control, order } => match tell(&control, &order.join(" ")) {
            Ok(answer) if answer == "ok" => Ok(()),
            Ok(answer) => Err(std::io::Error::other(answer)),
            Err(error) => Err(error),
        },
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ble-radio: {error}");
            ExitCode::FAILURE
        }
    }
}
