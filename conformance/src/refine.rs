//! One checked step: what a step of a graph means, judged against the abstract semantics.
//!
//! α maps a device to its share of ⟨ν, π, ρ⟩. The step's claim is judged on α(s); its events are judged and applied to
//! α(s), one after the other; the result must be α(s'), and what is held then must meet the requirements. A step
//! changes one device, so only that device is looked at: a step costs the same in a large system. What it needs of
//! another device comes with the message: the [`Evidence`] of what was vouched for when it left (S5, S17).
//!
//! The model checker judges steps that devices can take, the auditor those that they took, both here.
//!
//! The events are the graph's own account of its step, so a graph that does nothing could say that nothing happened.
//! Therefore what an action means by its name alone is checked as well: after init the user's policies are own policies,
//! after a request its policy is known, and so on.

use pilot_core::graph::{Action, Body, Device, Instance, Message, MessageKind, Step};
use pilot_core::semantics::rules::{self, Premise};
use pilot_core::semantics::{
    Claim, Context, DeviceState, Epoch, Event, Ghosts, PolicyId, Provenance, Receipt, Requirement,
};
use pilot_core::value::Value;
use pilot_core::vocabulary::{DeviceId, ItemId};

/// What travels with a message, unseen by the graphs.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Evidence {
    /// What its sender vouched for when it left.
    pub claim: Option<Claim>,
    /// What those vouched for whose policies it lists; in order.
    pub listed: Vec<Claim>,
    /// How the item in it came about.
    pub provenance: Option<Provenance>,
    /// ν(sndr, i) when it left.
    pub value: Option<Value>,
    /// For a notice: up to which epoch the owner has taken back what she released.
    pub withdrawn: Option<Epoch>,
}

impl Evidence {
    fn claims(&self) -> impl Iterator<Item = &Claim> {
        self.claim.iter().chain(&self.listed)
    }

    fn has(&self, claim: &Claim) -> bool {
        self.claim.as_ref() == Some(claim) || self.listed.binary_search(claim).is_ok()
    }
}

/// A step that was taken.
pub struct Taken<'s> {
    /// The device after it, with α(s').
    pub device: &'s Device,
    /// The graph instance after it.
    pub instance: &'s Instance,
    /// What was to be done.
    pub action: &'s Action,
    /// What the graph says it means.
    pub step: &'s Step,
}

/// A step that the abstract semantics does not allow, or a requirement that does not hold after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// What the sender vouched for is not so.
    Claim(Premise),
    /// Nobody vouched for an event when its message left, or not with this value.
    Unvouched(Event),
    /// An event that the step stands for is not allowed.
    Event(Event, Premise),
    /// The events lead to another state than the step.
    Difference,
    /// The step does not do what its action says.
    Undone(Undone),
    /// A requirement does not hold for something that is held.
    Requirement(Requirement, Receipt),
}

impl Violation {
    /// The verdict that it decides: `refinement` or `requirement-N`.
    pub fn property(&self) -> String {
        match self {
            Self::Claim(_) | Self::Unvouched(_) | Self::Event(..) | Self::Difference | Self::Undone(_) => {
                "refinement".to_string()
            }
            Self::Requirement(requirement, _) => requirement.to_string(),
        }
    }
}

/// What an action says and a step has not done, or has done without cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Undone {
    /// init, change.
    #[error("the user's policies are not the device's own")]
    Own,
    /// init.
    #[error("the user's item is not the graph's")]
    Item,
    /// admit.
    #[error("the entity is still refused")]
    Admit,
    /// request↓.
    #[error("the policy of the request is not known")]
    Request,
    /// restore, downloadPolicies↓.
    #[error("the policies of others are not those that were handed over")]
    Offers,
    /// withdrawPolicy↑.
    #[error("the withdrawn policy is still an own one")]
    Retract,
    /// withdraw↑, of somebody else's item.
    #[error("nobody told it of the withdrawal that it passes on")]
    Untold,
    /// expire.
    #[error("the item is still held")]
    Erase,
}

/// Whether the step is what its action, its claim and its events say. Takes α(s) to where the events lead, brings the ghosts
/// up to date, and returns what goes with the message that the step sends. Whether the events lead to α(s') is the caller's to
/// ask.
pub fn refines(
    taken: &Taken<'_>,
    state: &mut DeviceState,
    ghosts: &mut Ghosts,
    came_with: &Evidence,
    cx: &Context<'_>,
) -> Result<Evidence, Violation> {
    let Taken { device, action, step, .. } = *taken;
    let mut goes_with = Evidence::default();
    if let Some(claim) = &step.claim {
        goes_with.provenance = rules::vouch(claim, state, ghosts, cx).map_err(Violation::Claim)?;
        if let Some(handover) = claim.handover() {
            goes_with.value = state.value(handover.item).cloned();
        }
        goes_with.claim = Some(*claim);
    }
    if step.message.as_ref().is_some_and(|message| message.kind() == MessageKind::DownloadPolicies) {
        let passed_on =
            ghosts.uploaded.iter().map(|(sender, policy)| Claim::Request { sender: *sender, policy: *policy });
        goes_with.listed.extend(passed_on);
    }
    if let Some((message, item)) = action.message().and_then(notice) {
        if message.sender == device.id {
            // The owner takes back everything so far; others pass on what they were told. Whatever the notice says.
            let is_owner = cx.owner(item) == Some(device.id);
            let told = ghosts.owed.remove(&(item, message.receiver));
            goes_with.withdrawn = if is_owner { Some(Epoch::of(cx.now)) } else { told };
            if goes_with.withdrawn.is_none() {
                return Err(Violation::Undone(Undone::Untold));
            }
        } else {
            // Requirement 5 is about clocks that differ by no more than the window: see `Epoch::last_at`.
            let epoch = came_with.withdrawn.unwrap_or_default().min(Epoch::last_at(cx.now));
            let known = ghosts.withdrawn.get(&item).copied();
            let is_news = known.is_none_or(|known| epoch > known) || cx.owner(item) == Some(message.sender);
            let latest = known.map_or(epoch, |known| known.max(epoch));
            ghosts.withdrawn.insert(item, latest);
            for (recipient, _) in device.memory.recipients_of(item) {
                let owed = ghosts.owed.entry((item, recipient)).or_default();
                *owed = if is_news { epoch.max(*owed) } else { *owed };
            }
        }
    }
    for event in &step.events {
        let is_vouched_for = event.claim().is_none_or(|claim| came_with.has(&claim));
        if !is_vouched_for || event.value().is_some_and(|value| *value != came_with.value) {
            return Err(Violation::Unvouched(event.clone()));
        }
        rules::premises(event, state, cx).map_err(|premise| Violation::Event(event.clone(), premise))?;
        rules::apply(event, came_with.provenance, state, ghosts);
    }
    if step.events.is_empty() {
        let to_pass_on = came_with.claims().filter_map(|claim| match claim {
            Claim::Request { sender, policy } => Some((*sender, *policy)),
            Claim::Send(_) | Claim::Transfer(_) => None,
        });
        ghosts.uploaded.extend(to_pass_on);
    }
    undone(taken).map_or(Ok(goes_with), |undone| Err(Violation::Undone(undone)))
}

/// What an action says by its name alone and has not done.
fn undone(taken: &Taken<'_>) -> Option<Undone> {
    let Taken { device, instance, action, .. } = *taken;
    let (me, state) = (device.id, &device.state);
    let are_own = |own: &[PolicyId]| own.iter().all(|policy| state.knows(me, *policy));
    let are_those_of_others = |offers: &[(DeviceId, PolicyId)]| {
        let others = state.policies.iter().filter(|(of, _)| *of != me);
        offers.iter().filter(|(of, _)| *of != me).eq(others)
    };
    let checks: [(bool, Undone); 2] = match action {
        Action::Init { own, item } => [(are_own(own), Undone::Own), (instance.item == *item, Undone::Item)],
        Action::Restore { own, item, offers } => {
            let is_done = are_own(own) && instance.item == *item;
            [(is_done, Undone::Own), (are_those_of_others(offers), Undone::Offers)]
        }
        Action::ChangeOwn { own } => {
            // What was published stays until it is withdrawn (S17); nothing else does.
            let may_stay = |policy: PolicyId| own.contains(&policy) || device.memory.published.contains(&policy);
            [(are_own(own), Undone::Own), (state.policies_of(me).all(may_stay), Undone::Own)]
        }
        Action::Admit { entity } => [(!device.memory.refused.contains(entity), Undone::Admit), DONE],
        Action::Expire { item } => [(state.receipts_of(*item).next().is_none(), Undone::Erase), DONE],
        Action::Receive(message) => match &message.body {
            Body::Request { policy } => [(state.knows(message.sender, *policy), Undone::Request), DONE],
            Body::DownloadPolicies { offers } => [(are_those_of_others(offers), Undone::Offers), DONE],
            _ => [DONE; 2],
        },
        Action::Send(message) => match &message.body {
            Body::WithdrawPolicy { policy } => [(!state.knows(me, *policy), Undone::Retract), DONE],
            _ => [DONE; 2],
        },
        Action::Tau | Action::Forget { .. } => [DONE; 2],
    };
    checks.into_iter().find(|(is_done, _)| !is_done).map(|(_, undone)| undone)
}

/// Nothing to be done.
const DONE: (bool, Undone) = (true, Undone::Own);

/// A withdraw notice, and its item.
fn notice(message: &Message) -> Option<(&Message, ItemId)> {
    match message.body {
        Body::Withdraw { item, .. } => Some((message, item)),
        _ => None,
    }
}

/// Whether all that is held meets every requirement.
pub fn meets_requirements(held: &DeviceState, ghosts: &Ghosts, cx: &Context<'_>) -> Result<(), Violation> {
    for requirement in Requirement::ALL {
        if let Some(receipt) = held.received.iter().find(|receipt| !requirement.holds(receipt, ghosts, 0, cx)) {
            return Err(Violation::Requirement(requirement, *receipt));
        }
    }
    Ok(())
}
