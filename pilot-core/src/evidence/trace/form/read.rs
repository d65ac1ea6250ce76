//! Reading a record's body.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use minicbor::Decoder;
use minicbor::data::Type;
use minicbor::decode::Error;

use crate::codec::Digest;
use crate::diagnostic::foreign_message;
use crate::evidence::envelope::{ChainHead, MessageId};
use crate::evidence::form::{fixed, optional};
use crate::evidence::pseudonym::ConsentMark;
use crate::evidence::trace::action::{
    Action, Body, CatalogueDigest, Cause, Connection, Handle, Item, Message, Offer, Party, Release, Word,
};
use crate::evidence::trace::{
    Checkpoint, Content, Elided, GraphName, MAX_GRAPHS, MAX_LIST, MAX_OUTCOMES, Open, Outcome, PolicyBytes, Reason,
    Record, Rule, Step, VERSION,
};
use crate::evidence::{DeviceName, Pseudonym, Signature, StatementId};
use crate::graph::Location;
use crate::graph::message::Withdrawal;
use crate::policy::{MAX_POLICY_BYTES, MAX_TRANSFERS};
use crate::semantics::Epoch;
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

type Read<T> = Result<T, Error>;
type In<'b> = Decoder<'b>;

impl Record {
    /// Reads a body.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BodyError> {
        let mut decoder = Decoder::new(bytes);
        // Checked before everything after it: another version may have other elements.
        if let Some(version) = other_version(bytes) {
            return Err(BodyError { offset: 0, problem: BodyProblem::Version(version) });
        }
        let record = record(&mut decoder).map_err(|error| {
            let problem = BodyProblem::Malformed(foreign_message(&error.to_string()));
            BodyError { offset: decoder.position(), problem }
        })?;
        let written = record.to_bytes();
        if written == bytes {
            return Ok(record);
        }
        let offset = written.iter().zip(bytes).take_while(|(ours, theirs)| ours == theirs).count();
        Err(BodyError { offset, problem: BodyProblem::NotCanonical })
    }
}

/// The version that an `open` record says, if it is not ours.
fn other_version(bytes: &[u8]) -> Option<u64> {
    let mut decoder = Decoder::new(bytes);
    decoder.array().ok()?;
    let (kind, _, _) = (decoder.u64().ok()?, decoder.u64().ok()?, decoder.u64().ok()?);
    decoder.u64().ok().filter(|version| kind == 0 && *version != u64::from(VERSION))
}

fn record(from: &mut In<'_>) -> Read<Record> {
    let length = from.array()?;
    let kind = from.u8()?;
    let (sequence, time) = (from.u64()?, Time::from_unix(from.u64()?));
    let (needed, content) = match kind {
        0 => (8, Content::Open(open(from)?)),
        1 => (4, Content::Policy(policy(from)?)),
        2 => (9, Content::Step(Box::new(step(from)?))),
        3 => (5, Content::Checkpoint(checkpoint(from)?)),
        4 => (6, Content::Close { checkpoint: checkpoint(from)?, continues: from.bool()? }),
        _ => return Err(Error::message("no kind of record has this number")),
    };
    expect_length(length, needed)?;
    Ok(Record { sequence, time, content })
}

fn expect_length(found: Option<u64>, needed: u64) -> Read<()> {
    if found == Some(needed) { Ok(()) } else { Err(Error::message(alloc::format!("an array of {needed} was needed"))) }
}

/// How many elements follow, at most `limit`.
fn count(from: &mut In<'_>, limit: usize) -> Read<usize> {
    let count = from.array()?.and_then(|count| usize::try_from(count).ok());
    count.filter(|count| *count <= limit).ok_or_else(|| Error::message(alloc::format!("at most {limit} are allowed")))
}

fn open(from: &mut In<'_>) -> Read<Open> {
    from.u8()?;
    let device = device(from)?;
    let graphs = (0..count(from, MAX_GRAPHS)?)
        .map(|_| GraphName::new(from.str()?).ok_or_else(|| Error::message("a graph of this name is not known")));
    let graphs = graphs.collect::<Read<Vec<_>>>()?;
    Ok(Open { device, graphs, mesh_serial: from.u64()?, torn: from.u64()? })
}

fn policy(from: &mut In<'_>) -> Read<PolicyBytes> {
    let bytes = from.bytes()?;
    let too_large = || Error::message(alloc::format!("a policy takes at most {MAX_POLICY_BYTES} bytes"));
    if bytes.len() > MAX_POLICY_BYTES {
        return Err(too_large());
    }
    PolicyBytes::new(bytes.to_vec()).ok_or_else(too_large)
}

fn checkpoint(from: &mut In<'_>) -> Read<Checkpoint> {
    let mut counts = BTreeMap::new();
    for _ in 0..count(from, Reason::ALL.len())? {
        expect_length(from.array()?, 2)?;
        let reason = Reason::ALL.get(usize::from(from.u8()?)).copied();
        let reason = reason.ok_or_else(|| Error::message("no reason for eliding has this number"))?;
        let count = from.u64()?;
        if count == 0 {
            return Err(Error::message("a reason that elided nothing"));
        }
        counts.insert(reason, count);
    }
    Ok(Checkpoint { elided: Elided(counts), signature: Signature(fixed(from)?) })
}

fn step(from: &mut In<'_>) -> Read<Step> {
    let (graph, instance, at) = (from.u8()?, from.u32()?, location(from)?);
    let (action, to) = (action(from)?, location(from)?);
    let outcomes = (0..count(from, MAX_OUTCOMES)?).map(|_| outcome(from)).collect::<Read<_>>()?;
    Ok(Step { graph, instance, from: at, action, to, outcomes })
}

fn location(from: &mut In<'_>) -> Read<Location> {
    const PLACES: [Location; 5] = [Location::S0, Location::S1, Location::S2, Location::S3, Location::S4];
    let place = PLACES.get(usize::from(from.u8()?));
    place.copied().ok_or_else(|| Error::message("no location has this number"))
}

fn outcome(from: &mut In<'_>) -> Read<Outcome> {
    expect_length(from.array()?, 3)?;
    let policy = digest(from)?;
    let rule = match optional(from, Decoder::u16)? {
        None => Rule::Collection,
        Some(at) if usize::from(at) < MAX_TRANSFERS => Rule::Transfer(at),
        Some(_) => return Err(Error::message("no policy has so many transfer rules")),
    };
    Ok(Outcome { policy, rule, holds: from.bool()? })
}

fn action(from: &mut In<'_>) -> Read<Action> {
    let length = from.array()?;
    let (needed, action) = match from.u8()? {
        0 => (3, Action::Init { own: policies(from)?, item: optional(from, item)? }),
        1 => (4, Action::Restore { own: policies(from)?, item: optional(from, item)?, offers: offers(from)? }),
        2 => (2, Action::ChangeOwn { own: policies(from)? }),
        3 => (2, Action::Admit { entity: word(from)? }),
        4 => (1, Action::Tau),
        5 => (2, Action::Expire { item: pseudonym(from)? }),
        6 => (2, Action::Forget { item: pseudonym(from)? }),
        7 => (2, Action::Send(message(from)?)),
        8 => {
            let message = message(from)?;
            let head = optional(from, fixed)?.map(ChainHead);
            let consent = optional(from, fixed)?.map(ConsentMark);
            (4, Action::Receive(message, Cause { head, consent }))
        }
        _ => return Err(Error::message("no action has this number")),
    };
    expect_length(length, needed)?;
    Ok(action)
}

fn message(from: &mut In<'_>) -> Read<Message> {
    expect_length(from.array()?, 4)?;
    let (sender, receiver) = (party(from)?, party(from)?);
    Ok(Message { sender, receiver, body: body(from)?, id: optional(from, fixed)?.map(MessageId) })
}

fn body(from: &mut In<'_>) -> Read<Body> {
    let length = from.array()?;
    let (needed, body) = match from.u8()? {
        0 => (2, Body::Request { policy: digest(from)? }),
        1 => (2, Body::Send(release(from)?)),
        2 => (1, Body::RequestPolicies),
        3 => {
            let catalogue = CatalogueDigest(fixed(from)?);
            (4, Body::DownloadPolicies { catalogue, added: offers(from)?, removed: offers(from)? })
        }
        4 => (3, Body::UploadPolicy { policy: digest(from)?, statement: statement(from)? }),
        5 => (2, Body::WithdrawPolicy { policy: digest(from)? }),
        6 => (2, Body::Broadcast(release(from)?)),
        7 => {
            let item = pseudonym(from)?;
            let withdrawal = Withdrawal { epoch: Epoch(from.u64()?), until: Time::from_unix(from.u64()?) };
            (4, Body::Withdraw { item, withdrawal })
        }
        _ => return Err(Error::message("no message has this number")),
    };
    expect_length(length, needed)?;
    Ok(body)
}

fn release(from: &mut In<'_>) -> Read<Release> {
    expect_length(from.array()?, 4)?;
    let (item, policy, epoch) = (item(from)?, digest(from)?, Epoch(from.u64()?));
    Ok(Release { item, policy, epoch, handle: optional(from, fixed)?.map(Handle) })
}

fn party(from: &mut In<'_>) -> Read<Party> {
    Ok(match from.datatype()? {
        Type::Null => from.null().map(|()| Party::Owner)?,
        Type::Bytes => Party::Connection(Connection(fixed(from)?)),
        _ => Party::Device(device(from)?),
    })
}

fn item(from: &mut In<'_>) -> Read<Item> {
    expect_length(from.array()?, 2)?;
    Ok(Item { pseudonym: pseudonym(from)?, datatype: word(from)? })
}

/// Sets are written in their order; any other one is not canonical, which is noticed later.
fn policies(from: &mut In<'_>) -> Read<BTreeSet<Digest>> {
    (0..count(from, MAX_LIST)?).map(|_| digest(from)).collect()
}

fn offers(from: &mut In<'_>) -> Read<BTreeSet<Offer>> {
    let offer = |from: &mut In<'_>| {
        expect_length(from.array()?, 3)?;
        Ok(Offer { device: device(from)?, policy: digest(from)?, statement: statement(from)? })
    };
    (0..count(from, MAX_LIST)?).map(|_| offer(from)).collect()
}

fn digest(from: &mut In<'_>) -> Read<Digest> {
    fixed(from).map(Digest)
}

fn pseudonym(from: &mut In<'_>) -> Read<Pseudonym> {
    fixed(from).map(Pseudonym::from_bytes)
}

fn statement(from: &mut In<'_>) -> Read<Option<StatementId>> {
    Ok(optional(from, fixed)?.map(StatementId))
}

fn device(from: &mut In<'_>) -> Read<DeviceName> {
    DeviceName::new(from.str()?).map_err(|_| Error::message("not a device's name"))
}

fn word(from: &mut In<'_>) -> Read<Word> {
    Word::new(from.str()?).map_err(|_| Error::message("not a name"))
}
