//! Frames: the bytes are what the documentation says, and nothing else is a frame.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use ed25519_dalek::{Signer as _, SigningKey};
use mesh_runtime::air::frame::{
    CarryError, ControllerTag, DigestPrefix, Frame, FrameError, Header, Kind, LEGACY_FRAME_BYTES,
    MAX_EXTENDED_POLICY_BYTES, MAX_FRAME_BYTES, MAX_SIGNED_POLICY_BYTES, ShortEpoch,
};
use mesh_runtime::air::{Address, Carrier, FrameBytes, advertisement};
use pilot_core::codec::{self, Digest};
use pilot_core::evidence::consent::{Consent, ConsentError, ConsentSignature};
use pilot_core::evidence::mesh::FrameTag;
use pilot_core::semantics::Epoch;
use pilot_core::syntax::parse_file;
use pilot_core::value::Time;
use pilot_core::vocabulary::Vocabulary;
use proptest::prelude::*;

// The test vectors of `docs/frame.md`, made by another implementation.
const POLICY: &str =
    "84016a4d41434164647265737384f5646d616c6c8175536572766963655573616765416e616c79746963731a7a432b8080";
const DIGEST: &str = "601ebef19405185d5b775410ab66c5b8eb871d45adf75c962e8424ab27cab32a";
const AFTER_KIND: &str = "6d616c6c601ebef19405185d5b775410ab66c5b8c36f62";
const PUBLIC_KEY: &str = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
const SIGNATURE: &str = "5b4c539324c03fe78c32e41125606b522cd92b827f058c484237811855bf8736\
                         d08476302799b9c1a3beff23e050479788110e313158193525bc4b43689d2106";
const DOMAIN: &str = "636f6e73656e742d6d6573682f636f6e73656e742f3100";
/// RFC 8032 §7.1, test 1.
const SECRET_KEY: &str = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
const CONTROLLER: ControllerTag = ControllerTag(*b"mall");
const ITEM: Address = Address::new([0xc0, 0xff, 0xee, 0x12, 0x34, 0x56]);
/// 2030-01-01T00:00:00Z.
const NOW: Time = Time::from_unix(1_893_456_000);
const EPOCH: Epoch = Epoch::of(NOW);
/// 2²⁴.
const CYCLE: u64 = 1 << 24;

fn bytes(hex: &str) -> Vec<u8> {
    hex.as_bytes().chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn digest() -> Digest {
    Digest(bytes(DIGEST).try_into().unwrap())
}

fn key() -> SigningKey {
    SigningKey::from_bytes(&bytes(SECRET_KEY).try_into().unwrap())
}

/// A legacy, an extended and a signed frame.
fn vectors() -> [Vec<u8>; 3] {
    [
        bytes(&format!("11{AFTER_KIND}")),
        bytes(&format!("12{AFTER_KIND}{POLICY}")),
        bytes(&format!("13{AFTER_KIND}{PUBLIC_KEY}{SIGNATURE}{POLICY}")),
    ]
}

/// The policy of the vectors is the first one of the example `mall`.
#[test]
fn the_vectors_carry_a_real_policy() {
    let vocabulary = Vocabulary::from_toml(include_str!("../../examples/mall/vocabulary.toml")).unwrap();
    let file = parse_file(include_str!("../../examples/mall/offers.pilot"), &vocabulary).unwrap();
    let footfall = &file.policies[0].choice;
    assert_eq!(codec::encode(footfall, &vocabulary), bytes(POLICY));
    assert_eq!(codec::digest(footfall, &vocabulary), digest());
    let frame = vectors();
    let carried = *Frame::decode(&frame[2]).unwrap().policy().unwrap();
    assert_eq!(codec::decode(carried.bytes(), &vocabulary).as_ref(), Ok(footfall));
}

/// Reference: the table of test vectors in `docs/frame.md`.
#[test]
fn frames_are_these_bytes() {
    let policy = bytes(POLICY);
    let [legacy, extended, signed] = vectors();
    assert_eq!(Frame::legacy(CONTROLLER, digest(), EPOCH).encode().as_slice(), legacy);
    assert_eq!(Frame::extended(CONTROLLER, &policy, EPOCH).unwrap().encode().as_slice(), extended);
    assert_eq!(Frame::signed(CONTROLLER, &policy, EPOCH, ITEM, &key()).unwrap().encode().as_slice(), signed);
    let consent = Consent { item: ITEM.reveal(), controller: FrameTag(CONTROLLER.0), policy: digest(), epoch: EPOCH };
    let expected = format!("{DOMAIN}c0ffee1234566d616c6c{DIGEST}0000000001c36f62");
    assert_eq!(consent.to_bytes()[..], bytes(&expected));
}

/// Reference: the table of test vectors in `docs/frame.md`.
#[test]
fn these_bytes_are_frames() {
    for (frame, kind) in vectors().iter().zip([Kind::Legacy, Kind::Extended, Kind::Signed]) {
        let frame = Frame::decode(frame).unwrap();
        let policy = DigestPrefix::from(digest());
        let epoch = ShortEpoch::from_bytes([0xc3, 0x6f, 0x62]);
        assert_eq!(*frame.header(), Header { kind, controller: CONTROLLER, policy, epoch });
        assert_eq!(frame.header().epoch.fresh_at(NOW), Some(EPOCH));
        assert_eq!(frame.policy().map(|policy| policy.bytes().to_vec()), (kind != Kind::Legacy).then(|| bytes(POLICY)));
        assert_eq!(frame.policy().map(|policy| policy.digest()), (kind != Kind::Legacy).then(digest));
        let consent =
            Consent { item: ITEM.reveal(), controller: FrameTag(CONTROLLER.0), policy: digest(), epoch: EPOCH };
        let verified = if kind == Kind::Signed { Ok(consent) } else { Err(ConsentError::NotSigned) };
        assert_eq!(frame.verify(ITEM, EPOCH), verified);
    }
}

/// Reference: the last four test vectors in `docs/frame.md`.
#[test]
fn advertisements_carry_frames() {
    let [legacy, extended, signed] = vectors();
    let fd00 = Carrier::Service(0xfd00);
    for (carrier, header, frame) in [
        (Carrier::default(), "1bffffff", &legacy),
        (fd00, "1b1600fd", &legacy),
        (Carrier::default(), "4cffffff", &extended),
        (Carrier::default(), "acffffff", &signed),
    ] {
        let advertisement = [&bytes("020106"), &bytes(header), frame].map(Vec::as_slice).concat();
        assert_eq!(advertisement::find(carrier, &advertisement), Ok(FrameBytes::new(frame)), "{header}");
    }
}

/// The documentation has the vectors that are tested here.
#[test]
fn the_documentation_has_these_vectors() {
    let documented: String = include_str!("../../docs/frame.md").replace(['`', ' '], "");
    for vector in [POLICY, DIGEST, AFTER_KIND, PUBLIC_KEY, SIGNATURE, DOMAIN] {
        assert!(documented.contains(vector), "{vector}");
    }
}

#[test]
fn every_other_length_is_refused() {
    for (kind, frame) in [Kind::Legacy, Kind::Extended, Kind::Signed].into_iter().zip(vectors()) {
        let shortest = match kind {
            Kind::Legacy | Kind::Extended => LEGACY_FRAME_BYTES,
            Kind::Signed => 120,
        };
        for length in (0..=2 * MAX_FRAME_BYTES).filter(|length| *length != frame.len()) {
            let mut other = frame.clone();
            other.resize(length, 0x80);
            let expected = match length {
                0 => FrameError::Empty,
                _ if kind == Kind::Legacy || length <= shortest || length > MAX_FRAME_BYTES => {
                    FrameError::Length { kind, length }
                }
                // The length could be that of another policy, which this is not.
                _ => FrameError::Digest,
            };
            assert_eq!(Frame::decode(&other), Err(expected), "{kind} {length}");
        }
    }
}

#[test]
fn other_versions_and_kinds_are_refused() {
    for mut frame in vectors() {
        let right = frame[0];
        for first in 0..=u8::MAX {
            frame[0] = first;
            match (first >> 4, first & 0xf) {
                (1, 1..=3) => assert_eq!(Frame::decode(&frame).is_ok(), first == right),
                (1, kind) => assert_eq!(Frame::decode(&frame), Err(FrameError::Kind(kind))),
                (version, _) => assert_eq!(Frame::decode(&frame), Err(FrameError::Version(version))),
            }
        }
    }
}

#[test]
fn policies_that_do_not_fit_are_not_carried() {
    let longest = |length| vec![7; length];
    let extended = |policy: &[u8]| Frame::extended(CONTROLLER, policy, EPOCH).map(|frame| frame.encode());
    let signed = |policy: &[u8]| Frame::signed(CONTROLLER, policy, EPOCH, ITEM, &key()).map(|frame| frame.encode());
    for (bytes, kind, room) in [
        (extended as fn(&[u8]) -> _, Kind::Extended, MAX_EXTENDED_POLICY_BYTES),
        (signed, Kind::Signed, MAX_SIGNED_POLICY_BYTES),
    ] {
        let frame: FrameBytes = bytes(&longest(room)).unwrap();
        assert_eq!(frame.as_slice().len(), MAX_FRAME_BYTES);
        assert_eq!(Frame::decode(frame.as_slice()).unwrap().policy().unwrap().bytes(), longest(room));
        let length = room + 1;
        assert_eq!(bytes(&longest(length)), Err(CarryError::TooLong { kind, length, room }));
        assert_eq!(bytes(&[]), Err(CarryError::Nothing));
        assert_eq!(bytes(&[0xf6]), Err(CarryError::Nothing));
    }
}

/// Reference: S21, ⊥ is never broadcast.
#[test]
fn nothing_is_not_a_policy() {
    let nothing = codec::digest(&pilot_core::policy::Choice::Nothing, &Vocabulary::from_toml("").unwrap());
    let mut frame = Frame::legacy(CONTROLLER, nothing, EPOCH).encode().as_slice().to_vec();
    frame[0] = 0x12;
    frame.push(0xf6);
    assert_eq!(Frame::decode(&frame), Err(FrameError::Nothing));
}

/// Whatever bit is changed, the frame is refused or its signature does not hold.
#[test]
fn every_bit_is_signed() {
    let [.., signed] = vectors();
    for bit in 0..8 * signed.len() {
        let mut changed = signed.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let holds = Frame::decode(&changed).is_ok_and(|frame| {
            let epoch = frame.header().epoch.fresh_at(NOW);
            epoch.is_some_and(|epoch| frame.verify(ITEM, epoch).is_ok())
        });
        assert!(!holds, "bit {bit}");
    }
}

#[test]
fn signatures_hold_for_one_item_and_epoch() {
    let [.., signed] = vectors();
    let frame = Frame::decode(&signed).unwrap();
    let another = Address::new([0xc0, 0xff, 0xee, 0x12, 0x34, 0x57]);
    assert_eq!(frame.verify(another, EPOCH), Err(ConsentError::Signature));
    // The frame's three bytes are the same one cycle later; the signature is not.
    assert_eq!(frame.verify(ITEM, Epoch(EPOCH.0 + CYCLE)), Err(ConsentError::Signature));
    assert!(frame.verify(ITEM, EPOCH).is_ok());
}

/// The key's signature of the same values for another purpose is no consent.
#[test]
fn signatures_are_for_consents_only() {
    let consent = Consent { item: ITEM.reveal(), controller: FrameTag(CONTROLLER.0), policy: digest(), epoch: EPOCH };
    let domain = bytes(DOMAIN).len();
    let of = |message: &[u8]| ConsentSignature {
        key: key().verifying_key().to_bytes(),
        signature: key().sign(message).to_bytes(),
    };
    let message = consent.to_bytes();
    assert_eq!(of(&message).verify(&consent), Ok(()));
    assert_eq!(of(&message[domain..]).verify(&consent), Err(ConsentError::Signature));
    let mut next_version = message;
    next_version[domain - 2] += 1;
    assert_eq!(of(&next_version).verify(&consent), Err(ConsentError::Signature));
}

/// With a key of small order there are signatures that hold for every message; what is no point is no key.
#[test]
fn weak_keys_prove_nothing() {
    let consent = Consent { item: ITEM.reveal(), controller: FrameTag(CONTROLLER.0), policy: digest(), epoch: EPOCH };
    let mut identity = [0; 32];
    identity[0] = 1;
    let mut signature = [0; 64];
    signature[0] = 1;
    assert_eq!(ConsentSignature { key: identity, signature }.verify(&consent), Err(ConsentError::Signature));
    let mut not_a_point = [0; 32];
    not_a_point[0] = 2;
    assert_eq!(ConsentSignature { key: not_a_point, signature }.verify(&consent), Err(ConsentError::Key));
}

/// Around each wrap, what the three bytes mean is found, and accepted within the window on both sides.
#[test]
fn epochs_wrap() {
    for cycles in 1..4_u64 {
        for now in cycles * CYCLE - 5..=cycles * CYCLE + 5 {
            for of in now - 5..=now + 5 {
                let short = ShortEpoch::of(Epoch(of));
                assert_eq!(short.nearest(Epoch(now)), Some(Epoch(of)));
                // The first and the last second of the epoch.
                for second in [now * Epoch::SECONDS, (now + 1) * Epoch::SECONDS - 1] {
                    let fresh = (of.abs_diff(now) <= Epoch::WINDOW).then_some(Epoch(of));
                    assert_eq!(short.fresh_at(Time::from_unix(second)), fresh, "{of} at {now}");
                }
            }
        }
    }
}

/// A clock that is not set knows no epoch before 1970, and the end of time is no overflow.
#[test]
fn epochs_end() {
    assert_eq!(ShortEpoch::from_bytes([0xff; 3]).nearest(Epoch(0)), None);
    assert_eq!(ShortEpoch::from_bytes([0xff; 3]).fresh_at(Time::from_unix(0)), None);
    assert_eq!(ShortEpoch::from_bytes([0, 0, 2]).fresh_at(Time::from_unix(0)), Some(Epoch(2)));
    assert_eq!(ShortEpoch::from_bytes([0, 0, 1]).nearest(Epoch(u64::MAX)), None);
    let last = Time::from_unix(u64::MAX);
    assert_eq!(ShortEpoch::from_bytes([0, 0, 1]).fresh_at(last), Some(Epoch(Epoch::of(last).0 + 2)));
}

fn nearest_by_search(short: ShortEpoch, now: u64) -> u64 {
    let low = u64::from(u32::from_be_bytes([0, short.to_bytes()[0], short.to_bytes()[1], short.to_bytes()[2]]));
    // `min_by_key` takes the first of equals, which is the earlier.
    (0..5).map(|cycles| cycles * CYCLE + low).min_by_key(|epoch| epoch.abs_diff(now)).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: proptest::test_runner::RngSeed::Fixed(4), ..ProptestConfig::default() })]

    #[test]
    fn round_trips(
        controller: [u8; 4],
        policy in prop::collection::vec(any::<u8>(), 2..=MAX_SIGNED_POLICY_BYTES),
        epoch in 0..1_u64 << 40,
        item: [u8; 6],
        secret: [u8; 32],
    ) {
        let (controller, epoch, item) = (ControllerTag(controller), Epoch(epoch), Address::new(item));
        let key = SigningKey::from_bytes(&secret);
        let extended = Frame::extended(controller, &policy, epoch).unwrap();
        let legacy = Frame::legacy(controller, extended.policy().unwrap().digest(), epoch);
        let signed = Frame::signed(controller, &policy, epoch, item, &key).unwrap();
        for frame in [legacy, extended, signed] {
            let encoded = frame.encode();
            prop_assert_eq!(FrameBytes::new(encoded.as_slice()), Some(encoded));
            prop_assert_eq!(Frame::decode(encoded.as_slice()), Ok(frame));
            prop_assert_eq!(Header::decode(encoded.as_slice()), Ok(*frame.header()));
            prop_assert_eq!(frame.header().epoch.nearest(epoch), Some(epoch));
        }
        prop_assert!(signed.verify(item, epoch).is_ok());
    }

    /// Half a cycle to either side of any moment, found by arithmetic as by search.
    #[test]
    fn the_nearest_epoch_is_the_nearest(short: [u8; 3], now in CYCLE / 2..4 * CYCLE) {
        let short = ShortEpoch::from_bytes(short);
        prop_assert_eq!(short.nearest(Epoch(now)), Some(Epoch(nearest_by_search(short, now))));
    }

    /// Bytes that happen to be a frame are exactly what that frame is encoded as; no bytes panic.
    #[test]
    fn whatever_is_accepted_is_canonical(
        which in 0..3_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        length in prop::option::of(0..=MAX_FRAME_BYTES + 2),
    ) {
        let mut frame = vectors()[which].clone();
        for (at, byte) in changes {
            let at = at.index(frame.len());
            frame[at] = byte;
        }
        frame.resize(length.unwrap_or(frame.len()), 0);
        let encoded = Frame::decode(&frame).map(|frame| frame.encode());
        if let Ok(encoded) = encoded {
            prop_assert_eq!(encoded.as_slice(), frame);
        }
    }

    #[test]
    fn noise_does_not_panic(noise in prop::collection::vec(any::<u8>(), 0..2 * MAX_FRAME_BYTES)) {
        prop_assert_eq!(FrameBytes::new(&noise).is_some(), noise.len() <= MAX_FRAME_BYTES);
        if let Ok(encoded) = Frame::decode(&noise).map(|frame| frame.encode()) {
            prop_assert_eq!(encoded.as_slice(), noise);
        }
    }
}
