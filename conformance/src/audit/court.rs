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
use super::replay::{Beat, Last, Replay};
use super::report::{Arrow, Class, Evidence, Figures, Finding, Findings, MAX_FINDINGS, Unjudged, rules};
use super::timeline::Timeline;
use super::words::{self, Told};
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
    unjudged: BTreeMap<(String, String, &'static str), u64>,
    pub(super) mentioned: BTreeSet<Digest>,
    filter: Filter,
}

/// Which findings the user wants to see.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Not earlier than this.
    pub since: Option<Time>,
    /// Only of these devices.
    pub devices: Vec<String>,
}

impl Filter {
    fn wants(&self, finding: &Finding) -> bool {
        // What is damaged is nobody's to overlook.
        let is_late = self.since.is_none_or(|since| finding.time >= since) || finding.class == Class::Integrity;
        is_late
            && (self.devices.is_empty() || self.devices.contains(&finding.device) || finding.class == Class::Integrity)
    }

    /// Whether something at a device and a time counts.
    pub(super) fn counts(&self, device: &str, time: Time) -> bool {
        self.since.is_none_or(|since| time >= since)
            && (self.devices.is_empty() || self.devices.iter().any(|wanted| wanted == device))
    }
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
            unjudged: BTreeMap::new(),
            mentioned: BTreeSet::new(),
            filter,
        }
    }

    /// What another judge has found, and the devices that it has judged.
    pub fn join(&mut self, other: Self) {
        let Self { replays, evidence, figures, timeline, findings, more, unjudged, mentioned, .. } = other;
        self.replays.extend(replays);
        self.evidence += evidence;
        self.figures += figures;
        self.timeline.join(timeline);
        self.findings.extend(findings);
        self.more += more;
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
    pub fn hear(&mut self, at: usize, entry: &Entry, mark: &Mark) -> Vouch {
        self.figures.records += 1;
        let Entry { sequence: record, time, heard, named, .. } = entry;
        let (record, time) = (*record, *time);
        // An `open` says only that the device is back.
        if !matches!(heard, Heard::Other(content) if matches!(**content, Content::Open(_))) {
            self.sweep(at, record, time);
        }
        let mut vouch = Vouch::default();
        match heard {
            Heard::Step(step) => vouch = self.step(Told::of(at, record, time), step, named, mark),
            Heard::Other(content) => self.hear_aside(at, record, time, content),
        }
        if let Some(replay) = self.replays.get_mut(at) {
            replay.run.seen = replay.run.seen.max(time);
        }
        vouch
    }

    /// A record that is no step.
    fn hear_aside(&mut self, at: usize, record: u64, time: Time, content: &Content) {
        match content {
            // A step stands apart.
            Content::Step(_) => {}
            Content::Open(open) => self.opened(Told::of(at, record, time), open),
            Content::Policy(bytes) => {
                if self.world.lacks_words_of(bytes) {
                    let why = "the mesh file's vocabulary lacks a word of a policy in the trace";
                    self.unjudged_at(at, "every step that names the policy", why);
                }
            }
            Content::Resume(resume) => self.resumed(at, record, resume, time),
            Content::Checkpoint(checkpoint) => self.signed(Told::of(at, record, time), checkpoint),
            Content::Close { checkpoint, continues } => {
                self.end_of_resumes(at, Told::of(at, record, time));
                self.signed(Told::of(at, record, time), checkpoint);
                if let Some(replay) = self.replays.get_mut(at) {
                    replay.run.last = if *continues { Last::Continues } else { Last::Stopped };
                }
            }
        }
    }

    /// Steps are judged by what they touch; now and then everything is compared.
    fn signed(&mut self, told: Told, checkpoint: &Checkpoint) {
        for (_, count) in checkpoint.elided.iter() {
            self.figures.elided = self.figures.elided.saturating_add(count);
        }
        let Some(replay) = self.replays.get_mut(told.trace).filter(|replay| !replay.run.is_resuming) else { return };
        if replay.is_comparable_now() && replay.state != replay.device.state {
            replay.state.clone_from(&replay.device.state);
            let text = format!("what {} holds and knows is not what its steps account for", replay.name);
            self.found(Class::Violation, told, rules::STATE, words::STATE.into(), text, None);
        }
    }

    /// Something is wrong.
    #[cold]
    pub(super) fn found(
        &mut self,
        class: Class,
        told: Told,
        rule: &str,
        premise: String,
        text: String,
        policy: Option<Digest>,
    ) {
        let Some(replay) = self.replays.get(told.trace) else { return };
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
            record: told.record,
            time: told.time,
            rule: rule.into(),
            premise,
            text,
            policy,
            chart: replay.chart.iter().map(arrow).collect(),
        };
        self.complain(finding);
    }

    /// Adds a finding, unless the user does not want to see it.
    pub(super) fn complain(&mut self, finding: Finding) {
        if !self.filter.wants(&finding) {
            return;
        }
        self.timeline.finding(finding.time);
        self.mentioned.extend(finding.policy);
        self.findings.push(finding);
        if self.findings.len() >= 2 * MAX_FINDINGS {
            self.cut_findings();
        }
    }

    /// Whether anything was found to be damaged.
    pub fn has_damage(&self) -> bool {
        self.findings.iter().any(|finding| finding.class == Class::Integrity)
    }

    /// A sealed trace cannot be read on.
    pub fn unreadable(&mut self, at: usize, damage: &Unreadable) {
        let time = self.replays.get(at).map_or_else(Time::default, |replay| replay.run.seen);
        let told = Told::of(at, damage.record.unwrap_or_default(), time);
        let premise = "the trace is as the device wrote it".to_owned();
        self.found(Class::Integrity, told, rules::CHAIN, premise, damage.text.clone(), None);
    }

    /// Something could not be judged.
    #[cold]
    pub(super) fn unjudged_at(&mut self, at: usize, premise: &str, why: &'static str) {
        let device = self.replays.get(at).map_or("", |replay| replay.name.as_str());
        self.unjudged(device.into(), premise, why);
    }

    /// Likewise, of nobody in particular.
    pub fn unjudged(&mut self, device: String, premise: &str, why: &'static str) {
        *self.unjudged.entry((device, premise.into(), why)).or_default() += 1;
    }

    /// What could not be judged, by device.
    pub fn take_unjudged(&mut self) -> Vec<Unjudged> {
        let all = std::mem::take(&mut self.unjudged).into_iter();
        all.map(|((device, premise, why), count)| Unjudged { device, premise, why: why.into(), count }).collect()
    }

    pub(super) const fn filter(&self) -> &Filter {
        &self.filter
    }
}
