//! A verdict about a model.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::abstract_model::AbstractModel;
use crate::explore::{Model, Outcome, explore, shortest_run};
use crate::refine::Violation;
use crate::render;
use crate::scenario::{Architecture, Opaque, Role, Scenario, ScenarioError};
use crate::system::{Network, System};

/// Which model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Table 2 by itself.
    Abstract,
    /// Figs. 3a and 3b.
    Direct,
    /// Figs. 4a, 4b and 4c.
    Indirect,
}

/// What an exploration says about a model.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The model's name.
    pub model: String,
    /// How large it is.
    pub parameters: Opaque,
    /// `holds`, `violated`, or `unknown` where a violation or the memory limit came first.
    pub verdicts: BTreeMap<String, &'static str>,
    /// Distinct states.
    pub states: u64,
    /// Steps computed, and the initial state.
    pub generated: u64,
    /// Length of the longest shortest run.
    pub depth: u32,
    /// Wall-clock seconds.
    pub seconds: f64,
    /// Bytes of the states kept, at most.
    pub peak_bytes: usize,
    /// Edges and events that a model of this kind must show and that this one did not.
    pub untaken: Vec<String>,
    /// A shortest run to a violation, and what is wrong with its last step.
    pub counterexample: Vec<String>,
    /// Whether the memory limit ended the exploration.
    pub is_out_of_memory: bool,
}

impl Report {
    /// 0 holds, 1 violated or vacuous, 3 memory limit reached.
    pub fn exit_code(&self) -> u8 {
        if !self.counterexample.is_empty() {
            1
        } else if self.is_out_of_memory {
            3
        } else {
            u8::from(!self.untaken.is_empty())
        }
    }
}

/// Explores a model with opaque policies.
pub fn verify(kind: Kind, opaque: &Opaque, network: Network, memory_limit: usize) -> Result<Report, ScenarioError> {
    let architecture = if kind == Kind::Indirect { Architecture::Indirect } else { Architecture::Direct };
    Ok(verify_scenario(kind, opaque, &opaque.scenario(architecture)?, network, memory_limit))
}

/// Explores a scenario that was made with these parameters, and perhaps changed.
pub fn verify_scenario(
    kind: Kind,
    parameters: &Opaque,
    scenario: &Scenario,
    network: Network,
    memory_limit: usize,
) -> Report {
    let parameters = parameters.clone();
    match kind {
        Kind::Abstract => judge(kind, parameters, &AbstractModel::new(scenario), scenario, memory_limit),
        Kind::Direct | Kind::Indirect => {
            judge(kind, parameters, &System::new(scenario, network), scenario, memory_limit)
        }
    }
}

fn judge<M: Model>(kind: Kind, parameters: Opaque, model: &M, scenario: &Scenario, memory_limit: usize) -> Report {
    let outcome = explore(model, memory_limit);
    let found = if outcome.is_violated { shortest_run(model) } else { None };
    let violated = found.as_ref().map(|found| found.violation.property());
    let mut properties: Vec<String> = (1..=3).map(|number| format!("requirement-{number}")).collect();
    if kind != Kind::Abstract {
        properties.insert(0, "refinement".to_string());
    }
    if scenario.withdrawals && kind != Kind::Abstract {
        properties.push("requirement-5".to_string());
    }
    if let Some(other) = violated.iter().find(|property| !properties.contains(property)) {
        properties.push(other.clone());
    }
    let verdict = |property: &String| match &violated {
        Some(violated) if violated == property => "violated",
        None if !outcome.is_out_of_memory => "holds",
        _ => "unknown",
    };
    let verdicts = properties.iter().map(|property| (property.clone(), verdict(property))).collect();
    let mut counterexample = Vec::new();
    if let Some(found) = found {
        counterexample = found.run;
        counterexample.push(wrong(&found.violation, scenario));
    }
    let Outcome { states, generated, depth, seconds, peak_bytes, is_out_of_memory, ref covered, .. } = outcome;
    let mut untaken = expected(kind, scenario);
    untaken.retain(|name| !covered.contains(name));
    let model = format!("{kind:?}").to_lowercase();
    Report {
        model,
        parameters,
        verdicts,
        states,
        generated,
        depth,
        seconds,
        peak_bytes,
        untaken,
        counterexample,
        is_out_of_memory,
    }
}

fn wrong(violation: &Violation, scenario: &Scenario) -> String {
    format!("{}: {}", violation.property(), render::violation(violation, scenario))
}

/// What a model must show, or it passes for want of anything happening: the events of Table 2, every edge of its
/// figures, and the edges of S8 that a running system needs.
fn expected(kind: Kind, scenario: &Scenario) -> Vec<String> {
    let mut expected: Vec<String> =
        ["own", "request (R1)", "send", "transfer"].map(|kind| format!("event {kind}")).into();
    for role in [Role::Subject, Role::Controller, Role::Repository] {
        let party = scenario.parties.iter().find(|party| party.role == role && kind != Kind::Abstract);
        let Some(graph) = party.map(|party| &party.graph) else { continue };
        let needed = |(_, edge): &(usize, &pilot_core::graph::Edge<'_>)| {
            let is_restart = edge.label == pilot_core::graph::Label::Restore;
            edge.beyond.is_none() || (edge.beyond == Some("S8") && !is_restart)
        };
        expected.extend(graph.edges.iter().enumerate().filter(needed).map(|(at, _)| render::edge_name(graph, at)));
    }
    expected.dedup();
    expected
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (property, verdict) in &self.verdicts {
            writeln!(out, "{property:<14} {verdict}")?;
        }
        let Self { states, generated, depth, seconds, .. } = self;
        writeln!(out, "{states} states, {generated} generated, depth {depth}, {seconds:.2} s")?;
        for name in &self.untaken {
            writeln!(out, "never taken: {name}")?;
        }
        if let Some((wrong, run)) = self.counterexample.split_last() {
            writeln!(out, "a shortest run:")?;
            for (at, step) in run.iter().enumerate() {
                writeln!(out, "{:>4}. {step}", at + 1)?;
            }
            writeln!(out, "      {wrong}")?;
        }
        if self.is_out_of_memory {
            writeln!(out, "stopped: the memory limit is reached")?;
        }
        Ok(())
    }
}
