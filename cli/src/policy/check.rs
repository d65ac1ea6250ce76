//! `policy check`: syntax, names, lints.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::Args;
use clap::builder::PossibleValuesParser;
use pilot_core::lint::{Lint, MAX_SHADOW_POLICIES, lint};
use pilot_core::policy::Choice;
use pilot_core::subsumption::Judge;
use pilot_core::value::Time;

use crate::console::{Answer, Console, Failure};
use crate::input::{Origin, VocabularyOption, Words, moment};
use crate::vocabulary::count;

#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(crate) struct Check {
    /// Policy files: text (*.pilot), JSON (*.json), canonical CBOR (*.cbor), or `-` for text on standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    vocabulary: VocabularyOption,
    /// Exit with 1 if there are findings
    #[arg(long)]
    deny: bool,
    /// Do not report this kind of finding (may be repeated)
    #[arg(long, value_name = "LINT", value_parser = PossibleValuesParser::new(Lint::ALL.map(Lint::name)), hide_possible_values = true)]
    allow: Vec<String>,
    /// Judge deadlines at this time: a date, an RFC 3339 time or Unix seconds [default: now]
    #[arg(long, value_name = "TIME", value_parser = moment)]
    now: Option<Time>,
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

Exit codes: 0 no errors, 1 findings and --deny, 2 errors.";
    text
}

pub(crate) fn run(arguments: &Check, console: &mut Console) -> Result<Answer, Failure> {
    let Some(first) = arguments.files.first() else { return Ok(Answer::Yes) };
    let words = arguments.vocabulary.load(first)?;
    let now = arguments.now.unwrap_or_else(current_time);
    let mut answer = Answer::Yes;
    let (mut policies, mut findings) = (0, 0);
    for file in &arguments.files {
        match check(file, &words, now, &arguments.allow, console) {
            Ok((in_file, found)) => {
                policies += in_file;
                findings += found;
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
    Ok(if findings > 0 && arguments.deny { answer.max(Answer::No) } else { answer })
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
    if policies.len() > MAX_SHADOW_POLICIES {
        writeln!(
            console,
            "note: {origin}: more than {MAX_SHADOW_POLICIES} policies, shadowed ones are not looked for"
        )?;
    }
    Ok((policies.len(), count))
}

fn current_time() -> Time {
    // A clock before 1970 is as good as 1970.
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Time::from_unix(since_1970.as_secs())
}
