//! Records in a stream of bytes: where each begins and ends, whatever its body says.
//!
//! [`Frame::first`] takes one record off a slice. [`Reader`] does so for a stream that comes in pieces, with memory for
//! one record and one piece. What is left at the end of a stream may be a record whose writing was interrupted; it may
//! also be damage to a length, which makes the rest look like one long unfinished record. [`Rest::of`] tells them
//! apart: an unfinished record has no complete one inside.

use alloc::vec::Vec;
use minicbor::Encoder;
use sha2::{Digest as _, Sha256};

use super::MAX_BODY_BYTES;
use crate::evidence::envelope::ChainHead;

/// Array of three; byte string of 32.
const HEAD: [u8; 3] = [0x83, 0x58, 0x20];
/// Byte string of 32.
const HASH_HEAD: [u8; 2] = [0x58, 0x20];
const HASH_BYTES: usize = 32;
/// Everything before the body.
const BEFORE_BODY: usize = HEAD.len() + HASH_BYTES;
/// Everything after the body.
const AFTER_BODY: usize = HASH_HEAD.len() + HASH_BYTES;
/// What is hashed before the record.
const DOMAIN: &[u8] = b"consent-mesh trace record";
/// How many bytes are hashed before a body.
const BEFORE_HASHED: usize = DOMAIN.len() + HASH_BYTES;
/// A reader that has more than so many times the room that it needs gives it back.
const ROOMY: usize = 4;
/// How many bytes of a short record are hashed.
const SHORT_BYTES: usize = 320;
/// What the very first record of a trace has as the hash of the one before it.
pub const GENESIS: ChainHead = ChainHead([0; HASH_BYTES]);

/// A record in its frame, not yet believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'b> {
    /// The hash of the record before.
    pub previous: ChainHead,
    /// The body, not yet read.
    pub body: &'b [u8],
    /// What is said to be the hash of this record.
    pub hash: ChainHead,
    /// How many bytes the whole frame has.
    pub length: usize,
}

/// Bytes that are no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset}: {problem}")]
pub struct FrameError {
    /// Where in the stream.
    pub offset: u64,
    /// What.
    pub problem: FrameProblem,
}

/// Why bytes are no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameProblem {
    /// Something else stands where a record begins.
    #[error("no record begins here")]
    NoRecord,
    /// The body's length is not in its shortest form, or it is no byte string.
    #[error("the record's body is no byte string in canonical form")]
    Body,
    /// The body is said to be longer than [`MAX_BODY_BYTES`].
    #[error("the record's body has more than {MAX_BODY_BYTES} bytes")]
    TooLarge,
    /// Something else stands where the hash begins.
    #[error("the record does not end with a hash")]
    NoHash,
    /// The stream ends within a record, but complete ones follow its beginning: its length is wrong.
    #[error("the length of this record is wrong, for there are complete records within it")]
    Length,
}

impl<'b> Frame<'b> {
    /// The first frame of `bytes`; `None` if it is not complete.
    pub fn first(bytes: &'b [u8]) -> Result<Option<Self>, FrameProblem> {
        let Some(rest) = bytes.strip_prefix(&HEAD) else {
            return if HEAD.starts_with(bytes) { Ok(None) } else { Err(FrameProblem::NoRecord) };
        };
        let Some((previous, rest)) = rest.split_first_chunk() else { return Ok(None) };
        let Some((head_length, body_length)) = byte_string_head(rest)? else { return Ok(None) };
        if body_length > MAX_BODY_BYTES {
            return Err(FrameProblem::TooLarge);
        }
        let Some((body, rest)) = rest.get(head_length..).and_then(|rest| rest.split_at_checked(body_length)) else {
            return Ok(None);
        };
        let Some(rest) = rest.strip_prefix(&HASH_HEAD) else {
            return if HASH_HEAD.starts_with(rest) { Ok(None) } else { Err(FrameProblem::NoHash) };
        };
        let Some(hash) = rest.first_chunk() else { return Ok(None) };
        let length = BEFORE_BODY + head_length + body_length + AFTER_BODY;
        Ok(Some(Self { previous: ChainHead(*previous), body, hash: ChainHead(*hash), length }))
    }

    /// What its hash should be of, in pieces.
    pub fn hashed(&self) -> [&[u8]; 3] {
        hashed(&self.previous, self.body)
    }

    /// What its hash should be.
    pub fn true_hash(&self) -> ChainHead {
        hash(self.previous, self.body)
    }

    /// Whether the hash is that of the record.
    pub fn is_intact(&self) -> bool {
        self.hash == self.true_hash()
    }
}

/// The length of a byte string's head and of the string; `None` if the head is not complete.
fn byte_string_head(bytes: &[u8]) -> Result<Option<(usize, usize)>, FrameProblem> {
    let (length, value, least) = match *bytes {
        [first @ 0x40..=0x57, ..] => (1, u32::from(first - 0x40), 0),
        [0x58, a, ..] => (2, u32::from(a), 24),
        [0x59, a, b, ..] => (3, u32::from_be_bytes([0, 0, a, b]), 1 << 8),
        [0x5a, a, b, c, d, ..] => (5, u32::from_be_bytes([a, b, c, d]), 1 << 16),
        [] | [0x58..=0x5a, ..] => return Ok(None),
        _ => return Err(FrameProblem::Body),
    };
    if value < least { Err(FrameProblem::Body) } else { Ok(Some((length, value as usize))) }
}

/// "consent-mesh trace record" ‖ previous ‖ body.
const fn hashed<'b>(previous: &'b ChainHead, body: &'b [u8]) -> [&'b [u8]; 3] {
    [DOMAIN, &previous.0, body]
}

/// SHA-256 of what is `hashed`.
pub fn hash(previous: ChainHead, body: &[u8]) -> ChainHead {
    // Almost every record is short. What stands in one piece is hashed faster than what comes in several.
    let mut room = [0; SHORT_BYTES];
    let length = BEFORE_HASHED + body.len();
    let parts = hashed(&previous, body);
    let Some(whole) = room.get_mut(..length) else {
        return ChainHead(parts.iter().fold(Sha256::new(), |hash, part| hash.chain_update(part)).finalize().into());
    };
    let mut rest = &mut *whole;
    for part in parts {
        let (place, after) = rest.split_at_mut(part.len().min(rest.len()));
        place.iter_mut().zip(part).for_each(|(to, from)| *to = *from);
        rest = after;
    }
    ChainHead(Sha256::digest(whole).into())
}

/// The bytes of a record whose body these are, and its hash.
pub(super) fn write(previous: ChainHead, body: &[u8]) -> (Vec<u8>, ChainHead) {
    let hash = hash(previous, body);
    let mut bytes = Vec::with_capacity(BEFORE_BODY + 5 + body.len() + AFTER_BODY);
    let mut out = Encoder::new(&mut bytes);
    let result = out.array(3).and_then(|out| out.bytes(&previous.0)?.bytes(body)?.bytes(&hash.0).map(drop));
    // INVARIANT: writing to a `Vec` cannot fail.
    debug_assert!(result.is_ok());
    (bytes, hash)
}

/// What is left where a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// Nothing: the last record was complete.
    Nothing,
    /// The beginning of a record of which this many bytes were written.
    Torn(u64),
}

impl Rest {
    /// Judges bytes that are no complete frame and after which nothing comes.
    pub fn of(bytes: &[u8]) -> Result<Self, FrameProblem> {
        if bytes.is_empty() {
            return Ok(Self::Nothing);
        }
        // What looks complete without being so is not there by chance: looking at it must not take forever.
        let mut patience = 2 * bytes.len();
        let inner = bytes.windows(HEAD.len()).enumerate().skip(1).filter(|(_, window)| *window == HEAD);
        for (at, _) in inner {
            let Some(Ok(Some(frame))) = bytes.get(at..).map(Frame::first) else { continue };
            if patience < frame.length || frame.is_intact() {
                return Err(FrameProblem::Length);
            }
            patience -= frame.length;
        }
        Ok(Self::Torn(bytes.len() as u64))
    }
}

/// Takes records off a stream that comes in pieces.
///
/// Feed a piece, take frames with [`Reader::frame`] until there is none, feed the next; at the end, [`Reader::finish`].
/// Holds at most one unfinished record and one piece.
#[derive(Debug, Default)]
pub struct Reader {
    /// Room for what is held; what is beyond `end` is of no meaning.
    room: Vec<u8>,
    /// How many of the held bytes are done with, and how many there are.
    used: usize,
    end: usize,
    /// Where in the stream the held bytes begin.
    offset: u64,
}

impl Reader {
    /// A reader at the beginning of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// At the beginning of another stream, with the same room.
    pub fn restart(&mut self) {
        (self.used, self.end, self.offset) = (0, 0, 0);
    }

    /// The next bytes of the stream.
    pub fn feed(&mut self, piece: &[u8]) {
        let all = |room: &mut [u8]| {
            room.iter_mut().zip(piece).for_each(|(to, from)| *to = *from);
            Ok::<_, core::convert::Infallible>(piece.len())
        };
        let Ok(_) = self.feed_by(piece.len(), all);
    }

    /// The next bytes of the stream, at most so many, which `read` puts where they belong. It says how many there were, and so
    /// does this.
    pub fn feed_by<E>(&mut self, most: usize, read: impl FnOnce(&mut [u8]) -> Result<usize, E>) -> Result<usize, E> {
        self.room.copy_within(self.used..self.end, 0);
        self.offset = self.offset.saturating_add(self.used as u64);
        (self.used, self.end) = (0, self.end.saturating_sub(self.used));
        let needed = self.end.saturating_add(most);
        if self.room.len() / ROOMY > needed {
            // What a large record took is given back.
            self.room.truncate(needed);
            self.room.shrink_to_fit();
        }
        if self.room.len() < needed {
            self.room.resize(needed, 0);
        }
        let length = read(self.room.get_mut(self.end..needed).unwrap_or_default())?.min(most);
        self.end = self.end.saturating_add(length);
        Ok(length)
    }

    /// Where the next record begins.
    pub fn offset(&self) -> u64 {
        self.offset.saturating_add(self.used as u64)
    }

    /// The next complete record and where it begins; `None` if more bytes are needed.
    pub fn frame(&mut self) -> Result<Option<(u64, Frame<'_>)>, FrameError> {
        let offset = self.offset();
        let bytes = self.room.get(self.used..self.end).unwrap_or_default();
        let frame = Frame::first(bytes).map_err(|problem| FrameError { offset, problem })?;
        if let Some(frame) = &frame {
            self.used = self.used.saturating_add(frame.length);
        }
        Ok(frame.map(|frame| (offset, frame)))
    }

    /// All complete records that are held, and where each begins; and what is wrong after them, if anything is. More bytes are
    /// needed then.
    pub fn frames(&mut self) -> (Vec<(u64, Frame<'_>)>, Option<FrameError>) {
        let held = self.room.get(self.used..self.end).unwrap_or_default();
        let (mut frames, mut rest, mut offset) = (Vec::new(), held, self.offset());
        let problem = loop {
            match Frame::first(rest) {
                Ok(Some(frame)) => {
                    frames.push((offset, frame));
                    rest = rest.get(frame.length..).unwrap_or_default();
                    offset = offset.saturating_add(frame.length as u64);
                }
                Ok(None) => break None,
                Err(problem) => break Some(problem),
            }
        };
        self.used = self.used.saturating_add(held.len().saturating_sub(rest.len()));
        (frames, problem.map(|problem| FrameError { offset, problem }))
    }

    /// What is left when nothing more comes.
    pub fn finish(&self) -> Result<Rest, FrameError> {
        let offset = self.offset();
        let bytes = self.room.get(self.used..self.end).unwrap_or_default();
        Rest::of(bytes).map_err(|problem| FrameError { offset, problem })
    }
}
