//! `policy compare`: p ⊑ q, and if not, why.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use pilot_core::condition::{Condition, Formula};
use pilot_core::english::{self, Moment, refusal};
use pilot_core::explain::{Explanation, explain};
use pilot_core::policy::{Choice, Policy};
use pilot_core::subsumption::Judge;
use pilot_core::syntax::SourcePolicy;
use pilot_core::value::Time;
use pilot_core::vocabulary::Vocabulary;
use serde::Serialize;

use super::batch;
use crate::console::{Answer, Console, Failure};
use crate::input::{NowOption, VocabularyOption, directory_of};

#[derive(Debug, Args)]
#[command(
    override_usage = "\
consent-mesh policy compare [OPTIONS] <CONTROLLER> <SUBJECT>
       consent-mesh policy compare [OPTIONS] --batch <FILE>",
    after_help = "\
One line for each of the controller's policies: under which of the subject's policies it is accepted, or why it is \
refused and what the controller would have to change. Conditions of collection play no part in that, nor \
does the current time: they count when data is about to be sent. After an accepted policy, both sides' conditions and \
a deadline that has passed stand in parentheses.

Without --vocabulary, the `vocabulary.toml` beside the subject's file is used, or if there is none, the built-in \
vocabulary. The controller has no say in it: a `vocabulary.toml` beside the controller's file that is not the same as \
the subject's is an error, and so is one where the subject has none. Standard input has none beside it.

Examples:
  consent-mesh policy compare examples/flights/banner.pilot examples/flights/alice.pilot
  consent-mesh policy compare --json examples/mall/offers.pilot examples/mall/visitor.pilot
  consent-mesh policy compare --batch pairs.jsonl --vocabulary vocabulary.toml

With --batch, each line is {\"p\":POLICY,\"q\":POLICY}, both in the form of `policy show --as json`. \
Each is answered with one line:
  {\"subsumes\":true}     p is at least as restrictive as q
  {\"subsumes\":false}    it is not
  {\"error\":\"…\"}         the line is malformed

Exit codes: 0 every policy of the controller is accepted, 1 some are refused, 2 errors.
With --batch: 0 every line was understood, 2 some were not."
)]
pub(crate) struct Compare {
    /// The controller's policies: text (*.pilot), JSON (*.json, *.jsonl), CBOR (*.cbor), or `-` for text on standard input
    #[arg(required_unless_present = "batch")]
    controller: Option<PathBuf>,
    /// The subject's policies, likewise
    #[arg(required_unless_present = "batch")]
    subject: Option<PathBuf>,
    #[command(flatten)]
    vocabulary: VocabularyOption,
    /// Answer as a JSON array, one object per controller policy: policy, accepted, under, conditions,
    /// expired, nearest, failures, changes
    #[arg(long, conflicts_with = "batch")]
    json: bool,
    #[command(flatten)]
    now: NowOption,
    /// Compare the pairs of policies in this file of JSON lines, or `-` for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["controller", "subject", "now"])]
    batch: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Compare, console: &mut Console) -> Result<Answer, Failure> {
    match (&arguments.batch, &arguments.controller, &arguments.subject) {
        (Some(batch), _, _) => batch::run(batch, &arguments.vocabulary.load(batch)?, console),
        (None, Some(controller), Some(subject)) => compare(controller, subject, arguments, console),
        // INVARIANT: the command line requires both.
        _ => Ok(Answer::BadInput),
    }
}

fn compare(controller: &Path, subject: &Path, arguments: &Compare, console: &mut Console) -> Result<Answer, Failure> {
    if controller == Path::new("-") && subject == controller {
        return Err(Failure::StandardInputTwice);
    }
    // Standard input lies beside no vocabulary: the working directory may be the controller's.
    let directory = (subject != Path::new("-")).then(|| directory_of(subject));
    let words = arguments.vocabulary.load_of_subject(directory, &[controller])?;
    let (offers, accepted) = (words.some_policies(controller)?, words.some_policies(subject)?);
    let now = arguments.now.time();
    let judge = Judge::new(&words.vocabulary);
    let decisions: Vec<(&SourcePolicy, Decision<'_>)> =
        offers.iter().filter_map(|offer| Some((offer, decide(&offer.choice, &accepted, &judge)?))).collect();
    if arguments.json {
        let decisions: Vec<DecisionOut<'_>> =
            decisions.iter().map(|(offer, decision)| DecisionOut::new(offer, decision, now, &judge)).collect();
        serde_json::to_writer(&mut *console, &decisions).map_err(std::io::Error::from)?;
        writeln!(console)?;
    } else {
        for (offer, decision) in &decisions {
            let terms = decision.terms(&offer.choice, now).qualification(judge.vocabulary);
            writeln!(console, "{}: {}{terms}", offer.name, decision.sentence(&offer.choice, &judge))?;
        }
    }
    let all_accepted = decisions.iter().all(|(_, decision)| !matches!(decision, Decision::Refused { .. }));
    Ok(if all_accepted { Answer::Yes } else { Answer::No })
}

/// What becomes of one offer.
#[derive(Debug)]
pub(super) enum Decision<'s> {
    /// It is ⊥, which is ⊑ every policy.
    AsksForNothing,
    /// It is ⊑ this policy.
    Accepted { under: &'s SourcePolicy },
    /// It is ⊑ none; this one would accept it with the fewest changes.
    Refused { nearest: &'s str, why: Explanation },
}

/// Whether some policy accepts the offer; nothing if there is none to ask.
pub(super) fn decide<'s>(
    offer: &Choice,
    accepted: impl IntoIterator<Item = &'s SourcePolicy>,
    judge: &Judge<'_>,
) -> Option<Decision<'s>> {
    if *offer == Choice::Nothing {
        return Some(Decision::AsksForNothing);
    }
    let mut nearest: Option<(&str, Explanation)> = None;
    for policy in accepted {
        let Some(why) = explain(offer, &policy.choice, judge) else {
            return Some(Decision::Accepted { under: policy });
        };
        if nearest.as_ref().is_none_or(|(_, other)| why.changes.len() < other.changes.len()) {
            nearest = Some((&policy.name, why));
        }
    }
    nearest.map(|(nearest, why)| Decision::Refused { nearest, why })
}

impl Decision<'_> {
    pub(super) fn sentence(&self, offer: &Choice, judge: &Judge<'_>) -> String {
        match self {
            Self::AsksForNothing => "asks for nothing".to_string(),
            Self::Accepted { under } => format!("accepted under `{}`", under.name),
            Self::Refused { nearest, why } => {
                format!("refused: {}", refusal::explanation(why, offer, nearest, judge.vocabulary))
            }
        }
    }

    /// What else must hold of an offer that is accepted.
    fn terms<'p>(&'p self, offer: &'p Choice, now: Time) -> Terms<'p> {
        let Self::Accepted { under } = self else { return Terms::default() };
        let mut terms = Terms::default();
        for policy in [offer, &under.choice].into_iter().filter_map(Choice::policy) {
            let condition = &policy.collection().condition;
            if !condition.is_always() && !terms.conditions.contains(&condition) {
                terms.conditions.push(condition);
            }
            // Of two deadlines that have passed, the first was the end.
            terms.expired = terms.expired.into_iter().chain(passed_deadline(policy, now)).min();
        }
        terms
    }
}

/// What ⊑ does not ask and sending does (Def. 9), of the controller's policy and of the subject's.
#[derive(Debug, Default)]
struct Terms<'p> {
    /// The conditions of collection that are not always true.
    conditions: Vec<&'p Condition>,
    /// The deadline, if it has passed.
    expired: Option<Time>,
}

impl Terms<'_> {
    /// " (while cookie.secure is true) (expired on 21/12/2024)".
    fn qualification(&self, vocabulary: &Vocabulary) -> String {
        let conditions = match self.conditions.as_slice() {
            [] => String::new(),
            several if several.iter().any(|condition| matches!(condition.formula(), Formula::False)) => {
                " (in no case)".to_string()
            }
            [condition] => format!(" (while {})", english::condition(condition, vocabulary)),
            several => {
                let grouped: Vec<String> = several.iter().map(|condition| grouped(condition, vocabulary)).collect();
                format!(" (while {})", grouped.join(" and "))
            }
        };
        let expired = self.expired.map(|deadline| format!(" (expired on {})", Moment(deadline)));
        conditions + &expired.unwrap_or_default()
    }
}

/// One of several conditions: what has an "and" or "or" of its own stands in parentheses.
fn grouped(condition: &Condition, vocabulary: &Vocabulary) -> String {
    let text = english::condition(condition, vocabulary);
    if matches!(condition.formula(), Formula::And(..) | Formula::Or(..)) { format!("({text})") } else { text }
}

/// The policy's own deadline, from which on nothing may be collected under it.
fn passed_deadline(policy: &Policy, now: Time) -> Option<Time> {
    Some(policy.collection().usage.retention()).filter(|deadline| now >= *deadline)
}

#[derive(Default, Serialize)]
struct DecisionOut<'s> {
    policy: &'s str,
    accepted: bool,
    under: Option<&'s str>,
    /// Of an accepted one: what must be true, too, when data is about to be sent.
    conditions: Vec<String>,
    /// Of an accepted one: whether a deadline has passed.
    expired: bool,
    /// Of a refused one: the policy that the failures and changes are about.
    nearest: Option<&'s str>,
    failures: Vec<String>,
    changes: Vec<String>,
}

impl<'s> DecisionOut<'s> {
    fn new(offer: &'s SourcePolicy, decision: &Decision<'s>, now: Time, judge: &Judge<'_>) -> Self {
        let policy = offer.name.as_str();
        match decision {
            Decision::AsksForNothing => Self { policy, accepted: true, ..Self::default() },
            Decision::Accepted { under } => {
                let Terms { conditions, expired } = decision.terms(&offer.choice, now);
                Self {
                    policy,
                    accepted: true,
                    under: Some(&under.name),
                    conditions: conditions.into_iter().map(|it| english::condition(it, judge.vocabulary)).collect(),
                    expired: expired.is_some(),
                    ..Self::default()
                }
            }
            Decision::Refused { nearest, why } => Self {
                policy,
                nearest: Some(nearest),
                failures: refusal::failures(why, &offer.choice, judge.vocabulary),
                changes: refusal::changes(why, &offer.choice, judge.vocabulary),
                ..Self::default()
            },
        }
    }
}
