//! The mesh file: what the operator of a mesh signs, and everybody in it starts from. It has the shared vocabulary, and
//! for each device of a controller or a repository its entity and its keys. Subjects are not in it.
//!
//! ```toml
//! version = 1                            # of this form
//! serial = 7                             # a lower one than the last is refused
//! issued = 2026-01-01
//! expires = 2027-01-01T12:00:00Z
//! next_operator_key = "ed25519:…"        # optional: may sign the next file
//!
//! [vocabulary]                           # as in a vocabulary file, without devices and items
//! extends = "default"
//! [vocabulary.entities]
//! mall = []
//!
//! [[devices]]
//! name = "mall-gate#basic"               # one logical device per offer (S19)
//! role = "controller"                    # or "repository"
//! entity = "mall"
//! tag = "00c0ffee"                       # stands for the device in radio frames
//! signing_key = "ed25519:…"
//! sealing_key = "x25519:…"
//! valid_from = 2026-01-01
//! valid_until = 2027-01-01
//! revoked = 2026-06-01T10:00:00Z         # optional: from then on, nothing it signed counts
//! ```
//!
//! The signature is detached and covers the exact bytes of the file, as the payload of a COSE `Sig_structure`
//! ([`Domain::MeshFile`]). Rolling over to another operator's key: the old key signs a file that names the next one, and
//! whoever opened that file accepts the next file from either.

mod read;
mod write;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use smol_str::SmolStr;

use super::cose::{Domain, Signed, sign_detached};
use super::hex::{self, Hex};
use super::keys::{KeyError, SealingKey, Signature, Signer, VerifyingKey};
use crate::diagnostic::{Hint, Located, Quoted};
use crate::name::{NameError, check_name, nearest};
use crate::value::{Time, TimeError};
use crate::vocabulary::{Declarations, Entity, Vocabulary, VocabularyProblem};

/// The largest mesh file; a larger one is refused before its signature is looked at.
pub const MAX_MESH_BYTES: usize = 64 << 20;
/// The most devices in a mesh; a file with more is refused.
pub const MAX_DEVICES: usize = 1 << 17;
/// How far ahead of ours, in seconds, the clock of whoever issued a mesh file or a statement may be.
pub const CLOCK_TOLERANCE: u64 = 120;

/// The name of a device that the mesh file lists.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceName(pub(super) SmolStr);

impl DeviceName {
    /// Accepts `text` as a name.
    pub fn new(text: &str) -> Result<Self, NameError> {
        check_name(text).map(|()| Self(text.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Four bytes that stand for a controller's device in radio frames, written as eight hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameTag(pub [u8; 4]);

impl fmt::Display for FrameTag {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        Hex(&self.0).fmt(out)
    }
}

/// Why a text is no frame tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a frame tag has eight lower-case hexadecimal digits")]
pub struct TagError;

impl FromStr for FrameTag {
    type Err = TagError;

    fn from_str(text: &str) -> Result<Self, TagError> {
        hex::decode(text).map(Self).ok_or(TagError)
    }
}

/// What a device is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Collects data under a policy that it publishes.
    Controller,
    /// Stores policies and sends them.
    Repository,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 2] = [Self::Controller, Self::Repository];

    /// The word for it in mesh files.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Controller => "controller",
            Self::Repository => "repository",
        }
    }
}

/// A device as the mesh file lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeshDevice {
    /// Its name.
    pub name: DeviceName,
    /// What it is there for.
    pub role: Role,
    /// The name of entity(d); in an opened file, the vocabulary has it.
    pub entity: String,
    /// What stands for it in radio frames.
    pub tag: FrameTag,
    /// Verifies what it signs.
    pub signing_key: VerifyingKey,
    /// Seals what is sent to it.
    pub sealing_key: SealingKey,
    /// From this moment on it may act.
    pub valid_from: Time,
    /// From this moment on it may not any more.
    pub valid_until: Time,
    /// From this moment on nothing that it signed counts, whenever it says it did.
    pub revoked: Option<Time>,
}

/// Why a listed device may not act at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// Its keys are no longer trusted.
    #[error("revoked since {0}")]
    Revoked(Time),
    /// Too early.
    #[error("valid only from {0} on")]
    NotYet(Time),
    /// Too late.
    #[error("valid only until {0}")]
    NoLonger(Time),
}

impl MeshDevice {
    /// Whether it may act at this moment.
    pub fn check_valid(&self, now: Time) -> Result<(), Invalid> {
        match self.revoked {
            Some(since) if since <= now => Err(Invalid::Revoked(since)),
            _ if now < self.valid_from => Err(Invalid::NotYet(self.valid_from)),
            _ if self.valid_until <= now => Err(Invalid::NoLonger(self.valid_until)),
            _ => Ok(()),
        }
    }
}

/// The contents of a mesh file while nobody has signed it yet: what an operator's tool edits. Nothing is opened with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeshDraft {
    /// Grows with each file that is signed.
    pub serial: u64,
    /// When it was made.
    pub issued: Time,
    /// From this moment on it is refused.
    pub expires: Time,
    /// The key that may sign the next file besides the one that signs this.
    pub next_operator_key: Option<VerifyingKey>,
    /// The shared vocabulary.
    pub vocabulary: Declarations,
    /// The devices.
    pub devices: Vec<MeshDevice>,
}

impl MeshDraft {
    /// Reads the text of a mesh file without asking who signed it, and when.
    pub fn from_toml(text: &str) -> Result<Self, MeshContentError> {
        read::read(text).map(|(draft, _)| draft)
    }

    /// The text to sign: read back once, so that what is returned can be opened and says what this draft says.
    pub fn to_toml(&self) -> Result<String, MeshContentError> {
        let text = write::text(self);
        match Self::from_toml(&text)? == *self {
            true => Ok(text),
            false => Err(Located::new("", 0..0, MeshProblem::Unwritable)),
        }
    }
}

/// The operator's signature of a mesh file's text.
pub fn sign_mesh(text: &str, operator: &impl Signer) -> Signature {
    sign_detached(Domain::MeshFile, text.as_bytes(), operator)
}

/// A mesh file that the operator signed.
#[derive(Debug, Clone)]
pub struct MeshFile {
    /// Its devices in the byte order of their names.
    contents: MeshDraft,
    vocabulary: Vocabulary,
    /// Tags and signing keys, sorted, with the position of their device.
    tags: Vec<(FrameTag, usize)>,
    keys: Vec<(VerifyingKey, usize)>,
}

impl MeshFile {
    /// Opens a mesh file: signed by the operator, of now, and not older than the last one whose serial is known.
    pub fn open(
        text: &str,
        signature: &Signature,
        operator: &VerifyingKey,
        now: Time,
        known_serial: Option<u64>,
    ) -> Result<Self, MeshError> {
        if text.len() > MAX_MESH_BYTES {
            return Err(MeshError::TooLarge);
        }
        if !Self::is_signed(text, signature, operator) {
            return Err(MeshError::Signature);
        }
        let mesh = Self::unverified(text)?;
        let contents = &mesh.contents;
        if contents.expires <= now {
            return Err(MeshError::Expired(contents.expires));
        }
        if contents.issued.unix() > now.unix().saturating_add(CLOCK_TOLERANCE) {
            return Err(MeshError::FromTheFuture(contents.issued));
        }
        if let Some(known) = known_serial.filter(|known| contents.serial < *known) {
            return Err(MeshError::Older { serial: contents.serial, known });
        }
        Ok(mesh)
    }

    /// What a mesh file says, whoever has signed it and whenever: for who looks at what is long past. Nobody may act on it.
    pub fn unverified(text: &str) -> Result<Self, MeshContentError> {
        let (mut contents, vocabulary) = read::read(text)?;
        contents.devices.sort_by(|a, b| a.name.cmp(&b.name));
        let mut tags: Vec<_> = contents.devices.iter().enumerate().map(|(at, device)| (device.tag, at)).collect();
        tags.sort_unstable();
        let mut keys: Vec<_> =
            contents.devices.iter().enumerate().map(|(at, device)| (device.signing_key, at)).collect();
        keys.sort_unstable();
        Ok(Self { contents, vocabulary, tags, keys })
    }

    /// Whether an operator signed this text.
    pub fn is_signed(text: &str, signature: &Signature, operator: &VerifyingKey) -> bool {
        (Signed { payload: text.as_bytes(), signature: *signature }).is_signed_by(Domain::MeshFile, operator)
    }

    /// What it says, its devices in the byte order of their names; the beginning of the next file.
    pub const fn contents(&self) -> &MeshDraft {
        &self.contents
    }

    /// The shared vocabulary.
    pub const fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// Every device, in the byte order of the names.
    pub fn devices(&self) -> &[MeshDevice] {
        &self.contents.devices
    }

    /// The device of this name.
    pub fn device(&self, name: &str) -> Option<&MeshDevice> {
        let at = self.devices().binary_search_by(|device| device.name.as_str().cmp(name)).ok()?;
        self.devices().get(at)
    }

    /// The device of this frame tag.
    pub fn device_by_tag(&self, tag: FrameTag) -> Option<&MeshDevice> {
        let at = self.tags.binary_search_by_key(&tag, |(tag, _)| *tag).ok()?;
        self.devices().get(self.tags.get(at)?.1)
    }

    /// The device of this signing key.
    pub fn device_by_key(&self, key: &VerifyingKey) -> Option<&MeshDevice> {
        let at = self.keys.binary_search_by(|(known, _)| known.cmp(key)).ok()?;
        self.devices().get(self.keys.get(at)?.1)
    }

    /// entity(d) in [`Self::vocabulary`], for a device of this file.
    pub fn entity(&self, device: &MeshDevice) -> Option<Entity> {
        self.vocabulary.entities.id(&device.entity)
    }

    /// "; did you mean …?" for a device that is not listed.
    pub fn device_hint(&self, wanted: &str) -> Hint {
        Hint(nearest(wanted, self.devices().iter().map(|device| device.name.as_str())))
    }
}

/// Why a mesh file was not opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MeshError {
    /// More than [`MAX_MESH_BYTES`].
    #[error("a mesh file has at most {MAX_MESH_BYTES} bytes")]
    TooLarge,
    /// Not signed by this operator, or changed since.
    #[error("the operator's key did not sign this mesh file")]
    Signature,
    /// Something is wrong with what it says.
    #[error(transparent)]
    Content(#[from] MeshContentError),
    /// Too old.
    #[error("the mesh file expired at {0}")]
    Expired(Time),
    /// Issued more than [`CLOCK_TOLERANCE`] ahead of now: one of the clocks is wrong.
    #[error("the mesh file was issued at {0}, which is in the future")]
    FromTheFuture(Time),
    /// There is a newer one.
    #[error("serial {serial} of the mesh file is lower than {known}, which is known already")]
    Older {
        /// Its serial.
        serial: u64,
        /// The serial of the newer one.
        known: u64,
    },
}

/// Why the text of a mesh file was refused, with the place.
pub type MeshContentError = Located<MeshProblem>;

/// Why the text of a mesh file was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MeshProblem {
    /// More than [`MAX_MESH_BYTES`].
    #[error("a mesh file has at most {MAX_MESH_BYTES} bytes")]
    TooLarge,
    /// Not TOML, or not of our form.
    #[error("{0}")]
    Toml(String),
    /// A version of the form that this program does not know.
    #[error("version {0} of mesh files is not known, only {known}", known = read::VERSION)]
    Version(u64),
    /// Not a moment.
    #[error("bad time: {0}")]
    Time(TimeError),
    /// Ends before it begins.
    #[error("this ends at or before its beginning, {0}")]
    Period(Time),
    /// A bad vocabulary.
    #[error("{0}")]
    Vocabulary(VocabularyProblem),
    /// A vocabulary with devices or items.
    #[error("the vocabulary of a mesh has no devices or items: devices are listed under `devices`, items are personal")]
    Personal,
    /// More than [`MAX_DEVICES`].
    #[error("a mesh has at most {MAX_DEVICES} devices")]
    TooManyDevices,
    /// A device with a bad name.
    #[error("bad name {0}: {1}")]
    Name(Quoted, NameError),
    /// A role that does not exist.
    #[error("unknown role {0}: a device is a controller or a repository")]
    Role(Quoted),
    /// An entity that the vocabulary does not have.
    #[error("unknown entity {0}{1}")]
    UnknownEntity(Quoted, Hint),
    /// Not a frame tag.
    #[error(transparent)]
    Tag(TagError),
    /// Not a key.
    #[error(transparent)]
    Key(KeyError),
    /// Two devices have the same name, tag or key.
    #[error("another device above has this {0} already")]
    Duplicate(&'static str),
    /// A draft with a number, time or name that the file cannot say.
    #[error("the mesh has a number, a time or a name that cannot be written")]
    Unwritable,
}
