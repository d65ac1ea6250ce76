//! Her own policies: files that she writes, and that can be read again while the gateway runs.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use mesh_runtime::driver::limits::MAX_OWN_POLICIES;
use pilot_core::syntax::{MAX_FILE_BYTES, SourcePolicy, SyntaxError, parse_file};
use pilot_core::vocabulary::Vocabulary;

/// The most files; more are refused.
pub const MAX_POLICY_FILES: usize = 64;

/// Why her policies cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PolicyFileError {
    /// No file is named, so nothing could ever be accepted.
    #[error("name at least one file with policies")]
    NoFile,
    /// More than [`MAX_POLICY_FILES`].
    #[error("{0} files are more than {MAX_POLICY_FILES}")]
    TooManyFiles(usize),
    /// A file cannot be read.
    #[error("cannot read `{}`: {error}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file is too large.
    #[error("`{}` has more than {MAX_FILE_BYTES} bytes", .0.display())]
    TooLarge(PathBuf),
    /// A mistake in a file.
    #[error("`{}`: {error}", path.display())]
    Syntax {
        /// Which file.
        path: PathBuf,
        /// Where and what.
        error: Box<SyntaxError>,
    },
    /// A file without any policy.
    #[error("`{}`: there is no policy in it; `policy none {{ nothing }}` accepts nothing", .0.display())]
    Empty(PathBuf),
    /// More than the driver takes.
    #[error("{0} policies are more than {MAX_OWN_POLICIES}")]
    TooMany(usize),
}

/// Her policies and where they stand.
#[derive(Debug, Clone)]
pub struct OwnPolicies {
    paths: Vec<PathBuf>,
    policies: Vec<SourcePolicy>,
}

impl OwnPolicies {
    /// Reads all files, in the words of a vocabulary.
    pub fn read(paths: Vec<PathBuf>, vocabulary: &Vocabulary) -> Result<Self, PolicyFileError> {
        match paths.len() {
            0 => return Err(PolicyFileError::NoFile),
            many if many > MAX_POLICY_FILES => return Err(PolicyFileError::TooManyFiles(many)),
            _ => {}
        }
        let mut policies = Vec::new();
        for path in &paths {
            let file = parse_file(&text(path)?, vocabulary)
                .map_err(|error| PolicyFileError::Syntax { path: path.clone(), error: error.into() })?;
            if file.policies.is_empty() {
                return Err(PolicyFileError::Empty(path.clone()));
            }
            policies.extend(file.policies);
        }
        if policies.len() > MAX_OWN_POLICIES {
            return Err(PolicyFileError::TooMany(policies.len()));
        }
        Ok(Self { paths, policies })
    }

    /// Reads the same files again.
    pub fn read_again(&self, vocabulary: &Vocabulary) -> Result<Self, PolicyFileError> {
        Self::read(self.paths.clone(), vocabulary)
    }

    /// Every policy, with its name in its file.
    pub fn policies(&self) -> &[SourcePolicy] {
        &self.policies
    }
}

fn text(path: &Path) -> Result<String, PolicyFileError> {
    let unreadable = |error| PolicyFileError::Unreadable { path: path.into(), error };
    let mut text = String::new();
    let limit = MAX_FILE_BYTES as u64 + 1;
    File::open(path).and_then(|file| file.take(limit).read_to_string(&mut text)).map_err(unreadable)?;
    if text.len() > MAX_FILE_BYTES { Err(PolicyFileError::TooLarge(path.into())) } else { Ok(text) }
}
