//! What of all that BlueZ reports is a sighting: fresh, of a length that frames have, and not more than an address needs
//! to say.
//!
//! This is the bookkeeping of the listener, without radio or D-Bus, so that a million addresses cost a test no more than
//! they cost a gateway. **No address is kept.** There are [`SLOTS`] places, an address belongs to one of them by a hash under a key
//! that the process has made up, and what is remembered there is how much was heard lately, and of the last address the
//! kind, under another part of the hash. Addresses that share a place share its limit.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::time::Duration;

use crate::air::bytes::FrameBytes;
use crate::air::{Address, AddressKind};

/// How many places there are: 64 KiB, whatever is heard.
pub const SLOTS: usize = 4_096;
/// How many sightings of one address are let through per second. An advertiser repeats its frame ten times in a second.
pub const MAX_SIGHTINGS_PER_SECOND: u32 = 32;
/// How many at once, after a silence.
pub const MAX_SIGHTINGS_AT_ONCE: u32 = 64;

/// What is known of whoever was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbour {
    /// What sort of address it has.
    pub kind: AddressKind,
    /// How strong its signal was when it was last measured.
    pub rssi: Option<i8>,
}

/// What is to be done about a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Nothing: that address has said enough in this second.
    Limited,
    /// BlueZ must be asked what sort of address it is; then [`Ear::meet`].
    Stranger,
    /// It was heard a moment ago.
    Known(Neighbour),
}

/// What data is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "it lives for one look, and a box would be an allocation")]
pub enum Data {
    /// Perhaps a frame.
    Frame(FrameBytes),
    /// Longer than any frame.
    TooLong,
    /// Remembered from before: BlueZ keeps the data of devices that it has not heard for a while, and a new listener finds
    /// it there. What it hears now has a signal strength.
    Stale,
}

impl Data {
    /// Of a device that BlueZ has just shown for the first time.
    pub fn of_first(data: &[u8], rssi: Option<i8>) -> Self {
        if rssi.is_none() { Self::Stale } else { Self::of_change(data) }
    }

    /// That BlueZ has just reported as heard.
    pub fn of_change(data: &[u8]) -> Self {
        FrameBytes::new(data).map_or(Self::TooLong, Self::Frame)
    }
}

/// See the [module](self).
#[derive(Debug)]
pub struct Ear {
    key: RandomState,
    slots: Box<[Slot]>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    /// The rest of the hash of the last address that was met here.
    tag: u32,
    neighbour: Option<Neighbour>,
    /// How much of [`MAX_SIGHTINGS_AT_ONCE`] is used up, in thousandths of a sighting, and when that was, in milliseconds.
    used: u32,
    at: u32,
}

impl Default for Ear {
    fn default() -> Self {
        Self { key: RandomState::new(), slots: vec![Slot::default(); SLOTS].into() }
    }
}

impl Ear {
    /// An address has something to say, at a moment since some beginning.
    pub fn turn(&mut self, address: Address, now: Duration) -> Turn {
        let Some((slot, tag)) = self.slot(address) else { return Turn::Limited };
        // It wraps after 49 days, and so does the difference.
        let now = now.as_millis() as u32;
        let regained = now.wrapping_sub(slot.at).saturating_mul(MAX_SIGHTINGS_PER_SECOND);
        slot.used = slot.used.saturating_sub(regained);
        slot.at = now;
        if slot.used.saturating_add(COST) > MAX_SIGHTINGS_AT_ONCE * COST {
            return Turn::Limited;
        }
        slot.used += COST;
        slot.neighbour.filter(|_| slot.tag == tag).map_or(Turn::Stranger, Turn::Known)
    }

    /// BlueZ has said who it is.
    pub fn meet(&mut self, address: Address, neighbour: Neighbour) {
        if let Some((slot, tag)) = self.slot(address) {
            (slot.tag, slot.neighbour) = (tag, Some(neighbour));
        }
    }

    /// A signal was measured. Of strangers it is not remembered.
    pub fn measure(&mut self, address: Address, rssi: i8) {
        if let Some((slot, tag)) = self.slot(address)
            && slot.tag == tag
            && let Some(neighbour) = &mut slot.neighbour
        {
            neighbour.rssi = Some(rssi);
        }
    }

    /// Nobody is known any more: what follows is from another adapter, or from another bluetoothd.
    pub fn forget(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.neighbour = None);
    }

    /// Always somewhere; the place and the part of the hash that tells its addresses apart.
    fn slot(&mut self, address: Address) -> Option<(&mut Slot, u32)> {
        let hash = self.key.hash_one(address);
        let slot = self.slots.get_mut(hash as usize % SLOTS)?;
        Some((slot, (hash >> 32) as u32))
    }
}

/// One sighting, in the unit of [`Slot::used`].
const COST: u32 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: Address = Address::new([0, 1, 2, 3, 4, 5]);
    const NEAR: Neighbour = Neighbour { kind: AddressKind::Public, rssi: Some(-40) };

    fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// How many of so many reports per second, over ten seconds, are let through.
    fn passed(ear: &mut Ear, per_second: u64) -> u32 {
        let turns = (0..10 * per_second).map(|number| ear.turn(ALICE, at(60_000 + number * 1_000 / per_second)));
        turns.filter(|turn| *turn != Turn::Limited).count() as u32
    }

    #[test]
    fn who_says_too_much_is_not_heard_out() {
        assert_eq!(passed(&mut Ear::default(), 10), 100, "as fast as anybody advertises");
        let flood = passed(&mut Ear::default(), 1_000);
        let most = MAX_SIGHTINGS_AT_ONCE + 10 * MAX_SIGHTINGS_PER_SECOND;
        assert!((most - 2..=most).contains(&flood), "{flood}");
        let mut ear = Ear::default();
        passed(&mut ear, 1_000);
        assert_ne!(ear.turn(ALICE, at(72_000)), Turn::Limited, "after a silence");
        // Time that wraps, or that the caller got wrong, ends no limit for ever.
        assert_ne!(ear.turn(ALICE, at(u64::from(u32::MAX) + 90_000)), Turn::Limited);
    }

    #[test]
    fn neighbours_are_known_until_forgotten() {
        let mut ear = Ear::default();
        assert_eq!(ear.turn(ALICE, at(0)), Turn::Stranger);
        ear.measure(ALICE, -70);
        assert_eq!(ear.turn(ALICE, at(1)), Turn::Stranger, "not by its signal");
        ear.meet(ALICE, NEAR);
        ear.measure(ALICE, -50);
        assert_eq!(ear.turn(ALICE, at(2)), Turn::Known(Neighbour { rssi: Some(-50), ..NEAR }));
        ear.forget();
        assert_eq!(ear.turn(ALICE, at(3)), Turn::Stranger);
    }

    #[test]
    fn what_is_remembered_from_before_is_stale() {
        let frame = FrameBytes::new(&[1, 2]).unwrap();
        assert_eq!(Data::of_first(&[1, 2], None), Data::Stale);
        assert_eq!(Data::of_first(&[1, 2], Some(-40)), Data::Frame(frame));
        assert_eq!(Data::of_change(&[1, 2]), Data::Frame(frame));
        assert_eq!(Data::of_change(&[0; 245]), Data::TooLong);
    }
}
