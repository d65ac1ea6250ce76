//! Believing a trace: the chain, the numbers without a gap, the signatures, and the order of the kinds of records.
//!
//! For each file: [`Verifier::begin_file`], [`Verifier::check`] for each frame, [`Verifier::end_file`]; at the end,
//! [`Verifier::standing`]. [`Verifier::file`] does one file that is in memory. What steps mean is not judged here.
//! [`Verifier::skim`] leaves out what records say between signatures, for who reads them again once they are known to be
//! sealed.
//!
//! A verifier needs memory for one record, and for the signatures that were put off, whatever the length of the trace.

use alloc::vec::Vec;

use super::chain::Signed;
use super::form::{BodyError, Head};
use super::frame::{Frame, FrameError, FrameProblem, GENESIS, Reader, Rest};
use super::{Checkpoint, Content, Open, Record};
use crate::evidence::cose::{Domain, Signed as CoseSigned};
use crate::evidence::envelope::ChainHead;
use crate::evidence::{DeviceName, Unverified, VerifyingKey};

/// Why a trace is not believed, and where: which record of the trace, and where in its file it begins.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("record {record} at byte {offset}: {problem}")]
pub struct VerifyError {
    /// The number that the record should have.
    pub record: u64,
    /// Where it begins in its file.
    pub offset: u64,
    /// What is wrong.
    pub problem: VerifyProblem,
}

/// Why a trace is not believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyProblem {
    /// No record.
    #[error("{0}")]
    Frame(#[from] FrameProblem),
    /// No body of a record.
    #[error("{0}")]
    Body(#[from] BodyError),
    /// The record was changed.
    #[error("its hash is not that of its contents")]
    Hash,
    /// A record before it was changed, left out or moved.
    #[error("it does not follow the record before it")]
    Previous,
    /// A record was left out, repeated or moved.
    #[error("it says that it is record {0}")]
    Sequence(u64),
    /// The first record of a trace follows nothing, and only that one.
    #[error("the beginning of the trace is missing or was invented")]
    Beginning,
    /// A file begins with an `open` record, and so does what follows a `close`.
    #[error("an `open` record was needed here")]
    NotOpen,
    /// A file ends where its `close` record says that the trace goes on in the next one.
    #[error("records follow in a file that was closed")]
    AfterClose,
    /// The file before it was not closed as one that goes on.
    #[error("the file before this one does not say that the trace goes on")]
    NotContinued,
    /// Only the last file of a trace can end within a record.
    #[error("a file follows one that ends within a record")]
    AfterTorn,
    /// A trace has one device.
    #[error("the trace of {0} goes on as that of {1}")]
    Device(DeviceName, DeviceName),
    /// There is no key to verify the device's signatures with.
    #[error("the key of {0} is not known")]
    UnknownKey(DeviceName),
    /// The checkpoint is not signed by the device.
    #[error("{0} did not sign this checkpoint")]
    Signature(DeviceName),
    /// The step's graph is none of those that the last `open` record lists.
    #[error("it is a step of graph {0}, which its `open` record does not list")]
    Graph(u8),
}

/// How far a trace can be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// How many records were read.
    pub records: u64,
    /// The hash of the last one.
    pub head: ChainHead,
    /// The number of the first record that was read; not zero if files are missing before it.
    pub first: u64,
    /// The last signed record, a checkpoint or a close; everything up to it is believed.
    pub sealed: Option<Sealed>,
    /// How the trace ends.
    pub end: End,
    /// How many records come after the last signed one: they may have been changed or cut off.
    pub open_records: u64,
    /// How many bytes they have, those of an unfinished record included.
    pub open_bytes: u64,
    /// How many of these bytes are an unfinished record.
    pub torn_bytes: u64,
}

/// A signed record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sealed {
    /// Its number.
    pub record: u64,
    /// Its hash.
    pub head: ChainHead,
}

/// How a trace ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// There is no record.
    Empty,
    /// The device stopped, and signed that.
    Closed,
    /// The trace goes on in a file that is not here.
    Continues,
    /// The device is still running, or stopped without a word, or the end was cut off.
    Open,
}

/// Verifies the files of one trace, in their order.
pub struct Verifier<K> {
    keys: K,
    state: State,
    file_begins: bool,
    standing: Standing,
    next: u64,
    run: Option<Run>,
    /// Signatures that are not verified yet, if their verification is put off.
    put_off: Option<Vec<Unverified>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Nothing,
    Running,
    Stopped,
    Continues,
    Torn,
}

/// What the last `open` record said.
struct Run {
    device: DeviceName,
    key: VerifyingKey,
    graphs: usize,
}

impl<K: FnMut(&Open) -> Option<VerifyingKey>> Verifier<K> {
    /// A verifier; `keys` knows whose key verifies a trace that opens like this.
    pub fn new(keys: K) -> Self {
        let standing = Standing {
            records: 0,
            head: GENESIS,
            first: 0,
            sealed: None,
            end: End::Empty,
            open_records: 0,
            open_bytes: 0,
            torn_bytes: 0,
        };
        Self { keys, state: State::Nothing, file_begins: true, standing, next: 0, run: None, put_off: None }
    }

    /// The same, but it believes every signature, for who verifies them later, many at once: [`Verifier::take_put_off`]. If one
    /// of them turns out to be wrong, what it said is worth nothing.
    pub fn put_off_signatures(self) -> Self {
        Self { put_off: Some(Vec::new()), ..self }
    }

    /// The signatures that were only believed, if there are as many.
    pub fn take_put_off(&mut self, least: usize) -> Option<Vec<Unverified>> {
        self.put_off.as_mut().filter(|put_off| put_off.len() >= least).map(core::mem::take)
    }

    /// Another file follows.
    pub fn begin_file(&mut self) {
        self.file_begins = true;
    }

    /// Verifies a whole file that is in memory and shows each record, with the place where it begins.
    pub fn file(&mut self, bytes: &[u8], mut see: impl FnMut(u64, Record)) -> Result<(), VerifyError> {
        self.begin_file();
        let mut reader = Reader::new();
        reader.feed(bytes);
        while let Some((offset, frame)) = reader.frame().map_err(|error| self.misframed(error))? {
            see(offset, self.check(offset, &frame)?);
        }
        let offset = reader.offset();
        let rest = reader.finish().map_err(|error| self.misframed(error))?;
        self.end_file(offset, rest)
    }

    /// The error of this verifier for a frame that the reader could not make out.
    pub fn misframed(&self, error: FrameError) -> VerifyError {
        VerifyError { record: self.next, offset: error.offset, problem: error.problem.into() }
    }

    /// Verifies the next record, which begins at `offset` in its file.
    pub fn check(&mut self, offset: u64, frame: &Frame<'_>) -> Result<Record, VerifyError> {
        let expected = self.next;
        let record = self.believe(frame);
        let record = record.map_err(|problem| VerifyError { record: expected, offset, problem })?;
        self.advance(frame, &record);
        Ok(record)
    }

    /// Verifies the next record like [`Verifier::check`], but reads only those that open, sign or close a trace. Of any other
    /// it has seen the kind, the number and the time, and whether it was changed: whoever hashes many records at once says what
    /// its [`Frame::true_hash`] is.
    pub fn skim(&mut self, offset: u64, frame: &Frame<'_>, true_hash: ChainHead) -> Result<Head, VerifyError> {
        let error = |record, problem| VerifyError { record, offset, problem };
        let head = Head::of(frame.body);
        if head.is_some_and(|head| !head.is_plain()) {
            return self.check(offset, frame).map(|record| Head::from(&record));
        }
        let expected = self.next;
        self.may_come(frame, true_hash).map_err(|problem| error(expected, problem))?;
        // Without a head it is no record; reading it says what is wrong with it.
        let head = match head {
            Some(head) => head,
            None => match Record::from_bytes(frame.body) {
                Err(problem) => return Err(error(expected, problem.into())),
                Ok(record) => Head::from(&record),
            },
        };
        let follows = self.follows(frame, head.sequence).and_then(|()| self.is_running());
        follows.map_err(|problem| error(expected, problem))?;
        self.count(frame, head.sequence);
        self.state = State::Running;
        Ok(head)
    }

    /// The file ends at `offset` and has this rest.
    pub fn end_file(&mut self, offset: u64, rest: Rest) -> Result<(), VerifyError> {
        let Rest::Torn(bytes) = rest else { return Ok(()) };
        let error = |problem| VerifyError { record: self.next, offset, problem };
        match self.state {
            State::Torn => return Err(error(VerifyProblem::AfterTorn)),
            State::Continues if !self.file_begins => return Err(error(VerifyProblem::AfterClose)),
            State::Nothing | State::Running | State::Stopped | State::Continues => {}
        }
        self.state = State::Torn;
        self.standing.torn_bytes = bytes;
        self.standing.open_bytes = self.standing.open_bytes.saturating_add(bytes);
        Ok(())
    }

    /// How far what was read so far can be believed.
    pub fn standing(&self) -> Standing {
        let end = match self.state {
            State::Nothing => End::Empty,
            State::Stopped => End::Closed,
            State::Continues => End::Continues,
            State::Running | State::Torn => End::Open,
        };
        Standing { end, ..self.standing }
    }

    fn believe(&mut self, frame: &Frame<'_>) -> Result<Record, VerifyProblem> {
        self.may_come(frame, frame.true_hash())?;
        let record = Record::from_bytes(frame.body)?;
        self.follows(frame, record.sequence)?;
        match &record.content {
            Content::Open(open) => self.open(open)?,
            Content::Policy(_) | Content::Resume(_) => self.is_running()?,
            Content::Step(step) => {
                self.is_running()?;
                if self.run.as_ref().is_none_or(|run| usize::from(step.graph) >= run.graphs) {
                    return Err(VerifyProblem::Graph(step.graph));
                }
            }
            Content::Checkpoint(checkpoint) => self.signed(frame, &record, checkpoint, None)?,
            Content::Close { checkpoint, continues } => self.signed(frame, &record, checkpoint, Some(*continues))?,
        }
        Ok(record)
    }

    /// Whether a record can come next, and is as it was written.
    fn may_come(&self, frame: &Frame<'_>, true_hash: ChainHead) -> Result<(), VerifyProblem> {
        // What cannot come next is said first: it explains more than a hash that does not fit.
        match self.state {
            State::Torn => return Err(VerifyProblem::AfterTorn),
            State::Continues if !self.file_begins => return Err(VerifyProblem::AfterClose),
            State::Running | State::Stopped if self.file_begins => return Err(VerifyProblem::NotContinued),
            State::Nothing | State::Running | State::Stopped | State::Continues => {}
        }
        if frame.hash == true_hash { Ok(()) } else { Err(VerifyProblem::Hash) }
    }

    /// Whether a record of this number follows the last one.
    fn follows(&self, frame: &Frame<'_>, sequence: u64) -> Result<(), VerifyProblem> {
        if self.state == State::Nothing {
            let is_first = sequence == 0;
            return if is_first == (frame.previous == GENESIS) { Ok(()) } else { Err(VerifyProblem::Beginning) };
        }
        if frame.previous != self.standing.head {
            return Err(VerifyProblem::Previous);
        }
        if sequence == self.next { Ok(()) } else { Err(VerifyProblem::Sequence(sequence)) }
    }

    /// Whether anything but an `open` can come next.
    fn is_running(&self) -> Result<(), VerifyProblem> {
        if self.file_begins || self.state != State::Running { Err(VerifyProblem::NotOpen) } else { Ok(()) }
    }

    fn open(&mut self, open: &Open) -> Result<(), VerifyProblem> {
        if let Some(run) = self.run.as_ref().filter(|run| run.device != open.device) {
            return Err(VerifyProblem::Device(run.device.clone(), open.device.clone()));
        }
        let key = (self.keys)(open).ok_or_else(|| VerifyProblem::UnknownKey(open.device.clone()))?;
        self.run = Some(Run { device: open.device.clone(), key, graphs: open.graphs.len() });
        Ok(())
    }

    fn signed(
        &mut self,
        frame: &Frame<'_>,
        record: &Record,
        checkpoint: &Checkpoint,
        continues: Option<bool>,
    ) -> Result<(), VerifyProblem> {
        self.is_running()?;
        let Some(run) = &self.run else { return Err(VerifyProblem::NotOpen) };
        let (device, elided) = (&run.device, &checkpoint.elided);
        let (sequence, time, head) = (record.sequence, record.time, frame.previous);
        let payload = Signed { device, sequence, time, head, elided, continues }.to_bytes();
        let signed = CoseSigned { payload: &payload, signature: checkpoint.signature };
        if let Some(put_off) = &mut self.put_off {
            put_off.push(signed.unverified(Domain::TraceCheckpoint, run.key));
            return Ok(());
        }
        if signed.is_signed_by(Domain::TraceCheckpoint, &run.key) {
            Ok(())
        } else {
            Err(VerifyProblem::Signature(run.device.clone()))
        }
    }

    fn advance(&mut self, frame: &Frame<'_>, record: &Record) {
        self.count(frame, record.sequence);
        self.state = match record.content {
            Content::Close { continues: true, .. } => State::Continues,
            Content::Close { continues: false, .. } => State::Stopped,
            _ => State::Running,
        };
        if let Content::Checkpoint(_) | Content::Close { .. } = record.content {
            self.standing.sealed = Some(Sealed { record: record.sequence, head: frame.hash });
            (self.standing.open_records, self.standing.open_bytes) = (0, 0);
        }
    }

    fn count(&mut self, frame: &Frame<'_>, sequence: u64) {
        let standing = &mut self.standing;
        if self.state == State::Nothing {
            standing.first = sequence;
        }
        standing.records = standing.records.saturating_add(1);
        standing.head = frame.hash;
        standing.open_records = standing.open_records.saturating_add(1);
        standing.open_bytes = standing.open_bytes.saturating_add(frame.length as u64);
        self.next = sequence.saturating_add(1);
        self.file_begins = false;
    }
}
