//! What people take back is erased, stays away, and is acknowledged.

use ed25519_dalek::SigningKey;
use mesh_runtime::air::Address;
use mesh_runtime::driver::clock::Clock as _;
use mesh_runtime::journal::new_id;
use mesh_runtime::protocol::message::{Message, Refusal};
use mesh_runtime::protocol::sealed::Notice;
use pilot_core::graph::message::Withdrawal;
use pilot_core::semantics::Epoch;

use super::support::{GATE, LONG, Place, after, records_in};

const ALICE: Address = Address::new([0xc0, 0xff, 0xee, 0x12, 0x34, 0x56]);

fn notice(place: &Place) -> Notice {
    let withdrawal = Withdrawal { epoch: Epoch::of(place.clock.now()), until: after(3_600) };
    Notice { item: ALICE, withdrawal, signature: None }
}

fn is_withdrawn(answer: &Message) -> bool {
    matches!(answer, Message::Withdrawn { .. })
}

/// A notice erases; the same broadcast again is refused, also after a restart; the notice again is answered again, and
/// changes nothing; a later consent counts again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_notice_erases_and_keeps_away() {
    let place = Place::new().await;
    let mut registry = place.registry().await;
    let gate = place.start(&mut registry).await;
    let consent = place.consent(LONG);
    let phone = place.phone(ALICE, consent).await;
    gate.until_held(1).await;
    let mut alice = place.subject().await;
    let sealed = notice(&place).seal(GATE, &place.gate.public().sealing).unwrap();
    let id = new_id().unwrap();
    assert!(is_withdrawn(&alice.send(id, sealed.clone()).await));
    assert_eq!(gate.status().await["held"], 0);
    assert!(gate.held().await.is_empty());
    // Her phone has not stopped yet.
    gate.until_refused("withdrawn", 3).await;
    assert_eq!(gate.status().await["held"], 0);
    // The answer was lost, or somebody repeats what she sent.
    let steps = gate.status().await["steps"].clone();
    assert!(is_withdrawn(&alice.send(id, sealed.clone()).await));
    assert_eq!(gate.status().await["steps"], steps, "answered again, and nothing else");
    gate.end().await.unwrap();
    place.assert_nowhere(ALICE);
    assert_eq!(place.recorded()["withdraw↓"], 1);

    let gate = place.start(&mut registry).await;
    gate.until_refused("withdrawn", 3).await;
    assert!(is_withdrawn(&alice.send(id, sealed).await), "known from the vault");
    // In the next epoch she consents again.
    place.clock.set(after(Epoch::SECONDS));
    phone.advertiser.advertise(Some(place.consent(LONG))).unwrap();
    gate.until_held(1).await;
    gate.end().await.unwrap();
    assert_eq!(place.recorded()["withdraw↓"], 1);
    assert_eq!(records_in(&place.data(), place.clock.now()), 1);
}

/// A consent that was signed is withdrawn by the key that signed it, and by nobody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signed_consents_are_withdrawn_by_their_key() {
    let place = Place::new().await;
    let mut registry = place.registry().await;
    let gate = place.start(&mut registry).await;
    let (key, other) = (SigningKey::from_bytes(&[5; 32]), SigningKey::from_bytes(&[6; 32]));
    let phone = place.phone(ALICE, place.signed_consent(LONG, ALICE, &key)).await;
    gate.until_held(1).await;
    drop(phone);
    let mut somebody = place.subject().await;
    for forged in [notice(&place), notice(&place).sign(GATE, &other)] {
        let answer = somebody.withdraw(&forged).await;
        assert!(matches!(answer, Message::Refused { reason: Refusal::NotTheOwner, .. }), "{answer:?}");
    }
    assert_eq!(gate.status().await["held"], 1);
    assert_eq!(gate.status().await["complaints"]["not-the-owner"], 2);
    // Whoever restarts it does not change that.
    gate.end().await.unwrap();
    let gate = place.start(&mut registry).await;
    let answer = somebody.withdraw(&notice(&place)).await;
    assert!(matches!(answer, Message::Refused { reason: Refusal::NotTheOwner, .. }), "{answer:?}");
    assert!(is_withdrawn(&somebody.withdraw(&notice(&place).sign(GATE, &key)).await));
    assert_eq!(gate.status().await["held"], 0);
    gate.end().await.unwrap();
}

/// Somebody who signs a consent in Alice's name before she gives hers cannot keep her from taking it back: neither if she does
/// not sign, nor if she signs herself, and also after a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forged_signature_that_comes_first_keeps_nobody_from_withdrawing() {
    let (mallory, alice) = (SigningKey::from_bytes(&[6; 32]), SigningKey::from_bytes(&[5; 32]));
    for is_signed in [false, true] {
        let place = Place::new().await;
        let mut registry = place.registry().await;
        let gate = place.start(&mut registry).await;
        let phone = place.phone(ALICE, place.signed_consent(LONG, ALICE, &mallory)).await;
        gate.until_held(1).await;
        gate.until_refused("already-held", 2).await;
        drop(phone);
        let mut somebody = place.subject().await;
        let answer = somebody.withdraw(&notice(&place)).await;
        assert!(matches!(answer, Message::Refused { reason: Refusal::NotTheOwner, .. }), "{answer:?}");
        let consent = if is_signed { place.signed_consent(LONG, ALICE, &alice) } else { place.consent(LONG) };
        let heard = gate.status().await["refused"]["already-held"].as_u64().unwrap();
        let phone = place.phone(ALICE, consent).await;
        gate.until_refused("already-held", heard + 3).await;
        drop(phone);
        gate.end().await.unwrap();
        let gate = place.start(&mut registry).await;
        assert_eq!(gate.status().await["held"], 1);
        let unsigned = notice(&place);
        let hers = if is_signed { unsigned.sign(GATE, &alice) } else { unsigned };
        assert!(is_withdrawn(&somebody.withdraw(&hers).await));
        assert_eq!(gate.status().await["held"], 0);
        gate.end().await.unwrap();
    }
}

/// A notice about something that was never heard leaves its tombstone: the broadcast may be late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_notice_can_come_first() {
    let place = Place::new().await;
    let mut registry = place.registry().await;
    let gate = place.start(&mut registry).await;
    let consent = place.consent(LONG);
    let mut alice = place.subject().await;
    assert!(is_withdrawn(&alice.withdraw(&notice(&place)).await));
    let _phone = place.phone(ALICE, consent).await;
    gate.until_refused("withdrawn", 3).await;
    assert_eq!(gate.status().await["held"], 0);
    gate.end().await.unwrap();
    place.assert_nowhere(ALICE);
}

/// Notices that are not sealed for this gateway are refused, and too many at once are put off.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_is_a_limit_to_notices() {
    let place = Place::new().await;
    let mut registry = place.registry().await;
    let gate = place.start(&mut registry).await;
    let mut somebody = place.subject().await;
    let (mut malformed, mut busy) = (0, 0);
    for _ in 0..dc_gateway::notices::MAX_NOTICES_PER_SECOND + 5 {
        match somebody.send(new_id().unwrap(), vec![7; 100]).await {
            Message::Refused { reason: Refusal::Malformed, .. } => malformed += 1,
            Message::Refused { reason: Refusal::Busy { .. }, .. } => busy += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((malformed, busy), (dc_gateway::notices::MAX_NOTICES_PER_SECOND, 5));
    place.clock.set(after(1));
    assert!(is_withdrawn(&somebody.withdraw(&notice(&place)).await), "in the next second");
    gate.end().await.unwrap();
}
