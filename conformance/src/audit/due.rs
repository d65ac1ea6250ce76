//! Requirement 4: what a device holds, and until when it may.
//!
//! A device erases what is due within [`SWEEP_SECONDS`]. One that is off cannot erase: for what falls due meanwhile it has these
//! seconds from its next start on. They are given once. What was due already when a run ended has what was left of them then,
//! or a device could keep everything for ever by starting again every minute.

use std::collections::{BTreeMap, BTreeSet};

use pilot_core::semantics::Receipt;
use pilot_core::value::Time;

/// For how many seconds after its deadline an item may still be held while its device runs.
pub const SWEEP_SECONDS: u64 = 60;

/// What is held, by when it must be gone at the latest.
#[derive(Debug, Default)]
pub struct Due {
    limits: BTreeSet<(Time, Receipt)>,
    /// The limits of those whose deadline came before the run began.
    late: BTreeMap<Receipt, Time>,
}

impl Due {
    /// Something is held that has a deadline. Nothing changes if it was held before.
    pub fn keep(&mut self, receipt: Receipt, deadline: Time) {
        self.limits.insert((self.limit(&receipt, deadline), receipt));
    }

    /// It is not held any more.
    pub fn gone(&mut self, receipt: &Receipt, deadline: Time) {
        let limit = self.limit(receipt, deadline);
        self.limits.remove(&(limit, *receipt));
        self.late.remove(receipt);
    }

    fn limit(&self, receipt: &Receipt, deadline: Time) -> Time {
        self.late.get(receipt).copied().unwrap_or_else(|| plus(deadline, SWEEP_SECONDS))
    }

    /// A run began, and the one before had ended. This is what is held now.
    pub fn begin_run(&mut self, ended: Time, began: Time, held: impl IntoIterator<Item = (Receipt, Time)>) {
        let before = std::mem::take(self);
        for (receipt, deadline) in held {
            if deadline < began {
                let limit = before.limit(&receipt, deadline);
                // What has outlived its limit was found to have, and begins anew.
                let was_due = deadline < ended && before.limits.contains(&(limit, receipt));
                let left = if was_due { limit.unix().saturating_sub(ended.unix()) } else { SWEEP_SECONDS };
                self.late.insert(receipt, plus(began, left));
            }
            self.keep(receipt, deadline);
        }
    }

    /// Something that should be gone by now, if there is anything. It is said once.
    pub fn take_overdue(&mut self, now: Time) -> Option<Receipt> {
        let (limit, receipt) = self.limits.first().copied().filter(|(limit, _)| *limit < now)?;
        self.limits.remove(&(limit, receipt));
        Some(receipt)
    }
}

const fn plus(time: Time, seconds: u64) -> Time {
    Time::from_unix(time.unix().saturating_add(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pilot_core::semantics::PolicyId;
    use pilot_core::vocabulary::{DeviceId, Id as _, ItemId};

    const DEADLINE: u64 = 1_000;

    fn at(seconds: u64) -> Time {
        Time::from_unix(seconds)
    }

    fn receipt() -> Receipt {
        let (item, sender, policy) = (ItemId::from_index(0), DeviceId::from_index(0), PolicyId::from_index(0));
        Receipt { item, sender, policy }
    }

    /// When something is found to be held for too long, if it is not erased and the device runs at these times.
    fn found(runs: &[(u64, u64)]) -> Option<u64> {
        let (mut due, mut ended) = (Due::default(), 0);
        for (began, end) in runs {
            due.begin_run(at(ended), at(*began), [(receipt(), at(DEADLINE))]);
            if let Some(found) = (*began..=*end).find(|now| due.take_overdue(at(*now)).is_some()) {
                return Some(found);
            }
            ended = *end;
        }
        None
    }

    #[test]
    fn a_minute_is_enough() {
        assert_eq!(found(&[(0, DEADLINE + 60)]), None);
        assert_eq!(found(&[(0, 2_000)]), Some(DEADLINE + 61));
    }

    #[test]
    fn a_device_that_was_off_has_it_from_its_start_on() {
        assert_eq!(found(&[(0, 500), (5_000, 5_060)]), None);
        assert_eq!(found(&[(0, 500), (5_000, 6_000)]), Some(5_061));
    }

    /// Those who start again and again have it once.
    #[test]
    fn the_minute_is_given_once() {
        assert_eq!(found(&[(0, DEADLINE + 50), (1_100, 1_110)]), None);
        assert_eq!(found(&[(0, DEADLINE + 50), (1_100, 1_111)]), Some(1_111));
        let restless: Vec<(u64, u64)> = (0..100).map(|run| (run * 50, run * 50 + 49)).collect();
        assert_eq!(found(&restless), Some(DEADLINE + 62));
    }

    /// What is gone is not missed, and what comes again has its time.
    #[test]
    fn what_is_gone_is_not_missed() {
        let mut due = Due::default();
        due.begin_run(at(0), at(5_000), [(receipt(), at(DEADLINE))]);
        due.gone(&receipt(), at(DEADLINE));
        assert_eq!(due.take_overdue(at(9_000)), None);
        due.keep(receipt(), at(10_000));
        assert_eq!(due.take_overdue(at(10_060)), None);
        assert_eq!(due.take_overdue(at(10_061)), Some(receipt()));
        assert_eq!(due.take_overdue(at(10_061)), None);
    }
}
