//! Several judges at work, each with traces of its own.
//!
//! ```text
//!   judge:  reads some records of a trace ──── notes ───►  merge and post: in which order did it all happen?
//!   judge:  judges them, one after the other  ◄── marks, of what arrives: where did it come from?
//!   judge:  of a message that arrives  ◄── what was vouched for ──  the judge of who sent it
//! ```
//!
//! A judge that has read some records judges them at once, as far as they concern nobody else: they are still in the
//! processor's cache. Where a message arrives it needs a mark, and what was vouched for when the message left. If that is not
//! there yet, the judge holds the trace back and goes on with the others. Who has nothing to judge and nothing to read goes on
//! with the merge, if nobody else does; who finds nothing at all to do sleeps until somebody has done something.
//!
//! Nobody waits for ever. Of all records that are read and not judged, the first in the order of the merge has its mark, or
//! needs none, and whatever it needs of others came before. So it can be judged, and then its trace can be read on.
//!
//! What is found depends on the traces alone, so a report is the same whoever judges, and when.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use super::bell::{Alarm, Bell};
use super::court::Court;
use super::facts::Facts;
use super::feed::{self, Cursor, Unreadable};
use super::mail::Sheets;
use super::merge::{Desk, Merge, More};
use super::note::{Entry, Notes, Scribe, Tie};
use super::post::{Mark, Post};
use super::replay::Replay;
use super::report::Filter;
use super::scout::Scouts;
use super::seal::Sealed;
use super::world::World;

/// The most judges; more threads than that are no help.
pub const MAX_JUDGES: usize = 256;
/// How many records of a trace are read at once, unless there are very many traces.
const BATCH: NonZeroUsize = NonZeroUsize::MIN.saturating_add(31);
/// The fewest.
const LEAST_BATCH: usize = 4;
/// How many batches are in memory at once, in all traces together. Each has its share; the longer it is, the more.
const BATCHES: usize = 1 << 10;
/// How many marks are handed over to a judge at once. Fewer, where the merge cannot go on.
const MARKS: usize = 128;

/// How traces are judged.
#[derive(Debug, Clone, Copy)]
pub struct Judges {
    /// How many judges there are.
    pub count: NonZeroUsize,
    /// How many records of a trace are read at once, at most.
    pub batch: NonZeroUsize,
    /// How many batches are in memory at once, in all traces together. Each trace may have one in any case.
    pub batches: usize,
}

impl Judges {
    /// So many, at their usual work.
    pub const fn new(count: NonZeroUsize) -> Self {
        Self { count, batch: BATCH, batches: BATCHES }
    }

    /// How many records of each of so many traces are read at once.
    fn batch(&self, traces: usize) -> usize {
        let (most, share) = (self.batch.get(), self.batches.saturating_mul(self.batch.get()) / traces.max(1));
        share.clamp(LEAST_BATCH.min(most), most)
    }

    /// How many batches of a trace are in memory at once that has so many of all records.
    fn ahead(&self, records: u64, all: u64) -> usize {
        let share = self.batches as u128 * u128::from(records) / u128::from(all.max(1));
        usize::try_from(share).unwrap_or(usize::MAX).max(1)
    }
}

/// Judges every sealed record; returns the judges.
pub fn judge_all<'v>(
    judges: Judges,
    facts: &'v Facts<'v>,
    traces: &[Sealed],
    filter: &Filter,
    judged: &AtomicU64,
) -> Vec<Court<'v>> {
    let count = judges.count.get().min(MAX_JUDGES).min(traces.len()).max(1);
    let shares = shares(traces, count);
    let hall = Hall {
        merge: Mutex::new(Merging {
            merge: Merge::new(Post::new(traces, facts), Scouts::new(traces, facts), traces.len()),
            marks: (0..count).map(|_| Vec::new()).collect(),
        }),
        trays: traces.iter().map(|_| Mutex::default()).collect(),
        desks: (0..count).map(|_| Mutex::default()).collect(),
        shares: &shares,
        bell: Bell::default(),
        judged,
    };
    let (all, batch) = (traces.iter().map(records).sum(), judges.batch(traces.len()));
    std::thread::scope(|scope| {
        // A judge that cannot be begun is the end of all, too.
        let _alarm = Alarm::of(&hall.bell);
        let mut benches: Vec<_> = (0..count).map(|at| Bench::new(at, &hall, facts, filter.clone(), batch)).collect();
        for (at, (trace, judge)) in traces.iter().zip(&shares).enumerate() {
            if let Some(bench) = benches.get_mut(*judge) {
                bench.take_on(at, trace, feed::piece(traces.len()), judges.ahead(records(trace), all));
            }
        }
        let threads: Vec<_> = benches.into_iter().map(|bench| scope.spawn(move || bench.work())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}

fn records(trace: &Sealed) -> u64 {
    trace.standing.records
}

/// Which judge takes which trace: the longest first, each to who has least to do.
fn shares(traces: &[Sealed], judges: usize) -> Vec<usize> {
    let mut order: Vec<(usize, &Sealed)> = traces.iter().enumerate().collect();
    order.sort_by_key(|(_, trace)| std::cmp::Reverse(records(trace)));
    let (mut shares, mut load) = (vec![0; traces.len()], vec![0_u64; judges]);
    for (at, trace) in order {
        let least = load.iter().enumerate().min_by_key(|(_, load)| **load).map_or(0, |(judge, _)| judge);
        if let (Some(share), Some(load)) = (shares.get_mut(at), load.get_mut(least)) {
            *share = least;
            *load = load.saturating_add(records(trace));
        }
    }
    shares
}

/// What judges have in common.
struct Hall<'h> {
    merge: Mutex<Merging<'h>>,
    /// Notes of each trace that nobody has taken yet.
    trays: Vec<Mutex<Tray>>,
    /// Marks for each judge, with their traces.
    desks: Vec<Mutex<Vec<(usize, Mark)>>>,
    /// Which judge has which trace.
    shares: &'h [usize],
    bell: Bell,
    /// How many records are judged.
    judged: &'h AtomicU64,
}

struct Merging<'h> {
    merge: Merge<'h>,
    /// Marks that are not handed over yet, for each judge.
    marks: Vec<Vec<(usize, Mark)>>,
}

#[derive(Default)]
struct Tray {
    notes: VecDeque<Notes>,
    is_over: bool,
}

impl Hall<'_> {
    /// Goes on with the merge, unless somebody else does. Whether there was something to do.
    fn merge(&self) -> bool {
        let mut merge = match self.merge.try_lock() {
            Ok(merge) => merge,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let Merging { merge, marks } = &mut *merge;
        let mut round = Round { hall: self, marks, has_taken: false };
        let is_any = merge.go_on(&mut round);
        (0..self.desks.len()).for_each(|judge| round.hand_over(judge));
        is_any || round.has_taken
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Who panics ends everything; until then it does not matter what it leaves behind.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Who goes on with the merge goes from tray to tray, and then from desk to desk.
struct Round<'r, 'h> {
    hall: &'r Hall<'h>,
    marks: &'r mut Vec<Vec<(usize, Mark)>>,
    /// Some tray has more room than before.
    has_taken: bool,
}

impl Round<'_, '_> {
    /// A judge gets its marks.
    fn hand_over(&mut self, judge: usize) {
        if let (Some(marks), Some(desk)) = (self.marks.get_mut(judge), self.hall.desks.get(judge))
            && !marks.is_empty()
        {
            lock(desk).append(marks);
            self.hall.bell.ring();
        }
    }
}

impl Desk for Round<'_, '_> {
    fn notes(&mut self, trace: usize) -> More {
        let Some(tray) = self.hall.trays.get(trace) else { return More::Over };
        let mut tray = lock(tray);
        match tray.notes.pop_front() {
            Some(notes) => {
                self.has_taken = true;
                More::Notes(notes)
            }
            None if tray.is_over => More::Over,
            None => More::Later,
        }
    }

    fn mark(&mut self, trace: usize, mark: Mark) {
        let Some(judge) = self.hall.shares.get(trace).copied() else { return };
        let Some(marks) = self.marks.get_mut(judge) else { return };
        marks.push((trace, mark));
        if marks.len() >= MARKS {
            self.hand_over(judge);
        }
    }
}

/// A judge with its traces.
struct Bench<'v, 'h> {
    number: usize,
    hall: &'h Hall<'h>,
    facts: &'v Facts<'v>,
    court: Court<'v>,
    piles: Vec<Pile>,
    /// The place of each trace among the piles.
    places: Vec<Option<usize>>,
    /// Marks that are being taken. Empty in between.
    marks: Vec<(usize, Mark)>,
    /// Piles that can be read on.
    unread: VecDeque<usize>,
    /// Piles whose next record can perhaps be judged.
    ready: VecDeque<usize>,
    /// Piles whose next record waits for what another judge has to say.
    held: Vec<usize>,
    /// How many records of a trace are read at once.
    batch: usize,
    judged: u64,
}

/// The records of a trace that are read and not judged.
struct Pile {
    trace: usize,
    cursor: Cursor,
    scribe: Scribe,
    /// How many batches are in memory at once, at most, and of how many bytes, unless one alone has more.
    ahead: usize,
    bytes: usize,
    /// How many bytes the batches have that are.
    held_bytes: usize,
    batches: VecDeque<Batch>,
    marks: VecDeque<Mark>,
    is_read: bool,
    is_held: bool,
}

/// Some records of a trace.
struct Batch {
    entries: Vec<Entry>,
    /// How many of them are judged.
    judged: usize,
    /// How many bytes they have in the trace.
    bytes: usize,
    /// What they have sent.
    sheets: Sheets,
    /// Why the trace cannot be read on after them.
    damage: Option<Unreadable>,
}

impl<'v, 'h> Bench<'v, 'h> {
    fn new(number: usize, hall: &'h Hall<'h>, facts: &'v Facts<'v>, filter: Filter, batch: usize) -> Self {
        Self {
            number,
            hall,
            facts,
            court: Court::new(World::new(facts), filter),
            piles: Vec::new(),
            places: vec![None; hall.shares.len()],
            marks: Vec::new(),
            unread: VecDeque::new(),
            ready: VecDeque::new(),
            held: Vec::new(),
            batch,
            judged: 0,
        }
    }

    /// Another trace, of which so many bytes and so many batches of records are in memory at once.
    fn take_on(&mut self, at: usize, trace: &Sealed, piece: usize, ahead: usize) {
        let Some((name, id)) = trace.device().and_then(|name| Some((name, self.facts.device(name)?))) else {
            // Nobody waits for the notes of what nobody judges.
            self.hall.trays.get(at).into_iter().for_each(|tray| lock(tray).is_over = true);
            return;
        };
        let mut replay = Replay::new(name.clone(), id);
        replay.run.unknown = (trace.standing.first != 0).then_some("the beginning of the trace is missing");
        self.court.replays.push(replay);
        let place = self.piles.len();
        self.places.get_mut(at).into_iter().for_each(|known| *known = Some(place));
        self.unread.push_back(place);
        self.piles.push(Pile {
            trace: at,
            cursor: Cursor::new(trace, piece),
            scribe: Scribe::new(id),
            ahead,
            bytes: piece.saturating_mul(ahead),
            held_bytes: 0,
            batches: VecDeque::new(),
            marks: VecDeque::new(),
            is_read: false,
            is_held: false,
        });
    }

    fn work(mut self) -> Court<'v> {
        let _alarm = Alarm::of(&self.hall.bell);
        loop {
            let heard = self.hall.bell.heard();
            self.take_marks();
            let is_read = self.read_all();
            let is_judged = self.judge_all();
            if is_read || is_judged || self.hall.merge() {
                self.hall.bell.ring();
            } else if self.is_over() {
                // Somebody may have found the merge in these hands, and sleeps.
                self.hall.bell.ring();
                return self.court;
            } else if !self.hall.bell.sleep(heard) {
                return self.court;
            }
        }
    }

    fn is_over(&self) -> bool {
        self.piles.iter().all(|pile| pile.is_read && pile.batches.is_empty())
    }

    fn take_marks(&mut self) {
        let Some(desk) = self.hall.desks.get(self.number) else { return };
        std::mem::swap(&mut *lock(desk), &mut self.marks);
        for (trace, mark) in self.marks.drain(..) {
            let Some(place) = self.places.get(trace).copied().flatten() else { continue };
            let Some(pile) = self.piles.get_mut(place) else { continue };
            // Who has none waits for one, if for anything.
            if pile.marks.is_empty() {
                self.ready.push_back(place);
            }
            pile.marks.push_back(mark);
        }
    }

    /// Reads on where there is room. Whether there was any.
    fn read_all(&mut self) -> bool {
        let mut is_any = false;
        for _ in 0..self.unread.len() {
            let Some(place) = self.unread.pop_front() else { break };
            is_any |= self.read(place);
        }
        is_any
    }

    /// Reads as many batches of a trace as may be in memory. Whether there was room for any.
    fn read(&mut self, place: usize) -> bool {
        let Some(pile) = self.piles.get_mut(place) else { return false };
        let Some(tray) = self.hall.trays.get(pile.trace) else { return false };
        let mut is_any = false;
        while pile.has_room() {
            if lock(tray).notes.len() >= pile.ahead {
                // The merge has not come so far: later.
                self.unread.push_back(place);
                break;
            }
            if pile.batches.is_empty() {
                self.ready.push_back(place);
            }
            is_any = true;
            let notes = pile.read(self.batch, self.facts);
            let mut tray = lock(tray);
            tray.notes.extend((!notes.notes.is_empty()).then_some(notes));
            tray.is_over = pile.is_read;
        }
        is_any
    }

    /// Judges what can be judged. Whether there was anything.
    fn judge_all(&mut self) -> bool {
        let before = self.judged;
        loop {
            let is_released = |place: &mut usize| {
                let pile = self.piles.get_mut(*place).filter(|pile| !pile.is_early());
                pile.map(|pile| pile.is_held = false).is_some()
            };
            self.ready.extend(self.held.extract_if(.., is_released));
            if self.ready.is_empty() {
                break;
            }
            while let Some(place) = self.ready.pop_front() {
                self.judge(place);
            }
        }
        let count = self.judged - before;
        self.hall.judged.fetch_add(count, Ordering::Relaxed);
        count > 0
    }

    /// Judges the records of a trace, up to one that needs something of others which is not there yet.
    fn judge(&mut self, place: usize) {
        let Some(pile) = self.piles.get_mut(place).filter(|pile| !pile.is_held) else { return };
        while let Some(batch) = pile.batches.front_mut() {
            while let Some(entry) = batch.entries.get(batch.judged) {
                let mut mark = None;
                if entry.tie == Tie::Arrives {
                    match pile.marks.front() {
                        None => return,
                        Some(mark) if mark.is_early() => {
                            pile.is_held = true;
                            return self.held.push(place);
                        }
                        Some(_) => mark = pile.marks.pop_front(),
                    }
                }
                let vouch = self.court.hear(place, entry, mark.as_ref().unwrap_or(&Mark::NOTHING));
                if let Tie::Leaves(kind, place) = entry.tie {
                    batch.sheets.vouch(kind, place, vouch);
                }
                batch.judged += 1;
                self.judged += 1;
            }
            if let Some(damage) = &batch.damage {
                self.court.unreadable(place, damage);
            }
            pile.held_bytes = pile.held_bytes.saturating_sub(batch.bytes);
            pile.batches.pop_front();
            self.unread.push_back(place);
        }
    }
}

impl Pile {
    fn has_room(&self) -> bool {
        let is_full = self.batches.len() >= self.ahead || self.held_bytes >= self.bytes;
        !self.is_read && (self.batches.is_empty() || !is_full)
    }

    /// Reads some records, and takes notes of them. Where records are large, there are fewer.
    fn read(&mut self, most: usize, facts: &Facts<'_>) -> Notes {
        let mut entries = Vec::with_capacity(most);
        let (mut damage, mut bytes) = (None, 0_usize);
        while entries.len() < most && bytes < self.bytes && !self.is_read {
            match self.cursor.take_next() {
                Ok(Some((record, hash, length))) => {
                    entries.push(self.scribe.note(record, hash, facts));
                    bytes = bytes.saturating_add(length);
                }
                Ok(None) => self.is_read = true,
                Err(unreadable) => (damage, self.is_read) = (Some(unreadable), true),
            }
        }
        let notes = self.scribe.take();
        self.held_bytes = self.held_bytes.saturating_add(bytes);
        self.batches.push_back(Batch { entries, judged: 0, bytes, sheets: notes.sheets.clone(), damage });
        notes
    }

    /// Whether the next record needs what was vouched for when its message left, and that is not said yet.
    fn is_early(&self) -> bool {
        self.marks.front().is_some_and(Mark::is_early)
    }
}
