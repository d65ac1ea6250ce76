//! A stream of events that never rests.
//!
//! Between D-Bus and btleplug there is a queue without a limit, and btleplug asks BlueZ something about each event before it
//! shows it. In a place where more is heard than that allows, the queue would grow without end. Its length cannot be
//! seen; but while it is empty now and then, somebody waits for the next event. If nobody has waited for
//! [`MAX_RESTLESS`], it is thrown away: advertisers repeat what they say.

use std::time::{Duration, Instant};

/// Who waits so long for an event has found the queue empty. An answer of BlueZ takes less.
pub(super) const REST: Duration = Duration::from_millis(10);
/// How long a queue may grow. At a thousand events per second, that is some megabytes.
pub(super) const MAX_RESTLESS: Duration = Duration::from_secs(3);

/// When there was last a rest.
#[derive(Debug)]
pub(super) struct Restlessness(Instant);

impl Restlessness {
    /// A queue that is new.
    pub(super) const fn new(now: Instant) -> Self {
        Self(now)
    }

    /// An event came, for which somebody has waited. Whether it is time to throw the queue away.
    pub(super) fn is_too_long(&mut self, waited: Duration, now: Instant) -> bool {
        if waited >= REST {
            self.0 = now;
        }
        now.saturating_duration_since(self.0) >= MAX_RESTLESS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_thrown_away_only_if_it_never_was_empty() {
        let (start, millisecond) = (Instant::now(), Duration::from_millis(1));
        let mut quiet = Restlessness::new(start);
        assert!((0..100_000).all(|number: u32| {
            let waited = if number.is_multiple_of(2_000) { REST } else { millisecond };
            !quiet.is_too_long(waited, start + millisecond * number)
        }));
        let mut busy = Restlessness::new(start);
        let events = (0..100_000).take_while(|number| !busy.is_too_long(millisecond, start + millisecond * *number));
        assert_eq!(events.count(), 3_000);
    }
}
