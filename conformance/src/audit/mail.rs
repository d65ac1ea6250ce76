//! Messages that were sent and may still arrive, with what their senders vouch for.
//!
//! Memory is bounded: broadcasts have an end of their own (`air`), and an answer or a request is forgotten after a while. If too
//! much is under way, what may arrive at any time is forgotten first, the oldest first, and it is noted of its sender.

use std::collections::VecDeque;
use std::hash::BuildHasher as _;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashSet, HashTable};
use pilot_core::evidence::envelope::{ChainHead, MessageId};
use pilot_core::evidence::trace::action::Handle;
use pilot_core::graph::MessageKind;
use pilot_core::graph::message::Withdrawal;
use pilot_core::semantics::{Epoch, PolicyId, Provenance};
use pilot_core::value::Time;
use pilot_core::vocabulary::DeviceId;

use super::air::{Air, Broadcast};

/// The most messages that are remembered.
pub const MAX_IN_FLIGHT: usize = 1 << 20;
/// How far clocks of devices may differ, in seconds: twice what an envelope allows.
pub const CLOCK_SKEW: u64 = 240;
/// For how long a message is remembered that only asks or answers, in seconds. Subjects wait for answers for half of it at most.
const KEPT_SECONDS: u64 = 3_600;

/// By what the two ends of a message are known to belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Key {
    /// It came in an envelope.
    Envelope(Envelope),
    /// It was broadcast.
    Broadcast(Broadcast),
}

/// The id of an envelope, in numbers, and who sent it if a mesh file lists it: nobody else can take its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Envelope(u64, u64, Option<DeviceId>);

impl Envelope {
    /// Of an id and its sender.
    pub fn new(id: MessageId, sender: Option<DeviceId>) -> Self {
        let number = u128::from_be_bytes(id.0);
        Self((number >> 64) as u64, number as u64, sender)
    }
}

/// A message that was sent.
#[derive(Debug)]
pub struct Sent {
    /// What it is.
    pub kind: MessageKind,
    /// Who sent it.
    pub sender: DeviceId,
    /// For whom it is.
    pub receiver: Whom,
    /// Its policy.
    pub policy: Option<PolicyId>,
    /// The hash of its record.
    pub hash: ChainHead,
    /// What it says of an item, if it is about one.
    pub part: Option<Part>,
    /// Which item that is: the number of its opening.
    pub opening: Option<u32>,
    /// For one that is: what was vouched for when it left, once that is known.
    pub vouch: OnceLock<Vouch>,
}

/// Which releases of an item a message is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The one that it brings: when the owner released it, and by which name the two ends speak of it.
    Released(Epoch, Option<Handle>),
    /// Those that it takes back.
    TakenBack(Withdrawal),
}

/// Messages that a batch of records has sent. They stand together, where the judge of their sender says what it vouches for;
/// who receives one looks there.
pub type Sheet = Arc<[Sent]>;

/// All of them. A sheet is kept until the last message on it is forgotten, so broadcasts, which are forgotten first, have one of
/// their own.
#[derive(Debug, Clone, Default)]
pub struct Sheets {
    broadcasts: Sheet,
    others: Sheet,
}

impl Sheets {
    /// The one for messages of this kind.
    pub const fn of(&self, kind: MessageKind) -> &Sheet {
        if let MessageKind::Broadcast = kind { &self.broadcasts } else { &self.others }
    }

    /// What the sender vouches for with the message at this place. Said once, when its step is judged.
    pub fn vouch(&self, kind: MessageKind, place: u32, vouch: Vouch) {
        // INVARIANT: one judge judges it, once.
        let _ = self.of(kind).get(place as usize).map(|sent| sent.vouch.set(vouch));
    }
}

/// The messages of a batch that is not read to its end.
#[derive(Debug, Default)]
pub struct Drafts {
    broadcasts: Vec<Sent>,
    others: Vec<Sent>,
}

impl Drafts {
    /// One more message. Returns its place on its sheet.
    pub fn add(&mut self, sent: Sent) -> u32 {
        let sheet = if let MessageKind::Broadcast = sent.kind { &mut self.broadcasts } else { &mut self.others };
        sheet.push(sent);
        u32::try_from(sheet.len() - 1).unwrap_or(u32::MAX)
    }

    /// The batch is read: its sheets, as large as need be. What comes now is the next one's.
    pub fn take(&mut self) -> Sheets {
        Sheets { broadcasts: self.broadcasts.drain(..).collect(), others: self.others.drain(..).collect() }
    }
}

/// A message on a sheet.
#[derive(Debug, Clone)]
pub struct Letter {
    sheet: Sheet,
    place: u32,
}

impl Letter {
    /// The one at this place.
    pub fn of(sheet: &Sheet, place: u32) -> Option<Self> {
        ((place as usize) < sheet.len()).then(|| Self { sheet: Arc::clone(sheet), place })
    }

    /// Whether nothing more is to be heard of its sender.
    pub fn is_judged(&self) -> bool {
        self.part.is_none() || self.vouch.get().is_some()
    }

    /// What was vouched for, as far as it is known.
    pub fn vouched(&self) -> Vouch {
        self.vouch.get().copied().unwrap_or_default()
    }
}

impl Deref for Letter {
    type Target = Sent;

    #[expect(clippy::indexing_slicing, reason = "there is none without its place")]
    fn deref(&self) -> &Sent {
        &self.sheet[self.place as usize]
    }
}

/// Who somebody is, as far as everybody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whom {
    /// A device of a mesh file, an opening or a trace.
    Known(DeviceId),
    /// Somebody with another name.
    Unknown,
    /// Somebody without a name.
    Anonymous,
}

/// What was vouched for when a message left.
#[derive(Debug, Clone, Copy, Default)]
pub enum Vouch {
    /// Nothing.
    #[default]
    Nothing,
    /// How the item in it came about.
    Item(Provenance),
    /// For a notice: up to which epoch the owner has taken back what she released.
    Notice(Epoch),
}

/// Whether a message may arrive at any time after it was sent. Items do, and what takes something back is said until it is
/// acknowledged.
pub const fn is_lasting(kind: MessageKind) -> bool {
    matches!(kind, MessageKind::Send | MessageKind::Withdraw | MessageKind::WithdrawPolicy)
}

/// Messages under way.
#[derive(Debug, Default)]
pub struct Mail {
    air: Air,
    sent: Table,
    /// What asks or answers, and when each is forgotten. Times come almost in order, so the order of sending is good enough.
    short: VecDeque<(Time, Ticket)>,
    /// Items, and what takes something back, that have not arrived: they may do so at any time.
    lasting: VecDeque<Envelope>,
    /// Those that have arrived once, and when each is forgotten.
    arrived: VecDeque<(Time, Envelope)>,
    /// Of whom something was forgotten although it might still arrive.
    lossy: HashSet<DeviceId>,
}

impl Mail {
    /// A message leaves, which stands at this place of its sheet.
    pub fn send(&mut self, key: Key, sheets: &Sheets, place: u32, now: Time) {
        match key {
            Key::Broadcast(broadcast) => {
                self.air.send(&broadcast, (&sheets.broadcasts, place), now, &mut self.lossy);
            }
            Key::Envelope(key) => {
                let Some(letter) = Letter::of(&sheets.others, place) else { return };
                let kind = letter.kind;
                if let Some(ticket) = self.sent.insert(key, letter) {
                    if is_lasting(kind) {
                        self.lasting.push_back(key);
                    } else {
                        self.short.push_back((Time::from_unix(now.unix().saturating_add(KEPT_SECONDS)), ticket));
                    }
                }
                self.forget(now);
            }
        }
    }

    /// Whether something of this device was forgotten although it might still arrive.
    pub fn has_lost(&self, sender: DeviceId) -> bool {
        self.lossy.contains(&sender)
    }

    /// What was sent under a key.
    pub fn find(&self, key: &Key) -> Option<Letter> {
        match key {
            Key::Broadcast(broadcast) => self.air.find(broadcast),
            Key::Envelope(key) => self.sent.get(key).map(|row| row.letter.clone()),
        }
    }

    /// Whether something was.
    pub fn has(&self, key: &Key) -> bool {
        match key {
            Key::Broadcast(broadcast) => self.air.has(broadcast),
            Key::Envelope(key) => self.sent.get(key).is_some(),
        }
    }

    /// One of those that may arrive at any time has. It may do so again, for links duplicate, but not for ever.
    pub fn arrived(&mut self, key: Envelope, now: Time) {
        if self.sent.arrives_first(&key) {
            self.arrived.push_back((Time::from_unix(now.unix().saturating_add(KEPT_SECONDS)), key));
        }
    }

    fn forget(&mut self, now: Time) {
        while self.short.front().is_some_and(|(until, _)| *until <= now) {
            if let Some((_, ticket)) = self.short.pop_front() {
                self.sent.remove(ticket);
            }
        }
        while self.arrived.front().is_some_and(|(until, _)| *until <= now) {
            if let Some((_, key)) = self.arrived.pop_front() {
                self.sent.remove_key(&key);
            }
        }
        while self.sent.len() > MAX_IN_FLIGHT {
            let lost = if let Some(key) = self.lasting.pop_front() {
                self.sent.remove_key(&key)
            } else if let Some((_, ticket)) = self.short.pop_front() {
                self.sent.remove(ticket)
            } else {
                break;
            };
            self.lossy.extend(lost.map(|row| row.letter.sender));
        }
        // What has arrived and is forgotten has left its key behind.
        while self.lasting.front().is_some_and(|key| self.sent.get(key).is_none()) {
            self.lasting.pop_front();
        }
    }
}

/// What was sent, by its key. Most messages are never looked up, so those that are sent one after the other stand so, and only
/// their numbers are spread over a hash table, which is small.
#[derive(Debug, Default)]
struct Table {
    numbers: HashTable<u32>,
    rows: Rows,
    free: Vec<u32>,
    /// How many rows there ever were.
    serial: u64,
    hashing: DefaultHashBuilder,
}

/// A row: its number, and its serial, for numbers are given again.
#[derive(Debug, Clone, Copy)]
struct Ticket {
    number: u32,
    serial: u64,
}

#[derive(Debug)]
struct Row {
    key: Envelope,
    letter: Letter,
    serial: u64,
    has_arrived: bool,
}

impl Table {
    fn len(&self) -> usize {
        self.numbers.len()
    }

    fn number(&self, key: &Envelope) -> Option<u32> {
        let is_it = |number: &u32| self.rows.get(*number).is_some_and(|row| row.key == *key);
        self.numbers.find(self.hashing.hash_one(key), is_it).copied()
    }

    fn get(&self, key: &Envelope) -> Option<&Row> {
        self.rows.get(self.number(key)?)
    }

    /// Whether it is there and has not arrived before; from now on it has.
    fn arrives_first(&mut self, key: &Envelope) -> bool {
        let number = self.number(key);
        let row = number.and_then(|number| self.rows.place(number)?.as_mut());
        row.is_some_and(|row| !std::mem::replace(&mut row.has_arrived, true))
    }

    /// A row for a message, if its key is new; if not, the message takes the place of the other.
    fn insert(&mut self, key: Envelope, letter: Letter) -> Option<Ticket> {
        // INVARIANT: there are never more than `MAX_IN_FLIGHT` and one.
        let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        let number = self.free.last().copied().unwrap_or(next);
        let Self { numbers, rows, free, serial, hashing } = self;
        let is_it = |number: &u32| rows.get(*number).is_some_and(|known| known.key == key);
        let hash_of = |number: &u32| rows.get(*number).map_or(0, |row| hashing.hash_one(row.key));
        match numbers.entry(hashing.hash_one(key), is_it, hash_of) {
            Entry::Occupied(known) => {
                if let Some(Some(row)) = rows.place(*known.get()) {
                    (row.letter, row.has_arrived) = (letter, false);
                }
                None
            }
            Entry::Vacant(place) => {
                place.insert(number);
                free.pop();
                *serial = serial.wrapping_add(1);
                rows.put(number, Row { key, letter, serial: *serial, has_arrived: false });
                Some(Ticket { number, serial: *serial })
            }
        }
    }

    /// The row, if it was still there.
    fn remove(&mut self, ticket: Ticket) -> Option<Row> {
        let is_it = self.rows.get(ticket.number).is_some_and(|row| row.serial == ticket.serial);
        if is_it { self.clear(ticket.number) } else { None }
    }

    fn clear(&mut self, number: u32) -> Option<Row> {
        let row = self.rows.place(number).and_then(Option::take)?;
        if let Ok(found) = self.numbers.find_entry(self.hashing.hash_one(row.key), |other| *other == number) {
            found.remove();
        }
        self.free.push(number);
        Some(row)
    }

    /// The row of a key, if there was one.
    fn remove_key(&mut self, key: &Envelope) -> Option<Row> {
        let number = self.number(key)?;
        self.clear(number)
    }
}

/// Rows by their numbers, in blocks: when there are more of them, none has to move.
#[derive(Debug, Default)]
struct Rows(Vec<Vec<Option<Row>>>);

impl Rows {
    const BLOCK: usize = 1 << 12;

    fn get(&self, number: u32) -> Option<&Row> {
        self.0.get(number as usize / Self::BLOCK)?.get(number as usize % Self::BLOCK)?.as_ref()
    }

    fn place(&mut self, number: u32) -> Option<&mut Option<Row>> {
        self.0.get_mut(number as usize / Self::BLOCK)?.get_mut(number as usize % Self::BLOCK)
    }

    /// At a number that was used before, or at the next one.
    fn put(&mut self, number: u32, row: Row) {
        if let Some(place) = self.place(number) {
            *place = Some(row);
            return;
        }
        if self.0.last().is_none_or(|block| block.len() == Self::BLOCK) {
            self.0.push(Vec::with_capacity(Self::BLOCK));
        }
        if let Some(block) = self.0.last_mut() {
            block.push(Some(row));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pilot_core::vocabulary::Id as _;

    fn send(mail: &mut Mail, id: u8, kind: MessageKind, seconds: u64) -> Envelope {
        let device = DeviceId::from_index(0);
        let (hash, vouch) = (ChainHead([0; 32]), OnceLock::new());
        let (sender, receiver) = (device, Whom::Known(device));
        let mut drafts = Drafts::default();
        let place = drafts.add(Sent { kind, sender, receiver, policy: None, hash, part: None, opening: None, vouch });
        let key = Envelope::new(MessageId([id; 16]), Some(device));
        mail.send(Key::Envelope(key), &drafts.take(), place, Time::from_unix(seconds));
        key
    }

    /// Numbers are given again: what is left of a message that was taken away by its key does not take another one with it.
    #[test]
    fn a_message_takes_no_other_with_it() {
        let mut mail = Mail::default();
        let key = send(&mut mail, 1, MessageKind::Request, 0);
        send(&mut mail, 1, MessageKind::Send, 1);
        mail.arrived(key, Time::from_unix(600));
        send(&mut mail, 2, MessageKind::Send, KEPT_SECONDS);
        assert!(!mail.has(&Key::Envelope(key)), "it was forgotten when the first one was due");
        send(&mut mail, 1, MessageKind::Request, 4_000);
        send(&mut mail, 3, MessageKind::Send, 600 + KEPT_SECONDS);
        assert!(!mail.has(&Key::Envelope(key)), "it had arrived under this key");
        let honest = send(&mut mail, 4, MessageKind::Send, 4_201);
        send(&mut mail, 5, MessageKind::Send, 4_000 + KEPT_SECONDS);
        assert!(mail.has(&Key::Envelope(honest)));
        assert!(mail.lossy.is_empty());
    }
}
