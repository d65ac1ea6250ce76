//! A mesh with a mall's gate and a registry, in a directory that is gone afterwards.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dc_gateway::config::Config;
use dc_gateway::{run_on, vault};
use ed25519_dalek::SigningKey;
use mesh_runtime::air::frame::{ControllerTag, Frame};
use mesh_runtime::air::simulated::{Hub as AirHub, Participant, World, join};
use mesh_runtime::air::{Address, AddressKind, Air, FrameBytes};
use mesh_runtime::daemon::config::AirSetting;
use mesh_runtime::daemon::{Failure, control};
use mesh_runtime::driver::clock::{Clock as _, ManualClock};
use mesh_runtime::journal::new_id;
use mesh_runtime::keys::SecretKeys;
use mesh_runtime::link::memory::Hub;
use mesh_runtime::link::{Event, Events, Filter, Link};
use mesh_runtime::protocol::device_topic;
use mesh_runtime::protocol::message::{Message, Refusal};
use mesh_runtime::protocol::post::{Opened, Post};
use mesh_runtime::protocol::sealed::Notice;
use pilot_core::codec::{self, Digest};
use pilot_core::evidence::envelope::{MessageId, Sender};
use pilot_core::evidence::mesh::{FrameTag, sign_mesh};
use pilot_core::evidence::trace::verify::End;
use pilot_core::evidence::trace::{Content, Open, Verifier};
use pilot_core::evidence::{DeviceName, MeshFile, PolicyStatement, Signature, Signer as _};
use pilot_core::policy::Choice;
use pilot_core::semantics::Epoch;
use pilot_core::syntax::parse_file;
use pilot_core::value::Time;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// 2030-01-01T00:00:00Z.
pub const START: Time = Time::from_unix(1_893_456_000);
pub const GATE: FrameTag = FrameTag([0, 0xc0, 0xff, 0xee]);
pub const REGISTRY: FrameTag = FrameTag([0, 0xc0, 0xff, 0xef]);
/// Longer than anything here takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Ten minutes, one hour, and the policy of another mall.
pub const SHORT: &str =
    "policy short { collect MACAddress by mall for ServiceUsageAnalytics until 2030-01-01T00:10:00Z }";
pub const LONG: &str =
    "policy long { collect MACAddress by mall for ServiceUsageAnalytics until 2030-01-01T01:00:00Z }";
pub const FOREIGN: &str = "policy foreign { collect MACAddress by mall for Marketing until 2030-01-01T01:00:00Z }";

pub fn after(seconds: u64) -> Time {
    Time::from_unix(START.unix() + seconds)
}

/// Files, keys, a network, an air and a time.
pub struct Place {
    directory: TempDir,
    operator: SecretKeys,
    pub mesh: MeshFile,
    pub gate: SecretKeys,
    registry: Arc<SecretKeys>,
    pub network: Hub,
    pub air: AirHub,
    pub clock: ManualClock,
}

impl Place {
    pub async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let operator = SecretKeys::generate().unwrap();
        let gate = SecretKeys::create(&directory.path().join("gate.keys")).unwrap();
        let registry = Arc::new(SecretKeys::generate().unwrap());
        let (text, signature) = mesh_file(1, "", &operator, &gate, &registry);
        let mesh = MeshFile::open(&text, &signature, &operator.verifying_key(), START, None).unwrap();
        let air = AirHub::start(World::default()).await.unwrap();
        let config = format!(
            "device = \"gate\"\nkeys = \"gate.keys\"\ndata = \"data\"\npolicy = \"gate.pilot\"\n\
             [mesh]\nfile = \"mesh.toml\"\noperator = \"{}\"\n[broker]\nurl = \"mqtt://127.0.0.1:1\"\n\
             [air]\nsimulated = \"{}\"\n[applications]\nsocket = \"applications.sock\"\n",
            operator.public().signing,
            air.address(),
        );
        fs::write(directory.path().join("gate.toml"), config).unwrap();
        let (network, clock) = (Hub::new(), ManualClock::new(START));
        let place = Self { directory, operator, mesh, gate, registry, network, air, clock };
        place.write_mesh(1, "");
        place.write_policy(LONG);
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// The operator signs a mesh file, with something more about the gate.
    pub fn write_mesh(&self, serial: u64, about_gate: &str) {
        let (text, signature) = mesh_file(serial, about_gate, &self.operator, &self.gate, &self.registry);
        fs::write(self.path("mesh.toml"), text).unwrap();
        fs::write(self.path("mesh.toml.sig"), format!("{signature}\n")).unwrap();
    }

    pub fn write_policy(&self, text: &str) {
        fs::write(self.path("gate.pilot"), text).unwrap();
    }

    pub fn load(&self) -> Result<Config, Failure> {
        Config::load(&self.path("gate.toml"))
    }

    /// Canonical bytes and digest of a policy.
    pub fn policy(&self, text: &str) -> (Vec<u8>, Digest) {
        let choice = parse_file(text, self.mesh.vocabulary()).unwrap().policies.remove(0).choice;
        assert!(matches!(choice, Choice::Policy(_)));
        (codec::encode(&choice, self.mesh.vocabulary()), codec::digest(&choice, self.mesh.vocabulary()))
    }

    pub fn epoch(&self) -> Epoch {
        Epoch::of(self.clock.now())
    }

    /// A frame for the gate, of now.
    pub fn consent(&self, policy: &str) -> FrameBytes {
        Frame::legacy(ControllerTag(GATE.0), self.policy(policy).1, self.epoch()).encode()
    }

    pub fn signed_consent(&self, policy: &str, address: Address, key: &SigningKey) -> FrameBytes {
        let bytes = self.policy(policy).0;
        Frame::signed(ControllerTag(GATE.0), &bytes, self.epoch(), address, key).unwrap().encode()
    }

    /// Says something from an address, until it is dropped.
    pub async fn phone(&self, address: Address, frame: FrameBytes) -> Air {
        let mut participant = Participant::new(address, AddressKind::Random);
        participant.interval = Duration::from_millis(5);
        let phone = join(self.air.address(), participant).await.unwrap();
        phone.advertiser.advertise(Some(frame)).unwrap();
        phone
    }

    pub async fn registry(&self) -> Registry {
        self.registry_on(self.network.connect()).await
    }

    pub async fn registry_on(&self, (link, mut events): (Link, Events)) -> Registry {
        link.subscribe(Filter::from(device_topic(REGISTRY).unwrap())).unwrap();
        assert_eq!(events.next().await, Some(Event::Connected));
        let post = Post::of_device(link, DeviceName::new("registry").unwrap(), Arc::clone(&self.registry));
        Registry { post, events, mesh: self.mesh.clone(), clock: self.clock.clone(), revision: 0 }
    }

    pub async fn subject(&self) -> Subject {
        let (link, mut events) = self.network.connect();
        let post = Post::of_subject(link).unwrap();
        post.link().subscribe(Filter::from(post.my_topic(&self.mesh).unwrap())).unwrap();
        assert_eq!(events.next().await, Some(Event::Connected));
        Subject { post, events, mesh: self.mesh.clone(), clock: self.clock.clone() }
    }

    /// Starts the gate and lets the registry acknowledge what it uploads.
    pub async fn start(&self, registry: &mut Registry) -> Gate {
        let gate = self.start_alone().await;
        registry.acknowledge().await;
        gate.until("acknowledged", |status| status["repository"]["acknowledged"].is_u64()).await;
        gate
    }

    pub async fn start_alone(&self) -> Gate {
        let config = self.load().unwrap();
        let (link, events) = self.network.connect();
        let AirSetting::Simulated(setting) = &config.air else { panic!("no simulated air") };
        let air = setting.join(config.address).await.unwrap();
        let mut health = air.health.clone();
        let (stop, stopped) = oneshot::channel();
        let clock = self.clock.clone();
        let task = tokio::spawn(async move {
            let shutdown = async { drop(stopped.await) };
            run_on(config, link, events, air, &clock, shutdown).await
        });
        assert!(health.until_up().await);
        let gate = Gate::new(self.data(), stop, task);
        gate.until("connected", |status| status["connected"] == true).await;
        gate
    }

    /// Every file below the data directory with its bytes; sockets have none.
    pub fn snapshot(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut directories = vec![self.data()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let entry = entry.unwrap();
                let kind = entry.file_type().unwrap();
                if kind.is_dir() {
                    directories.push(entry.path());
                } else if kind.is_file() {
                    files.insert(entry.path(), fs::read(entry.path()).unwrap());
                }
            }
        }
        files
    }

    /// Whether no file has the address, be it as bytes or in hexadecimal.
    pub fn assert_nowhere(&self, address: Address) {
        let bytes = address.reveal();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let colons = bytes.map(|byte| format!("{byte:02x}")).join(":");
        for (path, content) in self.snapshot() {
            let has = |part: &[u8]| content.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part));
            assert!(!content.windows(6).any(|window| window == bytes), "{}", path.display());
            assert!(!has(hex.as_bytes()) && !has(colons.as_bytes()), "{}", path.display());
        }
    }

    /// How often which step is in the trace of a gate that has ended. The trace verifies, and it is closed.
    pub fn recorded(&self) -> BTreeMap<String, usize> {
        let (key, mut steps) = (self.gate.public().signing, BTreeMap::new());
        let mut verifier = Verifier::new(|_: &Open| Some(key));
        for (path, bytes) in self.snapshot() {
            if path.extension().is_some_and(|extension| extension == "cborseq") {
                let verified = verifier.file(&bytes, |_, record| {
                    if let Content::Step(step) = record.content {
                        *steps.entry(step.action.label().to_string()).or_default() += 1;
                    }
                });
                verified.unwrap();
            }
        }
        assert_eq!(verifier.standing().end, End::Closed);
        steps
    }
}

fn mesh_file(
    serial: u64,
    about_gate: &str,
    operator: &SecretKeys,
    gate: &SecretKeys,
    registry: &SecretKeys,
) -> (String, Signature) {
    let mut text = format!(
        "version = 1\nserial = {serial}\nissued = 2024-01-01\nexpires = 2100-01-01\n\
         [vocabulary]\nextends = \"default\"\n[vocabulary.entities]\nmall = []\nregistrar = []\n",
    );
    for (name, role, entity, tag, keys, more) in [
        ("gate", "controller", "mall", GATE, gate, about_gate),
        ("registry", "repository", "registrar", REGISTRY, registry, ""),
    ] {
        let public = keys.public();
        text += &format!(
            "[[devices]]\nname = \"{name}\"\nrole = \"{role}\"\nentity = \"{entity}\"\ntag = \"{tag}\"\n\
             signing_key = \"{}\"\nsealing_key = \"{}\"\nvalid_from = 2024-01-01\nvalid_until = 2100-01-01\n{more}",
            public.signing, public.sealing,
        );
    }
    let signature = sign_mesh(&text, operator);
    (text, signature)
}

/// A gate that runs.
pub struct Gate {
    data: PathBuf,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), Failure>>,
}

impl Gate {
    pub fn new(data: PathBuf, stop: oneshot::Sender<()>, task: JoinHandle<Result<(), Failure>>) -> Self {
        Self { data, stop, task }
    }

    pub async fn ask(&self, command: &str) -> Result<Value, control::AskError> {
        let (data, request) = (self.data.clone(), json!({ "command": command }));
        tokio::task::spawn_blocking(move || control::ask(&data, &request)).await.unwrap()
    }

    pub async fn status(&self) -> Value {
        self.ask("status").await.unwrap()
    }

    pub async fn held(&self) -> Vec<Value> {
        let held = self.ask("held").await.unwrap()["held"].take();
        held.as_array().unwrap().clone()
    }

    /// Waits until the status is as wanted.
    pub async fn until(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let started = Instant::now();
        loop {
            let status = self.ask("status").await;
            match &status {
                Ok(status) if holds(status) => return status.clone(),
                _ => {}
            }
            assert!(started.elapsed() < PATIENCE, "never {what}: {status:?}");
            assert!(!self.task.is_finished(), "the gate has ended");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until so many were refused for a reason.
    pub async fn until_refused(&self, reason: &str, count: u64) {
        let enough = |status: &Value| status["refused"][reason].as_u64().is_some_and(|refused| refused >= count);
        self.until(reason, enough).await;
    }

    pub async fn until_held(&self, count: u64) {
        self.until("held", |status| status["held"] == count).await;
    }

    /// As far as the disk goes, like a kill: nothing is closed.
    pub async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }

    pub async fn end(self) -> Result<(), Failure> {
        // It may have ended by itself.
        let _ = self.stop.send(());
        self.task.await.unwrap()
    }
}

/// The repository's end.
pub struct Registry {
    post: Post,
    events: Events,
    mesh: MeshFile,
    clock: ManualClock,
    revision: u64,
}

impl Registry {
    /// The next message.
    pub async fn opened(&mut self) -> Opened {
        next(&mut self.post, &mut self.events, &self.mesh, &self.clock).await
    }

    /// The next upload: its id and the statement.
    pub async fn upload(&mut self) -> (MessageId, Vec<u8>) {
        let opened = self.opened().await;
        match opened.message {
            Message::Upload { statement } => (opened.id, statement),
            other => panic!("{other:?}"),
        }
    }

    pub fn answer(&mut self, message: &Message) {
        let gate = Sender::Device(DeviceName::new("gate").unwrap());
        self.post.send(&gate, new_id().unwrap(), None, message, &self.mesh, self.clock.now());
    }

    pub fn open(&self, statement: &[u8]) -> PolicyStatement {
        let now = self.clock.now();
        PolicyStatement::open(statement, &self.mesh, self.mesh.vocabulary(), now).unwrap()
    }

    pub async fn acknowledge(&mut self) -> PolicyStatement {
        let (request, statement) = self.upload().await;
        let statement = self.open(&statement);
        self.revision += 1;
        self.answer(&Message::Uploaded { request, version: statement.version, revision: self.revision });
        statement
    }

    pub fn refuse(&mut self, request: MessageId, reason: Refusal) {
        self.answer(&Message::Refused { request, reason });
    }
}

/// A person.
pub struct Subject {
    post: Post,
    events: Events,
    mesh: MeshFile,
    clock: ManualClock,
}

impl Subject {
    /// Sends a notice and waits for the answer.
    pub async fn withdraw(&mut self, notice: &Notice) -> Message {
        let gate = self.mesh.device("gate").unwrap();
        let sealed = notice.seal(GATE, &gate.sealing_key).unwrap();
        self.send(new_id().unwrap(), sealed).await
    }

    pub async fn send(&mut self, id: MessageId, sealed: Vec<u8>) -> Message {
        let gate = Sender::Device(DeviceName::new("gate").unwrap());
        self.post.send(&gate, id, None, &Message::Withdraw { sealed }, &self.mesh, self.clock.now());
        let opened = next(&mut self.post, &mut self.events, &self.mesh, &self.clock).await;
        assert_eq!(opened.sender, gate);
        assert_eq!(opened.message.answers(), Some(id));
        opened.message
    }
}

async fn next(post: &mut Post, events: &mut Events, mesh: &MeshFile, clock: &ManualClock) -> Opened {
    loop {
        let event = tokio::time::timeout(PATIENCE, events.next()).await.expect("an event").expect("a network");
        let Event::Message(came) = event else { continue };
        if let Some(opened) = post.open(&came, mesh, true, clock.now()) {
            return opened;
        }
        panic!("refused: {:?}", post.complaints.counts());
    }
}

/// What the vault of a gate that has ended holds.
pub fn records_in(data: &Path, now: Time) -> usize {
    let (vault, _) = vault::Vault::open(&data.join("vault.redb"), &data.join("vault.key"), now).unwrap();
    vault.records(None, 100).unwrap().len()
}
