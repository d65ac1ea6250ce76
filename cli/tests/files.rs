//! What is in a file: JSON lines, names that are in no vocabulary, nothing at all.

mod support;

use support::Directory;

#[test]
fn json_lines_can_be_read_again() {
    let directory = Directory::flights();
    let lines = directory.run(&["policy", "show", "banner.pilot", "--as", "json"]).quietly(0);
    for file in ["offers.json", "offers.jsonl"] {
        directory.write(file, format!("\n{}\r\n", lines.replace('\n', "\n \n")));
        assert_eq!(directory.run(&["policy", "show", file, "--as", "json"]).quietly(0), lines);
        let digests = directory.run(&["policy", "show", file, "--as", "digest"]).quietly(0);
        let names: Vec<&str> = digests.lines().filter_map(|line| line.split("  ").nth(1)).collect();
        assert_eq!(names, ["offers-1", "offers-2", "offers-3", "offers-4"]);
        let err = directory.run(&["policy", "fmt", file]).refused();
        assert!(err.contains("only policies in text form are formatted"), "{err}");
    }
    // The name of a file need not be one of a policy: this one looks like a date.
    directory.write("2024-12.json", "null\nnull\n");
    let text = directory.run(&["policy", "show", "2024-12.json"]).quietly(0);
    assert!(text.contains("policy policy-1 {") && text.contains("policy policy-2 {"), "{text}");
}

/// One policy may stand on several lines, and is called like the file.
#[test]
fn json_of_one_policy_is_not_taken_for_lines() {
    let directory = Directory::flights();
    let json = directory.run(&["policy", "show", "alice.pilot", "--as", "json"]).quietly(0);
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    for text in [serde_json::to_string_pretty(&value).unwrap(), format!("\n{json}\n\n")] {
        directory.write("own.json", text);
        assert!(directory.run(&["policy", "show", "own.json", "--as", "digest"]).quietly(0).ends_with("  own\n"));
    }
    directory.write("own.json", serde_json::to_string_pretty(&value).unwrap().replace("flights.com", "flight.com"));
    let err = directory.run(&["policy", "show", "own.json"]).refused();
    assert!(err.starts_with("error: own.json: line 4, column "), "{err}");
}

#[test]
fn errors_in_json_lines_carry_the_line() {
    let directory = Directory::flights();
    directory.write("p.jsonl", "null\n\nnull\n{\"datatype\":\"cookei\"}\n");
    let err = directory.run(&["policy", "check", "p.jsonl"]).refused();
    assert!(err.starts_with("error: p.jsonl: line 4, column "), "{err}");
    assert!(err.contains("\n 4 | {\"datatype\":\"cookei\"}\n"), "{err}");
}

/// A `broker` is known in one directory and not in the other.
#[test]
fn each_file_has_the_vocabulary_beside_it() {
    let directory = Directory::new();
    for (place, entity) in [("one", "shop"), ("two", "broker")] {
        directory.make(place);
        let words =
            format!("entities = {{ {entity} = [] }}\ndatatypes = {{ cookie = [] }}\npurposes = {{ ads = [] }}\n");
        directory.write(&format!("{place}/vocabulary.toml"), words);
        let policy = format!("policy p {{ collect cookie by {entity} for ads until 2030-01-01 }}");
        directory.write(&format!("{place}/p.pilot"), policy);
    }
    let files = ["one/p.pilot", "two/p.pilot", "one/p.pilot"];
    let check = [["policy", "check", "--now", "2024-01-01"].as_slice(), &files].concat();
    assert_eq!(directory.run(&check).quietly(0), "3 policies in 3 files: no findings\n");
    assert_eq!(directory.run(&[["policy", "fmt"].as_slice(), &files].concat()).quietly(0), "");
    assert!(directory.read("two/p.pilot").starts_with("policy p {\n"));

    // The one asked for is for all, and read once: a pipe has nothing for a second reader.
    let script = "\"$@\" --vocabulary <(cat one/vocabulary.toml) one/p.pilot two/p.pilot one/p.pilot";
    let err = directory.run_in_shell(script, &["policy", "check"]).refused();
    assert!(err.starts_with("error: two/p.pilot: ") && err.matches("error: ").count() == 1, "{err}");

    // A bad one is in the way of its own files only.
    directory.write("two/vocabulary.toml", "entities = 1");
    let ran = directory.run(&["policy", "fmt", "--check", "two/p.pilot", "one/p.pilot"]);
    assert!(ran.refused().starts_with("error: two/vocabulary.toml: "));
}

#[test]
fn a_file_without_policies_is_noted() {
    let directory = Directory::flights();
    for file in ["empty.pilot", "empty.json", "empty.jsonl"] {
        directory.write(file, "");
        let said = format!("note: {file}: no policies\n0 policies in 1 file: no findings\n");
        assert_eq!(directory.run(&["policy", "check", file]).quietly(0), said);
        assert_eq!(directory.run(&["policy", "check", "--deny", file]).quietly(1), said);
        for form in ["text", "json", "english", "digest"] {
            assert_eq!(directory.run(&["policy", "show", file, "--as", form]).quietly(0), "");
        }
    }
}

const LOOKED_UP: &str = "names are looked up in";
const NO_ENTITIES: &str = "\n  the built-in vocabulary has no entities; write a vocabulary.toml (see `consent-mesh \
                           vocabulary --help`), with `extends = \"default\"`\n";

#[test]
fn who_has_no_vocabulary_is_told_how_to_write_one() {
    let directory = Directory::new();
    let text = |entity: &str| format!("policy p {{ collect City by {entity} for Marketing until 0 }}");
    let json = r#"{"datatype":"City","collection":{"condition":"true","entity":"shop"}}"#;
    directory.write("p.pilot", text("shop"));
    directory.write("p.json", json);
    for file in ["p.pilot", "p.json"] {
        let err = directory.run(&["policy", "check", file]).refused();
        assert!(err.contains("unknown entity `shop`") && err.ends_with(NO_ENTITIES), "{err}");
    }
    directory.write("vocabulary.toml", "extends = \"default\"\nentities = { shop = [] }\n");
    directory.run(&["policy", "check", "p.pilot"]).quietly(0);
    directory.write("p.pilot", text("broker"));
    let err = directory.run(&["policy", "check", "p.pilot"]).refused();
    assert!(err.contains(LOOKED_UP) && !err.contains("has no entities"), "{err}");
    assert!(directory.run(&["vocabulary", "--help"]).quietly(0).contains("extends = \"default\""));
}

#[test]
fn only_errors_about_names_speak_of_the_vocabulary() {
    let directory = Directory::flights();
    let json = |condition: &str| {
        format!(r#"{{"datatype":"cookie","collection":{{"condition":"{condition}","entity":"flights.com"}}}}"#)
    };
    let text = |condition: &str| format!("policy p {{ collect cookie by flights.com when {condition} for");
    for (file, source, is_about_names) in [
        ("p.json", json("cookie.insecure"), true),
        ("p.json", json("hours(now) = 1"), false),
        ("p.json", json("true"), false),
        ("p.json", "{\"data\":1}".to_string(), false),
        ("p.json", "{\"datatype\":\"cookei\"}".to_string(), true),
        ("p.json", "{".to_string(), false),
        ("p.pilot", text("cookie.insecure"), true),
        ("p.pilot", text("hours(now) = 1"), false),
        ("p.pilot", text("true"), false),
    ] {
        directory.write(file, &source);
        let err = directory.run(&["policy", "check", file]).refused();
        assert_eq!(err.contains(LOOKED_UP), is_about_names, "{err}");
    }
}
