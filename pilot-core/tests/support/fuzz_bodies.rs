//! What each parser is fuzzed with: it may refuse an input, but what it accepts must round-trip, and what it says
//! about a refusal must be fit to show. Each body says whether there was something in its input to accept.
//!
//! Run by a seeded mutator in `bad_input.rs`, and by cargo-fuzz for as long as one likes (`fuzz/`).

use std::fmt::Display;
use std::sync::LazyLock;

use pilot_core::codec;
use pilot_core::policy::Choice;
use pilot_core::subsumption::Judge;
use pilot_core::syntax::format::file_text;
use pilot_core::syntax::{json, parse_file};
use pilot_core::vocabulary::{Id, Order, Vocabulary};

/// Names of every kind, for the policies in the inputs.
pub const VOCABULARY: &str = r#"
[entities]
alphabet = []
"flights.com" = ["alphabet"]
"hotels.com" = ["alphabet", "mall-gate#basic"]
"mall-gate#basic" = []
[datatypes]
address = []
city-name = ["address"]
cookie = []
[purposes]
ads = []
hotel_ads = ["ads"]
special_offers = ["ads"]
[attributes]
age = "number"
"cookie.secure" = "boolean"
city = "string"
now = "time"
[devices]
alice-phone = "alphabet"
[items]
alice-cookie = { type = "cookie", owner = "alice-phone" }
"#;

static KNOWN: LazyLock<Vocabulary> = LazyLock::new(|| Vocabulary::from_toml(VOCABULARY).expect("it is valid"));

/// The text form.
pub fn text(data: &[u8]) -> bool {
    let source = String::from_utf8_lossy(data);
    let file = match parse_file(&source, &KNOWN) {
        Ok(file) => file,
        Err(error) => return refused(&error),
    };
    let formatted = file_text(&file.policies, &file.end_comments, &KNOWN);
    let again = parse_file(&formatted, &KNOWN).unwrap_or_else(|error| panic!("{error}\n{formatted}"));
    assert_eq!(formatted, file_text(&again.policies, &again.end_comments, &KNOWN), "formatting twice changes nothing");
    assert_eq!(file.policies.len(), again.policies.len());
    for (policy, again) in file.policies.iter().zip(&again.policies) {
        assert_eq!((&policy.name, &policy.choice), (&again.name, &again.choice));
        check_forms(&policy.choice);
    }
    !file.policies.is_empty()
}

/// The JSON form.
pub fn json(data: &[u8]) -> bool {
    let source = String::from_utf8_lossy(data);
    match json::parse(&source, &KNOWN) {
        Ok(choice) => check_forms(&choice),
        Err(error) => refused(&error),
    }
}

/// The canonical bytes.
pub fn cbor(data: &[u8]) -> bool {
    match codec::decode(data, &KNOWN) {
        Ok(choice) => {
            assert_eq!(codec::encode(&choice, &KNOWN), data, "one byte form per policy");
            check_forms(&choice)
        }
        Err(error) => refused(&error),
    }
}

/// Vocabulary files.
pub fn vocabulary(data: &[u8]) -> bool {
    let source = String::from_utf8_lossy(data);
    match Vocabulary::from_toml(&source) {
        Ok(vocabulary) => {
            check_order(&vocabulary.entities);
            check_order(&vocabulary.datatypes);
            check_order(&vocabulary.purposes);
            for (name, kind) in vocabulary.attributes() {
                let (variable, known) = vocabulary.variable(name).expect("it was listed");
                assert_eq!((vocabulary.variable_name(variable), known), (name, kind));
            }
            for device in vocabulary.directory().devices() {
                assert_eq!(vocabulary.device(vocabulary.device_name(device)), Some(device));
            }
            for item in vocabulary.directory().items() {
                assert_eq!(vocabulary.item(vocabulary.item_name(item)), Some(item));
            }
            true
        }
        Err(error) => refused(&error),
    }
}

/// A policy is the same after a journey through each form, and ⊑ itself.
fn check_forms(choice: &Choice) -> bool {
    let text = json::text(choice, &KNOWN);
    assert_eq!(json::parse(&text, &KNOWN).as_ref(), Ok(choice), "{text}");
    let bytes = codec::encode(choice, &KNOWN);
    assert_eq!(codec::decode(&bytes, &KNOWN).as_ref(), Ok(choice), "{text}");
    assert!(choice.subsumes(choice, &Judge::new(&KNOWN)), "{text}");
    true
}

/// Parents before children, names in order, and no two names each a kind of the other.
fn check_order<I: Id>(order: &Order<I>) {
    assert!(order.names().is_sorted());
    for id in order.ids() {
        assert_eq!(order.id(order.name(id)), Some(id));
        assert!(order.le(id, id));
        for parent in order.parents(id) {
            assert!(order.le(id, *parent) && !order.le(*parent, id));
        }
    }
}

/// An error is short and holds nothing that steers a terminal.
pub fn refused(error: &impl Display) -> bool {
    const MAX_MESSAGE_BYTES: usize = 2_048;
    let message = error.to_string();
    assert!(message.len() <= MAX_MESSAGE_BYTES, "{} bytes: {message}", message.len());
    assert!(!message.chars().any(|character| character.is_control() && character != '\n'), "{message:?}");
    false
}
