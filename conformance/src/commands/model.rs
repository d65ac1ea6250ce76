//! The options that describe a model, for every command that explores one.

use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use conformance::explore::Limits;
use conformance::progress::Progress;
use conformance::scenario::Opaque;
use conformance::system::Network;
use conformance::variant::Variant;
use conformance::verify::{Cast, Kind, Report, Settings, verify};
use indicatif::{HumanCount, ProgressBar, ProgressStyle};

use super::CommandError;

/// How often the progress is shown anew.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Args)]
pub(crate) struct ModelOptions {
    /// Data subjects (default: 1)
    #[arg(long, value_name = "N", help_heading = "Model")]
    subjects: Option<usize>,
    /// Data controllers (default: 2)
    #[arg(long, value_name = "N", help_heading = "Model")]
    controllers: Option<usize>,
    /// Items; item k belongs to subject k modulo the number of subjects (default: 1)
    #[arg(long, value_name = "N", help_heading = "Model")]
    items: Option<usize>,
    /// Opaque policies p1, p2, … (default: 3)
    #[arg(long, value_name = "N", help_heading = "Model")]
    policies: Option<usize>,
    /// Which policies are more restrictive than which, as in `p1<p2,p3<p4` (default: p1<p2, if there are two)
    #[arg(long, help_heading = "Model")]
    order: Option<String>,
    /// Real policies in place of opaque ones: flights, alphabet, mall, or a TOML file
    #[arg(long, value_name = "NAME|FILE", help_heading = "Model",
          conflicts_with_all = ["subjects", "controllers", "items", "policies", "order", "changes", "restarts", "withdrawals", "deadlines"])]
    scenario: Option<String>,
    /// Whether a delivered message is gone, or may be delivered again (default: once)
    #[arg(long, value_enum, help_heading = "Model")]
    network: Option<NetworkName>,
    /// Who may choose its policy once more
    #[arg(long, value_delimiter = ',', value_name = "WHO", help_heading = "Model")]
    changes: Vec<Changing>,
    /// Subjects' devices may restart, each this often
    #[arg(long, value_name = "N", help_heading = "Model")]
    restarts: Option<u8>,
    /// Subjects may withdraw data, controllers policies; judges requirement 5 as well
    #[arg(long, help_heading = "Model")]
    withdrawals: bool,
    /// Clocks pass the policies' deadline; judges requirement 4 as well
    #[arg(long, help_heading = "Model")]
    deadlines: bool,
    /// A wrong variant, which must be refused; without a model of your own, on the model that refutes it
    #[arg(long, value_name = "NAME", value_parser = variant_parser(), help_heading = "Model")]
    variant: Option<Variant>,
    /// Whether states that differ only in the names of interchangeable devices and items count once
    #[arg(long, value_enum, default_value_t = Switch::Off, help_heading = "Search")]
    symmetry: Switch,
    /// Device by device, or every interleaving of the whole system (always so for `abstract`)
    #[arg(long, value_enum, default_value_t = SearchName::Devices, help_heading = "Search")]
    search: SearchName,
    /// Stop when the process has this much memory, in MiB
    #[arg(long, value_name = "MIB", default_value_t = Limits::default().bytes >> 20, help_heading = "Search")]
    memory: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum NetworkName {
    Once,
    Duplicating,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Changing {
    Subject,
    Controller,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SearchName {
    Devices,
    Interleavings,
}

fn variant_parser() -> impl clap::builder::TypedValueParser<Value = Variant> {
    use clap::builder::{PossibleValuesParser, TypedValueParser as _};
    PossibleValuesParser::new(Variant::ALL.map(Variant::name))
        .try_map(|name| Variant::ALL.into_iter().find(|variant| variant.name() == name).ok_or("unknown variant"))
}

impl ModelOptions {
    /// What to verify. Without a kind, a variant decides.
    pub(crate) fn settings(&self, kind: Option<Kind>) -> Result<Settings, CommandError> {
        let is_beyond_table_2 =
            !self.changes.is_empty() || self.restarts.is_some() || self.withdrawals || self.deadlines;
        if kind == Some(Kind::Abstract) && is_beyond_table_2 {
            return Err(CommandError::Usage(
                "changes, restarts, withdrawals and deadlines are of `direct` and `indirect`",
            ));
        }
        let is_about_graphs = self.variant.is_some_and(|variant| variant.state_check().is_none());
        if kind == Some(Kind::Abstract) && is_about_graphs {
            return Err(CommandError::Usage("this variant is about graphs: choose `direct` or `indirect`"));
        }
        let mut settings = match (self.variant, kind) {
            (Some(variant), _) if !self.describes_model() => variant.refuting_model(kind),
            (_, Some(kind)) => Settings::new(kind, self.cast()),
            (_, None) => return Err(CommandError::Usage("which model: `abstract`, `direct` or `indirect`?")),
        };
        settings.variant = self.variant;
        if let Some(network) = self.network {
            settings.network = match network {
                NetworkName::Once => Network::Once,
                NetworkName::Duplicating => Network::Duplicating,
            };
        }
        settings.symmetry = self.symmetry == Switch::On;
        settings.interleave = self.search == SearchName::Interleavings;
        settings.limits.bytes = self.memory.saturating_mul(1 << 20);
        Ok(settings)
    }

    fn describes_model(&self) -> bool {
        let counts = [self.subjects, self.controllers, self.items, self.policies];
        self.scenario.is_some()
            || self.order.is_some()
            || counts.iter().any(Option::is_some)
            || !self.changes.is_empty()
            || self.restarts.is_some()
            || self.withdrawals
            || self.deadlines
    }

    fn cast(&self) -> Cast {
        if let Some(scenario) = &self.scenario {
            return Cast::Scenario(scenario.clone());
        }
        let standard = Opaque::default();
        let policies = self.policies.unwrap_or(standard.policies);
        let default_order = if policies > 1 { standard.order } else { String::new() };
        Cast::Opaque(Opaque {
            subjects: self.subjects.unwrap_or(standard.subjects),
            controllers: self.controllers.unwrap_or(standard.controllers),
            items: self.items.unwrap_or(standard.items),
            policies,
            order: self.order.clone().unwrap_or(default_order),
            subject_changes: u8::from(self.changes.contains(&Changing::Subject)),
            controller_changes: u8::from(self.changes.contains(&Changing::Controller)),
            withdrawals: self.withdrawals,
            subject_restarts: self.restarts.unwrap_or(0),
            deadlines: self.deadlines,
        })
    }
}

/// Explores a model and, on a terminal, shows how far it is.
pub(crate) fn explore(settings: &Settings) -> Result<Report, CommandError> {
    with_progress(|progress| verify(settings, progress)).map_err(CommandError::from)
}

/// Does something long, and, on a terminal, shows how far it is.
pub(crate) fn with_progress<T>(work: impl FnOnce(&Progress) -> T) -> T {
    let progress = Progress::default();
    if !std::io::stderr().is_terminal() {
        return work(&progress);
    }
    let (bar, done, started) = (ProgressBar::new_spinner(), AtomicBool::new(false), Instant::now());
    if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {msg}") {
        bar.set_style(style);
    }
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                std::thread::park_timeout(PROGRESS_INTERVAL);
                let (states, queue) = progress.figures();
                let rate = (states as f64 / started.elapsed().as_secs_f64()) as u64;
                let [states, rate, queue] = [states, rate, queue].map(HumanCount);
                bar.set_message(format!("{states} states, {rate} per second, {queue} in the queue"));
                bar.tick();
            }
        });
        let outcome = work(&progress);
        done.store(true, Ordering::Relaxed);
        outcome
    });
    bar.finish_and_clear();
    outcome
}
