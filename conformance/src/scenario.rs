//! Who takes part in a model: devices with their graphs, policies they may choose, items and values.

pub mod file;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use pilot_core::diagnostic::{Located, Quoted};
use pilot_core::evaluate::Values;
use pilot_core::graph::Graph;
use pilot_core::graphs;
use pilot_core::policy::Choice;
use pilot_core::semantics::{Contacts, Epoch, Policies, PolicyId};
use pilot_core::syntax::{SyntaxError, parse_file};
use pilot_core::value::{Time, Value};
use pilot_core::vocabulary::{DeviceId, ItemId, Variable, Vocabulary, VocabularyError};
use serde::Serialize;

/// The most devices of one kind, items or policies in a model. Models far below this do not finish.
pub const MAX_COUNT: usize = 16;

/// When data must be erased in models with opaque policies, in Unix seconds.
const DEADLINE: u64 = 1000;

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
    /// Whether devices try actions that their graphs do not offer: every message to everybody. Guards must stop them.
    pub tries_everything: bool,
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
    /// What its user may choose at first: all of these, unless an exploration fixes the choice.
    pub first_choices: Vec<Vec<PolicyId>>,
    /// How often its user may change them.
    pub changes: u8,
    /// How often it may restart.
    pub restarts: u8,
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
    /// How often a subject's device may restart.
    pub subject_restarts: u8,
    /// Whether the clocks pass the policies' deadline.
    pub deadlines: bool,
}

impl Default for Opaque {
    /// The paper's model.
    fn default() -> Self {
        Self {
            subjects: 1,
            controllers: 2,
            items: 1,
            policies: 3,
            order: "p1<p2".to_string(),
            subject_changes: 0,
            controller_changes: 0,
            withdrawals: false,
            subject_restarts: 0,
            deadlines: false,
        }
    }
}

/// Why there is no such model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// None, or too many, of something.
    #[error("a model has 1 to {MAX_COUNT} {0}")]
    Count(&'static str),
    /// A text that is no order.
    #[error("bad order {0}: it is written like `p1<p2,p3<p4`")]
    Order(Quoted),
    /// A policy that the model does not have.
    #[error("the order names {0}, but the policies are p1 to p{1}")]
    UnknownPolicy(Quoted, usize),
    /// Policies that are each more restrictive than the other.
    #[error("the order is cyclic: p{0} < p{0}")]
    Cycle(usize),
    /// No built-in scenario, and no file.
    #[error("unknown scenario {0}: there are {1}, and TOML files of your own")]
    UnknownScenario(Quoted, String),
    /// A file that cannot be read.
    #[error("cannot read {0}: {1}")]
    Unreadable(String, String),
    /// A scenario's file with something wrong in it.
    #[error("{0}: {1}")]
    File(String, Box<Located<file::Problem>>),
    /// A vocabulary that was refused.
    #[error("{0}: {1}")]
    Vocabulary(String, Box<VocabularyError>),
    /// Policies that were refused.
    #[error("{0}: {1}")]
    Policies(String, Box<SyntaxError>),
    /// Two different policies of the same name.
    #[error("{0}: another policy is called {1}")]
    PolicyTwice(String, Quoted),
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
            let rule = format!("organisation for {} until {DEADLINE}", purposes.join(", "));
            let _ = writeln!(policies, "policy p{} {{ collect data by {rule} transfer to {rule} }}", at + 1);
        }
        let times = if self.deadlines { vec![0, DEADLINE - Epoch::SECONDS, DEADLINE] } else { vec![0] };
        let times = times.into_iter().map(Time::from_unix).collect();
        let (vocabulary, table, names) = read_generated(&words, &policies)?;
        let every: Vec<Vec<PolicyId>> = table.iter().map(|(id, _)| vec![id]).collect();
        let mut scenario = Scenario::new(vocabulary, table, names, times);
        scenario.withdrawals = self.withdrawals;
        let subjects = (0..self.subjects).map(|at| (format!("ds{}", at + 1), Role::Subject));
        let controllers = (0..self.controllers).map(|at| (format!("dc{}", at + 1), Role::Controller));
        let repository = (architecture == Architecture::Indirect).then(|| ("repository".into(), Role::Repository));
        for (name, role) in subjects.chain(controllers).chain(repository) {
            let Some(device) = scenario.vocabulary.device(&name) else { continue };
            let mut party = Party::new(device, role, architecture, &scenario.vocabulary);
            (party.changes, party.restarts) = match role {
                Role::Subject => (self.subject_changes, self.subject_restarts),
                Role::Controller => (self.controller_changes, 0),
                Role::Repository => (0, 0),
            };
            if role != Role::Repository {
                party.choices.clone_from(&every);
            }
            scenario.add(party);
        }
        Ok(scenario)
    }

    /// Pairs (a, b) of different policies with a below b, transitively.
    fn closed_order(&self) -> Result<BTreeSet<(usize, usize)>, ScenarioError> {
        let mut below = BTreeSet::new();
        for pair in self.order.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (a, b) = pair.split_once('<').ok_or_else(|| ScenarioError::Order(Quoted::new(&self.order)))?;
            let index = |name: &str| {
                let number = name.trim().strip_prefix('p').and_then(|digits| digits.parse::<usize>().ok());
                let number = number.ok_or_else(|| ScenarioError::Order(Quoted::new(&self.order)))?;
                let known = (1..=self.policies).contains(&number);
                if known {
                    Ok(number - 1)
                } else {
                    Err(ScenarioError::UnknownPolicy(Quoted::new(name.trim()), self.policies))
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

/// The words and policies that were written for opaque ones. They are well formed; nobody's input is in them.
fn read_generated(words: &str, policies: &str) -> Result<(Vocabulary, Policies, Vec<String>), ScenarioError> {
    let origin = || "opaque policies".to_string();
    let vocabulary =
        Vocabulary::from_toml(words).map_err(|error| ScenarioError::Vocabulary(origin(), Box::new(error)))?;
    let file = parse_file(policies, &vocabulary).map_err(|error| ScenarioError::Policies(origin(), Box::new(error)))?;
    let (mut table, mut names) = (Policies::default(), Vec::new());
    for source in file.policies {
        if let Choice::Policy(policy) = source.choice {
            table.intern(policy, &vocabulary);
            names.push(source.name);
        }
    }
    Ok((vocabulary, table, names))
}

impl Party {
    /// A device that runs the graph of its role, with the items that it owns and a value for each. It has no policies to
    /// choose from yet.
    pub fn new(device: DeviceId, role: Role, architecture: Architecture, vocabulary: &Vocabulary) -> Self {
        let graph = match (role, architecture) {
            (Role::Subject, Architecture::Direct) => graphs::DIRECT_SUBJECT,
            (Role::Controller, Architecture::Direct) => graphs::DIRECT_CONTROLLER,
            (Role::Subject, Architecture::Indirect) => graphs::INDIRECT_SUBJECT,
            (Role::Controller, Architecture::Indirect) => graphs::INDIRECT_CONTROLLER,
            (Role::Repository, _) => graphs::REPOSITORY,
        };
        let directory = vocabulary.directory();
        let is_own = |item: &ItemId| directory.item(*item).is_some_and(|about| about.owner == device);
        let items: Vec<ItemId> = directory.items().filter(is_own).collect();
        let value = |item: &ItemId| Value::String(format!("the value of {}", vocabulary.item_name(*item)).into());
        let values = items.iter().map(|item| (Variable::Item(*item), value(item))).collect();
        let name = vocabulary.device_name(device).to_string();
        let (choices, first_choices) = (Vec::new(), Vec::new());
        Self { name, device, role, graph, items, choices, first_choices, changes: 0, restarts: 0, values }
    }
}

impl Scenario {
    /// A scenario without parties yet.
    pub fn new(vocabulary: Vocabulary, policies: Policies, policy_names: Vec<String>, times: Vec<Time>) -> Self {
        let (parties, contacts) = (Vec::new(), Contacts::default());
        let (withdrawals, tries_everything) = (false, false);
        Self { vocabulary, policies, policy_names, parties, contacts, times, withdrawals, tries_everything }
    }

    /// Adds a party.
    pub fn add(&mut self, mut party: Party) {
        match party.role {
            Role::Repository => self.contacts.repository = Some(party.device),
            Role::Subject | Role::Controller => self.contacts.sources.push(party.device),
        }
        party.first_choices.clone_from(&party.choices);
        self.parties.push(party);
    }
}
