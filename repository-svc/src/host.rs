//! What the repository does with a message.
//!
//! **Upload.** Opened, checked, put into the store; once it is durable it comes back as an [`Input`] and is listed: a step
//! of the graph, recorded. In [`Host::settle`] a sync of the trace begins, for all that came since the last one, and when it
//! is done they are acknowledged. Meanwhile others are taken. Statements are listed in the order of their revisions, so
//! that a download that ends at a revision has everything up to it.
//!
//! **Fetch.** A part of the catalogue goes out as it is asked for. The part that completes a download is the graph's
//! requestPolicies and downloadPolicies: two recorded steps, and then the answer.

mod downloads;
mod start;
mod uploads;

use std::collections::BTreeMap;
use std::sync::Arc;

use mesh_runtime::daemon::Failure;
use mesh_runtime::daemon::control::Asked;
use mesh_runtime::daemon::membership::Membership;
use mesh_runtime::driver::clock::ClockProblem;
use mesh_runtime::driver::run::Host;
use mesh_runtime::driver::{DriveError, Driver, Outcome, RecordError};
use mesh_runtime::journal::{Journal, new_id};
use mesh_runtime::link::{Event, Filter};
use mesh_runtime::protocol::changes_topic;
use mesh_runtime::protocol::message::{Message, Refusal};
use mesh_runtime::protocol::post::{Opened, Post};
use mesh_runtime::recorder;
use pilot_core::evidence::envelope::{ChainHead, MessageId, Sender};
use pilot_core::evidence::{DeviceName, PolicyStatement};
use pilot_core::value::Time;
use pilot_core::vocabulary::{DeviceId, Vocabulary};
use serde_json::json;
use tokio::sync::mpsc;

use crate::catalogue::{Catalogue, Part};
use crate::left_out::LeftOut;
use crate::store::{PolicyStore, PutError, Revision};

/// When whoever was told so may come again, in seconds.
pub const RETRY_AFTER: u64 = 1;

/// What comes to the repository.
#[derive(Debug)]
pub(crate) enum Input {
    /// From the network.
    Link(Event),
    /// From the store.
    Stored(Box<Stored>),
    /// A sync of the trace is done.
    Synced(Result<(), recorder::RecordError>),
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
    left_out: LeftOut,
    /// Durable, and not listed yet: an earlier revision is not, or the clock is not believed.
    durable: BTreeMap<u64, (Request, Upload)>,
    /// Downloads that are being answered, by who asked.
    downloads: BTreeMap<DeviceId, (Request, u64, Part)>,
    /// How many downloads may be completed, as of when.
    downloads_left: (u64, Time),
    /// Acknowledgements that wait for a sync of the trace to begin.
    acknowledgements: Vec<(Request, Message)>,
    /// The sync that has begun.
    syncing: Option<Syncing>,
    /// The revision up to which the store knows that everything is in the trace.
    noted: u64,
    /// The revision that was announced last on this connection.
    announced: Option<u64>,
    is_connected: bool,
    uploads: u64,
    served: u64,
}

/// What a sync of the trace will have made durable.
#[derive(Debug)]
struct Syncing {
    /// Up to here.
    revision: u64,
    /// The trace ends with this.
    head: ChainHead,
    acknowledgements: Vec<(Request, Message)>,
}

/// The driver of a repository.
type Driving<'v> = Driver<'v, Journal>;

impl Repository {
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
            // Not even refused: whoever answers answers can be made to do so for ever.
            answer if answer.answers().is_some() || matches!(answer, Message::Changed { .. }) => {
                self.post.complaints.complain("unasked", Some(&request.sender), &"an answer to no question", now);
                Ok(None)
            }
            other => {
                self.post.complaints.complain("not-for-us", Some(&request.sender), &other.name(), now);
                self.refuse(&request, Refusal::Malformed, now);
                Ok(None)
            }
        }
    }

    fn refuse(&mut self, request: &Request, reason: Refusal, now: Time) {
        self.answer(request, &Message::Refused { request: request.id, reason }, None, now);
    }

    fn answer(&mut self, request: &Request, message: &Message, head: Option<ChainHead>, now: Time) {
        self.post.answer(&request.sender, head, message, self.membership.mesh(), now);
    }

    fn status(&self, driver: &mut Driving<'_>) -> serde_json::Value {
        json!({
            "device": self.name.as_str(),
            "connected": self.is_connected,
            "listed": driver.device().memory.catalogue.len(),
            "revision": self.catalogue.head(),
            "uploads": self.uploads,
            "downloads": self.served,
            "complaints": self.post.complaints.counts(),
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
            Input::Synced(result) => {
                result.map_err(RecordError::new)?;
                self.synced(now);
            }
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
                self.answer_part(&request, since, part, sent, taken.time);
            }
        }
        for guest in outcome.forgotten {
            driver.recorder().names.forget_device(guest.device);
            self.downloads.remove(&guest.device);
        }
    }

    fn settle(&mut self, driver: &mut Driving<'_>, now: Time) -> Result<Option<Time>, DriveError> {
        self.learn(driver, false, now);
        self.list_durable(driver, now)?;
        driver.recorder().recorder().tick(now).map_err(RecordError::new)?;
        self.sync_trace(driver)?;
        self.announce(now);
        Ok(Some(Time::from_unix(now.unix().saturating_add(1))))
    }

    fn clock_changed(&mut self, problem: Option<ClockProblem>) {
        match problem {
            Some(problem) => tracing::error!(%problem, "nothing is done until the clock is right"),
            None => tracing::info!("the clock is right again"),
        }
    }

    fn checkpoint(&mut self, driver: &mut Driving<'_>, now: Time) -> Result<(), RecordError> {
        driver.recorder().recorder().sync().map_err(RecordError::new)?;
        self.left_out.store().map_err(RecordError::new)?;
        // Nobody waits any more for the sync that may be under way: this one was for the same, and for what came after.
        let head = driver.recorder().recorder().head();
        let mut acknowledgements = self.syncing.take().map(|syncing| syncing.acknowledgements).unwrap_or_default();
        acknowledgements.append(&mut self.acknowledgements);
        self.syncing = Some(Syncing { revision: self.catalogue.head(), head, acknowledgements });
        self.synced(now);
        Ok(())
    }
}

impl Repository {
    /// Looks at the mesh file; new devices get numbers.
    fn learn(&mut self, driver: &mut Driving<'_>, at_once: bool, now: Time) {
        if self.membership.look(now, at_once) {
            self.membership.enrol(driver, &self.vocabulary);
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
