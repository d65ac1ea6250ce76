//! Vocabulary files: what loads, what is refused and in which words, and the built-in vocabulary.

#![expect(clippy::expect_used, clippy::panic, reason = "a test may panic")]

use std::fmt::Write as _;

use pilot_core::value::Kind;
use pilot_core::vocabulary::{Id, MAX_NAMES, Order, Vocabulary, VocabularyProblem};

fn problem(source: &str) -> VocabularyProblem {
    Vocabulary::from_toml(source).expect_err("refused").problem
}

fn le<I: Id>(order: &Order<I>, a: &str, b: &str) -> bool {
    let id = |name: &str| order.id(name).unwrap_or_else(|| panic!("no {name}"));
    order.le(id(a), id(b))
}

#[test]
fn a_name_may_have_several_parents() {
    let vocabulary = Vocabulary::from_toml(
        "[purposes]\nads = []\nresearch = []\nsurvey = [\"research\", \"ads\"]\nphone-survey = [\"survey\"]\n",
    )
    .unwrap();
    let purposes = &vocabulary.purposes;
    for (a, b, expected) in [
        ("survey", "ads", true),
        ("survey", "research", true),
        ("phone-survey", "ads", true),
        ("phone-survey", "research", true),
        ("ads", "ads", true),
        ("ads", "survey", false),
        ("ads", "research", false),
    ] {
        assert_eq!(le(purposes, a, b), expected, "{a} ≤ {b}");
    }
    assert_eq!(Vec::from_iter(purposes.names()), ["ads", "phone-survey", "research", "survey"]);
}

#[test]
fn a_cycle_is_refused_and_named() {
    let cycle = |source: &str| match problem(source) {
        VocabularyProblem::Cycle(names) => names.join(" ≤ "),
        other => panic!("{other}"),
    };
    assert_eq!(cycle("[entities]\na = [\"a\"]"), "a ≤ a");
    assert_eq!(cycle("[datatypes]\na = [\"b\"]\nb = [\"c\"]\nc = [\"a\"]"), "a ≤ b ≤ c ≤ a");
    // Names that lead into the cycle, or out of it, are no part of it.
    let source = "[purposes]\nroot = []\na = [\"x\"]\nx = [\"root\", \"y\"]\ny = [\"x\"]\nz = [\"y\", \"root\"]";
    assert_eq!(cycle(source), "x ≤ y ≤ x");
}

/// Line, column, the line itself with a caret, and the nearest known name.
#[test]
fn mistakes_are_shown_where_they_are() {
    for (source, message) in [
        (
            "[entities]\ngoogle = []\nads = [\"gogle\"]",
            "line 3, column 8: unknown parent `gogle`; did you mean `google`?\n 3 | ads = [\"gogle\"]\n   |        ^^^^^^^",
        ),
        (
            "[entity]\ngoogle = []",
            "line 1, column 2: unknown field `entity`, expected one of `extends`, `entities`, `datatypes`, \
             `purposes`, `attributes`, `devices`, `items`\n 1 | [entity]\n   |  ^^^^^^",
        ),
        ("[entities]\na = []\na = []", "line 3, column 1: duplicate key\n 3 | a = []\n   | ^"),
        (
            "[entities]\na = [\"b\", \"b\"]\nb = []",
            "line 2, column 11: `b` is named twice\n 2 | a = [\"b\", \"b\"]\n   |           ^^^",
        ),
        (
            "[purposes]\nuntil = []",
            "line 2, column 1: bad name `until`: this word belongs to the policy language\n 2 | until = []\n   | ^^^^^",
        ),
        (
            "[attributes]\nage = \"float\"",
            "line 2, column 7: unknown kind `float`: an attribute is a number, string, boolean or time\n \
             2 | age = \"float\"\n   |       ^^^^^^^",
        ),
        (
            "[entities]\nalice = []\n[devices]\nphone = \"alise\"",
            "line 4, column 9: unknown entity `alise`; did you mean `alice`?\n 4 | phone = \"alise\"\n   |         ^^^^^^^",
        ),
        (
            "extends = \"dpv\"",
            "line 1, column 11: unknown vocabulary `dpv`: only `default` can be extended\n \
             1 | extends = \"dpv\"\n   |           ^^^^^",
        ),
        (
            "extends = \"default\"\n[purposes]\nMarketing = []",
            "line 3, column 1: `Marketing` is named twice\n 3 | Marketing = []\n   | ^^^^^^^^^",
        ),
    ] {
        assert_eq!(Vocabulary::from_toml(source).expect_err("refused").to_string(), message, "{source}");
    }
}

#[test]
fn unknown_keys_are_refused() {
    let items = "[entities]\nalice = []\n[datatypes]\nmac = []\n[devices]\nphone = \"alice\"\n[items]\n";
    for source in [
        "[purpose]\n",
        "extend = \"default\"",
        &format!("{items}m = {{ type = \"mac\", owner = \"phone\", size = 3 }}"),
    ] {
        assert!(matches!(problem(source), VocabularyProblem::Toml(text) if text.contains("unknown field")), "{source}");
    }
    assert!(matches!(problem(&format!("{items}m = {{ type = \"mac\" }}")), VocabularyProblem::Toml(_)));
    assert!(matches!(
        problem(&format!("{items}m = {{ type = \"max\", owner = \"phone\" }}")),
        VocabularyProblem::UnknownDatatype(_, hint) if hint.0.as_deref() == Some("mac")
    ));
    assert!(matches!(
        problem(&format!("{items}m = {{ type = \"mac\", owner = \"phome\" }}")),
        VocabularyProblem::UnknownDevice(_, hint) if hint.0.as_deref() == Some("phone")
    ));
}

/// "An item may be used in conditions as an attribute of its type's values."
#[test]
fn items_are_attributes_of_their_types_kind() {
    let vocabulary = Vocabulary::from_toml(
        r#"
        [entities]
        alice = []
        [datatypes]
        mac-address = []
        age = []
        [attributes]
        age = "number"
        [devices]
        alice-phone = "alice"
        alice-watch = "alice"
        [items]
        alice-mac = { type = "mac-address", owner = "alice-watch" }
        alice-age = { type = "age", owner = "alice-phone" }
        "#,
    )
    .unwrap();
    let kind_of = |name| vocabulary.variable(name).map(|(_, kind)| kind);
    assert_eq!(kind_of("age"), Some(Kind::Number));
    assert_eq!(kind_of("alice-age"), Some(Kind::Number));
    assert_eq!(kind_of("alice-mac"), Some(Kind::String));
    assert_eq!(kind_of("alice"), None);

    let item = vocabulary.directory().item(vocabulary.item("alice-mac").unwrap()).unwrap();
    assert_eq!(Some(item.datatype), vocabulary.datatypes.id("mac-address"));
    assert_eq!(Some(item.owner), vocabulary.device("alice-watch"));
    assert_eq!(vocabulary.directory().entity(item.owner), vocabulary.entities.id("alice"));

    let clash = "[entities]\na = []\n[datatypes]\nt = []\n[attributes]\nx = \"time\"\n[devices]\nd = \"a\"\n[items]\n";
    let clash = format!("{clash}x = {{ type = \"t\", owner = \"d\" }}");
    assert!(matches!(problem(&clash), VocabularyProblem::ItemIsAttribute(_)));
}

/// The names of one section, `name(at)` under `parents(at)`.
fn section(title: &str, count: usize, parents: impl Fn(usize) -> Vec<usize>) -> String {
    let mut toml = format!("[{title}]\n");
    for at in 0..count {
        let parents: Vec<String> = parents(at).iter().map(|parent| format!("n{parent}")).collect();
        writeln!(toml, "n{at} = {parents:?}").expect("a string takes all");
    }
    toml
}

/// Reference: at least 10,000 names per order must load.
#[test]
fn ten_thousand_names_per_order_load() {
    const COUNT: usize = 10_000;
    let bush = |at: usize| if at == 0 { vec![] } else { vec![(at - 1) / 10] };
    let chain = |at: usize| if at == 0 { vec![] } else { vec![at - 1] };
    let lattice = |at: usize| if at < 3 { vec![] } else { vec![at - 1, at - 2, at - 3] };
    let toml =
        section("entities", COUNT, bush) + &section("datatypes", COUNT, chain) + &section("purposes", COUNT, lattice);
    let vocabulary = Vocabulary::from_toml(&toml).unwrap();
    assert_eq!([vocabulary.entities.len(), vocabulary.datatypes.len(), vocabulary.purposes.len()], [COUNT; 3]);
    assert!(le(&vocabulary.entities, "n9999", "n0") && !le(&vocabulary.entities, "n9999", "n1"));
    assert!(le(&vocabulary.datatypes, "n9999", "n0") && !le(&vocabulary.datatypes, "n0", "n9999"));
    assert!(le(&vocabulary.purposes, "n9999", "n2") && !le(&vocabulary.purposes, "n2", "n1"));

    let closed = section("purposes", COUNT, |at| vec![(at + 1) % COUNT]);
    assert!(matches!(problem(&closed), VocabularyProblem::Cycle(names) if names.len() == COUNT + 1));
    assert_eq!(problem(&section("purposes", MAX_NAMES + 1, bush)), VocabularyProblem::TooManyNames);
    assert!(Vocabulary::from_toml(&section("purposes", MAX_NAMES, bush)).is_ok());
}

/// Reference: W3C Data Privacy Vocabulary, purposes and the extension for personal data.
#[test]
fn the_built_in_vocabulary_is_dpvs() {
    let vocabulary = Vocabulary::built_in().unwrap();
    assert!(vocabulary.purposes.len() >= 120, "{} purposes", vocabulary.purposes.len());
    assert!(vocabulary.datatypes.len() >= 200, "{} datatypes", vocabulary.datatypes.len());
    assert!(vocabulary.entities.is_empty());
    for (a, b, expected) in [
        ("DirectMarketing", "Marketing", true),
        ("TargetedAdvertising", "Advertising", true),
        // Two parents.
        ("PersonalisedAdvertising", "Marketing", true),
        ("PersonalisedAdvertising", "Personalisation", true),
        ("AcademicResearch", "ResearchAndDevelopment", true),
        ("Marketing", "Advertising", false),
        ("ServiceProvision", "Marketing", false),
    ] {
        assert_eq!(le(&vocabulary.purposes, a, b), expected, "{a} ≤ {b}");
    }
    for (a, b, expected) in [
        ("MACAddress", "DeviceBased", true),
        ("MACAddress", "PersonalData", true),
        ("Fingerprint", "SpecialCategoryPersonalData", true),
        ("BirthCountry", "Country", true),
        ("PaymentCardNumber", "Financial", true),
        ("Location", "SpecialCategoryPersonalData", false),
        ("Tracking", "MACAddress", false),
    ] {
        assert_eq!(le(&vocabulary.datatypes, a, b), expected, "{a} ≤ {b}");
    }
    // One root each, so that a policy can speak of all personal data and of all purposes.
    let purposes = &vocabulary.purposes;
    assert!(purposes.ids().all(|id| purposes.le(id, purposes.id("Purpose").unwrap())));
    let datatypes = &vocabulary.datatypes;
    assert!(datatypes.ids().all(|id| datatypes.le(id, datatypes.id("PersonalData").unwrap())));
}

#[test]
fn a_vocabulary_may_extend_the_built_in_one() {
    let source = r#"
        extends = "default"
        [entities]
        mall = []
        [purposes]
        mall-newsletter = ["DirectMarketing", "CustomerRelationshipManagement"]
        [datatypes]
        shoe-size = ["PhysicalCharacteristic"]
        [attributes]
        floor = "number"
    "#;
    let extended = match Vocabulary::from_toml(source) {
        Ok(extended) => extended,
        Err(error) => panic!("{error}"),
    };
    let built_in = Vocabulary::built_in().unwrap();
    assert_eq!(extended.purposes.len(), built_in.purposes.len() + 1);
    assert!(built_in.purposes.names().all(|name| extended.purposes.id(name).is_some()));
    assert!(le(&extended.purposes, "mall-newsletter", "Marketing"));
    assert!(le(&extended.datatypes, "shoe-size", "PersonalData"));
    assert!(extended.variable("floor").is_some() && extended.variable("age").is_some());
    // A parent of the base must exist, too.
    let source = "extends = \"default\"\n[purposes]\nx = [\"Markting\"]";
    let error = Vocabulary::from_toml(source).expect_err("refused");
    assert_eq!((error.line, error.column), (3, 6));
    assert_eq!(error.problem.to_string(), "unknown parent `Markting`; did you mean `Marketing`?");
}
