//! Breadth-first exploration of a model, on all cores, with 128-bit fingerprints of the states seen.
//!
//! States are explored level by level, so a violation is found at the end of a shortest run. The run itself is found by
//! a second, sequential exploration that remembers where each state came from: most explorations never need one, and
//! remembering would cost more memory than the states.

use std::borrow::Cow;
use std::hash::{BuildHasher, Hasher};
use std::panic::resume_unwind;
use std::thread::ScopedJoinHandle;

use hashbrown::HashSet;
use pilot_core::subsumption::Judge;
use pilot_core::vocabulary::Vocabulary;

use crate::coverage::Coverage;
use crate::memory;
use crate::progress::Progress;
use crate::refine::Violation;

/// A row of numbers that stand for parts of a state.
pub type Row = Box<[u32]>;

/// Something to explore.
pub trait Model: Sync {
    /// The words of its policies; each thread has a judge of its own.
    fn vocabulary(&self) -> &Vocabulary;

    /// The state at the start.
    fn initial(&self, judge: &Judge<'_>) -> Row;

    /// Calls `found` for every step that a state can take. `found` must not call the model.
    fn successors(&self, state: &[u32], judge: &Judge<'_>, found: &mut dyn FnMut(Successor<'_>));

    /// The numbers that tell states apart, the same for states that are renamings of each other.
    fn identify<'r>(&self, row: &'r [u32]) -> Cow<'r, [u32]>;

    /// The numbers that count, if those are fewer: states that differ in the others are explored apart and counted as
    /// one.
    fn counted(&self, _row: &[u32]) -> Option<Vec<u32>> {
        None
    }
}

/// A step that a state can take.
pub struct Successor<'s> {
    /// The state after it.
    pub row: &'s [u32],
    /// What is wrong with it.
    pub violation: Option<&'s Violation>,
    /// Says it in the paper's notation.
    pub describe: &'s dyn Fn() -> String,
    /// What it is an example of.
    pub covers: Coverage,
}

/// What an exploration found.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Distinct states.
    pub states: u64,
    /// Steps computed; of an exploration of whole systems, also the initial state.
    pub generated: u64,
    /// Rounds of exploration: of whole systems, the length of the longest shortest run, sends that happen at once aside.
    pub depth: u32,
    /// Whether some step is a violation.
    pub is_violated: bool,
    /// Whether a limit ended it.
    pub is_out_of_memory: bool,
    /// What was seen.
    pub covered: Coverage,
}

impl Outcome {
    /// Adds what another exploration found.
    pub fn add(&mut self, other: &Self) {
        self.states += other.states;
        self.generated += other.generated;
        self.depth = self.depth.max(other.depth);
        self.is_violated |= other.is_violated;
        self.is_out_of_memory |= other.is_out_of_memory;
        self.covered.merge(&other.covered);
    }
}

/// A violation and a shortest run to it.
#[derive(Debug, Clone)]
pub struct Counterexample {
    /// The steps, in the paper's notation.
    pub run: Vec<String>,
    /// What is wrong with the last one.
    pub violation: Violation,
}

/// How far an exploration may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory that the process may have.
    pub bytes: u64,
    /// States.
    pub states: u64,
}

impl Limits {
    /// Whether an exploration that knows so many states must stop.
    pub fn are_reached(&self, states: u64) -> bool {
        states > self.states || memory::resident() > self.bytes
    }
}

impl Default for Limits {
    /// 4 GiB.
    fn default() -> Self {
        Self { bytes: 4 << 30, states: u64::MAX }
    }
}

/// Explores until everything reachable is known, a violation is found, or a limit is reached.
pub fn explore<M: Model>(model: &M, limits: Limits, progress: &Progress) -> Outcome {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut outcome = Outcome { states: 1, generated: 1, ..Outcome::default() };
    let mut seen: HashSet<u128, Mixed> = HashSet::with_hasher(Mixed(0));
    let mut level = vec![model.initial(&Judge::new(model.vocabulary()))];
    seen.extend(level.iter().map(|row| fingerprint(model, row)));
    let mut counted: HashSet<u128, Mixed> = HashSet::with_hasher(Mixed(0));
    while !level.is_empty() {
        counted.extend(level.iter().filter_map(|row| model.counted(row)).map(|row| mix(&row)));
        let mut next = Vec::new();
        let slice = threads * ROWS_PER_SLICE;
        for (at, rows) in level.chunks(slice).enumerate() {
            let chunk = rows.len().div_ceil(threads).max(1);
            let found: Vec<Expanded> = std::thread::scope(|scope| {
                let expand = |rows: &'_ [Row]| expand(model, rows, &seen);
                let workers: Vec<_> = rows.chunks(chunk).map(|rows| scope.spawn(move || expand(rows))).collect();
                let finish =
                    |worker: ScopedJoinHandle<'_, Expanded>| worker.join().unwrap_or_else(|why| resume_unwind(why));
                workers.into_iter().map(finish).collect()
            });
            for part in found {
                outcome.generated += part.generated;
                outcome.is_violated |= part.is_violated;
                outcome.covered.merge(&part.covered);
                let new = part.new.into_iter().filter(|(fingerprint, _)| seen.insert(*fingerprint));
                next.extend(new.map(|(_, row)| row));
            }
            outcome.states = if counted.is_empty() { seen.len() } else { counted.len() } as u64;
            progress.report(seen.len() as u64, (level.len().saturating_sub((at + 1) * slice) + next.len()) as u64);
            outcome.is_out_of_memory = limits.are_reached(seen.len() as u64);
            if outcome.is_violated || outcome.is_out_of_memory {
                return outcome;
            }
        }
        outcome.depth += u32::from(!next.is_empty());
        level = next;
    }
    outcome
}

/// How many states a thread expands before what it found is put together with the others'.
const ROWS_PER_SLICE: usize = 1 << 13;

/// What one thread found in its part of a level.
struct Expanded {
    new: Vec<(u128, Row)>,
    generated: u64,
    is_violated: bool,
    covered: Coverage,
}

fn expand<M: Model>(model: &M, rows: &[Row], seen: &HashSet<u128, Mixed>) -> Expanded {
    let judge = Judge::new(model.vocabulary());
    let mut part = Expanded { new: Vec::new(), generated: 0, is_violated: false, covered: Coverage::default() };
    let mut local: HashSet<u128, Mixed> = HashSet::with_hasher(Mixed(0));
    let mut found: Vec<Row> = Vec::new();
    for row in rows {
        model.successors(row, &judge, &mut |successor| {
            part.generated += 1;
            part.covered.merge(&successor.covers);
            match successor.violation {
                Some(_) => part.is_violated = true,
                None => found.push(successor.row.into()),
            }
        });
        for row in found.drain(..) {
            let fingerprint = fingerprint(model, &row);
            if !seen.contains(&fingerprint) && local.insert(fingerprint) {
                part.new.push((fingerprint, row));
            }
        }
    }
    part
}

/// A shortest run to a violation, the first in the order of exploration, so that equal models give equal runs. `None` if
/// there is none, or if a limit is reached.
pub fn shortest_run<M: Model>(model: &M, limits: Limits) -> Option<Counterexample> {
    let judge = Judge::new(model.vocabulary());
    let start = model.initial(&judge);
    let mut seen: HashSet<u128, Mixed> = HashSet::with_hasher(Mixed(0));
    seen.insert(fingerprint(model, &start));
    // Each state, and the place of the one before it.
    let mut queue: Vec<(Row, usize)> = vec![(start, 0)];
    let mut at = 0;
    while let Some((row, _)) = queue.get(at).cloned() {
        if at % ROWS_PER_SLICE == 0 && limits.are_reached(seen.len() as u64) {
            return None;
        }
        let (mut found, mut end) = (Vec::new(), None);
        model.successors(&row, &judge, &mut |successor| match successor.violation {
            Some(violation) if end.is_none() => end = Some(((successor.describe)(), violation.clone())),
            Some(_) => {}
            None => found.push(Row::from(successor.row)),
        });
        if let Some((last, violation)) = end {
            let mut rows = vec![at];
            while let Some((_, before)) = queue.get(at).filter(|_| at > 0) {
                rows.push(*before);
                at = *before;
            }
            let rows: Vec<&Row> = rows.iter().rev().filter_map(|at| queue.get(*at).map(|(row, _)| row)).collect();
            let mut run: Vec<String> =
                rows.iter().zip(rows.iter().skip(1)).map(|(from, to)| step_between(model, from, to, &judge)).collect();
            run.push(last);
            return Some(Counterexample { run, violation });
        }
        let new = found.into_iter().filter(|row| seen.insert(fingerprint(model, row)));
        queue.extend(new.map(|row| (row, at)));
        at += 1;
    }
    None
}

/// The step from one state to another, in the paper's notation.
fn step_between<M: Model>(model: &M, from: &[u32], to: &[u32], judge: &Judge<'_>) -> String {
    let mut said = String::new();
    model.successors(from, judge, &mut |successor| {
        if said.is_empty() && successor.row == to && successor.violation.is_none() {
            said = (successor.describe)();
        }
    });
    said
}

/// Walks through a model, with a fixed seed, until `is_enough` is seen or [`WALKS`] are done. What it has seen, real runs
/// of the model can do. Each walk avoids some kinds of steps, chosen at random, wherever it has a choice: what can be done
/// once only, or ends everything, would otherwise be done too early in all of them.
pub fn wander<M: Model>(model: &M, is_enough: impl Fn(&Coverage) -> bool) -> Coverage {
    let judge = Judge::new(model.vocabulary());
    let mut covered = Coverage::default();
    for walk in 0..WALKS {
        let mut row = model.initial(&judge);
        let mut random = hash(&[walk], 0);
        for _ in 0..STEPS_PER_WALK {
            let mut found: Vec<(Row, bool)> = Vec::new();
            model.successors(&row, &judge, &mut |successor| {
                if successor.violation.is_none() {
                    covered.merge(&successor.covers);
                    let is_avoided = hash(&successor.covers.as_numbers(), u64::from(walk)) % 8 < u64::from(walk % 8);
                    found.push((successor.row.into(), is_avoided));
                }
            });
            if is_enough(&covered) {
                return covered;
            }
            found.retain(|(next, _)| *next != row);
            if found.iter().any(|(_, is_avoided)| !is_avoided) {
                found.retain(|(_, is_avoided)| !is_avoided);
            }
            random = hash(&row, random);
            let Some(any) = usize::try_from(random >> 8).unwrap_or_default().checked_rem(found.len()) else { break };
            row = found.swap_remove(any).0;
        }
    }
    covered
}

/// How many walks are tried at most.
pub const WALKS: u32 = 50_000;

/// How long each of them is.
pub const STEPS_PER_WALK: usize = 200;

fn fingerprint<M: Model>(model: &M, row: &[u32]) -> u128 {
    mix(&model.identify(row))
}

fn mix(row: &[u32]) -> u128 {
    (u128::from(hash(row, 0x243f_6a88_85a3_08d3)) << 64) | u128::from(hash(row, 0x1319_8a2e_0370_7344))
}

fn hash(row: &[u32], seed: u64) -> u64 {
    let mut hash = seed ^ (row.len() as u64);
    for number in row {
        hash = (hash ^ u64::from(*number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^= hash >> 29;
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// Passes half of an already mixed fingerprint through.
#[derive(Default, Clone, Copy)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u128(&mut self, fingerprint: u128) {
        self.0 = fingerprint as u64;
    }
}

impl BuildHasher for Mixed {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        *self
    }
}
