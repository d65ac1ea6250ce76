//! `conform audit`.

use std::io::{IsTerminal as _, Write as _};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use conformance::audit::judges::Judges;
use conformance::audit::report::Filter;
use conformance::audit::sources::{Given, Sources};
use conformance::audit::text::text;
use conformance::audit::{Progress, audit, audit_by};
use indicatif::{ProgressBar, ProgressStyle};
use pilot_core::value::Time;

use super::{CommandError, print};

/// How often progress is shown.
const SHOW_EVERY: Duration = Duration::from_millis(100);

/// Check recorded traces against the semantics
///
/// Every directory is searched for traces. Their chains and signatures are verified, every step is run again through the
/// program graph that the daemon ran, and judged by the abstract semantics and the privacy requirements; what one device
/// received is compared with what another sent.
///
/// In what `consent-mesh demo --keep DIR` or `conform simulate` has left, mesh file, audit keys, openings and
/// signed consents are found by themselves. Records after the last checkpoint of a trace are not signed by anybody, so they are reported as open and not
/// judged.
///
/// Exit codes: 0 conforms, 1 a rule or a requirement is violated, 2 damaged, missing, unreadable or empty input; with
/// --strict 2 also if something could not be judged.
#[derive(Args)]
#[command(override_usage = "conform audit <DIR>... [OPTIONS]")]
pub(crate) struct Audit {
    /// Where the traces are
    #[arg(required = true, value_name = "DIR")]
    directories: Vec<PathBuf>,
    /// The operator's mesh file: who takes part, with which keys and words; several, if it has changed
    #[arg(long, value_name = "FILE", num_args = 1..)]
    mesh: Vec<PathBuf>,
    /// The operator's public key, to verify mesh files with: `ed25519:…`, or a file that begins with it
    #[arg(long, value_name = "FILE")]
    operator_key: Option<PathBuf>,
    /// A device's audit key, by which its trace names items
    #[arg(long, value_name = "FILE", num_args = 1..)]
    audit_key: Vec<PathBuf>,
    /// What a subject reveals to you (`ds-gateway opening`): which item is hers, and the key of her trace
    #[arg(long, value_name = "FILE", num_args = 1..)]
    opening: Vec<PathBuf>,
    /// Signed consents that a controller shows you (`dc-gateway consents`); its audit key is needed, too
    #[arg(long, value_name = "FILE", num_args = 1..)]
    consents: Vec<PathBuf>,
    /// Fail if something could not be judged
    #[arg(long)]
    strict: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write a report for people: one page, complete in itself
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Show only violations at or after this time: a date, an RFC 3339 time or Unix seconds. The verdict is that of everything
    #[arg(long, value_name = "TIME")]
    since: Option<Time>,
    /// Show only violations in the trace of this device. The verdict is that of everything
    #[arg(long, value_name = "DEVICE", num_args = 1..)]
    device: Vec<String>,
    /// How many threads work, unless as many as there are cores
    #[arg(long, value_name = "NUMBER")]
    threads: Option<NonZeroUsize>,
}

impl Audit {
    pub(crate) fn run(&self) -> Result<u8, CommandError> {
        let given = Given {
            meshes: self.mesh.clone(),
            operator: self.operator_key.clone(),
            keys: self.audit_key.clone(),
            openings: self.opening.clone(),
            consents: self.consents.clone(),
        };
        let sources = Sources::find(&self.directories, &given)?;
        let filter = Filter { since: self.since, devices: self.device.clone() };
        let mut report = with_progress(&sources, |progress| match self.threads {
            Some(threads) => audit_by(Judges::new(threads), &sources, filter, progress),
            None => audit(&sources, filter, progress),
        });
        let is_there = |wanted: &&String| report.traces.iter().any(|trace| trace.device == **wanted);
        if let Some(missing) = self.device.iter().find(|wanted| !is_there(wanted)) {
            return Err(CommandError::NoDevice(missing.clone()));
        }
        report.is_strict = self.strict;
        if let Some(path) = &self.html {
            std::fs::write(path, conformance::audit::html::html(&report)).map_err(|error| {
                CommandError::Output(std::io::Error::other(format!("`{}`: {error}", path.display())))
            })?;
            // Nobody can be told of a failure here.
            let _ = writeln!(std::io::stderr(), "wrote {}", path.display());
        }
        if self.json {
            print(&format!("{}\n", conformance::audit::json::json(&report)))?;
        } else {
            print(&text(&report))?;
        }
        Ok(report.exit_code())
    }
}

/// The work has ended, by a panic or not: nobody need show how far it is.
struct Done<'d>(&'d AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Shows how far the audit has come, if somebody looks.
fn with_progress<T>(sources: &Sources, work: impl FnOnce(&Progress) -> T) -> T {
    let progress = Progress::default();
    if !std::io::stderr().is_terminal() {
        return work(&progress);
    }
    let files = sources.traces.iter().flat_map(|trace| &trace.files);
    let bytes = files.filter_map(|file| Some(file.metadata().ok()?.len())).sum();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let bar = ProgressBar::new(bytes);
            let style = ProgressStyle::with_template("{msg} {wide_bar} {percent} %, {eta} left");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            while !is_done.load(Ordering::Relaxed) {
                let records = progress.records.load(Ordering::Relaxed);
                if records == 0 {
                    bar.set_message("verifying");
                    bar.set_position(progress.sealed.load(Ordering::Relaxed));
                } else {
                    bar.set_message("judging");
                    bar.set_length(records);
                    bar.set_position(progress.judged.load(Ordering::Relaxed));
                }
                std::thread::sleep(SHOW_EVERY);
            }
            bar.finish_and_clear();
        });
        let _done = Done(&is_done);
        work(&progress)
    })
}
