//! What was refused: counted always, and logged once per peer and interval, so that nobody can fill a disk with lines.

use std::collections::BTreeMap;
use std::fmt::Display;

use pilot_core::evidence::envelope::{EnvelopeError, Sender};
use pilot_core::value::Time;

/// How long, in seconds, a peer's next complaint of the same kind is only counted.
pub const INTERVAL: u64 = 60;
/// The most peers and kinds that are told apart. Full: those whose interval has passed are forgotten; if there are none,
/// further ones are only counted.
pub const MAX_REMEMBERED: usize = 1_024;
/// Strangers are one peer: whoever makes a new key for each message shall not get a line for each.
const STRANGER: &str = "a stranger";

/// Counts and logs what was refused.
#[derive(Debug, Default)]
pub struct Complaints {
    counts: BTreeMap<&'static str, u64>,
    logged: BTreeMap<(&'static str, String), Time>,
}

impl Complaints {
    /// Something of a peer was refused. `kind` is counted; `reason` is said, and holds no personal value.
    pub fn complain(&mut self, kind: &'static str, peer: Option<&Sender>, reason: &dyn Display, now: Time) {
        let count = self.counts.entry(kind).or_default();
        *count = count.saturating_add(1);
        let peer = match peer {
            Some(Sender::Device(name)) => name.as_str(),
            Some(Sender::Anonymous(_)) | None => STRANGER,
        };
        let recent = |logged: &Time| now.unix().saturating_sub(logged.unix()) < INTERVAL;
        let key = (kind, peer.to_owned());
        if self.logged.get(&key).is_some_and(recent) {
            return;
        }
        if self.logged.len() >= MAX_REMEMBERED {
            self.logged.retain(|_, logged| recent(logged));
        }
        if self.logged.len() < MAX_REMEMBERED {
            self.logged.insert(key, now);
            tracing::warn!(kind, peer, %reason, "refused; further ones are counted");
        }
    }

    /// An envelope was not opened.
    pub fn envelope(&mut self, error: &EnvelopeError, now: Time) {
        self.complain(kind_of(error), None, error, now);
    }

    /// How often what was refused.
    pub const fn counts(&self) -> &BTreeMap<&'static str, u64> {
        &self.counts
    }
}

/// A short word for each way in which an envelope can be wrong.
const fn kind_of(error: &EnvelopeError) -> &'static str {
    match error {
        EnvelopeError::Cose(_) | EnvelopeError::Form(_) | EnvelopeError::Length(_) | EnvelopeError::Key(_) => {
            "malformed"
        }
        EnvelopeError::WrongTopic => "wrong-topic",
        EnvelopeError::WrongReceiver => "wrong-receiver",
        EnvelopeError::Stale(_) | EnvelopeError::FromTheFuture(_) => "stale",
        EnvelopeError::Anonymous => "anonymous",
        EnvelopeError::UnknownSender(..) => "unknown-sender",
        EnvelopeError::Device(..) => "invalid-device",
        EnvelopeError::Signature => "signature",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything is counted; memory does not grow with peers or kinds.
    #[test]
    fn complaints_are_counted() {
        let mut complaints = Complaints::default();
        for n in 0..2 * MAX_REMEMBERED {
            let name = pilot_core::evidence::DeviceName::new(&format!("device-{n}")).unwrap();
            complaints.complain("signature", Some(&Sender::Device(name)), &"forged", Time::from_unix(5));
        }
        assert_eq!(complaints.counts()["signature"], 2 * MAX_REMEMBERED as u64);
        assert_eq!(complaints.logged.len(), MAX_REMEMBERED);
        complaints.complain("stale", None, &"old", Time::from_unix(5 + INTERVAL));
        assert_eq!(complaints.logged.len(), 1, "those whose interval has passed are forgotten");
    }
}
