//! What is kept, for how long, and what leaves no trace.

use ed25519_dalek::SigningKey;
use mesh_runtime::air::Address;
use mesh_runtime::air::frame::{ControllerTag, Frame};
use mesh_runtime::daemon::config::AirSetting;
use mesh_runtime::driver::clock::Clock as _;
use pilot_core::semantics::Epoch;
use pilot_core::value::Time;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::UnixStream;

use super::support::{FOREIGN, GATE, LONG, Place, REGISTRY, SHORT, START, after, records_in};

const ALICE: Address = Address::new([0xc0, 0xff, 0xee, 0x12, 0x34, 0x56]);
const BOB: Address = Address::new([0xd1, 0x0e, 0xaa, 0x77, 0x01, 0x99]);

/// Consented items are held under the policy that was accepted, until its deadline; applications learn of them by handle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_consented_to_is_held() {
    let place = Place::new().await;
    let mut registry = place.registry().await;
    let gate = place.start(&mut registry).await;
    let application = UnixStream::connect(place.path("applications.sock")).await.unwrap();
    gate.until("heard by an application", |status| status["applications"]["connected"] == 1).await;
    let _alice = place.phone(ALICE, place.consent(LONG)).await;
    gate.until_held(1).await;
    let key = SigningKey::from_bytes(&[5; 32]);
    let _bob = place.phone(BOB, place.signed_consent(LONG, BOB, &key)).await;
    gate.until_held(2).await;
    // Both are heard again and again.
    gate.until_refused("already-held", 20).await;

    let (digest, until) = (place.policy(LONG).1.to_string(), after(3_600).unix());
    let held = gate.held().await;
    assert_eq!(held.len(), 2);
    for item in &held {
        assert_eq!((item["policy"].as_str(), item["until"].as_u64()), (Some(digest.as_str()), Some(until)));
        assert_eq!(item["datatype"], "MACAddress");
    }
    let mut lines = BufReader::new(application).lines();
    for _ in 0..2 {
        let line = lines.next_line().await.unwrap().unwrap();
        let told: serde_json::Value = serde_json::from_str(&line).unwrap();
        let is_told = |item: &serde_json::Value| item["handle"] == told["handle"];
        assert!(held.iter().any(is_told), "{line}");
        assert_eq!(told["purposes"], serde_json::json!(["ServiceUsageAnalytics"]));
        assert_eq!((told["policy"].as_str(), told["until"].as_u64()), (Some(digest.as_str()), Some(until)));
        assert_eq!(told.as_object().unwrap().len(), 5, "and nothing else: {line}");
    }
    gate.end().await.unwrap();
    // Not in the clear, neither in the vault nor in the trace.
    place.assert_nowhere(ALICE);
    place.assert_nowhere(BOB);
    assert_eq!(records_in(&place.data(), START), 2);
    let steps = place.recorded();
    assert_eq!((steps["init"], steps["uploadPolicy↑"], steps["broadcast↓"]), (1, 1, 2));
}

/// Frames for others, of other times, for unknown policies, forged ones and garbage change no byte on the disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_refused_leaves_nothing_behind() {
    let place = Place::new().await;
    let mut registry = place.registry().await;
    let gate = place.start(&mut registry).await;
    let (digest, epoch, tag) = (place.policy(LONG).1, place.epoch(), ControllerTag(GATE.0));
    let before = place.snapshot();
    let mut forged = place.signed_consent(LONG, ALICE, &SigningKey::from_bytes(&[5; 32])).as_slice().to_vec();
    forged[60] ^= 1;
    let frames = [
        ("not-addressed", Frame::legacy(ControllerTag(REGISTRY.0), digest, epoch).encode()),
        ("policy-not-ours", place.consent(FOREIGN)),
        ("not-fresh", Frame::legacy(tag, digest, Epoch(epoch.0 - 3)).encode()),
        ("consent-signature", mesh_runtime::air::FrameBytes::new(&forged).unwrap()),
        // Signed for another address than it comes from.
        ("consent-signature", place.signed_consent(LONG, BOB, &SigningKey::from_bytes(&[5; 32]))),
        ("not-a-frame", mesh_runtime::air::FrameBytes::new(&[0xc0, 0xff, 0xee, 0x12, 0x34, 0x56]).unwrap()),
    ];
    let phone = place.phone(ALICE, frames[0].1).await;
    for (reason, frame) in frames {
        let refused = gate.status().await["refused"][reason].as_u64().unwrap_or_default();
        phone.advertiser.advertise(Some(frame)).unwrap();
        gate.until_refused(reason, refused + 3).await;
    }
    let status = gate.status().await;
    assert_eq!((status["held"].as_u64(), status["steps"].as_u64()), (Some(0), Some(2)), "{status}");
    assert!(status["complaints"]["consent-signature"].as_u64() >= Some(6));
    assert_eq!(place.snapshot(), before, "not a byte");
    drop(phone);
    gate.end().await.unwrap();
    place.assert_nowhere(ALICE);
    assert_eq!(records_in(&place.data(), START), 0);
}

/// At its deadline an item is erased, and that is recorded; the same broadcast is then too late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deadlines_are_kept() {
    let place = Place::new().await;
    place.write_policy(SHORT);
    let mut registry = place.registry().await;
    let gate = place.start(&mut registry).await;
    let phone = place.phone(ALICE, place.consent(SHORT)).await;
    gate.until_held(1).await;
    place.clock.set(after(599));
    gate.until_held(1).await;
    phone.advertiser.advertise(Some(place.consent(SHORT))).unwrap();
    place.clock.set(after(600));
    gate.until_held(0).await;
    assert!(gate.held().await.is_empty());
    gate.until_refused("past-deadline", 3).await;
    gate.end().await.unwrap();
    assert_eq!(place.recorded()["expire"], 1);
    place.assert_nowhere(ALICE);
}

/// What falls due while the gateway is down is erased before anything is served, and recorded; the rest is still held, and
/// heard of as such.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn downtime_does_not_matter() {
    let place = Place::new().await;
    place.write_policy(SHORT);
    let mut registry = place.registry().await;
    let gate = place.start(&mut registry).await;
    let phone = place.phone(ALICE, place.consent(SHORT)).await;
    gate.until_held(1).await;
    drop(phone);
    place.write_policy(LONG);
    gate.ask("reload").await.unwrap();
    registry.acknowledge().await;
    let phone = place.phone(BOB, place.consent(LONG)).await;
    gate.until_held(2).await;
    drop(phone);
    gate.end().await.unwrap();
    assert!(!place.recorded().contains_key("expire"));

    place.clock.set(after(700));
    let gate = place.start(&mut registry).await;
    let held = gate.held().await;
    assert_eq!(held.len(), 1);
    assert_eq!(held[0]["policy"], place.policy(LONG).1.to_string());
    let _phone = place.phone(BOB, place.consent(LONG)).await;
    gate.until_refused("already-held", 3).await;
    gate.end().await.unwrap();
    assert_eq!(place.recorded()["expire"], 1, "erased by the graph, too");
    assert_eq!(records_in(&place.data(), place.clock.now()), 1);
}

/// A restart begins from the vault: what is held is known, by handle and by policy, also under a policy that is not the
/// configuration's any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarts_go_on() {
    let place = Place::new().await;
    let mut registry = place.registry().await;
    let gate = place.start(&mut registry).await;
    let phone = place.phone(ALICE, place.consent(LONG)).await;
    gate.until_held(1).await;
    let held = gate.held().await;
    drop(phone);
    gate.end().await.unwrap();
    place.write_policy(SHORT);
    let gate = place.start(&mut registry).await;
    assert_eq!(gate.held().await, held);
    place.clock.set(after(3_600));
    gate.until_held(0).await;
    gate.end().await.unwrap();
    assert_eq!(place.recorded()["expire"], 1);
}

/// A record whose policy nobody knows any more cannot be judged, so it is erased.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_without_policy_are_erased() {
    let place = Place::new().await;
    let mut registry = place.registry().await;
    let gate = place.start(&mut registry).await;
    let phone = place.phone(ALICE, place.consent(LONG)).await;
    gate.until_held(1).await;
    drop(phone);
    gate.end().await.unwrap();
    std::fs::remove_file(place.data().join("published.json")).unwrap();
    place.write_policy(SHORT);
    let gate = place.start_alone().await;
    assert_eq!(gate.status().await["held"], 0);
    assert!(gate.held().await.is_empty());
    gate.end().await.unwrap();
    assert_eq!(records_in(&place.data(), Time::from_unix(START.unix() + 1)), 0);
}

/// The key that names what is in the vault is not made anew: nobody could take anything back then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_audit_key_is_said() {
    let place = Place::new().await;
    let mut registry = place.registry().await;
    place.start(&mut registry).await.end().await.unwrap();
    std::fs::remove_file(place.data().join("audit.key")).unwrap();
    let (link, events) = place.network.connect();
    let config = place.load().unwrap();
    let AirSetting::Simulated(setting) = &config.air else { panic!("no simulated air") };
    let air = setting.join(config.address).await.unwrap();
    let ended = dc_gateway::run_on(config, link, events, air, &place.clock, std::future::pending()).await;
    let error = ended.expect_err("no key").to_string();
    assert!(error.contains("audit.key"), "{error}");
}

/// Who is revoked collects nothing any more, and still erases in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_device_collects_nothing() {
    let place = Place::new().await;
    let mut registry = place.registry().await;
    let gate = place.start(&mut registry).await;
    let _alice = place.phone(ALICE, place.consent(LONG)).await;
    gate.until_held(1).await;
    place.write_mesh(2, "revoked = 2029-12-31\n");
    place.clock.set(after(10));
    gate.until("revoked", |status| status["member"] == false).await;
    let bob = place.phone(BOB, place.consent(LONG)).await;
    let heard = gate.status().await["air"]["heard"].as_u64().unwrap();
    let status = gate.until("heard", |status| status["air"]["heard"].as_u64() > Some(heard + 50)).await;
    assert_eq!((status["held"].as_u64(), status["refused"]["not-addressed"].as_u64()), (Some(1), None));
    drop(bob);
    place.clock.set(after(3_600));
    gate.until_held(0).await;
    gate.end().await.unwrap();
}
