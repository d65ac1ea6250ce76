//! Sends and opens envelopes for one device: between the messages of a protocol and the bytes of a link.

use std::sync::Arc;

use pilot_core::evidence::envelope::{Arrival, ChainHead, Envelope, MessageId, Receiver, Sender};
use pilot_core::evidence::{DeviceName, MeshFile};
use pilot_core::value::Time;

use super::message::Message;
use super::{device_topic, subject_topic};
use crate::daemon::complaints::Complaints;
use crate::journal::new_id;
use crate::keys::{GenerateError, SecretKeys};
use crate::link::{self, Link, Topic};

/// The sending and receiving of one device.
#[derive(Debug)]
pub struct Post {
    link: Link,
    me: Sender,
    signer: Arc<SecretKeys>,
    /// What was refused.
    pub complaints: Complaints,
}

/// A message that came in an envelope which opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// Who sent it.
    pub sender: Sender,
    /// The envelope's id: of the request, if this is one.
    pub id: MessageId,
    /// The head of the sender's trace.
    pub head: Option<ChainHead>,
    /// What it says.
    pub message: Message,
}

impl Post {
    /// Of a device that the mesh file lists.
    pub fn of_device(link: Link, name: DeviceName, signer: Arc<SecretKeys>) -> Self {
        Self { link, me: Sender::Device(name), signer, complaints: Complaints::default() }
    }

    /// Of a subject, with a key that nobody has seen before.
    pub fn of_subject(link: Link) -> Result<Self, GenerateError> {
        let signer = Arc::new(SecretKeys::generate()?);
        Ok(Self { link, me: Sender::Anonymous(signer.public().signing), signer, complaints: Complaints::default() })
    }

    /// A subject's next connection: a new key, and nothing that links it to the one before. Subscribe to
    /// [`Self::my_topic`] again.
    pub fn become_somebody_else(&mut self) -> Result<(), GenerateError> {
        let signer = Arc::new(SecretKeys::generate()?);
        (self.me, self.signer) = (Sender::Anonymous(signer.public().signing), signer);
        Ok(())
    }

    /// The link.
    pub const fn link(&self) -> &Link {
        &self.link
    }

    /// Where this device is answered; `None` if the mesh file does not list it (any more).
    pub fn my_topic(&self, mesh: &MeshFile) -> Option<Topic> {
        topic_of(&self.me, mesh)
    }

    /// Puts a message for a device or a subject into the outbox. What cannot be sent is lost, as on any network: who needs
    /// an answer asks again.
    pub fn send(
        &mut self,
        to: &Sender,
        id: MessageId,
        head: Option<ChainHead>,
        message: &Message,
        mesh: &MeshFile,
        now: Time,
    ) {
        let receiver = match to {
            Sender::Device(name) => Receiver::Device(name.clone()),
            Sender::Anonymous(key) => Receiver::Anonymous(*key),
        };
        match topic_of(to, mesh) {
            Some(topic) => self.publish(topic, receiver, id, head, message, now),
            None => self.complaints.complain("unknown-receiver", Some(to), &"the mesh file does not list it", now),
        }
    }

    /// Answers a request.
    pub fn answer(&mut self, to: &Sender, head: Option<ChainHead>, message: &Message, mesh: &MeshFile, now: Time) {
        match new_id() {
            Ok(id) => self.send(to, id, head, message, mesh, now),
            Err(error) => tracing::error!(%error, "no random numbers for the id of an answer"),
        }
    }

    /// Says something to whoever listens.
    pub fn announce(&mut self, topic: Topic, id: MessageId, message: &Message, now: Time) {
        self.publish(topic, Receiver::Everyone, id, None, message, now);
    }

    fn publish(
        &mut self,
        topic: Topic,
        receiver: Receiver,
        id: MessageId,
        head: Option<ChainHead>,
        message: &Message,
        time: Time,
    ) {
        let sender = self.me.clone();
        let envelope =
            Envelope { sender, receiver, topic: topic.as_str().into(), id, time, head, message: message.encode() };
        let sent = envelope.sign(&self.signer).map_err(|error| error.to_string());
        let sent = sent.and_then(|bytes| self.link.publish(topic, bytes).map_err(|error| error.to_string()));
        if let Err(error) = sent {
            self.complaints.complain("not-sent", None, &error, time);
        }
    }

    /// Opens what came on a topic, addressed to this device; `None`, counted, if it is not to be believed.
    /// `anonymous_allowed`: whether subjects may send here.
    pub fn open(
        &mut self,
        came: &link::Message,
        mesh: &MeshFile,
        anonymous_allowed: bool,
        now: Time,
    ) -> Option<Opened> {
        let receiver = match &self.me {
            Sender::Device(name) => Receiver::Device(name.clone()),
            Sender::Anonymous(key) => Receiver::Anonymous(*key),
        };
        self.open_for(came, &receiver, mesh, anonymous_allowed, now)
    }

    /// Opens what a device of the mesh said to everybody.
    pub fn open_announcement(&mut self, came: &link::Message, mesh: &MeshFile, now: Time) -> Option<Opened> {
        self.open_for(came, &Receiver::Everyone, mesh, false, now)
    }

    fn open_for(
        &mut self,
        came: &link::Message,
        receiver: &Receiver,
        mesh: &MeshFile,
        anonymous_allowed: bool,
        now: Time,
    ) -> Option<Opened> {
        let arrival = Arrival { mesh, topic: came.topic.as_str(), receiver, anonymous_allowed, now };
        let envelope = match Envelope::open(&came.payload, &arrival) {
            Ok(envelope) => envelope,
            Err(error) => {
                self.complaints.envelope(&error, now);
                return None;
            }
        };
        match Message::decode(&envelope.message) {
            Ok(message) => Some(Opened { sender: envelope.sender, id: envelope.id, head: envelope.head, message }),
            Err(error) => {
                self.complaints.complain("malformed", Some(&envelope.sender), &error, now);
                None
            }
        }
    }
}

fn topic_of(party: &Sender, mesh: &MeshFile) -> Option<Topic> {
    match party {
        Sender::Device(name) => device_topic(mesh.device(name.as_str())?.tag).ok(),
        Sender::Anonymous(key) => subject_topic(key).ok(),
    }
}
