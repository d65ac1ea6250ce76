//! Pseudonyms: what stands for an item wherever evidence is kept.
//!
//! A pseudonym is HMAC-SHA256(K, item). K is the audit key of the device that writes the evidence; it lies in a file of
//! its own, apart from the evidence. Without K nobody can try out addresses, and destroying K ends linkability.

use core::fmt;
use core::hash::{Hash, Hasher};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::hex::Hex;

/// SHA-256 works on blocks of this length, and HMAC fills its key up to it with zeros.
const BLOCK_BYTES: usize = 64;

/// K: who has it can tell which pseudonym is whose.
#[derive(Clone)]
pub struct AuditKey(Zeroizing<[u8; 32]>);

impl AuditKey {
    /// This key.
    pub fn new(bytes: Zeroizing<[u8; 32]>) -> Self {
        Self(bytes)
    }

    fn hmac(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut block = Zeroizing::new([0; BLOCK_BYTES]);
        block.iter_mut().zip(self.0.iter()).for_each(|(to, from)| *to = *from);
        let block: &[u8; BLOCK_BYTES] = &block;
        let mut hmac = <Hmac<Sha256> as KeyInit>::new(block.into());
        parts.iter().for_each(|part| hmac.update(part));
        hmac.finalize().into_bytes().into()
    }
}

impl fmt::Debug for AuditKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("AuditKey(..)")
    }
}

/// What stands for an item: HMAC-SHA256(K, item).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pseudonym([u8; 32]);

/// Word by word: an auditor looks pseudonyms up in every other record.
impl Hash for Pseudonym {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (words, _) = self.0.as_chunks();
        words.iter().for_each(|word| state.write_u64(u64::from_ne_bytes(*word)));
    }
}

impl Pseudonym {
    /// Of an item, under a key.
    pub fn of(item: &[u8], key: &AuditKey) -> Self {
        Self(key.hmac(&[item]))
    }

    /// One that was stored. No item has 32 bytes, so none can get here in its place.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Pseudonym {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        Hex(&self.0).fmt(out)
    }
}

impl fmt::Debug for Pseudonym {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Pseudonym({self})")
    }
}

/// That a subject signed her consent: HMAC-SHA256(K, "consent-mesh consent mark" ‖ public key ‖ signature).
///
/// The key and the signature themselves must not stand in evidence that others read: addresses are so few that trying
/// them all out against a signature would reveal the one that was signed. They are kept with the item, and who has K and
/// gets them can tell that they are those of the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsentMark(pub(super) [u8; 32]);

impl ConsentMark {
    /// Of a public key and its signature of a consent.
    pub fn of(public_key: &[u8; 32], signature: &[u8; 64], key: &AuditKey) -> Self {
        Self(key.hmac(&[b"consent-mesh consent mark", public_key, signature]))
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    /// Reference: Python's `hmac.new(bytes(range(32)), address, "sha256")`
    #[test]
    fn a_pseudonym_is_the_hmac_of_the_item() {
        let key = AuditKey::new(Zeroizing::new(core::array::from_fn(|at| at as u8)));
        let pseudonym = Pseudonym::of(&[0xC0, 0xFF, 0xEE, 0x12, 0x34, 0x56], &key);
        assert_eq!(pseudonym.to_string(), "e06474a63a92790c97567cba51230685ff78616c9af8373b10c5627265ba7338");
        assert_eq!(Pseudonym::from_bytes(*pseudonym.as_bytes()), pseudonym);
        assert_eq!(alloc::format!("{key:?}"), "AuditKey(..)");
    }
}
