//! What daemons say to each other over MQTT. `docs/protocol.md` has it byte by byte.
//!
//! * [`message`]: what envelopes carry: uploads, downloads, withdraw notices, and their answers;
//! * [`sealed`]: a withdraw notice names a person's item, so it is sealed to the controller;
//! * [`post`]: sends and opens envelopes;
//! * [`requests`]: questions are repeated until they are answered;
//! * this file: the topics.
//!
//! **Nothing here needs a memory of message ids.** Whatever is asked twice has the effect of being asked once: a
//! statement is stored by its version, a notice takes back releases up to an epoch, a download only reads. So a repeated
//! request, by its sender or by anybody who recorded it, is answered again and changes nothing, also after restarts.
//!
//! | topic | who publishes | what |
//! | --- | --- | --- |
//! | `consent-mesh/device/TAG` | anybody | requests to the device with this frame tag, and answers to it |
//! | `consent-mesh/reply/DIGEST` | devices | answers to the subject whose connection's key has this digest |
//! | `consent-mesh/changes/TAG` | the repository with this tag | that its policies have changed |
//!
//! Devices are addressed by their frame tags: names may have characters that topics must not have.

pub mod message;
pub mod post;
pub mod requests;
pub mod sealed;

use pilot_core::evidence::VerifyingKey;
use pilot_core::evidence::envelope::reply_topic;
use pilot_core::evidence::mesh::FrameTag;

use crate::link::{Topic, TopicError};

/// Where a device is asked and answered.
pub fn device_topic(tag: FrameTag) -> Result<Topic, TopicError> {
    Topic::new(format!("consent-mesh/device/{tag}"))
}

/// Where a subject is answered.
pub fn subject_topic(key: &VerifyingKey) -> Result<Topic, TopicError> {
    Topic::new(reply_topic(key))
}

/// Where a repository says that its policies have changed.
pub fn changes_topic(tag: FrameTag) -> Result<Topic, TopicError> {
    Topic::new(format!("consent-mesh/changes/{tag}"))
}
