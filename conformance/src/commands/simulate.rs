//! `conform simulate`.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use conformance::simulate::{MAX_CONTROLLERS, MAX_FILE_BYTES, MAX_SUBJECTS, Settings, simulate};
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};

use pilot_core::evidence::mesh::CLOCK_TOLERANCE;

use super::{CommandError, print};

/// Make conforming traces of any size, by driving the real graphs
///
/// A mesh that exists only here: a repository, controllers that publish, collect, erase and pass data on, and people who
/// accept, change their minds and withdraw, over a lossy air. Writes the traces and everything that an auditor needs: the
/// mesh file, the audit keys, the openings of the subjects; and the secret keys of all devices. Equal seeds give equal bytes.
///
/// Exit codes: 0 done, 2 errors.
#[derive(Args)]
pub(crate) struct Simulate {
    /// People
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_SUBJECTS)))]
    subjects: u32,
    /// Controllers
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_CONTROLLERS)))]
    controllers: u32,
    /// Steps in all traces together
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    events: u64,
    /// What everything random comes from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// By how many seconds clocks differ at most
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=CLOCK_TOLERANCE))]
    clock_skew: u64,
    /// Bytes of a trace's file after which the next one is begun
    #[arg(long, value_name = "N", default_value_t = MAX_FILE_BYTES, value_parser = clap::value_parser!(u64).range(1..))]
    file_bytes: u64,
    /// A directory that does not exist yet
    #[arg(value_name = "OUT")]
    out: PathBuf,
}

impl Simulate {
    pub(crate) fn run(&self) -> Result<u8, CommandError> {
        let Self { subjects, controllers, events, seed, clock_skew, file_bytes, out } = self;
        let settings = Settings {
            subjects: *subjects,
            controllers: *controllers,
            events: *events,
            seed: *seed,
            clock_skew: *clock_skew,
            file_bytes: *file_bytes,
        };
        // Shown on a terminal only.
        let (bar, begun) = (ProgressBar::new(*events), Instant::now());
        if let Ok(style) = ProgressStyle::with_template("{wide_bar} {human_pos}/{human_len} steps, {per_sec}, {eta}") {
            bar.set_style(style);
        }
        let figures = simulate(&settings, out, |steps| bar.set_position(steps));
        bar.finish_and_clear();
        let figures = figures?;
        let seconds = begun.elapsed().as_secs_f64();
        let rate = HumanCount((figures.steps as f64 / seconds) as u64);
        let [steps, records, simulated] = [figures.steps, figures.records, figures.seconds].map(HumanCount);
        let bytes = HumanBytes(figures.bytes);
        print(&format!(
            "{steps} steps in {records} records, {bytes}, {simulated} simulated seconds; {seconds:.1} s, {rate} steps/s\n"
        ))?;
        Ok(0)
    }
}
