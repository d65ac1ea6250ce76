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
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

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
    let started = Instant::now();
    let starts = first_choices(scenario, symmetry);
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let total = Mutex::new(Outcome::default());
    let work = || {
        while let Some(choice) = starts.get(next.fetch_add(1, Ordering::Relaxed)) {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let mut fixed = scenario.clone();
            for (party, own) in fixed.parties.iter_mut().zip(choice) {
                party.first_choices = own.iter().cloned().collect();
            }
            let judge = Judge::new(&fixed.vocabulary);
            let mut devices = Devices::new(Runner { scenario: &fixed, judge: &judge });
            devices.explore(limits, &stop);
            progress.add_states(devices.outcome.states);
            progress.set_queue(starts.len().saturating_sub(next.load(Ordering::Relaxed)) as u64);
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
    let outcome = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    Outcome { seconds: started.elapsed().as_secs_f64(), ..outcome }
}

/// Every way to choose policies at the start; a party without choices chooses nothing.
fn first_choices(scenario: &Scenario, symmetry: bool) -> Vec<Vec<Option<Vec<PolicyId>>>> {
    let mut starts: Vec<Vec<Option<Vec<PolicyId>>>> = vec![Vec::new()];
    for party in &scenario.parties {
        let choices: Vec<Option<Vec<PolicyId>>> = match party.first_choices.is_empty() {
            true => vec![None],
            false => party.first_choices.iter().cloned().map(Some).collect(),
        };
        let longer = |start: &Vec<Option<Vec<PolicyId>>>| {
            choices.iter().map(|choice| [start.as_slice(), std::slice::from_ref(choice)].concat()).collect::<Vec<_>>()
        };
        starts = starts.iter().flat_map(longer).collect();
    }
    let symmetry = Symmetry::new(scenario, symmetry);
    starts.retain(|start| symmetry.is_least(start));
    starts
}

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
            for cell in std::mem::take(&mut self.new_cells) {
                self.meet_messages(cell);
            }
            for message in std::mem::take(&mut self.new_messages) {
                self.meet_cells(message);
            }
            self.outcome.is_out_of_memory = limits.are_reached(self.cells.items().len() as u64);
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
