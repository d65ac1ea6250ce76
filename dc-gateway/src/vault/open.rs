//! Opening a vault: the key, the file, its integrity, and what fell due while it was closed.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use mesh_runtime::keys::secret_file::{self, SecretFileError};
use mesh_runtime::recorder::Position;
use pilot_core::value::Time;
use redb::{Builder, Database, DatabaseError, StorageError, WriteTransaction};

use super::file::{self, Bounded, HeaderError};
use super::seal::VaultKey;
use super::{Change, Swept, Vault, VaultError, tables};

/// How much redb may keep in memory. A gateway has little.
const CACHE_BYTES: usize = 4 << 20;

/// Why a vault could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The key file.
    #[error(transparent)]
    Key(#[from] SecretFileError),
    /// There is a vault but no key for it.
    #[error("the vault `{vault}` exists, but not its key file `{key}`; without it nothing in it can be read")]
    KeyMissing {
        /// Where the vault is.
        vault: PathBuf,
        /// Where the key should be.
        key: PathBuf,
    },
    /// The key is another vault's.
    #[error("the key in `{key}` is not the one of the vault `{vault}`")]
    WrongKey {
        /// Where the vault is.
        vault: PathBuf,
        /// Where the key is.
        key: PathBuf,
    },
    /// Locked.
    #[error("the vault `{0}` is in use by another process")]
    InUse(PathBuf),
    /// Made by another version of this program, or something else altogether.
    #[error("`{0}` is not a vault that this program can read")]
    OtherFormat(PathBuf),
    /// Its contents contradict each other, or cannot be read.
    #[error("the vault `{path}` is damaged: {problem}")]
    Damaged {
        /// Where.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The file system refused.
    #[error("cannot open the vault `{path}`: {source}")]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A new vault could not be made.
    #[error("cannot make the vault `{path}`: {source}")]
    Create {
        /// Where.
        path: PathBuf,
        /// Why.
        source: VaultError,
    },
    /// What was due could not be erased, so nothing may be read.
    #[error("cannot erase what is due in the vault `{path}`: {source}")]
    Sweep {
        /// Where.
        path: PathBuf,
        /// Why.
        source: VaultError,
    },
}

/// A vault that is open, from which nothing can be read yet: what is due is still in it, and what the trace says since
/// it was last written is not done.
#[derive(Debug)]
pub struct Unswept(Vault);

impl Unswept {
    /// See [`Vault::position`].
    pub fn position(&self) -> Result<Position, VaultError> {
        self.0.position()
    }

    /// See [`Vault::apply`].
    pub fn follow(&mut self, changes: &[Change], position: Position) -> Result<(), VaultError> {
        self.0.apply(changes, position)
    }

    /// Erases every record; tombstones stay. From `position` on, it follows this trace. Returns how many records.
    pub fn erase_all(&mut self, position: Position) -> Result<u64, VaultError> {
        self.0.erase_all(position)
    }

    /// Whatever is due at `now` is erased and out of the file when this returns, which says what it was.
    pub fn sweep(self, now: Time) -> Result<(Vault, Swept), OpenError> {
        let Self(mut vault) = self;
        let path = vault.path.clone();
        let swept =
            caught(&path, || vault.sweep(now).map_err(|source| OpenError::Sweep { path: path.clone(), source }))?;
        Ok((vault, swept))
    }
}

/// redb panics where damage leads it astray. Nothing has been served yet, so a panic is one more way to say so.
fn caught<T>(path: &Path, work: impl FnOnce() -> Result<T, OpenError>) -> Result<T, OpenError> {
    let done = catch_unwind(AssertUnwindSafe(work));
    done.unwrap_or_else(|_| Err(damaged(path, "the database cannot make sense of its file")))
}

impl Vault {
    /// [`Self::unlock`] and [`Unswept::sweep`] at once, for whoever has no trace to follow.
    pub fn open(path: &Path, key_file: &Path, now: Time) -> Result<(Self, Swept), OpenError> {
        Self::unlock(path, key_file)?.sweep(now)
    }

    /// Opens the vault at `path` with the key in `key_file`, or makes both if there is no vault yet. Reads the whole file
    /// once, to find damage; a damaged vault is refused.
    pub fn unlock(path: &Path, key_file: &Path) -> Result<Unswept, OpenError> {
        let at = |source| OpenError::Io { path: path.into(), source };
        let key = secret_file::load(key_file)?;
        let key = match (key, fs::exists(path).map_err(at)?) {
            (Some(key), _) => VaultKey::new(key),
            (None, false) => VaultKey::new(secret_file::create(key_file)?),
            (None, true) => return Err(OpenError::KeyMissing { vault: path.into(), key: key_file.into() }),
        };
        if !fs::exists(path).map_err(at)? {
            create(path, &key)?;
        }
        caught(path, || {
            let database = open_sound(path)?;
            recognise(path, key_file, &key, &database)?;
            remove_if_there(&draft(path)).map_err(at)?;
            Ok(Unswept(Self { path: path.into(), key, database }))
        })
    }
}

fn damaged(path: &Path, problem: impl ToString) -> OpenError {
    OpenError::Damaged { path: path.into(), problem: problem.to_string() }
}

/// A vault with nothing in it, which has its name only when it is complete: an empty file is a damaged vault.
fn create(path: &Path, key: &VaultKey) -> Result<(), OpenError> {
    let made = replace(path, |transaction| tables::create(transaction, &key.check()?));
    made.map(drop).map_err(|source| OpenError::Create { path: path.into(), source })
}

/// The live records of a vault in a new file, which then has the vault's name.
pub(super) fn rewrite(path: &Path, old: &Database) -> Result<Database, VaultError> {
    replace(path, |transaction| tables::copy(old, transaction))
}

/// Makes a database under another name, fills it, and lets it take the place of the one at `path` when all of it is on
/// the disk.
fn replace(
    path: &Path,
    fill: impl FnOnce(&WriteTransaction) -> Result<(), VaultError>,
) -> Result<Database, VaultError> {
    let draft = draft(path);
    remove_if_there(&draft).map_err(VaultError::Compact)?;
    let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&draft);
    let database = builder().create_file(file.map_err(VaultError::Compact)?)?;
    let transaction = database.begin_write()?;
    fill(&transaction)?;
    transaction.commit()?;
    fs::rename(&draft, path).and_then(|()| sync_parent(path)).map_err(VaultError::Compact)?;
    Ok(database)
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    // The format that later versions of redb read as well.
    builder.create_with_file_format_v3(true).set_cache_size(CACHE_BYTES);
    builder
}

/// Opens the database if its checksums hold.
fn open_sound(path: &Path) -> Result<Database, OpenError> {
    let at = |source| OpenError::Io { path: path.into(), source };
    let refused = |error| match error {
        DatabaseError::DatabaseAlreadyOpen => OpenError::InUse(path.into()),
        DatabaseError::UpgradeRequired(_) => OpenError::OtherFormat(path.into()),
        DatabaseError::Storage(StorageError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
            OpenError::OtherFormat(path.into())
        }
        DatabaseError::Storage(StorageError::Io(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
            damaged(path, "it refers to what is not there")
        }
        DatabaseError::Storage(StorageError::Io(error)) => at(error),
        error => damaged(path, error),
    };
    let opened = File::options().read(true).write(true).open(path).map_err(at)?;
    let metadata = opened.metadata().map_err(at)?;
    if metadata.len() == 0 {
        return Err(damaged(path, "it is empty"));
    }
    file::check(&opened).map_err(|error| match error {
        HeaderError::NotRedb => OpenError::OtherFormat(path.into()),
        HeaderError::Damaged => damaged(path, "its beginning makes no sense"),
    })?;
    let mut database = Bounded::new(opened).and_then(|file| builder().create_with_backend(file)).map_err(refused)?;
    // Between opening and locking, another process may have compacted: then this is its old file.
    if fs::metadata(path).map_err(at)?.ino() != metadata.ino() {
        return Err(OpenError::InUse(path.into()));
    }
    if !database.check_integrity().map_err(refused)? {
        return Err(damaged(path, "checksums do not match"));
    }
    Ok(database)
}

/// Whether this is a vault, and the key is its key.
fn recognise(path: &Path, key_file: &Path, key: &VaultKey, database: &Database) -> Result<(), OpenError> {
    let transaction = database.begin_read().map_err(|error| damaged(path, error))?;
    let meta = transaction.open_table(tables::META).map_err(|_| OpenError::OtherFormat(path.into()))?;
    let entry = |name| meta.get(name).map_err(|error| damaged(path, error));
    if entry("format")?.is_none_or(|format| format.value() != tables::FORMAT) {
        return Err(OpenError::OtherFormat(path.into()));
    }
    if entry("key")?.is_none_or(|check| !key.made(check.value())) {
        return Err(OpenError::WrongKey { vault: path.into(), key: key_file.into() });
    }
    Ok(())
}

/// The name under which a file is written before it takes its place.
fn draft(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".new");
    name.into()
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}
