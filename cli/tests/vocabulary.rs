//! `vocabulary show` and `vocabulary check`, completions and manual pages, and what a wrong command line is answered.

mod support;

use support::Directory;

#[test]
fn an_order_is_shown_as_a_tree() {
    let directory = Directory::new();
    directory.write(
        "v.toml",
        "entities = { alphabet = [], google = ['alphabet'], ads = ['google', 'broker'], broker = [] }\n\
         datatypes = { city = [] }\n\
         devices = { phone = 'google' }\n\
         items = { where = { type = 'city', owner = 'phone' } }\n\
         attributes = { age = 'number' }",
    );
    assert_eq!(
        directory.run(&["vocabulary", "show", "v.toml"]).quietly(0),
        "entities (4)\n  alphabet\n    google\n      ads (also in broker)\n  broker\n\
         datatypes (1)\n  city\n\
         purposes (0)\n\
         attributes (1)\n  age: number\n\
         devices (1)\n  phone: of google\n\
         items (1)\n  where: city of phone\n"
    );
    let json: serde_json::Value =
        serde_json::from_str(&directory.run(&["vocabulary", "show", "--json", "v.toml"]).quietly(0)).unwrap();
    assert_eq!(json["entities"]["ads"], serde_json::json!(["google", "broker"]));
    assert_eq!(json["items"]["where"], serde_json::json!({ "type": "city", "owner": "phone" }));
    assert_eq!(
        directory.run(&["vocabulary", "check", "v.toml"]).quietly(0),
        "v.toml: good: 4 entities, 1 datatype, 0 purposes, 1 attribute, 1 device, 1 item\n"
    );
}

#[test]
fn the_built_in_vocabulary_is_shown_by_default() {
    let out = Directory::new().run(&["vocabulary", "show"]).quietly(0);
    assert!(out.contains("\n    Marketing\n      Advertising\n"), "{out}");
}

/// A chain of ten thousand names overflows no stack and fills no disk.
#[test]
fn a_very_deep_order_can_be_shown() {
    let directory = Directory::new();
    let mut source = String::from("[entities]\nn0 = []\n");
    for at in 1..10_000 {
        source += &format!("n{at} = [\"n{}\"]\n", at - 1);
    }
    directory.write("deep.toml", source);
    let out = directory.run(&["vocabulary", "show", "deep.toml"]).quietly(0);
    assert!(out.contains(" n9999\n") && out.len() < 1_000_000);
}

#[test]
fn a_bad_vocabulary_is_refused_with_its_place() {
    let directory = Directory::new();
    directory.write("cycle.toml", "[entities]\na = ['b']\nb = ['a']\n");
    directory.write("parent.toml", "[purposes]\nnewsletter = []\nads = ['newsleter']\n");
    directory.write("bytes.toml", b"[entities]\na = '\xff'");
    for (file, message) in [
        ("cycle.toml", "cycle.toml: line 2, column 1: cycle: a ≤ b ≤ a"),
        ("parent.toml", "parent.toml: line 3, column 8: unknown parent `newsleter`; did you mean `newsletter`?"),
        ("bytes.toml", "bytes.toml: line 2, column 6: this is not UTF-8 text"),
        ("missing.toml", "missing.toml: No such file"),
        (".", ".: Is a directory"),
    ] {
        let err = directory.run(&["vocabulary", "check", file]).refused();
        assert!(err.starts_with(&format!("error: {message}")), "{err}");
    }
}

#[test]
fn completions_and_manual_pages_are_generated() {
    let directory = Directory::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(directory.run(&["completions", shell]).quietly(0).contains("compare"), "{shell}");
    }
    assert!(directory.run(&["man"]).quietly(0).contains(".TH consent-mesh 1"));
    assert_eq!(directory.run(&["man", "--out", "pages/man1"]).quietly(0), "");
    assert!(directory.read("pages/man1/consent-mesh-policy-compare.1").contains("\\-\\-batch"));
}

#[test]
fn manual_pages_refer_to_pages_that_exist() {
    let directory = Directory::new();
    directory.run(&["man", "--out", "pages"]).quietly(0);
    let names: Vec<String> = std::fs::read_dir(directory.path("pages"))
        .unwrap()
        .map(|page| page.unwrap().file_name().into_string().unwrap())
        .collect();
    let mut pages: Vec<String> = names.iter().map(|name| directory.read(&format!("pages/{name}"))).collect();
    pages.push(directory.run(&["man"]).quietly(0));
    let mut references = 0;
    for page in pages {
        // "consent\-mesh\-policy(1)".
        for before in page.split("(1)").collect::<Vec<_>>().split_last().unwrap().1 {
            let reference = before.split_whitespace().last().unwrap().replace('\\', "");
            assert!(names.contains(&format!("{reference}.1")), "{reference}");
            references += 1;
        }
    }
    assert!(references > 10, "{references}");
}

/// The commands of daemons have the exit codes of daemons, as their help says; the others have those of tools.
#[test]
fn a_wrong_command_line_has_the_exit_code_of_the_help() {
    let directory = Directory::new();
    for (arguments, code) in [
        (["ds-gateway", "bogus"], 64),
        (["dc-gateway", "bogus"], 64),
        (["repository", "bogus"], 64),
        (["run", "bogus"], 64),
        (["policy", "bogus"], 2),
        (["ds-gateway", "--help"], 0),
    ] {
        let ran = directory.run(&arguments);
        assert_eq!(ran.code, Some(code), "{arguments:?}: {}", ran.err);
    }
}
