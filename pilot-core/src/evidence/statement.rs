//! Policy statements: what a controller's device says about its policy, signed once and valid for long.
//!
//! The payload of a COSE_Sign1 ([`Domain::PolicyStatement`]) is canonical CBOR:
//!
//! ```text
//! [1,                  ; version of this form
//!  device: tstr,
//!  entity: tstr,       ; entity(device), as the mesh file lists it
//!  version: uint,      ; strictly increasing per device
//!  policy: bstr        ; canonical bytes, see `codec`
//!        / null,       ; the policy is withdrawn
//!  issued: uint, expires: uint]
//! ```
//!
//! Repositories "store and send policies, but do not modify them": a statement is handed on byte by byte, and subjects
//! open it themselves. They remember the highest version of each device and refuse lower ones, so that neither broker
//! nor repository can forge a policy or bring an old one back.

use alloc::vec::Vec;
use core::fmt;
use minicbor::{Decoder, Encoder};
use sha2::{Digest as _, Sha256};

use super::cose::{self, CoseError, Domain, MAX_OVERHEAD_BYTES, Signed};
use super::form::{self, FormError};
use super::hex::Hex;
use super::keys::Signer;
use super::mesh::{CLOCK_TOLERANCE, DeviceName, Invalid, MeshFile, Role};
use crate::codec::{self, CodecError};
use crate::diagnostic::{Hint, Quoted};
use crate::name::MAX_NAME_BYTES;
use crate::policy::{Choice, MAX_POLICY_BYTES, Policy};
use crate::value::Time;
use crate::vocabulary::{Entity, Vocabulary};

/// The version of the form and how many elements it has.
const FORM: (u8, u64) = (1, 7);
/// All numbers and headers of a payload, generously.
const MAX_NUMBERS_BYTES: usize = 64;

/// The largest statement, signature included. Every statement that can be made fits; larger messages are refused unread.
pub const MAX_STATEMENT_BYTES: usize = MAX_POLICY_BYTES + 2 * MAX_NAME_BYTES + MAX_NUMBERS_BYTES + MAX_OVERHEAD_BYTES;

/// SHA-256 of a statement's exact bytes, signature included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StatementId(pub [u8; 32]);

impl StatementId {
    /// The id of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for StatementId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        Hex(&self.0).fmt(out)
    }
}

/// What a device says about its policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyStatement {
    /// Who says it.
    pub device: DeviceName,
    /// entity(device).
    pub entity: Entity,
    /// Which of the device's statements this is; a higher one replaces it.
    pub version: u64,
    /// What it says.
    pub content: Content,
    /// When it was made.
    pub issued: Time,
    /// From this moment on it says nothing any more.
    pub expires: Time,
}

/// What a statement says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// The device works under this policy; never ⊥ (S21).
    Policy(Policy),
    /// The device works under no policy any more.
    Withdrawal,
}

/// Why a statement was not opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StatementError {
    /// Not a signed thing.
    #[error("no statement: {0}")]
    Cose(#[from] CoseError),
    /// Not the form of a statement.
    #[error("no statement: {0}")]
    Form(#[from] FormError),
    /// A device that the mesh file does not list.
    #[error("a statement of the unknown device {0}{1}")]
    UnknownDevice(Quoted, Hint),
    /// A device that has no policies.
    #[error("a statement of {0}, which is no controller")]
    NotAController(DeviceName),
    /// The device may not act now.
    #[error("a statement of {0}: {1}")]
    Device(DeviceName, Invalid),
    /// Not signed by the device, or changed since.
    #[error("{0} did not sign this statement")]
    Signature(DeviceName),
    /// It ends before it begins.
    #[error("the statement of {0} ends at or before its beginning")]
    Period(DeviceName),
    /// Too old.
    #[error("the statement of {0} expired at {1}")]
    Expired(DeviceName, Time),
    /// Issued more than [`CLOCK_TOLERANCE`] ahead of now: one of the clocks is wrong.
    #[error("the statement of {0} was issued at {1}, which is in the future")]
    FromTheFuture(DeviceName, Time),
    /// Another entity than the one the mesh file lists for the device.
    #[error("{device} belongs to {listed}, and its statement says {claimed}")]
    WrongEntity {
        /// The device.
        device: DeviceName,
        /// What the mesh file says.
        listed: Quoted,
        /// What the statement says.
        claimed: Quoted,
    },
    /// An entity that the vocabulary in use does not have.
    #[error("the statement of {0} is for the unknown entity {1}{2}")]
    UnknownEntity(DeviceName, Quoted, Hint),
    /// The policy cannot be read.
    #[error("the policy of {0}: {1}")]
    Policy(DeviceName, CodecError),
    /// ⊥, which is never published (S21).
    #[error("{0} states the empty policy, which is never published; a withdrawal says that there is none")]
    Nothing(DeviceName),
    /// S19: the policy names an entity that the device is no part of.
    #[error("the policy of {device} is for {named}, of which its entity {entity} is no part")]
    ForeignEntity {
        /// The device.
        device: DeviceName,
        /// Its entity.
        entity: Quoted,
        /// The entity that the policy names.
        named: Quoted,
    },
}

impl PolicyStatement {
    /// The bytes of this statement, signed by its device.
    pub fn sign(&self, vocabulary: &Vocabulary, signer: &impl Signer) -> Vec<u8> {
        let policy = match &self.content {
            Content::Policy(policy) => Some(codec::encode(&Choice::Policy(policy.clone()), vocabulary)),
            Content::Withdrawal => None,
        };
        let raw = Raw {
            device: self.device.as_str(),
            entity: vocabulary.entities.name(self.entity),
            version: self.version,
            policy: policy.as_deref(),
            issued: self.issued.unix(),
            expires: self.expires.unix(),
        };
        cose::sign(Domain::PolicyStatement, &raw.write(), signer)
    }

    /// Opens a statement: signed by a controller's device that the mesh file lists and that may act now, of now, and
    /// about a policy for the device's own entity or one that it is part of.
    ///
    /// The policy is read under `vocabulary`: the mesh file's own, or a gateway's with the same orders.
    pub fn open(bytes: &[u8], mesh: &MeshFile, vocabulary: &Vocabulary, now: Time) -> Result<Self, StatementError> {
        let signed = Signed::read(bytes, MAX_STATEMENT_BYTES)?;
        let raw = Raw::read(signed.payload)?;
        let unknown = || StatementError::UnknownDevice(Quoted::new(raw.device), mesh.device_hint(raw.device));
        let listed = mesh.device(raw.device).ok_or_else(unknown)?;
        let device = || listed.name.clone();
        if listed.role != Role::Controller {
            return Err(StatementError::NotAController(device()));
        }
        listed.check_valid(now).map_err(|invalid| StatementError::Device(device(), invalid))?;
        if !signed.is_signed_by(Domain::PolicyStatement, &listed.signing_key) {
            return Err(StatementError::Signature(device()));
        }
        let (issued, expires) = (Time::from_unix(raw.issued), Time::from_unix(raw.expires));
        if expires <= issued {
            return Err(StatementError::Period(device()));
        }
        if expires <= now {
            return Err(StatementError::Expired(device(), expires));
        }
        if raw.issued > now.unix().saturating_add(CLOCK_TOLERANCE) {
            return Err(StatementError::FromTheFuture(device(), issued));
        }
        if raw.entity != listed.entity {
            let (listed, claimed) = (Quoted::new(&listed.entity), Quoted::new(raw.entity));
            return Err(StatementError::WrongEntity { device: device(), listed, claimed });
        }
        let entity = vocabulary.entities.id(raw.entity).ok_or_else(|| {
            StatementError::UnknownEntity(device(), Quoted::new(raw.entity), vocabulary.entities.hint(raw.entity))
        })?;
        let content = match raw.policy {
            None => Content::Withdrawal,
            Some(policy) => match codec::decode(policy, vocabulary) {
                Ok(Choice::Policy(policy)) => Content::Policy(policy),
                Ok(Choice::Nothing) => return Err(StatementError::Nothing(device())),
                Err(error) => return Err(StatementError::Policy(device(), error)),
            },
        };
        if let Content::Policy(policy) = &content {
            let named = policy.collection().entity;
            if !vocabulary.entities.le(entity, named) {
                let named = Quoted::new(vocabulary.entities.name(named));
                return Err(StatementError::ForeignEntity { device: device(), entity: Quoted::new(raw.entity), named });
            }
        }
        Ok(Self { device: device(), entity, version: raw.version, content, issued, expires })
    }
}

/// The payload, names not resolved.
#[derive(Clone, Copy)]
struct Raw<'b> {
    device: &'b str,
    entity: &'b str,
    version: u64,
    policy: Option<&'b [u8]>,
    issued: u64,
    expires: u64,
}

impl<'b> Raw<'b> {
    fn read(payload: &'b [u8]) -> Result<Self, FormError> {
        let raw = form::read(payload, FORM, |decoder| {
            Ok(Self {
                device: decoder.str()?,
                entity: decoder.str()?,
                version: decoder.u64()?,
                policy: form::optional(decoder, Decoder::bytes)?,
                issued: decoder.u64()?,
                expires: decoder.u64()?,
            })
        })?;
        form::check_canonical(&raw.write(), payload)?;
        Ok(raw)
    }

    fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let result = self.write_to(&mut Encoder::new(&mut bytes));
        // INVARIANT: writing to a `Vec` cannot fail.
        debug_assert!(result.is_ok());
        bytes
    }

    fn write_to(&self, out: &mut Encoder<&mut Vec<u8>>) -> form::WriteResult {
        out.array(FORM.1)?.u8(FORM.0)?.str(self.device)?.str(self.entity)?.u64(self.version)?;
        match self.policy {
            Some(policy) => out.bytes(policy)?,
            None => out.null()?,
        };
        out.u64(self.issued)?.u64(self.expires)?;
        Ok(())
    }
}
