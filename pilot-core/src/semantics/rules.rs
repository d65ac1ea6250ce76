//! Table 2: R1, R2, SEND and TRANSFER, premises and effects apart.
//!
//! Every premise concerns one device. The sender's are judged when the message leaves ([`claim`]), the receiver's when
//! it arrives ([`premises`]), each on that device's share of the state alone (S5); then [`apply`] makes the change.
//! [`happen`] does all three at once: Table 2 as printed, where messages take no time.

use alloc::vec::Vec;

use super::context::{Context, PolicyId};
use super::event::{Claim, Event, Handover};
use super::state::{DeviceState, Epoch, Ghosts, Provenance, Receipt, State};
use crate::active::Inactive;
use crate::vocabulary::Variable;

/// A premise of Table 2 that does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Premise {
    /// R1, R2: (sndr, p) ∈ π_sndr.
    #[error("(sndr, p) ∈ π_sndr: the sender does not have the policy it requests with")]
    SenderHasPolicy,
    /// R1: ∀ (sndr, q) ∈ π_rcv · p and q are not comparable.
    #[error("R1: the receiver knows a comparable policy of the sender")]
    NothingComparable,
    /// R2: (sndr, q) ∈ π_rcv.
    #[error("R2: (sndr, q) ∈ π_rcv: the receiver does not know the policy to be replaced")]
    ReplacedIsKnown,
    /// R2: p and q are comparable.
    #[error("R2: the policy to be replaced is not comparable")]
    ReplacedIsComparable,
    /// SEND: owner(i) = sndr (S16).
    #[error("owner(i) = sndr: only the owner sends, everybody else transfers")]
    OwnerSends,
    /// SEND, TRANSFER: ν(sndr, i) ≠ ⊥.
    #[error("ν(sndr, i) ≠ ⊥: the sender does not have the item")]
    ValueDefined,
    /// SEND, TRANSFER: (rcv, p_rcv) ∈ π_sndr.
    #[error("(rcv, p_rcv) ∈ π_sndr: the sender does not know this policy of the receiver")]
    ReceiverPolicyKnown,
    /// SEND, TRANSFER: activePolicy(p_rcv, …).
    #[error("activePolicy(p_rcv): the receiver's policy is not active: {0}")]
    ReceiverPolicyActive(Inactive),
    /// SEND: (sndr, p_sndr) ∈ π_sndr.
    #[error("(sndr, p_sndr) ∈ π_sndr: the sender has no policy of its own")]
    OwnPolicy,
    /// SEND: activePolicy(p_sndr, …).
    #[error("activePolicy(p_sndr): no policy of the sender is active: {0}")]
    OwnPolicyActive(Inactive),
    /// SEND: p_rcv ⊑ p_sndr.
    #[error("p_rcv ⊑ p_sndr: no active policy of the sender allows the receiver's policy")]
    WithinOwn,
    /// TRANSFER: (_, i, p) ∈ ρ_sndr.
    #[error("(_, i, p) ∈ ρ_sndr: the sender has not received the item")]
    ItemReceived,
    /// TRANSFER: tr ∈ p.TR.
    #[error("tr ∈ p.TR: the item's policy has no transfer rule")]
    RuleExists,
    /// TRANSFER: activeTransfer(tr, p, …).
    #[error("activeTransfer(tr, p): no transfer rule is active: {0}")]
    TransferActive(Inactive),
    /// TRANSFER: p_rcv ⊑ (p.t, tr, p.TR).
    #[error("p_rcv ⊑ (p.t, tr, p.TR): no active transfer rule allows the receiver's policy")]
    WithinTransferRule,
    /// At the receiver: type(i) ≤ p.t (S5).
    #[error("type(i) ≤ p_rcv.t: the policy is not about the item")]
    AboutItem,
    /// At the receiver: entity(rcv) ≤ p.dcr.e (S5).
    #[error("entity(rcv) ≤ p_rcv.dcr.e: the policy is for somebody else")]
    NamesReceiver,
    /// At the receiver: time < p.dcr.rt (S5).
    #[error("time < p_rcv.dcr.rt: the policy's deadline has passed")]
    InTime,
}

/// The sender's premises, on the sender's share of the state.
pub fn claim(claim: &Claim, sender: &DeviceState, cx: &Context<'_>) -> Result<(), Premise> {
    match claim {
        Claim::Request { sender: device, policy } => ensure(sender.knows(*device, *policy), Premise::SenderHasPolicy),
        Claim::Send(handover) => send_premises(handover, sender, cx).map(drop),
        Claim::Transfer(handover) => transfer_premises(handover, sender, cx),
    }
}

/// [`claim`], then [`provenance`]: the policy that makes the premises of a SEND true is the one that the owner releases by.
pub fn vouch(
    sent: &Claim,
    sender: &DeviceState,
    ghosts: &Ghosts,
    cx: &Context<'_>,
) -> Result<Option<Provenance>, Premise> {
    if let Claim::Send(handover) = sent {
        let own = send_premises(handover, sender, cx)?;
        return Ok(Some(released(handover, Some(own), sender, cx)));
    }
    claim(sent, sender, cx)?;
    Ok(sent.handover().and_then(|handover| provenance(handover, sender, ghosts, cx)))
}

/// SEND. p_sndr is any own policy that makes the premises true; this is the first.
fn send_premises(handover: &Handover, sender: &DeviceState, cx: &Context<'_>) -> Result<PolicyId, Premise> {
    ensure(cx.owner(handover.item) == Some(handover.sender), Premise::OwnerSends)?;
    receiver_premises(handover, sender, cx)?;
    let own = sender.policies_of(handover.sender).map(|own| {
        cx.active_policy(own, &sender.values, handover.receiver, handover.item).map_err(Premise::OwnPolicyActive)?;
        ensure(cx.subsumes(handover.policy, own), Premise::WithinOwn).map(|()| own)
    });
    any_holds(own, Premise::OwnPolicy)
}

/// TRANSFER. p and tr are any that make the premises true.
fn transfer_premises(handover: &Handover, sender: &DeviceState, cx: &Context<'_>) -> Result<(), Premise> {
    receiver_premises(handover, sender, cx)?;
    let receipts = sender.receipts_of(handover.item).map(|receipt| rule_premises(receipt, handover, sender, cx));
    any_holds(receipts, Premise::ItemReceived)
}

/// What TRANSFER asks of tr ∈ p.TR, for the p of one receipt.
fn rule_premises(
    receipt: &Receipt,
    handover: &Handover,
    sender: &DeviceState,
    cx: &Context<'_>,
) -> Result<(), Premise> {
    let policy = cx.policy(receipt.policy).ok_or(Premise::RuleExists)?;
    let rules = policy.transfers().iter().map(|rule| {
        cx.active_transfer(rule, policy, &sender.values, handover.receiver, handover.item)
            .map_err(Premise::TransferActive)?;
        let within = cx.subsumes_parts(handover.policy, policy.with_collection(rule));
        ensure(within, Premise::WithinTransferRule)
    });
    any_holds(rules, Premise::RuleExists)
}

/// What SEND and TRANSFER ask in common.
fn receiver_premises(handover: &Handover, sender: &DeviceState, cx: &Context<'_>) -> Result<(), Premise> {
    let Handover { receiver, item, policy, .. } = *handover;
    ensure(sender.value(item).is_some(), Premise::ValueDefined)?;
    ensure(sender.knows(receiver, policy), Premise::ReceiverPolicyKnown)?;
    cx.active_policy(policy, &sender.values, receiver, item).map_err(Premise::ReceiverPolicyActive)
}

/// The receiver's premises, on the receiver's share of the state.
pub fn premises(event: &Event, receiver: &DeviceState, cx: &Context<'_>) -> Result<(), Premise> {
    match event {
        Event::Request { sender, policy, replaced: None, .. } => {
            let comparable = receiver.policies_of(*sender).any(|known| cx.is_comparable(*policy, known));
            ensure(!comparable, Premise::NothingComparable)
        }
        Event::Request { sender, policy, replaced: Some(replaced), .. } => {
            ensure(receiver.knows(*sender, *replaced), Premise::ReplacedIsKnown)?;
            ensure(cx.is_comparable(*policy, *replaced), Premise::ReplacedIsComparable)
        }
        Event::Send(delivery) | Event::Transfer(delivery) => {
            let Handover { receiver, item, policy, .. } = delivery.handover;
            ensure(cx.is_about(policy, item), Premise::AboutItem)?;
            ensure(cx.names_entity_of(policy, receiver), Premise::NamesReceiver)?;
            ensure(cx.is_in_time(policy), Premise::InTime)
        }
        Event::Own { .. } | Event::Retract { .. } | Event::Erase { .. } => Ok(()),
    }
}

/// The effect of an event on the device it concerns. With an item comes its provenance.
pub fn apply(event: &Event, provenance: Option<Provenance>, device: &mut DeviceState, ghosts: &mut Ghosts) {
    match event {
        Event::Own { device: own, added, removed } => {
            for policy in removed {
                device.policies.remove(&(*own, *policy));
            }
            device.policies.extend(added.iter().map(|policy| (*own, *policy)));
        }
        Event::Request { sender, policy, replaced, .. } => {
            if let Some(replaced) = replaced {
                device.policies.remove(&(*sender, *replaced));
            }
            device.policies.insert((*sender, *policy));
        }
        Event::Retract { controller, policy, .. } => {
            device.policies.remove(&(*controller, *policy));
        }
        Event::Send(delivery) | Event::Transfer(delivery) => {
            let (item, receipt) = (Variable::Item(delivery.handover.item), delivery.handover.receipt());
            device.received.insert(receipt);
            match &delivery.value {
                Some(value) => device.values.insert(item, value.clone()),
                None => device.values.remove(&item),
            };
            if let Some(provenance) = provenance {
                // Messages may overtake each other: the owner's last release is the one that counts.
                let known = ghosts.provenance.entry(receipt).or_insert(provenance);
                *known = core::cmp::max_by_key(*known, provenance, |provenance| provenance.epoch);
            }
        }
        Event::Erase { item, withdrawn, .. } => {
            let erased: Vec<Receipt> = device.receipts_of(*item).copied().collect();
            for receipt in erased {
                device.received.remove(&receipt);
                ghosts.provenance.remove(&receipt);
            }
            device.values.remove(&Variable::Item(*item));
            if let Some(epoch) = withdrawn {
                let known = ghosts.withdrawn.entry(*item).or_insert(*epoch);
                *known = (*known).max(*epoch);
            }
        }
    }
}

/// How an item that is handed over came about (S20), on the sender's share of the state and its ghosts: from the
/// owner, what she releases it by; from anybody else, what came with the receipt it is transferred under.
pub fn provenance(handover: &Handover, sender: &DeviceState, ghosts: &Ghosts, cx: &Context<'_>) -> Option<Provenance> {
    let Handover { sender: device, receiver, item, policy } = *handover;
    if cx.owner(item) == Some(device) {
        let active = |own: &PolicyId| cx.active_policy(*own, &sender.values, receiver, item).is_ok();
        let mut first = None;
        let covers = |own: &PolicyId| {
            first.get_or_insert(*own);
            cx.subsumes(policy, *own)
        };
        let own = sender.policies_of(device).filter(active).find(covers).or(first);
        return Some(released(handover, own, sender, cx));
    }
    // Transferred under the owner's last release among those whose terms allow it; if none does, under any.
    let receipts = || sender.receipts_of(item).filter_map(|receipt| Some((receipt, ghosts.provenance.get(receipt)?)));
    let allowing = receipts().filter(|(receipt, _)| rule_premises(receipt, handover, sender, cx).is_ok());
    let last = allowing.max_by_key(|(_, provenance)| provenance.epoch).or_else(|| receipts().next());
    let known = is_known(handover, sender, cx);
    last.map(|(_, provenance)| Provenance { known_to_sender: Some(known), ..*provenance })
}

/// The owner lets an item go by an own policy.
fn released(handover: &Handover, own: Option<PolicyId>, sender: &DeviceState, cx: &Context<'_>) -> Provenance {
    let (shown, epoch) = (is_known(handover, sender, cx), Epoch::of(cx.now));
    Provenance { own, offered: handover.policy, shown, epoch, known_to_sender: None }
}

/// Whether the sender knows the receiver's policy, and it is about the item.
fn is_known(handover: &Handover, sender: &DeviceState, cx: &Context<'_>) -> bool {
    sender.knows(handover.receiver, handover.policy) && cx.is_about(handover.policy, handover.item)
}

/// Table 2 as printed: an event takes place at once, or a premise forbids it and nothing has changed.
pub fn happen(event: &Event, state: &mut State, cx: &Context<'_>) -> Result<(), Premise> {
    let mut came_about = None;
    if let Some(sent) = event.claim() {
        let (sender, ghosts) = state.devices.entry(sent.sender()).or_default();
        came_about = vouch(&sent, sender, ghosts, cx)?;
    }
    let (device, ghosts) = state.devices.entry(event.device()).or_default();
    premises(event, device, cx)?;
    apply(event, came_about, device, ghosts);
    Ok(())
}

fn ensure(holds: bool, premise: Premise) -> Result<(), Premise> {
    if holds { Ok(()) } else { Err(premise) }
}

/// By what one attempt holds; if none does, how far the best one came: premises are declared in the order of checking.
fn any_holds<T>(attempts: impl Iterator<Item = Result<T, Premise>>, none: Premise) -> Result<T, Premise> {
    let mut best = none;
    for attempt in attempts {
        match attempt {
            Ok(by) => return Ok(by),
            Err(premise) => best = best.max(premise),
        }
    }
    Err(best)
}
