//! The privacy requirements: 1 and 2 of §5, 3 which the paper announces, 4 and 5 which are ours.
//!
//! Requirements 1 to 3 speak of the moment of release (S20), so they read a receipt and its ghost; 4 and 5 speak of
//! what is held now.

use core::fmt;

use super::context::{Context, PolicyId};
use super::state::{DeviceState, Ghosts, Provenance, Receipt};
use crate::vocabulary::ItemId;

/// A privacy requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Requirement {
    /// 1: data subject policy compliance.
    Compliance,
    /// 2: informed consent for collection.
    InformedCollection,
    /// 3: informed consent for transfer.
    InformedTransfer,
    /// 4: storage limitation.
    StorageLimitation,
    /// 5: withdrawal.
    Withdrawal,
}

impl Requirement {
    /// Every requirement, by number.
    pub const ALL: [Self; 5] =
        [Self::Compliance, Self::InformedCollection, Self::InformedTransfer, Self::StorageLimitation, Self::Withdrawal];

    /// Its number.
    pub const fn number(self) -> u8 {
        match self {
            Self::Compliance => 1,
            Self::InformedCollection => 2,
            Self::InformedTransfer => 3,
            Self::StorageLimitation => 4,
            Self::Withdrawal => 5,
        }
    }

    /// Whether what a device holds by a receipt meets it. Erasing sweeps may take `sweep_seconds`.
    pub fn holds(self, receipt: &Receipt, ghosts: &Ghosts, sweep_seconds: u64, cx: &Context<'_>) -> bool {
        let provenance = ghosts.provenance.get(receipt);
        match self {
            Self::Compliance => provenance.is_some_and(|provenance| compliance(receipt, provenance, cx)),
            Self::InformedCollection => {
                provenance.is_some_and(|provenance| informed_collection(receipt, provenance, cx))
            }
            Self::InformedTransfer => provenance.is_some_and(|provenance| informed_transfer(receipt, provenance, cx)),
            Self::StorageLimitation => storage_limitation(receipt, sweep_seconds, cx),
            Self::Withdrawal => withdrawal(receipt, ghosts),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "requirement-{}", self.number())
    }
}

/// Requirement 1: p_i ⊑ q, or a transfer rule of q allows it (S2), for the owner's policy q at release (S20).
pub fn compliance(receipt: &Receipt, provenance: &Provenance, cx: &Context<'_>) -> bool {
    provenance.own.is_some_and(|own| {
        cx.is_about(own, receipt.item) && (cx.subsumes(receipt.policy, own) || covers_transfer(own, receipt.policy, cx))
    })
}

/// Requirement 2: before a controller received an item from its owner, she had its policy, about the item.
pub fn informed_collection(receipt: &Receipt, provenance: &Provenance, cx: &Context<'_>) -> bool {
    let collected = cx.owner(receipt.item) == Some(receipt.sender);
    !collected
        || (provenance.shown && provenance.offered == receipt.policy && cx.is_about(receipt.policy, receipt.item))
}

/// Requirement 3: before a controller received an item from another, that one had its policy, about the item, and the
/// policy under which the owner released the item has a transfer rule that covers it.
pub fn informed_transfer(receipt: &Receipt, provenance: &Provenance, cx: &Context<'_>) -> bool {
    let transferred = cx.owner(receipt.item) != Some(receipt.sender);
    !transferred
        || (provenance.known_to_sender == Some(true) && covers_transfer(provenance.offered, receipt.policy, cx))
}

/// Requirement 4: no item is held at or past its deadline, plus the seconds an erasing sweep may take.
pub fn storage_limitation(receipt: &Receipt, sweep_seconds: u64, cx: &Context<'_>) -> bool {
    let deadline = cx.retention(receipt.policy);
    deadline.is_some_and(|deadline| cx.now.unix() < deadline.unix().saturating_add(sweep_seconds))
}

/// Requirement 5: what the owner has withdrawn is not held once the notice was delivered, and does not come back.
pub fn withdrawal(receipt: &Receipt, ghosts: &Ghosts) -> bool {
    let Some(withdrawn) = ghosts.withdrawn.get(&receipt.item) else { return true };
    ghosts.provenance.get(receipt).is_some_and(|provenance| provenance.epoch > *withdrawn)
}

/// ∃ tr ∈ q.TR · p ⊑ (q.t, tr, q.TR).
fn covers_transfer(q: PolicyId, p: PolicyId, cx: &Context<'_>) -> bool {
    cx.policy(q).is_some_and(|q| q.transfers().iter().any(|rule| cx.subsumes_parts(p, q.with_collection(rule))))
}

/// The items that `device` holds at or past their deadline.
pub fn overdue(device: &DeviceState, cx: &Context<'_>) -> impl Iterator<Item = ItemId> {
    device.received.iter().filter(|receipt| !storage_limitation(receipt, 0, cx)).map(|receipt| receipt.item)
}
