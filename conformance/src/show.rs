//! A trace as a person can read it: one line per record, in the paper's notation.
//!
//! Files are read in pieces, with memory for one record, so their size does not matter. Hashes, the chain, the numbers
//! and the order of the kinds of records are checked on the way. Signatures are not: that takes the devices' keys, and
//! `conform audit` does it. What stands after the last checkpoint can have been changed or cut off by anybody.
//!
//! * this file: which files, and what is checked;
//! * `line`: a record as a line of text; `json`: as a JSON object.

mod json;
mod line;

use std::fs::{self, File};
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};

use pilot_core::evidence::DeviceName;
use pilot_core::evidence::envelope::ChainHead;
use pilot_core::evidence::trace::frame::{GENESIS, Rest};
use pilot_core::evidence::trace::verify::{VerifyError, VerifyProblem};
use pilot_core::evidence::trace::{Content, Frame, GraphName, Reader, Record};

use crate::plain::{counted, visible};

/// How many bytes are read at a time.
const PIECE_BYTES: usize = 64 << 10;
/// The most files of one trace; with more, nothing is shown.
pub const MAX_FILES: usize = 1 << 20;

/// In which form records are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Lines of text.
    Text,
    /// A JSON object per line.
    Json,
}

/// Why a trace is not shown, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum ShowError {
    /// It cannot be read.
    #[error("cannot read {}: {error}", shown(path))]
    Read {
        /// What.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A directory without trace files.
    #[error("there is no `trace-*.cborseq` in {}", shown(.0))]
    NoTrace(PathBuf),
    /// Neither a file nor a directory.
    #[error("{} is neither a file nor a directory", shown(.0))]
    NoFile(PathBuf),
    /// More than [`MAX_FILES`].
    #[error("{} has more than {MAX_FILES} files", shown(.0))]
    TooManyFiles(PathBuf),
    /// The trace was changed or cut.
    #[error("{} is damaged: {error}", shown(path))]
    Damage {
        /// Which file.
        path: PathBuf,
        /// Where in it, and what is wrong.
        error: VerifyError,
    },
    /// Nobody reads the output.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

fn shown(path: &Path) -> String {
    format!("`{}`", visible(&path.to_string_lossy()))
}

/// Shows a trace file, or all files of a trace directory in their order.
pub fn show(path: &Path, form: Form, out: &mut impl Write) -> Result<(), ShowError> {
    let mut walk = Walk::default();
    let mut piece = vec![0; PIECE_BYTES];
    for path in files(path)? {
        walk_file(&path, &mut walk, &mut piece, form, out)?;
    }
    let end = match form {
        Form::Text => walk.end.to_string(),
        Form::Json => format!("{}\n", json::end(&walk.end)),
    };
    out.write_all(end.as_bytes())?;
    Ok(out.flush()?)
}

/// The files of a trace in their order.
fn files(path: &Path) -> Result<Vec<PathBuf>, ShowError> {
    let unreadable = |error| ShowError::Read { path: path.to_path_buf(), error };
    let metadata = fs::metadata(path).map_err(unreadable)?;
    if metadata.is_file() {
        return Ok(vec![path.to_path_buf()]);
    }
    if !metadata.is_dir() {
        return Err(ShowError::NoFile(path.to_path_buf()));
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        if trace_file_number(&entry.path()).is_some() {
            files.push(entry.path());
        }
        if files.len() > MAX_FILES {
            return Err(ShowError::TooManyFiles(path.to_path_buf()));
        }
    }
    if files.is_empty() {
        return Err(ShowError::NoTrace(path.to_path_buf()));
    }
    // The numbers have eight digits, so the order of the names is that of the numbers.
    files.sort();
    Ok(files)
}

/// `trace-00000000.cborseq`, with any digits: these. `None` for any other file.
pub(crate) fn trace_file_number(path: &Path) -> Option<u32> {
    let digits = path.file_name()?.to_str()?.strip_prefix("trace-")?.strip_suffix(".cborseq")?;
    if digits.len() == 8 && digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
}

/// The file of this number.
pub(crate) fn trace_file_name(number: u32) -> String {
    format!("trace-{number:08}.cborseq")
}

fn walk_file(
    path: &Path,
    walk: &mut Walk,
    piece: &mut [u8],
    form: Form,
    out: &mut impl Write,
) -> Result<(), ShowError> {
    let unreadable = |error| ShowError::Read { path: path.to_path_buf(), error };
    // Opening a pipe would wait for its writer.
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(ShowError::NoFile(path.to_path_buf()));
    }
    let mut file = File::open(path).map_err(unreadable)?;
    let mut reader = Reader::new();
    walk.file_begins = true;
    loop {
        let read = match file.read(piece) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(unreadable(error)),
        };
        reader.feed(piece.get(..read).unwrap_or_default());
        loop {
            let at = walk.next;
            let damage = |offset, problem| {
                let error = VerifyError { record: at, offset, problem };
                ShowError::Damage { path: path.to_path_buf(), error }
            };
            let frame = reader.frame().map_err(|error| damage(error.offset, error.problem.into()))?;
            let Some((offset, frame)) = frame else { break };
            let record = walk.check(&frame).map_err(|problem| damage(offset, problem))?;
            let text = match form {
                Form::Text => line::line(&record, &walk.graphs),
                Form::Json => json::record(&record, &walk.graphs, (path, offset)).to_string(),
            };
            writeln!(out, "{text}")?;
        }
    }
    let (offset, record) = (reader.offset(), walk.next);
    let problem = match reader.finish() {
        Ok(rest) => match walk.finish(rest) {
            Ok(()) => return Ok(()),
            Err(problem) => problem,
        },
        Err(error) => error.problem.into(),
    };
    Err(ShowError::Damage { path: path.to_path_buf(), error: VerifyError { record, offset, problem } })
}

/// What comes next must fit to what was read so far.
#[derive(Default)]
struct Walk {
    next: u64,
    head: Option<ChainHead>,
    file_begins: bool,
    device: Option<DeviceName>,
    graphs: Vec<GraphName>,
    end: End,
}

/// Where a trace ends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct End {
    how: How,
    /// How many records there are.
    records: u64,
    /// The number of the first of them.
    first: u64,
    /// After the last checkpoint.
    open_records: u64,
    open_bytes: u64,
    torn_bytes: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum How {
    #[default]
    Empty,
    Running,
    Closed,
    Continues,
    Torn,
}

impl Walk {
    /// As [`Verifier`](pilot_core::evidence::trace::Verifier) does it, without the signatures.
    fn check(&mut self, frame: &Frame<'_>) -> Result<Record, VerifyProblem> {
        match self.end.how {
            How::Torn => return Err(VerifyProblem::AfterTorn),
            How::Continues if !self.file_begins => return Err(VerifyProblem::AfterClose),
            How::Running | How::Closed if self.file_begins => return Err(VerifyProblem::NotContinued),
            _ => {}
        }
        if !frame.is_intact() {
            return Err(VerifyProblem::Hash);
        }
        let record = Record::from_bytes(frame.body)?;
        match self.head {
            None if (record.sequence == 0) != (frame.previous == GENESIS) => return Err(VerifyProblem::Beginning),
            None => self.end.first = record.sequence,
            Some(head) if head != frame.previous => return Err(VerifyProblem::Previous),
            Some(_) if record.sequence != self.next => return Err(VerifyProblem::Sequence(record.sequence)),
            Some(_) => {}
        }
        match &record.content {
            Content::Open(open) => {
                if let Some(device) = self.device.as_ref().filter(|device| **device != open.device) {
                    return Err(VerifyProblem::Device(device.clone(), open.device.clone()));
                }
                (self.device, self.graphs) = (Some(open.device.clone()), open.graphs.clone());
            }
            _ if self.file_begins || self.end.how != How::Running => return Err(VerifyProblem::NotOpen),
            Content::Step(step) if usize::from(step.graph) >= self.graphs.len() => {
                return Err(VerifyProblem::Graph(step.graph));
            }
            _ => {}
        }
        self.advance(frame, &record);
        Ok(record)
    }

    fn advance(&mut self, frame: &Frame<'_>, record: &Record) {
        let end = &mut self.end;
        end.records = end.records.saturating_add(1);
        end.open_records = end.open_records.saturating_add(1);
        end.open_bytes = end.open_bytes.saturating_add(frame.length as u64);
        if let Content::Checkpoint(_) | Content::Close { .. } = record.content {
            (end.open_records, end.open_bytes) = (0, 0);
        }
        end.how = match record.content {
            Content::Close { continues: true, .. } => How::Continues,
            Content::Close { continues: false, .. } => How::Closed,
            _ => How::Running,
        };
        (self.head, self.next, self.file_begins) = (Some(frame.hash), record.sequence.saturating_add(1), false);
    }

    /// A file ends with this rest.
    fn finish(&mut self, rest: Rest) -> Result<(), VerifyProblem> {
        let Rest::Torn(bytes) = rest else { return Ok(()) };
        match self.end.how {
            How::Torn => return Err(VerifyProblem::AfterTorn),
            How::Continues if !self.file_begins => return Err(VerifyProblem::AfterClose),
            _ => {}
        }
        (self.end.how, self.end.torn_bytes) = (How::Torn, bytes);
        self.end.open_bytes = self.end.open_bytes.saturating_add(bytes);
        Ok(())
    }
}

/// What is said after the last record.
impl std::fmt::Display for End {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let how = match self.how {
            How::Empty => "There is nothing in it.",
            How::Closed => "The device has stopped, and said so.",
            How::Continues => "The trace goes on in a file that is not here.",
            How::Running => "It is open: the device is running, has crashed, or the end was cut off.",
            How::Torn => "It is open, and ends within a record: the device has crashed, or the end was cut off.",
        };
        writeln!(out, "\n{}, hashes and chain in order. {how}", counted(self.records, "record"))?;
        if self.first > 0 {
            writeln!(out, "It begins with record {}: files are missing before it.", self.first)?;
        }
        if self.open_bytes > 0 {
            let (records, bytes) = (counted(self.open_records, "record"), counted(self.open_bytes, "byte"));
            writeln!(out, "Open tail: {records}, {bytes} after the last checkpoint. Do not rely on them.")?;
        }
        writeln!(out, "Signatures were not verified: that takes keys, see `conform audit`.")
    }
}
