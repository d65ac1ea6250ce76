//! What the gateway is told. A [`Config`] exists only if everything in it can be used: the mesh file is one that the
//! operator signed, policies and attributes are in its words, the address is an address. Nothing is written while it is
//! read, so that a configuration can be checked on another machine.
//!
//! `examples/daemons/ds-gateway.toml` explains every setting.

pub mod attributes;
mod policies;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use mesh_runtime::air::Address;
use mesh_runtime::air::frame::Kind;
use mesh_runtime::daemon::Failure;
use mesh_runtime::daemon::config::{AirSection, AirSetting, ConfigError, Loaded, MeshSection, load, parse_address};
use mesh_runtime::daemon::membership::Membership;
use mesh_runtime::driver::clock::{Clock as _, SystemClock};
use mesh_runtime::link::mqtt::{self, Endpoint};
use pilot_core::evidence::DeviceName;
use pilot_core::value::Value;
use pilot_core::vocabulary::{Attribute, DataType, Vocabulary};
use serde::Deserialize;

pub use self::policies::{MAX_POLICY_FILES, OwnPolicies, PolicyFileError};

/// The longest between two refreshes, in seconds: a day. A gateway that waits longer has forgotten its owner.
pub const MAX_REFRESH_SECONDS: u64 = 86_400;

/// The longest that an answer can be waited for, in seconds. An auditor remembers questions and answers for an hour.
pub const MAX_ANSWER_SECONDS: u64 = 1_800;

/// The longest turn of one frame, in seconds: longer, and frames of others would be stale before theirs.
pub const MAX_ROTATION_SECONDS: u64 = 10;

/// The file, as it is written. It has personal values as text, so it has no `Debug`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    data: PathBuf,
    trace: Option<PathBuf>,
    audit_key: Option<PathBuf>,
    policies: Vec<PathBuf>,
    repository: Option<String>,
    #[serde(default = "Timing::default_refresh")]
    refresh_seconds: u64,
    #[serde(default = "Timing::default_answer")]
    answer_seconds: u64,
    rotation_seconds: Option<u64>,
    #[serde(default)]
    frame: FrameSetting,
    mesh: MeshSection,
    broker: mqtt::Settings,
    air: AirSection,
    #[serde(default)]
    item: ItemSection,
    #[serde(default)]
    attributes: BTreeMap<String, toml::Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ItemSection {
    #[serde(default = "ItemSection::default_datatype")]
    datatype: String,
    address: Option<String>,
}

impl Default for ItemSection {
    fn default() -> Self {
        Self { datatype: Self::default_datatype(), address: None }
    }
}

impl ItemSection {
    fn default_datatype() -> String {
        "MACAddress".to_owned()
    }
}

/// Which frames to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FrameSetting {
    /// The one that proves most, of those that fit.
    #[default]
    Best,
    /// Only legacy frames, which every radio can send.
    Legacy,
    /// Only extended frames; a policy that does not fit is not advertised for.
    Extended,
    /// Only signed frames; likewise.
    Signed,
}

impl FrameSetting {
    /// The kinds to try, in order.
    pub const fn kinds(self) -> &'static [Kind] {
        match self {
            Self::Best => &[Kind::Signed, Kind::Extended, Kind::Legacy],
            Self::Legacy => &[Kind::Legacy],
            Self::Extended => &[Kind::Extended],
            Self::Signed => &[Kind::Signed],
        }
    }
}

/// How long things take, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How long the gateway broadcasts before it asks for policies again: τ at s₃.
    pub refresh: u64,
    /// How long it waits for an answer before it goes on with what it knows: τ at s₂.
    pub answer: u64,
    /// How long one frame is on the air before the next one takes its turn.
    pub rotation: u64,
}

impl Timing {
    const fn default_refresh() -> u64 {
        60
    }

    const fn default_answer() -> u64 {
        120
    }

    /// BlueZ may send a frame every 1.28 seconds only, and takes a moment to put another one on the air.
    const fn default_rotation(air: &AirSetting) -> u64 {
        match air {
            AirSetting::Bluez(_) => 2,
            AirSetting::Simulated(_) => 1,
        }
    }
}

/// Everything that the gateway needs to run.
#[derive(Debug)]
pub struct Config {
    /// What her device is called in her own trace. Nobody else gets to know the name.
    pub name: DeviceName,
    /// Where everything is kept.
    pub data: PathBuf,
    /// Where her trace is written.
    pub trace: PathBuf,
    /// Where the key is that names her item in it.
    pub audit_key: PathBuf,
    /// Her policies.
    pub own: OwnPolicies,
    /// Who is in the mesh.
    pub membership: Membership,
    /// The words of policies, from the mesh file.
    pub vocabulary: Vocabulary,
    /// The repository's name.
    pub repository: DeviceName,
    /// The broker.
    pub endpoint: Endpoint,
    /// The radio.
    pub air: AirSetting,
    /// What sort of data the item is.
    pub datatype: DataType,
    /// The item; `None` if it is whatever address the adapter has.
    pub address: Option<Address>,
    /// What conditions can ask about her. `now` is not among them: that is the clock's.
    pub attributes: Vec<(Attribute, Value)>,
    /// How long things take.
    pub timing: Timing,
    /// Which frames to send.
    pub frame: FrameSetting,
}

impl Config {
    /// Reads a configuration and every file it names.
    pub fn load(path: &Path) -> Result<Self, Failure> {
        let loaded: Loaded<File> = load(path).map_err(Failure::configuration)?;
        Self::of(&loaded).map_err(Failure::configuration)
    }

    fn of(loaded: &Loaded<File>) -> Result<Self, ConfigError> {
        let file = &loaded.file;
        let data = loaded.directory("data", &file.data)?;
        let beside =
            |path: &Option<PathBuf>, usual| path.as_ref().map_or_else(|| data.join(usual), |path| loaded.resolve(path));
        let operator = file.mesh.operator_key().map_err(|problem| loaded.refuse("mesh.operator", problem))?;
        let mesh_path = loaded.resolve(&file.mesh.file);
        let membership = Membership::peek(&mesh_path, operator, &data.join("trust"), SystemClock.now())
            .map_err(|error| loaded.refuse("mesh.file", error))?;
        let mesh = membership.mesh();
        let name = DeviceName::new(&file.name).map_err(|error| loaded.refuse("name", error))?;
        if mesh.device(name.as_str()).is_some() {
            let problem = format!("`{name}` is a device of the mesh; choose another name for yours");
            return Err(loaded.refuse("name", problem));
        }
        let repository = membership.repository(file.repository.as_deref());
        let repository = repository.map_err(|error| loaded.refuse("repository", error))?.name.clone();
        let vocabulary = mesh.vocabulary().clone();
        let paths = file.policies.iter().map(|path| loaded.resolve(path)).collect();
        let own = OwnPolicies::read(paths, &vocabulary).map_err(|error| loaded.refuse("policies", error))?;
        let datatype = vocabulary.datatypes.id(&file.item.datatype).ok_or_else(|| {
            let hint = vocabulary.datatypes.hint(&file.item.datatype);
            loaded.refuse("item.datatype", format!("the mesh's vocabulary has no such datatype{hint}"))
        })?;
        let air = file.air.setting().map_err(|problem| loaded.refuse("air", problem))?;
        let address = file.item.address.as_deref().map(parse_address).transpose();
        let address = address.map_err(|problem| loaded.refuse("item.address", problem))?;
        if address.is_none() && matches!(air, AirSetting::Simulated(_)) {
            return Err(loaded.refuse("item.address", "in a simulated air, the address must be said"));
        }
        let attributes = attributes::read(&file.attributes, &vocabulary);
        let attributes = attributes.map_err(|problem| loaded.refuse("attributes", problem))?;
        let endpoint =
            file.broker.resolved(|path| loaded.resolve(path)).load().map_err(|error| loaded.refuse("broker", error))?;
        let timing = timing(loaded, &air)?;
        let frame = file.frame;
        Ok(Self {
            name,
            trace: beside(&file.trace, "trace"),
            audit_key: beside(&file.audit_key, "audit.key"),
            data,
            own,
            membership,
            vocabulary,
            repository,
            endpoint,
            air,
            datatype,
            address,
            attributes,
            timing,
            frame,
        })
    }
}

fn timing(loaded: &Loaded<File>, air: &AirSetting) -> Result<Timing, ConfigError> {
    let file = &loaded.file;
    let rotation = file.rotation_seconds.unwrap_or(Timing::default_rotation(air));
    let within = |setting, seconds, most| match seconds {
        0 => Err(loaded.refuse(setting, "must be at least 1")),
        long if long > most => Err(loaded.refuse(setting, format!("must be at most {most}"))),
        good => Ok(good),
    };
    Ok(Timing {
        refresh: within("refresh_seconds", file.refresh_seconds, MAX_REFRESH_SECONDS)?,
        answer: within("answer_seconds", file.answer_seconds, MAX_ANSWER_SECONDS)?,
        rotation: within("rotation_seconds", rotation, MAX_ROTATION_SECONDS)?,
    })
}
