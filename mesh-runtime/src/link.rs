//! A link: bytes published and subscribed on topics, over a network that comes and goes.
//!
//! A link has two ends in the daemon: the [`Link`], a handle that never waits, and the [`Events`], one stream of what
//! happens. [`mqtt::connect`] makes them for a broker, [`memory::Hub::connect`] inside one process; both behave alike,
//! and the same tests run against both.
//!
//! What a link promises is little, on purpose. **Delivery is at most once** as far as the link knows: a message may be
//! lost, and may arrive twice where two filters match. Who needs an answer repeats the question until it comes: a
//! broker's acknowledgement would say nothing about the peer. What a link does promise:
//!
//! * messages of one link to one topic arrive in order, if they arrive (an in-process hub can be told otherwise);
//! * a subscription made before a publication is in force before it;
//! * after a lost connection it connects again by itself, for ever, and subscribes to everything again, before
//!   [`Event::Connected`] says so and before anything queued is sent.
//!
//! | queue | limit | full |
//! | --- | --- | --- |
//! | outbox | [`MAX_OUTBOX_MESSAGES`], [`MAX_OUTBOX_BYTES`] | the **oldest** message is dropped and counted: it is the one that its sender has meanwhile repeated with a fresh time stamp, and that a receiver would refuse as stale |
//! | events | [`MAX_EVENTS`] | the link stops reading from the network until the daemon takes an event; the broker then queues or drops |
//! | filters | [`MAX_FILTERS`] | `subscribe` is refused |

pub mod memory;
pub mod mqtt;
mod outbox;
mod topic;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use thiserror::Error;
use tokio::sync::mpsc;

use outbox::Outbox;
pub use topic::{Filter, MAX_TOPIC_BYTES, Topic, TopicError};

/// Largest packet, in both directions. Larger publications are refused before they are sent; what a peer sends beyond it
/// is not delivered. A broker may announce a smaller limit, which then holds.
pub const MAX_PACKET_BYTES: usize = 256 * 1024;

/// What MQTT adds to topic and payload of a publication: fixed header (at most 5), length of the topic (2), length of
/// the properties (1).
pub const PUBLISH_OVERHEAD_BYTES: usize = 8;

/// Largest payload that fits into [`MAX_PACKET_BYTES`] on any topic.
pub const MAX_PAYLOAD_BYTES: usize = MAX_PACKET_BYTES - MAX_TOPIC_BYTES - PUBLISH_OVERHEAD_BYTES;

/// Messages waiting for the network. Full: the oldest is dropped and counted.
pub const MAX_OUTBOX_MESSAGES: usize = 1024;

/// Bytes of topics and payloads waiting for the network. Full: the oldest message is dropped and counted.
pub const MAX_OUTBOX_BYTES: usize = 8 * 1024 * 1024;

/// Events waiting for the daemon: room for a peer's whole outbox. Full: the link stops reading from the network (in-process: the message is dropped).
pub const MAX_EVENTS: usize = 2 * MAX_OUTBOX_MESSAGES;

/// Filters of one link. Full: a further subscription is refused.
pub const MAX_FILTERS: usize = 1024;

/// The sending end of a link. Clones share it; when the last one is dropped, the link closes.
#[derive(Clone, Debug)]
pub struct Link(Arc<Handle>);

/// Closes the outbox when the last [`Link`] goes.
#[derive(Debug)]
struct Handle(Arc<Outbox>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The receiving end of a link.
#[derive(Debug)]
pub struct Events(mpsc::Receiver<Event>);

/// What happens on a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The network is there, and all subscriptions made so far are in force.
    Connected,
    /// The network is gone, or was never reached. Said once per reason, not once per attempt.
    Disconnected {
        /// Why, in words for an operator, without secrets.
        reason: Disconnection,
    },
    /// A message on a topic that some filter of this link matches.
    Message(Message),
}

/// Bytes on a topic.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// Where it was published.
    pub topic: Topic,
    /// What was published.
    pub payload: Bytes,
}

impl Message {
    fn size(&self) -> usize {
        self.topic.as_str().len() + self.payload.len()
    }
}

/// Says how long the payload is, not what it is.
impl fmt::Debug for Message {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Message({}, {} bytes)", self.topic.as_str(), self.payload.len())
    }
}

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Disconnection {
    /// The broker knows us not: user name, password or certificate.
    #[error("the broker does not accept the user name, password or certificate ({0})")]
    NotAuthorised(String),
    /// The broker answered, but does not want to talk.
    #[error("the broker refused the connection ({0})")]
    Refused(String),
    /// The broker does not let us subscribe to something.
    #[error("the broker refused a subscription ({0})")]
    SubscriptionRefused(String),
    /// The two ends do not trust each other's certificates, or do not speak TLS.
    #[error("no secure connection: {0}")]
    Tls(String),
    /// Nobody answers there.
    #[error("the broker cannot be reached: {0}")]
    Unreachable(String),
    /// There was a connection, and it broke.
    #[error("the connection to the broker was lost: {0}")]
    Lost(String),
    /// The link was closed from this side; the last event.
    #[error("the link is closed")]
    Closed,
}

/// Why a message was not taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PublishError {
    /// Larger than the broker or a peer would take. Repeating it does not help.
    #[error("a message of {packet} bytes is larger than the limit of {limit} bytes")]
    TooLarge {
        /// Size of the whole packet.
        packet: usize,
        /// [`MAX_PACKET_BYTES`], or less if the broker announced less.
        limit: usize,
    },
    /// The outbox is full of subscriptions, and none of them can be dropped.
    #[error("the outbox is full of subscriptions")]
    Full,
    /// The link is closed.
    #[error("the link is closed")]
    Closed,
}

/// Why a subscription was not taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SubscribeError {
    /// There are [`MAX_FILTERS`] already, or [`MAX_OUTBOX_MESSAGES`] commands are waiting.
    #[error("a link has at most {MAX_FILTERS} subscriptions and {MAX_OUTBOX_MESSAGES} waiting commands")]
    TooMany,
    /// The link is closed.
    #[error("the link is closed")]
    Closed,
}

impl Link {
    /// The three things that the back half of a link needs, and the two ends for the daemon.
    fn open() -> (Self, Events, Arc<Outbox>, mpsc::Sender<Event>) {
        let outbox = Arc::new(Outbox::new());
        let (sender, receiver) = mpsc::channel(MAX_EVENTS);
        (Self(Arc::new(Handle(outbox.clone()))), Events(receiver), outbox, sender)
    }

    /// Puts a message into the outbox; it leaves as soon as there is a connection. Never waits.
    ///
    /// # Errors
    /// If the message is too large or the link is closed. A full outbox is no error: its oldest message is dropped.
    pub fn publish(&self, topic: Topic, payload: impl Into<Bytes>) -> Result<(), PublishError> {
        self.0.0.publish(Message { topic, payload: payload.into() })
    }

    /// Subscribes, now and after each reconnection, until [`unsubscribe`](Self::unsubscribe). Twice is once.
    ///
    /// # Errors
    /// If there are too many subscriptions or the link is closed. A refusal by the broker is an
    /// [`Event::Disconnected`] with [`Disconnection::SubscriptionRefused`].
    pub fn subscribe(&self, filter: Filter) -> Result<(), SubscribeError> {
        self.0.0.subscribe(filter)
    }

    /// Ends a subscription. Messages already on their way still arrive.
    ///
    /// # Errors
    /// If too many commands are waiting.
    pub fn unsubscribe(&self, filter: &Filter) -> Result<(), SubscribeError> {
        self.0.0.unsubscribe(filter)
    }

    /// Messages and subscriptions that the network has not taken yet.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.0.waiting()
    }

    /// Messages that this link has dropped so far: for want of room, or because they made no sense.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.0.0.dropped()
    }

    /// Drops every message that the network has not taken yet; subscriptions stay.
    pub fn discard(&self) {
        self.0.0.discard();
    }

    /// Closes the link: what is waiting is still sent if there is a connection, then [`Events::next`] returns
    /// [`Disconnection::Closed`] and after it `None`.
    pub fn close(&self) {
        self.0.0.close();
    }
}

impl Events {
    /// The next event; `None` after the link has closed. May be used in `select!`: nothing is lost if it is not chosen.
    pub async fn next(&mut self) -> Option<Event> {
        self.0.recv().await
    }
}
