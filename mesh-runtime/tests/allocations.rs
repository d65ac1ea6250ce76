//! Refusing a frame allocates nothing: a gateway hears far more frames than it accepts.

use std::hint::black_box;

use allocation_counter::measure;
use ed25519_dalek::SigningKey;
use mesh_runtime::air::frame::{ControllerTag, Frame};
use mesh_runtime::air::{Address, FrameBytes};
use pilot_core::semantics::Epoch;

#[test]
fn decoding_allocates_nothing() {
    let controller = ControllerTag(*b"mall");
    let policy = [7; 100];
    let item = Address::new([2, 0, 0, 0, 0, 1]);
    let extended = Frame::extended(controller, &policy, Epoch(5)).unwrap();
    let legacy = Frame::legacy(controller, extended.policy().unwrap().digest(), Epoch(5));
    let signed = Frame::signed(controller, &policy, Epoch(5), item, &SigningKey::from_bytes(&[1; 32])).unwrap();
    for frame in [legacy, extended, signed] {
        let right = frame.encode().as_slice().to_vec();
        for length in 0..=right.len() {
            for first in [0x11, 0x12, 0x13, 0x14, 0x21] {
                let mut heard = right.clone();
                heard.truncate(length);
                heard.iter_mut().take(1).for_each(|byte| *byte = first);
                let allocations = measure(|| {
                    let heard = FrameBytes::new(black_box(&heard)).unwrap();
                    let _ = black_box(Frame::decode(heard.as_slice()));
                });
                assert_eq!(allocations.count_total, 0, "{first:x} {length}");
            }
        }
        let allocations = measure(|| {
            let bytes = black_box(&frame).encode();
            let _ = black_box(Frame::decode(bytes.as_slice()).map(|frame| frame.verify(item, Epoch(5)).is_ok()));
        });
        assert_eq!(allocations.count_total, 0);
    }
}

/// The counter counts.
#[test]
fn a_vector_allocates() {
    assert_eq!(measure(|| drop(black_box(vec![1_u8]))).count_total, 1);
}
