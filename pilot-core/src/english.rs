//! Table 1, right column: what a policy means, as a person reads it.
//!
//! The sentences for the paper's own policies are the paper's, word for word (its one "hotel_ads purpose" is taken
//! for "purposes"). Alice's sentence says "if cookie.secure is true" where the paper says "is active".
//! Refusals are put into words in [`refusal`].

mod condition;
pub mod refusal;

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

pub use self::condition::condition;
use crate::condition::{Condition, Formula};
use crate::policy::{Choice, CommunicationRule, Policy, UsageRule};
use crate::value::Time;
use crate::vocabulary::Vocabulary;

/// What a choice allows.
pub fn sentence(choice: &Choice, vocabulary: &Vocabulary) -> String {
    match choice {
        Choice::Nothing => "Collected data may be used only for necessary purposes.".to_string(),
        Choice::Policy(policy) => policy_sentence(policy, vocabulary),
    }
}

fn policy_sentence(policy: &Policy, vocabulary: &Vocabulary) -> String {
    let collection = policy.collection();
    let datatype = vocabulary.datatypes.name(policy.datatype());
    let collector = vocabulary.entities.name(collection.entity);
    let when = when_collected(&collection.condition, vocabulary);
    let mut text = format!("Data of type {datatype} can be collected by {collector}{when} and ");
    let mut transfers = policy.transfers();
    match transfers.split_first() {
        // Option 4: ⟨∅, 0⟩ allows the collector no use of its own, so the transfer is all there is to say.
        Some((first, rest)) if is_no_use(&collection.usage) => {
            let when = when_transferred(&first.condition, vocabulary);
            text += &format!("transferred{when} to {}.", receiver(first, vocabulary));
            transfers = rest;
        }
        _ => text += &format!("used {}.", usage(&collection.usage, vocabulary)),
    }
    for rule in transfers {
        let when = when_transferred(&rule.condition, vocabulary);
        let receiver = receiver(rule, vocabulary);
        text += &format!(" This data may be transferred by {collector}{when} to {receiver}.");
    }
    text
}

/// ⟨∅, 0⟩.
fn is_no_use(usage: &UsageRule) -> bool {
    usage.purposes().is_empty() && usage.retention() == Time::default()
}

/// "hotels.com which may use it for hotel_ads purposes until 19/04/2024".
fn receiver(rule: &CommunicationRule, vocabulary: &Vocabulary) -> String {
    format!("{} which may use it {}", vocabulary.entities.name(rule.entity), usage(&rule.usage, vocabulary))
}

/// "for special_offers purposes until 21/12/2024".
fn usage(usage: &UsageRule, vocabulary: &Vocabulary) -> String {
    let names = usage.purposes().iter().map(|purpose| vocabulary.purposes.name(*purpose).to_string());
    let deadline = Moment(usage.retention());
    match list(names, "and") {
        None => format!("only for necessary purposes until {deadline}"),
        Some(purposes) => format!("for {purposes} purposes until {deadline}"),
    }
}

/// " if cookie.secure is true", with a comma where the "and" after it could be read as part of the condition.
fn when_collected(condition: &Condition, vocabulary: &Vocabulary) -> String {
    match condition.formula() {
        Formula::And(..) | Formula::Or(..) => format!("{},", when(condition, vocabulary)),
        _ => when(condition, vocabulary),
    }
}

/// ", if age is at least 18,".
fn when_transferred(condition: &Condition, vocabulary: &Vocabulary) -> String {
    match condition.formula() {
        Formula::True => String::new(),
        _ => format!(",{},", when(condition, vocabulary)),
    }
}

fn when(condition: &Condition, vocabulary: &Vocabulary) -> String {
    match condition.formula() {
        Formula::True => String::new(),
        Formula::False => " in no case".to_string(),
        _ => format!(" if {}", self::condition(condition, vocabulary)),
    }
}

/// "a, b and c"; nothing for nothing.
fn list(items: impl Iterator<Item = String>, last: &str) -> Option<String> {
    let mut items = items.peekable();
    let mut text = items.next()?;
    while let Some(item) = items.next() {
        text += &if items.peek().is_some() { format!(", {item}") } else { format!(" {last} {item}") };
    }
    Some(text)
}

/// A moment as the paper writes dates, 21/12/2024; all times of day are UTC.
#[derive(Debug, Clone, Copy)]
pub struct Moment(pub Time);

impl fmt::Display for Moment {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = self.0;
        let Some((year, month, day)) = time.date() else {
            return write!(out, "{} seconds after 1970", time.unix());
        };
        write!(out, "{day:02}/{month:02}/{year:04}")?;
        if !time.is_midnight() {
            write!(out, " at {:02}:{:02}:{:02} UTC", time.hour(), time.minute(), time.unix() % 60)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::parse_file;

    const WORDS: &str = "entities = { \"flights.com\" = [], \"hotels.com\" = [] }\n\
        datatypes = { cookie = [] }\n\
        purposes = { special_offers = [], hotel_ads = [], billing = [] }\n\
        attributes = { \"cookie.secure\" = \"boolean\", age = \"number\" }";

    fn english(body: &str) -> String {
        let vocabulary = Vocabulary::from_toml(WORDS).unwrap();
        let file = parse_file(&format!("policy p {{ {body} }}"), &vocabulary).unwrap();
        sentence(&file.policies[0].choice, &vocabulary)
    }

    /// Reference: Table 1, right column.
    #[test]
    fn the_four_options_of_table_1() {
        assert_eq!(english("nothing"), "Collected data may be used only for necessary purposes.");
        assert_eq!(
            english("collect cookie by flights.com for special_offers until 2024-12-21"),
            "Data of type cookie can be collected by flights.com and used for special_offers purposes until 21/12/2024."
        );
        assert_eq!(
            english(
                "collect cookie by flights.com for special_offers until 2024-12-21
                 transfer to hotels.com for hotel_ads until 2024-04-19"
            ),
            "Data of type cookie can be collected by flights.com and used for special_offers purposes until 21/12/2024. \
             This data may be transferred by flights.com to hotels.com which may use it for hotel_ads purposes until \
             19/04/2024."
        );
        assert_eq!(
            english(
                "collect cookie by flights.com for nothing until 0
                 transfer to hotels.com for hotel_ads until 2024-04-19"
            ),
            "Data of type cookie can be collected by flights.com and transferred to hotels.com which may use it for \
             hotel_ads purposes until 19/04/2024."
        );
    }

    /// Reference: §2, Alice's policy.
    #[test]
    fn the_policy_of_alice() {
        assert_eq!(
            english("collect cookie by flights.com when cookie.secure = true for special_offers until 2024-12-21"),
            "Data of type cookie can be collected by flights.com if cookie.secure is true and used for special_offers \
             purposes until 21/12/2024."
        );
    }

    #[test]
    fn no_purposes_do_not_hide_a_deadline() {
        assert_eq!(
            english(
                "collect cookie by flights.com for nothing until 2024-12-21T10:30:00Z
                 transfer to hotels.com for nothing until 2024-04-19"
            ),
            "Data of type cookie can be collected by flights.com and used only for necessary purposes until \
             21/12/2024 at 10:30:00 UTC. This data may be transferred by flights.com to hotels.com which may use it \
             only for necessary purposes until 19/04/2024."
        );
        assert!(english("collect cookie by flights.com for nothing until 0").ends_with("until 01/01/1970."));
        let late = english("collect cookie by flights.com for nothing until 253402300800");
        assert!(late.ends_with("until 253402300800 seconds after 1970."), "{late}");
    }

    #[test]
    fn conditions_of_both_rules_are_said() {
        assert_eq!(
            english(
                "collect cookie by flights.com when age >= 18 and cookie.secure for billing, special_offers until 9
                 transfer to flights.com for billing, hotel_ads, special_offers until 0
                 transfer to hotels.com when age > 20 for hotel_ads until 0"
            ),
            "Data of type cookie can be collected by flights.com if both age is at least 18 and cookie.secure is true, \
             and used for billing and special_offers purposes until 01/01/1970 at 00:00:09 UTC. \
             This data may be transferred by flights.com to flights.com which may use it for billing, hotel_ads and \
             special_offers purposes until 01/01/1970. \
             This data may be transferred by flights.com, if age is greater than 20, to hotels.com which may use it \
             for hotel_ads purposes until 01/01/1970."
        );
        assert_eq!(
            english(
                "collect cookie by flights.com when false for nothing until 0
                 transfer to hotels.com when false for hotel_ads until 0"
            ),
            "Data of type cookie can be collected by flights.com in no case and transferred, in no case, to hotels.com \
             which may use it for hotel_ads purposes until 01/01/1970."
        );
    }
}
