//! Π on disk: for each device its latest policy statement, durable before anybody is told so.
//!
//! A *statement* is stored as the exact bytes that were signed; the store knows its device and version and nothing
//! else about it. A withdrawal is a statement like any other and stays, so that a lower version can never come back.
//!
//! # What is promised
//!
//! * [`PolicyStore::put`] answers `Ok` only when the statement is on the disk: sled's `flush` (which writes, but does
//!   not sync), then `sync_data` of the database file. Puts that arrive while a sync is running share the next one
//!   (*group commit*), so 64 clients do not wait for 64 syncs.
//! * A group is one atomic batch: after a crash all of it is there or nothing.
//! * Readers see only what is durable. A statement that a power failure could still take back is not delivered, and a
//!   [`Revision`] never means two different contents.
//! * A version that is not higher than the stored one is refused, also when both arrive in the same group.
//! * After a failed write or sync nothing is accepted any more, since the kernel may have dropped what it could not
//!   write and report success the next time. Reading goes on; a restart finds the last durable state.
//!
//! # Layout
//!
//! ```text
//! DIRECTORY/            made under another name and renamed when complete
//!   FORMAT              "consent-mesh policy store 1\n", compared before anything else is touched
//!   HIGHEST             revision of the last commit and its complement, 8 bytes each, written after the sync
//!   conf, db, snap.*    sled 0.34; db is locked while open
//!     tree "statements"
//!       key 0x00        revision, count (8 bytes each, big endian)
//!       key device      version (8 bytes, big endian), statement bytes
//! ```
//!
//! sled cannot tell a torn end of its log from a damaged one and cuts off both. `HIGHEST` can: it is written, without
//! a sync of its own, after each commit, so it is never ahead of what was durable. A database that is behind it has
//! lost acknowledged statements and is refused.

mod format;
mod view;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use pilot_core::name::{NameError, check_name};
use tokio::sync::{mpsc, oneshot};

use self::view::View;
pub use self::view::{Chunk, Entry, ReadError};
pub use self::writer::{CommitError, Commits};
use self::writer::{Put, Sync, Writer};

/// The longest statement. A policy has at most 64 KiB; the rest is for its statement and signature.
///
/// sled puts log items above a quarter of a segment into files that it never syncs, and an item can be a whole leaf of
/// the tree; `format.rs` chooses the segments so that a leaf full of the longest statements stays in the log.
pub const MAX_STATEMENT_BYTES: usize = 96 * 1024;

/// Puts that may wait for the writer. One more is answered [`PutError::Busy`] at once.
pub const MAX_QUEUED: usize = 256;

/// Puts that share one sync. What does not fit waits for the next group.
pub const MAX_GROUP: usize = 256;

/// The most bytes (names and statements) of a [`Chunk`]; who asks for more gets this many.
pub const MAX_CHUNK_BYTES: usize = 1 << 20;

/// The name of a controller's device: the key under which its statement is stored.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceName(Arc<str>);

impl DeviceName {
    /// Accepts what the vocabulary accepts as a name.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        check_name(text).map(|()| Self(text.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The version of a device's statement. Each must be higher than the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// How many changes the store has seen. Equal revisions mean equal contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Revision(pub u64);

/// A statement: its version and the exact bytes, signature included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    version: Version,
    bytes: Arc<[u8]>,
}

/// A statement has more than [`MAX_STATEMENT_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a statement of {0} bytes is too long, at most {MAX_STATEMENT_BYTES} are stored")]
pub struct StatementTooLong(pub usize);

impl Statement {
    /// A statement that is short enough to be stored.
    pub fn new(version: Version, bytes: &[u8]) -> Result<Self, StatementTooLong> {
        if bytes.len() > MAX_STATEMENT_BYTES {
            return Err(StatementTooLong(bytes.len()));
        }
        Ok(Self { version, bytes: bytes.into() })
    }

    /// Its version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// What was signed, and the signature.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory exists and has something else in it.
    #[error("`{0}` is not a policy store, and not empty")]
    NotAStore(PathBuf),
    /// Made by another version of this program.
    #[error("`{path}` has the format `{found}`, this program reads `{}`", format::MARKER.trim_end())]
    OtherFormat {
        /// Where.
        path: PathBuf,
        /// What its `FORMAT` says, shortened.
        found: String,
    },
    /// Locked.
    #[error("the policy store `{0}` is in use by another process")]
    InUse(PathBuf),
    /// Its contents contradict each other, or cannot be read.
    #[error("the policy store `{path}` is damaged: {problem}; restore it from a copy")]
    Damaged {
        /// Where.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The file system refused.
    #[error("cannot open the policy store `{path}`: {source}")]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// Why a statement was not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PutError {
    /// The stored version is as high or higher.
    #[error("the stored statement has version {}, which is not lower", stored.0)]
    NotHigher {
        /// The stored version. It is durable.
        stored: Version,
        /// Whether version and bytes are those of the stored statement: the sender has missed the answer and asks
        /// again, and may be told that the statement is stored.
        identical: bool,
    },
    /// [`MAX_QUEUED`] puts are waiting.
    #[error("the policy store is busy, try again later")]
    Busy,
    /// Writing failed, now or before. Whether this statement is stored will be known after a restart.
    #[error("the policy store could not write to its disk and accepts nothing until it is restarted")]
    Failed,
}

/// The store, open. Share it with an `Arc`; dropping it finishes what is queued and closes the database.
#[derive(Debug)]
pub struct PolicyStore {
    view: Arc<View>,
    /// `None` only while dropping.
    queue: Option<mpsc::Sender<Put>>,
    commits: Arc<Commits>,
    writer: Option<JoinHandle<()>>,
}

impl PolicyStore {
    /// Opens the store in `directory`, or makes an empty one if there is none (its parent must exist).
    ///
    /// Blocks: reads every statement once, to find damage before anything is served. A refused directory is left as
    /// it was, except that sled may already have cut off the end of a damaged log.
    pub fn open(directory: &Path) -> Result<Self, OpenError> {
        Self::open_with(directory, Box::new(std::fs::File::sync_data))
    }

    fn open_with(directory: &Path, sync: Sync) -> Result<Self, OpenError> {
        let opened = format::open(directory)?;
        let view = Arc::new(View::new(opened.statements.clone(), opened.totals));
        let commits = Arc::new(Commits::default());
        let (queue, puts) = mpsc::channel(MAX_QUEUED);
        let writer = Writer::new(opened, view.clone(), commits.clone(), sync);
        let writer = std::thread::Builder::new()
            .name("policy-store".into())
            .spawn(move || writer.run(puts))
            .map_err(|source| OpenError::Io { path: directory.into(), source })?;
        Ok(Self { view, queue: Some(queue), commits, writer: Some(writer) })
    }

    /// Stores a device's next statement; `Ok` when it is durable, with the revision that it made.
    ///
    /// Dropping the future gives up the answer, not the put.
    pub async fn put(&self, device: DeviceName, statement: Statement) -> Result<Revision, PutError> {
        let (answer, answered) = oneshot::channel();
        let queue = self.queue.as_ref().ok_or(PutError::Failed)?;
        queue.try_send(Put { device, statement, answer }).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => PutError::Busy,
            mpsc::error::TrySendError::Closed(_) => PutError::Failed,
        })?;
        answered.await.unwrap_or(Err(PutError::Failed))
    }

    /// A device's statement, if it has one. Reads from the disk only what is not cached.
    pub fn statement(&self, device: &DeviceName) -> Result<Option<Statement>, ReadError> {
        self.view.statement(device)
    }

    /// The statements after `after` (at first: `None`) in the byte order of the names, up to about `max_bytes`.
    ///
    /// There is at least one, however long, unless none is left. Each chunk is the contents at its revision. Chunks of
    /// equal revisions make one snapshot; if the revision has changed in between, each statement was its device's
    /// latest at some moment since the first chunk, and no device of the first chunk's revision is missing, since
    /// statements are replaced but never removed. That is enough for Π: versions tell a reader which of two statements
    /// is newer, and a change is followed by another download.
    pub fn chunk(&self, after: Option<&DeviceName>, max_bytes: usize) -> Result<Chunk, ReadError> {
        self.view.chunk(after, max_bytes.min(MAX_CHUNK_BYTES))
    }

    /// The revision of what readers see. It is durable and goes on after a restart.
    pub fn revision(&self) -> Revision {
        self.view.totals().revision
    }

    /// How many devices have a statement, withdrawals included.
    pub fn count(&self) -> u64 {
        self.view.totals().count
    }

    /// How much was committed since the store was opened, and with how many syncs.
    pub fn commits(&self) -> &Commits {
        &self.commits
    }
}

impl Drop for PolicyStore {
    fn drop(&mut self) {
        // The writer ends when the queue is closed and empty.
        self.queue = None;
        if let Some(writer) = self.writer.take() {
            // If it panicked, its puts have been answered `Failed`.
            let _ = writer.join();
        }
    }
}

#[cfg(test)]
mod tests;
