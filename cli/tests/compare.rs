//! `policy compare` of two files.

mod support;

use serde_json::{Value, json};
use support::Directory;

const NOW: &str = "2024-01-01";

/// Reference: Table 1 and Alice's policy; what depends on the cookie is decided when it is sent, and said here.
#[test]
fn it_says_who_is_accepted_and_why_not() {
    let directory = Directory::flights();
    assert_eq!(
        directory.run(&["policy", "compare", "--now", NOW, "banner.pilot", "alice.pilot"]).quietly(1),
        "only-necessary: asks for nothing\n\
         offers: accepted under `alice` (while cookie.secure is true)\n\
         offers-and-hotels: refused: transfer to `hotels.com`: no transfer is accepted; \
         would be accepted under `alice` if the controller dropped the transfer to `hotels.com`\n\
         hotels: refused: transfer to `hotels.com`: no transfer is accepted; \
         would be accepted under `alice` if the controller dropped the transfer to `hotels.com`\n"
    );
    let out = directory.run(&["policy", "compare", "--now", NOW, "alice.pilot", "banner.pilot"]).quietly(0);
    assert_eq!(out, "alice: accepted under `offers` (while cookie.secure is true)\n");
}

#[test]
fn it_explains_by_the_nearest_policy() {
    let directory = Directory::flights();
    directory.write(
        "want.pilot",
        "policy p { collect cookie by flights.com for hotel_ads, special_offers until 2024-01-01 }",
    );
    directory.write(
        "have.pilot",
        "policy far { collect cookie by hotels.com for nothing until 0 }
         policy near { collect cookie by flights.com for special_offers until 2024-01-01 }",
    );
    assert_eq!(
        directory.run(&["policy", "compare", "want.pilot", "have.pilot"]).quietly(1),
        "p: refused: purpose `hotel_ads` is not covered; would be accepted under `near` if the controller dropped the \
         purpose `hotel_ads`\n"
    );
    let json: Value =
        serde_json::from_str(&directory.run(&["policy", "compare", "--json", "want.pilot", "have.pilot"]).quietly(1))
            .unwrap();
    assert_eq!(
        json,
        json!([{
            "policy": "p", "accepted": false, "under": null, "conditions": [], "expired": false, "nearest": "near",
            "failures": ["purpose `hotel_ads` is not covered"],
            "changes": ["dropped the purpose `hotel_ads`"],
        }])
    );
}

#[test]
fn it_needs_policies_on_both_sides() {
    let directory = Directory::flights();
    directory.write("empty.pilot", "// nobody\n");
    for pair in [["empty.pilot", "alice.pilot"], ["alice.pilot", "empty.pilot"]] {
        let err = directory.run(&["policy", "compare", pair[0], pair[1]]).refused();
        assert_eq!(err, "error: empty.pilot: there is no policy in it\n");
    }
    let err = directory.run(&["policy", "compare", "-", "-"]).refused();
    assert_eq!(err, "error: only one file can be `-`, standard input\n");
    let ran = directory.run_with(&["policy", "compare", "-", "alice.pilot"], directory.read("alice.pilot"));
    assert!(ran.quietly(0).starts_with("alice: accepted under `alice`"));
}

/// One offer and one subject's policy, which differ in their conditions and deadlines at most.
fn compared(offer: [&str; 2], own: [&str; 2], arguments: &[&str]) -> String {
    let directory = Directory::flights();
    directory.write(
        "vocabulary.toml",
        directory.read("vocabulary.toml").replace("[attributes]\n", "[attributes]\nage = \"number\"\n"),
    );
    for (name, [condition, deadline]) in [("offer", offer), ("own", own)] {
        let rule = format!("collect cookie by flights.com when {condition} for special_offers until {deadline}");
        directory.write(&format!("{name}.pilot"), format!("policy {name} {{ {rule} }}"));
    }
    directory.run(&[["policy", "compare", "offer.pilot", "own.pilot"].as_slice(), arguments].concat()).quietly(0)
}

/// ⊑ does not look at conditions of collection; who reads the answer must know of them.
#[test]
fn what_else_must_be_true_is_said() {
    for (offer, own, qualification) in [
        ("true", "true", ""),
        ("true", "age > 18", " (while age is greater than 18)"),
        ("age > 18", "age > 18", " (while age is greater than 18)"),
        ("age > 18", "cookie.secure", " (while age is greater than 18 and cookie.secure is true)"),
        (
            "age > 18 or age < 9",
            "cookie.secure",
            " (while (either age is greater than 18 or age is less than 9) and cookie.secure is true)",
        ),
        ("age > 18", "false", " (in no case)"),
    ] {
        let out = compared([offer, "2025-01-01"], [own, "2025-01-01"], &["--now", NOW]);
        assert_eq!(out, format!("offer: accepted under `own`{qualification}\n"));
    }
}

/// Def. 9: at the deadline itself, a policy is no longer active.
#[test]
fn a_deadline_that_has_passed_is_said() {
    for (now, qualification) in [
        ("2024-12-31T23:59:59Z", ""),
        ("2025-01-01", " (expired on 01/01/2025)"),
        ("2027-01-01", " (expired on 01/01/2025)"),
    ] {
        let out = compared(["true", "2025-01-01"], ["true", "2026-01-01"], &["--now", now]);
        assert_eq!(out, format!("offer: accepted under `own`{qualification}\n"));
    }
    // By the clock unless told otherwise.
    assert!(compared(["true", "2020-01-01"], ["true", "2026-01-01"], &[]).contains("(expired on 01/01/2020)"));
    let out = compared(["true", "2020-01-01"], ["cookie.secure", "2026-01-01"], &["--now", NOW]);
    assert_eq!(out, "offer: accepted under `own` (while cookie.secure is true) (expired on 01/01/2020)\n");
}

#[test]
fn json_has_conditions_and_deadlines_too() {
    let out = compared(["age > 18", "2020-01-01"], ["cookie.secure", "2026-01-01"], &["--json", "--now", NOW]);
    assert_eq!(
        serde_json::from_str::<Value>(&out).unwrap(),
        json!([{
            "policy": "offer", "accepted": true, "under": "own",
            "conditions": ["age is greater than 18", "cookie.secure is true"], "expired": true,
            "nearest": null, "failures": [], "changes": [],
        }])
    );
    let directory = Directory::flights();
    directory.write("nothing.pilot", "policy nothing-at-all { nothing }");
    let out = directory.run(&["policy", "compare", "--json", "nothing.pilot", "alice.pilot"]).quietly(0);
    assert_eq!(
        serde_json::from_str::<Value>(&out).unwrap(),
        json!([{
            "policy": "nothing-at-all", "accepted": true, "under": null, "conditions": [], "expired": false,
            "nearest": null, "failures": [], "changes": [],
        }])
    );
}
