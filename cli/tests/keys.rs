//! `keys new` and `keys show`: secrets stay in their file.

#![expect(clippy::unwrap_used, reason = "a test that cannot write its files has failed")]

mod support;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

use support::Directory;

/// The secret digits in a key file.
fn secrets(directory: &Directory, file: &str) -> Vec<String> {
    let text = directory.read(file);
    text.lines().skip(1).map(|line| line.split_once(':').unwrap().1.to_owned()).collect()
}

fn chmod(directory: &Directory, file: &str, mode: u32) {
    fs::set_permissions(directory.path(file), Permissions::from_mode(mode)).unwrap();
}

#[test]
fn new_keys_are_private_and_shown_in_public() {
    let directory = Directory::new();
    let public = directory.run(&["keys", "new", "gate.key"]).quietly(0);
    let lines: Vec<&str> = public.lines().collect();
    assert!(lines.len() == 2 && lines[0].starts_with("ed25519:") && lines[1].starts_with("x25519:"), "{public}");
    assert_eq!(fs::metadata(directory.path("gate.key")).unwrap().permissions().mode() & 0o7777, 0o600);
    assert_eq!(directory.run(&["keys", "show", "gate.key"]).quietly(0), public);
    assert_ne!(directory.run(&["keys", "new", "other.key"]).quietly(0), public);
    for secret in secrets(&directory, "gate.key") {
        assert!(secret.len() == 64 && !public.contains(&secret));
    }
}

/// Whatever the umask, and it is private from the first moment on.
#[test]
fn the_mode_does_not_depend_on_the_umask() {
    let directory = Directory::new();
    directory.run_in_shell("umask 000; \"$@\"", &["keys", "new", "gate.key"]).quietly(0);
    assert_eq!(fs::metadata(directory.path("gate.key")).unwrap().permissions().mode() & 0o7777, 0o600);
}

#[test]
fn keys_are_never_overwritten() {
    let directory = Directory::new();
    directory.run(&["keys", "new", "gate.key"]).quietly(0);
    let before = directory.read("gate.key");
    let err = directory.run(&["keys", "new", "gate.key"]).refused();
    assert_eq!(err, "error: `gate.key` exists already, and keys are never overwritten\n");
    assert_eq!(directory.read("gate.key"), before);
    let err = directory.run(&["keys", "new", "nowhere/gate.key"]).refused();
    assert!(err.starts_with("error: cannot use the key file `nowhere/gate.key`: No such file"), "{err}");
}

#[test]
fn key_files_that_are_open_to_others_are_refused() {
    let directory = Directory::new();
    directory.run(&["keys", "new", "gate.key"]).quietly(0);
    symlink("gate.key", directory.path("link.key")).unwrap();
    directory.run(&["keys", "show", "link.key"]).quietly(0);
    for mode in [0o640, 0o604, 0o660, 0o601] {
        chmod(&directory, "gate.key", mode);
        for file in ["gate.key", "link.key"] {
            let err = directory.run(&["keys", "show", file]).refused();
            let said = format!("error: `{file}` holds secret keys but has mode {mode:04o}: others may have read them");
            assert!(err.starts_with(&said) && err.lines().count() == 1, "{err}");
        }
    }
    chmod(&directory, "gate.key", 0o600);
    // Only root can give a file away.
    if chown(directory.path("gate.key"), Some(65_534), None).is_ok() {
        let err = directory.run(&["keys", "show", "gate.key"]).refused();
        assert!(err.contains("belongs to user 65534, and this is user 0"), "{err}");
    }
}

/// A key file given to any other command by mistake is refused at its first line, which has no secret.
#[test]
fn no_command_shows_a_secret() {
    let directory = Directory::new();
    directory.run(&["keys", "new", "gate.key"]).quietly(0);
    directory.run(&["keys", "new", "op.key"]).quietly(0);
    directory.write("v.toml", "entities = { mall = [] }");
    directory.run(&["mesh", "new", "mesh.toml", "--vocabulary", "v.toml"]).quietly(0);
    for extension in ["toml", "json", "jsonl", "cbor", "pilot"] {
        fs::copy(directory.path("gate.key"), directory.path(&format!("gate.{extension}"))).unwrap();
    }
    directory.write("broken.key", directory.read("gate.key").replace("x25519", "y25519"));
    chmod(&directory, "broken.key", 0o600);
    let text = directory.read("gate.key");
    let pasted: Vec<&str> = text.lines().skip(1).collect();
    let operator = directory.run(&["keys", "show", "op.key"]).quietly(0);
    let operator = operator.lines().next().unwrap();
    fs::copy(directory.path("gate.key"), directory.path("mesh.toml.sig")).unwrap();
    let add = ["mesh", "add", "mesh.toml", "--device", "gate", "--role", "controller", "--entity", "mall", "--keys"];
    let mut runs: Vec<Vec<&str>> = vec![
        vec!["keys", "show", "broken.key"],
        vec!["vocabulary", "check", "gate.key"],
        vec!["policy", "check", "gate.pilot"],
        vec!["policy", "check", "gate.json"],
        vec!["policy", "check", "gate.jsonl"],
        vec!["policy", "check", "gate.cbor"],
        vec!["policy", "fmt", "gate.pilot"],
        vec!["mesh", "new", "new.toml", "--vocabulary", "gate.key"],
        vec!["mesh", "sign", "gate.toml", "--key", "op.key"],
        vec!["mesh", "revoke", "gate.toml", "--device", "gate"],
        vec!["mesh", "verify", "mesh.toml", "--operator", operator],
        vec!["mesh", "verify", "mesh.toml", "--operator", pasted[0]],
        vec!["mesh", "sign", "mesh.toml", "--key", "op.key", "--next-operator", pasted[0]],
    ];
    runs.push([add.as_slice(), &[pasted[0], pasted[1]]].concat());
    for run in runs {
        let err = directory.run(&run).refused();
        for secret in secrets(&directory, "gate.key") {
            assert!(!err.contains(&secret[..16]), "{run:?}: {err}");
        }
    }
}
