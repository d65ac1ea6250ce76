//! Bad input is refused with a sentence: no parser crashes, stalls, or accepts what it could not write again.

#![expect(clippy::panic, reason = "a test may panic")]

mod support;

use std::time::{Duration, Instant};

use pilot_core::codec::{self, CodecProblem};
use pilot_core::condition::ConditionProblem;
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

fn vocabulary() -> Vocabulary {
    Vocabulary::from_toml(fuzz_bodies::VOCABULARY).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn fuzzed_text() {
    let words: Vec<&str> =
        TEXT.split_whitespace().chain(["(", ")", "true", "false", "\"\\u{0}\"", "\n//", "!="]).collect();
    fuzz("text", &[TEXT.into(), b"policy p { nothing }".into()], &words, fuzz_bodies::text);
}

#[test]
fn fuzzed_json() {
    let words = [
        "null",
        "\"condition\":",
        "\"age = 1\"",
        "[]",
        "{",
        "}",
        ",",
        "18446744073709551615",
        "\\u00e9",
        "\"ads\"",
        "1e9",
    ];
    fuzz("json", &[JSON.into(), b"null".into()], &words, fuzz_bodies::json);
}

#[test]
fn fuzzed_cbor() {
    let vocabulary = vocabulary();
    let policies = parse_file(TEXT, &vocabulary).unwrap().policies;
    let seeds: Vec<Vec<u8>> = policies.iter().map(|source| codec::encode(&source.choice, &vocabulary)).collect();
    let words = ["\u{0}", "\u{1}", "ccity", "cads", "a=", "b<=", "dhour", "\u{18}", "\u{1a}", "\u{1b}"];
    fuzz("cbor", &seeds, &words, fuzz_bodies::cbor);
}

#[test]
fn fuzzed_vocabulary() {
    let words =
        ["[purposes]\n", "[items]\n", "extends = \"default\"\n", "= [\"ads\"]\n", "\"number\"", "\\u0000", "a.b", "#"];
    let seeds = [fuzz_bodies::VOCABULARY.into(), b"extends = \"default\"\n".into()];
    fuzz("vocabulary", &seeds, &words, fuzz_bodies::vocabulary);
}

/// A megabyte of each of these, in every place where a parser might start to recurse, to copy or to search.
const MONSTERS: [&str; 24] = [
    "(",
    "[",
    "{",
    "\"",
    "\\",
    "not ",
    "true and ",
    "hour(",
    "a.",
    "a,",
    "a,//\n",
    "ads,#\n",
    "#\n",
    "\r\n",
    "\0",
    "\u{feff}",
    "\u{202e}",
    "é",
    "9",
    "-",
    "{\"a\":",
    "[[a]]\n",
    "\"\\u{41}",
    "transfer to flights.com for nothing until 1 ",
];

fn refuse_monsters(body: fn(&[u8]) -> bool, places: &[(&str, &str)]) {
    for monster in MONSTERS {
        let middle = monster.repeat(MEGABYTE / monster.len());
        for (before, after) in places {
            let input = format!("{before}{middle}{after}");
            let start = Instant::now();
            assert!(!body(input.as_bytes()), "`{before}` and then `{monster}` is accepted");
            let took = start.elapsed();
            assert!(took < STALL, "`{before}` and then `{monster}` took {took:?}");
        }
    }
}

#[test]
fn text_of_a_megabyte_is_refused_soon() {
    let places = [
        "",
        " when ",
        " when age = 1 or not ",
        " when city = \"",
        " for ads, ",
        " for ads until ",
        " for ads until 1 ",
    ];
    let places = places.map(|place| match place {
        "" => String::new(),
        place => format!("policy p {{ collect cookie by flights.com{place}"),
    });
    // A comment has no end here, and the last place is one.
    let places = places.each_ref().map(|place| (place.as_str(), "\npolicy"));
    refuse_monsters(fuzz_bodies::text, &places);
}

#[test]
fn json_of_a_megabyte_is_refused_soon() {
    let places = [
        ("", ""),
        ("{\"", "\":1}"),
        ("{\"datatype\":", "}"),
        ("{\"datatype\":\"", "\"}"),
        ("{\"transfers\":[", "]}"),
        ("{\"collection\":{\"condition\":\"", "\"}}"),
        ("{\"collection\":{\"condition\":\"age = 1 or not ", "\"}}"),
        ("{\"collection\":{\"purposes\":[\"ads\",", "]}}"),
    ];
    refuse_monsters(fuzz_bodies::json, &places);
}

#[test]
fn vocabularies_of_a_megabyte_are_refused_soon() {
    let places = [
        ("", "="),
        ("\"", "\" = 1"),
        ("[entities]\na = ", ""),
        ("[entities]\na = [\"b\", ", "]"),
        ("[entities]\na = [\"", "\"]"),
        ("[items]\na = { type = ", "}"),
        ("[attributes]\na.", " = 1"),
    ];
    refuse_monsters(fuzz_bodies::vocabulary, &places);
}

#[test]
fn bytes_of_every_kind_are_refused_soon() {
    let head = b"\x84\x01\x66cookie\x84".as_slice();
    // Arrays of one, endless arrays, maps, tags, texts in pieces; `not` in the place of a condition; calls in calls.
    let units: [&[u8]; 8] =
        [b"\x81", b"\x9f", b"\xa1\x00", b"\xc1", b"\x7f", b"\x82\x01", b"\x83\x02\xf5", b"\x83\x05\x66length"];
    for unit in units {
        for before in [b"".as_slice(), head, &[head, b"\x84\x00"].concat()] {
            for size in [MAX_POLICY_BYTES - 64, MEGABYTE] {
                let start = Instant::now();
                let input = [before, &unit.repeat(size / unit.len())].concat();
                assert!(!fuzz_bodies::cbor(&input), "{}", unit.escape_ascii());
                assert!(start.elapsed() < STALL, "{}", unit.escape_ascii());
            }
        }
    }
    // Headers that promise 2⁶⁴ - 1 elements.
    for header in [0x9b, 0xbb, 0x5b, 0x7b, 0xdb] {
        let huge = [[header].as_slice(), &[0xff; 8]].concat();
        for before in [b"".as_slice(), b"\x84\x01", head, &[head, b"\xf5\x6bflights.com"].concat()] {
            assert!(!fuzz_bodies::cbor(&[before, &huge].concat()));
        }
    }
    let problem = |bytes: &[u8]| codec::decode(bytes, &vocabulary()).expect_err("refused").problem;
    assert_eq!(problem(&vec![0; MAX_POLICY_BYTES + 1]), CodecProblem::TooLarge);
    let nested = [head, &b"\x82\x01".repeat(1_000)].concat();
    assert_eq!(problem(&nested), CodecProblem::Condition(ConditionProblem::TooDeep));
}

#[test]
fn lines_may_end_in_any_way() {
    let vocabulary = vocabulary();
    let choices = |text: &str| {
        let file = parse_file(text, &vocabulary).unwrap_or_else(|error| panic!("{error}"));
        file.policies.into_iter().map(|source| source.choice).collect::<Vec<_>>()
    };
    assert_eq!(choices(&TEXT.replace('\n', "\r\n")), choices(TEXT));
    let crlf = fuzz_bodies::VOCABULARY.replace('\n', "\r\n");
    assert!(Vocabulary::from_toml(&crlf).is_ok());
}

/// Line, column, the line itself with a caret, and the nearest known name.
#[test]
fn mistakes_in_texts_are_shown_where_they_are() {
    let vocabulary = vocabulary();
    let check = |source: &str, message: &str| {
        let error = parse_file(source, &vocabulary).expect_err("refused").to_string();
        assert_eq!(error, message.trim_start_matches('\n'), "{source}");
    };
    check(
        "policy p {\n  collect cookei by flights.com\n    for ads until 9\n}",
        r"
line 2, column 11: unknown datatype `cookei`; did you mean `cookie`?
 2 |   collect cookei by flights.com
   |           ^^^^^^",
    );
    check(
        "policy p { nothing }\npolicy q {\n\tcollect cookie by flights.com for ads, special_ofers until 9 }",
        r"
line 3, column 41: unknown purpose `special_ofers`; did you mean `special_offers`?
 3 |  collect cookie by flights.com for ads, special_ofers until 9 }
   |                                         ^^^^^^^^^^^^^",
    );
    let rule = |rest: &str| format!("policy p {{\n  collect cookie by flights.com\n  {rest}\n}}");
    for (rest, message) in [
        ("when Age >= 18 for ads until 9", "column 8: unknown attribute `Age`; did you mean `age`?"),
        ("when our(now) = 9 for ads until 9", "column 8: unknown function `our`; did you mean `hour`?"),
        ("when age >= \"18\" for ads until 9", "column 8: a number cannot be compared with a string"),
        ("when city < \"x\" for ads until 9", "column 8: a string cannot be compared with `<`, only with `=` and `!=`"),
        ("when hour(age) = 9 for ads until 9", "column 8: argument 1 of `hour` must be a time, and this is a number"),
        ("when age for ads until 9", "column 8: a number is no condition; compare it with something"),
        ("when city = \"Paris for ads until 9", "column 15: this text has no closing quote on its line"),
        (
            "when age = 1.2345678 for ads until 9",
            "column 14: bad number `1.2345678`: a number has at most six decimal places",
        ),
        ("when (age = 1 for ads until 9", "column 17: expected `)`, found `for`"),
        (
            "when 18 <= age < 65 for ads until 9",
            "column 18: expected `and`, `or` or the end of the condition, found `<`",
        ),
        ("for ads", "line 4, column 1: expected `,` or `until`, found `}`"),
        ("for ads, ads until 9", "column 3: a purpose is named twice"),
        ("for ads until 2024-02-30", "column 17: bad time `2024-02-30`: there is no such day or time of day"),
        ("until 9", "column 3: expected `when` or `for`, found `until`"),
        ("for ads until 9 transfers", "column 19: expected `transfer` or `}`, found `transfers`"),
        ("for é until 9", "column 7: unexpected character `é` (U+00E9)"),
    ] {
        let error = parse_file(&rule(rest), &vocabulary).expect_err("refused").to_string();
        assert!(error.contains(message), "{error}");
        assert!(error.starts_with("line 3, ") || message.starts_with("line "), "{error}");
    }
    check(
        "policy p {",
        "line 1, column 11: expected `collect` or `nothing`, found the end\n 1 | policy p {\n   |           ^",
    );
    check(
        "policy p { nothing }\npolicy p { nothing }",
        "line 2, column 8: a policy called `p` stands above already\n 2 | policy p { nothing }\n   |        ^",
    );
}

/// serde_json stops behind what it cannot use, so that is where the caret stands.
#[test]
fn mistakes_in_json_are_shown_where_they_are() {
    let vocabulary = vocabulary();
    let valid = "{\"datatype\":\"cookie\",\n\"collection\":{\"condition\":\"true\",\"entity\":\"flights.com\",\"purposes\":[\"ads\"],\"retention\":9},\n\"transfers\":[]}";
    assert!(json::parse(valid, &vocabulary).is_ok());
    let check = |old: &str, new: &str, message: &str| {
        let error = json::parse(&valid.replacen(old, new, 1), &vocabulary).expect_err("refused").to_string();
        assert_eq!(error.lines().next(), Some(message), "{error}");
    };
    let error = json::parse(&valid.replace("cookie", "cookei"), &vocabulary).expect_err("refused").to_string();
    assert_eq!(
        error,
        "line 1, column 20: unknown datatype `cookei`; did you mean `cookie`?\n 1 | {\"datatype\":\"cookei\",\n   |                    ^"
    );
    check("\"ads\"", "\"add\"", "line 2, column 73: unknown purpose `add`; did you mean `ads`?");
    check(
        "true",
        "agee > 1",
        "line 2, column 36: character 1 of the condition: unknown attribute `agee`; did you mean `age`?",
    );
    check(
        "true",
        "age = 1 and ",
        "line 2, column 40: character 13 of the condition: expected an attribute, a constant or a function, found the end",
    );
    check("\"ads\"", "\"ads\",\"ads\"", "line 2, column 95: a purpose is named twice");
    check(
        "\"transfers\"",
        "\"transfer\"",
        "line 3, column 10: unknown field `transfer`, expected one of `datatype`, `collection`, `transfers`",
    );
    check(",\n\"transfers\":[]", "", "line 2, column 90: missing field `transfers`");
    check("\"datatype\":", "\"datatype\":\"cookie\",\"datatype\":", "line 1, column 31: duplicate field `datatype`");
    check(":9", ":9.5", "line 2, column 90: invalid type: floating point `9.5`, expected u64");
    check(":9", ":-1", "line 2, column 89: invalid value: integer `-1`, expected u64");
    check("[]}", "[]} x", "line 3, column 17: trailing characters");
    check("true", "\\ud800", "line 2, column 34: unexpected end of hex escape");
    check("{", "\u{feff}{", "line 1, column 1: expected value");
}

#[test]
fn mistakes_in_bytes_are_shown_where_they_are() {
    let vocabulary = vocabulary();
    for (bytes, message) in [
        (b"".as_slice(), "byte 0: end of input bytes"),
        (b"\x84\x01\x66cookei", "byte 9: unknown datatype `cookei`; did you mean `cookie`?"),
        (
            b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff",
            "byte 9: an array of 4 was needed, this one has 18446744073709551615",
        ),
        (b"\x84\x07", "byte 2: policy form 7 is not known, only 1"),
        (b"\x84\x01\x66cookie\x84\x82\x09\xf5", "byte 12: 9 stands for no condition or term"),
        (b"\x84\x01\x66cookie\x84\x84\x00\x82\x00\x64agee", "byte 19: unknown attribute `agee`; did you mean `age`?"),
        (b"\x84\x01\x66cookie\x84\x84\x00\x82\x00\x63age\x61~", "byte 20: unknown comparison `~`"),
        (
            b"\x84\x01\x66cookie\x84\x84\x00\x82\x00\x63age\x61=\x82\x02\x61x",
            "byte 24: a number cannot be compared with a string",
        ),
    ] {
        let error = codec::decode(bytes, &vocabulary).expect_err("refused");
        assert_eq!(error.to_string(), message, "{}", bytes.escape_ascii());
    }
}

/// What a reviewer sees is what there is: characters that hide or reorder text are refused, in comments as well.
#[test]
fn invisible_characters_are_refused_everywhere() {
    let vocabulary = Vocabulary::built_in().unwrap();
    for strange in ["\u{200b}", "\u{202e}", "\u{2066}", "\u{61c}", "\u{3164}", "\u{e0041}", "\u{7f}", "\u{1b}", "a\rb"]
    {
        for text in
            [format!("// a{strange}b\n"), format!("policy p {{ nothing }} # {strange}x\n"), format!("poli{strange}cy")]
        {
            assert!(parse_file(&text, &vocabulary).is_err(), "{text:?}");
        }
    }
    assert!(parse_file("// tabs\tand é are fine\r\npolicy p { nothing }\r\n", &vocabulary).is_ok());
}
