//! Group commit: one thread writes, and all puts that wait when it begins share one flush and one sync.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use sled::Batch;
use tokio::sync::{mpsc, oneshot};

use super::format::{Opened, TOTALS_KEY, Totals, decode_statement, encode_statement};
use super::view::{Replaced, View};
use super::{DeviceName, MAX_GROUP, PutError, Revision, Statement};

/// A put on its way to the writer.
pub(super) struct Put {
    pub(super) device: DeviceName,
    pub(super) statement: Statement,
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
    opened: Opened,
    totals: Totals,
    view: Arc<View>,
    commits: Arc<Commits>,
    sync: Sync,
}

/// What became of a group before it was written.
struct Plan {
    batch: Batch,
    replaced: Replaced,
    totals: Totals,
    answers: Vec<(oneshot::Sender<Answer>, Answer)>,
}

impl Writer {
    pub(super) fn new(opened: Opened, view: Arc<View>, commits: Arc<Commits>, sync: Sync) -> Self {
        Self { totals: opened.totals, opened, view, commits, sync }
    }

    /// Commits group after group, until the queue is closed and empty.
    pub(super) fn run(mut self, mut queue: mpsc::Receiver<Put>) {
        while let Some(first) = queue.blocking_recv() {
            let mut group = vec![first];
            while group.len() < MAX_GROUP
                && let Ok(put) = queue.try_recv()
            {
                group.push(put);
            }
            // Puts that are dropped without an answer count as failed.
            if self.commits.failure().is_none()
                && let Err(failure) = self.commit(group)
            {
                self.commits.failure.get_or_init(|| failure);
            }
        }
    }

    fn commit(&mut self, group: Vec<Put>) -> Result<(), CommitError> {
        let Plan { batch, replaced, totals, answers } = self.plan(group)?;
        if !replaced.is_empty() {
            self.view.hide(replaced);
            self.opened.statements.apply_batch(batch)?;
            self.opened.database.flush()?;
            (self.sync)(&self.opened.file)?;
            self.opened.highest.note(totals.revision)?;
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

    /// Takes the puts in turn, each judged by what those before it would leave.
    fn plan(&self, group: Vec<Put>) -> Result<Plan, CommitError> {
        let mut latest: BTreeMap<DeviceName, Statement> = BTreeMap::new();
        let mut replaced = Replaced::new();
        let mut totals = self.totals;
        let mut answers = Vec::with_capacity(group.len());
        for Put { device, statement, answer } in group {
            let before = self.opened.statements.get(device.as_str())?;
            let stored = match latest.get(&device) {
                Some(statement) => Some(statement.clone()),
                None => {
                    before.as_deref().map(|value| decode_statement(value).ok_or(CommitError::Damaged)).transpose()?
                }
            };
            if let Some(stored) = stored.filter(|stored| stored.version() >= statement.version()) {
                let identical = stored == statement;
                answers.push((answer, Err(PutError::NotHigher { stored: stored.version(), identical })));
                continue;
            }
            totals.revision.0 += 1;
            totals.count += u64::from(before.is_none() && !latest.contains_key(&device));
            replaced.insert(device.as_str().into(), before);
            answers.push((answer, Ok(totals.revision)));
            latest.insert(device, statement);
        }
        let mut batch = Batch::default();
        for (device, statement) in &latest {
            batch.insert(device.as_str(), encode_statement(statement));
        }
        batch.insert(TOTALS_KEY, totals.encode());
        Ok(Plan { batch, replaced, totals, answers })
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
