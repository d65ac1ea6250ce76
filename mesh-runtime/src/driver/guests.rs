//! Devices, items and policies that come and go, and the end of their ids.
//!
//! The directory starts with those that a device will always know. Everybody else is a *guest*: the owner of an address
//! that was heard, an anonymous subject that asks a repository. A guest gets ids when it is introduced, so that a message
//! can be judged, and loses them as soon as no variable and no waiting message mentions it: a refused message leaves
//! nothing behind, and an item is forgotten with its tombstone. Policies that arrive with messages go the same way,
//! later and many at once, because a policy is not personal.

use std::collections::{BTreeMap, BTreeSet};

use pilot_core::graph::Message;
use pilot_core::policy::Policy;
use pilot_core::semantics::PolicyId;
use pilot_core::vocabulary::{DataType, DeviceId, Item, ItemId};

use super::counts::add;
use super::{Driver, Record};

/// The most guests: more than there can be items held, tombstones and waiting messages together. Full: nobody is
/// introduced, so nothing is collected from strangers.
pub const MAX_GUESTS: usize = 262_144;

/// The most policies that have an id. Full: a message with a policy not seen before cannot be received.
pub const MAX_POLICIES: usize = 524_288;

/// Below this many policies of guests nobody looks for those out of use.
const FEW_POLICIES: usize = 1_024;

/// A device that is known for as long as something mentions it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guest {
    /// Its id.
    pub device: DeviceId,
    /// The id of its item, if it has one.
    pub item: Option<ItemId>,
}

/// A table is full: see [`MAX_GUESTS`] and [`MAX_POLICIES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no room for another device or policy")]
pub struct NoRoom;

#[derive(Debug, Default)]
pub(super) struct Guests {
    items: BTreeMap<DeviceId, Option<ItemId>>,
    /// Introduced, and not mentioned by anything yet.
    fresh: BTreeSet<DeviceId>,
    /// Perhaps not mentioned any more.
    doubtful: BTreeSet<DeviceId>,
    policies: BTreeSet<PolicyId>,
    /// How many policies of guests there may be until somebody looks.
    enough_policies: usize,
}

impl Guests {
    /// Guests of an earlier run, whom the device's variables mention.
    pub(super) fn known(guests: Vec<Guest>) -> Self {
        Self { items: guests.into_iter().map(|guest| (guest.device, guest.item)).collect(), ..Self::default() }
    }
}

impl<R: Record> Driver<'_, R> {
    /// Gives a stranger an id, and its item if it has one. To be called right before the message that names it is
    /// received: at the next [`Driver::poll`], a guest that nothing mentions is gone.
    pub fn introduce(&mut self, item: Option<DataType>) -> Result<Guest, NoRoom> {
        if self.guests.items.len() >= MAX_GUESTS {
            add(&mut self.counts.unknown);
            return Err(NoRoom);
        }
        let device = self.world.directory.add_stranger();
        let item = item.map(|datatype| self.world.directory.add_item(Item { datatype, owner: device }));
        self.guests.items.insert(device, item);
        self.guests.fresh.insert(device);
        Ok(Guest { device, item })
    }

    /// Gives a policy an id, right before the message or decision that names it. Once nothing mentions it, it loses its
    /// id at some later [`Driver::poll`]; so look policies up again by their digest, and keep no ids.
    pub fn intern(&mut self, policy: Policy) -> Result<PolicyId, NoRoom> {
        let count = self.world.policies.count();
        if count >= MAX_POLICIES {
            add(&mut self.counts.unknown);
            return Err(NoRoom);
        }
        let id = self.world.policies.intern(policy, self.world.judge.vocabulary);
        if self.world.policies.count() > count {
            self.guests.policies.insert(id);
        }
        Ok(id)
    }

    /// How many guests there are.
    pub fn guests(&self) -> usize {
        self.guests.items.len()
    }

    /// The guests of a message are mentioned by something from now on.
    pub(super) fn settle(&mut self, message: &Message) {
        for device in [message.sender, message.receiver] {
            self.guests.fresh.remove(&device);
        }
    }

    /// After a step or a message: who in it is perhaps not mentioned any more? Guests that never were leave at once.
    pub(super) fn doubt(&mut self, devices: [Option<DeviceId>; 3], gone: &mut Vec<Guest>) {
        for device in devices.into_iter().flatten() {
            let Some(item) = self.guests.items.get(&device).copied() else { continue };
            if self.guests.fresh.contains(&device) {
                gone.push(self.dismiss(device));
            } else if !item.is_some_and(|item| self.device.mentions_item(item)) {
                self.guests.doubtful.insert(device);
            }
        }
    }

    /// Looks at every guest again, for those who were kept because of something that has ended without them.
    pub(super) fn doubt_everybody(&mut self) {
        let of_no_item = |item: &Option<ItemId>| !item.is_some_and(|item| self.device.mentions_item(item));
        let doubtful = self.guests.items.iter().filter(|(_, item)| of_no_item(item)).map(|(device, _)| *device);
        self.guests.doubtful = doubtful.collect();
    }

    /// Dismisses everybody whom nothing mentions. Called when nobody is in the middle of introducing somebody.
    pub(super) fn dismiss_unmentioned(&mut self) -> Vec<Guest> {
        let fresh = std::mem::take(&mut self.guests.fresh);
        let mut gone: Vec<Guest> = fresh.into_iter().map(|device| self.dismiss(device)).collect();
        let doubtful = std::mem::take(&mut self.guests.doubtful);
        if !doubtful.is_empty() {
            let mut mentioned: BTreeSet<DeviceId> = self.device.devices_with_items().collect();
            mentioned.extend(self.inbox.iter().flat_map(|message| [message.sender, message.receiver]));
            mentioned.extend(self.seats.iter().filter_map(|seat| Some(seat.instance.exchange?.peer)));
            let is_unmentioned = |device: &DeviceId| {
                let item = self.guests.items.get(device).copied().flatten();
                !mentioned.contains(device)
                    && !self.device.has_policies_of(*device)
                    && !item.is_some_and(|item| self.is_item_mentioned(item))
            };
            let unmentioned: Vec<DeviceId> = doubtful.into_iter().filter(is_unmentioned).collect();
            gone.extend(unmentioned.into_iter().map(|device| self.dismiss(device)));
        }
        self.drop_policies();
        gone
    }

    fn is_item_mentioned(&self, item: ItemId) -> bool {
        self.device.mentions_item(item) || self.inbox.iter().any(|message| message.item() == Some(item))
    }

    fn dismiss(&mut self, device: DeviceId) -> Guest {
        let item = self.guests.items.remove(&device).flatten();
        self.guests.fresh.remove(&device);
        self.guests.doubtful.remove(&device);
        self.world.directory.remove_device(device);
        if let Some(item) = item {
            self.world.directory.remove_item(item);
        }
        Guest { device, item }
    }

    /// Takes policies out of the table that nothing mentions, whenever their number has doubled.
    fn drop_policies(&mut self) {
        if self.guests.policies.len() <= self.guests.enough_policies.max(FEW_POLICIES) {
            return;
        }
        let mut in_use: BTreeSet<PolicyId> = self.device.policies_mentioned().collect();
        in_use.extend(self.inbox.iter().filter_map(Message::policy));
        in_use.extend(self.inbox.iter().flat_map(|message| message.offers().iter().map(|(_, policy)| *policy)));
        in_use.extend(self.seats.iter().filter_map(|seat| seat.instance.exchange?.policy));
        let gone = &self.guests.policies - &in_use;
        for policy in &gone {
            self.world.policies.remove(*policy);
            self.guests.policies.remove(policy);
        }
        self.paces.forget_policies(&|policy| gone.contains(&policy));
        self.guests.enough_policies = self.guests.policies.len().saturating_mul(2);
    }
}
