//! What is said to the repository, and until when.

use mesh_runtime::air::Address;
use mesh_runtime::protocol::message::{Message, Refusal};
use pilot_core::evidence::statement::Content;

use super::support::{LONG, Place, SHORT, START, after};

const ALICE: Address = Address::new([0xc0, 0xff, 0xee, 0x12, 0x34, 0x56]);

/// An upload is repeated with the same id until it is acknowledged, and whoever is busy is given time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_are_repeated_until_acknowledged() {
    let place = Place::new().await;
    let mut registry = place.registry().await;
    let gate = place.start_alone().await;
    let (id, statement) = registry.upload().await;
    let opened = registry.open(&statement);
    assert_eq!((opened.version, opened.issued), (1, START));
    assert_eq!(gate.status().await["repository"]["waiting_since"], START.to_string());
    place.clock.set(after(1));
    assert_eq!(registry.upload().await, (id, statement.clone()));
    registry.refuse(id, Refusal::Busy { retry_after: 20 });
    // What comes in order is done in order.
    registry.answer(&Message::Changed { revision: 1 });
    gate.until("put off", |status| status["complaints"]["not-for-us"] == 1).await;
    place.clock.set(after(20));
    place.clock.set(after(21));
    assert_eq!(registry.upload().await, (id, statement));
    // Nobody but the repository's answer to this request counts.
    registry.answer(&Message::Uploaded { request: id, version: 7, revision: 1 });
    registry.answer(&Message::Uploaded { request: id, version: 1, revision: 1 });
    gate.until("acknowledged", |status| status["repository"]["acknowledged"] == 1).await;
    gate.end().await.unwrap();
    assert_eq!(place.recorded()["uploadPolicy↑"], 1, "recorded once");
}

/// The same statement after a restart; a higher one when half of its life is over, and when the repository knows a later
/// one, because this disk was lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_grow_when_they_must() {
    let place = Place::new().await;
    let mut registry = place.registry().await;
    place.start(&mut registry).await.end().await.unwrap();
    place.clock.set(after(60));
    let gate = place.start_alone().await;
    assert_eq!(registry.acknowledge().await.version, 1);
    let day = 86_400;
    place.clock.set(after(45 * day - 1));
    assert_eq!(registry.acknowledge().await.version, 1, "uploaded again, in case the repository has lost it");
    place.clock.set(after(45 * day));
    let mut renewed = registry.acknowledge().await;
    if renewed.version == 1 {
        // Said once more, because the answer was still on its way.
        renewed = registry.acknowledge().await;
    }
    assert_eq!((renewed.version, renewed.issued), (2, after(45 * day)));
    gate.end().await.unwrap();
    std::fs::remove_file(place.data().join("published.json")).unwrap();
    let gate = place.start_alone().await;
    let (id, statement) = registry.upload().await;
    assert_eq!(registry.open(&statement).version, 1);
    registry.refuse(id, Refusal::NotHigher { stored: 2 });
    assert_eq!(registry.acknowledge().await.version, 3);
    gate.until("acknowledged", |status| status["repository"]["acknowledged"] == 3).await;
    gate.end().await.unwrap();
}

/// A changed policy file is in force after `reload`; a bad one changes nothing. Back and forth, each is uploaded at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_change() {
    let place = Place::new().await;
    let mut registry = place.registry().await;
    let gate = place.start(&mut registry).await;
    for (version, text) in [(2, SHORT), (3, LONG), (4, SHORT)] {
        place.write_policy("policy broken {");
        let error = gate.ask("reload").await.expect_err("no policy").to_string();
        assert!(error.contains("gate.pilot"), "{error}");
        place.write_policy(text);
        gate.ask("reload").await.unwrap();
        assert_eq!(registry.acknowledge().await.version, version);
        let status = gate.until("in force", |status| status["repository"]["acknowledged"] == version).await;
        assert_eq!(status["policy"]["digest"], place.policy(text).1.to_string());
    }
    let said = gate.ask("reload").await.unwrap();
    assert!(said["said"].as_str().unwrap().ends_with("has not changed."), "{said}");
    // Who accepted the shorter of the two is within both.
    let _alice = place.phone(ALICE, place.consent(SHORT)).await;
    gate.until_held(1).await;
    gate.end().await.unwrap();
}

/// A withdrawn policy is neither collected under nor published again by a restart; `reload` does that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_is_withdrawn_for_good() {
    let place = Place::new().await;
    let mut registry = place.registry().await;
    let gate = place.start(&mut registry).await;
    let phone = place.phone(ALICE, place.consent(LONG)).await;
    gate.until_held(1).await;
    drop(phone);
    gate.ask("withdraw-policy").await.unwrap();
    let (id, statement) = registry.upload().await;
    let opened = registry.open(&statement);
    assert_eq!((opened.version, opened.content), (2, Content::Withdrawal));
    let bob = Address::new([0xd1, 0x0e, 0xaa, 0x77, 0x01, 0x99]);
    let phone = place.phone(bob, place.consent(LONG)).await;
    gate.until_refused("policy-not-ours", 3).await;
    assert_eq!(gate.status().await["held"], 1, "what is held stays until its deadline");
    assert!(gate.ask("withdraw-policy").await.is_err(), "there is none any more");
    gate.end().await.unwrap();

    let gate = place.start_alone().await;
    let (again, same) = registry.upload().await;
    assert!(again == id && same == statement, "not acknowledged yet, so said again, as the trace has it");
    registry.answer(&Message::Uploaded { request: again, version: 2, revision: 9 });
    gate.until("acknowledged", |status| status["repository"]["acknowledged"] == 2).await;
    gate.until_refused("policy-not-ours", 3).await;
    let status = gate.status().await;
    assert!(status["policy"].is_null(), "{status}");
    assert_eq!(status["held"], 1);
    gate.ask("reload").await.unwrap();
    assert_eq!(registry.acknowledge().await.version, 3);
    gate.until_held(2).await;
    drop(phone);
    gate.end().await.unwrap();
    assert_eq!(place.recorded()["withdrawPolicy↑"], 1);
}
