//! Another model checker on the same system: stateright finds as many states as ours.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use conformance::explore::{Limits, Model as _, explore};
use conformance::progress::Progress;
use conformance::scenario::{Architecture, Opaque, Scenario};
use conformance::system::{Network, System};
use pilot_core::subsumption::Judge;
use stateright::{Checker as _, Model, Property};

/// Our system, as stateright sees one: states are rows of numbers, actions the successors by their places.
struct Seen<'s> {
    system: System<'s>,
    scenario: &'s Scenario,
}

impl Seen<'_> {
    /// The successors of a row, and whether a step to one of them is wrong.
    fn successors(&self, row: &[u32]) -> Vec<Vec<u32>> {
        let mut rows = Vec::new();
        self.system.successors(row, &Judge::new(&self.scenario.vocabulary), &mut |successor| {
            assert!(successor.violation.is_none(), "{}", (successor.describe)());
            rows.push(successor.row.to_vec());
        });
        rows
    }
}

impl Model for Seen<'_> {
    type State = Vec<u32>;
    type Action = usize;

    fn init_states(&self) -> Vec<Self::State> {
        vec![self.system.initial(&Judge::new(&self.scenario.vocabulary)).to_vec()]
    }

    fn actions(&self, state: &Self::State, actions: &mut Vec<Self::Action>) {
        actions.extend(0..self.successors(state).len());
    }

    fn next_state(&self, state: &Self::State, action: Self::Action) -> Option<Self::State> {
        self.successors(state).into_iter().nth(action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        // Violations are asserted above; stateright explores everything as long as a property may still fail.
        vec![Property::always("explored", |_, _| true)]
    }
}

#[test]
fn stateright_finds_the_same_states() {
    let tiny = Opaque { controllers: 1, policies: 2, ..Opaque::default() };
    let two_controllers = Opaque { policies: 1, order: String::new(), ..Opaque::default() };
    for (architecture, opaque) in [
        (Architecture::Direct, Opaque { subject_changes: 1, ..tiny.clone() }),
        (Architecture::Direct, two_controllers),
        (Architecture::Indirect, tiny),
    ] {
        for network in [Network::Once, Network::Duplicating] {
            // stateright keeps its models for ever.
            let scenario: &Scenario = Box::leak(Box::new(opaque.scenario(architecture).unwrap()));
            let ours = explore(&System::new(scenario, network, false, None), Limits::default(), &Progress::default());
            let system = System::new(scenario, network, false, None);
            let theirs = Seen { system, scenario }.checker().spawn_bfs().join();
            assert_eq!(ours.states, theirs.unique_state_count() as u64, "{architecture:?} {network:?} {opaque:?}");
            assert!(ours.states > 20);
        }
    }
}
