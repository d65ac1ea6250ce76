//! How fast traces are judged, against how fast the same bytes are hashed in the same run, and whether the rate depends on
//! their length.
//!
//! ```console
//! $ cargo bench -p conformance --bench audit                     # 10^5 and 10^6 events
//! $ EVENTS=100000000 cargo bench -p conformance --bench audit    # up to 10^8
//! ```
//!
//! Traces are files in the temporary directory (`TMPDIR`), 210 bytes an event, and are removed after each size; the auditor reads
//! them in pieces. Seconds are those of the clock, so other processes count; CPU is that of all threads, and does not know them.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::path::Path;
use std::time::Instant;

use conformance::audit::report::{Filter, Verdict};
use conformance::audit::sources::{Given, Sources};
use conformance::audit::{Progress, audit};
use conformance::simulate::{Settings, simulate};
use sha2::{Digest as _, Sha256};

/// As `conform` has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SUBJECTS: u32 = 100;
const CONTROLLERS: u32 = 10;
/// How often each size is judged; the best time counts, since machines are shared. What takes long is judged once.
const TIMES: u32 = 3;
const LONG: u64 = 10_000_000;
/// The rate is called flat if no size has less than this part of the best rate.
const FLAT: f64 = 0.8;

/// What one size took.
struct Figures {
    events: u64,
    seconds: f64,
    cpu: f64,
    hashing: f64,
    memory: u64,
}

fn main() {
    let is_test = std::env::args().any(|argument| argument == "--test");
    let most = std::env::var("EVENTS").ok().and_then(|text| text.parse().ok());
    let most: u64 = most.unwrap_or(if is_test { 2_000 } else { 1_000_000 });
    let least = if is_test { 2_000 } else { 100_000 };
    let sizes = std::iter::successors(Some(least), |size| Some(size * 10)).take_while(|size| *size <= most);
    println!("      events  seconds     events/s  CPU µs/event  x hashing      memory");
    let mut all = Vec::new();
    for events in sizes {
        let figures = measure(events, if is_test || events >= LONG { 1 } else { TIMES });
        let Figures { events, seconds, cpu, hashing, memory } = figures;
        let count = events as f64;
        println!(
            "{events:>12} {seconds:>8.2} {:>12.0} {:>13.2} {:>10.1} {:>7} MiB",
            count / seconds,
            cpu * 1e6 / count,
            seconds / hashing,
            memory >> 20
        );
        all.push(figures);
    }
    if all.len() > 1 {
        say_whether_flat("events/s", all.iter().map(|figures| figures.events as f64 / figures.seconds));
        say_whether_flat("events per CPU second", all.iter().map(|figures| figures.events as f64 / figures.cpu));
    }
}

fn say_whether_flat(what: &str, rates: impl Iterator<Item = f64>) {
    let (least, most) = rates.fold((f64::INFINITY, 0.0_f64), |(least, most), rate| (least.min(rate), most.max(rate)));
    let is_flat = if least >= FLAT * most { "flat" } else { "not flat" };
    println!("{what}: {is_flat}, the lowest is {:.2} of the highest", least / most);
}

/// Makes traces of a size, and judges them.
fn measure(events: u64, times: u32) -> Figures {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("mesh");
    let settings = Settings { subjects: SUBJECTS, controllers: CONTROLLERS, events, ..Settings::default() };
    let made = simulate(&settings, &root, |_| {}).unwrap();
    let given = Given { operator: Some(root.join("operator.pub")), ..Given::default() };
    let (mut seconds, mut cpu) = (f64::INFINITY, f64::INFINITY);
    forget_memory();
    for _ in 0..times {
        let (begun, used) = (Instant::now(), cpu_seconds());
        let sources = Sources::find(std::slice::from_ref(&root), &given).unwrap();
        let report = audit(&sources, Filter::default(), &Progress::default());
        (seconds, cpu) = (seconds.min(begun.elapsed().as_secs_f64()), cpu.min(cpu_seconds() - used));
        assert_eq!(report.verdict(), Verdict::Conforms);
        assert_eq!(report.figures.steps, made.steps);
    }
    let memory = memory();
    Figures { events: made.steps, seconds, cpu, hashing: hashing(&root), memory }
}

/// The seconds that hashing every trace takes on one core.
fn hashing(root: &Path) -> f64 {
    let mut seconds = 0.0;
    for directory in std::fs::read_dir(root.join("traces")).unwrap().map(Result::unwrap) {
        for file in std::fs::read_dir(directory.path()).unwrap().map(Result::unwrap) {
            let bytes = std::fs::read(file.path()).unwrap();
            let begun = Instant::now();
            std::hint::black_box(Sha256::digest(&bytes));
            seconds += begun.elapsed().as_secs_f64();
        }
    }
    seconds
}

/// The seconds that all threads of this process have computed; the kernel counts hundredths.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = after_name.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}

/// Memory that was needed to make the traces does not count, as far as the kernel has it back.
fn forget_memory() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The most memory that this process had since, in bytes.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()).unwrap_or_default() << 10
}
