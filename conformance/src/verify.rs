//! A verdict about a model.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Instant;

use serde::Serialize;

use crate::abstract_model::AbstractModel;
use crate::compose::explore_devices;
use crate::coverage::Coverage;
use crate::explore::{Counterexample, Limits, Outcome, explore, shortest_run, wander};
use crate::memory;
use crate::progress::Progress;
use crate::render;
use crate::scenario::{Architecture, Opaque, Scenario, ScenarioError};
use crate::system::{Network, System};
use crate::variant::Variant;

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

/// Who takes part in a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Cast {
    /// Devices with opaque policies.
    Opaque(Opaque),
    /// A built-in scenario by its name, or a file.
    Scenario(String),
}

/// What to verify, and how.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Which model.
    pub kind: Kind,
    /// Who takes part.
    pub cast: Cast,
    /// How messages travel.
    pub network: Network,
    /// Whether states that differ in names only count once.
    pub symmetry: bool,
    /// Whether every interleaving is explored, rather than device by device.
    pub interleave: bool,
    /// Whether what is seen device by device must be seen in runs of the whole system, too.
    pub walks: bool,
    /// A wrong variant to verify in place of the right one.
    pub variant: Option<Variant>,
    /// When to stop.
    pub limits: Limits,
}

impl Settings {
    /// A model as it is, on the network `once`.
    pub fn new(kind: Kind, cast: Cast) -> Self {
        let network = Network::Once;
        let (symmetry, interleave, walks, variant, limits) = (false, false, true, None, Limits::default());
        Self { kind, cast, network, symmetry, interleave, walks, variant, limits }
    }

    /// The scenario that they describe.
    pub fn scenario(&self) -> Result<Scenario, ScenarioError> {
        let architecture = if self.kind == Kind::Indirect { Architecture::Indirect } else { Architecture::Direct };
        let mut scenario = match &self.cast {
            Cast::Opaque(opaque) => opaque.scenario(architecture)?,
            Cast::Scenario(name) => crate::scenario::file::find(name, architecture)?,
        };
        if let Some(variant) = self.variant {
            variant.apply(&mut scenario);
        }
        Ok(scenario)
    }
}

/// What an exploration says about a model.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The model's name.
    pub model: String,
    /// Who takes part, and how it was explored.
    pub parameters: Parameters,
    /// The wrong variant that was verified.
    pub variant: Option<String>,
    /// `holds`, `violated`, or `unknown` where a violation or the memory limit came first.
    pub verdicts: BTreeMap<String, &'static str>,
    /// Distinct states: of the whole system, or of single devices, as [`Parameters::search`] says.
    pub states: u64,
    /// Steps computed.
    pub generated: u64,
    /// Rounds of exploration.
    pub depth: u32,
    /// Wall-clock seconds.
    pub seconds: f64,
    /// Bytes of memory that the process used at most.
    pub peak_bytes: u64,
    /// Edges and events that a model of this kind must show and that this one did not.
    pub untaken: Vec<String>,
    /// A shortest run to a violation, and what is wrong with its last step.
    pub counterexample: Vec<String>,
    /// Whether the memory limit ended the exploration.
    pub is_out_of_memory: bool,
    /// What was seen.
    #[serde(skip)]
    pub covered: Coverage,
}

/// Who takes part in a verified model, and how it was explored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Parameters {
    /// Subjects, controllers, items, policies and so on, for opaque policies.
    #[serde(flatten)]
    pub opaque: Option<Opaque>,
    /// The scenario's name or file, for real policies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
    /// `once` or `duplicating`.
    pub network: &'static str,
    /// `on` or `off`.
    pub symmetry: &'static str,
    /// `devices`: device by device; `interleavings`: states of the whole system.
    pub search: &'static str,
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

/// Explores a model.
pub fn verify(settings: &Settings, progress: &Progress) -> Result<Report, ScenarioError> {
    Ok(verify_scenario(settings, &settings.scenario()?, progress))
}

/// Explores a scenario that was made with these settings, and perhaps changed.
pub fn verify_scenario(settings: &Settings, scenario: &Scenario, progress: &Progress) -> Report {
    let started = Instant::now();
    let report = explore_scenario(settings, scenario, progress);
    Report { seconds: started.elapsed().as_secs_f64(), ..report }
}

fn explore_scenario(settings: &Settings, scenario: &Scenario, progress: &Progress) -> Report {
    let state_check = settings.variant.and_then(Variant::state_check);
    if settings.kind == Kind::Abstract {
        let model = AbstractModel::new(scenario, settings.symmetry, state_check);
        let outcome = explore(&model, settings.limits, progress);
        let found = if outcome.is_violated { shortest_run(&model, settings.limits) } else { None };
        return report(settings, scenario, outcome, found, "interleavings");
    }
    let system = || System::new(scenario, settings.network, settings.symmetry, state_check);
    if !settings.interleave && state_check.is_none() {
        let mut outcome = explore_devices(scenario, settings.symmetry, settings.limits, progress);
        if !outcome.is_violated {
            if settings.walks && !outcome.is_out_of_memory {
                outcome.covered = seen_in_runs(&outcome.covered, settings, scenario);
            }
            return report(settings, scenario, outcome, None, "devices");
        }
    }
    let outcome = explore(&system(), settings.limits, progress);
    let found = if outcome.is_violated { shortest_run(&system().step_by_step(), settings.limits) } else { None };
    report(settings, scenario, outcome, found, "interleavings")
}

/// What real runs show of what was seen device by device. Runs on the network `once` are runs on any.
fn seen_in_runs(covered: &Coverage, settings: &Settings, scenario: &Scenario) -> Coverage {
    let missing = covered.missing(scenario, true);
    let mut seen = Coverage::default();
    for network in [Network::Once, settings.network] {
        if seen.missing(scenario, true) != missing {
            let system = System::new(scenario, network, settings.symmetry, None);
            seen.merge(&wander(&system, |seen| seen.missing(scenario, true) == missing));
        }
    }
    seen
}

fn report(
    settings: &Settings,
    scenario: &Scenario,
    mut outcome: Outcome,
    found: Option<Counterexample>,
    search: &'static str,
) -> Report {
    // A violation whose run is not found within the limits is no verdict, and nothing holds.
    outcome.is_out_of_memory |= outcome.is_violated && found.is_none();
    let violated = found.as_ref().map(|found| found.violation.property());
    let mut properties: Vec<String> = (1..=3).map(|number| format!("requirement-{number}")).collect();
    if settings.kind != Kind::Abstract {
        properties.insert(0, "refinement".to_string());
        properties.extend((scenario.times.len() > 1).then(|| "requirement-4".to_string()));
        properties.extend(scenario.withdrawals.then(|| "requirement-5".to_string()));
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
        let wrong = render::violation(&found.violation, scenario);
        counterexample.push(format!("{}: {wrong}", found.violation.property()));
    }
    let Outcome { states, generated, depth, is_out_of_memory, covered, .. } = outcome;
    let is_whole = counterexample.is_empty() && !is_out_of_memory;
    let untaken = if is_whole { covered.missing(scenario, settings.kind != Kind::Abstract) } else { Vec::new() };
    let (opaque, name) = match &settings.cast {
        Cast::Opaque(opaque) => (Some(opaque.clone()), None),
        Cast::Scenario(name) => (None, Some(name.clone())),
    };
    let network = if settings.network == Network::Once { "once" } else { "duplicating" };
    let symmetry = if settings.symmetry { "on" } else { "off" };
    Report {
        model: format!("{:?}", settings.kind).to_lowercase(),
        parameters: Parameters { opaque, scenario: name, network, symmetry, search },
        variant: settings.variant.map(|variant| variant.to_string()),
        verdicts,
        states,
        generated,
        depth,
        seconds: 0.0,
        peak_bytes: memory::peak(),
        untaken,
        counterexample,
        is_out_of_memory,
        covered,
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (property, verdict) in &self.verdicts {
            writeln!(out, "{property:<14} {verdict}")?;
        }
        let Self { states, generated, depth, seconds, .. } = self;
        let what = if self.parameters.search == "devices" { "states of devices" } else { "states" };
        let mebibytes = self.peak_bytes >> 20;
        writeln!(out, "{states} {what}, {generated} generated, depth {depth}, {seconds:.2} s, {mebibytes} MiB")?;
        if !self.untaken.is_empty() {
            writeln!(out, "vacuous: nothing is shown about what never happens in the model")?;
        }
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
