//! What readers see: the durable contents, also while a group is being written.
//!
//! sled shows a batch to readers before it is on the disk. So the writer first notes what the batch replaces, and
//! readers get that until the sync is done.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{PoisonError, RwLock};

use sled::{IVec, Tree};

use super::format::{FIRST_DEVICE_KEY, Totals, decode_statement};
use super::{DeviceName, Revision, Statement};

/// Why a statement could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The database does not answer.
    #[error("cannot read the policy store: {0}")]
    Database(#[from] sled::Error),
    /// What is stored is no statement.
    #[error("the policy store is damaged")]
    Damaged,
}

/// A device and its statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Whose.
    pub device: DeviceName,
    /// What.
    pub statement: Statement,
}

/// Part of the contents, in the byte order of the device names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Of which this is a part.
    pub revision: Revision,
    /// The statements.
    pub entries: Vec<Entry>,
    /// Whether the last one is among them.
    pub is_last: bool,
}

/// What a group replaces: what each of its devices had before, if anything.
pub(super) type Replaced = BTreeMap<IVec, Option<IVec>>;

#[derive(Debug)]
pub(super) struct View {
    statements: Tree,
    durable: RwLock<Durable>,
}

#[derive(Debug)]
struct Durable {
    totals: Totals,
    /// INVARIANT: with these put back, the tree has what `totals` counts.
    replaced: Replaced,
}

impl View {
    pub(super) fn new(statements: Tree, totals: Totals) -> Self {
        Self { statements, durable: RwLock::new(Durable { totals, replaced: Replaced::new() }) }
    }

    /// The writer is about to apply a batch that replaces this.
    pub(super) fn hide(&self, replaced: Replaced) {
        self.durable.write().unwrap_or_else(PoisonError::into_inner).replaced = replaced;
    }

    /// What the writer applied is durable.
    pub(super) fn reveal(&self, totals: Totals) {
        *self.durable.write().unwrap_or_else(PoisonError::into_inner) = Durable { totals, replaced: Replaced::new() };
    }

    pub(super) fn totals(&self) -> Totals {
        self.durable.read().unwrap_or_else(PoisonError::into_inner).totals
    }

    pub(super) fn statement(&self, device: &DeviceName) -> Result<Option<Statement>, ReadError> {
        let durable = self.durable.read().unwrap_or_else(PoisonError::into_inner);
        let value = match durable.replaced.get(device.as_str().as_bytes()) {
            Some(before) => before.clone(),
            None => self.statements.get(device.as_str())?,
        };
        value.map(|value| decode_statement(&value).ok_or(ReadError::Damaged)).transpose()
    }

    pub(super) fn chunk(&self, after: Option<&DeviceName>, max_bytes: usize) -> Result<Chunk, ReadError> {
        // Held for the whole chunk, so that it is one moment. The writer waits this long, and no longer: it does not
        // hold the lock while it writes and syncs.
        let durable = self.durable.read().unwrap_or_else(PoisonError::into_inner);
        let from = match after {
            Some(device) => Bound::Excluded(device.as_str().as_bytes()),
            None => Bound::Included(FIRST_DEVICE_KEY),
        };
        let mut chunk = Chunk { revision: durable.totals.revision, entries: Vec::new(), is_last: true };
        let mut bytes = 0;
        for pair in self.statements.range::<&[u8], _>((from, Bound::Unbounded)) {
            let (key, written) = pair?;
            let value = match durable.replaced.get(&key) {
                Some(None) => continue,
                Some(Some(before)) => before,
                None => &written,
            };
            bytes += key.len() + value.len();
            if bytes > max_bytes && !chunk.entries.is_empty() {
                chunk.is_last = false;
                break;
            }
            chunk.entries.push(decode_entry(&key, value).ok_or(ReadError::Damaged)?);
        }
        Ok(chunk)
    }
}

pub(super) fn decode_entry(key: &[u8], value: &[u8]) -> Option<Entry> {
    let device = DeviceName::parse(std::str::from_utf8(key).ok()?).ok()?;
    Some(Entry { device, statement: decode_statement(value)? })
}
