//! A secret of 32 bytes is made once, read again only from a file closed to others, and shown to nobody.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use mesh_runtime::keys::KeyFileError;
use mesh_runtime::keys::secret_file::{SecretFileError, create, load, load_or_create};
use tempfile::TempDir;

const SECRET: &[u8; 32] = b"0123456789abcdef0123456789abcdef";

/// A file with these bytes and this mode.
fn file(directory: &TempDir, bytes: &[u8], mode: u32) -> PathBuf {
    let path = directory.path().join("secret");
    let _ = fs::remove_file(&path);
    fs::write(&path, bytes).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path
}

fn names(directory: &Path) -> Vec<String> {
    fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_secret_is_made_once_and_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.key");
    assert!(load(&path).unwrap().is_none());
    let made = load_or_create(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    assert_eq!(fs::read(&path).unwrap(), *made);
    assert_eq!(load_or_create(&path).unwrap(), made);
    assert_eq!(names(directory.path()), ["audit.key"]);
    assert_ne!(create(&directory.path().join("other.key")).unwrap(), made);
}

/// What a crash left of an earlier attempt is in nobody's way, and is not taken for a secret.
#[test]
fn half_a_secret_is_never_used() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.key");
    fs::write(directory.path().join("audit.key.new"), &SECRET[..7]).unwrap();
    assert_eq!(load_or_create(&path).unwrap().len(), SECRET.len());
    assert_eq!(names(directory.path()), ["audit.key"]);
}

#[test]
fn nothing_is_ever_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(&directory, SECRET, 0o600);
    let (link, target) = (directory.path().join("link"), directory.path().join("nowhere"));
    symlink(&target, &link).unwrap();
    for path in [&path, &link] {
        let error = create(path).unwrap_err();
        assert!(matches!(error, SecretFileError::File(KeyFileError::Exists(_))), "{error}");
    }
    assert!(load_or_create(&link).is_err());
    assert_eq!(fs::read(&path).unwrap(), SECRET);
    assert!(!target.exists(), "a link that leads nowhere was followed");
    assert_eq!(names(directory.path()).len(), 2, "drafts are removed");
}

#[test]
fn what_others_may_touch_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    for mode in [0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o644, 0o666] {
        let path = file(&directory, SECRET, mode);
        let error = load_or_create(&path).unwrap_err();
        let refused =
            matches!(error, SecretFileError::File(KeyFileError::Permissions { mode: found, .. }) if found == mode);
        assert!(refused, "{error}");
    }
    for mode in [0o600, 0o400] {
        assert_eq!(*load_or_create(&file(&directory, SECRET, mode)).unwrap(), *SECRET);
    }
    let error = load_or_create(directory.path()).unwrap_err();
    assert!(matches!(error, SecretFileError::File(KeyFileError::NotAFile(_))), "{error}");
}

#[test]
fn a_file_of_another_length_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let longer = SECRET.repeat(3);
    for length in [0, 31, 33, 96] {
        let error = load_or_create(&file(&directory, &longer[..length], 0o600)).unwrap_err();
        assert!(matches!(error, SecretFileError::Length(_)), "{error}");
        assert!(!format!("{error} {error:?}").contains("0123"), "{error}");
    }
}
