//! Several traces of one device.

use std::path::{Path, PathBuf};

use conformance::audit::report::{Report, Verdict, rules};
use conformance::audit::sources::Given;
use conformance::audit::{json, text};
use conformance::keys::Keys;
use conformance::simulate::{START, Settings};
use pilot_core::evidence::trace::{Chain, Content, Elided, GraphName, Open, frame};
use pilot_core::evidence::{DeviceName, MeshDraft};
use pilot_core::graphs::INDIRECT_CONTROLLER;
use pilot_core::value::Time;

use super::support::{Mesh, audited, audited_with, copy};

/// The last file of a trace.
fn last_file(trace: &Path) -> PathBuf {
    let files = std::fs::read_dir(trace).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "cborseq")).max().unwrap()
}

/// Cuts a trace down to about half of its last file, at the end of a record.
fn shorten(trace: &Path) {
    let (path, mut reader) = (last_file(trace), frame::Reader::new());
    let bytes = std::fs::read(&path).unwrap();
    reader.feed(&bytes);
    let (frames, _) = reader.frames();
    let (end, _) = frames.iter().find(|(offset, _)| *offset as usize > bytes.len() / 2).unwrap();
    std::fs::write(&path, &bytes[..*end as usize]).unwrap();
}

/// All that a report says of what happened.
fn said(report: &Report) -> impl PartialEq + std::fmt::Debug {
    (report.verdict(), report.evidence, report.figures, report.holdings.clone(), report.timeline.clone())
}

/// Copies change nothing, older ones and closed ones neither, wherever they lie.
#[test]
fn copies_count_once() {
    let mesh = Mesh::with_files_of(5, 3, 6_000, 31, 16 << 10);
    let root = mesh.root();
    let alone = audited(&root);
    assert_eq!(alone.verdict(), Verdict::Conforms);
    for device in ["gate-000", "person-00002", "registry"] {
        let trace = root.join("traces").join(device);
        copy(&trace, &root.join("a backup").join(device));
        copy(&trace, &root.join("older").join(device));
        shorten(&root.join("older").join(device));
    }
    // An older copy that ends where the trace has gone on in another file.
    let older = root.join("much older/gate-001");
    copy(&root.join("traces/gate-001"), &older);
    std::fs::remove_file(last_file(&older)).unwrap();
    let with_copies = audited(&root);
    let shown = text::text(&with_copies);
    assert_eq!(said(&with_copies), said(&alone), "{shown}");
    assert!(shown.contains("a copy of "), "{shown}");
    let of = others(&with_copies, "copy");
    assert!(of.len() == 7 && of.iter().all(|of| Path::new(of).is_dir()), "{of:?}");
    assert_eq!(with_copies.open().count(), 0);

    // What is wrong with a copy is said, and what it says counts once all the same.
    let damaged = last_file(&root.join("a backup/gate-000"));
    let mut bytes = std::fs::read(&damaged).unwrap();
    let place = bytes.len() - 100;
    bytes[place] ^= 1;
    std::fs::write(&damaged, bytes).unwrap();
    let report = audited(&root);
    assert_eq!((report.evidence, report.figures), (alone.evidence, alone.figures));
    assert_eq!((report.verdict(), report.findings.len()), (Verdict::Unjudgeable, 1), "{}", text::text(&report));
    assert_eq!(report.findings[0].device, "gate-000");
}

/// Where those lie that were judged in place of traces with such an end.
fn others(report: &Report, end: &str) -> Vec<String> {
    let report = json::json(report);
    let traces = report["traces"].as_array().unwrap().iter().filter(|trace| trace["end"] == end);
    traces.map(|trace| trace["other"].as_str().unwrap().to_owned()).collect()
}

/// A device that got a new key has begun anew. What it sent is looked for in the trace that it had then.
#[test]
fn a_device_with_a_new_key() {
    // Clocks differ, so what arrives must wait for what was sent.
    let settings =
        Settings { subjects: 6, controllers: 3, events: 6_000, seed: 35, clock_skew: 120, ..Settings::default() };
    let mesh = Mesh::of(settings);
    let root = mesh.root();
    let alone = audited(&root);
    assert_eq!(alone.verdict(), Verdict::Conforms);
    let end = alone.traces.iter().filter_map(|trace| trace.period).map(|(_, last)| last.unix()).max().unwrap();
    let without = mesh.beside("without");
    copy(&root, &without);
    std::fs::remove_dir_all(without.join("traces/gate-000")).unwrap();
    let listed = MeshDraft::from_toml(&std::fs::read_to_string(root.join("mesh.toml")).unwrap()).unwrap();
    let meshes = [root.join("mesh.toml"), mesh.beside("mesh-with-another-key.toml")];
    // Before and after, whichever key comes first.
    for (serial, start) in [(0, START.unix() - 1_000), (2, end + 1_000)] {
        for secret in 1..=6 {
            let keys = Keys::new(&[secret; 32], [secret; 32]);
            let mut with_another_key = MeshDraft { serial, ..listed.clone() };
            let gate = with_another_key.devices.iter_mut().find(|device| device.name.as_str() == "gate-000").unwrap();
            gate.signing_key = keys.verifying_key();
            std::fs::write(&meshes[1], with_another_key.to_toml().unwrap()).unwrap();

            let (mut chain, name) = (Chain::new(), DeviceName::new("gate-000").unwrap());
            let graphs = vec![GraphName::of(&INDIRECT_CONTROLLER)];
            let open = Open { device: name.clone(), mesh_serial: serial, torn: 0, graphs };
            let contents = [Content::Open(open), Content::Resume(Box::default())];
            let mut bytes = contents.map(|content| chain.append(Time::from_unix(start), content).unwrap()).concat();
            let closed = Time::from_unix(start + 10);
            bytes.extend(chain.close(closed, &name, Elided::default(), false, &keys.signing).unwrap());
            let trace = mesh.beside(&format!("another-{serial}-{secret}"));
            std::fs::create_dir(&trace).unwrap();
            std::fs::write(trace.join("trace-00000000.cborseq"), bytes).unwrap();

            let given = Given { meshes: meshes.to_vec(), ..Given::default() };
            if serial == 2 {
                // Nobody is accused of what only the trace that is missing could explain.
                let report = audited_with(&[without.clone(), trace.clone()], &given);
                assert_eq!(report.verdict(), Verdict::Conforms, "{}", text::text(&report));
            }
            let report = audited_with(&[root.clone(), trace], &given);
            let shown = text::text(&report);
            assert_eq!(report.traces.iter().filter(|trace| trace.device == "gate-000").count(), 2, "{shown}");
            assert_eq!((report.verdict(), report.figures.matched), (alone.verdict(), alone.figures.matched), "{shown}");
        }
    }
}

/// What a device has signed twice, and not alike, is found where it begins.
#[test]
fn two_histories_are_found() {
    let mesh = Mesh::new(4, 3, 4_000, 32);
    let out = mesh.beside("two");
    let kind = conformance::inject::Kind::of("two-histories").unwrap();
    let expected = conformance::inject::inject(kind, &mesh.root(), &out, None, 1).unwrap();
    let report = audited(&out);
    let finding = report.findings.iter().find(|finding| finding.premise == "a device has one history");
    let finding = finding.unwrap_or_else(|| panic!("{}", text::text(&report)));
    assert_eq!(
        (&finding.device, finding.record, finding.rule.as_str()),
        (&expected.device, expected.record, rules::ANCHOR)
    );
    assert_eq!((report.verdict(), report.exit_code()), (Verdict::Unjudgeable, 2));
    // It is one fault, and is said once.
    assert_eq!(report.findings.len(), 1, "{}", text::text(&report));
    assert_eq!(others(&report, "contradicts").len(), 1);
}
