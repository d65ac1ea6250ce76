//! Messages that were sent and may still arrive, with what their senders vouch for.
//!
//! Memory is bounded: a broadcast is forgotten when its epoch is out of the window, an answer or a request after a while, and
//! if too much is under way, what has been so longest.

use std::collections::VecDeque;
use std::hash::BuildHasher as _;
use std::sync::{Arc, OnceLock};

use hashbrown::{DefaultHashBuilder, HashTable};
use pilot_core::evidence::envelope::{ChainHead, MessageId};
use pilot_core::graph::MessageKind;
use pilot_core::graph::message::Withdrawal;
use pilot_core::semantics::{Epoch, PolicyId, Provenance};
use pilot_core::value::Time;
use pilot_core::vocabulary::DeviceId;

/// The most messages that are remembered.
pub const MAX_IN_FLIGHT: usize = 1 << 19;
/// How far clocks of devices may differ, in seconds: twice what an envelope allows.
pub const CLOCK_SKEW: u64 = 240;
/// For how long a message is remembered that only asks or answers, in seconds.
const KEPT_SECONDS: u64 = 3_600;
/// For how long a broadcast is remembered: its epoch, the window after it, and clocks that differ.
const BROADCAST_SECONDS: u64 = (1 + Epoch::WINDOW) * Epoch::SECONDS + 3 * CLOCK_SKEW;

/// By what the two ends of a message are known to belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Key {
    /// The envelope's id, and who sent it if a mesh file lists it: nobody else can take its place.
    Id(MessageId, Option<DeviceId>),
    /// A radio frame has none: whose item, for whom, under which policy, when.
    Broadcast(u32, DeviceId, PolicyId, Epoch),
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
    /// When the owner released what is in it.
    pub epoch: Option<Epoch>,
    /// What it takes back.
    pub withdrawal: Option<Withdrawal>,
    /// The hash of its record.
    pub hash: ChainHead,
    vouch: OnceLock<Vouch>,
}

impl Sent {
    /// A message whose sender is not judged yet.
    pub const fn new(kind: MessageKind, sender: DeviceId, receiver: Whom, hash: ChainHead) -> Self {
        let vouch = OnceLock::new();
        Self { kind, sender, receiver, policy: None, epoch: None, withdrawal: None, hash, vouch }
    }

    /// Whether it is about an item, so that its sender vouches for something.
    pub const fn has_item(&self) -> bool {
        matches!(self.kind, MessageKind::Broadcast | MessageKind::Send | MessageKind::Withdraw)
    }

    /// Whether what its sender vouches for is known.
    pub fn is_judged(&self) -> bool {
        !self.has_item() || self.vouch.get().is_some()
    }

    /// What was vouched for. Blocks until the sender is judged.
    pub fn vouch(&self) -> Option<&Vouch> {
        self.has_item().then(|| self.vouch.wait())
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
pub struct Vouch {
    /// How the item in it came about.
    pub provenance: Option<Provenance>,
    /// For a notice: up to which epoch the owner has taken back what she released.
    pub withdrawn: Option<Epoch>,
}

/// The sender's judge owes the receiver's what was vouched for. Who drops it vouches for nothing.
#[derive(Debug)]
pub struct Pledge(Arc<Sent>);

impl Pledge {
    /// For a message that is about an item; there is one for each.
    pub fn new(sent: &Arc<Sent>) -> Option<Self> {
        sent.has_item().then(|| Self(Arc::clone(sent)))
    }

    /// Redeems it.
    pub fn redeem(self, vouch: Vouch) {
        // INVARIANT: nobody else has it, so it was not redeemed before.
        let _ = self.0.vouch.set(vouch);
    }
}

impl Drop for Pledge {
    fn drop(&mut self) {
        // Nobody waits for ever. If it was redeemed, that stays.
        let _ = self.0.vouch.set(Vouch::default());
    }
}

/// Messages under way.
#[derive(Debug, Default)]
pub struct Mail {
    sent: Table,
    /// Broadcasts, and when each is forgotten. Times come almost in order, so the order of sending is good enough.
    broadcasts: VecDeque<(Time, Key)>,
    /// Likewise, what asks or answers, and what has arrived once.
    short: VecDeque<(Time, Key)>,
    /// Notices and items that have not arrived: they may do so at any time.
    lasting: VecDeque<Key>,
    /// How many were forgotten although they might still arrive.
    pub forgotten: u64,
}

impl Mail {
    /// A message leaves.
    pub fn send(&mut self, key: Key, sent: Arc<Sent>, now: Time) {
        let after = |seconds| Time::from_unix(now.unix().saturating_add(seconds));
        let kind = sent.kind;
        if self.sent.insert(key, sent) {
            match (key, kind) {
                (Key::Broadcast(..), _) => self.broadcasts.push_back((after(BROADCAST_SECONDS), key)),
                (_, MessageKind::Withdraw | MessageKind::Send) => self.lasting.push_back(key),
                _ => self.short.push_back((after(KEPT_SECONDS), key)),
            }
        }
        self.forget(now);
    }

    /// What was sent under a key.
    pub fn find(&self, key: &Key) -> Option<&Arc<Sent>> {
        self.sent.get(key)
    }

    /// A message has arrived. It may do so again, for links duplicate, but not for ever.
    pub fn arrived(&mut self, key: Key, now: Time) {
        let kind = self.sent.get(&key).map(|sent| sent.kind);
        if matches!(kind, Some(MessageKind::Withdraw | MessageKind::Send)) && self.sent.arrives_first(&key) {
            self.short.push_back((Time::from_unix(now.unix().saturating_add(KEPT_SECONDS)), key));
        }
    }

    fn forget(&mut self, now: Time) {
        for order in [&mut self.broadcasts, &mut self.short] {
            while order.front().is_some_and(|(until, _)| *until <= now) {
                if let Some((_, key)) = order.pop_front() {
                    self.sent.remove(&key);
                }
            }
        }
        while self.sent.len() > MAX_IN_FLIGHT {
            let broadcasts = &mut self.broadcasts;
            let oldest = self.lasting.pop_front().or_else(|| Some(self.short.pop_front()?.1));
            let Some(key) = oldest.or_else(|| Some(broadcasts.pop_front()?.1)) else { break };
            if self.sent.remove(&key) {
                self.forgotten += 1;
            }
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
    sent: Vec<Option<Row>>,
    free: Vec<u32>,
    hashing: DefaultHashBuilder,
}

#[derive(Debug)]
struct Row {
    key: Key,
    sent: Arc<Sent>,
    has_arrived: bool,
}

impl Table {
    fn len(&self) -> usize {
        self.numbers.len()
    }

    fn get(&self, key: &Key) -> Option<&Arc<Sent>> {
        let number = self.numbers.find(self.hashing.hash_one(key), is(&self.sent, key))?;
        self.sent.get(*number as usize)?.as_ref().map(|row| &row.sent)
    }

    /// Whether it is there and has not arrived before; from now on it has.
    fn arrives_first(&mut self, key: &Key) -> bool {
        let number = self.numbers.find(self.hashing.hash_one(key), is(&self.sent, key)).copied();
        let row = number.and_then(|number| self.sent.get_mut(number as usize)?.as_mut());
        row.is_some_and(|row| !std::mem::replace(&mut row.has_arrived, true))
    }

    /// Whether the key is new; if not, what was sent is replaced.
    fn insert(&mut self, key: Key, sent: Arc<Sent>) -> bool {
        let hash = self.hashing.hash_one(key);
        let row = Row { key, sent, has_arrived: false };
        if let Some(number) = self.numbers.find(hash, is(&self.sent, &key)) {
            if let Some(place) = self.sent.get_mut(*number as usize) {
                *place = Some(row);
            }
            return false;
        }
        // INVARIANT: there are never more than `MAX_IN_FLIGHT` and one.
        let number = self.free.pop().unwrap_or_else(|| u32::try_from(self.sent.len()).unwrap_or(u32::MAX));
        match self.sent.get_mut(number as usize) {
            Some(place) => *place = Some(row),
            None => self.sent.push(Some(row)),
        }
        let Self { numbers, sent, hashing, .. } = self;
        let hash_of = |number: &u32| match sent.get(*number as usize) {
            Some(Some(row)) => hashing.hash_one(row.key),
            Some(None) | None => 0,
        };
        numbers.insert_unique(hash, number, hash_of);
        true
    }

    /// Whether there was one.
    fn remove(&mut self, key: &Key) -> bool {
        let found = self.numbers.find_entry(self.hashing.hash_one(key), is(&self.sent, key));
        let Ok(found) = found else { return false };
        let (number, _) = found.remove();
        if let Some(place) = self.sent.get_mut(number as usize) {
            *place = None;
        }
        self.free.push(number);
        true
    }
}

/// Whether a number is that of a key.
fn is<'t>(sent: &'t [Option<Row>], key: &'t Key) -> impl Fn(&u32) -> bool + 't {
    move |number| matches!(sent.get(*number as usize), Some(Some(row)) if row.key == *key)
}
