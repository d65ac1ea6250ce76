//! What subjects release although they should not.

use std::collections::BTreeMap;

use pilot_core::condition::Condition;
use pilot_core::evidence::trace::action::{self, Body as Said, Message, Party};
use pilot_core::evidence::trace::{Action, Outcome, Rule, Step};
use pilot_core::graph::{Guard, Location};
use pilot_core::semantics::rules::Premise;
use pilot_core::semantics::{Epoch, PolicyId};
use pilot_core::sorted::Sorted;
use pilot_core::vocabulary::DeviceId;

use super::InjectError;
use super::bench::{Bench, Lot, Made, Obstacle, content, obstacle, release_in};
use super::replica::{Replica, World};
use super::rewrite::Edit;
use super::scan::{Index, Seen, key, scan};

/// Whether nobody would miss a broadcast: it was not accepted, or there are others like it.
fn is_spare(message: &Message, index: &Index, world: &World<'_>) -> bool {
    let Some(key) = key(message, world) else { return false };
    !index.heard.contains_key(&key) || index.on_air.get(&key).is_some_and(|sent| sent.len() > 1)
}

/// What each spare broadcast of a subject could have been instead.
fn instead_of_broadcasts(
    bench: &mut Bench<'_>,
    mut other: impl FnMut(&Seen<'_>, &Message, &mut Replica, &mut World<'_>) -> Option<Step>,
) -> Result<Option<Made>, InjectError> {
    let mut lot = Lot::default();
    for number in bench.running("indirect-subject") {
        let Bench { files, world, rng, index, .. } = bench;
        scan(files, number, world, |seen, replica, world| {
            let Action::Send(message @ Message { body: Said::Broadcast(_), .. }) = &seen.step.action else { return };
            if !is_spare(message, index, world) {
                return;
            }
            lot.offer(rng, || {
                let step = other(&seen, message, replica, world)?;
                let replaced = BTreeMap::from([(seen.place.1, (seen.time, content(step)))]);
                Some(vec![Edit { trace: seen.place.0, replaced, ..Edit::default() }])
            });
        });
    }
    let places = lot.draw(&mut bench.rng);
    bench.first_good(places, |rewritten| rewritten.marks.first().copied())
}

/// Another version of the controller's policy.
pub(super) fn unshown_policy(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    let uploads = bench.index.uploads.clone();
    instead_of_broadcasts(bench, |seen, message, replica, world| {
        let Party::Device(controller) = &message.receiver else { return None };
        uploads.get(controller)?.iter().find_map(|policy| {
            let mut step = seen.step.clone();
            release_in(&mut step.action)?.policy = *policy;
            let found = obstacle(replica, &step, seen.time, world);
            (found == Some(Obstacle::Premise(Premise::ReceiverPolicyKnown))).then_some(step)
        })
    })
}

/// An outcome was another.
pub(super) fn condition_not_met(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    instead_of_broadcasts(bench, |seen, _, replica, world| {
        seen.step.outcomes.iter().filter(|outcome| outcome.holds).find_map(|outcome| {
            let mut step = seen.step.clone();
            step.outcomes.remove(outcome);
            step.outcomes.insert(Outcome { holds: false, ..*outcome });
            let found = obstacle(replica, &step, seen.time, world);
            matches!(found, Some(Obstacle::Premise(_))).then_some(step)
        })
    })
}

/// Broadcasts that a subject could have made, for offers that she knows.
fn more_broadcasts(bench: &mut Bench<'_>, is_it: impl Fn(Obstacle) -> bool) -> Result<Option<Made>, InjectError> {
    let mut lot = Lot::default();
    for number in bench.running("indirect-subject") {
        // What she has found out about conditions so far.
        let mut known: BTreeMap<Condition, bool> = BTreeMap::new();
        let Bench { files, world, rng, .. } = bench;
        scan(files, number, world, |seen, replica, world| {
            known.extend(world.attested(seen.step));
            if seen.step.from != Location::S3 {
                return;
            }
            let offers = replica.device.state.policies.iter().copied().filter(|(of, _)| *of != replica.id);
            let offers: Vec<(DeviceId, PolicyId)> = offers.collect();
            let Some(offer) = rng.choice(offers) else { return };
            lot.offer(rng, || {
                let step = broadcast(offer, &seen, replica, &known, world)?;
                let found = obstacle(replica, &step, seen.time, world);
                let inserted = BTreeMap::from([(seen.place.1, vec![(seen.time, content(step))])]);
                let edit = Edit { trace: seen.place.0, inserted, ..Edit::default() };
                found.is_some_and(&is_it).then(|| vec![edit])
            });
        });
    }
    let places = lot.draw(&mut bench.rng);
    bench.first_good(places, |rewritten| rewritten.marks.first().copied())
}

fn broadcast(
    (controller, policy): (DeviceId, PolicyId),
    seen: &Seen<'_>,
    replica: &Replica,
    known: &BTreeMap<Condition, bool>,
    world: &World<'_>,
) -> Option<Step> {
    let item = world.named(replica.item_of(seen.step.instance)?, replica.id)?;
    let (sender, receiver) = (world.name(replica.id)?.clone(), world.name(controller)?.clone());
    let (digest, epoch) = (world.policies.digest(policy)?, Epoch::of(seen.time));
    let outcome = |id: PolicyId| {
        let condition = &world.policies.policy(id)?.collection().condition;
        let holds = known.get(condition).copied().unwrap_or(id == policy);
        let outcome = Outcome { policy: world.policies.digest(id)?, rule: Rule::Collection, holds };
        (!condition.is_always()).then_some(outcome)
    };
    let own = replica.device.state.policies_of(replica.id);
    let outcomes: Sorted<Outcome> = own.chain([policy]).filter_map(outcome).collect();
    let body = Said::Broadcast(action::Release { item, policy: digest, epoch, handle: None });
    let message = Message { sender: Party::Device(sender), receiver: Party::Device(receiver), body, id: None };
    let (instance, here) = (seen.step.instance, Location::S3);
    Some(Step { graph: 0, instance, from: here, action: Action::Send(message), to: here, outcomes })
}

/// For an offer that none of her policies allows.
pub(super) fn outside_own_policy(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    more_broadcasts(bench, |obstacle| {
        let is_own = |premise| matches!(premise, Premise::OwnPolicy | Premise::OwnPolicyActive(_) | Premise::WithinOwn);
        matches!(obstacle, Obstacle::Premise(premise) if is_own(premise))
    })
}

/// To whom she refuses it.
pub(super) fn to_refused(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    more_broadcasts(bench, |obstacle| obstacle == Obstacle::Guard(Guard::NotRefused))
}
