//! `policy check`, `show` and `diff`.

mod support;

use std::process::Stdio;

use pilot_core::lint::MAX_SHADOW_POLICIES;
use support::Directory;

const NOW: &str = "2024-01-01";

#[test]
fn check_finds_what_is_not_meant() {
    let directory = Directory::flights();
    directory.write(
        "p.pilot",
        "policy four { collect cookie by flights.com for nothing until 0 transfer to hotels.com for hotel_ads until 2024-04-19 }
         policy old { collect cookie by flights.com for special_offers until 2023-01-01 }
         policy useless { collect cookie by hotels.com for nothing until 2025-01-01 }
         policy again { collect cookie by flights.com for special_offers until 2022-01-01 }",
    );
    let out = directory.run(&["policy", "check", "--now", NOW, "p.pilot"]).quietly(0);
    for line in [
        "warning: p.pilot: policy `four`: it can never be active: its deadline is 0, and no time is before that [never-active]",
        "warning: p.pilot: policy `four`: its transfer to `hotels.com` can never take effect: the policy can never be active [transfer-never-fires]",
        "warning: p.pilot: policy `old`: its deadline, 01/01/2023, has passed [deadline-passed]",
        "warning: p.pilot: policy `useless`: data is collected for no purpose and no transfer [empty-purposes]",
        "warning: p.pilot: policy `again`: all that it allows is allowed by `old` as well [shadowed]",
        "4 policies in 1 file: 6 findings",
    ] {
        assert!(out.lines().any(|shown| shown == line), "{line}\n{out}");
    }
    assert_eq!(directory.run(&["policy", "check", "--deny", "--now", NOW, "p.pilot"]).code, Some(1));
    assert_eq!(directory.run(&["policy", "check", "--deny", "--now", NOW, "alice.pilot"]).code, Some(0));
    // Deadlines are judged by the clock unless told otherwise.
    assert_eq!(directory.run(&["policy", "check", "--deny", "alice.pilot"]).code, Some(1));
    let allowed = ["policy", "check", "--deny", "--allow", "deadline-passed", "alice.pilot"];
    assert_eq!(directory.run(&allowed).code, Some(0));
}

/// Each policy is compared with every other one: beyond a number of them that takes too long, and is said.
#[test]
fn check_says_what_it_does_not_look_for() {
    let directory = Directory::flights();
    let policies = |count: usize| (0..count).map(|at| format!("policy p{at} {{ nothing }}\n")).collect::<String>();
    directory.write("many.pilot", policies(MAX_SHADOW_POLICIES + 1));
    let out = directory.run(&["policy", "check", "many.pilot"]).quietly(0);
    let note =
        format!("note: many.pilot: more than {MAX_SHADOW_POLICIES} policies, shadowed ones are not looked for\n");
    assert!(out.contains(&note) && !out.contains("[shadowed]"), "{out}");
    directory.write("two.pilot", policies(2));
    let out = directory.run(&["policy", "check", "two.pilot"]).quietly(0);
    assert!(!out.contains("note: ") && out.contains("[shadowed]"), "{out}");
}

#[test]
fn check_goes_on_after_a_bad_file_and_shows_the_place() {
    let directory = Directory::flights();
    directory.write("typo.pilot", "policy a {\n  collect cookei by flights.com for special_offers until 0\n}\n");
    directory.write("idle.pilot", "policy a { collect cookie by flights.com for nothing until 2030-01-01 }");
    let ran = directory.run(&["policy", "check", "typo.pilot", "idle.pilot"]);
    assert!(ran.out.contains("[empty-purposes]"), "{}", ran.out);
    assert_eq!(
        ran.refused(),
        "error: typo.pilot: line 2, column 11: unknown datatype `cookei`; did you mean `cookie`?\n \
         2 |   collect cookei by flights.com for special_offers until 0\n   |           ^^^^^^\n  \
         names are looked up in vocabulary.toml (see --vocabulary)\n"
    );
}

#[test]
fn every_form_of_a_policy_can_be_shown_and_read_again() {
    let directory = Directory::flights();
    let show = |file: &str, form: &str| directory.run(&["policy", "show", file, "--policy", "offers", "--as", form]);
    let json = show("banner.pilot", "json").quietly(0);
    assert_eq!(
        json,
        "{\"datatype\":\"cookie\",\"collection\":{\"condition\":\"true\",\"entity\":\"flights.com\",\
         \"purposes\":[\"special_offers\"],\"retention\":1734739200},\"transfers\":[]}\n"
    );
    assert_eq!(
        show("banner.pilot", "english").quietly(0),
        "Data of type cookie can be collected by flights.com and used for special_offers purposes until 21/12/2024.\n"
    );
    directory.write("offers.json", &json);
    let cbor = show("offers.json", "cbor").bytes;
    directory.write("offers.cbor", &cbor);
    let text = show("offers.cbor", "text").quietly(0);
    assert!(text.starts_with("policy offers {\n  collect cookie by flights.com\n"), "{text}");
    directory.write("again.pilot", &text);
    let digest = show("again.pilot", "digest").quietly(0);
    assert_eq!(digest, show("banner.pilot", "digest").quietly(0));
    assert!(digest.len() == 64 + "  offers\n".len() && digest.ends_with("  offers\n"), "{digest}");
}

#[test]
fn a_file_with_several_policies_gives_a_line_each() {
    let directory = Directory::flights();
    let show = |form: &str| directory.run(&["policy", "show", "banner.pilot", "--as", form]);
    assert_eq!(show("json").quietly(0).lines().next(), Some("null"));
    assert_eq!(show("digest").quietly(0).lines().count(), 4);
    assert!(show("english").quietly(0).starts_with("only-necessary: Collected data may be used only"));
    assert_eq!(show("text").quietly(0), directory.read("banner.pilot"));
    assert!(show("cbor").refused().contains("it has 4 policies; choose one with --policy NAME"));
    let err = directory.run(&["policy", "show", "banner.pilot", "--policy", "none"]).refused();
    assert!(err.contains("there is no policy called `none`"), "{err}");
}

#[test]
fn diff_tells_who_is_gained_and_who_is_lost() {
    let directory = Directory::flights();
    directory.make("subjects");
    for file in ["vocabulary.toml", "alice.pilot"] {
        directory.write(&format!("subjects/{file}"), directory.read(file));
    }
    directory.write(
        "subjects/bob.pilot",
        "policy bob { collect cookie by flights.com for nothing until 2025-01-01
                      transfer to hotels.com for advertisement until 2025-01-01 }
         policy bob-at-night { nothing }",
    );
    directory.write("subjects/notes.txt", "not a policy");
    for (file, policy) in [("old.pilot", "offers"), ("new.pilot", "hotels")] {
        let offer = directory.run(&["policy", "show", "banner.pilot", "--policy", policy]).quietly(0);
        // The empty policy is at least as restrictive as any other, and wins nobody.
        directory.write(file, format!("policy empty {{ nothing }} {offer}"));
    }
    let out = directory.run(&["policy", "diff", "old.pilot", "new.pilot", "--against", "subjects"]).quietly(0);
    assert_eq!(
        out,
        "lost: `alice` (subjects/alice.pilot) accepted `offers`; `hotels` is refused: transfer to `hotels.com`: \
         no transfer is accepted; would be accepted under `alice` if the controller dropped the transfer to `hotels.com`\n\
         gained: `bob` (subjects/bob.pilot) accepts `hotels`\n\
         1 gained, 1 lost, 0 kept, 1 still refused\n"
    );
    directory.make("nobody");
    directory.run(&["policy", "diff", "old.pilot", "new.pilot", "--against", "nobody"]).refused();
    // The controller's vocabulary is not to blame.
    for (against, message) in [("missing", "this directory does not exist\n"), ("old.pilot", "Not a directory")] {
        let err = directory.run(&["policy", "diff", "old.pilot", "new.pilot", "--against", against]).refused();
        assert!(err.starts_with(&format!("error: {against}: {message}")), "{err}");
    }
}

/// The vocabulary beside the file, the one asked for, the built-in one.
#[test]
fn the_vocabulary_is_found() {
    let directory = Directory::flights();
    directory.make("elsewhere");
    directory.write("elsewhere/alice.pilot", directory.read("alice.pilot"));
    let err = directory.run(&["policy", "show", "elsewhere/alice.pilot"]).refused();
    assert!(err.contains("names are looked up in the built-in vocabulary"), "{err}");
    directory.run(&["policy", "show", "--vocabulary", "vocabulary.toml", "elsewhere/alice.pilot"]).quietly(0);
    directory.run(&["policy", "show", "./alice.pilot"]).quietly(0);
}

#[test]
fn bad_files_are_refused_without_a_panic() {
    let directory = Directory::flights();
    directory.write("bytes.pilot", b"policy a\n\xff\xfe");
    directory.write("bytes.json", b"\xff");
    directory.write("bytes.cbor", b"\xff\xff");
    directory.write("long.cbor", vec![0; 100_000]);
    directory.write("long.json", " ".repeat(17_000_000));
    directory.write("large.json", format!("{}0", " ".repeat(2_000_000)));
    directory.write("long.pilot", " ".repeat(17_000_000));
    directory.write("deep.pilot", format!("policy a {{ collect cookie by flights.com when {}", "(".repeat(1_000_000)));
    directory.write("deep.json", "[".repeat(1_000_000));
    for (file, message) in [
        ("bytes.pilot", "line 2, column 1: this is not UTF-8 text"),
        ("bytes.json", "line 1, column 1: this is not UTF-8 text"),
        ("bytes.cbor", "byte "),
        ("long.cbor", "more than 65536 bytes"),
        ("long.json", "more than 16777216 bytes"),
        ("large.json", "line 1, column 1: the JSON of a policy has at most 1048576 bytes"),
        ("long.pilot", "more than 16777216 bytes"),
        ("deep.pilot", "line 1, column "),
        ("deep.json", "line 1, column "),
        ("missing.pilot", "No such file"),
        (".", "Is a directory"),
    ] {
        for command in [["check", file].as_slice(), &["show", file], &["compare", file, file], &["fmt", file]] {
            let err = directory.run(&[&["policy"], command].concat()).refused();
            let expected = match (command[0], file) {
                ("fmt", ".") => "not a regular file",
                ("fmt", file) if !file.ends_with("pilot") => "only policies in text form are formatted",
                _ => message,
            };
            assert!(err.starts_with(&format!("error: {file}: {expected}")), "{err}");
            assert!(err.len() < 1_000, "{}", err.len());
        }
    }
}

#[test]
fn usage_errors_end_with_2() {
    let directory = Directory::new();
    for arguments in [
        ["policy", "compare", "one"].as_slice(),
        &["policy", "compare", "--batch", "x", "a", "b"],
        &["policy", "compare", "--batch", "x", "--now", "2024-01-01"],
        &["policy", "check"],
        &["policy", "check", "--allow", "everything", "x"],
        &["policy", "check", "--now", "2024-02-30", "x"],
        &["policy", "show", "x", "--as", "xml"],
        &["policy", "diff", "a", "b"],
        &["nonsense"],
    ] {
        directory.run(arguments).refused();
    }
}

/// `… | head`: whoever has read enough ends nothing with an error, and the exit code still tells the answer.
#[test]
fn a_closed_output_is_no_error() {
    let directory = Directory::flights();
    for (arguments, code) in [
        (["vocabulary", "show"].as_slice(), 0),
        (&["policy", "compare", "banner.pilot", "alice.pilot"], 1),
        (&["example"], 0),
        (&["man"], 0),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = directory.command(arguments).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(code), [].as_slice()), "{arguments:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_an_error() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = Directory::flights().command(&["policy", "show", "alice.pilot"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stderr.starts_with(b"error: cannot write output: "));
}
