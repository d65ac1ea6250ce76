//! What controllers erase too late, or too early.

use std::collections::{BTreeMap, BTreeSet};

use pilot_core::evidence::trace::{Action, Step};
use pilot_core::graph::{Guard, Label, MessageKind};
use pilot_core::sorted::Sorted;
use pilot_core::vocabulary::ItemId;

use super::InjectError;
use super::bench::{Bench, Lot, Made, Obstacle, content, obstacle};
use super::rewrite::Edit;
use super::scan::scan;

/// An erasure is left out, and nothing else erases the item in time.
pub(super) fn use_after_deadline(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    let mut lot = Lot::default();
    for number in bench.running("indirect-controller") {
        let Bench { files, world, rng, .. } = bench;
        scan(files, number, world, |seen, _, world| {
            let Action::Expire { item } = &seen.step.action else { return };
            let (Some(item), (trace, at)) = (world.opened(item), seen.place) else { return };
            lot.offer(rng, || {
                let (removed, touched) = (BTreeSet::from([at]), BTreeSet::from([item]));
                Some(vec![Edit { trace, removed, touched, keeps_overdue: true, ..Edit::default() }])
            });
        });
    }
    let places = lot.draw(&mut bench.rng);
    bench.first_good(places, |rewritten| rewritten.overdue)
}

/// Something that was just accepted is erased, as if it were due.
pub(super) fn erased_early(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    let mut lot = Lot::default();
    for number in bench.running("indirect-controller") {
        let mut last: Option<ItemId> = None;
        let Bench { files, world, rng, .. } = bench;
        scan(files, number, world, |seen, replica, world| {
            if let Some(item) = last {
                lot.offer(rng, || {
                    let (here, name) = (replica.location(0), world.named(item, replica.id)?);
                    let (action, outcomes) = (Action::Expire { item: name.pseudonym }, Sorted::new());
                    let step = Step { graph: 0, instance: 0, from: here, action, to: here, outcomes };
                    let found = obstacle(replica, &step, seen.time, world);
                    let inserted = BTreeMap::from([(seen.place.1, vec![(seen.time, content(step))])]);
                    let edit =
                        Edit { trace: seen.place.0, inserted, touched: BTreeSet::from([item]), ..Edit::default() };
                    (found == Some(Obstacle::Guard(Guard::DeadlineReached))).then(|| vec![edit])
                });
            }
            if seen.step.action.label() == Label::Receive(MessageKind::Broadcast) {
                last = super::bench::release_of(&seen.step.action)
                    .and_then(|release| world.opened(&release.item.pseudonym));
            }
        });
    }
    let places = lot.draw(&mut bench.rng);
    bench.first_good(places, |rewritten| rewritten.marks.first().copied())
}
