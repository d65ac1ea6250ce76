//! What the repository does with a message.
//!
//! **Upload.** Opened, checked, put into the store; once it is durable it comes back as an [`Input`] and is listed: a step
//! of the graph, recorded. In [`Host::settle`] the trace is synced, once for all that came together, and only then are
//! they acknowledged. Statements are listed in the order of their revisions, so that a download that ends at a revision
//! has everything up to it.
//!
//! **Fetch.** A part of the catalogue goes out as it is asked for. The part that completes a download is the graph's
//! requestPolicies and downloadPolicies: two recorded steps, and then the answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use mesh_runtime::daemon::Failure;
use mesh_runtime::daemon::control::Asked;
use mesh_runtime::daemon::membership::Membership;
use mesh_runtime::driver::clock::ClockProblem;
use mesh_runtime::driver::limits::Limits;
use mesh_runtime::driver::pacing::Pacing;
use mesh_runtime::driver::run::Host;
use mesh_runtime::driver::{DriveError, Driver, Outcome, RecordError, Setup};
use mesh_runtime::journal::{self, Journal, Origin, new_id};
use mesh_runtime::link::{Event, Filter, Link};
use mesh_runtime::protocol::changes_topic;
use mesh_runtime::protocol::message::{MAX_STATEMENTS_BYTES, Message, Refusal};
use mesh_runtime::protocol::post::{Opened, Post};
use mesh_runtime::recorder::{Identity, Recorder, Settings};
use pilot_core::evidence::envelope::{ChainHead, MessageId, Sender};
use pilot_core::evidence::statement::Content;
use pilot_core::evidence::trace::GraphName;
use pilot_core::evidence::trace::action::{Cause, Connection, Party};
use pilot_core::evidence::{DeviceName, PolicyStatement, StatementId};
use pilot_core::graph::{self, Body, Device};
use pilot_core::graphs::REPOSITORY;
use pilot_core::semantics::{Contacts, Policies};
use pilot_core::value::Time;
use pilot_core::vocabulary::{DeviceId, Vocabulary};
use serde_json::json;
use tokio::sync::mpsc;

use crate::catalogue::{Catalogue, Part};
use crate::config::Config;
use crate::store::{MAX_CHANGES_BYTES, PolicyStore, PutError, Revision, Statement, Version};

/// The most answers on their way to the broker before those who ask are told to come again: a small question has a large
/// answer, and nobody shall make us keep many of them.
pub const MAX_ANSWERS_WAITING: usize = 64;
/// When whoever was told so may come again, in seconds.
pub const RETRY_AFTER: u64 = 1;

/// What comes to the repository.
#[derive(Debug)]
pub(crate) enum Input {
    /// From the network.
    Link(Event),
    /// From the store.
    Stored(Box<Stored>),
}

/// What became of an upload.
#[derive(Debug)]
pub(crate) struct Stored {
    request: Request,
    upload: Upload,
    result: Result<Revision, PutError>,
}

/// Who asked, and how to answer.
#[derive(Debug, Clone)]
struct Request {
    sender: Sender,
    id: MessageId,
    head: Option<ChainHead>,
}

/// A statement that opened.
#[derive(Debug, Clone)]
struct Upload {
    statement: PolicyStatement,
    bytes: Arc<[u8]>,
}

/// The daemon around the driver.
pub(crate) struct Repository {
    name: DeviceName,
    me: DeviceId,
    membership: Membership,
    vocabulary: Vocabulary,
    post: Post,
    store: Arc<PolicyStore>,
    inputs: mpsc::Sender<Input>,
    catalogue: Catalogue,
    /// Durable, and not listed yet because an earlier revision is not.
    early: BTreeMap<u64, Stored>,
    /// Downloads that are being answered, by who asked.
    downloads: BTreeMap<DeviceId, (Request, u64, Part)>,
    /// Acknowledgements that wait for the trace to be synced.
    acknowledgements: Vec<(Request, Message)>,
    /// The revision that was announced last on this connection.
    announced: Option<u64>,
    is_connected: bool,
    uploads: u64,
    served: u64,
}

/// The driver of a repository.
type Driving<'v> = Driver<'v, Journal>;

impl Repository {
    /// Opens the trace and takes up where the last run ended.
    pub(crate) fn start<'v>(
        config: Config,
        link: Link,
        store: Arc<PolicyStore>,
        inputs: mpsc::Sender<Input>,
        vocabulary: &'v Vocabulary,
        now: Time,
    ) -> Result<(Self, Driving<'v>), Failure> {
        let Config { name, keys, membership, trace, .. } = config;
        let (directory, mut names) = membership.roll(vocabulary);
        let me = names.id_of(&name).ok_or_else(|| Failure::configuration("the mesh file does not list this device"))?;
        let identity = Identity {
            device: name.clone(),
            graphs: vec![GraphName::of(&REPOSITORY)],
            mesh_serial: membership.mesh().contents().serial,
        };
        let opened = Recorder::open(Settings::new(&trace), identity, Arc::clone(&keys), now);
        let (recorder, found) = opened.map_err(Failure::runtime)?;
        tracing::debug!(?found, "trace opened");

        let (mut policies, mut device) = (Policies::default(), Device::new(me));
        let (mut catalogue, mut unrecorded) = (Catalogue::default(), Vec::new());
        let (recorded, mut left_out) = (store.recorded(), 0u64);
        let mut since = Revision(0);
        loop {
            let changes = store.changes(since, MAX_CHANGES_BYTES).map_err(Failure::runtime)?;
            for entry in changes.entries {
                let bytes: Arc<[u8]> = entry.statement.bytes().into();
                let opened = PolicyStatement::open(&bytes, membership.mesh(), vocabulary, now);
                match (opened, names.id_of(&entry.device)) {
                    (Ok(statement), Some(_)) if entry.revision > recorded => {
                        unrecorded.push((entry.revision, Upload { statement, bytes }));
                        continue;
                    }
                    (Ok(PolicyStatement { content: Content::Policy(policy), .. }), Some(id)) => {
                        let policy = policies.intern(policy, vocabulary);
                        if let Some(digest) = policies.digest(policy) {
                            names.statement(id, digest, StatementId::of(&bytes));
                        }
                        device.memory.catalogue.insert(id, policy);
                    }
                    (Ok(_), Some(_)) => {}
                    // Expired, or of a device that is no longer in the mesh. It stays in the store: its version counts.
                    (Err(_), _) | (_, None) => left_out += 1,
                }
                catalogue.insert(entry.device, entry.revision.0, bytes);
            }
            since = changes.until;
            if changes.until == changes.head {
                break;
            }
        }
        if left_out > 0 {
            tracing::info!(left_out, "statements that are not valid now are not listed");
        }
        let setup = Setup {
            graph: &REPOSITORY,
            vocabulary,
            directory,
            policies,
            contacts: Contacts::default(),
            guests: Vec::new(),
            device,
            items: Vec::new(),
            pacing: Pacing::default(),
            limits: Limits::default(),
            since: Time::default(),
        };
        let post = Post::of_device(link, name.clone(), keys);
        let mut driver = Driver::new(setup, Journal::new(recorder, names));
        let vocabulary = vocabulary.clone();
        let mut repository = Self {
            name,
            me,
            membership,
            vocabulary,
            post,
            store,
            inputs,
            catalogue,
            early: BTreeMap::new(),
            downloads: BTreeMap::new(),
            acknowledgements: Vec::new(),
            announced: None,
            is_connected: false,
            uploads: 0,
            served: 0,
        };
        // Durable when the last run was cut off, and not in its trace.
        for (revision, upload) in unrecorded {
            repository.list(revision, upload, Origin::default(), &mut driver, now).map_err(Failure::runtime)?;
        }
        repository.subscribe().map_err(Failure::runtime)?;
        Ok((repository, driver))
    }

    fn subscribe(&self) -> Result<(), Failure> {
        let topic = self.post.my_topic(self.membership.mesh());
        let topic = topic.ok_or_else(|| Failure::configuration("the mesh file does not list this device"))?;
        self.post.link().subscribe(Filter::from(topic)).map_err(Failure::runtime)
    }

    /// A message that opened.
    fn asked(&mut self, opened: Opened, driver: &mut Driving<'_>, now: Time) -> Result<Option<Outcome>, DriveError> {
        let request = Request { sender: opened.sender, id: opened.id, head: opened.head };
        match opened.message {
            Message::Upload { statement } => {
                self.upload(request, statement, now);
                Ok(None)
            }
            Message::Fetch { since } => self.fetch(request, since, driver, now),
            other => {
                self.post.complaints.complain("not-for-us", Some(&request.sender), &other.name(), now);
                self.refuse(&request, Refusal::Malformed, now);
                Ok(None)
            }
        }
    }

    /// Checks a statement and gives it to the store, which says later what came of it.
    fn upload(&mut self, request: Request, bytes: Vec<u8>, now: Time) {
        let Sender::Device(sender) = &request.sender else {
            self.post.complaints.complain("anonymous-upload", Some(&request.sender), &"only devices upload", now);
            return self.refuse(&request, Refusal::NotAllowed, now);
        };
        let statement = match PolicyStatement::open(&bytes, self.membership.mesh(), &self.vocabulary, now) {
            Ok(statement) if statement.device == *sender => statement,
            Ok(_) => {
                self.post.complaints.complain("forged-upload", Some(&request.sender), &"of another device", now);
                return self.refuse(&request, Refusal::NotAllowed, now);
            }
            Err(error) => {
                self.post.complaints.complain("statement", Some(&request.sender), &error, now);
                return self.refuse(&request, Refusal::Statement, now);
            }
        };
        let Ok(stored) = Statement::new(Version(statement.version), &bytes) else {
            return self.refuse(&request, Refusal::Statement, now);
        };
        let upload = Upload { statement, bytes: bytes.into() };
        let (store, inputs) = (Arc::clone(&self.store), self.inputs.clone());
        tokio::spawn(async move {
            let result = store.put(upload.statement.device.clone(), stored).await;
            // An error means that the repository has ended; whoever asked asks again.
            let _ = inputs.send(Input::Stored(Box::new(Stored { request, upload, result }))).await;
        });
    }

    /// The store has answered.
    fn stored(&mut self, stored: Stored, driver: &mut Driving<'_>, now: Time) -> Result<(), DriveError> {
        let Stored { request, upload, result } = stored;
        let version = upload.statement.version;
        match result {
            Ok(revision) => {
                self.early.insert(revision.0, Stored { request, upload, result });
                while let Some(next) = self.early.remove(&(self.catalogue.head() + 1)) {
                    let Ok(revision) = next.result else { continue };
                    let origin =
                        Origin { id: Some(next.request.id), cause: Cause { head: next.request.head, consent: None } };
                    let version = next.upload.statement.version;
                    self.list(revision, next.upload, origin, driver, now)?;
                    self.acknowledge(next.request, version);
                }
            }
            // The sender has missed our answer, or somebody repeats what it sent.
            Err(PutError::NotHigher { identical: true, .. }) => self.acknowledge(request, version),
            Err(PutError::NotHigher { stored, identical: false }) => {
                self.post.complaints.complain(
                    "rolled-back",
                    Some(&request.sender),
                    &"a version that is not higher",
                    now,
                );
                self.refuse(&request, Refusal::NotHigher { stored: stored.0 }, now);
            }
            Err(PutError::Busy) => self.refuse(&request, Refusal::Busy { retry_after: RETRY_AFTER }, now),
            Err(PutError::Failed) => {
                tracing::error!("the policy store cannot write; nothing is accepted until a restart");
                self.refuse(&request, Refusal::OutOfOrder, now);
            }
        }
        Ok(())
    }

    fn acknowledge(&mut self, request: Request, version: u64) {
        self.uploads = self.uploads.saturating_add(1);
        let revision = self.catalogue.head();
        let message = Message::Uploaded { request: request.id, version, revision };
        self.acknowledgements.push((request, message));
    }

    /// A statement is durable: the graph's uploadPolicy↓ or withdrawPolicy↓.
    fn list(
        &mut self,
        revision: Revision,
        upload: Upload,
        origin: Origin,
        driver: &mut Driving<'_>,
        now: Time,
    ) -> Result<(), DriveError> {
        let Upload { statement, bytes } = upload;
        if let Some(sender) = driver.recorder().names.id_of(&statement.device) {
            let body = match statement.content {
                Content::Policy(policy) => driver.intern(policy).ok().map(|policy| {
                    if let Some(digest) = driver.context(now).policies.digest(policy) {
                        let names = &mut driver.recorder().names;
                        names.forget_statements(sender);
                        names.statement(sender, digest, StatementId::of(&bytes));
                    }
                    Body::UploadPolicy { policy }
                }),
                Content::Withdrawal => {
                    let listed = driver.device().memory.catalogue.get(&sender).copied();
                    listed.map(|policy| Body::WithdrawPolicy { policy })
                }
            };
            if let Some(body) = body {
                let message = graph::Message { sender, receiver: self.me, body };
                journal::receive(driver, message, origin, now)?;
            }
        }
        self.catalogue.insert(statement.device, revision.0, bytes);
        Ok(())
    }

    /// Hands out a part of the catalogue; the last part is the graph's download.
    fn fetch(
        &mut self,
        request: Request,
        since: u64,
        driver: &mut Driving<'_>,
        now: Time,
    ) -> Result<Option<Outcome>, DriveError> {
        if self.post.link().waiting() >= MAX_ANSWERS_WAITING {
            self.post.complaints.complain("busy", None, &"too many answers wait for the broker", now);
            self.refuse(&request, Refusal::Busy { retry_after: RETRY_AFTER }, now);
            return Ok(None);
        }
        let part = self.catalogue.part(since, MAX_STATEMENTS_BYTES);
        if !part.is_last() {
            let head = driver.recorder().recorder().head();
            self.answer_part(&request, since, part, Some(head), now);
            return Ok(None);
        }
        let subject = match &request.sender {
            Sender::Device(name) => driver.recorder().names.id_of(name),
            Sender::Anonymous(key) => {
                let party = Party::Connection(Connection::of(key));
                driver.introduce(None).ok().map(|guest| {
                    driver.recorder().names.guest(guest.device, party);
                    guest.device
                })
            }
        };
        let Some(sender) = subject.filter(|subject| !self.downloads.contains_key(subject)) else {
            self.refuse(&request, Refusal::Busy { retry_after: RETRY_AFTER }, now);
            return Ok(None);
        };
        let origin = Origin { id: Some(request.id), cause: Cause { head: request.head, consent: None } };
        self.downloads.insert(sender, (request, since, part));
        let message = graph::Message { sender, receiver: self.me, body: Body::RequestPolicies };
        journal::receive(driver, message, origin, now).map(Some)
    }

    fn answer_part(&mut self, request: &Request, since: u64, part: Part, head: Option<ChainHead>, now: Time) {
        let Part { statements, until, head: revision } = part;
        let message = Message::Policies { request: request.id, since, until, head: revision, statements };
        self.answer(request, &message, head, now);
    }

    fn refuse(&mut self, request: &Request, reason: Refusal, now: Time) {
        self.answer(request, &Message::Refused { request: request.id, reason }, None, now);
    }

    fn answer(&mut self, request: &Request, message: &Message, head: Option<ChainHead>, now: Time) {
        match new_id() {
            Ok(id) => self.post.send(&request.sender, id, head, message, self.membership.mesh(), now),
            Err(error) => tracing::error!(%error, "no random numbers for the id of an answer"),
        }
    }

    fn status(&self, driver: &mut Driving<'_>) -> serde_json::Value {
        json!({
            "device": self.name.as_str(),
            "connected": self.is_connected,
            "listed": driver.device().memory.catalogue.len(),
            "revision": self.catalogue.head(),
            "uploads": self.uploads,
            "downloads": self.served,
            "refused": self.post.complaints.counts(),
            "steps": driver.counts().steps,
        })
    }
}

impl Host<Journal> for Repository {
    type Input = Input;
    type Command = Asked;

    fn receive(&mut self, input: Input, driver: &mut Driving<'_>, now: Time) -> Result<Option<Outcome>, DriveError> {
        match input {
            Input::Link(Event::Connected) => {
                tracing::info!("connected to the broker");
                self.is_connected = true;
                // Whoever waited for us asks again at once.
                self.announced = None;
            }
            Input::Link(Event::Disconnected { reason }) => {
                tracing::warn!(%reason, "not connected to the broker");
                self.is_connected = false;
            }
            Input::Link(Event::Message(came)) => {
                if !self.membership.is_in_force(now) {
                    self.post.complaints.complain("expired-mesh", None, &"the mesh file has expired", now);
                } else if let Some(opened) = self.post.open(&came, self.membership.mesh(), true, now) {
                    return self.asked(opened, driver, now);
                }
            }
            Input::Stored(stored) => self.stored(*stored, driver, now)?,
        }
        Ok(None)
    }

    fn command(&mut self, asked: Asked, driver: &mut Driving<'_>, now: Time) -> Result<Option<Outcome>, DriveError> {
        match asked.request.get("command").and_then(|command| command.as_str()) {
            Some("status") => {
                let status = self.status(driver);
                asked.answer(status);
            }
            Some("reload") => {
                self.learn(driver, true, now);
                asked.answer(json!({ "serial": self.membership.mesh().contents().serial }));
            }
            _ => asked.refuse("a repository knows the commands `status` and `reload`"),
        }
        Ok(None)
    }

    fn happened(&mut self, outcome: Outcome, driver: &mut Driving<'_>) {
        for taken in outcome.steps {
            let Some(message) = taken.step.message else { continue };
            let Some(sent) = driver.recorder().next_sent() else { continue };
            if let Some((request, since, part)) = self.downloads.remove(&message.receiver) {
                self.served = self.served.saturating_add(1);
                self.answer_part(&request, since, part, Some(sent.head), taken.time);
            }
        }
        for guest in outcome.forgotten {
            driver.recorder().names.forget_device(guest.device);
            self.downloads.remove(&guest.device);
        }
    }

    fn settle(&mut self, driver: &mut Driving<'_>, now: Time) -> Result<Option<Time>, DriveError> {
        self.learn(driver, false, now);
        let recorder = driver.recorder().recorder();
        recorder.tick(now).map_err(RecordError::new)?;
        if !self.acknowledgements.is_empty() {
            recorder.sync().map_err(RecordError::new)?;
            if let Err(error) = self.store.note_recorded(Revision(self.catalogue.head())) {
                tracing::warn!(%error, "uploads may be recorded once more after the next start");
            }
            let head = recorder.head();
            for (request, message) in std::mem::take(&mut self.acknowledgements) {
                self.answer(&request, &message, Some(head), now);
            }
        }
        self.announce(now);
        Ok(Some(Time::from_unix(now.unix().saturating_add(1))))
    }

    fn clock_changed(&mut self, problem: Option<ClockProblem>) {
        match problem {
            Some(problem) => tracing::error!(%problem, "nothing is done until the clock is right"),
            None => tracing::info!("the clock is right again"),
        }
    }

    fn checkpoint(&mut self, driver: &mut Driving<'_>) -> Result<(), RecordError> {
        driver.recorder().recorder().sync().map_err(RecordError::new)
    }
}

impl Repository {
    /// Looks at the mesh file; new devices get numbers.
    fn learn(&mut self, driver: &mut Driving<'_>, at_once: bool, now: Time) {
        if !self.membership.look(now, at_once) {
            return;
        }
        for device in self.membership.mesh().devices() {
            if driver.recorder().names.id_of(&device.name).is_none()
                && let Some(entity) = self.vocabulary.entities.id(&device.entity)
            {
                let id = driver.add_device(entity);
                driver.recorder().names.device(id, device.name.clone());
            }
        }
    }

    /// Says that something has changed, at most once a second.
    fn announce(&mut self, now: Time) {
        let head = self.catalogue.head();
        if !self.is_connected || self.announced == Some(head) {
            return;
        }
        self.announced = Some(head);
        let tag = self.membership.tag(&self.name);
        if let (Some(topic), Ok(id)) = (tag.and_then(|tag| changes_topic(tag).ok()), new_id()) {
            self.post.announce(topic, id, &Message::Changed { revision: head }, now);
        }
    }
}
