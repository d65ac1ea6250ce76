//! `policy diff`: what a change of policy means for a controller.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use pilot_core::policy::Choice;
use pilot_core::subsumption::Judge;
use pilot_core::syntax::SourcePolicy;

use super::compare::{Decision, decide};
use crate::console::{Answer, Console, Failure};
use crate::input::{Origin, VocabularyOption, Words, is_regular_file};

#[derive(Debug, Args)]
#[command(after_help = "\
A subject's policy is won if it accepts one of the controller's policies. The empty policy wins nobody.

Without --vocabulary, the `vocabulary.toml` in DIR is used, or if there is none, the built-in vocabulary. A \
`vocabulary.toml` beside OLD or NEW that is not the same as the one in DIR is an error, and so is one where DIR has none.

Example:
  consent-mesh policy diff old.pilot new.pilot --against subjects/

Exit codes: 0 compared, whatever is gained or lost, 2 errors.")]
pub(crate) struct Diff {
    /// The controller's policies as they are
    old: PathBuf,
    /// The controller's policies as they will be
    new: PathBuf,
    /// Directory of subjects' policies (*.pilot, *.json, *.jsonl, *.cbor); what is no regular file is skipped
    #[arg(long, value_name = "DIR")]
    against: PathBuf,
    #[command(flatten)]
    vocabulary: VocabularyOption,
}

pub(crate) fn run(arguments: &Diff, console: &mut Console) -> Result<Answer, Failure> {
    if arguments.old == Path::new("-") && arguments.new == arguments.old {
        return Err(Failure::StandardInputTwice);
    }
    // First: where there is no such directory, there is nothing to say about its vocabulary.
    let files = policy_files(&arguments.against)?;
    let words = arguments.vocabulary.load_of_subject(Some(&arguments.against), &[&arguments.old, &arguments.new])?;
    let (old, new) = (words.some_policies(&arguments.old)?, words.some_policies(&arguments.new)?);
    let judge = Judge::new(&words.vocabulary);
    let (mut gained, mut lost, mut kept, mut refused) = (0, 0, 0, 0);
    for (file, subject) in subjects(&arguments.against, files, &words, console)? {
        let name = format!("`{}` ({})", subject.name, Origin::from(file.as_path()));
        match (best_offer(&old, &subject, &judge), best_offer(&new, &subject, &judge)) {
            (Some((_, Decision::Accepted { .. })), Some((_, Decision::Accepted { .. }))) => kept += 1,
            (Some((offer, Decision::Accepted { .. })), now) => {
                lost += 1;
                let why = now.map_or_else(
                    || "nothing is offered any more".to_string(),
                    |(offer, decision)| format!("`{}` is {}", offer.name, decision.sentence(&offer.choice, &judge)),
                );
                writeln!(console, "lost: {name} accepted `{}`; {why}", offer.name)?;
            }
            (_, Some((offer, Decision::Accepted { .. }))) => {
                gained += 1;
                writeln!(console, "gained: {name} accepts `{}`", offer.name)?;
            }
            _ => refused += 1,
        }
    }
    writeln!(console, "{gained} gained, {lost} lost, {kept} kept, {refused} still refused")?;
    Ok(Answer::Yes)
}

/// The offer that the subject's policy accepts, or the one that is nearest to being accepted.
fn best_offer<'o>(
    offers: &'o [SourcePolicy],
    subject: &'o SourcePolicy,
    judge: &Judge<'_>,
) -> Option<(&'o SourcePolicy, Decision<'o>)> {
    offers
        .iter()
        .filter(|offer| offer.choice != Choice::Nothing)
        .filter_map(|offer| Some((offer, decide(&offer.choice, [subject], judge)?)))
        .min_by_key(|(_, decision)| match decision {
            Decision::AsksForNothing | Decision::Accepted { .. } => 0,
            Decision::Refused { why, .. } => why.changes.len(),
        })
}

/// The policy files in a directory, in the order of their names.
fn policy_files(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let unreadable = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => Failure::NoDirectory(directory.into()),
        _ => Failure::Read(directory.into(), error),
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        let extension = file.extension().and_then(|extension| extension.to_str());
        if matches!(extension, Some("pilot" | "json" | "jsonl" | "cbor")) {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// Every policy in the files of a directory.
fn subjects(
    directory: &Path,
    files: Vec<PathBuf>,
    words: &Words,
    console: &mut Console,
) -> Result<Vec<(PathBuf, SourcePolicy)>, Failure> {
    let mut subjects = Vec::new();
    for file in files {
        // Nobody named it, and a pipe among the files would keep everybody waiting.
        if !is_regular_file(&file)? {
            console.note(format_args!("{}: not a regular file, skipped", Origin::from(file.as_path())));
            continue;
        }
        subjects.extend(words.policies(&file)?.policies.into_iter().map(|policy| (file.clone(), policy)));
    }
    if subjects.is_empty() { Err(Failure::NoPolicy(directory.into())) } else { Ok(subjects) }
}
