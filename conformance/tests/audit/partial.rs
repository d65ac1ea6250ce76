//! An auditor rarely has everything.

use std::path::PathBuf;

use conformance::audit::report::Verdict;
use conformance::audit::sources::Given;
use conformance::audit::text;

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
    assert_eq!((report.exit_code(false), report.exit_code(true)), (0, 2));
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
    assert_eq!(report.found_openings, 0);
    assert_eq!(audited(&mesh.root()).found_openings, all.lines().count() as u64);

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
    let cases: [(&[&str], &str); 9] = [
        (&[empty.to_str().unwrap()], "there is no trace in"),
        (&["/does/not/exist"], "cannot read"),
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
