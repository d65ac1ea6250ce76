//! A record as a JSON object, with nothing left out.

use std::path::Path;

use pilot_core::evidence::hex::Hex;
use pilot_core::evidence::trace::action::{Action, Body, Cause, Item, Message, Offer, Party, Release};
use pilot_core::evidence::trace::resume::{Held, Remembered};
use pilot_core::evidence::trace::{Checkpoint, Content, GraphName, Outcome, Record, Resume, Rule, Step};
use pilot_core::graph::message::Withdrawal;
use serde_json::{Map, Value, json};

use super::{End, How};
use crate::plain::rfc3339;

/// A record, in which file it stands and where it begins there. `graphs` are those of the last `open`.
pub(super) fn record(record: &Record, graphs: &[GraphName], (path, offset): (&Path, u64)) -> Value {
    let (kind, content) = match &record.content {
        Content::Open(open) => {
            let graphs: Vec<&str> = open.graphs.iter().map(|graph| graph.as_str()).collect();
            let (device, mesh) = (open.device.as_str(), open.mesh_serial);
            ("open", json!({"device": device, "graphs": graphs, "mesh": mesh, "torn": open.torn}))
        }
        Content::Policy(policy) => {
            let bytes = Hex(policy.as_bytes()).to_string();
            ("policy", json!({"policy": policy.digest().to_string(), "bytes": bytes}))
        }
        Content::Step(it) => ("step", step(it, graphs)),
        Content::Checkpoint(it) => ("checkpoint", checkpoint(it)),
        Content::Close { checkpoint: it, continues } => {
            ("close", merged(checkpoint(it), json!({"continues": continues})))
        }
        Content::Resume(it) => ("resume", resume(it)),
    };
    let file = path.file_name().map(|name| name.to_string_lossy());
    let place = json!({
        "record": record.sequence, "time": rfc3339(record.time), "file": file, "offset": offset, "kind": kind,
    });
    merged(place, content)
}

/// What is said after the last record.
pub(super) fn end(end: &End) -> Value {
    let how = match end.how {
        How::Empty => "empty",
        How::Running | How::Torn => "open",
        How::Closed => "closed",
        How::Continues => "continues",
    };
    let tail = json!({"records": end.open_records, "bytes": end.open_bytes, "torn": end.torn_bytes});
    json!({"kind": "end", "end": how, "records": end.records, "first": end.first, "open": tail, "signatures": "not verified"})
}

fn step(step: &Step, graphs: &[GraphName]) -> Value {
    let graph = graphs.get(usize::from(step.graph)).map(|graph| graph.as_str());
    let location = |location| format!("{location:?}").to_lowercase();
    let outcomes: Vec<Value> = step.outcomes.iter().map(outcome).collect();
    let place = json!({
        "graph": graph, "instance": step.instance, "from": location(step.from), "to": location(step.to),
        "action": step.action.label().to_string(), "outcomes": outcomes,
    });
    merged(place, action(&step.action))
}

fn outcome(outcome: &Outcome) -> Value {
    let transfer = match outcome.rule {
        Rule::Collection => None,
        Rule::Transfer(at) => Some(at),
    };
    json!({"policy": outcome.policy.to_string(), "transfer": transfer, "holds": outcome.holds})
}

fn action(action: &Action) -> Value {
    match action {
        Action::Init { own, item: it } => json!({"own": texts(own), "item": it.as_ref().map(item)}),
        Action::Restore { own, item: it, offers } => {
            json!({"own": texts(own), "item": it.as_ref().map(item), "offers": each(offers, offer)})
        }
        Action::ChangeOwn { own } => json!({"own": texts(own)}),
        Action::Admit { entity } => json!({"entity": entity.as_str()}),
        Action::Tau => json!({}),
        Action::Expire { item } | Action::Forget { item } => json!({"item": item.to_string()}),
        Action::Send(it) => message(it),
        Action::Receive(it, Cause { head, consent }) => {
            let consent = consent.as_ref().map(|mark| Hex(mark.as_bytes()).to_string());
            merged(message(it), json!({"head": head.map(|head| head.to_string()), "consent": consent}))
        }
    }
}

fn message(message: &Message) -> Value {
    let body = match &message.body {
        Body::Request { policy } | Body::WithdrawPolicy { policy } => json!({"policy": policy.to_string()}),
        Body::UploadPolicy { policy, statement } => {
            json!({"policy": policy.to_string(), "statement": statement.map(|id| id.to_string())})
        }
        Body::Send(it) | Body::Broadcast(it) => release(it),
        Body::RequestPolicies => json!({}),
        Body::DownloadPolicies { catalogue, added, removed } => json!({
            "catalogue": Hex(&catalogue.0).to_string(), "added": each(added, offer), "removed": each(removed, offer),
        }),
        Body::Withdraw { item, withdrawal: it } => merged(json!({"item": item.to_string()}), withdrawal(it)),
    };
    let id = message.id.map(|id| id.to_string());
    merged(json!({"sender": party(&message.sender), "receiver": party(&message.receiver), "id": id}), body)
}

fn release(release: &Release) -> Value {
    json!({
        "item": item(&release.item), "policy": release.policy.to_string(), "epoch": release.epoch.0,
        "handle": release.handle.map(|handle| Hex(&handle.0).to_string()),
    })
}

fn party(party: &Party) -> Value {
    match party {
        Party::Device(name) => json!({"device": name.as_str()}),
        Party::Connection(connection) => json!({"connection": connection.to_string()}),
        Party::Owner => json!("owner"),
    }
}

fn item(item: &Item) -> Value {
    json!({"pseudonym": item.pseudonym.to_string(), "datatype": item.datatype.as_str()})
}

fn offer(offer: &Offer) -> Value {
    let statement = offer.statement.map(|id| id.to_string());
    json!({"device": offer.device.as_str(), "policy": offer.policy.to_string(), "statement": statement})
}

fn withdrawal(withdrawal: &Withdrawal) -> Value {
    json!({"epoch": withdrawal.epoch.0, "until": rfc3339(withdrawal.until)})
}

fn checkpoint(checkpoint: &Checkpoint) -> Value {
    let elided: Map<String, Value> =
        checkpoint.elided.iter().map(|(reason, count)| (reason.name().to_string(), count.into())).collect();
    json!({"elided": elided, "signature": Hex(&checkpoint.signature.0).to_string()})
}

fn resume(resume: &Resume) -> Value {
    let held = |Held { sender, item: it, policy, epoch }: &Held| json!({"sender": party(sender), "item": item(it), "policy": policy.to_string(), "epoch": epoch.0});
    let remembered = |it: &Remembered| {
        merged(json!({"item": item(&it.item), "party": party(&it.party)}), withdrawal(&it.withdrawal))
    };
    json!({
        "policies": each(&resume.policies, offer), "current": texts(&resume.current),
        "published": texts(&resume.published), "catalogue": each(&resume.catalogue, offer),
        "received": each(&resume.received, held),
        "asked": each(&resume.asked, |(who, policy)| json!({"party": party(who), "policy": policy.to_string()})),
        "recipients": each(&resume.recipients, remembered), "notices": each(&resume.notices, remembered),
        "tombstones": each(&resume.tombstones, |(it, taken)| merged(json!({"item": item(it)}), withdrawal(taken))),
        "refused": texts(&resume.refused),
    })
}

fn each<'t, T: 't>(elements: impl IntoIterator<Item = &'t T>, one: impl Fn(&T) -> Value) -> Vec<Value> {
    elements.into_iter().map(one).collect()
}

fn texts<'t, T: ToString + 't>(elements: impl IntoIterator<Item = &'t T>) -> Vec<String> {
    elements.into_iter().map(ToString::to_string).collect()
}

/// The fields of both.
fn merged(mut object: Value, more: Value) -> Value {
    if let (Value::Object(fields), Value::Object(more)) = (&mut object, more) {
        fields.extend(more);
    }
    object
}
