//! The file with the vault's key: 32 random bytes, for its owner's eyes only.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// Others can read or change it.
    #[error("the key file `{path}` has mode {mode:04o}, others than its owner may use it; `chmod 600` it")]
    Permissions {
        /// Where.
        path: PathBuf,
        /// The permission bits.
        mode: u32,
    },
    /// Not 32 bytes.
    #[error("the key file `{0}` does not have 32 bytes")]
    Length(PathBuf),
    /// The file system refused.
    #[error("cannot use the key file `{path}`: {source}")]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The operating system gives no random numbers.
    #[error("no random numbers for a key: {0}")]
    Random(getrandom::Error),
}

/// The key, or `None` if there is no such file.
pub(super) fn load(path: &Path) -> Result<Option<Zeroizing<[u8; 32]>>, KeyFileError> {
    let at = |source| KeyFileError::Io { path: path.into(), source };
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(at)?,
    };
    // Of the open file: what the path names may change.
    let mode = file.metadata().map_err(at)?.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(KeyFileError::Permissions { path: path.into(), mode });
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(64));
    file.take(33).read_to_end(&mut bytes).map_err(at)?;
    let key = bytes.as_slice().try_into().map_err(|_| KeyFileError::Length(path.into()))?;
    Ok(Some(Zeroizing::new(key)))
}

/// Makes a key, and returns it when it is on the disk. Never replaces a file.
pub(super) fn create(path: &Path) -> Result<Zeroizing<[u8; 32]>, KeyFileError> {
    let key = Zeroizing::new(super::seal::random().map_err(KeyFileError::Random)?);
    let write = || {
        // Complete before it has its name: a crash must not leave half a key, with which nothing could be opened.
        let draft = super::open::draft(path);
        super::open::remove_if_there(&draft)?;
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&draft)?;
        file.write_all(&*key)?;
        file.sync_all()?;
        // Unlike a rename, this fails if somebody else was faster.
        fs::hard_link(&draft, path)?;
        fs::remove_file(&draft)?;
        super::open::sync_parent(path)
    };
    write().map_err(|source| KeyFileError::Io { path: path.into(), source })?;
    Ok(key)
}
