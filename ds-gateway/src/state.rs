//! What must survive a restart besides policies: whom she refuses, who may have got her item, and which notices are not
//! acknowledged yet. It is stored before a frame or a notice that depends on it leaves, as `state.json`:
//!
//! ```json
//! {"form": 2, "item": "<pseudonym>", "time": 1704153600, "trace": {"next": 17, "head": "<32 bytes>"},
//!  "refused": ["advertiser"],
//!  "recipients": {"mall-gate": {"epoch": 26627400, "until": 2051222400}},
//!  "tombstone": {"epoch": 26627401, "until": 2051222400},
//!  "signed": ["mall-gate"],
//!  "notices": {"mall-gate": {"id": "<16 bytes>", "head": "<32 bytes>", "epoch": 26627401, "until": 2051222400}}}
//! ```
//!
//! `trace` says up to which record it follows her trace. A step is recorded first, so after a crash the trace may have more:
//! then what she took back since is taken from there (`follow`).
//!
//! It names things by their names, since numbers do not survive a restart. Names that the mesh file no longer has are kept:
//! the operator may bring them back.

use std::collections::{BTreeMap, BTreeSet};

use mesh_runtime::journal::Names;
use mesh_runtime::recorder::Position;
use pilot_core::evidence::envelope::{ChainHead, MessageId};
use pilot_core::evidence::hex::{self, Hex};
use pilot_core::evidence::{DeviceName, Pseudonym};
use pilot_core::graph::Memory;
use pilot_core::graph::message::Withdrawal;
use pilot_core::semantics::Epoch;
use pilot_core::value::Time;
use pilot_core::vocabulary::{ItemId, Vocabulary};
use serde::{Deserialize, Serialize};

const FORM: u8 = 2;

/// The file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    form: u8,
    item: String,
    time: u64,
    // Optional so that another form is told as such.
    trace: Option<Position>,
    refused: BTreeSet<String>,
    recipients: BTreeMap<String, Span>,
    tombstone: Option<Span>,
    signed: BTreeSet<String>,
    notices: BTreeMap<String, StoredNotice>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Span {
    epoch: u64,
    until: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredNotice {
    id: String,
    head: String,
    epoch: u64,
    until: u64,
}

/// A withdraw notice that was recorded and is not acknowledged yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owed {
    /// The envelope's id, the same each time.
    pub id: MessageId,
    /// The head of the trace when it was recorded.
    pub head: ChainHead,
    /// What it takes back.
    pub withdrawal: Withdrawal,
}

/// What she remembers besides the variables of her graph.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remembered {
    /// Controllers for whom a signed frame was on the air: they believe only signed notices.
    pub signed: BTreeSet<DeviceName>,
    /// Notices, by their receivers.
    pub notices: BTreeMap<DeviceName, Owed>,
    /// Entities that she refuses and the vocabulary does not have.
    unknown_entities: BTreeSet<String>,
    /// Recipients that the mesh file does not have.
    unknown_recipients: BTreeMap<String, Span>,
}

impl Remembered {
    /// Recipients that the mesh file does not have: nobody can be told to erase who cannot be addressed.
    pub(crate) fn unknown_recipients(&self) -> impl Iterator<Item = &str> {
        self.unknown_recipients.keys().map(String::as_str)
    }

    /// An entity that the vocabulary does not have is not refused any more; whether it was.
    pub(crate) fn forget_entity(&mut self, entity: &str) -> bool {
        self.unknown_entities.remove(entity)
    }
}

/// Why a state is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// Of a later program.
    #[error("it has a form that this program does not know")]
    Form,
    /// A name or id in it is none.
    #[error("it is damaged")]
    Damaged,
    /// Of another item.
    #[error("it is about another address than the configuration's")]
    OtherItem,
}

/// Whose state it is.
#[derive(Debug, Clone, Copy)]
pub struct About<'a> {
    /// The item.
    pub item: ItemId,
    /// What stands for it on disk.
    pub pseudonym: Pseudonym,
    /// The words.
    pub vocabulary: &'a Vocabulary,
}

impl State {
    /// What is to be stored, as of a position in the trace and a time.
    pub fn of(
        memory: &Memory,
        remembered: &Remembered,
        names: &Names,
        about: &About<'_>,
        (position, now): (Position, Time),
    ) -> Self {
        let entities = memory.refused.iter().map(|entity| about.vocabulary.entities.name(*entity).to_owned());
        let recipients = memory.recipients_of(about.item);
        let known = recipients.filter_map(|(id, span)| Some((names.name_of(id)?.to_string(), span.into())));
        let unknown = remembered.unknown_recipients.iter().map(|(name, span)| (name.clone(), *span));
        let notices = remembered.notices.iter().map(|(name, owed)| (name.to_string(), owed.into()));
        Self {
            form: FORM,
            item: about.pseudonym.to_string(),
            time: now.unix(),
            trace: Some(position),
            refused: entities.chain(remembered.unknown_entities.iter().cloned()).collect(),
            // Known ones come last: they are newer.
            recipients: unknown.chain(known).collect(),
            tombstone: memory.tombstones.get(&about.item).map(|span| (*span).into()),
            signed: remembered.signed.iter().map(DeviceName::to_string).collect(),
            notices: notices.collect(),
        }
    }

    /// The last time at which it was stored.
    pub const fn time(&self) -> Time {
        Time::from_unix(self.time)
    }

    /// Up to where in her trace it goes.
    pub fn position(&self) -> Position {
        self.trace.unwrap_or(Position::START)
    }

    /// Puts everything back to where it was.
    pub fn restore(self, names: &Names, about: &About<'_>) -> Result<(Memory, Remembered), RestoreError> {
        if self.form != FORM {
            return Err(RestoreError::Form);
        }
        if self.item != about.pseudonym.to_string() {
            return Err(RestoreError::OtherItem);
        }
        let (mut memory, mut remembered) = (Memory::default(), Remembered::default());
        for name in self.refused {
            match about.vocabulary.entities.id(&name) {
                Some(entity) => drop(memory.refused.insert(entity)),
                None => drop(remembered.unknown_entities.insert(name)),
            }
        }
        for (name, span) in self.recipients {
            match device(&name)?.and_then(|name| names.id_of(&name)) {
                Some(id) => drop(memory.recipients.insert((about.item, id), span.into())),
                None => drop(remembered.unknown_recipients.insert(name, span)),
            }
        }
        if let Some(span) = self.tombstone {
            memory.tombstones.insert(about.item, span.into());
        }
        for name in self.signed {
            remembered.signed.extend(device(&name)?);
        }
        for (name, notice) in self.notices {
            let owed = notice.owed().ok_or(RestoreError::Damaged)?;
            remembered.notices.extend(device(&name)?.map(|name| (name, owed)));
        }
        Ok((memory, remembered))
    }
}

fn device(name: &str) -> Result<Option<DeviceName>, RestoreError> {
    DeviceName::new(name).map(Some).map_err(|_| RestoreError::Damaged)
}

impl StoredNotice {
    fn owed(&self) -> Option<Owed> {
        let (id, head) = (MessageId(hex::decode(&self.id)?), ChainHead(hex::decode(&self.head)?));
        Some(Owed { id, head, withdrawal: Span { epoch: self.epoch, until: self.until }.into() })
    }
}

impl From<&Owed> for StoredNotice {
    fn from(owed: &Owed) -> Self {
        let Span { epoch, until } = owed.withdrawal.into();
        Self { id: Hex(&owed.id.0).to_string(), head: Hex(&owed.head.0).to_string(), epoch, until }
    }
}

impl From<Withdrawal> for Span {
    fn from(withdrawal: Withdrawal) -> Self {
        Self { epoch: withdrawal.epoch.0, until: withdrawal.until.unix() }
    }
}

impl From<Span> for Withdrawal {
    fn from(span: Span) -> Self {
        Self { epoch: Epoch(span.epoch), until: Time::from_unix(span.until) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pilot_core::evidence::AuditKey;
    use pilot_core::vocabulary::{Directory, Id as _};
    use zeroize::Zeroizing;

    const POSITION: Position = Position { next: 17, head: ChainHead([6; 32]) };
    const WITHDRAWAL: Withdrawal = Withdrawal { epoch: Epoch(7), until: Time::from_unix(9_000) };

    fn vocabulary(entities: &str) -> Vocabulary {
        let rest = "datatypes = { mac = [] }\npurposes = { ads = [] }";
        Vocabulary::from_toml(&format!("entities = {entities}\n{rest}")).unwrap()
    }

    fn names(devices: &[&str], vocabulary: &Vocabulary) -> Names {
        let (mut directory, mut names) = (Directory::default(), Names::default());
        let entity = vocabulary.entities.id("mall").unwrap();
        for device in devices {
            names.device(directory.add_device(entity), DeviceName::new(device).unwrap());
        }
        names
    }

    fn about(vocabulary: &Vocabulary) -> About<'_> {
        let key = AuditKey::new(Zeroizing::new([1; 32]));
        About { item: ItemId::from_index(0), pseudonym: Pseudonym::of(&[1, 2, 3], &key), vocabulary }
    }

    /// Everything comes back, although every number is another one; and what the mesh file does not have is not lost.
    #[test]
    fn state_survives_restarts_and_other_mesh_files() {
        let both = vocabulary("{ mall = [], shop = [] }");
        let at_first = names(&["gate", "till"], &both);
        let (gate, till) = (DeviceName::new("gate").unwrap(), DeviceName::new("till").unwrap());
        let item = about(&both).item;
        let mut memory = Memory::default();
        memory.refused.extend(both.entities.id("shop"));
        for name in [&gate, &till] {
            memory.recipients.insert((item, at_first.id_of(name).unwrap()), WITHDRAWAL);
        }
        memory.tombstones.insert(item, WITHDRAWAL);
        let owed = Owed { id: MessageId([3; 16]), head: ChainHead([4; 32]), withdrawal: WITHDRAWAL };
        let remembered = Remembered {
            signed: [gate.clone()].into(),
            notices: [(till.clone(), owed)].into(),
            ..Remembered::default()
        };
        let state = State::of(&memory, &remembered, &at_first, &about(&both), (POSITION, Time::from_unix(5)));
        let text = serde_json::to_string(&state).unwrap();
        let read: State = serde_json::from_str(&text).unwrap();
        assert_eq!(read.position(), POSITION);
        assert_eq!((read.clone().restore(&at_first, &about(&both))), Ok((memory.clone(), remembered)));

        // Later the mesh has neither the shop nor its till, and the gate has another number.
        let fewer = vocabulary("{ mall = [] }");
        let later = names(&["another", "gate"], &fewer);
        let (restored, kept) = read.restore(&later, &about(&fewer)).unwrap();
        let gate_only = [((item, later.id_of(&gate).unwrap()), WITHDRAWAL)];
        assert_eq!(restored.recipients, gate_only.into());
        assert!(restored.refused.is_empty());
        let again = State::of(&restored, &kept, &later, &about(&fewer), (POSITION, Time::from_unix(5)));
        assert_eq!(again, state, "stored again, nothing is lost");
    }

    /// Another address needs another data directory: its recipients would never be told.
    #[test]
    fn a_state_is_about_one_item() {
        let vocabulary = vocabulary("{ mall = [] }");
        let names = Names::default();
        let about = about(&vocabulary);
        let state = State::of(&Memory::default(), &Remembered::default(), &names, &about, (POSITION, Time::default()));
        let key = AuditKey::new(Zeroizing::new([1; 32]));
        let other = About { pseudonym: Pseudonym::of(&[9], &key), ..about };
        assert_eq!(state.clone().restore(&names, &other), Err(RestoreError::OtherItem));
        let later = State { form: 3, ..state };
        assert_eq!(later.restore(&names, &about), Err(RestoreError::Form));
    }
}
