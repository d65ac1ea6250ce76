//! Π on disk, and the versions below which nothing is accepted.

use std::collections::BTreeSet;
use std::fs;

use ds_gateway::catalogue::verify::Reader;
use ds_gateway::catalogue::{Catalogue, FULL_SECONDS, Refused};
use pilot_core::evidence::{DeviceName, MeshFile};
use pilot_core::value::Time;

use super::mesh::{Mesh, name};

const MODEST: &str = "collect MACAddress by mall for ServiceUsageAnalytics until 2036-01-01";

struct Bench {
    mesh: Mesh,
    file: MeshFile,
}

impl Bench {
    fn new() -> Self {
        let mesh = Mesh::new();
        let file = mesh.open();
        Self { mesh, file }
    }

    fn reader(&self) -> Reader<'_> {
        Reader { mesh: &self.file, vocabulary: &self.mesh.vocabulary, now: self.mesh.now }
    }

    fn take(&self, catalogue: &mut Catalogue, statements: Vec<Vec<u8>>) -> Vec<Refused> {
        catalogue.take(statements, None, &self.reader())
    }

    fn stored_and_loaded(&self, catalogue: &mut Catalogue) -> Catalogue {
        let path = self.mesh.path("policies.cbor");
        catalogue.store(&path).unwrap();
        Catalogue::load(&path, &name("registry"), &self.reader()).unwrap().unwrap()
    }
}

fn listed(catalogue: &Catalogue) -> Vec<&str> {
    catalogue.offers().map(|(device, _)| device.as_str()).collect()
}

/// What was stored comes back, and is opened again; the versions come back even of what is not listed.
#[test]
fn a_stored_catalogue_is_verified_again() {
    let bench = Bench::new();
    let mut catalogue = Catalogue::new(name("registry"));
    assert!(bench.take(&mut catalogue, bench.mesh.offers()).is_empty());
    assert!(bench.take(&mut catalogue, vec![bench.mesh.statement("till", 5, None)]).is_empty());
    catalogue.complete(4, None, bench.mesh.now);
    let mut again = bench.stored_and_loaded(&mut catalogue);
    assert_eq!((listed(&again), again.head(), again.completed()), (vec!["ads", "gate"], 4, Some(bench.mesh.now)));
    assert_eq!(again.take_fresh().count(), 2, "their policies are there to be used");
    let older =
        bench.mesh.statement("till", 4, Some("collect MACAddress by bookshop for Advertising until 2036-01-01"));
    let refused = bench.take(&mut again, vec![older]);
    assert_eq!(refused, [Refused::RolledBack { device: name("till"), version: 4, known: 5 }]);

    // The operator revokes the gate: its statement does not open any more, and everything is asked for again.
    let now = bench.mesh.now;
    bench.mesh.sign(2, |draft| {
        draft.devices.iter_mut().filter(|device| device.name == name("gate")).for_each(|gate| gate.revoked = Some(now))
    });
    let bench = Bench { file: bench.mesh.open(), ..bench };
    let again = bench.stored_and_loaded(&mut catalogue);
    assert_eq!((listed(&again), again.head()), (vec!["ads"], 0));
}

/// A version is never followed by a lower one or by another statement of the same version; the same one may come again.
#[test]
fn versions_do_not_go_back() {
    let bench = Bench::new();
    let mut catalogue = Catalogue::new(name("registry"));
    let (second, third) = (bench.mesh.statement("gate", 2, Some(MODEST)), bench.mesh.statement("gate", 3, None));
    assert!(bench.take(&mut catalogue, vec![second.clone()]).is_empty());
    let another = bench.mesh.statement("gate", 2, None);
    let refused = |version, known| Refused::RolledBack { device: name("gate"), version, known };
    assert_eq!(bench.take(&mut catalogue, vec![another]), [refused(2, 2)]);
    assert!(bench.take(&mut catalogue, vec![second.clone()]).is_empty());
    assert_eq!(listed(&catalogue), ["gate"]);
    assert!(bench.take(&mut catalogue, vec![third]).is_empty());
    assert_eq!(bench.take(&mut catalogue, vec![second]), [refused(2, 3)]);
    assert!(listed(&catalogue).is_empty());
}

/// What a download of everything does not list is gone, but its version is not forgotten.
#[test]
fn a_full_download_says_what_is_gone() {
    let bench = Bench::new();
    let mut catalogue = Catalogue::new(name("registry"));
    assert!(catalogue.is_full_due(bench.mesh.now));
    let newer = bench.mesh.statement("gate", 9, Some(MODEST));
    bench.take(&mut catalogue, vec![newer]);
    let mut seen: BTreeSet<DeviceName> = BTreeSet::new();
    let refused = catalogue.take(bench.mesh.offers(), Some(&mut seen), &bench.reader());
    assert_eq!(refused, [Refused::RolledBack { device: name("gate"), version: 1, known: 9 }]);
    catalogue.complete(3, Some(&seen), bench.mesh.now);
    assert_eq!(listed(&catalogue), ["ads", "till"]);
    assert!(!catalogue.is_full_due(bench.mesh.now));
    assert!(catalogue.is_full_due(Time::from_unix(bench.mesh.now.unix() + FULL_SECONDS)));
    let mut again = bench.stored_and_loaded(&mut catalogue);
    assert_eq!(bench.take(&mut again, bench.mesh.offers()).len(), 1, "still");
}

/// Many statements are opened by several threads, and forged ones among them are found.
#[test]
fn many_statements_are_all_verified() {
    let bench = Bench::new();
    let mut statements: Vec<Vec<u8>> =
        (1..=200).map(|version| bench.mesh.statement("gate", version, Some(MODEST))).collect();
    for at in [3, 77, 150] {
        *statements[at].last_mut().unwrap() ^= 1;
    }
    let mut catalogue = Catalogue::new(name("registry"));
    let refused = bench.take(&mut catalogue, statements);
    assert_eq!(refused.len(), 3, "{refused:?}");
    assert!(refused.iter().all(|refused| matches!(refused, Refused::Unverifiable(_))));
    assert_eq!(listed(&catalogue), ["gate"], "in the order of their versions");
}

/// A damaged file is an error, not an empty one: the versions in it would be lost without a word.
#[test]
fn a_damaged_file_is_an_error() {
    let bench = Bench::new();
    let path = bench.mesh.path("policies.cbor");
    assert!(Catalogue::load(&path, &name("registry"), &bench.reader()).unwrap().is_none());
    let mut catalogue = Catalogue::new(name("registry"));
    bench.take(&mut catalogue, bench.mesh.offers());
    catalogue.store(&path).unwrap();
    let bytes = fs::read(&path).unwrap();
    for cut in [0, 1, 20, bytes.len() - 1] {
        fs::write(&path, &bytes[..cut]).unwrap();
        let error = Catalogue::load(&path, &name("registry"), &bench.reader()).unwrap_err();
        assert!(error.to_string().contains("is damaged"), "{error}");
    }
}
