//! Def. 4 as the paper mechanises it: devices and a set `msgs` of messages in transit.
//!
//! **Cells.** A step reads and changes one device; a message says everything else that it needs. So the whole system is
//! explored with tables: a *cell* is all there is to know of one device (variables, graph instances, ghosts), a
//! *message* all there is to know of one in transit, and both are numbered when they first appear. A state is a row of
//! numbers, and what a cell can do, alone or with a message, is computed and checked once, however many states it
//! occurs in. Graphs, rules and requirements are thereby still asked about every step that any state can take.
//!
//! **Network.** `msgs` is a set. Messages are lost by never being delivered, and delivered in any order. On the network
//! `once` a delivered message is gone; on `duplicating` it stays.
//!
//! **Reductions.** No guard asks that a message be absent, so a message more disables nothing: of two states that differ
//! in their messages only, the one with more can do whatever the other can. Hence
//!
//! * a delivery that leaves the device as it was (a refused broadcast) is checked, and does not use up its message;
//! * what a device can send without changing is sent at once and again whenever it is used up: states in which it was not
//!   sent yet can do nothing that the state with it cannot.
//!
//! Both leave every reachable cell, step and violation reachable, and no shorter run to one is lost but for the sends that
//! happen at once.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use hashbrown::HashMap;
use pilot_core::graph::{Action, Device, Instance, Message, MessageKind, Step, enabled, offers, take};
use pilot_core::semantics::{Context, Ghosts, Provenance};
use pilot_core::subsumption::Judge;
use pilot_core::vocabulary::{DeviceId, Vocabulary};

use crate::explore::{Model, Row, Successor};
use crate::refine::{Violation, check};
use crate::render;
use crate::scenario::{Role, Scenario};

/// All there is to know of one device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cell {
    /// Which party it is.
    pub party: usize,
    /// Its variables.
    pub device: Device,
    /// Its graph instances.
    pub instances: Vec<Instance>,
    /// How often its user may still change her policies.
    pub changes: u8,
    /// How what it holds came about.
    pub ghosts: Ghosts,
}

/// A message in transit, with what it vouches for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Transit {
    /// The message.
    pub message: Message,
    /// How the item in it came about.
    pub provenance: Option<Provenance>,
}

/// What a cell can do next.
#[derive(Debug, Clone)]
pub struct Move {
    /// What is done.
    pub action: Action,
    /// The cell after it.
    pub next: u32,
    /// The message that it sends.
    pub sent: Option<u32>,
    /// What is wrong with it.
    pub violation: Option<Violation>,
    /// The edges and events that it is an example of.
    pub covers: Vec<String>,
}

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
    tables: RwLock<Tables>,
}

impl<'s> System<'s> {
    /// A system at its start.
    pub fn new(scenario: &'s Scenario, network: Network) -> Self {
        Self { scenario, network, tables: RwLock::new(Tables::new()) }
    }

    fn read(&self) -> RwLockReadGuard<'_, Tables> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Tables> {
        self.tables.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes sure that the tables know what these cells can do, alone and with these messages.
    fn complete(&self, cells: &[u32], messages: &[u32], judge: &Judge<'_>) {
        let parties = &self.scenario.parties;
        let unknown = |tables: &Tables| {
            let alone = cells.iter().filter(|cell| tables.known_alone(**cell).is_none()).copied().collect::<Vec<_>>();
            let pairs = cells.iter().zip(parties).flat_map(|(cell, party)| {
                let for_it = messages.iter().filter(|message| tables.is_for(**message, party.device, party.role));
                for_it.map(|message| (*cell, *message)).filter(|(c, m)| tables.known_with(*c, *m).is_none())
            });
            (alone, pairs.collect::<Vec<_>>())
        };
        let (alone, pairs) = unknown(&self.read());
        if alone.is_empty() && pairs.is_empty() {
            return;
        }
        let mut tables = self.write();
        let (alone, pairs) = unknown(&tables);
        alone.into_iter().for_each(|cell| tables.explore_alone(cell, self.scenario, judge));
        pairs.into_iter().for_each(|(cell, message)| tables.explore_with(cell, message, self.scenario, judge));
    }

    /// Sends everything that can be sent without changing the sender.
    fn saturate(&self, row: &mut Vec<u32>, judge: &Judge<'_>) {
        let parties = self.scenario.parties.len();
        let cells: Vec<u32> = row.iter().copied().take(parties).collect();
        self.complete(&cells, &[], judge);
        let tables = self.read();
        let free = cells.iter().flat_map(|cell| {
            let moves = tables.known_alone(*cell).unwrap_or_default().iter();
            moves.filter(|one| one.next == *cell && one.violation.is_none()).filter_map(|one| one.sent)
        });
        for message in free.collect::<Vec<_>>() {
            insert(row, parties, message);
        }
    }
}

impl Model for System<'_> {
    fn vocabulary(&self) -> &Vocabulary {
        &self.scenario.vocabulary
    }

    fn initial(&self) -> Row {
        self.write().initial(self.scenario).into()
    }

    fn successors(&self, state: &[u32], judge: &Judge<'_>, found: &mut dyn FnMut(Successor<'_>)) {
        let parties = &self.scenario.parties;
        let (cells, messages) = state.split_at(parties.len().min(state.len()));
        self.complete(cells, messages, judge);
        let mut moves: Vec<(usize, Move, Option<u32>)> = Vec::new();
        {
            let tables = self.read();
            for (at, (cell, party)) in cells.iter().zip(parties).enumerate() {
                let alone = tables.known_alone(*cell).unwrap_or_default();
                moves.extend(alone.iter().map(|one| (at, one.clone(), None)));
                for message in messages.iter().filter(|m| tables.is_for(**m, party.device, party.role)) {
                    let with = tables.known_with(*cell, *message).unwrap_or_default();
                    moves.extend(with.iter().map(|one| (at, one.clone(), Some(*message))));
                }
            }
        }
        for (at, one, received) in moves {
            let mut row: Vec<u32> = cells.to_vec();
            if let Some(cell) = row.get_mut(at) {
                *cell = one.next;
            }
            let is_unchanged = row == cells;
            let is_gone = |message: &u32| self.network == Network::Once && Some(*message) == received && !is_unchanged;
            row.extend(messages.iter().copied().filter(|message| !is_gone(message)));
            if let Some(sent) = one.sent {
                insert(&mut row, parties.len(), sent);
            }
            self.saturate(&mut row, judge);
            let name = parties.get(at).map_or("?", |party| party.name.as_str());
            let describe = || format!("{name}: {}", render::action(&one.action, self.scenario));
            found(Successor { row: &row, violation: one.violation.as_ref(), describe: &describe, covers: &one.covers });
        }
    }
}

/// Adds a message to the sorted ones behind the cells.
fn insert(row: &mut Vec<u32>, parties: usize, message: u32) {
    if let Err(place) = row.get(parties..).unwrap_or_default().binary_search(&message) {
        row.insert(parties + place, message);
    }
}

/// Numbered things.
#[derive(Debug)]
pub(crate) struct Table<T> {
    items: Vec<T>,
    numbers: HashMap<T, u32>,
}

impl<T: Clone + Eq + std::hash::Hash> Table<T> {
    pub(crate) fn number(&mut self, item: T) -> u32 {
        let next = u32::try_from(self.items.len()).unwrap_or(u32::MAX);
        *self.numbers.entry(item).or_insert_with_key(|item| {
            self.items.push(item.clone());
            next
        })
    }

    pub(crate) fn item(&self, number: u32) -> Option<&T> {
        self.items.get(number as usize)
    }
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { items: Vec::new(), numbers: HashMap::default() }
    }
}

/// The cells and messages of a model, and what they can do.
pub struct Tables {
    cells: Table<Cell>,
    messages: Table<Transit>,
    alone: Vec<Option<Vec<Move>>>,
    with_message: HashMap<(u32, u32), Vec<Move>>,
}

impl Tables {
    /// No cells yet.
    pub fn new() -> Self {
        Self { cells: Table::default(), messages: Table::default(), alone: Vec::new(), with_message: HashMap::new() }
    }

    /// The numbers of the cells at the start.
    pub fn initial(&mut self, scenario: &Scenario) -> Vec<u32> {
        let cells = scenario.parties.iter().enumerate().map(|(party, cast)| {
            let mut device = Device::new(cast.device);
            device.state.values.clone_from(&cast.values);
            let count = cast.items.len().max(1);
            let instances = vec![Instance::new(&cast.graph); count];
            Cell { party, device, instances, changes: cast.changes, ghosts: Ghosts::default() }
        });
        cells.collect::<Vec<_>>().into_iter().map(|cell| self.cells.number(cell)).collect()
    }

    /// What a cell can do alone, if it is known already.
    pub fn known_alone(&self, cell: u32) -> Option<&[Move]> {
        self.alone.get(cell as usize)?.as_deref()
    }

    /// What a cell can do with a message, if it is known already.
    pub fn known_with(&self, cell: u32, message: u32) -> Option<&[Move]> {
        self.with_message.get(&(cell, message)).map(Vec::as_slice)
    }

    /// Finds out what a cell can do alone.
    pub fn explore_alone(&mut self, number: u32, scenario: &Scenario, judge: &Judge<'_>) {
        let Some(cell) = self.cells.item(number).cloned() else { return };
        let cx = context(scenario, judge);
        let mut moves = Vec::new();
        self.decisions(&cell, scenario, &cx, &mut moves);
        let Some(party) = scenario.parties.get(cell.party) else { return };
        for (at, instance) in cell.instances.iter().enumerate() {
            for action in offers(&party.graph, instance, &cell.device, &cx) {
                let is_withdrawal = action.message().is_some_and(|message| {
                    matches!(message.kind(), MessageKind::Withdraw | MessageKind::WithdrawPolicy)
                });
                if is_withdrawal && !scenario.withdrawals {
                    continue;
                }
                for edge in enabled(&party.graph, instance, &cell.device, &action, &cx).collect::<Vec<_>>() {
                    moves.extend(self.attempt(&cell, scenario, &action, &[(at, edge)], None, &cx));
                }
            }
        }
        if self.alone.len() <= number as usize {
            self.alone.resize(number as usize + 1, None);
        }
        if let Some(slot) = self.alone.get_mut(number as usize) {
            *slot = Some(moves);
        }
    }

    /// What the user may decide: her policies, at first for all instances at once, and later if she may change them.
    fn decisions(&mut self, cell: &Cell, scenario: &Scenario, cx: &Context<'_>, moves: &mut Vec<Move>) {
        let Some(party) = scenario.parties.get(cell.party) else { return };
        if party.role == Role::Repository {
            return;
        }
        let is_new = cell.instances.iter().all(|instance| instance.location == party.graph.initial);
        for own in &party.choices {
            let init = |item| Action::Init { own: own.clone(), item };
            if is_new {
                let mut actions = party.items.iter().map(|item| init(Some(*item))).collect::<Vec<_>>();
                if actions.is_empty() {
                    actions.push(init(None));
                }
                moves.extend(self.attempt_each(cell, scenario, &actions, cx));
            } else if cell.changes > 0 && !own.iter().eq(&cell.device.memory.current) {
                let action = Action::ChangeOwn { own: own.clone() };
                let Some(first) = cell.instances.first() else { continue };
                for edge in enabled(&party.graph, first, &cell.device, &action, cx).collect::<Vec<_>>() {
                    let changed = Cell { changes: cell.changes - 1, ..cell.clone() };
                    moves.extend(self.attempt(&changed, scenario, &action, &[(0, edge)], None, cx));
                }
            }
        }
    }

    /// One action per instance, as one move.
    fn attempt_each(&mut self, cell: &Cell, scenario: &Scenario, actions: &[Action], cx: &Context<'_>) -> Option<Move> {
        let party = scenario.parties.get(cell.party)?;
        let mut after = cell.clone();
        let (mut edges, mut events, mut violation) = (Vec::new(), Vec::new(), None);
        for (instance, action) in after.instances.iter_mut().zip(actions) {
            let edge = enabled(&party.graph, instance, &after.device, action, cx).next()?;
            let before = after.device.state.clone();
            let step = take(&party.graph, edge, instance, &mut after.device, action, cx)?;
            violation = violation.or(check(&before, &after.device.state, &mut after.ghosts, &step, None, cx).err());
            edges.push(edge);
            events.extend(step.events);
        }
        let action = actions.first()?.clone();
        let covers = render::coverage(&party.graph, &edges, &events);
        Some(Move { action, next: self.cells.number(after), sent: None, violation, covers })
    }

    /// Takes an action along the given edges of the given instances, and checks it.
    fn attempt(
        &mut self,
        cell: &Cell,
        scenario: &Scenario,
        action: &Action,
        along: &[(usize, usize)],
        came_with: Option<Provenance>,
        cx: &Context<'_>,
    ) -> Option<Move> {
        let party = scenario.parties.get(cell.party)?;
        let mut after = cell.clone();
        let (mut events, mut sent, mut violation) = (Vec::new(), None, None);
        for (at, edge) in along {
            let before = after.device.state.clone();
            let instance = after.instances.get_mut(*at)?;
            let step: Step = take(&party.graph, *edge, instance, &mut after.device, action, cx)?;
            match check(&before, &after.device.state, &mut after.ghosts, &step, came_with, cx) {
                Ok(provenance) => sent = step.message.map(|message| Transit { message, provenance }),
                Err(found) => violation = violation.or(Some(found)),
            }
            events.extend(step.events);
        }
        let sent = sent.map(|transit| self.messages.number(transit));
        let edges: Vec<usize> = along.iter().map(|(_, edge)| *edge).collect();
        let covers = render::coverage(&party.graph, &edges, &events);
        Some(Move { action: action.clone(), next: self.cells.number(after), sent, violation, covers })
    }

    /// Finds out what a cell can do with a message: it goes to the device once, and to all instances that can take it.
    pub fn explore_with(&mut self, number: u32, message: u32, scenario: &Scenario, judge: &Judge<'_>) {
        let mut moves = Vec::new();
        if let (Some(cell), Some(transit)) = (self.cells.item(number).cloned(), self.messages.item(message).cloned()) {
            let cx = context(scenario, judge);
            let action = Action::Receive(transit.message);
            if let Some(party) = scenario.parties.get(cell.party) {
                let mut choices: Vec<Vec<(usize, usize)>> = vec![Vec::new()];
                for (at, instance) in cell.instances.iter().enumerate() {
                    let edges: Vec<usize> = enabled(&party.graph, instance, &cell.device, &action, &cx).collect();
                    if edges.is_empty() {
                        continue;
                    }
                    let with = |choice: &Vec<(usize, usize)>, edge: usize| {
                        choice.iter().copied().chain([(at, edge)]).collect::<Vec<_>>()
                    };
                    choices =
                        choices.iter().flat_map(|c| edges.iter().map(|e| with(c, *e)).collect::<Vec<_>>()).collect();
                }
                for along in choices.into_iter().filter(|along| !along.is_empty()) {
                    moves.extend(self.attempt(&cell, scenario, &action, &along, transit.provenance, &cx));
                }
            }
        }
        self.with_message.insert((number, message), moves);
    }

    /// The device for which a message is; a broadcast is for every controller.
    pub fn is_for(&self, message: u32, device: DeviceId, role: Role) -> bool {
        self.messages.item(message).is_some_and(|transit| {
            let is_broadcast = transit.message.kind() == MessageKind::Broadcast;
            transit.message.receiver == device || (is_broadcast && role == Role::Controller)
        })
    }
}

impl Default for Tables {
    fn default() -> Self {
        Self::new()
    }
}

/// What judgements read, for a scenario.
pub fn context<'c>(scenario: &'c Scenario, judge: &'c Judge<'c>) -> Context<'c> {
    Context {
        judge,
        directory: scenario.vocabulary.directory(),
        policies: &scenario.policies,
        contacts: &scenario.contacts,
        now: scenario.times.first().copied().unwrap_or_default(),
    }
}
