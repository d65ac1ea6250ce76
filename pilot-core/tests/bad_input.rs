//! Bad input is refused with a sentence: no parser crashes, stalls, or accepts what it could not write again.

mod support;

use std::time::{Duration, Instant};

use pilot_core::codec;
use pilot_core::policy::MAX_POLICY_BYTES;
use pilot_core::syntax::{json, parse_file};
use pilot_core::vocabulary::Vocabulary;

use support::fuzz_bodies;
use support::mutator::fuzz;

const MEGABYTE: usize = 1 << 20;
/// These inputs take milliseconds; a parser that is quadratic in them takes minutes.
const STALL: Duration = Duration::from_secs(10);

const TEXT: &str = r#"// Options of a banner.
policy offers-and-hotels {
  collect cookie by flights.com # all of it
    when (cookie.secure = true and not (age < 18)) or length(city) >= 2 and now > 2024-12-21T10:00:00Z
    for special_offers, ads
    until 2024-12-21
  transfer to hotels.com
    when distance(age, -2.5, 0, 1) <= 100.5 or contains(city, "Par\u{69}s\n") or alice-cookie != "x"
    for nothing
    until 1713484800
}
policy only-necessary { nothing }
"#;

const JSON: &str = r#"{"datatype":"cookie","collection":{"condition":"cookie.secure = true and age >= 18","entity":"flights.com","purposes":["ads","special_offers"],"retention":1734739200},"transfers":[{"condition":"starts_with(city, \"Pa\") or now < 2024-01-01","entity":"hotels.com","purposes":["hotel_ads"],"retention":1713484800}]}"#;

#[test]
fn fuzzed_text() {
    let words: Vec<&str> = TEXT.split_whitespace().chain(["(", ")", "true", "false", "\"\\u{0}\"", "\n//", "!="]).collect();
    fuzz("text", &[TEXT.into(), b"policy p { nothing }".into()], &words, fuzz_bodies::text);
}

#[test]
fn fuzzed_json() {
    let words = ["null", "\"condition\":", "\"age = 1\"", "[]", "{", "}", ",", "18446744073709551615", "\\u00e9", "\"ads\"", "1e9"];
    fuzz("json", &[JSON.into(), b"null".into()], &words, fuzz_bodies::json);
}

#[test]
fn fuzzed_cbor() {
    let vocabulary = Vocabulary::from_toml(fuzz_bodies::VOCABULARY).unwrap();
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    for source in parse_file(TEXT, &vocabulary).unwrap().policies {
        seeds.push(codec::encode(&source.choice, &vocabulary));
    }
    let words = ["\u{0}", "\u{1}", "ccity", "cads", "a=", "b<=", "dhour", "\u{18}", "\u{1a}", "\u{1b}"];
    fuzz("cbor", &seeds, &words, fuzz_bodies::cbor);
}

#[test]
fn fuzzed_vocabulary() {
    let words = ["[purposes]\n", "[items]\n", "extends = \"default\"\n", "= [\"ads\"]\n", "\"number\"", "\\u0000", "a.b", "#"];
    let seeds = [fuzz_bodies::VOCABULARY.into(), b"extends = \"default\"\n".into()];
    fuzz("vocabulary", &seeds, &words, fuzz_bodies::vocabulary);
}

/// Every monster, in every place where a parser might start to recurse, to copy or to search.
#[test]
fn monsters_are_refused_soon() {
    let repeated = |unit: &str| unit.repeat(MEGABYTE / unit.len());
    let units = [
        "(", ")", "[", "{", "\"", "\\", "not ", "true and ", "(age = ", "hour(", "distance(", "a.", "a,", "a,//\n", "#\n", "\n",
        "\r\n", "\0", "\u{feff}", "\u{202e}", "é", "a", "1", "-", "9-", "{\"a\":", "[[a]]\n", "a={a=", "\"\\u{41}", "''' ", "\"\"\"",
        "policy p { nothing }\n", "transfer to flights.com when age = 1 for nothing until 1\n",
    ];
    let places: [(&str, fn(&[u8]) -> bool, &[&str]); 3] = [
        ("text", fuzz_bodies::text, &["", "policy ", "policy p { collect cookie by flights.com when ", "policy p { collect cookie by flights.com when age = 1 or not ", "policy p { collect cookie by flights.com when city = \"", "policy p { collect cookie by flights.com for ads until ", "policy p { collect cookie by flights.com for ads, ", "policy p { collect cookie by flights.com for ads until 1 ", "policy p { // "]),
        ("json", fuzz_bodies::json, &["", "{\"datatype\":", "{\"datatype\":\"", "{\"transfers\":[", "{\"collection\":{\"condition\":\"", "{\"collection\":{\"condition\":\"age = 1 or not ", "{\"collection\":{\"purposes\":[\"ads\",", "{\"collection\":{\"retention\":", "{\"datatype\":\"cookie\",\""]),
        ("vocabulary", fuzz_bodies::vocabulary, &["", "[entities]\n", "[entities]\na = ", "[entities]\na = [", "[entities]\na = [\"", "extends = ", "extends = \"", "[items]\na = { type = ", "[attributes]\na.", "["]),
    ];
    for (name, body, prefixes) in places {
        for prefix in prefixes {
            for unit in units {
                let input = format!("{prefix}{}", repeated(unit));
                let start = Instant::now();
                body(input.as_bytes());
                assert!(start.elapsed() < STALL, "{name}: `{prefix}` and then `{unit}` took {:?}", start.elapsed());
            }
        }
    }
}
