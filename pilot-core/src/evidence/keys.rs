//! Keys: Ed25519 (RFC 8032) to verify with, X25519 (RFC 7748) to seal to, and the trait behind which secrets stay.
//!
//! Written `ed25519:…`, `x25519:…` and `ed25519-signature:…` with lower-case hexadecimal digits. A key that exists can
//! be relied on: it has one byte form, and it is none of the degenerate points with which a signature would say nothing
//! and a seal would hide nothing.

use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use super::hex::{self, Hex};
use crate::diagnostic::Quoted;

const SEALING_PREFIX: &str = "x25519:";
const SIGNATURE_PREFIX: &str = "ed25519-signature:";

/// Signs for a device or an operator: the only thing here that knows a secret, and it is made elsewhere.
pub trait Signer {
    /// The key that verifies what this signs.
    fn verifying_key(&self) -> VerifyingKey;
    /// The Ed25519 signature of exactly these bytes.
    fn sign(&self, bytes: &[u8]) -> Signature;
}

impl<S: Signer + ?Sized> Signer for alloc::sync::Arc<S> {
    fn verifying_key(&self) -> VerifyingKey {
        (**self).verifying_key()
    }

    fn sign(&self, bytes: &[u8]) -> Signature {
        (**self).sign(bytes)
    }
}

impl Signer for ed25519_dalek::SigningKey {
    fn verifying_key(&self) -> VerifyingKey {
        // INVARIANT: the public key of a secret one is canonical and of large order (RFC 8032 §5.1.5 clamps the scalar).
        VerifyingKey(Self::verifying_key(self))
    }

    fn sign(&self, bytes: &[u8]) -> Signature {
        Signature(ed25519_dalek::Signer::sign(self, bytes).to_bytes())
    }
}

/// Why something is no key or signature.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not the prefix that says what it is.
    #[error("{found} does not start with `{expected}`")]
    Prefix {
        /// What it must start with.
        expected: &'static str,
        /// What it starts with.
        found: Quoted,
    },
    /// Not as many lower-case hexadecimal digits as there must be.
    #[error("`{prefix}` is followed by {digits} lower-case hexadecimal digits")]
    Digits {
        /// What stands before the digits.
        prefix: &'static str,
        /// How many there must be.
        digits: usize,
    },
    /// No point of the curve, or another form of one.
    #[error("these bytes are no public key")]
    NotAKey,
    /// A point of small order: it would verify what nobody signed, or seal to everybody.
    #[error("this is a weak key, which anybody can use")]
    Weak,
}

/// The bytes after a prefix. An error repeats at most what stands in the prefix's place: somebody may have pasted a
/// secret.
fn parse<const N: usize>(text: &str, prefix: &'static str) -> Result<[u8; N], KeyError> {
    let Some(digits) = text.strip_prefix(prefix) else {
        let found = text.split_once(':').map_or("this", |(kind, _)| kind);
        return Err(KeyError::Prefix { expected: prefix, found: Quoted::new(found) });
    };
    hex::decode(digits).ok_or(KeyError::Digits { prefix, digits: 2 * N })
}

/// A public key that verifies Ed25519 signatures.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct VerifyingKey(ed25519_dalek::VerifyingKey);

impl VerifyingKey {
    /// What its written form begins with.
    pub const PREFIX: &str = "ed25519:";

    /// The key of these bytes; refused if they are no point, not its only form, or of small order.
    pub fn from_bytes(bytes: &[u8; 32]) -> Result<Self, KeyError> {
        let [rest @ .., last] = *bytes;
        // The highest bit is the sign of x; the others are y, which the library reduces instead of refusing.
        if !is_below_prime(&rest, last & 0x7f) {
            return Err(KeyError::NotAKey);
        }
        let key = ed25519_dalek::VerifyingKey::from_bytes(bytes).map_err(|_| KeyError::NotAKey)?;
        if key.is_weak() { Err(KeyError::Weak) } else { Ok(Self(key)) }
    }

    /// The bytes of this key.
    pub fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    /// Whether the holder of the secret key signed exactly these bytes. Strict: no second signature can be made from
    /// one without the secret.
    #[must_use]
    pub fn verifies(&self, bytes: &[u8], signature: &Signature) -> bool {
        self.0.verify_strict(bytes, &ed25519_dalek::Signature::from_bytes(&signature.0)).is_ok()
    }
}

/// A signature that is still to be verified.
#[derive(Debug, Clone)]
pub struct Unverified {
    /// Whose it should be.
    pub key: VerifyingKey,
    /// What it should be of.
    pub bytes: Vec<u8>,
    /// The signature.
    pub signature: Signature,
}

/// Whether all of these are signatures of their bytes by the holders of their keys, in one equation: for who has many of them
/// that is two or three times faster than one after the other. If it does not hold, [`VerifyingKey::verifies`] says for which.
///
/// R is looked at as strictly as there. Only a holder of the secret key could still make a signature that is accepted here and
/// not by itself, with an R of mixed order and some luck, which depends on what else is verified; it is a signature, too.
#[must_use]
pub fn verify_all(signatures: &[Unverified]) -> bool {
    if signatures.iter().any(|one| has_weak_point(&one.signature)) {
        return false;
    }
    let bytes: Vec<&[u8]> = signatures.iter().map(|one| one.bytes.as_slice()).collect();
    let keys: Vec<_> = signatures.iter().map(|one| one.key.0).collect();
    let signatures: Vec<_> =
        signatures.iter().map(|one| ed25519_dalek::Signature::from_bytes(&one.signature.0)).collect();
    ed25519_dalek::verify_batch(&bytes, &signatures, &keys).is_ok()
}

/// y of the points of small order.
const WEAK_POINTS: [[u8; 32]; 5] = [
    [0; 32],
    [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    [
        0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0, 0xd5, 0xdf,
        0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05,
    ],
    [
        0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f, 0x2a, 0x20,
        0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a,
    ],
    [
        0xec, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f,
    ],
];

/// Whether R is of small order, or not in its only form.
fn has_weak_point(signature: &Signature) -> bool {
    let Some(point) = signature.0.first_chunk::<32>() else { return true };
    let [rest @ .., last] = *point;
    // The highest bit is the sign of x.
    let is_weak = |weak: &[u8; 32]| rest == weak[..31] && last & 0x7f == weak[31];
    !is_below_prime(&rest, last & 0x7f) || WEAK_POINTS.iter().any(is_weak)
}

impl PartialOrd for VerifyingKey {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// By bytes.
impl Ord for VerifyingKey {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl fmt::Display for VerifyingKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}{}", Self::PREFIX, Hex(self.as_bytes()))
    }
}

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl FromStr for VerifyingKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        Self::from_bytes(&parse(text, VerifyingKey::PREFIX)?)
    }
}

/// A public key to seal messages to (X25519).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SealingKey([u8; 32]);

/// The points of small order: with these, the shared secret is zero whatever the other secret is (RFC 7748 §6.1).
const WEAK_SEALING_KEYS: [[u8; 32]; 5] = [
    [0; 32],
    [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    [
        0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3, 0xfa, 0xf1, 0x9f, 0xc4, 0x6a, 0xda, 0x09,
        0x8d, 0xeb, 0x9c, 0x32, 0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16, 0x5f, 0x49, 0xb8, 0x00,
    ],
    [
        0x5f, 0x9c, 0x95, 0xbc, 0xa3, 0x50, 0x8c, 0x24, 0xb1, 0xd0, 0xb1, 0x55, 0x9c, 0x83, 0xef, 0x5b, 0x04, 0x44,
        0x5c, 0xc4, 0x58, 0x1c, 0x8e, 0x86, 0xd8, 0x22, 0x4e, 0xdd, 0xd0, 0x9f, 0x11, 0x57,
    ],
    [
        0xec, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f,
    ],
];

impl SealingKey {
    /// The key of these bytes; refused if they are not its only form, or of small order.
    pub fn from_bytes(bytes: &[u8; 32]) -> Result<Self, KeyError> {
        let [rest @ .., last] = *bytes;
        if last > 0x7f || !is_below_prime(&rest, last) {
            return Err(KeyError::NotAKey);
        }
        if WEAK_SEALING_KEYS.contains(bytes) { Err(KeyError::Weak) } else { Ok(Self(*bytes)) }
    }

    /// The bytes of this key.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Whether a number of 255 bits, lowest byte first, is below 2²⁵⁵ − 19.
fn is_below_prime(rest: &[u8; 31], last: u8) -> bool {
    let [first, middle @ ..] = rest;
    *first < 0xed || last < 0x7f || middle.iter().any(|byte| *byte < 0xff)
}

impl fmt::Display for SealingKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{SEALING_PREFIX}{}", Hex(&self.0))
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl FromStr for SealingKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        Self::from_bytes(&parse(text, SEALING_PREFIX)?)
    }
}

/// An Ed25519 signature, not yet verified.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Signature(pub [u8; 64]);

impl fmt::Display for Signature {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{SIGNATURE_PREFIX}{}", Hex(&self.0))
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl FromStr for Signature {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        parse(text, SIGNATURE_PREFIX).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The points of small order are those that are refused as keys, with either sign.
    #[test]
    fn weak_points_are_weak_keys() {
        for weak in WEAK_POINTS {
            let [rest @ .., last] = weak;
            for sign in [0, 0x80] {
                let mut bytes = [0; 64];
                bytes.iter_mut().zip(rest).for_each(|(to, from)| *to = from);
                bytes[31] = last | sign;
                assert!(has_weak_point(&Signature(bytes)));
                let key = VerifyingKey::from_bytes(bytes.first_chunk().unwrap());
                // x = 0 has one sign only.
                assert!(matches!(key, Err(KeyError::Weak | KeyError::NotAKey)), "{key:?}");
                assert!(sign != 0 || matches!(key, Err(KeyError::Weak)), "{key:?}");
            }
        }
    }
}
