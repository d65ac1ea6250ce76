//! A record as a line of text.

use std::fmt::Display;

use pilot_core::codec::Digest;
use pilot_core::evidence::trace::action::{Action, Body, Item, Message, Offer, Party, Release};
use pilot_core::evidence::trace::{Content, Elided, GraphName, Open, Outcome, Record, Resume, Rule, Step};

use crate::plain::{counted, rfc3339, visible};

/// How many digits of a digest stand for it.
const DIGITS: usize = 8;
/// How many elements of a set are shown; the rest are counted.
const MAX_SHOWN: usize = 8;

/// Number, time, and what the record says. `graphs` are those of the last `open`.
pub(super) fn line(record: &Record, graphs: &[GraphName]) -> String {
    let what = match &record.content {
        Content::Open(it) => open(it),
        Content::Policy(policy) => {
            format!("policy {}, {}", short(policy.digest()), counted(policy.as_bytes().len() as u64, "byte"))
        }
        Content::Step(it) => step(it, graphs),
        Content::Checkpoint(checkpoint) => format!("checkpoint{}", elided(&checkpoint.elided)),
        Content::Close { checkpoint, continues } => {
            let how = if *continues { "the trace goes on in the next file" } else { "the device stops" };
            format!("close: {how}{}", elided(&checkpoint.elided))
        }
        Content::Resume(it) => resume(it),
    };
    format!("{:>6}  {}  {what}", record.sequence, rfc3339(record.time))
}

fn open(open: &Open) -> String {
    let graphs: Vec<&str> = open.graphs.iter().map(|graph| graph.as_str()).collect();
    let torn = match open.torn {
        0 => String::new(),
        bytes => format!(", after a crash that left {} of a record", counted(bytes, "byte")),
    };
    format!("open {}: {}, mesh file {}{torn}", visible(open.device.as_str()), graphs.join(", "), open.mesh_serial)
}

/// `s₂ –τ→ s₃`, whose, and what the device attests.
fn step(step: &Step, graphs: &[GraphName]) -> String {
    let whose = match graphs.get(usize::from(step.graph)) {
        Some(graph) if graphs.len() > 1 || step.instance > 0 => format!("{} {}: ", graph.as_str(), step.instance),
        _ => String::new(),
    };
    let attested = match step.outcomes.is_empty() {
        true => String::new(),
        false => format!(" where {}", list(&step.outcomes, outcome)),
    };
    format!("{whose}{} –{}→ {}{attested}", step.from, action(&step.action), step.to)
}

fn outcome(outcome: &Outcome) -> String {
    let rule = match outcome.rule {
        Rule::Collection => "collection".to_string(),
        Rule::Transfer(at) => format!("transfer {at}"),
    };
    let holds = if outcome.holds { "holds" } else { "does not hold" };
    format!("{rule} of {} {holds}", short(outcome.policy))
}

fn action(action: &Action) -> String {
    let label = action.label();
    match action {
        Action::Init { own, item } => format!("{label}({}{})", set(own, short_ref), optional(item.as_ref())),
        Action::Restore { own, item, offers } => {
            format!("{label}({}{}, {})", set(own, short_ref), optional(item.as_ref()), set(offers, offer))
        }
        Action::ChangeOwn { own } => format!("{label}({})", set(own, short_ref)),
        Action::Admit { entity } => format!("{label}({})", visible(entity.as_str())),
        Action::Tau => label.to_string(),
        Action::Expire { item } | Action::Forget { item } => format!("{label}(item {})", short(item)),
        Action::Send(message) => format!("{label}({})", parameters(message)),
        Action::Receive(message, cause) => {
            let signed = if cause.consent.is_some() { ", signed" } else { "" };
            format!("{label}({}{signed})", parameters(message))
        }
    }
}

/// In the order of the figures.
fn parameters(message: &Message) -> String {
    let (sender, receiver) = (party(&message.sender), party(&message.receiver));
    match &message.body {
        Body::Request { policy } | Body::UploadPolicy { policy, .. } | Body::WithdrawPolicy { policy } => {
            format!("{sender}, {receiver}, {}", short(policy))
        }
        Body::Send(Release { item: it, policy, .. }) => {
            format!("{sender}, {receiver}, {}, {}", short(policy), item(it))
        }
        Body::Broadcast(Release { item: it, policy, .. }) => {
            format!("{sender}, {}, {receiver}, {}", item(it), short(policy))
        }
        Body::RequestPolicies => format!("{sender}, {receiver}"),
        Body::DownloadPolicies { catalogue, added, removed } => {
            let catalogue = pilot_core::evidence::hex::Hex(&catalogue.0);
            let changed = [('+', added), ('−', removed)].map(|(sign, offers)| match offers.is_empty() {
                true => String::new(),
                false => format!(", {sign}{}", set(offers, offer)),
            });
            format!("{sender}, {receiver}, Π {}{}", short(catalogue), changed.concat())
        }
        Body::Withdraw { item, .. } => format!("{sender}, {receiver}, item {}", short(item)),
    }
}

fn party(party: &Party) -> String {
    match party {
        Party::Device(name) => visible(name.as_str()),
        Party::Connection(connection) => format!("connection {}", short(connection)),
        Party::Owner => "owner".to_string(),
    }
}

fn item(item: &Item) -> String {
    format!("{} {}", visible(item.datatype.as_str()), short(item.pseudonym))
}

fn optional(it: Option<&Item>) -> String {
    it.map(|it| format!(", {}", item(it))).unwrap_or_default()
}

fn offer(offer: &Offer) -> String {
    format!("({}, {})", visible(offer.device.as_str()), short(offer.policy))
}

/// What a run begins with, as numbers: the sets may be large.
fn resume(resume: &Resume) -> String {
    let sizes = [
        ("policies", resume.policies.len()),
        ("current", resume.current.len()),
        ("published", resume.published.len()),
        ("catalogue", resume.catalogue.len()),
        ("received", resume.received.len()),
        ("asked", resume.asked.len()),
        ("recipients", resume.recipients.len()),
        ("notices", resume.notices.len()),
        ("tombstones", resume.tombstones.len()),
        ("refused", resume.refused.len()),
    ];
    let some: Vec<String> = sizes.iter().filter(|(_, size)| *size > 0).map(|(name, n)| format!("{name} {n}")).collect();
    if some.is_empty() { "resume: nothing".to_string() } else { format!("resume: {}", some.join(", ")) }
}

/// How many steps were only counted, by reason.
fn elided(elided: &Elided) -> String {
    if elided.is_empty() {
        return String::new();
    }
    let total = elided.iter().fold(0, |sum: u64, (_, count)| sum.saturating_add(count));
    let reasons: Vec<String> = elided.iter().map(|(reason, count)| format!("{count} {}", reason.name())).collect();
    format!(", {} elided: {}", counted(total, "step"), reasons.join(", "))
}

fn set<'t, T: 't>(
    elements: impl IntoIterator<IntoIter: ExactSizeIterator<Item = &'t T>>,
    one: impl Fn(&T) -> String,
) -> String {
    format!("{{{}}}", list(elements, one))
}

fn list<'t, T: 't>(
    elements: impl IntoIterator<IntoIter: ExactSizeIterator<Item = &'t T>>,
    one: impl Fn(&T) -> String,
) -> String {
    let elements = elements.into_iter();
    let more = elements.len().saturating_sub(MAX_SHOWN);
    let mut shown: Vec<String> = elements.take(MAX_SHOWN).map(one).collect();
    if more > 0 {
        shown.push(format!("and {more} more"));
    }
    shown.join(", ")
}

fn short_ref(digest: &Digest) -> String {
    short(digest)
}

/// The first digits of something long.
fn short(digits: impl Display) -> String {
    let digits: String = digits.to_string().chars().take(DIGITS).collect();
    format!("{digits}…")
}
