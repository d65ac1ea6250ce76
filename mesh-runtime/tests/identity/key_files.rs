//! Secret keys are made once, read only from files closed to others, and shown to nobody.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use mesh_runtime::keys::{KeyFileError, MAX_KEY_FILE_BYTES, SecretKeys};
use pilot_core::evidence::keys::Signer as _;
use tempfile::TempDir;

/// RFC 8032 §7.1, test 1.
const SIGNING: (&str, &str) = (
    "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
    "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
);
/// RFC 7748 §6.1, Alice.
const SEALING: (&str, &str) = (
    "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a",
    "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a",
);

fn directory() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn known_text() -> String {
    format!("consent-mesh secret keys 1\ned25519-secret:{}\nx25519-secret:{}\n", SIGNING.0, SEALING.0)
}

/// A file with this text and this mode.
fn file(directory: &TempDir, name: &str, text: impl AsRef<[u8]>, mode: u32) -> PathBuf {
    let path = directory.path().join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn new_keys_are_read_again_and_sign() {
    let directory = directory();
    let path = directory.path().join("gate.key");
    let made = SecretKeys::create(&path).unwrap();
    assert_eq!(mode(&path), 0o600);
    let read = SecretKeys::load(&path).unwrap();
    assert_eq!(read.public(), made.public());
    assert!(made.verifying_key().verifies(b"yes", &read.sign(b"yes")));
    assert!(!made.verifying_key().verifies(b"no", &read.sign(b"yes")));
    let other = SecretKeys::generate().unwrap();
    assert_ne!(other.public().signing, made.public().signing);
    assert_ne!(other.public().sealing, made.public().sealing);
}

/// Reference: RFC 8032 §7.1, test 1; RFC 7748 §6.1.
#[test]
fn public_keys_are_those_of_the_standards() {
    let directory = directory();
    let keys = SecretKeys::load(&file(&directory, "known.key", known_text(), 0o400)).unwrap();
    assert_eq!(keys.public().to_string(), format!("ed25519:{}\nx25519:{}", SIGNING.1, SEALING.1));
    let bob = SecretKeys::generate().unwrap();
    let there = keys.sealing_secret().diffie_hellman(&(*bob.public().sealing.as_bytes()).into());
    let back = bob.sealing_secret().diffie_hellman(&(*keys.public().sealing.as_bytes()).into());
    assert_eq!(there.as_bytes(), back.as_bytes());
}

#[test]
fn nothing_is_ever_overwritten() {
    let directory = directory();
    let path = file(&directory, "there.key", "precious", 0o600);
    let (link, target) = (directory.path().join("link.key"), directory.path().join("nowhere"));
    symlink(&target, &link).unwrap();
    for path in [&path, &link, directory.path()] {
        assert!(matches!(SecretKeys::create(path), Err(KeyFileError::Exists(_))), "{path:?}");
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    assert!(!target.exists(), "a link that leads nowhere was followed");
}

#[test]
fn what_others_may_touch_is_refused() {
    let directory = directory();
    for mode in [0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o644, 0o666, 0o777, 0o440] {
        let path = file(&directory, "open.key", known_text(), mode);
        let error = SecretKeys::load(&path).unwrap_err();
        assert!(matches!(error, KeyFileError::Permissions { mode: found, .. } if found == mode), "{error}");
        let link = directory.path().join(format!("link-{mode:o}.key"));
        symlink(&path, &link).unwrap();
        assert!(matches!(SecretKeys::load(&link), Err(KeyFileError::Permissions { .. })), "{mode:o}");
        fs::remove_file(&path).unwrap();
    }
    let good = file(&directory, "good.key", known_text(), 0o600);
    let link = directory.path().join("good-link.key");
    symlink(&good, &link).unwrap();
    SecretKeys::load(&link).unwrap();
}

#[test]
fn what_belongs_to_somebody_else_is_refused() {
    let directory = directory();
    let mut path = file(&directory, "theirs.key", known_text(), 0o600);
    // Only root can give a file away; for everybody else this one is somebody else's.
    if chown(&path, Some(65_534), None).is_err() {
        path = "/etc/passwd".into();
    }
    let error = SecretKeys::load(&path).unwrap_err();
    assert!(matches!(error, KeyFileError::Owner { .. }), "{error}");
}

#[test]
fn what_is_no_file_is_refused_without_waiting() {
    let directory = directory();
    let pipe = directory.path().join("pipe");
    assert!(Command::new("mkfifo").args(["-m", "600"]).arg(&pipe).status().unwrap().success());
    for path in [&pipe, directory.path()] {
        assert!(matches!(SecretKeys::load(path), Err(KeyFileError::NotAFile(_))), "{path:?}");
    }
    let missing = SecretKeys::load(&directory.path().join("missing")).unwrap_err();
    assert!(matches!(missing, KeyFileError::Io { .. }), "{missing}");
}

#[test]
fn a_damaged_file_is_refused() {
    let directory = directory();
    let text = known_text();
    let mut damaged: Vec<Vec<u8>> = (0..text.len()).map(|end| text.as_bytes()[..end].to_vec()).collect();
    damaged.extend([
        format!("{text}\n").into(),
        format!("{text}more").into(),
        text.replace('\n', "\r\n").into(),
        text.to_uppercase().into(),
        text.replace(SIGNING.0, &SIGNING.0.to_uppercase()).into(),
        text.replace("-secret", "").into(),
        text.replace("keys 1", "keys 1 ").into(),
        format!("{text}{}", "#".repeat(MAX_KEY_FILE_BYTES)).into(),
        b"\xff\xfe".to_vec(),
    ]);
    for bytes in damaged {
        let path = file(&directory, "damaged.key", &bytes, 0o600);
        let error = SecretKeys::load(&path).unwrap_err();
        assert!(
            matches!(error, KeyFileError::Malformed(_) | KeyFileError::Version(_)),
            "{error}: {}",
            bytes.escape_ascii()
        );
        assert!(!error.to_string().contains(&SIGNING.0[..8]), "{error}");
    }
    let path = file(&directory, "later.key", text.replace("keys 1", "keys 2"), 0o600);
    assert!(matches!(SecretKeys::load(&path), Err(KeyFileError::Version(_))));
}

#[test]
fn debug_shows_no_secret() {
    let directory = directory();
    let keys = SecretKeys::load(&file(&directory, "known.key", known_text(), 0o600)).unwrap();
    let shown = format!("{keys:?} {keys:#?}");
    assert!(shown.contains(SIGNING.1) && shown.contains(SEALING.1), "{shown}");
    assert!(!shown.contains(SIGNING.0) && !shown.contains(SEALING.0), "{shown}");
}
