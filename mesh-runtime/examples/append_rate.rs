//! How fast steps are recorded, and how long they are: `cargo run --release -p mesh-runtime --example append_rate`.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a measurement may panic")]

use std::time::Instant;

use ed25519_dalek::SigningKey;
use mesh_runtime::recorder::{Identity, Recorder, Settings, files};
use pilot_core::evidence::trace::action::{Action, Body, Cause, Item, Message, Party, Release, Word};
use pilot_core::evidence::trace::{GraphName, PolicyBytes, Step, Verifier};
use pilot_core::evidence::{AuditKey, DeviceName, Pseudonym, Signer};
use pilot_core::graph::Location;
use pilot_core::graphs;
use pilot_core::semantics::Epoch;
use pilot_core::sorted::Sorted;
use pilot_core::value::Time;

const STEPS: u32 = 200_000;
const NOW: Time = Time::from_unix(1_780_272_000);

fn main() {
    let directory = tempfile::tempdir_in(".").unwrap();
    let settings = Settings::new(directory.path());
    let device = DeviceName::new("mall-gate").unwrap();
    let graphs = vec![GraphName::of(&graphs::INDIRECT_CONTROLLER)];
    let signer = SigningKey::from_bytes(&[2; 32]);
    let key = Signer::verifying_key(&signer);
    let identity = Identity { device: device.clone(), graphs, mesh_serial: 7 };
    let (mut recorder, _) = Recorder::open(settings, identity, signer, NOW).unwrap();
    let policy = PolicyBytes::new(b"stands for a policy".to_vec()).unwrap();
    let audit_key = AuditKey::new([9; 32].into());

    let began = Instant::now();
    for person in 0..STEPS {
        let pseudonym = Pseudonym::of(&person.to_be_bytes(), &audit_key);
        let item = Item { pseudonym, datatype: Word::new("mac-address").unwrap() };
        let release = Release { item, policy: policy.digest(), epoch: Epoch(27_816_750), handle: None };
        let receiver = Party::Device(device.clone());
        let message = Message { sender: Party::Owner, receiver, body: Body::Broadcast(release), id: None };
        let action = Action::Receive(message, Cause::default());
        let step =
            Step { graph: 0, instance: 0, from: Location::S2, action, to: Location::S3, outcomes: Sorted::new() };
        recorder.step(step, |_| Some(policy.clone()), NOW).unwrap();
    }
    recorder.close(NOW).unwrap();
    let rate = |seconds: f64| f64::from(STEPS) / seconds;
    println!("recorded {:.0} steps/s, checkpoints synced", rate(began.elapsed().as_secs_f64()));

    let contents: Vec<Vec<u8>> =
        files::list(directory.path()).unwrap().iter().map(|path| std::fs::read(path).unwrap()).collect();
    let bytes: usize = contents.iter().map(Vec::len).sum();
    println!("{:.1} bytes per accepted broadcast, everything included", bytes as f64 / f64::from(STEPS));
    let began = Instant::now();
    let mut verifier = Verifier::new(|_| Some(key));
    for file in &contents {
        verifier.file(file, |_, _| {}).unwrap();
    }
    println!("verified {:.0} steps/s on one core", rate(began.elapsed().as_secs_f64()));
}
