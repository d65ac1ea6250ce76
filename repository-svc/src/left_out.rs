//! Statements that are stored but not listed (`left-out.json`): expired, of a device that has left the mesh, or without room.
//!
//! The trace does not say that they are listed. When one of them counts again, because the operator brings its device back,
//! say, it must not be listed without a record, so the next start has to know which those are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use mesh_runtime::daemon::state_file::{self, StateError};
use pilot_core::evidence::DeviceName;

use crate::store::Revision;

/// Which statements are not listed, by device, and their revisions.
#[derive(Debug)]
pub(crate) struct LeftOut {
    path: PathBuf,
    entries: BTreeMap<String, u64>,
    is_stored: bool,
}

impl LeftOut {
    /// What the last run left out. A missing file says: nothing.
    pub(crate) fn load(data: &Path) -> Result<Self, StateError> {
        let path = data.join("left-out.json");
        let entries = state_file::load(&path)?.unwrap_or_default();
        Ok(Self { path, entries, is_stored: true })
    }

    /// Whether this statement is not listed.
    pub(crate) fn has(&self, device: &DeviceName, revision: Revision) -> bool {
        self.entries.get(device.as_str()) == Some(&revision.0)
    }

    /// A statement is not listed.
    pub(crate) fn insert(&mut self, device: &DeviceName, revision: Revision) {
        self.is_stored &= self.entries.insert(device.to_string(), revision.0) == Some(revision.0);
    }

    /// A device's latest statement is listed, and recorded.
    pub(crate) fn remove(&mut self, device: &DeviceName) {
        self.is_stored &= self.entries.remove(device.as_str()).is_none();
    }

    /// Whether it is on the disk as it is.
    pub(crate) const fn is_stored(&self) -> bool {
        self.is_stored
    }

    /// Puts it on the disk, if it has changed.
    pub(crate) fn store(&mut self) -> Result<(), StateError> {
        if !self.is_stored {
            state_file::store(&self.path, &self.entries)?;
            self.is_stored = true;
        }
        Ok(())
    }
}
