//! `mesh sign`: what makes a mesh file count.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use mesh_runtime::keys::SecretKeys;
use mesh_runtime::mesh_file::{MAX_SIGNATURE_FILE_BYTES, parse_signatures, signature_path};
use pilot_core::evidence::keys::{Signature, Signer as _, VerifyingKey};
use pilot_core::evidence::mesh::{MeshDraft, sign_mesh};
use pilot_core::value::Time;

use super::{Edited, MAX_DAYS, MeshFailure, days_after};
use crate::console::{Answer, Console, Failure};
use crate::input::{self, Origin, is_regular_file};
use crate::replace::Target;
use crate::vocabulary::count;

#[derive(Debug, Args)]
#[command(after_help = "\
Raises the serial, sets the times of issue and expiry, and writes FILE and FILE.sig. Sign again before the file expires, \
even if nothing has changed.

Both files are replaced in one step each, and in between FILE.sig has two signatures, of the old FILE and of the new one: \
if FILE was signed before, there is a good pair at every moment, also after a crash. If FILE was edited since, it has no \
good signature until this is done; daemons that find it so go on with the file that they have.

Another operator's key: name it with --next-operator, sign with the present key, and copy the file to all daemons. From \
then on they accept files of either key. Once the other key has signed, they accept the present one no longer. Until \
then, signing again with the present key keeps the line `next_operator_key`; delete it to change your mind.

Comments in FILE are lost.

Examples:
  consent-mesh mesh sign mesh.toml --key operator.key
  consent-mesh mesh sign mesh.toml --key operator.key --next-operator ed25519:…

Exit codes: 0 done, 2 errors.")]
pub(crate) struct Sign {
    /// Mesh file
    file: PathBuf,
    /// File with the operator's secret keys
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Days from now on until the file expires [default: as long as before]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..=MAX_DAYS))]
    days: Option<i64>,
    /// Public key that may sign the next file, too
    #[arg(long, value_name = "ED25519")]
    next_operator: Option<String>,
}

pub(crate) fn run(arguments: &Sign, console: &mut Console) -> Result<Answer, Failure> {
    let operator = SecretKeys::load(&arguments.key)?;
    let mut mesh = Edited::read(&arguments.file)?;
    let next =
        arguments.next_operator.as_deref().map(|key| key.parse().map_err(|e| Failure::Key("--next-operator", e)));
    let next = next.transpose()?;
    issue(&mut mesh.draft, operator.verifying_key(), next, arguments.days, input::clock())
        .map_err(|what| mesh.failure(what))?;
    let text = mesh.new_text()?;
    publish(&mesh, &arguments.file, &text, &sign_mesh(&text, &operator))?;

    let MeshDraft { serial, expires, devices, .. } = &mesh.draft;
    let devices = count(devices.len(), "device", "devices");
    writeln!(console, "{}: signed: serial {serial}, {devices}, expires {expires}", mesh.origin)?;
    writeln!(console, "  by {}", operator.verifying_key())?;
    if let Some(next) = &mesh.draft.next_operator_key {
        writeln!(console, "  next {next}")?;
    }
    Ok(Answer::Yes)
}

/// Makes the next issue of a mesh file.
fn issue(
    draft: &mut MeshDraft,
    operator: VerifyingKey,
    next: Option<VerifyingKey>,
    days: Option<i64>,
    now: Time,
) -> Result<(), MeshFailure> {
    if next == Some(operator) {
        return Err(MeshFailure::SameOperator);
    }
    draft.serial = draft.serial.checked_add(1).ok_or(MeshFailure::LastSerial(draft.serial))?;
    let as_before = draft.expires.unix().saturating_sub(draft.issued.unix());
    draft.expires = match days {
        Some(days) => days_after(now, days),
        None => Time::from_unix(now.unix().saturating_add(as_before)),
    };
    draft.issued = now;
    // What was planned stays planned until that key signs.
    draft.next_operator_key = next.or(draft.next_operator_key).filter(|next| *next != operator);
    Ok(())
}

/// Writes the file and its signature, so that what was a good pair before stays one until there is another.
fn publish(mesh: &Edited, file: &Path, text: &str, signature: &Signature) -> Result<(), Failure> {
    let beside = signature_path(file);
    let only_new = format!("{signature}\n");
    if !is_regular_file(&beside)? {
        let origin = Origin::File(beside.clone());
        let write = || {
            let mut file = File::create_new(&beside)?;
            file.write_all(only_new.as_bytes())?;
            file.sync_all()
        };
        write().map_err(|error| Failure::Write(origin, error))?;
        return mesh.write(text);
    }
    let old = input::text(&beside, MAX_SIGNATURE_FILE_BYTES)?;
    // The first is of the file as it is, unless it was edited. What is no signature is worth nothing to anybody.
    let both = match parse_signatures(&old).as_deref() {
        Some([present, ..]) => format!("{only_new}{present}\n"),
        _ => only_new.clone(),
    };
    Target::find(&beside)?.replace(old.as_bytes(), both.as_bytes())?;
    mesh.write(text)?;
    Target::find(&beside)?.replace(both.as_bytes(), only_new.as_bytes())
}
