//! Policies that have something to do with each other: a looser one, and one with a single thing changed.

use pilot_core::condition::{MAX_COMPARISONS, MAX_NODES};

use super::choices::Choices;
use super::generate::{SMALL, name, policy, retention, rule, symbol, value};
use super::named::{Formula, Graph, Policy, Rule, Term, Words};
use super::oracle::above;

/// Two policies: the second is looser than the first, or was before a few changes in either, or is a stranger.
pub fn pair(choices: &mut Choices, words: &Words) -> (Policy, Policy) {
    let mut p = policy(choices, words, SMALL);
    let mut q = looser(&p, words, choices);
    match choices.below(4) {
        0 => {}
        1 => (0..3).for_each(|_| p = changed(&p, words, choices)),
        2 => (0..3).for_each(|_| q = changed(&q, words, choices)),
        _ => q = policy(choices, words, SMALL),
    }
    (p, q)
}

/// q with p ⊑ q.
pub fn looser(p: &Policy, words: &Words, choices: &mut Choices) -> Policy {
    let mut transfers = p.transfers.iter().map(|tr| looser_rule(tr, words, choices)).collect::<Vec<_>>();
    transfers.extend((0..choices.below(2)).map(|_| rule(choices, words, SMALL)));
    Policy {
        datatype: upwards(&words.datatypes, &p.datatype, choices),
        collection: looser_rule(&p.collection, words, choices),
        transfers: transfers.into_iter().collect(),
    }
}

fn looser_rule(rule: &Rule, words: &Words, choices: &mut Choices) -> Rule {
    let more = (0..choices.below(2)).map(|_| name(choices, &words.purposes)).collect::<Vec<_>>();
    Rule {
        condition: looser_formula(&rule.condition, choices),
        entity: upwards(&words.entities, &rule.entity, choices),
        purposes: rule.purposes.iter().map(|p| upwards(&words.purposes, p, choices)).chain(more).collect(),
        retention: rule.retention.saturating_add(choices.pick(&[0, 1, 1_800, u64::MAX])),
    }
}

fn upwards(graph: &Graph, name: &str, choices: &mut Choices) -> String {
    if choices.one_in(2) { choices.pick(&Vec::from_iter(above(graph, name))).to_string() } else { name.to_string() }
}

/// c₂ with c₁ ⟹ c₂: no terms are new, and it holds at least where c₁ does.
pub fn looser_formula(formula: &Formula, choices: &mut Choices) -> Formula {
    let looser = any_looser_formula(formula, choices);
    let is_condition = looser.comparisons() <= MAX_COMPARISONS && looser.parts() <= MAX_NODES;
    if is_condition { looser } else { formula.clone() }
}

fn any_looser_formula(formula: &Formula, choices: &mut Choices) -> Formula {
    let boxed = |formula: &Formula| Box::new(formula.clone());
    let is_small = formula.comparisons() <= 4;
    match (choices.below(8), formula) {
        (1, _) => Formula::True,
        (2, _) if is_small => Formula::Or(boxed(formula), Box::new(changed_formula(formula, choices))),
        (3, _) if is_small => Formula::Or(Box::new(changed_formula(formula, choices)), boxed(formula)),
        (4, _) => Formula::Not(Box::new(Formula::Not(boxed(formula)))),
        (_, Formula::And(left, right)) if choices.one_in(2) => {
            looser_formula(if choices.one_in(2) { left } else { right }, choices)
        }
        (5.., Formula::And(left, right)) => {
            Formula::And(Box::new(looser_formula(right, choices)), Box::new(looser_formula(left, choices)))
        }
        (5.., Formula::Or(left, right)) => {
            Formula::Or(Box::new(looser_formula(left, choices)), Box::new(looser_formula(right, choices)))
        }
        // Of two terms neither of which is a constant, `<` and `<=` have nothing to do with each other.
        (5.., Formula::Compare(left, symbol, right @ Term::Constant(_))) => {
            let looser = match *symbol {
                "<" => ["<", "<=", "!="],
                ">" => [">", ">=", "!="],
                other => [other; 3],
            };
            Formula::Compare(left.clone(), choices.pick(&looser), right.clone())
        }
        _ => formula.clone(),
    }
}

/// A policy with one thing changed.
pub fn changed(p: &Policy, words: &Words, choices: &mut Choices) -> Policy {
    let mut p = p.clone();
    match choices.below(8) {
        0 => p.datatype = name(choices, &words.datatypes),
        1 => {
            p.transfers.insert(rule(choices, words, SMALL));
        }
        2..=4 => change_rule(&mut p.collection, words, choices),
        _ => {
            if let Some(mut tr) = p.transfers.pop_first() {
                change_rule(&mut tr, words, choices);
                p.transfers.insert(tr);
            }
        }
    }
    p
}

fn change_rule(rule: &mut Rule, words: &Words, choices: &mut Choices) {
    match choices.below(4) {
        0 => rule.entity = name(choices, &words.entities),
        1 => rule.retention = retention(choices),
        2 => rule.condition = changed_formula(&rule.condition, choices),
        _ => {
            rule.purposes.insert(name(choices, &words.purposes));
        }
    }
}

/// A condition over the same terms that says something else.
pub fn changed_formula(formula: &Formula, choices: &mut Choices) -> Formula {
    let boxed = |formula: &Formula, choices: &mut Choices| Box::new(changed_formula(formula, choices));
    match formula {
        Formula::True | Formula::False => formula.clone(),
        Formula::Not(inner) if choices.one_in(3) => changed_formula(inner, choices),
        Formula::Not(inner) => Formula::Not(boxed(inner, choices)),
        Formula::And(left, right) if choices.one_in(3) => Formula::Or(boxed(left, choices), boxed(right, choices)),
        Formula::And(left, right) => Formula::And(boxed(left, choices), boxed(right, choices)),
        Formula::Or(left, right) if choices.one_in(3) => Formula::And(boxed(left, choices), boxed(right, choices)),
        Formula::Or(left, right) => Formula::Or(boxed(left, choices), boxed(right, choices)),
        Formula::Compare(left, old, right) => {
            let kind = match (left, right) {
                (Term::Constant(value), _) | (_, Term::Constant(value)) => Some(value.kind()),
                _ => None,
            };
            let other = |term: &Term, choices: &mut Choices| match term {
                Term::Constant(old) if choices.one_in(2) => Term::Constant(value(choices, old.kind(), SMALL)),
                term => term.clone(),
            };
            let new = match kind {
                Some(kind) if kind.is_ordered() => symbol(choices),
                _ => match *old {
                    "=" => "!=",
                    "!=" => "=",
                    other => other,
                },
            };
            Formula::Compare(other(left, choices), new, other(right, choices))
        }
    }
}
