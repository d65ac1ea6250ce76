//! The catalogue on disk. Nothing in it is believed: statements are opened again when it is read.
//!
//! ```text
//! [1,                      ; version of this form
//!  repository: tstr,       ; whose revisions these are
//!  head: uint,
//!  completed: uint / null, filled: uint / null,
//!  [* [device: tstr, version: uint, id: bstr .size 32, statement: bstr / null]]]
//! ```
//!
//! The versions are those below which nothing is accepted, so a file that cannot be read is an error and not an empty one:
//! whoever removes it decides to forget them.

use std::path::Path;

use mesh_runtime::daemon::state_file::{self, StateError};
use minicbor::decode::Error;
use minicbor::{Decoder, Encoder};
use pilot_core::evidence::form::{self, FormError, WriteResult};
use pilot_core::evidence::{DeviceName, StatementId};
use pilot_core::value::Time;

use super::verify::{Opened, Reader, open_all};
use super::{Catalogue, Entry};

const FORM: (u8, u64) = (1, 6);

/// Why there is no catalogue.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    /// The file system refused.
    #[error(transparent)]
    File(#[from] StateError),
    /// Not what this program writes.
    #[error("`{path}` is damaged ({error}); without it, older policies of controllers could come back unnoticed")]
    Damaged {
        /// Where.
        path: String,
        /// Where in it.
        error: FormError,
    },
}

impl Catalogue {
    /// What was stored, if anything. What no longer opens is left out, and everything is downloaded again then.
    pub fn load(path: &Path, repository: &DeviceName, reader: &Reader<'_>) -> Result<Option<Self>, CatalogueError> {
        let Some(bytes) = state_file::load_bytes(path)? else { return Ok(None) };
        let stored = form::read(&bytes, FORM, read)
            .map_err(|error| CatalogueError::Damaged { path: path.display().to_string(), error })?;
        let mut catalogue = Self::new(repository.clone());
        if stored.repository == *repository {
            (catalogue.head, catalogue.completed, catalogue.filled) = (stored.head, stored.completed, stored.filled);
        }
        let mut statements = Vec::new();
        for Row { device, version, id, statement } in stored.rows {
            statements.extend(statement);
            catalogue.ids.insert(id, device.clone());
            catalogue.entries.insert(device, Entry { version, id, listed: None });
        }
        for opened in open_all(statements, &|_| false, reader) {
            let kept = match opened {
                Ok(Opened::New(statement)) => catalogue.insert(*statement, reader).is_ok(),
                Ok(Opened::Known(_)) | Err(_) => false,
            };
            if !kept {
                catalogue.ask_for_everything();
            }
        }
        catalogue.is_dirty = false;
        Ok(Some(catalogue))
    }

    /// Stores it if something has changed; it is on the disk when this returns.
    pub fn store(&mut self, path: &Path) -> Result<(), StateError> {
        if self.is_dirty {
            state_file::store_bytes(path, &self.encode())?;
            self.is_dirty = false;
        }
        Ok(())
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let result = self.write_to(&mut Encoder::new(&mut bytes));
        // INVARIANT: writing to a `Vec` cannot fail.
        debug_assert!(result.is_ok());
        bytes
    }

    fn write_to(&self, out: &mut Encoder<&mut Vec<u8>>) -> WriteResult {
        out.array(FORM.1)?.u8(FORM.0)?.str(self.repository.as_str())?.u64(self.head)?;
        for time in [self.completed, self.filled] {
            match time {
                Some(time) => out.u64(time.unix())?,
                None => out.null()?,
            };
        }
        out.array(self.entries.len() as u64)?;
        for (device, Entry { version, id, listed }) in &self.entries {
            out.array(4)?.str(device.as_str())?.u64(*version)?.bytes(&id.0)?;
            match listed {
                Some(listed) => out.bytes(&listed.bytes)?,
                None => out.null()?,
            };
        }
        Ok(())
    }
}

struct Stored {
    repository: DeviceName,
    head: u64,
    completed: Option<Time>,
    filled: Option<Time>,
    rows: Vec<Row>,
}

struct Row {
    device: DeviceName,
    version: u64,
    id: StatementId,
    statement: Option<Vec<u8>>,
}

fn read(decoder: &mut Decoder<'_>) -> Result<Stored, Error> {
    let (repository, head) = (name(decoder)?, decoder.u64()?);
    let time = |decoder: &mut Decoder<'_>| form::optional(decoder, |decoder| decoder.u64().map(Time::from_unix));
    let (completed, filled) = (time(decoder)?, time(decoder)?);
    let count = decoder.array()?.ok_or_else(|| Error::message("an array of unknown length"))?;
    // As many as the bytes have; the array's own length is not believed before they are there.
    let rows = (0..count).map(|_| read_row(decoder)).collect::<Result<_, _>>()?;
    Ok(Stored { repository, head, completed, filled, rows })
}

fn read_row(decoder: &mut Decoder<'_>) -> Result<Row, Error> {
    if decoder.array()? != Some(4) {
        return Err(Error::message("a device, a version, an id and a statement were needed"));
    }
    let (device, version, id) = (name(decoder)?, decoder.u64()?, StatementId(form::fixed(decoder)?));
    let statement = form::optional(decoder, |decoder| decoder.bytes().map(<[u8]>::to_vec))?;
    Ok(Row { device, version, id, statement })
}

fn name(decoder: &mut Decoder<'_>) -> Result<DeviceName, Error> {
    DeviceName::new(decoder.str()?).map_err(|_| Error::message("not a name"))
}
