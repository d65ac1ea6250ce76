//! What advertisements are fuzzed with: from the bytes on the air to the verdict of the filter. Nothing may panic, be
//! stored, or be let through that the guards refuse.
//!
//! Run by a seeded generator in `advertisements.rs`, and by cargo-fuzz for as long as one likes (`fuzz/`).

use std::time::Duration;

use dc_gateway::filter::{Filter, Verdict};
use mesh_runtime::air::advertisement::{AdvertisementError, find};
use mesh_runtime::air::bluez::ear::{Ear, Neighbour, Turn};
use mesh_runtime::air::frame::{ControllerTag, Frame, Header};
use mesh_runtime::air::{Address, AddressKind, Carrier, Sighting};
use pilot_core::codec::Digest;
use pilot_core::evidence::trace::Reason;
use pilot_core::semantics::Epoch;
use pilot_core::value::Time;

pub const CARRIER: Carrier = Carrier::Manufacturer(0xffff);
pub const TAG: ControllerTag = ControllerTag(*b"mall");
/// The bytes of a policy that is published. (The filter does not read policies.)
pub const POLICY: [u8; 40] = [7; 40];
/// Another policy that is published.
pub const OTHER: Digest = Digest([9; 32]);
/// Whose item is held already, under the first.
pub const HELD: Address = Address::new([2, 0, 0, 0, 0, 1]);

/// What became of an advertisement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// No advertisement, or none with a frame in it.
    Broken,
    Foreign,
    /// Its address says too much.
    Limited,
    NotAFrame,
    NotAddressed,
    PolicyNotOurs,
    NotFresh,
    AlreadyHeld,
    /// The graph would be asked.
    Judged,
}

/// A controller that listens.
pub struct Gate {
    filter: Filter,
    ear: Ear,
    /// The ear's time: two hundred advertisements in a second.
    heard: u32,
    policy: Digest,
}

impl Default for Gate {
    fn default() -> Self {
        let policy = digest();
        let mut filter = Filter::new(TAG);
        filter.publish([policy, OTHER]).expect("two policies that begin differently");
        filter.hold(HELD, AddressKind::Public, policy, None);
        Self { filter, ear: Ear::default(), heard: 0, policy }
    }
}

/// Of [`POLICY`].
pub fn digest() -> Digest {
    let frame = Frame::extended(TAG, &POLICY, Epoch(0)).expect("it fits");
    frame.policy().expect("it was given one").digest()
}

impl Gate {
    /// From the air to the verdict.
    pub fn hear(&mut self, advertisement: &[u8], address: Address, now: Time) -> Fate {
        let frame = match find(CARRIER, advertisement) {
            Ok(Some(frame)) => frame,
            Ok(None) => return Fate::Foreign,
            Err(
                AdvertisementError::TooLong(_)
                | AdvertisementError::CutOff { .. }
                | AdvertisementError::Twice
                | AdvertisementError::NoFrame(_),
            ) => return Fate::Broken,
        };
        self.heard = self.heard.wrapping_add(1);
        match self.ear.turn(address, Duration::from_millis(5) * self.heard) {
            Turn::Limited => return Fate::Limited,
            Turn::Stranger => self.ear.meet(address, Neighbour { kind: AddressKind::Public, rssi: None }),
            Turn::Known(_) => {}
        }
        let sighting = Sighting { address, address_kind: AddressKind::Public, rssi: None, frame, time: now };
        match self.filter.look(&sighting, now) {
            Verdict::NotAFrame(_) => {
                assert!(Frame::decode(frame.as_slice()).is_err());
                Fate::NotAFrame
            }
            Verdict::Refused(reason) => self.refused(reason, &sighting, now),
            Verdict::Judge(candidate) => {
                let header = *candidate.frame.header();
                assert_eq!(header.controller, TAG);
                assert!([self.policy, OTHER].contains(&candidate.policy));
                assert!(address != HELD || candidate.policy != self.policy);
                assert_eq!(Some(candidate.epoch), meant(&header, now));
                assert!(candidate.frame.policy().is_none_or(|carried| carried.digest() == candidate.policy));
                Fate::Judged
            }
        }
    }

    fn refused(&self, reason: Reason, sighting: &Sighting, now: Time) -> Fate {
        let header = Header::decode(sighting.frame.as_slice()).expect("only frames are refused by guards");
        match reason {
            Reason::NotAddressed => {
                assert_ne!(header.controller, TAG);
                Fate::NotAddressed
            }
            Reason::PolicyNotOurs => Fate::PolicyNotOurs,
            Reason::NotFresh => {
                assert_eq!(meant(&header, now), None);
                Fate::NotFresh
            }
            Reason::AlreadyHeld => {
                assert_eq!(sighting.address, HELD);
                Fate::AlreadyHeld
            }
            other => unreachable!("the filter does not know {other:?}"),
        }
    }
}

/// Which epoch a frame means, straight from the definition: the one in the window that ends with these three bytes.
fn meant(header: &Header, now: Time) -> Option<Epoch> {
    let present = Epoch::of(now).0;
    let window = present.saturating_sub(Epoch::WINDOW)..=present.saturating_add(Epoch::WINDOW);
    let [high, middle, low] = header.epoch.to_bytes();
    window.map(Epoch).find(|epoch| epoch.0 % (1 << 24) == u64::from(u32::from_be_bytes([0, high, middle, low])))
}
