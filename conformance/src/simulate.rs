//! Conforming traces of any size: a mesh that exists only here, driven by the real graphs.
//!
//! Nothing invents a record. Devices take [`step`](pilot_core::graph::step)s, and each step that changes something is
//! recorded as a daemon would record it; a step that the graph refuses is not there. What is made up is the world around the graphs: who
//! takes part, what people want, when messages arrive, and when a process ends.
//!
//! * [`cast`]: who takes part; [`offers`]: what controllers publish and what people want;
//! * [`agenda`]: what happens when; [`actor`]: a device that takes a step and records it; [`writer`]: its trace;
//! * `world`: everybody together; `subject`, `controller`, `repository`: what each does; `restart`: runs that end and
//!   begin; `layout`: the files.
//!
//! Time goes slowly enough that items expire and are collected again, and policies replace each other, so that what is
//! alive is bounded by the number of devices and not by the number of events. Equal seeds give equal bytes.

pub mod actor;
pub mod agenda;
pub mod cast;
mod controller;
mod layout;
pub mod offers;
mod repository;
mod restart;
mod subject;
mod world;
pub mod writer;

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use pilot_core::evidence::trace::chain::TooLarge;
use pilot_core::evidence::trace::naming::Unnamed;
use pilot_core::value::Time;

use self::cast::Cast;
use self::world::World;
pub use self::writer::MAX_FILE_BYTES;
use crate::keys::KeyFileError;

/// The most subjects of a simulation.
pub const MAX_SUBJECTS: u32 = 65_536;
/// The most controllers of a simulation.
pub const MAX_CONTROLLERS: u32 = 256;
/// The fewest steps per device: everybody must be able to begin.
pub const MIN_EVENTS_PER_DEVICE: u64 = 16;
/// When it begins: 2026-01-01T00:00:00Z.
pub const START: Time = Time::from_unix(1_767_225_600);

/// How many steps there are between two reports of progress.
const PROGRESS_STEPS: u64 = 4_096;
/// Nobody else looks into it: there are secret keys.
const DIRECTORY_MODE: u32 = 0o700;

/// What to simulate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// How many people.
    pub subjects: u32,
    /// How many controllers.
    pub controllers: u32,
    /// How many steps in all traces together.
    pub events: u64,
    /// What everything random comes from.
    pub seed: u64,
    /// By how many seconds clocks differ at most.
    pub clock_skew: u64,
    /// How many bytes a file of a trace has before the next one is begun; daemons have [`MAX_FILE_BYTES`].
    pub file_bytes: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { subjects: 100, controllers: 8, events: 100_000, seed: 1, clock_skew: 0, file_bytes: MAX_FILE_BYTES }
    }
}

/// What was simulated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// Steps in all traces.
    pub steps: u64,
    /// Records in all traces, steps among them.
    pub records: u64,
    /// Bytes of all traces.
    pub bytes: u64,
    /// Simulated seconds.
    pub seconds: u64,
}

/// Why there is no simulation.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// None, or too many, of something.
    #[error("a simulation has 1 to {most} {what}")]
    Count {
        /// Of what.
        what: &'static str,
        /// How many there may be.
        most: u32,
    },
    /// Not everybody could begin.
    #[error("so many devices need at least {0} events")]
    TooFewEvents(u64),
    /// There is something already.
    #[error("`{}` exists already", .0.display())]
    Exists(PathBuf),
    /// The file system refused.
    #[error("cannot write `{}`: {error}", path.display())]
    File {
        /// Which file or directory.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A key file was not written.
    #[error(transparent)]
    Keys(#[from] KeyFileError),
    /// The words, names or policies that are made up here are not well formed: a mistake in this program.
    #[error("the simulated mesh is not well formed: {0}")]
    Malformed(String),
    /// A step names something without a name: a mistake in this program.
    #[error(transparent)]
    Unnamed(#[from] Unnamed),
    /// A record does not fit.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
}

impl SimulateError {
    fn malformed(error: impl std::fmt::Display) -> Self {
        Self::Malformed(error.to_string())
    }
}

/// Simulates a mesh and writes its traces, and whatever an auditor needs besides, into a directory that does not exist
/// yet. `progress` is told from time to time how many steps there are.
pub fn simulate(settings: &Settings, out: &Path, progress: impl Fn(u64)) -> Result<Figures, SimulateError> {
    check(settings)?;
    let mut directory = DirBuilder::new();
    directory.mode(DIRECTORY_MODE).create(out).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => SimulateError::Exists(out.into()),
        _ => SimulateError::File { path: out.into(), error },
    })?;
    let cast = Cast::new(settings)?;
    layout::write(&cast, out)?;
    let mut world = World::new(settings, &cast, out)?;
    let (mut now, mut reported) = (START, 0);
    world.begin(now)?;
    while world.steps() < settings.events {
        let Some((time, task)) = world.agenda.take_next() else { break };
        now = time;
        world.perform(task, now)?;
        if world.steps() - reported >= PROGRESS_STEPS {
            reported = world.steps();
            progress(reported);
        }
    }
    let figures = world.end(now)?;
    progress(figures.steps);
    Ok(figures)
}

fn check(settings: &Settings) -> Result<(), SimulateError> {
    let Settings { subjects, controllers, events, .. } = *settings;
    for (count, most, what) in [(subjects, MAX_SUBJECTS, "subjects"), (controllers, MAX_CONTROLLERS, "controllers")] {
        if count == 0 || count > most {
            return Err(SimulateError::Count { what, most });
        }
    }
    let least = MIN_EVENTS_PER_DEVICE.saturating_mul(u64::from(subjects) + u64::from(controllers) + 1);
    if events < least { Err(SimulateError::TooFewEvents(least)) } else { Ok(()) }
}
