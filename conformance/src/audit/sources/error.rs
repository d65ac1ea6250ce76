//! Why an audit cannot begin.

use std::io;
use std::path::PathBuf;

use pilot_core::evidence::DeviceName;

use super::{MAX_DEPTH, MAX_TRACES};

/// Why something cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The file system refused.
    #[error("cannot read `{}`: {source}", .path.display())]
    Io {
        /// What.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Larger than its kind may be.
    #[error("`{}` has more than {limit} bytes", .path.display())]
    TooLarge {
        /// What.
        path: PathBuf,
        /// How many it may have.
        limit: u64,
    },
    /// Directories within directories.
    #[error("`{}` has directories more than {MAX_DEPTH} deep", .0.display())]
    TooDeep(PathBuf),
    /// A file, where directories are wanted.
    #[error("`{}` is a file: name the directory that the trace is in", .0.display())]
    File(PathBuf),
    /// Two that contradict each other.
    #[error("`{}` and `{}` are two mesh files with serial {serial}: audit each mesh by itself", .paths[0].display(), .paths[1].display())]
    TwoMeshes {
        /// Which.
        paths: [PathBuf; 2],
        /// Their serial.
        serial: u64,
    },
    /// Two that say different things of one device.
    #[error("the mesh files with serials {} and {} do not agree on what `{device}` is there for: audit the time of each by itself", .serials[0], .serials[1])]
    OtherRole {
        /// Of which device.
        device: DeviceName,
        /// Their serials.
        serials: [u64; 2],
    },
    /// Two openings that give one device two keys.
    #[error("two openings give `{0}` different keys to sign with: one of them is not hers")]
    TwoKeys(DeviceName),
    /// Two devices say that an item is theirs.
    #[error("`{}` and `{}` open the same item: leave out the opening of whom it is not", .0[0], .0[1])]
    TwoOwners([DeviceName; 2]),
    /// An empty file of openings.
    #[error("there is no opening in `{}`", .0.display())]
    NoOpening(PathBuf),
    /// More than [`MAX_TRACES`].
    #[error("there are more than {MAX_TRACES} traces")]
    TooMany,
    /// Nothing to audit.
    #[error("there is no trace in {0}: no directory with files `trace-00000000.cborseq`, …")]
    NoTrace(String),
    /// A mesh file that cannot be understood.
    #[error("`{}` is no mesh file: {problem}", .path.display())]
    Mesh {
        /// Which.
        path: PathBuf,
        /// Why.
        problem: String,
    },
    /// Nobody whose key was given has signed it.
    #[error("`{}` is not signed by this operator", .0.display())]
    NotSigned(PathBuf),
    /// It has no signature beside it.
    #[error("`{}` is not signed: there is no `{}.sig`", .0.display(), .0.display())]
    NoSignature(PathBuf),
    /// Nothing to read policies and verify signatures with.
    #[error("there is no mesh file: `--mesh FILE` says who takes part, with which keys and words")]
    NoMesh,
    /// Not a key.
    #[error("`{}` is no {what}", .path.display())]
    Key {
        /// Which.
        path: PathBuf,
        /// What was wanted.
        what: &'static str,
    },
    /// Not an opening, or not a signed consent.
    #[error("`{}`, {what} {number}: {problem}", .path.display())]
    Line {
        /// An opening, or a signed consent.
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// Which in it, from 1.
        number: usize,
        /// Why.
        problem: String,
    },
}
