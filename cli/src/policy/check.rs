//! `policy check`: syntax, names, lints.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::PossibleValuesParser;
use pilot_core::lint::{Lint, MAX_SHADOW_POLICIES, lint};
use pilot_core::policy::Choice;
use pilot_core::subsumption::Judge;
use pilot_core::value::Time;

use crate::console::{Answer, Console, Failure};
use crate::input::{NowOption, Origin, VocabularyOption, Words};
use crate::vocabulary::count;

#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(crate) struct Check {
    /// Policy files: text (*.pilot), JSON (*.json, *.jsonl), canonical CBOR (*.cbor), or `-` for text on standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    vocabulary: VocabularyOption,
    /// Exit with 1 if there are findings, or files without policies
    #[arg(long)]
    deny: bool,
    /// Do not report this kind of finding (may be repeated)
    #[arg(long, value_name = "LINT", value_parser = PossibleValuesParser::new(Lint::ALL.map(Lint::name)), hide_possible_values = true)]
    allow: Vec<String>,
    #[command(flatten)]
    now: NowOption,
}

fn after_help() -> String {
    let mut text = String::from("Findings:\n");
    for lint in Lint::ALL {
        text += &format!("  {:<25} {}\n", lint.name(), lint.about());
    }
    text += "
Among a controller's offers, of which one is chosen, `shadowed` is usual. Among a subject's own policies the shadowed one has no effect.

Examples:
  consent-mesh policy check examples/mall/visitor.pilot
  consent-mesh policy check --deny --now 2024-01-01 --allow shadowed examples/flights/*.pilot

Exit codes: 0 no errors, 1 findings (or no policies in a file) and --deny, 2 errors.";
    text
}

pub(crate) fn run(arguments: &Check, console: &mut Console) -> Result<Answer, Failure> {
    let mut words_by_file = arguments.vocabulary.load_for_each()?;
    let now = arguments.now.time();
    let mut answer = Answer::Yes;
    let (mut policies, mut findings, mut is_any_empty) = (0, 0, false);
    for file in &arguments.files {
        match words_by_file.of(file).and_then(|words| check(file, words, now, &arguments.allow, console)) {
            Ok((in_file, found)) => {
                policies += in_file;
                findings += found;
                is_any_empty |= in_file == 0;
            }
            Err(Failure::Output(error)) => return Err(error.into()),
            Err(failure) => {
                console.complain(failure);
                answer = Answer::BadInput;
            }
        }
    }
    if answer == Answer::Yes {
        let found = if findings == 0 { "no findings".to_string() } else { count(findings, "finding", "findings") };
        let checked = count(policies, "policy", "policies");
        writeln!(console, "{checked} in {}: {found}", count(arguments.files.len(), "file", "files"))?;
    }
    Ok(if arguments.deny && (findings > 0 || is_any_empty) { answer.max(Answer::No) } else { answer })
}

/// Checks one file; how many policies it has, and how many findings there are.
fn check(
    file: &Path,
    words: &Words,
    now: Time,
    allowed: &[String],
    console: &mut Console,
) -> Result<(usize, usize), Failure> {
    let source = words.policies(file)?;
    let policies: Vec<(&str, &Choice)> = source.policies.iter().map(|p| (p.name.as_str(), &p.choice)).collect();
    let origin = Origin::from(file);
    let mut count = 0;
    for finding in lint(&policies, now, &Judge::new(&words.vocabulary)) {
        if !allowed.iter().any(|name| name == finding.lint.name()) {
            count += 1;
            let name = policies.get(finding.policy).map_or("?", |(name, _)| name);
            writeln!(console, "warning: {origin}: policy `{name}`: {} [{}]", finding.sentence, finding.lint)?;
        }
    }
    if policies.is_empty() {
        writeln!(console, "note: {origin}: no policies")?;
    }
    if policies.len() > MAX_SHADOW_POLICIES {
        writeln!(
            console,
            "note: {origin}: more than {MAX_SHADOW_POLICIES} policies, shadowed ones are not looked for"
        )?;
    }
    Ok((policies.len(), count))
}
