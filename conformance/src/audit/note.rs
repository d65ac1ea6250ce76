//! What a record has to do with other traces: all that the merge and the post need to know of it. Records themselves stay
//! with the judge of their trace.

use std::sync::Arc;

use pilot_core::evidence::envelope::MessageId;
use pilot_core::evidence::trace::action::{Body as Said, Message, Offer, Party};
use pilot_core::evidence::trace::{Action, Content, Step};
use pilot_core::graph::MessageKind;
use pilot_core::graph::message::Withdrawal;
use pilot_core::semantics::PolicyId;
use pilot_core::value::Time;
use pilot_core::vocabulary::DeviceId;

use super::facts::Facts;
use super::feed::{Entry, Heard};
use super::mail::{Key, Sent, Whom};

/// Both ends of a message, where one is missing.
pub const ENDS: &str = "every ↓ has its ↑";
/// Nobody else can know what the sender had.
const SENDER: &str = "the sender's premises of SEND and TRANSFER";

/// A record, as far as others are concerned.
#[derive(Debug)]
pub struct Note {
    /// When it was made.
    pub time: Time,
    /// What it says.
    pub deed: Deed,
}

/// What a record says, as far as others are concerned.
#[derive(Debug)]
pub enum Deed {
    /// A policy or a checkpoint.
    Aside,
    /// The device begins to run, or its next file begins.
    Open,
    /// The device, or its file, ends.
    Close {
        /// Whether there is another file.
        continues: bool,
    },
    /// What a run begins with: the policies that were published before.
    Resume(Vec<PolicyId>),
    /// A step that concerns nobody else.
    Alone,
    /// A step that takes over policies without a message.
    Restore(Vec<Offered>),
    /// A message leaves. Without a key its other end is not looked for.
    Send(Option<Key>, Arc<Sent>),
    /// A message arrives.
    Receive(Arrival),
}

/// A policy that somebody else works under; what has no number is `None`.
pub type Offered = (Option<DeviceId>, Option<PolicyId>);

/// A message that arrives.
#[derive(Debug)]
pub struct Arrival {
    /// What it is.
    pub kind: MessageKind,
    /// By what both of its ends are known.
    pub key: Option<Key>,
    /// The place of the sender's trace, if it is here.
    pub from: Option<usize>,
    /// What cannot be judged if the sender's trace is not here, and why.
    pub unjudged: &'static (&'static str, &'static str),
    /// For an upload or a request, who vouches for what. Any other one of the same policy will do (S17).
    pub vouch: Option<Offered>,
    /// The policies that it hands out.
    pub offers: Vec<Offered>,
}

impl Note {
    /// Of a record in the trace of a device.
    pub fn of(entry: &Entry, device: DeviceId, facts: &Facts<'_>) -> Self {
        let deed = match &entry.content {
            Heard::Step(step) => step_deed(step, entry, device, facts),
            Heard::Other(Content::Open(_)) => Deed::Open,
            Heard::Other(Content::Close { continues, .. }) => Deed::Close { continues: *continues },
            Heard::Other(Content::Resume(resume)) => {
                Deed::Resume(resume.published.iter().filter_map(|digest| facts.policy(digest)).collect())
            }
            Heard::Other(Content::Policy(_) | Content::Checkpoint(_) | Content::Step(_)) => Deed::Aside,
        };
        Self { time: entry.time, deed }
    }
}

fn step_deed(step: &Step, entry: &Entry, device: DeviceId, facts: &Facts<'_>) -> Deed {
    match &step.action {
        Action::Send(message) => {
            let key = match &message.body {
                // Only she can release it, whoever says so.
                Said::Broadcast(release) => {
                    let owner = facts.opening(&release.item.pseudonym).map(|(_, owner)| owner);
                    key(message, facts).filter(|_| owner == Some(device))
                }
                _ => message.id.map(|id| id_key(id, Some(device), facts)),
            };
            let (kind, policy, epoch, withdrawal) = contents(&message.body, facts);
            let mut sent = Sent::new(kind, device, whom(&message.receiver, message, facts), entry.hash);
            (sent.policy, sent.epoch, sent.withdrawal) = (policy, epoch, withdrawal);
            Deed::Send(key, Arc::new(sent))
        }
        Action::Receive(message, _) => Deed::Receive(arrival(message, facts)),
        Action::Restore { offers, .. } => Deed::Restore(offered(offers, facts)),
        Action::Init { .. }
        | Action::ChangeOwn { .. }
        | Action::Admit { .. }
        | Action::Tau
        | Action::Expire { .. }
        | Action::Forget { .. } => Deed::Alone,
    }
}

fn arrival(message: &Message, facts: &Facts<'_>) -> Arrival {
    let from = match whom(&message.sender, message, facts) {
        Whom::Known(sender) => facts.trace(sender),
        Whom::Unknown | Whom::Anonymous => None,
    };
    let (vouch, offers) = match &message.body {
        Said::UploadPolicy { policy, .. } | Said::Request { policy } => {
            (Some((named(&message.sender, facts), facts.policy(policy))), Vec::new())
        }
        Said::DownloadPolicies { added, .. } => (None, offered(added, facts)),
        _ => (None, Vec::new()),
    };
    let unjudged: &(&str, &str) = match (&message.body, &message.sender) {
        (Said::Broadcast(_) | Said::Send(_), Party::Owner) => {
            &(SENDER, "the subject's trace, or her opening, is not here")
        }
        (Said::Broadcast(_) | Said::Send(_), _) => &(SENDER, "the sender's trace is not here"),
        (Said::UploadPolicy { .. } | Said::Request { .. }, _) | (_, Party::Device(_)) => {
            &(ENDS, "the sender's trace is not here")
        }
        (_, Party::Owner | Party::Connection(_)) => &(ENDS, "the sender is anonymous, and her trace is not here"),
    };
    let kind = contents(&message.body, facts).0;
    Arrival { kind, key: key(message, facts), from, unjudged, vouch, offers }
}

fn offered<'o>(offers: impl IntoIterator<Item = &'o Offer>, facts: &Facts<'_>) -> Vec<Offered> {
    offers.into_iter().map(|offer| (facts.device(&offer.device), facts.policy(&offer.policy))).collect()
}

/// Who somebody is, as far as everybody knows.
fn whom(party: &Party, message: &Message, facts: &Facts<'_>) -> Whom {
    match party {
        Party::Device(name) => facts.device(name).map_or(Whom::Unknown, Whom::Known),
        Party::Connection(_) => Whom::Anonymous,
        Party::Owner => {
            let opened = message.pseudonym().and_then(|pseudonym| facts.opening(pseudonym));
            opened.map_or(Whom::Anonymous, |(_, owner)| Whom::Known(owner))
        }
    }
}

/// By what both ends of a message are known.
fn key(message: &Message, facts: &Facts<'_>) -> Option<Key> {
    let Said::Broadcast(release) = &message.body else {
        return message.id.map(|id| id_key(id, named(&message.sender, facts), facts));
    };
    let (number, _) = facts.opening(&release.item.pseudonym)?;
    Some(Key::Broadcast(number, named(&message.receiver, facts)?, facts.policy(&release.policy)?, release.epoch))
}

/// Subjects are anonymous to whom they write, so only senders that a mesh file lists are part of it.
fn id_key(id: MessageId, sender: Option<DeviceId>, facts: &Facts<'_>) -> Key {
    Key::Id(id, sender.filter(|sender| facts.role(*sender).is_some()))
}

/// Somebody who is called by name.
fn named(party: &Party, facts: &Facts<'_>) -> Option<DeviceId> {
    let Party::Device(name) = party else { return None };
    facts.device(name)
}

type Contents = (MessageKind, Option<PolicyId>, Option<pilot_core::semantics::Epoch>, Option<Withdrawal>);

fn contents(body: &Said, facts: &Facts<'_>) -> Contents {
    let policy = |digest| facts.policy(digest);
    match body {
        Said::Send(release) => (MessageKind::Send, policy(&release.policy), Some(release.epoch), None),
        Said::Broadcast(release) => (MessageKind::Broadcast, policy(&release.policy), Some(release.epoch), None),
        Said::Withdraw { withdrawal, .. } => (MessageKind::Withdraw, None, None, Some(*withdrawal)),
        Said::Request { policy: digest } => (MessageKind::Request, policy(digest), None, None),
        Said::UploadPolicy { policy: digest, .. } => (MessageKind::UploadPolicy, policy(digest), None, None),
        Said::WithdrawPolicy { policy: digest } => (MessageKind::WithdrawPolicy, policy(digest), None, None),
        Said::RequestPolicies => (MessageKind::RequestPolicies, None, None, None),
        Said::DownloadPolicies { .. } => (MessageKind::DownloadPolicies, None, None, None),
    }
}
