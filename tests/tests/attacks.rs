//! Attacks on the repository: whatever somebody with a connection to the broker can say.

use std::sync::Arc;
use std::time::Duration;

use consent_mesh_tests::peer::{Peer, new_id};
use consent_mesh_tests::{Kind, Mesh, address, now, policy};
use mesh_runtime::keys::SecretKeys;
use mesh_runtime::link::Topic;
use mesh_runtime::protocol::message::{Message, Refusal};
use mesh_runtime::protocol::{changes_topic, device_topic};
use pilot_core::evidence::Envelope;
use pilot_core::evidence::envelope::{Receiver, Sender, reply_topic};
use pilot_core::evidence::{DeviceName, PolicyStatement};
use pilot_core::value::Time;
use serde_json::Value;

const MALL_POLICY: &str =
    "policy p {\n  collect MACAddress by mall\n    for ServiceUsageAnalytics\n    until 2035-01-01\n}\n";
const SHOP_POLICY: &str =
    "policy p {\n  collect MACAddress by shop\n    for ServiceUsageAnalytics\n    until 2035-01-01\n}\n";

fn mesh(kind: Kind) -> Mesh {
    let mut mesh = Mesh::new(kind);
    mesh.controller("mall-gate", "mall", &policy("footfall", "mall", "ServiceUsageAnalytics", 3600));
    mesh.controller("shop-gate", "shop", &policy("vouchers", "shop", "PersonalisedBenefits", 3600));
    mesh.start("registry");
    mesh
}

fn keys(mesh: &Mesh, name: &str) -> Arc<SecretKeys> {
    Arc::new(SecretKeys::load(&mesh.layout.keys(name)).unwrap())
}

fn refused(mesh: &Mesh, kind: &str) -> u64 {
    mesh.command("registry", "status")["complaints"][kind].as_u64().unwrap_or_default()
}

fn until_refused(mesh: &Mesh, kind: &str, count: u64) {
    mesh.until("registry", "status", &format!("{kind} {count} times"), |status: &Value| {
        (status["complaints"][kind].as_u64()? >= count).then_some(())
    });
}

fn reason(answer: &Message) -> Refusal {
    let Message::Refused { reason, .. } = answer else { panic!("{answer:?}") };
    *reason
}

/// A device's own statement is stored, acknowledged and handed on byte by byte; the same one again is acknowledged
/// again without a second effect; an older or different one of the same version is refused.
#[test]
fn uploads_versions_and_replays() {
    for kind in Kind::ALL {
        let mesh = mesh(kind);
        mesh.runtime.block_on(async {
            let mall_keys = keys(&mesh, "mall-gate");
            let mut gate = Peer::device(&mesh, "mall-gate").await;
            let second = gate.statement("mall-gate", 2, Some(MALL_POLICY), &mall_keys);
            let answer = gate.ask("registry", &Message::Upload { statement: second.clone() }).await;
            assert!(matches!(answer, Message::Uploaded { version: 2, revision: 1, .. }), "{answer:?}");
            let again = gate.ask("registry", &Message::Upload { statement: second.clone() }).await;
            assert!(matches!(again, Message::Uploaded { version: 2, revision: 1, .. }), "no second effect");
            let first = gate.statement("mall-gate", 1, Some(MALL_POLICY), &mall_keys);
            let answer = gate.ask("registry", &Message::Upload { statement: first }).await;
            assert_eq!(reason(&answer), Refusal::NotHigher { stored: 2 });
            tokio::time::sleep(Duration::from_secs(1)).await;
            let other = gate.statement("mall-gate", 2, Some(MALL_POLICY), &mall_keys);
            let answer = gate.ask("registry", &Message::Upload { statement: other }).await;
            assert_eq!(reason(&answer), Refusal::NotHigher { stored: 2 }, "another statement of the same version");

            let mut subject = Peer::subject(&mesh).await;
            let answer = subject.ask("registry", &Message::Fetch { since: 0 }).await;
            let Message::Policies { since: 0, until: 1, head: 1, statements, .. } = answer else {
                panic!("{answer:?}")
            };
            assert_eq!(statements, std::slice::from_ref(&second));
            let opened = PolicyStatement::open(&statements[0], &subject.mesh, subject.mesh.vocabulary(), now());
            assert_eq!(opened.unwrap().version, 2);

            let withdrawal = gate.statement("mall-gate", 3, None, &mall_keys);
            let answer = gate.ask("registry", &Message::Upload { statement: withdrawal.clone() }).await;
            assert!(matches!(answer, Message::Uploaded { version: 3, revision: 2, .. }), "{answer:?}");
            let answer = subject.ask("registry", &Message::Fetch { since: 1 }).await;
            let Message::Policies { until: 2, head: 2, statements, .. } = answer else { panic!("{answer:?}") };
            assert_eq!(statements, [withdrawal]);
        });
        assert_eq!(mesh.command("registry", "status")["listed"], 0, "withdrawn");
        assert_eq!(refused(&mesh, "rolled-back"), 2);
    }
}

/// Nobody uploads for another device, for another entity, with another key, or anonymously.
#[test]
fn forged_uploads_are_refused() {
    let mesh = mesh(Kind::Embedded);
    mesh.runtime.block_on(async {
        let (mall_keys, shop_keys) = (keys(&mesh, "mall-gate"), keys(&mesh, "shop-gate"));
        let mut shop = Peer::device(&mesh, "shop-gate").await;
        // The mall's true statement, sent by the shop.
        let true_one = shop.statement("mall-gate", 1, Some(MALL_POLICY), &mall_keys);
        let answer = shop.ask("registry", &Message::Upload { statement: true_one.clone() }).await;
        assert_eq!(reason(&answer), Refusal::NotAllowed);
        // The mall's statement, signed by the shop.
        let forged = shop.statement("mall-gate", 1, Some(MALL_POLICY), &shop_keys);
        let answer = shop.ask("registry", &Message::Upload { statement: forged }).await;
        assert_eq!(reason(&answer), Refusal::Statement);
        // The shop's statement about what the mall may do.
        let foreign = shop.statement("shop-gate", 1, Some(MALL_POLICY), &shop_keys);
        let answer = shop.ask("registry", &Message::Upload { statement: foreign }).await;
        assert_eq!(reason(&answer), Refusal::Statement);
        // A statement with one bit changed, anywhere.
        let own = shop.statement("shop-gate", 1, Some(SHOP_POLICY), &shop_keys);
        for at in [0, 10, own.len() / 2, own.len() - 1] {
            let mut changed = own.clone();
            changed[at] ^= 1;
            let answer = shop.ask("registry", &Message::Upload { statement: changed }).await;
            assert_eq!(reason(&answer), Refusal::Statement, "byte {at}");
        }
        let mut stranger = Peer::subject(&mesh).await;
        let answer = stranger.ask("registry", &Message::Upload { statement: true_one }).await;
        assert_eq!(reason(&answer), Refusal::NotAllowed);
    });
    assert_eq!(mesh.command("registry", "status")["revision"], 0, "nothing was stored");
    assert_eq!(refused(&mesh, "forged-upload"), 1);
    assert_eq!(refused(&mesh, "anonymous-upload"), 1);
    assert_eq!(refused(&mesh, "statement"), 6);
}

/// Somebody who has no key of the mesh cannot speak for a device; a revoked device cannot speak at all.
#[test]
fn impostors_and_revoked_devices_get_no_answer() {
    let mut mesh = mesh(Kind::Embedded);
    mesh.runtime.block_on(async {
        let thief = Arc::new(SecretKeys::generate().unwrap());
        let mut impostor = Peer::device_with(&mesh, "mall-gate", thief).await;
        let id = new_id();
        impostor.say("registry", id, &Message::Fetch { since: 0 });
        assert_eq!(impostor.answer_within(id, Duration::from_secs(1)).await, None);
    });
    until_refused(&mesh, "signature", 1);
    mesh.layout.revoke("shop-gate");
    mesh.layout.sign().unwrap();
    mesh.daemon("registry").hang_up();
    mesh.until("registry", "reload", "the new mesh file", |answer| (answer["serial"] == 3).then_some(()));
    mesh.runtime.block_on(async {
        let mut shop = Peer::device(&mesh, "shop-gate").await;
        let id = new_id();
        shop.say("registry", id, &Message::Fetch { since: 0 });
        assert_eq!(shop.answer_within(id, Duration::from_secs(1)).await, None);
    });
    until_refused(&mesh, "invalid-device", 1);
}

/// An envelope is for one topic, one receiver and a few minutes; answers go to the asker's own topic only.
#[test]
fn envelopes_are_for_here_and_now() {
    let mesh = mesh(Kind::Embedded);
    mesh.runtime.block_on(async {
        let gate_keys = keys(&mesh, "mall-gate");
        let gate = Peer::device(&mesh, "mall-gate").await;
        let victim = SecretKeys::generate().unwrap();
        let registry = device_topic(gate.mesh.device("registry").unwrap().tag).unwrap();
        let name = |name: &str| DeviceName::new(name).unwrap();
        let envelope = |time: Time| Envelope {
            sender: Sender::Device(name("mall-gate")),
            receiver: Receiver::Device(name("registry")),
            topic: registry.as_str().into(),
            id: new_id(),
            time,
            head: None,
            message: Message::Fetch { since: 0 }.encode(),
        };
        let send = |envelope: &Envelope, topic: &Topic, keys: &SecretKeys| {
            gate.publish(topic.clone(), envelope.sign(keys).unwrap());
        };
        send(&envelope(Time::from_unix(now().unix() - 1000)), &registry, &gate_keys);
        send(&envelope(Time::from_unix(now().unix() + 1000)), &registry, &gate_keys);
        let elsewhere = Envelope { topic: "consent-mesh/device/00000009".into(), ..envelope(now()) };
        send(&elsewhere, &registry, &gate_keys);
        let for_another = Envelope { receiver: Receiver::Device(name("shop-gate")), ..envelope(now()) };
        send(&for_another, &registry, &gate_keys);
        let unknown = Envelope { sender: Sender::Device(name("nobody")), ..envelope(now()) };
        send(&unknown, &registry, &gate_keys);
        // Somebody asks in the name of a subject, to have an answer sent to her topic: the key must sign.
        let for_victim = Envelope { sender: Sender::Anonymous(victim.public().signing), ..envelope(now()) };
        send(&for_victim, &registry, &gate_keys);
        gate.flush().await;
        // And with the right key, the answer goes to the topic derived from it, wherever the asker is.
        assert!(reply_topic(&victim.public().signing).starts_with("consent-mesh/reply/"));
    });
    until_refused(&mesh, "stale", 2);
    until_refused(&mesh, "wrong-topic", 1);
    until_refused(&mesh, "wrong-receiver", 1);
    until_refused(&mesh, "unknown-sender", 1);
    until_refused(&mesh, "signature", 1);
    assert_eq!(mesh.command("registry", "status")["downloads"], 0);
}

/// Garbage of all sizes on every topic changes nothing, is counted and said once, and everybody goes on.
#[test]
fn garbage_is_counted() {
    for kind in Kind::ALL {
        let mut mesh = mesh(kind);
        mesh.subject("alice", &address(1), &policy("yes", "mall", "ServiceUsageAnalytics", 7200), "");
        mesh.start("mall-gate");
        mesh.runtime.block_on(async {
            let mut stranger = Peer::subject(&mesh).await;
            let tag = |name: &str| stranger.mesh.device(name).unwrap().tag;
            let topics = [
                device_topic(tag("registry")).unwrap(),
                device_topic(tag("mall-gate")).unwrap(),
                changes_topic(tag("registry")).unwrap(),
                Topic::new("consent-mesh/reply/00").unwrap(),
                Topic::new("consent-mesh/device/ffffffff").unwrap(),
            ];
            let mut seed = 7u64;
            let mut random = || {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (seed >> 33) as u8
            };
            for round in 0..200usize {
                let garbage: Vec<u8> = (0..round * 5).map(|_| random()).collect();
                stranger.publish(topics[round % topics.len()].clone(), garbage);
            }
            stranger.publish(topics[0].clone(), vec![0x84; 200_000]);
            let answer = stranger.ask("registry", &Message::Fetch { since: 0 }).await;
            assert!(matches!(answer, Message::Policies { .. }), "{answer:?}");
        });
        for (name, count) in [("registry", 41), ("mall-gate", 40)] {
            mesh.until(name, "status", "garbage is counted", |status: &Value| {
                (status["complaints"]["malformed"].as_u64()? >= count).then_some(())
            });
            let log = mesh.log(name);
            let lines = log.lines().filter(|line| line.contains("malformed")).count();
            assert!(lines <= 2, "said once, not {count} times:\n{log}");
        }
        // Whoever comes now finds everything as it should be.
        mesh.start("alice");
        mesh.until_holds("mall-gate", &[1]);
    }
}

/// Ten megabytes to a device's topic reach nobody; the device goes on.
#[test]
fn a_huge_message_is_not_delivered() {
    let mesh = mesh(Kind::Mosquitto);
    mesh.runtime.block_on(async {
        let mut subject = Peer::subject(&mesh).await;
        let topic = device_topic(subject.mesh.device("registry").unwrap().tag).unwrap();
        let port = mesh.layout.broker.rsplit_once(':').unwrap().1.parse().unwrap();
        let mut options = rumqttc::MqttOptions::new("giant", ("127.0.0.1", port));
        options.set_incoming_packet_size_limit(rumqttc::IncomingPacketSizeLimit::Unlimited);
        let (client, mut event_loop) = rumqttc::AsyncClient::builder(options).capacity(10).build();
        let at_least_once = rumqttc::PublishOptions::at_least_once();
        client.publish(topic.as_str(), vec![0_u8; 10 << 20], at_least_once).await.unwrap();
        let acknowledged = async {
            loop {
                if let rumqttc::Event::Incoming(rumqttc::Packet::PubAck(_)) = event_loop.poll().await.unwrap() {
                    return;
                }
            }
        };
        tokio::time::timeout(consent_mesh_tests::PATIENCE, acknowledged).await.expect("the broker takes it");
        let answer = subject.ask("registry", &Message::Fetch { since: 0 }).await;
        assert!(matches!(answer, Message::Policies { .. }), "{answer:?}");
    });
    assert_eq!(refused(&mesh, "malformed"), 0, "it was not even looked at");
}

/// A daemon with another operator's key believes nothing, and says so.
#[test]
fn a_wrong_operator_key_is_refused() {
    let mut mesh = Mesh::new(Kind::Embedded);
    mesh.layout.sign().unwrap();
    let config = mesh.layout.config("registry");
    let other = SecretKeys::generate().unwrap().public().signing.to_string();
    let text = std::fs::read_to_string(&config).unwrap();
    let own = mesh.layout.operator().signing.to_string();
    std::fs::write(&config, text.replace(&own, &other)).unwrap();
    let output = std::process::Command::new(consent_mesh_tests::process::binary())
        .args(["run", "repository", "--config"])
        .arg(&config)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(64));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("the operator's key did not sign this mesh file"), "{said}");
    assert_eq!(said.lines().count(), 1, "one sentence: {said}");
}
