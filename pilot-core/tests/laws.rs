//! The laws of the orders, of ⊑ and of activity, on random policies over random vocabularies, against the slow twin.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use pilot_core::active::{self, Inactive};
use pilot_core::policy::Choice;
use pilot_core::subsumption::Judge;
use pilot_core::value::Time;
use pilot_core::vocabulary::Vocabulary;
use proptest::prelude::{prop_assert, prop_assert_eq};

use support::choices::{Choices, cases};
use support::for_all;
use support::generate::{SMALL, choice, name, policy, retention, values, words};
use support::named::{Graph, Policy, Rule, Words, resolve_choice, resolve_values};
use support::oracle::{self, Communication, choice_subsumes, eval, is_kind_of};
use support::related::{changed, looser, pair};

/// As many choices as the largest of these cases use.
const CHOICES: usize = 500;

/// Reference: §2, Basic Definitions: ≤_E, ≤_T and ≤_P are partial orders.
#[test]
fn the_closed_orders_agree_with_a_search_along_the_parents() {
    let cases = cases(100, words);
    for_all(&cases, 0.5..=1.0, |words| {
        let order = words.vocabulary().purposes;
        let mut has_relation = false;
        for a in order.ids() {
            for b in order.ids() {
                let expected = is_kind_of(&words.purposes, order.name(a), order.name(b));
                prop_assert_eq!(order.le(a, b), expected, "{} ≤ {}", order.name(a), order.name(b));
                prop_assert!(a == b || !(order.le(a, b) && order.le(b, a)));
                has_relation |= a != b && expected;
            }
        }
        Ok(has_relation)
    });
}

/// Reference: Def. 7, and S21 for ⊥.
#[test]
fn subsumption_is_reflexive() {
    let cases = cases(CHOICES, |choices| {
        let words = words(choices);
        (choice(choices, &words, SMALL), words)
    });
    for_all(&cases, 0.9..=1.0, |(p, words)| {
        let vocabulary = words.vocabulary();
        let p = resolve_choice(&p, &vocabulary);
        prop_assert!(p.subsumes(&p, &Judge::new(&vocabulary)));
        Ok(p != Choice::Nothing)
    });
}

/// Reference: Def. 7 with S10; requirement 1 along chains of transfers (S2) rests on this.
#[test]
fn subsumption_is_transitive() {
    let cases = cases(CHOICES, |choices| {
        let words = words(choices);
        let (p, q) = pair(choices, &words);
        let r = looser(&q, &words, choices);
        let r = if choices.one_in(4) { changed(&r, &words, choices) } else { r };
        (p, q, r, words)
    });
    // Yes: p ⊑ q ⊑ r, so that the law says something.
    for_all(&cases, 0.3..=0.9, |(p, q, r, words)| {
        let vocabulary = words.vocabulary();
        let judge = Judge::new(&vocabulary);
        let [p, q, r] = [p, q, r].map(|policy| policy.resolve(&vocabulary));
        let is_chain = p.subsumes(&q, &judge) && q.subsumes(&r, &judge);
        prop_assert!(!is_chain || p.subsumes(&r, &judge));
        Ok(is_chain)
    });
}

/// Reference: S7: the paper calls ⊑ a partial order; it is a preorder.
#[test]
fn subsumption_is_not_antisymmetric() {
    let vocabulary = Vocabulary::from_toml(
        "[entities]\nshop = []\n[datatypes]\nmail = []\n[purposes]\nads = []\nnewsletter = [\"ads\"]\n",
    )
    .unwrap();
    let source = "policy p { collect mail by shop for ads, newsletter until 9 }
                  policy q { collect mail by shop for ads until 9 }";
    let file = pilot_core::syntax::parse_file(source, &vocabulary).unwrap();
    let [p, q] = [&file.policies[0].choice, &file.policies[1].choice];
    let judge = Judge::new(&vocabulary);
    assert_ne!(p, q);
    assert!(p.subsumes(q, &judge) && q.subsumes(p, &judge));
}

/// Reference: Defs. 5–7 with S10 and S21, as `support/oracle.rs` writes them down.
#[test]
fn subsumption_agrees_with_the_slow_twin() {
    let cases = cases(CHOICES, |choices| {
        let words = words(choices);
        let (p, q) = pair(choices, &words);
        let [p, q] = [p, q].map(|policy| if choices.one_in(32) { None } else { Some(policy) });
        (p, q, words)
    });
    for_all(&cases, 0.3..=0.8, |(p, q, words)| {
        let vocabulary = words.vocabulary();
        let expected = choice_subsumes(&p, &q, &words);
        let (p, q) = (resolve_choice(&p, &vocabulary), resolve_choice(&q, &vocabulary));
        let judge = Judge::new(&vocabulary);
        prop_assert_eq!(p.subsumes(&q, &judge), expected);
        prop_assert_eq!(p.subsumes(&q, &judge), expected, "a remembered entailment is the same");
        Ok(expected)
    });
}

/// Reference: §3, rule R2.
#[test]
fn comparability_agrees_with_the_slow_twin() {
    let cases = cases(CHOICES, |choices| {
        let words = words(choices);
        let (p, q) = pair(choices, &words);
        if choices.one_in(2) { (p, q, words) } else { (q, p, words) }
    });
    for_all(&cases, 0.3..=0.8, |(p, q, words)| {
        let vocabulary = words.vocabulary();
        let expected = p.is_comparable(&q, &words);
        let (p, q) = (p.resolve(&vocabulary), q.resolve(&vocabulary));
        prop_assert_eq!(p.is_comparable(&q, &Judge::new(&vocabulary)), expected);
        Ok(expected)
    });
}

/// Reference: rule TRANSFER: p_rcv ⊑ (p.t, tr, p.TR).
#[test]
fn subsumption_under_a_transfer_rule_agrees_with_the_slow_twin() {
    let cases = cases(CHOICES, |choices| {
        let words = words(choices);
        let (mut p, q) = pair(choices, &words);
        // The receiver of a transfer is bound by the rule, so let its collection rule be about that.
        if let Some(rule) = p.transfers.first().filter(|_| !choices.one_in(4)) {
            p.collection = rule.clone();
        }
        (p, q, words)
    });
    for_all(&cases, 0.2..=0.8, |(p, q, words)| {
        let vocabulary = words.vocabulary();
        let judge = Judge::new(&vocabulary);
        let receiver = p.resolve(&vocabulary);
        let sender = q.resolve(&vocabulary);
        let mut is_any = false;
        for rule in &q.transfers {
            let expected = p.subsumes(&Policy { collection: rule.clone(), ..q.clone() }, &words);
            let bound = rule.resolve(&vocabulary);
            prop_assert_eq!(receiver.subsumes(sender.with_collection(&bound), &judge), expected);
            is_any |= expected;
        }
        Ok(is_any)
    });
}

/// A policy, a communication that has much to do with it, and the words of both.
fn active_case(choices: &mut Choices) -> (Policy, Communication, Words) {
    let words = words(choices);
    let policy = policy(choices, &words, SMALL);
    let a_kind_of = |choices: &mut Choices, graph: &Graph, general: &str| {
        let kinds: Vec<&String> = graph.keys().filter(|name| is_kind_of(graph, name, general)).collect();
        if choices.one_in(8) { name(choices, graph) } else { choices.pick(&kinds).to_string() }
    };
    let rules: Vec<&Rule> = [&policy.collection].into_iter().chain(&policy.transfers).collect();
    let entity = &choices.pick(&rules).entity;
    let communication = Communication {
        datatype: a_kind_of(choices, &words.datatypes, &policy.datatype),
        receiver: a_kind_of(choices, &words.entities, entity),
        time: if choices.one_in(4) { policy.collection.retention } else { retention(choices) / 2 },
        values: values(choices),
    };
    (policy, communication, words)
}

/// Reference: Def. 9, and S18 for ⊥.
#[test]
fn activity_of_policies_agrees_with_the_slow_twin() {
    for_all(&cases(CHOICES, active_case), 0.2..=0.8, |(policy, send, words)| {
        let vocabulary = words.vocabulary();
        let expected = oracle::active_policy(&policy, &send, &words);
        let values = resolve_values(&send.values, &vocabulary);
        let communication = resolve(&send, &values, &vocabulary);
        let found = active::active_policy(&policy.resolve(&vocabulary), &communication, &vocabulary);
        prop_assert_eq!(found.is_ok(), expected);
        let rule = &policy.collection;
        let is_named_rightly = match found {
            Ok(()) => true,
            Err(Inactive::Datatype) => !is_kind_of(&words.datatypes, &send.datatype, &policy.datatype),
            Err(reason) => fails(reason, rule, rule.retention, &send, &words),
        };
        prop_assert!(is_named_rightly, "{:?}", found);
        Ok(expected)
    });
}

/// Reference: Def. 10, and S18 for ⊥.
#[test]
fn activity_of_transfer_rules_agrees_with_the_slow_twin() {
    for_all(&cases(CHOICES, active_case), 0.1..=0.8, |(policy, transfer, words)| {
        let vocabulary = words.vocabulary();
        let values = resolve_values(&transfer.values, &vocabulary);
        let communication = resolve(&transfer, &values, &vocabulary);
        let resolved = policy.resolve(&vocabulary);
        let mut is_any = false;
        for rule in &policy.transfers {
            let expected = oracle::active_transfer(rule, &policy, &transfer, &words);
            let found = active::active_transfer(&rule.resolve(&vocabulary), &resolved, &communication, &vocabulary);
            prop_assert_eq!(found.is_ok(), expected);
            let deadline = rule.retention.min(policy.collection.retention);
            let is_named_rightly = found.err().is_none_or(|reason| fails(reason, rule, deadline, &transfer, &words));
            prop_assert!(is_named_rightly, "{:?}", found);
            is_any |= expected;
        }
        Ok(is_any)
    });
}

/// Whether this conjunct of Defs. 9 and 10 fails.
fn fails(reason: Inactive, rule: &Rule, deadline: u64, communication: &Communication, words: &Words) -> bool {
    let truth = eval(&communication.values, &rule.condition, words);
    match reason {
        Inactive::Condition => truth == Some(false),
        Inactive::Undefined => truth.is_none(),
        Inactive::Deadline => communication.time >= deadline,
        Inactive::Entity => !is_kind_of(&words.entities, &communication.receiver, &rule.entity),
        Inactive::Datatype => false,
    }
}

fn resolve<'s>(
    communication: &Communication,
    values: &'s pilot_core::evaluate::Values,
    vocabulary: &Vocabulary,
) -> active::Communication<'s> {
    active::Communication {
        datatype: vocabulary.datatypes.id(&communication.datatype).unwrap(),
        receiver: vocabulary.entities.id(&communication.receiver).unwrap(),
        time: Time::from_unix(communication.time),
        values,
    }
}
