//! Sentences: what is wrong, for people who do not read semantics.

use pilot_core::graph::{Action, Guard, Label, MessageKind};
use pilot_core::semantics::rules::Premise;
use pilot_core::semantics::{PolicyId, Requirement};
use pilot_core::value::Time;
use pilot_core::vocabulary::{DeviceId, ItemId};

use super::replay::Replay;
use super::world::World;

/// Both ways of arriving at a state must agree.
pub const STATE: &str = "the state that the graph leads to is the one that the events lead to";

/// A policy, by the beginning of its digest.
pub fn policy(policy: PolicyId, world: &World<'_>) -> String {
    let digest = world.policies.digest(policy).map(|digest| digest.to_string()).unwrap_or_default();
    digest.get(..12).unwrap_or("?").to_owned()
}

/// An item, by what it is and whose it is, as far as the auditor may know.
pub fn item(item: ItemId, replay: &Replay, world: &World<'_>) -> String {
    let about = world.directory.item(item);
    let datatype = about.map_or("item", |about| world.judge.vocabulary.datatypes.name(about.datatype));
    let owner = about.map_or("somebody", |about| world.name(about.owner));
    let pseudonym = replay.pseudonym(item).map(ToString::to_string).unwrap_or_default();
    format!("the {datatype} of {owner} (item {})", pseudonym.get(..12).unwrap_or("?"))
}

/// What a step did: "mall-gate kept the MACAddress of alice (item …) at 14:02 under policy …".
pub fn deed(action: &Action, replay: &Replay, world: &World<'_>, time: Time) -> String {
    let me = &replay.name;
    let label = action.label();
    let Some(message) = action.message() else {
        return match action.item() {
            Some(about) => format!("{me} took the step {label} for {} at {time}", item(about, replay, world)),
            None => format!("{me} took the step {label} at {time}"),
        };
    };
    let (sender, receiver) = (world.name(message.sender), world.name(message.receiver));
    let under = message.policy().map(|id| format!(" under policy {}", policy(id, world))).unwrap_or_default();
    let what = message.item().map(|about| item(about, replay, world)).unwrap_or_default();
    match label {
        Label::Receive(MessageKind::Broadcast) => format!("{me} kept {what} at {time}{under}"),
        Label::Receive(MessageKind::Send) => format!("{me} received {what} from {sender} at {time}{under}"),
        Label::Send(MessageKind::Broadcast) => format!("{me} released {what} to {receiver} at {time}{under}"),
        Label::Send(MessageKind::Send) => format!("{me} handed {what} to {receiver} at {time}{under}"),
        Label::Receive(MessageKind::UploadPolicy) => format!("{me} listed a policy of {sender} at {time}{under}"),
        Label::Receive(MessageKind::DownloadPolicies) => format!("{me} took over policies from {sender} at {time}"),
        Label::Receive(MessageKind::Withdraw) => format!("{me} was told at {time} that {what} is taken back"),
        Label::Receive(kind) => format!("{me} received {} from {sender} at {time}{under}", kind.name()),
        Label::Send(kind) => format!("{me} sent {} to {receiver} at {time}{under}", kind.name()),
        _ => format!("{me} took the step {label} at {time}"),
    }
}

/// Why Table 2 does not allow it.
pub fn premise(premise: &Premise, owner: &str) -> String {
    match premise {
        Premise::SenderHasPolicy => "under which the controller had not said that it works".into(),
        Premise::NothingComparable | Premise::ReplacedIsKnown | Premise::ReplacedIsComparable => {
            "which does not fit the policies it knew".into()
        }
        Premise::OwnerSends => format!("although only {owner} may send it"),
        Premise::ValueDefined | Premise::ItemReceived => "which it did not have".into(),
        Premise::ReceiverPolicyKnown => format!("which {owner} had not been shown"),
        Premise::ReceiverPolicyActive(why) => format!("which did not apply: {why}"),
        Premise::OwnPolicy => format!("although {owner} has no policy of her own"),
        Premise::OwnPolicyActive(why) => format!("although no policy of {owner} applied: {why}"),
        Premise::WithinOwn => format!("which goes beyond what {owner} allows"),
        Premise::RuleExists => "although the policy that binds it allows no transfer".into(),
        Premise::TransferActive(why) => format!("although no transfer rule applied: {why}"),
        Premise::WithinTransferRule => "which goes beyond what any transfer rule allows".into(),
        Premise::AboutItem => "which is not about such data".into(),
        Premise::NamesReceiver => "which is for somebody else".into(),
        Premise::InTime => "whose deadline had passed".into(),
    }
}

/// Why no edge of the graph allows it.
pub fn guard(guard: Guard) -> &'static str {
    match guard {
        Guard::OwnItem => "although it is not the item that the device speaks for",
        Guard::InExchange => "although nobody had asked for it",
        Guard::MyRepository => "although the other side is no repository",
        Guard::CurrentPolicy => "under which it did not work at that time",
        Guard::OfferKnown => "which it had not been shown",
        Guard::OfferActive => "which did not apply",
        Guard::WithinOwn => "which goes beyond what the owner allows",
        Guard::ItemOwned => "although the item is not its own",
        Guard::ItemHeld => "although it did not have the item",
        Guard::NotRefused => "although the owner had withdrawn from the receiver",
        Guard::PastWithdrawal => "in the very epoch in which the owner had withdrawn it",
        Guard::WithinTransferRule => "although no transfer rule allows it",
        Guard::AddressedToMe => "although it was meant for somebody else",
        Guard::FromOwner => "although it did not come from the owner",
        Guard::AskedFor => "although it had not asked for it",
        Guard::PublishedByMe => "which it had not published",
        Guard::WithinCurrent => "which goes beyond the policy it works under",
        Guard::AboutItem => "which is not about such data",
        Guard::NamesMe => "which is for somebody else",
        Guard::NamesSender => "which does not name the sender",
        Guard::InTime => "whose deadline had passed",
        Guard::NotWithdrawn => "although the owner had taken it back",
        Guard::Fresh => "although the release was not of that time",
        Guard::NotFromFuture => "although the release was not made yet",
        Guard::NotYetHeld => "although it had it under this policy already",
        Guard::DeadlineReached => "although no deadline was reached",
        Guard::NoticeDue => "although nobody had told it so",
        Guard::Outdated => "although it still matters",
        Guard::Unless(_) => "although it could have done otherwise",
        Guard::Mistaken(_) => "which is a mistake",
    }
}

/// What a requirement asks, and is not so.
pub fn requirement(requirement: Requirement, owner: &str) -> String {
    match requirement {
        Requirement::Compliance => format!("which {owner}'s own policy did not allow"),
        Requirement::InformedCollection => format!("which {owner} had not been shown"),
        Requirement::InformedTransfer => format!("although the policy under which {owner} gave it does not allow that"),
        Requirement::StorageLimitation => "although its deadline had passed".into(),
        Requirement::Withdrawal => format!("although {owner} had taken it back"),
    }
}

/// The name of an item's owner.
pub fn owner<'w>(item: Option<ItemId>, world: &'w World<'_>) -> &'w str {
    let owner: Option<DeviceId> = item.and_then(|item| world.directory.item(item)).map(|item| item.owner);
    owner.map_or("its owner", |owner| world.name(owner))
}
