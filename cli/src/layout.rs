//! The files of a mesh on one machine: keys, the signed mesh file, and a configuration for each daemon.
//!
//! ```text
//! ROOT/
//!   mesh.toml, mesh.toml.sig      who takes part
//!   operator.pub                  who says so
//!   keys/DEVICE.key               secret keys, the operator's among them
//!   config/DEVICE.toml            what `consent-mesh run … --config` reads
//!   data/DEVICE/                  what the daemon keeps
//!   traces/DEVICE/                what it did
//!   audit/DEVICE.key              names the items in its trace
//!   audit/DEVICE.opening          what a subject gives an auditor
//!   audit/DEVICE.consents         signed consents that a controller shows
//!   logs/DEVICE.log
//! ```

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use ds_gateway::config::Config;
use ds_gateway::opening::{Opening, OpeningError};
use mesh_runtime::daemon::state_file;
use mesh_runtime::driver::clock::{Clock as _, SystemClock};
use mesh_runtime::keys::{PublicKeys, SecretKeys};
use mesh_runtime::mesh_file::signature_path;
use pilot_core::evidence::mesh::{FrameTag, MeshDraft, Role, sign_mesh};
use pilot_core::evidence::{DeviceName, MeshDevice};
use pilot_core::value::Time;
use pilot_core::vocabulary::Declarations;

/// How long the mesh file and its devices are valid, in seconds: a day is enough for anything that is tried out.
const VALID_SECONDS: u64 = 24 * 3600;
/// How far its beginning lies in the past, in seconds.
const SINCE_SECONDS: u64 = 3600;

/// The file with the operator's public key.
const OPERATOR: &str = "operator.pub";

/// Why there is no such mesh.
#[derive(Debug, thiserror::Error)]
#[error("cannot make the files of the mesh: {0}")]
pub struct LayoutError(String);

fn failed(error: impl std::fmt::Display) -> LayoutError {
    LayoutError(error.to_string())
}

/// A mesh being laid out.
#[derive(Debug)]
pub struct Layout {
    root: PathBuf,
    operator: SecretKeys,
    draft: MeshDraft,
    /// The broker's URL.
    pub broker: String,
    /// The address of the simulated air.
    pub air: String,
}

/// A controller to be.
#[derive(Debug, Clone)]
pub struct Controller<'l> {
    /// The name of its device.
    pub name: &'l str,
    /// Its entity.
    pub entity: &'l str,
    /// Its policy, in text form.
    pub policy: &'l str,
    /// Further lines of its configuration; tables come last.
    pub settings: &'l str,
}

/// A subject to be.
#[derive(Debug, Clone)]
pub struct Subject<'l> {
    /// The name of her device, which nobody else knows.
    pub name: &'l str,
    /// Her item.
    pub address: &'l str,
    /// Her policies, in text form.
    pub policies: &'l str,
    /// Further lines of her configuration; tables come last.
    pub settings: &'l str,
}

impl Layout {
    /// A mesh without devices, in a directory that exists.
    pub fn new(root: &Path, vocabulary: &str, broker: &str, air: &str) -> Result<Self, LayoutError> {
        for part in ["keys", "config", "data", "traces", "audit", "logs"] {
            state_file::make_directory(&root.join(part)).map_err(failed)?;
        }
        let operator = SecretKeys::create(&root.join("keys/operator.key")).map_err(failed)?;
        fs::write(root.join(OPERATOR), format!("{}\n", operator.public().signing)).map_err(failed)?;
        let now = SystemClock.now().unix();
        let draft = MeshDraft {
            serial: 0,
            issued: Time::from_unix(now.saturating_sub(SINCE_SECONDS)),
            expires: Time::from_unix(now.saturating_add(VALID_SECONDS)),
            next_operator_key: None,
            vocabulary: Declarations::from_toml(vocabulary).map_err(failed)?,
            devices: Vec::new(),
        };
        Ok(Self { root: root.into(), operator, draft, broker: broker.into(), air: air.into() })
    }

    /// Adds a repository.
    pub fn repository(&mut self, name: &str, entity: &str) -> Result<(), LayoutError> {
        self.device(name, entity, Role::Repository)?;
        self.configure(name, &format!("device = {name:?}\n{}{}", self.keys_line(name), self.mesh_and_broker()))
    }

    /// Adds a controller.
    pub fn controller(&mut self, controller: &Controller<'_>) -> Result<(), LayoutError> {
        let Controller { name, entity, policy, settings } = controller;
        self.device(name, entity, Role::Controller)?;
        let file = self.root.join("config").join(format!("{name}.pilot"));
        fs::write(file, policy).map_err(failed)?;
        let text = format!(
            "device = {name:?}\npolicy = \"{name}.pilot\"\naudit_key = \"../audit/{name}.key\"\n{}{settings}\n{}{}",
            self.keys_line(name),
            self.mesh_and_broker(),
            self.air_section(),
        );
        self.configure(name, &text)
    }

    /// Adds a subject. She is in no mesh file.
    pub fn subject(&self, subject: &Subject<'_>) -> Result<(), LayoutError> {
        let Subject { name, address, policies, settings } = subject;
        let file = self.root.join("config").join(format!("{name}.pilot"));
        fs::write(file, policies).map_err(failed)?;
        let text = format!(
            "name = {name:?}\npolicies = [\"{name}.pilot\"]\naudit_key = \"../audit/{name}.key\"\n{settings}\n\
             [item]\naddress = {address:?}\n\n{}{}",
            self.mesh_and_broker(),
            self.air_section(),
        );
        self.configure(name, &text)
    }

    /// Writes what a subject gives an auditor, as `ds-gateway opening` prints it: `audit/NAME.opening`. Nothing, if her gateway
    /// has never run.
    pub fn open(&self, name: &str) -> Result<(), LayoutError> {
        let config = Config::load(&self.config(name)).map_err(failed)?;
        let opening = match Opening::of(&config) {
            Err(OpeningError::NotYet(_)) => return Ok(()),
            opening => opening.map_err(failed)?,
        };
        let json = opening.to_json().map_err(failed)?;
        // For nobody else's eyes: that is how state is stored.
        state_file::store_bytes(&self.opening(name), json.as_bytes()).map_err(failed)
    }

    /// Where what a subject gives an auditor lies, if she has been opened.
    pub fn opening(&self, name: &str) -> PathBuf {
        self.audit_key(name).with_extension("opening")
    }

    /// Where the signed consents lie that a controller shows an auditor.
    pub fn consents(&self, name: &str) -> PathBuf {
        self.audit_key(name).with_extension("consents")
    }

    /// Signs the mesh file as it is now, with the next serial.
    pub fn sign(&mut self) -> Result<(), LayoutError> {
        self.draft.serial += 1;
        let text = self.draft.to_toml().map_err(failed)?;
        let signature = sign_mesh(&text, &self.operator);
        let path = self.root.join("mesh.toml");
        state_file::store_bytes(&path, text.as_bytes()).map_err(failed)?;
        state_file::store_bytes(&signature_path(&path), format!("{signature}\n").as_bytes()).map_err(failed)
    }

    /// Revokes a device, from now on. Sign again to make it known.
    pub fn revoke(&mut self, name: &str) {
        let now = SystemClock.now();
        for device in self.draft.devices.iter_mut().filter(|device| device.name.as_str() == name) {
            device.revoked = Some(now);
        }
    }

    /// The directory of everything.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A daemon's configuration.
    pub fn config(&self, name: &str) -> PathBuf {
        self.root.join("config").join(format!("{name}.toml"))
    }

    /// What a daemon keeps.
    pub fn data(&self, name: &str) -> PathBuf {
        self.root.join("data").join(name)
    }

    /// What a daemon says.
    pub fn log(&self, name: &str) -> PathBuf {
        self.root.join("logs").join(format!("{name}.log"))
    }

    /// The file with a device's audit key.
    pub fn audit_key(&self, name: &str) -> PathBuf {
        self.root.join("audit").join(format!("{name}.key"))
    }

    /// What a daemon did.
    pub fn trace(&self, name: &str) -> PathBuf {
        self.root.join("traces").join(name)
    }

    /// The file with the operator's public key.
    pub fn operator_file(&self) -> PathBuf {
        self.root.join(OPERATOR)
    }

    /// A device's secret keys.
    pub fn keys(&self, name: &str) -> PathBuf {
        self.root.join("keys").join(format!("{name}.key"))
    }

    /// The operator's public keys.
    pub const fn operator(&self) -> PublicKeys {
        self.operator.public()
    }

    fn device(&mut self, name: &str, entity: &str, role: Role) -> Result<(), LayoutError> {
        let keys = SecretKeys::create(&self.keys(name)).map_err(failed)?.public();
        let tag = u32::try_from(self.draft.devices.len() + 1).map_err(failed)?;
        self.draft.devices.push(MeshDevice {
            name: DeviceName::new(name).map_err(failed)?,
            role,
            entity: entity.into(),
            tag: FrameTag(tag.to_be_bytes()),
            signing_key: keys.signing,
            sealing_key: keys.sealing,
            valid_from: self.draft.issued,
            valid_until: self.draft.expires,
            revoked: None,
        });
        Ok(())
    }

    fn configure(&self, name: &str, text: &str) -> Result<(), LayoutError> {
        let mut whole = format!("data = \"../data/{name}\"\ntrace = \"../traces/{name}\"\n");
        whole.push_str(text);
        fs::write(self.config(name), whole).map_err(failed)
    }

    fn keys_line(&self, name: &str) -> String {
        format!("keys = \"../keys/{name}.key\"\n")
    }

    fn mesh_and_broker(&self) -> String {
        let mut text = String::new();
        // Writing to a `String` cannot fail.
        let _ = write!(
            text,
            "[mesh]\nfile = \"../mesh.toml\"\noperator = \"{}\"\n\n[broker]\nurl = {:?}\n\n",
            self.operator.public().signing,
            self.broker,
        );
        text
    }

    fn air_section(&self) -> String {
        format!("[air]\nsimulated = {:?}\n", self.air)
    }
}
