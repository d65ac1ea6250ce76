//! The whole mesh at work: every test against the embedded broker and against mosquitto, with the same assertions.

use consent_mesh_tests::{Kind, Mesh, address, address_bytes, files_with, policy};
use mesh_runtime::air::simulated::World;
use serde_json::json;

const ALICE: u8 = 1;
const BOB: u8 = 2;
const CAROL: u8 = 3;
const DAVE: u8 = 4;

fn analytics(entity: &str) -> String {
    policy("analytics", entity, "ServiceUsageAnalytics", 3600)
}

/// What a subject writes who accepts these entities for analytics.
fn accepts(entities: &[&str]) -> String {
    let policy = |entity: &&str| policy(&format!("yes-{entity}"), entity, "ServiceUsageAnalytics", 7200);
    entities.iter().map(policy).collect()
}

/// A registry, a mall and a shop, all running.
fn mall(kind: Kind) -> Mesh {
    let mut mesh = Mesh::new(kind);
    mesh.controller("mall-gate", "mall", &analytics("mall"));
    mesh.controller("shop-gate", "bookshop", &analytics("bookshop"));
    for name in ["registry", "mall-gate", "shop-gate"] {
        mesh.start(name);
    }
    mesh.until_listed(2);
    mesh
}

/// Nothing of an address is in any file that controllers and the repository wrote.
fn assert_no_trace_of(mesh: &Mesh, number: u8) {
    let bytes = address_bytes(number);
    let hexadecimal: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    for part in ["data", "traces", "logs"] {
        for device in ["registry", "mall-gate", "shop-gate"] {
            let root = mesh.root().join(part).join(device);
            if root.is_dir() {
                for needle in [&bytes[..], hexadecimal.as_bytes(), address(number).as_bytes()] {
                    assert_eq!(files_with(&root, needle), Vec::<std::path::PathBuf>::new(), "{part} of {device}");
                }
            }
        }
        let log = mesh.log("mall-gate").to_lowercase();
        assert!(!log.contains(&address(number)) && !log.contains(&hexadecimal));
    }
}

/// Controllers hold exactly what people consented to. Who refuses says why, and leaves no byte behind.
#[test]
fn consent_and_refusal() {
    for kind in Kind::ALL {
        let mut mesh = mall(kind);
        mesh.subject("alice", &address(ALICE), &accepts(&["mall", "shop"]), "");
        mesh.subject("bob", &address(BOB), &accepts(&["shop"]), "");
        let adults = analytics("mall").replace("    for", "    when age >= 18\n    for");
        mesh.subject("carol", &address(CAROL), &adults, "attributes = { age = 12 }");
        mesh.subject("dave", &address(DAVE), "policy no { nothing }\n", "");
        for name in ["alice", "bob", "carol", "dave"] {
            mesh.start(name);
        }
        mesh.until_holds("mall-gate", &[ALICE]);
        mesh.until_holds("shop-gate", &[ALICE, BOB]);
        let why = mesh.until_decided("bob", "mall-gate", false);
        assert!(why.contains("`mall` is not part of `shop`"), "{why}");
        let why = mesh.until_decided("carol", "mall-gate", false);
        assert!(why.contains("age"), "{why}");
        mesh.until_decided("dave", "shop-gate", false);
        // The gates have heard of bob, who speaks to the shop; only it may keep him.
        let heard = |status: &serde_json::Value| (status["refused"]["not-addressed"].as_u64()? > 0).then_some(());
        mesh.until("mall-gate", "status", "it refused what is not for it", heard);
        assert_eq!(mesh.holds("mall-gate", &[BOB, CAROL, DAVE]), [0u8; 0]);
        for name in ["alice", "bob", "carol", "dave", "mall-gate", "shop-gate", "registry"] {
            mesh.stop(name);
        }
        for number in [CAROL, DAVE] {
            assert_no_trace_of(&mesh, number);
        }
        let of_mall = mesh.root().join("data/mall-gate");
        assert_eq!(files_with(&of_mall, &address_bytes(BOB)), Vec::<std::path::PathBuf>::new());
        // Not even what is held can be read without the vault's key.
        assert_no_trace_of(&mesh, ALICE);
    }
}

/// A controller that changes its policy: subjects hear of it at once and decide anew. What was given under the old policy
/// stays under the old policy.
#[test]
fn a_change_of_policy_reaches_subjects() {
    for kind in Kind::ALL {
        let mut mesh = mall(kind);
        mesh.subject("alice", &address(ALICE), &accepts(&["mall"]), "");
        mesh.start("alice");
        mesh.until_holds("mall-gate", &[ALICE]);
        mesh.rewrite_policy("mall-gate", &policy("ads", "mall", "TargetedAdvertising", 3600));
        mesh.daemon("mall-gate").hang_up();
        let why = mesh.until_decided("alice", "mall-gate", false);
        assert!(why.contains("TargetedAdvertising"), "{why}");
        assert_eq!(mesh.holds("mall-gate", &[ALICE]), [ALICE]);
        // She changes her own, and accepts again.
        let both = format!("{}{}", accepts(&["mall"]), policy("ads", "mall", "TargetedAdvertising", 7200));
        mesh.rewrite_policy("alice", &both);
        mesh.daemon("alice").hang_up();
        mesh.until_decided("alice", "mall-gate", true);
        mesh.until_held("mall-gate", 2);
    }
}

/// Who withdraws from a controller that has never heard her is answered, and nothing is wrong with that: the audit at the end
/// of each test says so.
#[test]
fn withdrawal_from_who_has_nothing() {
    let deaf = World { range: Some(0), ..World::default() };
    let mut mesh = Mesh::in_world(Kind::Embedded, deaf);
    mesh.controller("mall-gate", "mall", &analytics("mall"));
    // Out of reach.
    mesh.subject("alice", &address(ALICE), &accepts(&["mall"]), "");
    let config = mesh.layout.config("alice");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("[air]\n", "[air]\nposition = [9, 9]\n")).unwrap();
    for name in ["registry", "mall-gate", "alice"] {
        mesh.start(name);
    }
    mesh.until_decided("alice", "mall-gate", true);
    let advertises = |status: &serde_json::Value| (status["advertising"].as_array()?.len() == 1).then_some(());
    mesh.until("alice", "status", "she advertises", advertises);
    mesh.command("alice", "withdraw");
    let told = |status: &serde_json::Value| (status["withdrawn"] == 1).then_some(());
    mesh.until("mall-gate", "status", "it was told", told);
    assert_eq!(mesh.held("mall-gate"), 0);
}

/// Withdrawing is one command: frames stop, what is held is erased, and it stays gone.
#[test]
fn withdrawal_erases() {
    for kind in Kind::ALL {
        let mut mesh = mall(kind);
        for (name, number) in [("alice", ALICE), ("bob", BOB)] {
            mesh.subject(name, &address(number), &accepts(&["mall", "shop"]), "");
            mesh.start(name);
        }
        mesh.until_holds("mall-gate", &[ALICE, BOB]);
        mesh.until_holds("shop-gate", &[ALICE, BOB]);
        mesh.ask("alice", &json!({ "command": "withdraw", "controller": "mall-gate" })).unwrap();
        mesh.until_holds("mall-gate", &[BOB]);
        let why = mesh.until_decided("alice", "mall-gate", false);
        assert!(why.contains("withdrawn"), "{why}");
        assert_eq!(mesh.holds("shop-gate", &[ALICE]), [ALICE], "only from the mall");
        mesh.command("bob", "withdraw");
        mesh.until_holds("mall-gate", &[]);
        mesh.until_holds("shop-gate", &[ALICE]);
        // Both remember, after kill -9 as well.
        for name in ["bob", "mall-gate", "shop-gate"] {
            mesh.kill(name);
            mesh.start(name);
        }
        mesh.until_decided("bob", "mall-gate", false);
        mesh.until_holds("shop-gate", &[ALICE]);
        assert_eq!(mesh.held("mall-gate"), 0);
    }
}

/// A subject who has been here before needs no network: she goes on with the policies that she knows.
#[test]
fn a_subject_without_network() {
    for kind in Kind::ALL {
        let mut mesh = mall(kind);
        mesh.subject("alice", &address(ALICE), &accepts(&["mall"]), "answer_seconds = 2");
        mesh.start("alice");
        mesh.until_holds("mall-gate", &[ALICE]);
        mesh.stop("alice");
        mesh.stop("mall-gate");
        // The gate forgets everything; nobody can ask or answer any more.
        std::fs::remove_dir_all(mesh.layout.data("mall-gate")).unwrap();
        std::fs::remove_dir_all(mesh.root().join("traces/mall-gate")).unwrap();
        let (broker, runtime) = (&mut mesh.broker, &mesh.runtime);
        broker.stop(runtime);
        mesh.launch("mall-gate");
        mesh.launch("alice");
        mesh.until_decided("alice", "mall-gate", true);
        mesh.until_holds("mall-gate", &[ALICE]);
    }
}

/// Every daemon, one after the other, is killed without warning and started again; the mesh goes on as it was.
#[test]
fn restarts() {
    for kind in Kind::ALL {
        let mut mesh = mall(kind);
        mesh.subject("alice", &address(ALICE), &accepts(&["mall", "shop"]), "");
        mesh.start("alice");
        mesh.until_holds("mall-gate", &[ALICE]);
        for name in ["registry", "mall-gate", "shop-gate", "alice"] {
            mesh.kill(name);
            mesh.start(name);
        }
        mesh.until_listed(2);
        mesh.until_holds("mall-gate", &[ALICE]);
        mesh.until_holds("shop-gate", &[ALICE]);
        mesh.until_decided("alice", "shop-gate", true);
        mesh.subject("bob", &address(BOB), &accepts(&["shop"]), "");
        mesh.start("bob");
        mesh.until_holds("shop-gate", &[ALICE, BOB]);
        for name in ["registry", "mall-gate", "shop-gate", "alice", "bob"] {
            mesh.stop(name);
        }
    }
}
