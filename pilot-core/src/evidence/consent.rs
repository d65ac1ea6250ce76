//! A consent as a subject signs it: who may have which address under which policy, and when that was said.
//!
//! ```text
//! ┌─────────────────────────┬──────┬────────────┬───────────────┬───────┐
//! │ consent-mesh/consent/1␀ │ item │ controller │ policy digest │ epoch │
//! │           23            │  6   │     4      │      32       │   8   │  bytes
//! └─────────────────────────┴──────┴────────────┴───────────────┴───────┘
//! 0                         23     29           33              65      73
//! ```
//!
//! Every part has a fixed length, so no two consents have the same bytes. The first part is for nothing but consents:
//! a signature made for another purpose is none of these, and the other way round. Digest and epoch (big-endian) are
//! whole here although a frame shortens them, so that a signature still says what it said when it is audited years later.
//! Nothing here reads a frame: an auditor who has the four values and the signature needs no radio.

use core::fmt;

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};

use super::mesh::FrameTag;
use crate::codec::Digest;
use crate::semantics::Epoch;

const DOMAIN: &[u8; 23] = b"consent-mesh/consent/1\0";

/// How many bytes are signed.
pub const CONSENT_BYTES: usize = DOMAIN.len() + 6 + 4 + 32 + 8;

/// A consent: this controller may have this item under this policy; said in this epoch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Consent {
    /// i: the advertiser's address, most significant byte first.
    pub item: [u8; 6],
    /// The controller it is meant for.
    pub controller: FrameTag,
    /// The controller's policy that was accepted.
    pub policy: Digest,
    /// When.
    pub epoch: Epoch,
}

/// The item is a personal value, so it is not shown.
impl fmt::Debug for Consent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { item: _, controller, policy, epoch } = self;
        write!(out, "Consent(hidden item, {controller}, {policy:?}, {epoch:?})")
    }
}

impl Consent {
    /// The bytes that are signed.
    pub fn to_bytes(&self) -> [u8; CONSENT_BYTES] {
        let mut bytes = [0; CONSENT_BYTES];
        let epoch = self.epoch.0.to_be_bytes();
        let parts = DOMAIN.iter().chain(&self.item).chain(&self.controller.0).chain(&self.policy.0).chain(&epoch);
        bytes.iter_mut().zip(parts).for_each(|(byte, part)| *byte = *part);
        bytes
    }

    /// Signs it. The key should be used for this controller and this item only: it links whatever it signs.
    pub fn sign(&self, key: &SigningKey) -> ConsentSignature {
        ConsentSignature { key: key.verifying_key().to_bytes(), signature: key.sign(&self.to_bytes()).to_bytes() }
    }
}

/// A public key and its Ed25519 signature of a [`Consent`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ConsentSignature {
    /// Who signed; a pseudonym of the subject.
    pub key: [u8; 32],
    /// The signature.
    pub signature: [u8; 64],
}

/// A key is a pseudonym, so it is not shown.
impl fmt::Debug for ConsentSignature {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("ConsentSignature(hidden)")
    }
}

/// Why a signature proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConsentError {
    /// The frame is of a kind without signature.
    #[error("the frame is not signed")]
    NotSigned,
    /// The key is no point of the curve.
    #[error("the public key is not one")]
    Key,
    /// The key did not sign this consent, or is so weak that its signatures mean nothing.
    #[error("the signature is not for this item, controller, policy and epoch")]
    Signature,
}

impl ConsentSignature {
    /// Whether the holder of the key signed exactly this consent. Strict: refuses keys for which almost any signature
    /// holds.
    pub fn verify(&self, consent: &Consent) -> Result<(), ConsentError> {
        let key = VerifyingKey::from_bytes(&self.key).map_err(|_| ConsentError::Key)?;
        let signature = Signature::from_bytes(&self.signature);
        key.verify_strict(&consent.to_bytes(), &signature).map_err(|_| ConsentError::Signature)
    }
}
