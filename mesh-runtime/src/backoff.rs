//! How long to wait before trying again: doubling delays with jitter, so that a restarted broker does not meet all
//! its clients in the same instant, and a radio that is gone costs next to nothing.

use std::time::Duration;

/// Delays from a first to a last one.
#[derive(Debug)]
pub(crate) struct Backoff {
    chance: fastrand::Rng,
    first: Duration,
    last: Duration,
    next: Duration,
}

impl Backoff {
    /// The first delay, and the longest.
    pub(crate) const fn new(first: Duration, last: Duration, chance: fastrand::Rng) -> Self {
        Self { chance, first, last, next: first }
    }

    pub(crate) const fn reset(&mut self) {
        self.next = self.first;
    }

    /// Between half of the current delay and all of it; the next one is twice as long.
    pub(crate) fn next_delay(&mut self) -> Duration {
        let delay = self.next;
        self.next = delay.saturating_mul(2).min(self.last);
        delay.mul_f64(0.5 + 0.5 * self.chance.f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Delays grow from the first to the last, never exceed it, vary, and start again after a reset.
    #[test]
    fn delays_double_up_to_the_last() {
        let (first, last) = (Duration::from_millis(100), Duration::from_secs(5));
        let mut backoff = Backoff::new(first, last, fastrand::Rng::with_seed(4));
        let mut expected = first;
        let mut seen = Vec::new();
        for _ in 0..20 {
            let delay = backoff.next_delay();
            assert!(delay >= expected / 2 && delay <= expected, "{delay:?} of {expected:?}");
            seen.push(delay);
            expected = (expected * 2).min(last);
        }
        assert_eq!(expected, last);
        assert!(seen.windows(2).skip(10).any(|pair| pair[0] != pair[1]), "no jitter in {seen:?}");
        backoff.reset();
        assert!(backoff.next_delay() <= first);
    }
}
