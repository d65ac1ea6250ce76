//! The walk through the running example, and the example files themselves.

mod support;

use support::{Directory, examples};

/// The options that the walkthrough says may be chosen, with a secure cookie and without.
fn chosen(out: &str) -> Vec<Vec<&str>> {
    out.split("With a ")
        .skip(1)
        .map(|part| {
            part.lines()
                .filter_map(|line| line.trim().strip_prefix("yes  option ")?.split_once(", "))
                .map(|(n, _)| n)
                .collect()
        })
        .collect()
}

/// Reference: §2, "only two options can be selected"; without a secure cookie "the first option must be chosen".
#[test]
fn alice_may_choose_what_the_paper_says() {
    let out = Directory::new().run(&["example"]).quietly(0);
    assert_eq!(chosen(&out), [vec!["1", "2"], vec!["1"]]);
}

#[test]
fn the_walkthrough_fits_a_terminal_and_has_no_colours_in_a_pipe() {
    let directory = Directory::new();
    let out = directory.run(&["example"]).quietly(0);
    assert!(out.lines().all(|line| line.chars().count() <= 80));
    assert!(!out.contains('\x1b'));
    for sentence in ["Collected data may be used only for necessary purposes.", "if cookie.secure is true"] {
        assert!(out.contains(sentence), "{sentence}");
    }
}

#[test]
fn the_examples_are_formatted_and_without_findings() {
    let directory = Directory::new();
    for (example, files) in [("flights", ["banner.pilot", "alice.pilot"]), ("mall", ["offers.pilot", "visitor.pilot"])]
    {
        for file in files {
            let file = examples().join(example).join(file);
            let file = file.to_str().unwrap();
            // The options of a banner are alternatives: one may allow all that another allows.
            let check = ["policy", "check", "--deny", "--now", "2024-01-01", "--allow", "shadowed", file];
            directory.run(&check).quietly(0);
            assert_eq!(directory.run(&["policy", "fmt", "--check", file]).quietly(0), "");
        }
        let vocabulary = examples().join(example).join("vocabulary.toml");
        directory.run(&["vocabulary", "check", vocabulary.to_str().unwrap()]).quietly(0);
    }
}

/// All examples can be checked at once, each with the vocabulary beside it. The daemons speak that of the mall.
#[test]
fn every_example_has_its_vocabulary() {
    let check = format!("\"$@\" {}/*/*.pilot", examples().display());
    let ran = Directory::new().run_in_shell(&check, &["policy", "check", "--now", "2024-01-01"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{}", ran.out);
    let read = |example: &str| std::fs::read_to_string(examples().join(example).join("vocabulary.toml")).unwrap();
    assert_eq!(read("daemons"), read("mall"));
}

/// S10: the bookshop's own condition is strong enough for the visitor's; the advertiser is refused.
#[test]
fn a_visitor_of_the_mall_refuses_the_advertiser() {
    let mall = examples().join("mall");
    let (offers, visitor) = (mall.join("offers.pilot"), mall.join("visitor.pilot"));
    let ran = Directory::new().run(&[
        "policy",
        "compare",
        "--now",
        "2024-01-01",
        offers.to_str().unwrap(),
        visitor.to_str().unwrap(),
    ]);
    let out = ran.quietly(1);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(
        lines[..2],
        [
            "footfall: accepted under `mall-adults-only` (while age is at least 18)",
            "vouchers: accepted under `mall-adults-only` (while age is at least 18)",
        ]
    );
    assert!(lines[2].starts_with("advertising: refused: "), "{out}");
}
