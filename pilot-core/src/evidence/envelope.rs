//! Envelopes: what carries one message from one device to another, for the few seconds of its way.
//!
//! The payload of a COSE_Sign1 ([`Domain::Envelope`]) is canonical CBOR:
//!
//! ```text
//! [1,                        ; version of this form
//!  sender: tstr              ; a device of the mesh file
//!        / bstr .size 32,    ; a subject, anonymous: a key made for this connection, which signs
//!  receiver: tstr
//!          / bstr .size 32
//!          / null,           ; whoever listens to the topic
//!  topic: tstr,              ; where it is published
//!  id: bstr .size 16,        ; the same when it is sent again
//!  time: uint,               ; when it was sent, this time
//!  head: bstr .size 32       ; of the sender's trace, which the receiver's trace thereby anchors
//!      / null,
//!  message: bstr]
//! ```
//!
//! An opened envelope says who sent it, that it was meant for this receiver and this topic, and that it is of now.
//! Whether it came before is not said: within [`FRESHNESS_WINDOW`] anybody can send it again, so whatever is asked twice must
//! have the effect of being asked once.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use minicbor::decode::Error;
use minicbor::{Decoder, Encoder, data::Type};
use sha2::{Digest as _, Sha256};

use super::cose::{self, CoseError, Domain, MAX_OVERHEAD_BYTES, Signed};
use super::form::{self, FormError};
use super::hex::Hex;
use super::keys::{KeyError, Signer, VerifyingKey};
use super::mesh::{DeviceName, Invalid, MeshFile};
use crate::diagnostic::{Hint, Quoted};
use crate::name::MAX_NAME_BYTES;
use crate::value::Time;

/// The version of the form and how many elements it has.
const FORM: (u8, u64) = (1, 8);
/// All numbers, digests and headers of a payload, generously.
const MAX_FIXED_BYTES: usize = 128;

/// How many seconds an envelope's time may be away from ours, in either direction.
pub const FRESHNESS_WINDOW: u64 = 120;
/// The longest topic; with a longer one, no envelope is made.
pub const MAX_TOPIC_BYTES: usize = 512;
/// The longest message in an envelope: the largest policy statement fits twice. What is longer goes in several.
pub const MAX_MESSAGE_BYTES: usize = 136 << 10;
/// The largest envelope, signature included; larger ones are refused unread.
pub const MAX_ENVELOPE_BYTES: usize =
    MAX_MESSAGE_BYTES + MAX_TOPIC_BYTES + 2 * MAX_NAME_BYTES + MAX_FIXED_BYTES + MAX_OVERHEAD_BYTES;

/// What the reply topics of all subjects start with.
pub const REPLY_TOPIC_PREFIX: &str = "consent-mesh/reply/";

/// The topic on which an anonymous subject is answered: derived from the key that signs her requests, so a request
/// cannot ask for an answer to anybody else.
pub fn reply_topic(key: &VerifyingKey) -> String {
    let digest = Sha256::new().chain_update(b"consent-mesh reply topic").chain_update(key.as_bytes()).finalize();
    alloc::format!("{REPLY_TOPIC_PREFIX}{}", Hex(&digest))
}

/// Sixteen random bytes that tell one message from another; equal for the repetitions of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub [u8; 16]);

impl fmt::Display for MessageId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        Hex(&self.0).fmt(out)
    }
}

/// The hash of the last record of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChainHead(pub [u8; 32]);

impl fmt::Display for ChainHead {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        Hex(&self.0).fmt(out)
    }
}

/// Who sends.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Sender {
    /// A device of the mesh file.
    Device(DeviceName),
    /// A subject, by the key of one connection.
    Anonymous(VerifyingKey),
}

/// Who is to receive.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Receiver {
    /// A device of the mesh file.
    Device(DeviceName),
    /// A subject, by the key of one connection.
    Anonymous(VerifyingKey),
    /// Whoever listens to the topic.
    Everyone,
}

/// A message and its way.
#[derive(Clone, PartialEq, Eq)]
pub struct Envelope {
    /// Who sends it.
    pub sender: Sender,
    /// Who is to receive it.
    pub receiver: Receiver,
    /// Where it is published.
    pub topic: String,
    /// Which message it is.
    pub id: MessageId,
    /// When it is sent; a repetition has its own time.
    pub time: Time,
    /// The head of the sender's trace.
    pub head: Option<ChainHead>,
    /// The message.
    pub message: Vec<u8>,
}

/// Says how long the message is, not what is in it: that may be personal.
impl fmt::Debug for Envelope {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Envelope")
            .field("sender", &self.sender)
            .field("receiver", &self.receiver)
            .field("topic", &self.topic)
            .field("id", &self.id)
            .field("time", &self.time)
            .field("head", &self.head)
            .field("message", &format_args!("<{} bytes>", self.message.len()))
            .finish()
    }
}

/// What is too long for an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LengthError {
    /// A topic of more than [`MAX_TOPIC_BYTES`].
    #[error("a topic has at most {MAX_TOPIC_BYTES} bytes")]
    Topic,
    /// A message of more than [`MAX_MESSAGE_BYTES`].
    #[error("a message has at most {MAX_MESSAGE_BYTES} bytes")]
    Message,
}

/// Why an envelope was not opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// Not a signed thing.
    #[error("no envelope: {0}")]
    Cose(#[from] CoseError),
    /// Not the form of an envelope.
    #[error("no envelope: {0}")]
    Form(#[from] FormError),
    /// Too long a topic or message.
    #[error("no envelope: {0}")]
    Length(#[from] LengthError),
    /// It was made for another topic than the one it arrived on.
    #[error("an envelope for another topic")]
    WrongTopic,
    /// It was made for somebody else.
    #[error("an envelope for another receiver")]
    WrongReceiver,
    /// Sent more than [`FRESHNESS_WINDOW`] ago.
    #[error("an envelope of {0}, which is too long ago")]
    Stale(Time),
    /// Sent more than [`FRESHNESS_WINDOW`] ahead: one of the clocks is wrong.
    #[error("an envelope of {0}, which is in the future")]
    FromTheFuture(Time),
    /// An anonymous sender where only devices of the mesh may send.
    #[error("an envelope of an anonymous sender, where only devices of the mesh may send")]
    Anonymous,
    /// A sender that the mesh file does not list.
    #[error("an envelope of the unknown device {0}{1}")]
    UnknownSender(Quoted, Hint),
    /// The sender may not act now.
    #[error("an envelope of {0}: {1}")]
    Device(DeviceName, Invalid),
    /// An anonymous sender whose key is none.
    #[error("an envelope of an anonymous sender: {0}")]
    Key(KeyError),
    /// Not signed by the sender, or changed since.
    #[error("the sender did not sign this envelope")]
    Signature,
}

/// What the receiver of an envelope knows before opening it.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'a> {
    /// Who the devices are.
    pub mesh: &'a MeshFile,
    /// The topic on which it arrived.
    pub topic: &'a str,
    /// To whom envelopes on this topic must be addressed.
    pub receiver: &'a Receiver,
    /// Whether subjects may send here.
    pub anonymous_allowed: bool,
    /// When it arrived.
    pub now: Time,
}

impl Envelope {
    /// The bytes of this envelope, signed by its sender.
    pub fn sign(&self, signer: &impl Signer) -> Result<Vec<u8>, LengthError> {
        let raw = Raw {
            sender: self.sender.party(),
            receiver: self.receiver.party(),
            topic: &self.topic,
            id: self.id.0,
            time: self.time.unix(),
            head: self.head.map(|head| head.0),
            message: &self.message,
        };
        raw.check_lengths()?;
        Ok(cose::sign(Domain::Envelope, &raw.write(), signer))
    }

    /// Opens an envelope: for this topic and receiver, of now, and signed by a device of the mesh that may act now, or
    /// by the anonymous key it names. The signature comes last: whatever else is wrong costs less to find.
    pub fn open(bytes: &[u8], arrival: &Arrival<'_>) -> Result<Self, EnvelopeError> {
        let signed = Signed::read(bytes, MAX_ENVELOPE_BYTES)?;
        let raw = Raw::read(signed.payload)?;
        raw.check_lengths()?;
        if raw.topic != arrival.topic {
            return Err(EnvelopeError::WrongTopic);
        }
        if raw.receiver != arrival.receiver.party() {
            return Err(EnvelopeError::WrongReceiver);
        }
        let (time, now) = (Time::from_unix(raw.time), arrival.now.unix());
        if raw.time.abs_diff(now) > FRESHNESS_WINDOW {
            return Err(if raw.time < now { EnvelopeError::Stale(time) } else { EnvelopeError::FromTheFuture(time) });
        }
        let (sender, key) = sender(raw.sender, arrival)?;
        if !signed.is_signed_by(Domain::Envelope, &key) {
            return Err(EnvelopeError::Signature);
        }
        Ok(Self {
            sender,
            receiver: arrival.receiver.clone(),
            topic: raw.topic.into(),
            id: MessageId(raw.id),
            time,
            head: raw.head.map(ChainHead),
            message: raw.message.to_vec(),
        })
    }
}

/// Who says to have sent it, and the key that must have signed then.
fn sender(party: Party<'_>, arrival: &Arrival<'_>) -> Result<(Sender, VerifyingKey), EnvelopeError> {
    match party {
        Party::Name(name) => {
            let unknown = || EnvelopeError::UnknownSender(Quoted::new(name), arrival.mesh.device_hint(name));
            let listed = arrival.mesh.device(name).ok_or_else(unknown)?;
            let invalid = |invalid| EnvelopeError::Device(listed.name.clone(), invalid);
            listed.check_valid(arrival.now).map_err(invalid)?;
            Ok((Sender::Device(listed.name.clone()), listed.signing_key))
        }
        Party::Key(_) if !arrival.anonymous_allowed => Err(EnvelopeError::Anonymous),
        Party::Key(bytes) => {
            let key = VerifyingKey::from_bytes(&bytes).map_err(EnvelopeError::Key)?;
            Ok((Sender::Anonymous(key), key))
        }
    }
}

/// A sender or receiver as it is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Party<'b> {
    Name(&'b str),
    Key([u8; 32]),
}

impl Sender {
    fn party(&self) -> Party<'_> {
        match self {
            Self::Device(name) => Party::Name(name.as_str()),
            Self::Anonymous(key) => Party::Key(*key.as_bytes()),
        }
    }
}

impl Receiver {
    fn party(&self) -> Option<Party<'_>> {
        match self {
            Self::Device(name) => Some(Party::Name(name.as_str())),
            Self::Anonymous(key) => Some(Party::Key(*key.as_bytes())),
            Self::Everyone => None,
        }
    }
}

impl<'b> Party<'b> {
    fn read(decoder: &mut Decoder<'b>) -> Result<Self, Error> {
        match decoder.datatype()? {
            Type::String => decoder.str().map(Self::Name),
            _ => form::fixed(decoder).map(Self::Key),
        }
    }

    fn write(self, out: &mut Encoder<&mut Vec<u8>>) -> form::WriteResult {
        match self {
            Self::Name(name) => out.str(name).map(drop),
            Self::Key(key) => out.bytes(&key).map(drop),
        }
    }
}

/// The payload, names not resolved.
struct Raw<'b> {
    sender: Party<'b>,
    receiver: Option<Party<'b>>,
    topic: &'b str,
    id: [u8; 16],
    time: u64,
    head: Option<[u8; 32]>,
    message: &'b [u8],
}

impl<'b> Raw<'b> {
    fn read(payload: &'b [u8]) -> Result<Self, FormError> {
        let raw = form::read(payload, FORM, |decoder| {
            Ok(Self {
                sender: Party::read(decoder)?,
                receiver: form::optional(decoder, Party::read)?,
                topic: decoder.str()?,
                id: form::fixed(decoder)?,
                time: decoder.u64()?,
                head: form::optional(decoder, form::fixed)?,
                message: decoder.bytes()?,
            })
        })?;
        form::check_canonical(&raw.write(), payload)?;
        Ok(raw)
    }

    fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.message.len() + self.topic.len() + MAX_FIXED_BYTES);
        let result = self.write_to(&mut Encoder::new(&mut bytes));
        // INVARIANT: writing to a `Vec` cannot fail.
        debug_assert!(result.is_ok());
        bytes
    }

    fn write_to(&self, out: &mut Encoder<&mut Vec<u8>>) -> form::WriteResult {
        out.array(FORM.1)?.u8(FORM.0)?;
        self.sender.write(out)?;
        match self.receiver {
            Some(receiver) => receiver.write(out)?,
            None => drop(out.null()?),
        }
        out.str(self.topic)?.bytes(&self.id)?.u64(self.time)?;
        match self.head {
            Some(head) => out.bytes(&head)?,
            None => out.null()?,
        };
        out.bytes(self.message)?;
        Ok(())
    }

    fn check_lengths(&self) -> Result<(), LengthError> {
        if self.topic.len() > MAX_TOPIC_BYTES {
            Err(LengthError::Topic)
        } else if self.message.len() > MAX_MESSAGE_BYTES {
            Err(LengthError::Message)
        } else {
            Ok(())
        }
    }
}
