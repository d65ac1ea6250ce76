//! Crashes between a record and the state that remembers it: what she took back stays taken back. And what she sends and
//! receives is what her trace says.

use std::fs;
use std::path::PathBuf;

use mesh_runtime::keys::SecretKeys;
use pilot_core::evidence::envelope::ChainHead;
use pilot_core::evidence::trace::action::{Action, Body};
use pilot_core::evidence::trace::{Content, Open, Reader, Record, Resume, Verifier};
use serde_json::json;

use super::support::{Neighbourhood, head_with};

/// Alice's disk.
struct Disk(PathBuf);

impl Disk {
    fn state(&self) -> PathBuf {
        self.0.join("state.json")
    }

    fn trace(&self) -> PathBuf {
        self.0.join("trace/trace-00000000.cborseq")
    }

    /// Her trace, verified: each record with its hash and where it ends.
    fn records(&self) -> Vec<(Record, ChainHead, usize)> {
        let key = SecretKeys::load(&self.0.join("keys")).unwrap().public().signing;
        let mut verifier = Verifier::new(|_: &Open| Some(key));
        let (mut reader, mut records) = (Reader::new(), Vec::new());
        reader.feed(&fs::read(self.trace()).unwrap());
        while let Some((offset, frame)) = reader.frame().unwrap() {
            let end = offset as usize + frame.length;
            records.push((verifier.check(offset, &frame).unwrap(), frame.hash, end));
        }
        records
    }

    /// What the last run began with.
    fn resumed(&self) -> Resume {
        let resume = |(record, ..): (Record, _, _)| match record.content {
            Content::Resume(resume) => Some(*resume),
            _ => None,
        };
        self.records().into_iter().rev().find_map(resume).expect("each run begins with it")
    }
}

/// The record is written, and then the process ends, wherever the state on the disk was.
#[tokio::test]
async fn what_is_withdrawn_in_the_trace_is_not_forgotten() {
    let mut world = Neighbourhood::new().await;
    let gateway = world.start("").await;
    world.until_heard(&["gate", "till"]).await;
    let disk = Disk(world.mesh.path("alice"));
    let gate = world.controllers["gate"].clone();
    gate.lock().unwrap().is_silent = true;
    let before = fs::read(disk.state()).unwrap();
    gateway.ask(json!({ "command": "withdraw", "controller": "mall" })).await;
    world.until("the notice came", || !gate.lock().unwrap().notices.is_empty()).await;
    gateway.kill().await;

    let withdrawal = |(record, hash, end): (Record, ChainHead, usize)| match record.content {
        Content::Step(step) => match step.action {
            Action::Send(message) if matches!(message.body, Body::Withdraw { .. }) => {
                Some((message.id.unwrap().0, hash, end))
            }
            _ => None,
        },
        _ => None,
    };
    let (id, hash, end) = disk.records().into_iter().find_map(withdrawal).expect("it is recorded");
    let whole = fs::read(disk.trace()).unwrap();
    for (case, length, state) in [
        ("nothing came after it", end, Some(&before)),
        ("the state was not stored any more", whole.len(), Some(&before)),
        ("there is no state", whole.len(), None),
    ] {
        fs::write(disk.trace(), &whole[..length]).unwrap();
        match state {
            Some(state) => fs::write(disk.state(), state).unwrap(),
            None => fs::remove_file(disk.state()).unwrap(),
        }
        let said = gate.lock().unwrap().notices.len();
        world.listen_anew().await;
        let gateway = world.start("").await;
        world.until("it is said again", || gate.lock().unwrap().notices.len() > said).await;
        let status = gateway.status().await;
        assert_eq!(status["refused_entities"], json!(["mall"]), "{case}: {status}");
        assert_eq!(status["notices_waiting"], json!(["gate"]), "{case}: {status}");
        assert!(!world.heard(100).await.contains("gate"), "{case}");
        gateway.stop().await;
        let controller = gate.lock().unwrap();
        assert!(controller.notices.iter().all(|(said, _)| *said == id), "{case}: by the id of its record");
        assert!(controller.heads.iter().all(|head| *head == Some(hash)), "{case}: with the hash of its record");
        let resumed = disk.resumed();
        assert_eq!(resumed.tombstones.len(), 1, "{case}");
        assert_eq!(resumed.refused.iter().map(|word| word.as_str()).collect::<Vec<_>>(), ["mall"], "{case}");
    }
}

/// Nor is it forgotten that she let somebody have data again; and without the trace that the state knows, what it remembers
/// stays.
#[tokio::test]
async fn what_is_admitted_in_the_trace_is_not_forgotten() {
    let mut world = Neighbourhood::new().await;
    let gateway = world.start("").await;
    world.until_heard(&["gate", "till"]).await;
    let disk = Disk(world.mesh.path("alice"));
    gateway.ask(json!({ "command": "withdraw", "controller": "mall" })).await;
    let before = fs::read(disk.state()).unwrap();
    gateway.ask(json!({ "command": "admit", "controller": "mall" })).await;
    gateway.kill().await;
    fs::write(disk.state(), &before).unwrap();
    let gateway = world.start("").await;
    world.until_heard(&["gate", "till"]).await;
    gateway.stop().await;
    assert!(disk.resumed().refused.is_empty());

    fs::write(disk.state(), &before).unwrap();
    fs::remove_dir_all(disk.0.join("trace")).unwrap();
    let gateway = world.start("").await;
    world.until_heard(&["till"]).await;
    gateway.stop().await;
    assert_eq!(disk.resumed().refused.len(), 1);
}

/// Each question leaves with the id and the hash of its record, as often as it is asked; an answer is recorded with the id
/// and the head that it came with. Reference: docs/trace-format.md, `id` and `head`.
#[tokio::test]
async fn envelopes_and_records_agree() {
    let mut world = Neighbourhood::new().await;
    world.registry.lock().unwrap().is_silent = true;
    let gateway = world.start("refresh_seconds = 30").await;
    let registry = world.registry.clone();
    world.until("it asks again and again", || registry.lock().unwrap().asked.len() > 2).await;
    registry.lock().unwrap().is_silent = false;
    world.until_heard(&["gate", "till"]).await;
    world.until("it asks once more", || registry.lock().unwrap().questions().len() > 3).await;
    gateway.stop().await;

    let (mut asked, mut answers) = (std::collections::BTreeMap::new(), 0);
    for (record, hash, _) in Disk(world.mesh.path("alice")).records() {
        let Content::Step(step) = record.content else { continue };
        match step.action {
            Action::Send(message) if message.body == Body::RequestPolicies => {
                asked.insert(message.id.unwrap().0, hash);
            }
            Action::Receive(message, cause) => {
                assert_eq!(cause.head, Some(head_with(message.id.unwrap())));
                answers += 1;
            }
            _ => {}
        }
    }
    let registry = registry.lock().unwrap();
    for ((_, id), head) in registry.asked.iter().zip(&registry.heads) {
        assert_eq!(*head, Some(asked[id]));
    }
    assert!(answers > 1, "{answers}");
}
