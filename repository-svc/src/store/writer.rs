//! Group commit: one thread writes, and all puts that wait when it begins share one flush and one sync.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use pilot_core::evidence::DeviceName;
use sled::Batch;
use tokio::sync::{mpsc, oneshot};

use super::format::{Disk, Stored, TOTALS_KEY, Totals};
use super::view::{Change, Group, View};
use super::{Came, MAX_GROUP, PutError, Revision, Statement};

/// A put on its way to the writer.
pub(super) struct Put {
    pub(super) device: DeviceName,
    pub(super) statement: Statement,
    pub(super) came: Came,
    pub(super) answer: oneshot::Sender<Answer>,
}

type Answer = Result<Revision, PutError>;

/// How the database file is synced: `File::sync_data`, or what a test makes of it.
pub(super) type Sync = Box<dyn FnMut(&File) -> io::Result<()> + Send>;

/// What the writer has done since the store was opened.
#[derive(Debug, Default)]
pub struct Commits {
    statements: AtomicU64,
    syncs: AtomicU64,
    failure: OnceLock<CommitError>,
}

impl Commits {
    /// Statements made durable.
    pub fn statements(&self) -> u64 {
        self.statements.load(Ordering::Relaxed)
    }

    /// Syncs of the database file that this took.
    pub fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    /// Why nothing is accepted any more, if that is so.
    pub fn failure(&self) -> Option<&CommitError> {
        self.failure.get()
    }
}

pub(super) struct Writer {
    disk: Disk,
    totals: Totals,
    view: Arc<View>,
    commits: Arc<Commits>,
    sync: Sync,
}

/// What becomes of the puts that share a sync.
struct Plan {
    group: Group,
    totals: Totals,
    answers: Vec<(oneshot::Sender<Answer>, Answer)>,
}

impl Writer {
    pub(super) fn new(disk: Disk, view: Arc<View>, commits: Arc<Commits>, sync: Sync) -> Self {
        Self { disk, totals: view.totals(), view, commits, sync }
    }

    /// Commits group after group, until the queue is closed and empty.
    pub(super) fn run(mut self, mut queue: mpsc::Receiver<Put>) {
        while let Some(first) = queue.blocking_recv() {
            let mut puts = vec![first];
            while puts.len() < MAX_GROUP
                && let Ok(put) = queue.try_recv()
            {
                puts.push(put);
            }
            // Puts that are dropped without an answer count as failed.
            if self.commits.failure().is_none()
                && let Err(failure) = self.commit(puts)
            {
                self.commits.failure.get_or_init(|| failure);
            }
        }
    }

    fn commit(&mut self, puts: Vec<Put>) -> Result<(), CommitError> {
        let Plan { group, totals, answers } = self.plan(puts)?;
        if !group.is_empty() {
            let mut batch = Batch::default();
            for (device, change) in &group {
                batch.insert(device.as_str(), change.after.encode());
            }
            batch.insert(TOTALS_KEY, totals.encode());
            self.view.hide(group);
            self.disk.statements.apply_batch(batch)?;
            self.disk.database.flush()?;
            (self.sync)(&self.disk.file)?;
            self.disk.highest.note(totals.revision)?;
            self.commits.statements.fetch_add(totals.revision.0 - self.totals.revision.0, Ordering::Relaxed);
            self.commits.syncs.fetch_add(1, Ordering::Relaxed);
            self.totals = totals;
            self.view.reveal(totals);
        }
        // Also refusals wait for the sync: they may be due to a statement of the same group.
        for (asker, answer) in answers {
            // Who has gone away does not want to know.
            let _ = asker.send(answer);
        }
        Ok(())
    }

    /// Takes the puts in turn, each judged by what those before it would leave, and each with a revision of its own.
    fn plan(&self, puts: Vec<Put>) -> Result<Plan, CommitError> {
        let mut group = Group::new();
        let mut totals = self.totals;
        let mut answers = Vec::with_capacity(puts.len());
        for Put { device, statement, came, answer } in puts {
            let planned = group.get(&device);
            let before = match planned {
                Some(change) => change.before.clone(),
                None => self.stored(&device)?,
            };
            let latest = planned.map(|change| &change.after).or(before.as_ref()).map(|stored| &stored.statement);
            if let Some(latest) = latest.filter(|latest| latest.version() >= statement.version()) {
                let refused = PutError::NotHigher { stored: latest.version(), identical: *latest == statement };
                answers.push((answer, Err(refused)));
                continue;
            }
            totals.revision.0 += 1;
            totals.count += u64::from(latest.is_none());
            let revision = totals.revision;
            answers.push((answer, Ok(revision)));
            group.insert(device, Change { before, after: Stored { statement, revision, came } });
        }
        Ok(Plan { group, totals, answers })
    }

    fn stored(&self, device: &DeviceName) -> Result<Option<Stored>, CommitError> {
        let value = self.disk.statements.get(device.as_str())?;
        value.map(|value| Stored::decode(&value).ok_or(CommitError::Damaged)).transpose()
    }
}

/// Why a group could not be committed. There is no going on, whatever it was.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The database could not read or write.
    #[error("the policy store's database failed: {0}")]
    Database(#[from] sled::Error),
    /// The file could not be synced.
    #[error("the policy store's file cannot be synced: {0}")]
    Sync(#[from] io::Error),
    /// What is stored is no statement.
    #[error("the policy store is damaged")]
    Damaged,
}
