//! Trying again: what went wrong is said once, and tried again after a while.

use std::time::Instant;

use super::{AdapterName, BluezError, FIRST_RETRY, LAST_RETRY};
use crate::backoff::Backoff;

/// A radio that worked for so long is tried again at once when it fails; one that fails faster is let alone for longer.
const STABLE_AFTER: std::time::Duration = std::time::Duration::from_secs(10);

/// What was tried.
#[derive(Debug)]
pub(super) struct Attempts {
    adapter: AdapterName,
    backoff: Backoff,
    said: Option<BluezError>,
    /// Since when it works.
    works: Option<Instant>,
}

impl Attempts {
    /// None yet.
    pub(super) fn new(adapter: AdapterName) -> Self {
        let backoff = Backoff::new(FIRST_RETRY, LAST_RETRY, fastrand::Rng::new());
        Self { adapter, backoff, said: None, works: None }
    }

    /// The radio works.
    pub(super) fn succeeded(&mut self) {
        self.said = None;
        self.works = Some(Instant::now());
        tracing::info!(adapter = %self.adapter, "the radio works");
    }

    /// It does not; waits for a while.
    pub(super) async fn failed(&mut self, error: BluezError) {
        if self.works.take().is_some_and(|since| since.elapsed() >= STABLE_AFTER) {
            self.backoff.reset();
        }
        if self.said.as_ref() != Some(&error) {
            if error.is_lasting() {
                tracing::error!(adapter = %self.adapter, %error, "the radio is not used until somebody changes that");
            } else {
                tracing::warn!(adapter = %self.adapter, %error, "the radio does not work; trying again");
            }
            self.said = Some(error);
        }
        tokio::time::sleep(self.backoff.next_delay()).await;
    }
}
