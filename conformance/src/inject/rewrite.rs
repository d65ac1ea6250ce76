//! A trace with one change in it, and otherwise as a faithful device would have gone on.
//!
//! A change can have consequences: an item that is held although it should not be is refused when it comes again, and must
//! still be erased at its deadline. What follows the change is therefore run again, and what the device would not have
//! done is left out, or put in. If that does not come out, the place was not a good one, and another is tried: what an
//! auditor then finds is the violation, and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use pilot_core::codec::Digest;
use pilot_core::evidence::trace::action::{Body as Said, Offer, Party};
use pilot_core::evidence::trace::resume::Remembered;
use pilot_core::evidence::trace::{Action, Content, Record, Resume, Step};
use pilot_core::graph::{Label, Location, MessageKind};
use pilot_core::semantics::Receipt;
use pilot_core::sorted::Sorted;
use pilot_core::value::Time;
use pilot_core::vocabulary::{DeviceId, ItemId};

use super::directory::Directory;
use super::rechain::Line;
use super::replica::{Replica, World};
use super::scan::graph_of;
use crate::audit::due::SWEEP_SECONDS;

/// How many seconds after its deadline an item is erased that the change brought in.
const ERASE_SECONDS: u64 = 1;

/// A change of one trace.
#[derive(Default, Clone)]
pub struct Edit {
    /// Which trace.
    pub trace: usize,
    /// Records that are left out.
    pub removed: BTreeSet<usize>,
    /// Records that say something else.
    pub replaced: BTreeMap<usize, (Time, Content)>,
    /// Records that stand before others.
    pub inserted: BTreeMap<usize, Vec<(Time, Content)>>,
    /// Items that may be held, or not, because of the change.
    pub touched: BTreeSet<ItemId>,
    /// Whether what the change brought in is kept for good.
    pub keeps_overdue: bool,
}

/// A trace that was written anew.
pub struct Rewritten {
    /// Its records.
    pub lines: Vec<Line>,
    /// Where its first change is: a record that says something else, or the first after one that is gone.
    pub at: usize,
    /// Where the records are that were changed or inserted.
    pub marks: Vec<usize>,
    /// The record at which it shows that something is held for too long.
    pub overdue: Option<usize>,
}

struct Rewriting<'w, 'v> {
    world: &'w mut World<'v>,
    /// As it goes now.
    now: Replica,
    /// As it was, from the change on.
    was: Option<Replica>,
    lines: Vec<Line>,
    named: BTreeSet<Digest>,
    at: Option<usize>,
    marks: Vec<usize>,
    touched: BTreeSet<ItemId>,
    keeps_overdue: bool,
    /// When the file began in which the device writes.
    began: Time,
    overdue: Option<usize>,
}

/// Applies a change; `None` if the device could not have gone on from there.
pub fn rewrite(files: &Directory, edit: &Edit, world: &mut World<'_>) -> Option<Rewritten> {
    let trace = files.traces.get(edit.trace)?;
    let first = [edit.removed.first(), edit.replaced.keys().next(), edit.inserted.keys().next()];
    let first = *first.into_iter().flatten().min()?;
    let now = Replica::new(&trace.device, graph_of(trace)?, world);
    let mut rewriting = Rewriting {
        world,
        now,
        was: None,
        lines: Vec::with_capacity(trace.len()),
        named: BTreeSet::new(),
        at: None,
        marks: Vec::new(),
        touched: edit.touched.clone(),
        keeps_overdue: edit.keeps_overdue,
        began: Time::default(),
        overdue: None,
    };
    for at in 0..trace.len() {
        let Record { time, content, .. } = trace.record(at)?;
        if at == first {
            rewriting.was = Some(rewriting.now.clone());
        }
        for (time, content) in edit.inserted.get(&at).into_iter().flatten() {
            rewriting.change(None, *time, content.clone())?;
        }
        match edit.replaced.get(&at) {
            Some((time, content)) => rewriting.change(Some(at), *time, content.clone())?,
            None if edit.removed.contains(&at) => {
                rewriting.at.get_or_insert(rewriting.lines.len());
            }
            None => rewriting.record(at, time, &content)?,
        }
        if let Some(was) = &mut rewriting.was {
            replay(was, &content, time, rewriting.world);
        }
    }
    let Rewriting { lines, at, marks, overdue, .. } = rewriting;
    Some(Rewritten { lines, at: at?, marks, overdue })
}

/// Runs a record again, whatever it is.
pub fn replay(replica: &mut Replica, content: &Content, time: Time, world: &mut World<'_>) {
    match content {
        Content::Step(step) => {
            replica.begin();
            if replica.follow(step, time, world).is_none() {
                replica.force(step, time, world);
            }
        }
        other => replica.note(other, world),
    }
}

impl Rewriting<'_, '_> {
    /// A record of the change itself.
    fn change(&mut self, of: Option<usize>, time: Time, content: Content) -> Option<()> {
        self.policies(&content, time)?;
        replay(&mut self.now, &content, time, self.world);
        self.at.get_or_insert(self.lines.len());
        self.marks.push(self.lines.len());
        self.lines.push(Line::New { of, time, content });
        Some(())
    }

    /// The policies that a record names and that are not in the file yet.
    fn policies(&mut self, content: &Content, time: Time) -> Option<()> {
        let mut new = BTreeSet::new();
        let mut see = |digest: &Digest| {
            if !self.named.contains(digest) {
                new.insert(*digest);
            }
        };
        match content {
            Content::Step(step) => step.for_each_policy(&mut see),
            Content::Resume(resume) => resume.for_each_policy(&mut see),
            _ => {}
        }
        for digest in new {
            let content = Content::Policy(self.world.bytes(&digest)?);
            self.lines.push(Line::New { of: None, time, content });
            self.named.insert(digest);
        }
        Some(())
    }

    /// A record as it was, if that can still be.
    fn record(&mut self, at: usize, time: Time, content: &Content) -> Option<()> {
        let has_changed = self.at.is_some();
        if let Content::Open(_) = content {
            self.began = time;
        } else if has_changed && self.keeps_overdue && self.overdue.is_none() {
            self.watch(time)?;
        }
        if has_changed {
            self.erase(time)?;
        }
        match content {
            Content::Step(step) if has_changed => return self.step(at, time, step),
            Content::Resume(resume) if has_changed => return self.resume(at, time, resume),
            Content::Step(_) => replay(&mut self.now, content, time, self.world),
            Content::Open(_) => self.named.clear(),
            Content::Policy(policy) => {
                self.now.note(content, self.world);
                if !self.named.insert(policy.digest()) {
                    // It came earlier because of the change.
                    return Some(());
                }
            }
            Content::Resume(_) => self.now.note(content, self.world),
            Content::Checkpoint(_) | Content::Close { .. } => {}
        }
        self.lines.push(Line::Kept(at));
        Some(())
    }

    /// Whether something that was touched is held for too long, when a record comes. `None` if the device was off meanwhile: then
    /// it has longer.
    fn watch(&mut self, time: Time) -> Option<()> {
        for receipt in self.touched.iter().flat_map(|item| self.now.device.state.receipts_of(*item)) {
            let deadline = self.world.deadline(receipt)?;
            if time.unix() > deadline.unix().saturating_add(SWEEP_SECONDS) {
                self.overdue = (self.began < deadline).then_some(self.lines.len());
                return self.overdue.map(drop);
            }
        }
        Some(())
    }

    /// What the change brought in is erased when it is due, unless the point is that it is not.
    fn erase(&mut self, time: Time) -> Option<()> {
        let is_running = self.now.location(0) != self.now.graph.initial;
        for item in self.touched.clone() {
            let held: Vec<Receipt> = self.now.device.state.receipts_of(item).copied().collect();
            for receipt in held {
                let is_due = time.unix() >= self.world.deadline(&receipt)?.unix().saturating_add(ERASE_SECONDS);
                let will_be = self.was.as_ref().is_some_and(|was| was.device.state.received.contains(&receipt));
                if !is_due || will_be || self.keeps_overdue || !is_running {
                    continue;
                }
                let here = self.now.location(0);
                let pseudonym = self.world.named(item, self.now.id)?.pseudonym;
                let (action, outcomes) = (Action::Expire { item: pseudonym }, Sorted::new());
                let step = Step { graph: 0, instance: 0, from: here, action, to: here, outcomes };
                self.now.follow(&step, time, self.world)?;
                self.lines.push(Line::New { of: None, time, content: Content::Step(Box::new(step)) });
                break;
            }
        }
        Some(())
    }

    /// A step after the change: as it was, otherwise as it would have been; `None` if neither can be.
    fn step(&mut self, at: usize, time: Time, step: &Step) -> Option<()> {
        self.now.begin();
        let here = self.now.location(step.instance);
        let label = step.action.label();
        let is_anywhere = self.now.graph.edges.iter().any(|edge| edge.label == label && edge.from.is_none());
        // Wherever it stands now, what can be done anywhere can be done there.
        let moved = here != step.from && is_anywhere && here != self.now.graph.initial;
        let mut step = step.clone();
        if moved {
            (step.from, step.to) = (here, here);
        }
        let is_altered = self.download(&mut step)? | moved;
        if is_altered {
            self.policies(&Content::Step(Box::new(step.clone())), time)?;
        }
        if self.now.follow(&step, time, self.world).is_some() {
            let content = Content::Step(Box::new(step));
            self.lines.push(if is_altered { Line::New { of: Some(at), time, content } } else { Line::Kept(at) });
            return Some(());
        }
        let item = step.action.clone();
        let item = self.now.action(&item, self.world)?.item();
        let is_touched = item.is_some_and(|item| self.touched.contains(&item));
        match label {
            Label::Expire | Label::Forget if is_touched => Some(()),
            Label::Receive(MessageKind::Broadcast | MessageKind::Send)
                if is_touched && here == step.from && here == Location::S2 =>
            {
                Some(())
            }
            // It has not left.
            Label::Tau if here == step.to && step.from == Location::S3 => Some(()),
            _ => None,
        }
    }

    /// A download brings π to what was listed, whatever it was before. Whether the record says something else than it did.
    fn download(&mut self, step: &mut Step) -> Option<bool> {
        let Action::Receive(message, _) = &mut step.action else { return Some(false) };
        let Said::DownloadPolicies { added, removed, .. } = &mut message.body else { return Some(false) };
        let was = self.was.as_ref()?;
        let of_others = |replica: &Replica| -> BTreeSet<_> {
            replica.device.state.policies.iter().copied().filter(|(of, _)| *of != replica.id).collect()
        };
        let (before, now) = (of_others(was), of_others(&self.now));
        if before == now {
            return Some(false);
        }
        let statements: BTreeMap<_, _> = added
            .iter()
            .chain(&*removed)
            .map(|offer| ((offer.device.clone(), offer.policy), offer.statement))
            .collect();
        let numbers = |offers: &BTreeSet<Offer>, world: &World<'_>| {
            let number =
                |offer: &Offer| Some((world.known_device(&offer.device)?, world.policies.by_digest(&offer.policy)?));
            offers.iter().map(number).collect::<Option<BTreeSet<_>>>()
        };
        let listed = &(&before - &numbers(removed, self.world)?) | &numbers(added, self.world)?;
        let offers = |entries: BTreeSet<(DeviceId, _)>, world: &World<'_>| {
            let offer = |(of, policy)| {
                let (device, policy) = (world.name(of)?.clone(), world.policies.digest(policy)?);
                let statement = statements.get(&(device.clone(), policy)).copied().flatten();
                Some(Offer { device, policy, statement })
            };
            entries.into_iter().map(offer).collect::<Option<BTreeSet<_>>>()
        };
        (*added, *removed) = (offers(&listed - &now, self.world)?, offers(&now - &listed, self.world)?);
        Some(true)
    }

    /// A run begins with no more than what the device has now.
    fn resume(&mut self, at: usize, time: Time, resume: &Resume) -> Option<()> {
        let before = self.now.device.clone();
        let mut resume = resume.clone();
        let (world, now) = (&mut *self.world, &mut self.now);
        let mut probe = now.clone();
        probe.note(&Content::Resume(Box::new(resume.clone())), world);
        let is_held = |receipt: &Receipt| {
            before.state.received.contains(receipt)
                && before.memory.released.get(receipt) == probe.device.memory.released.get(receipt)
        };
        let gone: Vec<ItemId> =
            probe.device.state.received.iter().filter(|receipt| !is_held(receipt)).map(|r| r.item).collect();
        if gone.iter().any(|item| !self.touched.contains(item)) {
            return None;
        }
        for item in gone {
            let name = world.named(item, now.id)?;
            resume.received.retain(|held| held.item.pseudonym != name.pseudonym);
        }
        let mut is_altered = resume.received.len() != probe.device.state.received.len();
        for ((item, receiver), withdrawal) in &before.memory.recipients {
            // It remembers to whom it handed something because of the change.
            if probe
                .device
                .memory
                .recipients
                .get(&(*item, *receiver))
                .is_none_or(|known| *known != known.and(*withdrawal))
            {
                let (item, party) = (world.named(*item, now.id)?, Party::Device(world.name(*receiver)?.clone()));
                resume.recipients.retain(|one| (&one.item, &one.party) != (&item, &party));
                resume.recipients.insert(Remembered { item, party, withdrawal: *withdrawal });
                is_altered = true;
            }
        }
        self.now.note(&Content::Resume(Box::new(resume.clone())), self.world);
        let content = Content::Resume(Box::new(resume));
        self.lines.push(if is_altered { Line::New { of: Some(at), time, content } } else { Line::Kept(at) });
        Some(())
    }
}
