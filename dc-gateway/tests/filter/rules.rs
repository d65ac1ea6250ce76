//! What the filter says about single frames, and where its limits are.

use dc_gateway::filter::{Filter, MAX_HELD, MAX_PUBLISHED, PublishError, Verdict};
use ed25519_dalek::SigningKey;
use mesh_runtime::air::frame::{Frame, FrameError};
use mesh_runtime::air::{Address, AddressKind, FrameBytes};
use pilot_core::codec::Digest;
use pilot_core::evidence::trace::Reason;
use pilot_core::semantics::Epoch;

use super::{MALL, NOW, SHOP, address, sighting};

const POLICY: [u8; 50] = [7; 50];

fn now() -> Epoch {
    Epoch::of(NOW)
}

/// A frame of each kind about the same policy, for person 1.
fn frames() -> [Frame<'static>; 3] {
    let extended = Frame::extended(MALL, &POLICY, now()).unwrap();
    let signed = Frame::signed(MALL, &POLICY, now(), address(1), &SigningKey::from_bytes(&[1; 32])).unwrap();
    [Frame::legacy(MALL, policy(), now()), extended, signed]
}

fn policy() -> Digest {
    Frame::extended(MALL, &POLICY, now()).unwrap().policy().unwrap().digest()
}

fn listening() -> Filter {
    let mut filter = Filter::new(MALL);
    filter.publish([policy()]).unwrap();
    filter
}

/// The verdict on a frame from person 1, as far as it is a refusal.
fn refusal(filter: &Filter, frame: &Frame<'_>) -> Option<Reason> {
    let sighting = sighting(address(1), AddressKind::Random, frame.encode());
    match filter.look(&sighting, NOW) {
        Verdict::Refused(reason) => Some(reason),
        Verdict::Judge(candidate) => {
            assert_eq!((candidate.frame, candidate.policy, candidate.epoch), (*frame, policy(), now()));
            None
        }
        Verdict::NotAFrame(error) => panic!("{error}"),
    }
}

/// What passes has the whole digest and the whole epoch, and a signature that still can be verified.
#[test]
fn what_may_be_kept_is_handed_to_the_graph_whole() {
    let filter = listening();
    for frame in frames() {
        assert_eq!(refusal(&filter, &frame), None);
    }
    let signed = sighting(address(1), AddressKind::Random, frames()[2].encode());
    let Verdict::Judge(candidate) = filter.look(&signed, NOW) else { panic!("refused") };
    assert_eq!(candidate.frame.verify(address(1), candidate.epoch).unwrap().policy, policy());
}

#[test]
fn an_address_is_held_with_its_kind_and_its_policy_until_it_is_released() {
    let mut filter = listening();
    let held = |filter: &Filter, person, kind| {
        let heard = sighting(address(person), kind, frames()[0].encode());
        match filter.look(&heard, NOW) {
            Verdict::Refused(Reason::AlreadyHeld) => true,
            Verdict::Judge(_) => false,
            other => panic!("{other:?}"),
        }
    };
    filter.hold(address(1), AddressKind::Random, Digest([9; 32]), None);
    assert!(!held(&filter, 1, AddressKind::Random), "under another policy");
    filter.hold(address(1), AddressKind::Random, policy(), None);
    assert!(held(&filter, 1, AddressKind::Random));
    assert!(!held(&filter, 1, AddressKind::Public), "the same bytes, but another address");
    assert!(!held(&filter, 2, AddressKind::Random));
    frames().iter().for_each(|frame| assert_eq!(refusal(&filter, frame), Some(Reason::AlreadyHeld)));

    filter.hold(address(1), AddressKind::Public, policy(), None);
    filter.hold(address(2), AddressKind::Random, policy(), None);
    filter.release(address(1), AddressKind::Random);
    assert!(!held(&filter, 1, AddressKind::Random));
    assert!(held(&filter, 1, AddressKind::Public));
    assert!(held(&filter, 2, AddressKind::Random));
    filter.publish([policy(), Digest([9; 32])]).unwrap();
    let other = sighting(address(1), AddressKind::Random, Frame::legacy(MALL, Digest([9; 32]), now()).encode());
    assert!(matches!(filter.look(&other, NOW), Verdict::Judge(_)), "a release is from every policy");
}

/// What was signed is refused only with the same key: any other consent to it changes who can take it back.
#[test]
fn what_was_signed_is_held_by_its_key() {
    let mut filter = listening();
    let [legacy, extended, signed] = frames();
    let other = Frame::signed(MALL, &POLICY, now(), address(1), &SigningKey::from_bytes(&[2; 32])).unwrap();
    filter.hold(address(1), AddressKind::Random, policy(), signed.signature().map(|signature| signature.key));
    assert_eq!(refusal(&filter, &signed), Some(Reason::AlreadyHeld));
    [legacy, extended, other].iter().for_each(|frame| assert_eq!(refusal(&filter, frame), None));
    filter.hold(address(1), AddressKind::Random, policy(), None);
    [legacy, extended, signed, other].iter().for_each(|f| assert_eq!(refusal(&filter, f), Some(Reason::AlreadyHeld)));
}

/// A policy that is withdrawn and published again finds what was held under it.
#[test]
fn publishing_replaces_the_set_and_forgets_nothing_that_is_held() {
    let mut filter = listening();
    filter.hold(address(1), AddressKind::Random, policy(), None);
    let [legacy, ..] = frames();
    filter.publish([Digest([9; 32])]).unwrap();
    assert_eq!(refusal(&filter, &legacy), Some(Reason::PolicyNotOurs));
    filter.publish([Digest([9; 32]), policy()]).unwrap();
    assert_eq!(refusal(&filter, &legacy), Some(Reason::AlreadyHeld));
    filter.release(address(1), AddressKind::Random);
    assert_eq!(refusal(&filter, &legacy), None);
}

/// With several things wrong, the reason is that of the first guard in the graph's table.
#[test]
fn reasons_come_in_the_order_of_the_table() {
    let mut filter = listening();
    filter.hold(address(1), AddressKind::Random, policy(), None);
    let (other, stale) = (Digest([9; 32]), Epoch(now().0 - 3));
    assert_eq!(refusal(&filter, &Frame::legacy(SHOP, other, stale)), Some(Reason::NotAddressed));
    assert_eq!(refusal(&filter, &Frame::legacy(MALL, other, stale)), Some(Reason::PolicyNotOurs));
    assert_eq!(refusal(&filter, &Frame::legacy(MALL, policy(), stale)), Some(Reason::NotFresh));
    assert_eq!(refusal(&filter, &Frame::legacy(MALL, policy(), now())), Some(Reason::AlreadyHeld));
    assert_eq!(refusal(&Filter::new(MALL), &frames()[0]), Some(Reason::PolicyNotOurs), "nothing is published");
}

#[test]
fn what_is_no_frame_says_nothing() {
    let filter = listening();
    let look = |bytes: &[u8]| {
        let sighting = sighting(address(1), AddressKind::Random, FrameBytes::new(bytes).unwrap());
        match filter.look(&sighting, NOW) {
            Verdict::NotAFrame(error) => error,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(look(&[]), FrameError::Empty);
    assert_eq!(look(&[0x4c; 24]), FrameError::Version(4));
    let [_, extended, signed] = frames();
    for frame in [extended, signed] {
        let mut bytes = frame.encode().as_slice().to_vec();
        *bytes.last_mut().unwrap() ^= 1;
        assert_eq!(look(&bytes), FrameError::Digest, "the policy is not the one that the digest is of");
    }
}

/// Frames have half of a digest. One whose policy only begins like a published one is about another policy.
#[test]
fn a_carried_policy_must_have_the_whole_digest() {
    let mut alike = policy();
    alike.0[31] ^= 1;
    let mut filter = Filter::new(MALL);
    filter.publish([alike]).unwrap();
    let [_, extended, signed] = frames();
    assert_eq!(refusal(&filter, &extended), Some(Reason::PolicyNotOurs));
    assert_eq!(refusal(&filter, &signed), Some(Reason::PolicyNotOurs));
}

#[test]
fn policies_that_frames_cannot_tell_apart_are_not_published() {
    let mut filter = listening();
    let mut alike = policy();
    alike.0[16] ^= 1;
    let error = filter.publish([Digest([9; 32]), alike, policy()]).unwrap_err();
    assert!(matches!(error, PublishError::SamePrefix(one, other) if one != other), "{error}");
    assert_eq!(refusal(&filter, &frames()[0]), None, "nothing has changed");
    alike = policy();
    alike.0[15] ^= 1;
    filter.publish([alike, policy(), policy()]).unwrap();

    let many =
        |count: usize| (0..count as u32).map(|number| Digest(std::array::from_fn(|at| number.to_be_bytes()[at % 4])));
    filter.publish(many(MAX_PUBLISHED)).unwrap();
    for digest in many(MAX_PUBLISHED) {
        let heard = sighting(address(1), AddressKind::Random, Frame::legacy(MALL, digest, now()).encode());
        assert!(matches!(filter.look(&heard, NOW), Verdict::Judge(candidate) if candidate.policy == digest));
    }
    assert_eq!(filter.publish(many(MAX_PUBLISHED + 1)), Err(PublishError::TooMany(MAX_PUBLISHED + 1)));
}

/// What does not fit is judged each time; room that is made is used again.
#[test]
fn what_is_held_is_bounded() {
    let mut filter = listening();
    let number = |number: usize| {
        let [.., a, b, c, d] = (number as u64).to_be_bytes();
        Address::new([2, 0, a, b, c, d])
    };
    for at in 0..=MAX_HELD {
        filter.hold(number(at), AddressKind::Public, policy(), None);
    }
    let is_held = |filter: &Filter, at| {
        let heard = sighting(number(at), AddressKind::Public, frames()[0].encode());
        filter.look(&heard, NOW) == Verdict::Refused(Reason::AlreadyHeld)
    };
    assert!(is_held(&filter, 0) && is_held(&filter, MAX_HELD - 1));
    assert!(!is_held(&filter, MAX_HELD));
    filter.release(number(0), AddressKind::Public);
    filter.hold(number(MAX_HELD), AddressKind::Public, policy(), None);
    assert!(!is_held(&filter, 0));
    assert!(is_held(&filter, MAX_HELD));
}

#[test]
fn debug_shows_no_address() {
    let mut filter = listening();
    filter.hold(Address::new(*b"secret"), AddressKind::Public, policy(), None);
    let heard = sighting(Address::new(*b"secret"), AddressKind::Random, frames()[2].encode());
    let shown = format!("{filter:?} {filter:#?} {:?} {heard:?}", filter.look(&heard, NOW));
    assert!(shown.contains("held: 1"), "{shown}");
    for hidden in ["secret", "115, 101", "73656372"] {
        assert!(!shown.contains(hidden), "{shown}");
    }
}
