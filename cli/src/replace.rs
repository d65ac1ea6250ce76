//! Gives a file new contents: in one step, or not at all.

use std::fs::{self, File, Metadata, OpenOptions};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};

use crate::console::Failure;
use crate::input::{Origin, directory_of};

/// Nobody but its owner may read or write a file while it is written.
const PRIVATE: u32 = 0o600;

/// A regular file that may be replaced by another one.
#[derive(Debug)]
pub(crate) struct Target {
    /// As it was named.
    origin: Origin,
    /// Where it is. Links are followed once and for all, so that a link stays a link and a changed one misleads nobody.
    path: PathBuf,
    metadata: Metadata,
}

impl Target {
    /// Finds the file, before it is read.
    pub(crate) fn find(file: &Path) -> Result<Self, Failure> {
        let origin = Origin::from(file);
        let unreadable = |error| Failure::Read(origin.clone(), error);
        // First of all, because the path of what is no file, as behind /dev/stdin, may lead nowhere.
        if !file.metadata().map_err(unreadable)?.is_file() {
            return Err(Failure::NotAFile(origin));
        }
        let path = fs::canonicalize(file).map_err(unreadable)?;
        let metadata = path.symlink_metadata().map_err(unreadable)?;
        Ok(Self { origin, path, metadata })
    }

    /// Replaces the file, which held `old`, by one that holds `new`. After an error it is as it was.
    pub(crate) fn replace(&self, old: &[u8], new: &[u8]) -> Result<(), Failure> {
        if self.metadata.nlink() > 1 {
            return Err(Failure::HardLinked(self.origin.clone()));
        }
        if self.metadata.permissions().readonly() {
            return Err(self.unwritable(ErrorKind::PermissionDenied.into()));
        }
        let directory = directory_of(&self.path);
        let temporary = directory.join(temporary_name());
        let file = OpenOptions::new().write(true).create_new(true).mode(PRIVATE).open(&temporary);
        let file = file.map_err(|error| self.unwritable(error))?;
        if let Err(failure) = self.replace_by(file, &temporary, old, new) {
            // The first error is the one to tell.
            let _ = fs::remove_file(&temporary);
            return Err(failure);
        }
        // The rename lasts once the directory is on disk. If that fails, a crash may bring back the old file, whole;
        // the new one is in its place nevertheless.
        let _ = File::open(directory).and_then(|directory| directory.sync_all());
        Ok(())
    }

    fn replace_by(&self, mut file: File, temporary: &Path, old: &[u8], new: &[u8]) -> Result<(), Failure> {
        file.write_all(new).map_err(|error| self.unwritable(error))?;
        self.hand_over(&file)?;
        file.sync_all().map_err(|error| self.unwritable(error))?;
        // As late as can be: what somebody writes after this is lost.
        if !self.still_holds(old).map_err(|error| Failure::Read(self.origin.clone(), error))? {
            return Err(Failure::Changed(self.origin.clone()));
        }
        fs::rename(temporary, &self.path).map_err(|error| self.unwritable(error))
    }

    /// Gives the new file the owner, the group, and then, not before, the permissions of the old one.
    fn hand_over(&self, file: &File) -> Result<(), Failure> {
        let (uid, gid) = (self.metadata.uid(), self.metadata.gid());
        let made = file.metadata().map_err(|error| self.unwritable(error))?;
        if (made.uid(), made.gid()) != (uid, gid) {
            // Permissions for a group are meant for that group: without it they would open the file to another one.
            fchown(file, Some(uid), Some(gid)).map_err(|error| Failure::Owner(self.origin.clone(), error))?;
        }
        file.set_permissions(self.metadata.permissions()).map_err(|error| self.unwritable(error))
    }

    /// Whether it is still the file that was found, with these bytes in it.
    fn still_holds(&self, bytes: &[u8]) -> io::Result<bool> {
        let now = match self.path.symlink_metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            now => now?,
        };
        if !now.is_file() || (now.dev(), now.ino()) != (self.metadata.dev(), self.metadata.ino()) {
            return Ok(false);
        }
        let mut held = Vec::with_capacity(bytes.len());
        // One byte more than expected tells a longer file.
        File::open(&self.path)?.take(bytes.len() as u64 + 1).read_to_end(&mut held)?;
        Ok(held == bytes)
    }

    fn unwritable(&self, error: io::Error) -> Failure {
        Failure::Write(self.origin.clone(), error)
    }
}

/// A name that nobody can foresee, short enough for every directory.
fn temporary_name() -> String {
    // The keys of the standard library's hash maps are random.
    format!(".consent-mesh-{:016x}.tmp", RandomState::new().hash_one(()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Finds a file with `old` in it, lets `meanwhile` happen, and replaces the file.
    fn replaced_after(meanwhile: impl FnOnce(&Path)) -> (Result<(), Failure>, Vec<String>) {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("consent-mesh-replace-{}-{number}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let path = directory.join("file");
        fs::write(&path, "old").unwrap();
        let target = Target::find(&path).unwrap();
        meanwhile(&path);
        let result = target.replace(b"old", b"new");
        let mut found: Vec<String> =
            fs::read_dir(&directory).unwrap().map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap()).collect();
        found.sort();
        fs::remove_dir_all(&directory).unwrap();
        (result, found)
    }

    #[test]
    fn a_file_that_nobody_touches_is_replaced() {
        let (result, found) = replaced_after(|_| {});
        assert!(result.is_ok(), "{result:?}");
        assert_eq!(found, ["new"]);
    }

    #[test]
    fn what_somebody_else_writes_meanwhile_is_kept() {
        for theirs in ["older", "ol", "", "OLD"] {
            let (result, found) = replaced_after(|path| fs::write(path, theirs).unwrap());
            assert!(matches!(result, Err(Failure::Changed(_))), "{result:?}");
            assert_eq!(found, [theirs]);
        }
    }

    /// As editors save: another file under the same name, here even with the same text.
    #[test]
    fn a_file_that_somebody_else_puts_there_meanwhile_is_kept() {
        let (result, found) = replaced_after(|path| {
            fs::write(path.with_extension("new"), "old").unwrap();
            fs::rename(path.with_extension("new"), path).unwrap();
        });
        assert!(matches!(result, Err(Failure::Changed(_))), "{result:?}");
        assert_eq!(found, ["old"]);
    }

    #[test]
    fn a_file_that_is_gone_stays_gone() {
        let (result, found) = replaced_after(|path| fs::remove_file(path).unwrap());
        assert!(matches!(result, Err(Failure::Changed(_))), "{result:?}");
        assert!(found.is_empty(), "{found:?}");
    }
}
