//! Who is in the mesh, as the operator's file says now.
//!
//! The file is looked at again every [`LOOK_SECONDS`] and on SIGHUP, so that a revocation takes effect without a restart.
//! A new file that cannot be believed changes nothing but a line in the log; a file that expires ends everything: then
//! nobody is believed until there is a new one. The words of policies are those of the start: a new vocabulary needs a
//! restart, and the log says so.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use pilot_core::evidence::mesh::{FrameTag, MeshDevice, MeshError, Role};
use pilot_core::evidence::{DeviceName, MeshFile, VerifyingKey};
use pilot_core::value::Time;
use pilot_core::vocabulary::{Directory, Vocabulary};

use crate::driver::Driver;
use crate::journal::{Journal, Names};
use crate::mesh_file::{MeshReadError, SignedMesh, Trust, TrustFileError};

/// How often the file is looked at, in seconds.
pub const LOOK_SECONDS: u64 = 10;

/// The mesh file, opened, and when it was looked at.
#[derive(Debug)]
pub struct Membership {
    path: PathBuf,
    trust_path: PathBuf,
    trust: Trust,
    mesh: MeshFile,
    looked: Time,
    modified: Option<SystemTime>,
}

/// Why it is not known who is in the mesh.
#[derive(Debug, thiserror::Error)]
pub enum MembershipError {
    /// The file or its signature cannot be read.
    #[error(transparent)]
    Read(#[from] MeshReadError),
    /// It is not believed.
    #[error("`{}`: {error}", path.display())]
    Mesh {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: Box<MeshError>,
    },
    /// What was believed before cannot be read or written.
    #[error(transparent)]
    Trust(#[from] TrustFileError),
    /// The mesh file does not list a device.
    #[error("the mesh file does not list a {role} `{name}`{hint}")]
    NotListed {
        /// What it should be.
        role: &'static str,
        /// Its name.
        name: String,
        /// The nearest name that is listed.
        hint: pilot_core::diagnostic::Hint,
    },
    /// The device is there for something else.
    #[error("the mesh file lists `{name}` as a {is}, not as a {wanted}")]
    Role {
        /// Its name.
        name: DeviceName,
        /// What it is.
        is: &'static str,
        /// What it should be.
        wanted: &'static str,
    },
    /// A repository must be named if there are several, or none.
    #[error("the mesh file lists {0} repositories; say which one to use")]
    Repositories(usize),
    /// The keys of the configuration are not those of the mesh file.
    #[error("the mesh file lists other keys for `{0}` than those in its key file")]
    Keys(DeviceName),
}

impl Membership {
    /// Opens a mesh file of an operator; what was learnt from earlier ones is in `trust_path`.
    pub fn open(path: &Path, operator: VerifyingKey, trust_path: &Path, now: Time) -> Result<Self, MembershipError> {
        let membership = Self::peek(path, operator, trust_path, now)?;
        membership.remember()?;
        Ok(membership)
    }

    /// The same, but nothing is written: to look whether a configuration makes sense. [`Self::remember`] before anything
    /// relies on it.
    pub fn peek(path: &Path, operator: VerifyingKey, trust_path: &Path, now: Time) -> Result<Self, MembershipError> {
        let mut trust = Trust::load(trust_path, operator)?;
        let modified = modified(path);
        let mesh = learn(path, &mut trust, now)?;
        Ok(Self { path: path.into(), trust_path: trust_path.into(), trust, mesh, looked: now, modified })
    }

    /// Stores what was learnt from the file, so that no older one comes back after a restart.
    pub fn remember(&self) -> Result<(), MembershipError> {
        Ok(self.trust.store(&self.trust_path)?)
    }

    /// Who is in it.
    pub const fn mesh(&self) -> &MeshFile {
        &self.mesh
    }

    /// Whether the file has not expired.
    pub fn is_in_force(&self, now: Time) -> bool {
        now < self.mesh.contents().expires
    }

    /// When to look again.
    pub fn next_look(&self) -> Time {
        Time::from_unix(self.looked.unix().saturating_add(LOOK_SECONDS))
    }

    /// Looks at the file again if it is time, or at once; whether it has changed.
    pub fn look(&mut self, now: Time, at_once: bool) -> bool {
        if !at_once && now < self.next_look() {
            return false;
        }
        self.looked = now;
        let modified = modified(&self.path);
        if modified == self.modified && !at_once {
            return false;
        }
        // A file and its signature are replaced one after the other: while they do not fit, look again.
        let mut trust = self.trust.clone();
        match open(&self.path, &mut trust, &self.trust_path, now) {
            Ok(mesh) => {
                let is_new = mesh.contents() != self.mesh.contents();
                if mesh.contents().vocabulary != self.mesh.contents().vocabulary {
                    tracing::warn!("the mesh has a new vocabulary, which is in force after a restart");
                }
                (self.mesh, self.trust, self.modified) = (mesh, trust, modified);
                if is_new {
                    tracing::info!(serial = self.mesh.contents().serial, "a new mesh file is in force");
                }
                is_new
            }
            Err(error) => {
                tracing::warn!(%error, "the mesh file is not used; the last good one stays in force");
                false
            }
        }
    }

    /// The device that this daemon is.
    pub fn myself(
        &self,
        name: &str,
        role: Role,
        keys: crate::keys::PublicKeys,
    ) -> Result<&MeshDevice, MembershipError> {
        let device = self.listed(name, role)?;
        if device.signing_key != keys.signing || device.sealing_key != keys.sealing {
            return Err(MembershipError::Keys(device.name.clone()));
        }
        Ok(device)
    }

    /// The repository of this name, or the only one.
    pub fn repository(&self, name: Option<&str>) -> Result<&MeshDevice, MembershipError> {
        match name {
            Some(name) => self.listed(name, Role::Repository),
            None => {
                let mut all = self.mesh.devices().iter().filter(|device| device.role == Role::Repository);
                match (all.next(), all.count()) {
                    (Some(only), 0) => Ok(only),
                    (first, others) => Err(MembershipError::Repositories(usize::from(first.is_some()) + others)),
                }
            }
        }
    }

    fn listed(&self, name: &str, role: Role) -> Result<&MeshDevice, MembershipError> {
        match self.mesh.device(name) {
            Some(device) if device.role == role => Ok(device),
            Some(device) => {
                Err(MembershipError::Role { name: device.name.clone(), is: device.role.word(), wanted: role.word() })
            }
            None => Err(MembershipError::NotListed {
                role: role.word(),
                name: name.chars().take(64).collect(),
                hint: self.mesh.device_hint(name),
            }),
        }
    }

    /// The frame tag of a device.
    pub fn tag(&self, name: &DeviceName) -> Option<FrameTag> {
        self.mesh.device(name.as_str()).map(|device| device.tag)
    }

    /// Gives numbers to devices that are new in the file.
    pub fn enrol(&self, driver: &mut Driver<'_, Journal>, vocabulary: &Vocabulary) {
        for device in self.mesh.devices() {
            let entity = vocabulary.entities.id(&device.entity);
            if let (None, Some(entity)) = (driver.recorder().names.id_of(&device.name), entity) {
                let id = driver.add_device(entity);
                driver.recorder().names.device(id, device.name.clone());
            }
        }
    }

    /// Every device with a number, and the names of these numbers.
    pub fn roll(&self, vocabulary: &Vocabulary) -> (Directory, Names) {
        let (mut directory, mut names) = (Directory::default(), Names::default());
        for device in self.mesh.devices() {
            if let Some(entity) = vocabulary.entities.id(&device.entity) {
                names.device(directory.add_device(entity), device.name.clone());
            }
        }
        (directory, names)
    }
}

/// Learns from a file, and remembers that before anything relies on it.
fn open(path: &Path, trust: &mut Trust, trust_path: &Path, now: Time) -> Result<MeshFile, MembershipError> {
    let before = trust.clone();
    let mesh = learn(path, trust, now)?;
    if *trust != before {
        trust.store(trust_path)?;
    }
    Ok(mesh)
}

/// Opens a file by an operator's key that is believed.
fn learn(path: &Path, trust: &mut Trust, now: Time) -> Result<MeshFile, MembershipError> {
    let signed = SignedMesh::read(path)?;
    trust.open(&signed, now).map_err(|error| MembershipError::Mesh { path: path.into(), error: error.into() })
}

fn modified(path: &Path) -> Option<SystemTime> {
    let of = |path: &Path| std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    // The later of the two: the signature usually comes second.
    of(path).max(of(&crate::mesh_file::signature_path(path)))
}
