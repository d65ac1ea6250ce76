//! Time, and whether to believe it. Without a sane clock nobody consents and nobody collects.

use std::future::Future;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pilot_core::value::Time;
use tokio::sync::watch;

/// The first moment that a clock can show: 2024-01-01. A machine without a battery starts in 1970, or when its image was
/// made.
pub const EARLIEST: Time = Time::from_unix(1_704_067_200);

/// How far a clock may be set back without more ado, in seconds: time then stands still until it has caught up.
pub const MAX_SET_BACK: u64 = 2;

/// Why a clock is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ClockProblem {
    /// Before [`EARLIEST`].
    #[error("the clock shows a time before 2024")]
    TooEarly,
    /// Back by more than [`MAX_SET_BACK`].
    #[error("the clock was set back by {seconds} s")]
    SetBack {
        /// By how much.
        seconds: u64,
    },
}

/// Looks at each time that a clock shows.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sanity {
    latest: Time,
}

impl Sanity {
    /// Goes on from a time that was seen earlier, perhaps by another process: the last one recorded.
    pub const fn since(latest: Time) -> Self {
        Self { latest }
    }

    /// The time to go by, which never decreases, or why the clock is not believed. A clock that was set back is believed
    /// again once it has caught up.
    pub fn believe(&mut self, shown: Time) -> Result<Time, ClockProblem> {
        if shown < EARLIEST {
            return Err(ClockProblem::TooEarly);
        }
        let seconds = self.latest.unix().saturating_sub(shown.unix());
        if seconds > MAX_SET_BACK {
            return Err(ClockProblem::SetBack { seconds });
        }
        self.latest = self.latest.max(shown);
        Ok(self.latest)
    }
}

/// Where time comes from.
pub trait Clock: Sync {
    /// What it shows.
    fn now(&self) -> Time;
    /// Waits until it shows this time. It may return early: look again.
    fn wait_until(&self, time: Time) -> impl Future<Output = ()> + Send;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

/// The longest that is waited in one go: the machine's clock may be set meanwhile.
const MAX_WAIT: Duration = Duration::from_secs(10);

impl Clock for SystemClock {
    fn now(&self) -> Time {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Time::from_unix(since.as_secs())
    }

    async fn wait_until(&self, time: Time) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wait = Duration::from_secs(time.unix()).saturating_sub(since);
        tokio::time::sleep(wait.min(MAX_WAIT)).await;
    }
}

/// A clock that is set by hand, for tests. Clones show the same time.
#[derive(Debug, Clone)]
pub struct ManualClock(watch::Sender<Time>);

impl ManualClock {
    /// A clock that shows this time until it is set.
    pub fn new(time: Time) -> Self {
        Self(watch::Sender::new(time))
    }

    /// Sets it, forwards or back.
    pub fn set(&self, time: Time) {
        self.0.send_replace(time);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Time {
        *self.0.borrow()
    }

    async fn wait_until(&self, time: Time) {
        let mut shown = self.0.subscribe();
        // Also when it is set back: that is news, too.
        let before = *shown.borrow_and_update();
        if before >= time {
            return;
        }
        // An error means that the clock is gone, which it is not while we have it.
        let _ = shown.wait_for(|now| *now >= time || *now < before).await;
    }
}
