//! Keys and seals: XChaCha20-Poly1305, and nothing of our own.
//!
//! A sealed text is a random nonce (24 bytes) and the ciphertext with its tag. Nonces of this length can be drawn at
//! random for as many records as a disk can hold.

use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305};
use zeroize::Zeroizing;

use super::{Handle, Secret};

/// How long a nonce is.
const NONCE_BYTES: usize = 24;

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

#[cfg(test)]
mod tests {
    use super::*;

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
