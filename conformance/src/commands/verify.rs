//! `conform verify`.

use clap::{Args, ValueEnum};
use conformance::each_guard::{self, Fate, Trial};
use conformance::verify::Kind;
use pilot_core::graphs;

use super::model::{ModelOptions, explore, with_progress};
use super::{CommandError, print};

/// Explore every reachable state of a model and judge every step
///
/// The abstract semantics must meet the privacy requirements, and the program graphs must refine it, for every run of
/// every device. Policies are opaque, p1, p2, …, as in the paper, and realised as concrete ones in the given order; or
/// they are the real ones of a scenario.
///
/// By default direct and indirect models are explored device by device: each device with every message that any device
/// can send, which covers every interleaving at a fraction of the cost. A violation is always shown as a shortest run
/// of the whole system.
///
/// Exit codes: 0 holds, 1 violated or vacuous, 2 bad input, 3 memory limit reached.
#[derive(Args)]
pub(crate) struct Verify {
    /// The abstract semantics, or the graphs of Fig. 3 (direct) or Fig. 4 (indirect)
    #[arg(value_enum, required_unless_present_any = ["variant", "each_guard"])]
    model: Option<ModelName>,
    #[command(flatten)]
    options: ModelOptions,
    /// Take away every guard and every effect of the graphs in turn: each such graph must be refused, or the reason why
    /// the guard or effect stays is printed
    #[arg(long, conflicts_with_all = ["model", "ModelOptions"])]
    each_guard: bool,
    /// With --each-guard: one graph only
    #[arg(long, value_name = "NAME", requires = "each_guard", value_parser = graphs::ALL.map(|graph| graph.name))]
    graph: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum ModelName {
    Abstract,
    Direct,
    Indirect,
}

impl Verify {
    pub(crate) fn run(&self) -> Result<u8, CommandError> {
        if self.each_guard {
            return self.run_each_guard();
        }
        let kind = self.model.map(|model| match model {
            ModelName::Abstract => Kind::Abstract,
            ModelName::Direct => Kind::Direct,
            ModelName::Indirect => Kind::Indirect,
        });
        let report = explore(&self.options.settings(kind)?)?;
        if self.json {
            print(&format!("{}\n", serde_json::to_string(&report).unwrap_or_default()))?;
        } else {
            print(&report.to_string())?;
        }
        Ok(report.exit_code())
    }

    fn run_each_guard(&self) -> Result<u8, CommandError> {
        let trials = with_progress(|progress| each_guard::try_all(self.graph.as_deref(), progress))?;
        if self.json {
            print(&format!("{}\n", serde_json::to_string(&trials).unwrap_or_default()))?;
        } else {
            for trial in &trials {
                print(&trial.to_string())?;
            }
            let count = |is: fn(&Fate) -> bool| trials.iter().filter(|trial| is(&trial.fate)).count();
            let refused = count(|fate| matches!(fate, Fate::Refused { .. }));
            let explained = count(|fate| matches!(fate, Fate::Redundant { .. }));
            let others = trials.len() - refused - explained;
            print(&format!("{refused} refused, {explained} redundant for a reason, {others} neither\n"))?;
        }
        Ok(u8::from(!trials.iter().all(Trial::is_fine)))
    }
}
