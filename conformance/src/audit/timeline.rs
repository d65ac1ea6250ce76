//! When things happened, in as many points as fit into a picture.

use std::collections::BTreeMap;

use pilot_core::value::Time;

use super::report::{MAX_TIMELINE, Moment};

/// Counts by time. When there are too many points, each becomes twice as long.
#[derive(Debug)]
pub struct Timeline {
    seconds: u64,
    moments: BTreeMap<u64, Moment>,
    /// The moment that was counted last.
    last: (u64, Moment),
}

impl Default for Timeline {
    fn default() -> Self {
        Self { seconds: 1, moments: BTreeMap::new(), last: (0, Moment::default()) }
    }
}

impl Timeline {
    /// A step, and how many items were accepted and erased by it.
    pub fn step(&mut self, time: Time, accepted: u64, erased: u64) {
        let moment = self.at(time);
        moment.steps += 1;
        moment.accepted += accepted;
        moment.erased += erased;
    }

    /// A finding.
    pub fn finding(&mut self, time: Time) {
        self.at(time).findings += 1;
    }

    /// Adds what another one has counted.
    pub fn join(&mut self, mut other: Self) {
        self.put_back();
        other.put_back();
        while other.seconds < self.seconds {
            other.double();
        }
        while self.seconds < other.seconds {
            self.double();
        }
        for (place, moment) in other.moments {
            add(self.moments.entry(place).or_default(), &moment);
        }
        self.shorten();
    }

    /// All of it, in order.
    pub fn finish(mut self) -> Vec<Moment> {
        self.put_back();
        let seconds = self.seconds;
        let moment = |(place, moment): (u64, Moment)| Moment {
            from: Time::from_unix(place.saturating_mul(seconds)),
            seconds,
            ..moment
        };
        self.moments.into_iter().map(moment).collect()
    }

    /// Most things happen where the last one did.
    fn at(&mut self, time: Time) -> &mut Moment {
        let place = time.unix() / self.seconds;
        if self.last.0 != place {
            self.put_back();
            self.last = (time.unix() / self.seconds, Moment::default());
        }
        &mut self.last.1
    }

    fn put_back(&mut self) {
        let (place, moment) = std::mem::take(&mut self.last);
        if moment != Moment::default() {
            add(self.moments.entry(place).or_default(), &moment);
        }
        self.shorten();
    }

    fn shorten(&mut self) {
        while self.moments.len() >= MAX_TIMELINE {
            self.double();
        }
    }

    fn double(&mut self) {
        self.seconds = self.seconds.saturating_mul(2);
        for (place, moment) in std::mem::take(&mut self.moments) {
            add(self.moments.entry(place / 2).or_default(), &moment);
        }
    }
}

fn add(sum: &mut Moment, moment: &Moment) {
    sum.steps += moment.steps;
    sum.accepted += moment.accepted;
    sum.erased += moment.erased;
    sum.findings += moment.findings;
}
