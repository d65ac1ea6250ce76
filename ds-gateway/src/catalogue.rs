//! Π, as the repository lists it and as each controller signed it.
//!
//! A repository can withhold a statement, and nothing else: each one is opened here, and of each device the highest
//! version ever seen is remembered, also when its statement is withdrawn, out of date or no longer listed. What is lower
//! is refused, and so is another statement of the same version.
//!
//! * [`verify`]: opens many statements with all processors;
//! * [`mod@file`]: the catalogue on disk, for a start without network.

pub mod file;
pub mod verify;

use std::collections::{BTreeMap, BTreeSet};

use pilot_core::codec::{self, Digest};
use pilot_core::evidence::statement::{Content, StatementError};
use pilot_core::evidence::{DeviceName, StatementId};
use pilot_core::policy::{Choice, Policy};
use pilot_core::value::Time;
use pilot_core::vocabulary::Entity;

use self::verify::{Opened, Reader, open_all};

/// How often everything is downloaded again, in seconds, instead of what is new: then statements count as gone that the
/// repository does not list any more.
pub const FULL_SECONDS: u64 = 3_600;

/// What is known of the policies of a mesh.
#[derive(Debug)]
pub struct Catalogue {
    repository: DeviceName,
    /// Everything up to this revision of the repository was seen.
    head: u64,
    /// When a download was last complete.
    completed: Option<Time>,
    /// When everything was last downloaded.
    filled: Option<Time>,
    entries: BTreeMap<DeviceName, Entry>,
    /// Whose statement an id is.
    ids: BTreeMap<StatementId, DeviceName>,
    is_dirty: bool,
}

/// The last statement of a device.
#[derive(Debug)]
struct Entry {
    version: u64,
    id: StatementId,
    /// `None`: not listed any more, or it could not be opened again.
    listed: Option<Listed>,
}

/// A statement that the repository lists.
#[derive(Debug)]
pub struct Listed {
    bytes: Vec<u8>,
    /// `None`: the device has withdrawn its policy.
    policy: Option<Digest>,
    /// Until somebody takes it.
    fresh: Option<Policy>,
    entity: Entity,
    expires: Time,
}

/// A controller's policy, as it was signed.
#[derive(Debug, Clone, Copy)]
pub struct Offer<'c> {
    /// The statement's id.
    pub statement: StatementId,
    /// The statement's bytes.
    pub bytes: &'c [u8],
    /// The policy.
    pub policy: Digest,
    /// entity(device), as the statement says.
    pub entity: Entity,
    /// From this moment on it says nothing any more.
    pub expires: Time,
}

/// Why a statement is left out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It is not to be believed.
    #[error(transparent)]
    Unverifiable(#[from] StatementError),
    /// An older one, or another one of the same version.
    #[error("version {version} of {device} comes after version {known}")]
    RolledBack {
        /// Whose.
        device: DeviceName,
        /// What came.
        version: u64,
        /// What was known.
        known: u64,
    },
}

impl Catalogue {
    /// Nothing is known.
    pub fn new(repository: DeviceName) -> Self {
        let (entries, ids) = (BTreeMap::new(), BTreeMap::new());
        Self { repository, head: 0, completed: None, filled: None, entries, ids, is_dirty: false }
    }

    /// The revision up to which everything was seen.
    pub const fn head(&self) -> u64 {
        self.head
    }

    /// When a download was last complete.
    pub const fn completed(&self) -> Option<Time> {
        self.completed
    }

    /// Whether the next download should be of everything.
    pub fn is_full_due(&self, now: Time) -> bool {
        let is_old = |filled: Time| now.unix().saturating_sub(filled.unix()) >= FULL_SECONDS;
        self.head == 0 || self.filled.is_none_or(is_old)
    }

    /// The next download is of everything.
    pub const fn ask_for_everything(&mut self) {
        self.head = 0;
    }

    /// Who may speak for whom has changed: what does not open any more is not listed, and the next download is of
    /// everything. Returns how many are gone.
    pub fn start_over(&mut self, reader: &Reader<'_>) -> usize {
        self.ask_for_everything();
        let listed = self.entries.values().filter_map(|entry| entry.listed.as_ref());
        let statements = listed.map(|listed| listed.bytes.clone()).collect();
        let opened = open_all(statements, &|_| false, reader);
        let good: BTreeSet<StatementId> = opened
            .into_iter()
            .filter_map(|opened| match opened {
                Ok(Opened::New(statement)) => Some(statement.id),
                Ok(Opened::Known(_)) | Err(_) => None,
            })
            .collect();
        let mut gone = 0;
        for entry in self.entries.values_mut().filter(|entry| entry.listed.is_some() && !good.contains(&entry.id)) {
            entry.listed = None;
            gone += 1;
        }
        self.is_dirty |= gone > 0;
        gone
    }

    /// Takes a part of a download, and says what of it is refused. `seen` gets the devices of a full download.
    pub fn take(
        &mut self,
        statements: Vec<Vec<u8>>,
        mut seen: Option<&mut BTreeSet<DeviceName>>,
        reader: &Reader<'_>,
    ) -> Vec<Refused> {
        let mut refused = Vec::new();
        for opened in open_all(statements, &|id| self.is_listed_as(id), reader) {
            let device = match opened {
                Ok(Opened::Known(id)) => self.ids.get(&id).cloned(),
                Ok(Opened::New(statement)) => match self.insert(*statement, reader) {
                    Ok(device) => Some(device),
                    Err(error) => {
                        refused.push(error);
                        None
                    }
                },
                Err(error) => {
                    refused.push(error.into());
                    None
                }
            };
            if let (Some(seen), Some(device)) = (seen.as_deref_mut(), device) {
                seen.insert(device);
            }
        }
        refused
    }

    fn is_listed_as(&self, id: &StatementId) -> bool {
        let entry = self.ids.get(id).and_then(|device| self.entries.get(device));
        entry.is_some_and(|entry| entry.listed.is_some())
    }

    /// A statement that opened, unless a higher version is known.
    fn insert(&mut self, new: verify::Statement, reader: &Reader<'_>) -> Result<DeviceName, Refused> {
        let verify::Statement { id, bytes, statement } = new;
        let (device, version) = (statement.device, statement.version);
        if let Some(known) = self.entries.get(&device) {
            if version < known.version || (version == known.version && id != known.id) {
                return Err(Refused::RolledBack { device, version, known: known.version });
            }
            self.ids.remove(&known.id);
        }
        let fresh = match statement.content {
            Content::Policy(policy) => Some(policy),
            Content::Withdrawal => None,
        };
        let digest = |policy: &Policy| codec::digest(&Choice::Policy(policy.clone()), reader.vocabulary);
        let policy = fresh.as_ref().map(digest);
        let listed = Listed { bytes, policy, fresh, entity: statement.entity, expires: statement.expires };
        self.ids.insert(id, device.clone());
        self.entries.insert(device.clone(), Entry { version, id, listed: Some(listed) });
        self.is_dirty = true;
        Ok(device)
    }

    /// A download is complete: `seen` are the devices of a full one; others are not listed any more.
    pub fn complete(&mut self, head: u64, seen: Option<&BTreeSet<DeviceName>>, now: Time) {
        self.is_dirty |= self.head != head;
        (self.head, self.completed) = (head, Some(now));
        let Some(seen) = seen else { return };
        self.filled = Some(now);
        self.is_dirty = true;
        for (device, entry) in &mut self.entries {
            if !seen.contains(device) {
                entry.listed = None;
            }
        }
    }

    /// Every policy that is listed.
    pub fn offers(&self) -> impl Iterator<Item = (&DeviceName, Offer<'_>)> {
        self.entries.iter().filter_map(|(device, entry)| Some((device, entry.offer()?)))
    }

    /// The policy of a device, if one is listed.
    pub fn offer(&self, device: &DeviceName) -> Option<Offer<'_>> {
        self.entries.get(device)?.offer()
    }

    /// The policies that were read since they were last taken: whoever keeps policies by their digests wants them once.
    pub fn take_fresh(&mut self) -> impl Iterator<Item = Policy> {
        let listed = self.entries.values_mut().filter_map(|entry| entry.listed.as_mut());
        listed.filter_map(|listed| listed.fresh.take())
    }
}

impl Entry {
    fn offer(&self) -> Option<Offer<'_>> {
        let Listed { bytes, policy, entity, expires, .. } = self.listed.as_ref()?;
        Some(Offer { statement: self.id, bytes, policy: (*policy)?, entity: *entity, expires: *expires })
    }
}
