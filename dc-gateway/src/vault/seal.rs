//! Keys, seals and pseudonyms: XChaCha20-Poly1305 and HMAC-SHA256, and nothing of our own.
//!
//! A sealed text is a random nonce (24 bytes) and the ciphertext with its tag. Nonces of this length can be drawn at
//! random for as many records as a disk can hold.

use std::fmt;

use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::{Handle, Secret};

/// How long a nonce is.
const NONCE_BYTES: usize = 24;
/// SHA-256 works on blocks of this length, and HMAC fills its key up to it with zeros.
const BLOCK_BYTES: usize = 64;

/// Why something could not be sealed or opened.
#[derive(Debug, Clone, Copy)]
pub(super) enum SealError {
    Random(getrandom::Error),
    Seal,
}

impl From<getrandom::Error> for SealError {
    fn from(error: getrandom::Error) -> Self {
        Self::Random(error)
    }
}

pub(super) fn random<const N: usize>() -> Result<[u8; N], getrandom::Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

fn seal(key: &[u8; 32], context: &[u8], text: &[u8]) -> Result<Vec<u8>, SealError> {
    let nonce: [u8; NONCE_BYTES] = random()?;
    let payload = Payload { msg: text, aad: context };
    let sealed = XChaCha20Poly1305::new(key.into()).encrypt(&nonce.into(), payload).map_err(|_| SealError::Seal)?;
    Ok([&nonce[..], &sealed].concat())
}

fn open(key: &[u8; 32], context: &[u8], sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, SealError> {
    let (nonce, sealed) = sealed.split_first_chunk::<NONCE_BYTES>().ok_or(SealError::Seal)?;
    let payload = Payload { msg: sealed, aad: context };
    let text = XChaCha20Poly1305::new(key.into()).decrypt(nonce.into(), payload);
    text.map(Zeroizing::new).map_err(|_| SealError::Seal)
}

/// The key that one record's value is sealed with.
pub(super) struct RecordKey(Zeroizing<[u8; 32]>);

impl RecordKey {
    pub(super) fn new() -> Result<Self, getrandom::Error> {
        random().map(Zeroizing::new).map(Self)
    }

    pub(super) fn seal(&self, context: &[u8], value: &Secret) -> Result<Vec<u8>, SealError> {
        seal(&self.0, context, value.expose())
    }

    pub(super) fn open(&self, context: &[u8], sealed: &[u8]) -> Result<Secret, SealError> {
        open(&self.0, context, sealed).map(Secret)
    }
}

/// The key that the record keys are sealed with.
pub(super) struct VaultKey(Zeroizing<[u8; 32]>);

/// What is sealed to recognise the vault's key.
const CHECK: &[u8] = b"consent-mesh vault key";

impl VaultKey {
    pub(super) fn new(bytes: Zeroizing<[u8; 32]>) -> Self {
        Self(bytes)
    }

    pub(super) fn wrap(&self, handle: Handle, key: &RecordKey) -> Result<Vec<u8>, SealError> {
        seal(&self.0, &handle.0, &*key.0)
    }

    pub(super) fn unwrap(&self, handle: Handle, wrapped: &[u8]) -> Result<RecordKey, SealError> {
        let bytes = open(&self.0, &handle.0, wrapped)?;
        let bytes: [u8; 32] = bytes.as_slice().try_into().map_err(|_| SealError::Seal)?;
        Ok(RecordKey(Zeroizing::new(bytes)))
    }

    /// By which the same key can be recognised.
    pub(super) fn check(&self) -> Result<Vec<u8>, SealError> {
        seal(&self.0, CHECK, &[])
    }

    /// Whether the check is this key's.
    pub(super) fn made(&self, check: &[u8]) -> bool {
        open(&self.0, CHECK, check).is_ok()
    }
}

/// The controller's audit key: who has it can tell which pseudonym is whose.
#[derive(Clone)]
pub struct AuditKey(Zeroizing<[u8; 32]>);

impl AuditKey {
    /// This key.
    pub fn new(bytes: Zeroizing<[u8; 32]>) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for AuditKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("AuditKey(..)")
    }
}

/// What stands for an item (an address): HMAC-SHA256 of it under the audit key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pseudonym([u8; 32]);

impl Pseudonym {
    /// Of an item, under a key.
    pub fn of(item: &[u8], key: &AuditKey) -> Self {
        let mut block = Zeroizing::new([0; BLOCK_BYTES]);
        block.iter_mut().zip(key.0.iter()).for_each(|(to, from)| *to = *from);
        let block: &[u8; BLOCK_BYTES] = &block;
        let mut hmac = <Hmac<Sha256> as KeyInit>::new(block.into());
        hmac.update(item);
        Self(hmac.finalize().into_bytes().into())
    }

    /// One that was stored.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Pseudonym {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl fmt::Debug for Pseudonym {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Pseudonym({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with Python's `hmac.new(bytes(range(32)), address, "sha256")`.
    #[test]
    fn a_pseudonym_is_the_hmac_of_the_item() {
        let key: [u8; 32] = std::array::from_fn(|at| at as u8);
        let pseudonym = Pseudonym::of(&[0xC0, 0xFF, 0xEE, 0x12, 0x34, 0x56], &AuditKey::new(Zeroizing::new(key)));
        assert_eq!(pseudonym.to_string(), "e06474a63a92790c97567cba51230685ff78616c9af8373b10c5627265ba7338");
    }

    #[test]
    fn a_seal_holds_for_its_key_its_context_and_its_text_only() {
        let (key, other) = ([1; 32], [2; 32]);
        let sealed = seal(&key, b"context", b"text").unwrap();
        assert_eq!(open(&key, b"context", &sealed).unwrap().as_slice(), b"text");
        assert!(open(&other, b"context", &sealed).is_err());
        assert!(open(&key, b"contexT", &sealed).is_err());
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert!(open(&key, b"context", &changed).is_err(), "byte {at}");
            assert!(open(&key, b"context", &sealed[..at]).is_err(), "cut at {at}");
        }
        assert_ne!(seal(&key, b"context", b"text").unwrap(), sealed, "a nonce is never used twice");
    }
}
