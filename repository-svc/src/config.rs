//! The repository's configuration. `examples/daemons/repository.toml` explains each setting.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mesh_runtime::air::simulated::HubAddress;
use mesh_runtime::daemon::Failure;
use mesh_runtime::daemon::config::{self, MeshSection};
use mesh_runtime::daemon::membership::Membership;
use mesh_runtime::driver::clock::{Clock as _, SystemClock};
use mesh_runtime::keys::SecretKeys;
use mesh_runtime::link::mqtt::{self, Endpoint};
use pilot_core::evidence::DeviceName;
use pilot_core::evidence::mesh::Role;
use serde::Deserialize;

/// Where the embedded broker listens unless said otherwise: where MQTT clients look.
pub const EMBEDDED_BROKER: &str = "127.0.0.1:1883";

/// Where the simulated air is unless said otherwise.
pub const SIMULATED_AIR: &str = "127.0.0.1:1884/000000000000c0de";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    device: String,
    keys: PathBuf,
    data: PathBuf,
    trace: Option<PathBuf>,
    mesh: MeshSection,
    broker: Option<mqtt::Settings>,
}

/// What the command line says beside the file.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// Another data directory.
    pub data: Option<PathBuf>,
    /// Run a broker here, and use it.
    pub embedded_broker: Option<SocketAddr>,
    /// Run a simulated air here, for gateways on this machine.
    pub simulated_air: Option<HubAddress>,
}

/// Which broker.
#[derive(Debug)]
pub enum Broker {
    /// One of the network.
    At(Box<Endpoint>),
    /// One of our own, on loopback.
    Embedded(SocketAddr),
}

/// A configuration that can be run.
#[derive(Debug)]
pub struct Config {
    /// The device.
    pub name: DeviceName,
    /// Its keys.
    pub keys: Arc<SecretKeys>,
    /// Who is in the mesh.
    pub membership: Membership,
    /// Where everything is kept.
    pub data: PathBuf,
    /// Where its trace is written.
    pub trace: PathBuf,
    /// Where messages go.
    pub broker: Broker,
    /// Where a simulated air is to be.
    pub simulated_air: Option<HubAddress>,
}

impl Config {
    /// Reads a configuration and everything that it names.
    pub fn load(path: &Path, overrides: Overrides) -> Result<Self, Failure> {
        let loaded = config::load::<File>(path).map_err(Failure::configuration)?;
        let file = &loaded.file;
        let refuse = |setting, problem: &dyn std::fmt::Display| Failure::configuration(loaded.refuse(setting, problem));
        let keys = SecretKeys::load(&loaded.resolve(&file.keys)).map_err(|error| refuse("keys", &error))?;
        let configured = loaded.directory("data", &file.data).map_err(Failure::configuration)?;
        let data = overrides.data.unwrap_or(configured);
        let operator = file.mesh.operator_key().map_err(|error| refuse("mesh.operator", &error))?;
        let mesh = loaded.resolve(&file.mesh.file);
        let membership = Membership::peek(&mesh, operator, &data.join("trust"), SystemClock.now());
        let membership = membership.map_err(|error| refuse("mesh.file", &error))?;
        let myself = membership.myself(&file.device, Role::Repository, keys.public());
        let name = myself.map_err(|error| refuse("device", &error))?.name.clone();
        let broker = match (overrides.embedded_broker, &file.broker) {
            (Some(address), _) => Broker::Embedded(address),
            (None, Some(section)) => {
                let endpoint =
                    section.resolved(|path| loaded.resolve(path)).load().map_err(|error| refuse("broker", &error))?;
                Broker::At(Box::new(endpoint))
            }
            (None, None) => {
                return Err(refuse("broker", &"say which broker to use, or start with `--embedded-broker`"));
            }
        };
        let trace = file.trace.as_ref().map_or_else(|| data.join("trace"), |trace| loaded.resolve(trace));
        Ok(Self { name, keys: Arc::new(keys), membership, data, trace, broker, simulated_air: overrides.simulated_air })
    }
}
