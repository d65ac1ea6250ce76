//! Ten million bad advertisements: nothing panics, nothing is stored, and every way to be refused is taken.

use std::collections::BTreeMap;

use ed25519_dalek::SigningKey;
use mesh_runtime::air::frame::{ControllerTag, Frame, ShortEpoch};
use mesh_runtime::air::{Address, FrameBytes};
use pilot_core::semantics::Epoch;
use pilot_core::value::Time;

use super::fuzz_body::{Fate, Gate, HELD, OTHER, POLICY, TAG, digest};

const SEED: u64 = 7;
/// How many are tried; `ADVERTISEMENTS` in the environment says otherwise.
const USUAL: u64 = 10_000_000;

/// Makes advertisements that are almost right.
struct Strangers {
    chance: fastrand::Rng,
    signed: Vec<FrameBytes>,
}

impl Strangers {
    fn new(seed: u64) -> Self {
        let key = SigningKey::from_bytes(&[7; 32]);
        let signed = (0..8).map(|epoch| Frame::signed(TAG, &POLICY, Epoch(epoch), HELD, &key).unwrap().encode());
        Self { chance: fastrand::Rng::with_seed(seed), signed: signed.collect() }
    }

    /// Often the turn of the three bytes of an epoch, and otherwise any time at all.
    fn now(&mut self) -> Time {
        const TURN: u64 = (1 << 24) * Epoch::SECONDS;
        let near = |chance: &mut fastrand::Rng| chance.u64(0..20 * Epoch::SECONDS);
        Time::from_unix(match self.chance.u8(0..8) {
            0 => self.chance.u64(..),
            1 => near(&mut self.chance),
            2 => u64::MAX - near(&mut self.chance),
            3 | 4 => (2 * TURN).saturating_add(near(&mut self.chance)) - 10 * Epoch::SECONDS,
            _ => 1_893_456_000 + near(&mut self.chance),
        })
    }

    fn epoch(&mut self, now: Time) -> Epoch {
        let present = Epoch::of(now).0;
        Epoch(match self.chance.u8(0..8) {
            0 => self.chance.u64(..),
            1 => present.wrapping_add(1 << 24),
            2 => present.saturating_add(self.chance.u64(0..5)),
            _ => present.saturating_sub(self.chance.u64(0..5)),
        })
    }

    fn frame(&mut self, now: Time) -> Vec<u8> {
        // Tags and digests that begin like ours.
        let tag = [TAG, TAG, TAG, TAG, ControllerTag(*b"malm")][self.chance.usize(0..5)];
        let mut policy = digest();
        match self.chance.u8(0..6) {
            0 => policy.0[31] ^= 1,
            1 => policy.0[15] ^= 1,
            2 => policy = OTHER,
            _ => {}
        }
        let epoch = self.epoch(now);
        match self.chance.u8(0..8) {
            0 => vec![self.chance.u8(..); self.chance.usize(0..260)],
            1 => Frame::extended(tag, &POLICY, epoch).unwrap().encode().as_slice().to_vec(),
            2 => Frame::extended(tag, &[8; 220], epoch).unwrap().encode().as_slice().to_vec(),
            3 => {
                let mut signed = self.signed[self.chance.usize(0..8)].as_slice().to_vec();
                signed[21..24].copy_from_slice(&ShortEpoch::of(epoch).to_bytes());
                signed
            }
            _ => Frame::legacy(tag, policy, epoch).encode().as_slice().to_vec(),
        }
    }

    /// A frame among other things, and then something goes wrong.
    fn advertisement(&mut self, now: Time) -> Vec<u8> {
        let mut bytes = vec![2, 1, 6];
        if self.chance.u8(0..4) == 0 {
            let length = self.chance.usize(0..20);
            self.structure(&mut bytes, 0x4c, &vec![3; length]);
        }
        let frame = self.frame(now);
        self.structure(&mut bytes, 0xffff, &frame);
        match self.chance.u8(0..16) {
            0 => bytes.truncate(self.chance.usize(0..bytes.len())),
            1 => {
                let at = self.chance.usize(0..bytes.len());
                bytes[at] ^= 1 << self.chance.u8(0..8);
            }
            // A length that is not so.
            2 => bytes[3] = self.chance.u8(..),
            3 => bytes.extend_from_slice(&bytes.clone()),
            4 => bytes.resize(self.chance.usize(bytes.len()..2_000), 0),
            5 => bytes.resize(self.chance.usize(bytes.len()..300), self.chance.u8(..)),
            6 => {
                let length = self.chance.usize(0..64);
                return std::iter::repeat_with(|| self.chance.u8(..)).take(length).collect();
            }
            _ => {}
        }
        bytes
    }

    fn structure(&self, bytes: &mut Vec<u8>, company: u16, data: &[u8]) {
        bytes.extend([(data.len() + 3) as u8, 0xff]);
        bytes.extend(company.to_le_bytes());
        bytes.extend(data);
    }

    /// Most are new, some are one that is held, or one that says too much.
    fn address(&mut self) -> Address {
        match self.chance.u8(0..16) {
            0 => HELD,
            1..5 => Address::new([0x66; 6]),
            _ => Address::new(std::array::from_fn(|_| self.chance.u8(..))),
        }
    }
}

#[test]
fn bad_advertisements_do_no_harm() {
    let count = std::env::var("ADVERTISEMENTS").ok().map_or(USUAL, |count| count.parse().unwrap());
    let (mut strangers, mut gate) = (Strangers::new(SEED), Gate::default());
    let mut fates = BTreeMap::<Fate, u64>::new();
    for _ in 0..count {
        let (now, address) = (strangers.now(), strangers.address());
        let advertisement = strangers.advertisement(now);
        *fates.entry(gate.hear(&advertisement, address, now)).or_default() += 1;
    }
    println!("seed {SEED}: {fates:?}");
    assert_eq!(fates.len(), 9, "every fate: {fates:?}");
}

/// A flood of addresses that nobody has heard before costs no memory: neither in the ear nor in the filter.
#[test]
fn a_million_strangers_cost_nothing() {
    let mut gate = Gate::default();
    let now = Time::from_unix(1_893_456_000);
    let mut advertisement = vec![27, 0xff, 0xff, 0xff];
    advertisement.extend(Frame::legacy(ControllerTag(*b"shop"), digest(), Epoch::of(now)).encode().as_slice());
    let mut hear = |numbers: std::ops::Range<u64>| {
        for number in numbers {
            let [_, _, bytes @ ..] = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            let at = Time::from_unix(now.unix() + number / 10_000);
            gate.hear(&advertisement, Address::new(bytes), at);
        }
    };
    hear(0..1_000);
    let flood = allocation_counter::measure(|| hear(1_000..1_000_000));
    assert_eq!((flood.count_total, flood.bytes_total), (0, 0));
}
