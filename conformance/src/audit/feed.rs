//! Second pass: the sealed records, read again in small pieces. The more traces there are, the smaller these are.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use pilot_core::evidence::envelope::ChainHead;
use pilot_core::evidence::trace::{Head, KnownNames, Reader, Record};

use super::seal::Sealed;

/// How many bytes of traces are in memory, in all.
const BUDGET_BYTES: usize = 32 << 20;
/// How many bytes of one trace are in memory, at least and at most.
const PIECE_BYTES: (usize, usize) = (4 << 10, 32 << 10);

/// Why a sealed trace cannot be read on. Its chain is whole, so whoever wrote it has written nonsense, or it has changed
/// since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// The number of the record, if it is known.
    pub record: Option<u64>,
    /// Where and why.
    pub text: String,
}

/// How many bytes of each of so many traces are in memory.
pub fn piece(traces: usize) -> usize {
    let (least, most) = PIECE_BYTES;
    (BUDGET_BYTES / traces.max(1)).clamp(least, most)
}

/// A place in a trace.
pub struct Cursor {
    files: Vec<PathBuf>,
    at: usize,
    /// Where the sealed records end.
    end: Option<(usize, u64)>,
    reader: Reader,
    /// How many bytes of the file are read.
    read: u64,
    piece: usize,
    /// Names that it says.
    names: KnownNames,
}

impl Cursor {
    /// The first record.
    pub fn new(trace: &Sealed, piece: usize) -> Self {
        let (files, end) = (trace.files.files.clone(), trace.end);
        Self { files, at: 0, end, reader: Reader::new(), read: 0, piece, names: KnownNames::default() }
    }

    /// The next record, its hash, and how many bytes it has; none at the end.
    pub fn take_next(&mut self) -> Result<Option<(Record, ChainHead, usize)>, Unreadable> {
        loop {
            let path = self.files.get(self.at).map_or(Path::new("?"), PathBuf::as_path);
            match self.reader.frame() {
                Ok(Some((offset, frame))) => {
                    let record = Record::from_bytes_with(frame.body, &mut self.names).map_err(|problem| {
                        let number = Head::of(frame.body).map(|head| head.sequence);
                        unreadable(path, number, &format_args!("byte {offset}: {problem}"))
                    })?;
                    return Ok(Some((record, frame.hash, frame.length)));
                }
                Ok(None) => {}
                Err(error) => return Err(unreadable(path, None, &error)),
            }
            if !self.read_on()? {
                self.reader = Reader::new();
                return Ok(None);
            }
        }
    }

    /// Reads the next piece; `false` at the end of what is sealed.
    fn read_on(&mut self) -> Result<bool, Unreadable> {
        let Some((last_file, end)) = self.end.filter(|(file, _)| self.at <= *file) else { return Ok(false) };
        let Some(path) = self.files.get(self.at) else { return Ok(false) };
        let most = if self.at == last_file { end.saturating_sub(self.read) } else { u64::MAX };
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(self.piece);
        let length = self.reader.feed_by(most, |room| read_at(path, self.read, room));
        let length = length.map_err(|error| unreadable(path, None, &error))?;
        self.read = self.read.saturating_add(length as u64);
        if length == 0 {
            if self.reader.offset() != self.read {
                return Err(unreadable(path, None, &"it has changed since its chain was verified"));
            }
            if self.at == last_file {
                return Ok(false);
            }
            (self.at, self.read) = (self.at + 1, 0);
            self.reader.restart();
        }
        Ok(true)
    }
}

fn unreadable(path: &Path, record: Option<u64>, problem: &dyn Display) -> Unreadable {
    Unreadable { record, text: format!("`{}`: {problem}", path.display()) }
}

/// Files are opened anew for each piece, for there may be more of them than can be open at once.
fn read_at(path: &Path, offset: u64, room: &mut [u8]) -> io::Result<usize> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut length = 0;
    while let Some(rest) = room.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}
