//! The abstract semantics by itself: Table 2 on ⟨ν, π, ρ⟩, without graphs and messages.
//!
//! Every item has its value at its owner from the start. Each device may once choose any of the policies as its own. A
//! controller may request any other device with its own policy; an owner sends to a controller, a controller transfers
//! to another. Ghosts are carried along for the requirements and do not tell states apart (S20).

use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;
use pilot_core::semantics::{Context, Delivery, DeviceState, Event, Ghosts, Handover, PolicyId, Requirement, rules};
use pilot_core::subsumption::Judge;
use pilot_core::vocabulary::Vocabulary;

use crate::explore::{Model, Row, Successor};
use crate::refine::Violation;
use crate::render;
use crate::scenario::{Role, Scenario};
use crate::system::{Table, context};

/// Table 2 over the parties of a scenario.
pub struct AbstractModel<'s> {
    scenario: &'s Scenario,
    tables: Mutex<Tables>,
}

#[derive(Default)]
struct Tables {
    shares: Table<(DeviceState, Ghosts)>,
    states: Table<DeviceState>,
    /// What each share is without its ghosts.
    identity: HashMap<u32, u32>,
}

impl Tables {
    fn number(&mut self, share: (DeviceState, Ghosts)) -> u32 {
        let identity = self.states.number(share.0.clone());
        let number = self.shares.number(share);
        self.identity.insert(number, identity);
        number
    }
}

impl<'s> AbstractModel<'s> {
    /// The model of a scenario's parties; repositories play no part.
    pub fn new(scenario: &'s Scenario) -> Self {
        Self { scenario, tables: Mutex::new(Tables::default()) }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every event whose premises may hold, with the place of the device it changes.
    fn events(&self, shares: &[(DeviceState, Ghosts)], cx: &Context<'_>) -> Vec<(usize, Event)> {
        let parties = &self.scenario.parties;
        let mut events = Vec::new();
        for (at, (party, (state, _))) in parties.iter().zip(shares).enumerate() {
            let own: Vec<PolicyId> = state.policies_of(party.device).collect();
            if own.is_empty() {
                let choose = |choice: &Vec<PolicyId>| Event::Own {
                    device: party.device,
                    added: choice.clone(),
                    removed: vec![],
                };
                events.extend(party.choices.iter().map(|choice| (at, choose(choice))));
            }
            for (to, (other, (known, _))) in parties.iter().zip(shares).enumerate().filter(|(to, _)| *to != at) {
                let (sender, receiver) = (party.device, other.device);
                if party.role == Role::Controller {
                    for policy in &own {
                        let comparable: Vec<PolicyId> =
                            known.policies_of(sender).filter(|q| cx.is_comparable(*policy, *q)).collect();
                        let request = |replaced| Event::Request { sender, receiver, policy: *policy, replaced };
                        match comparable.is_empty() {
                            true => events.push((to, request(None))),
                            false => events.extend(comparable.into_iter().map(|q| (to, request(Some(q))))),
                        }
                    }
                }
                if other.role != Role::Controller {
                    continue;
                }
                let offers: Vec<PolicyId> = state.policies_of(receiver).collect();
                for item in cx.directory.items().filter(|item| state.value(*item).is_some()) {
                    for policy in &offers {
                        let handover = Handover { sender, receiver, item, policy: *policy };
                        let delivery = Delivery { handover, value: state.value(item).cloned() };
                        let is_owner = cx.owner(item) == Some(sender);
                        events.push((to, if is_owner { Event::Send(delivery) } else { Event::Transfer(delivery) }));
                    }
                }
            }
        }
        events
    }
}

impl Model for AbstractModel<'_> {
    fn vocabulary(&self) -> &Vocabulary {
        &self.scenario.vocabulary
    }

    fn initial(&self) -> Row {
        let mut tables = self.tables();
        let start = |party: &crate::scenario::Party| {
            let state = DeviceState { values: party.values.clone(), ..DeviceState::default() };
            (state, Ghosts::default())
        };
        self.scenario.parties.iter().map(|party| tables.number(start(party))).collect()
    }

    fn successors(&self, state: &[u32], judge: &Judge<'_>, found: &mut dyn FnMut(Successor<'_>)) {
        let cx = context(self.scenario, judge);
        let shares: Vec<(DeviceState, Ghosts)> = {
            let tables = self.tables();
            state.iter().filter_map(|number| tables.shares.item(*number).cloned()).collect()
        };
        let place = |device| self.scenario.parties.iter().position(|party| party.device == device);
        for (at, event) in self.events(&shares, &cx) {
            let mut came_about = None;
            if let Some(claim) = event.claim() {
                let Some((sender, ghosts)) = place(claim.sender()).and_then(|at| shares.get(at)) else { continue };
                if rules::claim(&claim, sender, &cx).is_err() {
                    continue;
                }
                came_about = claim.handover().and_then(|handover| rules::provenance(handover, sender, ghosts, &cx));
            }
            let Some((mut after, mut ghosts)) = shares.get(at).cloned() else { continue };
            if rules::premises(&event, &after, &cx).is_err() {
                continue;
            }
            rules::apply(&event, came_about, &mut after, &mut ghosts);
            let broken = Requirement::ALL.into_iter().find_map(|requirement| {
                let receipt = after.received.iter().find(|receipt| !requirement.holds(receipt, &ghosts, 0, &cx))?;
                Some(Violation::Requirement(requirement, *receipt))
            });
            let mut row = state.to_vec();
            if let Some(slot) = row.get_mut(at) {
                *slot = self.tables().number((after, ghosts));
            }
            let covers = render::event_kinds(std::slice::from_ref(&event));
            let describe = || render::event(&event, self.scenario);
            found(Successor { row: &row, violation: broken.as_ref(), describe: &describe, covers: &covers });
        }
    }

    fn identify(&self, row: &mut [u32]) {
        let tables = self.tables();
        for number in row {
            *number = tables.identity.get(number).copied().unwrap_or(*number);
        }
    }
}
