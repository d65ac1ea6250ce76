//! The secrets of a device or an operator: an Ed25519 key to sign with and an X25519 key to open what is sealed to it.
//!
//! They live in one small file that is made once, never overwritten, and used only while it is closed to everybody but
//! its owner:
//!
//! ```text
//! consent-mesh secret keys 1
//! ed25519-secret:<64 lower-case hexadecimal digits>
//! x25519-secret:<64 lower-case hexadecimal digits>
//! ```
//!
//! The first line is neither TOML, JSON nor a policy on purpose: whatever else of ours is given such a file by mistake
//! stops there, and an error that shows the line shows no secret.
//!
//! Secrets that are 32 bytes and nothing else, such as an audit key, have files of their own: [`secret_file`].

mod file;
pub mod secret_file;

use std::fmt;
use std::path::Path;

use ed25519_dalek::SigningKey;
use pilot_core::evidence::keys::{KeyError, SealingKey, Signature, Signer, VerifyingKey};
use x25519_dalek::StaticSecret;
use zeroize::Zeroizing;

pub use self::file::{KeyFileError, MAX_KEY_FILE_BYTES};

/// What everybody may know of a device or an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicKeys {
    /// Verifies what it signs.
    pub signing: VerifyingKey,
    /// Seals what is sent to it.
    pub sealing: SealingKey,
}

/// Each on a line of its own.
impl fmt::Display for PublicKeys {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}\n{}", self.signing, self.sealing)
    }
}

/// Secret keys, wiped from memory when dropped. They cannot be copied, printed or compared.
pub struct SecretKeys {
    signing: SigningKey,
    sealing: StaticSecret,
    public: PublicKeys,
}

impl SecretKeys {
    /// New keys from the operating system's randomness, in no file: as a subject makes one per connection.
    pub fn generate() -> Result<Self, GenerateError> {
        let (signing, sealing) = (random()?, random()?);
        Ok(Self::from_secrets(&signing, &sealing)?)
    }

    /// Makes new keys and writes them to a file that must not exist yet; they are on the disk when this returns.
    pub fn create(path: &Path) -> Result<Self, KeyFileError> {
        let keys = Self::generate()?;
        file::create(path, &keys)?;
        Ok(keys)
    }

    /// Reads a key file; refused if it is not ours, or open to others. A symbolic link is judged by what it leads to.
    pub fn load(path: &Path) -> Result<Self, KeyFileError> {
        file::load(path)
    }

    /// The public halves.
    pub const fn public(&self) -> PublicKeys {
        self.public
    }

    /// The X25519 secret, for whoever opens sealed messages.
    pub const fn sealing_secret(&self) -> &StaticSecret {
        &self.sealing
    }

    fn from_secrets(signing: &[u8; 32], sealing: &[u8; 32]) -> Result<Self, KeyError> {
        let signing = SigningKey::from_bytes(signing);
        let sealing = StaticSecret::from(*sealing);
        let public = PublicKeys {
            signing: Signer::verifying_key(&signing),
            // Any secret has a good public key (RFC 7748 §5 clamps it), but this says so without a panic.
            sealing: SealingKey::from_bytes(x25519_dalek::PublicKey::from(&sealing).as_bytes())?,
        };
        Ok(Self { signing, sealing, public })
    }
}

impl Signer for SecretKeys {
    fn verifying_key(&self) -> VerifyingKey {
        self.public.signing
    }

    fn sign(&self, bytes: &[u8]) -> Signature {
        Signer::sign(&self.signing, bytes)
    }
}

/// The public halves only.
impl fmt::Debug for SecretKeys {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("SecretKeys").field("public", &self.public).finish_non_exhaustive()
    }
}

/// Why there are no new keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GenerateError {
    /// The operating system gives no random numbers.
    #[error("no random numbers for new keys: {0}")]
    Random(getrandom::Error),
    /// What came out is no key.
    #[error("the new keys are not usable: {0}")]
    Key(#[from] KeyError),
}

fn random() -> Result<Zeroizing<[u8; 32]>, GenerateError> {
    let mut bytes = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *bytes).map_err(GenerateError::Random)?;
    Ok(bytes)
}
