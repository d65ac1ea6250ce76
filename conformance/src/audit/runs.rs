//! Runs of a device: how they begin, what the device may have from before, and what it must have erased by now.

use pilot_core::evidence::mesh::Role;
use pilot_core::evidence::trace::{GraphName, Open, Resume};
use pilot_core::graph::message::Withdrawal;
use pilot_core::graph::{Device, Graph};
use pilot_core::graphs::{DIRECT_CONTROLLER, DIRECT_SUBJECT, INDIRECT_CONTROLLER, INDIRECT_SUBJECT, REPOSITORY};
use pilot_core::semantics::{Provenance, Receipt, Requirement};
use pilot_core::value::Time;
use pilot_core::vocabulary::{DeviceId, ItemId};

use super::court::{Court, Place};
use super::replay::{Last, Replay, Stage, Untold};
use super::report::{Class, rules};
use super::world::World;
use super::{wording, words};

impl Court<'_> {
    /// An `open` record: another run, or only another file.
    pub(super) fn opened(&mut self, place: Place, open: &Open) {
        self.end_of_resumes(place);
        let Some(replay) = self.replays.get_mut(place.trace) else { return };
        replay.open(&open.graphs);
        // Whoever has not said with what it begins has not begun.
        if replay.run.stage != Stage::Due {
            replay.run.ended = replay.run.seen;
        }
        match replay.run.last {
            Last::Continues => {}
            Last::Nothing | Last::Running | Last::Stopped => replay.run.stage = Stage::Due,
        }
        replay.run.last = Last::Running;
        self.graphs_fit(place, open);
    }

    /// A device runs one graph, and one for what the mesh file says it is there for; who is not listed is a subject.
    fn graphs_fit(&mut self, place: Place, open: &Open) {
        let Some(replay) = self.replays.get(place.trace) else { return };
        let fits: &[&Graph<'_>] = match self.world.role(replay.id) {
            Some(Role::Controller) => &[&DIRECT_CONTROLLER, &INDIRECT_CONTROLLER],
            Some(Role::Repository) => &[&REPOSITORY],
            None => &[&DIRECT_SUBJECT, &INDIRECT_SUBJECT],
        };
        if let [graph] = open.graphs[..]
            && fits.iter().any(|fitting| GraphName::of(fitting) == graph)
        {
            return;
        }
        let text = format!("{} began to run at {} as what it is not", replay.name, place.time);
        let premise = "a device runs the graph of its role".to_owned();
        self.found(Class::Violation, place, rules::GRAPH, premise, text, None);
    }

    /// A `resume` record.
    pub(super) fn resumed(&mut self, place: Place, resume: &Resume) {
        let (world, replays) = (&mut self.world, &mut self.replays);
        let Some(replay) = replays.get_mut(place.trace) else { return };
        let stage = replay.run.stage;
        match stage {
            Stage::Lost => return,
            Stage::Resuming => {}
            Stage::Due | Stage::Running => replay.begin_run(place.time),
        }
        if let Err(untold) = replay.resume(resume, world) {
            self.untold(place, &untold);
        }
        if stage == Stage::Running {
            // Otherwise whoever says so would begin anew whenever something is due.
            let device = self.device(place.trace);
            let text = format!("{device} said at {} with what it began to run, and did not begin", place.time);
            let premise = "a `resume` follows an `open`".to_owned();
            self.found(Class::Violation, place, rules::RESUME, premise, text, None);
        }
    }

    /// A record whose meaning cannot be told. Nor can that of what follows, up to the next run, which says what it begins with.
    #[cold]
    pub(super) fn untold(&mut self, place: Place, untold: &Untold) {
        let device = self.device(place.trace);
        let text = format!("nobody can judge what {device} did at {}: {untold}", place.time);
        let rule = match untold {
            Untold::Policy(_) | Untold::Datatype(_) | Untold::Entity(_) | Untold::Device(_) => rules::MESH,
            Untold::Owner | Untold::Graph | Untold::Instances => rules::CHAIN,
        };
        self.found(Class::Integrity, place, rule, wording::premise(rule), text, None);
        if let Some(replay) = self.replays.get_mut(place.trace) {
            (replay.run.stage, replay.run.unknown) = (Stage::Lost, Some("what came before cannot be told"));
        }
    }

    /// All `resume` records of a run were heard, if any: what it begins with is compared with what the run before ended with.
    pub(super) fn end_of_resumes(&mut self, place: Place) {
        let Some(replay) = self.replays.get_mut(place.trace).filter(|replay| replay.run.stage == Stage::Resuming)
        else {
            return;
        };
        replay.run.stage = Stage::Running;
        let before = replay.run.before.take();
        let unknown = replay.run.unknown.take();
        let mut wrong = Vec::new();
        match &before {
            Some(before) => wrong = differences(before, &replay.device, &self.world, place.time),
            None => replay.presume(),
        }
        replay.settle(&mut self.world);
        if let Some(why) = unknown {
            self.unjudged_at(place.trace, "how what the device had at first came about", why);
        }
        for (premise, text) in wrong {
            let text = format!("{} began to run at {} {text}", self.device(place.trace), place.time);
            self.found(Class::Violation, place, rules::RESUME, premise.into(), text, None);
        }
    }

    /// What must be gone by now.
    pub(super) fn sweep(&mut self, place: Place) {
        while let Some(replay) = self.replays.get_mut(place.trace) {
            if replay.run.stage != Stage::Running {
                return;
            }
            let Some(receipt) = replay.due.take_overdue(place.time) else { return };
            let digest = self.world.policies.digest(receipt.policy);
            let what = words::item(receipt.item, replay, &self.world);
            let policy = words::policy(receipt.policy, &self.world);
            let deadline = self.world.deadline(&receipt).unwrap_or_default();
            let text = format!(
                "{} still held {what} at {}, although its policy {policy} ended at {deadline}",
                replay.name, place.time
            );
            let rule = Requirement::StorageLimitation.to_string();
            let premise = "time < p_i.dcr.rt, or the item is erased".to_owned();
            self.found(Class::Violation, place, &rule, premise, text, digest);
        }
    }
}

impl Replay {
    /// What it had at first came about somehow.
    fn presume(&mut self) {
        for receipt in &self.device.state.received {
            let epoch = self.device.memory.released.get(receipt).copied().unwrap_or_default();
            self.ghosts.provenance.insert(*receipt, presumed(receipt, epoch));
            self.presumed.insert(*receipt);
        }
        for (item, withdrawal) in &self.device.memory.tombstones {
            self.ghosts.withdrawn.insert(*item, withdrawal.epoch);
        }
        for (key, withdrawal) in &self.device.memory.notices {
            self.ghosts.owed.insert(*key, withdrawal.epoch);
        }
    }

    /// Takes what the device says it has for what it has: what it lost is erased.
    fn settle(&mut self, world: &mut World<'_>) {
        self.state.clone_from(&self.device.state);
        let held = &self.state.received;
        self.ghosts.provenance.retain(|receipt, _| held.contains(receipt));
        self.presumed.retain(|receipt| held.contains(receipt));
        let due = held.iter().filter_map(|receipt| Some((*receipt, world.deadline(receipt)?)));
        self.due.begin_run(self.run.ended, self.run.began, due);
        for item in self.items_known() {
            self.forget(Some(item), world);
        }
    }
}

/// How an item came about if nobody can tell: as it should.
pub(super) fn presumed(receipt: &Receipt, epoch: pilot_core::semantics::Epoch) -> Provenance {
    Provenance { own: Some(receipt.policy), offered: receipt.policy, shown: true, epoch, known_to_sender: Some(true) }
}

/// What a device cannot have, or must have, given what it had before.
fn differences(before: &Device, after: &Device, world: &World<'_>, now: Time) -> Vec<(&'static str, &'static str)> {
    let mut wrong = Vec::new();
    let mut check = |is_right: bool, premise: &'static str, text: &'static str| {
        if !is_right {
            wrong.push((premise, text));
        }
    };
    let epoch = |device: &Device, receipt: &Receipt| device.memory.released.get(receipt).copied();
    let is_held =
        |receipt: &Receipt| before.state.received.contains(receipt) && epoch(before, receipt) == epoch(after, receipt);
    let (was, is) = (&before.memory, &after.memory);
    let held = after.state.received.iter().all(is_held);
    check(held, "ρ after ⊆ ρ before", "with an item that it did not hold before");
    let published = is.published.is_subset(&was.published) && is.current.is_subset(&was.current);
    check(published, "published after ⊆ published before", "with a policy that it had not published");
    let policies = after.state.policies.is_subset(&before.state.policies);
    check(policies, "π after ⊆ π before", "with policies that it did not know before");
    let listed = is.catalogue.iter().all(|(device, policy)| was.catalogue.get(device) == Some(policy));
    check(listed, "Π after ⊆ Π before", "with listed policies that it had not listed");
    check(is.asked.is_subset(&was.asked), "asked after ⊆ asked before", "as if it had asked for what it had not");
    let is_other = |item: ItemId| world.directory.item(item).is_none_or(|item| item.owner != after.id);
    let covers = |known: Option<&Withdrawal>, withdrawal: &Withdrawal| {
        withdrawal.is_over_at(now) || known.is_some_and(|known| *known == known.and(*withdrawal))
    };
    let tombstones = was.tombstones.iter().filter(|(item, _)| is_other(**item));
    let remembered = tombstones.clone().all(|(item, withdrawal)| covers(is.tombstones.get(item), withdrawal));
    check(remembered, "tombstones before ⊆ tombstones after", "without a withdrawal that it had been told of");
    let owed = |all: &std::collections::BTreeMap<(ItemId, DeviceId), Withdrawal>,
                now: &std::collections::BTreeMap<(ItemId, DeviceId), Withdrawal>| {
        all.iter().filter(|((item, _), _)| is_other(*item)).all(|(key, withdrawal)| covers(now.get(key), withdrawal))
    };
    let told = owed(&was.notices, &is.notices) && owed(&was.recipients, &is.recipients);
    check(told, "recipients and notices before ⊆ after", "without knowing to whom it had passed an item");
    wrong
}
