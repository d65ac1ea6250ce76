//! `policy fmt`: the one way to write a policy.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use pilot_core::syntax::MAX_FILE_BYTES;
use pilot_core::syntax::format::file_text;

use crate::console::{Answer, Console, Failure};
use crate::input::{self, Form, Origin, VocabularyOption, Words};

#[derive(Debug, Args)]
#[command(after_help = "\
Comments are kept. A file with errors is left as it is. Files are replaced in one step: whoever reads one meanwhile \
sees the old text or the new one.

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
    let Some(first) = arguments.files.first() else { return Ok(Answer::Yes) };
    let words = arguments.vocabulary.load(first)?;
    let mut answer = Answer::Yes;
    for file in &arguments.files {
        match format(file, arguments.check, &words, console) {
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
    let written = input::text(file, MAX_FILE_BYTES)?;
    let source = words.policies_in_text(&written, origin.clone())?;
    let formatted = file_text(&source.policies, &source.end_comments, &words.vocabulary);
    if only_check {
        if formatted == written {
            return Ok(Answer::Yes);
        }
        writeln!(console, "{origin}")?;
        return Ok(Answer::No);
    }
    if origin == Origin::StandardInput {
        console.write_all(formatted.as_bytes())?;
    } else if formatted != written {
        replace(file, formatted.as_bytes()).map_err(|error| Failure::Write(origin, error))?;
    }
    Ok(Answer::Yes)
}

/// Gives a file new contents in one step, or leaves it as it is.
fn replace(file: &Path, contents: &[u8]) -> io::Result<()> {
    // A link stays a link; what it points to is replaced.
    let file = fs::canonicalize(file)?;
    let permissions = fs::metadata(&file)?.permissions();
    if permissions.readonly() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let mut name = OsString::from(".");
    name.push(file.file_name().unwrap_or_default());
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = file.with_file_name(name);

    let write = || {
        let mut out = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
        out.write_all(contents)?;
        out.set_permissions(permissions)?;
        out.sync_all()?;
        fs::rename(&temporary, &file)
    };
    if let Err(error) = write() {
        // It may never have been made; the first error is the one to tell.
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    // The rename itself lasts once the directory is on disk.
    file.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}
