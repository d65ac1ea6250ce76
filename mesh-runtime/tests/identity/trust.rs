//! A daemon believes the operator of its configuration, follows a rollover, and forgets no serial.

use std::fs;
use std::path::PathBuf;

use mesh_runtime::keys::SecretKeys;
use mesh_runtime::mesh_file::{MeshReadError, SignedMesh, Trust, TrustFileError, signature_path};
use pilot_core::evidence::keys::{Signer as _, VerifyingKey};
use pilot_core::evidence::mesh::{MeshDraft, MeshError, sign_mesh};
use pilot_core::value::Time;
use pilot_core::vocabulary::Declarations;
use tempfile::TempDir;

const NOW: Time = Time::from_unix(1_800_000_000);

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn mesh(&self) -> PathBuf {
        self.0.path().join("mesh.toml")
    }

    fn trust(&self) -> PathBuf {
        self.0.path().join("trust")
    }

    /// Writes what these operators signed, and reads it.
    fn signed(&self, serial: u64, next: Option<VerifyingKey>, by: &[&SecretKeys]) -> SignedMesh {
        let draft = MeshDraft {
            serial,
            issued: NOW,
            expires: Time::from_unix(NOW.unix() + 1000),
            next_operator_key: next,
            vocabulary: Declarations::from_toml("[entities]\nmall = []").unwrap(),
            devices: Vec::new(),
        };
        let text = draft.to_toml().unwrap();
        fs::write(self.mesh(), &text).unwrap();
        let signatures: String = by.iter().map(|operator| format!("{}\n", sign_mesh(&text, *operator))).collect();
        fs::write(signature_path(&self.mesh()), signatures).unwrap();
        SignedMesh::read(&self.mesh()).unwrap()
    }
}

fn operator() -> SecretKeys {
    SecretKeys::generate().unwrap()
}

#[test]
fn only_the_configured_operator_is_believed() {
    let (place, ours, other) = (Place::new(), operator(), operator());
    let mut trust = Trust::new(ours.verifying_key());
    assert_eq!(trust.open(&place.signed(1, None, &[&other]), NOW).unwrap_err(), MeshError::Signature);
    assert_eq!(trust, Trust::new(ours.verifying_key()), "a refused file teaches nothing");
    trust.open(&place.signed(1, None, &[&ours]), NOW).unwrap();
    // As between the steps of signing again, with the signature that counts in either place.
    trust.open(&place.signed(2, None, &[&other, &ours]), NOW).unwrap();
    trust.open(&place.signed(3, None, &[&ours, &other]), NOW).unwrap();
    assert_eq!(trust.serial(), Some(3));
}

#[test]
fn an_older_file_does_not_come_back_after_a_restart() {
    let (place, ours) = (Place::new(), operator());
    let key = ours.verifying_key();
    let mut trust = Trust::load(&place.trust(), key).unwrap();
    trust.open(&place.signed(7, None, &[&ours]), NOW).unwrap();
    trust.store(&place.trust()).unwrap();
    let mut again = Trust::load(&place.trust(), key).unwrap();
    assert_eq!(again, trust);
    let older = again.open(&place.signed(6, None, &[&ours]), NOW).unwrap_err();
    assert_eq!(older, MeshError::Older { serial: 6, known: 7 });
    again.open(&place.signed(7, None, &[&ours]), NOW).unwrap();
}

#[test]
fn a_rollover_is_followed_and_cannot_be_undone_by_the_old_key() {
    let (place, old, new) = (Place::new(), operator(), operator());
    let (old_key, new_key) = (old.verifying_key(), new.verifying_key());
    let mut trust = Trust::new(old_key);
    assert_eq!(trust.open(&place.signed(1, None, &[&new]), NOW).unwrap_err(), MeshError::Signature, "not named yet");
    trust.open(&place.signed(1, Some(new_key), &[&old]), NOW).unwrap();
    // Either may sign now, and each restart remembers it.
    trust.open(&place.signed(2, Some(new_key), &[&old]), NOW).unwrap();
    trust.store(&place.trust()).unwrap();
    let mut trust = Trust::load(&place.trust(), old_key).unwrap();
    trust.open(&place.signed(3, None, &[&new]), NOW).unwrap();
    assert_eq!(trust.operator(), new_key);
    trust.store(&place.trust()).unwrap();
    let mut trust = Trust::load(&place.trust(), old_key).unwrap();
    assert_eq!(trust.open(&place.signed(4, None, &[&old]), NOW).unwrap_err(), MeshError::Signature);
    trust.open(&place.signed(4, None, &[&new]), NOW).unwrap();
}

#[test]
fn a_planned_rollover_can_be_taken_back() {
    let (place, old, new) = (Place::new(), operator(), operator());
    let mut trust = Trust::new(old.verifying_key());
    trust.open(&place.signed(1, Some(new.verifying_key()), &[&old]), NOW).unwrap();
    trust.open(&place.signed(2, None, &[&old]), NOW).unwrap();
    assert_eq!(trust.open(&place.signed(3, None, &[&new]), NOW).unwrap_err(), MeshError::Signature);
}

/// The thief of an operator's key may have signed with a high serial: whoever configures another key starts anew.
#[test]
fn another_key_in_the_configuration_starts_anew() {
    let (place, stolen, fresh) = (Place::new(), operator(), operator());
    let mut trust = Trust::new(stolen.verifying_key());
    trust.open(&place.signed(u32::MAX.into(), None, &[&stolen]), NOW).unwrap();
    trust.store(&place.trust()).unwrap();
    let mut trust = Trust::load(&place.trust(), fresh.verifying_key()).unwrap();
    assert_eq!(trust.open(&place.signed(8, None, &[&stolen]), NOW).unwrap_err(), MeshError::Signature);
    trust.open(&place.signed(8, None, &[&fresh]), NOW).unwrap();
}

#[test]
fn a_damaged_memory_is_refused() {
    let (place, ours) = (Place::new(), operator());
    let mut trust = Trust::new(ours.verifying_key());
    trust.open(&place.signed(70, Some(operator().verifying_key()), &[&ours]), NOW).unwrap();
    trust.store(&place.trust()).unwrap();
    let text = fs::read_to_string(place.trust()).unwrap();
    let cut = (0..text.len()).map(|end| text[..end].to_owned());
    for damaged in cut.chain([format!("{text}\n"), text.replace("serial 70", "serial 070"), text.replace(' ', "  ")]) {
        fs::write(place.trust(), &damaged).unwrap();
        let result = Trust::load(&place.trust(), ours.verifying_key());
        assert!(matches!(result, Err(TrustFileError::Malformed(_))), "{damaged}");
    }
}

#[test]
fn what_is_no_signature_is_refused() {
    let (place, ours) = (Place::new(), operator());
    place.signed(1, None, &[&ours]);
    let beside = signature_path(&place.mesh());
    let line = fs::read_to_string(&beside).unwrap();
    for bad in
        [String::new(), "\n".into(), line.trim_end().into(), line.repeat(3), format!("{line}\n"), line.to_uppercase()]
    {
        fs::write(&beside, &bad).unwrap();
        assert!(matches!(SignedMesh::read(&place.mesh()), Err(MeshReadError::NotASignature(_))), "{bad}");
    }
    fs::write(&beside, line.repeat(20)).unwrap();
    assert!(matches!(SignedMesh::read(&place.mesh()), Err(MeshReadError::TooLarge { .. })));
    fs::remove_file(&beside).unwrap();
    assert!(matches!(SignedMesh::read(&place.mesh()), Err(MeshReadError::NotSigned(_))));
}
