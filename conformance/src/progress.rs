//! What an exploration tells whoever waits for it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Figures of an exploration that is under way.
#[derive(Debug, Default)]
pub struct Progress {
    states: AtomicU64,
    queue: AtomicU64,
}

impl Progress {
    /// How many states are known, and how many of them are not explored yet.
    pub fn report(&self, states: u64, queue: u64) {
        self.states.store(states, Ordering::Relaxed);
        self.queue.store(queue, Ordering::Relaxed);
    }

    /// Adds to what is known.
    pub fn add_states(&self, states: u64) {
        self.states.fetch_add(states, Ordering::Relaxed);
    }

    /// Says how much is not explored yet.
    pub fn set_queue(&self, queue: u64) {
        self.queue.store(queue, Ordering::Relaxed);
    }

    /// States known, and those not explored yet.
    pub fn figures(&self) -> (u64, u64) {
        (self.states.load(Ordering::Relaxed), self.queue.load(Ordering::Relaxed))
    }
}
