//! The scenario in a virtual machine with real BlueZ: see `consent_mesh_tests::ble_vm` and `tests/ble-vm`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use consent_mesh_tests::ble_vm::cast::prepare;
use consent_mesh_tests::ble_vm::check::{Played, check};
use consent_mesh_tests::ble_vm::holds::{holds, lists, until};

/// The scenario in a virtual machine with real BlueZ.
#[derive(Debug, Parser)]
enum Command {
    /// Writes the files of the mesh.
    Prepare {
        /// Where to.
        mesh: PathBuf,
    },
    /// Waits until the repository lists policies of so many devices; prints how many seconds that took, or `never`.
    Lists {
        /// How long to wait, in seconds.
        #[arg(long)]
        within: u64,
        /// The files of the mesh.
        mesh: PathBuf,
        /// How many.
        count: u64,
    },
    /// Waits until controllers hold items of exactly these people, each of them also under its present policy; likewise.
    Holds {
        /// How long to wait, in seconds.
        #[arg(long)]
        within: u64,
        /// The files of the mesh.
        mesh: PathBuf,
        /// `CONTROLLER:PERSON,PERSON`
        #[arg(required = true)]
        holdings: Vec<String>,
    },
    /// Checks what came out of the machine.
    Check {
        /// What came out.
        out: PathBuf,
        /// BlueZ is one that declines extended advertising.
        #[arg(long)]
        old: bool,
        /// There were disturbances.
        #[arg(long)]
        disturbed: bool,
        /// Nobody could hear anybody: what should have arrived must not have.
        #[arg(long)]
        cut: bool,
    },
}

/// Waits, and says for how long.
fn wait(seconds: u64, is_so: impl Fn() -> bool) -> bool {
    let waited = until(Duration::from_secs(seconds), is_so);
    println!("{}", waited.map_or("never".to_owned(), |seconds| format!("{seconds:.1}")));
    waited.is_some()
}

fn main() -> ExitCode {
    let done = match Command::parse() {
        Command::Prepare { mesh } => prepare(&mesh).map(|()| true),
        Command::Lists { within, mesh, count } => Ok(wait(within, || lists(&mesh, count))),
        Command::Holds { within, mesh, holdings } => {
            let holds_them = |holding: &String| {
                let (controller, people) = holding.split_once(':').unwrap_or((holding, ""));
                let people: Vec<String> = people.split(',').map(str::to_owned).collect();
                holds(&mesh, controller, &people)
            };
            Ok(wait(within, || holdings.iter().all(holds_them)))
        }
        Command::Check { out, old, disturbed, cut } => {
            check(&out, Played { is_old: old, is_disturbed: disturbed, is_cut: cut }).map(|(passed, failed)| {
                println!("{passed} passed, {failed} failed");
                failed == 0
            })
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("ble-vm: {error}");
            ExitCode::from(2)
        }
    }
}
