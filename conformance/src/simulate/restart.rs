//! Runs that end, in order or not, and begin.

use pilot_core::graph::Action;
use pilot_core::semantics::PolicyId;
use pilot_core::value::Time;
use pilot_core::vocabulary::{DeviceId, Id as _};

use super::SimulateError;
use super::agenda::Task;
use super::subject::Phase;
use super::world::{Mind, World};

/// How long a device is off, in seconds: shorter than the time that erasing may take.
const OFF_SECONDS: std::ops::RangeInclusive<u64> = 2..=12;

impl World<'_> {
    /// A process ends, and leaves what its device writes down: everything but own policies, which the user says again, and a subject's
    /// offers, which she restores.
    pub(super) fn stop(&mut self, device: DeviceId, now: Time) -> Result<(), SimulateError> {
        let is_crash = self.one_in(3);
        let clock = self.clock(device, self.agenda.now());
        let Some(actor) = self.actors.get_mut(device.index()).filter(|actor| actor.is_up) else { return Ok(()) };
        if !is_crash {
            // Somebody else may have made it stop.
            actor.trace.close(false, clock)?;
        }
        (actor.is_up, actor.is_closed) = (false, !is_crash);
        let (state, memory) = (&mut actor.device.state, &mut actor.device.memory);
        memory.current.clear();
        match self.minds.get_mut(device.index()) {
            Some(Mind::Subject(subject)) => {
                subject.stored = Some(state.policies.iter().copied().filter(|(of, _)| *of != device).collect());
                state.policies.clear();
            }
            Some(Mind::Controller(controller)) => {
                state.policies.retain(|(of, policy)| *of != device || memory.published.contains(policy));
                controller.pending.clear();
            }
            Some(Mind::Repository(_)) | None => {}
        }
        let seconds = self.rng.u64(OFF_SECONDS);
        self.agenda.after(seconds, now, Task::Start(device));
        Ok(())
    }

    /// A process begins.
    pub(super) fn start(&mut self, device: DeviceId, now: Time) -> Result<(), SimulateError> {
        let Some(actor) = self.actors.get_mut(device.index()) else { return Ok(()) };
        actor.begin(&self.setting, now)?;
        match self.minds.get_mut(device.index()) {
            Some(Mind::Subject(_)) => self.start_subject(device, now),
            Some(Mind::Controller(_)) => self.start_controller(device, now),
            Some(Mind::Repository(repository)) => {
                let waiting = std::mem::take(&mut repository.waiting);
                waiting.into_iter().try_for_each(|letter| self.answer(letter, now))
            }
            None => Ok(()),
        }
    }

    fn start_subject(&mut self, device: DeviceId, now: Time) -> Result<(), SimulateError> {
        let connection = self.new_connection();
        let (is_new, has_lost) = (self.actor(device).is_some_and(|actor| actor.steps == 0), self.one_in(8));
        let chosen: Option<Vec<PolicyId>> = is_new.then(|| self.wishes.choose(&mut self.rng));
        let Some(subject) = self.subject(device) else { return Ok(()) };
        subject.connection = Some(connection);
        subject.phases.fill(Phase { since: now, ..Phase::default() });
        if let Some(own) = chosen {
            subject.own = own;
        }
        let (own, stored) = (subject.own.clone(), subject.stored.take().filter(|_| !has_lost));
        let items = self.actor(device).map_or(Vec::new(), |actor| actor.member.items.clone());
        for (at, (item, _)) in items.into_iter().enumerate() {
            let (own, item) = (own.clone(), Some(item));
            let action = match &stored {
                Some(offers) => Action::Restore { own, item, offers: offers.clone() },
                None => Action::Init { own, item },
            };
            self.act(device, at, &action, now)?;
        }
        self.agenda.after(1, now, Task::Wake(device));
        Ok(())
    }
}
