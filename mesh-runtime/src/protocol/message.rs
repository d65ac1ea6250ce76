//! What envelopes carry. Each message is canonical CBOR:
//!
//! ```text
//! [1, kind: uint, [fields]]
//!
//! kind  fields
//!  0    [statement: bstr]                                         upload       a controller to a repository
//!  1    [request: bstr .size 16, version: uint, revision: uint]   uploaded     its answer, once that is durable
//!  2    [since: uint]                                             fetch        a subject to a repository
//!  3    [request, since: uint, until: uint, head: uint,
//!        [* statement: bstr]]                                     policies     its answer
//!  4    [revision: uint]                                          changed      a repository to everybody
//!  5    [sealed: bstr]                                            withdraw     a subject to a controller
//!  6    [request]                                                 withdrawn    its answer, once the data is gone
//!  7    [request, reason: uint, detail: uint]                     refused      the answer to any of these
//! ```
//!
//! `request` is the id of the envelope that is answered.

use std::fmt;

use minicbor::data::Type;
use minicbor::decode::Error;
use minicbor::{Decoder, Encoder};
use pilot_core::evidence::envelope::{MAX_MESSAGE_BYTES, MessageId};
use pilot_core::evidence::form::{self, FormError, WriteResult};

/// The version of these messages and how many elements each has.
const FORM: (u8, u64) = (1, 3);

/// The most bytes of statements in one answer: with everything around them they fit into an envelope, and a statement of
/// the largest size always does.
pub const MAX_STATEMENTS_BYTES: usize = MAX_MESSAGE_BYTES - (8 << 10);

/// What is said.
#[derive(Clone, PartialEq, Eq)]
pub enum Message {
    /// uploadPolicy and withdrawPolicy: a controller's signed statement, with a policy or with its withdrawal.
    Upload {
        /// See [`pilot_core::evidence::PolicyStatement`].
        statement: Vec<u8>,
    },
    /// The statement is stored, and will survive whatever happens.
    Uploaded {
        /// What is answered.
        request: MessageId,
        /// The statement's version.
        version: u64,
        /// The repository's revision when it answered.
        revision: u64,
    },
    /// requestPolicies: the statements stored after a revision; 0 for all.
    Fetch {
        /// What the subject knows already.
        since: u64,
    },
    /// downloadPolicies, or a part of it: whoever knew everything up to `since` now knows everything up to `until`. If
    /// that is `head`, the download is complete.
    Policies {
        /// What is answered.
        request: MessageId,
        /// Where this part begins.
        since: u64,
        /// Where it ends.
        until: u64,
        /// The repository's revision.
        head: u64,
        /// As they were signed, oldest first.
        statements: Vec<Vec<u8>>,
    },
    /// The repository's policies have changed.
    Changed {
        /// To this revision.
        revision: u64,
    },
    /// withdraw.
    Withdraw {
        /// See [`super::sealed`].
        sealed: Vec<u8>,
    },
    /// What the notice takes back is erased, and will not come back.
    Withdrawn {
        /// What is answered.
        request: MessageId,
    },
    /// What was asked is not done.
    Refused {
        /// What is answered.
        request: MessageId,
        /// Why.
        reason: Refusal,
    },
}

/// Why something is not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The message is not for this sort of device, or what is sealed in it does not open. A message that cannot be decoded
    /// gets no answer: devices of two versions would answer each other for ever.
    #[error("the message is not understood")]
    Malformed,
    /// The sender may not ask this.
    #[error("the sender may not ask for this")]
    NotAllowed,
    /// The statement does not open, or is not the sender's.
    #[error("the statement is not accepted")]
    Statement,
    /// The statement's version is not higher than that of a stored one that says something else.
    #[error("a statement of version {stored} is stored already")]
    NotHigher {
        /// The stored version.
        stored: u64,
    },
    /// Too much to do.
    #[error("busy, to be asked again in {retry_after} s")]
    Busy {
        /// When to ask again, in seconds.
        retry_after: u64,
    },
    /// The device cannot do its work; its operator must look.
    #[error("the device is out of order")]
    OutOfOrder,
    /// The notice is not signed by the key that signed the consent.
    #[error("the notice is not by whoever gave the consent")]
    NotTheOwner,
}

impl Refusal {
    const fn numbers(self) -> (u64, u64) {
        match self {
            Self::Malformed => (0, 0),
            Self::NotAllowed => (1, 0),
            Self::Statement => (2, 0),
            Self::NotHigher { stored } => (3, stored),
            Self::Busy { retry_after } => (4, retry_after),
            Self::OutOfOrder => (5, 0),
            Self::NotTheOwner => (6, 0),
        }
    }

    fn from_numbers(reason: u64, detail: u64) -> Result<Self, Error> {
        let refusal = match reason {
            0 => Self::Malformed,
            1 => Self::NotAllowed,
            2 => Self::Statement,
            3 => Self::NotHigher { stored: detail },
            4 => Self::Busy { retry_after: detail },
            5 => Self::OutOfOrder,
            6 => Self::NotTheOwner,
            _ => return Err(Error::message("an unknown reason")),
        };
        Ok(refusal)
    }
}

impl Message {
    /// The bytes of the message.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let result = self.write_to(&mut Encoder::new(&mut bytes));
        // INVARIANT: writing to a `Vec` cannot fail.
        debug_assert!(result.is_ok());
        bytes
    }

    /// The message of these bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormError> {
        let message = form::read(bytes, FORM, Self::read)?;
        form::check_canonical(&message.encode(), bytes)?;
        Ok(message)
    }

    /// The id of the envelope that this answers, if it is an answer.
    pub const fn answers(&self) -> Option<MessageId> {
        match self {
            Self::Uploaded { request, .. }
            | Self::Policies { request, .. }
            | Self::Withdrawn { request }
            | Self::Refused { request, .. } => Some(*request),
            Self::Upload { .. } | Self::Fetch { .. } | Self::Changed { .. } | Self::Withdraw { .. } => None,
        }
    }

    /// Its name in the table above.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Upload { .. } => "upload",
            Self::Uploaded { .. } => "uploaded",
            Self::Fetch { .. } => "fetch",
            Self::Policies { .. } => "policies",
            Self::Changed { .. } => "changed",
            Self::Withdraw { .. } => "withdraw",
            Self::Withdrawn { .. } => "withdrawn",
            Self::Refused { .. } => "refused",
        }
    }

    fn read(decoder: &mut Decoder<'_>) -> Result<Self, Error> {
        let kind = decoder.u8()?;
        let length = decoder.array()?;
        let fields =
            |wanted| if length == Some(wanted) { Ok(()) } else { Err(Error::message("wrong number of fields")) };
        let id = |decoder: &mut Decoder<'_>| form::fixed(decoder).map(MessageId);
        Ok(match kind {
            0 => fields(1).and_then(|()| Ok(Self::Upload { statement: decoder.bytes()?.to_vec() }))?,
            1 => {
                fields(3)?;
                Self::Uploaded { request: id(decoder)?, version: decoder.u64()?, revision: decoder.u64()? }
            }
            2 => fields(1).and_then(|()| Ok(Self::Fetch { since: decoder.u64()? }))?,
            3 => {
                fields(5)?;
                let request = id(decoder)?;
                let (since, until, head) = (decoder.u64()?, decoder.u64()?, decoder.u64()?);
                Self::Policies { request, since, until, head, statements: read_statements(decoder)? }
            }
            4 => fields(1).and_then(|()| Ok(Self::Changed { revision: decoder.u64()? }))?,
            5 => fields(1).and_then(|()| Ok(Self::Withdraw { sealed: decoder.bytes()?.to_vec() }))?,
            6 => fields(1).and_then(|()| Ok(Self::Withdrawn { request: id(decoder)? }))?,
            7 => {
                fields(3)?;
                let request = id(decoder)?;
                Self::Refused { request, reason: Refusal::from_numbers(decoder.u64()?, decoder.u64()?)? }
            }
            _ => return Err(Error::message("an unknown kind of message")),
        })
    }

    fn write_to(&self, out: &mut Encoder<&mut Vec<u8>>) -> WriteResult {
        out.array(FORM.1)?.u8(FORM.0)?;
        match self {
            Self::Upload { statement } => out.u8(0)?.array(1)?.bytes(statement)?,
            Self::Uploaded { request, version, revision } => {
                out.u8(1)?.array(3)?.bytes(&request.0)?.u64(*version)?.u64(*revision)?
            }
            Self::Fetch { since } => out.u8(2)?.array(1)?.u64(*since)?,
            Self::Policies { request, since, until, head, statements } => {
                out.u8(3)?.array(5)?.bytes(&request.0)?.u64(*since)?.u64(*until)?.u64(*head)?;
                out.array(statements.len() as u64)?;
                for statement in statements {
                    out.bytes(statement)?;
                }
                out
            }
            Self::Changed { revision } => out.u8(4)?.array(1)?.u64(*revision)?,
            Self::Withdraw { sealed } => out.u8(5)?.array(1)?.bytes(sealed)?,
            Self::Withdrawn { request } => out.u8(6)?.array(1)?.bytes(&request.0)?,
            Self::Refused { request, reason } => {
                let (reason, detail) = reason.numbers();
                out.u8(7)?.array(3)?.bytes(&request.0)?.u64(reason)?.u64(detail)?
            }
        };
        Ok(())
    }
}

/// As many as the bytes have; the array's own length is not believed before they are there.
fn read_statements(decoder: &mut Decoder<'_>) -> Result<Vec<Vec<u8>>, Error> {
    let count = decoder.array()?.ok_or_else(|| Error::message("an array of unknown length"))?;
    let mut statements = Vec::new();
    for _ in 0..count {
        if decoder.datatype()? != Type::Bytes {
            return Err(Error::message("a statement was needed"));
        }
        statements.push(decoder.bytes()?.to_vec());
    }
    Ok(statements)
}

/// Says what sort of message it is, and not what is in it.
impl fmt::Debug for Message {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Message({})", self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<Message> {
        let request = MessageId([7; 16]);
        let refused = |reason| Message::Refused { request, reason };
        vec![
            Message::Upload { statement: vec![1, 2, 3] },
            Message::Uploaded { request, version: 4, revision: 500 },
            Message::Fetch { since: 70_000 },
            Message::Policies { request, since: 1, until: 2, head: 3, statements: vec![vec![4], vec![5; 300]] },
            Message::Changed { revision: 9 },
            Message::Withdraw { sealed: vec![8; 40] },
            Message::Withdrawn { request },
            refused(Refusal::Malformed),
            refused(Refusal::NotAllowed),
            refused(Refusal::Statement),
            refused(Refusal::NotHigher { stored: 12 }),
            refused(Refusal::Busy { retry_after: 5 }),
            refused(Refusal::OutOfOrder),
            refused(Refusal::NotTheOwner),
        ]
    }

    /// Every message is read back from its bytes, and from nothing shorter, longer or otherwise encoded.
    #[test]
    fn messages_have_one_form() {
        for message in samples() {
            let bytes = message.encode();
            assert_eq!(Message::decode(&bytes).as_ref(), Ok(&message), "{message:?}");
            for cut in 0..bytes.len() {
                assert!(Message::decode(&bytes[..cut]).is_err(), "{message:?} cut at {cut}");
            }
            assert!(Message::decode(&[bytes.as_slice(), &[0]].concat()).is_err(), "{message:?} and more");
        }
        // `since` as 0 in two bytes: understood, and not canonical.
        let long = [0x83, 1, 2, 0x81, 0x18, 0];
        assert_eq!(Message::decode(&long), Err(FormError::NotCanonical));
    }

    /// A later version is named, so that an operator knows what to update.
    #[test]
    fn other_versions_are_refused_by_name() {
        let mut bytes = Message::Fetch { since: 0 }.encode();
        bytes[1] = 2;
        let error = Message::decode(&bytes).expect_err("another version");
        assert_eq!(error.to_string(), "version 2 of this form is not known, only 1");
    }

    /// A list that claims to be endless costs nothing.
    #[test]
    fn lengths_are_not_believed() {
        let mut bytes = vec![0x83, 1, 3, 0x85, 0x50];
        bytes.extend([7; 16]);
        bytes.extend([0, 0, 0, 0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        assert!(matches!(Message::decode(&bytes), Err(FormError::Malformed { .. })));
    }
}
