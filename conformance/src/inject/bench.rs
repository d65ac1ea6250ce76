//! The workbench: what kinds look at, how they choose, and what they leave behind.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fastrand::Rng;
use pilot_core::codec::Digest;
use pilot_core::evidence::DeviceName;
use pilot_core::evidence::trace::action::{self, Body as Said, Cause, Message, Party};
use pilot_core::evidence::trace::{Action, Content, Step};
use pilot_core::graph::{Guard, Location, enabled, hindrance};
use pilot_core::policy::{CommunicationRule, Policy, UsageRule};
use pilot_core::semantics::event::{Claim, Delivery, Event, Handover};
use pilot_core::semantics::rules::{self as table2, Premise};
use pilot_core::semantics::{Epoch, PolicyId};
use pilot_core::value::{Time, Value};
use pilot_core::vocabulary::Vocabulary;

use super::InjectError;
use super::directory::Directory;
use super::rechain::{Line, Plan, rechain};
use super::replica::{Replica, World};
use super::rewrite::{Edit, Rewritten, rewrite};
use super::scan::Index;

/// How many places are kept for a choice, all of them equally likely, and tried until one is good.
const MAX_TRIES: usize = 64;

/// A file that becomes another one, or none.
pub struct Change {
    /// Which.
    pub path: PathBuf,
    /// Its new bytes; `None` removes it.
    pub bytes: Option<Vec<u8>>,
}

/// A violation that was made.
pub struct Made {
    /// In whose trace it shows.
    pub device: String,
    /// At which record.
    pub record: u64,
    /// What changes on the disk.
    pub changes: Vec<Change>,
}

/// Places to choose from: of any number, a few at random.
pub struct Lot<T> {
    seen: usize,
    kept: Vec<T>,
}

impl<T> Default for Lot<T> {
    fn default() -> Self {
        Self { seen: 0, kept: Vec::new() }
    }
}

impl<T> Lot<T> {
    /// A place. It is made only if it is kept.
    pub fn offer(&mut self, rng: &mut Rng, place: impl FnOnce() -> Option<T>) {
        let (at, is_full) = (rng.usize(..=self.seen), self.kept.len() >= MAX_TRIES);
        if is_full && at >= MAX_TRIES {
            self.seen += 1;
            return;
        }
        let Some(place) = place() else { return };
        self.seen += 1;
        match self.kept.get_mut(at) {
            Some(kept) if is_full => *kept = place,
            _ => self.kept.push(place),
        }
    }

    /// The places, in any order.
    pub fn draw(mut self, rng: &mut Rng) -> Vec<T> {
        rng.shuffle(&mut self.kept);
        self.kept
    }
}

/// Why the graph does not allow a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// A premise of SEND or TRANSFER.
    Premise(Premise),
    /// A guard that is no premise.
    Guard(Guard),
}

/// What a kind works with.
pub struct Bench<'d> {
    /// What there is.
    pub files: &'d Directory,
    /// What its names stand for.
    pub world: World<'d>,
    /// What everything random comes from.
    pub rng: Rng,
    /// Where messages went.
    pub index: Index,
    keys: Option<&'d Path>,
}

impl<'d> Bench<'d> {
    /// For a directory.
    pub fn new(files: &'d Directory, vocabulary: &'d Vocabulary, keys: Option<&'d Path>, seed: u64) -> Self {
        let mut world = World::new(files, vocabulary);
        for trace in &files.traces {
            for at in 0..trace.len() {
                if let Some(Content::Policy(bytes)) = trace.record(at).map(|record| record.content) {
                    world.learn(&bytes);
                }
            }
        }
        let index = Index::new(files, &world);
        Self { files, world, rng: Rng::with_seed(seed), index, keys }
    }

    /// The traces that run a graph.
    pub fn running(&self, graph: &str) -> Vec<usize> {
        let all = self.files.traces.iter().enumerate();
        all.filter(|(_, trace)| trace.graph == graph).map(|(number, _)| number).collect()
    }

    /// The name of a trace's device.
    pub fn device(&self, trace: usize) -> String {
        self.files.traces.get(trace).map_or_else(String::new, |trace| trace.device.to_string())
    }

    /// The first of some changes after which the devices could have gone on, and where it shows: `shows` says which record of the
    /// first changed trace, if the change is good.
    pub fn first_good(
        &mut self,
        places: Vec<Vec<Edit>>,
        shows: impl Fn(&Rewritten) -> Option<usize>,
    ) -> Result<Option<Made>, InjectError> {
        for edits in places {
            let rewritten =
                edits.iter().map(|edit| rewrite(self.files, edit, &mut self.world)).collect::<Option<Vec<_>>>();
            let Some(rewritten) = rewritten else { continue };
            let Some(record) = rewritten.first().and_then(&shows) else { continue };
            let Some(device) = edits.first().map(|edit| self.device(edit.trace)) else { continue };
            let plan = |rewritten: Rewritten| Plan { lines: Some(rewritten.lines), ..Plan::default() };
            let plans = edits.iter().map(|edit| edit.trace).zip(rewritten.into_iter().map(plan)).collect();
            return self.made(plans, false, device, record).map(Some);
        }
        Ok(None)
    }

    /// Writes traces anew.
    pub fn made(
        &self,
        plans: BTreeMap<usize, Plan>,
        alone: bool,
        device: String,
        record: usize,
    ) -> Result<Made, InjectError> {
        let mut changes = Vec::new();
        let written = rechain(self.files, plans, self.keys, alone)?;
        for (trace, mut written) in self.files.traces.iter().zip(written).filter(|(_, written)| written.is_changed) {
            if let Some(last) = written.files.last_mut() {
                last.extend_from_slice(&trace.torn);
            }
            let files = trace.files.iter().cloned().zip(written.files);
            changes.extend(files.map(|(path, bytes)| Change { path, bytes: Some(bytes) }));
        }
        Ok(Made { device, record: record as u64, changes })
    }
}

/// Why a device could not take a step; `None` if it could, or if nobody can tell.
pub fn obstacle(replica: &mut Replica, step: &Step, now: Time, world: &mut World<'_>) -> Option<Obstacle> {
    let action = replica.action(&step.action, world)?;
    let (contacts, attested) = (world.contacts(&action), world.attested(step));
    let cx = world.context(&contacts, &attested, now);
    let instance = replica.instance(step.instance);
    if instance.location != step.from {
        return None;
    }
    let edge = enabled(replica.graph, &instance, &replica.device, &action, &cx).next();
    let edge = edge.and_then(|edge| replica.graph.edges.get(edge));
    if edge.is_some_and(|edge| edge.to.unwrap_or(step.from) == step.to) {
        return None;
    }
    let premise = action.message().and_then(|message| {
        let release = message.release()?;
        let (sender, receiver) = (message.sender, message.receiver);
        let handover = Handover { sender, receiver, item: release.item, policy: release.policy };
        let is_owner = cx.owner(release.item) == Some(sender);
        match action {
            pilot_core::graph::Action::Send(_) => {
                let claim = if is_owner { Claim::Send(handover) } else { Claim::Transfer(handover) };
                table2::claim(&claim, &replica.device.state, &cx).err()
            }
            _ if receiver == replica.id => {
                let delivery = Delivery { handover, value: Some(Value::Boolean(true)) };
                let event = if is_owner { Event::Send(delivery) } else { Event::Transfer(delivery) };
                table2::premises(&event, &replica.device.state, &cx).err()
            }
            _ => None,
        }
    });
    let guard = || hindrance(replica.graph, &instance, &replica.device, &action, &cx);
    premise.map(Obstacle::Premise).or_else(|| guard().map(Obstacle::Guard))
}

/// broadcast↓, accepted.
pub fn accepted(item: action::Item, controller: DeviceName, policy: Digest, epoch: Epoch) -> Step {
    let release = action::Release { item, policy, epoch, handle: None };
    let body = Said::Broadcast(release);
    let message = Message { sender: Party::Owner, receiver: Party::Device(controller), body, id: None };
    let action = Action::Receive(message, Cause::default());
    Step { graph: 0, instance: 0, from: Location::S2, action, to: Location::S3, outcomes: Default::default() }
}

/// τ from s₃ to s₂.
pub fn tau() -> Step {
    let (from, to, outcomes) = (Location::S3, Location::S2, Default::default());
    Step { graph: 0, instance: 0, from, action: Action::Tau, to, outcomes }
}

/// A step as a record.
pub fn content(step: Step) -> Content {
    Content::Step(Box::new(step))
}

/// The release in a message of a step.
pub fn release_of(action: &Action) -> Option<&action::Release> {
    match action {
        Action::Send(message) | Action::Receive(message, _) => match &message.body {
            Said::Broadcast(release) | Said::Send(release) => Some(release),
            _ => None,
        },
        _ => None,
    }
}

/// Likewise, to change it.
pub fn release_in(action: &mut Action) -> Option<&mut action::Release> {
    match action {
        Action::Send(message) | Action::Receive(message, _) => match &mut message.body {
            Said::Broadcast(release) | Said::Send(release) => Some(release),
            _ => None,
        },
        _ => None,
    }
}

/// A policy like another one, to be kept to for a second less: nobody has ever published it.
pub fn like(policy: PolicyId, world: &mut World<'_>) -> Option<Digest> {
    let known = world.policies.policy(policy)?;
    let CommunicationRule { condition, entity, usage } = known.collection().clone();
    let sooner = Time::from_unix(usage.retention().unix().checked_sub(1)?);
    let usage = UsageRule::new(usage.purposes().to_vec(), sooner).ok()?;
    let rule = CommunicationRule { condition, entity, usage };
    let new = Policy::new(known.datatype(), rule, known.transfers().to_vec(), world.vocabulary()).ok()?;
    let id = world.invent(new);
    world.policies.digest(id)
}

/// The first step among records, from a place on.
pub fn first_step(lines: &[Line], from: usize, kept_is_step: impl Fn(usize) -> bool) -> Option<usize> {
    let is_step = |line: &Line| match line {
        Line::Kept(at) => kept_is_step(*at),
        Line::New { content, .. } => matches!(content, Content::Step(_)),
    };
    lines.iter().enumerate().skip(from).find(|(_, line)| is_step(line)).map(|(at, _)| at)
}
