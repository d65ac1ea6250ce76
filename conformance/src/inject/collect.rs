//! What controllers keep although they may not.

use std::collections::{BTreeMap, BTreeSet};

use pilot_core::evidence::DeviceName;
use pilot_core::evidence::trace::action::{Body as Said, Message, Party};
use pilot_core::evidence::trace::{Action, Step};
use pilot_core::graph::{Guard, Label, Location, MessageKind};
use pilot_core::semantics::Epoch;
use pilot_core::semantics::rules::Premise;
use pilot_core::value::Time;

use super::InjectError;
use super::bench::{Bench, Lot, Made, Obstacle, accepted, content, like, obstacle, release_in, tau};
use super::replica::{Replica, World};
use super::rewrite::{Edit, Rewritten};
use super::scan::{Key, Seen, key, scan};

/// How many broadcasts are tried out at each controller.
const MAX_WANTED: usize = 512;

/// broadcast↓, as the trace says it.
fn acceptance<'s>(seen: &Seen<'s>) -> Option<&'s Message> {
    match &seen.step.action {
        Action::Receive(message, _) if seen.step.action.label() == Label::Receive(MessageKind::Broadcast) => {
            Some(message)
        }
        _ => None,
    }
}

fn first_mark(rewritten: &Rewritten) -> Option<usize> {
    rewritten.marks.first().copied()
}

/// A step that says something else, and whatever follows from that.
fn instead(seen: &Seen<'_>, step: Step, replica: &mut Replica, world: &mut World<'_>) -> Option<Vec<Edit>> {
    let (trace, at) = seen.place;
    let touched = replica.action(&step.action, world)?.item().into_iter().collect();
    let replaced = BTreeMap::from([(at, (seen.time, content(step)))]);
    Some(vec![Edit { trace, replaced, touched, ..Edit::default() }])
}

/// A step, and back to s₂, before another one.
fn before(seen: &Seen<'_>, step: Step, replica: &mut Replica, world: &mut World<'_>) -> Option<Vec<Edit>> {
    let (trace, at) = seen.place;
    let touched = replica.action(&step.action, world)?.item().into_iter().collect();
    let steps = vec![(seen.time, content(step)), (seen.time, content(tau()))];
    Some(vec![Edit { trace, inserted: BTreeMap::from([(at, steps)]), touched, ..Edit::default() }])
}

/// What each acceptance of an opened item could have been instead.
fn instead_of_acceptances(
    bench: &mut Bench<'_>,
    mut other: impl FnMut(&Seen<'_>, &Key, &mut Replica, &mut World<'_>) -> Option<Step>,
) -> Result<Option<Made>, InjectError> {
    let mut lot = Lot::default();
    for number in bench.running("indirect-controller") {
        let Bench { files, world, rng, .. } = bench;
        scan(files, number, world, |seen, replica, world| {
            let Some(key) = acceptance(&seen).and_then(|message| key(message, world)) else { return };
            lot.offer(rng, || {
                let step = other(&seen, &key, replica, world)?;
                instead(&seen, step, replica, world)
            });
        });
    }
    let places = lot.draw(&mut bench.rng);
    bench.first_good(places, first_mark)
}

/// The owner's broadcasts are cut out of her trace.
pub(super) fn without_consent(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    let mut lot = Lot::default();
    let mut heard: Vec<(&Key, &Vec<(usize, usize)>)> = bench.index.heard.iter().collect();
    heard.sort_unstable_by_key(|(_, places)| places.first().copied());
    for (key, places) in heard {
        let ([place], Some(sent)) = (&places[..], bench.index.on_air.get(key)) else { continue };
        let Some(((trace, _), time)) = sent.first().copied() else { continue };
        if bench.index.is_whole(trace, time) {
            let removed: BTreeSet<usize> = sent.iter().map(|((_, at), _)| *at).collect();
            lot.offer(&mut bench.rng, || Some((Edit { trace, removed, ..Edit::default() }, *place)));
        }
    }
    for (edit, (trace, at)) in lot.draw(&mut bench.rng) {
        let made = bench.first_good(vec![vec![edit]], |rewritten| Some(rewritten.at))?;
        if let Some(made) = made {
            return Ok(Some(Made { device: bench.device(trace), record: at as u64, ..made }));
        }
    }
    Ok(None)
}

/// Another policy that the controller has published, and that was not broadcast.
pub(super) fn wrong_policy(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    let (index, traces) = (std::mem::take(&mut bench.index), traces(bench));
    let made = instead_of_acceptances(bench, |seen, (item, controller, _, epoch), replica, world| {
        let owner = world.directory.item(*item).and_then(|item| world.name(item.owner))?;
        if !index.is_whole(*traces.get(owner)?, seen.time) {
            return None;
        }
        let others: Vec<_> = replica.device.memory.published.iter().copied().collect();
        others.into_iter().find_map(|policy| {
            let digest = world.policies.digest(policy)?;
            let mut step = seen.step.clone();
            release_in(&mut step.action)?.policy = digest;
            let is_sent = index.on_air.contains_key(&(*item, controller.clone(), digest, *epoch));
            let is_possible = !is_sent && obstacle(replica, &step, seen.time, world).is_none();
            is_possible.then_some(step)
        })
    });
    bench.index = index;
    made
}

fn traces(bench: &Bench<'_>) -> BTreeMap<DeviceName, usize> {
    bench.files.traces.iter().enumerate().map(|(at, trace)| (trace.device.clone(), at)).collect()
}

/// A policy like the one that it was released under.
pub(super) fn unpublished_policy(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    instead_of_acceptances(bench, |seen, (_, _, policy, _), replica, world| {
        let digest = like(world.policies.by_digest(policy)?, world)?;
        let mut step = seen.step.clone();
        release_in(&mut step.action)?.policy = digest;
        let is_it = obstacle(replica, &step, seen.time, world) == Some(Obstacle::Guard(Guard::PublishedByMe));
        is_it.then_some(step)
    })
}

/// Broadcasts that might be kept by controllers that may not, each from some moment on.
fn before_steps(
    bench: &mut Bench<'_>,
    mut wanted: impl FnMut(&Key, Time, &DeviceName, &World<'_>) -> Option<Time>,
    is_it: impl Fn(Obstacle) -> bool,
) -> Result<Option<Made>, InjectError> {
    let mut lot = Lot::default();
    let mut keys: Vec<(Key, Time)> = Vec::new();
    for (key, sent) in &bench.index.on_air {
        keys.extend(sent.first().map(|(_, time)| (key.clone(), *time)));
    }
    keys.sort_unstable();
    for number in bench.running("indirect-controller") {
        let Some(device) = bench.files.traces.get(number).map(|trace| trace.device.clone()) else { continue };
        let Bench { files, world, rng, .. } = bench;
        rng.shuffle(&mut keys);
        let moments = keys.iter().filter_map(|(key, time)| Some((wanted(key, *time, &device, world)?, key)));
        let mut moments: Vec<(Time, &Key)> = moments.take(MAX_WANTED).collect();
        moments.sort_unstable_by_key(|(time, _)| std::cmp::Reverse(*time));
        scan(files, number, world, |seen, replica, world| {
            if seen.step.from != Location::S2 || seen.step.instance != 0 {
                return;
            }
            while let Some((_, (item, controller, policy, epoch))) = moments.pop_if(|(from, _)| *from <= seen.time) {
                lot.offer(rng, || {
                    let item = world.named(*item, replica.id)?;
                    let step = accepted(item, controller.clone(), *policy, *epoch);
                    let is_it = obstacle(replica, &step, seen.time, world).is_some_and(&is_it);
                    if is_it { before(&seen, step, replica, world) } else { None }
                });
            }
        });
    }
    let places = lot.draw(&mut bench.rng);
    bench.first_good(places, first_mark)
}

/// Somebody else's.
pub(super) fn wrong_controller(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    let wanted = |key: &Key, time: Time, device: &DeviceName, _: &World<'_>| (key.1 != *device).then_some(time);
    // Whether its own terms would cover the policy or not.
    before_steps(bench, wanted, |obstacle| {
        matches!(obstacle, Obstacle::Guard(Guard::AddressedToMe | Guard::WithinCurrent))
    })
}

/// A broadcast that nobody kept in time, or that was kept and erased since: a replay.
pub(super) fn stale_broadcast(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    let wanted = |key: &Key, _: Time, device: &DeviceName, _: &World<'_>| {
        let stale_from = key.3.0.saturating_add(Epoch::WINDOW + 1).saturating_mul(Epoch::SECONDS);
        (key.1 == *device).then_some(Time::from_unix(stale_from))
    };
    before_steps(bench, wanted, |obstacle| obstacle == Obstacle::Guard(Guard::Fresh))
}

/// Under a policy that was in force when the broadcast left, and is not any more.
pub(super) fn after_deadline(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    let wanted = |key: &Key, time: Time, device: &DeviceName, world: &World<'_>| {
        let policy = world.policies.policy(world.policies.by_digest(&key.2)?)?;
        let deadline = policy.collection().usage.retention();
        let is_near = deadline.unix().saturating_sub(time.unix()) <= Epoch::SECONDS;
        (key.1 == *device && is_near).then_some(deadline)
    };
    before_steps(bench, wanted, |obstacle| obstacle == Obstacle::Premise(Premise::InTime))
}

/// A release that was taken back since.
pub(super) fn after_withdrawal(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    let index = std::mem::take(&mut bench.index);
    let mut withdrawn: BTreeMap<(usize, pilot_core::vocabulary::ItemId), Time> = BTreeMap::new();
    for places in index.received.values() {
        for (trace, at) in places {
            let record = bench.files.traces.get(*trace).and_then(|trace| trace.record(*at));
            let Some(record) = record else { continue };
            let pilot_core::evidence::trace::Content::Step(step) = record.content else { continue };
            let Action::Receive(Message { body: Said::Withdraw { item, .. }, sender: Party::Owner, .. }, _) =
                &step.action
            else {
                continue;
            };
            if let Some(item) = bench.world.opened(item) {
                let last = withdrawn.entry((*trace, item)).or_default();
                *last = record.time.max(*last);
            }
        }
    }
    let traces = traces(bench);
    bench.index = index;
    let wanted = |key: &Key, sent: Time, device: &DeviceName, _: &World<'_>| {
        let time = withdrawn.get(&(*traces.get(device)?, key.0))?;
        (key.1 == *device && sent <= *time).then_some(*time)
    };
    before_steps(bench, wanted, |obstacle| obstacle == Obstacle::Guard(Guard::NotWithdrawn))
}

/// The same once more.
pub(super) fn duplicated_item(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    let mut lot = Lot::default();
    for number in bench.running("indirect-controller") {
        let mut last: Option<Step> = None;
        let Bench { files, world, rng, .. } = bench;
        scan(files, number, world, |seen, replica, world| {
            let is_acceptance = acceptance(&seen).and_then(|message| key(message, world)).is_some();
            if let Some(step) = last.take_if(|_| seen.step.from == Location::S2) {
                lot.offer(rng, || {
                    let found = obstacle(replica, &step, seen.time, world);
                    let is_it = found == Some(Obstacle::Guard(Guard::NotYetHeld));
                    if is_it { before(&seen, step.clone(), replica, world) } else { None }
                });
            }
            // To be said again as soon as it is back at s₂.
            if is_acceptance {
                last = Some(seen.step.clone());
            }
        });
    }
    let places = lot.draw(&mut bench.rng);
    bench.first_good(places, first_mark)
}
