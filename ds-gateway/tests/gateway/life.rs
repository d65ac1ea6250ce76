//! From the first start to a withdrawal and beyond.

use mesh_runtime::driver::clock::Clock as _;
use mesh_runtime::protocol::message::Message;
use pilot_core::semantics::Epoch;
use serde_json::json;

use super::mesh::{name, tag};
use super::support::Neighbourhood;

/// Nothing is on the air before a download, then exactly the accepted controllers, and none after a withdrawal.
#[tokio::test]
async fn the_air_is_for_those_she_accepts() {
    let mut world = Neighbourhood::new().await;
    world.registry.lock().unwrap().is_silent = true;
    let gateway = world.start("").await;
    let registry = world.registry.clone();
    world.until("it asks", || registry.lock().unwrap().asked.len() > 3).await;
    assert!(world.heard(20).await.is_empty(), "nothing is known yet");
    let asked = registry.lock().unwrap().asked.clone();
    assert!(asked.iter().all(|question| *question == asked[0]), "repeated with the same id");

    registry.lock().unwrap().is_silent = false;
    world.until_heard(&["gate", "till"]).await;
    let decided = gateway.accepted().await;
    assert_eq!(decided["gate"], (true, "accepted under your `mall`, until 01/01/2036".to_owned()));
    assert_eq!(decided["till"].1, "accepted under your `books`, while age is at least 18, until 01/01/2036");
    let (accepted, why) = &decided["ads"];
    assert!(!accepted && why.contains("entity `advertiser` is not part of"), "{why}");

    let answer = gateway.ask(json!({ "command": "withdraw" })).await;
    assert_eq!(answer["withdrawn_from"].as_array().unwrap().len(), 2, "{answer}");
    world.listen_anew().await;
    assert!(world.heard(300).await.is_empty(), "whatever epoch it is");
    for device in ["gate", "till"] {
        let controller = world.controllers[device].clone();
        world.until("the notice came", || !controller.lock().unwrap().notices.is_empty()).await;
    }
    assert!(world.controllers["ads"].lock().unwrap().notices.is_empty(), "it never got anything");
    assert_eq!(gateway.status().await["notices_waiting"], json!([]));
    assert_eq!(gateway.accepted().await["gate"].1, "you have withdrawn from `mall`");
    gateway.stop().await;
}

/// A notice is repeated until it is acknowledged, also by the next run, and a refusal outlives restarts. Without a
/// repository she goes on with what she knows.
#[tokio::test]
async fn a_restart_restores_everything() {
    let mut world = Neighbourhood::new().await;
    let settings = "answer_seconds = 5\nrefresh_seconds = 30";
    let gateway = world.start(settings).await;
    world.until_heard(&["gate", "till"]).await;
    let gate = world.controllers["gate"].clone();
    gate.lock().unwrap().is_silent = true;
    gateway.ask(json!({ "command": "withdraw", "controller": "mall" })).await;
    world.until("the notice came", || gate.lock().unwrap().notices.len() > 1).await;
    assert_eq!(gateway.status().await["notices_waiting"], json!(["gate"]));
    gateway.stop().await;

    world.registry.lock().unwrap().is_silent = true;
    let before = gate.lock().unwrap().notices.len();
    world.listen_anew().await;
    let gateway = world.start(settings).await;
    world.until("it comes again", || gate.lock().unwrap().notices.len() > before).await;
    let notices = gate.lock().unwrap().notices.clone();
    assert!(notices.iter().all(|(id, notice)| *id == notices[0].0 && *notice == notices[0].1), "the same notice");
    let key = notices[0].1.signature.expect("the consent was signed").key;
    assert!(notices[0].1.is_signed_by(&key, tag("gate")));
    world.until_heard(&["till"]).await;
    gate.lock().unwrap().is_silent = false;
    for _ in 0..400 {
        world.pass().await;
    }
    assert_eq!(gateway.status().await["notices_waiting"], json!([]));
    let status = gateway.status().await;
    assert_eq!(status["refused_entities"], json!(["mall"]), "{status}");

    let answer = gateway.ask(json!({ "command": "admit", "controller": "gate" })).await;
    assert_eq!(answer, json!({ "admitted": "mall", "was_refused": true, "still_refused": [] }));
    world.until_heard(&["gate", "till"]).await;
    gateway.stop().await;
}

/// A notice of the repository is enough to see a new policy at once, and what is no longer accepted is silent at once.
#[tokio::test]
async fn news_are_asked_for() {
    let mut world = Neighbourhood::new().await;
    let gateway = world.start("refresh_seconds = 86400").await;
    world.until_heard(&["gate", "till"]).await;
    let modest = "collect MACAddress by mall for ServiceUsageAnalytics until 2036-01-01";
    let greedy = format!("{modest} transfer to advertiser for PersonalisedAdvertising until 2036-01-01");
    let statement = world.mesh.statement("gate", 2, Some(&greedy));
    world.registry.lock().unwrap().statements.push(statement);
    world.announce("registry", &Message::Changed { revision: 4 });
    world.until_heard(&["till"]).await;
    let withdrawal = world.mesh.statement("till", 2, None);
    world.registry.lock().unwrap().statements.push(withdrawal);
    world.announce("registry", &Message::Changed { revision: 5 });
    world.until_heard(&[]).await;
    let asked = world.registry.lock().unwrap().questions();
    let since: Vec<u64> = asked.iter().map(|(since, _)| *since).collect();
    assert_eq!(since, [0, 2, 3, 4], "only what is new");
    assert_eq!(asked[0].1, asked[1].1, "parts of one download have one id");
    assert_ne!(asked[1].1, asked[2].1);
    assert_eq!(gateway.status().await["policies"]["count"], json!(2));
    gateway.stop().await;
}

/// Her own policies are read again; she is told who may hold what she would not give any more.
#[tokio::test]
async fn policies_are_read_again() {
    let mut world = Neighbourhood::new().await;
    let gateway = world.start("").await;
    world.until_heard(&["gate", "till"]).await;
    world.mesh.write_policies("policy mall { collect MACAddress by moll for ServiceUsageAnalytics until 2036-01-01 }");
    let refusal = gateway.refusal(json!({ "command": "reload" })).await;
    assert!(
        refusal.contains("did you mean `mall`?") && refusal.ends_with("your policies are as they were"),
        "{refusal}"
    );
    world.mesh.write_policies("policy books { collect MACAddress by shop for Advertising until 2036-01-01 }");
    let answer = gateway.ask(json!({ "command": "reload" })).await;
    assert_eq!(answer["may_still_hold"], json!([{ "controller": "gate", "entity": "mall" }]));
    world.listen_anew().await;
    assert!(world.heard(30).await.iter().all(|device| *device == "till"));
    world.until_heard(&["till"]).await;
    let answer = gateway.ask(json!({ "command": "withdraw", "controller": "gate" })).await;
    assert_eq!(answer["withdrawn_from"], json!([{ "controller": "gate", "entity": "mall" }]));
    gateway.stop().await;
}

/// Whoever got something and is not in the mesh file any more cannot be told to erase it. She is told so, and once it is back
/// her next withdrawal reaches it.
#[tokio::test]
async fn the_missing_are_not_forgotten() {
    let mut world = Neighbourhood::new().await;
    let gateway = world.start("").await;
    world.until_heard(&["gate", "till"]).await;
    gateway.stop().await;

    world.mesh.sign(2, |draft| draft.devices.retain(|device| device.name != name("gate")));
    let gateway = world.start("").await;
    world.until("it listens", || gateway.is_listening()).await;
    let answer = gateway.ask(json!({ "command": "withdraw" })).await;
    assert_eq!(answer["withdrawn_from"], json!([{ "controller": "till", "entity": "bookshop" }]));
    assert_eq!(answer["not_in_the_mesh"], json!(["gate"]));
    gateway.stop().await;

    world.mesh.sign(3, |_| {});
    let gateway = world.start("").await;
    world.until("it listens", || gateway.is_listening()).await;
    let answer = gateway.ask(json!({ "command": "withdraw" })).await;
    assert_eq!(answer["withdrawn_from"][0], json!({ "controller": "gate", "entity": "mall" }), "{answer}");
    assert_eq!(answer["not_in_the_mesh"], json!([]));
    let gate = world.controllers["gate"].clone();
    world.until("the notice came", || !gate.lock().unwrap().notices.is_empty()).await;
    gateway.stop().await;
}

/// Without network she goes on, and whoever comes back is somebody else to the broker and the repository.
#[tokio::test]
async fn the_network_comes_and_goes() {
    let mut world = Neighbourhood::new().await;
    let gateway = world.start("answer_seconds = 5\nrefresh_seconds = 20").await;
    world.until_heard(&["gate", "till"]).await;
    world.hub.partition(&gateway.link);
    let asked = world.registry.lock().unwrap().asked.len();
    for _ in 0..20 {
        world.until_heard(&["gate", "till"]).await;
    }
    assert_eq!(world.registry.lock().unwrap().asked.len(), asked);
    assert_eq!(gateway.status().await["connected"], json!(false));
    world.hub.heal(&gateway.link);
    let registry = world.registry.clone();
    world.until("it asks again", || registry.lock().unwrap().asked.len() > asked).await;
    assert_eq!(registry.lock().unwrap().askers.len(), 2);
    gateway.stop().await;
}

/// After a withdrawal from one controller, the others hear nothing that was released up to then: in its epoch a release
/// would count as withdrawn.
#[tokio::test]
async fn an_epoch_with_a_withdrawal_is_over_for_everybody() {
    let mut world = Neighbourhood::new().await;
    let gateway = world.start("").await;
    world.until_heard(&["gate", "till"]).await;
    let epoch = Epoch::of(world.clock.now());
    gateway.ask(json!({ "command": "withdraw", "controller": "gate" })).await;
    world.until_heard(&["till"]).await;
    assert!(world.earliest.is_some_and(|earliest| earliest > epoch), "{:?} {epoch:?}", world.earliest);
    gateway.stop().await;
}
