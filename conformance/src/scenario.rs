//! Who takes part in a model: devices with their graphs, policies they may choose, items and values.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use pilot_core::evaluate::Values;
use pilot_core::graph::Graph;
use pilot_core::graphs;
use pilot_core::policy::Choice;
use pilot_core::semantics::{Contacts, Policies, PolicyId};
use pilot_core::syntax::parse_file;
use pilot_core::value::{Number, Time, Value};
use pilot_core::vocabulary::{DeviceId, ItemId, Variable, Vocabulary};
use serde::Serialize;

/// The most devices of one kind, items or policies in a model. Models far below this do not finish.
pub const MAX_COUNT: usize = 16;

/// A model's cast.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The words.
    pub vocabulary: Vocabulary,
    /// The policies, and what they are called.
    pub policies: Policies,
    /// The name of each policy, by its id.
    pub policy_names: Vec<String>,
    /// Who takes part; subjects, then controllers, then the repository.
    pub parties: Vec<Party>,
    /// Whom they address.
    pub contacts: Contacts,
    /// The moments that each device's clock goes through, in order. Clocks are not synchronised.
    pub times: Vec<Time>,
    /// Whether withdrawals, of data and of policies, are explored.
    pub withdrawals: bool,
}

/// A device and what runs on it.
#[derive(Debug, Clone)]
pub struct Party {
    /// What it is called.
    pub name: String,
    /// Which device it is.
    pub device: DeviceId,
    /// What it does.
    pub role: Role,
    /// The graph that it runs, one instance per item for a subject.
    pub graph: Graph<'static>,
    /// Its items.
    pub items: Vec<ItemId>,
    /// What its user may choose as own policies: one of these sets.
    pub choices: Vec<Vec<PolicyId>>,
    /// How often its user may change them.
    pub changes: u8,
    /// ν at the start.
    pub values: Values,
}

/// What a party does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// A data subject.
    Subject,
    /// A data controller.
    Controller,
    /// The policy repository.
    Repository,
}

/// Direct or indirect communication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// Figs. 3a and 3b.
    Direct,
    /// Figs. 4a, 4b and 4c.
    Indirect,
}

/// A model with opaque policies p1, p2, …, as in the paper.
#[derive(Debug, Clone, Serialize)]
pub struct Opaque {
    /// How many subjects.
    pub subjects: usize,
    /// How many controllers.
    pub controllers: usize,
    /// How many items; item k belongs to subject k modulo the number of subjects.
    pub items: usize,
    /// How many policies.
    pub policies: usize,
    /// Which policy is more restrictive than which, as in `p1<p2,p3<p4`.
    pub order: String,
    /// How often a subject may change its policy.
    pub subject_changes: u8,
    /// How often a controller may change its policy.
    pub controller_changes: u8,
    /// Whether data and policies may be withdrawn.
    pub withdrawals: bool,
}

/// Why there is no such model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// None, or too many, of something.
    #[error("a model has 1 to {MAX_COUNT} {0}")]
    Count(&'static str),
    /// A text that is no order.
    #[error("bad order `{0}`: it is written like `p1<p2,p3<p4`")]
    Order(String),
    /// A policy that the model does not have.
    #[error("the order names `{0}`, but the policies are p1 to p{1}")]
    UnknownPolicy(String, usize),
    /// Policies that are each more restrictive than the other.
    #[error("the order is cyclic: p{0} < p{0}")]
    Cycle(usize),
    /// A file of policies or words that could not be read.
    #[error("{0}")]
    Text(String),
}

impl Opaque {
    /// Concrete policies over one entity that are ordered as given: policy pk has a purpose for every policy that is at
    /// most pk, so pi ⊑ pj exactly if i is at most j. Their transfer rule is their collection rule, so TRANSFER asks for
    /// the same order.
    pub fn scenario(&self, architecture: Architecture) -> Result<Scenario, ScenarioError> {
        for (count, what) in [
            (self.subjects, "subjects"),
            (self.controllers, "controllers"),
            (self.items, "items"),
            (self.policies, "policies"),
        ] {
            if count == 0 || count > MAX_COUNT {
                return Err(ScenarioError::Count(what));
            }
        }
        let below = self.closed_order()?;
        let mut words =
            String::from("[entities]\norganisation = []\nperson = []\npublic = []\n[datatypes]\ndata = []\n");
        let list = |out: &mut String, head: &str, count: usize, line: &dyn Fn(usize) -> String| {
            let _ = writeln!(out, "[{head}]");
            for at in 0..count {
                let _ = writeln!(out, "{}", line(at));
            }
        };
        list(&mut words, "purposes", self.policies, &|at| format!("x{} = []", at + 1));
        list(&mut words, "devices", self.subjects, &|at| format!("ds{} = \"person\"", at + 1));
        for at in 0..self.controllers {
            let _ = writeln!(words, "dc{} = \"organisation\"", at + 1);
        }
        let _ = writeln!(words, "repository = \"public\"");
        list(&mut words, "items", self.items, &|at| {
            format!("i{} = {{ type = \"data\", owner = \"ds{}\" }}", at + 1, at % self.subjects + 1)
        });
        let mut policies = String::new();
        for at in 0..self.policies {
            let purposes: Vec<String> = (0..self.policies)
                .filter(|other| below.contains(&(*other, at)) || *other == at)
                .map(|other| format!("x{}", other + 1))
                .collect();
            let rule = format!("organisation for {} until 1000", purposes.join(", "));
            let _ = writeln!(policies, "policy p{} {{ collect data by {rule} transfer to {rule} }}", at + 1);
        }
        let mut scenario = Scenario::read(&words, &policies, vec![Time::from_unix(0)])?;
        scenario.withdrawals = self.withdrawals;
        let every: Vec<Vec<PolicyId>> = scenario.policies.iter().map(|(id, _)| vec![id]).collect();
        for at in 0..self.subjects {
            let items = (0..self.items).filter(|item| item % self.subjects == at);
            let items: Vec<String> = items.map(|item| format!("i{}", item + 1)).collect();
            scenario.add(
                &format!("ds{}", at + 1),
                Role::Subject,
                architecture,
                &items,
                &every,
                self.subject_changes,
            )?;
        }
        for at in 0..self.controllers {
            let name = format!("dc{}", at + 1);
            scenario.add(&name, Role::Controller, architecture, &[], &every, self.controller_changes)?;
        }
        if architecture == Architecture::Indirect {
            scenario.add("repository", Role::Repository, architecture, &[], &[], 0)?;
        }
        Ok(scenario)
    }

    /// Pairs (a, b) of different policies with a below b, transitively.
    fn closed_order(&self) -> Result<BTreeSet<(usize, usize)>, ScenarioError> {
        let mut below = BTreeSet::new();
        for pair in self.order.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (a, b) = pair.split_once('<').ok_or_else(|| ScenarioError::Order(self.order.clone()))?;
            let index = |name: &str| {
                let number = name.trim().strip_prefix('p').and_then(|digits| digits.parse::<usize>().ok());
                let number = number.ok_or_else(|| ScenarioError::Order(self.order.clone()))?;
                let known = (1..=self.policies).contains(&number);
                if known {
                    Ok(number - 1)
                } else {
                    Err(ScenarioError::UnknownPolicy(name.trim().into(), self.policies))
                }
            };
            below.insert((index(a)?, index(b)?));
        }
        for middle in 0..self.policies {
            for a in 0..self.policies {
                for b in 0..self.policies {
                    if below.contains(&(a, middle)) && below.contains(&(middle, b)) {
                        below.insert((a, b));
                    }
                }
            }
        }
        match below.iter().find(|(a, b)| a == b) {
            Some((a, _)) => Err(ScenarioError::Cycle(a + 1)),
            None => Ok(below),
        }
    }
}

impl Scenario {
    /// A scenario without parties yet.
    pub fn read(vocabulary: &str, policies: &str, times: Vec<Time>) -> Result<Self, ScenarioError> {
        let vocabulary = Vocabulary::from_toml(vocabulary).map_err(|error| ScenarioError::Text(error.to_string()))?;
        let file = parse_file(policies, &vocabulary).map_err(|error| ScenarioError::Text(error.to_string()))?;
        let (mut table, mut policy_names) = (Policies::default(), Vec::new());
        for source in file.policies {
            if let Choice::Policy(policy) = source.choice {
                table.intern(policy, &vocabulary);
                policy_names.push(source.name);
            }
        }
        let contacts = Contacts::default();
        let parties = Vec::new();
        Ok(Self { vocabulary, policies: table, policy_names, parties, contacts, times, withdrawals: false })
    }

    /// Adds a party with a graph of the architecture. Each of its items has a value of its own.
    pub fn add(
        &mut self,
        name: &str,
        role: Role,
        architecture: Architecture,
        items: &[String],
        choices: &[Vec<PolicyId>],
        changes: u8,
    ) -> Result<(), ScenarioError> {
        let unknown = |what: &str, name: &str| ScenarioError::Text(format!("unknown {what} `{name}`"));
        let device = self.vocabulary.device(name).ok_or_else(|| unknown("device", name))?;
        let graph = match (role, architecture) {
            (Role::Subject, Architecture::Direct) => graphs::DIRECT_SUBJECT,
            (Role::Controller, Architecture::Direct) => graphs::DIRECT_CONTROLLER,
            (Role::Subject, Architecture::Indirect) => graphs::INDIRECT_SUBJECT,
            (Role::Controller, Architecture::Indirect) => graphs::INDIRECT_CONTROLLER,
            (Role::Repository, _) => graphs::REPOSITORY,
        };
        let (mut ids, mut values) = (Vec::new(), Values::new());
        for (at, item) in items.iter().enumerate() {
            let id = self.vocabulary.item(item).ok_or_else(|| unknown("item", item))?;
            let number = u32::try_from(at).unwrap_or(u32::MAX);
            values.insert(Variable::Item(id), Value::Number(Number::whole(number)));
            ids.push(id);
        }
        match role {
            Role::Repository => self.contacts.repository = Some(device),
            _ => self.contacts.sources.push(device),
        }
        let (name, choices) = (name.to_string(), choices.to_vec());
        self.parties.push(Party { name, device, role, graph, items: ids, choices, changes, values });
        Ok(())
    }
}
