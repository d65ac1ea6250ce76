//! How many uploads per second the repository acknowledges to 64 devices that each wait for one answer before the next
//! upload. Each acknowledged one is on the disk, so one by one they could not be more than the disk's syncs.
//!
//! The devices are in this process and sign everything beforehand, and look at what came only afterwards: what is
//! measured is the repository, and the broker.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use consent_mesh_tests::peer::{Peer, new_id};
use consent_mesh_tests::{Kind, Mesh, now};
use mesh_runtime::link::{self, Event, Topic};
use mesh_runtime::protocol::device_topic;
use mesh_runtime::protocol::message::Message;
use pilot_core::evidence::DeviceName;
use pilot_core::evidence::envelope::{Envelope, Receiver, Sender};

use crate::Sizes;
use crate::crowd::{Crowd, with_all_processors};
use crate::report::Report;

/// How many devices upload at the same time.
const DEVICES: usize = 64;
/// So many times the rate of syncs.
const GOAL: f64 = 10.0;
/// The length of what is appended before each sync: about a statement's.
const RECORD_BYTES: usize = 512;

/// Measures behind mosquitto.
pub fn measure(sizes: &Sizes, report: &mut Report) {
    let mut mesh = Mesh::new(Kind::Mosquitto);
    let crowd = Crowd::join(&mut mesh, DEVICES);
    mesh.start("registry");
    let sync_time = Duration::from_millis(sizes.sync_milliseconds);
    let before = syncs_per_second(mesh.root(), sync_time);
    let uploads = uploads_per_second(&mesh, &crowd, sizes.uploads);
    let after = syncs_per_second(mesh.root(), sync_time);
    let syncs = f64::midpoint(before, after);
    let ratio = uploads / syncs;
    report.say("syncs, one by one, before and after", format!("{before:.0} /s, {after:.0} /s"));
    report.say(format!("durable uploads of {DEVICES} devices"), format!("{uploads:.0} /s"));
    report.judge("  uploads to syncs", format!("{ratio:.1} ×"), format!("≥ {GOAL} ×"), ratio >= GOAL);
    mesh.stop("registry");
}

/// Appends and syncs in the directory of the mesh, again and again.
fn syncs_per_second(directory: &Path, time: Duration) -> f64 {
    let mut file = File::create(directory.join("syncs")).unwrap();
    let (began, mut syncs) = (Instant::now(), 0);
    while began.elapsed() < time {
        file.write_all(&[0x5a; RECORD_BYTES]).unwrap();
        file.sync_data().unwrap();
        syncs += 1;
    }
    f64::from(syncs) / began.elapsed().as_secs_f64()
}

fn uploads_per_second(mesh: &Mesh, crowd: &Crowd, each: u64) -> f64 {
    let topic = device_topic(crowd.mesh.device("registry").unwrap().tag).unwrap();
    let peers: Vec<Peer> = crowd
        .members
        .iter()
        .map(|member| {
            let keys = member.keys.clone();
            mesh.runtime.block_on(Peer::device_with(mesh, member.name.as_str(), keys))
        })
        .collect();
    let numbers: Vec<usize> = (0..DEVICES).collect();
    let envelopes = with_all_processors(&numbers, |number| sign(crowd, *number, each, &topic));
    let began = Instant::now();
    let mut devices = Vec::new();
    for (peer, envelopes) in peers.into_iter().zip(envelopes) {
        devices.push(mesh.runtime.spawn(upload_all(peer, topic.clone(), envelopes)));
    }
    let answered: Vec<_> = devices.into_iter().map(|device| mesh.runtime.block_on(device).unwrap()).collect();
    let seconds = began.elapsed().as_secs_f64();
    let mut acknowledged = 0;
    for (mut peer, answers) in answered {
        for (version, answer) in (1..).zip(answers) {
            let opened = peer.post.open(&answer, &peer.mesh, false, now()).expect("an answer that opens");
            let Message::Uploaded { version: stored, .. } = opened.message else { panic!("{:?}", opened.message) };
            assert_eq!(stored, version);
            acknowledged += 1;
        }
    }
    f64::from(acknowledged) / seconds
}

/// The uploads of one device, signed statements in signed envelopes.
fn sign(crowd: &Crowd, number: usize, each: u64, topic: &Topic) -> Vec<Vec<u8>> {
    let member = &crowd.members[number];
    let envelope = |version| Envelope {
        sender: Sender::Device(member.name.clone()),
        receiver: Receiver::Device(DeviceName::new("registry").unwrap()),
        topic: topic.as_str().into(),
        id: new_id(),
        time: now(),
        head: None,
        message: Message::Upload { statement: crowd.statement(number, version) }.encode(),
    };
    (1..=each).map(|version| envelope(version).sign(&*member.keys).unwrap()).collect()
}

/// One upload after the other; what came is opened later.
async fn upload_all(mut peer: Peer, topic: Topic, envelopes: Vec<Vec<u8>>) -> (Peer, Vec<link::Message>) {
    let mut answers = Vec::new();
    for envelope in envelopes {
        peer.publish(topic.clone(), envelope);
        loop {
            if let Event::Message(answer) = peer.next().await {
                answers.push(answer);
                break;
            }
        }
    }
    (peer, answers)
}
