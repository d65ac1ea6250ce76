//! Var and η of Def. 3: the variables of a device and of the graph instances that run on it (S13).

use alloc::collections::{BTreeMap, BTreeSet};

use super::message::Withdrawal;
use super::{Graph, Location};
use crate::semantics::{DeviceState, Epoch, PolicyId, Receipt};
use crate::vocabulary::{DeviceId, Entity, ItemId};

/// A device: everything that survives when an exchange ends.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Device {
    /// d.
    pub id: DeviceId,
    /// Its share of ⟨ν, π, ρ⟩.
    pub state: DeviceState,
    /// Its other variables.
    pub memory: Memory,
}

/// Variables that the abstract semantics does not have.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Memory {
    /// p_dc: a controller's policies as they are now; older published ones stay in π (S17).
    pub current: BTreeSet<PolicyId>,
    /// What a controller has published and not withdrawn.
    pub published: BTreeSet<PolicyId>,
    /// Π_DCs: what a repository lists, one policy per device (S19).
    pub catalogue: BTreeMap<DeviceId, PolicyId>,
    /// When the owner released what is held here; the last time, if she did so again under the same policy.
    pub released: BTreeMap<Receipt, Epoch>,
    /// From whom a controller has asked for data, under which policy.
    pub asked: BTreeSet<(DeviceId, PolicyId)>,
    /// Who may have got an item from here, and what a withdrawal of it must cover.
    pub recipients: BTreeMap<(ItemId, DeviceId), Withdrawal>,
    /// Withdraw notices to pass on.
    pub notices: BTreeMap<(ItemId, DeviceId), Withdrawal>,
    /// Items of which releases are withdrawn.
    pub tombstones: BTreeMap<ItemId, Withdrawal>,
    /// Entities from which a subject has withdrawn.
    pub refused: BTreeSet<Entity>,
}

/// A graph at work on a device: its location and the variables of the current exchange.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instance {
    /// σ.
    pub location: Location,
    /// i, for a subject's instance.
    pub item: Option<ItemId>,
    /// With whom the current exchange is, and about which policy.
    pub exchange: Option<Exchange>,
}

/// With whom the current exchange is, and about which policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Exchange {
    /// dc, dc′ or ds.
    pub peer: DeviceId,
    /// p_dc or p_dc′; a request for policies has none.
    pub policy: Option<PolicyId>,
}

impl Memory {
    /// Who may have got an item from here, and what a withdrawal of it must cover.
    pub fn recipients_of(&self, item: ItemId) -> impl Iterator<Item = (DeviceId, Withdrawal)> {
        of_item(&self.recipients, item)
    }

    /// The withdraw notices about an item that are to be passed on.
    pub fn notices_of(&self, item: ItemId) -> impl Iterator<Item = (DeviceId, Withdrawal)> {
        of_item(&self.notices, item)
    }
}

/// The entries about an item.
fn of_item(
    entries: &BTreeMap<(ItemId, DeviceId), Withdrawal>,
    item: ItemId,
) -> impl Iterator<Item = (DeviceId, Withdrawal)> {
    let from_here = entries.range((item, DeviceId(0))..).take_while(move |((of, _), _)| *of == item);
    from_here.map(|((_, device), withdrawal)| (*device, *withdrawal))
}

impl Device {
    /// A device that knows nothing yet.
    pub fn new(id: DeviceId) -> Self {
        Self { id, state: DeviceState::default(), memory: Memory::default() }
    }

    /// Whether a variable mentions an item.
    pub fn mentions_item(&self, item: ItemId) -> bool {
        self.state.value(item).is_some()
            || self.state.receipts_of(item).next().is_some()
            || self.memory.tombstones.contains_key(&item)
            || self.memory.recipients_of(item).next().is_some()
            || self.memory.notices_of(item).next().is_some()
    }

    /// Whether this is the device itself, or one whose policies it knows or lists, or which it has asked for data.
    pub fn has_policies_of(&self, device: DeviceId) -> bool {
        let asked = (device, PolicyId(0))..=(device, PolicyId(u32::MAX));
        self.id == device
            || self.state.policies_of(device).next().is_some()
            || self.memory.catalogue.contains_key(&device)
            || self.memory.asked.range(asked).next().is_some()
    }

    /// Every device from which it has an item or which may have one from it, some of them several times. Together with
    /// [`Device::has_policies_of`], these are the devices that its variables mention.
    pub fn devices_with_items(&self) -> impl Iterator<Item = DeviceId> {
        let given = self.memory.recipients.keys().chain(self.memory.notices.keys()).map(|(_, receiver)| *receiver);
        self.state.received.iter().map(|receipt| receipt.sender).chain(given)
    }

    /// Every policy that a variable mentions, some of them several times.
    pub fn policies_mentioned(&self) -> impl Iterator<Item = PolicyId> {
        let memory = &self.memory;
        let pairs = self.state.policies.iter().chain(&memory.asked).map(|(_, policy)| *policy);
        let sets = memory.current.iter().chain(&memory.published).chain(memory.catalogue.values()).copied();
        // INVARIANT: `released` has the receipts of `received`, and no others.
        pairs.chain(sets).chain(self.state.received.iter().map(|receipt| receipt.policy))
    }
}

impl Instance {
    /// A graph at its start.
    pub const fn new(graph: &Graph<'_>) -> Self {
        Self { location: graph.initial, item: None, exchange: None }
    }
}
