//! What is counted instead of recorded: no address, no digest, no time.

use std::collections::BTreeMap;

use pilot_core::graph::Guard;

use super::limits::Limit;

/// How often things happened since the driver was made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Steps recorded.
    pub steps: u64,
    /// Steps that changed nothing and sent nothing, which are not recorded, by the guard that refused the message;
    /// `None` if nothing was refused.
    pub elided: BTreeMap<Option<Guard>, u64>,
    /// Messages and offers for which there was no room.
    pub full: BTreeMap<Limit, u64>,
    /// Messages for somebody else, or of a kind that the graph never takes.
    pub foreign: u64,
    /// Messages that waited already when they came again.
    pub duplicates: u64,
    /// Messages dropped from a full inbox.
    pub displaced: u64,
    /// Messages that waited for too long.
    pub stale: u64,
    /// Devices and policies that did not get an id, because the tables are full.
    pub unknown: u64,
}

impl Counts {
    pub(super) fn elide(&mut self, reason: Option<Guard>) {
        add(self.elided.entry(reason).or_default());
    }

    pub(super) fn lack(&mut self, limit: Limit) {
        add(self.full.entry(limit).or_default());
    }

    /// All elided steps, whatever the reason.
    pub fn all_elided(&self) -> u64 {
        self.elided.values().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

/// One more.
pub(super) fn add(count: &mut u64) {
    *count = count.saturating_add(1);
}
