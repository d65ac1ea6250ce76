//! What a controller does: it publishes policies, keeps what it is given, erases what is due or taken back, and passes
//! data on where it may.

use std::collections::{BTreeMap, VecDeque};

use pilot_core::evidence::statement::Content;
use pilot_core::evidence::trace::action::Handle;
use pilot_core::evidence::{PolicyStatement, StatementId};
use pilot_core::graph::message::{Release, Withdrawal};
use pilot_core::graph::{Action, Body, Label, Location, Message, MessageKind, offers_of};
use pilot_core::semantics::{Epoch, PolicyId, Receipt};
use pilot_core::value::Time;
use pilot_core::vocabulary::{DeviceId, Id as _, ItemId};

use super::actor::Envelope;
use super::agenda::{Letter, Task, later};
use super::cast::GROUP;
use super::subject::over;
use super::world::{Mind, World};
use super::{SimulateError, offers};

/// How many requests of others wait until there is something to hand on; full: the oldest is forgotten.
const MAX_PENDING: usize = 16;
/// How many receipts are looked at for one that may be handed on, before all are.
const TRIES: usize = 8;
/// How many times as long as others somebody works under one version who does not share what it collects.
const SLOWNESS: u64 = 6;
/// How long a statement is valid, in seconds.
const STATEMENT_SECONDS: u64 = 30 * 24 * 3_600;

/// What it thinks of besides its graph's variables.
#[derive(Default)]
pub(super) struct Controller {
    versions: u64,
    deadline: Time,
    /// The policy that it works under.
    current: Option<PolicyId>,
    /// When it must erase what.
    deadlines: BTreeMap<Time, Vec<ItemId>>,
    /// Requests that wait until it holds something.
    pub(super) pending: VecDeque<Letter>,
    /// Notices that came while it was off; they are repeated until they are acknowledged.
    waiting: Vec<Letter>,
}

impl Controller {
    /// Every policy that it thinks of.
    pub(super) fn policies(&self) -> impl Iterator<Item = PolicyId> {
        let letters = self.pending.iter().chain(&self.waiting);
        self.current.into_iter().chain(letters.flat_map(Letter::policies))
    }
}

impl World<'_> {
    fn controller(&mut self, device: DeviceId) -> Option<&mut Controller> {
        match self.minds.get_mut(device.index()) {
            Some(Mind::Controller(controller)) => Some(controller),
            _ => None,
        }
    }

    fn stands_at(&self, device: DeviceId, location: Location) -> bool {
        let first = self.actor(device).and_then(|actor| actor.instances.first());
        first.is_some_and(|instance| instance.location == location)
    }

    /// Back to s₂, if it is at s₃.
    fn listen(&mut self, device: DeviceId, now: Time) -> Result<(), SimulateError> {
        if self.stands_at(device, Location::S3) {
            self.act(device, 0, &Action::Tau, now)?;
        }
        Ok(())
    }

    pub(super) fn start_controller(&mut self, device: DeviceId, now: Time) -> Result<(), SimulateError> {
        let is_new = self.controller(device).is_some_and(|controller| controller.versions == 0);
        if is_new {
            self.next_version(device, now)?;
            let seconds = self.rng.u64(1..self.period(device));
            self.agenda.after(seconds, now, Task::Publish(device));
            let seconds = self.rng.u64(10..20);
            self.agenda.after(seconds, now, Task::Ask(device));
        }
        let Some(controller) = self.controller(device) else { return Ok(()) };
        let (current, waiting) = (controller.current, std::mem::take(&mut controller.waiting));
        self.act(device, 0, &Action::Init { own: current.into_iter().collect(), item: None }, now)?;
        self.sweep(device, now)?;
        self.upload(device, now)?;
        waiting.into_iter().try_for_each(|letter| self.hear(letter, now))
    }

    /// How long it works under one version, in seconds. Those who get data from others keep it longer.
    fn period(&self, device: DeviceId) -> u64 {
        if self.shares(device) { self.pace.version } else { SLOWNESS * self.pace.version }
    }

    /// Makes the next version of its policy, states it, and plans its end.
    fn next_version(&mut self, device: DeviceId, now: Time) -> Result<(), SimulateError> {
        let period = self.period(device);
        let life = 2 * period + self.rng.u64(..period);
        let count = u32::try_from(self.controllers.len()).unwrap_or(u32::MAX);
        let number = u32::try_from(device.index()).unwrap_or(u32::MAX).saturating_sub(1);
        let Some(controller) = self.controller(device) else { return Ok(()) };
        // Later than the last one, or versions could not replace each other.
        controller.deadline = later(now, life).max(later(controller.deadline, 1));
        let (version, deadline) = (controller.versions, controller.deadline);
        controller.versions += 1;
        let policy = offers::version((number, count), version, deadline, &self.setting.cast.vocabulary)?;
        let id = self.intern(policy.clone());
        if let Some(controller) = self.controller(device) {
            controller.current = Some(id);
        }
        let cast = self.setting.cast;
        if let (Some(member), Some(entity)) = (cast.member(device), cast.directory.entity(device)) {
            let (content, expires) = (Content::Policy(policy), later(now, STATEMENT_SECONDS));
            let (device, version) = (member.name.clone(), version + 1);
            let statement = PolicyStatement { device, entity, version, content, issued: now, expires };
            let bytes = statement.sign(&cast.vocabulary, &member.keys.signing);
            self.setting.statements.insert((member.id, id), StatementId::of(&bytes));
        }
        let is_early = self.one_in(8);
        let end = if is_early { later(now, period / 2) } else { later(deadline, 1) };
        self.agenda.at(end, Task::Retire(device, id));
        Ok(())
    }

    /// A new version, from now on. Sometimes its process ends first.
    pub(super) fn publish(&mut self, device: DeviceId, now: Time) -> Result<(), SimulateError> {
        if self.is_up(device) && self.one_in(12) {
            let who = if self.one_in(4) { self.repository } else { device };
            self.stop(who, now)?;
        }
        if !self.is_up(device) {
            self.agenda.after(2, now, Task::Publish(device));
            return Ok(());
        }
        let period = self.period(device);
        let seconds = self.rng.u64(period / 2..period + period / 2);
        self.agenda.after(seconds, now, Task::Publish(device));
        self.sweep(device, now)?;
        self.next_version(device, now)?;
        let own = self.controller(device).and_then(|controller| controller.current).into_iter().collect();
        self.act(device, 0, &Action::ChangeOwn { own }, now)?;
        self.upload(device, now)?;
        // It cannot know that the first one arrived.
        if self.one_in(4) { self.upload(device, now) } else { Ok(()) }
    }

    fn upload(&mut self, device: DeviceId, now: Time) -> Result<(), SimulateError> {
        let Some(policy) = self.controller(device).and_then(|controller| controller.current) else { return Ok(()) };
        self.listen(device, now)?;
        let message = Message { sender: device, receiver: self.repository, body: Body::UploadPolicy { policy } };
        if let Some(letter) = self.send(0, message, Envelope::default(), now)? {
            self.post(letter, 1, now);
        }
        Ok(())
    }

    /// withdrawPolicy: a version whose time is over, or that it does not stand by any more.
    pub(super) fn retire(&mut self, device: DeviceId, policy: PolicyId, now: Time) -> Result<(), SimulateError> {
        if !self.is_up(device) {
            self.agenda.after(2, now, Task::Retire(device, policy));
            return Ok(());
        }
        self.sweep(device, now)?;
        let message = Message { sender: device, receiver: self.repository, body: Body::WithdrawPolicy { policy } };
        if let Some(letter) = self.send(0, message, Envelope::default(), now)? {
            self.post(letter, 1, now);
        }
        match self.controller(device) {
            Some(controller) if controller.current == Some(policy) => controller.current = None,
            _ => {}
        }
        Ok(())
    }

    /// Erases what is due, before anything else.
    pub(super) fn sweep(&mut self, device: DeviceId, now: Time) -> Result<(), SimulateError> {
        while self.is_up(device) {
            let Some(controller) = self.controller(device) else { break };
            let Some(entry) = controller.deadlines.first_entry().filter(|entry| *entry.key() <= now) else { break };
            for item in entry.remove() {
                self.act(device, 0, &Action::Expire { item }, now)?;
            }
        }
        Ok(())
    }

    /// Something is held from now on.
    fn keep(&mut self, device: DeviceId, item: ItemId, policy: PolicyId, now: Time) {
        let Some(deadline) = self.setting.context(now).retention(policy) else { return };
        let Some(controller) = self.controller(device) else { return };
        let due = controller.deadlines.entry(deadline).or_default();
        due.push(item);
        if due.len() == 1 {
            self.agenda.at(deadline, Task::Sweep(device));
        }
    }

    /// Something arrives.
    pub(super) fn hear(&mut self, letter: Letter, now: Time) -> Result<(), SimulateError> {
        let device = letter.to;
        self.sweep(device, now)?;
        match &letter.message.body {
            Body::Withdraw { item, withdrawal } => {
                let (item, withdrawal) = (*item, *withdrawal);
                self.take_back(letter, item, withdrawal, now)
            }
            _ if !self.is_up(device) => Ok(()),
            Body::Request { .. } => {
                let Some(controller) = self.controller(device) else { return Ok(()) };
                if controller.pending.len() >= MAX_PENDING {
                    controller.pending.pop_front();
                }
                controller.pending.push_back(letter);
                self.hand_on(device, now)
            }
            Body::Broadcast(release) | Body::Send(release) => {
                let (item, policy, envelope) = (release.item, release.policy, Envelope::of(&letter));
                self.listen(device, now)?;
                let taken = self.act_with(device, 0, &Action::Receive(letter.message), envelope, now)?;
                if taken.is_some() {
                    self.keep(device, item, policy, now);
                    self.hand_on(device, now)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// withdraw↓, and the notices that it owes because of that. One that takes back nothing more is no step.
    fn take_back(
        &mut self,
        letter: Letter,
        item: ItemId,
        withdrawal: Withdrawal,
        now: Time,
    ) -> Result<(), SimulateError> {
        let (device, envelope) = (letter.to, Envelope::of(&letter));
        if !self.is_up(device) {
            if let Some(controller) = self.controller(device) {
                controller.waiting.push(letter);
            }
            return Ok(());
        }
        let Some(actor) = self.actor(device) else { return Ok(()) };
        let known = actor.device.memory.tombstones.get(&item).copied();
        if known.is_some_and(|known| known == known.and(withdrawal)) {
            return Ok(());
        }
        self.act_with(device, 0, &Action::Receive(letter.message), envelope, now)?;
        self.agenda.at(over(withdrawal).max(now), Task::Forget(device, item));
        let owed: Vec<(DeviceId, Withdrawal)> =
            self.actor(device).map_or(Vec::new(), |actor| actor.device.memory.notices_of(item).collect());
        for (receiver, withdrawal) in owed {
            let message = Message { sender: device, receiver, body: Body::Withdraw { item, withdrawal } };
            if let Some(letter) = self.send(0, message, Envelope::default(), now)? {
                let seconds = self.rng.u64(..10);
                self.post(letter, seconds, now);
            }
        }
        Ok(())
    }

    /// Asks others of its group for data, as often as it may; seldom somebody who will decline.
    pub(super) fn ask(&mut self, device: DeviceId, now: Time) -> Result<(), SimulateError> {
        let (asks, seconds) = (self.pace.asks, 1_000);
        self.agenda.after((seconds / asks).max(1), now, Task::Ask(device));
        for _ in 0..(asks / seconds).max(1) {
            self.ask_once(device, now)?;
        }
        Ok(())
    }

    fn ask_once(&mut self, device: DeviceId, now: Time) -> Result<(), SimulateError> {
        let current = self.controller(device).and_then(|controller| controller.current);
        let (Some(policy), Some(from)) = (current, self.rng.choice(&self.controllers).copied()) else { return Ok(()) };
        let is_curious = self.one_in(128);
        let from = if is_curious { from } else { self.source_of(device) };
        if from == device || !(is_curious || self.may_hand_on(from, policy, now)) {
            return Ok(());
        }
        self.sweep(device, now)?;
        self.listen(device, now)?;
        let message = Message { sender: device, receiver: from, body: Body::Request { policy } };
        if let Some(letter) = self.send(0, message, Envelope::default(), now)? {
            let seconds = self.rng.u64(..2);
            self.post(letter, seconds, now);
        }
        Ok(())
    }

    /// Whether it shares what it collects: each second of a group does, with its neighbour.
    fn shares(&self, device: DeviceId) -> bool {
        (device.index().saturating_sub(1) % GROUP as usize).is_multiple_of(2)
    }

    /// Who shares what it collects with this one.
    fn source_of(&self, device: DeviceId) -> DeviceId {
        DeviceId::from_index(device.index().saturating_sub(usize::from(!self.shares(device))))
    }

    /// Whether some of what it holds looks as if it could be handed on under a policy.
    fn may_hand_on(&mut self, device: DeviceId, policy: PolicyId, now: Time) -> bool {
        let sample = self.sample(device);
        let cx = self.setting.context(now);
        sample.iter().any(|receipt| {
            let held = cx.policy(receipt.policy);
            held.is_some_and(|held| {
                held.transfers().iter().any(|rule| cx.subsumes_parts(policy, held.with_collection(rule)))
            })
        })
    }

    /// Some of what it holds.
    fn sample(&mut self, device: DeviceId) -> Vec<Receipt> {
        let any = ItemId::from_index(self.rng.usize(..self.setting.cast.items.len().max(1)));
        let Some(actor) = self.actor(device) else { return Vec::new() };
        let received = &actor.device.state.received;
        received.range(Receipt::first_of(any)..).chain(received.iter()).take(TRIES).copied().collect()
    }

    /// Answers the requests that wait, one by one, while it holds something.
    fn hand_on(&mut self, device: DeviceId, now: Time) -> Result<(), SimulateError> {
        while self.stands_at(device, Location::S3) {
            let Some(letter) = self.controller(device).and_then(|controller| controller.pending.pop_front()) else {
                break;
            };
            let (peer, envelope) = (letter.message.sender, Envelope::of(&letter));
            let Some(policy) = letter.message.policy() else { continue };
            self.act_with(device, 0, &Action::Receive(letter.message), envelope, now)?;
            self.decide_transfer(device, peer, policy, now)?;
        }
        Ok(())
    }

    /// send↑ of something that may be handed on; τ if there is nothing.
    fn decide_transfer(
        &mut self,
        device: DeviceId,
        peer: DeviceId,
        policy: PolicyId,
        now: Time,
    ) -> Result<(), SimulateError> {
        for receipt in self.sample(device) {
            if self.transfer(device, peer, (receipt.item, policy), now)? {
                return Ok(());
            }
        }
        let first = self.actor(device).and_then(|actor| {
            let (label, cx) = (Label::Send(MessageKind::Send), self.setting.context(now));
            offers_of(label, actor.graph, actor.instances.first()?, &actor.device, &cx).into_iter().next()
        });
        match first.and_then(|action| action.item()) {
            Some(item) => self.transfer(device, peer, (item, policy), now).map(drop),
            None => self.act(device, 0, &Action::Tau, now).map(drop),
        }
    }

    fn transfer(
        &mut self,
        sender: DeviceId,
        receiver: DeviceId,
        (item, policy): (ItemId, PolicyId),
        now: Time,
    ) -> Result<bool, SimulateError> {
        let message = Message { sender, receiver, body: Body::Send(Release::new(item, policy)) };
        let handle = Some(Handle(self.rng.u128(..).to_be_bytes()));
        let Some(letter) = self.send(0, message, Envelope { handle, ..Envelope::default() }, now)? else {
            return Ok(false);
        };
        let until = self.setting.context(now).policy(policy).map(pilot_core::policy::Policy::last_deadline);
        let end = over(Withdrawal { epoch: Epoch::of(now), until: until.unwrap_or_default() });
        self.agenda.at(end, Task::Forget(sender, item));
        let seconds = self.rng.u64(..2);
        self.post(letter, seconds, now);
        Ok(true)
    }
}
