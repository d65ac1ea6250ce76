//! The paper's verification, on the graphs that run, with pinned state counts: a changed count is a changed model.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use conformance::explore::Limits;
use conformance::progress::Progress;
use conformance::scenario::{Architecture, MAX_COUNT, Opaque, Scenario, ScenarioError};
use conformance::system::Network;
use conformance::variant::Variant;
use conformance::verify::{Cast, Kind, Report, Settings, verify};
use pilot_core::diagnostic::Quoted;

fn paper() -> Opaque {
    Opaque::default()
}

/// With fewer policies, so that every interleaving can be explored.
fn small() -> Opaque {
    Opaque { policies: 2, ..paper() }
}

fn model(kind: Kind, opaque: Opaque) -> Settings {
    Settings::new(kind, Cast::Opaque(opaque))
}

fn scenario(kind: Kind, name: &str) -> Settings {
    Settings::new(kind, Cast::Scenario(name.to_string()))
}

fn run(settings: &Settings) -> Report {
    verify(settings, &Progress::default()).unwrap()
}

fn holds(settings: &Settings) -> Report {
    let report = run(settings);
    assert_eq!(report.counterexample, Vec::<String>::new(), "{report}");
    assert_eq!(report.untaken, Vec::<String>::new());
    assert!(report.verdicts.values().all(|verdict| *verdict == "holds"), "{report}");
    assert_eq!(report.exit_code(), 0);
    report
}

/// Reference: §5: the abstract semantics meets the requirements. TLC finds as many states for the same models.
#[test]
fn the_abstract_semantics_meets_the_requirements() {
    assert_eq!(holds(&model(Kind::Abstract, paper())).states, 988);
    assert_eq!(holds(&model(Kind::Abstract, Opaque { controllers: 3, ..paper() })).states, 154_336);
}

/// Reference: §5: DirectRef ⟹ AbstSem and IndirectRef ⟹ AbstSem, for the paper's model. The search by devices does not
/// depend on the network: what it finds holds on both.
#[test]
fn the_graphs_refine_the_abstract_semantics() {
    for network in [Network::Once, Network::Duplicating] {
        let direct = holds(&Settings { network, ..model(Kind::Direct, paper()) });
        assert_eq!((direct.states, direct.parameters.search), (1_221, "devices"));
        assert_eq!(holds(&Settings { network, ..model(Kind::Indirect, paper()) }).states, 2_543);
    }
}

/// Reference: §5: likewise, by every interleaving of the whole system.
#[test]
fn every_interleaving_refines_the_abstract_semantics() {
    let states = |kind, network| {
        let settings = Settings { interleave: true, network, ..model(kind, small()) };
        let report = holds(&settings);
        assert_eq!(report.parameters.search, "interleavings");
        report.states
    };
    assert_eq!(states(Kind::Direct, Network::Once), 368_321);
    assert_eq!(states(Kind::Direct, Network::Duplicating), 12_960);
    assert_eq!(states(Kind::Indirect, Network::Duplicating), 1_074_051);
}

/// With real policies: Table 1, a company and its subsidiary, and a mall; under both networks and in both architectures.
#[test]
fn the_scenarios_hold() {
    for name in ["flights", "alphabet", "mall"] {
        for kind in [Kind::Abstract, Kind::Direct, Kind::Indirect] {
            for network in [Network::Once, Network::Duplicating] {
                holds(&Settings { network, ..scenario(kind, name) });
            }
        }
    }
}

/// Reference: S1, the live side: with the printed guard of Fig. 3b flights.com can never transfer to hotels.com, although
/// option 3 of Table 1 grants it; with ours it can.
#[test]
fn the_printed_guard_forbids_what_table_1_grants() {
    for kind in [Kind::Direct, Kind::Indirect] {
        holds(&scenario(kind, "flights"));
        let printed = run(&Settings { variant: Some(Variant::PrintedTransferGuard), ..scenario(kind, "flights") });
        assert!(printed.counterexample.is_empty(), "{printed}");
        assert!(printed.untaken.contains(&"event transfer".to_string()), "{printed}");
        assert_eq!(printed.exit_code(), 1);
    }
}

/// Interchangeable devices and items may be renamed: fewer states, the same verdicts.
#[test]
fn symmetry_saves_states_and_changes_no_verdict() {
    let two_of_each = Opaque { subjects: 2, items: 2, ..small() };
    let models = [
        model(Kind::Abstract, paper()),
        model(Kind::Direct, two_of_each.clone()),
        model(Kind::Indirect, two_of_each),
        Settings { interleave: true, ..model(Kind::Direct, small()) },
        Settings { interleave: true, network: Network::Duplicating, ..model(Kind::Indirect, small()) },
    ];
    for without in models {
        let with = Settings { symmetry: true, ..without.clone() };
        let (with, without) = (holds(&with), holds(&without));
        assert_eq!(with.verdicts, without.verdicts);
        assert!(with.states < without.states, "{} {}", with.states, without.states);
    }
    for variant in Variant::ALL {
        let settings = Settings { variant: Some(variant), symmetry: true, ..variant.refuting_model(None) };
        assert_eq!(run(&settings).exit_code(), 1, "{variant} with symmetry");
    }
}

/// Requirements 4 and 5: deadlines pass, people withdraw, change their minds and restart their devices.
#[test]
fn deadlines_withdrawals_changes_and_restarts_hold() {
    let one_policy = Opaque { policies: 1, order: String::new(), ..paper() };
    for kind in [Kind::Direct, Kind::Indirect] {
        let report = holds(&model(kind, Opaque { withdrawals: true, deadlines: true, ..one_policy.clone() }));
        assert_eq!(report.verdicts.get("requirement-4"), Some(&"holds"));
        assert_eq!(report.verdicts.get("requirement-5"), Some(&"holds"));
        holds(&model(kind, Opaque { subject_changes: 1, controller_changes: 1, ..small() }));
    }
    holds(&model(Kind::Indirect, Opaque { subject_restarts: 1, controller_changes: 1, ..small() }));
}

/// Reference: Figs. 4a, 4b, 4c, with one controller: nothing is violated, and what one controller cannot show is named.
#[test]
fn a_model_too_small_to_show_transfers_says_so() {
    for interleave in [false, true] {
        let report = run(&Settings { interleave, ..model(Kind::Indirect, Opaque { controllers: 1, ..small() }) });
        assert!(report.counterexample.is_empty(), "{report}");
        assert!(report.untaken.contains(&"event transfer".to_string()), "{report}");
        assert!(report.untaken.contains(&"Fig. 4c s₄ send↑ s₃ (S8)".to_string()), "{report}");
        assert_eq!(report.exit_code(), 1);
    }
}

/// Bad input gets one sentence.
#[test]
fn impossible_models_are_refused() {
    let refused = |opaque: Opaque| opaque.scenario(Architecture::Direct).map(|_: Scenario| ()).unwrap_err();
    assert_eq!(refused(Opaque { controllers: 0, ..paper() }), ScenarioError::Count("controllers"));
    assert_eq!(refused(Opaque { policies: 1_000_000, ..paper() }), ScenarioError::Count("policies"));
    assert_eq!(refused(Opaque { subjects: MAX_COUNT + 1, ..paper() }), ScenarioError::Count("subjects"));
    assert_eq!(refused(Opaque { order: "p1<p2,p2<p1".into(), ..paper() }), ScenarioError::Cycle(1));
    let unknown = ScenarioError::UnknownPolicy(Quoted::new("p9"), 3);
    assert_eq!(refused(Opaque { order: "p1<p9".into(), ..paper() }), unknown);
    assert!(matches!(refused(Opaque { order: "p1".into(), ..paper() }), ScenarioError::Order(_)));
}

/// A limit on memory ends an exploration cleanly, whichever way it searches.
#[test]
fn the_memory_limit_is_kept() {
    for interleave in [false, true] {
        let report = run(&Settings {
            limits: Limits { bytes: 1, ..Limits::default() },
            interleave,
            ..model(Kind::Direct, paper())
        });
        assert!(report.is_out_of_memory);
        assert_eq!(report.exit_code(), 3);
        assert!(report.verdicts.values().all(|verdict| *verdict == "unknown"));
    }
}
