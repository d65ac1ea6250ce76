//! When a device does what its graph offers: never all the time.
//!
//! A graph says what may be done, not how often. Here a table says, per label and, where that matters, per location, how
//! long to wait. **Never paced** are erasures and withdrawals; answers (what ends an exchange: an edge guarded by
//! [`Guard::InExchange`], or a τ that is taken because no answer is possible); and what the user decides.

use std::collections::BTreeMap;

use pilot_core::graph::{Action, Edge, Guard, Label, Location, MessageKind};
use pilot_core::semantics::PolicyId;
use pilot_core::value::Time;

use super::InstanceNumber;

/// The most offers whose last time is remembered. Full: those whose interval has passed are forgotten; if there are
/// none, further paced offers wait until there are.
pub const MAX_PACED_OFFERS: usize = 131_072;

/// How long to wait, in seconds. By default not at all, except that a message is not repeated in the same second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pace {
    /// After the instance came to the location: a timeout, for τ.
    pub dwell: u64,
    /// Between any two steps of the instance with this label, whatever their parameters.
    pub between: u64,
    /// Between two steps of the instance with the same parameters: receiver, policy, item.
    pub again: u64,
}

/// The table: intervals per label, or per label and location.
#[derive(Debug, Clone, Default)]
pub struct Pacing {
    table: BTreeMap<(Label, Option<Location>), Pace>,
}

impl Pacing {
    /// Sets the pace of a label wherever nothing else is said.
    pub fn everywhere(mut self, label: Label, pace: Pace) -> Self {
        self.table.insert((label, None), pace);
        self
    }

    /// Sets the pace of a label at a location.
    pub fn at(mut self, location: Location, label: Label, pace: Pace) -> Self {
        self.table.insert((label, Some(location)), pace);
        self
    }

    fn of(&self, label: Label, location: Location) -> Pace {
        let special = self.table.get(&(label, Some(location)));
        let mut pace = special.or_else(|| self.table.get(&(label, None))).copied().unwrap_or_default();
        if matches!(label, Label::Send(_)) {
            pace.again = pace.again.max(1);
        }
        pace
    }
}

/// Whether a step along this edge waits for its time.
pub(super) fn is_paced(edge: &Edge<'_>) -> bool {
    let is_answer = edge.all_guards().any(|guard| matches!(guard, Guard::InExchange | Guard::Unless(_)));
    match edge.label {
        Label::Tau => !is_answer,
        Label::Send(MessageKind::Withdraw | MessageKind::WithdrawPolicy) => false,
        Label::Send(_) => !is_answer,
        _ => false,
    }
}

/// What was done when.
#[derive(Debug, Default)]
pub(super) struct Paces {
    pacing: Pacing,
    labels: BTreeMap<(InstanceNumber, Label), Time>,
    actions: BTreeMap<(InstanceNumber, Action), Time>,
    /// When an entry of `actions` lapses, at the latest.
    horizon: u64,
}

impl Paces {
    /// Nothing was done yet.
    pub(super) fn new(pacing: Pacing) -> Self {
        Self { pacing, ..Self::default() }
    }

    /// When an offer may be taken by an instance that has been at its location since `entered`.
    pub(super) fn due(&self, by: InstanceNumber, action: &Action, at: (Location, Time), now: Time) -> Time {
        let (location, entered) = at;
        let label = action.label();
        let pace = self.pacing.of(label, location);
        let label_due = self.labels.get(&(by, label)).map(|last| after(*last, pace.between));
        let action_due = match self.actions.get(&(by, action.clone())) {
            Some(last) => Some(after(*last, pace.again)),
            None if self.actions.len() >= MAX_PACED_OFFERS && pace.again > 0 => Some(after(now, 1)),
            None => None,
        };
        [label_due, action_due].into_iter().flatten().fold(after(entered, pace.dwell), Time::max)
    }

    /// Remembers that a paced offer was taken.
    pub(super) fn taken(&mut self, by: InstanceNumber, action: &Action, location: Location, now: Time) {
        let pace = self.pacing.of(action.label(), location);
        self.labels.insert((by, action.label()), now);
        if pace.again > 0 {
            self.horizon = self.horizon.max(pace.again);
            self.actions.insert((by, action.clone()), now);
        }
        self.lapse(now);
    }

    /// Forgets what has no effect any more, once there is much of it.
    fn lapse(&mut self, now: Time) {
        if self.actions.len() >= MAX_PACED_OFFERS {
            let horizon = self.horizon;
            self.actions.retain(|_, last| after(*last, horizon) > now);
        }
    }

    /// Forgets when offers with this label were taken.
    pub(super) fn forget_label(&mut self, label: Label) {
        self.labels.retain(|(_, of), _| *of != label);
        self.actions.retain(|(_, action), _| action.label() != label);
    }

    /// Forgets a policy, whose id another one will get.
    pub(super) fn forget_policies(&mut self, gone: &dyn Fn(PolicyId) -> bool) {
        self.actions.retain(|(_, action), _| !action.message().and_then(|m| m.policy()).is_some_and(gone));
    }
}

/// Some seconds later.
pub(super) fn after(time: Time, seconds: u64) -> Time {
    Time::from_unix(time.unix().saturating_add(seconds))
}
