//! Def. 4 as the paper mechanises it: devices and a set `msgs` of messages in transit, every interleaving of their steps.
//!
//! **Tables.** Cells and messages are numbered when they first appear, and a state is a row of numbers: the cell of each
//! device, then the messages, sorted. What a cell can do, alone or with a message, is computed and judged once, however
//! many states it occurs in.
//!
//! **Network.** `msgs` is a set. Messages are lost by never being delivered, and delivered in any order. On the network
//! `once` a delivered message is gone; on `duplicating` it stays.
//!
//! **Reductions.** No guard asks that a message be absent, so a message more disables nothing: of two states that differ
//! in their messages only, the one with more can do whatever the other can. Hence
//!
//! * a delivery that leaves the device as it was (a refused broadcast) is judged, and does not use up its message;
//! * what a device can send without changing is sent at once and again whenever it is used up: states in which it was not
//!   sent yet can do nothing that the state with it cannot.
//!
//! Both leave every reachable cell, step and violation reachable. The second hides steps, so a shortest run is looked for
//! without it.

use std::borrow::Cow;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use hashbrown::HashMap;
use pilot_core::semantics::{DeviceState, Event};
use pilot_core::subsumption::Judge;
use pilot_core::vocabulary::Vocabulary;

use crate::cell::{Cell, Deed, Runner, Transit};
use crate::coverage::Coverage;
use crate::explore::{Model, Row, Successor};
use crate::refine::Violation;
use crate::render;
use crate::scenario::Scenario;
use crate::symmetry::Symmetry;
use crate::table::Table;
use crate::variant::StateCheck;

/// How messages travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// A delivered message is gone.
    Once,
    /// A delivered message stays.
    Duplicating,
}

/// A scenario to be explored.
pub struct System<'s> {
    scenario: &'s Scenario,
    network: Network,
    symmetry: Symmetry<'s>,
    /// A wrong reading of a requirement or premise, which needs the states of several devices.
    state_check: Option<StateCheck>,
    /// Whether what can be sent without changing is sent at once.
    sends_at_once: bool,
    tables: RwLock<Tables>,
}

/// The cells and messages seen so far, and what they can do.
#[derive(Default)]
struct Tables {
    cells: Table<Cell>,
    messages: Table<Transit>,
    alone: HashMap<u32, Alone>,
    with_message: HashMap<(u32, u32), Vec<NumberedMove>>,
}

/// What a cell can do without a message.
struct Alone {
    moves: Vec<NumberedMove>,
    /// The messages that it can send without changing.
    free: Vec<u32>,
}

/// A [`crate::cell::Move`] between numbered cells.
struct NumberedMove {
    deed: Deed,
    next: u32,
    sent: Option<u32>,
    events: Vec<Event>,
    violation: Option<Violation>,
    covers: Coverage,
}

impl<'s> System<'s> {
    /// A system at its start. With `symmetry`, states that differ in names only count once.
    pub fn new(scenario: &'s Scenario, network: Network, symmetry: bool, state_check: Option<StateCheck>) -> Self {
        let symmetry = Symmetry::new(scenario, symmetry);
        Self { scenario, network, symmetry, state_check, sends_at_once: true, tables: RwLock::default() }
    }

    /// The same system, in which every send is a step.
    #[must_use]
    pub fn step_by_step(self) -> Self {
        Self { sends_at_once: false, ..self }
    }

    fn saturate(&self, row: &mut Vec<u32>, tables: &Tables) {
        if self.sends_at_once {
            tables.saturate(row, self.scenario.parties.len());
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Tables> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Tables> {
        self.tables.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tables, when they know what these cells can do, alone and with these messages, and what can be sent for
    /// nothing after that.
    fn tables_for(&self, cells: &[u32], messages: &[u32], judge: &Judge<'_>) -> RwLockReadGuard<'_, Tables> {
        let tables = self.read();
        if tables.is_complete(cells, messages, self.scenario) {
            return tables;
        }
        drop(tables);
        self.write().complete(cells, messages, &Runner { scenario: self.scenario, judge });
        self.read()
    }

    fn check_state(&self, one: &NumberedMove, row: &[u32], tables: &Tables, judge: &Judge<'_>) -> Option<Violation> {
        let cells: Vec<&Cell> = row.iter().map_while(|number| tables.cells.item(*number)).collect();
        let runner = Runner { scenario: self.scenario, judge };
        let state = |device| -> Option<&DeviceState> {
            cells.iter().map(|cell| &cell.device).find(|known| known.id == device).map(|found| &found.state)
        };
        let cx = runner.context(one.next_clock(tables));
        self.state_check?.violation(&one.events, &state, self.scenario, &cx)
    }
}

impl Model for System<'_> {
    fn vocabulary(&self) -> &Vocabulary {
        &self.scenario.vocabulary
    }

    fn initial(&self, judge: &Judge<'_>) -> Row {
        let mut tables = self.write();
        let cells = self.scenario.parties.iter().enumerate().map(|(place, party)| Cell::new(place, party));
        let mut row: Vec<u32> = cells.map(|cell| tables.cells.number(cell)).collect();
        tables.complete(&row.clone(), &[], &Runner { scenario: self.scenario, judge });
        self.saturate(&mut row, &tables);
        row.into()
    }

    fn successors(&self, state: &[u32], judge: &Judge<'_>, found: &mut dyn FnMut(Successor<'_>)) {
        let parties = &self.scenario.parties;
        let (cells, messages) = state.split_at(parties.len().min(state.len()));
        let tables = self.tables_for(cells, messages, judge);
        let mut row: Vec<u32> = Vec::new();
        for (at, (cell, party)) in cells.iter().zip(parties).enumerate() {
            let mut visit = |moves: &[NumberedMove], received: Option<u32>| {
                for one in moves {
                    row.clear();
                    row.extend_from_slice(cells);
                    if let Some(slot) = row.get_mut(at) {
                        *slot = one.next;
                    }
                    let is_used_up = self.network == Network::Once && one.next != *cell;
                    let used_up = received.filter(|_| is_used_up);
                    row.extend(messages.iter().copied().filter(|message| Some(*message) != used_up));
                    if let Some(sent) = one.sent {
                        insert(&mut row, parties.len(), sent);
                    }
                    self.saturate(&mut row, &tables);
                    let elsewhere = || self.check_state(one, row.get(..parties.len())?, &tables, judge);
                    let violation = one.violation.clone().or_else(elsewhere);
                    let describe = || {
                        format!("{}: {}", party.name, render::deed(&one.deed, one.next_clock(&tables), self.scenario))
                    };
                    found(Successor {
                        row: &row,
                        violation: violation.as_ref(),
                        describe: &describe,
                        covers: one.covers,
                    });
                }
            };
            visit(tables.alone.get(cell).map_or(&[], |alone| &alone.moves), None);
            for message in messages {
                visit(tables.with_message.get(&(*cell, *message)).map_or(&[], Vec::as_slice), Some(*message));
            }
        }
    }

    fn identify<'r>(&self, row: &'r [u32]) -> Cow<'r, [u32]> {
        let representative = self.symmetry.representative(
            row,
            |renaming, number| {
                let cell = self.read().cells.item(number).map(|cell| renaming.cell(cell, self.scenario));
                cell.map_or(number, |cell| self.write().cells.number(cell))
            },
            |renaming, number| {
                let transit = self.read().messages.item(number).map(|transit| renaming.transit(transit));
                transit.map_or(number, |transit| self.write().messages.number(transit))
            },
        );
        representative.map_or(Cow::Borrowed(row), Cow::Owned)
    }
}

impl NumberedMove {
    fn next_clock(&self, tables: &Tables) -> usize {
        tables.cells.item(self.next).map_or(0, |cell| cell.clock)
    }
}

impl Tables {
    fn is_complete(&self, cells: &[u32], messages: &[u32], scenario: &Scenario) -> bool {
        cells.iter().all(|cell| self.alone.contains_key(cell))
            && self.unknown_pairs(cells, messages, scenario).is_empty()
    }

    fn unknown_pairs(&self, cells: &[u32], messages: &[u32], scenario: &Scenario) -> Vec<(u32, u32)> {
        let heard = |message: &u32, party| self.messages.item(*message).is_some_and(|transit| transit.reaches(party));
        let pairs = cells.iter().zip(&scenario.parties).flat_map(|(cell, party)| {
            let for_it = messages.iter().filter(move |message| heard(message, party));
            for_it.map(|message| (*cell, *message))
        });
        pairs.filter(|pair| !self.with_message.contains_key(pair)).collect()
    }

    fn complete(&mut self, cells: &[u32], messages: &[u32], runner: &Runner<'_>) {
        let mut next = Vec::new();
        for cell in cells {
            next.extend(self.explore_alone(*cell, runner));
        }
        for (cell, message) in self.unknown_pairs(cells, messages, runner.scenario) {
            let (Some(at), Some(transit)) = (self.cells.item(cell), self.messages.item(message)) else { continue };
            let moves = self.numbered(runner.receive(at, transit));
            next.extend(moves.iter().map(|one| one.next));
            self.with_message.insert((cell, message), moves);
        }
        for cell in next {
            self.explore_alone(cell, runner);
        }
    }

    /// Finds out what a cell can do alone; returns where that leads.
    fn explore_alone(&mut self, number: u32, runner: &Runner<'_>) -> Vec<u32> {
        if !self.alone.contains_key(&number) {
            let moves = self.cells.item(number).map(|cell| runner.alone(cell)).unwrap_or_default();
            let moves = self.numbered(moves);
            let stays = moves.iter().filter(|one| one.next == number && one.violation.is_none());
            let free = stays.filter_map(|one| one.sent).collect();
            self.alone.insert(number, Alone { moves, free });
        }
        self.alone.get(&number).map(|alone| alone.moves.iter().map(|one| one.next).collect()).unwrap_or_default()
    }

    fn numbered(&mut self, moves: Vec<crate::cell::Move>) -> Vec<NumberedMove> {
        let number = |one: crate::cell::Move| NumberedMove {
            deed: one.deed,
            next: self.cells.number(one.after),
            sent: one.sent.map(|transit| self.messages.number(transit)),
            events: one.events,
            violation: one.violation,
            covers: one.covers,
        };
        moves.into_iter().map(number).collect()
    }

    /// Sends everything that can be sent without changing the sender.
    fn saturate(&self, row: &mut Vec<u32>, parties: usize) {
        for at in 0..parties {
            let cell = row.get(at).and_then(|cell| self.alone.get(cell));
            for message in cell.map_or(&[][..], |alone| &alone.free) {
                insert(row, parties, *message);
            }
        }
    }
}

/// Adds a message to the sorted ones behind the cells.
fn insert(row: &mut Vec<u32>, parties: usize, message: u32) {
    if let Err(place) = row.get(parties..).unwrap_or_default().binary_search(&message) {
        row.insert(parties + place, message);
    }
}
