//! S10 by brute force: c₁ ⟹ c₂ in the fixed theory, tried on every combination of representative values.

use std::collections::{BTreeMap, BTreeSet};

use super::named::{Formula, Term, Value};
use super::oracle;

/// c₁ ⟹ c₂: every term of c₂ that is not constant occurs in c₁, and no model of c₁ falsifies c₂.
pub fn entails(from: &Formula, to: &Formula) -> bool {
    let (mut known, mut wanted) = (BTreeSet::new(), BTreeSet::new());
    collect_terms(from, &mut known);
    collect_terms(to, &mut wanted);
    if !wanted.is_subset(&known) {
        return false;
    }
    every_model_of(&[from, to], &|model| !holds(from, model) || holds(to, model))
}

/// Whether some model satisfies it.
pub fn is_satisfiable(formula: &Formula) -> bool {
    !every_model_of(&[formula], &|model| !holds(formula, model))
}

/// A term that is compared with constants, or a comparison of two terms neither of which is one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Unknown {
    Term(Term),
    Opaque(Term, &'static str, Term),
}

/// A value as the theory sees it. Numbers and times are dense: the point between two neighbours is odd.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Point {
    Doubled(i128),
    Text(String),
    Truth(bool),
}

type Model = BTreeMap<Unknown, Point>;

fn every_model_of(formulas: &[&Formula], check: &impl Fn(&Model) -> bool) -> bool {
    let mut unknowns = BTreeMap::new();
    formulas.iter().for_each(|formula| collect_unknowns(formula, &mut unknowns));
    let unknowns: Vec<(Unknown, Vec<Point>)> =
        unknowns.into_iter().map(|(unknown, constants)| (unknown, representatives(&constants))).collect();
    every_model(&unknowns, &mut Model::new(), check)
}

fn every_model(unknowns: &[(Unknown, Vec<Point>)], model: &mut Model, check: &impl Fn(&Model) -> bool) -> bool {
    let Some(((unknown, points), rest)) = unknowns.split_first() else { return check(model) };
    points.iter().all(|point| {
        model.insert(unknown.clone(), point.clone());
        every_model(rest, model, check)
    })
}

fn holds(formula: &Formula, model: &Model) -> bool {
    match formula {
        Formula::True => true,
        Formula::False => false,
        Formula::Not(inner) => !holds(inner, model),
        Formula::And(left, right) => holds(left, model) && holds(right, model),
        Formula::Or(left, right) => holds(left, model) || holds(right, model),
        Formula::Compare(left, symbol, right) => {
            let side = |term: &Term| match constant(term) {
                Some(value) => point(&value),
                None => model[&Unknown::Term(term.clone())].clone(),
            };
            if constant(left).is_none() && constant(right).is_none() {
                return model[&Unknown::Opaque(left.clone(), symbol, right.clone())] == Point::Truth(true);
            }
            let (left, right) = (side(left), side(right));
            match *symbol {
                "=" => left == right,
                "!=" => left != right,
                "<" => left < right,
                "<=" => left <= right,
                ">" => left > right,
                _ => left >= right,
            }
        }
    }
}

/// Every named constant, and a point below, between and above; for texts one that nobody names; both truths.
fn representatives(constants: &BTreeSet<Point>) -> Vec<Point> {
    match constants.first() {
        Some(Point::Truth(_)) | None => vec![Point::Truth(false), Point::Truth(true)],
        Some(Point::Text(_)) => {
            let longer: String = constants.iter().map(|text| format!("{text:?}+")).collect();
            constants.iter().cloned().chain([Point::Text(longer)]).collect()
        }
        Some(Point::Doubled(_)) => {
            let beside = constants.iter().flat_map(|point| match point {
                Point::Doubled(at) => [at - 1, *at, at + 1].map(Point::Doubled),
                _ => panic!("{constants:?} are of one kind"),
            });
            BTreeSet::from_iter(beside).into_iter().collect()
        }
    }
}

fn collect_unknowns(formula: &Formula, unknowns: &mut BTreeMap<Unknown, BTreeSet<Point>>) {
    match formula {
        Formula::True | Formula::False => {}
        Formula::Not(inner) => collect_unknowns(inner, unknowns),
        Formula::And(left, right) | Formula::Or(left, right) => {
            collect_unknowns(left, unknowns);
            collect_unknowns(right, unknowns);
        }
        Formula::Compare(left, symbol, right) => match (constant(left), constant(right)) {
            (Some(_), Some(_)) => {}
            (None, Some(value)) => {
                unknowns.entry(Unknown::Term(left.clone())).or_default().insert(point(&value));
            }
            (Some(value), None) => {
                unknowns.entry(Unknown::Term(right.clone())).or_default().insert(point(&value));
            }
            (None, None) => {
                unknowns.entry(Unknown::Opaque(left.clone(), symbol, right.clone())).or_default();
            }
        },
    }
}

/// The terms that are not constant, with the terms inside them.
fn collect_terms<'f>(formula: &'f Formula, terms: &mut BTreeSet<&'f Term>) {
    fn inside<'f>(term: &'f Term, terms: &mut BTreeSet<&'f Term>) {
        if constant(term).is_none() {
            terms.insert(term);
        }
        if let Term::Call(_, arguments) = term {
            arguments.iter().for_each(|argument| inside(argument, terms));
        }
    }
    match formula {
        Formula::True | Formula::False => {}
        Formula::Not(inner) => collect_terms(inner, terms),
        Formula::And(left, right) | Formula::Or(left, right) => {
            collect_terms(left, terms);
            collect_terms(right, terms);
        }
        Formula::Compare(left, _, right) => {
            inside(left, terms);
            inside(right, terms);
        }
    }
}

/// The value of a term without variables.
fn constant(term: &Term) -> Option<Value> {
    match term {
        Term::Variable(_) => None,
        Term::Constant(value) => Some(value.clone()),
        Term::Call(function, arguments) => {
            let arguments: Option<Vec<Value>> = arguments.iter().map(constant).collect();
            Some(oracle::call(function, &arguments?))
        }
    }
}

fn point(value: &Value) -> Point {
    match value {
        Value::Number(number) => Point::Doubled(2 * i128::from(*number)),
        Value::Time(time) => Point::Doubled(2 * i128::from(*time)),
        Value::String(text) => Point::Text(text.clone()),
        Value::Boolean(truth) => Point::Truth(*truth),
    }
}
