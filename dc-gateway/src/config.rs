//! The gateway's configuration. `examples/daemons/dc-gateway.toml` explains each setting.

use std::fs::File as StdFile;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mesh_runtime::air::Address;
use mesh_runtime::daemon::Failure;
use mesh_runtime::daemon::config::{self, AirSection, AirSetting, MeshSection, parse_address};
use mesh_runtime::daemon::membership::Membership;
use mesh_runtime::driver::clock::{Clock as _, SystemClock};
use mesh_runtime::keys::SecretKeys;
use mesh_runtime::link::mqtt::{self, Endpoint};
use pilot_core::evidence::DeviceName;
use pilot_core::evidence::mesh::{FrameTag, Role};
use pilot_core::policy::{Choice, Policy};
use pilot_core::syntax::{MAX_FILE_BYTES, parse_file};
use pilot_core::vocabulary::{DataType, Entity, Vocabulary};
use serde::Deserialize;

/// The most days that a statement can be valid: a key that is lost must not speak for years.
pub const MAX_STATEMENT_DAYS: u64 = 3_650;
/// The longest time between compactions of the vault, in seconds: how long erased bytes may stay in its file.
pub const MAX_COMPACT_SECONDS: u64 = 86_400;

const SECONDS_PER_DAY: u64 = 86_400;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    device: String,
    keys: PathBuf,
    data: PathBuf,
    trace: Option<PathBuf>,
    audit_key: Option<PathBuf>,
    policy: PathBuf,
    policy_name: Option<String>,
    repository: Option<String>,
    #[serde(default = "default_datatype")]
    datatype: String,
    #[serde(default = "default_statement_days")]
    statement_days: u64,
    #[serde(default = "default_compact_seconds")]
    compact_seconds: u64,
    address: Option<String>,
    mesh: MeshSection,
    broker: mqtt::Settings,
    air: AirSection,
    applications: Option<ApplicationsSection>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ApplicationsSection {
    socket: PathBuf,
}

fn default_datatype() -> String {
    "MACAddress".into()
}

const fn default_statement_days() -> u64 {
    90
}

const fn default_compact_seconds() -> u64 {
    60
}

/// A configuration that can be run.
#[derive(Debug)]
pub struct Config {
    /// The device.
    pub name: DeviceName,
    /// Its entity.
    pub entity: Entity,
    /// What stands for it in frames.
    pub tag: FrameTag,
    /// Its keys.
    pub keys: Arc<SecretKeys>,
    /// Who is in the mesh.
    pub membership: Membership,
    /// The repository that gets the policy.
    pub repository: DeviceName,
    /// Where everything is kept.
    pub data: PathBuf,
    /// Where its trace is written.
    pub trace: PathBuf,
    /// Where the key is that names items in it.
    pub audit_key: PathBuf,
    /// Where the policy is, to be read again when asked.
    pub source: PolicySource,
    /// The policy.
    pub policy: Policy,
    /// What the radio hears.
    pub datatype: DataType,
    /// How long a statement is valid, in seconds.
    pub statement_seconds: u64,
    /// How often the vault is compacted, in seconds.
    pub compact_seconds: u64,
    /// Where messages go.
    pub broker: Endpoint,
    /// The radio.
    pub air: AirSetting,
    /// Its own address in a simulated air.
    pub address: Address,
    /// Where applications learn of observations.
    pub applications: Option<PathBuf>,
}

impl Config {
    /// Reads a configuration and everything that it names, and writes nothing.
    pub fn load(path: &Path) -> Result<Self, Failure> {
        let loaded = config::load::<File>(path).map_err(Failure::configuration)?;
        let file = &loaded.file;
        let refuse = |setting, problem: &dyn std::fmt::Display| Failure::configuration(loaded.refuse(setting, problem));
        let keys = SecretKeys::load(&loaded.resolve(&file.keys)).map_err(|error| refuse("keys", &error))?;
        let data = loaded.directory("data", &file.data).map_err(Failure::configuration)?;
        let beside =
            |path: &Option<PathBuf>, usual| path.as_ref().map_or_else(|| data.join(usual), |path| loaded.resolve(path));
        let operator = file.mesh.operator_key().map_err(|error| refuse("mesh.operator", &error))?;
        let mesh = loaded.resolve(&file.mesh.file);
        let membership = Membership::peek(&mesh, operator, &data.join("trust"), SystemClock.now());
        let membership = membership.map_err(|error| refuse("mesh.file", &error))?;
        let myself = membership.myself(&file.device, Role::Controller, keys.public());
        let myself = myself.map_err(|error| refuse("device", &error))?;
        let (name, tag) = (myself.name.clone(), myself.tag);
        let vocabulary = membership.mesh().vocabulary();
        let entity = membership.mesh().entity(myself);
        let entity = entity.ok_or_else(|| refuse("device", &"the vocabulary does not have its entity"))?;
        let repository = membership.repository(file.repository.as_deref());
        let repository = repository.map_err(|error| refuse("repository", &error))?.name.clone();
        let datatype = vocabulary.datatypes.id(&file.datatype).ok_or_else(|| {
            let hint = vocabulary.datatypes.hint(&file.datatype);
            refuse("datatype", &format!("the mesh's vocabulary has no such datatype{hint}"))
        })?;
        let source = PolicySource { path: loaded.resolve(&file.policy), name: file.policy_name.clone() };
        let policy = source.read(vocabulary, entity, datatype).map_err(|error| refuse("policy", &error))?;
        let statement_seconds = within(file.statement_days, MAX_STATEMENT_DAYS)
            .map_err(|error| refuse("statement_days", &error))?
            .saturating_mul(SECONDS_PER_DAY);
        let compact_seconds = within(file.compact_seconds, MAX_COMPACT_SECONDS);
        let compact_seconds = compact_seconds.map_err(|error| refuse("compact_seconds", &error))?;
        let broker =
            file.broker.resolved(|path| loaded.resolve(path)).load().map_err(|error| refuse("broker", &error))?;
        let air = file.air.setting().map_err(|error| refuse("air", &error))?;
        let address = match &file.address {
            Some(_) if matches!(air, AirSetting::Bluez(_)) => {
                return Err(refuse("address", &"a Bluetooth adapter has an address of its own"));
            }
            Some(text) => parse_address(text).map_err(|error| refuse("address", &error))?,
            None => own_address(tag),
        };
        let applications = file.applications.as_ref().map(|section| loaded.resolve(&section.socket));
        Ok(Self {
            name,
            entity,
            tag,
            keys: Arc::new(keys),
            membership,
            repository,
            trace: beside(&file.trace, "trace"),
            audit_key: beside(&file.audit_key, "audit.key"),
            data,
            source,
            policy,
            datatype,
            statement_seconds,
            compact_seconds,
            broker,
            air,
            address,
            applications,
        })
    }
}

fn within(number: u64, most: u64) -> Result<u64, String> {
    if (1..=most).contains(&number) { Ok(number) } else { Err(format!("must be from 1 to {most}")) }
}

/// A gateway only listens, so any address does: one of its own making that nobody else has.
const fn own_address(FrameTag([a, b, c, d]): FrameTag) -> Address {
    Address::new([0x02, 0, a, b, c, d])
}

/// The file with the policy, and which one of its policies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicySource {
    path: PathBuf,
    name: Option<String>,
}

/// Why there is no policy to work under.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The file cannot be read.
    #[error("cannot read `{}`: {error}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Not policies.
    #[error("`{}`: {message}", path.display())]
    Syntax {
        /// Which.
        path: PathBuf,
        /// Where and what.
        message: String,
    },
    /// Several policies, or none.
    #[error("`{}` has {count} policies; say with `policy_name` which one to publish", path.display())]
    HowMany {
        /// Which file.
        path: PathBuf,
        /// How many.
        count: usize,
    },
    /// No policy of this name, or several.
    #[error("`{}` has {count} policies of the name in `policy_name`", path.display())]
    Named {
        /// Which file.
        path: PathBuf,
        /// How many.
        count: usize,
    },
    /// ⊥.
    #[error("`nothing` is not published; `dc-gateway withdraw-policy` says that there is no policy any more")]
    Nothing,
    /// S19.
    #[error("the policy is for {named}, of which {entity}, the entity of this device, is no part")]
    ForeignEntity {
        /// The entity that the policy names.
        named: String,
        /// The device's.
        entity: String,
    },
    /// Nothing that the radio hears is covered.
    #[error("the policy is about {named}, and the radio hears {heard}, which is no part of that")]
    ForeignDatatype {
        /// The datatype that the policy names.
        named: String,
        /// What the radio hears.
        heard: String,
    },
}

impl PolicySource {
    /// Reads the policy, for a device of this entity whose radio hears this datatype.
    pub fn read(&self, vocabulary: &Vocabulary, entity: Entity, heard: DataType) -> Result<Policy, PolicyError> {
        let path = || self.path.clone();
        let mut text = String::new();
        StdFile::open(&self.path)
            .and_then(|file| file.take(MAX_FILE_BYTES as u64 + 1).read_to_string(&mut text))
            .map_err(|error| PolicyError::Unreadable { path: path(), error })?;
        let file = parse_file(&text, vocabulary)
            .map_err(|error| PolicyError::Syntax { path: path(), message: error.to_string() })?;
        let count = file.policies.len();
        let mut wanted =
            file.policies.into_iter().filter(|policy| self.name.as_ref().is_none_or(|n| policy.name == *n));
        let choice = match (wanted.next(), wanted.count(), &self.name) {
            (Some(policy), 0, _) => policy.choice,
            (_, _, None) => return Err(PolicyError::HowMany { path: path(), count }),
            (first, others, Some(_)) => {
                return Err(PolicyError::Named { path: path(), count: usize::from(first.is_some()) + others });
            }
        };
        let Choice::Policy(policy) = choice else { return Err(PolicyError::Nothing) };
        let named = policy.collection().entity;
        if !vocabulary.entities.le(entity, named) {
            let name = |entity| vocabulary.entities.name(entity).to_owned();
            return Err(PolicyError::ForeignEntity { named: name(named), entity: name(entity) });
        }
        if !vocabulary.datatypes.le(heard, policy.datatype()) {
            let name = |datatype| vocabulary.datatypes.name(datatype).to_owned();
            return Err(PolicyError::ForeignDatatype { named: name(policy.datatype()), heard: name(heard) });
        }
        Ok(policy)
    }
}
