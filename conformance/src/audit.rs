//! Trace conformance: whether what the daemons did, as they recorded it, is allowed by the semantics.
//!
//! Each device is run again through the same `step` that it ran ([`replay`]), and every step is judged as the model checker
//! judges it ([`crate::refine`]): a step reads and changes one device, and what it takes of another came with a message. So
//! each trace has a judge of its own ([`judges`], which `bell` wakes); `merge` gives what concerns others its turns, such that
//! who received something comes after who sent it, and [`post`] says where it came from, for what is under way is remembered
//! ([`mail`]).
//!
//! * [`sources`]: what an auditor is given; [`seal`]: how far traces can be believed; [`copies`]: several traces of one device;
//!   [`facts`]: what names stand for;
//! * [`feed`]: sealed records; [`note`]: what they have to do with other traces;
//! * [`court`]: a judge, with [`world`] for what it knows of its traces, `runs` for what devices have from before, [`due`] for
//!   what they must erase, `origin` for both ends of messages, [`consents`] for what subjects signed, and `trial` for steps;
//! * [`report`] and [`timeline`]: what an audit says; `words` and `wording`: its sentences; [`text`], [`json`] and [`html`]: for whom.
//!
//! Memory is that of what is alive: devices with what they hold, messages that may still arrive, and some pieces of each trace.

mod air;
mod bell;
pub mod consents;
pub mod copies;
pub mod court;
pub mod due;
pub mod facts;
pub mod feed;
mod hashing;
pub mod html;
pub mod json;
pub mod judges;
pub mod mail;
mod merge;
pub mod note;
mod origin;
pub mod post;
pub mod replay;
pub mod report;
mod runs;
pub mod seal;
pub mod sources;
pub mod text;
pub mod timeline;
mod trial;
mod wording;
mod words;
pub mod world;

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};

use pilot_core::english;
use pilot_core::evidence::trace::verify::End;
use pilot_core::evidence::trace::{GraphName, Standing};
use pilot_core::graphs::REPOSITORY;
use pilot_core::policy::Choice;
use pilot_core::semantics::PolicyId;
use pilot_core::value::Time;

use self::copies::{Aside, Why};
use self::court::{Court, Filter};
use self::facts::Facts;
use self::judges::Judges;
use self::report::{Class, Ending, Finding, Holding, Open, PolicyText, Report, Trace, rules};
use self::seal::{Keys, Sealed};
use self::sources::Sources;
use self::world::World;

/// How far an audit has come.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes whose chain and signatures are verified.
    pub sealed: AtomicU64,
    /// Sealed records in all; 0 until all are verified.
    pub records: AtomicU64,
    /// Records that have had their turn.
    pub judged: AtomicU64,
}

/// Audits what was found, with all cores.
pub fn audit(sources: &Sources, filter: Filter, progress: &Progress) -> Report {
    let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    audit_by(Judges::new(cores), sources, filter, progress)
}

/// The same by other judges. What the report says does not depend on that.
pub fn audit_by(judges: Judges, sources: &Sources, filter: Filter, progress: &Progress) -> Report {
    let keys = Keys::of(sources);
    let (traces, found) = seal::seal_all(judges.count, &sources.traces, &keys, &progress.sealed);
    let Some(newest) = sources.meshes.last() else { return Report::default() };
    let (believable, unreadable): (Vec<Sealed>, Vec<Sealed>) =
        traces.into_iter().partition(|trace| trace.end.is_some() && trace.device().is_some());
    let (mut judged, aside) = copies::sort_out(believable, &keys);
    // Within a second, who asks comes before who is asked: nobody can tell of an anonymous question whose trace to wait for.
    judged.sort_by_key(|trace| trace.graph() == Some(GraphName::of(&REPOSITORY)));
    progress.records.store(judged.iter().map(sealed_records).sum(), Ordering::Relaxed);
    let facts = Facts::new(newest.file.vocabulary(), sources, &judged, &found);
    drop(found);
    let mut court = Court::new(World::new(&facts), filter.clone());
    if sources.meshes.iter().any(|mesh| !mesh.is_verified) {
        let why = "the operator's key is not here (`--operator-key`)";
        court.unjudged(String::new(), "the mesh file is the operator's", why);
    }
    for trace in judged.iter().chain(&unreadable) {
        court.seal_findings(trace, &facts);
    }
    aside.iter().for_each(|aside| court.set_aside(aside));
    for judge in judges::judge_all(judges, &facts, &judged, &filter, &progress.judged) {
        court.join(judge);
    }
    court.all_were_heard(progress.records.load(Ordering::Relaxed));
    let mut traces: Vec<Trace> = judged.iter().chain(&unreadable).map(|trace| trace_of(trace, None)).collect();
    traces.extend(aside.iter().map(|aside| trace_of(&aside.trace, Some(aside))));
    traces.sort_by(|a, b| (&a.device, &a.directory).cmp(&(&b.device, &b.directory)));
    let found_openings = if sources.are_openings_found { sources.openings.len() as u64 } else { 0 };
    Report { found_openings, ..finish(court, traces) }
}

fn sealed_records(trace: &Sealed) -> u64 {
    trace.standing.sealed.map_or(0, |sealed| sealed.record.saturating_sub(trace.standing.first).saturating_add(1))
}

impl Court<'_> {
    /// What is wrong with a trace as such, or keeps it from being judged.
    fn seal_findings(&mut self, trace: &Sealed, facts: &Facts<'_>) {
        self.figures.signatures += trace.signatures;
        let name = trace.device().map_or_else(|| trace.files.directory.display().to_string(), ToString::to_string);
        if let Some(damage) = &trace.damage {
            // Whether the mesh file lists the device, so that its key should be known.
            let is_listed = trace.device().and_then(|name| facts.role(facts.device(name)?)).is_some();
            if damage.is_unknown_key && !is_listed {
                // A subject who has not opened her trace is nobody to complain about.
                return self.unjudged(name, "everything in the trace", "nobody has given its key (an opening)");
            }
            self.damaged(trace, &name, damage.record, damage.rule, &damage.text);
        } else if trace.standing.end == End::Empty || trace.end.is_none() {
            let text = format!("`{}` has no signed record", trace.files.directory.display());
            self.damaged(trace, &name, 0, rules::SIGNATURE, &text);
        } else if trace.standing.first != 0 {
            let text = format!("records 0 to {} are missing", trace.standing.first.saturating_sub(1));
            self.damaged(trace, &name, 0, rules::SEQUENCE, &text);
        } else if trace.standing.end == End::Continues {
            let text = format!("`{}`: the trace goes on in a file that is missing", trace.files.directory.display());
            self.damaged(trace, &name, trace.standing.records, rules::SEQUENCE, &text);
        }
    }

    /// A trace that is not judged: nothing is wrong with a copy.
    fn set_aside(&mut self, aside: &Aside) {
        let Aside { trace, other, why } = aside;
        let device = trace.device().map_or_else(String::new, ToString::to_string);
        if let Some(damage) = &trace.damage {
            self.damaged(trace, &device, damage.record, damage.rule, &damage.text);
        }
        let Why::Fork(record, time) = why else { return };
        let directory = trace.files.directory.display();
        let text = format!(
            "`{directory}` and `{other}` differ from record {record} on, and {device} has signed both; only the latter is judged"
        );
        self.complain(Finding {
            class: Class::Integrity,
            device,
            record: *record,
            time: *time,
            rule: rules::ANCHOR.into(),
            premise: "a device has one history".into(),
            text,
            policy: None,
            chart: Vec::new(),
        });
    }

    /// Every sealed record was judged, or a finding says why not. If this fails, a file has changed meanwhile, or the auditor
    /// is wrong.
    fn all_were_heard(&mut self, sealed: u64) {
        let heard = self.figures.records;
        if heard == sealed || self.more.integrity > 0 || self.has_damage() {
            return;
        }
        self.complain(Finding {
            class: Class::Integrity,
            device: "?".into(),
            record: 0,
            time: Time::default(),
            rule: rules::SEQUENCE.into(),
            premise: "every sealed record is judged".into(),
            text: format!("{sealed} records are sealed, and {heard} of them could be judged"),
            policy: None,
            chart: Vec::new(),
        });
    }

    fn damaged(&mut self, trace: &Sealed, device: &str, record: u64, rule: &str, text: &str) {
        self.complain(Finding {
            class: Class::Integrity,
            device: device.into(),
            record,
            time: trace.period.1,
            rule: rule.into(),
            premise: "the trace is as the device wrote it".into(),
            text: text.into(),
            policy: None,
            chart: Vec::new(),
        });
    }
}

fn trace_of(trace: &Sealed, aside: Option<&Aside>) -> Trace {
    Trace {
        device: trace.device().map_or_else(|| "?".into(), ToString::to_string),
        directory: trace.files.directory.display().to_string(),
        graph: trace.graph().map_or("?", |graph| graph.as_str()).into(),
        records: sealed_records(trace),
        period: trace.end.map(|_| trace.period),
        end: aside.map_or_else(
            || ending(trace),
            |Aside { other, why, .. }| match why {
                Why::Copy => Ending::CopyOf(other.clone()),
                Why::Fork(..) => Ending::Contradicts(other.clone()),
            },
        ),
    }
}

fn ending(trace: &Sealed) -> Ending {
    let Standing { end, open_records: records, open_bytes: bytes, .. } = trace.standing;
    match (trace.end, end) {
        (None, _) => Ending::Unread,
        (_, End::Closed) if trace.damage.is_none() => Ending::Closed,
        (_, End::Continues) if trace.damage.is_none() => Ending::Missing,
        _ => Ending::Open(Open { records, bytes }),
    }
}

fn finish(mut court: Court<'_>, traces: Vec<Trace>) -> Report {
    let holdings = holdings(&court);
    court.mentioned.extend(holdings.iter().map(|holding| holding.policy));
    let vocabulary = court.world.judge.vocabulary;
    let text = |digest: &pilot_core::codec::Digest| {
        let policy = court.world.policies.policy(court.world.policy(digest)?)?;
        Some(PolicyText { digest: *digest, english: english::sentence(&Choice::Policy(policy.clone()), vocabulary) })
    };
    let policies = court.mentioned.iter().filter_map(text).collect();
    let unjudged = court.take_unjudged();
    let (findings, more) = court.take_findings();
    let Court { evidence, figures, timeline, .. } = court;
    let timeline = timeline.finish();
    Report { findings, more, evidence, unjudged, traces, figures, timeline, policies, holdings, found_openings: 0 }
}

fn holdings(court: &Court<'_>) -> Vec<Holding> {
    let mut held = std::collections::BTreeMap::<(&str, PolicyId), u64>::new();
    for replay in &court.replays {
        for receipt in &replay.state.received {
            *held.entry((replay.name.as_str(), receipt.policy)).or_default() += 1;
        }
    }
    let holding = |((device, policy), items): ((&str, PolicyId), u64)| {
        let until = court.world.policies.policy(policy)?.collection().usage.retention();
        Some(Holding { device: device.into(), policy: court.world.policies.digest(policy)?, items, until })
    };
    held.into_iter().filter_map(holding).collect()
}
