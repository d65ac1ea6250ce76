//! The file of secret keys: made once, for its owner's eyes only.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use pilot_core::evidence::hex::{self, Hex};
use zeroize::Zeroizing;

use super::{GenerateError, SecretKeys};

/// The first line; the number is the version of the form.
const FIRST_LINE: &str = "consent-mesh secret keys 1";
/// What stands before the version in the first line of any version.
const FIRST_WORDS: &str = "consent-mesh secret keys ";
const SIGNING_PREFIX: &str = "ed25519-secret:";
const SEALING_PREFIX: &str = "x25519-secret:";
/// Permissions of a new file.
pub(super) const PRIVATE: u32 = 0o600;
/// What group and others may do.
const OF_OTHERS: u32 = 0o077;

/// The largest key file; a larger one is something else, and refused.
pub const MAX_KEY_FILE_BYTES: usize = 1024;

/// Why a key file was not made or not used. Nothing of its contents is repeated.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// No new keys.
    #[error(transparent)]
    Generate(#[from] GenerateError),
    /// There is something of this name already.
    #[error("`{}` exists already, and keys are never overwritten", .0.display())]
    Exists(PathBuf),
    /// Others can read or change it.
    #[error(
        "`{}` holds secret keys but has mode {mode:04o}: others may have read them; \
         `chmod 600` it if you are sure that nobody has, otherwise make new keys",
        .path.display()
    )]
    Permissions {
        /// Where.
        path: PathBuf,
        /// The permission bits.
        mode: u32,
    },
    /// Somebody else can change it, and its permissions.
    #[error("`{}` holds secret keys but belongs to user {owner}, and this is user {user}", .path.display())]
    Owner {
        /// Where.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Who we are.
        user: u32,
    },
    /// A directory, a pipe or the like.
    #[error("`{}` is not a regular file", .0.display())]
    NotAFile(PathBuf),
    /// Another version of the form.
    #[error("`{}` is a key file of a version that this program does not know", .0.display())]
    Version(PathBuf),
    /// Something else.
    #[error("`{}` is not a key file, or a damaged one", .0.display())]
    Malformed(PathBuf),
    /// The file system refused.
    #[error("cannot use the key file `{}`: {source}", .path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Writes a new file, in which nobody else can look at any moment.
pub(super) fn create(path: &Path, keys: &SecretKeys) -> Result<(), KeyFileError> {
    // With O_EXCL: not even a symbolic link that leads nowhere is followed.
    let file = File::options().write(true).create_new(true).mode(PRIVATE).open(path);
    let mut file = file.map_err(|source| match source.kind() {
        ErrorKind::AlreadyExists => KeyFileError::Exists(path.into()),
        _ => KeyFileError::Io { path: path.into(), source },
    })?;
    let written = file.write_all(text(keys).as_bytes()).and_then(|()| file.sync_all()).and_then(|()| sync_parent(path));
    written.map_err(|source| {
        // Half a key is no use to anybody. The first error is the one to tell.
        let _ = fs::remove_file(path);
        KeyFileError::Io { path: path.into(), source }
    })
}

fn text(keys: &SecretKeys) -> Zeroizing<String> {
    // Room for all of it: a text that grows leaves copies behind.
    let mut text = Zeroizing::new(String::with_capacity(MAX_KEY_FILE_BYTES));
    let signing = Zeroizing::new(keys.signing.to_bytes());
    let sealing = Zeroizing::new(keys.sealing.to_bytes());
    let written = writeln!(
        text,
        "{FIRST_LINE}\n{SIGNING_PREFIX}{}\n{SEALING_PREFIX}{}",
        Hex(signing.as_slice()),
        Hex(sealing.as_slice())
    );
    // INVARIANT: writing to a `String` cannot fail.
    debug_assert!(written.is_ok());
    text
}

/// A file lasts once its directory is on the disk.
pub(super) fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)?.sync_all()
}

pub(super) fn load(path: &Path) -> Result<SecretKeys, KeyFileError> {
    let text = read(path)?;
    let mut lines = text.split('\n');
    match lines.next() {
        Some(FIRST_LINE) => {}
        Some(line) if line.starts_with(FIRST_WORDS) => return Err(KeyFileError::Version(path.into())),
        _ => return Err(KeyFileError::Malformed(path.into())),
    }
    let malformed = || KeyFileError::Malformed(path.into());
    let mut secret = |prefix| -> Option<Zeroizing<[u8; 32]>> {
        lines.next()?.strip_prefix(prefix).and_then(hex::decode).map(Zeroizing::new)
    };
    let signing = secret(SIGNING_PREFIX).ok_or_else(malformed)?;
    let sealing = secret(SEALING_PREFIX).ok_or_else(malformed)?;
    // After the last line there is nothing.
    if lines.next() != Some("") || lines.next().is_some() {
        return Err(malformed());
    }
    SecretKeys::from_secrets(&signing, &sealing).map_err(|_| malformed())
}

/// A file that only we can read.
pub(super) fn open(path: &Path) -> Result<File, KeyFileError> {
    let at = |source| KeyFileError::Io { path: path.into(), source };
    // Before it is opened, because a pipe would keep us waiting.
    if !path.metadata().map_err(at)?.is_file() {
        return Err(KeyFileError::NotAFile(path.into()));
    }
    let file = File::open(path).map_err(at)?;
    // Of the open file: what the path names may have changed.
    let metadata = file.metadata().map_err(at)?;
    let (owner, user) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if owner != user {
        return Err(KeyFileError::Owner { path: path.into(), owner, user });
    }
    let mode = metadata.mode() & 0o7777;
    if mode & OF_OTHERS != 0 {
        return Err(KeyFileError::Permissions { path: path.into(), mode });
    }
    Ok(file)
}

/// The contents of a file that only we can read.
fn read(path: &Path) -> Result<Zeroizing<String>, KeyFileError> {
    let file = open(path)?;
    // Room for all of it: a buffer that grows leaves copies behind.
    let mut text = Zeroizing::new(String::with_capacity(MAX_KEY_FILE_BYTES + 1));
    match file.take(MAX_KEY_FILE_BYTES as u64 + 1).read_to_string(&mut text) {
        Ok(read) if read <= MAX_KEY_FILE_BYTES => Ok(text),
        Err(source) if source.kind() != ErrorKind::InvalidData => Err(KeyFileError::Io { path: path.into(), source }),
        // Too large, or no text.
        _ => Err(KeyFileError::Malformed(path.into())),
    }
}
