//! How long a frame can be: what BlueZ and the controller offer together.
//!
//! A legacy frame always fits. A longer one needs extended advertising of the controller, and a BlueZ that neither refuses
//! it over D-Bus nor drops it on the way in: 5.76 is the first. BlueZ has no property for its version, but its *modalias*
//! ends with it unless somebody has configured another.

use std::fmt;

use crate::air::frame::{LEGACY_FRAME_BYTES, MAX_FRAME_BYTES};

/// What an advertisement has besides a frame: three bytes of flags, four before the data.
const OVERHEAD: usize = 7;

/// The longest advertisement that arrives. A controller reports what it hears in pieces of 229 bytes, and Linux (6.12) drops
/// what comes in several.
///
/// Nobody should try 245: BlueZ has a count of one byte (`param_len` in advertising.c, as of 5.82) for 11 bytes of request and
/// the advertisement; what is longer is written where there is no memory for it, and bluetoothd ends.
const MAX_ADVERTISEMENT: usize = 229;

/// The vendor and product of BlueZ itself: the Linux Foundation, "Bluetooth stack".
const BLUEZ: (u32, u32) = (0x1d6b, 0x0246);

/// The first version with long advertisements in both directions.
pub const FIRST_EXTENDED: Version = Version { major: 5, minor: 76 };

/// A version of BlueZ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// 5, for years.
    pub major: u8,
    /// What changes.
    pub minor: u8,
}

impl Version {
    /// From the parts of an adapter's modalias; `None` if they are not BlueZ's own.
    pub fn of(vendor: u32, product: u32, device: u32) -> Option<Self> {
        let [major, minor] = u16::try_from(device).ok()?.to_be_bytes();
        ((vendor, product) == BLUEZ).then_some(Self { major, minor })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.major, self.minor)
    }
}

/// What is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// BlueZ's version, if it says so.
    pub version: Option<Version>,
    /// Whether there are secondary channels, on which long advertisements go.
    pub has_secondary_channel: bool,
    /// The longest advertisement, if BlueZ says so. It does not if the controller cannot say how strong it sends.
    pub longest: Option<u8>,
}

/// Why nothing longer than a legacy frame is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Declined {
    /// See [`FIRST_EXTENDED`].
    #[error("BlueZ {0} is older than {FIRST_EXTENDED}, the first that takes long advertisements")]
    OldBluez(Version),
    /// Its modalias is not its own.
    #[error("BlueZ does not say its version (DeviceID in its configuration is not its own)")]
    UnknownBluez,
    /// Bluetooth 4.
    #[error("the controller has no extended advertising")]
    OldController,
    /// The call fails, or the answer has no length.
    #[error("BlueZ does not say how long advertisements can be")]
    UnknownLength,
    /// Not longer than legacy ones.
    #[error("advertisements have at most {0} bytes")]
    Short(u8),
}

impl Offer {
    /// How many bytes a frame can have, or why only [`LEGACY_FRAME_BYTES`].
    pub fn room(&self) -> Result<usize, Declined> {
        let version = self.version.ok_or(Declined::UnknownBluez)?;
        if version < FIRST_EXTENDED {
            return Err(Declined::OldBluez(version));
        }
        if !self.has_secondary_channel {
            return Err(Declined::OldController);
        }
        let longest = self.longest.ok_or(Declined::UnknownLength)?;
        let longest_heard = usize::from(longest).min(MAX_ADVERTISEMENT);
        let room = longest_heard.saturating_sub(OVERHEAD).min(MAX_FRAME_BYTES);
        if room > LEGACY_FRAME_BYTES { Ok(room) } else { Err(Declined::Short(longest)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODERN: Offer =
        Offer { version: Some(Version { major: 5, minor: 82 }), has_secondary_channel: true, longest: Some(251) };

    #[test]
    fn long_frames_need_all_of_it() {
        assert_eq!(MODERN.room(), Ok(222));
        assert_eq!(Offer { version: Some(FIRST_EXTENDED), ..MODERN }.room(), Ok(222));
        assert_eq!(Offer { longest: Some(100), ..MODERN }.room(), Ok(93));
        let old = Version { major: 5, minor: 66 };
        for (offer, declined) in [
            (Offer { version: Some(old), ..MODERN }, Declined::OldBluez(old)),
            (Offer { version: None, ..MODERN }, Declined::UnknownBluez),
            (Offer { has_secondary_channel: false, ..MODERN }, Declined::OldController),
            (Offer { longest: None, ..MODERN }, Declined::UnknownLength),
            (Offer { longest: Some(31), ..MODERN }, Declined::Short(31)),
            (Offer { longest: Some(0), ..MODERN }, Declined::Short(0)),
        ] {
            assert_eq!(offer.room(), Err(declined));
        }
    }

    /// Reference: `usb:v1D6Bp0246d0542` is what BlueZ 5.66 says.
    #[test]
    fn a_modalias_has_the_version() {
        assert_eq!(Version::of(0x1d6b, 0x0246, 0x0542), Some(Version { major: 5, minor: 66 }));
        assert_eq!(Version::of(0x1d6b, 0x0247, 0x0542), None);
        assert_eq!(Version::of(0x1d6b, 0x0246, 0x1_0542), None);
    }
}
