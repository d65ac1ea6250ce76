//! A judge: takes record after record of its devices, runs each step again, and says what is wrong with it.
//!
//! [`Court::hear`] takes a record, whatever it is; `runs` begins runs, `trial` judges steps, `origin` compares both ends of
//! messages.

use std::collections::{BTreeMap, BTreeSet};

use pilot_core::codec::Digest;
use pilot_core::evidence::trace::{Checkpoint, Content};
use pilot_core::graph::Label;
use pilot_core::value::Time;

use super::feed::Unreadable;
use super::mail::Vouch;
use super::note::{Entry, Heard};
use super::post::Mark;
use super::replay::{Beat, Last, Replay, Stage};
use super::report::{Arrow, Class, Evidence, Figures, Filter, Finding, Findings, MAX_FINDINGS, Unjudged, rules};
use super::timeline::Timeline;
use super::wording;
use super::words;
use super::world::{self, World};

/// The judge.
pub struct Court<'v> {
    pub(super) world: World<'v>,
    pub(super) replays: Vec<Replay>,
    pub(super) evidence: Evidence,
    pub(super) figures: Figures,
    pub(super) timeline: Timeline,
    findings: Vec<Finding>,
    pub(super) more: Findings,
    pub(super) elsewhere: u64,
    unjudged: BTreeMap<(String, String, String), u64>,
    pub(super) mentioned: BTreeSet<Digest>,
    pub(super) filter: Filter,
}

/// A record, or where something was found.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// The place of the trace.
    pub trace: usize,
    /// The record.
    pub record: u64,
    /// When.
    pub time: Time,
}

impl<'v> Court<'v> {
    /// A judge of no traces yet.
    pub fn new(world: World<'v>, filter: Filter) -> Self {
        Self {
            world,
            replays: Vec::new(),
            evidence: Evidence::default(),
            figures: Figures::default(),
            timeline: Timeline::default(),
            findings: Vec::new(),
            more: Findings::default(),
            elsewhere: 0,
            unjudged: BTreeMap::new(),
            mentioned: BTreeSet::new(),
            filter,
        }
    }

    /// What another judge has found, and the devices that it has judged.
    pub fn join(&mut self, other: Self) {
        let Self { replays, evidence, figures, timeline, findings, more, elsewhere, unjudged, mentioned, .. } = other;
        self.replays.extend(replays);
        self.evidence += evidence;
        self.figures += figures;
        self.timeline.join(timeline);
        self.findings.extend(findings);
        self.more += more;
        self.elsewhere += elsewhere;
        self.mentioned.extend(mentioned);
        for (what, count) in unjudged {
            *self.unjudged.entry(what).or_default() += count;
        }
    }

    /// Keeps the first findings, and counts the others. They are ordered by when and where they were made, and then by what they
    /// say, for the order in which they are found depends on which judge takes which trace, and when.
    fn cut_findings(&mut self) {
        self.findings.sort_by_cached_key(|finding| {
            let Finding { class, device, record, time, rule, premise, text, policy, chart } = finding;
            let place = (*time, device.clone(), *record);
            // Two traces can be of one device.
            (place, *class, rule.clone(), text.clone(), premise.clone(), *policy, chart.clone())
        });
        for cut in self.findings.drain(self.findings.len().min(MAX_FINDINGS)..) {
            self.more.count(cut.class);
        }
    }

    /// All findings in their order, as many as are shown, and how many more there are of each class.
    pub fn take_findings(&mut self) -> (Vec<Finding>, Findings) {
        self.cut_findings();
        (std::mem::take(&mut self.findings), self.more)
    }

    /// Judges a record of a trace. Returns what is vouched for with the message that it sends, if any.
    pub fn hear(&mut self, trace: usize, entry: &Entry, mark: &Mark) -> Vouch {
        self.figures.records += 1;
        let Entry { sequence: record, time, heard, named, .. } = entry;
        let place = Place { trace, record: *record, time: *time };
        // An `open` says only that the device is back.
        if !matches!(heard, Heard::Other(content) if matches!(**content, Content::Open(_))) {
            self.sweep(place);
        }
        let mut vouch = Vouch::default();
        match heard {
            Heard::Step(step) => vouch = self.step(place, step, named, mark),
            Heard::Other(content) => self.hear_aside(place, content),
        }
        if let Some(replay) = self.replays.get_mut(trace) {
            replay.run.seen = replay.run.seen.max(place.time);
        }
        vouch
    }

    /// A record that is no step.
    fn hear_aside(&mut self, place: Place, content: &Content) {
        match content {
            // A step stands apart.
            Content::Step(_) => {}
            Content::Open(open) => self.opened(place, open),
            Content::Policy(bytes) => {
                if self.world.lacks_words_of(bytes) {
                    let why = "the mesh file's vocabulary lacks a word of a policy in the trace";
                    self.unjudged_at(place.trace, "every step that names the policy", why);
                }
            }
            Content::Resume(resume) => self.resumed(place, resume),
            Content::Checkpoint(checkpoint) => self.signed(place, checkpoint),
            Content::Close { checkpoint, continues } => {
                self.end_of_resumes(place);
                self.signed(place, checkpoint);
                if let Some(replay) = self.replays.get_mut(place.trace) {
                    replay.run.last = if *continues { Last::Continues } else { Last::Stopped };
                }
            }
        }
    }

    /// Steps are judged by what they touch; now and then everything is compared.
    fn signed(&mut self, place: Place, checkpoint: &Checkpoint) {
        for (_, count) in checkpoint.elided.iter() {
            self.figures.elided = self.figures.elided.saturating_add(count);
        }
        let Some(replay) = self.replays.get_mut(place.trace).filter(|replay| replay.run.stage == Stage::Running) else {
            return;
        };
        if replay.is_comparable_now() && replay.state != replay.device.state {
            replay.state.clone_from(&replay.device.state);
            let text = format!("what {} holds and knows is not what its steps account for", replay.name);
            self.found(Class::Violation, place, rules::STATE, words::STATE.into(), text, None);
        }
    }

    /// Something is wrong.
    #[cold]
    pub(super) fn found(
        &mut self,
        class: Class,
        place: Place,
        rule: &str,
        premise: String,
        text: String,
        policy: Option<Digest>,
    ) {
        let Some(replay) = self.replays.get(place.trace) else { return };
        let arrow = |beat: &Beat| Arrow {
            record: beat.record,
            time: beat.time,
            device: replay.name.as_str().into(),
            peer: beat.peer.map(|peer| peer.map_or(world::SOMEBODY, |peer| self.world.name(peer)).into()),
            is_sent: matches!(beat.label, Label::Send(_)),
            label: beat.label.to_string(),
        };
        let finding = Finding {
            class,
            device: replay.name.as_str().into(),
            record: place.record,
            time: Some(place.time),
            rule: rule.into(),
            premise,
            text,
            policy,
            chart: replay.chart.iter().map(arrow).collect(),
        };
        self.complain(finding);
    }

    /// Adds a finding; those that the user does not want to see are counted.
    pub(super) fn complain(&mut self, finding: Finding) {
        finding.time.into_iter().for_each(|time| self.timeline.finding(time));
        if !self.filter.wants(&finding) {
            self.elsewhere += 1;
            return;
        }
        self.mentioned.extend(finding.policy);
        self.findings.push(finding);
        if self.findings.len() >= 2 * MAX_FINDINGS {
            self.cut_findings();
        }
    }

    /// Whether anything was found to be damaged.
    pub fn has_damage(&self) -> bool {
        self.more.integrity > 0 || self.findings.iter().any(|finding| finding.class == Class::Integrity)
    }

    /// A sealed trace cannot be read on.
    pub fn unreadable(&mut self, trace: usize, damage: &Unreadable) {
        let time = self.replays.get(trace).map_or_else(Time::default, |replay| replay.run.seen);
        let place = Place { trace, record: damage.record.unwrap_or_default(), time };
        self.found(Class::Integrity, place, rules::CHAIN, wording::premise(rules::CHAIN), damage.text.clone(), None);
    }

    /// The name of a trace's device.
    pub(super) fn device(&self, trace: usize) -> &str {
        self.replays.get(trace).map_or("", |replay| replay.name.as_str())
    }

    /// Something could not be judged.
    #[cold]
    pub(super) fn unjudged_at(&mut self, trace: usize, premise: &str, why: &'static str) {
        self.unjudged(self.device(trace).into(), premise, why.into());
    }

    /// Likewise, of nobody in particular.
    pub fn unjudged(&mut self, device: String, premise: &str, why: String) {
        *self.unjudged.entry((device, premise.into(), why)).or_default() += 1;
    }

    /// What could not be judged, by device.
    pub fn take_unjudged(&mut self) -> Vec<Unjudged> {
        let all = std::mem::take(&mut self.unjudged).into_iter();
        all.map(|((device, premise, why), count)| Unjudged { device, premise, why, count }).collect()
    }
}
