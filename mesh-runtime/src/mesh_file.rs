//! The operator's mesh file on disk: `mesh.toml`, and beside it `mesh.toml.sig` with the operator's signature.
//!
//! Two files cannot be replaced in one step, so for a moment `mesh.toml.sig` has two lines: the signature of the coming
//! `mesh.toml` and that of the present one. Whoever stops reading or writing in between has a good pair nevertheless.
//!
//! ```text
//! ed25519-signature:<128 lower-case hexadecimal digits>
//! ```
//!
//! [`SignedMesh`] is such a pair as it was read, and believed by nobody yet; [`Trust`] says whom a daemon believes.

mod trust;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use pilot_core::evidence::keys::{Signature, VerifyingKey};
use pilot_core::evidence::mesh::{MAX_MESH_BYTES, MeshError, MeshFile};
use pilot_core::value::Time;

pub use self::trust::{Trust, TrustFileError};

/// The most signatures beside a mesh file: of the present one, and of the coming one. A file with more is refused.
pub const MAX_SIGNATURES: usize = 2;
/// The largest file of signatures; a larger one is something else, and refused.
pub const MAX_SIGNATURE_FILE_BYTES: usize = 1024;

/// Where the signatures of a mesh file are: `mesh.toml.sig` beside `mesh.toml`.
pub fn signature_path(mesh: &Path) -> PathBuf {
    let mut path = mesh.as_os_str().to_owned();
    path.push(".sig");
    path.into()
}

/// A mesh file and its signatures as somebody wrote them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedMesh {
    text: String,
    signatures: Vec<Signature>,
}

/// Why a mesh file and its signatures were not read.
#[derive(Debug, thiserror::Error)]
pub enum MeshReadError {
    /// The file system refused.
    #[error("cannot read `{}`: {source}", .path.display())]
    Io {
        /// Which of the two files.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A directory, a pipe or the like.
    #[error("`{}` is not a regular file", .0.display())]
    NotAFile(PathBuf),
    /// Larger than its kind may be.
    #[error("`{}` has more than {limit} bytes", .path.display())]
    TooLarge {
        /// Which of the two files.
        path: PathBuf,
        /// How many it may have.
        limit: usize,
    },
    /// Nobody has signed it.
    #[error("there is no signature `{}`: the operator has not signed the mesh file", .0.display())]
    NotSigned(PathBuf),
    /// Not one or two signatures.
    #[error("`{}` is not the signature of a mesh file", .0.display())]
    NotASignature(PathBuf),
}

impl SignedMesh {
    /// Reads a mesh file and its signatures. If both are replaced meanwhile, they may not belong together: whoever finds
    /// a wrong signature reads again.
    pub fn read(mesh: &Path) -> Result<Self, MeshReadError> {
        let beside = signature_path(mesh);
        let text = read(mesh, MAX_MESH_BYTES)?;
        let signatures = read(&beside, MAX_SIGNATURE_FILE_BYTES).map_err(|error| match error {
            MeshReadError::Io { path, source } if source.kind() == io::ErrorKind::NotFound => {
                MeshReadError::NotSigned(path)
            }
            error => error,
        })?;
        match parse_signatures(&signatures) {
            Some(signatures) => Ok(Self { text, signatures }),
            None => Err(MeshReadError::NotASignature(beside)),
        }
    }

    /// Opens the mesh file if this operator signed it, as [`MeshFile::open`] does.
    pub fn open(&self, operator: &VerifyingKey, now: Time, known_serial: Option<u64>) -> Result<MeshFile, MeshError> {
        let mut result = Err(MeshError::Signature);
        for signature in &self.signatures {
            result = MeshFile::open(&self.text, signature, operator, now, known_serial);
            if !matches!(result, Err(MeshError::Signature)) {
                break;
            }
        }
        result
    }
}

/// One or two signatures, a line each.
pub fn parse_signatures(text: &str) -> Option<Vec<Signature>> {
    let lines = text.strip_suffix('\n')?.split('\n');
    let signatures: Vec<Signature> =
        lines.take(MAX_SIGNATURES + 1).map(|line| line.parse().ok()).collect::<Option<_>>()?;
    Some(signatures).filter(|signatures| signatures.len() <= MAX_SIGNATURES)
}

fn read(path: &Path, limit: usize) -> Result<String, MeshReadError> {
    let at = |source| MeshReadError::Io { path: path.into(), source };
    // Before it is opened, because a pipe would keep us waiting.
    if !path.metadata().map_err(at)?.is_file() {
        return Err(MeshReadError::NotAFile(path.into()));
    }
    let mut text = String::new();
    // One byte more than allowed tells a file of the limit's size from a larger one.
    File::open(path).and_then(|file| file.take(limit as u64 + 1).read_to_string(&mut text)).map_err(at)?;
    if text.len() > limit { Err(MeshReadError::TooLarge { path: path.into(), limit }) } else { Ok(text) }
}
