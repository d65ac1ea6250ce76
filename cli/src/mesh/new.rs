//! `mesh new`: a mesh file without devices.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;

use clap::Args;
use pilot_core::evidence::mesh::MeshDraft;
use pilot_core::vocabulary::{Declarations, MAX_VOCABULARY_BYTES};

use super::{MAX_DAYS, MeshFailure, UNSIGNED, days_after, failure};
use crate::console::{Answer, Console, Failure};
use crate::input::{self, Origin};

#[derive(Debug, Args)]
#[command(after_help = "\
The vocabulary becomes part of the file, so that everybody in the mesh speaks of the same entities, datatypes and \
purposes; to change it, edit the file and sign it. Devices and items of the vocabulary are left out: devices are added \
with their keys, and items are personal.

Daemons refuse an expired file, and whoever keeps them from getting a newer one can hide a revocation until then: the \
shorter, the safer, and the more often the operator signs.

Examples:
  consent-mesh mesh new mesh.toml --vocabulary examples/mall/vocabulary.toml --days 30

Exit codes: 0 done, 2 errors.")]
pub(crate) struct New {
    /// File to make; never overwritten
    file: PathBuf,
    /// Vocabulary of the mesh, `-` for standard input
    #[arg(long, value_name = "FILE")]
    vocabulary: PathBuf,
    /// Days from each signature to the file's expiry
    #[arg(long, value_name = "N", default_value_t = 90, value_parser = clap::value_parser!(i64).range(1..=MAX_DAYS))]
    days: i64,
}

pub(crate) fn run(arguments: &New, console: &mut Console) -> Result<Answer, Failure> {
    let origin = Origin::File(arguments.file.clone());
    let vocabulary = Origin::from(arguments.vocabulary.as_path());
    let declarations = Declarations::from_toml(&input::text(&arguments.vocabulary, MAX_VOCABULARY_BYTES)?)
        .map_err(|error| Failure::Vocabulary(vocabulary.clone(), Box::new(error)))?;
    let (declarations, has_more) = declarations.into_shared();
    let issued = input::clock();
    let draft = MeshDraft {
        serial: 0,
        issued,
        expires: days_after(issued, arguments.days),
        next_operator_key: None,
        vocabulary: declarations,
        devices: Vec::new(),
    };
    let text = draft.to_toml().map_err(|error| failure(&origin, MeshFailure::Edit(error.problem)))?;
    let mut file = File::create_new(&arguments.file).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => failure(&origin, MeshFailure::Exists),
        _ => Failure::Write(origin.clone(), error),
    })?;
    if let Err(error) = file.write_all(text.as_bytes()).and_then(|()| file.sync_all()) {
        // The first error is the one to tell.
        let _ = fs::remove_file(&arguments.file);
        return Err(Failure::Write(origin, error));
    }
    if has_more {
        console.note(format_args!("{vocabulary}: its devices and items are left out"));
    }
    writeln!(console, "{origin}: made, without devices; {UNSIGNED}")?;
    Ok(Answer::Yes)
}
