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
//! * Each stored statement makes a revision of its own and keeps it. [`PolicyStore::changes`] gives the statements in
//!   this order, which makes a full download, a download of the news, and going on with either one and the same.
//! * After a failed write or sync nothing is accepted any more, since the kernel may have dropped what it could not
//!   write and report success the next time. Reading goes on; a restart finds the last durable state.
//!
//! # Layout
//!
//! ```text
//! DIRECTORY/            made under another name and renamed when complete
//!   FORMAT              "consent-mesh policy store 2\n", compared before anything else is touched
//!   HIGHEST             revision of the last commit and its complement, 8 bytes each, written after the sync
//!   RECORDED            likewise the revision up to which the daemon's trace has everything, written when it says so
//!   conf, db, snap.*    sled 0.34; db is locked while open
//!     tree "statements"
//!       key 0x00        revision, count (8 bytes each, big endian)
//!       key device      version, revision (8 bytes each, big endian), how it came, statement bytes
//!                       (how it came: 0; or 16, message id; or 48, message id, head of the sender's trace)
//! ```
//!
//! sled cannot tell a torn end of its log from a damaged one and cuts off both. `HIGHEST` can: it is written, without
//! a sync of its own, after each commit, so it is never ahead of what was durable. A database that is behind it has
//! lost acknowledged statements and is refused. So is one that is behind `RECORDED`.
//!
//! In memory there is sled's cache and an index of the revisions, one entry per device.

mod format;
mod view;
mod watermark;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use pilot_core::evidence::DeviceName;
use pilot_core::evidence::envelope::{ChainHead, MessageId};
use tokio::sync::{mpsc, oneshot};

use self::format::Opened;
use self::view::View;
pub use self::view::{Changes, Entry, ReadError};
use self::watermark::Recorded;
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

/// The most bytes (names and statements) of [`Changes`]; who asks for more gets this many.
pub const MAX_CHANGES_BYTES: usize = 1 << 20;

/// The version of a device's statement. Each must be higher than the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// How many statements the store has stored, replaced ones included. Equal revisions mean equal contents; the first
/// statement made revision 1.
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

/// In which envelope a statement came, which the trace says of it. It is stored with the statement, because a statement
/// that is durable when the process ends is recorded by the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Came {
    /// The envelope's id; `None` for a statement that came in none.
    pub id: Option<MessageId>,
    /// The head of the sender's trace.
    pub head: Option<ChainHead>,
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

/// [`PolicyStore::note_recorded`] could not write.
#[derive(Debug, thiserror::Error)]
#[error("the policy store cannot note what is recorded: {0}")]
pub struct NoteError(#[from] std::io::Error);

/// The store, open. Share it with an `Arc`; dropping it finishes what is queued and closes the database.
#[derive(Debug)]
pub struct PolicyStore {
    view: Arc<View>,
    /// `None` only while dropping.
    queue: Option<mpsc::Sender<Put>>,
    commits: Arc<Commits>,
    recorded: Recorded,
    writer: Option<JoinHandle<()>>,
}

impl PolicyStore {
    /// Opens the store in `directory`, or makes an empty one if there is none (its parent must exist).
    ///
    /// Blocks: reads every statement once, to find damage before anything is served. A refused directory is left as
    /// it was, except that sled may already have written a snapshot and cut off the end of a damaged log.
    pub fn open(directory: &Path) -> Result<Self, OpenError> {
        Self::open_with(directory, Box::new(std::fs::File::sync_data))
    }

    fn open_with(directory: &Path, sync: Sync) -> Result<Self, OpenError> {
        let Opened { disk, totals, index, recorded } = format::open(directory)?;
        let view = Arc::new(View::new(disk.statements.clone(), totals, index));
        let commits = Arc::new(Commits::default());
        let (queue, puts) = mpsc::channel(MAX_QUEUED);
        let writer = Writer::new(disk, view.clone(), commits.clone(), sync);
        let writer = std::thread::Builder::new()
            .name("policy-store".into())
            .spawn(move || writer.run(puts))
            .map_err(|source| OpenError::Io { path: directory.into(), source })?;
        Ok(Self { view, queue: Some(queue), commits, recorded, writer: Some(writer) })
    }

    /// Stores a device's next statement; `Ok` when it is durable, with the revision that it made.
    ///
    /// Dropping the future gives up the answer, not the put.
    pub async fn put(&self, device: DeviceName, statement: Statement) -> Result<Revision, PutError> {
        self.put_as_it_came(device, statement, Came::default()).await
    }

    /// The same for a statement that came in an envelope.
    pub async fn put_as_it_came(
        &self,
        device: DeviceName,
        statement: Statement,
        came: Came,
    ) -> Result<Revision, PutError> {
        let (answer, answered) = oneshot::channel();
        let queue = self.queue.as_ref().ok_or(PutError::Failed)?;
        queue.try_send(Put { device, statement, came, answer }).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => PutError::Busy,
            mpsc::error::TrySendError::Closed(_) => PutError::Failed,
        })?;
        answered.await.unwrap_or(Err(PutError::Failed))
    }

    /// A device's statement, if it has one. Reads from the disk only what is not cached.
    pub fn statement(&self, device: &DeviceName) -> Result<Option<Statement>, ReadError> {
        self.view.statement(device)
    }

    /// The statements stored after `since`, in the order of their revisions, up to about `max_bytes`.
    ///
    /// There is at least one, however long, unless none is left. Who begins with `Revision(0)` and asks again with
    /// [`Changes::until`] until that is [`Changes::head`] has then exactly the latest statement of every device at that
    /// revision, also if statements are stored in between: one that is replaced before its turn never comes, and one
    /// that is replaced afterwards comes again, in its new version with its higher revision. Who keeps the revision
    /// and asks later gets what is new.
    ///
    /// While statements are stored faster than they are read, the head stays ahead. What has been read up to the head
    /// of the first answer lacks no device of that moment, and has none in an older version.
    ///
    /// If `since` is higher than the head, the reader knew another store, or this one before it was restored from an
    /// old copy: there are no entries, and `until` is lower than `since`. It has to begin again. Once such a store has
    /// grown past `since`, nothing here tells the reader.
    pub fn changes(&self, since: Revision, max_bytes: usize) -> Result<Changes, ReadError> {
        self.view.changes(since, max_bytes.min(MAX_CHANGES_BYTES))
    }

    /// The revision of what readers see. It is durable and goes on after a restart.
    pub fn revision(&self) -> Revision {
        self.view.totals().revision
    }

    /// How many devices have a statement, withdrawals included.
    pub fn count(&self) -> u64 {
        self.view.totals().count
    }

    /// The highest revision noted with [`Self::note_recorded`], also before a restart: up to here the daemon's trace has
    /// everything.
    ///
    /// After a kill, statements of a higher revision are durable, and their steps may be missing in the trace; those
    /// that were replaced since are not among them. After a power failure it may be lower than what was noted, and it
    /// is zero if the note is missing or torn: then more than necessary is recorded again.
    pub fn recorded(&self) -> Revision {
        self.recorded.revision()
    }

    /// Notes that the trace has every statement up to `revision`, with one write and no sync.
    ///
    /// To be called when they are written there. The note may survive a power failure that the end of the trace does
    /// not, so who cares about that syncs the trace first. A revision that is lower than the noted one changes nothing,
    /// and one that is higher than [`Self::revision`] counts as that: nobody can have recorded what is not stored.
    pub fn note_recorded(&self, revision: Revision) -> Result<(), NoteError> {
        Ok(self.recorded.note(revision.min(self.revision()))?)
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
