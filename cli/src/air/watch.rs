//! `consent-mesh air watch`: the frames that a radio hears.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use mesh_runtime::air::{Address, AddressKind, Air, Counts, Sighting, bluez};
use mesh_runtime::daemon::config::AirSetting;

use super::{Names, RadioArguments, words};
use crate::console::{Answer, Console, Failure};
use crate::input;

/// Devices that are told apart, and frames that are remembered as shown. More are shown without a number, or twice.
const MAX_REMEMBERED: usize = 1_024;

#[derive(Debug, Args)]
#[command(after_help = "\
Each frame is shown once, when it is first heard; a new epoch, after 64 seconds, is a new frame. Devices have numbers in the \
order of their appearance: an address is personal data, and is shown only if you say so. Nothing is stored.

Examples:
  consent-mesh air watch --bluez hci0
  consent-mesh air watch --config dc-gateway.toml --mesh mesh.toml
  consent-mesh air watch --simulated 127.0.0.1:1884/000000000000c0de --seconds 10

Exit codes: 0 some frame was heard, 1 none, or there is no such radio, 2 errors.")]
pub(crate) struct Watch {
    #[command(flatten)]
    radio: RadioArguments,
    /// End after so many seconds; without it, with Ctrl-C
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// Show the addresses that frames come from
    #[arg(long)]
    addresses: bool,
    /// Show every sighting, not only new frames
    #[arg(long)]
    all: bool,
    /// A mesh file, to show the names of controllers
    #[arg(long, value_name = "FILE")]
    mesh: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Watch, console: &mut Console) -> Result<Answer, Failure> {
    let setting = arguments.radio.setting()?;
    let names = Names::read(arguments.mesh.as_deref())?;
    mesh_runtime::daemon::logging::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Output)?;
    runtime.block_on(async {
        if let AirSetting::Bluez(settings) = &setting
            // A gateway waits for its radio. Whoever watches wants to know.
            && let Err(error) = bluez::inspect(&settings.adapter).await
        {
            let name = &settings.adapter;
            console.complain(format_args!("{error}; `consent-mesh doctor --bluez {name}` says what to do"));
            return Ok(Answer::No);
        }
        let mut air = listen(&setting).await?;
        let mut view = View { arguments, names, devices: BTreeMap::new(), shown: BTreeSet::new(), is_frame: false };
        let end = end(arguments.seconds);
        tokio::pin!(end);
        while !console.is_closed() {
            tokio::select! {
                () = &mut end => break,
                heard = air.sightings.next() => match heard {
                    Some(sighting) => view.show(&sighting, console)?,
                    None => break,
                },
            }
        }
        writeln!(console, "{}", summary(air.health.counts()))?;
        // The radio is told, and stops.
        drop(air);
        tokio::time::sleep(Duration::from_millis(100)).await;
        Ok(if view.is_frame { Answer::Yes } else { Answer::No })
    })
}

async fn listen(setting: &AirSetting) -> Result<Air, Failure> {
    match setting {
        AirSetting::Bluez(settings) => Ok(bluez::listen(settings.clone())),
        AirSetting::Simulated(simulated) => {
            let mut address = [0; 6];
            getrandom::fill(&mut address).map_err(|error| Failure::Air(error.to_string()))?;
            simulated.join(Address::new(address)).await.map_err(|error| Failure::Air(error.to_string()))
        }
    }
}

async fn end(seconds: Option<u64>) {
    match seconds {
        Some(seconds) => tokio::time::sleep(Duration::from_secs(seconds)).await,
        // Without signals, it ends when nobody reads the output.
        None => drop(tokio::signal::ctrl_c().await),
    }
}

struct View<'a> {
    arguments: &'a Watch,
    names: Names,
    /// Which number a device has.
    devices: BTreeMap<(Address, AddressKind), usize>,
    shown: BTreeSet<(Address, Vec<u8>)>,
    is_frame: bool,
}

impl View<'_> {
    fn show(&mut self, sighting: &Sighting, console: &mut Console) -> Result<(), Failure> {
        let bytes = sighting.frame.as_slice();
        let words = words::frame(bytes, Some(sighting.address), sighting.time, &self.names);
        self.is_frame |= !words.starts_with("no ");
        if self.shown.len() >= MAX_REMEMBERED {
            self.shown.clear();
        }
        if self.shown.insert((sighting.address, bytes.to_vec())) || self.arguments.all {
            let who = self.who(sighting);
            let signal = sighting.rssi.map(|rssi| format!(", {rssi} dBm")).unwrap_or_default();
            writeln!(console, "{} {who}{signal}: {words}", input::clock())?;
            console.flush()?;
        }
        Ok(())
    }

    fn who(&mut self, sighting: &Sighting) -> String {
        let next = self.devices.len() + 1;
        let device = (sighting.address, sighting.address_kind);
        let number = match self.devices.get(&device) {
            Some(number) => format!("device {number}"),
            None if next > MAX_REMEMBERED => "another device".to_owned(),
            None => {
                self.devices.insert(device, next);
                format!("device {next}")
            }
        };
        if !self.arguments.addresses {
            return number;
        }
        let digits: Vec<String> = sighting.address.reveal().iter().map(|byte| format!("{byte:02x}")).collect();
        let kind = match sighting.address_kind {
            AddressKind::Public => "public",
            AddressKind::Random => "random",
        };
        format!("{number} ({} {kind})", digits.join(":"))
    }
}

fn summary(counts: Counts) -> String {
    let Counts { heard, missed, malformed, stale, limited } = counts;
    format!("{heard} sightings, {missed} missed, {malformed} malformed, {stale} stale, {limited} beyond the limit")
}
