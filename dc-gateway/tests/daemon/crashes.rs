//! Crashes: whatever the disk has of trace, vault and statements, the next run holds nothing that the trace does not hold,
//! nothing that was taken back comes back, and what leaves has its record.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use dc_gateway::vault::Vault;
use mesh_runtime::air::Address;
use mesh_runtime::driver::clock::Clock as _;
use mesh_runtime::protocol::message::Message;
use mesh_runtime::protocol::sealed::Notice;
use pilot_core::codec::Digest;
use pilot_core::evidence::Pseudonym;
use pilot_core::evidence::envelope::ChainHead;
use pilot_core::evidence::trace::action::{Action, Body};
use pilot_core::evidence::trace::{Content, Open, Reader, Record, Verifier};
use pilot_core::graph::message::Withdrawal;
use pilot_core::value::Time;

use super::support::{LONG, Place, SHORT, after};

const ALICE: Address = Address::new([0xd1, 0x0e, 0xaa, 0x77, 0x01, 0x01]);
const BOB: Address = Address::new([0xd1, 0x0e, 0xaa, 0x77, 0x01, 0x02]);
const CAROL: Address = Address::new([0xd1, 0x0e, 0xaa, 0x77, 0x01, 0x03]);

/// A record, its hash, and where it ends in the file.
type Recorded = (Record, ChainHead, usize);

/// The trace, verified. It is short, and one file.
fn trace(place: &Place) -> Vec<Recorded> {
    let key = place.gate.public().signing;
    let mut verifier = Verifier::new(|_: &Open| Some(key));
    let (mut reader, mut records) = (Reader::new(), Vec::new());
    reader.feed(&fs::read(trace_file(place)).unwrap());
    while let Some((offset, frame)) = reader.frame().unwrap() {
        let end = offset as usize + frame.length;
        records.push((verifier.check(offset, &frame).unwrap(), frame.hash, end));
    }
    records
}

fn trace_file(place: &Place) -> PathBuf {
    place.data().join("trace/trace-00000000.cborseq")
}

/// What a trace says to be held, taken back and published.
#[derive(Debug, Default)]
struct Told {
    held: BTreeSet<Pseudonym>,
    withdrawn: BTreeSet<Pseudonym>,
    published: BTreeSet<Digest>,
    runs: usize,
}

/// Reads a trace as an auditor does. A run begins with no more than the one before ended with.
fn told(records: &[Recorded]) -> Told {
    let mut told = Told::default();
    for (record, ..) in records {
        match &record.content {
            Content::Resume(resume) => {
                let held: BTreeSet<_> = resume.received.iter().map(|held| held.item.pseudonym).collect();
                assert!(held.is_subset(&told.held), "a run begins with what was not held");
                assert!(resume.published.is_subset(&told.published), "or with what was not published");
                let buried: BTreeSet<_> = resume.tombstones.iter().map(|(item, _)| item.pseudonym).collect();
                assert!(told.withdrawn.is_subset(&buried), "or without what was taken back");
                (told.held, told.published) = (held, resume.published.clone());
                told.runs += 1;
            }
            Content::Step(step) => match &step.action {
                Action::Expire { item } => drop(told.held.remove(item)),
                Action::Send(message) => match message.body {
                    Body::UploadPolicy { policy, .. } => drop(told.published.insert(policy)),
                    Body::WithdrawPolicy { policy } => {
                        assert!(told.published.remove(&policy), "what is withdrawn was published");
                    }
                    _ => {}
                },
                Action::Receive(message, _) => match &message.body {
                    Body::Broadcast(release) => drop(told.held.insert(release.item.pseudonym)),
                    Body::Withdraw { item, .. } => {
                        told.held.remove(item);
                        told.withdrawn.insert(*item);
                    }
                    _ => {}
                },
                _ => {}
            },
            _ => {}
        }
    }
    told
}

/// What the vault has.
fn vault(place: &Place) -> (BTreeSet<Pseudonym>, BTreeSet<Pseudonym>) {
    let data = place.data();
    let (vault, _) = Vault::open(&data.join("vault.redb"), &data.join("vault.key"), place.clock.now()).unwrap();
    let held = vault.records(None, 100).unwrap().into_iter().map(|record| record.description.pseudonym);
    (held.collect(), vault.tombstones().unwrap().into_iter().map(|(pseudonym, _)| pseudonym).collect())
}

fn copy_of_vault(place: &Place) -> Vec<u8> {
    fs::read(place.data().join("vault.redb")).unwrap()
}

/// Trace and vault are cut apart in every way: the vault as it was after each of its transactions, with the trace up to
/// each record.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_vault_follows_the_trace() {
    let place = Place::new().await;
    place.write_policy(SHORT);
    let mut registry = place.registry().await;
    let gate = place.start(&mut registry).await;
    let mut vaults = vec![copy_of_vault(&place)];
    for (count, person) in [(1, ALICE), (2, BOB)] {
        let phone = place.phone(person, place.consent(SHORT)).await;
        gate.until_held(count).await;
        drop(phone);
        vaults.push(copy_of_vault(&place));
    }
    let withdrawal = Withdrawal { epoch: place.epoch(), until: after(3_600) };
    let notice = Notice { item: ALICE, withdrawal, signature: None };
    let answer = place.subject().await.withdraw(&notice).await;
    assert!(matches!(answer, Message::Withdrawn { .. }), "{answer:?}");
    vaults.push(copy_of_vault(&place));
    place.clock.set(after(700));
    gate.until_held(0).await;
    vaults.push(copy_of_vault(&place));
    place.write_policy(LONG);
    gate.ask("reload").await.unwrap();
    let phone = place.phone(CAROL, place.consent(LONG)).await;
    gate.until_held(1).await;
    drop(phone);
    vaults.push(copy_of_vault(&place));
    gate.kill().await;
    drop(registry);

    let (whole, records) = (fs::read(trace_file(&place)).unwrap(), trace(&place));
    // Every policy is known, and none published before this run.
    let statements = place.data().join("published.json");
    let signed = fs::read_to_string(&statements).unwrap().replace("\"uploaded\":true", "\"uploaded\":false");
    let positions: Vec<u64> = vaults.iter().map(|bytes| position_in(&place, bytes)).collect();
    assert!(positions.is_sorted(), "{positions:?}");
    let (mut done_again, mut forsaken) = (0, 0);
    for (bytes, position) in vaults.iter().zip(positions) {
        for (cut, (record, _, end)) in records.iter().enumerate().skip(2) {
            fs::write(trace_file(&place), &whole[..*end]).unwrap();
            fs::write(place.data().join("vault.redb"), bytes).unwrap();
            fs::write(&statements, &signed).unwrap();
            place.clock.set(Time::from_unix(record.time.unix()));
            let before = vault(&place);
            // Opening has compacted it, perhaps.
            fs::write(place.data().join("vault.redb"), bytes).unwrap();
            let expected = told(&records[..=cut]);
            place.start_alone().await.end().await.unwrap();

            let case = format!("vault at {position}, trace up to {}", record.sequence);
            let told = told(&trace(&place));
            let (held, buried) = vault(&place);
            assert!(held.is_subset(&expected.held), "{case}: {held:?}, {expected:?}");
            assert!(held.is_subset(&before.0), "{case}");
            assert_eq!(held, told.held, "{case}: after a run in order they agree");
            if record.sequence + 1 < position {
                assert!(held.is_empty(), "{case}: what the trace does not have is not held");
                assert!(before.1.is_subset(&buried), "{case}");
                forsaken += 1;
            } else {
                assert!(expected.withdrawn.is_subset(&buried), "{case}");
                assert!(expected.withdrawn.is_disjoint(&held), "{case}: what was taken back is gone");
                let lost: BTreeSet<_> = before.0.intersection(&expected.held).copied().collect();
                assert_eq!(held, lost, "{case}: and nothing else");
                done_again += usize::from(before.0 != held);
            }
        }
    }
    assert!(done_again > 0 && forsaken > 0, "there were both: {done_again} {forsaken}");
}

/// Up to where a copy of the vault follows the trace.
fn position_in(place: &Place, bytes: &[u8]) -> u64 {
    let copy = place.path("copy.redb");
    fs::write(&copy, bytes).unwrap();
    let position = Vault::unlock(&copy, &place.data().join("vault.key")).unwrap().position().unwrap();
    fs::remove_file(copy).unwrap();
    position.next
}

/// What fell due while the gateway was down is in the record with which it begins, and expires by a step.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_fell_due_is_resumed_and_expires() {
    let place = Place::new().await;
    place.write_policy(SHORT);
    let mut registry = place.registry().await;
    let gate = place.start(&mut registry).await;
    let phone = place.phone(ALICE, place.consent(SHORT)).await;
    gate.until_held(1).await;
    drop(phone);
    gate.kill().await;
    place.clock.set(after(700));
    place.start_alone().await.end().await.unwrap();
    let records = trace(&place);
    let last = records.iter().rposition(|(record, ..)| matches!(record.content, Content::Resume(_))).unwrap();
    let Content::Resume(resume) = &records[last].0.content else { panic!("a resume") };
    assert_eq!(resume.received.len(), 1);
    let expired = |(record, ..): &Recorded| matches!(&record.content, Content::Step(step) if matches!(step.action, Action::Expire { .. }));
    assert!(records[last..].iter().any(expired));
    assert!(told(&records).held.is_empty());
}

/// The steps that send something, by their ids: what they say and the hash of their record.
fn sent(records: &[Recorded]) -> BTreeMap<[u8; 16], (Body, ChainHead)> {
    let step = |(record, hash, _): &Recorded| match &record.content {
        Content::Step(step) => match &step.action {
            Action::Send(message) => Some((message.id?.0, (message.body.clone(), *hash))),
            _ => None,
        },
        _ => None,
    };
    records.iter().filter_map(step).collect()
}

/// A statement counts as published when its upload is recorded, not when it is signed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_published_was_recorded() {
    let place = Place::new().await;
    let mut registry = place.registry().await;
    let gate = place.start_alone().await;
    let upload = registry.opened().await;
    let (_, head) = &sent(&trace(&place))[&upload.id.0];
    assert_eq!(upload.head, Some(*head));
    gate.kill().await;
    // The statement is on the disk, and the trace has only the beginning of the run.
    let (records, whole) = (trace(&place), fs::read(trace_file(&place)).unwrap());
    let resumed = records.iter().find(|(record, ..)| matches!(record.content, Content::Resume(_))).unwrap();
    fs::write(trace_file(&place), &whole[..resumed.2]).unwrap();
    let published = place.data().join("published.json");
    let text = fs::read_to_string(&published).unwrap();
    fs::write(&published, text.replace("\"uploaded\":true", "\"uploaded\":false")).unwrap();

    let gate = place.start_alone().await;
    let again = registry.opened().await;
    assert_ne!(again.id, upload.id, "another step");
    gate.end().await.unwrap();
    let records = trace(&place);
    assert_eq!(again.head, Some(sent(&records)[&again.id.0].1));
    assert_eq!(told(&records).runs, 2);
}

/// A withdrawn policy is withdrawn by one record, wherever the crash was, and what is said to the repository has its id.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_is_withdrawn_once() {
    let place = Place::new().await;
    let mut registry = place.registry().await;
    let gate = place.start(&mut registry).await;
    let (files, before) = (place.data().join("published.json"), trace(&place).last().unwrap().2);
    gate.ask("withdraw-policy").await.unwrap();
    let first = registry.opened().await;
    gate.kill().await;
    let records = trace(&place);
    assert_eq!(first.head, Some(sent(&records)[&first.id.0].1));
    let (whole, noted) = (fs::read(trace_file(&place)).unwrap(), fs::read_to_string(&files).unwrap());
    // As it was before the record was noted.
    let mut unnoted: serde_json::Value = serde_json::from_str(&noted).unwrap();
    let Body::WithdrawPolicy { policy } = sent(&records)[&first.id.0].0 else { panic!("a withdrawal") };
    unnoted["unrecorded"] = serde_json::json!([policy.to_string()]);
    unnoted["sent"] = serde_json::Value::Null;
    let unnoted = unnoted.to_string();

    for (case, trace_length, published, is_same) in [
        ("all is done", whole.len(), &noted, true),
        ("recorded, not noted", whole.len(), &unnoted, true),
        ("not recorded", before, &unnoted, false),
    ] {
        fs::write(trace_file(&place), &whole[..trace_length]).unwrap();
        fs::write(&files, published).unwrap();
        let gate = place.start_alone().await;
        let said = registry.opened().await;
        gate.end().await.unwrap();
        let records = trace(&place);
        assert_eq!(said.id == first.id, is_same, "{case}");
        let sent = sent(&records);
        assert_eq!(said.head, Some(sent[&said.id.0].1), "{case}");
        let withdrawals = sent.values().filter(|(body, _)| matches!(body, Body::WithdrawPolicy { .. }));
        assert_eq!(withdrawals.count(), 1, "{case}");
        assert!(told(&records).published.is_empty(), "{case}");
    }
}
