//! How many sightings one core can look at. The goal is two million per second, so one may take half a microsecond.
//!
//! `mix` is a busy place: nine in ten advertisements are somebody else's, of the frames most are for other controllers.
//! The rest is one sort of refusal each, in a filter that remembers as much as it can.

#![allow(missing_docs, reason = "criterion's macros")]
#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use dc_gateway::filter::{Filter, MAX_HELD, Verdict};
use ed25519_dalek::SigningKey;
use mesh_runtime::air::advertisement::find;
use mesh_runtime::air::frame::{ControllerTag, Frame, MAX_EXTENDED_POLICY_BYTES};
use mesh_runtime::air::{Address, AddressKind, Carrier, FrameBytes, Sighting};
use pilot_core::codec::Digest;
use pilot_core::evidence::trace::Reason;
use pilot_core::semantics::Epoch;
use pilot_core::value::Time;

const NOW: Time = Time::from_unix(1_893_456_000);
const MALL: ControllerTag = ControllerTag(*b"mall");
const SHOP: ControllerTag = ControllerTag(*b"shop");
const POLICY: [u8; 50] = [7; 50];
/// Sightings in one go: too many for the processor to learn by heart which is what.
const ROUND: u64 = 16_384;

/// Numbers without order, and the same ones each time.
fn scattered(number: u64) -> u64 {
    number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

fn address(number: u64) -> Address {
    let [.., a, b, c, d, e, f] = scattered(number).to_be_bytes();
    Address::new([a, b, c, d, e, f])
}

fn sighting(address: Address, frame: FrameBytes) -> Sighting {
    Sighting { address, address_kind: AddressKind::Random, rssi: Some(-60), frame, time: NOW }
}

fn policy() -> Digest {
    Frame::extended(MALL, &POLICY, Epoch::of(NOW)).unwrap().policy().unwrap().digest()
}

/// The sorts of advertisements that are refused.
#[derive(Clone, Copy)]
enum Sort {
    Foreign,
    ForAnother,
    OtherPolicy,
    Stale,
    Held,
    HeldSigned,
    /// Made to cost as much as possible: only the policy's hash says that it is no frame.
    Forged,
}

impl Sort {
    fn sighting(self, number: u64) -> Sighting {
        let (now, stale) = (Epoch::of(NOW), Epoch(Epoch::of(NOW).0 - 9));
        let held = address(scattered(number) % MAX_HELD as u64);
        let frame = match self {
            // Manufacturer data of phones and earphones: a company's own types, 10 to 27 bytes.
            Self::Foreign => {
                let bytes = [scattered(number).to_be_bytes(); 4].concat();
                let first = [0x10, 0x0f, 0x02, 0x4c, 0x07];
                let kind = first.get(number as usize % first.len()).unwrap();
                let length = 9 + number as usize % 18;
                FrameBytes::new(&[&[*kind], bytes.get(..length).unwrap()].concat()).unwrap()
            }
            Self::ForAnother => Frame::legacy(SHOP, policy(), now).encode(),
            Self::OtherPolicy => Frame::legacy(MALL, Digest([number as u8 | 0x80; 32]), now).encode(),
            Self::Stale => Frame::legacy(MALL, policy(), stale).encode(),
            Self::Held => Frame::legacy(MALL, policy(), now).encode(),
            Self::HeldSigned => {
                Frame::signed(MALL, &POLICY, now, held, &SigningKey::from_bytes(&[1; 32])).unwrap().encode()
            }
            Self::Forged => {
                let header = Frame::legacy(MALL, policy(), now).encode();
                let forged = [header.as_slice().get(1..).unwrap(), &[number as u8; MAX_EXTENDED_POLICY_BYTES]].concat();
                FrameBytes::new(&[&[0x12], forged.as_slice()].concat()).unwrap()
            }
        };
        let is_forged = matches!(self, Self::Forged);
        sighting(if is_forged { address(MAX_HELD as u64 + number) } else { held }, frame)
    }

    /// What a busy place sounds like.
    fn of_mix(number: u64) -> Self {
        match scattered(number) % 100 {
            0..90 => Self::Foreign,
            90..94 => Self::ForAnother,
            94 => Self::OtherPolicy,
            95 => Self::Stale,
            96..99 => Self::Held,
            _ => Self::HeldSigned,
        }
    }
}

fn full_filter() -> Filter {
    let mut filter = Filter::new(MALL);
    filter.publish((0..4).map(|number| Digest([number; 32])).chain([policy()])).unwrap();
    (0..MAX_HELD as u64).for_each(|number| filter.hold(address(number), AddressKind::Random, policy(), None));
    filter
}

fn look(criterion: &mut Criterion) {
    let filter = full_filter();
    let mut group = criterion.benchmark_group("filter");
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3)).sample_size(30);
    group.throughput(Throughput::Elements(ROUND));
    let mut bench = |name: &str, of: &dyn Fn(u64) -> Sort| {
        let sightings: Vec<_> = (0..ROUND).map(|number| of(number).sighting(number)).collect();
        group.bench_function(name, |bench| {
            bench.iter(|| {
                // The whole verdict: whoever listens counts the reasons.
                let refused =
                    |sighting: &&Sighting| !matches!(black_box(filter.look(sighting, NOW)), Verdict::Judge(_));
                let refused = black_box(&sightings).iter().filter(refused).count();
                assert_eq!(refused, sightings.len());
            });
        });
    };
    bench("mix", &Sort::of_mix);
    bench("foreign", &|_| Sort::Foreign);
    bench(Reason::NotAddressed.name(), &|_| Sort::ForAnother);
    bench(Reason::PolicyNotOurs.name(), &|_| Sort::OtherPolicy);
    bench(Reason::NotFresh.name(), &|_| Sort::Stale);
    bench(Reason::AlreadyHeld.name(), &|_| Sort::Held);
    bench("already-held, signed", &|_| Sort::HeldSigned);
    bench("forged", &|_| Sort::Forged);
    group.finish();
}

/// The whole way: find the frame in an advertisement, decode it, decide.
fn hear(criterion: &mut Criterion) {
    let filter = full_filter();
    let mut group = criterion.benchmark_group("advertisement");
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3)).sample_size(30);
    group.throughput(Throughput::Elements(ROUND));
    let advertisements: Vec<(Address, Vec<u8>)> = (0..ROUND)
        .map(|number| {
            let Sighting { address, frame, .. } = Sort::of_mix(number).sighting(number);
            let frame = frame.as_slice();
            let header = [2, 1, 6, frame.len() as u8 + 3, 0xff, 0xff, 0xff];
            (address, [&header[..], frame].concat())
        })
        .collect();
    group.bench_function("mix", |bench| {
        bench.iter(|| {
            let refused = |(address, advertisement): &&(Address, Vec<u8>)| {
                let Ok(Some(frame)) = find(Carrier::default(), advertisement) else { return false };
                !matches!(black_box(filter.look(&sighting(*address, frame), NOW)), Verdict::Judge(_))
            };
            assert_eq!(black_box(&advertisements).iter().filter(refused).count(), advertisements.len());
        });
    });
    group.finish();
}

criterion_group!(benches, look, hear);
criterion_main!(benches);
