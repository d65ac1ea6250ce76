//! A repository that lies, and a bystander with a radio.

use std::sync::Arc;
use std::time::Duration;

use consent_mesh_tests::peer::Peer;
use consent_mesh_tests::{Kind, Mesh, address, address_bytes, now, policy};
use mesh_runtime::air::frame::{ControllerTag, Frame};
use mesh_runtime::air::simulated::{Participant, join};
use mesh_runtime::air::{Address, AddressKind, Air};
use mesh_runtime::keys::SecretKeys;
use mesh_runtime::link::Event;
use mesh_runtime::protocol::message::Message;
use pilot_core::codec::{self, Digest};
use pilot_core::evidence::envelope::MessageId;
use pilot_core::policy::Choice;
use pilot_core::semantics::Epoch;
use serde_json::Value;

fn analytics(entity: &str) -> String {
    policy("analytics", entity, "ServiceUsageAnalytics", 3600)
}

fn yes(entity: &str) -> String {
    policy("yes", entity, "ServiceUsageAnalytics", 7200)
}

/// Answers the next new question with these statements, as the repository. Questions are repeated until they are answered,
/// so one that was answered before may come again.
async fn lie(repository: &mut Peer, statements: &[Vec<u8>], head: u64, answered: &mut Vec<MessageId>) {
    loop {
        let Event::Message(came) = repository.next().await else { continue };
        let Some(opened) = repository.post.open(&came, &repository.mesh, true, now()) else { continue };
        let Message::Fetch { since } = opened.message else { continue };
        let request: MessageId = opened.id;
        if answered.contains(&request) {
            continue;
        }
        answered.push(request);
        let statements = statements.to_vec();
        let message = Message::Policies { request, since, until: head, head, statements };
        let id = consent_mesh_tests::peer::new_id();
        return repository.post.send(&opened.sender, id, None, &message, &repository.mesh, now());
    }
}

/// A repository that alters a policy, makes one up or brings an old one back is not believed.
#[test]
fn a_repository_that_lies() {
    let mut mesh = Mesh::new(Kind::Embedded);
    mesh.controller("mall-gate", "mall", &analytics("mall"));
    mesh.controller("shop-gate", "shop", &analytics("shop"));
    mesh.subject("alice", &address(1), &(yes("mall") + &yes("shop").replace("yes", "yes-shop")), "refresh_seconds = 1");
    let keys = |name: &str| Arc::new(SecretKeys::load(&mesh.layout.keys(name)).unwrap());
    let (registry, mall, shop) = (keys("registry"), keys("mall-gate"), keys("shop-gate"));
    let mut repository = mesh.runtime.block_on(Peer::device(&mesh, "registry"));
    let ads = policy("ads", "mall", "TargetedAdvertising", 3600);
    let old = repository.statement("mall-gate", 1, Some(&analytics("mall")), &mall);
    let new = repository.statement("mall-gate", 2, Some(&ads), &mall);
    let honest = repository.statement("shop-gate", 1, Some(&analytics("shop")), &shop);
    let forged = repository.statement("shop-gate", 9, Some(&analytics("shop")), &registry);
    let mut altered = honest.clone();
    let middle = altered.len() / 2;
    altered[middle] ^= 1;

    mesh.start("alice");
    let mut answered = Vec::new();
    // The newest policy of the mall, which she refuses; the shop's altered, and made up.
    mesh.runtime.block_on(lie(&mut repository, &[new, altered, forged], 1, &mut answered));
    mesh.until_decided("alice", "mall-gate", false);
    assert_eq!(mesh.decision("alice", "shop-gate"), None, "nothing is known of the shop");
    // The mall's old policy, which she would accept, and now the shop's own words.
    mesh.runtime.block_on(lie(&mut repository, &[old, honest], 2, &mut answered));
    mesh.until_decided("alice", "shop-gate", true);
    let (accepted, _) = mesh.decision("alice", "mall-gate").expect("the mall is known");
    assert!(!accepted, "an old version is not brought back");
    let refused = mesh.command("alice", "status")["complaints"].clone();
    assert_eq!(refused["rolled-back"], 1, "{refused}");
    assert_eq!(refused["statement"], 2, "{refused}");
}

/// Somebody near a gate with a radio of her own.
async fn radio(mesh: &Mesh, number: u8) -> Air {
    let participant = Participant::new(Address::new(address_bytes(number)), AddressKind::Public);
    let mut air = join(mesh.layout.air.parse().unwrap(), participant).await.unwrap();
    assert!(air.health.until_up().await);
    air
}

fn until_counted(mesh: &Mesh, reason: &str) {
    mesh.until("mall-gate", "status", reason, |status: &Value| (status["refused"][reason].as_u64()? > 0).then_some(()));
}

/// Frames of another time, of unknown policies and after a withdrawal are refused, counted, and leave nothing.
#[test]
fn frames_that_are_replayed() {
    let mut mesh = Mesh::new(Kind::Embedded);
    mesh.controller("mall-gate", "mall", &analytics("mall"));
    mesh.start("registry");
    mesh.start("mall-gate");
    mesh.until_listed(1);
    let gate = mesh.runtime.block_on(Peer::device(&mesh, "mall-gate"));
    let text = std::fs::read_to_string(mesh.root().join("config/mall-gate.pilot")).unwrap();
    let digest = codec::digest(&Choice::Policy(gate.policy(&text)), gate.mesh.vocabulary());
    let tag = ControllerTag(gate.mesh.device("mall-gate").unwrap().tag.0);
    let epoch = Epoch::of(now());
    let say = |number: u8, frame: Frame<'static>| {
        let air = mesh.runtime.block_on(radio(&mesh, number));
        air.advertiser.advertise(Some(frame.encode())).unwrap();
        air
    };
    let old = say(10, Frame::legacy(tag, digest, Epoch(epoch.0 - 4)));
    until_counted(&mesh, "not-fresh");
    drop(old);
    let unknown = say(11, Frame::legacy(tag, Digest([7; 32]), epoch));
    until_counted(&mesh, "policy-not-ours");
    drop(unknown);
    assert_eq!(mesh.held("mall-gate"), 0);

    // A consent like any other, and the same frame again: a duplicate, counted.
    let phone = say(12, Frame::legacy(tag, digest, Epoch::of(now())));
    mesh.until_holds("mall-gate", &[12]);
    until_counted(&mesh, "already-held");
    // Whoever can name the address withdraws it; the frame goes on being heard, and is not believed any more.
    let notice = {
        let withdrawal = pilot_core::graph::message::Withdrawal {
            epoch: Epoch::of(now()),
            until: pilot_core::value::Time::default(),
        };
        let item = Address::new(address_bytes(12));
        mesh_runtime::protocol::sealed::Notice { item, withdrawal, signature: None }
    };
    let device = gate.mesh.device("mall-gate").unwrap();
    let sealed = notice.seal(device.tag, &device.sealing_key).unwrap();
    let answer = mesh.runtime.block_on(async {
        let mut subject = Peer::subject(&mesh).await;
        subject.ask("mall-gate", &Message::Withdraw { sealed }).await
    });
    assert!(matches!(answer, Message::Withdrawn { .. }), "{answer:?}");
    assert_eq!(mesh.held("mall-gate"), 0);
    until_counted(&mesh, "withdrawn");
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(mesh.held("mall-gate"), 0);
    drop(phone);
}
