//! How fast a mesh is, and how small: the shipped daemons as processes, with real brokers and a real disk.
//!
//! ```text
//! cargo bench -p consent-mesh-tests                           # all parts; fails if a goal is missed
//! cargo bench -p consent-mesh-tests -- uploads rest           # some of them
//! cargo bench -p consent-mesh-tests -- --test                 # each once and small, whatever the figures are
//! ```
//!
//! Figures of different machines cannot be compared, so goals are ratios to something as simple as possible that is
//! measured in the same run, on the same disk, behind the same broker:
//!
//! * [`requests`]: a download, against an echo process;
//! * [`uploads`]: durable uploads, against the disk's syncs;
//! * [`download`]: a hundred thousand policies;
//! * [`rest`]: memory and start of each daemon.

mod crowd;
mod download;
mod echo;
mod report;
mod requests;
mod rest;
mod uploads;

use std::process::ExitCode;

use crate::report::Report;

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Requests to the repository, and to the echo, behind each broker. The repository completes 4,096 downloads at once
    /// and then 256 per second, so not more than that.
    pub requests: usize,
    /// Uploads of each device in a round.
    pub uploads: usize,
    /// For how long syncs are counted, before and after each round of uploads, in milliseconds.
    pub sync_milliseconds: u64,
    /// Policies in the large download.
    pub policies: usize,
    /// Policies that daemons at rest know.
    pub policies_at_rest: usize,
    /// How often each daemon is started.
    pub starts: usize,
    /// How long daemons are left alone before their memory is read, in seconds.
    pub quiet_seconds: u64,
}

impl Sizes {
    const FULL: Self = Self {
        requests: 2_000,
        uploads: 96,
        sync_milliseconds: 500,
        policies: 100_000,
        policies_at_rest: 1_000,
        starts: 10,
        quiet_seconds: 5,
    };
    const SMALL: Self = Self {
        requests: 20,
        uploads: 2,
        sync_milliseconds: 50,
        policies: 200,
        policies_at_rest: 20,
        starts: 1,
        quiet_seconds: 0,
    };
}

/// A part of the benchmark.
type Part = fn(&Sizes, &mut Report);

const PARTS: [(&str, Part); 4] = [
    ("requests", requests::measure),
    ("uploads", uploads::measure),
    ("download", download::measure),
    ("rest", rest::measure),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(settings) = echo::Settings::from_arguments(&arguments) {
        return echo::run(&settings);
    }
    let is_test = arguments.iter().any(|argument| argument == "--test");
    // cargo adds `--bench`.
    let wanted: Vec<&str> = arguments.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    if let Some(unknown) = wanted.iter().find(|name| PARTS.iter().all(|(part, _)| part != *name)) {
        eprintln!("there is no part `{unknown}`; the parts are requests, uploads, download and rest");
        return ExitCode::from(64);
    }
    let sizes = if is_test { Sizes::SMALL } else { Sizes::FULL };
    let mut report = Report::default();
    for (name, measure) in PARTS {
        if wanted.is_empty() || wanted.contains(&name) {
            eprintln!("measuring: {name}");
            measure(&sizes, &mut report);
        }
    }
    print!("{report}");
    if report.is_good() || is_test { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
