//! What other people decide: a controller's vocabulary, what lies in a directory, the names of files.

mod support;

use std::os::unix::net::UnixListener;
use support::Directory;

const HONEST: &str = "entities = { shop = [], broker = [] }\ndatatypes = { cookie = [] }\npurposes = { ads = [] }\n";
const RIGGED: &str =
    "entities = { shop = [], broker = ['shop'] }\ndatatypes = { cookie = [] }\npurposes = { ads = [] }\n";
const ALICE: &str = "policy alice { collect cookie by shop for ads until 2030-01-01 }";
const BROKER: &str = "policy offer { collect cookie by broker for ads until 2030-01-01 }";

/// A subject and a controller, each in a directory of its own.
fn two_sides() -> Directory {
    let directory = Directory::new();
    for (side, file, policy) in [("alice", "alice/own.pilot", ALICE), ("broker", "broker/offer.pilot", BROKER)] {
        directory.make(side);
        directory.write(file, policy);
    }
    directory
}

const COMPARE: [&str; 4] = ["policy", "compare", "broker/offer.pilot", "alice/own.pilot"];
const DIFF: [&str; 6] = ["policy", "diff", "broker/offer.pilot", "new/offer.pilot", "--against", "alice"];

/// Where a broker is a kind of shop, Alice, who accepts the shop, accepts the broker. That is not for the broker to say.
#[test]
fn a_controller_does_not_choose_the_vocabulary() {
    let directory = two_sides();
    directory.write("broker/vocabulary.toml", RIGGED);
    assert_eq!(
        directory.run(&COMPARE).refused(),
        "error: broker/vocabulary.toml: this is the controller's vocabulary, and there is none beside the subject's \
         policies: choose one with --vocabulary FILE\n"
    );

    directory.write("alice/vocabulary.toml", HONEST);
    assert_eq!(
        directory.run(&COMPARE).refused(),
        "error: alice/vocabulary.toml and broker/vocabulary.toml differ: choose one with --vocabulary FILE\n"
    );
    for (chosen, code) in [("alice/vocabulary.toml", 1), ("broker/vocabulary.toml", 0)] {
        directory.run(&[COMPARE.as_slice(), &["--vocabulary", chosen]].concat()).quietly(code);
    }

    directory.write("broker/vocabulary.toml", HONEST);
    let out = directory.run(&COMPARE).quietly(1);
    assert!(out.starts_with("offer: refused: "), "{out}");
    std::fs::remove_file(directory.path("broker/vocabulary.toml")).unwrap();
    assert_eq!(directory.run(&COMPARE).quietly(1), out);
    std::fs::remove_file(directory.path("alice/vocabulary.toml")).unwrap();
    let err = directory.run(&COMPARE).refused();
    assert!(err.contains("names are looked up in the built-in vocabulary"), "{err}");
}

/// It may come from anywhere, and the working directory may be the controller's.
#[test]
fn standard_input_has_no_vocabulary_beside_it() {
    let directory = two_sides();
    directory.write("vocabulary.toml", RIGGED);
    directory.write("offer.pilot", BROKER);
    let err = directory.run_with(&["policy", "compare", "offer.pilot", "-"], ALICE).refused();
    assert!(err.starts_with("error: vocabulary.toml: this is the controller's vocabulary"), "{err}");
    directory.write("alice/vocabulary.toml", HONEST);
    directory.run_with(&["policy", "compare", "-", "alice/own.pilot"], BROKER).quietly(1);
}

#[test]
fn diff_uses_the_vocabulary_of_the_subjects() {
    let directory = two_sides();
    directory.make("new");
    directory.write("new/offer.pilot", BROKER);
    for controller in ["broker/vocabulary.toml", "new/vocabulary.toml"] {
        directory.write(controller, RIGGED);
        let err = directory.run(&DIFF).refused();
        assert!(err.starts_with(&format!("error: {controller}: this is the controller's vocabulary")), "{err}");
        directory.write("alice/vocabulary.toml", HONEST);
        let err = directory.run(&DIFF).refused();
        assert!(err.starts_with(&format!("error: alice/vocabulary.toml and {controller} differ")), "{err}");
        std::fs::remove_file(directory.path(controller)).unwrap();
        assert_eq!(directory.run(&DIFF).quietly(0), "0 gained, 0 lost, 0 kept, 1 still refused\n");
        std::fs::remove_file(directory.path("alice/vocabulary.toml")).unwrap();
    }
}

/// Nobody named what lies in a directory: nobody is kept waiting by it.
#[test]
fn only_regular_files_of_a_directory_are_read() {
    let directory = Directory::flights();
    directory.make("subjects");
    for file in ["vocabulary.toml", "alice.pilot"] {
        directory.write(&format!("subjects/{file}"), directory.read(file));
    }
    std::os::unix::fs::symlink("../alice.pilot", directory.path("subjects/link.pilot")).unwrap();
    std::os::unix::fs::symlink("nowhere", directory.path("subjects/broken.pilot")).unwrap();
    directory.make("subjects/directory.pilot");
    directory.make_pipe("subjects/pipe.pilot");
    directory.make_pipe("subjects/other-pipe");
    let _listener = UnixListener::bind(directory.path("subjects/socket.json")).unwrap();

    let diff = ["policy", "diff", "banner.pilot", "banner.pilot", "--against", "subjects"];
    let ran = directory.run_in_shell("\"$@\"", &diff);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "0 gained, 0 lost, 2 kept, 0 still refused\n"), "{}", ran.err);
    let skipped = ["broken.pilot", "directory.pilot", "pipe.pilot", "socket.json"]
        .map(|file| format!("note: subjects/{file}: not a regular file, skipped\n"));
    assert_eq!(ran.err, skipped.concat());

    std::fs::remove_file(directory.path("subjects/vocabulary.toml")).unwrap();
    directory.make_pipe("subjects/vocabulary.toml");
    let err = directory.run_in_shell("\"$@\"", &diff).refused();
    assert_eq!(err, "error: subjects/vocabulary.toml: not a regular file\n");
}

/// Who names a pipe means it; a shell makes one of `<(…)`.
#[test]
fn a_pipe_can_be_named_and_a_socket_cannot() {
    let directory = Directory::flights();
    let script = "\"$@\" --vocabulary <(cat vocabulary.toml) <(cat alice.pilot) <(cat alice.pilot)";
    let ran = directory.run_in_shell(script, &["policy", "compare"]);
    assert!(ran.quietly(0).starts_with("alice: accepted under `alice`"));
    let ran = directory
        .run_in_shell("cat alice.pilot | \"$@\" /dev/stdin", &["policy", "show", "--vocabulary", "vocabulary.toml"]);
    assert_eq!(ran.quietly(0), directory.read("alice.pilot"));

    let _listener = UnixListener::bind(directory.path("socket.pilot")).unwrap();
    for arguments in [
        ["policy", "check", "socket.pilot"].as_slice(),
        &["policy", "show", "socket.pilot"],
        &["policy", "compare", "alice.pilot", "socket.pilot"],
        &["policy", "compare", "--batch", "socket.pilot"],
        &["vocabulary", "check", "socket.pilot"],
    ] {
        let err = directory.run(arguments).refused();
        assert_eq!(err, "error: socket.pilot: a socket cannot be read as a file (`-` is standard input)\n");
    }
}

/// Clears the screen, and writes from right to left.
const STEERING: &str = "\u{1b}[2J\u{202e}evil";

#[test]
fn names_do_not_steer_the_terminal() {
    let directory = Directory::flights();
    let (file, option) = (format!("{STEERING}.pilot"), format!("--{STEERING}"));
    directory.write(&file, "policy a{nothing}");
    for (arguments, shown) in [
        (
            ["policy", "show", "alice.pilot", "--policy", STEERING].as_slice(),
            "no policy called `\u{fffd}[2J\u{fffd}evil`",
        ),
        (&["policy", "show", STEERING], "error: \u{fffd}[2J\u{fffd}evil: No such file"),
        (&["policy", "show", "--vocabulary", STEERING, "-"], "error: \u{fffd}[2J\u{fffd}evil: No such file"),
        (&["policy", "fmt", "--check", &file], "\u{fffd}[2J\u{fffd}evil.pilot\n"),
        (&["policy", "check", &option], "unexpected argument '--\u{fffd}evil'"),
        (&["policy", "show", "--as", STEERING, "alice.pilot"], "invalid value '\u{fffd}evil'"),
        (&["policy", "check", "--now", STEERING, "alice.pilot"], "invalid value '\u{fffd}evil'"),
    ] {
        let ran = directory.run(arguments);
        let printed = format!("{}{}", ran.out, ran.err);
        assert!(printed.contains(shown), "{printed:?}");
        assert!(!printed.contains(['\u{1b}', '\u{202e}']), "{printed:?}");
    }
}
