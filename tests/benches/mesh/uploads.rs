//! How many uploads per second the repository acknowledges to 64 devices that each wait for one answer before the next
//! upload. Each acknowledged one is on the disk, so one by one they could not be more than the disk's syncs.
//!
//! The devices are in this process and sign everything beforehand, and look at what came only afterwards: what is
//! measured is the repository, and the broker.
//!
//! The syncs per second of a disk that others use can change by a factor of twenty within a minute. So syncs and uploads
//! take turns, and each round of uploads has much the same disk as the syncs around it. Where syncs are fast, processors
//! are the limit of uploads and not the disk: two signatures are verified for each, and one is made. A slow disk can be had
//! anywhere: `strace -f --seccomp-bpf -e trace=fdatasync,fsync -e inject=fdatasync,fsync:delay_enter=10000` around the
//! benchmark makes each sync take 10 milliseconds more.

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
use crate::crowd::{Crowd, Member, with_all_processors};
use crate::report::Report;

/// How many devices upload at the same time.
const DEVICES: usize = 64;
/// So many times the rate of syncs.
const GOAL: f64 = 10.0;
/// With more syncs per second than this, which no SD card or hard disk makes, the goal is more than one processor can verify
/// and sign, and says nothing about the disk.
const DISK_SYNCS: f64 = 250.0;
/// The length of what is appended before each sync: about a statement's.
const RECORD_BYTES: usize = 512;

/// How often syncs and uploads take turns.
const ROUNDS: usize = 4;

/// Measures behind mosquitto.
pub fn measure(sizes: &Sizes, report: &mut Report) {
    let mut mesh = Mesh::new(Kind::Mosquitto);
    let crowd = Crowd::join(&mut mesh, DEVICES);
    mesh.start("registry");
    let mut devices = Device::connect_all(&mesh, &crowd, sizes.uploads);
    let sync_time = Duration::from_millis(sizes.sync_milliseconds);
    let mut syncs = vec![syncs_per_second(mesh.root(), sync_time)];
    let mut uploads = Vec::new();
    for _ in 0..ROUNDS {
        let began = Instant::now();
        devices = upload_round(&mesh, devices, sizes.uploads);
        uploads.push((DEVICES * sizes.uploads) as f64 / began.elapsed().as_secs_f64());
        syncs.push(syncs_per_second(mesh.root(), sync_time));
    }
    for device in devices {
        device.check_answers();
    }
    let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len() as f64;
    let ratio = mean(&uploads) / mean(&syncs);
    report.say("syncs, one by one", rates(&syncs));
    report.say(format!("durable uploads of {DEVICES} devices, between them"), rates(&uploads));
    if mean(&syncs) <= DISK_SYNCS {
        report.judge("  uploads to syncs, means", format!("{ratio:.1} ×"), format!("≥ {GOAL} ×"), ratio >= GOAL);
    } else {
        report
            .say("  uploads to syncs, means; processors are the limit, so this is not judged", format!("{ratio:.1} ×"));
    }
    mesh.stop("registry");
}

fn rates(rates: &[f64]) -> String {
    let rates: Vec<String> = rates.iter().map(|rate| format!("{rate:.0}")).collect();
    format!("{} /s", rates.join(", "))
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

/// A device that uploads.
struct Device {
    peer: Peer,
    topic: Topic,
    /// Statements in envelopes, all signed, the next one last.
    envelopes: Vec<Vec<u8>>,
    answers: Vec<link::Message>,
}

impl Device {
    /// Each member of the crowd, with so many uploads for each round.
    fn connect_all(mesh: &Mesh, crowd: &Crowd, each: usize) -> Vec<Self> {
        let topic = device_topic(crowd.mesh.device("registry").unwrap().tag).unwrap();
        let numbers: Vec<usize> = (0..DEVICES).collect();
        let envelopes = with_all_processors(&numbers, |number| sign(crowd, *number, each * ROUNDS, &topic));
        let members = crowd.members.iter().zip(envelopes);
        let device = |(member, envelopes): (&Member, _)| {
            let keys = member.keys.clone();
            let peer = mesh.runtime.block_on(Peer::device_with(mesh, member.name.as_str(), keys));
            Self { peer, topic: topic.clone(), envelopes, answers: Vec::new() }
        };
        members.map(device).collect()
    }

    /// One upload after the other; what comes is opened later.
    async fn upload(mut self, count: usize) -> Self {
        for _ in 0..count {
            self.peer.publish(self.topic.clone(), self.envelopes.pop().expect("an upload"));
            loop {
                if let Event::Message(answer) = self.peer.next().await {
                    self.answers.push(answer);
                    break;
                }
            }
        }
        self
    }

    /// Every upload was acknowledged.
    fn check_answers(mut self) {
        assert!(self.envelopes.is_empty());
        for (version, answer) in (1..).zip(self.answers) {
            let opened = self.peer.post.open(&answer, &self.peer.mesh, false, now()).expect("an answer that opens");
            let Message::Uploaded { version: stored, .. } = opened.message else { panic!("{:?}", opened.message) };
            assert_eq!(stored, version);
        }
    }
}

/// All devices at the same time.
fn upload_round(mesh: &Mesh, devices: Vec<Device>, count: usize) -> Vec<Device> {
    let uploading: Vec<_> = devices.into_iter().map(|device| mesh.runtime.spawn(device.upload(count))).collect();
    uploading.into_iter().map(|device| mesh.runtime.block_on(device).unwrap()).collect()
}

/// The uploads of one device, the first one last.
fn sign(crowd: &Crowd, number: usize, count: usize, topic: &Topic) -> Vec<Vec<u8>> {
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
    (1..=count as u64).rev().map(|version| envelope(version).sign(&*member.keys).unwrap()).collect()
}
