//! The paper's verification, on the graphs that run, with pinned state counts: a changed count is a changed model.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use conformance::scenario::{Architecture, MAX_COUNT, Opaque, Role, Scenario, ScenarioError};
use conformance::system::Network;
use conformance::verify::{Kind, Report, verify, verify_scenario};
use pilot_core::graph::{Edge, Effect, Graph, Guard, Label, MessageKind};

const MEMORY: usize = 1 << 30;

fn paper() -> Opaque {
    Opaque {
        subjects: 1,
        controllers: 2,
        items: 1,
        policies: 3,
        order: "p1<p2".into(),
        subject_changes: 0,
        controller_changes: 0,
        withdrawals: false,
    }
}

fn holds(report: &Report) {
    assert_eq!(report.counterexample, Vec::<String>::new(), "{report}");
    assert_eq!(report.untaken, Vec::<String>::new());
    assert!(report.verdicts.values().all(|verdict| *verdict == "holds"), "{report}");
    assert_eq!(report.exit_code(), 0);
}

/// Reference: §5: the abstract semantics meets the requirements. TLC finds as many states for the same models.
#[test]
fn the_abstract_semantics_meets_the_requirements() {
    let report = verify(Kind::Abstract, &paper(), Network::Once, MEMORY).unwrap();
    holds(&report);
    assert_eq!(report.states, 988);
    let larger = Opaque { controllers: 3, ..paper() };
    let report = verify(Kind::Abstract, &larger, Network::Once, MEMORY).unwrap();
    holds(&report);
    assert_eq!(report.states, 154_336);
}

/// Reference: §5: DirectRef ⟹ AbstSem.
#[test]
fn the_direct_graphs_refine_the_abstract_semantics() {
    let report = verify(Kind::Direct, &Opaque { policies: 2, ..paper() }, Network::Once, MEMORY).unwrap();
    holds(&report);
    assert_eq!(report.states, 368_321);
}

/// Changes every edge of the graphs of one role.
fn change_graphs(scenario: &mut Scenario, role: Role, change: impl Fn(&Edge<'static>) -> Edge<'static>) {
    for party in scenario.parties.iter_mut().filter(|party| party.role == role) {
        let edges: Vec<Edge<'static>> = party.graph.edges.iter().map(&change).collect();
        // A few small tables, for the length of a test.
        party.graph = Graph { edges: Box::leak(edges.into_boxed_slice()), ..party.graph };
    }
}

/// The model in which graphs with a fault are refused: small, and with everything that Table 2 has.
fn with_graph(role: Role, change: impl Fn(&Edge<'static>) -> Edge<'static>) -> Report {
    let parameters = Opaque { policies: 2, ..paper() };
    let mut scenario = parameters.scenario(Architecture::Direct).unwrap();
    change_graphs(&mut scenario, role, change);
    verify_scenario(Kind::Direct, &parameters, &scenario, Network::Once, MEMORY)
}

/// An edge with this label, without this guard.
fn without(label: Label, guard: Guard) -> impl Fn(&Edge<'static>) -> Edge<'static> {
    move |edge| {
        if edge.label != label {
            return *edge;
        }
        let guards: Vec<Guard> = edge.guards.iter().copied().filter(|known| *known != guard).collect();
        let also: Vec<_> = edge.also.iter().copied().filter(|(_, known)| *known != guard).collect();
        Edge { guards: Box::leak(guards.into_boxed_slice()), also: Box::leak(also.into_boxed_slice()), ..*edge }
    }
}

/// Reference: Fig. 3a: a subject that does not compare policies is refused, with a shortest run.
#[test]
fn a_subject_that_does_not_check_is_refused() {
    let report = with_graph(Role::Subject, without(Label::Send(MessageKind::Send), Guard::WithinOwn));
    assert_eq!(report.exit_code(), 1);
    assert_eq!(
        report.counterexample,
        [
            "ds1: init({p1})",
            "dc1: init({p2})",
            "dc1: request↑(dc1, ds1, p2)",
            "ds1: request↓(dc1, ds1, p2)",
            "ds1: send↑(ds1, dc1, p2, i1)",
            "refinement: the sender vouches for what is not so: p_rcv ⊑ p_sndr: no active policy of the sender allows the \
             receiver's policy",
        ]
    );
}

/// Reference: Fig. 3b: a controller that transfers without a rule is refused.
#[test]
fn a_controller_that_transfers_freely_is_refused() {
    let report = with_graph(Role::Controller, without(Label::Send(MessageKind::Send), Guard::WithinTransferRule));
    assert_eq!(report.exit_code(), 1);
    let wrong = report.counterexample.last().unwrap();
    assert!(wrong.starts_with("refinement") && wrong.contains("p_rcv ⊑ (p.t, tr, p.TR)"), "{report}");
}

/// Reference: Fig. 3b: a controller that forgets what it received differs from the abstract semantics; one that never
/// keeps anything passes for want of anything happening, and that counts as a failure.
#[test]
fn a_step_that_does_less_than_it_means_is_noticed() {
    let report = with_graph(Role::Subject, |edge| {
        let effects: Vec<Effect> =
            edge.effects.iter().copied().filter(|effect| *effect != Effect::StoreOffer).collect();
        Edge { effects: Box::leak(effects.into_boxed_slice()), ..*edge }
    });
    assert!(report.counterexample.is_empty());
    assert!(report.untaken.contains(&"event send".to_string()), "{report}");
    assert_eq!(report.exit_code(), 1);
}

/// Reference: Figs. 4a, 4b, 4c, with one controller: nothing is violated, and what one controller cannot show is named.
#[test]
fn a_model_too_small_to_show_transfers_says_so() {
    let tiny = Opaque { controllers: 1, policies: 2, ..paper() };
    let report = verify(Kind::Indirect, &tiny, Network::Once, MEMORY).unwrap();
    assert!(report.counterexample.is_empty(), "{report}");
    assert!(report.untaken.contains(&"event transfer".to_string()));
    assert_eq!(report.exit_code(), 1);
}

/// Bad input gets one sentence.
#[test]
fn impossible_models_are_refused() {
    let refused = |opaque: Opaque| opaque.scenario(Architecture::Direct).map(|_: Scenario| ()).unwrap_err();
    assert_eq!(refused(Opaque { controllers: 0, ..paper() }), ScenarioError::Count("controllers"));
    assert_eq!(refused(Opaque { policies: 1_000_000, ..paper() }), ScenarioError::Count("policies"));
    assert_eq!(refused(Opaque { subjects: MAX_COUNT + 1, ..paper() }), ScenarioError::Count("subjects"));
    assert_eq!(refused(Opaque { order: "p1<p2,p2<p1".into(), ..paper() }), ScenarioError::Cycle(1));
    assert_eq!(refused(Opaque { order: "p1<p9".into(), ..paper() }), ScenarioError::UnknownPolicy("p9".into(), 3));
    assert!(matches!(refused(Opaque { order: "p1".into(), ..paper() }), ScenarioError::Order(_)));
}

/// A limit on memory ends an exploration cleanly.
#[test]
fn the_memory_limit_is_kept() {
    let report = verify(Kind::Direct, &paper(), Network::Once, 100_000).unwrap();
    assert!(report.is_out_of_memory);
    assert_eq!(report.exit_code(), 3);
    assert!(report.verdicts.values().all(|verdict| *verdict == "unknown"));
}

/// Reference: §5: IndirectRef ⟹ AbstSem, on a network that duplicates messages. Whatever happens on one that does not
/// can happen there as well.
#[test]
fn the_indirect_graphs_refine_the_abstract_semantics() {
    let report = verify(Kind::Indirect, &Opaque { policies: 2, ..paper() }, Network::Duplicating, MEMORY).unwrap();
    holds(&report);
    assert_eq!(report.states, 546_843);
}

/// Reference: requirement 5, with withdrawals on a duplicating network; and without tombstones it does not hold.
#[test]
fn withdrawn_data_stays_gone_because_of_tombstones() {
    let parameters = Opaque { policies: 1, order: String::new(), withdrawals: true, ..paper() };
    let report = verify(Kind::Direct, &parameters, Network::Duplicating, MEMORY).unwrap();
    holds(&report);
    assert_eq!(report.states, 15_878);
    assert_eq!(report.verdicts.get("requirement-5"), Some(&"holds"));

    let mut scenario = parameters.scenario(Architecture::Direct).unwrap();
    change_graphs(&mut scenario, Role::Controller, |edge| {
        let effects: Vec<Effect> =
            edge.effects.iter().copied().filter(|effect| *effect != Effect::LeaveTombstone).collect();
        Edge { effects: Box::leak(effects.into_boxed_slice()), ..*edge }
    });
    let report = verify_scenario(Kind::Direct, &parameters, &scenario, Network::Duplicating, MEMORY);
    assert_eq!(report.verdicts.get("requirement-5"), Some(&"violated"), "{report}");
}
