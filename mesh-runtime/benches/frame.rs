//! How fast frames are understood, and refused. One core should do two million decisions per second, so a refusal may
//! take half a microsecond, and all of it must not be decoding.

#![allow(missing_docs, reason = "criterion's macros")]
#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use ed25519_dalek::SigningKey;
use mesh_runtime::air::frame::{ControllerTag, Frame, Header};
use mesh_runtime::air::{Address, FrameBytes};
use pilot_core::semantics::Epoch;
use pilot_core::value::Time;

const NOW: Time = Time::from_unix(1_893_456_000);
const ITEM: Address = Address::new([2, 0, 0, 0, 0, 1]);

fn decode(criterion: &mut Criterion) {
    let (mall, shop) = (ControllerTag(*b"mall"), ControllerTag(*b"shop"));
    let policy = [7; 50];
    let epoch = Epoch::of(NOW);
    let extended = Frame::extended(mall, &policy, epoch).unwrap();
    let legacy = Frame::legacy(mall, extended.policy().unwrap().digest(), epoch);
    let signed = Frame::signed(mall, &policy, epoch, ITEM, &SigningKey::from_bytes(&[1; 32])).unwrap();
    let stranger = FrameBytes::new(&[0x4c; 24]).unwrap();

    let mut group = criterion.benchmark_group("frame");
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1)).sample_size(20);
    group.bench_function("decode and refuse/not a frame", |bench| {
        bench.iter(|| Frame::decode(black_box(stranger.as_slice())).is_ok());
    });
    for (name, frame) in [("legacy", legacy), ("extended", extended), ("signed", signed)] {
        let bytes = frame.encode();
        group.bench_function(format!("decode and refuse/{name} for another controller"), |bench| {
            bench.iter(|| Header::decode(black_box(bytes.as_slice())).is_ok_and(|header| header.controller == shop));
        });
        group.bench_function(format!("decode and refuse/{name} that is stale"), |bench| {
            let late = Time::from_unix(NOW.unix() + 1_000);
            bench.iter(|| {
                let header = Header::decode(black_box(bytes.as_slice()));
                header.is_ok_and(|header| header.controller == mall && header.epoch.fresh_at(late).is_some())
            });
        });
        group.bench_function(format!("decode/{name}"), |bench| {
            bench.iter(|| Frame::decode(black_box(bytes.as_slice())).is_ok());
        });
    }
    let bytes = signed.encode();
    group.bench_function("decode and verify/signed", |bench| {
        bench.iter(|| Frame::decode(black_box(bytes.as_slice())).is_ok_and(|frame| frame.verify(ITEM, epoch).is_ok()));
    });
    group.finish();
}

criterion_group!(benches, decode);
criterion_main!(benches);
