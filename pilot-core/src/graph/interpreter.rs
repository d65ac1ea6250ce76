//! The one interpreter of program graphs. Nothing else changes a location.
//!
//! **Contract.** [`step`] takes the first edge in the table whose label is the action's and whose guards all hold. It
//! checks every guard before it makes any change, and returns what the step means abstractly. Without such an edge
//! nothing has changed. Time is an argument; there is no randomness; equal inputs give equal steps.

use alloc::vec::Vec;

use super::effects::Change;
use super::message::{Release, Withdrawal};
use super::{Action, Body, Device, Edge, Graph, Guard, Instance, Label, Message, MessageKind};
use crate::semantics::event::{Claim, Event, Handover};
use crate::semantics::{Contacts, Context};
use crate::vocabulary::{DeviceId, ItemId};

/// A step that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The edge, by its place in the graph's table.
    pub edge: usize,
    /// For a↑: the message as it leaves.
    pub message: Option<Message>,
    /// For a↑: what the sender vouches for, to be judged on the state before the step (S5).
    pub claim: Option<Claim>,
    /// The abstract events that the step stands for, in order.
    pub events: Vec<Event>,
}

/// Takes a step, or changes nothing and returns `None`.
pub fn step(
    graph: &Graph<'_>,
    instance: &mut Instance,
    device: &mut Device,
    action: &Action,
    cx: &Context<'_>,
) -> Option<Step> {
    let edge = enabled(graph, instance, device, action, cx).next()?;
    take(graph, edge, instance, device, action, cx)
}

/// The edges along which an action can be taken. In the graphs of the figures that is at most one; in a graph from
/// which a guard was taken away it can be several.
pub fn enabled<'s>(
    graph: &'s Graph<'s>,
    instance: &'s Instance,
    device: &'s Device,
    action: &'s Action,
    cx: &'s Context<'s>,
) -> impl Iterator<Item = usize> {
    let situation = Situation { graph, instance, device, action, cx };
    let edges = if situation.concerns_device() { graph.edges } else { &[] };
    let label = action.label();
    let candidates = edges.iter().enumerate().filter(move |(_, edge)| edge.label == label);
    let here = candidates.filter(move |(_, edge)| starts_at(edge, instance, graph));
    // An edge for what no other takes asks whether another can be taken; if so, that one need not be asked again.
    let mut rival = None;
    let mut can_be_taken = move |at: usize, edge: &Edge<'_>| {
        if rival == Some(at) {
            return true;
        }
        let holds = |guard: Guard| match guard {
            Guard::Unless(other @ Label::Receive(_)) if other == label => {
                rival = situation.rival(other);
                rival.is_none()
            }
            _ => guard.holds(&situation),
        };
        edge.all_guards().all(holds)
    };
    here.filter(move |(at, edge)| can_be_taken(*at, edge)).map(|(at, _)| at)
}

/// Takes an action along an edge on which it is [`enabled`].
pub fn take(
    graph: &Graph<'_>,
    edge: usize,
    instance: &mut Instance,
    device: &mut Device,
    action: &Action,
    cx: &Context<'_>,
) -> Option<Step> {
    let Edge { effects, to, .. } = graph.edges.get(edge)?;
    let message = if let Action::Send(message) = action { Some(message.clone()) } else { None };
    let claim = message.as_ref().and_then(|message| claim_of(message, cx));
    let mut step = Step { edge, message, claim, events: Vec::new() };
    let mut change = Change { instance, device, step: &mut step, action, cx };
    for effect in *effects {
        change.make(*effect);
    }
    if let Some(to) = to {
        instance.location = *to;
    }
    Some(step)
}

/// The a↑, τ and housekeeping actions that can be taken now. What only the user can decide, init and the choice of
/// policies, is not among them.
pub fn offers(graph: &Graph<'_>, instance: &Instance, device: &Device, cx: &Context<'_>) -> Vec<Action> {
    let mut labels: Vec<Label> = Vec::new();
    for edge in graph.edges {
        if starts_at(edge, instance, graph) && !labels.contains(&edge.label) {
            labels.push(edge.label);
        }
    }
    let mut actions: Vec<Action> =
        labels.into_iter().flat_map(|label| candidates(label, instance, device, cx.contacts)).collect();
    actions.retain(|action| enabled(graph, instance, device, action, cx).next().is_some());
    actions
}

/// The actions with this label among the [`offers`].
pub fn offers_of(
    label: Label,
    graph: &Graph<'_>,
    instance: &Instance,
    device: &Device,
    cx: &Context<'_>,
) -> Vec<Action> {
    if !graph.edges.iter().any(|edge| edge.label == label && starts_at(edge, instance, graph)) {
        return Vec::new();
    }
    let mut actions = candidates(label, instance, device, cx.contacts);
    actions.retain(|action| enabled(graph, instance, device, action, cx).next().is_some());
    actions
}

/// Why a message is refused: the first guard, in the order of the table, that keeps it from an edge that would do
/// something. `None` if there is no such edge here, or if nothing hinders it.
pub fn hindrance(
    graph: &Graph<'_>,
    instance: &Instance,
    device: &Device,
    action: &Action,
    cx: &Context<'_>,
) -> Option<Guard> {
    let situation = Situation { graph, instance, device, action, cx };
    let here = graph.edges.iter().filter(|edge| edge.label == action.label() && starts_at(edge, instance, graph));
    let mut rivals = here.filter(|edge| !edge.all_guards().any(|guard| matches!(guard, Guard::Unless(_))));
    rivals.find_map(|edge| edge.all_guards().find(|guard| !guard.holds(&situation)))
}

fn starts_at(edge: &Edge<'_>, instance: &Instance, graph: &Graph<'_>) -> bool {
    match edge.from {
        Some(from) => from == instance.location,
        None => instance.location != graph.initial,
    }
}

/// Everything guards read.
#[derive(Clone, Copy)]
pub(super) struct Situation<'s> {
    pub(super) graph: &'s Graph<'s>,
    pub(super) instance: &'s Instance,
    pub(super) device: &'s Device,
    pub(super) action: &'s Action,
    pub(super) cx: &'s Context<'s>,
}

impl Situation<'_> {
    /// Def. 4: a device sends in its own name, to others, and receives from others what is for it; a broadcast is for
    /// everybody. Nobody can make a policy Alice's own by sending it to her in her name.
    fn concerns_device(&self) -> bool {
        let me = self.device.id;
        match self.action {
            Action::Send(message) => message.sender == me && message.receiver != me,
            Action::Receive(message) => {
                message.sender != me && (message.receiver == me || message.kind() == MessageKind::Broadcast)
            }
            _ => true,
        }
    }
}

/// Actions with this label, with parameters from the device's state.
pub(super) fn candidates(label: Label, instance: &Instance, device: &Device, contacts: &Contacts) -> Vec<Action> {
    let memory = &device.memory;
    match label {
        Label::Tau => [Action::Tau].into(),
        Label::Expire => held_items(device).into_iter().map(|item| Action::Expire { item }).collect(),
        Label::Forget => {
            let recipients = memory.recipients.keys().map(|(item, _)| *item);
            let mut items: Vec<_> = memory.tombstones.keys().copied().chain(recipients).collect();
            items.sort_unstable();
            items.dedup();
            items.into_iter().map(|item| Action::Forget { item }).collect()
        }
        Label::Send(kind) => messages(kind, instance, device, contacts).into_iter().map(Action::Send).collect(),
        Label::Init | Label::Restore | Label::ChangeOwn | Label::Admit | Label::Receive(_) => Vec::new(),
    }
}

fn held_items(device: &Device) -> Vec<ItemId> {
    // Receipts are ordered by item.
    let mut items: Vec<ItemId> = device.state.received.iter().map(|receipt| receipt.item).collect();
    items.dedup();
    items
}

fn messages(kind: MessageKind, instance: &Instance, device: &Device, contacts: &Contacts) -> Vec<Message> {
    let memory = &device.memory;
    let to = |receiver: DeviceId, body: Body| Message { sender: device.id, receiver, body };
    let repository = contacts.repository;
    match kind {
        MessageKind::Request => {
            let to_each = |policy| contacts.sources.iter().map(move |d| to(*d, Body::Request { policy }));
            memory.current.iter().copied().flat_map(to_each).collect()
        }
        MessageKind::Send => {
            let Some(super::device::Exchange { peer, policy: Some(policy) }) = instance.exchange else {
                return Vec::new();
            };
            let items = match instance.item {
                Some(item) => [item].into(),
                None => held_items(device),
            };
            items.into_iter().map(|item| to(peer, Body::Send(Release::new(item, policy)))).collect()
        }
        MessageKind::Broadcast => {
            let Some(item) = instance.item else { return Vec::new() };
            let offers = device.state.policies.iter().filter(|(of, _)| *of != device.id);
            offers.map(|(of, policy)| to(*of, Body::Broadcast(Release::new(item, *policy)))).collect()
        }
        MessageKind::Withdraw => {
            let owed = memory.notices.iter().map(|((item, receiver), withdrawal)| (*item, *receiver, *withdrawal));
            let own = memory.recipients.keys().map(|(item, receiver)| (*item, *receiver, Withdrawal::default()));
            let notice = |(item, receiver, withdrawal)| to(receiver, Body::Withdraw { item, withdrawal });
            owed.chain(own).map(notice).collect()
        }
        MessageKind::RequestPolicies => {
            repository.map(|repository| to(repository, Body::RequestPolicies)).into_iter().collect()
        }
        MessageKind::DownloadPolicies => {
            let peer = instance.exchange.map(|exchange| exchange.peer);
            peer.map(|peer| to(peer, Body::DownloadPolicies { offers: Vec::new() })).into_iter().collect()
        }
        MessageKind::UploadPolicy => {
            let upload = |repository| move |policy: &_| to(repository, Body::UploadPolicy { policy: *policy });
            repository.into_iter().flat_map(|repository| memory.current.iter().map(upload(repository))).collect()
        }
        MessageKind::WithdrawPolicy => {
            let withdraw = |repository| move |policy: &_| to(repository, Body::WithdrawPolicy { policy: *policy });
            repository.into_iter().flat_map(|repository| memory.published.iter().map(withdraw(repository))).collect()
        }
    }
}

/// What sending a message vouches for (S5, S17). Only the owner of an item sends it; anybody else transfers (S16).
fn claim_of(message: &Message, cx: &Context<'_>) -> Option<Claim> {
    let (sender, receiver) = (message.sender, message.receiver);
    match &message.body {
        Body::Request { policy } | Body::UploadPolicy { policy } => Some(Claim::Request { sender, policy: *policy }),
        Body::Send(release) | Body::Broadcast(release) => {
            let handover = Handover { sender, receiver, item: release.item, policy: release.policy };
            let is_owner = cx.owner(release.item) == Some(sender);
            Some(if is_owner { Claim::Send(handover) } else { Claim::Transfer(handover) })
        }
        _ => None,
    }
}
