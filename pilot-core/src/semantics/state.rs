//! Def. 2: the system state ⟨ν, π, ρ⟩, held as one share per device, and its ghosts.

use alloc::collections::{BTreeMap, BTreeSet};

use super::context::PolicyId;
use crate::evaluate::Values;
use crate::value::{Time, Value};
use crate::vocabulary::{DeviceId, ItemId, Variable};

/// ⟨ν, π, ρ⟩ of all devices, with their ghosts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    /// Each device's share of the state, and its ghosts.
    pub devices: BTreeMap<DeviceId, (DeviceState, Ghosts)>,
}

/// What requirements and S17 speak of and the semantics does not have: how each receipt came about, what was withdrawn,
/// and who vouched for what.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ghosts {
    /// How each receipt came about (S20).
    pub provenance: BTreeMap<Receipt, Provenance>,
    /// Withdraw notices that were delivered: about what, up to which epoch.
    pub withdrawn: BTreeMap<ItemId, Epoch>,
    /// Withdraw notices that have to be passed on: about what, to whom, up to which epoch.
    pub owed: BTreeMap<(ItemId, DeviceId), Epoch>,
    /// Policies in uploads that passed through here, by the controllers that vouched for them (S17).
    pub uploaded: BTreeSet<(DeviceId, PolicyId)>,
}

/// A device's share of ν, π and ρ; the program graphs that run on the device share it (S13).
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceState {
    /// ν_d.
    pub values: Values,
    /// π_d: (d, p) for its own policies, (e, p) for those that e sent.
    pub policies: BTreeSet<(DeviceId, PolicyId)>,
    /// ρ_d.
    pub received: BTreeSet<Receipt>,
}

/// (s, i, p) ∈ ρ_d: item i came from s and is bound by p. Ordered by item, because that is how they are looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Receipt {
    /// What it is.
    pub item: ItemId,
    /// Who sent it.
    pub sender: DeviceId,
    /// How it must be used.
    pub policy: PolicyId,
}

impl DeviceState {
    /// The policies that `of` defined, as far as this device knows.
    pub fn policies_of(&self, of: DeviceId) -> impl Iterator<Item = PolicyId> {
        // To find where a range ends costs more than to see it when one gets there: these are few.
        let from_here = self.policies.range((of, PolicyId(0))..);
        from_here.take_while(move |(whose, _)| *whose == of).map(|(_, policy)| *policy)
    }

    /// (of, p) ∈ π_d.
    pub fn knows(&self, of: DeviceId, policy: PolicyId) -> bool {
        self.policies.contains(&(of, policy))
    }

    /// ν(d, i); `None` is ⊥.
    pub fn value(&self, item: ItemId) -> Option<&Value> {
        self.values.get(&Variable::Item(item))
    }

    /// The receipts of one item.
    pub fn receipts_of(&self, item: ItemId) -> impl Iterator<Item = &Receipt> {
        self.received.range(Receipt::first_of(item)..).take_while(move |receipt| receipt.item == item)
    }
}

impl Receipt {
    /// Where the receipts of an item begin.
    pub const fn first_of(item: ItemId) -> Self {
        Self { item, sender: DeviceId(0), policy: PolicyId(0) }
    }
}

/// How the owner let an item go (S20). Transfers inherit it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Provenance {
    /// q: an own policy of the owner, active, about the item, and covering the policy she released it under.
    pub own: Option<PolicyId>,
    /// The policy under which the owner released it.
    pub offered: PolicyId,
    /// Whether the receiver's policy was in the owner's policy base, and about the item.
    pub shown: bool,
    /// When the owner released it.
    pub epoch: Epoch,
    /// For an item that was transferred: whether the last sender knew the receiver's policy, about the item.
    pub known_to_sender: Option<bool>,
}

/// A stretch of time in which a consent counts as fresh: Unix seconds divided by [`Epoch::SECONDS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The length of an epoch.
    pub const SECONDS: u64 = 64;
    /// How many epochs a message may be early or late.
    pub const WINDOW: u64 = 2;

    /// The epoch of a moment.
    pub const fn of(time: Time) -> Self {
        Self(time.unix() / Self::SECONDS)
    }

    /// Whether a message of this epoch is accepted at `now`.
    pub const fn is_fresh_at(self, now: Time) -> bool {
        Self::of(now).0.abs_diff(self.0) <= Self::WINDOW
    }

    /// The last epoch that a message can have at `now`, as far as clocks may differ.
    pub const fn last_at(now: Time) -> Self {
        Self(Self::of(now).0.saturating_add(Self::WINDOW))
    }

    /// Whether no message of this epoch, or of one before, can be accepted any more.
    pub const fn is_over_at(self, now: Time) -> bool {
        self.0.saturating_add(Self::WINDOW) < Self::of(now).0
    }
}
