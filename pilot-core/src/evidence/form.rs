//! The form of statements, envelopes and the messages in them: one CBOR array of a known length whose first element is the version
//! of the form. It is bounded by the message it came in and has no nesting, so reading it cannot recurse.

use alloc::string::{String, ToString};
use minicbor::Decoder;
use minicbor::data::Type;
use minicbor::decode::Error;

use crate::diagnostic::foreign_message;

/// Why a signed payload cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormError {
    /// Not CBOR, or not the elements there must be.
    #[error("byte {offset} of the payload: {message}")]
    Malformed {
        /// Where.
        offset: usize,
        /// What.
        message: String,
    },
    /// A version of the form that this program does not know.
    #[error("version {found} of this form is not known, only {known}")]
    Version {
        /// The version it says.
        found: u64,
        /// The one version there is.
        known: u8,
    },
    /// Understood, but there is another, canonical form.
    #[error("not the canonical form")]
    NotCanonical,
}

/// Reads an array of `length` elements, the first of which is `version`; `elements` reads the others.
pub fn read<'b, T>(
    payload: &'b [u8],
    (version, length): (u8, u64),
    elements: impl FnOnce(&mut Decoder<'b>) -> Result<T, Error>,
) -> Result<T, FormError> {
    let mut decoder = Decoder::new(payload);
    let malformed = |decoder: &Decoder<'_>, error: &dyn ToString| FormError::Malformed {
        offset: decoder.position(),
        message: foreign_message(&error.to_string()),
    };
    let found_length = decoder.array().map_err(|error| malformed(&decoder, &error))?;
    let found = decoder.u64().map_err(|error| malformed(&decoder, &error))?;
    // Before the length: another version may have more elements, and the version is what to say then.
    if found != u64::from(version) {
        return Err(FormError::Version { found, known: version });
    }
    if found_length != Some(length) {
        return Err(malformed(&decoder, &alloc::format!("an array of {length} was needed")));
    }
    let value = elements(&mut decoder).map_err(|error| malformed(&decoder, &error))?;
    if decoder.position() < payload.len() {
        return Err(malformed(&decoder, &"bytes after the payload"));
    }
    Ok(value)
}

/// Accepts what was read only from the bytes that would be written for it.
pub fn check_canonical(written: &[u8], payload: &[u8]) -> Result<(), FormError> {
    if written == payload { Ok(()) } else { Err(FormError::NotCanonical) }
}

/// A byte string of a known length.
pub fn fixed<const N: usize>(decoder: &mut Decoder<'_>) -> Result<[u8; N], Error> {
    decoder.bytes()?.try_into().map_err(|_| Error::message(alloc::format!("{N} bytes were needed")))
}

/// Null, or what `some` reads.
pub fn optional<'b, T>(
    decoder: &mut Decoder<'b>,
    some: impl FnOnce(&mut Decoder<'b>) -> Result<T, Error>,
) -> Result<Option<T>, Error> {
    match decoder.datatype()? {
        Type::Null => decoder.null().map(|()| None),
        _ => some(decoder).map(Some),
    }
}

/// What writing to a `Vec` returns.
pub type WriteResult = Result<(), minicbor::encode::Error<core::convert::Infallible>>;
