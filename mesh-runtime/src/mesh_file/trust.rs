//! Whom a daemon believes. It starts with the operator's key in its configuration, and what it learns from mesh files
//! must survive restarts: the newest serial, so that nobody brings back an older file, and a key to which the operator
//! rolled over.
//!
//! ```text
//! consent-mesh trust 1
//! configured ed25519:…
//! operator ed25519:…
//! next ed25519:…            or: next none
//! serial 7                  or: serial none
//! ```

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use pilot_core::evidence::keys::VerifyingKey;
use pilot_core::evidence::mesh::{MeshError, MeshFile};
use pilot_core::value::Time;

use super::SignedMesh;

const FIRST_LINE: &str = "consent-mesh trust 1";
const NONE: &str = "none";
/// The largest file; a larger one is something else, and refused.
const MAX_TRUST_FILE_BYTES: usize = 1024;

/// Which operator's key opens the next mesh file, and which serial it must at least have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trust {
    configured: VerifyingKey,
    /// Signed the last file.
    operator: VerifyingKey,
    /// Named by the last file; may sign the next one, too.
    next: Option<VerifyingKey>,
    serial: Option<u64>,
}

/// Why what a daemon remembers was not read.
#[derive(Debug, thiserror::Error)]
pub enum TrustFileError {
    /// The file system refused.
    #[error("cannot use `{}`: {source}", .path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Something else.
    #[error(
        "`{}` does not say which mesh files are trusted; without it, the operator's key of the configuration is \
         trusted, and mesh files of any serial",
        .0.display()
    )]
    Malformed(PathBuf),
}

impl Trust {
    /// The key of the configuration, and any serial.
    pub const fn new(configured: VerifyingKey) -> Self {
        Self { configured, operator: configured, next: None, serial: None }
    }

    /// The key that signed the last mesh file, or the configured one.
    pub const fn operator(&self) -> VerifyingKey {
        self.operator
    }

    /// The serial of the last mesh file.
    pub const fn serial(&self) -> Option<u64> {
        self.serial
    }

    /// Opens a mesh file of an operator that is believed, and learns from it. Store this before the file is relied on:
    /// otherwise an older one can come back after a crash.
    pub fn open(&mut self, signed: &SignedMesh, now: Time) -> Result<MeshFile, MeshError> {
        let (mesh, operator) = match (signed.open(&self.operator, now, self.serial), self.next) {
            (Err(MeshError::Signature), Some(next)) => (signed.open(&next, now, self.serial)?, next),
            (opened, _) => (opened?, self.operator),
        };
        let contents = mesh.contents();
        (self.operator, self.next, self.serial) = (operator, contents.next_operator_key, Some(contents.serial));
        Ok(mesh)
    }

    /// What was stored; if nothing was, or under another key in the configuration, the configured key alone.
    pub fn load(path: &Path, configured: VerifyingKey) -> Result<Self, TrustFileError> {
        let at = |source| TrustFileError::Io { path: path.into(), source };
        let file = match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::new(configured)),
            file => file.map_err(at)?,
        };
        let mut text = String::new();
        file.take(MAX_TRUST_FILE_BYTES as u64).read_to_string(&mut text).map_err(at)?;
        let stored = Self::parse(&text).ok_or_else(|| TrustFileError::Malformed(path.into()))?;
        // Whoever changes the configuration starts anew: the old key may have been stolen, and its serials with it.
        Ok(if stored.configured == configured { stored } else { Self::new(configured) })
    }

    /// Stores it in one step; it is on the disk when this returns.
    pub fn store(&self, path: &Path) -> Result<(), TrustFileError> {
        let mut draft = path.as_os_str().to_owned();
        draft.push(".new");
        let draft = PathBuf::from(draft);
        let write = || {
            let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
            file.write_all(self.text().as_bytes())?;
            file.sync_all()?;
            fs::rename(&draft, path)?;
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            File::open(parent)?.sync_all()
        };
        write().map_err(|source| TrustFileError::Io { path: path.into(), source })
    }

    fn text(&self) -> String {
        let or_none = |value: Option<String>| value.unwrap_or_else(|| NONE.to_owned());
        format!(
            "{FIRST_LINE}\nconfigured {}\noperator {}\nnext {}\nserial {}\n",
            self.configured,
            self.operator,
            or_none(self.next.map(|key| key.to_string())),
            or_none(self.serial.map(|serial| serial.to_string())),
        )
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.strip_prefix(FIRST_LINE)?.strip_prefix('\n')?.split('\n');
        let mut value = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        let (configured, operator) = (value("configured")?.parse().ok()?, value("operator")?.parse().ok()?);
        let (next, serial) = (value("next")?, value("serial")?);
        let trust = Self {
            configured,
            operator,
            next: if next == NONE { None } else { Some(next.parse().ok()?) },
            serial: if serial == NONE { None } else { Some(serial.parse().ok()?) },
        };
        // One form only: what is cut off or added would change the meaning.
        (trust.text() == text).then_some(trust)
    }
}
