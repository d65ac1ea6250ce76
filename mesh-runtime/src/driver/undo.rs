//! What a step may change, as it was before: to take a step back that could not be recorded, and to see whether it
//! changed anything.
//!
//! A device can hold many thousands of items and policies, so this is not a copy of it. A step touches what its action
//! names (an item, a sender, a receiver) and, for a few effects, a whole variable.

use std::collections::BTreeSet;

use pilot_core::graph::message::Withdrawal;
use pilot_core::graph::{Action, Device, Effect, Instance, Memory};
use pilot_core::semantics::{Epoch, PolicyId, Receipt};
use pilot_core::value::Value;
use pilot_core::vocabulary::{DeviceId, Entity, ItemId, Variable};

/// What a step may change, as it was.
pub(super) struct Before {
    instance: Instance,
    near: Near,
}

/// The part of a device that a step may change.
#[derive(PartialEq, Eq)]
struct Near {
    current: BTreeSet<PolicyId>,
    published: BTreeSet<PolicyId>,
    refused: BTreeSet<Entity>,
    item: Option<AboutItem>,
    sender: Option<AboutSender>,
    policies: Option<BTreeSet<(DeviceId, PolicyId)>>,
    asked: Option<BTreeSet<(DeviceId, PolicyId)>>,
}

/// Everything about one item.
#[derive(PartialEq, Eq)]
struct AboutItem {
    item: ItemId,
    value: Option<Value>,
    receipts: Vec<(Receipt, Option<Epoch>)>,
    tombstone: Option<Withdrawal>,
    recipients: Vec<(DeviceId, Withdrawal)>,
    notices: Vec<(DeviceId, Withdrawal)>,
}

/// What is known of a sender's policies.
#[derive(PartialEq, Eq)]
struct AboutSender {
    sender: DeviceId,
    policies: Vec<PolicyId>,
    listed: Option<PolicyId>,
}

impl Before {
    /// Keeps what a step with these effects may change.
    pub(super) fn new(instance: &Instance, device: &Device, action: &Action, effects: &[Effect]) -> Self {
        Self { instance: instance.clone(), near: Near::new(device, action, effects) }
    }

    /// Whether nothing has changed.
    pub(super) fn is_still(&self, instance: &Instance, device: &Device, action: &Action, effects: &[Effect]) -> bool {
        self.instance == *instance && self.near == Near::new(device, action, effects)
    }

    /// Makes everything as it was.
    pub(super) fn restore(self, instance: &mut Instance, device: &mut Device) {
        *instance = self.instance;
        self.near.restore(device);
    }
}

impl Near {
    fn new(device: &Device, action: &Action, effects: &[Effect]) -> Self {
        let changes = |some: &[Effect]| effects.iter().any(|effect| some.contains(effect));
        let memory = &device.memory;
        let all_policies = changes(&[
            Effect::AdoptOwn,
            Effect::RestoreOffers,
            Effect::ReplaceOwn,
            Effect::ReplaceOffers,
            Effect::Unpublish,
        ]);
        let all_asked = changes(&[Effect::RememberAsking, Effect::Unpublish]);
        Self {
            current: memory.current.clone(),
            published: memory.published.clone(),
            refused: memory.refused.clone(),
            item: action.item().map(|item| AboutItem::new(item, device)),
            sender: action.message().map(|message| AboutSender::new(message.sender, device)),
            policies: all_policies.then(|| device.state.policies.clone()),
            asked: all_asked.then(|| memory.asked.clone()),
        }
    }

    fn restore(self, device: &mut Device) {
        let memory = &mut device.memory;
        (memory.current, memory.published, memory.refused) = (self.current, self.published, self.refused);
        if let Some(asked) = self.asked {
            memory.asked = asked;
        }
        if let Some(sender) = self.sender {
            sender.restore(device);
        }
        if let Some(item) = self.item {
            item.restore(device);
        }
        if let Some(policies) = self.policies {
            device.state.policies = policies;
        }
    }
}

impl AboutSender {
    fn new(sender: DeviceId, device: &Device) -> Self {
        let listed = device.memory.catalogue.get(&sender).copied();
        Self { sender, policies: device.state.policies_of(sender).collect(), listed }
    }

    fn restore(self, device: &mut Device) {
        let known: Vec<PolicyId> = device.state.policies_of(self.sender).collect();
        for policy in known {
            device.state.policies.remove(&(self.sender, policy));
        }
        device.state.policies.extend(self.policies.into_iter().map(|policy| (self.sender, policy)));
        let catalogue = &mut device.memory.catalogue;
        match self.listed {
            Some(policy) => catalogue.insert(self.sender, policy),
            None => catalogue.remove(&self.sender),
        };
    }
}

impl AboutItem {
    fn new(item: ItemId, device: &Device) -> Self {
        let memory = &device.memory;
        Self {
            item,
            value: device.state.value(item).cloned(),
            receipts: receipts(item, device).map(|receipt| (receipt, memory.released.get(&receipt).copied())).collect(),
            tombstone: memory.tombstones.get(&item).copied(),
            recipients: memory.recipients_of(item).collect(),
            notices: memory.notices_of(item).collect(),
        }
    }

    fn restore(self, device: &mut Device) {
        self.restore_memory(&mut device.memory);
        let item = self.item;
        let held: Vec<Receipt> = receipts(item, device).collect();
        for receipt in held {
            device.state.received.remove(&receipt);
            device.memory.released.remove(&receipt);
        }
        for (receipt, released) in self.receipts {
            device.state.received.insert(receipt);
            device.memory.released.extend(released.map(|epoch| (receipt, epoch)));
        }
        match self.value {
            Some(value) => device.state.values.insert(Variable::Item(item), value),
            None => device.state.values.remove(&Variable::Item(item)),
        };
    }

    fn restore_memory(&self, memory: &mut Memory) {
        let item = self.item;
        match self.tombstone {
            Some(tombstone) => memory.tombstones.insert(item, tombstone),
            None => memory.tombstones.remove(&item),
        };
        let recipients: Vec<DeviceId> = memory.recipients_of(item).map(|(device, _)| device).collect();
        for device in recipients {
            memory.recipients.remove(&(item, device));
        }
        memory.recipients.extend(self.recipients.iter().map(|(device, covered)| ((item, *device), *covered)));
        let notices: Vec<DeviceId> = memory.notices_of(item).map(|(device, _)| device).collect();
        for device in notices {
            memory.notices.remove(&(item, device));
        }
        memory.notices.extend(self.notices.iter().map(|(device, owed)| ((item, *device), *owed)));
    }
}

fn receipts(item: ItemId, device: &Device) -> impl Iterator<Item = Receipt> {
    device.state.receipts_of(item).copied()
}
