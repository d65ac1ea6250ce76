//! The abstract semantics by itself: Table 2 on ⟨ν, π, ρ⟩, without graphs and messages.
//!
//! Every item has its value at its owner from the start. Each device may once choose any of the policies as its own. A
//! controller may request any other device with its own policy; an owner sends to a controller, a controller transfers
//! to another. An event reads two devices and changes one, so what a pair of devices can do is computed once, however
//! many states it occurs in.
//!
//! Ghosts are part of what is explored, for the requirements, and not of what is counted (S20).

use std::borrow::Cow;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use hashbrown::HashMap;
use pilot_core::semantics::{Context, Delivery, DeviceState, Event, Ghosts, Handover, PolicyId, rules};
use pilot_core::subsumption::Judge;
use pilot_core::vocabulary::Vocabulary;

use crate::cell::Runner;
use crate::coverage::Coverage;
use crate::explore::{Model, Row, Successor};
use crate::refine::{Violation, meets_requirements};
use crate::render;
use crate::scenario::{Party, Role, Scenario};
use crate::symmetry::{Renaming, Symmetry};
use crate::table::Table;
use crate::variant::StateCheck;

/// Table 2 over the parties of a scenario.
pub struct AbstractModel<'s> {
    scenario: &'s Scenario,
    symmetry: Symmetry<'s>,
    /// A wrong reading of a requirement, which needs the states of several devices.
    state_check: Option<StateCheck>,
    tables: RwLock<Tables>,
}

/// A device's share of the state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Share {
    party: usize,
    state: DeviceState,
    ghosts: Ghosts,
}

#[derive(Default)]
struct Tables {
    shares: Table<Share>,
    /// Each share without its ghosts.
    plain: HashMap<u32, u32>,
    /// What a device can do by itself, and what it can do to another.
    alone: HashMap<u32, Vec<Happening>>,
    pairs: HashMap<(u32, u32), Vec<Happening>>,
}

/// An event that can take place.
struct Happening {
    event: Event,
    /// The share of the device that it changes.
    after: u32,
    violation: Option<Violation>,
    covers: Coverage,
}

impl<'s> AbstractModel<'s> {
    /// The model of a scenario's parties; repositories play no part. With `symmetry`, states that differ in names only
    /// count once.
    pub fn new(scenario: &'s Scenario, symmetry: bool, state_check: Option<StateCheck>) -> Self {
        let symmetry = Symmetry::new(scenario, symmetry);
        Self { scenario, symmetry, state_check, tables: RwLock::default() }
    }

    fn check_state(&self, event: &Event, row: &[u32], tables: &Tables, judge: &Judge<'_>) -> Option<Violation> {
        let state = |device| -> Option<&DeviceState> {
            let mut shares = row.iter().filter_map(|number| tables.shares.item(*number));
            let plays = |share: &&Share| self.scenario.parties.get(share.party).is_some_and(|p| p.device == device);
            shares.find(plays).map(|share| &share.state)
        };
        let cx = Runner { scenario: self.scenario, judge }.context(0);
        self.state_check?.violation(std::slice::from_ref(event), &state, self.scenario, &cx)
    }

    fn read(&self) -> RwLockReadGuard<'_, Tables> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Tables> {
        self.tables.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tables, when they know what these shares can do.
    fn tables_for(&self, row: &[u32], judge: &Judge<'_>) -> RwLockReadGuard<'_, Tables> {
        let tables = self.read();
        let is_complete = row.iter().all(|share| tables.alone.contains_key(share))
            && pairs(row).all(|(_, pair)| tables.pairs.contains_key(&pair));
        if is_complete {
            return tables;
        }
        drop(tables);
        let cx = Runner { scenario: self.scenario, judge }.context(0);
        let mut tables = self.write();
        for share in row {
            tables.explore_alone(*share, self.scenario, &cx);
        }
        for (_, (from, to)) in pairs(row) {
            tables.explore_pair(from, to, self.scenario, &cx);
        }
        drop(tables);
        self.read()
    }

    fn representative(&self, row: &[u32]) -> Option<Vec<u32>> {
        let rename = |renaming: &Renaming<'_>, number| {
            let renamed = self.read().shares.item(number).map(|share| renaming.share(share));
            renamed.map_or(number, |share| self.write().number(share))
        };
        self.symmetry.representative(row, rename, |_, message| message)
    }
}

/// Ordered pairs of different places, and what stands there.
fn pairs(row: &[u32]) -> impl Iterator<Item = (usize, (u32, u32))> {
    row.iter().enumerate().flat_map(move |(at, from)| {
        let others = row.iter().enumerate().filter(move |(to, _)| *to != at);
        others.map(move |(to, share)| (to, (*from, *share)))
    })
}

impl Tables {
    fn number(&mut self, share: Share) -> u32 {
        let plain = Share { ghosts: Ghosts::default(), ..share.clone() };
        let number = self.shares.number(share);
        if !self.plain.contains_key(&number) {
            let plain = self.shares.number(plain);
            self.plain.insert(number, plain);
        }
        number
    }

    fn explore_alone(&mut self, number: u32, scenario: &Scenario, cx: &Context<'_>) {
        let Some(share) = self.shares.item(number).filter(|_| !self.alone.contains_key(&number)).cloned() else {
            return;
        };
        let mut found = Vec::new();
        if let Some(party) = scenario.parties.get(share.party).filter(|party| share.own(party).next().is_none()) {
            let device = party.device;
            for choice in &party.choices {
                let event = Event::Own { device, added: choice.clone(), removed: vec![] };
                found.extend(self.happen(event, &share, &share, cx));
            }
        }
        self.alone.insert(number, found);
    }

    fn explore_pair(&mut self, from: u32, to: u32, scenario: &Scenario, cx: &Context<'_>) {
        if self.pairs.contains_key(&(from, to)) {
            return;
        }
        let shares = self.shares.item(from).cloned().zip(self.shares.item(to).cloned());
        let mut found = Vec::new();
        if let Some((from, to)) = shares {
            let parties = scenario.parties.get(from.party).zip(scenario.parties.get(to.party));
            let events = parties.map(|parties| events(&from, &to, parties, cx)).unwrap_or_default();
            found.extend(events.into_iter().filter_map(|event| self.happen(event, &from, &to, cx)));
        }
        self.pairs.insert((from, to), found);
    }

    /// An event from one device to another, if Table 2 allows it.
    fn happen(&mut self, event: Event, from: &Share, to: &Share, cx: &Context<'_>) -> Option<Happening> {
        let mut came_about = None;
        if let Some(claim) = event.claim() {
            rules::claim(&claim, &from.state, cx).ok()?;
            let handover = claim.handover();
            came_about = handover.and_then(|handover| rules::provenance(handover, &from.state, &from.ghosts, cx));
        }
        rules::premises(&event, &to.state, cx).ok()?;
        let mut after = to.clone();
        rules::apply(&event, came_about, &mut after.state, &mut after.ghosts);
        let violation = meets_requirements(&after.state, &after.ghosts, cx).err();
        let mut covers = Coverage::default();
        covers.add_events(std::slice::from_ref(&event));
        Some(Happening { event, after: self.number(after), violation, covers })
    }
}

/// The events from one device to another whose premises may hold.
fn events(from: &Share, to: &Share, (sends, receives): (&Party, &Party), cx: &Context<'_>) -> Vec<Event> {
    let (sender, receiver) = (sends.device, receives.device);
    let mut events = Vec::new();
    if sends.role == Role::Controller {
        for policy in from.own(sends) {
            let comparable: Vec<PolicyId> =
                to.state.policies_of(sender).filter(|known| cx.is_comparable(policy, *known)).collect();
            let request = |replaced| Event::Request { sender, receiver, policy, replaced };
            match comparable.is_empty() {
                true => events.push(request(None)),
                false => events.extend(comparable.into_iter().map(|known| request(Some(known)))),
            }
        }
    }
    if receives.role == Role::Controller {
        for item in cx.directory.items().filter(|item| from.state.value(*item).is_some()) {
            for policy in from.state.policies_of(receiver) {
                let handover = Handover { sender, receiver, item, policy };
                let delivery = Delivery { handover, value: from.state.value(item).cloned() };
                let is_owner = cx.owner(item) == Some(sender);
                events.push(if is_owner { Event::Send(delivery) } else { Event::Transfer(delivery) });
            }
        }
    }
    events
}

impl Share {
    fn own(&self, party: &Party) -> impl Iterator<Item = PolicyId> {
        self.state.policies_of(party.device)
    }
}

impl Renaming<'_> {
    fn share(&self, share: &Share) -> Share {
        Share { party: self.place(share.party), state: self.state(&share.state), ghosts: self.ghosts(&share.ghosts) }
    }
}

impl Model for AbstractModel<'_> {
    fn vocabulary(&self) -> &Vocabulary {
        &self.scenario.vocabulary
    }

    fn initial(&self, _: &Judge<'_>) -> Row {
        let mut tables = self.write();
        let start = |(at, party): (usize, &Party)| {
            let state = DeviceState { values: party.values.clone(), ..DeviceState::default() };
            Share { party: at, state, ghosts: Ghosts::default() }
        };
        self.scenario.parties.iter().enumerate().map(|cast| tables.number(start(cast))).collect()
    }

    fn successors(&self, state: &[u32], judge: &Judge<'_>, found: &mut dyn FnMut(Successor<'_>)) {
        let tables = self.tables_for(state, judge);
        let mut row = state.to_vec();
        let mut visit = |at: usize, happenings: Option<&Vec<Happening>>| {
            for one in happenings.map_or(&[][..], Vec::as_slice) {
                let before = row.get_mut(at).map(|slot| std::mem::replace(slot, one.after));
                let describe = || render::event(&one.event, self.scenario);
                let violation = one.violation.clone().or_else(|| self.check_state(&one.event, &row, &tables, judge));
                let (violation, covers) = (violation.as_ref(), one.covers);
                found(Successor { row: &row, violation, describe: &describe, covers });
                if let (Some(slot), Some(before)) = (row.get_mut(at), before) {
                    *slot = before;
                }
            }
        };
        for (at, share) in state.iter().enumerate() {
            visit(at, tables.alone.get(share));
        }
        for (to, pair) in pairs(state) {
            visit(to, tables.pairs.get(&pair));
        }
    }

    fn identify<'r>(&self, row: &'r [u32]) -> Cow<'r, [u32]> {
        self.representative(row).map_or(Cow::Borrowed(row), Cow::Owned)
    }

    fn counted(&self, row: &[u32]) -> Option<Vec<u32>> {
        let plain: Vec<u32> = {
            let tables = self.read();
            row.iter().map(|number| tables.plain.get(number).copied().unwrap_or(*number)).collect()
        };
        Some(self.representative(&plain).unwrap_or(plain))
    }
}
