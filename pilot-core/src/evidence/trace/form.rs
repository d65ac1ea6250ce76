//! The one byte form of a record's body: canonical CBOR, written here and read in `form/read.rs`, item by item off `form/source.rs`.
//!
//! Reading does not recurse, checks every limit before it reserves room, and refuses numbers, lengths and sets that could be
//! written otherwise. So a record has exactly one form; tests write what was read once more and compare.

mod names;
mod read;
mod source;

use alloc::vec::Vec;
use minicbor::Encoder;

pub use self::names::KnownNames;
pub use self::read::{BodyError, BodyProblem, Head};
use super::action::{Action, Body, Item, Message, Offer, Party, Release};
use super::resume::{Held, Remembered, Resume};
use super::{Content, Elided, Outcome, Record, Rule, Step, VERSION};
use crate::codec::Digest;
use crate::evidence::form::WriteResult;
use crate::evidence::{Pseudonym, StatementId};
use crate::graph::Location;
use crate::graph::message::Withdrawal;

pub(super) type Out<'b> = Encoder<&'b mut Vec<u8>>;

const OPEN: u8 = 0;
const POLICY: u8 = 1;
const STEP: u8 = 2;
const CHECKPOINT: u8 = 3;
const CLOSE: u8 = 4;
const RESUME: u8 = 5;

impl Content {
    /// The number of its kind.
    const fn kind(&self) -> u8 {
        match self {
            Self::Open(_) => OPEN,
            Self::Policy(_) => POLICY,
            Self::Step(_) => STEP,
            Self::Checkpoint(_) => CHECKPOINT,
            Self::Close { .. } => CLOSE,
            Self::Resume(_) => RESUME,
        }
    }
}

impl Record {
    /// The body's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(256);
        let result = self.write(&mut Encoder::new(&mut bytes));
        // INVARIANT: writing to a `Vec` cannot fail.
        debug_assert!(result.is_ok());
        bytes
    }

    fn write(&self, out: &mut Out<'_>) -> WriteResult {
        let length = match &self.content {
            Content::Open(_) => 8,
            Content::Policy(_) => 4,
            Content::Step(_) => 9,
            Content::Checkpoint(_) => 5,
            Content::Close { .. } => 6,
            Content::Resume(_) => 13,
        };
        out.array(length)?.u8(self.content.kind())?.u64(self.sequence)?.u64(self.time.unix())?;
        match &self.content {
            Content::Open(open) => {
                out.u8(VERSION)?.str(open.device.as_str())?.array(open.graphs.len() as u64)?;
                for graph in &open.graphs {
                    out.str(graph.as_str())?;
                }
                out.u64(open.mesh_serial)?.u64(open.torn)?;
            }
            Content::Policy(policy) => drop(out.bytes(policy.as_bytes())?),
            Content::Step(step) => write_step(step, out)?,
            Content::Checkpoint(checkpoint) => {
                write_elided(&checkpoint.elided, out)?;
                out.bytes(&checkpoint.signature.0)?;
            }
            Content::Close { checkpoint, continues } => {
                write_elided(&checkpoint.elided, out)?;
                out.bytes(&checkpoint.signature.0)?.bool(*continues)?;
            }
            Content::Resume(resume) => write_resume(resume, out)?,
        }
        Ok(())
    }
}

pub(super) fn write_elided(elided: &Elided, out: &mut Out<'_>) -> WriteResult {
    out.array(elided.iter().len() as u64)?;
    for (reason, count) in elided.iter() {
        out.array(2)?.u8(reason as u8)?.u64(count)?;
    }
    Ok(())
}

fn write_step(step: &Step, out: &mut Out<'_>) -> WriteResult {
    out.u8(step.graph)?.u32(step.instance)?.u8(place(step.from))?;
    write_action(&step.action, out)?;
    out.u8(place(step.to))?.array(step.outcomes.len() as u64)?;
    for Outcome { policy, rule, holds } in &step.outcomes {
        out.array(3)?.bytes(&policy.0)?;
        match rule {
            Rule::Collection => out.null()?,
            Rule::Transfer(at) => out.u16(*at)?,
        };
        out.bool(*holds)?;
    }
    Ok(())
}

fn write_resume(resume: &Resume, out: &mut Out<'_>) -> WriteResult {
    let Resume { policies, current, published, catalogue, received, asked, .. } = resume;
    write_offers(policies.iter(), out)?;
    write_policies(current.iter(), out)?;
    write_policies(published.iter(), out)?;
    write_offers(catalogue.iter(), out)?;
    out.array(received.len() as u64)?;
    for Held { sender, item, policy, epoch } in received {
        write_party(sender, out.array(4)?)?;
        write_item(Some(item), out)?;
        out.bytes(&policy.0)?.u64(epoch.0)?;
    }
    out.array(asked.len() as u64)?;
    for (party, policy) in asked {
        write_party(party, out.array(2)?)?;
        out.bytes(&policy.0)?;
    }
    for remembered in [&resume.recipients, &resume.notices] {
        out.array(remembered.len() as u64)?;
        for Remembered { item, party, withdrawal } in remembered {
            write_item(Some(item), out.array(4)?)?;
            write_party(party, out)?;
            write_withdrawal(withdrawal, out)?;
        }
    }
    out.array(resume.tombstones.len() as u64)?;
    for (item, withdrawal) in &resume.tombstones {
        write_item(Some(item), out.array(3)?)?;
        write_withdrawal(withdrawal, out)?;
    }
    out.array(resume.refused.len() as u64)?;
    for entity in &resume.refused {
        out.str(entity.as_str())?;
    }
    Ok(())
}

fn write_withdrawal(withdrawal: &Withdrawal, out: &mut Out<'_>) -> WriteResult {
    out.u64(withdrawal.epoch.0)?.u64(withdrawal.until.unix()).map(drop)
}

/// The number in a location's name.
pub(super) const fn place(location: Location) -> u8 {
    match location {
        Location::S0 => 0,
        Location::S1 => 1,
        Location::S2 => 2,
        Location::S3 => 3,
        Location::S4 => 4,
    }
}

fn write_action(action: &Action, out: &mut Out<'_>) -> WriteResult {
    match action {
        Action::Init { own, item } => {
            out.array(3)?.u8(0)?;
            write_policies(own.iter(), out)?;
            write_item(item.as_ref(), out)
        }
        Action::Restore { own, item, offers } => {
            out.array(4)?.u8(1)?;
            write_policies(own.iter(), out)?;
            write_item(item.as_ref(), out)?;
            write_offers(offers.iter(), out)
        }
        Action::ChangeOwn { own } => {
            out.array(2)?.u8(2)?;
            write_policies(own.iter(), out)
        }
        Action::Admit { entity } => out.array(2)?.u8(3)?.str(entity.as_str()).map(drop),
        Action::Tau => out.array(1)?.u8(4).map(drop),
        Action::Expire { item } => write_pseudonym(item, out.array(2)?.u8(5)?),
        Action::Forget { item } => write_pseudonym(item, out.array(2)?.u8(6)?),
        Action::Send(message) => write_message(message, out.array(2)?.u8(7)?),
        Action::Receive(message, cause) => {
            write_message(message, out.array(4)?.u8(8)?)?;
            write_optional(cause.head.as_ref().map(|head| &head.0[..]), out)?;
            write_optional(cause.consent.as_ref().map(|mark| &mark.as_bytes()[..]), out)
        }
    }
}

fn write_message(message: &Message, out: &mut Out<'_>) -> WriteResult {
    out.array(4)?;
    write_party(&message.sender, out)?;
    write_party(&message.receiver, out)?;
    write_body(&message.body, out)?;
    write_optional(message.id.as_ref().map(|id| &id.0[..]), out)
}

fn write_body(body: &Body, out: &mut Out<'_>) -> WriteResult {
    match body {
        Body::Request { policy } => out.array(2)?.u8(0)?.bytes(&policy.0).map(drop),
        Body::Send(release) => write_release(release, out.array(2)?.u8(1)?),
        Body::RequestPolicies => out.array(1)?.u8(2).map(drop),
        Body::DownloadPolicies { catalogue, added, removed } => {
            out.array(4)?.u8(3)?.bytes(&catalogue.0)?;
            write_offers(added.iter(), out)?;
            write_offers(removed.iter(), out)
        }
        Body::UploadPolicy { policy, statement } => {
            out.array(3)?.u8(4)?.bytes(&policy.0)?;
            write_statement(statement.as_ref(), out)
        }
        Body::WithdrawPolicy { policy } => out.array(2)?.u8(5)?.bytes(&policy.0).map(drop),
        Body::Broadcast(release) => write_release(release, out.array(2)?.u8(6)?),
        Body::Withdraw { item, withdrawal } => {
            write_pseudonym(item, out.array(4)?.u8(7)?)?;
            write_withdrawal(withdrawal, out)
        }
    }
}

fn write_release(release: &Release, out: &mut Out<'_>) -> WriteResult {
    out.array(4)?;
    write_item(Some(&release.item), out)?;
    out.bytes(&release.policy.0)?.u64(release.epoch.0)?;
    write_optional(release.handle.as_ref().map(|handle| &handle.0[..]), out)
}

fn write_party(party: &Party, out: &mut Out<'_>) -> WriteResult {
    match party {
        Party::Device(name) => out.str(name.as_str()),
        Party::Connection(connection) => out.bytes(&connection.0),
        Party::Owner => out.null(),
    }
    .map(drop)
}

fn write_item(item: Option<&Item>, out: &mut Out<'_>) -> WriteResult {
    let Some(item) = item else { return out.null().map(drop) };
    write_pseudonym(&item.pseudonym, out.array(2)?)?;
    out.str(item.datatype.as_str()).map(drop)
}

fn write_pseudonym(pseudonym: &Pseudonym, out: &mut Out<'_>) -> WriteResult {
    out.bytes(pseudonym.as_bytes()).map(drop)
}

fn write_policies<'p>(policies: impl ExactSizeIterator<Item = &'p Digest>, out: &mut Out<'_>) -> WriteResult {
    out.array(policies.len() as u64)?;
    for policy in policies {
        out.bytes(&policy.0)?;
    }
    Ok(())
}

fn write_offers<'o>(offers: impl ExactSizeIterator<Item = &'o Offer>, out: &mut Out<'_>) -> WriteResult {
    out.array(offers.len() as u64)?;
    for offer in offers {
        out.array(3)?.str(offer.device.as_str())?.bytes(&offer.policy.0)?;
        write_statement(offer.statement.as_ref(), out)?;
    }
    Ok(())
}

fn write_statement(statement: Option<&StatementId>, out: &mut Out<'_>) -> WriteResult {
    write_optional(statement.map(|id| &id.0[..]), out)
}

fn write_optional(bytes: Option<&[u8]>, out: &mut Out<'_>) -> WriteResult {
    match bytes {
        Some(bytes) => out.bytes(bytes),
        None => out.null(),
    }
    .map(drop)
}
