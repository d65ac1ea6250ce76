//! The front half of every link: what the daemon asked for and the network has not taken yet.
//!
//! It has one definition for all kinds of links, so that they refuse, bound and forget in the same way. The back halves
//! (`memory`, `mqtt`) call [`Outbox::connected`], then take one [`Command`] after the other.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::{
    Filter, MAX_FILTERS, MAX_OUTBOX_BYTES, MAX_OUTBOX_MESSAGES, MAX_PACKET_BYTES, Message, PUBLISH_OVERHEAD_BYTES,
    PublishError, SubscribeError,
};

/// What the back half of a link is asked to do, in the order in which the daemon asked for it: a subscription made
/// before a request is in force before the answer to it.
#[derive(Debug)]
pub(super) enum Command {
    Publish(Message),
    Subscribe(Filter),
    Unsubscribe(Filter),
}

#[derive(Debug)]
pub(super) struct Outbox {
    state: Mutex<State>,
    changed: Notify,
    /// Largest packet that this side and the broker take; a broker may announce a smaller one than ours.
    packet_limit: AtomicUsize,
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Command>,
    /// Of the topics and payloads in `queue`.
    bytes: usize,
    filters: BTreeSet<Filter>,
    connected: bool,
    closing: bool,
}

impl Outbox {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::default(),
            changed: Notify::new(),
            packet_limit: AtomicUsize::new(MAX_PACKET_BYTES),
            dropped: AtomicU64::new(0),
        }
    }

    /// No code below can leave the state half changed, so a poisoned lock still guards a good state.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn publish(&self, message: Message) -> Result<(), PublishError> {
        let packet = message.size() + PUBLISH_OVERHEAD_BYTES;
        let limit = self.packet_limit.load(Ordering::Relaxed);
        if packet > limit {
            return Err(PublishError::TooLarge { packet, limit });
        }
        let mut state = self.state();
        if state.closing {
            return Err(PublishError::Closed);
        }
        while state.queue.len() >= MAX_OUTBOX_MESSAGES || state.bytes + message.size() > MAX_OUTBOX_BYTES {
            if !state.drop_oldest() {
                return Err(PublishError::Full);
            }
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        state.bytes += message.size();
        state.queue.push_back(Command::Publish(message));
        drop(state);
        self.changed.notify_waiters();
        Ok(())
    }

    pub(super) fn subscribe(&self, filter: Filter) -> Result<(), SubscribeError> {
        let mut state = self.state();
        if state.closing {
            return Err(SubscribeError::Closed);
        }
        if state.filters.contains(&filter) {
            return Ok(());
        }
        if state.filters.len() >= MAX_FILTERS || !state.has_room_for_filter() {
            return Err(SubscribeError::TooMany);
        }
        state.filters.insert(filter.clone());
        // While disconnected the set says it all: everything in it is subscribed on connecting.
        if state.connected {
            state.queue.push_back(Command::Subscribe(filter));
        }
        drop(state);
        self.changed.notify_waiters();
        Ok(())
    }

    pub(super) fn unsubscribe(&self, filter: &Filter) -> Result<(), SubscribeError> {
        let mut state = self.state();
        if !state.has_room_for_filter() {
            return Err(SubscribeError::TooMany);
        }
        if state.filters.remove(filter) && state.connected {
            state.queue.push_back(Command::Unsubscribe(filter.clone()));
        }
        drop(state);
        self.changed.notify_waiters();
        Ok(())
    }

    pub(super) fn discard(&self) {
        let mut state = self.state();
        state.queue.retain(|command| !matches!(command, Command::Publish(_)));
        state.bytes = 0;
    }

    pub(super) fn close(&self) {
        self.state().closing = true;
        self.changed.notify_waiters();
    }

    /// The network is there, with this limit on packets. Returns what to subscribe to before anything else.
    pub(super) fn connected(&self, packet_limit: usize) -> Vec<Filter> {
        self.packet_limit.store(packet_limit.min(MAX_PACKET_BYTES), Ordering::Relaxed);
        let mut state = self.state();
        state.connected = true;
        state.queue.retain(|command| matches!(command, Command::Publish(_)));
        state.filters.iter().cloned().collect()
    }

    /// The network is gone. What it has already taken may or may not have arrived.
    pub(super) fn disconnected(&self) {
        self.state().connected = false;
    }

    /// The next command; `None` once the link is closing and everything has been taken.
    pub(super) async fn next(&self) -> Option<Command> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before looking, so that no change between looking and waiting is missed.
            changed.as_mut().enable();
            if let Some(command) = self.take() {
                return Some(command);
            }
            if self.is_closing() {
                return None;
            }
            changed.await;
        }
    }

    fn take(&self) -> Option<Command> {
        let limit = self.packet_limit.load(Ordering::Relaxed);
        let mut state = self.state();
        while let Some(command) = state.queue.pop_front() {
            if let Command::Publish(message) = &command {
                state.bytes -= message.size();
                // Queued under a larger limit than the broker now turns out to have.
                if message.size() + PUBLISH_OVERHEAD_BYTES > limit {
                    self.dropped.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!(limit, "a queued message is larger than the broker takes; dropped");
                    continue;
                }
            }
            return Some(command);
        }
        None
    }

    /// Returns when the link is closing.
    pub(super) async fn closing(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.is_closing() {
                return;
            }
            changed.await;
        }
    }

    pub(super) fn is_closing(&self) -> bool {
        self.state().closing
    }

    pub(super) fn waiting(&self) -> usize {
        self.state().queue.len()
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// A message that arrived was dropped before the daemon saw it.
    pub(super) fn count_dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

impl State {
    fn has_room_for_filter(&self) -> bool {
        self.queue.len() < MAX_OUTBOX_MESSAGES
    }

    /// Drops the oldest message; subscriptions are never dropped.
    fn drop_oldest(&mut self) -> bool {
        let oldest = self.queue.iter().position(|command| matches!(command, Command::Publish(_)));
        match oldest.and_then(|position| self.queue.remove(position)) {
            Some(Command::Publish(message)) => {
                self.bytes -= message.size();
                true
            }
            _ => false,
        }
    }
}
