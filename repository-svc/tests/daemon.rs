//! The daemon on a network of one process: what its trace says of messages, and what a run begins with.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mesh_runtime::daemon::{Failure, control};
use mesh_runtime::driver::clock::ManualClock;
use mesh_runtime::journal::new_id;
use mesh_runtime::keys::SecretKeys;
use mesh_runtime::link::memory::Hub;
use mesh_runtime::link::{Event, Events, Filter};
use mesh_runtime::protocol::message::Message;
use mesh_runtime::protocol::post::{Opened, Post};
use mesh_runtime::recorder::files;
use pilot_core::evidence::envelope::{ChainHead, MessageId, Sender};
use pilot_core::evidence::mesh::{FrameTag, MeshDevice, MeshDraft, Role, sign_mesh};
use pilot_core::evidence::statement::Content as Stated;
use pilot_core::evidence::trace::action::{Action, Body, Offer};
use pilot_core::evidence::trace::{Content, Open, Reader, Record, Step, Verifier};
use pilot_core::evidence::{DeviceName, MeshFile, PolicyStatement, Signer as _};
use pilot_core::graph::{Label, MessageKind};
use pilot_core::syntax::parse_file;
use pilot_core::value::Time;
use pilot_core::vocabulary::{Declarations, Vocabulary};
use repository_svc::config::{Config, Overrides};
use repository_svc::run_on;
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// 2030-01-01T00:00:00Z.
const START: Time = Time::from_unix(1_893_456_000);
const WORDS: &str = "extends = 'default'\n[entities]\nmall = []\nregistrar = []\n";
const PATIENCE: Duration = Duration::from_secs(60);

fn name(text: &str) -> DeviceName {
    DeviceName::new(text).unwrap()
}

/// Files, keys, a network and a time.
struct Place {
    directory: TempDir,
    operator: SecretKeys,
    registry: SecretKeys,
    gate: Arc<SecretKeys>,
    network: Hub,
    clock: ManualClock,
}

/// A repository that runs.
struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), Failure>>,
}

impl Running {
    async fn end(self) {
        let _ = self.stop.send(());
        self.task.await.unwrap().unwrap();
    }

    /// As far as the disk goes, like a kill: nothing is closed.
    async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

/// Somebody at the other end.
struct Peer {
    post: Post,
    events: Events,
    mesh: MeshFile,
}

impl Peer {
    async fn ask(&mut self, id: MessageId, head: Option<ChainHead>, message: &Message) -> Opened {
        self.post.send(&Sender::Device(name("registry")), id, head, message, &self.mesh, START);
        loop {
            let event = tokio::time::timeout(PATIENCE, self.events.next()).await.expect("an event").expect("a network");
            let Event::Message(came) = event else { continue };
            let opened = self.post.open(&came, &self.mesh, true, START).expect("an answer that opens");
            assert_eq!(opened.message.answers(), Some(id));
            return opened;
        }
    }
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let operator = SecretKeys::generate().unwrap();
        let registry = SecretKeys::create(&directory.path().join("registry.keys")).unwrap();
        let gate = Arc::new(SecretKeys::generate().unwrap());
        let config = format!(
            "device = \"registry\"\nkeys = \"registry.keys\"\ndata = \"data\"\n\
             [mesh]\nfile = \"mesh.toml\"\noperator = \"{}\"\n[broker]\nurl = \"mqtt://127.0.0.1:1\"\n",
            operator.public().signing
        );
        fs::write(directory.path().join("registry.toml"), config).unwrap();
        let place = Self { directory, operator, registry, gate, network: Hub::new(), clock: ManualClock::new(START) };
        place.write_mesh(1, true);
        place
    }

    fn path(&self, file: &str) -> PathBuf {
        self.directory.path().join(file)
    }

    /// The operator signs a mesh file, with the gate or without.
    fn write_mesh(&self, serial: u64, with_gate: bool) {
        let since = Time::from_unix(1_704_067_200);
        let until = Time::from_unix(4_102_444_800);
        let device = |device: &str, role, entity: &str, keys: &SecretKeys, tag| MeshDevice {
            name: name(device),
            role,
            entity: entity.into(),
            tag: FrameTag(tag),
            signing_key: keys.public().signing,
            sealing_key: keys.public().sealing,
            valid_from: since,
            valid_until: until,
            revoked: None,
        };
        let mut devices = vec![device("registry", Role::Repository, "registrar", &self.registry, [0, 0, 0, 1])];
        if with_gate {
            devices.push(device("gate", Role::Controller, "mall", &self.gate, [0, 0, 0, 2]));
        }
        let draft = MeshDraft {
            serial,
            issued: since,
            expires: until,
            next_operator_key: None,
            vocabulary: Declarations::from_toml(WORDS).unwrap(),
            devices,
        };
        let text = draft.to_toml().unwrap();
        fs::write(self.path("mesh.toml.sig"), format!("{}\n", sign_mesh(&text, &self.operator))).unwrap();
        fs::write(self.path("mesh.toml"), text).unwrap();
    }

    fn mesh(&self) -> MeshFile {
        let text = fs::read_to_string(self.path("mesh.toml")).unwrap();
        let signature = sign_mesh(&text, &self.operator);
        MeshFile::open(&text, &signature, &self.operator.verifying_key(), START, None).unwrap()
    }

    async fn start(&self) -> Running {
        let began = Instant::now();
        loop {
            let Running { stop, task } = self.spawn();
            while !task.is_finished() {
                let data = self.path("data");
                let ask = move || control::ask(&data, &json!({ "command": "status" }));
                let asked = tokio::task::spawn_blocking(ask).await.unwrap();
                if asked.is_ok_and(|status| status["connected"] == true) {
                    return Running { stop, task };
                }
                assert!(began.elapsed() < PATIENCE, "it never connects");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            // Within one process sled unlocks its file some time after the store was dropped.
            let failure = task.await.unwrap().expect_err("it has ended").to_string();
            assert!(failure.contains("is in use") && began.elapsed() < PATIENCE, "{failure}");
        }
    }

    fn spawn(&self) -> Running {
        let config = Config::load(&self.path("registry.toml"), Overrides::default()).unwrap();
        let (link, events) = self.network.connect();
        let (stop, stopped) = oneshot::channel::<()>();
        let clock = self.clock.clone();
        let task = tokio::spawn(async move {
            let shutdown = async { drop(stopped.await) };
            run_on(config, link, events, &clock, shutdown).await
        });
        Running { stop, task }
    }

    async fn peer(&self, mut post: impl FnMut(mesh_runtime::link::Link) -> Post) -> Peer {
        let (link, mut events) = self.network.connect();
        let post = post(link);
        post.link().subscribe(Filter::from(post.my_topic(&self.mesh()).unwrap())).unwrap();
        assert_eq!(events.next().await, Some(Event::Connected));
        Peer { post, events, mesh: self.mesh() }
    }

    async fn controller(&self) -> Peer {
        self.peer(|link| Post::of_device(link, name("gate"), Arc::clone(&self.gate))).await
    }

    async fn subject(&self) -> Peer {
        self.peer(|link| Post::of_subject(link).unwrap()).await
    }

    fn statement(&self, version: u64) -> Vec<u8> {
        let vocabulary = Vocabulary::from_toml(WORDS).unwrap();
        let text = "policy p { collect MACAddress by mall for ServiceUsageAnalytics until 2036-01-01 }";
        let policy = parse_file(text, &vocabulary).unwrap().policies[0].choice.policy().unwrap().clone();
        let statement = PolicyStatement {
            device: name("gate"),
            entity: vocabulary.entities.id("mall").unwrap(),
            version,
            content: Stated::Policy(policy),
            issued: START,
            expires: Time::from_unix(START.unix() + 86_400),
        };
        statement.sign(&vocabulary, &self.gate)
    }

    /// Every record with its hash; the trace verifies.
    fn records(&self) -> Vec<(Record, ChainHead)> {
        let key = self.registry.public().signing;
        let mut verifier = Verifier::new(|_: &Open| Some(key));
        let mut records = Vec::new();
        for path in files::list(&self.path("data/trace")).unwrap() {
            verifier.begin_file();
            let mut reader = Reader::new();
            reader.feed(&fs::read(path).unwrap());
            while let Some((offset, frame)) = reader.frame().unwrap() {
                records.push((verifier.check(offset, &frame).unwrap(), frame.hash));
            }
        }
        records
    }

    fn steps(&self) -> Vec<(Step, ChainHead)> {
        let step = |(record, hash): (Record, ChainHead)| match record.content {
            Content::Step(step) => Some((*step, hash)),
            _ => None,
        };
        self.records().into_iter().filter_map(step).collect()
    }

    /// What each run begins with, and how many uploads it records. No run begins with more than the one before ended with.
    fn runs(&self) -> Vec<(usize, usize)> {
        let (mut runs, mut listed): (Vec<(usize, usize)>, BTreeSet<(DeviceName, _)>) = Default::default();
        for (record, _) in self.records() {
            match record.content {
                Content::Resume(resume) => {
                    let of = |offer: &Offer| (offer.device.clone(), offer.policy);
                    let resumed: BTreeSet<_> = resume.catalogue.iter().map(of).collect();
                    assert!(resumed.is_subset(&listed), "{resumed:?} {listed:?}");
                    runs.push((resumed.len(), 0));
                    listed = resumed;
                }
                Content::Step(step) => {
                    let Action::Receive(message, _) = step.action else { continue };
                    if let Body::UploadPolicy { policy, .. } = message.body {
                        listed.retain(|(device, _)| *device != name("gate"));
                        listed.insert((name("gate"), policy));
                        runs.last_mut().expect("a resume before the first step").1 += 1;
                    }
                }
                _ => {}
            }
        }
        runs
    }
}

/// The id of the message that a step is about, and the head that came with it.
fn about(step: &Step) -> (Option<MessageId>, Option<ChainHead>) {
    match &step.action {
        Action::Send(message) => (message.id, None),
        Action::Receive(message, cause) => (message.id, cause.head),
        other => panic!("{other:?}"),
    }
}

fn labelled(steps: &[(Step, ChainHead)], label: Label) -> Vec<(Step, ChainHead)> {
    steps.iter().filter(|(step, _)| step.action.label() == label).cloned().collect()
}

/// What is received is recorded with the envelope's id and the sender's head; what is sent leaves with the id and the hash
/// of its record, also when it is asked for again. Reference: docs/trace-format.md, `id` and `head`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn envelopes_and_records_agree() {
    let place = Place::new();
    let repository = place.start().await;
    let (mut controller, mut subject) = (place.controller().await, place.subject().await);
    let (upload, fetch, head) = (new_id().unwrap(), new_id().unwrap(), Some(ChainHead([5; 32])));
    let message = Message::Upload { statement: place.statement(1) };
    controller.ask(upload, head, &message).await;
    // The answer was lost.
    controller.ask(upload, head, &message).await;
    let answers = [
        subject.ask(fetch, head, &Message::Fetch { since: 0 }).await,
        subject.ask(fetch, head, &Message::Fetch { since: 0 }).await,
    ];
    repository.end().await;

    let steps = place.steps();
    let uploads = labelled(&steps, Label::Receive(MessageKind::UploadPolicy));
    assert_eq!(uploads.iter().map(|(step, _)| about(step)).collect::<Vec<_>>(), [(Some(upload), head)]);
    let asked = labelled(&steps, Label::Receive(MessageKind::RequestPolicies));
    assert_eq!(asked.iter().map(|(step, _)| about(step)).collect::<Vec<_>>(), [(Some(fetch), head); 2]);
    let sent = labelled(&steps, Label::Send(MessageKind::DownloadPolicies));
    let sent: Vec<_> = sent.iter().map(|(step, hash)| (about(step).0, Some(*hash))).collect();
    assert_eq!(sent, answers.map(|opened| (Some(opened.id), opened.head)));
}

/// A statement that was durable and not recorded when the process ended is recorded by the next one, as it came.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_recorded_later_says_how_it_came() {
    let place = Place::new();
    let repository = place.start().await;
    let (upload, head) = (new_id().unwrap(), Some(ChainHead([5; 32])));
    place.controller().await.ask(upload, head, &Message::Upload { statement: place.statement(1) }).await;
    repository.kill().await;
    // As if the process had ended before the trace was written: nothing is noted as recorded.
    fs::remove_file(place.path("data/policies/RECORDED")).unwrap();
    fs::remove_dir_all(place.path("data/trace")).unwrap();

    place.start().await.end().await;
    assert_eq!(place.runs(), [(0, 1)]);
    let steps = place.steps();
    assert_eq!(about(&steps[0].0), (Some(upload), head));
}

/// What is not listed for a while is not listed again without a record.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_begins_with_no_more_than_the_last_one_had() {
    let place = Place::new();
    let repository = place.start().await;
    let message = Message::Upload { statement: place.statement(1) };
    place.controller().await.ask(new_id().unwrap(), None, &message).await;
    repository.kill().await;
    place.start().await.end().await;
    assert_eq!(place.runs(), [(0, 1), (1, 0)]);

    // The gate leaves the mesh, and comes back.
    place.write_mesh(2, false);
    place.start().await.end().await;
    place.write_mesh(3, true);
    place.start().await.kill().await;
    place.start().await.end().await;
    place.start().await.end().await;
    let runs = place.runs();
    assert_eq!(runs[2], (0, 0));
    assert!(runs.last() == Some(&(1, 0)), "listed, and recorded when it came back: {runs:?}");
    assert_eq!(runs.iter().filter(|(_, uploads)| *uploads > 0).count(), 2, "{runs:?}");
}
