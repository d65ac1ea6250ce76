//! What must survive a restart and fits into memory: a JSON file that is replaced in one step.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The largest state file; a larger one is something else, and refused.
pub const MAX_STATE_BYTES: u64 = 256 << 20;

/// Why state was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The file system refused.
    #[error("cannot use `{}`: {error}", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The directory in which another one is to be made is not there.
    #[error("cannot make `{}`: there is no directory `{}` to make it in", path.display(), parent.display())]
    NoParent {
        /// What is to be made.
        path: PathBuf,
        /// What is missing.
        parent: PathBuf,
    },
    /// Not what this program writes. What is in it is personal and not repeated.
    #[error("`{}` is damaged: it does not have the form that this program writes", .0.display())]
    Damaged(PathBuf),
}

/// What was stored, if anything.
pub fn load<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, StateError> {
    let Some(bytes) = load_bytes(path)? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|_| StateError::Damaged(path.into()))
}

/// The bytes that were stored, if any.
pub fn load_bytes(path: &Path) -> Result<Option<Vec<u8>>, StateError> {
    let at = |error| StateError::Io { path: path.into(), error };
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.map_err(at)?,
    };
    let mut bytes = Vec::new();
    file.take(MAX_STATE_BYTES + 1).read_to_end(&mut bytes).map_err(at)?;
    if bytes.len() as u64 > MAX_STATE_BYTES {
        return Err(StateError::Damaged(path.into()));
    }
    Ok(Some(bytes))
}

/// Replaces what is stored; it is on the disk when this returns, and either the old or the new is there before.
pub fn store(path: &Path, state: &impl Serialize) -> Result<(), StateError> {
    let bytes = serde_json::to_vec(state).map_err(|_| StateError::Damaged(path.into()))?;
    store_bytes(path, &bytes)
}

/// The same for bytes.
pub fn store_bytes(path: &Path, bytes: &[u8]) -> Result<(), StateError> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    let draft = PathBuf::from(draft);
    let write = || {
        let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&draft, path)?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(parent)?.sync_all()
    };
    write().map_err(|error| StateError::Io { path: path.into(), error })
}

/// Makes a directory for a daemon's data, closed to others, unless it is there. Its parent must be there: a misspelt path
/// would begin a new life elsewhere.
pub fn make_directory(path: &Path) -> Result<(), StateError> {
    let at = |error| StateError::Io { path: path.into(), error };
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => tracing::info!(path = %path.display(), "made a new data directory"),
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => {
            if fs::metadata(path).map_err(at)?.permissions().mode() & 0o077 != 0 {
                let path = path.display();
                tracing::warn!("others on this machine can look into the data directory; `chmod 700 {path}` closes it");
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let parent = path.parent().unwrap_or(path).into();
            return Err(StateError::NoParent { path: path.into(), parent });
        }
        Err(error) => return Err(at(error)),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory is made once, closed to others, and its parents are not.
    #[test]
    fn a_directory_is_made_but_not_its_parents() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("data");
        make_directory(&path).unwrap();
        make_directory(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        let missing = make_directory(&root.path().join("dta/gate")).unwrap_err();
        assert!(missing.to_string().contains("there is no directory `"), "{missing}");
        assert!(missing.to_string().ends_with("/dta` to make it in"), "{missing}");
        assert!(!root.path().join("dta").exists());
    }

    /// What was stored is there again; what is damaged is named and not used.
    #[test]
    fn state_is_stored_and_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.json");
        assert_eq!(load::<Vec<u8>>(&path).unwrap(), None);
        store(&path, &vec![1u8, 2]).unwrap();
        store(&path, &vec![3u8]).unwrap();
        assert_eq!(load::<Vec<u8>>(&path).unwrap(), Some(vec![3]));
        fs::write(&path, "[3").unwrap();
        assert!(matches!(load::<Vec<u8>>(&path), Err(StateError::Damaged(_))));
    }
}
