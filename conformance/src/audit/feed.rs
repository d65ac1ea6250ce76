//! Second pass: the sealed records, read again in small pieces. The more traces there are, the smaller these are.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use pilot_core::evidence::envelope::ChainHead;
use pilot_core::evidence::trace::frame::FrameProblem;
use pilot_core::evidence::trace::{Content, Frame, KnownNames, Record, Step};
use pilot_core::value::Time;

use super::seal::Sealed;

/// How many bytes of traces are read at once in all. A few times as many are in memory (`judges::PIECES`).
const BUDGET_BYTES: usize = 32 << 20;
/// How many bytes of one trace are read at once, at least and at most.
const PIECE_BYTES: (usize, usize) = (4 << 10, 32 << 10);

/// A sealed record.
#[derive(Debug)]
pub struct Entry {
    /// How many records of the trace stand before it.
    pub sequence: u64,
    /// When it was made.
    pub time: Time,
    /// What it says.
    pub content: Heard,
    /// Its hash.
    pub hash: ChainHead,
}

/// What a record says.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "almost all are steps, and the judge reads those that stand in a row faster"
)]
pub enum Heard {
    /// A step.
    Step(Step),
    /// Anything else.
    Other(Content),
}

impl Entry {
    fn of(Record { sequence, time, content }: Record, hash: ChainHead) -> Self {
        let content = match content {
            Content::Step(step) => Heard::Step(*step),
            other => Heard::Other(other),
        };
        Self { sequence, time, content, hash }
    }
}

/// Why a sealed trace cannot be read on. Its chain is whole, so whoever wrote it has written nonsense, or it has changed
/// since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// The number of the record, if it is known.
    pub record: Option<u64>,
    /// Where and why.
    pub text: String,
}

/// Some records of a trace; none at its end.
pub type Batch = Result<Vec<Entry>, Unreadable>;

/// How many bytes of each of so many traces are read at once.
pub fn piece(traces: usize) -> usize {
    let (least, most) = PIECE_BYTES;
    (BUDGET_BYTES / traces.max(1)).clamp(least, most)
}

/// A place in a trace.
pub struct Cursor {
    files: Vec<PathBuf>,
    at: usize,
    offset: u64,
    /// Where the sealed records end.
    end: Option<(usize, u64)>,
    piece: usize,
    /// Why it cannot be read on, after the records that were read.
    damage: Option<Unreadable>,
    /// Names that it says.
    names: KnownNames,
}

impl Cursor {
    /// The first record.
    pub fn new(trace: &Sealed, piece: usize) -> Self {
        Self {
            files: trace.files.files.clone(),
            at: 0,
            offset: 0,
            end: trace.end,
            piece,
            damage: None,
            names: KnownNames::default(),
        }
    }

    /// Some records in place of those in `batch`; none at the end.
    pub fn batch(&mut self, mut batch: Vec<Entry>, bytes: &mut Vec<u8>) -> Batch {
        batch.clear();
        if let Some(damage) = self.damage.take() {
            return Err(damage);
        }
        let mut wanted = self.piece;
        loop {
            let Some(path) = self.files.get(self.at).cloned() else { return Ok(batch) };
            let Some((last_file, end)) = self.end.filter(|(file, _)| self.at <= *file) else { return Ok(batch) };
            let unreadable = |text: String| Unreadable { record: None, text: format!("`{}`: {text}", path.display()) };
            read_at(&path, self.offset, wanted, bytes).map_err(|error| unreadable(error.to_string()))?;
            let is_whole = bytes.len() < wanted;
            if self.at == last_file {
                bytes.truncate(usize::try_from(end.saturating_sub(self.offset)).unwrap_or(usize::MAX));
            }
            if bytes.is_empty() {
                if self.at == last_file {
                    return Ok(batch);
                }
                (self.at, self.offset) = (self.at + 1, 0);
                continue;
            }
            let read = self.records(bytes, &mut batch);
            let read = read.map_err(|(record, text)| Unreadable { record, ..unreadable(text) });
            if batch.is_empty() {
                read?;
            } else {
                // What stands before the damage is judged first.
                self.damage = read.err();
                return Ok(batch);
            }
            if is_whole {
                return Err(unreadable("it has changed since its chain was verified".into()));
            }
            wanted = wanted.saturating_mul(4);
        }
    }

    fn records(&mut self, bytes: &[u8], batch: &mut Vec<Entry>) -> Result<(), (Option<u64>, String)> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let problem = |problem: FrameProblem| (None, format!("byte {}: {problem}", self.offset));
            let Some(frame) = Frame::first(rest).map_err(problem)? else { break };
            let record = Record::from_bytes_with(frame.body, &mut self.names).map_err(|error| {
                let head = pilot_core::evidence::trace::Head::of(frame.body);
                (head.map(|head| head.sequence), format!("byte {}: {error}", self.offset))
            })?;
            batch.push(Entry::of(record, frame.hash));
            self.offset = self.offset.saturating_add(frame.length as u64);
            rest = rest.get(frame.length..).unwrap_or_default();
        }
        Ok(())
    }
}

fn read_at(path: &PathBuf, offset: u64, length: usize, bytes: &mut Vec<u8>) -> io::Result<()> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    bytes.clear();
    bytes.reserve(length);
    file.take(length as u64).read_to_end(bytes).map(drop)
}
