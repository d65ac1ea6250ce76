//! Everybody together: who does what when, and the air and the network between them.

use std::path::Path;

use fastrand::Rng;
use hashbrown::{HashMap, HashSet};
use pilot_core::evidence::envelope::MessageId;
use pilot_core::evidence::trace::action::Connection;
use pilot_core::graph::{self, Action, Message, MessageKind};
use pilot_core::semantics::{Contacts, Policies, PolicyId};
use pilot_core::subsumption::Judge;
use pilot_core::value::Time;
use pilot_core::vocabulary::{DeviceId, Id as _};

use super::actor::{Actor, Envelope, Setting};
use super::agenda::{Agenda, Letter, Task, later};
use super::cast::{Cast, derive};
use super::controller::Controller;
use super::offers::Wishes;
use super::repository::Repository;
use super::subject::Subject;
use super::writer::{Limits, Writer};
use super::{Figures, START, Settings, SimulateError};
use crate::keys::Keys;
use crate::scenario::Role;

/// The most bytes of all traces together that are in memory and not in files yet.
const BUFFERED_BYTES: usize = 256 << 20;
/// The most and the fewest of one trace.
const BUFFER_BYTES: (usize, usize) = (4 << 10, 16 << 10);
/// How many policies there are at least before those that nobody has any more are looked for.
const SPARE_POLICIES: usize = 256;
/// Everybody begins within this many seconds.
const BEGIN_SECONDS: u64 = 4;

/// What a device thinks of besides its graph's variables.
pub(super) enum Mind {
    Subject(Subject),
    Controller(Controller),
    Repository(Repository),
}

/// How often things happen, in seconds; larger meshes take more time.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    /// Between two downloads of a subject.
    pub(super) refresh: u64,
    /// Between two versions of a controller's policy.
    pub(super) version: u64,
    /// How many requests for transfers a controller makes in a thousand seconds.
    pub(super) asks: u64,
}

impl Pace {
    fn new(settings: &Settings) -> Self {
        let (subjects, controllers) = (u64::from(settings.subjects), u64::from(settings.controllers));
        // A version goes into every subject's trace, and a download names them all.
        Self {
            refresh: (controllers / 2).max(8),
            version: (2 * controllers).max(20),
            asks: (80 * subjects / controllers).max(20),
        }
    }
}

/// Everybody.
pub(super) struct World<'c> {
    pub(super) setting: Setting<'c>,
    pub(super) actors: Vec<Actor<'c>>,
    pub(super) minds: Vec<Mind>,
    pub(super) agenda: Agenda,
    pub(super) rng: Rng,
    pub(super) wishes: Wishes,
    pub(super) pace: Pace,
    pub(super) repository: DeviceId,
    pub(super) controllers: Vec<DeviceId>,
    /// How many seconds the clock of each device is ahead.
    clocks: Vec<u64>,
    seed: u64,
    steps: u64,
    connections: u64,
    /// How many policies there may be before those that nobody has any more are looked for.
    enough_policies: usize,
}

impl<'c> World<'c> {
    pub(super) fn new(settings: &Settings, cast: &'c Cast, out: &Path) -> Result<Self, SimulateError> {
        let (least, most) = BUFFER_BYTES;
        let buffer_bytes = (BUFFERED_BYTES / cast.devices.len().max(1)).clamp(least, most);
        let limits = Limits { buffer_bytes, file_bytes: settings.file_bytes };
        let mut policies = Policies::default();
        let wishes = Wishes::new(settings.controllers, &mut policies, &cast.vocabulary)?;
        let (mut actors, mut minds) = (Vec::new(), Vec::new());
        for member in &cast.devices {
            let directory = out.join("traces").join(member.name.as_str());
            let writer = |graph| Writer::new(directory, member.name.clone(), graph, member.keys.clone(), limits);
            actors.push(Actor::new(member, writer)?);
            minds.push(match member.role {
                Role::Subject => Mind::Subject(Subject::new(member.items.len())),
                Role::Controller => Mind::Controller(Controller::default()),
                Role::Repository => Mind::Repository(Repository::default()),
            });
        }
        let repository = DeviceId::from_index(0);
        let contacts = Contacts { repository: Some(repository), sources: Vec::new() };
        let judge = Judge::new(&cast.vocabulary);
        // Drawn apart, so that everything else is as it is without.
        let mut rng = Rng::with_seed(settings.seed);
        let clocks = cast.devices.iter().map(|_| rng.u64(..=settings.clock_skew)).collect();
        Ok(Self {
            setting: Setting { cast, judge, policies, contacts, statements: HashMap::new() },
            actors,
            minds,
            agenda: Agenda::default(),
            rng: Rng::with_seed(settings.seed),
            wishes,
            pace: Pace::new(settings),
            repository,
            controllers: cast.controllers().collect(),
            clocks,
            seed: settings.seed,
            steps: 0,
            connections: 0,
            enough_policies: SPARE_POLICIES,
        })
    }

    pub(super) const fn steps(&self) -> u64 {
        self.steps
    }

    /// What a device's clock shows.
    pub(super) fn clock(&self, device: DeviceId, now: Time) -> Time {
        later(now, self.clocks.get(device.index()).copied().unwrap_or_default())
    }

    /// Everybody's first run.
    pub(super) fn begin(&mut self, now: Time) -> Result<(), SimulateError> {
        self.perform(Task::Start(self.repository), now)?;
        self.agenda.ahead = 0;
        for member in self.setting.cast.devices.iter().skip(1) {
            self.agenda.after(self.rng.u64(..=BEGIN_SECONDS), now, Task::Start(member.id));
        }
        Ok(())
    }

    pub(super) fn perform(&mut self, task: Task, now: Time) -> Result<(), SimulateError> {
        let local = self.clock(task.device(), now);
        self.agenda.ahead = local.unix().saturating_sub(now.unix());
        let now = local;
        match task {
            Task::Wake(subject) => self.wake(subject, now),
            Task::Publish(controller) => self.publish(controller, now),
            Task::Retire(controller, policy) => self.retire(controller, policy, now),
            Task::Sweep(controller) => self.sweep(controller, now),
            Task::Ask(controller) => self.ask(controller, now),
            Task::Forget(device, item) => self.act(device, 0, &Action::Forget { item }, now).map(drop),
            Task::Deliver(letter) => self.deliver(*letter, now),
            Task::Start(device) => self.start(device, now),
        }
    }

    /// Everybody stops.
    pub(super) fn end(mut self, now: Time) -> Result<Figures, SimulateError> {
        let seconds = now.unix().saturating_sub(START.unix());
        let mut figures = Figures { steps: self.steps, seconds, ..Figures::default() };
        for (actor, ahead) in self.actors.iter_mut().zip(&self.clocks) {
            let now = later(now, *ahead);
            if !actor.is_up && !actor.is_closed {
                actor.begin(&self.setting, now)?;
            }
            if actor.is_up {
                actor.trace.close(false, now)?;
            }
            actor.trace.flush()?;
            let (records, bytes) = actor.trace.size();
            (figures.records, figures.bytes) = (figures.records + records, figures.bytes + bytes);
        }
        Ok(figures)
    }

    pub(super) fn actor(&self, device: DeviceId) -> Option<&Actor<'c>> {
        self.actors.get(device.index())
    }

    pub(super) fn is_up(&self, device: DeviceId) -> bool {
        self.actor(device).is_some_and(|actor| actor.is_up)
    }

    /// One chance in so many.
    pub(super) fn one_in(&mut self, many: u32) -> bool {
        self.rng.u32(..many) == 0
    }

    pub(super) fn new_id(&mut self) -> MessageId {
        MessageId(self.rng.u128(..).to_be_bytes())
    }

    /// A new connection of a subject: a key that she has never used.
    pub(super) fn new_connection(&mut self) -> Connection {
        self.connections += 1;
        let secret = derive(self.seed, "connection", &self.connections.to_string());
        Connection::of(&Keys::new(&secret, secret).verifying_key())
    }

    /// An action without a message, or one that arrived with nothing around it.
    pub(super) fn act(
        &mut self,
        device: DeviceId,
        at: usize,
        action: &Action,
        now: Time,
    ) -> Result<Option<graph::Step>, SimulateError> {
        self.act_with(device, at, action, Envelope::default(), now)
    }

    pub(super) fn act_with(
        &mut self,
        device: DeviceId,
        at: usize,
        action: &Action,
        envelope: Envelope,
        now: Time,
    ) -> Result<Option<graph::Step>, SimulateError> {
        let Some(actor) = self.actors.get_mut(device.index()).filter(|actor| actor.is_up) else { return Ok(None) };
        let step = actor.act(at, action, envelope, &self.setting, now)?;
        self.steps += u64::from(step.is_some());
        Ok(step)
    }

    /// a↑ in an envelope: the message as it leaves, for whoever it is for.
    pub(super) fn send(
        &mut self,
        at: usize,
        message: Message,
        envelope: Envelope,
        now: Time,
    ) -> Result<Option<Letter>, SimulateError> {
        let (from, to) = (message.sender, message.receiver);
        let is_broadcast = message.kind() == MessageKind::Broadcast;
        let id = if is_broadcast { None } else { Some(self.new_id()) };
        let envelope = Envelope { id, ..envelope };
        let step = self.act_with(from, at, &Action::Send(message), envelope, now)?;
        let head = self.actor(from).map(|actor| actor.trace.head()).filter(|_| !is_broadcast);
        let Envelope { connection, handle, .. } = envelope;
        let letter = |message| Letter { to, message, id, head, connection, handle, instance: at };
        Ok(step.and_then(|step| step.message).map(letter))
    }

    pub(super) fn post(&mut self, letter: Letter, seconds: u64, now: Time) {
        self.agenda.after(seconds, now, Task::Deliver(Box::new(letter)));
    }

    fn deliver(&mut self, letter: Letter, now: Time) -> Result<(), SimulateError> {
        match self.minds.get(letter.to.index()) {
            Some(Mind::Subject(_)) => self.hear_policies(letter, now),
            Some(Mind::Controller(_)) => self.hear(letter, now),
            Some(Mind::Repository(_)) => self.answer(letter, now),
            None => Ok(()),
        }
    }

    /// A policy that is in use from now on. Those that nobody has any more make room.
    pub(super) fn intern(&mut self, policy: pilot_core::policy::Policy) -> PolicyId {
        if self.setting.policies.count() > self.enough_policies {
            self.forget_policies();
            self.enough_policies = 2 * self.setting.policies.count() + SPARE_POLICIES;
        }
        self.setting.policies.intern(policy, &self.setting.cast.vocabulary)
    }

    fn forget_policies(&mut self) {
        let mut used: HashSet<PolicyId> = self.wishes.policies().chain(self.agenda.policies()).collect();
        for (actor, mind) in self.actors.iter().zip(&self.minds) {
            used.extend(actor.device.policies_mentioned());
            match mind {
                Mind::Subject(subject) => used.extend(subject.policies()),
                Mind::Controller(controller) => used.extend(controller.policies()),
                Mind::Repository(repository) => used.extend(repository.policies()),
            }
        }
        let unused: Vec<PolicyId> =
            self.setting.policies.iter().map(|(id, _)| id).filter(|id| !used.contains(id)).collect();
        for policy in unused {
            self.setting.policies.remove(policy);
        }
        self.setting.statements.retain(|(_, policy), _| used.contains(policy));
        for actor in &mut self.actors {
            actor.trace.forget(&self.setting.policies);
        }
    }
}
