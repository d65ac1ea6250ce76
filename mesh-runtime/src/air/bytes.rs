//! Bytes that are heard or said: held without allocation, read without indexing.

use std::fmt;

use super::frame::MAX_FRAME_BYTES;

/// Up to [`MAX_FRAME_BYTES`] bytes, kept in place: what was heard costs no allocation before it is understood.
///
/// They need not be a frame: [`Frame::decode`](super::frame::Frame::decode) says whether they are. `Debug` says only how many they are.
#[derive(Clone, Copy)]
pub struct FrameBytes {
    length: u8,
    bytes: [u8; MAX_FRAME_BYTES],
}

impl FrameBytes {
    pub(super) const EMPTY: Self = Self { length: 0, bytes: [0; MAX_FRAME_BYTES] };

    /// A copy of these bytes; `None` if they are more than any frame has.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut copy = Self::EMPTY;
        (bytes.len() <= MAX_FRAME_BYTES).then(|| copy.push(bytes))?;
        Some(copy)
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }

    /// Appends what fits; a [`Frame`](super::frame::Frame) is never longer than this.
    pub(super) fn push(&mut self, part: &[u8]) {
        let room = self.bytes.iter_mut().skip(usize::from(self.length));
        let written = room.zip(part).map(|(byte, of)| *byte = *of).count();
        debug_assert_eq!(written, part.len());
        self.length = self.length.saturating_add(written as u8);
    }
}

impl PartialEq for FrameBytes {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for FrameBytes {}

impl fmt::Debug for FrameBytes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "FrameBytes({} bytes)", self.length)
    }
}

/// Takes the next `N` bytes; `None` if there are fewer.
pub(super) fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (part, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*part)
}
