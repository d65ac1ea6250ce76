//! What is due: a list that is made when something has changed or time has come, and worked off step by step.
//!
//! Looking for everything that a graph offers takes time in proportion to what the device knows, so it is not done for
//! each step. What is on the list may be out of date when its turn comes: then it has no edge, and is skipped.

use std::collections::VecDeque;

use pilot_core::graph::{Action, Label, Location, MessageKind, offers_of};
use pilot_core::semantics::{Context, Epoch, Event};
use pilot_core::value::Time;

use super::attempt::Attempt;
use super::counts::add;
use super::pacing::{after, is_paced};
use super::{Cause, DriveError, Driver, Fate, InstanceNumber, Outcome, Record};

/// The longest time without a look at what is due: conditions, tombstones and epochs depend on time.
pub const MAX_IDLE_SECONDS: u64 = Epoch::SECONDS;

/// What is due, and when to look again.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    /// Offers, in order.
    due: VecDeque<(InstanceNumber, Action)>,
    /// Which of the waiting messages to look at next; behind the last, none.
    waiting: usize,
    /// Whether something has changed since the list was made.
    is_outdated: bool,
    /// When to make a new list even if nothing changes.
    look_again: Time,
    /// When overdue items were last looked for, and the first deadline after that.
    swept: Time,
    deadline: Option<Time>,
}

impl Agenda {
    /// Something has changed from outside.
    pub(super) fn disturb(&mut self) {
        self.due.clear();
        self.is_outdated = true;
        self.waiting = 0;
    }

    /// A step was taken.
    pub(super) fn took(&mut self, events: &[Event], cx: &Context<'_>) {
        self.is_outdated = true;
        self.waiting = 0;
        for event in events {
            if let Event::Send(delivery) | Event::Transfer(delivery) = event {
                self.must_sweep_at(cx.retention(delivery.handover.policy));
            }
        }
    }

    /// The instance has just begun: what it held before was never looked at.
    pub(super) fn begun(&mut self) {
        self.swept = Time::default();
    }

    /// The oldest waiting message is gone.
    pub(super) fn lost_oldest(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
    }

    fn must_sweep_at(&mut self, deadline: Option<Time>) {
        self.deadline = [self.deadline, deadline].into_iter().flatten().min();
    }

    pub(super) fn next_due(&self, now: Time) -> Time {
        let is_ready = self.is_outdated || !self.due.is_empty();
        let next = self.deadline.map_or(self.look_again, |deadline| deadline.min(self.look_again));
        if is_ready { now } else { next.max(now) }
    }
}

impl<R: Record> Driver<'_, R> {
    /// The next thing that is due.
    pub(super) fn next(&mut self, now: Time) -> Result<Option<Outcome>, DriveError> {
        if self.is_sweep_due(now) {
            self.plan_sweep(now);
        }
        if let Some(outcome) = self.work_off(now, true)? {
            return Ok(Some(outcome));
        }
        if let Some(outcome) = self.next_waiting(now)? {
            return Ok(Some(outcome));
        }
        loop {
            if let Some(outcome) = self.work_off(now, false)? {
                return Ok(Some(outcome));
            }
            if !self.agenda.is_outdated && now < self.agenda.look_again {
                break;
            }
            self.plan(now);
            if self.agenda.due.is_empty() {
                break;
            }
        }
        let forgotten = self.dismiss_unmentioned();
        Ok((!forgotten.is_empty()).then_some(Outcome { steps: Vec::new(), fate: Fate::Idle, forgotten }))
    }

    fn is_sweep_due(&self, now: Time) -> bool {
        let is_deadline = self.agenda.deadline.is_some_and(|deadline| deadline <= now);
        now > self.agenda.swept && (is_deadline || now >= after(self.agenda.swept, MAX_IDLE_SECONDS))
    }

    /// Puts everything overdue or out of date at the head of the list.
    fn plan_sweep(&mut self, now: Time) {
        let cx = self.world.context(now);
        let Some(seat) = self.seats.first() else { return };
        let offered = |label| offers_of(label, self.graph, &seat.instance, &self.device, &cx);
        let overdue = [offered(Label::Expire), offered(Label::Forget)].concat();
        let deadlines = self.device.state.received.iter().filter_map(|receipt| cx.retention(receipt.policy));
        self.agenda.deadline = deadlines.filter(|deadline| *deadline > now).min();
        self.agenda.swept = now;
        self.agenda.due = overdue.into_iter().map(|action| (InstanceNumber(0), action)).collect();
        self.agenda.is_outdated = true;
        self.doubt_everybody();
    }

    /// Makes the list of what is due, and finds out when something will be.
    fn plan(&mut self, now: Time) {
        let cx = self.world.context(now);
        let mut labels: Vec<Label> = Vec::new();
        for edge in self.graph.edges.iter().filter(|edge| matches!(edge.label, Label::Send(_) | Label::Tau)) {
            if edge.label != Label::Send(MessageKind::WithdrawPolicy) && !labels.contains(&edge.label) {
                labels.push(edge.label);
            }
        }
        labels.sort_by_key(|label| match label {
            Label::Send(MessageKind::Withdraw) => 0,
            Label::Tau => 2,
            _ => 1,
        });
        let (mut due, mut look_again) = (VecDeque::new(), after(now, MAX_IDLE_SECONDS));
        for label in labels {
            for (at, seat) in self.seats.iter().enumerate() {
                for action in offers_of(label, self.graph, &seat.instance, &self.device, &cx) {
                    match self.when(InstanceNumber(at), &action, now) {
                        Some(time) if time <= now => due.push_back((InstanceNumber(at), action)),
                        Some(time) => look_again = look_again.min(time),
                        None => {}
                    }
                }
            }
        }
        (self.agenda.due, self.agenda.look_again, self.agenda.is_outdated) = (due, look_again, false);
    }

    /// When an offer may be taken; `None` if only the user can decide that.
    fn when(&self, by: InstanceNumber, action: &Action, now: Time) -> Option<Time> {
        let seat = self.seats.get(by.0)?;
        if action.label() == Label::Send(MessageKind::Withdraw) && !self.is_owed(action) {
            return None;
        }
        let location = seat.instance.location;
        let is_paced = self.is_paced_at(location, action.label());
        Some(if is_paced { self.paces.due(by, action, (location, seat.entered), now) } else { now })
    }

    fn is_paced_at(&self, location: Location, label: Label) -> bool {
        // The edges of one label at one location are all paced or none: see the tables.
        let mut here = self.graph.edges.iter().filter(|edge| edge.from.is_none_or(|from| from == location));
        here.any(|edge| edge.label == label && is_paced(edge))
    }

    /// Whether this withdraw notice is to be passed on; a subject's own are hers to decide.
    fn is_owed(&self, action: &Action) -> bool {
        let message = action.message();
        let key = message.and_then(|message| Some((message.item()?, message.receiver)));
        key.is_some_and(|key| self.device.memory.notices.contains_key(&key))
    }

    /// Takes the next step on the list, of urgent ones only if so asked: erasures and notices.
    fn work_off(&mut self, now: Time, only_urgent: bool) -> Result<Option<Outcome>, DriveError> {
        while let Some((by, action)) = self.agenda.due.front() {
            let is_urgent =
                matches!(action.label(), Label::Expire | Label::Forget | Label::Send(MessageKind::Withdraw));
            if only_urgent && !is_urgent {
                return Ok(None);
            }
            let by = *by;
            let Some((_, action)) = self.agenda.due.pop_front() else { return Ok(None) };
            let is_due = is_urgent || self.when(by, &action, now).is_some_and(|time| time <= now);
            let outcome = if is_due { self.take_offer(by, &action, now)? } else { None };
            if outcome.is_some() {
                return Ok(outcome);
            }
        }
        Ok(None)
    }

    fn take_offer(&mut self, by: InstanceNumber, action: &Action, now: Time) -> Result<Option<Outcome>, DriveError> {
        let Some(location) = self.seats.get(by.0).map(|seat| seat.instance.location) else { return Ok(None) };
        let attempt = self.attempt(by, action, Cause::Due, now)?;
        if !matches!(attempt, Attempt::NoEdge) && self.is_paced_at(location, action.label()) {
            // Also when there was no room: not to be tried again in the same second.
            self.paces.taken(by, action, location, now);
        }
        let Attempt::Taken(_) = attempt else { return Ok(None) };
        let mut outcome = Outcome::new();
        outcome.add(attempt);
        let owner = action.item().and_then(|item| Some(self.world.directory.item(item)?.owner));
        self.doubt([owner, action.message().map(|message| message.receiver), None], &mut outcome.forgotten);
        Ok(Some(outcome))
    }

    /// Erases what is overdue, before anything else happens at this time.
    pub(super) fn erase_overdue(&mut self, now: Time, outcome: &mut Outcome) -> Result<(), DriveError> {
        if self.agenda.deadline.is_none_or(|deadline| deadline > now) {
            return Ok(());
        }
        self.plan_sweep(now);
        while let Some(done) = self.work_off(now, true)? {
            outcome.steps.extend(done.steps);
            outcome.forgotten.extend(done.forgotten);
        }
        Ok(())
    }

    /// The next waiting message that has an edge now.
    fn next_waiting(&mut self, now: Time) -> Result<Option<Outcome>, DriveError> {
        if let Some(stale) = self.inbox.take_stale(now) {
            add(&mut self.counts.stale);
            self.agenda.lost_oldest();
            let mut outcome = Outcome { fate: Fate::Stale, ..Outcome::new() };
            self.doubt([Some(stale.sender), Some(stale.receiver), self.owner_in(&stale)], &mut outcome.forgotten);
            return Ok(Some(outcome));
        }
        while let Some(message) = self.inbox.at(self.agenda.waiting) {
            let action = Action::Receive(message.clone());
            let mut outcome = Outcome::new();
            let place = self.agenda.waiting;
            self.deliver(&action, Cause::WaitingMessage, now, &mut outcome)?;
            if outcome.fate == Fate::Impossible {
                self.agenda.waiting += 1;
                continue;
            }
            if let Some(message) = self.inbox.remove(place) {
                let parties = [Some(message.sender), Some(message.receiver), self.owner_in(&message)];
                self.doubt(parties, &mut outcome.forgotten);
            }
            return Ok(Some(outcome));
        }
        Ok(None)
    }
}
