//! Damage never conforms.
//!
//! `DAMAGES=100000 FUZZ_SEED=7` tries more of it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use conformance::audit::report::{Class, Finding, Report, Verdict, rules};
use conformance::audit::sources::Given;
use conformance::audit::text;
use conformance::keys::Keys;
use conformance::simulate::{START, Settings};
use pilot_core::evidence::mesh::CLOCK_TOLERANCE;
use pilot_core::evidence::trace::{Chain, Elided, Frame, Head, frame};
use pilot_core::evidence::{DeviceName, MeshDevice, MeshDraft};
use pilot_core::value::Time;

use super::support::{Mesh, audited, audited_with, copy};

/// How many threads turn bits, each in a copy of its own.
const WORKERS: usize = 2;
/// How many times something is damaged unless told otherwise.
const USUAL_DAMAGES: u64 = 3_000;

fn files(root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for directory in std::fs::read_dir(root.join("traces")).unwrap().map(Result::unwrap) {
        for file in std::fs::read_dir(directory.path()).unwrap().map(Result::unwrap) {
            files.push(file.path());
        }
    }
    files.sort();
    files
}

/// Damage is not overlooked, and nobody is accused because of it.
fn assert_noticed(root: &Path, what: impl std::fmt::Display) -> Report {
    let report = audited(root);
    let is_plain = report.verdict() == Verdict::Conforms && report.open().next().is_none();
    assert!(!is_plain && report.verdict() != Verdict::Violates, "{what}: {}", text::text(&report));
    report
}

/// Every single bit of a small mesh's traces, turned: never a plain "conforms".
#[test]
fn every_turned_bit_is_noticed() {
    let mesh = Mesh::new(1, 1, 48, 1);
    assert_eq!(audited(&mesh.root()).verdict(), Verdict::Conforms, "{}", text::text(&audited(&mesh.root())));
    let turned = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (root, turned) = (mesh.beside(&format!("turned-{worker}")), &turned);
            copy(&mesh.root(), &root);
            scope.spawn(move || {
                for file in files(&root) {
                    let whole = std::fs::read(&file).unwrap();
                    for bit in (worker..8 * whole.len()).step_by(WORKERS) {
                        let mut bytes = whole.clone();
                        bytes[bit / 8] ^= 1 << (bit % 8);
                        std::fs::write(&file, &bytes).unwrap();
                        assert_noticed(&root, format_args!("{}, bit {bit}", file.display()));
                        turned.fetch_add(1, Ordering::Relaxed);
                    }
                    std::fs::write(&file, &whole).unwrap();
                }
            });
        }
    });
    assert!(turned.into_inner() > 8 * 3_000);
}

/// Damage of every sort, at places that a seed chooses: bytes changed, cut out, repeated, moved, invented, or taken from
/// another trace. No crash, never a plain "conforms"; and what is wrong with a file is said with its name and place.
#[test]
fn damage_of_every_sort_is_noticed() {
    let seed = std::env::var("FUZZ_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let rounds = std::env::var("DAMAGES").ok().and_then(|text| text.parse().ok()).unwrap_or(USUAL_DAMAGES);
    let (mesh, mut rng) = (Mesh::with_files_of(2, 2, 400, 4, 16 << 10), fastrand::Rng::with_seed(seed));
    let root = mesh.beside("damaged");
    copy(&mesh.root(), &root);
    let files = files(&root);
    let mut placed = 0_u64;
    for round in 0..rounds {
        let (at, other) = (rng.usize(..files.len()), rng.usize(..files.len()));
        let (whole, other) = (std::fs::read(&files[at]).unwrap(), std::fs::read(&files[other]).unwrap());
        let damaged = damage(&whole, &other, &mut rng);
        if damaged == whole {
            continue;
        }
        std::fs::write(&files[at], &damaged).unwrap();
        let report = assert_noticed(&root, format_args!("seed {seed}, round {round}"));
        let name = files[at].file_name().unwrap().to_str().unwrap();
        placed += u64::from(report.findings.iter().any(|finding| {
            finding.class == Class::Integrity && finding.text.contains(name) && finding.text.contains("at byte ")
        }));
        std::fs::write(&files[at], &whole).unwrap();
    }
    // The others are open tails, or new beginnings that are nobody's.
    assert!(placed * 2 > rounds, "{placed} of {rounds} with file and place");
}

fn damage(whole: &[u8], other: &[u8], rng: &mut fastrand::Rng) -> Vec<u8> {
    let mut span = |bytes: &[u8], most: usize| {
        let from = rng.usize(..bytes.len());
        from..bytes.len().min(from + 1 + rng.usize(..most))
    };
    let (here, there, foreign) = (span(whole, 200), span(whole, 2_000), span(other, 2_000));
    let mut bytes = whole.to_vec();
    match rng.u8(..7) {
        0 => bytes[here].iter_mut().for_each(|byte| *byte = rng.u8(..)),
        1 => drop(bytes.drain(here)),
        2 => drop(bytes.splice(here.start..here.start, whole[there].iter().copied())),
        3 => drop(bytes.splice(here, whole[there].iter().copied())),
        4 => drop(bytes.splice(there, other[foreign].iter().copied())),
        5 => bytes.extend((0..1 + rng.usize(..300)).map(|_| rng.u8(..)).collect::<Vec<u8>>()),
        _ => bytes.truncate(here.start),
    }
    bytes
}

/// A device chains and signs nonsense: its own doing, so the seal is whole. It is said, wherever in the trace it stands, and
/// what stands before it is judged.
#[test]
fn signed_nonsense_is_noticed() {
    let mesh = Mesh::new(2, 2, 2_000, 6);
    let file = mesh.root().join("traces/gate-000/trace-00000000.cborseq");
    let whole = std::fs::read(&file).unwrap();
    let keys = Keys::read(&mesh.root().join("keys/gate-000.key")).unwrap();
    let device = DeviceName::new("gate-000").unwrap();
    for kept in [1_u8, 20] {
        let (mut length, mut head, mut time) = (0, frame::GENESIS, Time::default());
        for _ in 0..kept {
            let next = Frame::first(&whole[length..]).unwrap().unwrap();
            (head, time) = (next.hash, Head::of(next.body).unwrap().time);
            length += next.length;
        }
        // A policy that is a text.
        let body =
            [&[0x84, 0x01, kept, 0x1a][..], &u32::try_from(time.unix()).unwrap().to_be_bytes(), &[0x60]].concat();
        let hash = frame::hash(head, &body);
        let mut bytes = whole[..length].to_vec();
        bytes.extend(
            [&[0x83, 0x58, 0x20][..], &head.0, &[0x40 | body.len() as u8], &body, &[0x58, 0x20], &hash.0].concat(),
        );
        let mut chain = Chain::resume(hash, u64::from(kept) + 1);
        bytes.extend(chain.close(time, &device, Elided::default(), false, &keys.signing).unwrap());
        std::fs::write(&file, &bytes).unwrap();
        let report = audited(&mesh.root());
        let finding = report.findings.iter().find(|finding| finding.rule == rules::CHAIN).unwrap();
        assert_eq!((finding.device.as_str(), finding.record), ("gate-000", u64::from(kept)), "{}", text::text(&report));
        assert_ne!(report.exit_code(), 0);
        std::fs::write(&file, &whole).unwrap();
    }
}

/// A signature counts only while the mesh file lets the device sign.
#[test]
fn signatures_outside_the_device_s_time_do_not_count() {
    let mesh = Mesh::new(2, 2, 2_000, 5);
    let root = mesh.beside("revoked");
    copy(&mesh.root(), &root);
    let unverified = Given { meshes: vec![root.join("mesh.toml")], ..Given::default() };
    let whole = audited_with(std::slice::from_ref(&root), &unverified);
    assert_eq!(whole.verdict(), Verdict::Conforms, "{}", text::text(&whole));
    let trace = whole.traces.iter().find(|trace| trace.device == "gate-001").unwrap();
    let (first, last) = trace.period.unwrap();
    let middle = Time::from_unix((first.unix() + last.unix()) / 2);
    let text = std::fs::read_to_string(root.join("mesh.toml")).unwrap();
    let changes: [fn(&mut MeshDevice, Time); 3] = [
        |device, middle| device.revoked = Some(middle),
        |device, middle| device.valid_until = middle,
        |device, middle| device.valid_from = middle,
    ];
    for change in changes {
        let mut draft = MeshDraft::from_toml(&text).unwrap();
        let gate = draft.devices.iter_mut().find(|device| device.name.as_str() == "gate-001").unwrap();
        change(gate, middle);
        std::fs::write(root.join("mesh.toml"), draft.to_toml().unwrap()).unwrap();
        let report = audited_with(std::slice::from_ref(&root), &unverified);
        assert_eq!(report.exit_code(), 2, "{}", text::text(&report));
        let finding = report.findings.iter().find(|finding| finding.rule == rules::SIGNATURE).unwrap();
        assert_eq!(finding.device, "gate-001");
        assert!(finding.text.contains("the key that signed it at"), "{}", finding.text);
    }
}

/// A trace that was cut off is open: what is ignored is said, and nothing after the last signature is believed.
#[test]
fn every_cut_is_open_or_damaged() {
    let mesh = Mesh::new(1, 1, 48, 2);
    let root = mesh.root();
    for file in files(&root) {
        let whole = std::fs::read(&file).unwrap();
        for at in (0..whole.len()).step_by(7) {
            std::fs::write(&file, &whole[..at]).unwrap();
            assert_noticed(&root, format_args!("{}, cut at {at}", file.display()));
        }
        std::fs::write(&file, &whole).unwrap();
    }
}

/// A file that is missing between two others is named; before the first one, others may have been archived.
#[test]
fn a_missing_file_is_named() {
    let mesh = Mesh::with_files_of(3, 2, 6_000, 11, 16 << 10);
    let root = mesh.root();
    let of_gate: Vec<PathBuf> =
        files(&root).into_iter().filter(|path| path.parent().unwrap().ends_with("gate-000")).collect();
    assert!(of_gate.len() > 3, "{of_gate:?}");
    let aside = mesh.beside("aside");
    std::fs::rename(&of_gate[1], &aside).unwrap();
    let report = audited(&root);
    assert_eq!(report.exit_code(), 2, "{}", text::text(&report));
    let finding = report.findings.iter().find(|finding| finding.device == "gate-000").unwrap();
    assert!(finding.text.contains(&format!("{}` is missing", of_gate[1].display())), "{}", finding.text);
    std::fs::rename(&aside, &of_gate[1]).unwrap();

    std::fs::remove_file(&of_gate[0]).unwrap();
    let report = audited(&root);
    assert_eq!(report.exit_code(), 2, "{}", text::text(&report));
    let finding = report.findings.iter().find(|finding| finding.device == "gate-000").unwrap();
    assert_eq!(finding.rule, rules::SEQUENCE, "{}", finding.text);
}

/// Who takes part and which words there are, only the mesh file says that a trace names, or a later one.
#[test]
fn a_mesh_file_that_is_too_old() {
    let mesh = Mesh::new(2, 2, 2_000, 6);
    let root = mesh.beside("older");
    copy(&mesh.root(), &root);
    let path = root.join("mesh.toml");
    let mut draft = MeshDraft::from_toml(&std::fs::read_to_string(&path).unwrap()).unwrap();
    draft.serial -= 1;
    std::fs::write(&path, draft.to_toml().unwrap()).unwrap();
    let report = audited_with(&[root], &Given { meshes: vec![path], ..Given::default() });
    assert_eq!(report.exit_code(), 2, "{}", text::text(&report));
    assert!(report.findings.iter().all(|finding| finding.rule == rules::MESH), "{}", text::text(&report));
    assert!(
        report.findings[0].text.contains("it names mesh file 1, and the newest one here is 0"),
        "{}",
        text::text(&report)
    );
}

/// Whatever is missing or cut off, nobody is accused: of what is there, everything conforms.
#[test]
fn nobody_is_accused_for_what_is_missing() {
    let seed = std::env::var("FUZZ_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let rounds = std::env::var("DAMAGES").ok().and_then(|text| text.parse().ok()).unwrap_or(USUAL_DAMAGES) / 10;
    // Sometimes with clocks that differ.
    let clock_skew = (seed % 3) * CLOCK_TOLERANCE / 2;
    let settings = Settings { subjects: 5, controllers: 3, events: 4_000, seed, clock_skew, file_bytes: 16 << 10 };
    let (mesh, mut rng) = (Mesh::of(settings), fastrand::Rng::with_seed(seed));
    let root = mesh.beside("less");
    copy(&mesh.root(), &root);
    let (files, openings) = (files(&root), root.join("audit/openings"));
    let said = std::fs::read_to_string(&openings).unwrap();
    let (mut verdicts, mut unjudged) = ([0_u64; 2], 0);
    for round in 0..rounds {
        // Most of the time only some of it.
        let is_rare = rng.u8(1..=20);
        let mut changed = Vec::new();
        for file in &files {
            let lot = rng.u8(..100);
            if lot >= 2 * is_rare {
                continue;
            }
            let whole = std::fs::read(file).unwrap();
            if lot.is_multiple_of(2) {
                std::fs::remove_file(file).unwrap();
            } else {
                std::fs::write(file, &whole[..rng.usize(..whole.len())]).unwrap();
            }
            changed.push((file, whole));
        }
        let kept: Vec<&str> = said.lines().filter(|_| rng.u8(..20) >= is_rare).collect();
        std::fs::write(&openings, kept.join("\n")).unwrap();
        if files.iter().any(|file| file.exists()) {
            let report = audited(&root);
            assert_ne!(report.verdict(), Verdict::Violates, "seed {seed}, round {round}: {}", text::text(&report));
            verdicts[usize::from(report.verdict() == Verdict::Conforms)] += 1;
            unjudged += u64::from(!report.unjudged.is_empty());
        }
        for (file, whole) in changed {
            std::fs::write(file, whole).unwrap();
        }
    }
    assert!(verdicts.iter().all(|count| *count > 0) && unjudged * 2 > rounds, "{verdicts:?}, {unjudged} of {rounds}");
}

/// A mesh file may lack a device that traces speak of: it is another one, or the device was made up. That excuses nobody, and
/// accuses nobody.
#[test]
fn a_device_that_no_mesh_file_lists() {
    let mesh = Mesh::new(4, 3, 4_000, 10);
    let root = mesh.beside("unlisted");
    copy(&mesh.root(), &root);
    std::fs::remove_dir_all(root.join("traces/gate-002")).unwrap();
    let path = root.join("mesh.toml");
    let mut draft = MeshDraft::from_toml(&std::fs::read_to_string(&path).unwrap()).unwrap();
    draft.devices.retain(|device| device.name.as_str() != "gate-002");
    std::fs::write(&path, draft.to_toml().unwrap()).unwrap();
    let report = audited_with(&[root], &Given { meshes: vec![path], ..Given::default() });
    assert_eq!(report.exit_code(), 2, "{}", text::text(&report));
    let is_said = |finding: &Finding| finding.rule == rules::MESH && finding.text.contains("lists `gate-002`");
    assert!(report.findings.iter().any(is_said), "{}", text::text(&report));
}

/// What a revoked key has signed before is judged, and that a thief could have signed it is said.
#[test]
fn a_revoked_key_is_said_to_be() {
    let mesh = Mesh::new(2, 2, 2_000, 15);
    let path = mesh.root().join("mesh.toml");
    let mut draft = MeshDraft::from_toml(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let gate = draft.devices.iter_mut().find(|device| device.name.as_str() == "gate-001").unwrap();
    gate.revoked = Some(Time::from_unix(START.unix() + 1_000_000));
    std::fs::write(&path, draft.to_toml().unwrap()).unwrap();
    let report = audited_with(&[mesh.root()], &Given::default());
    assert_eq!(report.verdict(), Verdict::Conforms, "{}", text::text(&report));
    let said = report.unjudged.iter().find(|unjudged| unjudged.device == "gate-001").unwrap();
    assert!(said.why.contains("its key is revoked since"), "{}", said.why);
}

/// A missing device is no damage, a file without a record is.
#[test]
fn missing_files() {
    let mesh = Mesh::new(3, 2, 2_000, 3);
    let root = mesh.beside("fewer");
    copy(&mesh.root(), &root);
    std::fs::remove_file(root.join("traces/gate-000/trace-00000000.cborseq")).unwrap();
    let report = audited(&root);
    assert_eq!(report.verdict(), Verdict::Conforms, "{}", text::text(&report));
    assert!(!report.unjudged.is_empty());

    // Nothing at all, and files of nothing.
    std::fs::write(root.join("traces/gate-000/trace-00000000.cborseq"), b"").unwrap();
    assert_eq!(audited(&root).verdict(), Verdict::Unjudgeable);
    let empty = mesh.beside("empty");
    std::fs::create_dir_all(empty.join("traces/gate-000")).unwrap();
    std::fs::write(empty.join("traces/gate-000/trace-00000000.cborseq"), b"").unwrap();
    let given = conformance::audit::sources::Given { meshes: vec![root.join("mesh.toml")], ..mesh.given() };
    let report = audited_with(&[empty], &given);
    assert_eq!((report.verdict(), report.exit_code()), (Verdict::Unjudgeable, 2));
}
