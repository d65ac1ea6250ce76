//! Breadth-first exploration of a model, on all cores, with 128-bit fingerprints of the states seen.
//!
//! States are explored level by level, so a violation is found at the end of a shortest run. The run itself is found by
//! a second, sequential exploration that remembers where each state came from: most explorations never need one, and
//! remembering would cost more memory than the states.

use std::hash::{BuildHasher, Hasher};
use std::time::Instant;

use hashbrown::HashSet;
use pilot_core::subsumption::Judge;
use pilot_core::vocabulary::Vocabulary;

use crate::refine::Violation;

/// A row of numbers that stand for parts of a state.
pub type Row = Box<[u32]>;

/// Something to explore.
pub trait Model: Sync {
    /// The words of its policies; each thread has a judge of its own.
    fn vocabulary(&self) -> &Vocabulary;

    /// The state at the start.
    fn initial(&self) -> Row;

    /// Calls `found` for every step that a state can take.
    fn successors(&self, state: &[u32], judge: &Judge<'_>, found: &mut dyn FnMut(Successor<'_>));

    /// Replaces the numbers that do not tell states apart.
    fn identify(&self, _row: &mut [u32]) {}
}

/// A step that a state can take.
pub struct Successor<'s> {
    /// The state after it.
    pub row: &'s [u32],
    /// What is wrong with it.
    pub violation: Option<&'s Violation>,
    /// Says it in the paper's notation.
    pub describe: &'s dyn Fn() -> String,
    /// What it is an example of: edges and events, for the question whether all were seen.
    pub covers: &'s [String],
}

/// What an exploration found.
#[derive(Debug, Default)]
pub struct Outcome {
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
    /// Whether some step is a violation.
    pub is_violated: bool,
    /// Whether the memory limit ended it.
    pub is_out_of_memory: bool,
    /// What was seen.
    pub covered: HashSet<String>,
}

/// A violation and a shortest run to it.
#[derive(Debug, Clone)]
pub struct Counterexample {
    /// The steps, in the paper's notation.
    pub run: Vec<String>,
    /// What is wrong with the last one.
    pub violation: Violation,
}

/// Explores until everything reachable is known, a violation is found, or the memory limit is reached.
pub fn explore<M: Model>(model: &M, memory_limit: usize) -> Outcome {
    let started = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut outcome = Outcome { states: 1, generated: 1, ..Outcome::default() };
    let mut seen: HashSet<u128, Mixed> = HashSet::with_hasher(Mixed(0));
    let mut level = vec![model.initial()];
    seen.extend(level.iter().map(|row| fingerprint(model, row)));
    while !level.is_empty() {
        let chunk = level.len().div_ceil(threads).max(1);
        let found: Vec<Expanded> = std::thread::scope(|scope| {
            let expand = |rows: &'_ [Row]| expand(model, rows, &seen);
            let workers: Vec<_> = level.chunks(chunk).map(|rows| scope.spawn(move || expand(rows))).collect();
            workers.into_iter().filter_map(|worker| worker.join().ok()).collect()
        });
        let mut next = Vec::new();
        for part in found {
            outcome.generated += part.generated;
            outcome.is_violated |= part.is_violated;
            outcome.covered.extend(part.covered);
            next.extend(part.new.into_iter().filter(|(fingerprint, _)| seen.insert(*fingerprint)).map(|(_, row)| row));
        }
        outcome.states = seen.len() as u64;
        let bytes =
            seen.capacity() * 17 + [&level, &next].into_iter().flatten().map(|row| 16 + 4 * row.len()).sum::<usize>();
        outcome.peak_bytes = outcome.peak_bytes.max(bytes);
        outcome.is_out_of_memory = bytes > memory_limit;
        if outcome.is_violated || outcome.is_out_of_memory {
            break;
        }
        outcome.depth += u32::from(!next.is_empty());
        level = next;
    }
    outcome.seconds = started.elapsed().as_secs_f64();
    outcome
}

/// What one thread found in its part of a level.
struct Expanded {
    new: Vec<(u128, Row)>,
    generated: u64,
    is_violated: bool,
    covered: HashSet<String>,
}

fn expand<M: Model>(model: &M, rows: &[Row], seen: &HashSet<u128, Mixed>) -> Expanded {
    let judge = Judge::new(model.vocabulary());
    let mut part = Expanded { new: Vec::new(), generated: 0, is_violated: false, covered: HashSet::new() };
    let mut local: HashSet<u128, Mixed> = HashSet::with_hasher(Mixed(0));
    for row in rows {
        model.successors(row, &judge, &mut |successor| {
            part.generated += 1;
            for covered in successor.covers {
                if !part.covered.contains(covered) {
                    part.covered.insert(covered.clone());
                }
            }
            if successor.violation.is_some() {
                part.is_violated = true;
                return;
            }
            let fingerprint = fingerprint(model, successor.row);
            if !seen.contains(&fingerprint) && local.insert(fingerprint) {
                part.new.push((fingerprint, successor.row.into()));
            }
        });
    }
    part
}

/// A shortest run to a violation, the first in the order of exploration, so that equal models give equal runs.
pub fn shortest_run<M: Model>(model: &M) -> Option<Counterexample> {
    let judge = Judge::new(model.vocabulary());
    let mut seen: HashSet<u128, Mixed> = HashSet::with_hasher(Mixed(0));
    // Each state, the place of the one before it, and the step between them.
    let mut queue: Vec<(Row, usize, String)> = vec![(model.initial(), 0, String::new())];
    seen.insert(fingerprint(model, &model.initial()));
    let mut at = 0;
    while let Some((row, ..)) = queue.get(at).cloned() {
        let (mut new, mut end) = (Vec::new(), None);
        model.successors(&row, &judge, &mut |successor| {
            if let (None, Some(violation)) = (&end, successor.violation) {
                end = Some(((successor.describe)(), violation.clone()));
            } else if seen.insert(fingerprint(model, successor.row)) {
                new.push((successor.row.into(), at, (successor.describe)()));
            }
        });
        if let Some((last, violation)) = end {
            let mut run = vec![last];
            while let Some((_, before, step)) = queue.get(at).filter(|_| at > 0) {
                run.push(step.clone());
                at = *before;
            }
            run.reverse();
            return Some(Counterexample { run, violation });
        }
        queue.extend(new);
        at += 1;
    }
    None
}

fn fingerprint<M: Model>(model: &M, row: &[u32]) -> u128 {
    let mut row: Vec<u32> = row.to_vec();
    model.identify(&mut row);
    (u128::from(hash(&row, 0x243f_6a88_85a3_08d3)) << 64) | u128::from(hash(&row, 0x1319_8a2e_0370_7344))
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
