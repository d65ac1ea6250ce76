//! Policies that are listed, uploaded or shown wrongly, and messages that change on their way.

use std::collections::{BTreeMap, BTreeSet};

use pilot_core::codec::Digest;
use pilot_core::evidence::DeviceName;
use pilot_core::evidence::envelope::MessageId;
use pilot_core::evidence::trace::action::{Body as Said, CatalogueDigest, Cause, Handle, Message, Offer, Party};
use pilot_core::evidence::trace::{Action, Step};
use pilot_core::graph::{Guard, Location};
use pilot_core::semantics::{Epoch, PolicyId};
use pilot_core::sorted::Sorted;

use super::InjectError;
use super::bench::{Bench, Lot, Made, Obstacle, content, like, obstacle};
use super::replica::{Replica, World};
use super::rewrite::Edit;
use super::scan::{Seen, scan};

/// Places in all traces of a graph where a step could have been another, or have another before it.
fn choose(
    bench: &mut Bench<'_>,
    graph: &str,
    mut other: impl FnMut(&Seen<'_>, &mut fastrand::Rng, &mut Replica, &mut World<'_>) -> Option<Edit>,
) -> Result<Option<Made>, InjectError> {
    let mut lot = Lot::default();
    for number in bench.running(graph) {
        let Bench { files, world, rng, .. } = bench;
        scan(files, number, world, |seen, replica, world| {
            let mut chance = rng.fork();
            lot.offer(rng, || {
                let edit = other(&seen, &mut chance, replica, world)?;
                Some(vec![Edit { trace: number, ..edit }])
            });
        });
    }
    let places = lot.draw(&mut bench.rng);
    bench.first_good(places, |rewritten| rewritten.marks.first().copied())
}

fn instead(seen: &Seen<'_>, step: Step) -> Edit {
    Edit { replaced: BTreeMap::from([(seen.place.1, (seen.time, content(step)))]), ..Edit::default() }
}

fn before(seen: &Seen<'_>, step: Step) -> Edit {
    Edit { inserted: BTreeMap::from([(seen.place.1, vec![(seen.time, content(step))])]), ..Edit::default() }
}

/// An older version, which is published but not current.
pub(super) fn upload_not_current(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    let repository = bench.running("repository").first().map(|number| bench.device(*number));
    let repository = repository.and_then(|name| DeviceName::new(&name).ok());
    choose(bench, "indirect-controller", |seen, rng, replica, world| {
        if seen.step.from != Location::S2 {
            return None;
        }
        let memory = &replica.device.memory;
        let old: Vec<PolicyId> = memory.published.difference(&memory.current).copied().collect();
        let policy = world.policies.digest(rng.choice(old)?)?;
        let (sender, receiver) = (Party::Device(world.name(replica.id)?.clone()), Party::Device(repository.clone()?));
        let (body, id) = (Said::UploadPolicy { policy, statement: None }, Some(MessageId(rng.u128(..).to_be_bytes())));
        let action = Action::Send(Message { sender, receiver, body, id });
        let here = Location::S2;
        let step = Step { graph: 0, instance: 0, from: here, action, to: here, outcomes: Sorted::new() };
        let is_it = obstacle(replica, &step, seen.time, world) == Some(Obstacle::Guard(Guard::CurrentPolicy));
        is_it.then(|| before(seen, step))
    })
}

/// In a message of its own.
pub(super) fn forged_upload(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    forge_upload(bench, |rng, _| Some(MessageId(rng.u128(..).to_be_bytes())))
}

/// As if it had come in the message in which the true one came.
pub(super) fn borrowed_id(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    forge_upload(bench, |_, true_one| true_one.id)
}

/// Right before a true one, so that nobody is shown it.
fn forge_upload(
    bench: &mut Bench<'_>,
    id: impl Fn(&mut fastrand::Rng, &Message) -> Option<MessageId>,
) -> Result<Option<Made>, InjectError> {
    let index = std::mem::take(&mut bench.index);
    let numbers: BTreeMap<DeviceName, usize> =
        bench.files.traces.iter().enumerate().map(|(at, trace)| (trace.device.clone(), at)).collect();
    let made = choose(bench, "repository", |seen, rng, replica, world| {
        let Action::Receive(message @ Message { body: Said::UploadPolicy { policy, .. }, .. }, _) = &seen.step.action
        else {
            return None;
        };
        let Party::Device(controller) = &message.sender else { return None };
        if !index.is_whole(*numbers.get(controller)?, seen.time) {
            return None;
        }
        let policy = like(world.policies.by_digest(policy)?, world)?;
        let id = id(rng, message);
        let body = Said::UploadPolicy { policy, statement: None };
        let action = Action::Receive(Message { body, id, ..message.clone() }, Cause::default());
        let step = Step { action, ..seen.step.clone() };
        obstacle(replica, &step, seen.time, world).is_none().then(|| before(seen, step))
    });
    bench.index = index;
    made
}

/// Another policy in place of the one that was listed.
pub(super) fn unvouched_offer(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    choose(bench, "indirect-subject", |seen, rng, replica, world| {
        let mut step = seen.step.clone();
        let Action::Receive(Message { body: Said::DownloadPolicies { catalogue, added, removed }, .. }, _) =
            &mut step.action
        else {
            return None;
        };
        let offer = rng.choice(added.iter().cloned().collect::<Vec<_>>())?;
        let policy = like(world.policies.by_digest(&offer.policy)?, world)?;
        added.remove(&offer);
        added.insert(Offer { policy, statement: None, ..offer });
        let of_others = replica.device.state.policies.iter().filter(|(of, _)| *of != replica.id);
        let mut listed: BTreeSet<(DeviceName, Digest)> = of_others
            .map(|(of, policy)| Some((world.name(*of)?.clone(), world.policies.digest(*policy)?)))
            .collect::<Option<_>>()?;
        listed.retain(|(device, policy)| !removed.iter().any(|one| (&one.device, &one.policy) == (device, policy)));
        listed.extend(added.iter().map(|one| (one.device.clone(), one.policy)));
        *catalogue = CatalogueDigest::of(&listed);
        Some(instead(seen, step))
    })
}

/// The digest of something else.
pub(super) fn download_mismatch(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    choose(bench, "indirect-subject", |seen, rng, _, _| {
        let mut step = seen.step.clone();
        let Action::Receive(Message { body: Said::DownloadPolicies { catalogue, .. }, .. }, _) = &mut step.action
        else {
            return None;
        };
        rng.fill(&mut catalogue.0);
        Some(instead(seen, step))
    })
}

/// A withdrawal that takes back less, or a transfer of an older release, or one of which the two do not speak by the same name.
pub(super) fn message_altered(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    choose(bench, "indirect-controller", |seen, rng, replica, world| {
        let mut step = seen.step.clone();
        let Action::Receive(message, _) = &mut step.action else { return None };
        match &mut message.body {
            Said::Withdraw { withdrawal, .. } => withdrawal.epoch = Epoch(withdrawal.epoch.0.checked_sub(1)?),
            Said::Send(release) if rng.bool() => release.handle = Some(Handle(rng.u128(..).to_be_bytes())),
            Said::Send(release) => release.epoch = Epoch(release.epoch.0.checked_sub(1)?),
            _ => return None,
        }
        let item = replica.action(&step.action, world)?.item()?;
        let is_possible = obstacle(replica, &step, seen.time, world).is_none();
        is_possible.then(|| Edit { touched: BTreeSet::from([item]), ..instead(seen, step) })
    })
}

/// Somebody else's, of which it has nothing yet.
pub(super) fn exchanged_item(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    choose(bench, "indirect-controller", |seen, rng, replica, world| {
        let mut step = seen.step.clone();
        let Action::Receive(Message { body: Said::Send(release), .. }, _) = &mut step.action else { return None };
        let item = world.opened(&release.item.pseudonym)?;
        let mut others = world.opened_items();
        others.retain(|other| *other != item && replica.device.state.receipts_of(*other).next().is_none());
        let other = rng.choice(others)?;
        release.item = Some(world.named(other, replica.id)?).filter(|named| named.datatype == release.item.datatype)?;
        let is_possible = obstacle(replica, &step, seen.time, world).is_none();
        is_possible.then(|| Edit { touched: BTreeSet::from([item, other]), ..instead(seen, step) })
    })
}
