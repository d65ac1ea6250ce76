//! What a subject does: she downloads policies, broadcasts for those she accepts, and changes her mind.

use pilot_core::evidence::trace::action::Connection;
use pilot_core::graph::message::{Release, Withdrawal};
use pilot_core::graph::{Action, Body, Label, Location, Message, MessageKind, offers_of};
use pilot_core::semantics::{Epoch, PolicyId};
use pilot_core::value::Time;
use pilot_core::vocabulary::{DeviceId, Id as _, ItemId};

use super::SimulateError;
use super::actor::Envelope;
use super::agenda::{Letter, Task, later};
use super::world::{Mind, World};

/// How many seconds there are between two looks around.
const WAKE_SECONDS: std::ops::RangeInclusive<u64> = 1..=3;
/// How long she waits for an answer.
const ANSWER_SECONDS: u64 = 4;

/// What she thinks of besides her graph's variables.
pub(super) struct Subject {
    /// What she wants.
    pub(super) own: Vec<PolicyId>,
    /// What she has written down of others' policies, while her device is off.
    pub(super) stored: Option<Vec<(DeviceId, PolicyId)>>,
    pub(super) connection: Option<Connection>,
    /// One for each of her items.
    pub(super) phases: Vec<Phase>,
}

/// Where an instance stands.
#[derive(Clone, Default)]
pub(super) struct Phase {
    /// Since when it is where it is.
    pub(super) since: Time,
    /// For whom it broadcasts, under which policy.
    pub(super) choices: Vec<(DeviceId, PolicyId)>,
    /// When that was decided; `None` if it must be decided again.
    pub(super) decided: Option<Epoch>,
}

impl Subject {
    pub(super) fn new(items: usize) -> Self {
        Self { own: Vec::new(), stored: None, connection: None, phases: vec![Phase::default(); items] }
    }

    /// Every policy that she thinks of.
    pub(super) fn policies(&self) -> impl Iterator<Item = PolicyId> {
        let choices = self.phases.iter().flat_map(|phase| &phase.choices);
        let of_others = choices.chain(self.stored.iter().flatten()).map(|(_, policy)| *policy);
        self.own.iter().copied().chain(of_others)
    }
}

impl World<'_> {
    pub(super) fn subject(&mut self, device: DeviceId) -> Option<&mut Subject> {
        match self.minds.get_mut(device.index()) {
            Some(Mind::Subject(subject)) => Some(subject),
            _ => None,
        }
    }

    fn phase(&mut self, device: DeviceId, at: usize) -> Option<&mut Phase> {
        self.subject(device)?.phases.get_mut(at)
    }

    fn location(&self, device: DeviceId, at: usize) -> Option<Location> {
        Some(self.actor(device)?.instances.get(at)?.location)
    }

    /// Whatever she decided must be decided again.
    pub(super) fn reconsider(&mut self, device: DeviceId) {
        if let Some(subject) = self.subject(device) {
            subject.phases.iter_mut().for_each(|phase| phase.decided = None);
        }
    }

    /// She looks around.
    pub(super) fn wake(&mut self, device: DeviceId, now: Time) -> Result<(), SimulateError> {
        if !self.is_up(device) {
            return Ok(());
        }
        let next = self.rng.u64(WAKE_SECONDS);
        self.agenda.after(next, now, Task::Wake(device));
        self.decide(device, now)?;
        for at in 0..self.actor(device).map_or(0, |actor| actor.instances.len()) {
            let since = self.phase(device, at).map_or(now, |phase| phase.since);
            let waited = now.unix().saturating_sub(since.unix());
            match self.location(device, at) {
                Some(Location::S1) => self.request_policies(device, at, now)?,
                Some(Location::S2) if waited >= ANSWER_SECONDS => self.go_on(device, at, now)?,
                Some(Location::S3) if waited >= self.pace.refresh => {
                    self.go_on(device, at, now)?;
                    self.request_policies(device, at, now)?;
                }
                Some(Location::S3) => self.broadcast(device, at, now)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// τ: no answer came, or it is time to ask again.
    fn go_on(&mut self, device: DeviceId, at: usize, now: Time) -> Result<(), SimulateError> {
        self.act(device, at, &Action::Tau, now)?;
        if let Some(phase) = self.phase(device, at) {
            phase.since = now;
        }
        Ok(())
    }

    fn request_policies(&mut self, device: DeviceId, at: usize, now: Time) -> Result<(), SimulateError> {
        let connection = self.subject(device).and_then(|subject| subject.connection);
        let message = Message { sender: device, receiver: self.repository, body: Body::RequestPolicies };
        let letter = self.send(at, message, Envelope { connection, ..Envelope::default() }, now)?;
        if let Some(phase) = self.phase(device, at) {
            phase.since = now;
        }
        match letter {
            Some(letter) if !self.one_in(24) => self.post(letter, 0, now),
            _ => {}
        }
        Ok(())
    }

    /// The repository's answer. One that comes too late finds no edge.
    pub(super) fn hear_policies(&mut self, letter: Letter, now: Time) -> Result<(), SimulateError> {
        let (device, at, envelope) = (letter.to, letter.instance, Envelope::of(&letter));
        let taken = self.act_with(device, at, &Action::Receive(letter.message), envelope, now)?;
        if taken.is_some() {
            self.reconsider(device);
            if let Some(phase) = self.phase(device, at) {
                phase.since = now;
            }
        }
        Ok(())
    }

    /// She says again for some of those she accepts that they may have the item.
    fn broadcast(&mut self, device: DeviceId, at: usize, now: Time) -> Result<(), SimulateError> {
        let Some(item) = self.actor(device).and_then(|actor| actor.instances.get(at)?.item) else { return Ok(()) };
        let choices = self.choices(device, at, now);
        for (controller, policy) in &choices {
            if self.one_in(3) {
                continue;
            }
            let body = Body::Broadcast(Release::new(item, *policy));
            let message = Message { sender: device, receiver: *controller, body };
            if let Some(letter) = self.send(at, message, Envelope::default(), now)? {
                self.on_air(letter, now);
            }
        }
        if let Some(phase) = self.phase(device, at) {
            phase.choices = choices;
        }
        Ok(())
    }

    /// For whom she broadcasts: what the graph offers, asked again in each epoch and when anything changed.
    fn choices(&mut self, device: DeviceId, at: usize, now: Time) -> Vec<(DeviceId, PolicyId)> {
        let epoch = Some(Epoch::of(now));
        match self.phase(device, at) {
            Some(phase) if phase.decided == epoch => return std::mem::take(&mut phase.choices),
            Some(phase) => phase.decided = epoch,
            None => return Vec::new(),
        }
        let Some(actor) = self.actor(device) else { return Vec::new() };
        let Some(instance) = actor.instances.get(at) else { return Vec::new() };
        let (label, cx) = (Label::Send(MessageKind::Broadcast), self.setting.context(now));
        let offered = offers_of(label, actor.graph, instance, &actor.device, &cx).into_iter();
        offered.filter_map(|action| action.message().and_then(|m| Some((m.receiver, m.policy()?)))).collect()
    }

    /// A frame may be lost, come twice, come late, and be heard by others.
    fn on_air(&mut self, letter: Letter, now: Time) {
        let copy = |letter: &Letter, to| Letter {
            to,
            message: letter.message.clone(),
            id: None,
            head: None,
            connection: None,
            handle: None,
            instance: 0,
        };
        let to = letter.to;
        if self.one_in(20) {
            let seconds = self.rng.u64(1..8);
            self.post(copy(&letter, to), seconds, now);
        }
        if self.one_in(500) {
            // Somebody plays it back later.
            let seconds = self.rng.u64(100..400);
            self.post(copy(&letter, to), seconds, now);
        }
        if self.one_in(40) {
            let other = self.rng.choice(&self.controllers).copied();
            if let Some(other) = other {
                self.post(copy(&letter, other), 0, now);
            }
        }
        if !self.one_in(10) {
            let seconds = self.rng.u64(..3);
            self.post(letter, seconds, now);
        }
    }

    /// What she does seldom.
    fn decide(&mut self, device: DeviceId, now: Time) -> Result<(), SimulateError> {
        match self.rng.u32(..3_000) {
            0..=19 => self.change_mind(device, now),
            20..=39 => self.withdraw(device, now),
            40..=99 => {
                let items = self.actor(device).map_or(Vec::new(), |actor| actor.member.items.clone());
                items
                    .iter()
                    .try_for_each(|(item, _)| self.act(device, 0, &Action::Forget { item: *item }, now).map(drop))
            }
            100..=299 => self.admit(device, now),
            300..=309 => {
                let connection = self.new_connection();
                if let Some(subject) = self.subject(device) {
                    subject.connection = Some(connection);
                }
                Ok(())
            }
            310..=315 => self.stop(device, now),
            _ => Ok(()),
        }
    }

    fn change_mind(&mut self, device: DeviceId, now: Time) -> Result<(), SimulateError> {
        let own = self.wishes.choose(&mut self.rng);
        if self.act(device, 0, &Action::ChangeOwn { own: own.clone() }, now)?.is_some() {
            self.reconsider(device);
            if let Some(subject) = self.subject(device) {
                subject.own = own;
            }
        }
        Ok(())
    }

    /// She lets a controller have data again that she had withdrawn.
    fn admit(&mut self, device: DeviceId, now: Time) -> Result<(), SimulateError> {
        let refused: Vec<_> =
            self.actor(device).map_or(Vec::new(), |actor| actor.device.memory.refused.iter().copied().collect());
        if let Some(entity) = self.rng.choice(refused) {
            self.act(device, 0, &Action::Admit { entity }, now)?;
            self.reconsider(device);
        }
        Ok(())
    }

    /// She takes an item back, from one of those who may have it or from all.
    fn withdraw(&mut self, device: DeviceId, now: Time) -> Result<(), SimulateError> {
        let Some(actor) = self.actor(device) else { return Ok(()) };
        let at = self.rng.usize(..actor.instances.len().max(1));
        let Some(item) = self.actor(device).and_then(|actor| actor.instances.get(at)?.item) else { return Ok(()) };
        let mut recipients: Vec<DeviceId> = self
            .actor(device)
            .map_or(Vec::new(), |actor| actor.device.memory.recipients_of(item).map(|(of, _)| of).collect());
        if self.rng.bool() {
            self.rng.shuffle(&mut recipients);
            recipients.truncate(1);
        }
        for receiver in recipients {
            self.withdraw_from(receiver, (device, at, item), now)?;
        }
        self.reconsider(device);
        Ok(())
    }

    fn withdraw_from(
        &mut self,
        receiver: DeviceId,
        (sender, at, item): (DeviceId, usize, ItemId),
        now: Time,
    ) -> Result<(), SimulateError> {
        let body = Body::Withdraw { item, withdrawal: Withdrawal::default() };
        let letter = self.send(at, Message { sender, receiver, body }, Envelope::default(), now)?;
        let Some(letter) = letter else { return Ok(()) };
        if let Body::Withdraw { withdrawal, .. } = letter.message.body {
            self.agenda.at(over(withdrawal), Task::Forget(sender, item));
        }
        let seconds = self.rng.u64(..15);
        self.post(letter, seconds, now);
        Ok(())
    }
}

/// When a withdrawal is over.
pub(super) fn over(withdrawal: Withdrawal) -> Time {
    let epoch = withdrawal.epoch.0.saturating_add(Epoch::WINDOW + 1);
    later(withdrawal.until.max(Time::from_unix(epoch.saturating_mul(Epoch::SECONDS))), 0)
}
