//! A file with one secret: 32 random bytes, made once, for its owner's eyes only.
//!
//! For secrets without a public half: a vault's key, a device's audit key. The rules are those of [key files](super):
//! ours, closed to everybody else, never overwritten.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::file::{self, KeyFileError};

/// How long a secret is.
pub const SECRET_BYTES: usize = 32;

/// Why there is no secret. Nothing of it is repeated.
#[derive(Debug, thiserror::Error)]
pub enum SecretFileError {
    /// Open to others, not ours, no file, there already, or out of reach.
    #[error(transparent)]
    File(#[from] KeyFileError),
    /// Too short or too long.
    #[error("`{}` is no secret of {SECRET_BYTES} bytes, or a damaged one", .0.display())]
    Length(PathBuf),
    /// The operating system gives no random numbers.
    #[error("no random numbers for a secret: {0}")]
    Random(getrandom::Error),
}

/// The secret in a file, or a new one if there is no file.
///
/// Not for a secret without which something that exists already is lost: a new one would hide that. Use [`load`] and
/// [`create`] there.
pub fn load_or_create(path: &Path) -> Result<Zeroizing<[u8; SECRET_BYTES]>, SecretFileError> {
    match load(path)? {
        Some(secret) => Ok(secret),
        None => create(path),
    }
}

/// The secret in a file, or `None` if there is no file. A symbolic link is judged by what it leads to.
pub fn load(path: &Path) -> Result<Option<Zeroizing<[u8; SECRET_BYTES]>>, SecretFileError> {
    let file = match file::open(path) {
        Err(KeyFileError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    // Room for all of it: a buffer that grows leaves copies behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(2 * SECRET_BYTES));
    file.take(SECRET_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(|source| refused(path, source))?;
    let secret = bytes.as_slice().try_into().map_err(|_| SecretFileError::Length(path.into()))?;
    Ok(Some(Zeroizing::new(secret)))
}

/// Makes a secret, and returns it when it is on the disk. Never replaces a file.
pub fn create(path: &Path) -> Result<Zeroizing<[u8; SECRET_BYTES]>, SecretFileError> {
    let mut secret = Zeroizing::new([0; SECRET_BYTES]);
    getrandom::fill(&mut *secret).map_err(SecretFileError::Random)?;
    write(path, &secret).map_err(|source| refused(path, source))?;
    Ok(secret)
}

fn write(path: &Path, secret: &[u8; SECRET_BYTES]) -> io::Result<()> {
    // Complete before it has its name: a crash must not leave half a secret, with which nothing could be opened.
    let mut draft = OsString::from(path);
    draft.push(".new");
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = File::options().write(true).create_new(true).mode(file::PRIVATE).open(&draft)?;
    file.write_all(secret)?;
    file.sync_all()?;
    // Unlike a rename, this fails if there is something of this name, be it a link that leads nowhere.
    let named = fs::hard_link(&draft, path);
    fs::remove_file(&draft)?;
    named?;
    file::sync_parent(path)
}

fn refused(path: &Path, source: io::Error) -> SecretFileError {
    SecretFileError::File(match source.kind() {
        ErrorKind::AlreadyExists => KeyFileError::Exists(path.into()),
        _ => KeyFileError::Io { path: path.into(), source },
    })
}
