//! Refusals in words: why p ⋢ q, what would change that, and why a policy is not active.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Moment, condition, list, usage, when};
use crate::active::Inactive;
use crate::condition::Condition;
use crate::explain::{Change, Explanation, Failure, RuleChange, RuleFailure};
use crate::policy::{Choice, CommunicationRule};
use crate::vocabulary::Vocabulary;

/// Why p ⋢ q, and what would change that: "purpose `ads` is not covered; would be accepted under `q` if the
/// controller dropped the purpose `ads`". `under` is the name of q.
pub fn explanation(explanation: &Explanation, p: &Choice, under: &str, vocabulary: &Vocabulary) -> String {
    let failures = failures(explanation, p, vocabulary).join("; ");
    let changes = list(changes(explanation, p, vocabulary).into_iter(), "and").unwrap_or_default();
    format!("{failures}; would be accepted under `{under}` if the controller {changes}")
}

/// Every clause of p ⊑ q that fails.
pub fn failures(explanation: &Explanation, p: &Choice, vocabulary: &Vocabulary) -> Vec<String> {
    explanation.failures.iter().map(|each| failure(each, p, vocabulary)).collect()
}

/// Every change that is needed, each to be read after "if the controller".
pub fn changes(explanation: &Explanation, p: &Choice, vocabulary: &Vocabulary) -> Vec<String> {
    explanation.changes.iter().map(|each| change(each, p, vocabulary)).collect()
}

/// The clause of p ⊑ q that fails.
pub fn failure(failure: &Failure, p: &Choice, vocabulary: &Vocabulary) -> String {
    match failure {
        Failure::NothingAccepted => "nothing is accepted".to_string(),
        Failure::Datatype { offered, accepted } => {
            let (offered, accepted) = (vocabulary.datatypes.name(*offered), vocabulary.datatypes.name(*accepted));
            format!("datatype `{offered}` is no kind of `{accepted}`")
        }
        Failure::Collection(failure) => rule_failure(failure, vocabulary),
        Failure::Transfer { rule, nearest } => {
            let transfer = transfer(p, *rule, vocabulary);
            match nearest {
                None => format!("{transfer}: no transfer is accepted"),
                Some((_, failures)) => {
                    let failures: Vec<String> = failures.iter().map(|each| rule_failure(each, vocabulary)).collect();
                    format!("{transfer}: {}", failures.join(", "))
                }
            }
        }
    }
}

/// What one rule asks beyond another.
pub fn rule_failure(failure: &RuleFailure, vocabulary: &Vocabulary) -> String {
    match failure {
        RuleFailure::Entity { offered, accepted } => {
            let (offered, accepted) = (vocabulary.entities.name(*offered), vocabulary.entities.name(*accepted));
            format!("entity `{offered}` is not part of `{accepted}`")
        }
        RuleFailure::Purpose(purpose) => format!("purpose `{}` is not covered", vocabulary.purposes.name(*purpose)),
        RuleFailure::Retention { offered, accepted } => {
            format!("deadline {} is later than {}", Moment(*offered), Moment(*accepted))
        }
        RuleFailure::Condition { offered, accepted } => {
            let accepted = condition(accepted, vocabulary);
            if offered.is_always() {
                return format!("it has no condition, but must require that {accepted}");
            }
            format!("its condition that {} does not imply that {accepted}", condition(offered, vocabulary))
        }
    }
}

/// What the controller would have to do: "dropped the purpose `hotel_ads`".
pub fn change(change: &Change, p: &Choice, vocabulary: &Vocabulary) -> String {
    match change {
        Change::OfferNothing => "asked for nothing".to_string(),
        Change::Datatype(datatype) => format!("collected `{}` instead", vocabulary.datatypes.name(*datatype)),
        Change::Collection(change) => match change {
            RuleChange::Entity(entity) => format!("let `{}` collect instead", vocabulary.entities.name(*entity)),
            RuleChange::DropPurpose(purpose) => {
                format!("dropped the purpose `{}`", vocabulary.purposes.name(*purpose))
            }
            RuleChange::Retention(deadline) => format!("moved the deadline to {}", Moment(*deadline)),
            RuleChange::Condition(condition) => format!("collected{}", only_when(condition, vocabulary)),
        },
        Change::Transfer(at, change) => {
            let transfer = transfer(p, *at, vocabulary);
            match change {
                RuleChange::Entity(entity) => {
                    format!("redirected the {transfer} to `{}`", vocabulary.entities.name(*entity))
                }
                RuleChange::DropPurpose(purpose) => {
                    format!("dropped the purpose `{}` of the {transfer}", vocabulary.purposes.name(*purpose))
                }
                RuleChange::Retention(deadline) => {
                    format!("moved the deadline of the {transfer} to {}", Moment(*deadline))
                }
                RuleChange::Condition(condition) => {
                    format!("made the {transfer}{}", only_when(condition, vocabulary))
                }
            }
        }
        Change::DropTransfer(at) => format!("dropped the {}", transfer(p, *at, vocabulary)),
    }
}

/// Why a rule is not active for a communication.
pub fn inactive(reason: Inactive, rule: &CommunicationRule, vocabulary: &Vocabulary) -> String {
    match reason {
        Inactive::Condition => format!("it is not so that {}", condition(&rule.condition, vocabulary)),
        Inactive::Undefined => format!("it is not known whether {}", condition(&rule.condition, vocabulary)),
        Inactive::Entity => format!("the receiver is no part of `{}`", vocabulary.entities.name(rule.entity)),
        Inactive::Datatype | Inactive::Deadline => reason.to_string(),
    }
}

fn only_when(condition: &Condition, vocabulary: &Vocabulary) -> String {
    if condition.is_always() {
        " without a condition".to_string()
    } else {
        format!(" only{}", when(condition, vocabulary))
    }
}

/// "transfer to `hotels.com`", with more of the rule where several go there.
fn transfer(p: &Choice, at: usize, vocabulary: &Vocabulary) -> String {
    let transfers = p.policy().map_or(&[][..], |policy| policy.transfers());
    let Some(rule) = transfers.get(at) else { return "transfer".to_string() };
    let text = format!("transfer to `{}`", vocabulary.entities.name(rule.entity));
    if transfers.iter().filter(|other| other.entity == rule.entity).count() < 2 {
        return text;
    }
    format!("{text} {}{}", usage(&rule.usage, vocabulary), when(&rule.condition, vocabulary))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::explain;
    use crate::subsumption::Judge;
    use crate::syntax::parse_file;

    const WORDS: &str = r#"
        entities = { flights = [], hotels = [], inn = ["hotels"] }
        datatypes = { data = [], cookie = ["data"], address = [] }
        purposes = { offers = [], ads = [], billing = [] }
        attributes = { age = "number" }
    "#;

    fn refusal(offered: &str, accepted: &str) -> String {
        let vocabulary = Vocabulary::from_toml(WORDS).unwrap();
        let source = format!("policy p {{ {offered} }} policy q {{ {accepted} }}");
        let file = parse_file(&source, &vocabulary).unwrap();
        let (p, q) = (&file.policies[0].choice, &file.policies[1].choice);
        let why = explain(p, q, &Judge::new(&vocabulary)).unwrap();
        explanation(&why, p, "q", &vocabulary)
    }

    #[test]
    fn each_clause_is_named_with_its_remedy() {
        let base = "collect cookie by flights for offers until 2024-01-01";
        for (offered, accepted, english) in [
            (base, "nothing", "nothing is accepted; would be accepted under `q` if the controller asked for nothing"),
            (
                "collect data by flights for offers until 2024-01-01",
                base,
                "datatype `data` is no kind of `cookie`; would be accepted under `q` if the controller collected `cookie` instead",
            ),
            (
                "collect cookie by hotels for ads, offers until 2024-01-02",
                base,
                "entity `hotels` is not part of `flights`; purpose `ads` is not covered; \
                 deadline 02/01/2024 is later than 01/01/2024; would be accepted under `q` if the controller \
                 let `flights` collect instead, dropped the purpose `ads` and moved the deadline to 01/01/2024",
            ),
            (
                &format!("{base} transfer to hotels for ads until 2024-01-01"),
                base,
                "transfer to `hotels`: no transfer is accepted; \
                 would be accepted under `q` if the controller dropped the transfer to `hotels`",
            ),
            (
                &format!("{base} transfer to hotels for ads until 2024-01-01"),
                &format!("{base} transfer to inn when age >= 18 for ads until 2023-01-01"),
                "transfer to `hotels`: entity `hotels` is not part of `inn`, \
                 deadline 01/01/2024 is later than 01/01/2023, \
                 it has no condition, but must require that age is at least 18; \
                 would be accepted under `q` if the controller dropped the transfer to `hotels`",
            ),
            (
                &format!("{base} transfer to inn when age >= 17 for ads until 2024-01-01"),
                &format!("{base} transfer to hotels when age >= 18 for ads until 2024-01-01"),
                "transfer to `inn`: its condition that age is at least 17 does not imply that age is at least 18; \
                 would be accepted under `q` if the controller made the transfer to `inn` only if age is at least 18",
            ),
        ] {
            assert_eq!(refusal(offered, accepted), english);
        }
    }

    #[test]
    fn two_transfers_to_one_entity_are_told_apart() {
        let base = "collect cookie by flights for offers until 2024-01-01";
        let english = refusal(
            &format!(
                "{base} transfer to hotels for ads until 2024-01-01
                        transfer to hotels when age > 30 for billing until 2024-01-01"
            ),
            &format!("{base} transfer to hotels for ads until 2024-01-01"),
        );
        assert_eq!(
            english,
            "transfer to `hotels` for billing purposes until 01/01/2024 if age is greater than 30: \
             purpose `billing` is not covered; would be accepted under `q` if the controller dropped the purpose `billing` \
             of the transfer to `hotels` for billing purposes until 01/01/2024 if age is greater than 30"
        );
    }
    #[test]
    fn inactivity_names_what_was_asked() {
        let vocabulary = Vocabulary::from_toml(WORDS).unwrap();
        let source = "policy p { collect cookie by flights when age >= 18 for offers until 2024-01-01 }";
        let file = parse_file(source, &vocabulary).unwrap();
        let rule = file.policies[0].choice.policy().unwrap().collection();
        for (reason, english) in [
            (Inactive::Datatype, "the policy is not about this type of data"),
            (Inactive::Condition, "it is not so that age is at least 18"),
            (Inactive::Undefined, "it is not known whether age is at least 18"),
            (Inactive::Deadline, "its deadline has passed"),
            (Inactive::Entity, "the receiver is no part of `flights`"),
        ] {
            assert_eq!(inactive(reason, rule, &vocabulary), english);
        }
    }
}
