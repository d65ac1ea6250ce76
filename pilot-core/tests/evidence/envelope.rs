//! Envelopes: opened by the one they are for, where and when they are for, from the one who signed.

use allocation_counter::measure;
use minicbor::Encoder;
use pilot_core::evidence::cose::{self, CoseError, Domain};
use pilot_core::evidence::envelope::{
    Arrival, ChainHead, EnvelopeError, FRESHNESS_WINDOW, LengthError, MAX_ENVELOPE_BYTES, MAX_MESSAGE_BYTES,
    MAX_TOPIC_BYTES, MessageId, REPLY_TOPIC_PREFIX, Receiver, Sender, reply_topic,
};
use pilot_core::evidence::mesh::Invalid;
use pilot_core::evidence::statement::MAX_STATEMENT_BYTES;
use pilot_core::evidence::{Envelope, FormError, MeshFile, StatementId};
use pilot_core::value::Time;
use proptest::prelude::{Strategy as _, any, prop_assert_eq};

use super::fixture::{
    COUNTER, GATE, LIBRARY, NOW, anonymous, changed_mesh, damaged, gate, later, library, mesh, name, public, secret,
};
use super::support::for_all;

const TOPIC: &str = "consent-mesh/library/upload";

/// From the gate to the library.
fn envelope() -> Envelope {
    Envelope {
        sender: Sender::Device(name(GATE)),
        receiver: Receiver::Device(name(LIBRARY)),
        topic: TOPIC.into(),
        id: MessageId([7; 16]),
        time: NOW,
        head: Some(ChainHead([8; 32])),
        message: b"a message".to_vec(),
    }
}

/// The library opens what arrived.
fn open_in(mesh: &MeshFile, bytes: &[u8], anonymous_allowed: bool) -> Result<Envelope, EnvelopeError> {
    let receiver = Receiver::Device(name(LIBRARY));
    Envelope::open(bytes, &Arrival { mesh, topic: TOPIC, receiver: &receiver, anonymous_allowed, now: NOW })
}

fn open(bytes: &[u8]) -> Result<Envelope, EnvelopeError> {
    open_in(&mesh(), bytes, true)
}

/// The gate signs a changed envelope.
fn refusal(change: impl FnOnce(&mut Envelope)) -> EnvelopeError {
    let mut envelope = envelope();
    change(&mut envelope);
    open(&envelope.sign(&gate()).unwrap()).expect_err("refused")
}

#[test]
fn what_is_signed_is_opened() {
    let plain = Envelope { head: None, message: vec![], ..envelope() };
    for envelope in [envelope(), plain] {
        assert_eq!(open(&envelope.sign(&gate()).unwrap()), Ok(envelope));
    }
}

/// SHA-256 of the exact bytes, computed by a program in another language from the form in the documentation alone.
#[test]
fn an_envelope_has_one_byte_form() {
    let digest = StatementId::of(&envelope().sign(&gate()).unwrap());
    assert_eq!(digest.to_string(), "55e38f53281dbcd1b4cf1a250f952edcf4bdd102388a5d77d8cad3376160432a");
}

#[test]
fn a_damaged_envelope_is_never_opened() {
    let mesh = mesh();
    let from_gate = envelope().sign(&gate()).unwrap();
    let key = Sender::Anonymous(public(&anonymous()));
    let from_subject = Envelope { sender: key, head: None, ..envelope() }.sign(&anonymous()).unwrap();
    for bytes in [from_gate, from_subject] {
        assert!(open_in(&mesh, &bytes, true).is_ok());
        for (at, damaged) in damaged(&bytes).enumerate() {
            assert!(open_in(&mesh, &damaged, true).is_err(), "damage {at}");
        }
    }
}

#[test]
fn it_is_for_one_topic_and_one_receiver() {
    assert_eq!(refusal(|envelope| envelope.topic.push('s')), EnvelopeError::WrongTopic);
    assert_eq!(refusal(|envelope| envelope.topic.clear()), EnvelopeError::WrongTopic);
    let subject = Receiver::Anonymous(public(&anonymous()));
    for receiver in [Receiver::Device(name(COUNTER)), subject.clone(), Receiver::Everyone] {
        assert_eq!(refusal(|envelope| envelope.receiver = receiver), EnvelopeError::WrongReceiver);
    }
    // An answer to a subject, and a notice to everyone.
    let mesh = mesh();
    for receiver in [subject, Receiver::Everyone] {
        let sender = Sender::Device(name(LIBRARY));
        let envelope = Envelope { sender, receiver: receiver.clone(), ..envelope() };
        let bytes = envelope.sign(&library()).unwrap();
        let arrival = Arrival { mesh: &mesh, topic: TOPIC, receiver: &receiver, anonymous_allowed: false, now: NOW };
        assert_eq!(Envelope::open(&bytes, &arrival), Ok(envelope));
        assert_eq!(open(&bytes), Err(EnvelopeError::WrongReceiver));
    }
}

#[test]
fn it_is_of_now() {
    let window = FRESHNESS_WINDOW as i64;
    let at = |time: Time| open(&Envelope { time, ..envelope() }.sign(&gate()).unwrap()).map(drop);
    for fresh in [-window, -1, 0, 1, window] {
        assert_eq!(at(later(fresh)), Ok(()), "{fresh}");
    }
    let (before, after) = (later(-window - 1), later(window + 1));
    assert_eq!(at(before), Err(EnvelopeError::Stale(before)));
    assert_eq!(at(after), Err(EnvelopeError::FromTheFuture(after)));
    for time in [0, u64::MAX].map(Time::from_unix) {
        assert!(at(time).is_err());
    }
}

#[test]
fn the_sender_must_be_known_and_valid_and_have_signed() {
    let error = refusal(|envelope| envelope.sender = Sender::Device(name("shop-countre")));
    assert_eq!(error.to_string(), "an envelope of the unknown device `shop-countre`; did you mean `shop-counter`?");
    assert_eq!(refusal(|envelope| envelope.sender = Sender::Device(name(COUNTER))), EnvelopeError::Signature);
    let bytes = envelope().sign(&gate()).unwrap();
    for (revoked, from, until, invalid) in [
        (Some(0), -9, 9, Invalid::Revoked(NOW)),
        (None, 1, 9, Invalid::NotYet(later(1))),
        (None, -9, 0, Invalid::NoLonger(NOW)),
    ] {
        let mesh = changed_mesh(|draft| {
            draft.devices[0].revoked = revoked.map(later);
            draft.devices[0].valid_from = later(from);
            draft.devices[0].valid_until = later(until);
        });
        assert_eq!(open_in(&mesh, &bytes, true), Err(EnvelopeError::Device(name(GATE), invalid)));
    }
    // The payload of a statement that the same device signed.
    let payload = cose::Signed::read(&bytes, MAX_ENVELOPE_BYTES).unwrap().payload;
    let statement = cose::sign(Domain::PolicyStatement, payload, &gate());
    assert_eq!(open(&statement), Err(EnvelopeError::Signature));
}

#[test]
fn anonymous_senders_are_heard_only_where_they_may_be() {
    let sender = Sender::Anonymous(public(&anonymous()));
    let envelope = Envelope { sender, ..envelope() };
    let bytes = envelope.sign(&anonymous()).unwrap();
    assert_eq!(open_in(&mesh(), &bytes, false), Err(EnvelopeError::Anonymous));
    assert_eq!(open_in(&mesh(), &bytes, true), Ok(envelope.clone()));
    // In the name of another key.
    assert_eq!(open(&envelope.sign(&secret(9)).unwrap()), Err(EnvelopeError::Signature));
    // A key that would verify anything: the point of order one, and the signature that fits it.
    let payload = cose::Signed::read(&bytes, MAX_ENVELOPE_BYTES).unwrap().payload.to_vec();
    let weak = [&[1][..], &[0; 31]].concat();
    let at = payload.windows(32).position(|window| window == public(&anonymous()).as_bytes()).unwrap();
    let payload = [&payload[..at], &weak, &payload[at + 32..]].concat();
    let signature = pilot_core::evidence::Signature([&weak[..], &[0; 32]].concat().try_into().unwrap());
    let error = open(&cose::Signed { payload: &payload, signature }.write()).expect_err("refused");
    assert_eq!(error.to_string(), "an envelope of an anonymous sender: this is a weak key, which anybody can use");
}

#[test]
fn the_form_must_be_the_one_form() {
    let bytes = envelope().sign(&gate()).unwrap();
    let payload = cose::Signed::read(&bytes, MAX_ENVELOPE_BYTES).unwrap().payload;
    let resigned = |payload: &[u8]| open(&cose::sign(Domain::Envelope, payload, &gate())).expect_err("refused");
    let id_at = payload.windows(17).position(|window| window == [&[0x50][..], &[7; 16]].concat()).unwrap();
    let long_id = [&payload[..id_at], &[0x58, 16], &payload[id_at + 1..]].concat();
    assert_eq!(resigned(&long_id), EnvelopeError::Form(FormError::NotCanonical));
    let short_id = [&payload[..id_at], &[0x4f], &payload[id_at + 2..]].concat();
    assert!(resigned(&short_id).to_string().contains("16 bytes were needed"));
    assert!(resigned(&[payload, &[0]].concat()).to_string().contains("bytes after the payload"));
    let next = [&[0x88, 2], &payload[2..]].concat();
    assert_eq!(resigned(&next), EnvelopeError::Form(FormError::Version { found: 2, known: 1 }));
    // Nobody cannot be a sender.
    let nobody = [&payload[..2], &[0xf6], &payload[3 + GATE.len()..]].concat();
    assert!(matches!(resigned(&nobody), EnvelopeError::Form(FormError::Malformed { .. })));
}

#[test]
fn lengths_are_bounded() {
    let largest = Envelope {
        sender: Sender::Device(name(&"s".repeat(128))),
        receiver: Receiver::Device(name(&"r".repeat(128))),
        topic: "t".repeat(MAX_TOPIC_BYTES),
        time: Time::from_unix(u64::MAX),
        message: vec![0; MAX_MESSAGE_BYTES],
        ..envelope()
    };
    assert!(largest.sign(&gate()).unwrap().len() <= MAX_ENVELOPE_BYTES, "every envelope that can be made fits");
    const { assert!(2 * MAX_STATEMENT_BYTES <= MAX_MESSAGE_BYTES) };
    let topic = Envelope { topic: "t".repeat(MAX_TOPIC_BYTES + 1), ..envelope() };
    assert_eq!(topic.sign(&gate()), Err(LengthError::Topic));
    let message = Envelope { message: vec![0; MAX_MESSAGE_BYTES + 1], ..envelope() };
    assert_eq!(message.sign(&gate()), Err(LengthError::Message));

    // Somebody else may make them: short elsewhere, they are small enough as a whole.
    let made = |topic: &str, message: &[u8]| {
        let mut payload = Vec::new();
        let mut out = Encoder::new(&mut payload);
        out.array(8).unwrap().u8(1).unwrap().str(GATE).unwrap().str(LIBRARY).unwrap().str(topic).unwrap();
        out.bytes(&[7; 16]).unwrap().u64(NOW.unix()).unwrap().null().unwrap().bytes(message).unwrap();
        open(&cose::sign(Domain::Envelope, &payload, &gate())).map(drop)
    };
    assert_eq!(made(TOPIC, &vec![0; MAX_MESSAGE_BYTES]), Ok(()));
    assert_eq!(made(TOPIC, &vec![0; MAX_MESSAGE_BYTES + 1]), Err(EnvelopeError::Length(LengthError::Message)));
    let topic = "t".repeat(MAX_TOPIC_BYTES + 1);
    assert_eq!(made(&topic, b""), Err(EnvelopeError::Length(LengthError::Topic)));
}

/// What is refused for its size or form costs no memory: strangers send it.
#[test]
fn monsters_are_refused_without_memory() {
    let mesh = mesh();
    let receiver = Receiver::Device(name(LIBRARY));
    let arrival = Arrival { mesh: &mesh, topic: TOPIC, receiver: &receiver, anonymous_allowed: true, now: NOW };
    let head = b"\x84\x43\xa1\x01\x32\xa0";
    let promise = [head, &[0x5b][..], &[0xff; 8]].concat();
    for monster in [vec![0x84; 10 << 20], vec![0x84; MAX_ENVELOPE_BYTES], promise] {
        let used = measure(|| assert!(Envelope::open(&monster, &arrival).is_err()));
        assert_eq!(used.bytes_total, 0, "{} bytes", monster.len());
    }
    assert_eq!(
        Envelope::open(&vec![0; 10 << 20], &arrival),
        Err(EnvelopeError::Cose(CoseError::TooLarge(MAX_ENVELOPE_BYTES)))
    );
}

/// `Debug` ends up in logs, and a message may be personal.
#[test]
fn debug_does_not_show_the_message() {
    let shown = format!("{:?}", Envelope { message: b"02:00:5e:10:00:01".to_vec(), ..envelope() });
    assert!(shown.contains("<17 bytes>") && !shown.contains("5e"), "{shown}");
}

#[test]
fn a_reply_topic_belongs_to_one_key() {
    let topic = reply_topic(&public(&anonymous()));
    assert_eq!(topic, "consent-mesh/reply/e0ba9d7751d913a7f735ecb979fe99f32d105db2bdfad611217257847462f0e5");
    assert_eq!(topic.len(), REPLY_TOPIC_PREFIX.len() + 64);
    assert_ne!(topic, reply_topic(&public(&secret(6))));
}

#[test]
fn every_envelope_comes_back_as_it_was() {
    let mesh = mesh();
    let window = FRESHNESS_WINDOW as i64;
    let fields = (any::<bool>(), "[a-zA-Z0-9/é#+]{0,60}", any::<[u8; 16]>(), -window..=window);
    let rest = (proptest::option::of(any::<[u8; 32]>()), proptest::collection::vec(any::<u8>(), 0..300), 0..3_usize);
    for_all(&(fields, rest).prop_map(|case| case), 0.4..=0.6, |(fields, (head, message, receiver))| {
        let (is_anonymous, topic, id, time) = fields;
        let signer = if is_anonymous { anonymous() } else { gate() };
        let key = Receiver::Anonymous(public(&secret(6)));
        let receivers = [Receiver::Device(name(LIBRARY)), key, Receiver::Everyone];
        let envelope = Envelope {
            sender: if is_anonymous { Sender::Anonymous(public(&signer)) } else { Sender::Device(name(GATE)) },
            receiver: receivers[receiver].clone(),
            topic,
            id: MessageId(id),
            time: later(time),
            head: head.map(ChainHead),
            message,
        };
        let bytes = envelope.sign(&signer).unwrap();
        let arrival = Arrival {
            mesh: &mesh,
            topic: &envelope.topic,
            receiver: &envelope.receiver,
            anonymous_allowed: is_anonymous,
            now: NOW,
        };
        prop_assert_eq!(Envelope::open(&bytes, &arrival), Ok(envelope.clone()));
        Ok(is_anonymous)
    });
}
