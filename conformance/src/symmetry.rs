//! Symmetry: subjects, controllers and items that a scenario does not tell apart may be renamed without changing what
//! can happen. Of the states that are renamings of each other only one is explored.
//!
//! Parties are interchangeable if they have the same role, graph, entity, choices, changes and values and as many items of
//! the same types; so are the items of one party that have the same type and both have a value, or none. Every graph,
//! rule and requirement speaks of devices and items by what the scenario says of them, never by their names, so a renaming
//! maps steps to steps and violations to violations. Conditions alone can name an item: one that any policy reads keeps
//! its name.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use hashbrown::HashMap;
use pilot_core::graph::message::Release;
use pilot_core::graph::{Body, Memory, Message};
use pilot_core::semantics::{Claim, DeviceState, Ghosts, Handover, Receipt};
use pilot_core::value::Value;
use pilot_core::vocabulary::{DeviceId, ItemId, Variable};

use crate::cell::{Cell, Transit};
use crate::refine::Evidence;
use crate::scenario::{Party, Scenario};

/// The most renamings that are tried per state. With fewer than there are, some states are explored more than once.
pub const MAX_RENAMINGS: usize = 720;

/// The renamings of a scenario, and what they do to numbered cells and messages.
pub struct Symmetry<'s> {
    parties: usize,
    renamings: Vec<Renaming<'s>>,
    renamed: RwLock<HashMap<(usize, Part, u32), u32>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Part {
    Cell,
    Message,
}

/// Other names for the same things.
#[derive(Debug, Clone)]
pub struct Renaming<'s> {
    /// Party k plays the part of party `parties[k]`.
    parties: Vec<usize>,
    devices: HashMap<DeviceId, DeviceId>,
    items: HashMap<ItemId, ItemId>,
    /// The value of each item at its owner.
    values: HashMap<ItemId, &'s Value>,
}

impl<'s> Symmetry<'s> {
    /// All renamings of a scenario, or none but the identity.
    pub fn new(scenario: &'s Scenario, wanted: bool) -> Self {
        let parties = scenario.parties.len();
        let renamings = if wanted { renamings(scenario) } else { Vec::new() };
        Self { parties, renamings, renamed: RwLock::default() }
    }

    /// The least renaming of a row of cells and messages; `None` if there are no renamings.
    pub fn representative(
        &self,
        row: &[u32],
        cell: impl Fn(&Renaming<'s>, u32) -> u32,
        message: impl Fn(&Renaming<'s>, u32) -> u32,
    ) -> Option<Vec<u32>> {
        let renamed = |at: usize, renaming: &Renaming<'s>, part: Part, number: u32| {
            let known = self.renamed.read().unwrap_or_else(PoisonError::into_inner).get(&(at, part, number)).copied();
            known.unwrap_or_else(|| {
                let new = match part {
                    Part::Cell => cell(renaming, number),
                    Part::Message => message(renaming, number),
                };
                self.renamed.write().unwrap_or_else(PoisonError::into_inner).insert((at, part, number), new);
                new
            })
        };
        let (cells, messages) = row.split_at(self.parties.min(row.len()));
        let rename = |(at, renaming): (usize, &Renaming<'s>)| {
            let mut new = vec![0; cells.len()];
            for (from, to) in cells.iter().zip(&renaming.parties) {
                if let Some(slot) = new.get_mut(*to) {
                    *slot = renamed(at, renaming, Part::Cell, *from);
                }
            }
            let mut others: Vec<u32> =
                messages.iter().map(|number| renamed(at, renaming, Part::Message, *number)).collect();
            others.sort_unstable();
            new.extend(others);
            new
        };
        self.renamings.iter().enumerate().map(rename).min()
    }

    /// Whether an assignment of something to each party comes first among its renamings.
    pub fn is_least<T: Ord + Clone>(&self, assignment: &[T]) -> bool {
        self.renamings.iter().all(|renaming| {
            let mut renamed = assignment.to_vec();
            for (from, to) in assignment.iter().zip(&renaming.parties) {
                if let Some(slot) = renamed.get_mut(*to) {
                    slot.clone_from(from);
                }
            }
            assignment <= renamed.as_slice()
        })
    }
}

/// Every way to rename interchangeable parties and items, up to [`MAX_RENAMINGS`].
fn renamings(scenario: &Scenario) -> Vec<Renaming<'_>> {
    let parties = &scenario.parties;
    let mut orders: Vec<Vec<usize>> = vec![Vec::new()];
    for party in parties {
        let fits = |at: &usize| parties.get(*at).is_some_and(|other| are_interchangeable(party, other, scenario));
        let candidates: Vec<usize> = (0..parties.len()).filter(fits).collect();
        let longer = orders.iter().flat_map(|order| {
            let free = candidates.iter().filter(|at| !order.contains(at));
            free.map(|at| [order.as_slice(), &[*at]].concat())
        });
        orders = longer.take(MAX_RENAMINGS).collect();
    }
    orders.retain(|order| order.len() == parties.len());
    let mut renamings = Vec::new();
    for order in orders {
        if renamings.len() >= MAX_RENAMINGS {
            break;
        }
        let moved = || parties.iter().zip(&order).filter_map(|(party, to)| Some((party, parties.get(*to)?)));
        let devices = moved().map(|(party, to)| (party.device, to.device)).collect::<HashMap<_, _>>();
        let mut choices: Vec<Vec<(ItemId, ItemId)>> = vec![Vec::new()];
        for (party, to) in moved() {
            for item in &party.items {
                let fits = |new: &ItemId| are_alike((party, *item), (to, *new), scenario);
                let fitting: Vec<ItemId> = to.items.iter().copied().filter(fits).collect();
                let longer = choices.iter().flat_map(|choice| {
                    let free = fitting.iter().filter(|new| !choice.iter().any(|(_, taken)| taken == *new));
                    free.map(|new| [choice.as_slice(), &[(*item, *new)]].concat())
                });
                choices = longer.take(MAX_RENAMINGS).collect();
            }
        }
        let values = parties.iter().flat_map(|party| {
            party.items.iter().filter_map(|item| Some((*item, party.values.get(&Variable::Item(*item))?)))
        });
        let values: HashMap<ItemId, &Value> = values.collect();
        renamings.extend(choices.into_iter().map(|items| Renaming {
            parties: order.clone(),
            devices: devices.clone(),
            items: items.into_iter().collect(),
            values: values.clone(),
        }));
    }
    renamings.truncate(MAX_RENAMINGS);
    renamings
}

/// Whether one item may be called like another, of the same party or of another.
fn are_alike((party, item): (&Party, ItemId), (other, new): (&Party, ItemId), scenario: &Scenario) -> bool {
    let datatype = |item: ItemId| scenario.vocabulary.directory().item(item).map(|item| item.datatype);
    let has_value = |party: &Party, item: ItemId| party.values.contains_key(&Variable::Item(item));
    let is_read = |item: ItemId| scenario.policies.iter().any(|(_, policy)| policy.reads(Variable::Item(item)));
    item == new
        || (datatype(item) == datatype(new)
            && has_value(party, item) == has_value(other, new)
            && !is_read(item)
            && !is_read(new))
}

fn are_interchangeable(one: &Party, other: &Party, scenario: &Scenario) -> bool {
    let directory = scenario.vocabulary.directory();
    let kinds = |party: &Party| {
        let mut kinds: Vec<_> =
            party.items.iter().map(|item| directory.item(*item).map(|item| item.datatype)).collect();
        kinds.sort_unstable();
        kinds
    };
    let attributes = |party: &Party| {
        let values = party.values.iter().filter(|(variable, _)| !matches!(variable, Variable::Item(_)));
        values.map(|(variable, value)| (*variable, value.clone())).collect::<BTreeMap<_, _>>()
    };
    let is_same_graph = one.graph.name == other.graph.name && one.graph.edges == other.graph.edges;
    one.role == other.role
        && is_same_graph
        && directory.entity(one.device) == directory.entity(other.device)
        && (&one.choices, &one.first_choices) == (&other.choices, &other.first_choices)
        && (one.changes, one.restarts) == (other.changes, other.restarts)
        && kinds(one) == kinds(other)
        && attributes(one) == attributes(other)
}

impl Renaming<'_> {
    fn device(&self, device: DeviceId) -> DeviceId {
        self.devices.get(&device).copied().unwrap_or(device)
    }

    fn item(&self, item: ItemId) -> ItemId {
        self.items.get(&item).copied().unwrap_or(item)
    }

    /// An item's value becomes the value of the other item; a value that is not the item's stays as wrong as it is.
    fn value(&self, item: ItemId, value: &Value) -> Value {
        let is_its_own = self.values.get(&item).is_some_and(|own| *own == value);
        let new = self.values.get(&self.item(item)).filter(|_| is_its_own);
        new.map_or(value, |new| new).clone()
    }

    fn receipt(&self, receipt: &Receipt) -> Receipt {
        Receipt { item: self.item(receipt.item), sender: self.device(receipt.sender), policy: receipt.policy }
    }

    /// A device's share of the state.
    pub fn state(&self, state: &DeviceState) -> DeviceState {
        let values = state.values.iter().map(|(variable, value)| match variable {
            Variable::Item(item) => (Variable::Item(self.item(*item)), self.value(*item, value)),
            other => (*other, value.clone()),
        });
        DeviceState {
            values: values.collect(),
            policies: state.policies.iter().map(|(of, policy)| (self.device(*of), *policy)).collect(),
            received: state.received.iter().map(|receipt| self.receipt(receipt)).collect(),
        }
    }

    /// Whose part a party plays.
    pub fn place(&self, party: usize) -> usize {
        self.parties.get(party).copied().unwrap_or(party)
    }

    /// A device's ghosts.
    pub fn ghosts(&self, ghosts: &Ghosts) -> Ghosts {
        Ghosts {
            provenance: ghosts.provenance.iter().map(|(receipt, how)| (self.receipt(receipt), *how)).collect(),
            withdrawn: ghosts.withdrawn.iter().map(|(item, epoch)| (self.item(*item), *epoch)).collect(),
            owed: ghosts
                .owed
                .iter()
                .map(|((item, to), epoch)| ((self.item(*item), self.device(*to)), *epoch))
                .collect(),
            uploaded: ghosts.uploaded.iter().map(|(of, policy)| (self.device(*of), *policy)).collect(),
        }
    }

    fn memory(&self, memory: &Memory) -> Memory {
        let with_peer = |((item, peer), withdrawal): (&(ItemId, DeviceId), &_)| {
            ((self.item(*item), self.device(*peer)), *withdrawal)
        };
        Memory {
            current: memory.current.clone(),
            published: memory.published.clone(),
            catalogue: memory.catalogue.iter().map(|(of, policy)| (self.device(*of), *policy)).collect(),
            released: memory.released.iter().map(|(receipt, epoch)| (self.receipt(receipt), *epoch)).collect(),
            asked: memory.asked.iter().map(|(of, policy)| (self.device(*of), *policy)).collect(),
            recipients: memory.recipients.iter().map(with_peer).collect(),
            notices: memory.notices.iter().map(with_peer).collect(),
            tombstones: memory.tombstones.iter().map(|(item, withdrawal)| (self.item(*item), *withdrawal)).collect(),
            refused: memory.refused.clone(),
        }
    }

    /// Everything about a device.
    pub fn cell(&self, cell: &Cell, scenario: &Scenario) -> Cell {
        let mut new = cell.clone();
        new.party = self.place(cell.party);
        new.device.id = self.device(cell.device.id);
        new.device.state = self.state(&cell.device.state);
        new.device.memory = self.memory(&cell.device.memory);
        new.ghosts = self.ghosts(&cell.ghosts);
        for instance in &mut new.instances {
            instance.item = instance.item.map(|item| self.item(item));
            if let Some(exchange) = &mut instance.exchange {
                exchange.peer = self.device(exchange.peer);
            }
        }
        // Instances stand in the order of their party's items.
        let place = |item: Option<ItemId>| {
            let items = scenario.parties.get(new.party).map_or(&[][..], |party| &party.items);
            items.iter().position(|known| Some(*known) == item)
        };
        new.instances.sort_by_key(|instance| place(instance.item));
        new
    }

    /// A message and what goes with it.
    pub fn transit(&self, transit: &Transit) -> Transit {
        let Transit { message, evidence } = transit;
        let release = |release: &Release| Release {
            item: self.item(release.item),
            value: release.value.as_ref().map(|value| self.value(release.item, value)),
            ..release.clone()
        };
        let body = match &message.body {
            Body::Send(sent) => Body::Send(release(sent)),
            Body::Broadcast(sent) => Body::Broadcast(release(sent)),
            Body::DownloadPolicies { offers } => {
                let mut offers: Vec<_> = offers.iter().map(|(of, policy)| (self.device(*of), *policy)).collect();
                offers.sort_unstable();
                Body::DownloadPolicies { offers }
            }
            Body::Withdraw { item, withdrawal } => Body::Withdraw { item: self.item(*item), withdrawal: *withdrawal },
            other => other.clone(),
        };
        let value = evidence.value.as_ref();
        let value = value.map(|value| message.item().map_or(value.clone(), |item| self.value(item, value)));
        let claim = evidence.claim.as_ref().map(|claim| self.claim(claim));
        let mut listed: Vec<Claim> = evidence.listed.iter().map(|claim| self.claim(claim)).collect();
        listed.sort_unstable();
        Transit {
            message: Message { sender: self.device(message.sender), receiver: self.device(message.receiver), body },
            evidence: Evidence { claim, listed, value, ..*evidence },
        }
    }

    fn claim(&self, claim: &Claim) -> Claim {
        let handover = |handover: &Handover| Handover {
            sender: self.device(handover.sender),
            receiver: self.device(handover.receiver),
            item: self.item(handover.item),
            policy: handover.policy,
        };
        match claim {
            Claim::Request { sender, policy } => Claim::Request { sender: self.device(*sender), policy: *policy },
            Claim::Send(sent) => Claim::Send(handover(sent)),
            Claim::Transfer(sent) => Claim::Transfer(handover(sent)),
        }
    }
}
