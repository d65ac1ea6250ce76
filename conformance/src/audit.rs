//! Trace conformance: whether what the daemons did, as they recorded it, is allowed by the semantics.
//!
//! Each device is run again through the same `step` that it ran ([`replay`]), and every step is judged as the model checker
//! judges it ([`crate::refine`]): a step reads and changes one device, and what it takes of another came with a message. So
//! each trace has a judge of its own ([`judges`], which `bell` wakes); `merge` gives what concerns others its turns, such that
//! who received something comes after who sent it, and [`post`] says where it came from, for what is under way is remembered
//! ([`mail`], and `air` for broadcasts). Where traces wait for each other, `scout` looks ahead.
//!
//! * [`sources`]: what an auditor is given; [`seal`]: how far traces can be believed; [`copies`]: several traces of one device;
//!   `hashing`: many records at once; [`facts`]: what names stand for;
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
mod scout;
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
use pilot_core::evidence::hex::Hex;
use pilot_core::evidence::trace::verify::End;
use pilot_core::evidence::trace::{GraphName, Standing};
use pilot_core::graphs::{DIRECT_SUBJECT, INDIRECT_SUBJECT, REPOSITORY};
use pilot_core::policy::Choice;
use pilot_core::semantics::PolicyId;
use pilot_core::value::Time;

use self::copies::{Aside, Why};
use self::court::Court;
use self::facts::Facts;
use self::judges::Judges;
use self::report::{Class, Ending, Filter, Finding, Holding, Inputs, Open, PolicyText, Report, Trace, rules};
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
    let sealed = judged.iter().map(sealed_records).sum();
    progress.records.store(sealed, Ordering::Relaxed);
    let facts = Facts::new(newest.file.vocabulary(), sources, &judged, &found);
    drop(found);
    let mut court = Court::new(World::new(&facts), filter.clone());
    court.inputs(sources);
    for trace in judged.iter().chain(&unreadable) {
        court.seal_findings(trace, &facts);
        court.revoked(trace, &keys);
    }
    aside.iter().for_each(|aside| court.set_aside(aside));
    for judge in judges::judge_all(judges, &facts, &judged, &filter, &progress.judged) {
        court.join(judge);
    }
    court.all_were_heard(sealed);
    let mut traces: Vec<Trace> = judged.iter().chain(&unreadable).map(|trace| trace_of(trace, None)).collect();
    traces.extend(aside.iter().map(|aside| trace_of(&aside.trace, Some(aside))));
    traces.sort_by(|a, b| (&a.device, &a.directory).cmp(&(&b.device, &b.directory)));
    finish(court, traces, sources)
}

fn sealed_records(trace: &Sealed) -> u64 {
    trace.standing.sealed.map_or(0, |sealed| sealed.record.saturating_sub(trace.standing.first).saturating_add(1))
}

impl Court<'_> {
    /// What is not certain, or not known, before anything is judged.
    fn inputs(&mut self, sources: &Sources) {
        if sources.meshes.iter().any(|mesh| !mesh.is_verified) {
            let why = "the operator's key is not here (`--operator-key`)";
            self.unjudged(String::new(), "the mesh file is the operator's", why.into());
        }
        for path in &sources.skipped {
            let what = format!("what there is at `{}`", path.display());
            self.unjudged(String::new(), &what, "links are not followed, nor anything else that is no file".into());
        }
    }

    /// What was signed before a key was revoked is judged, although a thief of the key could have signed it, with any date.
    fn revoked(&mut self, trace: &Sealed, keys: &Keys<'_>) {
        let listed = trace.first.as_ref().and_then(|open| keys.last_word(open));
        if let Some(revoked) = listed.and_then(|device| device.revoked) {
            let why = format!("its key is revoked since {revoked}, and whoever has it can give any date");
            self.unjudged(name_of(trace), "the device has signed it itself", why);
        }
    }

    /// What is wrong with a trace as such, or keeps it from being judged.
    fn seal_findings(&mut self, trace: &Sealed, facts: &Facts<'_>) {
        self.figures.signatures += trace.signatures;
        let directory = trace.files.directory.display();
        if let Some(damage) = &trace.damage {
            // Whether the mesh file lists the device, so that its key should be known.
            let is_listed = trace.device().and_then(|name| facts.role(facts.device(name)?)).is_some();
            if damage.is_unknown_key && !is_listed {
                // A subject who has not opened her trace is nobody to complain about.
                let subjects = [&DIRECT_SUBJECT, &INDIRECT_SUBJECT].map(|graph| Some(GraphName::of(graph)));
                let is_subject = subjects.contains(&trace.graph());
                let why =
                    if is_subject { "nobody has given its key (an opening)" } else { "it is in no mesh file here" };
                return self.unjudged(name_of(trace), "everything in the trace", why.into());
            }
            self.damaged(trace, damage.record, damage.rule, damage.text.clone());
        } else if trace.standing.end == End::Empty || trace.end.is_none() {
            let text = format!("`{directory}` has no signed record: a device signs now and then, and when it stops");
            self.damaged(trace, 0, rules::SIGNATURE, text);
        } else if trace.standing.first != 0 {
            let text = format!("records 0 to {} are missing", trace.standing.first.saturating_sub(1));
            self.damaged(trace, 0, rules::SEQUENCE, text);
        } else if trace.standing.end == End::Continues {
            let text = format!("`{directory}`: the trace goes on in a file that is missing");
            self.damaged(trace, trace.standing.records, rules::SEQUENCE, text);
        }
    }

    /// A trace that is not judged: nothing is wrong with a copy.
    fn set_aside(&mut self, aside: &Aside) {
        let Aside { trace, other, why } = aside;
        if let Some(damage) = &trace.damage {
            self.damaged(trace, damage.record, damage.rule, damage.text.clone());
        }
        let Why::Fork(record, time) = why else { return };
        let (device, directory) = (name_of(trace), trace.files.directory.display());
        let text = format!(
            "`{directory}` and `{other}` differ from record {record} on, and {device} has signed both; only the latter is judged"
        );
        self.fault((device, *record, Some(*time)), rules::ANCHOR, "a device has one history".into(), text);
    }

    /// Every sealed record was judged, or a finding says why not. If this fails, a file has changed meanwhile, or the auditor
    /// is wrong.
    fn all_were_heard(&mut self, sealed: u64) {
        let heard = self.figures.records;
        if heard != sealed && !self.has_damage() {
            let text = format!("{sealed} records are sealed, and {heard} of them could be judged");
            self.fault(("?".into(), 0, None), rules::SEQUENCE, "every sealed record is judged".into(), text);
        }
    }

    fn damaged(&mut self, trace: &Sealed, record: u64, rule: &str, text: String) {
        // It happened after what is known.
        let time = trace.end.map(|_| trace.period.1);
        self.fault((name_of(trace), record, time), rule, wording::premise(rule), text);
    }

    /// Something is wrong with a trace as such.
    fn fault(
        &mut self,
        (device, record, time): (String, u64, Option<Time>),
        rule: &str,
        premise: String,
        text: String,
    ) {
        let (class, rule) = (Class::Integrity, rule.into());
        self.complain(Finding { class, device, record, time, rule, premise, text, policy: None, chart: Vec::new() });
    }
}

/// Whose trace it is; where nobody can tell, where it lies.
fn name_of(trace: &Sealed) -> String {
    trace.device().map_or_else(|| trace.files.directory.display().to_string(), ToString::to_string)
}

fn trace_of(trace: &Sealed, aside: Option<&Aside>) -> Trace {
    Trace {
        device: trace.device().map_or_else(|| "?".into(), ToString::to_string),
        directory: trace.files.directory.display().to_string(),
        graph: trace.graph().map_or("?", |graph| graph.as_str()).into(),
        records: sealed_records(trace),
        period: trace.end.map(|_| trace.period),
        head: trace.standing.sealed.map(|sealed| Hex(&sealed.head.0).to_string()),
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
        (_, _) if trace.damage.as_ref().is_some_and(|damage| !damage.is_unknown_key) => Ending::Damaged,
        (None, _) => Ending::Unread,
        (_, End::Closed) if trace.damage.is_none() => Ending::Closed,
        (_, End::Continues) if trace.damage.is_none() => Ending::Missing,
        _ => Ending::Open(Open { records, bytes }),
    }
}

fn finish(mut court: Court<'_>, traces: Vec<Trace>, sources: &Sources) -> Report {
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
    let Court { evidence, figures, timeline, elsewhere, filter, .. } = court;
    let timeline = timeline.finish();
    let inputs = Inputs {
        meshes: sources.meshes.iter().map(|mesh| mesh.file.contents().serial).collect(),
        operator: sources.operator.map(|key| key.to_string()),
        keys: sources.keys.len() as u64,
        openings: sources.openings.len() as u64,
        are_openings_found: sources.are_openings_found,
        consents: sources.consents.len() as u64,
    };
    Report {
        findings,
        more,
        elsewhere,
        filter,
        is_strict: false,
        evidence,
        inputs,
        unjudged,
        traces,
        figures,
        timeline,
        policies,
        holdings,
    }
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
