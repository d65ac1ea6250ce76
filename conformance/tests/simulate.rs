//! `conform simulate`: what it writes is what daemons would write.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use conformance::keys::Keys;
use conformance::simulate::{Settings, SimulateError, simulate};
use pilot_core::codec::Digest;
use pilot_core::evidence::envelope::{ChainHead, MessageId};
use pilot_core::evidence::mesh::MeshFile;
use pilot_core::evidence::trace::action::{Body, Cause, Message, Party};
use pilot_core::evidence::trace::verify::End;
use pilot_core::evidence::trace::{Action, Content, Frame, Record, Verifier};
use pilot_core::evidence::{AuditKey, Pseudonym, hex};
use pilot_core::graph::MessageKind;
use pilot_core::graphs::{INDIRECT_CONTROLLER, INDIRECT_SUBJECT, REPOSITORY};
use pilot_core::semantics::Epoch;
use pilot_core::value::Time;
use zeroize::Zeroizing;

const SMALL: Settings =
    Settings { subjects: 12, controllers: 5, events: 6_000, seed: 7, clock_skew: 0, file_bytes: 64 << 10 };
const MEDIUM: Settings =
    Settings { subjects: 40, controllers: 8, events: 60_000, seed: 3, clock_skew: 0, file_bytes: 64 << 20 };

fn simulated(settings: Settings) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let figures = simulate(&settings, &out, |_| {}).unwrap();
    assert!(figures.steps.abs_diff(settings.events) * 100 <= settings.events, "{figures:?}");
    (directory, out)
}

/// Every file below a directory, by its path.
fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut open) = (BTreeMap::new(), vec![root.to_path_buf()]);
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            found.insert(path.strip_prefix(root).unwrap().to_path_buf(), std::fs::read(path).unwrap());
        }
    }
    found
}

/// The records of each trace with their hashes, every one of them verified.
fn traces(out: &Path) -> BTreeMap<String, Vec<(Record, ChainHead)>> {
    let mut traces: BTreeMap<String, Vec<(Record, ChainHead)>> = BTreeMap::new();
    for entry in std::fs::read_dir(out.join("traces")).unwrap() {
        let directory = entry.unwrap().path();
        let device = directory.file_name().unwrap().to_str().unwrap().to_owned();
        let key = Keys::read(&out.join("keys").join(format!("{device}.key"))).unwrap().verifying_key();
        let mut verifier = Verifier::new(|open| (open.device.as_str() == device).then_some(key));
        let records = traces.entry(device.clone()).or_default();
        for bytes in files(&directory).values() {
            verifier.file(bytes, |_, _| {}).unwrap();
            let mut rest = &bytes[..];
            while let Some(frame) = Frame::first(rest).unwrap() {
                records.push((Record::from_bytes(frame.body).unwrap(), frame.hash));
                rest = &rest[frame.length..];
            }
        }
        assert_eq!(verifier.standing().end, End::Closed, "{device}");
    }
    traces
}

#[test]
fn equal_seeds_give_equal_bytes() {
    let [(_a, first), (_b, second)] = [simulated(SMALL), simulated(SMALL)];
    assert_eq!(files(&first), files(&second));
    let (_c, third) = simulated(Settings { seed: 8, ..SMALL });
    assert_ne!(files(&first), files(&third));
    // What exists is left alone.
    assert!(matches!(simulate(&SMALL, &first, |_| {}), Err(SimulateError::Exists(_))));
}

#[test]
fn too_few_events_or_devices_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let attempt = |settings| simulate(&settings, &directory.path().join("out"), |_| {}).unwrap_err().to_string();
    assert_eq!(attempt(Settings { events: 3, ..SMALL }), "so many devices need at least 288 events");
    assert_eq!(attempt(Settings { controllers: 0, ..SMALL }), "a simulation has 1 to 256 controllers");
}

/// Time does not go back, runs begin as the trace format says, and steps name policies that stand before them.
///
/// Reference: docs/trace-format.md, Runs
#[test]
fn traces_are_well_formed() {
    let (_keep, out) = simulated(MEDIUM);
    let (mut interrupted, mut closed) = (0, 0);
    for (device, records) in traces(&out) {
        assert!(records.is_sorted_by_key(|(record, _)| record.time), "{device}");
        let mut policies: BTreeSet<Digest> = BTreeSet::new();
        let mut named = BTreeSet::new();
        for (at, (record, _)) in records.iter().enumerate() {
            match &record.content {
                Content::Open(_) => {
                    policies.clear();
                    let next: Vec<_> = records[at + 1..].iter().map(|(record, _)| &record.content).take(2).collect();
                    assert!(at == 0 || matches!(next[0], Content::Checkpoint(_)), "{device} {at}");
                    let before = at.checked_sub(1).map(|before| &records[before].0.content);
                    closed += usize::from(matches!(before, Some(Content::Close { .. })));
                    interrupted += usize::from(!matches!(before, None | Some(Content::Close { .. })));
                }
                Content::Policy(policy) => policies.extend([policy.digest()]),
                Content::Step(step) => step.for_each_policy(|digest| named.extend([*digest])),
                Content::Resume(resume) => resume.for_each_policy(|digest| named.extend([*digest])),
                Content::Checkpoint(_) | Content::Close { .. } => {}
            }
            assert!(named.iter().all(|digest| policies.contains(digest)), "{device} {at}");
            named.clear();
        }
    }
    assert!(interrupted > 0 && closed > 0, "{interrupted} {closed}");
}

/// What was sent, by id.
type Sent = BTreeMap<MessageId, (Message, ChainHead)>;
/// A broadcast: whose item, for whom, under which policy, when.
type Key = (Vec<u8>, Party, Digest, Epoch);

/// Every message that was received was sent, and its cause is the sender's record.
#[test]
fn what_is_received_was_sent() {
    let (_keep, out) = simulated(SMALL);
    let traces = traces(&out);
    let openings = std::fs::read_to_string(out.join("audit/openings")).unwrap();
    let items: Vec<Vec<u8>> = openings
        .lines()
        .map(|line| {
            let opening: serde_json::Value = serde_json::from_str(line).unwrap();
            let digits = opening["item"].as_str().unwrap();
            digits
                .as_bytes()
                .chunks(2)
                .map(|pair| hex::decode::<1>(str::from_utf8(pair).unwrap()).unwrap()[0])
                .collect()
        })
        .collect();
    let opened = |device: &str| -> BTreeMap<Pseudonym, Vec<u8>> {
        let bytes = std::fs::read(out.join("audit").join(format!("{device}.key"))).unwrap();
        let key = AuditKey::new(Zeroizing::new(bytes.try_into().unwrap()));
        items.iter().map(|item| (Pseudonym::of(item, &key), item.clone())).collect()
    };
    let (mut sent, mut on_air): (Sent, BTreeSet<Key>) = Default::default();
    let mut received: Vec<(Message, Cause)> = Vec::new();
    let mut heard: BTreeSet<Key> = BTreeSet::new();
    for (device, records) in &traces {
        let opened = opened(device);
        let key = |message: &Message| match &message.body {
            Body::Broadcast(release) => {
                let item = opened[&release.item.pseudonym].clone();
                (item, message.receiver.clone(), release.policy, release.epoch)
            }
            _ => panic!("no broadcast"),
        };
        for (record, hash) in records {
            let Content::Step(step) = &record.content else { continue };
            match &step.action {
                Action::Send(message) if message.body.kind() == MessageKind::Broadcast => {
                    on_air.insert(key(message));
                }
                Action::Send(message) => {
                    assert!(sent.insert(message.id.unwrap(), (message.clone(), *hash)).is_none());
                }
                Action::Receive(message, _) if message.body.kind() == MessageKind::Broadcast => {
                    heard.insert(key(message));
                }
                Action::Receive(message, cause) => received.push((message.clone(), cause.clone())),
                _ => {}
            }
        }
    }
    assert!(!heard.is_empty() && heard.is_subset(&on_air));
    assert!(!received.is_empty());
    for (message, cause) in received {
        let (original, head) = &sent[&message.id.unwrap()];
        assert_eq!((cause.head, message.body.kind()), (Some(*head), original.body.kind()));
        if let (Body::Send(there), Body::Send(here)) = (&original.body, &message.body) {
            assert!(there.handle.is_some() && there.handle == here.handle);
            assert_eq!((there.policy, there.epoch), (here.policy, here.epoch));
        }
    }
}

/// Nothing that the graphs can do is missing, but what is only counted. About half of it are broadcasts.
#[test]
fn every_edge_is_taken() {
    let (_keep, out) = simulated(MEDIUM);
    let (mut taken, mut steps, mut broadcasts) = (BTreeSet::new(), 0, 0);
    for records in traces(&out).into_values() {
        let mut graph = None;
        for (record, _) in records {
            match record.content {
                Content::Open(open) => graph = Some(open.graphs[0].as_str()),
                Content::Step(step) => {
                    let label = step.action.label();
                    taken.insert((graph.unwrap(), label, step.from, step.to));
                    steps += 1;
                    broadcasts += usize::from(label.to_string().starts_with("broadcast"));
                }
                _ => {}
            }
        }
    }
    for graph in [INDIRECT_SUBJECT, REPOSITORY, INDIRECT_CONTROLLER] {
        for edge in
            graph.edges.iter().filter(|edge| edge.from.is_none() || !edge.effects.is_empty() || edge.from != edge.to)
        {
            let is_it = |(name, label, from, to): &&(&str, _, _, _)| {
                let fits = edge.from.is_none_or(|wanted| wanted == *from) && edge.to.is_none_or(|wanted| wanted == *to);
                *name == graph.name && *label == edge.label && fits
            };
            assert!(taken.iter().any(|step| is_it(&step)), "{}: {}", graph.name, edge.label);
        }
    }
    assert!((40..=60).contains(&(100 * broadcasts / steps)), "{broadcasts} of {steps}");
}

#[test]
fn the_mesh_file_opens() {
    let (_keep, out) = simulated(SMALL);
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    let operator = read("operator.pub").trim().parse().unwrap();
    let signature = read("mesh.toml.sig").trim().parse().unwrap();
    let now: Time = conformance::simulate::START;
    let mesh = MeshFile::open(&read("mesh.toml"), &signature, &operator, now, None).unwrap();
    assert_eq!(mesh.devices().len(), 6);
    for device in mesh.devices() {
        let keys = Keys::read(&out.join("keys").join(format!("{}.key", device.name))).unwrap();
        assert_eq!((keys.verifying_key(), keys.sealing_key().unwrap()), (device.signing_key, device.sealing_key));
    }
}
