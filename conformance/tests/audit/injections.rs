//! Every kind of violation, at places that seeds choose in several meshes: found, at the right record, by the right rule, and
//! nobody else is accused of anything.
//!
//! `INJECTIONS=10000` tries more of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use conformance::audit::report::{Finding, Report, Unjudged, rules};
use conformance::audit::text;
use conformance::inject::{Expected, InjectError, KINDS, Kind, inject};

use conformance::simulate::Settings;

use super::support::{Mesh, audited, conform};

/// How many injections are tried unless told otherwise.
const USUAL: u64 = 1_000;

fn is_found(report: &Report, expected: &Expected) -> bool {
    let is_it = report.findings.iter().any(|finding| {
        finding.device == expected.device && finding.record == expected.record && finding.rule == expected.rule
    });
    // Who has seen another history of the device has done nothing wrong, but its record shows it.
    let accuses = |finding: &Finding| finding.device != expected.device && finding.rule != rules::ANCHOR;
    is_it && report.exit_code() == expected.exit && !report.findings.iter().any(accuses)
}

/// What is missing from a trace around an interruption is nobody's fault, and said to be unjudged (docs/audit.md). Where that
/// is so, nothing is to be found.
fn is_excused(report: &Report, expected: &Expected) -> bool {
    let is_said = |unjudged: &Unjudged| unjudged.device == expected.device && unjudged.why.contains("interrupted");
    [rules::MESSAGE, rules::R1].contains(&expected.rule)
        && report.findings.is_empty()
        && report.unjudged.iter().any(is_said)
}

/// One injection; `None` if the mesh has no place for it.
fn try_one(kind: &'static Kind, mesh: &Mesh, out: &Path, seed: u64) -> Option<Result<(), String>> {
    let expected = match inject(kind, &mesh.root(), out, None, seed) {
        Err(InjectError::NoPlace { .. }) => return None,
        expected => expected.unwrap(),
    };
    let report = audited(out);
    std::fs::remove_dir_all(out).unwrap();
    if is_excused(&report, &expected) {
        return None;
    }
    let problem = || format!("seed {seed}, {expected:?}: {}", text::text(&report));
    Some(if is_found(&report, &expected) { Ok(()) } else { Err(problem()) })
}

#[test]
fn every_kind_is_found() {
    let wanted = std::env::var("INJECTIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(USUAL);
    // Few and many devices, one whose traces are long and in many files, and one whose clocks differ.
    let clocks =
        Settings { subjects: 5, controllers: 3, events: 6_000, seed: 14, clock_skew: 60, ..Settings::default() };
    let meshes = [
        Mesh::new(4, 3, 4_000, 11),
        Mesh::new(12, 4, 8_000, 12),
        Mesh::with_files_of(2, 3, 9_000, 13, 64 << 10),
        Mesh::of(clocks),
    ];
    let (next, tried) = (AtomicU64::new(0), Mutex::new(BTreeMap::<&str, u64>::new()));
    let missed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for worker in 0..2 {
            let (meshes, next, tried, missed) = (&meshes, &next, &tried, &missed);
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let total: u64 = tried.lock().unwrap().values().sum();
                    if total >= wanted || number > 3 * wanted {
                        return;
                    }
                    let kind = &KINDS[number as usize % KINDS.len()];
                    let seed = number / KINDS.len() as u64;
                    let mesh = &meshes[seed as usize % meshes.len()];
                    match try_one(kind, mesh, &mesh.beside(&format!("injected-{worker}")), seed) {
                        None => continue,
                        Some(Ok(())) => {}
                        Some(Err(problem)) => missed.lock().unwrap().push(problem),
                    }
                    *tried.lock().unwrap().entry(kind.name).or_default() += 1;
                }
            });
        }
    });
    let (tried, missed) = (tried.into_inner().unwrap(), missed.into_inner().unwrap());
    assert!(missed.is_empty(), "{} missed, for example {}", missed.len(), missed[0]);
    assert!(tried.values().sum::<u64>() >= wanted, "too few places: {tried:?}");
    let untried: Vec<&str> = KINDS.iter().map(|kind| kind.name).filter(|name| !tried.contains_key(name)).collect();
    assert_eq!(untried, [""; 0]);
}

/// In two processes, because what hash tables begin with is the same within one.
#[test]
fn equal_seeds_make_equal_traces() {
    let mesh = Mesh::new(9, 4, 8_000, 21);
    let from = mesh.root();
    for kind in KINDS {
        let [one, other] = ["one", "other"].map(|name| {
            let out = mesh.beside(name);
            conform(&["inject", kind.name, from.to_str().unwrap(), out.to_str().unwrap(), "--seed", "5"]);
            let made = files(&out, Path::new(""));
            let _ = std::fs::remove_dir_all(&out);
            made
        });
        assert!(one == other, "{}", kind.name);
    }
}

/// Every file of a directory, with its bytes; none if there is no directory.
fn files(root: &Path, below: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(root.join(below)).into_iter().flatten().map(Result::unwrap) {
        let path = below.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(root, &path));
        } else {
            found.insert(path, std::fs::read(entry.path()).unwrap());
        }
    }
    found
}
