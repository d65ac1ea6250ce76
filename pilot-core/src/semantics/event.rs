//! The events of §3, and the claims into which S5 splits them.
//!
//! A message takes time. Everything that Table 2 asks of the sender is judged when the message leaves (a [`Claim`]);
//! the effect lands when it arrives (an [`Event`]).

use alloc::vec::Vec;

use super::context::PolicyId;
use super::state::Epoch;
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
    /// Who sent it.
    pub sender: DeviceId,
    /// Who receives it.
    pub receiver: DeviceId,
    /// i.
    pub item: ItemId,
    /// p_rcv.
    pub policy: PolicyId,
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
