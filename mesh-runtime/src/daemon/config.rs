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

use crate::air::frame::{LEGACY_FRAME_BYTES, MAX_FRAME_BYTES};
use crate::air::simulated::{self, HubAddress, Participant, Position};
use crate::air::{Address, AddressKind, Air};

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
        self.operator.trim().parse().map_err(|error| format!("{error}"))
    }
}

/// `[air]`: the radio.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AirSection {
    /// The address of a simulated air, as its hub prints it.
    pub simulated: String,
    /// Where the device is in it, in metres to the east and to the north.
    #[serde(default)]
    pub position: [i32; 2],
    /// How many bytes its radio can advertise; 24 simulates an old one.
    pub room: Option<usize>,
}

impl AirSection {
    /// The hub, and who takes part with this address.
    pub fn participant(&self, address: Address) -> Result<(HubAddress, Participant), String> {
        let hub = self.simulated.parse::<HubAddress>().map_err(|error| error.to_string())?;
        let mut participant = Participant::new(address, AddressKind::Public);
        let [east, north] = self.position;
        participant.position = Position { east, north };
        participant.room = self.room.unwrap_or(participant.room);
        if !(LEGACY_FRAME_BYTES..=MAX_FRAME_BYTES).contains(&participant.room) {
            return Err(format!("a radio has room for {LEGACY_FRAME_BYTES} to {MAX_FRAME_BYTES} bytes"));
        }
        Ok((hub, participant))
    }
}

/// Switches a radio on.
pub async fn join_air(hub: HubAddress, participant: Participant) -> Result<Air, super::Failure> {
    simulated::join(hub, participant).await.map_err(super::Failure::configuration)
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
