//! `consent-mesh air`: what is on the air, in words, for whoever sets up a gateway.

mod decode;
mod watch;
mod words;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use mesh_runtime::air::frame::ControllerTag;
use mesh_runtime::daemon::config::{AirSection, AirSetting, surroundings};
use pilot_core::evidence::mesh::{MAX_MESH_BYTES, MeshDraft};

use crate::console::{Answer, Console, Failure};
use crate::input::{self, Origin};
use crate::mesh::MeshFailure;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the frames that a radio hears
    Watch(watch::Watch),
    /// Say what a recorded advertisement means
    Decode(decode::Decode),
}

pub(crate) fn run(command: Command, console: &mut Console) -> Result<Answer, Failure> {
    match command {
        Command::Watch(arguments) => watch::run(&arguments, console),
        Command::Decode(arguments) => decode::run(&arguments, console),
    }
}

/// Under which identifier frames are.
#[derive(Debug, Args)]
struct CarrierArguments {
    /// Frames are manufacturer data of this company, four hexadecimal digits (the default: ffff)
    #[arg(long, value_name = "HEX", conflicts_with = "service")]
    manufacturer: Option<String>,
    /// Frames are service data of this 16-bit UUID, four hexadecimal digits
    #[arg(long, value_name = "HEX")]
    service: Option<String>,
}

/// Which radio.
#[derive(Debug, Args)]
pub(crate) struct RadioArguments {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    carrier: CarrierArguments,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Which {
    /// A Bluetooth adapter of this machine, such as hci0
    #[arg(long, value_name = "ADAPTER")]
    bluez: Option<String>,
    /// A simulated air, as `repository-svc run --simulated-air` prints it
    #[arg(long, value_name = "AIR")]
    simulated: Option<String>,
    /// The radio of a gateway with this configuration
    #[arg(long, value_name = "FILE", conflicts_with_all = ["manufacturer", "service"])]
    config: Option<PathBuf>,
}

impl RadioArguments {
    fn setting(&self) -> Result<AirSetting, Failure> {
        let Which { bluez, simulated, config } = &self.which;
        if let Some(path) = config {
            let around = surroundings(path).map_err(|error| Failure::Configuration(error.to_string()))?;
            return around.air.ok_or_else(|| Failure::Air("the configuration has no section `[air]`".to_owned()));
        }
        let CarrierArguments { manufacturer, service } = &self.carrier;
        let (bluez, simulated) = (bluez.clone(), simulated.clone());
        let (manufacturer, service) = (manufacturer.clone(), service.clone());
        let section = AirSection { bluez, simulated, manufacturer, service, ..AirSection::default() };
        section.setting().map_err(Failure::Air)
    }
}

/// Names of controllers, to be shown beside their tags. Not verified: it is only for show.
#[derive(Debug, Default)]
struct Names(Vec<(ControllerTag, String)>);

impl Names {
    fn read(mesh: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = mesh else { return Ok(Self::default()) };
        let draft = MeshDraft::from_toml(&input::text(path, MAX_MESH_BYTES)?)
            .map_err(|error| Failure::Mesh(Origin::from(path), Box::new(MeshFailure::from(error))))?;
        let name =
            |device: pilot_core::evidence::mesh::MeshDevice| (ControllerTag(device.tag.0), device.name.to_string());
        Ok(Self(draft.devices.into_iter().map(name).collect()))
    }

    fn of(&self, tag: ControllerTag) -> Option<&str> {
        self.0.iter().find(|(found, _)| *found == tag).map(|(_, name)| name.as_str())
    }
}
