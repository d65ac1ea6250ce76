//! Every "no" names the clauses that fail and an irredundant change that would make it "yes".

mod support;

use pilot_core::explain::{Change, Explanation, Failure, RuleChange, RuleFailure, apply, explain};
use pilot_core::policy::{Choice, CommunicationRule, Policy};
use pilot_core::subsumption::Judge;
use pilot_core::syntax::parse_file;
use pilot_core::value::Time;
use pilot_core::vocabulary::Vocabulary;
use proptest::prelude::{prop_assert, prop_assert_eq};
use proptest::strategy::Strategy;

use support::choices::cases;
use support::for_all;
use support::generate::words;
use support::named::{self, Words, resolve_choice};
use support::oracle::choice_subsumes;
use support::related::pair;

/// As many choices as the largest of these cases use.
const CHOICES: usize = 500;
/// All parts of a change are tried up to this many single changes.
const MAX_CHANGES: usize = 10;

fn pairs() -> impl Strategy<Value = (Option<named::Policy>, Option<named::Policy>, Words)> {
    cases(CHOICES, |choices| {
        let words = words(choices);
        let (p, q) = pair(choices, &words);
        let [p, q] = [p, q].map(|policy| if choices.one_in(32) { None } else { Some(policy) });
        (p, q, words)
    })
}

#[test]
fn there_is_an_explanation_exactly_where_there_is_a_no() {
    for_all(&pairs(), 0.3..=0.8, |(p, q, words)| {
        let vocabulary = words.vocabulary();
        let expected = !choice_subsumes(&p, &q, &words);
        let (p, q) = (resolve_choice(&p, &vocabulary), resolve_choice(&q, &vocabulary));
        let explanation = explain(&p, &q, &Judge::new(&vocabulary));
        prop_assert_eq!(explanation.is_some(), expected);
        prop_assert!(explanation.is_none_or(|why| !why.failures.is_empty() && !why.changes.is_empty()));
        Ok(expected)
    });
}

#[test]
fn the_change_makes_it_a_yes_and_no_part_of_it_does() {
    // Yes: there are several changes to take apart.
    for_all(&pairs(), 0.1..=0.8, |(p, q, words)| {
        let vocabulary = words.vocabulary();
        let judge = Judge::new(&vocabulary);
        let (p, q) = (resolve_choice(&p, &vocabulary), resolve_choice(&q, &vocabulary));
        let Some(explanation) = explain(&p, &q, &judge) else { return Ok(false) };
        let Explanation { changes, .. } = &explanation;
        prop_assert!(explanation.apply(&p, &vocabulary).unwrap().subsumes(&q, &judge), "{:?}", changes);
        if changes.len() > MAX_CHANGES {
            return Ok(false);
        }
        for subset in 0..(1_u32 << changes.len()) - 1 {
            let chosen = changes.iter().enumerate().filter(|(at, _)| subset >> at & 1 == 1);
            let chosen: Vec<Change> = chosen.map(|(_, change)| change.clone()).collect();
            let changed = apply(&chosen, &p, &vocabulary).unwrap();
            prop_assert!(!changed.subsumes(&q, &judge), "{:?} is enough of {:?}", chosen, changes);
        }
        Ok(changes.len() > 1)
    });
}

#[test]
fn every_clause_it_names_fails() {
    for_all(&pairs(), 0.3..=0.8, |(p, q, words)| {
        let vocabulary = words.vocabulary();
        let judge = Judge::new(&vocabulary);
        let (p, q) = (resolve_choice(&p, &vocabulary), resolve_choice(&q, &vocabulary));
        let Some(explanation) = explain(&p, &q, &judge) else { return Ok(false) };
        let (Some(p), Some(q)) = (p.policy(), q.policy()) else {
            prop_assert_eq!(explanation.failures, [Failure::NothingAccepted]);
            prop_assert_eq!(explanation.changes, [Change::OfferNothing]);
            return Ok(true);
        };
        for failure in &explanation.failures {
            prop_assert!(clause_fails(failure, p, q, &judge), "{:?}", failure);
        }
        Ok(true)
    });
}

fn clause_fails(failure: &Failure, p: &Policy, q: &Policy, judge: &Judge<'_>) -> bool {
    match failure {
        Failure::NothingAccepted => false,
        Failure::Datatype { offered, accepted } => {
            (*offered, *accepted) == (p.datatype(), q.datatype()) && !judge.vocabulary.datatypes.le(*offered, *accepted)
        }
        Failure::Collection(failure) => {
            !matches!(failure, RuleFailure::Condition { .. })
                && rule_clause_fails(failure, p.collection(), q.collection(), judge)
        }
        Failure::Transfer { rule, nearest } => {
            let Some(rule) = p.transfers().get(*rule) else { return false };
            !q.transfers().iter().any(|accepted| rule.subsumes_as_transfer(accepted, judge))
                && match nearest {
                    None => q.transfers().is_empty(),
                    Some((at, failures)) => q.transfers().get(*at).is_some_and(|accepted| {
                        !failures.is_empty()
                            && failures.iter().all(|failure| rule_clause_fails(failure, rule, accepted, judge))
                    }),
                }
        }
    }
}

fn rule_clause_fails(
    failure: &RuleFailure,
    rule: &CommunicationRule,
    accepting: &CommunicationRule,
    judge: &Judge<'_>,
) -> bool {
    let vocabulary = judge.vocabulary;
    match failure {
        RuleFailure::Entity { offered, accepted } => {
            (*offered, *accepted) == (rule.entity, accepting.entity) && !vocabulary.entities.le(*offered, *accepted)
        }
        RuleFailure::Purpose(purpose) => {
            rule.usage.purposes().contains(purpose)
                && !accepting.usage.purposes().iter().any(|accepted| vocabulary.purposes.le(*purpose, *accepted))
        }
        RuleFailure::Retention { offered, accepted } => {
            (*offered, *accepted) == (rule.usage.retention(), accepting.usage.retention()) && offered > accepted
        }
        RuleFailure::Condition { offered, accepted } => {
            (offered, accepted) == (&rule.condition, &accepting.condition) && !offered.entails(accepted)
        }
    }
}

/// Each clause of Defs. 5–7 once, with the change that repairs it.
#[test]
fn each_clause_has_its_failure_and_its_change() {
    let vocabulary = Vocabulary::from_toml(
        r#"
        [entities]
        airline = []
        hotel = []
        [datatypes]
        address = []
        city = ["address"]
        [purposes]
        ads = []
        research = []
        [attributes]
        age = "number"
        "#,
    )
    .unwrap();
    let policy = |body: &str| {
        let source = format!("policy p {{ {body} }}");
        let file = parse_file(&source, &vocabulary).unwrap_or_else(|error| panic!("{error}"));
        file.policies[0].choice.clone()
    };
    let judge = Judge::new(&vocabulary);
    let check = |p: &str, q: &str, failures: &[Failure], changes: &[Change]| {
        let explanation = explain(&policy(p), &policy(q), &judge).unwrap();
        assert_eq!((&*explanation.failures, &*explanation.changes), (failures, changes), "{p} / {q}");
    };
    let (airline, hotel) = (vocabulary.entities.id("airline").unwrap(), vocabulary.entities.id("hotel").unwrap());
    let (address, city) = (vocabulary.datatypes.id("address").unwrap(), vocabulary.datatypes.id("city").unwrap());
    let research = vocabulary.purposes.id("research").unwrap();
    let [two, nine] = [2, 9].map(Time::from_unix);
    let p = "collect address by hotel for ads until 9";

    check(
        p,
        "collect city by hotel for ads until 9",
        &[Failure::Datatype { offered: address, accepted: city }],
        &[Change::Datatype(city)],
    );
    check(
        p,
        "collect address by airline for ads until 9",
        &[Failure::Collection(RuleFailure::Entity { offered: hotel, accepted: airline })],
        &[Change::Collection(RuleChange::Entity(airline))],
    );
    check(
        "collect address by hotel for ads, research until 9",
        "collect address by hotel for ads until 2",
        &[
            Failure::Collection(RuleFailure::Purpose(research)),
            Failure::Collection(RuleFailure::Retention { offered: nine, accepted: two }),
        ],
        &[Change::Collection(RuleChange::DropPurpose(research)), Change::Collection(RuleChange::Retention(two))],
    );
    check(p, "nothing", &[Failure::NothingAccepted], &[Change::OfferNothing]);

    // A transfer rule that nothing covers is dropped; one that is nearly covered is mended.
    let transfers = format!("{p} transfer to airline for research until 9");
    check(&transfers, p, &[Failure::Transfer { rule: 0, nearest: None }], &[Change::DropTransfer(0)]);
    let nearly = format!("{p} transfer to hotel for nothing until 2 transfer to airline for research until 2");
    let objections = vec![RuleFailure::Retention { offered: nine, accepted: two }];
    check(
        &transfers,
        &nearly,
        &[Failure::Transfer { rule: 0, nearest: Some((0, objections)) }],
        &[Change::Transfer(0, RuleChange::Retention(two))],
    );

    // S10: the condition of a transfer rule counts, that of the collection rule does not.
    let adults = format!("{p} transfer to airline when age >= 18 for research until 9");
    let Choice::Policy(accepting) = policy(&adults) else { panic!("a policy") };
    let accepted = accepting.transfers()[0].condition.clone();
    let objections = vec![RuleFailure::Condition { offered: Default::default(), accepted: accepted.clone() }];
    check(
        &transfers,
        &adults,
        &[Failure::Transfer { rule: 0, nearest: Some((0, objections)) }],
        &[Change::Transfer(0, RuleChange::Condition(accepted))],
    );
    let minors = "collect address by hotel when age < 18 for ads until 9";
    assert_eq!(explain(&policy(p), &policy(minors), &judge), None);
}
