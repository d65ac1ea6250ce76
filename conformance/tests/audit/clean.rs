//! No false alarms.

use conformance::audit::report::{Evidence, Unjudged, Verdict};
use conformance::audit::text;
use conformance::simulate::Settings;
use pilot_core::evidence::mesh::CLOCK_TOLERANCE;

use super::support::{Mesh, audited, conform};

/// Whatever conforming devices do, in whatever order, through restarts, lost and doubled messages, is said to conform, and
/// nothing is left unjudged where every trace and every opening is there.
#[test]
fn conforming_traces_conform() {
    for (seed, (subjects, controllers)) in [(1, 1), (3, 2), (20, 5), (60, 8)].into_iter().enumerate() {
        let mesh = Mesh::new(subjects, controllers, 20_000, seed as u64);
        let report = audited(&mesh.root());
        assert_eq!(report.verdict(), Verdict::Conforms, "seed {seed}: {}", text::text(&report));
        assert!(report.unjudged.is_empty(), "seed {seed}: {}", text::text(&report));
        let Evidence { witnessed, signed, attested } = report.evidence;
        assert!(witnessed > 0 && signed == 0 && attested == 0, "seed {seed}: {:?}", report.evidence);
        assert_eq!(report.figures.steps, report.timeline.iter().map(|moment| moment.steps).sum::<u64>());
    }
}

/// Devices' clocks differ, as much as the protocol allows: nothing is found, and nothing is left unjudged but who has asked
/// anonymously, before she did by the clock of who was asked.
#[test]
fn clocks_may_differ() {
    for (seed, clock_skew) in (1..).zip([3, 30, 60, 90, CLOCK_TOLERANCE, CLOCK_TOLERANCE]) {
        let settings =
            Settings { subjects: 20, controllers: 5, events: 20_000, seed, clock_skew, ..Settings::default() };
        let report = audited(&Mesh::of(settings).root());
        assert_eq!(report.verdict(), Verdict::Conforms, "{clock_skew} s apart: {}", text::text(&report));
        let is_anonymous = |unjudged: &Unjudged| unjudged.why.starts_with("the sender is anonymous");
        assert!(
            !report.unjudged.is_empty() && report.unjudged.iter().all(is_anonymous),
            "{clock_skew} s apart: {}",
            text::text(&report)
        );
        assert!(report.evidence.witnessed > 0 && report.evidence.attested == 0, "{:?}", report.evidence);
    }
}

/// Simulations in which everything happens that an audit has an opinion of.
#[test]
fn everything_happens() {
    let mesh = Mesh::new(30, 6, 60_000, 7);
    let figures = audited(&mesh.root()).figures;
    let counts = [figures.accepted, figures.transferred, figures.erased, figures.withdrawn, figures.elided];
    assert!(counts.into_iter().all(|count| count > 0), "{figures:?}");
    assert!(figures.attested_conditions > 0 && figures.matched > figures.accepted, "{figures:?}");
}

/// The command as a user runs it: verdict first, then JSON, then a page.
#[test]
fn the_command() {
    let mesh = Mesh::new(5, 2, 3_000, 3);
    let (root, page) = (mesh.root(), mesh.beside("report.html"));
    let (root, page) = (root.to_str().unwrap(), page.to_str().unwrap());
    let operator = format!("{root}/operator.pub");
    let output = conform(&["audit", root, "--operator-key", &operator, "--strict", "--html", page]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8(output.stdout).unwrap().starts_with("conforms"));
    assert!(std::fs::read_to_string(page).unwrap().starts_with("<!DOCTYPE html>"));

    let output = conform(&["audit", root, "--operator-key", &operator, "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["verdict"], "conforms");
    assert_eq!(report["findings"], serde_json::json!([]));
    assert!(report["evidence"]["witnessed"].as_u64().unwrap() > 0);
    assert_eq!(report["unjudged"], serde_json::json!([]));
    assert_eq!(report["open"], serde_json::json!([]));

    // Without the operator's key the mesh file is taken at its word, which is said, and strict audits mind.
    assert_eq!(conform(&["audit", root]).status.code(), Some(0));
    assert_eq!(conform(&["audit", root, "--strict"]).status.code(), Some(2));
}
