//! Random vocabularies, conditions, policies and states.

use std::collections::BTreeMap;

use pilot_core::value::{Kind, Time};

use super::choices::Choices;
use super::named::{Formula, Graph, ITEM, Policy, Rule, Term, Value, Values, Words};

/// How rich the conditions are.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// How deep `and`, `or` and `not` nest.
    depth: usize,
    /// Only a handful of constants, so that conditions have much to do with each other.
    few_constants: bool,
}

/// At most four comparisons with few constants: small enough to be judged by brute force.
pub const SMALL: Shape = Shape { depth: 2, few_constants: true };
/// Up to all that a condition may hold.
pub const WIDE: Shape = Shape { depth: 4, few_constants: false };

/// Names in an order that is not the order of their making; none is a word of the language or an attribute.
const PREFIXES: [&str; 8] = ["m", "a", "Z", "_", "x-y.", "dpv:", "7-e", "q#"];

/// Variables of every kind.
const VARIABLES: [(&str, Kind); 9] = [
    ("age", Kind::Number),
    ("cookie.secure", Kind::Boolean),
    ("city", Kind::String),
    ("now", Kind::Time),
    ("level", Kind::Number),
    ("member", Kind::Boolean),
    ("place", Kind::String),
    ("born", Kind::Time),
    (ITEM, Kind::String),
];

const NUMBERS: [i64; 7] = [0, 18_000_000, 17_000_000, 17_500_000, 18_000_001, -5_500_000, 1_000_000];
const TEXTS: [&str; 4] = ["Paris", "", "Par", "é \"\\\n\t\u{200b}\u{7f}"];
const SATURDAY: u64 = 1_734_739_200;
const LAST: u64 = Time::LAST_WRITABLE.unix();
const TIMES: [u64; 4] = [SATURDAY, 0, SATURDAY + 36_061, LAST];

/// The three orders, each a graph with several parents, and the attributes.
pub fn words(choices: &mut Choices) -> Words {
    let attributes = VARIABLES.iter().filter(|(name, _)| *name != ITEM);
    Words {
        entities: graph(choices),
        datatypes: graph(choices),
        purposes: graph(choices),
        attributes: attributes.map(|(name, kind)| (name.to_string(), *kind)).collect(),
    }
}

fn graph(choices: &mut Choices) -> Graph {
    let mut graph = Graph::new();
    for at in 0..=choices.below(8) {
        add_name(&mut graph, format!("{}{at}", choices.pick(&PREFIXES)), choices);
    }
    graph
}

/// A new name under up to three of the known ones: never a cycle.
fn add_name(graph: &mut Graph, name: String, choices: &mut Choices) {
    let known: Vec<String> = graph.keys().cloned().collect();
    let count = if known.is_empty() { 0 } else { choices.pick(&[1, 0, 2, 3]) };
    let parents = (0..count).map(|_| choices.pick(&known)).collect();
    graph.insert(name, parents);
}

/// The same words and some more, before, between and after them.
pub fn more_words(words: &Words, choices: &mut Choices) -> Words {
    let mut more = words.clone();
    for graph in [&mut more.entities, &mut more.datatypes, &mut more.purposes] {
        for at in 0..choices.below(20) {
            add_name(graph, format!("{}{}", choices.pick(&PREFIXES), at + 100), choices);
        }
    }
    for at in 0..choices.below(4) {
        // Not a datatype's name: that would change the kind of the items of that type.
        more.attributes.insert(format!("{}w{at}", choices.pick(&PREFIXES)), choices.pick(&Kind::ALL));
    }
    more
}

/// A policy, or sometimes ⊥.
pub fn choice(choices: &mut Choices, words: &Words, shape: Shape) -> Option<Policy> {
    if choices.one_in(16) { None } else { Some(policy(choices, words, shape)) }
}

/// A policy.
pub fn policy(choices: &mut Choices, words: &Words, shape: Shape) -> Policy {
    Policy {
        datatype: name(choices, &words.datatypes),
        collection: rule(choices, words, shape),
        transfers: (0..choices.below(4)).map(|_| rule(choices, words, shape)).collect(),
    }
}

/// A communication rule.
pub fn rule(choices: &mut Choices, words: &Words, shape: Shape) -> Rule {
    Rule {
        entity: name(choices, &words.entities),
        purposes: (0..choices.below(4)).map(|_| name(choices, &words.purposes)).collect(),
        retention: retention(choices),
        condition: if choices.one_in(2) { formula(choices, shape) } else { Formula::True },
    }
}

/// One of the names.
pub fn name(choices: &mut Choices, graph: &Graph) -> String {
    let names: Vec<&String> = graph.keys().collect();
    choices.pick(&names).to_string()
}

/// A deadline.
pub fn retention(choices: &mut Choices) -> u64 {
    match choices.below(8) {
        0..=5 => SATURDAY + 1_800 * choices.below(48) as u64,
        6 => 0,
        _ => choices.any_u64(),
    }
}

/// A condition within the limits.
pub fn formula(choices: &mut Choices, shape: Shape) -> Formula {
    let mut formula = any_formula(choices, shape, shape.depth);
    if !shape.few_constants && choices.one_in(16) {
        formula = (0..choices.below(20)).fold(formula, |inner, _| Formula::Not(Box::new(inner)));
    }
    if formula.parts() <= pilot_core::condition::MAX_NODES { formula } else { Formula::True }
}

fn any_formula(choices: &mut Choices, shape: Shape, depth: usize) -> Formula {
    let boxed = |choices: &mut Choices| Box::new(any_formula(choices, shape, depth - 1));
    match choices.below(if depth == 0 { 6 } else { 16 }) {
        0..=3 => comparison(choices, shape),
        4 => Formula::True,
        5 => Formula::False,
        6..=7 => Formula::Not(boxed(choices)),
        8..=11 => Formula::And(boxed(choices), boxed(choices)),
        _ => Formula::Or(boxed(choices), boxed(choices)),
    }
}

/// t₁ ∗ t₂, mostly a variable and a constant.
pub fn comparison(choices: &mut Choices, shape: Shape) -> Formula {
    let kind = choices.pick(&Kind::ALL);
    let symbol = if kind.is_ordered() { symbol(choices) } else { choices.pick(&["=", "!="]) };
    let (left, right) = match choices.below(10) {
        0..=5 => (open_term(choices, kind, shape), constant(choices, kind, shape)),
        6..=7 => (constant(choices, kind, shape), open_term(choices, kind, shape)),
        8 => (open_term(choices, kind, shape), open_term(choices, kind, shape)),
        _ => (any_term(choices, kind, shape, 1), any_term(choices, kind, shape, 1)),
    };
    Formula::Compare(left, symbol, right)
}

/// One of the six comparisons.
pub fn symbol(choices: &mut Choices) -> &'static str {
    choices.pick(&["=", "!=", "<", "<=", ">", ">="])
}

/// A variable, or sometimes a function of some.
fn open_term(choices: &mut Choices, kind: Kind, shape: Shape) -> Term {
    if choices.one_in(4) { any_term(choices, kind, shape, 2) } else { variable(choices, kind) }
}

fn any_term(choices: &mut Choices, kind: Kind, shape: Shape, depth: usize) -> Term {
    if depth > 0 && choices.one_in(2) {
        let argument = |choices: &mut Choices, kind| any_term(choices, kind, shape, depth - 1);
        let (function, parameters): (_, &[Kind]) = match (kind, choices.below(6)) {
            (Kind::Number, 0) => ("hour", &[Kind::Time]),
            (Kind::Number, 1) => ("minute", &[Kind::Time]),
            (Kind::Number, 2) => ("weekday", &[Kind::Time]),
            (Kind::Number, 3) => ("distance", &[Kind::Number; 4]),
            (Kind::Number, _) => ("length", &[Kind::String]),
            (Kind::Boolean, 0..=2) => ("contains", &[Kind::String; 2]),
            (Kind::Boolean, _) => ("starts_with", &[Kind::String; 2]),
            (Kind::String | Kind::Time, _) => return variable(choices, kind),
        };
        return Term::Call(function, parameters.iter().map(|kind| argument(choices, *kind)).collect());
    }
    if choices.one_in(2) { constant(choices, kind, shape) } else { variable(choices, kind) }
}

fn variable(choices: &mut Choices, kind: Kind) -> Term {
    let names: Vec<&str> = VARIABLES.iter().filter(|(_, of)| *of == kind).map(|(name, _)| *name).collect();
    Term::Variable(choices.pick(&names).to_string())
}

fn constant(choices: &mut Choices, kind: Kind, shape: Shape) -> Term {
    Term::Constant(value(choices, kind, shape))
}

/// A value that a condition may name.
pub fn value(choices: &mut Choices, kind: Kind, shape: Shape) -> Value {
    let few = shape.few_constants || choices.one_in(2);
    match kind {
        Kind::Boolean => Value::Boolean(choices.one_in(2)),
        Kind::Number if few => Value::Number(choices.pick(&NUMBERS)),
        Kind::Number => Value::Number(choices.any_u64().cast_signed()),
        Kind::String if few => Value::String(choices.pick(&TEXTS).into()),
        Kind::String => {
            let characters = (0..choices.below(12)).map(|_| char::from_u32(choices.any_u64() as u32 % 0x0003_0000));
            Value::String(characters.flatten().collect())
        }
        Kind::Time if few => Value::Time(choices.pick(&TIMES)),
        Kind::Time => Value::Time(choices.any_u64() % (LAST + 1)),
    }
}

/// ν_d: values at, beside and between the constants of conditions; now and then none, or one of another kind.
pub fn values(choices: &mut Choices) -> Values {
    let mut values = BTreeMap::new();
    for (name, kind) in VARIABLES {
        let kind = match choices.below(40) {
            0 => continue,
            1 => choices.pick(&Kind::ALL),
            _ => kind,
        };
        let value = match value(choices, kind, SMALL) {
            Value::Number(number) => Value::Number(number + choices.pick(&[0, 0, 1, -1, 250_000])),
            Value::String(text) if choices.one_in(3) => Value::String(text + "is"),
            Value::Time(time) => Value::Time(time.saturating_add_signed(choices.pick(&[0, 1, -1]))),
            value => value,
        };
        values.insert(name.to_string(), value);
    }
    values
}
