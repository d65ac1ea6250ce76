//! An auditor rarely has everything.

use std::path::PathBuf;

use conformance::audit::report::{Filter, Report, Verdict};
use conformance::audit::sources::{Given, SourceError, Sources};
use conformance::audit::{Progress, audit, text};
use pilot_core::evidence::MeshDraft;

use super::support::{Mesh, audited, audited_with, conform, copy};

fn only(mesh: &Mesh, devices: &[&str]) -> Vec<PathBuf> {
    devices.iter().map(|device| mesh.root().join("traces").join(device)).collect()
}

fn with_mesh(mesh: &Mesh) -> Given {
    Given { meshes: vec![mesh.root().join("mesh.toml")], ..mesh.given() }
}

/// One controller's directory and the mesh file: a verdict, at the level of the controller's own word, and a list of what
/// could not be judged.
#[test]
fn one_controller_alone() {
    let mesh = Mesh::new(10, 3, 10_000, 4);
    let report = audited_with(&only(&mesh, &["gate-000"]), &with_mesh(&mesh));
    assert_eq!(report.verdict(), Verdict::Conforms, "{}", text::text(&report));
    assert_eq!((report.evidence.witnessed, report.evidence.signed), (0, 0));
    assert!(report.evidence.attested > 0);
    assert!(report.unjudged.iter().any(|unjudged| unjudged.premise.contains("SEND")), "{:?}", report.unjudged);
    assert_eq!(report.exit_code(), 0);
    assert_eq!(Report { is_strict: true, ..report }.exit_code(), 2);
}

/// With one subject's opening, her consents are witnessed, and nobody else's.
#[test]
fn one_subject_opens_her_trace() {
    let mesh = Mesh::new(10, 3, 10_000, 5);
    let all = std::fs::read_to_string(mesh.root().join("audit/openings")).unwrap();
    let hers: Vec<&str> = all.lines().filter(|line| line.contains("\"person-00003\"")).collect();
    assert!(!hers.is_empty());
    let opening = mesh.beside("opening");
    std::fs::write(&opening, hers.join("\n")).unwrap();
    let given =
        Given { openings: vec![opening], keys: vec![mesh.root().join("audit/gate-000.key")], ..with_mesh(&mesh) };
    let report = audited_with(&only(&mesh, &["gate-000", "person-00003", "registry"]), &given);
    assert_eq!(report.verdict(), Verdict::Conforms, "{}", text::text(&report));
    assert!(report.evidence.witnessed > 0 && report.evidence.attested > 0, "{:?}", report.evidence);
    // She has given it to the auditor. Those that lie beside traces may be from anybody, and that is said.
    assert!(!report.inputs.are_openings_found);
    let found = audited(&mesh.root()).inputs;
    assert!(found.are_openings_found && found.openings == all.lines().count() as u64, "{found:?}");

    // Without the controller's audit key nobody can tell which item is hers.
    let report = audited_with(&only(&mesh, &["gate-000", "person-00003"]), &Given { keys: Vec::new(), ..given });
    assert_eq!((report.verdict(), report.evidence.witnessed), (Verdict::Conforms, 0));
}

/// Subjects who give no opening keep their traces to themselves: they are not judged, and that is no offence.
#[test]
fn subjects_without_openings() {
    let mesh = Mesh::new(6, 2, 5_000, 6);
    let root = mesh.beside("closed");
    copy(&mesh.root(), &root);
    std::fs::remove_file(root.join("audit/openings")).unwrap();
    let report = audited_with(&[root], &mesh.given());
    assert_eq!(report.verdict(), Verdict::Conforms, "{}", text::text(&report));
    assert!(report.unjudged.iter().any(|unjudged| unjudged.device.starts_with("person-")));
}

/// What is shown is a choice, the verdict is not.
#[test]
fn a_filter_does_not_change_the_verdict() {
    let mesh = Mesh::new(5, 2, 5_000, 12);
    let found = mesh.beside("found");
    let (root, keys, found) = (mesh.root(), mesh.root().join("keys"), found.to_str().unwrap().to_owned());
    let arguments =
        ["inject", "collect-without-consent", root.to_str().unwrap(), &found, "--keys", keys.to_str().unwrap()];
    let injected = conform(&arguments);
    assert!(injected.status.success(), "{}", String::from_utf8_lossy(&injected.stderr));
    let whole = audited(found.as_ref());
    let device = &whole.findings[0].device;
    assert_ne!(device, "registry");
    let cases: [(&[&str], bool); 5] = [
        (&[], true),
        (&["--device", device], true),
        (&["--device", "registry"], false),
        (&["--since", "2026-01-01"], true),
        (&["--since", "2100-01-01"], false),
    ];
    for (filter, is_shown) in cases {
        let output = conform(&[&["audit", &found, "--json"], filter].concat());
        assert_eq!(output.status.code(), Some(1));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["verdict"], "violates");
        let shown = report["findings"].as_array().unwrap().len();
        assert_eq!((shown > 0, report["elsewhere"].as_u64() > Some(0)), (is_shown, !is_shown), "{report}");
    }
}

/// What an audit did not look at is said.
#[test]
fn links_are_named_and_not_followed() {
    let mesh = Mesh::new(2, 1, 500, 13);
    let (root, elsewhere) = (mesh.root(), mesh.beside("elsewhere"));
    std::fs::rename(root.join("traces/person-00000"), &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, root.join("traces/person-00000")).unwrap();
    let report = audited(&root);
    assert_eq!(report.verdict(), Verdict::Conforms, "{}", text::text(&report));
    let link = root.join("traces/person-00000").display().to_string();
    let named = report.unjudged.iter().find(|unjudged| unjudged.premise.contains(&link));
    assert!(named.is_some_and(|unjudged| unjudged.why.contains("links are not followed")), "{:?}", report.unjudged);
}

/// A directory that is named twice is read once.
#[test]
fn a_directory_counts_once() {
    let mesh = Mesh::new(2, 1, 500, 14);
    let again = mesh.root().join("traces/..");
    let report = audited_with(&[mesh.root(), again], &mesh.given());
    assert_eq!(report.traces.len(), audited(&mesh.root()).traces.len());
}

/// Openings and mesh files that contradict each other are refused: one of them could be there to hide something.
#[test]
fn contradictions_are_refused() {
    let mesh = Mesh::new(3, 2, 1_000, 16);
    let root = mesh.root();
    let all = std::fs::read_to_string(root.join("audit/openings")).unwrap();
    let [hers, his]: [&str; 2] =
        ["person-00000", "person-00001"].map(|name| all.lines().find(|line| line.contains(name)).unwrap());
    let value = |line: &str, name: &str| -> String {
        let opening: serde_json::Value = serde_json::from_str(line).unwrap();
        opening[name].as_str().unwrap().to_owned()
    };
    let with = |name: &str| hers.replace(&value(hers, name), &value(his, name));
    let opening = mesh.beside("openings");
    let audit = |lines: &[&str]| {
        std::fs::write(&opening, lines.join("\n")).unwrap();
        let given = Given { openings: vec![opening.clone()], ..with_mesh(&mesh) };
        let found = Sources::find(std::slice::from_ref(&root), &given);
        found.map(|sources| audit(&sources, Filter::default(), &Progress::default()).verdict())
    };
    // She may have had another key for her pseudonyms before.
    assert_eq!(audit(&[hers, &with("audit_key")]).unwrap(), Verdict::Conforms);
    assert!(matches!(audit(&[hers, &with("device")]), Err(SourceError::TwoOwners(_))));
    assert!(matches!(audit(&[hers, &with("signing_key")]), Err(SourceError::TwoKeys(_))));

    let other = mesh.beside("other.toml");
    let mut draft = MeshDraft::from_toml(&std::fs::read_to_string(root.join("mesh.toml")).unwrap()).unwrap();
    draft.serial += 1;
    let entity = draft.devices.iter().find(|device| device.name.as_str() == "gate-001").unwrap().entity.clone();
    draft.devices.iter_mut().find(|device| device.name.as_str() == "gate-000").unwrap().entity = entity;
    std::fs::write(&other, draft.to_toml().unwrap()).unwrap();
    let given = Given { meshes: vec![root.join("mesh.toml"), other], ..Given::default() };
    assert!(matches!(Sources::find(&[root], &given), Err(SourceError::OtherRole { .. })));
}

/// What is missing or wrong is said in a sentence, with exit code 2.
#[test]
fn bad_input() {
    let mesh = Mesh::new(2, 1, 500, 8);
    let root = mesh.root();
    let path = |name: &str| root.join(name).to_str().unwrap().to_owned();
    let empty = mesh.beside("empty");
    std::fs::create_dir(&empty).unwrap();
    let nonsense = mesh.beside("nonsense");
    std::fs::write(&nonsense, "nonsense").unwrap();
    let nonsense = nonsense.to_str().unwrap();
    let (traces, mesh_file) = (path("traces"), path("mesh.toml"));
    let other_mesh = mesh.beside("other.toml");
    std::fs::write(&other_mesh, std::fs::read_to_string(&mesh_file).unwrap() + "\n").unwrap();
    let (nothing, other_mesh) = (mesh.beside("nothing"), other_mesh.to_str().unwrap());
    std::fs::write(&nothing, "").unwrap();
    let operator = path("operator.pub");
    let cases: [(&[&str], &str); 13] = [
        (&[empty.to_str().unwrap()], "there is no trace in"),
        (&["/does/not/exist"], "cannot read"),
        (&[&mesh_file], "is a file: name the directory"),
        (&[&traces, "--mesh", &mesh_file, other_mesh], "are two mesh files with serial 1"),
        (&[&traces, "--mesh", other_mesh, "--operator-key", &operator], "is not signed"),
        (&[&traces, "--mesh", &mesh_file, "--opening", nothing.to_str().unwrap()], "there is no opening in"),
        (&[&traces], "there is no mesh file"),
        (&[&traces, "--mesh", nonsense], "is no mesh file"),
        (&[&traces, "--mesh", &mesh_file, "--operator-key", nonsense], "operator's public key"),
        (&[&traces, "--mesh", &mesh_file, "--audit-key", nonsense], "32 bytes"),
        (&[&traces, "--mesh", &mesh_file, "--opening", nonsense], "opening 1"),
        (&[&traces, "--mesh", &mesh_file, "--since", "yesterday"], "--since"),
        (&[&traces, "--mesh", &mesh_file, "--device", "nobody"], "there is no trace of `nobody`"),
    ];
    for (arguments, sentence) in cases {
        let output = conform(&[&["audit"], arguments].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(sentence), "{arguments:?}: {said}");
    }
    // Another operator did not sign this mesh file.
    let other = Mesh::new(1, 1, 100, 9);
    let operator = other.root().join("operator.pub");
    let output = conform(&["audit", root.to_str().unwrap(), "--operator-key", operator.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("not signed by this operator"));
}
