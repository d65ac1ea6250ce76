//! `mesh verify`: what a daemon would say to a mesh file.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::Args;
use mesh_runtime::mesh_file::{MeshReadError, SignedMesh};
use pilot_core::evidence::mesh::{MeshDraft, MeshError, MeshFile};
use pilot_core::value::Time;

use super::{MeshFailure, failure};
use crate::console::{Answer, Console, Failure};
use crate::input::{NowOption, Origin};
use crate::vocabulary::count;

#[derive(Debug, Args)]
#[command(after_help = "\
Reads FILE and FILE.sig as a daemon does that has this operator's key in its configuration, and shows the devices and \
whether they may act. A daemon also refuses a lower serial than it has seen; --serial does the same.

Examples:
  consent-mesh mesh verify mesh.toml --operator $(consent-mesh keys show operator.key | head -n 1)
  consent-mesh mesh verify mesh.toml --operator ed25519:… --serial 7

Exit codes: 0 a daemon accepts it, 1 a daemon refuses it, 2 errors.")]
pub(crate) struct Verify {
    /// Mesh file
    file: PathBuf,
    /// Public key of the operator
    #[arg(long, value_name = "ED25519")]
    operator: String,
    /// Refuse a serial lower than this
    #[arg(long, value_name = "N")]
    serial: Option<u64>,
    #[command(flatten)]
    now: NowOption,
}

pub(crate) fn run(arguments: &Verify, console: &mut Console) -> Result<Answer, Failure> {
    let origin = Origin::File(arguments.file.clone());
    let operator = arguments.operator.parse().map_err(|error| Failure::Key("--operator", error))?;
    let now = arguments.now.time();
    let opened = match SignedMesh::read(&arguments.file) {
        Ok(signed) => signed.open(&operator, now, arguments.serial),
        Err(MeshReadError::NotSigned(_)) => return refuse(&origin, "nobody has signed it", console),
        Err(error) => return Err(failure(&origin, error.into())),
    };
    match opened {
        Ok(mesh) => {
            show(&mesh, &origin, now, console)?;
            Ok(Answer::Yes)
        }
        // The operator signed what nobody can use.
        Err(error @ (MeshError::Content(_) | MeshError::TooLarge)) => Err(failure(&origin, MeshFailure::Open(error))),
        Err(refused) => refuse(&origin, refused, console),
    }
}

fn refuse(origin: &Origin, why: impl Display, console: &mut Console) -> Result<Answer, Failure> {
    writeln!(console, "{origin}: refused: {why}")?;
    Ok(Answer::No)
}

fn show(mesh: &MeshFile, origin: &Origin, now: Time, console: &mut Console) -> io::Result<()> {
    let MeshDraft { serial, issued, expires, next_operator_key, devices, .. } = mesh.contents();
    let devices_of = count(devices.len(), "device", "devices");
    writeln!(console, "{origin}: good: serial {serial}, {devices_of}, issued {issued}, expires {expires}")?;
    if let Some(next) = next_operator_key {
        writeln!(console, "  next operator {next}")?;
    }
    devices.iter().try_for_each(|device| {
        let (name, role, entity, tag) = (&device.name, device.role.word(), &device.entity, device.tag);
        write!(console, "  {name}: {role} of {entity}, tag {tag}, ")?;
        match device.check_valid(now) {
            Ok(()) => writeln!(console, "valid until {}", device.valid_until),
            Err(invalid) => writeln!(console, "{invalid}"),
        }
    })
}
