//! What a repository, or somebody on the broker, can try.

use mesh_runtime::daemon::control;
use mesh_runtime::driver::clock::Clock as _;
use mesh_runtime::protocol::message::Message;
use pilot_core::evidence::envelope::MessageId;
use pilot_core::value::Time;
use serde_json::json;

use super::mesh::STATEMENT_SECONDS;
use super::support::Neighbourhood;

const MODEST: &str = "collect MACAddress by mall for ServiceUsageAnalytics until 2036-01-01";

/// A repository cannot bring an older statement back, not even after a restart, nor put another in the place of one, nor
/// change one: the rest of what it lists is used.
#[tokio::test]
async fn statements_cannot_be_rolled_back_or_forged() {
    let mut world = Neighbourhood::new().await;
    let old = world.registry.lock().unwrap().statements[0].clone();
    let withdrawal = world.mesh.statement("gate", 2, None);
    world.registry.lock().unwrap().statements.push(withdrawal);
    let gateway = world.start("").await;
    world.until_heard(&["till"]).await;
    gateway.stop().await;

    // The repository's store is rolled back, so its revision is lower; then there is another statement of version 2.
    let another = world.mesh.statement("gate", 2, Some(MODEST));
    let mut changed =
        world.mesh.statement("ads", 7, Some("collect MACAddress by advertiser for Advertising until 2036-01-01"));
    *changed.last_mut().unwrap() ^= 1;
    let till = world.registry.lock().unwrap().statements[2].clone();
    world.registry.lock().unwrap().statements = vec![old, another, changed, till];
    world.registry.lock().unwrap().revision_offset = 0;
    world.registry.lock().unwrap().asked.clear();
    // After an hour everything is asked for, not only what is new.
    world.clock.set(Time::from_unix(world.clock.now().unix() + 3_600));
    let gateway = world.start("").await;
    world.until_heard(&["till"]).await;
    let status = gateway.status().await;
    assert_eq!(status["complaints"]["rolled-back"], json!(2), "{status}");
    assert_eq!(status["complaints"]["statement"], json!(1), "{status}");
    gateway.stop().await;
}

/// A repository that lost its revisions is asked for everything again.
#[tokio::test]
async fn a_repository_may_start_anew() {
    let mut world = Neighbourhood::new().await;
    world.registry.lock().unwrap().revision_offset = 100;
    let gateway = world.start("refresh_seconds = 10").await;
    world.until_heard(&["gate", "till"]).await;
    {
        let mut registry = world.registry.lock().unwrap();
        registry.revision_offset = 0;
        registry.statements.remove(0);
    }
    world.until_heard(&["till"]).await;
    gateway.stop().await;
}

/// News count only if the repository says them, and not again and again.
#[tokio::test]
async fn news_are_the_repositorys() {
    let mut world = Neighbourhood::new().await;
    let gateway = world.start("refresh_seconds = 86400").await;
    world.until_heard(&["gate", "till"]).await;
    let asked = world.registry.lock().unwrap().questions().len();
    world.announce("ads", &Message::Changed { revision: 1_000 });
    world.announce("registry", &Message::Changed { revision: 3 });
    world.heard(20).await;
    assert_eq!(world.registry.lock().unwrap().questions().len(), asked, "nothing is new");
    world.announce("registry", &Message::Changed { revision: 1_000 });
    world.heard(20).await;
    assert_eq!(world.registry.lock().unwrap().questions().len(), asked + 1, "asked once");
    assert_eq!(gateway.status().await["complaints"]["unasked"], json!(1));
    gateway.stop().await;
}

/// A device that the operator has revoked is not advertised for, network or not.
#[tokio::test]
async fn the_revoked_are_silent() {
    let mut world = Neighbourhood::new().await;
    let gateway = world.start("").await;
    world.until_heard(&["gate", "till"]).await;
    world.registry.lock().unwrap().is_silent = true;
    let now = world.mesh.now;
    world.mesh.sign(2, |draft| {
        let gate = draft.devices.iter_mut().find(|device| device.name.as_str() == "gate").unwrap();
        gate.revoked = Some(now);
    });
    world.until_heard(&["till"]).await;
    assert!(gateway.accepted().await["gate"].1.contains("revoked"));
    gateway.stop().await;
}

/// Commands that make no sense are refused in words, and her address is in no file but her configuration.
#[tokio::test]
async fn nonsense_is_refused_and_the_address_stays_at_home() {
    let mut world = Neighbourhood::new().await;
    let gateway = world.start("").await;
    world.until_heard(&["gate", "till"]).await;
    for (request, error) in [
        (json!({ "command": "dance" }), "the commands are"),
        (json!({ "command": "admit" }), "the commands are"),
        (json!({ "command": "withdraw", "controller": "registry" }), "`registry` is no controller"),
        (json!({ "command": "withdraw", "controller": "gaet" }), "did you mean `gate`?"),
        (json!({ "command": "withdraw", "controller": 5 }), "`controller` is a name"),
    ] {
        let refusal = gateway.refusal(request).await;
        assert!(refusal.contains(error), "{refusal}");
    }
    gateway.stop().await;
    let data = world.mesh.path("alice");
    assert!(!data.join(control::SOCKET_NAME).exists());
    let address = [[0xc0, 0xff, 0xee, 0, 0, 1].to_vec(), b"c0:ff:ee:00:00:01".to_vec()];
    for file in ["state.json", "policies.cbor", "trace/trace-00000000.cborseq"] {
        let bytes = std::fs::read(data.join(file)).unwrap();
        assert!(address.iter().all(|it| !bytes.windows(it.len()).any(|window| window == it)), "{file}");
    }
}

/// Only the repository answers for itself, and only the controller says that something of hers is gone.
#[tokio::test]
async fn answers_are_of_those_who_were_asked() {
    let mut world = Neighbourhood::new().await;
    world.registry.lock().unwrap().is_silent = true;
    let gateway = world.start("").await;
    let registry = world.registry.clone();
    world.until("it asks", || !registry.lock().unwrap().asked.is_empty()).await;
    let (asker, (_, id)) = {
        let registry = registry.lock().unwrap();
        (registry.askers[0].clone(), registry.asked[0])
    };
    let (request, statements) = (MessageId(id), world.mesh.offers());
    let policies = |request| Message::Policies { request, since: 0, until: 3, head: 3, statements: statements.clone() };
    world.answer("ads", &asker, &policies(request));
    world.answer("registry", &asker, &policies(MessageId([0; 16])));
    assert!(world.heard(20).await.is_empty());
    assert_eq!(gateway.status().await["complaints"]["wrong-sender"], json!(1));
    assert_eq!(gateway.status().await["policies"]["count"], json!(0));

    registry.lock().unwrap().is_silent = false;
    world.until_heard(&["gate", "till"]).await;
    let gate = world.controllers["gate"].clone();
    gate.lock().unwrap().is_silent = true;
    gateway.ask(json!({ "command": "withdraw", "controller": "gate" })).await;
    world.until("the notice came", || !gate.lock().unwrap().notices.is_empty()).await;
    let request = MessageId(gate.lock().unwrap().notices[0].0);
    world.answer("till", &asker, &Message::Withdrawn { request });
    world.heard(5).await;
    assert_eq!(gateway.status().await["notices_waiting"], json!(["gate"]));
    world.answer("gate", &asker, &Message::Withdrawn { request });
    world.heard(5).await;
    assert_eq!(gateway.status().await["notices_waiting"], json!([]));
    gateway.stop().await;
}

/// Once the mesh file has expired, nothing is on the air and nothing is asked.
#[tokio::test]
async fn an_expired_mesh_file_ends_everything() {
    let mut world = Neighbourhood::new().await;
    let expires = Time::from_unix(world.mesh.now.unix() + 300);
    world.mesh.sign(2, |draft| draft.expires = expires);
    let gateway = world.start("").await;
    world.until_heard(&["gate", "till"]).await;
    world.clock.set(expires);
    world.listen_anew().await;
    let asked = world.registry.lock().unwrap().asked.len();
    assert!(world.heard(100).await.is_empty());
    assert_eq!(world.registry.lock().unwrap().asked.len(), asked);
    assert_eq!(gateway.status().await["mesh_in_force"], json!(false));
    world.mesh.sign(3, |_| {});
    world.until_heard(&["gate", "till"]).await;
    gateway.stop().await;
}

/// A statement that has expired is no offer any more, also if the repository says nothing new.
#[tokio::test]
async fn what_has_expired_is_not_said() {
    let mut world = Neighbourhood::new().await;
    let gateway = world.start("").await;
    world.until_heard(&["gate", "till"]).await;
    world.registry.lock().unwrap().is_silent = true;
    world.clock.set(Time::from_unix(world.mesh.now.unix() + STATEMENT_SECONDS));
    world.pass().await;
    world.listen_anew().await;
    assert!(world.heard(200).await.is_empty());
    assert_eq!(gateway.accepted().await["gate"], (false, "its statement has expired".to_owned()));
    gateway.stop().await;
}
