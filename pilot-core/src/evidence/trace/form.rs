//! The one byte form of a record's body: canonical CBOR, written here and read in `form/read.rs`.
//!
//! Reading does not recurse, checks every limit before it reserves room, writes what it understood once more and
//! refuses any other bytes. So a record has exactly one form.

mod read;

use alloc::vec::Vec;
use minicbor::Encoder;

pub use self::read::{BodyError, BodyProblem};
use super::action::{Action, Body, Item, Message, Offer, Party, Release};
use super::{Content, Elided, Outcome, Record, Rule, Step, VERSION};
use crate::codec::Digest;
use crate::evidence::form::WriteResult;
use crate::evidence::{Pseudonym, StatementId};
use crate::graph::Location;

pub(super) type Out<'b> = Encoder<&'b mut Vec<u8>>;

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
        let (kind, length) = match &self.content {
            Content::Open(_) => (0, 8),
            Content::Policy(_) => (1, 4),
            Content::Step(_) => (2, 9),
            Content::Checkpoint(_) => (3, 5),
            Content::Close { .. } => (4, 6),
        };
        out.array(length)?.u8(kind)?.u64(self.sequence)?.u64(self.time.unix())?;
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
            out.u64(withdrawal.epoch.0)?.u64(withdrawal.until.unix()).map(drop)
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
