//! The three bytes of an epoch that a frame has room for, and which epoch they mean.

use pilot_core::semantics::Epoch;
use pilot_core::value::Time;

/// How many epochs there are before the three bytes repeat: about 34 years.
const CYCLE: u32 = 1 << 24;

/// An epoch modulo 2²⁴.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ShortEpoch(u32);

impl ShortEpoch {
    /// What of an epoch fits into a frame.
    pub const fn of(epoch: Epoch) -> Self {
        Self((epoch.0 % CYCLE as u64) as u32)
    }

    /// Big-endian.
    pub const fn to_bytes(self) -> [u8; 3] {
        let [_, high, middle, low] = self.0.to_be_bytes();
        [high, middle, low]
    }

    /// The inverse of [`Self::to_bytes`].
    pub const fn from_bytes([high, middle, low]: [u8; 3]) -> Self {
        Self(u32::from_be_bytes([0, high, middle, low]))
    }

    /// Of all epochs these bytes can mean, the one nearest to `now`; of two equally near ones, the earlier.
    ///
    /// `None` if that would be before 1970: a clock that says so is not set.
    pub fn nearest(self, now: Epoch) -> Option<Epoch> {
        let ahead = self.0.wrapping_sub(Self::of(now).0) % CYCLE;
        if ahead < CYCLE / 2 {
            now.0.checked_add(u64::from(ahead)).map(Epoch)
        } else {
            now.0.checked_sub(u64::from(CYCLE - ahead)).map(Epoch)
        }
    }

    /// The epoch these bytes mean, if a frame of it is accepted at `now`: within ±[`Epoch::WINDOW`].
    pub fn fresh_at(self, now: Time) -> Option<Epoch> {
        self.nearest(Epoch::of(now)).filter(|epoch| epoch.is_fresh_at(now))
    }
}
