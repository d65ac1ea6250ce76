//! Writes a device's trace (see [`pilot_core::evidence::trace`]) to a directory.
//!
//! ```text
//! DIRECTORY/                   mode 0700
//!   lock                       held while a recorder runs: two daemons cannot write one trace
//!   trace-00000000.cborseq     mode 0600; closed when it was full, the trace goes on in the next one
//!   trace-00000001.cborseq     the last one: grows by one write(2) per record
//! ```
//!
//! **Contract: record, then send.** [`Recorder::step`] returns when the record is with the operating system, so it
//! survives the end of the process. If it returns an error, the record is not in the trace, and whatever the step wanted
//! to send must not leave. Before something is acknowledged to somebody, call [`Recorder::sync`]: then the record
//! survives the end of the machine as well. Checkpoints are synced by themselves.
//!
//! A run begins with what the device has from before ([`Recorder::resume`]), in the file of its `open`.
//!
//! After a crash the last file may end within a record. [`Recorder::open`] verifies that file, takes the unfinished
//! record off, and goes on with an `open` record and a checkpoint. It never takes off a complete record; a file that was
//! damaged in any other way is an error, for a person to look at.
//!
//! A directory belongs to one device and one signing key. A device that gets a new key starts a new directory.
//!
//! Calls block: for microseconds as a rule, for as long as the disk takes where they sync.

pub mod files;
pub mod position;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use pilot_core::codec::Digest;
use pilot_core::evidence::envelope::ChainHead;
use pilot_core::evidence::trace::chain::TooLarge;
use pilot_core::evidence::trace::verify::VerifyError;
use pilot_core::evidence::trace::{Chain, Content, Elided, GraphName, Open, PolicyBytes, Reason, Record, Resume, Step};
use pilot_core::evidence::{DeviceName, Signer};
use pilot_core::value::Time;

use self::files::Last;
pub use self::position::Position;

/// How many records there are between checkpoints unless configured otherwise.
pub const CHECKPOINT_RECORDS: u64 = 1024;
/// How many seconds there are between checkpoints, if there was anything to sign, unless configured otherwise.
pub const CHECKPOINT_SECONDS: u64 = 60;
/// How many bytes a file may have before the next one is begun, unless configured otherwise.
pub const MAX_FILE_BYTES: u64 = 64 << 20;

/// Where a recorder writes, and when it signs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The trace's own directory; it is made if it does not exist.
    pub directory: PathBuf,
    /// A checkpoint after this many records.
    pub checkpoint_records: u64,
    /// A checkpoint after this many seconds.
    pub checkpoint_seconds: u64,
    /// A new file once one has this many bytes. It ends with the step that filled it, and its close.
    pub max_file_bytes: u64,
}

impl Settings {
    /// The usual ones.
    pub fn new(directory: &Path) -> Self {
        Self {
            directory: directory.into(),
            checkpoint_records: CHECKPOINT_RECORDS,
            checkpoint_seconds: CHECKPOINT_SECONDS,
            max_file_bytes: MAX_FILE_BYTES,
        }
    }
}

/// Whose trace it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The device.
    pub device: DeviceName,
    /// The graphs that run on it; steps name them by their place here.
    pub graphs: Vec<GraphName>,
    /// The serial of the mesh file in use.
    pub mesh_serial: u64,
}

/// How the trace was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// There was none.
    New,
    /// It was closed.
    Closed,
    /// The device had stopped without closing it.
    Interrupted {
        /// How many bytes of an unfinished record were taken off.
        torn: u64,
    },
}

/// Why a trace cannot be written to.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory or a file cannot be used.
    #[error("cannot use `{}`: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Another recorder writes this trace.
    #[error("another process writes the trace in `{}`", .0.display())]
    Locked(PathBuf),
    /// The last file is not the work of this device, or was changed.
    #[error("`{}` is damaged: {error}", path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// Where and how.
        error: VerifyError,
    },
    /// The first records could not be written.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// Why something was not recorded. The caller must not send what it wanted to send.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The operating system did not take it; it can be tried again.
    #[error("cannot write to the trace: {0}")]
    Write(#[source] io::Error),
    /// It is not known what is in the file: writing went wrong and could not be undone, or syncing did. Only a new start
    /// helps, which looks.
    #[error("the trace cannot be written any more: {0}")]
    Broken(String),
    /// The record is too large for the format.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// A step names a policy whose bytes the caller does not know, so nobody could judge the step.
    #[error("a step names the policy {0}, which is not known")]
    UnknownPolicy(Digest),
}

/// Everything that was recorded when it was made, on its way to the disk.
#[derive(Debug)]
#[must_use = "nothing is synced before it is waited for"]
pub struct PendingSync {
    file: File,
    broken: Arc<OnceLock<String>>,
}

impl PendingSync {
    /// Blocks until it is there. After a failure nothing more can be recorded: it is not known what is on the disk.
    pub fn wait(self) -> Result<(), RecordError> {
        self.file.sync_data().map_err(|error| give_up(&self.broken, &error))
    }
}

fn give_up(broken: &OnceLock<String>, error: &io::Error) -> RecordError {
    RecordError::Broken(broken.get_or_init(|| error.to_string()).clone())
}

/// Writes one trace.
pub struct Recorder<S> {
    settings: Settings,
    identity: Identity,
    signer: S,
    /// Held, not read.
    _lock: File,
    file: File,
    number: u32,
    /// How many bytes of the file are complete records.
    length: u64,
    /// Whether the file says that the trace goes on in the next one, which is not there yet.
    is_closed: bool,
    /// The latest time in the trace when it was opened.
    since: Time,
    chain: Chain,
    /// Which policies were recorded since the last `open`: at most as many as fit into a file.
    policies: BTreeSet<Digest>,
    elided: Elided,
    since_checkpoint: u64,
    last_checkpoint: Time,
    /// Why it is not known what is in the file. A sync that somebody waits for elsewhere may find that out.
    broken: Arc<OnceLock<String>>,
}

impl<S: Signer> Recorder<S> {
    /// Opens the trace in a directory, or begins one.
    pub fn open(settings: Settings, identity: Identity, signer: S, now: Time) -> Result<(Self, Found), OpenError> {
        let lock = files::prepare(&settings.directory)?;
        let Last { number, file, length, chain, found, is_closed, since } =
            files::last(&settings.directory, &identity.device, &signer.verifying_key())?;
        let mut recorder = Self {
            settings,
            identity,
            signer,
            _lock: lock,
            file,
            number,
            length,
            is_closed,
            since,
            chain,
            policies: BTreeSet::new(),
            elided: Elided::default(),
            since_checkpoint: 0,
            last_checkpoint: now,
            broken: Arc::new(OnceLock::new()),
        };
        if recorder.is_closed {
            recorder.next_file()?;
        }
        let torn = if let Found::Interrupted { torn } = found { torn } else { 0 };
        recorder.write_open(torn, now)?;
        if found != Found::New {
            // What a crash has left behind is signed at once, not when the next checkpoint is due.
            recorder.checkpoint(now)?;
        }
        Ok((recorder, found))
    }

    /// The hash of the last record, for the envelopes of messages.
    pub const fn head(&self) -> ChainHead {
        self.chain.head()
    }

    /// The latest time in the trace when it was opened: a clock that shows an earlier one has been set back.
    pub const fn since(&self) -> Time {
        self.since
    }

    /// The number of the next record.
    pub const fn next_sequence(&self) -> u64 {
        self.chain.next_sequence()
    }

    /// Where the trace ends now.
    pub const fn position(&self) -> Position {
        Position { next: self.chain.next_sequence(), head: self.chain.head() }
    }

    /// Shows the records after a position, verified, with their hashes. `false`, and nothing is shown, if the trace does
    /// not have the position: files are missing, or it is another trace.
    pub fn follow(&self, from: Position, see: impl FnMut(Record, ChainHead)) -> Result<bool, OpenError> {
        let key = self.signer.verifying_key();
        position::follow(&self.settings.directory, &self.identity.device, &key, (from, self.position()), see)
    }

    /// Records what a run begins with, and before it each policy that it names. To be called once, before any step.
    pub fn resume(
        &mut self,
        parts: Vec<Resume>,
        policy: impl Fn(&Digest) -> Option<PolicyBytes>,
        now: Time,
    ) -> Result<(), RecordError> {
        // Neither signed nor parted in between: an `open` after it would look as if it began another run.
        for part in parts {
            self.append_policies(|see| part.for_each_policy(see), &policy, now)?;
            self.append(now, Content::Resume(Box::new(part)))?;
        }
        Ok(())
    }

    /// Records a step, and before it each policy that it names and that is not in this file yet: `policy` knows the
    /// canonical bytes. Returns the trace's head, which whatever is sent because of the step carries.
    pub fn step(
        &mut self,
        step: Step,
        policy: impl Fn(&Digest) -> Option<PolicyBytes>,
        now: Time,
    ) -> Result<ChainHead, RecordError> {
        // Signing and changing files come first: when the step is written, nothing can go wrong any more.
        self.sign_if_due(now)?;
        self.change_files_if_full(now)?;
        self.append_policies(|see| step.for_each_policy(see), policy, now)?;
        self.append(now, Content::Step(Box::new(step)))?;
        Ok(self.head())
    }

    /// Records the policies that are named and are not in this file yet.
    fn append_policies(
        &mut self,
        named: impl FnOnce(&mut dyn FnMut(&Digest)),
        policy: impl Fn(&Digest) -> Option<PolicyBytes>,
        now: Time,
    ) -> Result<(), RecordError> {
        let mut new = BTreeSet::new();
        named(&mut |digest| {
            if !self.policies.contains(digest) {
                new.insert(*digest);
            }
        });
        for digest in new {
            let bytes = policy(&digest).filter(|bytes| bytes.digest() == digest);
            let bytes = bytes.ok_or(RecordError::UnknownPolicy(digest))?;
            self.append(now, Content::Policy(bytes))?;
            self.policies.insert(digest);
        }
        Ok(())
    }

    /// Counts a step that changed nothing. The counts are in the next checkpoint; a crash before it loses them.
    pub fn elide(&mut self, reason: Reason) {
        self.elided.count(reason);
    }

    /// Makes a checkpoint if one is due; to be called every second or so, for times when nothing happens.
    pub fn tick(&mut self, now: Time) -> Result<(), RecordError> {
        self.sign_if_due(now)
    }

    /// Signs everything so far and waits until it is on the disk.
    pub fn checkpoint(&mut self, now: Time) -> Result<(), RecordError> {
        let mut chain = self.chain;
        let bytes = chain.checkpoint(now, &self.identity.device, self.elided.clone(), &self.signer)?;
        self.write_signed(&bytes, chain, now)
    }

    /// Waits until everything so far is on the disk.
    pub fn sync(&mut self) -> Result<(), RecordError> {
        self.check_whole()?;
        // After a failure the system may have forgotten what it could not write, and would say yes the next time.
        self.file.sync_data().map_err(|error| give_up(&self.broken, &error))?;
        // The system says it once, and another sync may have been told.
        self.check_whole()
    }

    /// The same for who does not want to wait here.
    pub fn begin_sync(&self) -> Result<PendingSync, RecordError> {
        self.check_whole()?;
        // Files before this one were synced when they were closed.
        Ok(PendingSync { file: self.file.try_clone().map_err(RecordError::Write)?, broken: Arc::clone(&self.broken) })
    }

    /// Signs that the device stops here.
    pub fn close(mut self, now: Time) -> Result<(), RecordError> {
        self.write_close(false, now)
    }

    fn sign_if_due(&mut self, now: Time) -> Result<(), RecordError> {
        let anything = self.since_checkpoint > 0 || !self.elided.is_empty();
        let seconds = now.unix().saturating_sub(self.last_checkpoint.unix());
        let due = seconds >= self.settings.checkpoint_seconds;
        // A clock that was set back must not keep the device from signing until it has caught up.
        let due = due || now < self.last_checkpoint || self.since_checkpoint >= self.settings.checkpoint_records;
        if anything && due { self.checkpoint(now) } else { Ok(()) }
    }

    fn change_files_if_full(&mut self, now: Time) -> Result<(), RecordError> {
        if self.length < self.settings.max_file_bytes {
            return Ok(());
        }
        if !self.is_closed {
            self.write_close(true, now)?;
            self.is_closed = true;
        }
        self.next_file()?;
        self.write_open(0, now)
    }

    /// Begins the next file. If this fails, it can be tried again.
    fn next_file(&mut self) -> Result<(), RecordError> {
        let (number, file) = files::create(&self.settings.directory, self.number).map_err(RecordError::Write)?;
        (self.number, self.file, self.length, self.is_closed) = (number, file, 0, false);
        Ok(())
    }

    fn write_open(&mut self, torn: u64, now: Time) -> Result<(), RecordError> {
        let Identity { device, graphs, mesh_serial } = self.identity.clone();
        self.policies.clear();
        self.append(now, Content::Open(Open { device, graphs, mesh_serial, torn }))
    }

    fn write_close(&mut self, continues: bool, now: Time) -> Result<(), RecordError> {
        let mut chain = self.chain;
        let bytes = chain.close(now, &self.identity.device, self.elided.clone(), continues, &self.signer)?;
        self.write_signed(&bytes, chain, now)
    }

    fn write_signed(&mut self, bytes: &[u8], chain: Chain, now: Time) -> Result<(), RecordError> {
        self.write(bytes, chain)?;
        (self.elided, self.since_checkpoint, self.last_checkpoint) = (Elided::default(), 0, now);
        self.sync()
    }

    fn append(&mut self, now: Time, content: Content) -> Result<(), RecordError> {
        let mut chain = self.chain;
        let bytes = chain.append(now, content)?;
        self.write(&bytes, chain)?;
        self.since_checkpoint = self.since_checkpoint.saturating_add(1);
        Ok(())
    }

    /// Writes a record, or nothing of it.
    fn write(&mut self, bytes: &[u8], chain: Chain) -> Result<(), RecordError> {
        self.check_whole()?;
        if let Err(error) = self.file.write_all(bytes) {
            return Err(match self.file.set_len(self.length) {
                Ok(()) => RecordError::Write(error),
                Err(_) => give_up(&self.broken, &error),
            });
        }
        self.length = self.length.saturating_add(bytes.len() as u64);
        self.chain = chain;
        Ok(())
    }

    fn check_whole(&self) -> Result<(), RecordError> {
        self.broken.get().map_or(Ok(()), |reason| Err(RecordError::Broken(reason.clone())))
    }
}
