//! Refusing allocates nothing: a gateway hears far more than it keeps.

use std::hint::black_box;

use allocation_counter::measure;
use dc_gateway::filter::{Filter, Verdict};
use ed25519_dalek::SigningKey;
use mesh_runtime::air::frame::{ControllerTag, Frame};
use mesh_runtime::air::{AddressKind, FrameBytes};
use pilot_core::codec::Digest;
use pilot_core::evidence::trace::Reason;
use pilot_core::semantics::Epoch;

use super::{MALL, NOW, SHOP, address, sighting};

const POLICY: [u8; 50] = [7; 50];
const OTHER: [u8; 50] = [8; 50];

/// A frame of each kind.
fn each_kind(tag: ControllerTag, policy: &[u8], epoch: Epoch) -> [Frame<'_>; 3] {
    let extended = Frame::extended(tag, policy, epoch).unwrap();
    let signed = Frame::signed(tag, policy, epoch, address(1), &SigningKey::from_bytes(&[1; 32])).unwrap();
    [Frame::legacy(tag, extended.policy().unwrap().digest(), epoch), extended, signed]
}

#[test]
fn looking_allocates_nothing() {
    let now = Epoch::of(NOW);
    let policy = each_kind(MALL, &POLICY, now)[1].policy().unwrap().digest();
    let mut filter = Filter::new(MALL);
    filter.publish([policy, Digest([3; 32])]).unwrap();
    (0..200).for_each(|person| filter.hold(address(person), AddressKind::Public, policy, None));
    let look = |person: u8, frame: FrameBytes| {
        let sighting = sighting(address(person), AddressKind::Public, frame);
        let mut said = None;
        let allocations = measure(|| {
            said = Some(match black_box(&filter).look(black_box(&sighting), NOW) {
                Verdict::Refused(reason) => Ok(Some(reason)),
                Verdict::NotAFrame(error) => Err(error),
                Verdict::Judge(_) => Ok(None),
            });
        });
        assert_eq!(allocations.count_total, 0, "{said:?}");
        said.unwrap()
    };
    let cases = [
        (each_kind(SHOP, &POLICY, now), Reason::NotAddressed),
        (each_kind(MALL, &OTHER, now), Reason::PolicyNotOurs),
        (each_kind(MALL, &POLICY, Epoch(now.0 - 3)), Reason::NotFresh),
        (each_kind(MALL, &POLICY, Epoch(now.0 + 3)), Reason::NotFresh),
        (each_kind(MALL, &POLICY, now), Reason::AlreadyHeld),
    ];
    for (frames, reason) in cases {
        for frame in frames {
            assert_eq!(look(100, frame.encode()), Ok(Some(reason)));
        }
    }
    for frame in each_kind(MALL, &POLICY, now) {
        let bytes = frame.encode();
        assert_eq!(look(250, bytes), Ok(None), "what passes allocates nothing, either");
        let mut bytes = bytes.as_slice().to_vec();
        for length in 0..bytes.len() {
            // Half a frame is none, unless a legacy one is left; half a policy is another one.
            let _ = look(250, FrameBytes::new(&bytes[..length]).unwrap());
        }
        bytes[0] = 0x4c;
        assert!(look(250, FrameBytes::new(&bytes).unwrap()).is_err());
    }
}

/// The counter counts.
#[test]
fn a_vector_allocates() {
    assert_eq!(measure(|| drop(black_box(vec![1_u8]))).count_total, 1);
}
