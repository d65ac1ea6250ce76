//! The physics: who is near enough to hear whom, and which frames get lost, doubled or delayed on the way.
//!
//! What happens to a frame depends on nothing but the seed, the two addresses and the frame's number: not on the order in which
//! processes run. Runs with equal seeds have equal luck.

use std::time::Duration;

use sha2::{Digest as _, Sha256};

use crate::air::Address;

/// No frame is later than this; who asks for more gets this.
pub const MAX_LATENESS: Duration = Duration::from_secs(3_600);

/// A place on the plane, in centimetres.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    /// Centimetres to the east.
    pub east: i32,
    /// Centimetres to the north.
    pub north: i32,
}

impl Position {
    fn squared_distance(self, other: Self) -> u128 {
        let square = |length: u32| u128::from(length) * u128::from(length);
        square(self.east.abs_diff(other.east)) + square(self.north.abs_diff(other.north))
    }
}

/// How many of a thousand, at random.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct PerMille(u16);

impl PerMille {
    /// None of them.
    pub const NEVER: Self = Self(0);

    /// So many; `None` if that is more than a thousand.
    pub const fn new(of_a_thousand: u16) -> Option<Self> {
        if of_a_thousand <= 1_000 { Some(Self(of_a_thousand)) } else { None }
    }

    /// Whether `roll`, evenly spread over all numbers, is one of them.
    fn takes(self, roll: u64) -> bool {
        let of_a_thousand = (u128::from(roll) * 1_000) >> 64;
        of_a_thousand < u128::from(self.0)
    }
}

/// What the air does to frames. The default does nothing to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct World {
    /// Decides all that is left to chance.
    pub seed: u64,
    /// How far a frame is heard, in centimetres; `None` is everywhere.
    pub range: Option<u32>,
    /// How many frames are lost, for each listener by itself.
    pub loss: PerMille,
    /// How many of the others are heard twice.
    pub duplication: PerMille,
    /// How many of those that are heard, or heard again, come later, and so perhaps out of order.
    pub delay: PerMille,
    /// How much later; at most [`MAX_LATENESS`].
    pub lateness: Duration,
}

/// When a copy of a frame arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// At once.
    Now,
    /// After the world's lateness.
    Late,
}

impl World {
    /// Whether what is said in one place is heard in the other.
    pub fn reaches(&self, from: Position, to: Position) -> bool {
        let within = |range| from.squared_distance(to) <= u128::from(range) * u128::from(range);
        self.range.is_none_or(within)
    }

    /// The copies of one frame that arrive: none if it is lost.
    pub fn arrivals(&self, sender: Address, receiver: Address, number: u64) -> impl Iterator<Item = Arrival> {
        let mut hash = Sha256::new();
        hash.update(self.seed.to_be_bytes());
        hash.update(sender.reveal());
        hash.update(receiver.reveal());
        hash.update(number.to_be_bytes());
        let digest: [u8; 32] = hash.finalize().into();
        let (rolls, _) = digest.as_chunks::<8>();
        let mut rolls = rolls.iter().map(|roll| u64::from_be_bytes(*roll));
        let mut takes = |share: PerMille| rolls.next().is_some_and(|roll| share.takes(roll));

        let (is_lost, is_doubled) = (takes(self.loss), takes(self.duplication));
        let mut arrival = || if takes(self.delay) { Arrival::Late } else { Arrival::Now };
        let first = (!is_lost).then(&mut arrival);
        let second = (!is_lost && is_doubled).then(arrival);
        first.into_iter().chain(second)
    }
}

/// How strong a signal arrives, in dBm: −59 at one metre, six less for each doubling of the distance.
pub fn signal_strength(from: Position, to: Position) -> i8 {
    let metres = (from.squared_distance(to) as f64).sqrt() / 100.0;
    let strength = -59.0 - 20.0 * metres.max(0.1).log10();
    // What a Bluetooth controller can report.
    strength.clamp(-127.0, 20.0) as i8
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: Address = Address::new([2, 0, 0, 0, 0, 1]);
    const MALL: Address = Address::new([2, 0, 0, 0, 0, 2]);

    fn half(seed: u64) -> World {
        let half = PerMille::new(500).unwrap();
        World { seed, loss: half, duplication: half, delay: half, ..World::default() }
    }

    fn fates(world: World, sender: Address, receiver: Address) -> Vec<Vec<Arrival>> {
        (0..10_000).map(|number| world.arrivals(sender, receiver, number).collect()).collect()
    }

    #[test]
    fn equal_seeds_have_equal_luck_and_others_have_not() {
        let fate = fates(half(7), ALICE, MALL);
        assert_eq!(fate, fates(half(7), ALICE, MALL));
        assert_ne!(fate, fates(half(8), ALICE, MALL));
        // Each listener has its own luck, and each direction.
        assert_ne!(fate, fates(half(7), ALICE, Address::new([2, 0, 0, 0, 0, 3])));
        assert_ne!(fate, fates(half(7), MALL, ALICE));
    }

    /// Half are lost, half of the rest are doubled, and half of what arrives is late: within four standard deviations.
    #[test]
    fn shares_are_what_they_say() {
        let fate = fates(half(7), ALICE, MALL);
        let with = |copies| fate.iter().filter(|fate| fate.len() == copies).count();
        let late = fate.iter().flatten().filter(|arrival| **arrival == Arrival::Late).count();
        assert!(with(0).abs_diff(5_000) < 200, "{} lost", with(0));
        assert!(with(1).abs_diff(2_500) < 175, "{} once", with(1));
        assert!(with(2).abs_diff(2_500) < 175, "{} twice", with(2));
        assert!(late.abs_diff(3_750) < 200, "{late} late");
    }

    #[test]
    fn nothing_never_happens_and_everything_always_does() {
        let always = PerMille::new(1_000).unwrap();
        assert_eq!(PerMille::new(1_001), None);
        for number in 0..1_000 {
            let arrivals = |world: World| world.arrivals(ALICE, MALL, number).collect::<Vec<_>>();
            assert_eq!(arrivals(World::default()), [Arrival::Now]);
            assert_eq!(arrivals(World { loss: always, duplication: always, ..World::default() }), []);
            let all = World { duplication: always, delay: always, ..World::default() };
            assert_eq!(arrivals(all), [Arrival::Late, Arrival::Late]);
        }
    }

    #[test]
    fn range_ends_where_it_says() {
        let world = World { range: Some(500), ..World::default() };
        let origin = Position::default();
        assert!(world.reaches(origin, Position { east: 300, north: -400 }));
        assert!(!world.reaches(origin, Position { east: 301, north: -400 }));
        let (west, east) = (Position { east: i32::MIN, north: i32::MIN }, Position { east: i32::MAX, north: i32::MAX });
        assert!(!world.reaches(west, east));
        assert!(World::default().reaches(west, east));
    }

    #[test]
    fn signals_get_weaker() {
        let at = |east| signal_strength(Position::default(), Position { east, north: 0 });
        assert_eq!([at(0), at(100), at(1_000), at(10_000), at(i32::MAX)], [-39, -59, -79, -99, -127]);
    }
}
