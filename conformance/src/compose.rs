//! Exploration device by device: far cheaper than every interleaving, and enough to show that nothing goes wrong.
//!
//! **Why it is sound.** Every step of a system is a step of one device, alone or with one message that some device sent
//! before; whether the step is wrong depends on that device and that message only ([`crate::refine`]). So collect
//! everything that any device ever sends, and let each device, by itself, receive any of it, at any time and any number
//! of times, in any order. By induction over the steps of a run, on either network, every cell that occurs in the run
//! is explored here, and so is every message and every step. If none of these steps is wrong, no step of any run is.
//!
//! The converse is not promised: a device might here receive messages that no single run brings together. To keep that
//! rare, the policies that the users choose at the start are fixed, and all ways to choose them explored one after the
//! other (with symmetry: one of those that are renamings of each other). A violation found here is only a suspicion, to be
//! confirmed by a run of the [`crate::system::System`]; and that something can happen at all is shown by real runs, too.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pilot_core::semantics::PolicyId;
use pilot_core::subsumption::Judge;

use crate::cell::{Cell, Move, Runner, Transit};
use crate::explore::{Limits, Outcome};
use crate::progress::Progress;
use crate::scenario::Scenario;
use crate::symmetry::Symmetry;
use crate::table::Table;

/// Explores every device of a scenario with every message that any device sends.
pub fn explore_devices(scenario: &Scenario, symmetry: bool, limits: Limits, progress: &Progress) -> Outcome {
    let starts = Starts::new(scenario, symmetry);
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let total = Mutex::new(Outcome::default());
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= starts.count || stop.load(Ordering::Relaxed) {
                return;
            }
            let Some(choice) = starts.start(number) else { continue };
            let mut fixed = scenario.clone();
            for (party, own) in fixed.parties.iter_mut().zip(choice) {
                party.first_choices = own.into_iter().collect();
            }
            let judge = Judge::new(&fixed.vocabulary);
            let mut devices = Devices::new(Runner { scenario: &fixed, judge: &judge });
            devices.explore(limits, &stop);
            progress.add_states(devices.outcome.states);
            progress.set_queue(starts.count.saturating_sub(number + 1));
            let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
            total.add(&devices.outcome);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    total.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// The ways to choose policies at the start, numbered: there can be far too many to list them.
struct Starts<'s> {
    scenario: &'s Scenario,
    symmetry: Symmetry<'s>,
    count: u64,
}

/// What each party chooses; one without choices chooses nothing.
type Start = Vec<Option<Vec<PolicyId>>>;

impl<'s> Starts<'s> {
    fn new(scenario: &'s Scenario, symmetry: bool) -> Self {
        let ways = scenario.parties.iter().map(|party| party.first_choices.len().max(1) as u64);
        let count = ways.fold(1, u64::saturating_mul);
        Self { scenario, symmetry: Symmetry::new(scenario, symmetry), count }
    }

    /// The start with a number, unless it is a renaming of one that comes first.
    fn start(&self, mut number: u64) -> Option<Start> {
        let mut start = Start::new();
        for party in &self.scenario.parties {
            let ways = party.first_choices.len().max(1) as u64;
            start.push(usize::try_from(number % ways).ok().and_then(|way| party.first_choices.get(way).cloned()));
            number /= ways;
        }
        self.symmetry.is_least(&start).then_some(start)
    }
}

/// How many cells are explored before the limits are looked at again.
const CELLS_PER_CHECK: usize = 1 << 10;

/// The devices of a scenario, each with what it can become and what it may receive.
struct Devices<'r> {
    runner: Runner<'r>,
    cells: Table<Cell>,
    messages: Table<Transit>,
    /// Per party: the cells and the messages that were put together already.
    met: Vec<(Vec<u32>, Vec<u32>)>,
    new_cells: Vec<u32>,
    new_messages: Vec<u32>,
    outcome: Outcome,
}

impl<'r> Devices<'r> {
    fn new(runner: Runner<'r>) -> Self {
        let met = vec![Default::default(); runner.scenario.parties.len()];
        let (cells, messages) = (Table::default(), Table::default());
        Self { runner, cells, messages, met, new_cells: vec![], new_messages: vec![], outcome: Outcome::default() }
    }

    fn explore(&mut self, limits: Limits, stop: &AtomicBool) {
        for (place, party) in self.runner.scenario.parties.iter().enumerate() {
            self.reach(Cell::new(place, party));
        }
        let is_done = |devices: &Self| devices.new_cells.is_empty() && devices.new_messages.is_empty();
        while !is_done(self) && !stop.load(Ordering::Relaxed) {
            self.outcome.depth += 1;
            for (at, cell) in std::mem::take(&mut self.new_cells).into_iter().enumerate() {
                if at % CELLS_PER_CHECK == 0 && limits.are_reached(self.cells.items().len() as u64) {
                    self.outcome.is_out_of_memory = true;
                    break;
                }
                self.meet_messages(cell);
            }
            for message in std::mem::take(&mut self.new_messages) {
                self.meet_cells(message);
            }
            self.outcome.is_out_of_memory |= limits.are_reached(self.cells.items().len() as u64);
            if self.outcome.is_violated || self.outcome.is_out_of_memory {
                stop.store(true, Ordering::Relaxed);
            }
        }
        self.outcome.states = self.cells.items().len() as u64;
    }

    /// What a new cell can do alone, and with the messages so far.
    fn meet_messages(&mut self, number: u32) {
        let Some(cell) = self.cells.item(number).cloned() else { return };
        self.follow(self.runner.alone(&cell));
        let Some((cells, messages)) = self.met.get_mut(cell.party) else { return };
        cells.push(number);
        for message in messages.clone() {
            self.deliver(number, message);
        }
    }

    /// What the cells so far can do with a new message.
    fn meet_cells(&mut self, message: u32) {
        let Some(transit) = self.messages.item(message) else { return };
        let parties = self.runner.scenario.parties.iter().enumerate();
        let places: Vec<usize> = parties.filter(|(_, party)| transit.reaches(party)).map(|(place, _)| place).collect();
        for place in places {
            let Some((cells, messages)) = self.met.get_mut(place) else { continue };
            messages.push(message);
            for cell in cells.clone() {
                self.deliver(cell, message);
            }
        }
    }

    fn deliver(&mut self, cell: u32, message: u32) {
        let (Some(cell), Some(transit)) = (self.cells.item(cell), self.messages.item(message)) else { return };
        let moves = self.runner.receive(cell, transit);
        self.follow(moves);
    }

    fn follow(&mut self, moves: Vec<Move>) {
        for one in moves {
            self.outcome.generated += 1;
            self.outcome.covered.merge(&one.covers);
            self.outcome.is_violated |= one.violation.is_some();
            if one.violation.is_none() {
                self.reach(one.after);
                if let Some(transit) = one.sent {
                    self.send(transit);
                }
            }
        }
    }

    fn reach(&mut self, cell: Cell) {
        let known = self.cells.items().len();
        let number = self.cells.number(cell);
        if self.cells.items().len() > known {
            self.new_cells.push(number);
        }
    }

    fn send(&mut self, transit: Transit) {
        let known = self.messages.items().len();
        let number = self.messages.number(transit);
        if self.messages.items().len() > known {
            self.new_messages.push(number);
        }
    }
}
