//! The directory of a store: making it, recognising it, and finding damage before anything is served.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mesh_runtime::lock::lock_within;
use pilot_core::evidence::DeviceName;
use pilot_core::evidence::envelope::{ChainHead, MessageId};
use sled::{Db, Tree};

use super::view::Index;
use super::watermark::{HIGHEST, RECORDED, Recorded, Watermark};
use super::{Came, OpenError, Revision, Statement, Version};

/// What `FORMAT` says.
pub(super) const MARKER: &str = "consent-mesh policy store 2\n";
/// How much of another `FORMAT` an error repeats.
const MAX_SHOWN: usize = 40;

const TREE: &str = "statements";
/// Names start with a letter, a digit or `_`, so this is before every device.
pub(super) const TOTALS_KEY: &[u8] = &[0];
/// Where the devices begin.
pub(super) const FIRST_DEVICE_KEY: &[u8] = &[1];

/// sled writes items above a quarter of a segment to files of their own, which it never syncs. The largest item is a
/// leaf, of 17 values before it is split; with the longest statements that is 1.6 MiB, and must be below 2 MiB.
const SEGMENT_BYTES: usize = 8 << 20;
const _: () = assert!(17 * (super::MAX_STATEMENT_BYTES + 1024) < SEGMENT_BYTES / 4);

/// How much sled may keep in memory.
const CACHE_BYTES: u64 = 64 << 20;

/// How long a store that is in use is waited for. Then it counts as another process's.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

/// How many changes there have been, and for how many devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Totals {
    pub(super) revision: Revision,
    pub(super) count: u64,
}

impl Totals {
    pub(super) fn encode(self) -> Vec<u8> {
        [self.revision.0.to_be_bytes(), self.count.to_be_bytes()].concat()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (revision, count) = bytes.split_first_chunk()?;
        let count = u64::from_be_bytes(count.try_into().ok()?);
        Some(Self { revision: Revision(u64::from_be_bytes(*revision)), count })
    }
}

/// What is stored for a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) statement: Statement,
    /// The revision that storing it made.
    pub(super) revision: Revision,
    pub(super) came: Came,
}

impl Stored {
    pub(super) fn encode(&self) -> Vec<u8> {
        let Self { statement, revision, came } = self;
        let came = encode_came(*came);
        [&statement.version.0.to_be_bytes()[..], &revision.0.to_be_bytes(), &came, statement.bytes()].concat()
    }

    pub(super) fn decode(value: &[u8]) -> Option<Self> {
        let (version, rest) = value.split_first_chunk()?;
        let (revision, rest) = rest.split_first_chunk()?;
        let (came, bytes) = decode_came(rest)?;
        let statement = Statement::new(Version(u64::from_be_bytes(*version)), bytes).ok()?;
        Some(Self { statement, revision: Revision(u64::from_be_bytes(*revision)), came })
    }
}

/// How many bytes follow, and these.
fn encode_came(came: Came) -> Vec<u8> {
    match (came.id, came.head) {
        (None, _) => vec![0],
        (Some(id), None) => [&[16], &id.0[..]].concat(),
        (Some(id), Some(head)) => [&[48], &id.0[..], &head.0[..]].concat(),
    }
}

fn decode_came(bytes: &[u8]) -> Option<(Came, &[u8])> {
    let (length, rest) = bytes.split_first()?;
    if *length == 0 {
        return Some((Came::default(), rest));
    }
    let (id, rest) = rest.split_first_chunk()?;
    let id = Some(MessageId(*id));
    match length {
        16 => Some((Came { id, head: None }, rest)),
        48 => rest.split_first_chunk().map(|(head, rest)| (Came { id, head: Some(ChainHead(*head)) }, rest)),
        _ => None,
    }
}

/// A store that was found sound.
pub(super) struct Opened {
    pub(super) disk: Disk,
    pub(super) totals: Totals,
    pub(super) index: Index,
    pub(super) recorded: Recorded,
}

/// Where the writer writes.
pub(super) struct Disk {
    pub(super) database: Db,
    pub(super) statements: Tree,
    /// sled's database file: what must be synced.
    pub(super) file: File,
    pub(super) highest: Watermark,
}

pub(super) fn open(directory: &Path) -> Result<Opened, OpenError> {
    let at = |source| OpenError::Io { path: directory.into(), source };
    if is_absent_or_empty(directory).map_err(at)? {
        create(directory)?;
    }
    check_marker(directory)?;
    let damaged = |problem: String| OpenError::Damaged { path: directory.into(), problem };
    // sled would quietly make new ones.
    for (name, least) in [("conf", 9), ("db", 1)] {
        match fs::metadata(directory.join(name)) {
            Ok(metadata) if metadata.len() >= least => {}
            Ok(_) => return Err(damaged(format!("`{name}` is cut short"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(damaged(format!("`{name}` is missing")));
            }
            Err(error) => return Err(at(error)),
        }
    }
    remove_unfinished_snapshots(directory)?;
    let (database, statements, (totals, index)) = guarded(directory, || {
        let database = open_sled(directory)?;
        if !database.tree_names().iter().any(|name| name.as_ref() == TREE.as_bytes()) {
            return Err(damaged("it has no statements".into()));
        }
        let statements = database.open_tree(TREE).map_err(|error| sled_error(directory, error))?;
        let contents = verify(&statements).map_err(damaged)?;
        Ok((database, statements, contents))
    })?;
    let highest = Watermark::open(directory, HIGHEST).map_err(at)?;
    let noted = highest.noted().map_err(at)?.unwrap_or_default();
    check_not_behind(totals, noted).map_err(damaged)?;
    let recorded = Recorded::open(directory).map_err(at)?;
    check_not_behind(totals, recorded.revision()).map_err(damaged)?;
    let file = File::open(directory.join("db")).map_err(at)?;
    // Recovery may have written: a segment that it emptied, a snapshot under a new name.
    file.sync_data().map_err(at)?;
    sync_directory(directory).map_err(at)?;
    Ok(Opened { disk: Disk { database, statements, file, highest }, totals, index, recorded })
}

/// A store is made under another name and renamed when all of it is on the disk, so a directory of this name is never
/// half made, and one without its files is damaged.
fn create(directory: &Path) -> Result<(), OpenError> {
    let at = |source| OpenError::Io { path: directory.into(), source };
    let mut name = directory.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".new.{}", std::process::id()));
    let draft = directory.with_file_name(name);
    match fs::remove_dir_all(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(error)),
        _ => {}
    }
    fs::create_dir(&draft).map_err(at)?;
    guarded(directory, || {
        let database = open_sled(&draft)?;
        let statements = database.open_tree(TREE).map_err(|error| sled_error(directory, error))?;
        statements.insert(TOTALS_KEY, Totals::default().encode()).map_err(|error| sled_error(directory, error))?;
        database.flush().map_err(|error| sled_error(directory, error))?;
        Ok(())
    })?;
    let finish = || {
        Watermark::create(&draft, HIGHEST)?;
        Watermark::create(&draft, RECORDED)?;
        File::create_new(draft.join("FORMAT"))?.write_all(MARKER.as_bytes())?;
        for entry in fs::read_dir(&draft)? {
            File::open(entry?.path())?.sync_all()?;
        }
        sync_directory(&draft)?;
        fs::rename(&draft, directory)?;
        sync_directory(&parent(directory))
    };
    finish().map_err(at)
}

/// sled writes a snapshot as `snap.….generating` and renames it when it is complete. If it is killed in between, it
/// later takes the unfinished one for the latest and refuses to open. The snapshot before is there until the new one
/// has its name, and the log has everything since, so what is unfinished can go.
fn remove_unfinished_snapshots(directory: &Path) -> Result<(), OpenError> {
    let at = |source| OpenError::Io { path: directory.into(), source };
    // Whoever has the database open may be writing one.
    let database = OpenOptions::new().read(true).write(true).open(directory.join("db")).map_err(at)?;
    // sled gives its lock up late: a thread of its own may still hold a database that was closed, also the one that
    // [`create`] has just made.
    lock_within(&database, LOCK_PATIENCE).map_err(|refused| match refused {
        TryLockError::WouldBlock => OpenError::InUse(directory.into()),
        TryLockError::Error(source) => at(source),
    })?;
    for entry in fs::read_dir(directory).map_err(at)? {
        let path = entry.map_err(at)?.path();
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        if name.starts_with(b"snap.") && name.ends_with(b".generating") {
            fs::remove_file(&path).map_err(at)?;
        }
    }
    Ok(())
}

fn open_sled(directory: &Path) -> Result<Db, OpenError> {
    let config = sled::Config::new()
        .path(directory)
        .segment_size(SEGMENT_BYTES)
        .cache_capacity(CACHE_BYTES)
        // The writer flushes.
        .flush_every_ms(None);
    config.open().map_err(|error| sled_error(directory, error))
}

fn sled_error(directory: &Path, error: sled::Error) -> OpenError {
    let path = directory.into();
    match error {
        // sled (this exact version) has no other mark for it.
        sled::Error::Io(source) if source.to_string().starts_with("could not acquire lock") => OpenError::InUse(path),
        sled::Error::Io(source) => OpenError::Io { path, source },
        other => OpenError::Damaged { path, problem: other.to_string() },
    }
}

/// sled panics where damage leads it astray. Here nothing has been served yet, so a panic is one more way to say so.
fn guarded<T>(directory: &Path, work: impl FnOnce() -> Result<T, OpenError>) -> Result<T, OpenError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(OpenError::Damaged {
            path: directory.into(),
            problem: "the database cannot make sense of its files".into(),
        })
    })
}

/// Reads everything once: sled checks each page's checksum, the number of statements must be as noted, and of their
/// revisions no two the same and the last one the store's.
fn verify(statements: &Tree) -> Result<(Totals, Index), String> {
    let totals = statements.get(TOTALS_KEY).map_err(|error| error.to_string())?;
    let totals = totals.as_deref().and_then(Totals::decode).ok_or("its totals are missing")?;
    let mut index = Index::new();
    for pair in statements.range(FIRST_DEVICE_KEY..) {
        let (key, value) = pair.map_err(|error| error.to_string())?;
        let (device, stored) = decode_device(&key).zip(Stored::decode(&value)).ok_or("an entry is no statement")?;
        if stored.revision == Revision(0) || index.insert(stored.revision, device).is_some() {
            return Err(format!("a statement cannot be of revision {}", stored.revision.0));
        }
    }
    if index.len() as u64 != totals.count {
        return Err(format!("it has {} statements, and had {} before", index.len(), totals.count));
    }
    let last = index.last_key_value().map_or(Revision(0), |(revision, _)| *revision);
    if last != totals.revision {
        return Err(format!("its last statement is of revision {}, and was of {} before", last.0, totals.revision.0));
    }
    Ok((totals, index))
}

fn decode_device(key: &[u8]) -> Option<DeviceName> {
    DeviceName::new(std::str::from_utf8(key).ok()?).ok()
}

/// A watermark is never ahead of what was durable.
fn check_not_behind(totals: Totals, noted: Revision) -> Result<(), String> {
    if noted > totals.revision {
        return Err(format!("it is at revision {}, and was at {} before", totals.revision.0, noted.0));
    }
    Ok(())
}

fn is_absent_or_empty(directory: &Path) -> io::Result<bool> {
    match fs::read_dir(directory) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

fn check_marker(directory: &Path) -> Result<(), OpenError> {
    match fs::read(directory.join("FORMAT")) {
        Ok(found) if found == MARKER.as_bytes() => Ok(()),
        Ok(found) => {
            let found = String::from_utf8_lossy(&found);
            let found = found.trim_end().chars().take(MAX_SHOWN).flat_map(char::escape_default).collect();
            Err(OpenError::OtherFormat { path: directory.into(), found })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(OpenError::NotAStore(directory.into())),
        Err(source) => Err(OpenError::Io { path: directory.into(), source }),
    }
}

fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.into(),
        _ => ".".into(),
    }
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
