//! Reading a record's body.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::names::KnownNames;
use super::source::{Malformed, Read, Source};
use super::{CHECKPOINT, CLOSE, OPEN, POLICY, RESUME, STEP};
use crate::codec::Digest;
use crate::evidence::envelope::{ChainHead, MessageId};
use crate::evidence::pseudonym::ConsentMark;
use crate::evidence::trace::action::{
    Action, Body, CatalogueDigest, Cause, Connection, Handle, Item, Message, Offer, Party, Release, Word,
};
use crate::evidence::trace::resume::{Held, MAX_RESUMED, Remembered, Resume};
use crate::evidence::trace::{
    Checkpoint, Content, Elided, GraphName, MAX_GRAPHS, MAX_LIST, MAX_OUTCOMES, Open, Outcome, PolicyBytes, Reason,
    Record, Rule, Step, VERSION,
};
use crate::evidence::{DeviceName, Pseudonym, Signature, StatementId};
use crate::graph::Location;
use crate::graph::message::Withdrawal;
use crate::policy::{MAX_POLICY_BYTES, MAX_TRANSFERS};
use crate::semantics::Epoch;
use crate::sorted::Sorted;
use crate::value::Time;

/// Why bytes are no body of a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset} of the record's body: {problem}")]
pub struct BodyError {
    /// Where in the body.
    pub offset: usize,
    /// What.
    pub problem: BodyProblem,
}

/// Why bytes are no body of a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyProblem {
    /// Not CBOR, or not of our form.
    #[error("{0}")]
    Malformed(String),
    /// A version of the format that this program does not know.
    #[error("version {0} of the trace format is not known, only {VERSION}")]
    Version(u64),
    /// Understood, but there is another, canonical form.
    #[error("not the canonical form")]
    NotCanonical,
}

/// What stands at the beginning of every body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The number of its kind.
    pub kind: u8,
    /// The record's number.
    pub sequence: u64,
    /// When it was made.
    pub time: Time,
}

impl Head {
    /// Of a body that may be of any form after it.
    pub fn of(body: &[u8]) -> Option<Self> {
        let mut from = Source::new(body);
        from.array().ok()?;
        let kind = from.u8().ok()?;
        Some(Self { kind, sequence: from.u64().ok()?, time: Time::from_unix(from.u64().ok()?) })
    }

    /// Whether the record neither opens, signs nor closes a trace.
    pub const fn is_plain(self) -> bool {
        matches!(self.kind, POLICY | STEP | RESUME)
    }

    /// Whether it is a checkpoint or a close.
    pub const fn is_signature(self) -> bool {
        matches!(self.kind, CHECKPOINT | CLOSE)
    }

    /// Whether the record has the bytes of a policy.
    pub const fn is_policy(self) -> bool {
        self.kind == POLICY
    }
}

impl From<&Record> for Head {
    fn from(record: &Record) -> Self {
        Self { kind: record.content.kind(), sequence: record.sequence, time: record.time }
    }
}

type In<'b> = Source<'b>;

impl Record {
    /// Reads a body.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BodyError> {
        Self::read(bytes, None)
    }

    /// Reads a body like [`Record::from_bytes`], quicker if it has names that were read before.
    pub fn from_bytes_with(bytes: &[u8], names: &mut KnownNames) -> Result<Self, BodyError> {
        Self::read(bytes, Some(names))
    }

    fn read(bytes: &[u8], names: Option<&mut KnownNames>) -> Result<Self, BodyError> {
        let mut from = Source::new(bytes);
        from.names = names;
        let record = record(&mut from).map_err(|error| match error {
            Malformed::Version(version) => BodyError { offset: 0, problem: BodyProblem::Version(version) },
            _ => {
                let problem = BodyProblem::Malformed(error.to_string());
                BodyError { offset: bytes.len() - from.left(), problem }
            }
        })?;
        // Numbers and lengths in their shortest form, sets in their order: there is no other way to write the same.
        if from.left() == 0 && from.is_shortest {
            return Ok(record);
        }
        let written = record.to_bytes();
        let offset = written.iter().zip(bytes).take_while(|(ours, theirs)| ours == theirs).count();
        Err(BodyError { offset, problem: BodyProblem::NotCanonical })
    }
}

/// A set of at most `limit` elements, which come in their order.
fn set<T: Ord>(from: &mut In<'_>, limit: usize, mut element: impl FnMut(&mut In<'_>) -> Read<T>) -> Read<BTreeSet<T>> {
    let mut set = BTreeSet::new();
    for _ in 0..count(from, limit)? {
        let next = element(from)?;
        if set.last().is_some_and(|last| *last >= next) {
            return Err(OUT_OF_ORDER);
        }
        set.insert(next);
    }
    Ok(set)
}

const OUT_OF_ORDER: Malformed = Malformed::Not("elements are not in their order");

fn record(from: &mut In<'_>) -> Read<Record> {
    let length = from.array()?;
    let kind = from.u8()?;
    let (sequence, time) = (from.u64()?, Time::from_unix(from.u64()?));
    let content = match kind {
        OPEN => Content::Open(open(from)?),
        POLICY => Content::Policy(policy(from)?),
        STEP => Content::Step(step(from)?),
        CHECKPOINT => Content::Checkpoint(checkpoint(from)?),
        CLOSE => Content::Close { checkpoint: checkpoint(from)?, continues: from.bool()? },
        RESUME => Content::Resume(Box::new(resume(from)?)),
        _ => return Err(Malformed::Not("no kind of record has this number")),
    };
    expect_length_of(kind, length, &[8, 4, 9, 5, 6, 13])?;
    Ok(Record { sequence, time, content })
}

fn expect_length(found: u64, needed: u64) -> Read<()> {
    if found == needed { Ok(()) } else { Err(Malformed::Array(needed)) }
}

/// The same for something of which there are several kinds. Apart from what it is, which then need not be moved.
fn expect_length_of(kind: u8, found: u64, needed: &[u64]) -> Read<()> {
    needed.get(usize::from(kind)).map_or(Ok(()), |needed| expect_length(found, *needed))
}

/// How many elements follow, at most `limit`.
fn count(from: &mut In<'_>, limit: usize) -> Read<usize> {
    let count = usize::try_from(from.array()?).ok();
    count.filter(|count| *count <= limit).ok_or(Malformed::Most(limit))
}

fn open(from: &mut In<'_>) -> Read<Open> {
    // Checked before everything after it: another version may have other elements.
    let version = from.u64()?;
    if version != u64::from(VERSION) {
        return Err(Malformed::Version(version));
    }
    let device = device(from)?;
    let graphs = (0..count(from, MAX_GRAPHS)?)
        .map(|_| GraphName::new(from.text()?).ok_or(Malformed::Not("a graph of this name is not known")));
    let graphs = graphs.collect::<Read<Vec<_>>>()?;
    Ok(Open { device, graphs, mesh_serial: from.u64()?, torn: from.u64()? })
}

fn policy(from: &mut In<'_>) -> Read<PolicyBytes> {
    let bytes = from.bytes()?;
    let too_large = Malformed::Policy(MAX_POLICY_BYTES);
    if bytes.len() > MAX_POLICY_BYTES {
        return Err(too_large);
    }
    PolicyBytes::new(bytes.to_vec()).ok_or(too_large)
}

fn checkpoint(from: &mut In<'_>) -> Read<Checkpoint> {
    let mut counts = BTreeMap::new();
    for _ in 0..count(from, Reason::ALL.len())? {
        expect_length(from.array()?, 2)?;
        let reason = Reason::ALL.get(usize::from(from.u8()?)).copied();
        let reason = reason.ok_or(Malformed::Not("no reason for eliding has this number"))?;
        let count = from.u64()?;
        if count == 0 {
            return Err(Malformed::Not("a reason that elided nothing"));
        }
        if counts.last_key_value().is_some_and(|(last, _)| *last >= reason) {
            return Err(OUT_OF_ORDER);
        }
        counts.insert(reason, count);
    }
    Ok(Checkpoint { elided: Elided(counts), signature: Signature(from.fixed()?) })
}

fn resume(from: &mut In<'_>) -> Read<Resume> {
    let resume = Resume {
        policies: offers(from)?,
        current: policies(from)?,
        published: policies(from)?,
        catalogue: offers(from)?,
        received: arrays(from, 4, |from| {
            let (sender, item, policy) = (party(from)?, item(from)?, digest(from)?);
            Ok(Held { sender, item, policy, epoch: Epoch(from.u64()?) })
        })?,
        asked: arrays(from, 2, |from| Ok((party(from)?, digest(from)?)))?,
        recipients: arrays(from, 4, remembered)?,
        notices: arrays(from, 4, remembered)?,
        tombstones: arrays(from, 3, |from| Ok((item(from)?, withdrawal(from)?)))?,
        refused: set(from, MAX_RESUMED, word)?,
    };
    if resume.is_short() { Ok(resume) } else { Err(Malformed::Not("a list is too long")) }
}

/// A set of arrays of one length.
fn arrays<T: Ord>(from: &mut In<'_>, length: u64, element: impl Fn(&mut In<'_>) -> Read<T>) -> Read<BTreeSet<T>> {
    set(from, MAX_RESUMED, |from| expect_length(from.array()?, length).and_then(|()| element(from)))
}

fn remembered(from: &mut In<'_>) -> Read<Remembered> {
    Ok(Remembered { item: item(from)?, party: party(from)?, withdrawal: withdrawal(from)? })
}

fn withdrawal(from: &mut In<'_>) -> Read<Withdrawal> {
    Ok(Withdrawal { epoch: Epoch(from.u64()?), until: Time::from_unix(from.u64()?) })
}

/// Steps are large, and almost all that is read: what is in them is put where it stays.
fn step(from: &mut In<'_>) -> Read<Box<Step>> {
    let (graph, instance, at) = (from.u8()?, from.u32()?, location(from)?);
    let (action, outcomes) = (Action::Tau, Sorted::new());
    let mut step = Box::new(Step { graph, instance, from: at, action, to: at, outcomes });
    read_action(&mut step.action, from)?;
    step.to = location(from)?;
    read_outcomes(&mut step.outcomes, from)?;
    Ok(step)
}

fn location(from: &mut In<'_>) -> Read<Location> {
    const PLACES: [Location; 5] = [Location::S0, Location::S1, Location::S2, Location::S3, Location::S4];
    let place = PLACES.get(usize::from(from.u8()?));
    place.copied().ok_or(Malformed::Not("no location has this number"))
}

fn read_outcomes(outcomes: &mut Sorted<Outcome>, from: &mut In<'_>) -> Read<()> {
    let count = count(from, MAX_OUTCOMES)?;
    if count > 0 {
        *outcomes = Sorted::with_capacity(count);
    }
    for _ in 0..count {
        outcomes.append(outcome(from)?).ok_or(OUT_OF_ORDER)?;
    }
    Ok(())
}

fn outcome(from: &mut In<'_>) -> Read<Outcome> {
    expect_length(from.array()?, 3)?;
    let policy = digest(from)?;
    let rule = match from.optional(Source::u16)? {
        None => Rule::Collection,
        Some(at) if usize::from(at) < MAX_TRANSFERS => Rule::Transfer(at),
        Some(_) => return Err(Malformed::Not("no policy has so many transfer rules")),
    };
    Ok(Outcome { policy, rule, holds: from.bool()? })
}

fn read_action(action: &mut Action, from: &mut In<'_>) -> Read<()> {
    let length = from.array()?;
    let kind = from.u8()?;
    *action = match kind {
        0 => Action::Init { own: policies(from)?, item: from.optional(item)? },
        1 => Action::Restore { own: policies(from)?, item: from.optional(item)?, offers: offers(from)? },
        2 => Action::ChangeOwn { own: policies(from)? },
        3 => Action::Admit { entity: word(from)? },
        4 => Action::Tau,
        5 => Action::Expire { item: pseudonym(from)? },
        6 => Action::Forget { item: pseudonym(from)? },
        7 => Action::Send(message(from)?),
        8 => {
            let message = message(from)?;
            let head = from.optional(Source::fixed)?.map(ChainHead);
            let consent = from.optional(Source::fixed)?.map(ConsentMark);
            Action::Receive(message, Cause { head, consent })
        }
        _ => return Err(Malformed::Not("no action has this number")),
    };
    expect_length_of(kind, length, &[3, 4, 2, 2, 1, 2, 2, 2, 4])
}

fn message(from: &mut In<'_>) -> Read<Message> {
    expect_length(from.array()?, 4)?;
    let (sender, receiver) = (party(from)?, party(from)?);
    Ok(Message { sender, receiver, body: body(from)?, id: from.optional(Source::fixed)?.map(MessageId) })
}

fn body(from: &mut In<'_>) -> Read<Body> {
    let length = from.array()?;
    let kind = from.u8()?;
    let body = match kind {
        0 => Body::Request { policy: digest(from)? },
        1 => Body::Send(release(from)?),
        2 => Body::RequestPolicies,
        3 => {
            let catalogue = CatalogueDigest(from.fixed()?);
            Body::DownloadPolicies { catalogue, added: offers(from)?, removed: offers(from)? }
        }
        4 => Body::UploadPolicy { policy: digest(from)?, statement: statement(from)? },
        5 => Body::WithdrawPolicy { policy: digest(from)? },
        6 => Body::Broadcast(release(from)?),
        7 => Body::Withdraw { item: pseudonym(from)?, withdrawal: withdrawal(from)? },
        _ => return Err(Malformed::Not("no message has this number")),
    };
    expect_length_of(kind, length, &[2, 2, 1, 4, 3, 2, 2, 4])?;
    Ok(body)
}

fn release(from: &mut In<'_>) -> Read<Release> {
    expect_length(from.array()?, 4)?;
    let (item, policy, epoch) = (item(from)?, digest(from)?, Epoch(from.u64()?));
    Ok(Release { item, policy, epoch, handle: from.optional(Source::fixed)?.map(Handle) })
}

fn party(from: &mut In<'_>) -> Read<Party> {
    if from.is_null() {
        Ok(Party::Owner)
    } else if from.is_bytes_next() {
        Ok(Party::Connection(Connection(from.fixed()?)))
    } else {
        device(from).map(Party::Device)
    }
}

fn item(from: &mut In<'_>) -> Read<Item> {
    expect_length(from.array()?, 2)?;
    Ok(Item { pseudonym: pseudonym(from)?, datatype: word(from)? })
}

fn policies(from: &mut In<'_>) -> Read<BTreeSet<Digest>> {
    set(from, MAX_LIST, digest)
}

fn offers(from: &mut In<'_>) -> Read<BTreeSet<Offer>> {
    set(from, MAX_LIST, |from| {
        expect_length(from.array()?, 3)?;
        Ok(Offer { device: device(from)?, policy: digest(from)?, statement: statement(from)? })
    })
}

fn digest(from: &mut In<'_>) -> Read<Digest> {
    from.fixed().map(Digest)
}

fn pseudonym(from: &mut In<'_>) -> Read<Pseudonym> {
    from.fixed().map(Pseudonym::from_bytes)
}

fn statement(from: &mut In<'_>) -> Read<Option<StatementId>> {
    Ok(from.optional(Source::fixed)?.map(StatementId))
}

fn device(from: &mut In<'_>) -> Read<DeviceName> {
    from.name("not a device's name").map(DeviceName)
}

fn word(from: &mut In<'_>) -> Read<Word> {
    from.name("not a name").map(Word)
}
