//! What readers see: the durable contents, also while a group is being written.
//!
//! sled shows a batch to readers before it is on the disk. So the writer first notes what the batch changes, and readers
//! get what was before until the sync is done.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use pilot_core::evidence::DeviceName;
use sled::Tree;

use super::format::{Stored, Totals};
use super::{Came, Revision, Statement};

/// Why a statement could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The database does not answer.
    #[error("cannot read the policy store: {0}")]
    Database(#[from] sled::Error),
    /// What is stored is no statement, or not the one that was stored.
    #[error("the policy store is damaged")]
    Damaged,
}

/// A device and its latest statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Whose.
    pub device: DeviceName,
    /// What.
    pub statement: Statement,
    /// The revision that storing it made.
    pub revision: Revision,
    /// In which envelope it came.
    pub came: Came,
}

/// What was stored after some revision, or the first part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes {
    /// The statements in the order of their revisions.
    pub entries: Vec<Entry>,
    /// Who knew everything up to the revision asked for, and has these, knows everything up to here. Equal to `head`
    /// when nothing is left.
    pub until: Revision,
    /// The durable revision at this moment.
    pub head: Revision,
}

/// Which device's statement made each revision; revisions whose statement has been replaced are missing.
pub(super) type Index = BTreeMap<Revision, DeviceName>;

/// What a group does to a device.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) before: Option<Stored>,
    pub(super) after: Stored,
}

/// What a group does.
pub(super) type Group = BTreeMap<DeviceName, Change>;

#[derive(Debug)]
pub(super) struct View {
    statements: Tree,
    durable: RwLock<Durable>,
}

/// INVARIANT: with the group's changes undone, the tree has what `totals` counts and `index` lists, and the last
/// revision in `index` is that of `totals`: who stored last has not been replaced.
#[derive(Debug)]
struct Durable {
    totals: Totals,
    index: Index,
    /// Written, or about to be, and not durable yet.
    group: Group,
}

impl View {
    pub(super) fn new(statements: Tree, totals: Totals, index: Index) -> Self {
        Self { statements, durable: RwLock::new(Durable { totals, index, group: Group::new() }) }
    }

    /// The writer is about to apply these changes.
    pub(super) fn hide(&self, group: Group) {
        self.durable.write().unwrap_or_else(PoisonError::into_inner).group = group;
    }

    /// What the writer applied is durable.
    pub(super) fn reveal(&self, totals: Totals) {
        let mut durable = self.durable.write().unwrap_or_else(PoisonError::into_inner);
        durable.totals = totals;
        for (device, Change { before, after }) in std::mem::take(&mut durable.group) {
            if let Some(before) = before {
                durable.index.remove(&before.revision);
            }
            durable.index.insert(after.revision, device);
        }
    }

    pub(super) fn totals(&self) -> Totals {
        self.durable().totals
    }

    pub(super) fn statement(&self, device: &DeviceName) -> Result<Option<Statement>, ReadError> {
        let stored = self.stored(&self.durable(), device)?;
        Ok(stored.map(|stored| stored.statement))
    }

    pub(super) fn changes(&self, since: Revision, max_bytes: usize) -> Result<Changes, ReadError> {
        // Held for the whole answer, so that it is one moment. The writer waits this long, and no longer: it does not
        // hold the lock while it writes and syncs.
        let durable = self.durable();
        let head = durable.totals.revision;
        let mut entries: Vec<Entry> = Vec::new();
        let mut bytes = 0;
        for (revision, device) in durable.index.range((Bound::Excluded(since), Bound::Unbounded)) {
            let stored = self.stored(&durable, device)?.filter(|stored| stored.revision == *revision);
            let Stored { statement, revision, came } = stored.ok_or(ReadError::Damaged)?;
            bytes += device.as_str().len() + statement.bytes().len();
            if bytes > max_bytes && !entries.is_empty() {
                break;
            }
            entries.push(Entry { device: device.clone(), statement, revision, came });
        }
        // If they are all that is left, the last one's revision is the head.
        let until = entries.last().map_or(head, |last| last.revision);
        Ok(Changes { entries, until, head })
    }

    fn durable(&self) -> RwLockReadGuard<'_, Durable> {
        self.durable.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn stored(&self, durable: &Durable, device: &DeviceName) -> Result<Option<Stored>, ReadError> {
        if let Some(change) = durable.group.get(device) {
            return Ok(change.before.clone());
        }
        let value = self.statements.get(device.as_str())?;
        value.map(|value| Stored::decode(&value).ok_or(ReadError::Damaged)).transpose()
    }
}
