//! How long to wait before connecting again: doubling delays with jitter, so that a restarted broker does not meet all
//! its clients in the same instant.

use std::time::Duration;

use super::{FIRST_RETRY, LAST_RETRY};

pub(super) struct Backoff {
    chance: fastrand::Rng,
    next: Duration,
}

impl Backoff {
    pub(super) fn new(chance: fastrand::Rng) -> Self {
        Self { chance, next: FIRST_RETRY }
    }

    pub(super) fn reset(&mut self) {
        self.next = FIRST_RETRY;
    }

    /// Between half of the current delay and all of it; the next one is twice as long.
    pub(super) fn next_delay(&mut self) -> Duration {
        let delay = self.next;
        self.next = delay.saturating_mul(2).min(LAST_RETRY);
        delay.mul_f64(0.5 + 0.5 * self.chance.f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Delays grow from the first to the last, never exceed it, vary, and start again after a reset.
    #[test]
    fn delays_double_up_to_the_last() {
        let mut backoff = Backoff::new(fastrand::Rng::with_seed(4));
        let mut expected = FIRST_RETRY;
        let mut seen = Vec::new();
        for _ in 0..20 {
            let delay = backoff.next_delay();
            assert!(delay >= expected / 2 && delay <= expected, "{delay:?} of {expected:?}");
            seen.push(delay);
            expected = (expected * 2).min(LAST_RETRY);
        }
        assert_eq!(expected, LAST_RETRY);
        assert!(seen.windows(2).skip(10).any(|pair| pair[0] != pair[1]), "no jitter in {seen:?}");
        backoff.reset();
        assert!(backoff.next_delay() <= FIRST_RETRY);
    }
}
