//! Faults: processes that die, brokers that restart, air that loses, doubles and delays.
//!
//! `KILLS=5000` kills the repository more often, `SEEDS=100` tries more airs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use consent_mesh_tests::peer::{Peer, new_id};
use consent_mesh_tests::{Kind, Mesh, PATIENCE, address, now, policy};
use mesh_runtime::air::simulated::{PerMille, World};
use mesh_runtime::keys::SecretKeys;
use mesh_runtime::protocol::message::Message;
use pilot_core::evidence::PolicyStatement;

fn number_from(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

fn analytics(entity: &str) -> String {
    policy("analytics", entity, "ServiceUsageAnalytics", 3600)
}

/// kill -9 of the repository, again and again, while devices upload as fast as it answers: no upload that was
/// acknowledged is ever lost, and no version ever goes back.
#[test]
fn acknowledged_uploads_survive_kills() {
    const DEVICES: usize = 16;
    let kills = number_from("KILLS", 200);
    let mut mesh = Mesh::new(Kind::Mosquitto);
    let names: Vec<String> = (0..DEVICES).map(|number| format!("gate-{number}")).collect();
    for name in &names {
        mesh.controller(name, "mall", &analytics("mall"));
    }
    mesh.start("registry");
    let (over, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut uploaders = Vec::new();
    for name in names.clone() {
        let keys = Arc::new(SecretKeys::load(&mesh.layout.keys(&name)).unwrap());
        let mut peer = mesh.runtime.block_on(Peer::device(&mesh, &name));
        let (over, count) = (Arc::clone(&over), Arc::clone(&count));
        uploaders.push(mesh.runtime.spawn(async move {
            let mut acknowledged = 0;
            for version in 1.. {
                let text = policy("p", "mall", "ServiceUsageAnalytics", 3600 + version);
                let statement = peer.statement(&name, version, Some(&text), &keys);
                let id = new_id();
                loop {
                    if over.load(Ordering::Relaxed) {
                        return (name, acknowledged);
                    }
                    peer.say("registry", id, &Message::Upload { statement: statement.clone() });
                    if let Some(answer) = peer.answer_within(id, Duration::from_millis(200)).await {
                        match answer {
                            Message::Uploaded { version: stored, .. } => {
                                assert_eq!(stored, version);
                                acknowledged = version;
                                count.fetch_add(1, Ordering::Relaxed);
                                break;
                            }
                            // Busy: the same again.
                            Message::Refused { .. } => tokio::time::sleep(Duration::from_millis(20)).await,
                            other => panic!("{other:?}"),
                        }
                    }
                }
            }
            unreachable!("there are more versions than time")
        }));
    }
    for kill in 0..kills {
        // Not always at the same point of its life.
        std::thread::sleep(Duration::from_millis(20 + (kill * 37) % 180));
        mesh.kill("registry");
        mesh.launch("registry");
        if kill % 20 == 0 {
            mesh.until_connected("registry");
        }
    }
    mesh.until_connected("registry");
    // A slow disk takes its time.
    let begun = Instant::now();
    while count.load(Ordering::Relaxed) < kills && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(100));
    }
    over.store(true, Ordering::Relaxed);
    let acknowledged: BTreeMap<String, u64> =
        uploaders.into_iter().map(|uploader| mesh.runtime.block_on(uploader).unwrap()).collect();
    let total: u64 = acknowledged.values().sum();
    eprintln!("{kills} kills, {total} uploads acknowledged");
    assert!(total >= kills, "the load was no load: {total}");
    let stored = mesh.runtime.block_on(download(&mesh));
    for (name, version) in &acknowledged {
        let found = stored.get(name).copied().unwrap_or_default();
        // One more may have been stored whose acknowledgement did not arrive.
        assert!((*version..=version + 1).contains(&found), "{name}: {version} acknowledged, {found} stored");
    }
    mesh.stop("registry");
}

/// Everything that the repository hands out, verified: the version of each device.
async fn download(mesh: &Mesh) -> BTreeMap<String, u64> {
    let mut subject = Peer::subject(mesh).await;
    let (mut since, mut versions) = (0, BTreeMap::new());
    loop {
        let answer = subject.ask("registry", &Message::Fetch { since }).await;
        let Message::Policies { until, head, statements, .. } = answer else { panic!("{answer:?}") };
        for bytes in statements {
            let opened = PolicyStatement::open(&bytes, &subject.mesh, subject.mesh.vocabulary(), now()).unwrap();
            versions.insert(opened.device.as_str().to_owned(), opened.version);
        }
        since = until;
        if until == head {
            return versions;
        }
    }
}

/// A broker that restarts every two seconds: everything converges all the same, and again when it is quiet.
#[test]
fn a_broker_that_restarts() {
    for kind in Kind::ALL {
        let mut mesh = Mesh::new(kind);
        mesh.controller("mall-gate", "mall", &analytics("mall"));
        mesh.subject("alice", &address(1), &policy("yes", "mall", "ServiceUsageAnalytics", 7200), "");
        for name in ["registry", "mall-gate", "alice"] {
            mesh.launch(name);
        }
        let begun = Instant::now();
        let mut restarts = 0;
        while begun.elapsed() < Duration::from_secs(12) {
            std::thread::sleep(Duration::from_secs(2));
            let (broker, runtime) = (&mut mesh.broker, &mesh.runtime);
            broker.restart(runtime);
            restarts += 1;
        }
        assert!(restarts >= 4);
        mesh.until_listed(1);
        mesh.until_holds("mall-gate", &[1]);
        mesh.command("alice", "withdraw");
        let (broker, runtime) = (&mut mesh.broker, &mesh.runtime);
        broker.restart(runtime);
        mesh.until_holds("mall-gate", &[]);
    }
}

/// Air that loses a third, doubles a fifth and delays a fifth of all frames, with different luck: controllers hold what
/// they may, in the end all of it, and at no time anything else.
#[test]
fn air_that_loses_doubles_and_reorders() {
    for seed in 1..=number_from("SEEDS", 4) {
        let per_mille = |of_a_thousand| PerMille::new(of_a_thousand).unwrap();
        let world = World {
            seed,
            loss: per_mille(333),
            duplication: per_mille(200),
            delay: per_mille(200),
            lateness: Duration::from_secs(3),
            ..World::default()
        };
        let mut mesh = Mesh::in_world(Kind::Embedded, world);
        mesh.controller("mall-gate", "mall", &analytics("mall"));
        mesh.controller("shop-gate", "shop", &analytics("shop"));
        let yes = |entity: &str| policy(&format!("yes-{entity}"), entity, "ServiceUsageAnalytics", 7200);
        mesh.subject("alice", &address(1), &(yes("mall") + &yes("shop")), "");
        mesh.subject("bob", &address(2), &yes("shop"), "");
        mesh.subject("carol", &address(3), &yes("mall"), "");
        mesh.subject("dave", &address(4), "policy no { nothing }\n", "");
        for name in ["registry", "mall-gate", "shop-gate", "alice", "bob", "carol", "dave"] {
            mesh.launch(name);
        }
        let allowed = |mesh: &Mesh| {
            assert_eq!(mesh.holds("mall-gate", &[2, 4]), [0u8; 0], "seed {seed}");
            assert_eq!(mesh.holds("shop-gate", &[3, 4]), [0u8; 0], "seed {seed}");
        };
        mesh.until_holds("mall-gate", &[1, 3]);
        allowed(&mesh);
        mesh.until_holds("shop-gate", &[1, 2]);
        mesh.command("alice", "withdraw");
        mesh.until_holds("mall-gate", &[3]);
        mesh.until_holds("shop-gate", &[2]);
        // Her last frames are still in the air, late and doubled.
        let begun = Instant::now();
        while begun.elapsed() < world.lateness + Duration::from_secs(1) {
            allowed(&mesh);
            assert_eq!(mesh.holds("mall-gate", &[1]), [0u8; 0], "seed {seed}: withdrawn");
            assert_eq!(mesh.holds("shop-gate", &[1]), [0u8; 0], "seed {seed}: withdrawn");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}
