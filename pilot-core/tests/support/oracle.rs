//! The slow twin: Defs. 5–10 over names and sets, word for word. It shares no logic with the library.

use std::collections::BTreeSet;

use super::brute_force;
use super::named::{Formula, Graph, Policy, Rule, Term, Value, Values, Words};

/// Everything that `name` is a kind of, itself included: a search along the parents.
pub fn above<'g>(graph: &'g Graph, name: &'g str) -> BTreeSet<&'g str> {
    let mut found = BTreeSet::new();
    let mut waiting = vec![name];
    while let Some(name) = waiting.pop() {
        if found.insert(name) {
            waiting.extend(graph[name].iter().map(String::as_str));
        }
    }
    found
}

/// a ≤ b.
pub fn is_kind_of(graph: &Graph, a: &str, b: &str) -> bool {
    above(graph, a).contains(b)
}

/// ⊑ with ⊥ (S21).
pub fn choice_subsumes(p: &Option<Policy>, q: &Option<Policy>, words: &Words) -> bool {
    match (p, q) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(p), Some(q)) => p.subsumes(q, words),
    }
}

impl Policy {
    /// Def. 7, with S10 in (iii).
    pub fn subsumes(&self, other: &Self, words: &Words) -> bool {
        let t1_le_t2 = is_kind_of(&words.datatypes, &self.datatype, &other.datatype);
        let dcr1_le_dcr2 = self.collection.subsumes(&other.collection, words);
        let every_transfer_is_covered = self.transfers.iter().all(|tr1| {
            other
                .transfers
                .iter()
                .any(|tr2| tr1.subsumes(tr2, words) && brute_force::entails(&tr1.condition, &tr2.condition))
        });
        t1_le_t2 && dcr1_le_dcr2 && every_transfer_is_covered
    }

    /// p ⊑ q or q ⊑ p.
    pub fn is_comparable(&self, other: &Self, words: &Words) -> bool {
        self.subsumes(other, words) || other.subsumes(self, words)
    }
}

impl Rule {
    /// Def. 6 and, for the usage rules in it, Def. 5.
    pub fn subsumes(&self, other: &Self, words: &Words) -> bool {
        let e1_le_e2 = is_kind_of(&words.entities, &self.entity, &other.entity);
        let every_purpose_is_covered =
            self.purposes.iter().all(|p1| other.purposes.iter().any(|p2| is_kind_of(&words.purposes, p1, p2)));
        let rt1_le_rt2 = self.retention <= other.retention;
        e1_le_e2 && every_purpose_is_covered && rt1_le_rt2
    }
}

/// What Defs. 9 and 10 say about a communication.
#[derive(Debug, Clone)]
pub struct Communication {
    /// type(i).
    pub datatype: String,
    /// entity(rcv).
    pub receiver: String,
    /// time(st, e).
    pub time: u64,
    /// ν_sndr.
    pub values: Values,
}

/// Def. 9.
pub fn active_policy(p: &Policy, send: &Communication, words: &Words) -> bool {
    let rule = &p.collection;
    is_kind_of(&words.datatypes, &send.datatype, &p.datatype)
        && eval(&send.values, &rule.condition, words) == Some(true)
        && send.time < rule.retention
        && is_kind_of(&words.entities, &send.receiver, &rule.entity)
}

/// Def. 10.
pub fn active_transfer(tr: &Rule, p: &Policy, transfer: &Communication, words: &Words) -> bool {
    transfer.time < p.collection.retention
        && eval(&transfer.values, &tr.condition, words) == Some(true)
        && transfer.time < tr.retention
        && is_kind_of(&words.entities, &transfer.receiver, &tr.entity)
}

/// Def. 8, Table 3; `None` is ⊥.
pub fn eval(values: &Values, formula: &Formula, words: &Words) -> Option<bool> {
    match formula {
        Formula::True => Some(true),
        Formula::False => Some(false),
        Formula::Not(inner) => eval(values, inner, words).map(|value| !value),
        Formula::And(left, right) => match (eval(values, left, words), eval(values, right, words)) {
            (Some(left), Some(right)) => Some(left && right),
            _ => None,
        },
        Formula::Or(left, right) => match (eval(values, left, words), eval(values, right, words)) {
            (Some(left), Some(right)) => Some(left || right),
            _ => None,
        },
        Formula::Compare(left, symbol, right) => {
            match (eval_term(values, left, words), eval_term(values, right, words)) {
                (Some(left), Some(right)) => Some(compare(&left, symbol, &right)),
                _ => None,
            }
        }
    }
}

/// Table 3 for terms. A variable whose value is not of its kind has none.
pub fn eval_term(values: &Values, term: &Term, words: &Words) -> Option<Value> {
    match term {
        Term::Constant(value) => Some(value.clone()),
        Term::Variable(name) => {
            let value = values.get(name)?;
            let is_of_its_kind = match words.attributes.get(name) {
                Some(kind) => value.kind() == *kind,
                None => matches!(value, Value::String(_)),
            };
            is_of_its_kind.then(|| value.clone())
        }
        Term::Call(function, arguments) => {
            let arguments: Option<Vec<Value>> = arguments.iter().map(|term| eval_term(values, term, words)).collect();
            Some(call(function, &arguments?))
        }
    }
}

/// The comparisons, on sides of one kind.
pub fn compare(left: &Value, symbol: &str, right: &Value) -> bool {
    let ordered = |left: i128, right: i128| match symbol {
        "=" => left == right,
        "!=" => left != right,
        "<" => left < right,
        "<=" => left <= right,
        ">" => left > right,
        ">=" => left >= right,
        _ => panic!("no comparison {symbol}"),
    };
    let unordered = |equal: bool| match symbol {
        "=" => equal,
        "!=" => !equal,
        _ => panic!("no comparison {symbol} of these"),
    };
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => ordered((*left).into(), (*right).into()),
        (Value::Time(left), Value::Time(right)) => ordered((*left).into(), (*right).into()),
        (Value::String(left), Value::String(right)) => unordered(left == right),
        (Value::Boolean(left), Value::Boolean(right)) => unordered(left == right),
        _ => panic!("{left:?} and {right:?} are of different kinds"),
    }
}

/// The functions.
pub fn call(function: &str, arguments: &[Value]) -> Value {
    let whole = |number: u64| Value::Number(1_000_000 * number.cast_signed());
    match (function, arguments) {
        ("hour", [Value::Time(time)]) => whole(time / 3_600 % 24),
        ("minute", [Value::Time(time)]) => whole(time / 60 % 60),
        // Day 0 of 1970 was a Thursday, the fourth day of the week.
        ("weekday", [Value::Time(time)]) => whole([4, 5, 6, 7, 1, 2, 3][(time / 86_400 % 7) as usize]),
        ("length", [Value::String(text)]) => whole(text.chars().count() as u64),
        ("contains", [Value::String(text), Value::String(part)]) => {
            Value::Boolean((0..=text.len()).any(|at| text.as_bytes()[at..].starts_with(part.as_bytes())))
        }
        ("starts_with", [Value::String(text), Value::String(part)]) => {
            Value::Boolean(text.as_bytes().starts_with(part.as_bytes()))
        }
        ("distance", [Value::Number(a), Value::Number(b), Value::Number(c), Value::Number(d)]) => {
            let degrees = |number: &i64| *number as f64 / 1e6;
            let micrometres = (distance(degrees(a), degrees(b), degrees(c), degrees(d)) * 1e6).round();
            Value::Number(micrometres as i64)
        }
        _ => panic!("no function {function} of {arguments:?}"),
    }
}

/// Vincenty's formula on a sphere: another one than the library's, exact at both ends.
fn distance(latitude1: f64, longitude1: f64, latitude2: f64, longitude2: f64) -> f64 {
    let (sin1, cos1) = latitude1.to_radians().sin_cos();
    let (sin2, cos2) = latitude2.to_radians().sin_cos();
    let (sin_across, cos_across) = (longitude2 - longitude1).to_radians().sin_cos();
    let sine = (cos2 * sin_across).hypot(cos1 * sin2 - sin1 * cos2 * cos_across);
    let cosine = sin1 * sin2 + cos1 * cos2 * cos_across;
    6_371_008.8 * sine.atan2(cosine)
}
