//! One step: chosen, taken, recorded, or else as if it had not been.

use pilot_core::graph::{Action, Edge, Guard, Label, Message, enabled, hindrance, take};
use pilot_core::value::Time;

use super::counts::add;
use super::limits::Limit;
use super::undo::Before;
use super::{Cause, DriveError, Driver, Entry, Fate, InstanceNumber, Outcome, Record, Taken};

/// What came of trying an action.
pub(super) enum Attempt {
    /// It was taken and recorded.
    Taken(Box<Taken>),
    /// It changed nothing.
    Elided(Option<Guard>),
    /// There was no room.
    Full(Limit),
    /// It cannot be taken here.
    NoEdge,
}

impl<R: Record> Driver<'_, R> {
    /// Tries an action. If the step cannot be recorded, nothing has changed but that the driver has stopped.
    pub(super) fn attempt(
        &mut self,
        by: InstanceNumber,
        action: &Action,
        cause: Cause,
        now: Time,
    ) -> Result<Attempt, DriveError> {
        let cx = self.world.context(now);
        let (graph, device) = (self.graph, &mut self.device);
        let Some(seat) = self.seats.get_mut(by.0) else { return Ok(Attempt::NoEdge) };
        let chosen = enabled(graph, &seat.instance, device, action, &cx).next();
        let Some((place, edge)) = chosen.and_then(|place| Some((place, graph.edges.get(place)?))) else {
            return Ok(Attempt::NoEdge);
        };
        let from = seat.instance.location;
        if does_nothing(edge, action) {
            let reason = hindrance(graph, &seat.instance, device, action, &cx);
            self.counts.elide(reason);
            return Ok(Attempt::Elided(reason));
        }
        if let Some(limit) = self.limits.lacking(edge.effects, action, device) {
            self.counts.lack(limit);
            return Ok(Attempt::Full(limit));
        }
        let before = Before::new(&seat.instance, device, action, edge.effects);
        let Some(step) = take(graph, place, &mut seat.instance, device, action, &cx) else {
            return Ok(Attempt::NoEdge);
        };
        let is_silent = step.message.is_none() && step.events.is_empty();
        if is_silent && before.is_still(&seat.instance, device, action, edge.effects) {
            self.counts.elide(None);
            return Ok(Attempt::Elided(None));
        }
        let to = seat.instance.location;
        let (graph, device_now, context) = (graph.name, &*device, &cx);
        let entry =
            Entry { graph, instance: by, from, to, action, step: &step, time: now, cause, device: device_now, context };
        if let Err(error) = self.recorder.record(&entry) {
            before.restore(&mut seat.instance, device);
            self.is_stopped = true;
            return Err(error.into());
        }
        if from != to {
            seat.entered = now;
            if matches!(edge.label, Label::Init | Label::Restore) {
                self.agenda.begun();
            }
        }
        add(&mut self.counts.steps);
        self.agenda.took(&step.events, &cx);
        Ok(Attempt::Taken(Box::new(Taken { instance: by, from, to, action: action.clone(), step, time: now, cause })))
    }

    /// Hands a message to every instance.
    pub(super) fn deliver(
        &mut self,
        action: &Action,
        cause: Cause,
        now: Time,
        outcome: &mut Outcome,
    ) -> Result<(), DriveError> {
        for at in 0..self.seats.len() {
            outcome.add(self.attempt(InstanceNumber(at), action, cause, now)?);
        }
        if let (Fate::Taken, Some(message)) = (outcome.fate, action.message()) {
            self.settle(message);
        }
        Ok(())
    }

    /// Lets a message wait that no instance can take yet.
    pub(super) fn let_wait(&mut self, message: Message, now: Time, outcome: &mut Outcome) {
        outcome.fate = Fate::Waits;
        self.settle(&message);
        if let Some(displaced) = self.inbox.push(message, now) {
            add(&mut self.counts.displaced);
            self.agenda.lost_oldest();
            let parties = [Some(displaced.sender), Some(displaced.receiver), self.owner_in(&displaced)];
            self.doubt(parties, &mut outcome.forgotten);
        }
    }
}

/// Whether a step along this edge leaves everything as it is, by the table alone.
fn does_nothing(edge: &Edge<'_>, action: &Action) -> bool {
    edge.effects.is_empty() && edge.from == edge.to && !matches!(action, Action::Send(_))
}
