//! What controllers hand on although they may not.

use std::collections::{BTreeMap, BTreeSet};

use pilot_core::evidence::envelope::MessageId;
use pilot_core::evidence::trace::action::{self, Body as Said, Handle, Message, Party};
use pilot_core::evidence::trace::{Action, Outcome, Rule, Step};
use pilot_core::graph::Location;
use pilot_core::graph::device::Exchange;
use pilot_core::semantics::Receipt;
use pilot_core::semantics::rules::Premise;
use pilot_core::sorted::Sorted;
use pilot_core::vocabulary::ItemId;

use super::InjectError;
use super::bench::{Bench, Lot, Made, Obstacle, content, obstacle, release_in};
use super::replica::{Replica, World};
use super::rewrite::Edit;
use super::scan::{Index, Seen, scan};

/// A request that was declined is granted.
pub(super) fn without_rule(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    let mut lot = Lot::default();
    for number in bench.running("indirect-controller") {
        let Bench { files, world, rng, .. } = bench;
        scan(files, number, world, |seen, replica, world| {
            if (seen.step.from, &seen.step.action) != (Location::S4, &Action::Tau) {
                return;
            }
            let opened = |receipt: &&Receipt| world.named(receipt.item, replica.id).is_some();
            let held: Vec<Receipt> = replica.device.state.received.iter().filter(opened).copied().collect();
            let Some(receipt) = rng.choice(held) else { return };
            let (id, handle) = (MessageId(rng.u128(..).to_be_bytes()), Handle(rng.u128(..).to_be_bytes()));
            lot.offer(rng, || {
                let step = hand_over(receipt, (id, handle), replica, world)?;
                let found = obstacle(replica, &step, seen.time, world);
                let replaced = BTreeMap::from([(seen.place.1, (seen.time, content(step)))]);
                let edit = Edit { trace: seen.place.0, replaced, ..Edit::default() };
                matches!(found, Some(Obstacle::Premise(_))).then(|| vec![edit])
            });
        });
    }
    let places = lot.draw(&mut bench.rng);
    bench.first_good(places, |rewritten| rewritten.marks.first().copied())
}

/// send↑ in the exchange that is under way. Whatever the conditions are, they held.
fn hand_over(
    receipt: Receipt,
    (id, handle): (MessageId, Handle),
    replica: &Replica,
    world: &World<'_>,
) -> Option<Step> {
    let Some(Exchange { peer, policy: Some(policy) }) = replica.instance(0).exchange else { return None };
    let (sender, receiver) = (world.name(replica.id)?.clone(), world.name(peer)?.clone());
    let (offered, held) = (world.policies.policy(policy)?, world.policies.policy(receipt.policy)?);
    let (offer, under) = (world.policies.digest(policy)?, world.policies.digest(receipt.policy)?);
    let mut outcomes = Sorted::new();
    if !offered.collection().condition.is_always() {
        outcomes.insert(Outcome { policy: offer, rule: Rule::Collection, holds: true });
    }
    for (rule, place) in held.transfers().iter().zip(0..) {
        if !rule.condition.is_always() {
            outcomes.insert(Outcome { policy: under, rule: Rule::Transfer(place), holds: true });
        }
    }
    let epoch = replica.device.memory.released.get(&receipt).copied()?;
    let item = world.named(receipt.item, replica.id)?;
    let body = Said::Send(action::Release { item, policy: offer, epoch, handle: Some(handle) });
    let (sender, receiver) = (Party::Device(sender), Party::Device(receiver));
    let action = Action::Send(Message { sender, receiver, body, id: Some(id) });
    Some(Step { graph: 0, instance: 0, from: Location::S4, action, to: Location::S3, outcomes })
}

/// What each transfer could have been instead; it never arrives then.
fn instead_of_transfers(
    bench: &mut Bench<'_>,
    mut other: impl FnMut(&Seen<'_>, &Message, &mut Replica, &mut World<'_>) -> Option<Step>,
) -> Result<Option<Made>, InjectError> {
    let mut lot = Lot::default();
    for number in bench.running("indirect-controller") {
        let Bench { files, world, rng, index, .. } = bench;
        scan(files, number, world, |seen, replica, world| {
            let Action::Send(message @ Message { body: Said::Send(release), .. }) = &seen.step.action else { return };
            let item = world.opened(&release.item.pseudonym);
            lot.offer(rng, || {
                let step = other(&seen, message, replica, world)?;
                let replaced = BTreeMap::from([(seen.place.1, (seen.time, content(step)))]);
                let here = Edit { trace: seen.place.0, replaced, ..Edit::default() };
                Some([here].into_iter().chain(lost(message, item, index)?).collect())
            });
        });
    }
    let places = lot.draw(&mut bench.rng);
    bench.first_good(places, |rewritten| rewritten.marks.first().copied())
}

/// The arrival of a message is left out. `None` if it arrived more than once.
fn lost(message: &Message, item: Option<ItemId>, index: &Index) -> Option<Option<Edit>> {
    match index.received.get(&message.id?).map(Vec::as_slice) {
        None | Some([]) => Some(None),
        Some([(trace, at)]) => {
            let (removed, touched) = (BTreeSet::from([*at]), item.into_iter().collect());
            Some(Some(Edit { trace: *trace, removed, touched, ..Edit::default() }))
        }
        Some(_) => None,
    }
}

/// Another version of the receiver's policy.
pub(super) fn unknown_policy(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    let uploads = bench.index.uploads.clone();
    instead_of_transfers(bench, |seen, message, replica, world| {
        let Party::Device(receiver) = &message.receiver else { return None };
        uploads.get(receiver)?.iter().find_map(|policy| {
            let mut step = seen.step.clone();
            release_in(&mut step.action)?.policy = *policy;
            let found = obstacle(replica, &step, seen.time, world);
            (found == Some(Obstacle::Premise(Premise::ReceiverPolicyKnown))).then_some(step)
        })
    })
}

/// An item that is not held any more.
pub(super) fn after_erasure(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    let mut erased: Option<(usize, ItemId)> = None;
    let places = {
        let mut lot = Lot::default();
        for number in bench.running("indirect-controller") {
            let Bench { files, world, rng, index, .. } = bench;
            scan(files, number, world, |seen, replica, world| {
                let gone = match &seen.step.action {
                    Action::Expire { item } => Some(item),
                    Action::Receive(Message { body: Said::Withdraw { item, .. }, .. }, _) => Some(item),
                    _ => None,
                };
                if let Some(item) = gone.and_then(|item| world.opened(item)) {
                    erased = Some((number, item));
                }
                let Action::Send(message @ Message { body: Said::Send(release), .. }) = &seen.step.action else {
                    return;
                };
                let Some((_, item)) = erased.filter(|(trace, _)| *trace == number) else { return };
                let before = world.opened(&release.item.pseudonym);
                lot.offer(rng, || {
                    let mut step = seen.step.clone();
                    release_in(&mut step.action)?.item = world.named(item, replica.id)?;
                    let found = obstacle(replica, &step, seen.time, world);
                    if found != Some(Obstacle::Premise(Premise::ValueDefined)) {
                        return None;
                    }
                    let replaced = BTreeMap::from([(seen.place.1, (seen.time, content(step)))]);
                    let here = Edit { trace: number, replaced, ..Edit::default() };
                    Some([here].into_iter().chain(lost(message, before, index)?).collect())
                });
            });
        }
        lot.draw(&mut bench.rng)
    };
    bench.first_good(places, |rewritten| rewritten.marks.first().copied())
}
