//! `consent-mesh demo`, as a user runs it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use conformance::audit::report::{Filter, Verdict};
use conformance::audit::sources::{Given, Sources};
use conformance::audit::{Progress, audit};
use consent_mesh_tests::PATIENCE;
use consent_mesh_tests::process::binary;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// The processes whose command line names this directory.
fn processes_of(root: &Path) -> usize {
    let root = root.to_str().unwrap();
    let command_line = |entry: std::fs::DirEntry| std::fs::read_to_string(entry.path().join("cmdline")).ok();
    let all = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok).filter_map(command_line);
    all.filter(|line| line.contains("--config") && line.contains(root)).count()
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn start(arguments: &[&str], keep: &Path) -> Child {
    let mut demo = Command::new(binary());
    demo.arg("demo").args(arguments).arg("--keep").arg(keep).stdout(Stdio::piped()).stderr(Stdio::piped());
    demo.spawn().unwrap()
}

fn subjects(held: &Value) -> BTreeSet<&str> {
    held.as_array().unwrap().iter().map(|held| held["subject"].as_str().unwrap()).collect()
}

/// Controllers hold what people allow; who changed her mind is gone; everything that is promised is kept; nothing is left.
#[test]
fn the_mall() {
    let directory = TempDir::new().unwrap();
    let root = directory.path().join("kept");
    let output = start(&["--seconds", "30", "--json"], &root).wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let controllers = report["controllers"].as_array().unwrap();
    let ids: Vec<&str> = controllers.iter().map(|controller| controller["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["mall-gate", "shop-gate", "advertiser-gate"]);
    let expected: [&[&str]; 3] = [&["alice", "carol"], &["alice", "bob", "carol"], &["alice"]];
    for (controller, expected) in controllers.iter().zip(expected) {
        assert_eq!(subjects(&controller["held"]), expected.iter().copied().collect(), "{controller}");
        let until = controller["held"][0]["until"].as_u64().unwrap();
        assert!(until > consent_mesh_tests::now().unix());
    }
    let decided = |subject: &str, controller: &str| {
        let subject = report["subjects"].as_array().unwrap().iter().find(|known| known["id"] == subject).unwrap();
        let mut decisions = subject["decisions"].as_array().unwrap().iter();
        let decision = decisions.find(|decision| decision["controller"] == controller).unwrap().clone();
        (decision["accepted"].as_bool().unwrap(), decision["why"].as_str().unwrap().to_owned())
    };
    assert!(decided("alice", "advertiser-gate").0);
    assert!(decided("erin", "mall-gate").1.contains("withdrawn"));
    assert!(!decided("dave", "shop-gate").0);
    let kept = ["mesh.toml", "mesh.toml.sig", "traces/alice", "traces/mall-gate", "data/registry"];
    for kept in kept.iter().chain(&["audit/shop-gate.key", "audit/alice.opening"]) {
        assert!(root.join(kept).exists(), "{kept}");
    }
    assert_eq!(report["audit"]["verdict"], "conforms", "{}", report["audit"]);
    assert_eq!(report["audit"]["unjudged"], serde_json::json!([]));
    assert_eq!(report["traces"], root.join("traces").canonicalize().unwrap().to_str().unwrap());
    assert_eq!(processes_of(&root), 0);
    one_controller_shows_signatures(&root);
}

/// An auditor who has nothing but one controller's trace, audit key and signed consents knows that people have signed; and
/// notices if what is shown is of something else.
fn one_controller_shows_signatures(root: &Path) {
    let (key, consents) = (root.join("audit/mall-gate.key"), root.join("audit/mall-gate.consents"));
    let given = Given {
        meshes: vec![root.join("mesh.toml")],
        operator: Some(root.join("operator.pub")),
        keys: vec![key],
        consents: vec![consents.clone()],
        ..Given::default()
    };
    let audited = |given: &Given| {
        let sources = Sources::find(&[root.join("traces/mall-gate")], given).unwrap();
        audit(&sources, Filter::default(), &Progress::default())
    };
    let report = audited(&given);
    assert_eq!(report.verdict(), Verdict::Conforms);
    // Erin has signed, too; but she has withdrawn, and her signature was erased with her address.
    assert_eq!((report.evidence.witnessed, report.evidence.signed), (0, 2), "{:?}", report.evidence);
    let unshown = audited(&Given { consents: Vec::new(), ..given.clone() });
    assert_eq!((unshown.verdict(), unshown.evidence.signed), (Verdict::Conforms, 0));
    assert!(unshown.unjudged.iter().any(|unjudged| unjudged.why.contains("not shown the signature")));

    // Alice's signature, said by somebody to be about Carol's address: that proves nothing, and nothing against the gate.
    let lines = std::fs::read_to_string(&consents).unwrap();
    let mut shown: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let other = shown[1]["item"].clone();
    shown[0]["item"] = other;
    std::fs::write(&consents, shown.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    let report = audited(&given);
    assert_eq!((report.verdict(), report.evidence.signed), (Verdict::Conforms, 1));
}

/// Ctrl-C ends everything in order; kill -9 of the demo itself leaves no process behind either.
#[test]
fn nothing_is_left() {
    let directory = TempDir::new().unwrap();
    let roots = [directory.path().join("interrupted"), directory.path().join("killed")];
    for root in &roots {
        let mut demo = start(&["--seconds", "600", "--subjects", "2", "--controllers", "1"], root);
        until("all four daemons run", || processes_of(root) == 4);
        until("they answer", || root.join("data/bob/control.sock").exists());
        if root.ends_with("killed") {
            demo.kill().unwrap();
            demo.wait().unwrap();
        } else {
            let pid = Pid::from_raw(i32::try_from(demo.id()).unwrap()).unwrap();
            kill_process(pid, Signal::INT).unwrap();
            let output = demo.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            assert!(String::from_utf8(output.stdout).unwrap().contains("What each controller holds at the end"));
        }
        until("no process is left", || processes_of(root) == 0);
    }
}

/// A directory that exists is not touched.
#[test]
fn nothing_is_overwritten() {
    let directory = TempDir::new().unwrap();
    let output = start(&["--seconds", "3"], directory.path()).wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("exists"));
}

/// Somebody changes one record: the audit says which, and the exit code is that of damaged traces.
#[test]
fn tampering_is_found() {
    let output = Command::new(binary()).args(["demo", "--seconds", "8", "--tamper"]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    let changed = said.lines().find_map(|line| line.strip_prefix("Somebody has changed a bit in record ")).unwrap();
    let (record, device) = changed.trim_end_matches('.').split_once(" of the trace of ").unwrap();
    // With its time, if the trace was signed before.
    let found = |line: &str| line.split(", ").take(2).eq([&*format!("1. {device}"), &*format!("record {record}")]);
    assert!(said.lines().any(found), "{said}");
}
