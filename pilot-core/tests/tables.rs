//! Tables whose entries come and go: what is removed is gone, and its id is given again.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod fixture;

use fixture::World;
use pilot_core::codec;
use pilot_core::graph::{Action, Body, Instance, Message, hindrance, offers, offers_of};
use pilot_core::graph::{Guard, Label};
use pilot_core::graphs;
use pilot_core::semantics::Policies;
use pilot_core::vocabulary::{Directory, Item};

/// A table is as large as what is in use: an id is given again only after it was removed.
#[test]
fn a_removed_device_or_item_frees_its_id() {
    let world = World::banner();
    let mut directory: Directory = world.vocabulary.directory().clone();
    let (entity, datatype) = (
        world.vocabulary.entities.id("alice").expect("an entity"),
        world.vocabulary.datatypes.id("mac-address").expect("a datatype"),
    );
    let before = directory.clone();
    let first = directory.add_device(entity);
    let second = directory.add_device(entity);
    let item = directory.add_item(Item { datatype, owner: second });
    assert_ne!(first, second);
    directory.remove_device(first);
    assert_eq!(directory.entity(first), None);
    assert!(directory.devices().all(|device| device != first));
    directory.remove_device(first);
    assert_eq!(directory.add_device(entity), first, "given again");
    directory.remove_item(item);
    assert_eq!(directory.item(item), None);
    directory.remove_device(first);
    directory.remove_device(second);
    assert_eq!(directory, before);
}

/// A removed policy is found neither by its id nor by its digest; a policy that is there keeps its id.
#[test]
fn a_removed_policy_frees_its_id() {
    let world = World::banner();
    let mut policies = Policies::default();
    let [alice, hotels] =
        ["alice", "hotels"].map(|name| policies.intern(world.policy(name).clone(), &world.vocabulary));
    assert_eq!(policies.count(), 2);
    assert_eq!(policies.remove(alice).as_ref(), Some(world.policy("alice")));
    assert_eq!(policies.remove(alice), None, "twice");
    assert_eq!((policies.policy(alice), policies.digest(alice), policies.count()), (None, None, 1));
    assert_eq!(policies.by_digest(&codec::digest(world.choice("alice"), &world.vocabulary)), None);
    let again = policies.intern(world.policy("hotels").clone(), &world.vocabulary);
    assert_eq!(again, hotels, "a known policy takes no free id");
    let option = policies.intern(world.policy("option-2").clone(), &world.vocabulary);
    assert_eq!((option, policies.policy(option)), (alice, Some(world.policy("option-2"))));
    assert_eq!(policies.iter().count(), 2);
}

/// `offers_of` is `offers`, label by label; `hindrance` names the guard that Alice's own policy fails.
#[test]
fn offers_by_label_and_the_guard_that_hinders() {
    let world = World::banner();
    let judge = world.judge();
    let cx = world.cx(&judge, fixture::NEW_YEAR);
    let (alice, flights) = (world.device("alice-browser"), world.device("flights-server"));
    let mut node = fixture::Node::new(&graphs::DIRECT_SUBJECT, alice);
    node.init(&[world.id("alice")], Some(world.item("cookie-alice")), &cx);
    let request = Message { sender: flights, receiver: alice, body: Body::Request { policy: world.id("option-3") } };
    node.receive(&request, &cx).expect("a request");
    let all = offers(node.graph, &node.instance, &node.device, &cx);
    assert_eq!(all, [Action::Tau]);
    assert_eq!(offers_of(Label::Tau, node.graph, &node.instance, &node.device, &cx), all);
    assert!(offers_of(Label::Expire, node.graph, &node.instance, &node.device, &cx).is_empty());
    let send = Action::Send(Message {
        sender: alice,
        receiver: flights,
        body: Body::Send(pilot_core::graph::message::Release::new(world.item("cookie-alice"), world.id("option-3"))),
    });
    let why = |instance: &Instance| hindrance(node.graph, instance, &node.device, &send, &cx);
    assert_eq!(why(&node.instance), Some(Guard::WithinOwn));
    assert_eq!(why(&Instance::new(node.graph)), None, "no edge here");
}

/// What a variable mentions is found, and nothing else.
#[test]
fn a_device_says_what_it_mentions() {
    let world = World::banner();
    let judge = world.judge();
    let cx = world.cx(&judge, fixture::NEW_YEAR);
    let (alice, flights) = (world.device("alice-browser"), world.device("flights-server"));
    let mut node = fixture::Node::new(&graphs::DIRECT_SUBJECT, alice);
    node.init(&[world.id("alice")], Some(world.item("cookie-alice")), &cx);
    assert!(!node.device.has_policies_of(flights));
    assert!(!node.device.mentions_item(world.item("cookie-alice")));
    let request = Message { sender: flights, receiver: alice, body: Body::Request { policy: world.id("option-2") } };
    node.receive(&request, &cx).expect("a request");
    assert!(node.device.has_policies_of(flights));
    let mentioned: std::collections::BTreeSet<_> = node.device.policies_mentioned().collect();
    assert_eq!(mentioned, [world.id("alice"), world.id("option-2")].into());
    assert_eq!(node.device.devices_with_items().count(), 0);
    node.device.state.values.insert(world.attribute("cookie.secure"), pilot_core::value::Value::Boolean(true));
    let cookie = pilot_core::vocabulary::Variable::Item(world.item("cookie-alice"));
    node.device.state.values.insert(cookie, fixture::text("c00k1e"));
    let release = pilot_core::graph::message::Release::new(world.item("cookie-alice"), world.id("option-2"));
    node.send(flights, Body::Send(release), &cx).expect("allowed");
    assert_eq!(node.device.devices_with_items().collect::<Vec<_>>(), [flights]);
    node.device.state.values.remove(&cookie);
    node.device.memory.recipients.clear();
    assert!(!node.device.mentions_item(world.item("cookie-alice")));
    node.device.memory.tombstones.insert(world.item("cookie-alice"), Default::default());
    assert!(node.device.mentions_item(world.item("cookie-alice")));
}
