//! A revision in a file of its own: `HIGHEST` and `RECORDED`.
//!
//! Sixteen bytes, the revision and its complement, written with one `pwrite` and never synced. So a killed process loses
//! nothing, and after a power failure there may be an older revision, or one that is torn and recognised as such.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::Revision;

/// What was durable.
pub(super) const HIGHEST: &str = "HIGHEST";
/// What was durable and also in its daemon's trace.
pub(super) const RECORDED: &str = "RECORDED";

#[derive(Debug)]
pub(super) struct Watermark(File);

impl Watermark {
    pub(super) fn create(directory: &Path, name: &str) -> io::Result<()> {
        let file = File::options().write(true).create_new(true).open(directory.join(name))?;
        Self(file).note(Revision(0))
    }

    pub(super) fn open(directory: &Path, name: &str) -> io::Result<Self> {
        File::options().read(true).write(true).open(directory.join(name)).map(Self)
    }

    pub(super) fn note(&self, revision: Revision) -> io::Result<()> {
        let bytes = [revision.0.to_be_bytes(), (!revision.0).to_be_bytes()].concat();
        self.0.write_all_at(&bytes, 0)
    }

    /// `None` if a power failure has torn it.
    pub(super) fn noted(&self) -> io::Result<Option<Revision>> {
        let mut bytes = [0; 16];
        match self.0.read_exact_at(&mut bytes, 0) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        // The complement is the second half of one number of sixteen bytes.
        let both = u128::from_be_bytes(bytes);
        let (revision, complement) = ((both >> 64) as u64, both as u64);
        Ok((complement == !revision).then_some(Revision(revision)))
    }
}

/// `RECORDED`, and what it says.
#[derive(Debug)]
pub(super) struct Recorded {
    file: Watermark,
    /// Held while writing, so that of two who note at once the higher stays.
    noted: Mutex<Revision>,
}

impl Recorded {
    /// A missing or torn file counts as zero, so that everything is recorded again: better twice in the trace than
    /// missing there.
    pub(super) fn open(directory: &Path) -> io::Result<Self> {
        let file = match Watermark::open(directory, RECORDED) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Watermark::create(directory, RECORDED)?;
                Watermark::open(directory, RECORDED)?
            }
            opened => opened?,
        };
        let noted = file.noted()?.unwrap_or_default();
        Ok(Self { file, noted: Mutex::new(noted) })
    }

    pub(super) fn revision(&self) -> Revision {
        *self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note(&self, revision: Revision) -> io::Result<()> {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if revision > *noted {
            self.file.note(revision)?;
            *noted = revision;
        }
        Ok(())
    }
}
