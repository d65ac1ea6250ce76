//! What a record has to do with other traces: all that the merge and the post need to know of it. Records themselves stay
//! with the judge of their trace.

use std::sync::OnceLock;

use pilot_core::evidence::DeviceName;
use pilot_core::evidence::envelope::{ChainHead, MessageId};
use pilot_core::evidence::trace::action::{Body as Said, Message, Offer, Party, Release};
use pilot_core::evidence::trace::{Action, Content, Record, Step};
use pilot_core::graph::MessageKind;
use pilot_core::semantics::PolicyId;
use pilot_core::value::Time;
use pilot_core::vocabulary::DeviceId;

use super::air::Broadcast;
use super::facts::Facts;
use super::mail::{Drafts, Envelope, Key, Part, Sent, Sheets, Whom};

/// Both ends of a message, where one is missing.
pub const ENDS: &str = "every ↓ has its ↑";
/// Nobody else can know what the sender had.
const SENDER: &str = "the sender's premises of SEND and TRANSFER";

/// A record, as far as others are concerned. Most are not.
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
    /// The device begins to run, or its next file begins.
    Open {
        /// The latest time of a record before.
        seen: Time,
    },
    /// The device, or its file, ends.
    Close {
        /// Whether there is another file.
        continues: bool,
    },
    /// What a run begins with: the policies that were published before.
    Resume(Vec<PolicyId>),
    /// A run has begun: nothing more is said of what it begins with.
    Begun,
    /// A step that takes over policies without a message.
    Restore(Vec<Offered>),
    /// A message leaves.
    Send(Leaving),
    /// A message arrives.
    Receive(Arrival),
}

/// A policy that somebody else works under; what has no number is `None`.
pub type Offered = (Option<DeviceId>, Option<PolicyId>);

/// A message that leaves.
#[derive(Debug)]
pub struct Leaving {
    /// By what both of its ends are known, if its other end can be looked for, and its place on the sheet.
    pub key: Option<(Key, u32)>,
    /// For an upload or a request, who vouches for what.
    pub vouch: Option<(DeviceId, PolicyId)>,
}

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

/// What a batch of records has to do with other traces.
#[derive(Debug)]
pub struct Notes {
    /// A note on each record that concerns others, in their order.
    pub notes: Vec<Note>,
    /// The messages that leave.
    pub sheets: Sheets,
}

/// Who and what a message names, in numbers, as far as everybody knows them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Named {
    /// Who sent it, if it says a name.
    pub sender: Option<DeviceId>,
    /// Who is to have it, likewise.
    pub receiver: Option<DeviceId>,
    /// Its policy.
    pub policy: Option<PolicyId>,
}

/// What a judge must know of others before a record can be judged, or owes them afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tie {
    /// Nothing.
    None,
    /// The post must say where it came from.
    Arrives,
    /// Somebody may want to know what was vouched for with it: what it is, and its place on its sheet.
    Leaves(MessageKind, u32),
}

/// A sealed record, as its judge keeps it.
#[derive(Debug)]
pub struct Entry {
    /// How many records of the trace stand before it.
    pub sequence: u64,
    /// When it was made.
    pub time: Time,
    /// What it says.
    pub heard: Heard,
    /// What others have to do with it.
    pub tie: Tie,
    /// What it names.
    pub named: Named,
}

/// What a record says.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "almost all are steps, and a judge reads those that stand in a row faster"
)]
pub enum Heard {
    /// A step.
    Step(Step),
    /// Anything else.
    Other(Box<Content>),
}

/// Takes the notes of one trace.
pub struct Scribe {
    device: DeviceId,
    seen: Time,
    is_resuming: bool,
    notes: Vec<Note>,
    drafts: Drafts,
    known: KnownDevices,
}

impl Scribe {
    /// Of the trace of a device.
    pub fn new(device: DeviceId) -> Self {
        Self {
            device,
            seen: Time::default(),
            is_resuming: false,
            notes: Vec::new(),
            drafts: Drafts::default(),
            known: KnownDevices::default(),
        }
    }

    /// Takes a note of a record, if it concerns others.
    pub fn note(&mut self, record: Record, hash: ChainHead, facts: &Facts<'_>) -> Entry {
        let Record { sequence, time, content } = record;
        let seen = self.seen;
        self.seen = seen.max(time);
        let (mut tie, mut named) = (Tie::None, Named::default());
        let step = match content {
            Content::Step(step) => step,
            other => {
                self.aside(&other, seen, time, facts);
                return Entry { sequence, time, heard: Heard::Other(Box::new(other)), tie, named };
            }
        };
        let deed = match &step.action {
            Action::Send(message) => {
                named = Named::of(message, &mut self.known, facts);
                let leaving = self.leaving(message, &named, hash, facts);
                let place = leaving.as_ref().and_then(|leaving| leaving.key).map(|(_, place)| place);
                if let (Some(place), Some(_)) = (place, message.pseudonym()) {
                    tie = Tie::Leaves(message.body.kind(), place);
                }
                leaving.map(Deed::Send)
            }
            Action::Receive(message, _) => {
                (tie, named) = (Tie::Arrives, Named::of(message, &mut self.known, facts));
                Some(Deed::Receive(arrival(message, &named, time, facts)))
            }
            Action::Restore { offers, .. } => {
                tie = Tie::Arrives;
                Some(Deed::Restore(offered(offers, facts)))
            }
            Action::Init { .. }
            | Action::ChangeOwn { .. }
            | Action::Admit { .. }
            | Action::Tau
            | Action::Expire { .. }
            | Action::Forget { .. } => None,
        };
        let has_begun = std::mem::take(&mut self.is_resuming);
        let deed = deed.or(has_begun.then_some(Deed::Begun));
        self.notes.extend(deed.map(|deed| Note { time, deed }));
        Entry { sequence, time, heard: Heard::Step(*step), tie, named }
    }

    /// Likewise of what is no step.
    fn aside(&mut self, content: &Content, seen: Time, time: Time, facts: &Facts<'_>) {
        let deed = match content {
            Content::Policy(_) | Content::Checkpoint(_) | Content::Step(_) => return,
            Content::Open(_) => Deed::Open { seen },
            Content::Close { continues, .. } => Deed::Close { continues: *continues },
            Content::Resume(resume) => {
                Deed::Resume(resume.published.iter().filter_map(|digest| facts.policy(digest)).collect())
            }
        };
        self.is_resuming = matches!(deed, Deed::Resume(_));
        self.notes.push(Note { time, deed });
    }

    /// The notes since the last time.
    pub fn take(&mut self) -> Notes {
        // The next ones are likely to be about as many.
        let next = Vec::with_capacity(self.notes.len());
        Notes { notes: std::mem::replace(&mut self.notes, next), sheets: self.drafts.take() }
    }

    /// A message leaves, if others are concerned.
    fn leaving(&mut self, message: &Message, named: &Named, hash: ChainHead, facts: &Facts<'_>) -> Option<Leaving> {
        let opened = message.pseudonym().and_then(|pseudonym| facts.opening(pseudonym));
        let key = match &message.body {
            Said::Broadcast(release) => {
                // Only she can release it, whoever says so.
                opened.filter(|(_, owner)| *owner == self.device).and_then(|opened| named.frame(opened, release))
            }
            _ => message.id.map(|id| envelope(id, Some(self.device), facts)),
        };
        let (kind, policy) = (message.body.kind(), named.policy);
        let is_voucher = matches!(kind, MessageKind::UploadPolicy | MessageKind::Request);
        let vouch = policy.filter(|_| is_voucher).map(|policy| (self.device, policy));
        if key.is_none() && vouch.is_none() {
            return None;
        }
        let key = key.map(|key| {
            let receiver = whom(&message.receiver, named.receiver, opened);
            let (part, opening, vouch) = (part(&message.body), opened.map(|(number, _)| number), OnceLock::new());
            (key, self.drafts.add(Sent { kind, sender: self.device, receiver, policy, hash, part, opening, vouch }))
        });
        Some(Leaving { key, vouch })
    }
}

/// Devices that were named before. A trace names the same few in almost every record.
#[derive(Default)]
struct KnownDevices([Option<(DeviceName, Option<DeviceId>)>; 32]);

impl KnownDevices {
    fn device(&mut self, name: &DeviceName, facts: &Facts<'_>) -> Option<DeviceId> {
        // Most differ in their last letter, or in their length.
        let place = name.as_str().bytes().next_back().map_or(0, |last| usize::from(last) + 7 * name.as_str().len());
        let place = self.0.get_mut(place % 32)?;
        match place {
            Some((known, device)) if known == name => *device,
            _ => {
                let device = facts.device(name);
                *place = Some((name.clone(), device));
                device
            }
        }
    }
}

impl Named {
    fn of(message: &Message, known: &mut KnownDevices, facts: &Facts<'_>) -> Self {
        let mut device = |party: &Party| if let Party::Device(name) = party { known.device(name, facts) } else { None };
        let policy = match &message.body {
            Said::Send(release) | Said::Broadcast(release) => facts.policy(&release.policy),
            Said::Request { policy } | Said::UploadPolicy { policy, .. } | Said::WithdrawPolicy { policy } => {
                facts.policy(policy)
            }
            Said::RequestPolicies | Said::DownloadPolicies { .. } | Said::Withdraw { .. } => None,
        };
        Self { sender: device(&message.sender), receiver: device(&message.receiver), policy }
    }

    /// By what both ends of a broadcast are known, whose item is opened.
    fn frame(&self, (opening, owner): (u32, DeviceId), release: &Release) -> Option<Key> {
        let (receiver, policy, epoch) = (self.receiver?, self.policy?, release.epoch);
        Some(Key::Broadcast(Broadcast { owner, opening, receiver, policy, epoch }))
    }
}

fn arrival(message: &Message, named: &Named, time: Time, facts: &Facts<'_>) -> Arrival {
    let opened = message.pseudonym().and_then(|pseudonym| facts.opening(pseudonym));
    let from = match whom(&message.sender, named.sender, opened) {
        Whom::Known(sender) => facts.trace(sender, time),
        Whom::Unknown | Whom::Anonymous => None,
    };
    let (vouch, offers) = match &message.body {
        Said::UploadPolicy { .. } | Said::Request { .. } => (Some((named.sender, named.policy)), Vec::new()),
        Said::DownloadPolicies { added, .. } => (None, offered(added, facts)),
        _ => (None, Vec::new()),
    };
    let unjudged: &(&str, &str) = match (&message.body, &message.sender) {
        (Said::Broadcast(_) | Said::Send(_), Party::Owner) => {
            &(SENDER, "the subject's trace, or her opening, is not here")
        }
        (Said::Broadcast(_) | Said::Send(_), _) => &(SENDER, "the sender's trace is not here, or is damaged"),
        (Said::UploadPolicy { .. } | Said::Request { .. }, _) | (_, Party::Device(_)) => {
            &(ENDS, "the sender's trace is not here, or is damaged")
        }
        (_, Party::Owner | Party::Connection(_)) => {
            &(ENDS, "the sender is anonymous, and no trace here had sent it by then")
        }
    };
    let key = match &message.body {
        Said::Broadcast(release) => opened.and_then(|opened| named.frame(opened, release)),
        _ => message.id.map(|id| envelope(id, named.sender, facts)),
    };
    Arrival { kind: message.body.kind(), key, from, unjudged, vouch, offers }
}

fn offered<'o>(offers: impl IntoIterator<Item = &'o Offer>, facts: &Facts<'_>) -> Vec<Offered> {
    offers.into_iter().map(|offer| (facts.device(&offer.device), facts.policy(&offer.policy))).collect()
}

/// Who somebody is, as far as everybody knows.
fn whom(party: &Party, named: Option<DeviceId>, opened: Option<(u32, DeviceId)>) -> Whom {
    match party {
        Party::Device(_) => named.map_or(Whom::Unknown, Whom::Known),
        Party::Connection(_) => Whom::Anonymous,
        Party::Owner => opened.map_or(Whom::Anonymous, |(_, owner)| Whom::Known(owner)),
    }
}

/// Subjects are anonymous to whom they write, so only senders that a mesh file lists are part of it.
fn envelope(id: MessageId, sender: Option<DeviceId>, facts: &Facts<'_>) -> Key {
    Key::Envelope(Envelope::new(id, sender.filter(|sender| facts.role(*sender).is_some())))
}

/// What a message says of an item, if it is about one.
pub fn part(body: &Said) -> Option<Part> {
    match body {
        Said::Send(release) | Said::Broadcast(release) => Some(Part::Released(release.epoch, release.handle)),
        Said::Withdraw { withdrawal, .. } => Some(Part::TakenBack(*withdrawal)),
        Said::Request { .. }
        | Said::UploadPolicy { .. }
        | Said::WithdrawPolicy { .. }
        | Said::RequestPolicies
        | Said::DownloadPolicies { .. } => None,
    }
}
