//! `consent-mesh mesh`: the operator's mesh file, which says who takes part. One file per kind of command.
//!
//! Every command but `sign` and `verify` edits the file and leaves it unsigned; `sign` makes it count.

mod devices;
mod new;
mod sign;
mod verify;

use std::path::Path;

use clap::Subcommand;
use mesh_runtime::mesh_file::MeshReadError;
use pilot_core::diagnostic::{Hint, Quoted};
use pilot_core::evidence::mesh::{
    DeviceName, MAX_MESH_BYTES, MeshContentError, MeshDraft, MeshError, MeshProblem, TagError,
};
use pilot_core::name::NameError;
use pilot_core::value::Time;

use crate::console::{Answer, Console, Failure, visible};
use crate::input::{self, Origin};
use crate::replace::Target;

/// The longest period that a file or a device may be given in one go: whatever lasts longer is never looked at again.
const MAX_DAYS: i64 = 3_650;
/// What is printed after an edit.
const UNSIGNED: &str = "not signed yet (see `consent-mesh mesh sign --help`)";

/// The life of a mesh file.
pub(crate) const LIFE: &str = "\
The mesh file lists the devices of controllers and repositories with their public keys. Daemons believe it because the \
operator has signed it; the signature is FILE.sig beside it. Subjects are not in it: they make their own keys.

The life of a mesh (options that take keys take what `consent-mesh keys show` prints):
  consent-mesh keys new operator.key            once; keep it off the network
  consent-mesh mesh new mesh.toml --vocabulary vocabulary.toml
  consent-mesh mesh add mesh.toml --device gate --role controller --entity mall --keys …
  consent-mesh mesh sign mesh.toml --key operator.key
  consent-mesh mesh verify mesh.toml --operator …

Copy mesh.toml and mesh.toml.sig to all daemons. When something changes, edit, sign and copy again:
  mesh renew --device gate --keys …             new keys for a device, whose old ones are lost or old
  mesh revoke --device gate                     a device's keys are stolen, or it leaves
  mesh sign --next-operator …                   another operator's key is to follow

The file is TOML and may be edited by hand, but these commands write it anew: comments are lost.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a mesh file without devices
    New(new::New),
    /// Add a device of a controller or a repository
    Add(devices::Add),
    /// Give a device new keys, and more time
    Renew(devices::Renew),
    /// Say that nothing a device signs counts any more
    Revoke(devices::Revoke),
    /// Sign the mesh file as its operator
    Sign(sign::Sign),
    /// Is a mesh file signed by this operator, and valid now?
    Verify(verify::Verify),
}

pub(crate) fn run(command: Command, console: &mut Console) -> Result<Answer, Failure> {
    match command {
        Command::New(arguments) => new::run(&arguments, console),
        Command::Add(arguments) => devices::add(&arguments, console),
        Command::Renew(arguments) => devices::renew(&arguments, console),
        Command::Revoke(arguments) => devices::revoke(&arguments, console),
        Command::Sign(arguments) => sign::run(&arguments, console),
        Command::Verify(arguments) => verify::run(&arguments, console),
    }
}

/// What is wrong with a mesh file, or with what was asked of it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MeshFailure {
    /// A bad mesh file.
    #[error(transparent)]
    Content(#[from] MeshContentError),
    /// An edit that makes the file bad.
    #[error("{0}")]
    Edit(MeshProblem),
    /// A pair of files that cannot be read.
    #[error("{}", visible(.0))]
    Read(#[from] MeshReadError),
    /// A signed file that cannot be opened.
    #[error("{0}")]
    Open(MeshError),
    /// A file that is there already.
    #[error("it exists already, and is not overwritten")]
    Exists,
    /// A name that no device can have.
    #[error("bad name {0}: {1}")]
    Name(Quoted, NameError),
    /// A device that is there already.
    #[error("there is a device `{0}` already; `consent-mesh mesh renew` gives it new keys")]
    DeviceExists(DeviceName),
    /// A device that is not there.
    #[error("there is no device {0}{1}")]
    NoDevice(Quoted, Hint),
    /// Something that each device has for itself.
    #[error("device `{by}` has this {what} already")]
    Taken {
        /// What is taken.
        what: &'static str,
        /// By which device.
        by: DeviceName,
    },
    /// A bad tag.
    #[error("--tag: {0}")]
    Tag(TagError),
    /// No tag at random.
    #[error("no frame tag could be chosen at random; choose one with --tag")]
    NoTag,
    /// A device that is revoked, and would be given more time with the same keys.
    #[error("device `{0}` is revoked since {1}: give it new keys with --keys")]
    Revoked(DeviceName, Time),
    /// A device that is revoked, and would be revoked later.
    #[error("device `{0}` is revoked since {1} already")]
    RevokedBefore(DeviceName, Time),
    /// The last serial.
    #[error("there is no serial after {0}")]
    LastSerial(u64),
    /// Rolling over to the same key.
    #[error("--next-operator: this is the key that signs already")]
    SameOperator,
}

/// A mesh file that is being edited.
struct Edited {
    origin: Origin,
    target: Target,
    text: String,
    draft: MeshDraft,
}

impl Edited {
    fn read(file: &Path) -> Result<Self, Failure> {
        let origin = Origin::from(file);
        let target = Target::find(file)?;
        let text = input::text(file, MAX_MESH_BYTES)?;
        match MeshDraft::from_toml(&text) {
            Ok(draft) => Ok(Self { origin, target, text, draft }),
            Err(error) => Err(failure(&origin, error.into())),
        }
    }

    /// The new text. An error is about what was asked for, so it shows no place in a text that nobody has seen.
    fn new_text(&self) -> Result<String, Failure> {
        self.draft.to_toml().map_err(|error| self.failure(MeshFailure::Edit(error.problem)))
    }

    /// Replaces the file, unless somebody else has changed it meanwhile.
    fn write(&self, text: &str) -> Result<(), Failure> {
        self.target.replace(self.text.as_bytes(), text.as_bytes())
    }

    fn failure(&self, what: MeshFailure) -> Failure {
        failure(&self.origin, what)
    }
}

fn failure(origin: &Origin, what: MeshFailure) -> Failure {
    Failure::Mesh(origin.clone(), Box::new(what))
}

/// The moment this many days after another.
fn days_after(start: Time, days: i64) -> Time {
    const DAY: u64 = 86_400;
    Time::from_unix(start.unix().saturating_add(days.unsigned_abs().saturating_mul(DAY)))
}
