//! Steps, events and violations in the paper's notation.

use pilot_core::graph::{Action, Body, Message};
use pilot_core::semantics::{Event, PolicyId};
use pilot_core::vocabulary::{DeviceId, Id, ItemId};

use crate::cell::Deed;
use crate::refine::Violation;
use crate::scenario::Scenario;

/// What a device does; `clock` is what its clock shows afterwards.
pub fn deed(deed: &Deed, clock: usize, scenario: &Scenario) -> String {
    match deed {
        Deed::Act(act) => action(act, scenario),
        Deed::Tick => {
            let time = scenario.times.get(clock).copied().unwrap_or_default();
            format!("the clock shows {time}, and what is overdue is erased")
        }
    }
}

/// An action, as the figures write them.
pub fn action(action: &Action, scenario: &Scenario) -> String {
    let set = |own: &[PolicyId]| {
        let names: Vec<&str> = own.iter().map(|id| policy(*id, scenario)).collect();
        format!("{{{}}}", names.join(", "))
    };
    match action {
        Action::Init { own, .. } => format!("init({})", set(own)),
        Action::Restore { own, .. } => format!("restore({})", set(own)),
        Action::ChangeOwn { own } => format!("change({})", set(own)),
        Action::Admit { entity } => format!("admit({})", scenario.vocabulary.entities.name(*entity)),
        Action::Tau => "τ".to_string(),
        Action::Expire { item } => format!("expire({})", item_name(*item, scenario)),
        Action::Forget { item } => format!("forget({})", item_name(*item, scenario)),
        Action::Send(message) => format!("{}↑({})", message.kind().name(), parameters(message, scenario)),
        Action::Receive(message) => format!("{}↓({})", message.kind().name(), parameters(message, scenario)),
    }
}

fn parameters(message: &Message, scenario: &Scenario) -> String {
    let (sender, receiver) = (device(message.sender, scenario), device(message.receiver, scenario));
    match &message.body {
        Body::Request { policy: p } | Body::UploadPolicy { policy: p } | Body::WithdrawPolicy { policy: p } => {
            format!("{sender}, {receiver}, {}", policy(*p, scenario))
        }
        Body::Send(release) => {
            format!("{sender}, {receiver}, {}, {}", policy(release.policy, scenario), item_name(release.item, scenario))
        }
        Body::Broadcast(release) => {
            format!("{sender}, {}, {receiver}, {}", item_name(release.item, scenario), policy(release.policy, scenario))
        }
        Body::RequestPolicies => sender.to_string(),
        Body::DownloadPolicies { offers } => {
            let listed = offers.iter().map(|(dc, p)| format!("({}, {})", device(*dc, scenario), policy(*p, scenario)));
            format!("{receiver}, {{{}}}", listed.collect::<Vec<_>>().join(", "))
        }
        Body::Withdraw { item, .. } => format!("{sender}, {receiver}, {}", item_name(*item, scenario)),
    }
}

/// An event of Table 2, or beyond it.
pub fn event(event: &Event, scenario: &Scenario) -> String {
    match event {
        Event::Own { device: own, added, removed } => {
            let names = |ids: &[PolicyId]| ids.iter().map(|id| policy(*id, scenario)).collect::<Vec<_>>().join(", ");
            format!("own({}, +{{{}}}, -{{{}}})", device(*own, scenario), names(added), names(removed))
        }
        Event::Request { sender, receiver, policy: p, .. } => {
            format!("request({}, {}, {})", device(*sender, scenario), device(*receiver, scenario), policy(*p, scenario))
        }
        Event::Retract { controller, device: at, policy: p } => {
            format!("retract({}, {}, {})", device(*controller, scenario), device(*at, scenario), policy(*p, scenario))
        }
        Event::Send(delivery) | Event::Transfer(delivery) => {
            let name = if matches!(event, Event::Send(_)) { "send" } else { "transfer" };
            let handover = &delivery.handover;
            let (sender, receiver) = (device(handover.sender, scenario), device(handover.receiver, scenario));
            let (item, policy) = (item_name(handover.item, scenario), policy(handover.policy, scenario));
            format!("{name}({sender}, {receiver}, {item}) under {policy}")
        }
        Event::Erase { controller, item, .. } => {
            format!("erase({}, {})", device(*controller, scenario), item_name(*item, scenario))
        }
    }
}

/// What is wrong, in words that follow the name of the property.
pub fn violation(violation: &Violation, scenario: &Scenario) -> String {
    match violation {
        Violation::Claim(premise) => format!("the sender vouches for what is not so: {premise}"),
        Violation::Unvouched(found) => format!("nobody vouched for {}", event(found, scenario)),
        Violation::Event(found, premise) => format!("{} is not allowed: {premise}", event(found, scenario)),
        Violation::Difference => "the state after the step is not the one its events lead to".to_string(),
        Violation::Undone(undone) => format!("the step does not do what its action says: {undone}"),
        Violation::Requirement(_, receipt) => format!(
            "does not hold for ({}, {}, {})",
            device(receipt.sender, scenario),
            item_name(receipt.item, scenario),
            policy(receipt.policy, scenario)
        ),
    }
}

fn policy(id: PolicyId, scenario: &Scenario) -> &str {
    scenario.policy_names.get(id.index()).map_or("?", |name| name)
}

fn device(id: DeviceId, scenario: &Scenario) -> &str {
    scenario.vocabulary.device_name(id)
}

fn item_name(id: ItemId, scenario: &Scenario) -> &str {
    scenario.vocabulary.item_name(id)
}
