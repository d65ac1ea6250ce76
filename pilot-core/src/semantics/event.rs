//! The events of §3, and the claims into which S5 splits them.
//!
//! A message takes time. Everything that Table 2 asks of the sender is judged when the message leaves (a [`Claim`]);
//! the effect lands when it arrives (an [`Event`]).

use alloc::vec::Vec;

use super::context::PolicyId;
use super::state::{Epoch, Receipt};
use crate::value::Value;
use crate::vocabulary::{DeviceId, ItemId};

/// A change of the abstract state.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// A device defines its own policies, at first and whenever it changes them (S11; beyond Table 2).
    Own {
        /// Whose.
        device: DeviceId,
        /// Policies it has from now on.
        added: Vec<PolicyId>,
        /// Policies it no longer has.
        removed: Vec<PolicyId>,
    },
    /// request(sndr, rcv, t, p): R1, or R2 with its witness q (S6).
    Request {
        /// The controller that asks.
        sender: DeviceId,
        /// Whom it asks.
        receiver: DeviceId,
        /// p.
        policy: PolicyId,
        /// q, the comparable policy that p replaces; without one it is R1.
        replaced: Option<PolicyId>,
    },
    /// Removes (controller, p) from the policy base of a device (S19; beyond Table 2).
    Retract {
        /// Whose policy.
        controller: DeviceId,
        /// Who forgets it.
        device: DeviceId,
        /// p.
        policy: PolicyId,
    },
    /// send(sndr, rcv, i).
    Send(Delivery),
    /// transfer(sndr, rcv, i).
    Transfer(Delivery),
    /// Removes an item from ρ and ν of a controller, at its deadline or on notice (beyond Table 2).
    Erase {
        /// Who erases.
        controller: DeviceId,
        /// What.
        item: ItemId,
        /// For a withdrawal: up to which epoch the owner's releases are withdrawn.
        withdrawn: Option<Epoch>,
    },
}

/// An item arriving under a policy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Delivery {
    /// From whom to whom.
    pub handover: Handover,
    /// ν(sndr, i) when it was sent.
    pub value: Option<Value>,
}

/// What a sender vouches for when a message leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Claim {
    /// For a request, however it travels (S17).
    Request {
        /// The controller.
        sender: DeviceId,
        /// p.
        policy: PolicyId,
    },
    /// For a send.
    Send(Handover),
    /// For a transfer.
    Transfer(Handover),
}

/// Who hands what to whom, under which policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handover {
    /// sndr.
    pub sender: DeviceId,
    /// rcv.
    pub receiver: DeviceId,
    /// i.
    pub item: ItemId,
    /// p_rcv.
    pub policy: PolicyId,
}

impl Handover {
    /// The entry of ρ_rcv it makes.
    pub const fn receipt(&self) -> Receipt {
        Receipt { sender: self.sender, item: self.item, policy: self.policy }
    }
}

impl Event {
    /// The device whose share of the state the event changes.
    pub const fn device(&self) -> DeviceId {
        match self {
            Self::Own { device, .. } | Self::Retract { device, .. } => *device,
            Self::Request { receiver, .. } => *receiver,
            Self::Send(delivery) | Self::Transfer(delivery) => delivery.handover.receiver,
            Self::Erase { controller, .. } => *controller,
        }
    }

    /// The value that arrives, if an item does.
    pub const fn value(&self) -> Option<&Option<Value>> {
        match self {
            Self::Send(delivery) | Self::Transfer(delivery) => Some(&delivery.value),
            Self::Own { .. } | Self::Request { .. } | Self::Retract { .. } | Self::Erase { .. } => None,
        }
    }

    /// What the sender vouches for, where there is one.
    pub const fn claim(&self) -> Option<Claim> {
        match self {
            Self::Request { sender, policy, .. } => Some(Claim::Request { sender: *sender, policy: *policy }),
            Self::Send(delivery) => Some(Claim::Send(delivery.handover)),
            Self::Transfer(delivery) => Some(Claim::Transfer(delivery.handover)),
            Self::Own { .. } | Self::Retract { .. } | Self::Erase { .. } => None,
        }
    }
}

impl Claim {
    /// Who vouches.
    pub const fn sender(&self) -> DeviceId {
        match self {
            Self::Request { sender, .. } => *sender,
            Self::Send(handover) | Self::Transfer(handover) => handover.sender,
        }
    }

    /// For an item: who hands what to whom.
    pub const fn handover(&self) -> Option<&Handover> {
        match self {
            Self::Request { .. } => None,
            Self::Send(handover) | Self::Transfer(handover) => Some(handover),
        }
    }
}
