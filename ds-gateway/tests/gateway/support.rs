//! The other ends: a repository and controllers that do what a test wants, ears, and Alice's gateway itself.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ds_gateway::config::Config;
use mesh_runtime::air::frame::{ControllerTag, Frame};
use mesh_runtime::air::simulated::{self, Hub as AirHub, Participant, World, join};
use mesh_runtime::air::{Address, AddressKind, Air};
use mesh_runtime::daemon::config::AirSetting;
use mesh_runtime::daemon::{Failure, control};
use mesh_runtime::driver::clock::{Clock as _, ManualClock};
use mesh_runtime::journal::new_id;
use mesh_runtime::link::memory::Hub;
use mesh_runtime::link::{Event, Link};
use mesh_runtime::protocol::message::{Message, Refusal};
use mesh_runtime::protocol::post::{Opened, Post};
use mesh_runtime::protocol::sealed::Notice;
use mesh_runtime::protocol::{changes_topic, device_topic};
use pilot_core::evidence::envelope::{ChainHead, MessageId, Sender};
use pilot_core::semantics::Epoch;
use pilot_core::value::Time;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::mesh::{Mesh, name, tag};

/// How long a second of the gateway's clock takes.
const SECOND: Duration = Duration::from_millis(5);
/// How many seconds of that clock a test waits for anything, at most.
const PATIENCE: u64 = 2_000;

/// What the hand-made repository does, and what it saw.
#[derive(Default)]
pub struct Registry {
    /// In the order of their revisions.
    pub statements: Vec<Vec<u8>>,
    pub is_silent: bool,
    /// What it adds to its revision.
    pub revision_offset: u64,
    /// `since` of each question, with the id.
    pub asked: Vec<(u64, [u8; 16])>,
    /// The heads of the asker's trace that came with them.
    pub heads: Vec<Option<ChainHead>>,
    /// The keys that asked.
    pub askers: Vec<Sender>,
}

/// What a hand-made controller does, and what it saw.
#[derive(Default)]
pub struct Controller {
    pub is_silent: bool,
    /// Ids and notices.
    pub notices: Vec<([u8; 16], Notice)>,
    /// The heads of the sender's trace that came with them.
    pub heads: Vec<Option<ChainHead>>,
}

/// The head that the hand-made ends send along with an answer of this id.
pub fn head_with(id: MessageId) -> ChainHead {
    let mut head = [0; 32];
    head.iter_mut().zip(id.0.iter().cycle()).for_each(|(to, from)| *to = *from);
    ChainHead(head)
}

pub struct Neighbourhood {
    pub mesh: Mesh,
    pub clock: ManualClock,
    pub hub: Hub,
    air: AirHub,
    ears: Air,
    /// The earliest epoch of the frames heard.
    pub earliest: Option<Epoch>,
    pub registry: Arc<Mutex<Registry>>,
    pub controllers: BTreeMap<&'static str, Arc<Mutex<Controller>>>,
    /// The link of the repository, to say what nobody asked for.
    links: Vec<Link>,
}

/// A gateway that runs.
pub struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), Failure>>,
    data: PathBuf,
    pub link: Link,
}

impl Neighbourhood {
    /// A repository that lists what the mesh's controllers offer, and controllers.
    pub async fn new() -> Self {
        let mesh = Mesh::new();
        let (clock, hub) = (ManualClock::new(mesh.now), Hub::new());
        let air = AirHub::start(World::default()).await.unwrap();
        let mut listener = Participant::new(Address::new([9; 6]), AddressKind::Public);
        listener.interval = simulated::MIN_INTERVAL;
        let ears = join(air.address(), listener).await.unwrap();
        let registry = Arc::new(Mutex::new(Registry { statements: mesh.offers(), ..Registry::default() }));
        let controllers = ["ads", "gate", "till"].map(|device| (device, Arc::new(Mutex::new(Controller::default()))));
        let mut world = Self {
            mesh,
            clock,
            hub,
            air,
            ears,
            earliest: None,
            registry,
            controllers: controllers.into(),
            links: Vec::new(),
        };
        world.start_registry();
        for device in ["ads", "gate", "till"] {
            world.start_controller(device);
        }
        world
    }

    /// Lets a hand-made device answer.
    fn serve(&mut self, device: &'static str, mut answer: impl FnMut(&Opened) -> Option<Message> + Send + 'static) {
        let (link, mut events) = self.hub.connect();
        link.subscribe(device_topic(tag(device)).unwrap().into()).unwrap();
        self.links.push(link.clone());
        let mut post = Post::of_device(link, name(device), Arc::clone(&self.mesh.keys[device]));
        let (mesh, clock) = (self.mesh.open(), self.clock.clone());
        tokio::spawn(async move {
            while let Some(event) = events.next().await {
                let Event::Message(came) = event else { continue };
                let Some(opened) = post.open(&came, &mesh, true, clock.now()) else { continue };
                if let Some(message) = answer(&opened) {
                    let id = new_id().unwrap();
                    post.send(&opened.sender, id, Some(head_with(id)), &message, &mesh, clock.now());
                }
            }
        });
    }

    /// At most two statements in each part.
    fn start_registry(&mut self) {
        let registry = Arc::clone(&self.registry);
        self.serve("registry", move |opened| {
            let mut registry = registry.lock().unwrap();
            let Message::Fetch { since } = opened.message else { return None };
            registry.asked.push((since, opened.id.0));
            registry.heads.push(opened.head);
            if !registry.askers.contains(&opened.sender) {
                registry.askers.push(opened.sender.clone());
            }
            if registry.is_silent {
                return None;
            }
            let (offset, count) = (registry.revision_offset, registry.statements.len() as u64);
            let head = offset + count;
            let from = since.saturating_sub(offset).min(count);
            let until = (from + 2).min(count);
            let statements = registry.statements[from as usize..until as usize].to_vec();
            let until = if since > head { since } else { offset + until };
            Some(Message::Policies { request: opened.id, since, until, head, statements })
        });
    }

    fn start_controller(&mut self, device: &'static str) {
        let controller = Arc::clone(&self.controllers[device]);
        let keys = Arc::clone(&self.mesh.keys[device]);
        self.serve(device, move |opened| {
            let mut controller = controller.lock().unwrap();
            let Message::Withdraw { sealed } = &opened.message else {
                return Some(Message::Refused { request: opened.id, reason: Refusal::Malformed });
            };
            controller.heads.push(opened.head);
            controller.notices.push((opened.id.0, Notice::open(sealed, tag(device), &keys).unwrap()));
            (!controller.is_silent).then_some(Message::Withdrawn { request: opened.id })
        });
    }

    /// Says something to everybody, as a device.
    pub fn announce(&self, device: &'static str, message: &Message) {
        let link = self.links[0].clone();
        let mut post = Post::of_device(link, name(device), Arc::clone(&self.mesh.keys[device]));
        let topic = changes_topic(tag("registry")).unwrap();
        post.announce(topic, new_id().unwrap(), message, self.clock.now());
    }

    /// Answers somebody, as a device that was not asked.
    pub fn answer(&self, device: &'static str, to: &Sender, message: &Message) {
        let link = self.links[0].clone();
        let mut post = Post::of_device(link, name(device), Arc::clone(&self.mesh.keys[device]));
        post.send(to, new_id().unwrap(), None, message, &self.mesh.open(), self.clock.now());
    }

    /// Writes the configuration and starts the gateway.
    pub async fn start(&self, settings: &str) -> Running {
        let path = self.mesh.config(&self.air.address().to_string(), settings);
        let config = Config::load(&path).unwrap();
        let AirSetting::Simulated(setting) = &config.air else { panic!("no simulated air") };
        let mut participant = setting.participant(config.address.unwrap());
        participant.interval = simulated::MIN_INTERVAL;
        let air = join(setting.hub, participant).await.unwrap();
        let (link, events) = self.hub.connect();
        let (stop, asked) = oneshot::channel::<()>();
        let (clock, data, ours) = (self.clock.clone(), config.data.clone(), link.clone());
        let task = tokio::spawn(async move {
            let shutdown = async { drop(asked.await) };
            ds_gateway::run_with(config, (link, events), air, &clock, shutdown).await
        });
        Running { stop, task, data, link: ours }
    }

    /// A second passes.
    pub async fn pass(&self) {
        tokio::time::sleep(SECOND).await;
        self.clock.set(Time::from_unix(self.clock.now().unix() + 1));
    }

    /// Lets time pass until something is so.
    pub async fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        for _ in 0..PATIENCE {
            if is_so() {
                return;
            }
            self.pass().await;
        }
        panic!("waited in vain until {what}");
    }

    /// Forgets what was heard so far, frames still on their way included.
    pub async fn listen_anew(&mut self) {
        // Several turns: after one long sync, a timer and what is on its way can become ready in the same one.
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        while self.ears.sightings.try_next().is_some() {}
        self.earliest = None;
    }

    /// For whom frames are heard during this many seconds.
    pub async fn heard(&mut self, seconds: u64) -> BTreeSet<&'static str> {
        let mut heard = BTreeSet::new();
        for _ in 0..seconds {
            self.pass().await;
            while let Some(sighting) = self.ears.sightings.try_next() {
                let frame = Frame::decode(sighting.frame.as_slice()).unwrap();
                assert_eq!(sighting.address, Address::new([0xc0, 0xff, 0xee, 0, 0, 1]));
                // As a controller does: what is stale was on its way for too long, and counts for nothing.
                let Some(epoch) = frame.header().epoch.fresh_at(self.clock.now()) else { continue };
                if frame.signature().is_some() {
                    frame.verify(sighting.address, epoch).unwrap();
                }
                self.earliest = Some(self.earliest.map_or(epoch, |earliest| earliest.min(epoch)));
                heard.insert(device_of(frame.header().controller));
            }
        }
        heard
    }

    /// Lets time pass until frames for exactly these are heard.
    pub async fn until_heard(&mut self, whom: &[&'static str]) {
        self.listen_anew().await;
        let wanted: BTreeSet<&str> = whom.iter().copied().collect();
        for _ in 0..PATIENCE / 10 {
            if self.heard(10).await == wanted {
                return;
            }
        }
        panic!("nobody says something for {whom:?}");
    }
}

fn device_of(tag_heard: ControllerTag) -> &'static str {
    ["ads", "gate", "till"].into_iter().find(|device| tag(device).0 == tag_heard.0).expect("a controller")
}

impl Registry {
    /// What was asked, without repetitions.
    pub fn questions(&self) -> Vec<(u64, [u8; 16])> {
        let mut questions = self.asked.clone();
        questions.dedup();
        questions
    }
}

impl Running {
    /// Whether it can be asked something.
    pub fn is_listening(&self) -> bool {
        self.data.join("control.sock").exists()
    }

    pub async fn ask(&self, request: Value) -> Value {
        let data = self.data.clone();
        tokio::task::spawn_blocking(move || control::ask(&data, &request)).await.unwrap().unwrap()
    }

    pub async fn refusal(&self, request: Value) -> String {
        let data = self.data.clone();
        tokio::task::spawn_blocking(move || control::ask(&data, &request)).await.unwrap().unwrap_err().to_string()
    }

    pub async fn status(&self) -> Value {
        self.ask(json!({ "command": "status" })).await
    }

    /// Whom she accepts, by `decide`.
    pub async fn accepted(&self) -> BTreeMap<String, (bool, String)> {
        let answer = self.ask(json!({ "command": "decide" })).await;
        let decisions = answer["decisions"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        decisions
            .map(|one| (text(&one["controller"]), (one["accepted"].as_bool().unwrap(), text(&one["why"]))))
            .collect()
    }

    /// As far as the disk goes, like a kill: nothing is stored or closed.
    pub async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }

    /// Asks it to end, and waits.
    pub async fn stop(self) {
        self.stop.send(()).expect("it runs");
        self.task.await.unwrap().unwrap();
    }
}
