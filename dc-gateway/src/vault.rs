//! The personal data that a controller holds: encrypted per record, erased in time, and gone when erased.
//!
//! # What is promised
//!
//! * **Nothing that is due can be read.** [`Vault::open`] erases everything whose deadline has passed while the daemon
//!   was down before it returns, and [`Vault::reveal`] refuses what is due but not yet swept.
//! * **Changes are durable** when a method returns, and each method is one transaction.
//! * **It follows the trace.** What recorded steps mean for it is applied together with the position in the trace up to
//!   which it is then done ([`Vault::apply`]), so after a crash it is known what is missing ([`Unswept`]).
//! * **Values are sealed** (XChaCha20-Poly1305) with a key per record, bound to the rest of the record; the record keys
//!   are sealed with the vault's key, which lives in a file of its own. Without either there is no value.
//! * **Values do not leak.** [`Vault::reveal`] is the only way to one, and [`Secret`] shows nothing in `Debug`.
//! * **Erased bytes leave the file.** Erasing takes record and key out of their tables; redb writes to new pages, so
//!   the old pages linger in the file until [`Vault::compact`], which writes the live records to a new file and renames
//!   it over the old one. The new file has never seen what was erased; redb's own compaction promises a smaller file,
//!   not a clean one.
//!
//! What the file system and the disk keep of a file that is gone is beyond us: whoever fears a thief who reads freed
//! blocks and has the key file needs an encrypted disk.
//!
//! # When to compact
//!
//! Compaction costs one pass over the live records and three syncs, so it does not run for each erasure but at most
//! once per sweep: call [`Vault::sweep`] in a fixed interval; it erases what is due and compacts if anything was erased
//! since the last time, on whatever grounds. Erased bytes are then in the file for at most that interval. That something
//! was erased is noted in the file, so [`Vault::open`] compacts what a crash left over.

mod file;
mod open;
mod seal;
mod tables;

use std::fmt;
use std::path::PathBuf;

use mesh_runtime::recorder::Position;
use pilot_core::codec::Digest;
use pilot_core::evidence::Pseudonym;
use pilot_core::graph::message::Withdrawal;
use pilot_core::semantics::Epoch;
use pilot_core::value::Time;
use redb::{Database, ReadableTable as _, ReadableTableMetadata, WriteTransaction};
use zeroize::Zeroizing;

pub use self::open::{OpenError, Unswept};
use self::seal::{RecordKey, SealError, VaultKey};

/// The longest value. Addresses have six bytes; this leaves room for other datatypes.
pub const MAX_VALUE_BYTES: usize = 4096;

/// The most records. One more is [`VaultError::Full`], and the item is not kept.
pub const MAX_RECORDS: u64 = 1_000_000;

/// The most tombstones. One more is [`VaultError::Full`]: then only erasing and waiting help, and who cannot remember a
/// withdrawal must not collect.
pub const MAX_TOMBSTONES: u64 = 1_000_000;

/// The most records in one answer of [`Vault::records`]; who asks for more gets this many.
pub const MAX_LISTED: usize = 10_000;

/// The name of a record: random, and without meaning outside this vault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub [u8; 16]);

impl Handle {
    /// One that nothing has yet.
    pub fn random() -> Result<Self, VaultError> {
        Ok(Self(seal::random()?))
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Handle({self})")
    }
}

/// A personal value. It is overwritten in memory when dropped, and shows itself only to who asks by name.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<Vec<u8>>);

/// A value has more than [`MAX_VALUE_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a value of {0} bytes is too long, at most {MAX_VALUE_BYTES} are kept")]
pub struct ValueTooLong(pub usize);

impl Secret {
    /// A value that is short enough to be kept.
    pub fn new(value: Vec<u8>) -> Result<Self, ValueTooLong> {
        // First into safe hands, also if it is refused.
        let value = Zeroizing::new(value);
        if value.len() > MAX_VALUE_BYTES { Err(ValueTooLong(value.len())) } else { Ok(Self(value)) }
    }

    /// The value itself.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Secret(..)")
    }
}

/// What is known about a held item, without its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Whose: the owner's item under the controller's audit key.
    pub pseudonym: Pseudonym,
    /// The datatype's name.
    pub datatype: String,
    /// The policy under which it was released.
    pub policy: Digest,
    /// When it must be gone.
    pub until: Time,
    /// When the owner released it.
    pub epoch: Epoch,
}

/// A held item, without its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its name here.
    pub handle: Handle,
    /// What is known about it.
    pub description: Description,
}

/// A change, one of several that happen together or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// An item is kept.
    Keep(Record, Secret),
    /// What is known of an item that is held is another value now.
    Revise(Record, Secret),
    /// Everything of one owner is erased.
    Erase(Pseudonym),
    /// Likewise, because she took releases back; the tombstone stays.
    Withdraw(Pseudonym, Withdrawal),
}

/// What a sweep has done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Swept {
    /// What was erased because it was due.
    pub erased: Vec<Description>,
    /// Tombstones that no longer matter.
    pub forgotten: u64,
    /// Whether the file was written anew.
    pub compacted: bool,
}

/// Why the vault could not do it. Unless it says otherwise, nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// The database failed.
    #[error("the vault's database failed: {0}")]
    Database(#[source] Box<redb::Error>),
    /// The file could not be written anew. What was erased is unreachable, but its bytes are still in the file.
    #[error("cannot compact the vault: {0}")]
    Compact(#[source] std::io::Error),
    /// [`MAX_RECORDS`] or [`MAX_TOMBSTONES`].
    #[error("the vault is full: {0}")]
    Full(&'static str),
    /// A record contradicts its seal: something else has written to the file.
    #[error("the record {0} is damaged")]
    Damaged(Handle),
    /// It does not say how far it has followed the trace.
    #[error("the vault is damaged: it does not say where in the trace it is")]
    Position,
    /// The cipher refuses.
    #[error("cannot seal a record")]
    Seal,
    /// The operating system gives no random numbers.
    #[error("no random numbers: {0}")]
    Random(getrandom::Error),
}

macro_rules! from_redb {
    ($($error:ty),*) => { $(
        impl From<$error> for VaultError {
            fn from(error: $error) -> Self {
                Self::Database(Box::new(error.into()))
            }
        }
    )* };
}

from_redb!(redb::DatabaseError, redb::TransactionError, redb::TableError, redb::StorageError, redb::CommitError);

impl From<getrandom::Error> for VaultError {
    fn from(error: getrandom::Error) -> Self {
        Self::Random(error)
    }
}

/// The vault, open. One process at a time has it. Its methods block on the disk.
pub struct Vault {
    path: PathBuf,
    key: VaultKey,
    database: Database,
}

impl fmt::Debug for Vault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Vault").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Vault {
    /// Keeps items, all or none of them; returns their handles in the same order.
    ///
    /// Several at once share one sync.
    pub fn insert(&mut self, items: &[(Description, Secret)]) -> Result<Vec<Handle>, VaultError> {
        let mut handles = Vec::with_capacity(items.len());
        self.write(|transaction| {
            let mut tables = tables::Records::open(transaction)?;
            for (description, value) in items {
                let record = Record { handle: Handle::random()?, description: description.clone() };
                self.keep(&mut tables, &record, value)?;
                handles.push(record.handle);
            }
            Ok(())
        })?;
        Ok(handles)
    }

    /// Makes the changes that a trace says up to a position, in their order, all or none of them.
    ///
    /// The trace must be on the disk up to there. If there is no room for a tombstone or a record, the answer is
    /// [`VaultError::Full`] and nothing has changed.
    pub fn apply(&mut self, changes: &[Change], position: Position) -> Result<(), VaultError> {
        self.write(|transaction| {
            tables::Records::open(transaction)?.note(position)?;
            for change in changes {
                let mut tables = tables::Records::open(transaction)?;
                match change {
                    Change::Keep(record, value) => self.keep(&mut tables, record, value)?,
                    Change::Revise(record, value) => {
                        if tables.records.get(&record.handle.0)?.is_some() {
                            self.seal(&mut tables, record, value)?;
                        }
                    }
                    Change::Erase(pseudonym) => {
                        tables.erase_of(pseudonym, Epoch(u64::MAX))?;
                    }
                    Change::Withdraw(pseudonym, notice) => {
                        tables.erase_of(pseudonym, Epoch(u64::MAX))?;
                        drop(tables);
                        if !tables::bury(transaction, pseudonym, *notice)? {
                            return Err(VaultError::Full("it has as many tombstones as it may"));
                        }
                    }
                }
            }
            Ok(())
        })
    }

    fn keep(&self, tables: &mut tables::Records<'_>, record: &Record, value: &Secret) -> Result<(), VaultError> {
        if tables.records.len()? >= MAX_RECORDS {
            return Err(VaultError::Full("it holds as many records as it may"));
        }
        self.seal(tables, record, value)
    }

    fn seal(&self, tables: &mut tables::Records<'_>, record: &Record, value: &Secret) -> Result<(), VaultError> {
        let Record { handle, description } = record;
        let record_key = RecordKey::new()?;
        let sealed = record_key.seal(&tables::context(*handle, description), value)?;
        let wrapped = self.key.wrap(*handle, &record_key)?;
        tables.insert(*handle, description, &sealed, &wrapped)
    }

    /// Up to where in the trace its changes have been made.
    pub fn position(&self) -> Result<Position, VaultError> {
        tables::position(&self.database)
    }

    /// Erases every record, and follows the trace from a position on. Tombstones stay. Returns how many records.
    fn erase_all(&mut self, position: Position) -> Result<u64, VaultError> {
        self.write(|transaction| {
            let mut tables = tables::Records::open(transaction)?;
            tables.note(position)?;
            Ok(tables.erase_due(Time::from_unix(u64::MAX))?.len() as u64)
        })
    }

    /// The value of a record, unless it is unknown, erased or due.
    ///
    /// The only way to a value: who calls this answers for the purpose.
    pub fn reveal(&self, handle: Handle, now: Time) -> Result<Option<Secret>, VaultError> {
        let transaction = self.database.begin_read()?;
        let records = transaction.open_table(tables::RECORDS)?;
        let Some(row) = records.get(&handle.0)? else { return Ok(None) };
        let (description, sealed) = tables::description(row.value());
        if description.until <= now {
            return Ok(None);
        }
        let keys = transaction.open_table(tables::KEYS)?;
        let wrapped = keys.get(&handle.0)?.ok_or(VaultError::Damaged(handle))?;
        let record_key = self.key.unwrap(handle, wrapped.value()).map_err(|_| VaultError::Damaged(handle))?;
        let context = tables::context(handle, &description);
        record_key.open(&context, sealed).map(Some).map_err(|_| VaultError::Damaged(handle))
    }

    /// What is held of one owner.
    pub fn held_of(&self, pseudonym: &Pseudonym) -> Result<Vec<Record>, VaultError> {
        let transaction = self.database.begin_read()?;
        let records = transaction.open_table(tables::RECORDS)?;
        let index = transaction.open_table(tables::BY_PSEUDONYM)?;
        let mut found = Vec::new();
        for entry in index.range(tables::all_of(pseudonym))? {
            let handle = Handle(*entry?.0.value().1);
            let row = records.get(&handle.0)?.ok_or(VaultError::Damaged(handle))?;
            found.push(Record { handle, description: tables::description(row.value()).0 });
        }
        Ok(found)
    }

    /// What is held, in the order of the (random) handles, after `after` (at first: `None`), at most `limit` records
    /// and [`MAX_LISTED`]. An empty answer is the end.
    pub fn records(&self, after: Option<Handle>, limit: usize) -> Result<Vec<Record>, VaultError> {
        let transaction = self.database.begin_read()?;
        let records = transaction.open_table(tables::RECORDS)?;
        let mut found = Vec::new();
        for entry in records.range::<&[u8; 16]>(tables::after(after.as_ref()))?.take(limit.min(MAX_LISTED)) {
            let (handle, row) = entry?;
            let description = tables::description(row.value()).0;
            found.push(Record { handle: Handle(*handle.value()), description });
        }
        Ok(found)
    }

    /// How many records are held.
    pub fn count(&self) -> Result<u64, VaultError> {
        Ok(self.database.begin_read()?.open_table(tables::RECORDS)?.len()?)
    }

    /// Erases everything of one owner; returns how many records.
    pub fn erase(&mut self, pseudonym: &Pseudonym) -> Result<u64, VaultError> {
        self.write(|transaction| tables::Records::open(transaction)?.erase_of(pseudonym, Epoch(u64::MAX)))
    }

    /// Erases these records, as far as they are there.
    pub fn discard(&mut self, handles: &[Handle]) -> Result<(), VaultError> {
        self.write(|transaction| tables::Records::open(transaction)?.discard(handles))
    }

    /// Takes releases back: erases those up to the notice's epoch and leaves the tombstone, in one transaction, so that
    /// no crash can part them. Returns how many records were erased.
    ///
    /// If there is no room for the tombstone, the records are erased all the same, and the answer is
    /// [`VaultError::Full`].
    pub fn withdraw(&mut self, pseudonym: &Pseudonym, notice: Withdrawal) -> Result<u64, VaultError> {
        let (erased, buried) = self.write(|transaction| {
            let erased = tables::Records::open(transaction)?.erase_of(pseudonym, notice.epoch)?;
            Ok((erased, tables::bury(transaction, pseudonym, notice)?))
        })?;
        if buried { Ok(erased) } else { Err(VaultError::Full("it has as many tombstones as it may")) }
    }

    /// What is withdrawn of one owner, if anything.
    pub fn tombstone(&self, pseudonym: &Pseudonym) -> Result<Option<Withdrawal>, VaultError> {
        let transaction = self.database.begin_read()?;
        let tombstones = transaction.open_table(tables::TOMBSTONES)?;
        Ok(tombstones.get(pseudonym.as_bytes())?.map(|row| tables::withdrawal(row.value())))
    }

    /// Everything that is withdrawn.
    pub fn tombstones(&self) -> Result<Vec<(Pseudonym, Withdrawal)>, VaultError> {
        let transaction = self.database.begin_read()?;
        let tombstones = transaction.open_table(tables::TOMBSTONES)?;
        let mut found = Vec::new();
        for entry in tombstones.iter()? {
            let (pseudonym, row) = entry?;
            found.push((Pseudonym::from_bytes(*pseudonym.value()), tables::withdrawal(row.value())));
        }
        Ok(found)
    }

    /// Erases what is due at `now`, forgets the tombstones that are over, and compacts if anything was erased since the
    /// last compaction. If there is nothing to do, nothing is written.
    pub fn sweep(&mut self, now: Time) -> Result<Swept, VaultError> {
        let mut swept = Swept::default();
        if tables::is_anything_over(&self.database, now)? {
            (swept.erased, swept.forgotten) = self.write(|transaction| {
                let erased = tables::Records::open(transaction)?.erase_due(now)?;
                Ok((erased, tables::forget(transaction, now)?))
            })?;
        }
        swept.compacted = self.compact()?;
        Ok(swept)
    }

    /// Writes the file anew, without what was erased; `false` if nothing was erased since the last time.
    pub fn compact(&mut self) -> Result<bool, VaultError> {
        if !tables::has_erased(&self.database)? {
            return Ok(false);
        }
        let fresh = open::rewrite(&self.path, &self.database)?;
        // The old file has lost its name; with this it is gone.
        self.database = fresh;
        Ok(true)
    }

    /// Runs `change` in a transaction that becomes durable if it succeeds, and never was if not.
    fn write<T>(&self, change: impl FnOnce(&WriteTransaction) -> Result<T, VaultError>) -> Result<T, VaultError> {
        let transaction = self.database.begin_write()?;
        let result = change(&transaction)?;
        transaction.commit()?;
        Ok(result)
    }
}

impl From<SealError> for VaultError {
    fn from(error: SealError) -> Self {
        match error {
            SealError::Random(error) => Self::Random(error),
            SealError::Seal => Self::Seal,
        }
    }
}
