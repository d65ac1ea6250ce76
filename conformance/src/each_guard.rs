//! Every single guard taken away and every single effect dropped, in turn: each such graph must be refused, or there is
//! a reason why the guard or effect stays all the same.
//!
//! A changed graph comes before small models, *courts*, one after the other. A court refuses it if a step is wrong, or if
//! something can no longer happen that happens with the graphs as they are. In most courts devices also try what their
//! graphs do not offer ([`Scenario::tries_everything`]), so that it is the guards that stop them.

mod reasons;

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use pilot_core::graph::{Edge, Graph};
use pilot_core::graphs;
use serde::Serialize;

use crate::coverage::edge_name;
use crate::explore::Limits;
use crate::progress::Progress;
use crate::scenario::{Opaque, Role, Scenario, ScenarioError};
use crate::system::Network;
use crate::variant::map_edges;
use crate::verify::{Cast, Kind, Settings, verify_scenario};

/// How many states of a changed graph are looked at before one court.
const MAX_STATES: u64 = 1_000_000;

/// A changed graph and what became of it.
#[derive(Debug, Clone, Serialize)]
pub struct Trial {
    /// Which graph.
    pub graph: &'static str,
    /// Which edge.
    pub edge: String,
    /// `guard` or `effect`.
    pub missing: &'static str,
    /// What is missing, as the tables write it.
    pub word: String,
    /// What became of it.
    #[serde(flatten)]
    pub fate: Fate,
}

/// What became of a changed graph.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "fate", rename_all = "lowercase")]
pub enum Fate {
    /// A court refused it.
    Refused {
        /// A shortest run to a violation, and what is wrong with its last step; or
        counterexample: Vec<String>,
        /// what can no longer happen.
        untaken: Vec<String>,
    },
    /// No court refused it, and it stays for a reason.
    Redundant {
        /// Why.
        reason: &'static str,
    },
    /// No court refused it, and nobody says why it stays.
    Unexplained,
    /// No court refused it, and one did not come to an end.
    Undecided,
}

/// Why nothing was tried.
#[derive(Debug, thiserror::Error)]
pub enum EachGuardError {
    /// A court could not be made.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The graphs as they are do not hold, so there is nothing to compare with.
    #[error("the graphs as they are are refused:\n{0}")]
    Violated(String),
}

/// Changes every graph, or one, in every way, and sees what becomes of it.
pub fn try_all(only: Option<&str>, progress: &Progress) -> Result<Vec<Trial>, EachGuardError> {
    let mutations = Mutation::all(only);
    let courts = Court::for_all(&mutations, progress)?;
    let next = AtomicUsize::new(0);
    let trials: Mutex<Vec<(usize, Trial)>> = Mutex::default();
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(mutation) = mutations.get(at) else { return };
            progress.set_queue(mutations.len().saturating_sub(at) as u64);
            let trial = mutation.try_before(&courts, progress);
            trials.lock().unwrap_or_else(PoisonError::into_inner).push((at, trial));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let mut trials = trials.into_inner().unwrap_or_else(PoisonError::into_inner);
    trials.sort_by_key(|(at, _)| *at);
    Ok(trials.into_iter().map(|(_, trial)| trial).collect())
}

impl Trial {
    /// Whether it was refused, or stays for a reason.
    pub fn is_fine(&self) -> bool {
        matches!(self.fate, Fate::Refused { .. } | Fate::Redundant { .. })
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { edge, missing, word, .. } = self;
        write!(out, "{edge} without {missing} {word}: ")?;
        match &self.fate {
            Fate::Refused { counterexample, untaken } => {
                writeln!(out, "refused")?;
                for line in counterexample.iter().chain(untaken.iter().filter(|_| counterexample.is_empty())) {
                    let lead = if counterexample.is_empty() { "never taken: " } else { "" };
                    writeln!(out, "    {lead}{line}")?;
                }
                Ok(())
            }
            Fate::Redundant { reason } => writeln!(out, "redundant; it stays because {reason}"),
            Fate::Unexplained => writeln!(out, "NOT REFUSED, and no reason is given why it stays"),
            Fate::Undecided => writeln!(out, "NOT DECIDED within {MAX_STATES} states"),
        }
    }
}

/// A graph from which one guard or effect is missing.
#[derive(Debug, Clone, Copy)]
struct Mutation {
    graph: &'static Graph<'static>,
    /// The edge, by its place in the table.
    at: usize,
    edge: &'static Edge<'static>,
    missing: Missing,
}

/// What is missing from an edge, by its place there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    /// A guard of the figure.
    Guard(usize),
    /// A guard beyond the figure.
    Also(usize),
    /// An effect.
    Effect(usize),
}

impl Mutation {
    fn all(only: Option<&str>) -> Vec<Self> {
        let mut all = Vec::new();
        for graph in graphs::ALL.into_iter().filter(|graph| only.is_none_or(|name| graph.name == name)) {
            for (at, edge) in graph.edges.iter().enumerate() {
                let guards = (0..edge.guards.len()).map(Missing::Guard);
                let parts = guards.chain((0..edge.also.len()).map(Missing::Also));
                let parts = parts.chain((0..edge.effects.len()).map(Missing::Effect));
                all.extend(parts.map(|missing| Self { graph, at, edge, missing }));
            }
        }
        all
    }

    /// Puts the graph before every court, until one refuses it.
    fn try_before(&self, courts: &[Court], progress: &Progress) -> Trial {
        let mut is_undecided = false;
        let refused = courts.iter().filter(|court| court.runs(self.graph)).find_map(|court| {
            let mut scenario = court.scenario.clone();
            self.apply(&mut scenario);
            let mut report = verify_scenario(&court.settings, &scenario, progress);
            report.untaken.retain(|name| !court.untaken.contains(name));
            let is_refused = report.exit_code() == 1;
            is_undecided |= report.is_out_of_memory;
            let (counterexample, untaken) = (report.counterexample, report.untaken);
            is_refused.then_some(Fate::Refused { counterexample, untaken })
        });
        let word = self.word();
        let explained = || match reasons::reason(self.graph.name, self.edge.label, &word) {
            _ if is_undecided => Fate::Undecided,
            Some(reason) => Fate::Redundant { reason },
            None => Fate::Unexplained,
        };
        let fate = refused.unwrap_or_else(explained);
        let missing = if matches!(self.missing, Missing::Effect(_)) { "effect" } else { "guard" };
        Trial { graph: self.graph.name, edge: edge_name(self.graph, self.at), missing, word, fate }
    }

    /// The word that is missing, as the tables write it.
    fn word(&self) -> String {
        let word = match self.missing {
            Missing::Guard(at) => self.edge.guards.get(at).map(|guard| format!("{guard:?}")),
            Missing::Also(at) => self.edge.also.get(at).map(|(_, guard)| format!("{guard:?}")),
            Missing::Effect(at) => self.edge.effects.get(at).map(|effect| format!("{effect:?}")),
        };
        word.unwrap_or_default()
    }

    /// Changes the graph of everybody who runs it.
    fn apply(&self, scenario: &mut Scenario) {
        let changed = map_edges(self.graph, |edge| {
            let is_it = std::ptr::eq(self.edge, edge);
            if is_it { self.without(edge) } else { *edge }
        });
        for party in scenario.parties.iter_mut().filter(|party| party.graph.name == self.graph.name) {
            party.graph = changed;
        }
    }

    fn without(&self, edge: &Edge<'static>) -> Edge<'static> {
        match self.missing {
            Missing::Guard(at) => Edge { guards: all_but(edge.guards, at), ..*edge },
            Missing::Also(at) => Edge { also: all_but(edge.also, at), ..*edge },
            Missing::Effect(at) => Edge { effects: all_but(edge.effects, at), ..*edge },
        }
    }
}

fn all_but<T: Copy>(parts: &[T], at: usize) -> &'static [T] {
    let kept = parts.iter().enumerate().filter(|(place, _)| *place != at).map(|(_, part)| *part);
    kept.collect::<Vec<_>>().leak()
}

/// A small model of the graphs as they are, which nothing violates.
struct Court {
    settings: Settings,
    scenario: Scenario,
    /// What the model is too small to show even with the graphs as they are.
    untaken: Vec<String>,
}

impl Court {
    /// The models before which changed graphs come, cheapest first.
    fn for_all(mutations: &[Mutation], progress: &Progress) -> Result<Vec<Self>, EachGuardError> {
        let one_policy = Opaque { policies: 1, order: String::new(), ..Opaque::default() };
        let two_policies = Opaque { policies: 2, ..Opaque::default() };
        let small = Opaque { controllers: 1, ..two_policies.clone() };
        let withdrawing = Opaque { withdrawals: true, ..one_policy.clone() };
        let casts = [
            small.clone(),
            two_policies.clone(),
            Opaque { controllers: 1, ..withdrawing.clone() },
            withdrawing.clone(),
            Opaque { items: 2, controller_changes: 1, ..small.clone() },
            Opaque { controller_changes: 1, subject_changes: 1, subject_restarts: 1, ..small },
            Opaque { deadlines: true, ..one_policy },
            Opaque { deadlines: true, controllers: 1, ..withdrawing.clone() },
            Opaque { subjects: 2, items: 2, ..two_policies },
            Opaque { deadlines: true, ..withdrawing },
        ];
        let scenarios = crate::scenario::file::built_in().map(|name| Cast::Scenario(name.to_string()));
        let mut courts = Vec::new();
        for cast in casts.map(Cast::Opaque).into_iter().chain(scenarios) {
            for kind in [Kind::Direct, Kind::Indirect] {
                let limits = Limits { states: MAX_STATES, bytes: u64::MAX };
                // What cannot happen device by device cannot happen in any run; that is enough to refuse a graph.
                let (network, walks) = (Network::Duplicating, false);
                let settings = Settings { network, limits, walks, ..Settings::new(kind, cast.clone()) };
                let court = Self::new(settings, progress)?;
                if mutations.iter().any(|mutation| court.runs(mutation.graph)) {
                    courts.push(court);
                }
            }
        }
        Ok(courts)
    }

    fn new(settings: Settings, progress: &Progress) -> Result<Self, EachGuardError> {
        let mut scenario = settings.scenario()?;
        scenario.tries_everything = true;
        let mut subjects = scenario.parties.iter_mut().filter(|party| party.role == Role::Subject);
        if let Some(second) = subjects.nth(1) {
            // A sensor that measures nothing: its item has no value.
            second.values.clear();
        }
        let report = verify_scenario(&settings, &scenario, progress);
        if !report.counterexample.is_empty() || report.is_out_of_memory {
            return Err(EachGuardError::Violated(report.to_string()));
        }
        Ok(Self { settings, scenario, untaken: report.untaken })
    }

    fn runs(&self, graph: &Graph<'_>) -> bool {
        self.scenario.parties.iter().any(|party| party.graph.name == graph.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compose::explore_devices;

    /// The search by devices covers every run: whatever goes wrong in an interleaving goes wrong there, too.
    #[test]
    fn the_search_by_devices_overlooks_nothing() -> Result<(), ScenarioError> {
        let tiny = Opaque { controllers: 1, policies: 2, ..Opaque::default() };
        let withdrawing = Opaque { policies: 1, order: String::new(), withdrawals: true, ..tiny.clone() };
        let mut refused = 0;
        for (kind, opaque) in [Kind::Direct, Kind::Indirect]
            .into_iter()
            .flat_map(|kind| [tiny.clone(), withdrawing.clone()].map(|opaque| (kind, opaque)))
        {
            let settings = Settings { interleave: true, ..Settings::new(kind, Cast::Opaque(opaque)) };
            for mutation in Mutation::all(None) {
                let mut scenario = settings.scenario()?;
                scenario.tries_everything = true;
                mutation.apply(&mut scenario);
                let report = verify_scenario(&settings, &scenario, &Progress::default());
                if !report.counterexample.is_empty() {
                    refused += 1;
                    let devices = explore_devices(&scenario, false, Limits::default(), &Progress::default());
                    assert!(
                        devices.is_violated,
                        "{} without {}",
                        edge_name(mutation.graph, mutation.at),
                        mutation.word()
                    );
                }
            }
        }
        assert!(refused > 20, "{refused} are refused");
        Ok(())
    }
}
