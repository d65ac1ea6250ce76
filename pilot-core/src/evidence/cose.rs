//! COSE_Sign1 (RFC 9052 §4.2) with Ed25519 (RFC 9864 §2.2), in exactly one byte form.
//!
//! ```text
//! 84                     array of four
//!   43 a1 01 32          protected header: { alg (1): Ed25519 (-19) }, nothing else
//!   a0                   unprotected header: empty
//!   (bstr) payload       of the shortest length form
//!   58 40 (64 bytes)     signature of ["Signature1", h'a10132', domain, payload]
//! ```
//!
//! The domain is COSE's `external_aad`: it is signed and not sent, and each kind of thing has its own, so an envelope
//! cannot pass as a statement whatever its payload is. Whose key verifies stands in the payload, in our own terms, so
//! there is no `kid` that could disagree with it.
//!
//! Written over `minicbor`, not with the crate `coset`: what we accept is a constant head and two byte strings, while
//! coset reads every header that COSE knows, in any order and length form, with a second CBOR library behind it; all of
//! that would have to be refused again. The tests let coset read what is written here.

use alloc::vec::Vec;
use minicbor::{Decoder, Encoder};

use super::keys::{Signature, Signer, Unverified, VerifyingKey};

/// The protected header, encoded.
const PROTECTED: [u8; 3] = [0xa1, 0x01, 0x32];
/// Everything before the payload.
const HEAD: [u8; 6] = [0x84, 0x43, 0xa1, 0x01, 0x32, 0xa0];

/// How many bytes a signature adds to a payload at most, for payloads of less than 4 GiB.
pub const MAX_OVERHEAD_BYTES: usize = HEAD.len() + 5 + 2 + 64;

/// The kinds of things that are signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Domain {
    /// [`PolicyStatement`](super::PolicyStatement).
    PolicyStatement,
    /// [`Envelope`](super::Envelope).
    Envelope,
    /// [`MeshFile`](super::MeshFile); its signature is detached.
    MeshFile,
    /// A checkpoint of a [trace](super::trace); its signature is detached.
    TraceCheckpoint,
}

impl Domain {
    /// The `external_aad` of this kind.
    pub const fn external_aad(self) -> &'static [u8] {
        match self {
            Self::PolicyStatement => b"consent-mesh policy statement",
            Self::Envelope => b"consent-mesh envelope",
            Self::MeshFile => b"consent-mesh mesh file",
            Self::TraceCheckpoint => b"consent-mesh trace checkpoint",
        }
    }
}

/// Why bytes are no signed thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CoseError {
    /// More bytes than this kind may have.
    #[error("more than {0} bytes")]
    TooLarge(usize),
    /// Not the one form above.
    #[error("not a COSE_Sign1 message with Ed25519 in canonical form")]
    Form,
}

/// A signed thing whose form is right and whose signature is not verified yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signed<'b> {
    /// What is said to be signed.
    pub payload: &'b [u8],
    /// What is said to be its signature.
    pub signature: Signature,
}

impl<'b> Signed<'b> {
    /// Takes at most `limit` bytes apart.
    pub fn read(bytes: &'b [u8], limit: usize) -> Result<Self, CoseError> {
        if bytes.len() > limit {
            return Err(CoseError::TooLarge(limit));
        }
        let rest = bytes.strip_prefix(&HEAD).ok_or(CoseError::Form)?;
        let mut decoder = Decoder::new(rest);
        let payload = decoder.bytes().map_err(|_| CoseError::Form)?;
        let signature = decoder.bytes().map_err(|_| CoseError::Form)?;
        let signed = Self { payload, signature: Signature(signature.try_into().map_err(|_| CoseError::Form)?) };
        // Longer length forms and bytes at the end were read as well.
        if signed.write() == bytes { Ok(signed) } else { Err(CoseError::Form) }
    }

    /// The bytes of this signed thing.
    pub fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.payload.len() + MAX_OVERHEAD_BYTES);
        bytes.extend_from_slice(&HEAD);
        let result =
            Encoder::new(&mut bytes).bytes(self.payload).and_then(|out| out.bytes(&self.signature.0)).map(drop);
        // INVARIANT: writing to a `Vec` cannot fail.
        debug_assert!(result.is_ok());
        bytes
    }

    /// What [`Signed::is_signed_by`] verifies, for who verifies many at once.
    pub fn unverified(&self, domain: Domain, key: VerifyingKey) -> Unverified {
        Unverified { key, bytes: to_be_signed(domain, self.payload), signature: self.signature }
    }

    /// Whether the holder of `key` signed the payload as a thing of this kind.
    #[must_use]
    pub fn is_signed_by(&self, domain: Domain, key: &VerifyingKey) -> bool {
        key.verifies(&to_be_signed(domain, self.payload), &self.signature)
    }
}

/// Signs a payload as a thing of this kind and puts both together.
pub fn sign(domain: Domain, payload: &[u8], signer: &impl Signer) -> Vec<u8> {
    Signed { payload, signature: sign_detached(domain, payload, signer) }.write()
}

/// Signs a payload as a thing of this kind (RFC 9052 §4.1, detached content).
pub fn sign_detached(domain: Domain, payload: &[u8], signer: &impl Signer) -> Signature {
    signer.sign(&to_be_signed(domain, payload))
}

/// The `Sig_structure` of RFC 9052 §4.4.
fn to_be_signed(domain: Domain, payload: &[u8]) -> Vec<u8> {
    const CONTEXT: &str = "Signature1";
    let mut bytes = Vec::with_capacity(payload.len() + domain.external_aad().len() + 32);
    let mut encoder = Encoder::new(&mut bytes);
    let result = encoder
        .array(4)
        .and_then(|out| out.str(CONTEXT))
        .and_then(|out| out.bytes(&PROTECTED))
        .and_then(|out| out.bytes(domain.external_aad()))
        .and_then(|out| out.bytes(payload))
        .map(drop);
    debug_assert!(result.is_ok());
    bytes
}
