//! Messages that have no edge yet: the device's share of the paper's `msgs`.
//!
//! As in the paper they are a set: the same message does not wait twice. Unlike there, they are bounded. Full, the
//! **oldest** is dropped and counted: senders repeat what they were not answered, so it is the one that has most likely
//! been repeated, or that nothing will ever take. A message waits for at most [`MAX_WAIT_SECONDS`].

use std::collections::VecDeque;

use pilot_core::graph::Message;
use pilot_core::semantics::Epoch;
use pilot_core::value::Time;

/// The most messages that wait. Full: the oldest is dropped and counted.
pub const MAX_WAITING_MESSAGES: usize = 256;

/// How long a message waits before it is dropped and counted: longer than any release is fresh.
pub const MAX_WAIT_SECONDS: u64 = Epoch::SECONDS * (2 * Epoch::WINDOW + 1);

/// Messages that wait, oldest first.
#[derive(Debug, Default)]
pub(super) struct Inbox(VecDeque<(Message, Time)>);

impl Inbox {
    /// Lets a message wait; returns the one that it displaces.
    pub(super) fn push(&mut self, message: Message, now: Time) -> Option<Message> {
        let displaced = if self.0.len() >= MAX_WAITING_MESSAGES { self.0.pop_front() } else { None };
        self.0.push_back((message, now));
        displaced.map(|(message, _)| message)
    }

    /// Takes out the oldest message if it has waited too long.
    pub(super) fn take_stale(&mut self, now: Time) -> Option<Message> {
        let since = self.0.front()?.1;
        let is_stale = now.unix().saturating_sub(since.unix()) > MAX_WAIT_SECONDS;
        if is_stale { self.0.pop_front().map(|(message, _)| message) } else { None }
    }

    pub(super) fn contains(&self, message: &Message) -> bool {
        self.0.iter().any(|(waiting, _)| waiting == message)
    }

    pub(super) fn at(&self, place: usize) -> Option<&Message> {
        self.0.get(place).map(|(message, _)| message)
    }

    pub(super) fn remove(&mut self, place: usize) -> Option<Message> {
        self.0.remove(place).map(|(message, _)| message)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Message> {
        self.0.iter().map(|(message, _)| message)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
