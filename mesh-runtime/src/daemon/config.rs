//! Configuration files: TOML, paths relative to the file, and sections that several daemons have.
//!
//! What is read is a *file* ([`load`]); each daemon turns it into its `Config`, which reads keys, policies and the mesh
//! file. Secrets are never in it, only the paths of the files that hold them.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use pilot_core::diagnostic::foreign_message;
use pilot_core::evidence::VerifyingKey;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::air::bluez::{self, AdapterName};
use crate::air::frame::{LEGACY_FRAME_BYTES, MAX_FRAME_BYTES};
use crate::air::simulated::{self, HubAddress, Participant, Position};
use crate::air::{Address, AddressKind, Air, Carrier};
use crate::link::mqtt::{self, Endpoint};

/// The largest configuration file; a larger one is something else, and refused.
pub const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// Why a configuration is refused. One sentence, without secrets.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("cannot read the configuration `{}`: {error}", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// More than [`MAX_CONFIG_BYTES`].
    #[error("the configuration `{}` is larger than {MAX_CONFIG_BYTES} bytes", .0.display())]
    TooLarge(PathBuf),
    /// Not TOML, or not of our form.
    #[error("`{}`, line {line}: {message}", path.display())]
    Form {
        /// Which file.
        path: PathBuf,
        /// Where.
        line: usize,
        /// What.
        message: String,
    },
    /// A setting that makes no sense.
    #[error("`{}`: `{setting}`: {problem}", path.display())]
    Setting {
        /// Which file.
        path: PathBuf,
        /// Which setting, as `section.name`.
        setting: &'static str,
        /// What is wrong.
        problem: String,
    },
}

/// Only where a daemon's data is: all that somebody needs who speaks to one that runs.
#[derive(Debug, Deserialize)]
struct DataOnly {
    data: PathBuf,
}

/// Where a configuration says that everything is kept. Nothing else in it needs to make sense.
pub fn data_directory(path: &Path) -> Result<PathBuf, ConfigError> {
    let loaded = load::<DataOnly>(path)?;
    loaded.directory("data", &loaded.file.data)
}

/// What is around a daemon: all that somebody needs who looks whether it could run here.
#[derive(Debug)]
pub struct Surroundings {
    /// The radio, if it has one.
    pub air: Option<AirSetting>,
    /// The broker, if it is not embedded.
    pub broker: Option<Endpoint>,
    /// Whether it advertises: a subject's gateway does, and is the one that has several `policies`.
    pub is_subject: bool,
}

#[derive(Debug, Deserialize)]
struct SurroundingsOnly {
    air: Option<AirSection>,
    broker: Option<mqtt::Settings>,
    policies: Option<toml::Value>,
}

/// The surroundings that a configuration names. Nothing else in it needs to make sense.
pub fn surroundings(path: &Path) -> Result<Surroundings, ConfigError> {
    let loaded = load::<SurroundingsOnly>(path)?;
    let SurroundingsOnly { air, broker, policies } = &loaded.file;
    let air = air.as_ref().map(AirSection::setting).transpose().map_err(|problem| loaded.refuse("air", problem))?;
    let broker = broker.as_ref().map(|broker| broker.resolved(|path| loaded.resolve(path)).load()).transpose();
    let broker = broker.map_err(|error| loaded.refuse("broker", error))?;
    Ok(Surroundings { air, broker, is_subject: policies.is_some() })
}

/// A configuration file that was read, and where it is.
#[derive(Debug)]
pub struct Loaded<T> {
    /// What it says.
    pub file: T,
    path: PathBuf,
}

/// Reads a configuration file.
pub fn load<T: DeserializeOwned>(path: &Path) -> Result<Loaded<T>, ConfigError> {
    let unreadable = |error| ConfigError::Unreadable { path: path.into(), error };
    let file = File::open(path).map_err(unreadable)?;
    let mut text = String::new();
    file.take(MAX_CONFIG_BYTES + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > MAX_CONFIG_BYTES {
        return Err(ConfigError::TooLarge(path.into()));
    }
    let file = toml::from_str(&text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        ConfigError::Form { path: path.into(), line, message: foreign_message(error.message()) }
    })?;
    Ok(Loaded { file, path: path.into() })
}

impl<T> Loaded<T> {
    /// A path in the file: relative ones start where the file is.
    pub fn resolve(&self, path: &Path) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(path)
    }

    /// A directory in the file; an empty one would be wherever the file is.
    pub fn directory(&self, setting: &'static str, path: &Path) -> Result<PathBuf, ConfigError> {
        if path.as_os_str().is_empty() {
            return Err(self.refuse(setting, "a directory must have a name"));
        }
        Ok(self.resolve(path))
    }

    /// That a setting makes no sense.
    pub fn refuse(&self, setting: &'static str, problem: impl std::fmt::Display) -> ConfigError {
        ConfigError::Setting { path: self.path.clone(), setting, problem: problem.to_string() }
    }
}

/// What the examples have in place of a key.
const PLACEHOLDER: &str = "this is the placeholder of the example; put the operator's public key there, the first line \
     that `consent-mesh keys show operator.key` prints";

/// `[mesh]`: whom to believe.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeshSection {
    /// The operator's mesh file; its signature stands beside it.
    pub file: PathBuf,
    /// The operator's public key, as `consent-mesh keys show` prints it.
    pub operator: String,
}

impl MeshSection {
    /// The operator's key.
    pub fn operator_key(&self) -> Result<VerifyingKey, String> {
        let text = self.operator.trim();
        let is_placeholder = text.strip_prefix("ed25519:").is_some_and(|key| key.bytes().all(|digit| digit == b'0'));
        if is_placeholder {
            return Err(PLACEHOLDER.to_owned());
        }
        text.parse().map_err(|error| format!("{error}"))
    }
}

/// `[air]`: the radio. Exactly one of `bluez` and `simulated`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AirSection {
    /// The name of a Bluetooth adapter, such as `hci0`.
    pub bluez: Option<String>,
    /// The company whose manufacturer data frames are, four hexadecimal digits.
    pub manufacturer: Option<String>,
    /// The service whose data frames are, likewise.
    pub service: Option<String>,
    /// The address of a simulated air, as its hub prints it.
    pub simulated: Option<String>,
    /// Where the device is in it, in metres to the east and to the north.
    pub position: Option<[i32; 2]>,
    /// How many bytes its radio can advertise; 24 simulates an old one.
    pub room: Option<usize>,
}

/// Which radio.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AirSetting {
    /// Bluetooth.
    Bluez(bluez::Settings),
    /// A simulated air.
    Simulated(SimulatedSetting),
}

/// A place in a simulated air.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimulatedSetting {
    /// Whose air.
    pub hub: HubAddress,
    /// Where.
    pub position: Position,
    /// How many bytes can be advertised.
    pub room: usize,
}

impl SimulatedSetting {
    /// Who takes part with this address.
    pub const fn participant(&self, address: Address) -> Participant {
        let mut participant = Participant::new(address, AddressKind::Public);
        participant.position = self.position;
        participant.room = self.room;
        participant
    }

    /// Switches the radio on.
    pub async fn join(&self, address: Address) -> Result<Air, super::Failure> {
        simulated::join(self.hub, self.participant(address)).await.map_err(super::Failure::configuration)
    }
}

impl AirSection {
    /// Which radio, if that is clear.
    pub fn setting(&self) -> Result<AirSetting, String> {
        match (&self.bluez, &self.simulated) {
            (Some(adapter), None) => self.bluez(adapter).map(AirSetting::Bluez),
            (None, Some(hub)) => self.simulated(hub).map(AirSetting::Simulated),
            _ => Err("either `bluez` names an adapter, or `simulated` an air".to_owned()),
        }
    }

    fn bluez(&self, adapter: &str) -> Result<bluez::Settings, String> {
        if self.position.is_some() || self.room.is_some() {
            return Err("`position` and `room` are for a simulated air".to_owned());
        }
        let adapter = AdapterName::new(adapter).ok_or("an adapter has a name like `hci0`")?;
        let carrier = Carrier::of(self.manufacturer.as_deref(), self.service.as_deref())?;
        Ok(bluez::Settings { adapter, carrier })
    }

    fn simulated(&self, hub: &str) -> Result<SimulatedSetting, String> {
        if self.manufacturer.is_some() || self.service.is_some() {
            return Err("`manufacturer` and `service` are for Bluetooth".to_owned());
        }
        let hub = hub.parse::<HubAddress>().map_err(|error| error.to_string())?;
        let [east, north] = self.position.unwrap_or_default();
        let room = self.room.unwrap_or(MAX_FRAME_BYTES);
        if !(LEGACY_FRAME_BYTES..=MAX_FRAME_BYTES).contains(&room) {
            return Err(format!("a radio has room for {LEGACY_FRAME_BYTES} to {MAX_FRAME_BYTES} bytes"));
        }
        Ok(SimulatedSetting { hub, position: Position { east, north }, room })
    }
}

/// Six bytes as people write them: `c0:ff:ee:01:02:03`. The error does not repeat the text.
pub fn parse_address(text: &str) -> Result<Address, &'static str> {
    let problem = "an address has six pairs of hexadecimal digits, like `c0:ff:ee:00:00:01`";
    let mut bytes = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut bytes {
        let part = parts.next().filter(|part| part.len() == 2 && part.bytes().all(|digit| digit.is_ascii_hexdigit()));
        *byte = part.and_then(|part| u8::from_str_radix(part, 16).ok()).ok_or(problem)?;
    }
    if parts.next().is_some() { Err(problem) } else { Ok(Address::new(bytes)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn air(text: &str) -> Result<AirSetting, String> {
        toml::from_str::<AirSection>(text).map_err(|error| error.to_string())?.setting()
    }

    /// Whoever has not edited an example is told what is missing.
    #[test]
    fn a_placeholder_is_called_so() {
        let section = |operator| MeshSection { file: "mesh.toml".into(), operator };
        let refused = section(format!("ed25519:{}", "0".repeat(64))).operator_key();
        assert_eq!(refused.err().as_deref(), Some(PLACEHOLDER));
        assert!(section("ed25519:12".to_owned()).operator_key().is_err_and(|error| error != PLACEHOLDER));
    }

    /// One radio, and only what it understands.
    #[test]
    fn an_air_is_one_or_the_other() {
        let Ok(AirSetting::Bluez(settings)) = air("bluez = 'hci1'") else { panic!("no adapter") };
        assert_eq!((settings.adapter.as_str(), settings.carrier), ("hci1", Carrier::Manufacturer(0xffff)));
        let Ok(AirSetting::Bluez(settings)) = air("bluez = 'hci0'\nservice = 'fd6f'") else { panic!("no adapter") };
        assert_eq!(settings.carrier, Carrier::Service(0xfd6f));
        let simulated = "simulated = '127.0.0.1:1/0123456789abcdef'";
        assert!(matches!(air(simulated), Ok(AirSetting::Simulated(_))));
        for wrong in [
            "",
            &format!("bluez = 'hci0'\n{simulated}"),
            "bluez = 'wlan0'",
            "bluez = 'hci0'\nroom = 24",
            "bluez = 'hci0'\nposition = [1, 2]",
            "bluez = 'hci0'\nservice = 'fd6f'\nmanufacturer = 'ffff'",
            &format!("{simulated}\nservice = 'fd6f'"),
            &format!("{simulated}\nroom = 23"),
        ] {
            assert!(air(wrong).is_err(), "{wrong}");
        }
    }
}
