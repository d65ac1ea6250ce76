//! Graphs, and readings of the paper, that look right and are not: each is refused, with a shortest run.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::path::Path;

use conformance::progress::Progress;
use conformance::variant::Variant;
use conformance::verify::{Kind, Settings, verify};

/// The runs are golden files, `tests/golden/*.txt`; `UPDATE_GOLDEN=1` writes them anew.
#[test]
fn each_wrong_variant_is_refused_with_a_shortest_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    for variant in Variant::ALL {
        let settings = Settings { variant: Some(variant), ..variant.refuting_model(None) };
        let report = verify(&settings, &Progress::default()).unwrap();
        assert_eq!(report.exit_code(), 1, "{variant}: {report}");
        assert_eq!(report.variant.as_deref(), Some(variant.name()));
        let text = format!("{}\n", report.counterexample.join("\n"));
        let file = folder.join(format!("{variant}.txt"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&file, &text).unwrap();
        }
        assert_eq!(text, std::fs::read_to_string(&file).unwrap(), "{variant}");
    }
}

/// The models that refute the variants hold without them, and where a variant is about both architectures, it is refused
/// in both. (`no-addressee` is about broadcasts.)
#[test]
fn the_same_models_hold_without_the_mistake() {
    for variant in Variant::ALL {
        for kind in [Kind::Direct, Kind::Indirect] {
            let right = verify(&variant.refuting_model(Some(kind)), &Progress::default()).unwrap();
            assert!(right.counterexample.is_empty(), "{variant} {kind:?}: {right}");
            let settings = Settings { variant: Some(variant), ..variant.refuting_model(Some(kind)) };
            let wrong = verify(&settings, &Progress::default()).unwrap();
            let is_concerned = !(variant == Variant::NoAddressee && kind == Kind::Direct);
            assert_eq!(wrong.counterexample.is_empty(), !is_concerned, "{variant} {kind:?}: {wrong}");
        }
    }
}

/// Reference: S2, S20: the printed requirements are wrong already of the abstract semantics.
#[test]
fn the_abstract_semantics_does_not_meet_the_printed_requirements() {
    let refused = |settings: Settings| verify(&settings, &Progress::default()).unwrap().counterexample;
    let variant = Variant::PrintedRequirement1;
    let run = refused(Settings { variant: Some(variant), ..variant.refuting_model(Some(Kind::Abstract)) });
    assert_eq!(
        run.last().unwrap(),
        "requirement-1: does not hold for (flights-server, alice-cookie, hotel-ads)",
        "{run:?}"
    );
}
