//! A policy is the same policy in every form: text, JSON and canonical bytes.

mod support;

use pilot_core::codec::{CodecProblem, decode, digest, encode};
use pilot_core::policy::{Choice, PolicyProblem};
use pilot_core::syntax::format::{file_text, policy_text};
use pilot_core::syntax::{json, parse_file};
use pilot_core::vocabulary::Vocabulary;
use proptest::prelude::{prop_assert, prop_assert_eq};
use proptest::strategy::Strategy;

use support::choices::{Choices, cases};
use support::for_all;
use support::generate::{WIDE, choice, more_words, policy, words};
use support::named::{Policy, Words, resolve_choice};
use support::related::changed;
use support::spelling::careless_file;

/// As many choices as the largest of these cases use.
const CHOICES: usize = 900;

fn choice_and_words() -> impl Strategy<Value = (Option<Policy>, Words)> {
    cases(CHOICES, |choices| {
        let words = words(choices);
        (choice(choices, &words, WIDE), words)
    })
}

#[test]
fn the_text_of_a_policy_parses_back_to_it() {
    // Yes: it has a condition.
    for_all(&choice_and_words(), 0.5..=0.9, |(named, words)| {
        let vocabulary = words.vocabulary();
        let choice = resolve_choice(&named, &vocabulary);
        let text = policy_text("p", &choice, &vocabulary);
        let file = parse_file(&text, &vocabulary).map_err(|error| fail(format!("{error}\n{text}")))?;
        prop_assert_eq!(file.policies.len(), 1);
        prop_assert_eq!(&file.policies[0].choice, &choice);
        prop_assert_eq!(file_text(&file.policies, &file.end_comments, &vocabulary), text);
        Ok(named.is_some_and(|policy| policy.rules().any(|rule| rule.condition.comparisons() > 0)))
    });
}

/// Whatever blanks, comments, parentheses and spellings of constants a person uses.
#[test]
fn a_careless_file_means_the_same_and_formatting_keeps_its_comments() {
    let cases = cases(4 * CHOICES, |choices| {
        let words = words(choices);
        let policies: Vec<Option<Policy>> = (0..=choices.below(3)).map(|_| choice(choices, &words, WIDE)).collect();
        let (text, comments) = careless_file(&policies, choices);
        (policies, text, comments, words)
    });
    for_all(&cases, 0.8..=1.0, |(policies, text, comments, words)| {
        let vocabulary = words.vocabulary();
        let file = parse_file(&text, &vocabulary).map_err(|error| fail(error.to_string()))?;
        let expected: Vec<Choice> = policies.iter().map(|policy| resolve_choice(policy, &vocabulary)).collect();
        let formatted = file_text(&file.policies, &file.end_comments, &vocabulary);
        let again = parse_file(&formatted, &vocabulary).map_err(|error| fail(error.to_string()))?;
        for found in [&file, &again] {
            prop_assert_eq!(&Vec::from_iter(found.policies.iter().map(|policy| policy.choice.clone())), &expected);
        }
        for comment in &comments {
            prop_assert_eq!(formatted.matches(comment.as_str()).count(), 1, "`{}` in\n{}", comment, formatted);
        }
        prop_assert!(!formatted.lines().any(|line| line.ends_with(' ')), "{}", formatted);
        let twice = file_text(&again.policies, &again.end_comments, &vocabulary);
        prop_assert_eq!(twice, formatted, "formatting twice is formatting once");
        Ok(!comments.is_empty())
    });
}

#[test]
fn the_json_of_a_policy_parses_back_to_it() {
    for_all(&choice_and_words(), 0.9..=1.0, |(named, words)| {
        let vocabulary = words.vocabulary();
        let choice = resolve_choice(&named, &vocabulary);
        let text = json::text(&choice, &vocabulary);
        prop_assert_eq!(json::parse(&text, &vocabulary), Ok(choice.clone()));

        // For other programs the order of keys and the blanks between them mean nothing.
        let value: serde_json::Value = serde_json::from_str(&text).map_err(|error| fail(error.to_string()))?;
        let spaced = format!(" {value:#}\n");
        prop_assert_eq!(json::parse(&spaced, &vocabulary), Ok(choice.clone()));
        let pair = format!("{{\"q\":null,\"p\":{text}}}");
        prop_assert_eq!(json::parse_pair(&pair, &vocabulary), Ok((choice.clone(), Choice::Nothing)));

        // What it says, names sorted by their bytes.
        let Some(named) = named else { return Ok(false) };
        let purposes = Vec::from_iter(&named.collection.purposes);
        prop_assert_eq!(&value["collection"]["purposes"], &serde_json::json!(purposes));
        prop_assert_eq!(&value["collection"]["retention"], &serde_json::json!(named.collection.retention));
        prop_assert_eq!(&value["datatype"], &serde_json::json!(named.datatype));
        let transfers = value["transfers"].as_array().unwrap();
        let keys = transfers.iter().map(|rule| {
            let purposes: Vec<String> = serde_json::from_value(rule["purposes"].clone()).unwrap();
            (rule["entity"].as_str(), rule["retention"].as_u64(), purposes, rule["condition"].as_str())
        });
        prop_assert!(keys.is_sorted() && transfers.len() == named.transfers.len());
        Ok(true)
    });
}

#[test]
fn the_bytes_of_a_policy_decode_to_it() {
    for_all(&choice_and_words(), 0.9..=1.0, |(named, words)| {
        let vocabulary = words.vocabulary();
        let choice = resolve_choice(&named, &vocabulary);
        let bytes = encode(&choice, &vocabulary);
        prop_assert_eq!(decode(&bytes, &vocabulary), Ok(choice));
        Ok(named.is_some())
    });
}

/// Bytes are canonical or refused: whatever decodes, decodes from these bytes alone.
#[test]
fn a_policy_has_one_byte_form() {
    let cases = cases(CHOICES, |choices| {
        let words = words(choices);
        let vocabulary = words.vocabulary();
        let mut bytes = encode(&resolve_choice(&Some(policy(choices, &words, WIDE)), &vocabulary), &vocabulary);
        damage(&mut bytes, choices);
        (bytes, words)
    });
    // Yes: it decodes, with another number or another name in it.
    for_all(&cases, 0.05..=0.5, |(bytes, words)| {
        let vocabulary = words.vocabulary();
        let Ok(choice) = decode(&bytes, &vocabulary) else { return Ok(false) };
        prop_assert_eq!(encode(&choice, &vocabulary), bytes);
        Ok(true)
    });
}

fn damage(bytes: &mut Vec<u8>, choices: &mut Choices) {
    // Where the deadlines, constants and names are, not only at the front.
    let at = choices.any_u64() as usize % bytes.len();
    let old = bytes.remove(at);
    match choices.below(6) {
        0 => bytes.insert(at, old ^ 1 << choices.below(8)),
        1 => bytes.insert(at, old.wrapping_add(1)),
        2 => bytes.insert(at, choices.below(256) as u8),
        3 => drop(bytes.splice(at..at, [choices.below(256) as u8, old])),
        4 => bytes.rotate_left(at),
        _ => {}
    }
}

/// Different policies have different bytes, equal ones the same.
#[test]
fn bytes_and_digests_are_equal_where_policies_are() {
    let cases = cases(CHOICES, |choices| {
        let words = words(choices);
        let p = policy(choices, &words, WIDE);
        (p.clone(), changed(&p, &words, choices), words)
    });
    for_all(&cases, 0.1..=0.9, |(p, q, words)| {
        let vocabulary = words.vocabulary();
        let is_same = p == q;
        let [p, q] = [p, q].map(|policy| Choice::Policy(policy.resolve(&vocabulary)));
        prop_assert_eq!(p == q, is_same);
        prop_assert_eq!(encode(&p, &vocabulary) == encode(&q, &vocabulary), is_same);
        prop_assert_eq!(digest(&p, &vocabulary) == digest(&q, &vocabulary), is_same);
        prop_assert_eq!(json::text(&p, &vocabulary) == json::text(&q, &vocabulary), is_same);
        Ok(is_same)
    });
}

/// Ids are private to a vocabulary; the forms of a policy are made of names and the same under each.
#[test]
fn the_forms_of_a_policy_do_not_depend_on_the_vocabulary() {
    let cases = cases(CHOICES, |choices| {
        let words = words(choices);
        let more = more_words(&words, choices);
        (policy(choices, &words, WIDE), words, more)
    });
    // Yes: the same name has different ids.
    for_all(&cases, 0.5..=1.0, |(named, words, more)| {
        let (small, large) = (words.vocabulary(), more.vocabulary());
        let (here, there) = (named.resolve(&small), named.resolve(&large));
        let has_other_ids = here != there;
        let (here, there) = (Choice::Policy(here), Choice::Policy(there));
        prop_assert_eq!(encode(&here, &small), encode(&there, &large));
        prop_assert_eq!(digest(&here, &small), digest(&there, &large));
        prop_assert_eq!(json::text(&here, &small), json::text(&there, &large));
        prop_assert_eq!(policy_text("p", &here, &small), policy_text("p", &there, &large));
        prop_assert_eq!(decode(&encode(&here, &small), &large), Ok(there));
        Ok(has_other_ids)
    });
}

fn fail(message: String) -> proptest::test_runner::TestCaseError {
    proptest::test_runner::TestCaseError::fail(message)
}

const FLIGHTS: &str = r#"
[entities]
"flights.com" = []
"hotels.com" = []
[datatypes]
cookie = []
[purposes]
ads = []
hotel_ads = ["ads"]
special_offers = ["ads"]
[attributes]
"cookie.secure" = "boolean"
"#;

/// One policy in all its forms, byte for byte: what other programs and stored traces rely on.
///
/// Reference: Table 1, option 3.
#[test]
fn the_forms_are_pinned() {
    let vocabulary = Vocabulary::from_toml(FLIGHTS).unwrap();
    let text = "\
policy offers-and-hotels {
  collect cookie by flights.com
    when cookie.secure = true
    for special_offers
    until 2024-12-21
  transfer to hotels.com
    for hotel_ads
    until 2024-04-19
}
";
    let json = r#"{"datatype":"cookie","collection":{"condition":"cookie.secure = true","entity":"flights.com","purposes":["special_offers"],"retention":1734739200},"transfers":[{"condition":"true","entity":"hotels.com","purposes":["hotel_ads"],"retention":1713484800}]}"#;
    let choice = parse_file(text, &vocabulary).unwrap().policies[0].choice.clone();
    assert_eq!(policy_text("offers-and-hotels", &choice, &vocabulary), text);
    assert_eq!(json::text(&choice, &vocabulary), json);
    assert_eq!(json::parse(json, &vocabulary), Ok(choice.clone()));
    let bytes = [
        b"\x84\x01\x66cookie".as_slice(),
        b"\x84\x84\x00\x82\x00\x6dcookie.secure\x61=\x82\x03\xf5",
        b"\x6bflights.com\x81\x6especial_offers\x1a\x67\x66\x05\x00",
        b"\x81\x84\xf5\x6ahotels.com\x81\x69hotel_ads\x1a\x66\x21\xb4\x00",
    ];
    assert_eq!(encode(&choice, &vocabulary).escape_ascii().to_string(), bytes.concat().escape_ascii().to_string());
    assert_eq!(
        digest(&choice, &vocabulary).to_string(),
        "53583112313db3a3c4308192885f2ba79191881508fb26c028826e9b483427ba"
    );
    assert_eq!(json::text(&Choice::Nothing, &vocabulary), "null");
    assert_eq!(encode(&Choice::Nothing, &vocabulary), [0xf6]);
    assert_eq!(policy_text("p", &Choice::Nothing, &vocabulary), "policy p {\n  nothing\n}\n");
}

/// Rules that differ in nothing else are in the order of their conditions as texts, where 18 comes before 9.
#[test]
fn transfer_rules_are_written_in_one_order() {
    let vocabulary = Vocabulary::from_toml(&format!("{FLIGHTS}age = \"number\"\n")).unwrap();
    let text = "policy p {
  collect cookie by flights.com for nothing until 1
  transfer to hotels.com for ads until 1
  transfer to hotels.com when age = 9 for nothing until 1
  transfer to hotels.com when age = 18 for nothing until 1
  transfer to hotels.com for ads until 0
  transfer to flights.com for special_offers, hotel_ads until 2
}";
    let choice = parse_file(text, &vocabulary).unwrap().policies[0].choice.clone();
    let value: serde_json::Value = serde_json::from_str(&json::text(&choice, &vocabulary)).unwrap();
    let shown: Vec<String> = value["transfers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| format!("{} {} {} {}", rule["entity"], rule["retention"], rule["purposes"], rule["condition"]))
        .collect();
    assert_eq!(
        shown,
        [
            r#""flights.com" 2 ["hotel_ads","special_offers"] "true""#,
            r#""hotels.com" 0 ["ads"] "true""#,
            r#""hotels.com" 1 [] "age = 18""#,
            r#""hotels.com" 1 [] "age = 9""#,
            r#""hotels.com" 1 ["ads"] "true""#,
        ]
    );
}

/// Comments stay with what they are about, also when the formatter puts the rules in order.
#[test]
fn comments_stay_where_they_belong() {
    let vocabulary = Vocabulary::from_toml(FLIGHTS).unwrap();
    let careless = "// about the file
# about a
policy a{ // opens a
collect cookie by flights.com // who
  // why so short
  for ads until 9 // the end
  // about hotels
  transfer to hotels.com for nothing until 3
  transfer to flights.com // first in the order
    when true // always
    for nothing until 3
  // nothing more
} // closes a
// about b
policy b { nothing // at all
}// closes b
// the end of the file";
    let formatted = "\
// about the file
# about a
policy a { // opens a
  collect cookie by flights.com // who
    // why so short
    for ads
    until 1970-01-01T00:00:09Z // the end
  transfer to flights.com // first in the order
    // always
    for nothing
    until 1970-01-01T00:00:03Z
  // about hotels
  transfer to hotels.com
    for nothing
    until 1970-01-01T00:00:03Z
  // nothing more
} // closes a

// about b
policy b {
  nothing // at all
} // closes b

// the end of the file
";
    let file = parse_file(careless, &vocabulary).unwrap();
    assert_eq!(file_text(&file.policies, &file.end_comments, &vocabulary), formatted);
    let file = parse_file(formatted, &vocabulary).unwrap();
    assert_eq!(file_text(&file.policies, &file.end_comments, &vocabulary), formatted);
}

/// Reference: RFC 8949 §4.2: shortest integers, definite lengths; and our own order of sets.
#[test]
fn bytes_that_are_not_canonical_are_refused() {
    let vocabulary = Vocabulary::from_toml(FLIGHTS).unwrap();
    let refuse = |parts: &[&[u8]], expected: CodecProblem| {
        let bytes = parts.concat();
        let error = decode(&bytes, &vocabulary).expect_err("refused");
        assert_eq!(error.problem, expected, "{}", bytes.escape_ascii());
    };
    let head = b"\x84\x01\x66cookie".as_slice();
    let rule = b"\x84\xf5\x6bflights.com\x80\x00".as_slice();
    let no_transfers = b"\x80".as_slice();
    assert!(decode(&[head, rule, no_transfers].concat(), &vocabulary).is_ok());

    let (ads, hotels) = (b"\x63ads".as_slice(), b"\x69hotel_ads".as_slice());
    let for_two = b"\x84\xf5\x6bflights.com\x82".as_slice();
    assert!(decode(&[head, for_two, ads, hotels, b"\x00", no_transfers].concat(), &vocabulary).is_ok());
    refuse(&[head, for_two, hotels, ads, b"\x00", no_transfers], CodecProblem::NotCanonical);
    refuse(&[head, for_two, ads, ads, b"\x00", no_transfers], CodecProblem::Policy(PolicyProblem::DuplicatePurpose));
    let to_hotels = b"\x84\xf5\x6ahotels.com\x80\x00".as_slice();
    assert!(decode(&[head, rule, b"\x82", rule, to_hotels].concat(), &vocabulary).is_ok());
    refuse(&[head, rule, b"\x82", to_hotels, rule], CodecProblem::NotCanonical);
    refuse(&[head, rule, b"\x82", rule, rule], CodecProblem::Policy(PolicyProblem::DuplicateTransfer));
    refuse(&[head, rule, no_transfers, b"\x00"], CodecProblem::TrailingBytes);
    refuse(&[head, rule, b"\x9f\xff"], CodecProblem::Indefinite);
    // 1 in two bytes, a length in two bytes, 0 in nine, a text in pieces.
    refuse(&[b"\x84\x18\x01\x66cookie", rule, no_transfers], CodecProblem::NotCanonical);
    refuse(&[b"\x84\x01\x78\x06cookie", rule, no_transfers], CodecProblem::NotCanonical);
    refuse(&[head, b"\x84\xf5\x6bflights.com\x80\x1b\0\0\0\0\0\0\0\0", no_transfers], CodecProblem::NotCanonical);
    assert!(decode(&[b"\x84\x01\x7f\x63coo\x63kie\xff", rule, no_transfers].concat(), &vocabulary).is_err());
    // Another version, another array, a tag around it, a float for an integer.
    refuse(&[b"\x84\x02\x66cookie", rule, no_transfers], CodecProblem::Version(2));
    refuse(&[b"\x83\x01\x66cookie", rule], CodecProblem::Length { expected: 4, found: 3 });
    assert!(decode(&[b"\xc1", head, rule, no_transfers].concat(), &vocabulary).is_err());
    assert!(decode(&[head, b"\x84\xf5\x6bflights.com\x80\xf9\x00\x00", no_transfers].concat(), &vocabulary).is_err());
}
