//! A withdraw notice, for the eyes of one controller. A broker is not a party to the consent, and the notice names a
//! person's item.
//!
//! ```text
//! sealed = encapsulated key (32 bytes) ‖ ciphertext and tag
//!          HPKE (RFC 9180), base mode, DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, ChaCha20-Poly1305
//!          info = "consent-mesh/withdraw/1" ␀ ‖ the controller's frame tag, aad = empty
//!
//! plain  = [1, item: bstr .size 6, epoch: uint, until: uint,
//!           signature: [key: bstr .size 32, signature: bstr .size 64] / null]
//!
//! signed = "consent-mesh/withdraw/1" ␀ ‖ tag (4) ‖ item (6) ‖ epoch (8) ‖ until (8)      numbers big-endian
//! ```
//!
//! A consent that was signed is withdrawn by the key that signed it. For one that was not, whoever can name the address
//! may withdraw it: we err on the side of erasing.

use std::fmt;

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use hpke::aead::ChaCha20Poly1305;
use hpke::kdf::HkdfSha256;
use hpke::kem::X25519HkdfSha256;
use hpke::{Deserializable, Kem, OpModeR, OpModeS, Serializable, single_shot_open, single_shot_seal};
use minicbor::Encoder;
use pilot_core::evidence::SealingKey;
use pilot_core::evidence::form::{self, FormError, WriteResult};
use pilot_core::evidence::mesh::FrameTag;
use pilot_core::graph::message::Withdrawal;
use pilot_core::semantics::Epoch;
use pilot_core::value::Time;
use zeroize::Zeroizing;

use crate::air::Address;
use crate::keys::SecretKeys;
use pilot_core::evidence::consent::ConsentSignature;

const DOMAIN: &[u8; 24] = b"consent-mesh/withdraw/1\0";
const FORM: (u8, u64) = (1, 5);
const ENCAPSULATED_BYTES: usize = 32;

/// The longest sealed notice; a longer one is refused unread.
pub const MAX_SEALED_BYTES: usize = 256;

/// A subject takes releases of her item back.
#[derive(Clone, PartialEq, Eq)]
pub struct Notice {
    /// i.
    pub item: Address,
    /// Which releases.
    pub withdrawal: Withdrawal,
    /// By the key that signed the consent, if it was signed.
    pub signature: Option<ConsentSignature>,
}

/// Why there is no notice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealedError {
    /// More than [`MAX_SEALED_BYTES`], or too few.
    #[error("no sealed notice has {0} bytes")]
    Length(usize),
    /// The key is none.
    #[error("this is no key to seal with")]
    Key,
    /// Sealed for somebody else, or changed.
    #[error("not sealed for this device, or changed since")]
    Seal,
    /// Not the form of a notice.
    #[error("no notice: {0}")]
    Form(#[from] FormError),
}

impl Notice {
    /// Signs the notice with the key that signed the consent.
    pub fn sign(mut self, controller: FrameTag, key: &SigningKey) -> Self {
        let signature = key.sign(&self.signed_bytes(controller)).to_bytes();
        self.signature = Some(ConsentSignature { key: key.verifying_key().to_bytes(), signature });
        self
    }

    /// Whether the holder of this public key signed the notice, for this controller.
    pub fn is_signed_by(&self, key: &[u8; 32], controller: FrameTag) -> bool {
        let Some(signature) = self.signature.filter(|signature| signature.key == *key) else { return false };
        let bytes = self.signed_bytes(controller);
        VerifyingKey::from_bytes(key)
            .is_ok_and(|key| key.verify_strict(&bytes, &Signature::from_bytes(&signature.signature)).is_ok())
    }

    /// Seals the notice for a controller.
    pub fn seal(&self, controller: FrameTag, key: &SealingKey) -> Result<Vec<u8>, SealedError> {
        let key = public_key(key.as_bytes())?;
        let plain = Zeroizing::new(self.write());
        let (encapsulated, sealed) = single_shot_seal::<ChaCha20Poly1305, HkdfSha256, X25519HkdfSha256>(
            &OpModeS::Base,
            &key,
            &info(controller),
            &plain,
            &[],
        )
        .map_err(|_| SealedError::Seal)?;
        Ok([encapsulated.to_bytes().as_slice(), &sealed].concat())
    }

    /// Opens a notice that was sealed for this controller.
    pub fn open(sealed: &[u8], controller: FrameTag, keys: &SecretKeys) -> Result<Self, SealedError> {
        let (encapsulated, ciphertext) = match sealed.split_at_checked(ENCAPSULATED_BYTES) {
            Some(parts) if sealed.len() <= MAX_SEALED_BYTES => parts,
            _ => return Err(SealedError::Length(sealed.len())),
        };
        let encapsulated = <X25519HkdfSha256 as Kem>::EncappedKey::from_bytes(encapsulated);
        let secret = <X25519HkdfSha256 as Kem>::PrivateKey::from_bytes(keys.sealing_secret().as_bytes());
        let plain = single_shot_open::<ChaCha20Poly1305, HkdfSha256, X25519HkdfSha256>(
            &OpModeR::Base,
            &secret.map_err(|_| SealedError::Key)?,
            &encapsulated.map_err(|_| SealedError::Seal)?,
            &info(controller),
            ciphertext,
            &[],
        );
        let plain = Zeroizing::new(plain.map_err(|_| SealedError::Seal)?);
        Ok(Self::read(&plain)?)
    }

    fn signed_bytes(&self, controller: FrameTag) -> Vec<u8> {
        let (item, Withdrawal { epoch, until }) = (self.item.reveal(), self.withdrawal);
        [&DOMAIN[..], &controller.0, &item, &epoch.0.to_be_bytes(), &until.unix().to_be_bytes()].concat()
    }

    fn read(plain: &[u8]) -> Result<Self, FormError> {
        let notice = form::read(plain, FORM, |decoder| {
            let item = Address::new(form::fixed(decoder)?);
            let withdrawal = Withdrawal { epoch: Epoch(decoder.u64()?), until: Time::from_unix(decoder.u64()?) };
            let signature = form::optional(decoder, |decoder| {
                if decoder.array()? != Some(2) {
                    return Err(minicbor::decode::Error::message("a key and a signature were needed"));
                }
                Ok(ConsentSignature { key: form::fixed(decoder)?, signature: form::fixed(decoder)? })
            })?;
            Ok(Self { item, withdrawal, signature })
        })?;
        form::check_canonical(&Zeroizing::new(notice.write()), plain)?;
        Ok(notice)
    }

    fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(MAX_SEALED_BYTES);
        let result = self.write_to(&mut Encoder::new(&mut bytes));
        // INVARIANT: writing to a `Vec` cannot fail.
        debug_assert!(result.is_ok());
        bytes
    }

    fn write_to(&self, out: &mut Encoder<&mut Vec<u8>>) -> WriteResult {
        let Withdrawal { epoch, until } = self.withdrawal;
        out.array(FORM.1)?.u8(FORM.0)?.bytes(&self.item.reveal())?.u64(epoch.0)?.u64(until.unix())?;
        match &self.signature {
            Some(ConsentSignature { key, signature }) => out.array(2)?.bytes(key)?.bytes(signature)?,
            None => out.null()?,
        };
        Ok(())
    }
}

/// Says that there is one.
impl fmt::Debug for Notice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Notice(hidden)")
    }
}

fn info(controller: FrameTag) -> Vec<u8> {
    [&DOMAIN[..], &controller.0].concat()
}

fn public_key(bytes: &[u8; 32]) -> Result<<X25519HkdfSha256 as Kem>::PublicKey, SealedError> {
    <X25519HkdfSha256 as Kem>::PublicKey::from_bytes(bytes).map_err(|_| SealedError::Key)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: FrameTag = FrameTag([0, 0xc0, 0xff, 0xee]);

    fn notice() -> Notice {
        let withdrawal = Withdrawal { epoch: Epoch(27_000_000), until: Time::from_unix(2_000_000_000) };
        Notice { item: Address::new([0xc0, 0xff, 0xee, 1, 2, 3]), withdrawal, signature: None }
    }

    /// Only the controller it is for can open a notice, and nobody can change it.
    #[test]
    fn notices_are_for_one_controller() {
        let (gate, other) = (SecretKeys::generate().unwrap(), SecretKeys::generate().unwrap());
        let signed = notice().sign(TAG, &SigningKey::from_bytes(&[3; 32]));
        for notice in [notice(), signed] {
            let sealed = notice.seal(TAG, &gate.public().sealing).unwrap();
            assert!(sealed.len() <= MAX_SEALED_BYTES);
            assert_eq!(Notice::open(&sealed, TAG, &gate).as_ref(), Ok(&notice));
            assert_eq!(Notice::open(&sealed, TAG, &other), Err(SealedError::Seal));
            assert_eq!(Notice::open(&sealed, FrameTag([0; 4]), &gate), Err(SealedError::Seal));
            for at in 0..sealed.len() {
                let mut changed = sealed.clone();
                changed[at] ^= 1;
                // One bit of an X25519 key does not matter (RFC 7748 §5), but HPKE binds the bytes.
                assert!(Notice::open(&changed, TAG, &gate).is_err(), "byte {at}");
            }
        }
        assert_eq!(Notice::open(&[0; 10], TAG, &gate), Err(SealedError::Length(10)));
    }

    /// A signature is for one controller, one item and one withdrawal.
    #[test]
    fn signatures_are_for_one_notice() {
        let key = SigningKey::from_bytes(&[3; 32]);
        let public = key.verifying_key().to_bytes();
        let signed = notice().sign(TAG, &key);
        assert!(signed.is_signed_by(&public, TAG));
        assert!(!signed.is_signed_by(&public, FrameTag([0; 4])));
        assert!(!signed.is_signed_by(&SigningKey::from_bytes(&[4; 32]).verifying_key().to_bytes(), TAG));
        assert!(!notice().is_signed_by(&public, TAG), "not signed at all");
        let other_item = Notice { item: Address::new([0; 6]), ..signed.clone() };
        assert!(!other_item.is_signed_by(&public, TAG));
        let later = Withdrawal { epoch: Epoch(signed.withdrawal.epoch.0 + 1), ..signed.withdrawal };
        assert!(!Notice { withdrawal: later, ..signed }.is_signed_by(&public, TAG));
    }
}
