//! The vault's tables, and what keeps them in step.
//!
//! ```text
//! meta          "format", "key" (by which the vault's key is recognised), "erased" (there is something to compact),
//!               "position" (in the trace: number of the next record, 8 bytes, big endian; hash of the last, 32 bytes)
//! records       handle → datatype, policy, until, epoch, pseudonym, sealed value
//! keys          handle → sealed record key; without it the value is noise
//! by_pseudonym  (pseudonym, handle)
//! by_deadline   (until, handle)
//! tombstones    pseudonym → epoch, until
//! ```
//!
//! INVARIANT: `records`, `keys` and the two indices have the same handles; only [`Records`] changes them.

use std::ops::{Bound, RangeInclusive};

use mesh_runtime::recorder::Position;
use pilot_core::codec::Digest;
use pilot_core::evidence::envelope::ChainHead;
use pilot_core::graph::message::Withdrawal;
use pilot_core::semantics::Epoch;
use pilot_core::value::Time;
use redb::{Database, ReadableTable, ReadableTableMetadata, Table, TableDefinition, WriteTransaction};

use super::{Description, Handle, MAX_TOMBSTONES, Pseudonym, VaultError};

type HandleKey = &'static [u8; 16];
type PseudonymKey = &'static [u8; 32];
/// datatype, policy, until, epoch, pseudonym, sealed value.
pub(super) type Row<'r> = (&'r str, &'r [u8; 32], u64, u64, &'r [u8; 32], &'r [u8]);

pub(super) const META: TableDefinition<&str, &[u8]> = TableDefinition::new("meta");
pub(super) const RECORDS: TableDefinition<HandleKey, Row<'static>> = TableDefinition::new("records");
pub(super) const KEYS: TableDefinition<HandleKey, &[u8]> = TableDefinition::new("keys");
pub(super) const BY_PSEUDONYM: TableDefinition<(PseudonymKey, HandleKey), ()> = TableDefinition::new("by_pseudonym");
pub(super) const BY_DEADLINE: TableDefinition<(u64, HandleKey), ()> = TableDefinition::new("by_deadline");
pub(super) const TOMBSTONES: TableDefinition<PseudonymKey, (u64, u64)> = TableDefinition::new("tombstones");

/// What "format" says.
pub(super) const FORMAT: &[u8] = b"consent-mesh vault 2";

const LEAST_HANDLE: &[u8; 16] = &[0; 16];
const GREATEST_HANDLE: &[u8; 16] = &[0xFF; 16];

/// The entries of `by_pseudonym` of one owner.
pub(super) fn all_of(pseudonym: &Pseudonym) -> RangeInclusive<(&[u8; 32], &[u8; 16])> {
    (pseudonym.as_bytes(), LEAST_HANDLE)..=(pseudonym.as_bytes(), GREATEST_HANDLE)
}

/// The records after a handle.
pub(super) fn after(handle: Option<&Handle>) -> (Bound<&[u8; 16]>, Bound<&[u8; 16]>) {
    (handle.map_or(Bound::Unbounded, |handle| Bound::Excluded(&handle.0)), Bound::Unbounded)
}

pub(super) fn description((datatype, policy, until, epoch, pseudonym, sealed): Row<'_>) -> (Description, &[u8]) {
    let description = Description {
        pseudonym: Pseudonym::from_bytes(*pseudonym),
        datatype: datatype.into(),
        policy: Digest(*policy),
        until: Time::from_unix(until),
        epoch: Epoch(epoch),
    };
    (description, sealed)
}

pub(super) fn withdrawal((epoch, until): (u64, u64)) -> Withdrawal {
    Withdrawal { epoch: Epoch(epoch), until: Time::from_unix(until) }
}

/// What a value is sealed together with: all else that its record says. The datatype, of varying length, comes last.
pub(super) fn context(handle: Handle, description: &Description) -> Vec<u8> {
    let Description { pseudonym, datatype, policy, until, epoch } = description;
    let (until, epoch) = (until.unix().to_be_bytes(), epoch.0.to_be_bytes());
    [&handle.0[..], pseudonym.as_bytes(), &policy.0, &until, &epoch, datatype.as_bytes()].concat()
}

/// Makes the tables of a new vault.
pub(super) fn create(transaction: &WriteTransaction, key_check: &[u8]) -> Result<(), VaultError> {
    let mut tables = Records::open(transaction)?;
    tables.meta.insert("format", FORMAT)?;
    tables.meta.insert("key", key_check)?;
    tables.note(Position::START)?;
    transaction.open_table(TOMBSTONES)?;
    Ok(())
}

/// Whether anything was erased since the file was written anew.
pub(super) fn has_erased(database: &Database) -> Result<bool, VaultError> {
    Ok(database.begin_read()?.open_table(META)?.get("erased")?.is_some())
}

/// Up to where the trace was followed.
pub(super) fn position(database: &Database) -> Result<Position, VaultError> {
    let meta = database.begin_read()?.open_table(META)?;
    let entry = meta.get("position")?.ok_or(VaultError::Position)?;
    let (next, head) = entry.value().split_first_chunk().ok_or(VaultError::Position)?;
    let head = ChainHead(head.try_into().map_err(|_| VaultError::Position)?);
    Ok(Position { next: u64::from_be_bytes(*next), head })
}

/// Whether a record is due, or a tombstone over.
pub(super) fn is_anything_over(database: &Database, now: Time) -> Result<bool, VaultError> {
    let transaction = database.begin_read()?;
    let first = transaction.open_table(BY_DEADLINE)?.first()?.map(|(key, _)| Time::from_unix(key.value().0));
    if first.is_some_and(|deadline| deadline <= now) {
        return Ok(true);
    }
    for entry in transaction.open_table(TOMBSTONES)?.iter()? {
        if withdrawal(entry?.1.value()).is_over_at(now) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The tables that are changed together.
pub(super) struct Records<'t> {
    meta: Table<'t, &'static str, &'static [u8]>,
    pub(super) records: Table<'t, HandleKey, Row<'static>>,
    keys: Table<'t, HandleKey, &'static [u8]>,
    by_pseudonym: Table<'t, (PseudonymKey, HandleKey), ()>,
    by_deadline: Table<'t, (u64, HandleKey), ()>,
}

impl<'t> Records<'t> {
    pub(super) fn open(transaction: &'t WriteTransaction) -> Result<Self, VaultError> {
        Ok(Self {
            meta: transaction.open_table(META)?,
            records: transaction.open_table(RECORDS)?,
            keys: transaction.open_table(KEYS)?,
            by_pseudonym: transaction.open_table(BY_PSEUDONYM)?,
            by_deadline: transaction.open_table(BY_DEADLINE)?,
        })
    }

    /// The trace is followed up to here.
    pub(super) fn note(&mut self, position: Position) -> Result<(), VaultError> {
        let bytes = [&position.next.to_be_bytes()[..], &position.head.0].concat();
        self.meta.insert("position", bytes.as_slice())?;
        Ok(())
    }

    pub(super) fn insert(
        &mut self,
        handle: Handle,
        description: &Description,
        sealed: &[u8],
        wrapped: &[u8],
    ) -> Result<(), VaultError> {
        let Description { pseudonym, datatype, policy, until, epoch } = description;
        let row = (datatype.as_str(), &policy.0, until.unix(), epoch.0, pseudonym.as_bytes(), sealed);
        self.records.insert(&handle.0, row)?;
        self.keys.insert(&handle.0, wrapped)?;
        self.by_pseudonym.insert((pseudonym.as_bytes(), &handle.0), ())?;
        self.by_deadline.insert((until.unix(), &handle.0), ())?;
        Ok(())
    }

    /// Erases what one owner released up to an epoch.
    pub(super) fn erase_of(&mut self, pseudonym: &Pseudonym, last: Epoch) -> Result<u64, VaultError> {
        let mut handles = Vec::new();
        for entry in self.by_pseudonym.range(all_of(pseudonym))? {
            let handle = Handle(*entry?.0.value().1);
            let row = self.records.get(&handle.0)?.ok_or(VaultError::Damaged(handle))?;
            if description(row.value()).0.epoch <= last {
                handles.push(handle);
            }
        }
        Ok(self.erase(&handles)?.len() as u64)
    }

    /// Erases what must be gone at `now`.
    pub(super) fn erase_due(&mut self, now: Time) -> Result<Vec<Description>, VaultError> {
        let mut handles = Vec::new();
        for entry in self.by_deadline.range(..=(now.unix(), GREATEST_HANDLE))? {
            handles.push(Handle(*entry?.0.value().1));
        }
        self.erase(&handles)
    }

    /// Erases these, as far as they are there.
    pub(super) fn discard(&mut self, handles: &[Handle]) -> Result<(), VaultError> {
        let mut there = Vec::new();
        for handle in handles {
            if self.records.get(&handle.0)?.is_some() {
                there.push(*handle);
            }
        }
        self.erase(&there).map(drop)
    }

    fn erase(&mut self, handles: &[Handle]) -> Result<Vec<Description>, VaultError> {
        let mut erased = Vec::with_capacity(handles.len());
        for handle in handles {
            self.keys.remove(&handle.0)?;
            let row = self.records.remove(&handle.0)?.ok_or(VaultError::Damaged(*handle))?;
            let description = description(row.value()).0;
            drop(row);
            self.by_pseudonym.remove((description.pseudonym.as_bytes(), &handle.0))?;
            self.by_deadline.remove((description.until.unix(), &handle.0))?;
            erased.push(description);
        }
        if !handles.is_empty() {
            self.meta.insert("erased", &[][..])?;
        }
        Ok(erased)
    }
}

/// Leaves a tombstone, together with what an earlier one says; `false` if there is no room.
pub(super) fn bury(
    transaction: &WriteTransaction,
    pseudonym: &Pseudonym,
    notice: Withdrawal,
) -> Result<bool, VaultError> {
    let mut tombstones = transaction.open_table(TOMBSTONES)?;
    let known = tombstones.get(pseudonym.as_bytes())?.map(|row| withdrawal(row.value()));
    if known.is_none() && tombstones.len()? >= MAX_TOMBSTONES {
        return Ok(false);
    }
    let both = known.map_or(notice, |known| known.and(notice));
    tombstones.insert(pseudonym.as_bytes(), (both.epoch.0, both.until.unix()))?;
    Ok(true)
}

/// Forgets the tombstones that no longer matter.
pub(super) fn forget(transaction: &WriteTransaction, now: Time) -> Result<u64, VaultError> {
    let mut tombstones = transaction.open_table(TOMBSTONES)?;
    let before = tombstones.len()?;
    tombstones.retain(|_, row| !withdrawal(row).is_over_at(now))?;
    Ok(before - tombstones.len()?)
}

/// Copies everything that is live.
pub(super) fn copy(from: &Database, to: &WriteTransaction) -> Result<(), VaultError> {
    macro_rules! copy {
        ($($table:ident),*) => { $({
            let source = from.begin_read()?.open_table($table)?;
            let mut target = to.open_table($table)?;
            for entry in source.iter()? {
                let (key, value) = entry?;
                target.insert(key.value(), value.value())?;
            }
        })* };
    }
    copy!(META, RECORDS, KEYS, BY_PSEUDONYM, BY_DEADLINE, TOMBSTONES);
    to.open_table(META)?.remove("erased")?;
    Ok(())
}
