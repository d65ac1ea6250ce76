//! Policies over names and sets, as the paper writes them: what the generators make and the slow twin judges.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use pilot_core::condition::{self, Comparison, Condition};
use pilot_core::evaluate;
use pilot_core::function::Function;
use pilot_core::policy::{self, Choice, CommunicationRule, UsageRule};
use pilot_core::value::{self, Kind, Number, Time};
use pilot_core::vocabulary::{Purpose, Vocabulary};

/// Names, each with its direct parents.
pub type Graph = BTreeMap<String, BTreeSet<String>>;

/// ν_d by name.
pub type Values = BTreeMap<String, Value>;

/// The names policies are made of.
#[derive(Debug, Clone)]
pub struct Words {
    pub entities: Graph,
    pub datatypes: Graph,
    pub purposes: Graph,
    pub attributes: BTreeMap<String, Kind>,
}

/// (t, dcr, TR).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Policy {
    pub datatype: String,
    pub collection: Rule,
    pub transfers: BTreeSet<Rule>,
}

/// ⟨condition, entity, ⟨purposes, retention⟩⟩.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    pub condition: Formula,
    pub entity: String,
    pub purposes: BTreeSet<String>,
    pub retention: u64,
}

/// φ.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Formula {
    True,
    False,
    Compare(Term, &'static str, Term),
    Not(Box<Formula>),
    And(Box<Formula>, Box<Formula>),
    Or(Box<Formula>, Box<Formula>),
}

/// t.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Term {
    Variable(String),
    Constant(Value),
    Call(&'static str, Vec<Term>),
}

/// c, in millionths or in Unix seconds. Unlike the library's, a failed case may show it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    Number(i64),
    String(String),
    Boolean(bool),
    Time(u64),
}

/// A data item of [`Words::toml`]; conditions may use it as a string.
pub const ITEM: &str = "alice-mac";

impl Words {
    /// As a vocabulary file, with one device and one item.
    pub fn toml(&self) -> String {
        let mut toml = String::new();
        let sections = [("entities", &self.entities), ("datatypes", &self.datatypes), ("purposes", &self.purposes)];
        for (section, graph) in sections {
            writeln!(toml, "[{section}]").unwrap();
            for (name, parents) in graph {
                writeln!(toml, "{name:?} = {:?}", Vec::from_iter(parents)).unwrap();
            }
        }
        writeln!(toml, "[attributes]").unwrap();
        for (name, kind) in &self.attributes {
            writeln!(toml, "{name:?} = \"{kind}\"").unwrap();
        }
        let (entity, datatype) = (self.entities.keys().next().unwrap(), self.datatypes.keys().next().unwrap());
        writeln!(toml, "[devices]\nalice-phone = {entity:?}").unwrap();
        writeln!(toml, "[items]\n{ITEM} = {{ type = {datatype:?}, owner = \"alice-phone\" }}").unwrap();
        toml
    }

    /// As a vocabulary.
    pub fn vocabulary(&self) -> Vocabulary {
        Vocabulary::from_toml(&self.toml()).unwrap()
    }
}

/// The library's policy, or ⊥.
pub fn resolve_choice(choice: &Option<Policy>, vocabulary: &Vocabulary) -> Choice {
    choice.as_ref().map_or(Choice::Nothing, |policy| Choice::Policy(policy.resolve(vocabulary)))
}

/// The library's ν_d.
pub fn resolve_values(values: &Values, vocabulary: &Vocabulary) -> evaluate::Values {
    values.iter().map(|(name, value)| (vocabulary.variable(name).unwrap().0, value.resolve())).collect()
}

impl Policy {
    /// The library's policy.
    pub fn resolve(&self, vocabulary: &Vocabulary) -> policy::Policy {
        let datatype = vocabulary.datatypes.id(&self.datatype).unwrap();
        let transfers = self.transfers.iter().map(|rule| rule.resolve(vocabulary)).collect();
        policy::Policy::new(datatype, self.collection.resolve(vocabulary), transfers, vocabulary).unwrap()
    }

    /// Its collection and transfer rules.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        [&self.collection].into_iter().chain(&self.transfers)
    }
}

impl Rule {
    /// The library's rule.
    pub fn resolve(&self, vocabulary: &Vocabulary) -> CommunicationRule {
        let purposes: Vec<Purpose> = self.purposes.iter().map(|name| vocabulary.purposes.id(name).unwrap()).collect();
        CommunicationRule {
            condition: self.condition.resolve(vocabulary),
            entity: vocabulary.entities.id(&self.entity).unwrap(),
            usage: UsageRule::new(purposes, Time::from_unix(self.retention)).unwrap(),
        }
    }
}

impl Formula {
    /// The library's condition.
    pub fn resolve(&self, vocabulary: &Vocabulary) -> Condition {
        Condition::new(self.tree(vocabulary)).unwrap()
    }

    /// Formulas and terms in it.
    pub fn parts(&self) -> usize {
        fn terms(term: &Term) -> usize {
            match term {
                Term::Call(_, arguments) => 1 + arguments.iter().map(terms).sum::<usize>(),
                _ => 1,
            }
        }
        match self {
            Self::True | Self::False => 1,
            Self::Not(inner) => 1 + inner.parts(),
            Self::And(left, right) | Self::Or(left, right) => 1 + left.parts() + right.parts(),
            Self::Compare(left, _, right) => 1 + terms(left) + terms(right),
        }
    }

    /// Comparisons in it.
    pub fn comparisons(&self) -> usize {
        match self {
            Self::True | Self::False => 0,
            Self::Not(inner) => inner.comparisons(),
            Self::And(left, right) | Self::Or(left, right) => left.comparisons() + right.comparisons(),
            Self::Compare(..) => 1,
        }
    }

    fn tree(&self, vocabulary: &Vocabulary) -> condition::Formula {
        let boxed = |formula: &Self| Box::new(formula.tree(vocabulary));
        match self {
            Self::True => condition::Formula::True,
            Self::False => condition::Formula::False,
            Self::Not(inner) => condition::Formula::Not(boxed(inner)),
            Self::And(left, right) => condition::Formula::And(boxed(left), boxed(right)),
            Self::Or(left, right) => condition::Formula::Or(boxed(left), boxed(right)),
            Self::Compare(left, symbol, right) => {
                let comparison = Comparison::ALL.into_iter().find(|comparison| comparison.symbol() == *symbol).unwrap();
                condition::Formula::Compare(left.tree(vocabulary), comparison, right.tree(vocabulary))
            }
        }
    }
}

impl Term {
    fn tree(&self, vocabulary: &Vocabulary) -> condition::Term {
        match self {
            Self::Variable(name) => {
                let (variable, kind) = vocabulary.variable(name).unwrap();
                condition::Term::Variable(variable, kind)
            }
            Self::Constant(value) => condition::Term::Constant(value.resolve()),
            Self::Call(name, arguments) => {
                let arguments = arguments.iter().map(|argument| argument.tree(vocabulary)).collect();
                condition::Term::Call(Function::by_name(name).unwrap(), arguments)
            }
        }
    }
}

impl Value {
    /// The kind of it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Number(_) => Kind::Number,
            Self::String(_) => Kind::String,
            Self::Boolean(_) => Kind::Boolean,
            Self::Time(_) => Kind::Time,
        }
    }

    /// The library's value.
    pub fn resolve(&self) -> value::Value {
        match self {
            Self::Number(millionths) => value::Value::Number(Number::from_millionths(*millionths)),
            Self::String(text) => value::Value::String(text.as_str().into()),
            Self::Boolean(truth) => value::Value::Boolean(*truth),
            Self::Time(seconds) => value::Value::Time(Time::from_unix(*seconds)),
        }
    }
}
