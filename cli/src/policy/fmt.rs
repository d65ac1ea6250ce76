//! `policy fmt`: the one way to write a policy.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use pilot_core::syntax::MAX_FILE_BYTES;
use pilot_core::syntax::format::file_text;

use crate::console::{Answer, Console, Failure};
use crate::input::{self, Form, Origin, VocabularyOption, Words};
use crate::replace::Target;

#[derive(Debug, Args)]
#[command(after_help = "\
Comments are kept. A file with errors is left as it is. Files are replaced in one step: whoever reads one meanwhile \
sees the old text or the new one. Owner, group and permissions stay, and a symbolic link stays a link. Files that have \
changed meanwhile, files with hard links, and what is no regular file are refused.

Examples:
  consent-mesh policy fmt examples/flights/*.pilot
  consent-mesh policy fmt --check *.pilot
  consent-mesh policy fmt - < draft.pilot

Exit codes: 0 all are formatted, 1 some are not (with --check), 2 errors.")]
pub(crate) struct Fmt {
    /// Policy files in text form, or `-` to format standard input to standard output
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    vocabulary: VocabularyOption,
    /// Change nothing; list the files that are not formatted, and exit with 1 if there are any
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(arguments: &Fmt, console: &mut Console) -> Result<Answer, Failure> {
    let mut words_by_file = arguments.vocabulary.load_for_each()?;
    let mut answer = Answer::Yes;
    for file in &arguments.files {
        match words_by_file.of(file).and_then(|words| format(file, arguments.check, words, console)) {
            Ok(one) => answer = answer.max(one),
            Err(Failure::Output(error)) => return Err(error.into()),
            Err(failure) => {
                console.complain(failure);
                answer = Answer::BadInput;
            }
        }
    }
    Ok(answer)
}

fn format(file: &Path, only_check: bool, words: &Words, console: &mut Console) -> Result<Answer, Failure> {
    let origin = Origin::from(file);
    if Form::of(file) != Form::Text {
        return Err(Failure::NotText(origin));
    }
    let target = if origin == Origin::StandardInput { None } else { Some(Target::find(file)?) };
    let written = input::text(file, MAX_FILE_BYTES)?;
    let source = words.policies_in_text(&written, origin.clone())?;
    let formatted = file_text(&source.policies, &source.end_comments, &words.vocabulary);
    if formatted.len() > MAX_FILE_BYTES {
        return Err(Failure::FormattedTooLarge(origin, MAX_FILE_BYTES));
    }
    if only_check {
        if formatted == written {
            return Ok(Answer::Yes);
        }
        writeln!(console, "{origin}")?;
        return Ok(Answer::No);
    }
    match target {
        None => console.write_all(formatted.as_bytes())?,
        Some(target) if formatted != written => target.replace(written.as_bytes(), formatted.as_bytes())?,
        Some(_) => {}
    }
    Ok(Answer::Yes)
}
