//! Simulated meshes, and their audits.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use conformance::audit::report::{Filter, Report};
use conformance::audit::sources::{Given, Sources};
use conformance::audit::{Progress, audit};
use conformance::simulate::{Settings, simulate};
use tempfile::TempDir;

/// A simulated mesh.
pub(crate) struct Mesh {
    directory: TempDir,
}

impl Mesh {
    /// Of some size.
    pub(crate) fn new(subjects: u32, controllers: u32, events: u64, seed: u64) -> Self {
        Self::with_files_of(subjects, controllers, events, seed, 64 << 20)
    }

    /// The same, with files of another size.
    pub(crate) fn with_files_of(subjects: u32, controllers: u32, events: u64, seed: u64, file_bytes: u64) -> Self {
        Self::of(Settings { subjects, controllers, events, seed, file_bytes, ..Settings::default() })
    }

    /// Of any kind.
    pub(crate) fn of(settings: Settings) -> Self {
        let directory = TempDir::new().unwrap();
        simulate(&settings, &directory.path().join("mesh"), |_| {}).unwrap();
        Self { directory }
    }

    /// Where everything is.
    pub(crate) fn root(&self) -> PathBuf {
        self.directory.path().join("mesh")
    }

    /// A directory for something else.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// What is given besides directories: the operator's key.
    pub(crate) fn given(&self) -> Given {
        Given { operator: Some(self.root().join("operator.pub")), ..Given::default() }
    }
}

/// Audits a directory with the operator's key in it.
pub(crate) fn audited(root: &Path) -> Report {
    let given = Given { operator: Some(root.join("operator.pub")), ..Given::default() };
    audited_with(&[root.to_owned()], &given)
}

/// Audits directories.
pub(crate) fn audited_with(directories: &[PathBuf], given: &Given) -> Report {
    let sources = Sources::find(directories, given).unwrap();
    audit(&sources, Filter::default(), &Progress::default())
}

/// Runs `conform`.
pub(crate) fn conform(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_conform")).args(arguments).output().unwrap()
}

/// Copies a directory.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
