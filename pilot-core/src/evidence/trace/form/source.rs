//! The bytes of a body, taken off item by item. An auditor reads millions of bodies a second, so this reads the few kinds of
//! CBOR that a body is made of and no others, allocates nothing, and sees on the way whether each head is in its shortest form.

use core::str;
use smol_str::SmolStr;

use super::names::KnownNames;
use crate::name::check_name;

/// Why an item is not what was needed. Small, because every item is read with it in hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Malformed {
    /// In words.
    #[error("{0}")]
    Not(&'static str),
    /// An array of another length.
    #[error("an array of {0} was needed")]
    Array(u64),
    /// A byte string of another length.
    #[error("{0} bytes were needed")]
    Bytes(usize),
    /// Too many elements.
    #[error("at most {0} are allowed")]
    Most(usize),
    /// Too many bytes.
    #[error("a policy takes at most {0} bytes")]
    Policy(usize),
    /// A version of the format that this program does not know.
    #[error("version {0} is not known")]
    Version(u64),
}

pub(super) type Read<T> = Result<T, Malformed>;

const UNSIGNED: u8 = 0;
const BYTES: u8 = 2;
const TEXT: u8 = 3;
const ARRAY: u8 = 4;
const FALSE: u8 = 0xf4;
const TRUE: u8 = 0xf5;
const NULL: u8 = 0xf6;

/// What is left of a body.
#[derive(Debug)]
pub(super) struct Source<'b> {
    rest: &'b [u8],
    /// Names that were read before.
    pub(super) names: Option<&'b mut KnownNames>,
    /// Whether every head so far was in its shortest form (RFC 8949 §4.2.1).
    pub(super) is_shortest: bool,
}

impl<'b> Source<'b> {
    pub(super) const fn new(bytes: &'b [u8]) -> Self {
        Self { rest: bytes, names: None, is_shortest: true }
    }

    /// How many bytes are left.
    pub(super) const fn left(&self) -> usize {
        self.rest.len()
    }

    /// The number in the head of an item of this major type.
    #[inline]
    fn head(&mut self, major: u8, needed: &'static str) -> Read<u64> {
        let Some((first, rest)) = self.rest.split_first() else {
            return Err(Malformed::Not("the body ends too early"));
        };
        if first >> 5 != major {
            return Err(Malformed::Not(needed));
        }
        let extra = first & 0x1f;
        if extra < 24 {
            self.rest = rest;
            return Ok(u64::from(extra));
        }
        self.long_head(extra, rest)
    }

    fn long_head(&mut self, extra: u8, rest: &'b [u8]) -> Read<u64> {
        let short = Malformed::Not("the body ends too early");
        let (value, least, rest) = match extra {
            24 => rest.split_first().map(|(digit, rest)| (u64::from(*digit), 24, rest)),
            25 => rest.split_first_chunk().map(|(digits, rest)| (u64::from(u16::from_be_bytes(*digits)), 1 << 8, rest)),
            26 => {
                rest.split_first_chunk().map(|(digits, rest)| (u64::from(u32::from_be_bytes(*digits)), 1 << 16, rest))
            }
            27 => rest.split_first_chunk().map(|(digits, rest)| (u64::from_be_bytes(*digits), 1 << 32, rest)),
            _ => return Err(Malformed::Not("no item of definite length")),
        }
        .ok_or(short)?;
        self.is_shortest &= value >= least;
        self.rest = rest;
        Ok(value)
    }

    /// As many bytes.
    #[inline]
    fn take(&mut self, length: u64) -> Read<&'b [u8]> {
        let taken = usize::try_from(length).ok().and_then(|length| self.rest.split_at_checked(length));
        let (taken, rest) = taken.ok_or(Malformed::Not("the body ends too early"))?;
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    pub(super) fn u64(&mut self) -> Read<u64> {
        self.head(UNSIGNED, "a number was needed")
    }

    pub(super) fn u32(&mut self) -> Read<u32> {
        self.u64()?.try_into().map_err(|_| Malformed::Not("a number is too large"))
    }

    pub(super) fn u16(&mut self) -> Read<u16> {
        self.u64()?.try_into().map_err(|_| Malformed::Not("a number is too large"))
    }

    #[inline]
    pub(super) fn u8(&mut self) -> Read<u8> {
        self.u64()?.try_into().map_err(|_| Malformed::Not("a number is too large"))
    }

    /// The length of an array.
    #[inline]
    pub(super) fn array(&mut self) -> Read<u64> {
        self.head(ARRAY, "an array was needed")
    }

    pub(super) fn bytes(&mut self) -> Read<&'b [u8]> {
        let length = self.head(BYTES, "a byte string was needed")?;
        self.take(length)
    }

    /// A byte string of a known length.
    #[inline]
    pub(super) fn fixed<const N: usize>(&mut self) -> Read<[u8; N]> {
        // Most of a body is digests: what stands before one is known.
        let rest = match self.rest {
            [first, rest @ ..] if N < 24 && usize::from(*first) == N | 0x40 => Some(rest),
            [0x58, length, rest @ ..] if N >= 24 && usize::from(*length) == N => Some(rest),
            _ => None,
        };
        if let Some((taken, rest)) = rest.and_then(<[u8]>::split_first_chunk) {
            self.rest = rest;
            return Ok(*taken);
        }
        self.bytes()?.try_into().map_err(|_| Malformed::Bytes(N))
    }

    pub(super) fn text(&mut self) -> Read<&'b str> {
        let length = self.head(TEXT, "a text was needed")?;
        utf8(self.take(length)?)
    }

    /// A name, or that there is none, in these words.
    pub(super) fn name(&mut self, otherwise: &'static str) -> Read<SmolStr> {
        let length = self.head(TEXT, "a text was needed")?;
        let bytes = self.take(length)?;
        if let Some(known) = self.names.as_ref().and_then(|names| names.find(bytes)) {
            return Ok(known.clone());
        }
        let text = utf8(bytes)?;
        check_name(text).map_err(|_| Malformed::Not(otherwise))?;
        let name = SmolStr::new(text);
        if let Some(names) = &mut self.names {
            names.remember(name.clone());
        }
        Ok(name)
    }

    pub(super) fn bool(&mut self) -> Read<bool> {
        match self.rest.split_first() {
            Some((first @ (&FALSE | &TRUE), rest)) => {
                self.rest = rest;
                Ok(*first == TRUE)
            }
            _ => Err(Malformed::Not("true or false was needed")),
        }
    }

    /// Null, which is then taken.
    pub(super) fn is_null(&mut self) -> bool {
        match self.rest.split_first() {
            Some((&NULL, rest)) => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    /// Null, or what `some` reads.
    #[inline]
    pub(super) fn optional<T>(&mut self, some: impl FnOnce(&mut Self) -> Read<T>) -> Read<Option<T>> {
        if self.is_null() { Ok(None) } else { some(self).map(Some) }
    }

    /// Whether a byte string comes next.
    pub(super) fn is_bytes_next(&self) -> bool {
        self.rest.first().is_some_and(|first| first >> 5 == BYTES)
    }
}

fn utf8(bytes: &[u8]) -> Read<&str> {
    str::from_utf8(bytes).map_err(|_| Malformed::Not("no UTF-8"))
}
