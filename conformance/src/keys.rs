//! Secret keys of devices, in the form of the project's key files:
//!
//! ```text
//! consent-mesh secret keys 1
//! ed25519-secret:<64 lower-case hexadecimal digits>
//! x25519-secret:<64 lower-case hexadecimal digits>
//! ```
//!
//! Only those who make traces need them: simulations, and whoever puts a violation into a copy of one. An audit does not.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use ed25519_dalek::SigningKey;
use pilot_core::evidence::hex::{self, Hex};
use pilot_core::evidence::keys::KeyError;
use pilot_core::evidence::{SealingKey, Signer, VerifyingKey};
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

const FIRST_LINE: &str = "consent-mesh secret keys 1";
const SIGNING_PREFIX: &str = "ed25519-secret:";
const SEALING_PREFIX: &str = "x25519-secret:";
/// Only the owner reads it.
const PRIVATE: u32 = 0o600;

/// The largest key file; a larger one is something else, and refused.
pub const MAX_KEY_FILE_BYTES: u64 = 1024;

/// Why a key file was not written or not read. Nothing of its contents is repeated.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The file system refused.
    #[error("cannot use the key file `{}`: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Something else.
    #[error("`{}` is not a key file, or a damaged one", .0.display())]
    Malformed(PathBuf),
}

/// The secrets of a device or an operator.
#[derive(Clone)]
pub struct Keys {
    /// Signs.
    pub signing: SigningKey,
    sealing: StaticSecret,
}

impl Keys {
    /// The keys of these secrets.
    pub fn new(signing: &[u8; 32], sealing: [u8; 32]) -> Self {
        Self { signing: SigningKey::from_bytes(signing), sealing: StaticSecret::from(sealing) }
    }

    /// Verifies what these keys sign.
    pub fn verifying_key(&self) -> VerifyingKey {
        Signer::verifying_key(&self.signing)
    }

    /// Seals what is sent to whoever has these keys.
    pub fn sealing_key(&self) -> Result<SealingKey, KeyError> {
        SealingKey::from_bytes(PublicKey::from(&self.sealing).as_bytes())
    }

    /// Writes a file that must not exist yet.
    pub fn write(&self, path: &Path) -> Result<(), KeyFileError> {
        let (signing, sealing) =
            (Zeroizing::new(self.signing.to_bytes()), Zeroizing::new(StaticSecret::to_bytes(&self.sealing)));
        let (signing, sealing) = (Hex(signing.as_slice()), Hex(sealing.as_slice()));
        let text = Zeroizing::new(format!("{FIRST_LINE}\n{SIGNING_PREFIX}{signing}\n{SEALING_PREFIX}{sealing}\n"));
        write_private(path, text.as_bytes()).map_err(|error| KeyFileError::File { path: path.into(), error })
    }

    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, KeyFileError> {
        let mut text = Zeroizing::new(String::new());
        let file = File::open(path).map_err(|error| KeyFileError::File { path: path.into(), error })?;
        let malformed = || KeyFileError::Malformed(path.into());
        file.take(MAX_KEY_FILE_BYTES).read_to_string(&mut text).map_err(|_| malformed())?;
        let mut lines = text.lines();
        let is_ours = lines.next() == Some(FIRST_LINE);
        let mut secret = |prefix| lines.next()?.strip_prefix(prefix).and_then(hex::decode).map(Zeroizing::new);
        match (is_ours, secret(SIGNING_PREFIX), secret(SEALING_PREFIX)) {
            (true, Some(signing), Some(sealing)) => Ok(Self::new(&signing, *sealing)),
            _ => Err(malformed()),
        }
    }
}

/// Writes a file that must not exist yet and that only its owner can read.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    File::options().write(true).create_new(true).mode(PRIVATE).open(path)?.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_key_file_is_read_as_it_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.key");
        let keys = Keys::new(&[7; 32], [9; 32]);
        keys.write(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, PRIVATE);
        let read = Keys::read(&path).unwrap();
        assert_eq!(read.verifying_key(), keys.verifying_key());
        assert_eq!(read.sealing_key().unwrap(), keys.sealing_key().unwrap());
        assert!(matches!(keys.write(&path), Err(KeyFileError::File { .. })));
        std::fs::write(&path, "[keys]\n").unwrap();
        assert!(matches!(Keys::read(&path), Err(KeyFileError::Malformed(_))));
    }
}
