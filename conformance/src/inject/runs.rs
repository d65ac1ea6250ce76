//! Runs that begin with what they cannot have, or without what they must have, and steps out of order.

use std::collections::{BTreeMap, BTreeSet};

use pilot_core::evidence::trace::action::Party;
use pilot_core::evidence::trace::resume::Held;
use pilot_core::evidence::trace::{Action, Content, Resume};
use pilot_core::graph::Location;
use pilot_core::semantics::Epoch;
use pilot_core::value::Time;
use pilot_core::vocabulary::ItemId;

use super::InjectError;
use super::bench::{Bench, Lot, Made, first_step};
use super::rechain::Line;
use super::replica::{Replica, World};
use super::rewrite::Edit;
use super::scan::{scan, scan_all};

/// By how many seconds a clock goes back.
const BACK_SECONDS: std::ops::Range<u64> = 10..120;

/// τ of a controller is left out, so that the next step begins elsewhere.
pub(super) fn skipped_location(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    let mut lot = Lot::default();
    for number in bench.running("indirect-controller") {
        let mut tau: Option<usize> = None;
        let Bench { files, world, rng, .. } = bench;
        scan(files, number, world, |seen, _, _| {
            if let Some(at) = tau.take() {
                let same = BTreeMap::from([(seen.place.1, (seen.time, Content::Step(Box::new(seen.step.clone()))))]);
                let removed = BTreeSet::from([at]);
                // What is not taken anywhere, but somewhere; and in the same run.
                if seen.step.from != seen.step.to && seen.step.from != Location::S0 {
                    let edit = Edit { trace: number, removed, replaced: same, ..Edit::default() };
                    lot.offer(rng, || Some(vec![edit]));
                }
            }
            tau = (seen.step.action == Action::Tau).then_some(seen.place.1);
        });
    }
    let places = lot.draw(&mut bench.rng);
    bench.first_good(places, |rewritten| rewritten.marks.first().copied())
}

/// τ, which no guard asks the time for.
pub(super) fn back_dated_clock(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    let mut lot = Lot::default();
    for number in 0..bench.files.traces.len() {
        let mut latest: Option<Time> = None;
        let Bench { files, world, rng, .. } = bench;
        scan(files, number, world, |seen, _, _| {
            let before = latest.replace(seen.time);
            let earlier = Time::from_unix(seen.time.unix().saturating_sub(rng.u64(BACK_SECONDS)));
            if seen.step.action == Action::Tau && before.is_some_and(|before| earlier < before) {
                let step = Content::Step(Box::new(seen.step.clone()));
                let replaced = BTreeMap::from([(seen.place.1, (earlier, step))]);
                lot.offer(rng, || Some(vec![Edit { trace: number, replaced, ..Edit::default() }]));
            }
        });
    }
    let places = lot.draw(&mut bench.rng);
    bench.first_good(places, |rewritten| rewritten.marks.first().copied())
}

/// Runs of controllers that could have begun with something else; it shows at their first step.
fn other_resumes(
    bench: &mut Bench<'_>,
    mut other: impl FnMut(&Resume, Time, &mut fastrand::Rng, &Replica, &World<'_>) -> Option<(Resume, ItemId)>,
) -> Result<Option<Made>, InjectError> {
    let mut lot = Lot::default();
    for number in bench.running("indirect-controller") {
        let Bench { files, world, rng, .. } = bench;
        scan_all(files, number, world, |(_, at), time, content, replica, world| {
            let Content::Resume(resume) = content else { return };
            let mut chance = rng.fork();
            lot.offer(rng, || {
                let (resume, item) = other(resume, time, &mut chance, replica, world)?;
                let replaced = BTreeMap::from([(at, (time, Content::Resume(Box::new(resume))))]);
                Some(Edit { trace: number, replaced, touched: BTreeSet::from([item]), ..Edit::default() })
            });
        });
    }
    shown_at_first_step(bench, lot)
}

fn shown_at_first_step(bench: &mut Bench<'_>, lot: Lot<Edit>) -> Result<Option<Made>, InjectError> {
    for edit in lot.draw(&mut bench.rng) {
        let files = bench.files;
        let trace = files.traces.get(edit.trace);
        let is_step = |at: usize| {
            let record = trace.and_then(|trace| trace.record(at));
            record.is_some_and(|record| matches!(record.content, Content::Step(_) | Content::Close { .. }))
        };
        let shows = |rewritten: &super::rewrite::Rewritten| {
            let lines: &[Line] = &rewritten.lines;
            first_step(lines, rewritten.at, is_step)
        };
        let made = bench.first_good(vec![vec![edit]], shows)?;
        if made.is_some() {
            return Ok(made);
        }
    }
    Ok(None)
}

/// With somebody's item, under a policy that it has published.
pub(super) fn invented_resume(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    let items = bench.world.opened_items();
    other_resumes(bench, |resume, time, rng, replica, world| {
        let item = rng.choice(items.iter().copied())?;
        if replica.device.mentions_item(item) {
            return None;
        }
        let in_time = |policy: &&pilot_core::codec::Digest| {
            let id = world.policies.by_digest(policy);
            let policy = id.and_then(|id| world.policies.policy(id));
            policy.is_some_and(|policy| time < policy.collection().usage.retention())
        };
        let policy = *resume.published.iter().find(in_time)?;
        let (item_name, epoch) = (world.named(item, replica.id)?, Epoch::of(time));
        let mut resume = resume.clone();
        resume.received.insert(Held { sender: Party::Owner, item: item_name, policy, epoch });
        Some((resume, item))
    })
}

/// Without a tombstone that still matters.
pub(super) fn forgotten_tombstone(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    other_resumes(bench, |resume, time, rng, _, world| {
        let matters = |(item, withdrawal): &&(pilot_core::evidence::trace::action::Item, _)| {
            let withdrawal: &pilot_core::graph::message::Withdrawal = withdrawal;
            !withdrawal.is_over_at(later(time)) && world.opened(&item.pseudonym).is_some()
        };
        let gone = rng.choice(resume.tombstones.iter().filter(matters).cloned().collect::<Vec<_>>())?;
        let mut resume = resume.clone();
        resume.tombstones.remove(&gone);
        Some((resume, world.opened(&gone.0.pseudonym)?))
    })
}

/// Without somebody who may have an item, and must be told when it is taken back.
pub(super) fn forgotten_recipient(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    other_resumes(bench, |resume, time, rng, _, world| {
        let matters = |one: &&pilot_core::evidence::trace::resume::Remembered| {
            !one.withdrawal.is_over_at(later(time)) && world.opened(&one.item.pseudonym).is_some()
        };
        let gone = rng.choice(resume.recipients.iter().filter(matters).cloned().collect::<Vec<_>>())?;
        let mut resume = resume.clone();
        resume.recipients.remove(&gone);
        Some((resume, world.opened(&gone.item.pseudonym)?))
    })
}

/// The first step of a run comes soon.
fn later(time: Time) -> Time {
    Time::from_unix(time.unix().saturating_add(Epoch::SECONDS))
}

/// The first run's, so that nothing else is missing.
pub(super) fn missing_resume(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    let mut lot = Lot::default();
    for (number, trace) in bench.files.traces.iter().enumerate() {
        let mut removed = BTreeSet::new();
        for at in 0..trace.len() {
            match trace.record(at).map(|record| record.content) {
                Some(Content::Resume(_)) => drop(removed.insert(at)),
                Some(Content::Step(_)) | None => break,
                Some(_) => {}
            }
        }
        if !removed.is_empty() {
            lot.offer(&mut bench.rng, || Some(Edit { trace: number, removed, ..Edit::default() }));
        }
    }
    shown_at_first_step(bench, lot)
}
