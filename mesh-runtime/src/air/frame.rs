#![doc = include_str!("../../../docs/frame.md")]

use std::fmt;

use ed25519_dalek::SigningKey;
use pilot_core::codec::Digest;
use pilot_core::evidence::consent::{Consent, ConsentError, ConsentSignature};
use pilot_core::evidence::mesh::FrameTag;
use pilot_core::semantics::Epoch;
use sha2::{Digest as _, Sha256};

use super::address::Address;
use super::bytes::{FrameBytes, take};
pub use super::epoch::ShortEpoch;

/// The length of a legacy frame: 31 bytes of advertisement without three for flags and four for the header of the data.
pub const LEGACY_FRAME_BYTES: usize = 24;
/// The longest frame: 251 bytes, which Linux puts into one extended advertisement, without the same seven.
pub const MAX_FRAME_BYTES: usize = 244;
/// The longest policy in an extended frame. A longer one goes by its digest alone, in a legacy frame.
pub const MAX_EXTENDED_POLICY_BYTES: usize = MAX_FRAME_BYTES - LEGACY_FRAME_BYTES;
/// The longest policy in a signed frame.
pub const MAX_SIGNED_POLICY_BYTES: usize = MAX_EXTENDED_POLICY_BYTES - KEY_BYTES - SIGNATURE_BYTES;

const VERSION: u8 = 1;
/// How many bytes the key of a signed frame has.
pub const KEY_BYTES: usize = 32;
const SIGNATURE_BYTES: usize = 64;
/// ⊥ in canonical CBOR: `null`.
const NOTHING: &[u8] = &[0xf6];

/// The controller a frame is meant for: four bytes that the mesh file assigns, unique there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ControllerTag(pub [u8; 4]);

/// The part of a policy's digest that a frame has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DigestPrefix(pub [u8; 16]);

impl From<Digest> for DigestPrefix {
    fn from(digest: Digest) -> Self {
        let mut prefix = [0; 16];
        prefix.iter_mut().zip(digest.0).for_each(|(byte, of)| *byte = of);
        Self(prefix)
    }
}

/// What a frame has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A policy's digest, in 24 bytes that every radio can send.
    Legacy,
    /// The policy itself as well.
    Extended,
    /// And a signature.
    Signed,
}

impl Kind {
    const fn first_byte(self) -> u8 {
        VERSION << 4
            | match self {
                Self::Legacy => 1,
                Self::Extended => 2,
                Self::Signed => 3,
            }
    }

    /// How long a frame of this kind can be.
    const fn has_length(self, length: usize) -> bool {
        match self {
            Self::Legacy => length == LEGACY_FRAME_BYTES,
            Self::Extended => length > LEGACY_FRAME_BYTES && length <= MAX_FRAME_BYTES,
            Self::Signed => length > LEGACY_FRAME_BYTES + KEY_BYTES + SIGNATURE_BYTES && length <= MAX_FRAME_BYTES,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Legacy => "legacy",
            Self::Extended => "extended",
            Self::Signed => "signed",
        })
    }
}

/// Why bytes are no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Nothing at all.
    #[error("a frame has at least one byte")]
    Empty,
    /// A version we do not know.
    #[error("frame version {0} is not known, only {VERSION}")]
    Version(u8),
    /// A kind we do not know.
    #[error("frame kind {0} is not known")]
    Kind(u8),
    /// A length that frames of this kind do not have.
    #[error("no frame of the {kind} kind has {length} bytes")]
    Length {
        /// The kind it says it is.
        kind: Kind,
        /// How long it is.
        length: usize,
    },
    /// The policy it carries is not the one whose digest it names.
    #[error("the frame's policy has another digest than the frame says")]
    Digest,
    /// The policy it carries is ⊥, which is never broadcast.
    #[error("the frame carries no policy but `nothing`")]
    Nothing,
}

/// The first 24 bytes, which every kind has: enough to refuse what is for somebody else, or stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// What follows.
    pub kind: Kind,
    /// Whom the frame is meant for.
    pub controller: ControllerTag,
    /// The controller's policy that the subject accepts.
    pub policy: DigestPrefix,
    /// When the subject said so.
    pub epoch: ShortEpoch,
}

impl Header {
    /// Reads a header and checks version, kind and length of the whole frame; what follows is not looked at.
    pub fn decode(frame: &[u8]) -> Result<Self, FrameError> {
        let first = *frame.first().ok_or(FrameError::Empty)?;
        if first >> 4 != VERSION {
            return Err(FrameError::Version(first >> 4));
        }
        let kind = match first & 0xf {
            1 => Kind::Legacy,
            2 => Kind::Extended,
            3 => Kind::Signed,
            unknown => return Err(FrameError::Kind(unknown)),
        };
        let wrong_length = FrameError::Length { kind, length: frame.len() };
        if !kind.has_length(frame.len()) {
            return Err(wrong_length);
        }
        let mut rest = frame.get(1..).ok_or(wrong_length)?;
        let controller = ControllerTag(take(&mut rest).ok_or(wrong_length)?);
        let policy = DigestPrefix(take(&mut rest).ok_or(wrong_length)?);
        let epoch = ShortEpoch::from_bytes(take(&mut rest).ok_or(wrong_length)?);
        Ok(Self { kind, controller, policy, epoch })
    }

    /// The key in a signed frame that begins with this header. Nobody has verified anything: it is to be compared with one
    /// that is known.
    pub fn key(self, frame: &[u8]) -> Option<[u8; KEY_BYTES]> {
        let mut rest = frame.get(LEGACY_FRAME_BYTES..).filter(|_| self.kind == Kind::Signed)?;
        take(&mut rest)
    }
}

/// The policy in a frame: canonical bytes, if `codec::decode` agrees, and the digest they have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CarriedPolicy<'f> {
    bytes: &'f [u8],
    digest: Digest,
}

impl<'f> CarriedPolicy<'f> {
    fn new(bytes: &'f [u8]) -> Self {
        Self { bytes, digest: Digest(Sha256::digest(bytes).into()) }
    }

    /// What to give to `codec::decode`, which needs the vocabulary.
    pub const fn bytes(&self) -> &'f [u8] {
        self.bytes
    }

    /// SHA-256 of the bytes.
    pub const fn digest(&self) -> Digest {
        self.digest
    }
}

/// A well-formed frame. The policy, if it carries one, has the digest that its header names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'f> {
    header: Header,
    body: Body<'f>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body<'f> {
    Legacy,
    Extended(CarriedPolicy<'f>),
    Signed(ConsentSignature, CarriedPolicy<'f>),
}

/// Why a policy cannot be carried in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CarryError {
    /// Too long for this kind; its digest fits into a legacy frame.
    #[error("a policy of {length} bytes does not fit into a frame of the {kind} kind, which has room for {room}")]
    TooLong {
        /// The kind that was asked for.
        kind: Kind,
        /// How long the policy is.
        length: usize,
        /// How long it may be.
        room: usize,
    },
    /// Nobody broadcasts ⊥.
    #[error("`nothing` is not broadcast")]
    Nothing,
}

impl<'f> Frame<'f> {
    /// A frame that names a policy by its digest.
    pub fn legacy(controller: ControllerTag, policy: Digest, epoch: Epoch) -> Self {
        let header = Header { kind: Kind::Legacy, controller, policy: policy.into(), epoch: ShortEpoch::of(epoch) };
        Self { header, body: Body::Legacy }
    }

    /// A frame that carries a policy, given as its canonical bytes.
    pub fn extended(controller: ControllerTag, policy: &'f [u8], epoch: Epoch) -> Result<Self, CarryError> {
        let policy = carried(Kind::Extended, policy, MAX_EXTENDED_POLICY_BYTES)?;
        let header = Header { kind: Kind::Extended, ..Self::legacy(controller, policy.digest, epoch).header };
        Ok(Self { header, body: Body::Extended(policy) })
    }

    /// A frame that carries a policy and is signed for the address it will be advertised with.
    pub fn signed(
        controller: ControllerTag,
        policy: &'f [u8],
        epoch: Epoch,
        item: Address,
        key: &SigningKey,
    ) -> Result<Self, CarryError> {
        let policy = carried(Kind::Signed, policy, MAX_SIGNED_POLICY_BYTES)?;
        let header = Header { kind: Kind::Signed, ..Self::legacy(controller, policy.digest, epoch).header };
        let (item, controller) = (item.reveal(), FrameTag(controller.0));
        let signature = Consent { item, controller, policy: policy.digest, epoch }.sign(key);
        Ok(Self { header, body: Body::Signed(signature, policy) })
    }

    /// Reads a frame. Does not allocate.
    pub fn decode(frame: &'f [u8]) -> Result<Self, FrameError> {
        let header = Header::decode(frame)?;
        let wrong_length = FrameError::Length { kind: header.kind, length: frame.len() };
        let mut rest = frame.get(LEGACY_FRAME_BYTES..).ok_or(wrong_length)?;
        let signature = match header.kind {
            Kind::Legacy => return Ok(Self { header, body: Body::Legacy }),
            Kind::Extended => None,
            Kind::Signed => Some(ConsentSignature {
                key: take(&mut rest).ok_or(wrong_length)?,
                signature: take(&mut rest).ok_or(wrong_length)?,
            }),
        };
        if rest == NOTHING {
            return Err(FrameError::Nothing);
        }
        let policy = CarriedPolicy::new(rest);
        if DigestPrefix::from(policy.digest) != header.policy {
            return Err(FrameError::Digest);
        }
        let body = signature.map_or(Body::Extended(policy), |signature| Body::Signed(signature, policy));
        Ok(Self { header, body })
    }

    /// The bytes to advertise.
    pub fn encode(&self) -> FrameBytes {
        let Header { kind, controller, policy, epoch } = self.header;
        let mut bytes = FrameBytes::EMPTY;
        bytes.push(&[kind.first_byte()]);
        bytes.push(&controller.0);
        bytes.push(&policy.0);
        bytes.push(&epoch.to_bytes());
        if let Some(signature) = self.signature() {
            bytes.push(&signature.key);
            bytes.push(&signature.signature);
        }
        if let Some(policy) = self.policy() {
            bytes.push(policy.bytes);
        }
        bytes
    }

    /// What every frame has.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// The policy it carries, unless it is a legacy frame.
    pub const fn policy(&self) -> Option<&CarriedPolicy<'f>> {
        match &self.body {
            Body::Legacy => None,
            Body::Extended(policy) | Body::Signed(_, policy) => Some(policy),
        }
    }

    /// Its signature, not verified, if it is of the signed kind.
    pub const fn signature(&self) -> Option<&ConsentSignature> {
        match &self.body {
            Body::Legacy | Body::Extended(_) => None,
            Body::Signed(signature, _) => Some(signature),
        }
    }

    /// Verifies the signature for the address the frame was advertised with and the epoch that
    /// [`ShortEpoch::fresh_at`] found, and says what was signed.
    pub fn verify(&self, item: Address, epoch: Epoch) -> Result<Consent, ConsentError> {
        let Body::Signed(signature, policy) = &self.body else { return Err(ConsentError::NotSigned) };
        let (item, controller) = (item.reveal(), FrameTag(self.header.controller.0));
        let consent = Consent { item, controller, policy: policy.digest, epoch };
        signature.verify(&consent)?;
        Ok(consent)
    }
}

fn carried(kind: Kind, policy: &[u8], room: usize) -> Result<CarriedPolicy<'_>, CarryError> {
    if policy.is_empty() || policy == NOTHING {
        return Err(CarryError::Nothing);
    }
    if policy.len() > room {
        return Err(CarryError::TooLong { kind, length: policy.len(), room });
    }
    Ok(CarriedPolicy::new(policy))
}
