//! What lies beyond the paper: erasing at the deadline, withdrawals, requirements 3 to 5, and the ways around consent that
//! the graphs close although the figures do not speak of them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod fixture;

use fixture::mall::{MALL, broadcast, broadcasting, download, holds, listening};
use fixture::{NEW_YEAR, Node, World, text, time};
use pilot_core::graph::message::{Release as ItemRelease, Withdrawal};
use pilot_core::graph::{Action, Body, Location, Message, offers};
use pilot_core::graphs;
use pilot_core::semantics::{Event, Ghosts, Provenance, Receipt, requirements};
use pilot_core::syntax::parse_condition;
use pilot_core::value::{Number, Value};
use pilot_core::vocabulary::{DeviceId, Variable};

/// Reference: beyond the paper, Erase and requirement 4.
#[test]
fn items_are_erased_at_their_deadline() {
    let world = World::new(MALL);
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (mac, gate) = (world.item("mac-alice"), world.device("mall-gate"));
    let mut alice = broadcasting(&world, &["all"], ("mall-gate", "mall"), &cx);
    let mut mall = listening(&world, "mall-gate", "mall", &cx);
    mall.receive(&broadcast(&mut alice, gate, &world, "mall", &cx).unwrap(), &cx).unwrap();
    assert_eq!(mall.take(Action::Expire { item: mac }, &cx), None, "not yet");
    let receipt = *mall.device.state.received.first().unwrap();
    let late = world.cx(&judge, "2025-01-01");
    assert!(requirements::storage_limitation(&receipt, 0, &cx));
    assert!(!requirements::storage_limitation(&receipt, 0, &late));
    assert!(requirements::storage_limitation(&receipt, 60, &late), "within the sweep interval");
    let step = mall.take(Action::Expire { item: mac }, &late).unwrap();
    assert_eq!(step.events, [Event::Erase { controller: gate, item: mac, withdrawn: None }]);
    assert!(!holds(&mall, mac));
    assert_eq!(mall.device.state.value(mac), None);
}

/// Reference: beyond the paper, Withdraw and requirement 5: erased on notice, and old broadcasts do not bring it back.
#[test]
fn withdrawn_items_are_erased_and_stay_gone() {
    let world = World::new(MALL);
    let judge = world.judge();
    let cx = world.cx(&judge, "2024-01-01T12:00:00Z");
    let (mac, gate) = (world.item("mac-alice"), world.device("mall-gate"));
    let mut alice = broadcasting(&world, &["all"], ("mall-gate", "mall"), &cx);
    let mut mall = listening(&world, "mall-gate", "mall", &cx);
    let heard = broadcast(&mut alice, gate, &world, "mall", &cx).unwrap();
    mall.receive(&heard, &cx).unwrap();

    let notice = offers(alice.graph, &alice.instance, &alice.device, &cx)
        .into_iter()
        .find_map(|action| match action {
            Action::Send(message) if matches!(message.body, Body::Withdraw { .. }) => Some(message),
            _ => None,
        })
        .expect("she can withdraw from whom she released to");
    let notice = alice.take(Action::Send(notice), &cx).unwrap().message.unwrap();
    assert_eq!(broadcast(&mut alice, gate, &world, "mall", &cx), None, "she stops at once");
    let step = mall.receive(&notice, &cx).unwrap();
    assert!(matches!(step.events[..], [Event::Erase { withdrawn: Some(_), .. }]));
    assert!(!holds(&mall, mac));
    mall.take(Action::Tau, &cx).unwrap();
    mall.receive(&heard, &cx).unwrap();
    assert!(!holds(&mall, mac), "the duplicate of an old broadcast");

    let later = world.cx(&judge, "2024-01-01T12:05:00Z");
    mall.receive(&heard, &later).unwrap();
    assert!(!holds(&mall, mac), "out of the window");
    assert_eq!(mall.take(Action::Forget { item: mac }, &later), None, "somebody else may still transfer it");
    let end = world.cx(&judge, "2025-01-01");
    assert!(mall.clone().take(Action::Forget { item: mac }, &end).is_some(), "nobody may hold it any more");
    alice.take(Action::Admit { entity: world.vocabulary.entities.id("mall").unwrap() }, &later).unwrap();
    let again = broadcast(&mut alice, gate, &world, "mall", &later).unwrap();
    mall.receive(&again, &later).unwrap();
    assert!(holds(&mall, mac), "she may change her mind again");
}

/// Reference: beyond the paper, Withdraw: a controller passes the notice on to whom it transferred, and a transfer
/// that is still under way does not bring the item back.
#[test]
fn withdrawals_follow_transfers() {
    let world = World::banner();
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (alice, flights_id, hotels_id) =
        (world.device("alice-browser"), world.device("flights-server"), world.device("hotels-server"));
    let cookie = world.item("cookie-alice");
    let collect = |node: &mut Node, from: DeviceId, policy: &str| {
        node.init(&[world.id(policy)], None, &cx);
        node.send(from, Body::Request { policy: world.id(policy) }, &cx).unwrap();
    };
    let mut flights = Node::new(&graphs::DIRECT_CONTROLLER, flights_id);
    collect(&mut flights, alice, "option-3");
    let epoch = pilot_core::semantics::Epoch::of(cx.now);
    let mut release = ItemRelease::new(cookie, world.id("option-3"));
    (release.value, release.epoch) = (Some(text("c")), epoch);
    flights.receive(&Message { sender: alice, receiver: flights_id, body: Body::Send(release) }, &cx).unwrap();
    let mut hotels = Node::new(&graphs::DIRECT_CONTROLLER, hotels_id);
    collect(&mut hotels, flights_id, "hotels");
    let ask = Message { sender: hotels_id, receiver: flights_id, body: Body::Request { policy: world.id("hotels") } };
    flights.receive(&ask, &cx).unwrap();
    let under_way = flights.send(hotels_id, Body::Send(ItemRelease::new(cookie, world.id("hotels"))), &cx).unwrap();

    let withdrawal = Withdrawal { epoch, until: time("2024-12-21") };
    let withdraw = Body::Withdraw { item: cookie, withdrawal };
    flights.receive(&Message { sender: alice, receiver: flights_id, body: withdraw.clone() }, &cx).unwrap();
    let passed_on = flights.send(hotels_id, withdraw.clone(), &cx).unwrap();
    assert_eq!(flights.send(hotels_id, withdraw, &cx), None, "once is enough");
    hotels.receive(&passed_on, &cx).unwrap();
    hotels.receive(&under_way, &cx).unwrap();
    assert!(!holds(&hotels, cookie));
}

/// Reference: beyond the paper, requirement 3.
#[test]
fn requirement_3_transfers_need_a_known_policy_and_a_rule() {
    let world = World::banner();
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let receipt = Receipt {
        sender: world.device("flights-server"),
        item: world.item("cookie-alice"),
        policy: world.id("hotels"),
    };
    let release = |offered: &str, known| Provenance {
        own: Some(world.id("option-3")),
        offered: world.id(offered),
        shown: true,
        epoch: Default::default(),
        known_to_sender: Some(known),
    };
    assert!(requirements::informed_transfer(&receipt, &release("option-3", true), &cx));
    assert!(!requirements::informed_transfer(&receipt, &release("option-3", false), &cx));
    assert!(!requirements::informed_transfer(&receipt, &release("option-2", true), &cx));
}

/// Reference: §2, conditions on items: an item can be used in a condition as an attribute of its type's values.
#[test]
fn items_can_be_used_in_conditions() {
    let world = World::new(MALL);
    let condition = parse_condition("age-alice >= 18", &world.vocabulary).unwrap();
    let values = [(Variable::Item(world.item("age-alice")), Value::Number(Number::whole(30)))].into();
    assert_eq!(condition.evaluate(&values), Some(true));
}

/// Reference: Def. 4: nobody can make a policy Alice's own by sending it to her in her own name.
#[test]
fn messages_come_from_others() {
    let world = World::banner();
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let alice_id = world.device("alice-browser");
    let mut alice = Node::new(&graphs::DIRECT_SUBJECT, alice_id);
    alice.init(&[], Some(world.item("cookie-alice")), &cx);
    let before = alice.clone();
    let body = Body::Request { policy: world.id("option-3") };
    assert_eq!(alice.receive(&Message { sender: alice_id, receiver: alice_id, body }, &cx), None);
    assert_eq!(alice, before);
    let mut phone = Node::new(&graphs::INDIRECT_SUBJECT, world.device("alice-phone"));
    let (own, offers) = (vec![], vec![(world.device("alice-phone"), world.id("option-3"))]);
    phone.take(Action::Restore { own, item: None, offers }, &cx).unwrap();
    assert!(phone.device.state.policies.is_empty());
}

/// Reference: requirement 5: a notice from far in the future is not over.
#[test]
fn epochs_do_not_wrap() {
    use pilot_core::semantics::Epoch;
    assert!(!Epoch(u64::MAX).is_over_at(time(NEW_YEAR)));
    assert!(!Epoch(u64::MAX).is_fresh_at(time(NEW_YEAR)));
    assert!(Epoch(0).is_over_at(time(NEW_YEAR)));
}

/// Reference: Def. 4: policies come from the repository that the subject trusts, and broadcasts from the item's owner.
#[test]
fn downloads_come_from_the_repository_and_broadcasts_from_the_owner() {
    let world = World::new(MALL);
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (mac, gate) = (world.item("mac-alice"), world.device("mall-gate"));
    let mut alice = broadcasting(&world, &["all"], ("mall-gate", "mall"), &cx);
    let heard = broadcast(&mut alice, gate, &world, "mall", &cx).unwrap();
    alice.take(Action::Tau, &cx).unwrap();
    alice.send(world.device("policy-repository"), Body::RequestPolicies, &cx).unwrap();
    let forged = Message { sender: gate, ..download(&world, &[("shop-gate", "shop")]) };
    assert_eq!(alice.receive(&forged, &cx), None);

    let mut mall = listening(&world, "mall-gate", "mall", &cx);
    mall.receive(&Message { sender: world.device("shop-gate"), ..heard }, &cx).unwrap();
    assert!(!holds(&mall, mac), "the shop speaks of Alice's address");
}

/// Reference: Fig. 3b: a controller keeps what it asked for, from whom it asked, and nothing from the future.
#[test]
fn sends_are_answers() {
    let world = World::banner();
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (alice, flights_id, cookie) =
        (world.device("alice-browser"), world.device("flights-server"), world.item("cookie-alice"));
    let asked = |whom: &str| {
        let mut flights = Node::new(&graphs::DIRECT_CONTROLLER, flights_id);
        flights.init(&[world.id("option-2")], None, &cx);
        flights.send(world.device(whom), Body::Request { policy: world.id("option-2") }, &cx).unwrap();
        flights
    };
    let sent = |epoch| {
        let mut release = ItemRelease::new(cookie, world.id("option-2"));
        (release.value, release.epoch) = (Some(text("c")), epoch);
        Message { sender: alice, receiver: flights_id, body: Body::Send(release) }
    };
    let now = pilot_core::semantics::Epoch::of(cx.now);
    for (whom, epoch, kept) in [
        ("alice-browser", now, true),
        ("alice-phone", now, false),
        ("alice-browser", pilot_core::semantics::Epoch(u64::MAX), false),
    ] {
        let mut flights = asked(whom);
        flights.receive(&sent(epoch), &cx).unwrap();
        assert_eq!(holds(&flights, cookie), kept, "asked {whom}, {epoch:?}");
    }
}

/// Reference: beyond the paper, Withdraw: who withdrew from an entity releases neither to a part of it nor under a
/// policy that lets others transfer to it.
#[test]
fn a_refused_entity_gets_nothing_through_others() {
    let world = World::new(&format!(
        "{MALL}
         policy with-rule {{
           collect mac-address by flights.com for statistics until 2025-01-01
           transfer to mall for statistics until 2025-01-01
         }}
         policy mine {{
           collect mac-address by flights.com for statistics until 2026-01-01
           transfer to mall for statistics until 2026-01-01
         }}"
    ));
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let listed =
        [("mall-gate", "mall"), ("shop-gate", "shop"), ("flights-server", "with-rule"), ("policy-repository", "mall")];
    let mut alice = broadcasting(&world, &["all", "mine"], ("mall-gate", "mall"), &cx);
    alice.take(Action::Tau, &cx).unwrap();
    alice.send(world.device("policy-repository"), Body::RequestPolicies, &cx).unwrap();
    alice.receive(&download(&world, &listed), &cx).unwrap();
    let later = world.cx(&judge, "2024-01-02");
    let mut reaches =
        |device: &str, policy: &str| broadcast(&mut alice, world.device(device), &world, policy, &later).is_some();
    assert!(reaches("mall-gate", "mall") && reaches("shop-gate", "shop") && reaches("flights-server", "with-rule"));
    let notice = Body::Withdraw { item: world.item("mac-alice"), withdrawal: Withdrawal::default() };
    alice.send(world.device("mall-gate"), notice, &cx).unwrap();
    let mut reaches =
        |device: &str, policy: &str| broadcast(&mut alice, world.device(device), &world, policy, &later).is_some();
    assert!(!reaches("mall-gate", "mall"));
    assert!(!reaches("shop-gate", "shop"), "the shop is part of the mall");
    assert!(!reaches("flights-server", "with-rule"), "flights.com might pass it on to the mall");
}

/// Reference: requirement 5: a notice that got lost can be given again, and one that comes round is not passed on.
#[test]
fn lost_notices_can_be_repeated() {
    let world = World::banner();
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (alice, flights_id, hotels_id) =
        (world.device("alice-browser"), world.device("flights-server"), world.device("hotels-server"));
    let cookie = world.item("cookie-alice");
    let mut flights = Node::new(&graphs::DIRECT_CONTROLLER, flights_id);
    flights.init(&[world.id("option-3")], None, &cx);
    let epoch = pilot_core::semantics::Epoch::of(cx.now);
    let withdrawal = Withdrawal { epoch, until: time("2024-12-21") };
    flights.device.memory.recipients.insert((cookie, hotels_id), withdrawal);
    let body = Body::Withdraw { item: cookie, withdrawal };
    let from = |sender| Message { sender, receiver: flights_id, body: body.clone() };
    let mut owes = |notice: &Message| {
        flights.receive(notice, &cx).unwrap();
        flights.send(hotels_id, body.clone(), &cx).is_some()
    };
    assert!(owes(&from(alice)));
    assert!(!owes(&from(hotels_id)), "it has come round");
    assert!(owes(&from(alice)), "she repeats it");
}

/// Reference: requirement 5: in the epoch of a withdrawal the item is not released again, to anybody; later it is.
#[test]
fn the_epoch_of_a_withdrawal_is_silent() {
    let world = World::new(MALL);
    let judge = world.judge();
    let now = world.cx(&judge, NEW_YEAR);
    let mut alice = broadcasting(&world, &["all"], ("mall-gate", "mall"), &now);
    let notice = Body::Withdraw { item: world.item("mac-alice"), withdrawal: Withdrawal::default() };
    alice.send(world.device("hotels-server"), notice, &now).unwrap();
    assert_eq!(broadcast(&mut alice, world.device("mall-gate"), &world, "mall", &now), None);
    let next_epoch = world.cx(&judge, "2024-01-01T00:01:04Z");
    assert!(broadcast(&mut alice, world.device("mall-gate"), &world, "mall", &next_epoch).is_some());
}

/// Reference: beyond the paper, Withdraw, in Fig. 3a: who withdrew from a controller no longer answers its requests.
#[test]
fn requests_of_a_refused_controller_are_not_answered() {
    let world = World::banner();
    let judge = world.judge();
    let (alice_id, flights, cookie) =
        (world.device("alice-browser"), world.device("flights-server"), world.item("cookie-alice"));
    let cx = world.cx(&judge, NEW_YEAR);
    let mut alice = Node::new(&graphs::DIRECT_SUBJECT, alice_id);
    alice.device.state.values.insert(Variable::Item(cookie), text("c"));
    alice.init(&[world.id("option-2")], Some(cookie), &cx);
    alice.send(flights, Body::Withdraw { item: cookie, withdrawal: Withdrawal::default() }, &cx).unwrap();
    let later = world.cx(&judge, "2024-01-02");
    let answers = |alice: &mut Node| {
        let body = Body::Request { policy: world.id("option-2") };
        alice.receive(&Message { sender: flights, receiver: alice_id, body }, &later).unwrap();
        let sent = alice.send(flights, Body::Send(ItemRelease::new(cookie, world.id("option-2"))), &later);
        sent.is_some() || alice.take(Action::Tau, &later).is_none()
    };
    assert!(!answers(&mut alice));
    alice.take(Action::Admit { entity: world.vocabulary.entities.id("flights.com").unwrap() }, &later).unwrap();
    assert!(answers(&mut alice), "she has admitted it again");
}

/// Reference: requirement 5: of several releases that allow a transfer, the owner's last one is what it relies on.
#[test]
fn a_transfer_relies_on_the_last_release() {
    use pilot_core::semantics::Epoch;
    let world = World::banner();
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (flights_id, hotels_id, cookie) =
        (world.device("flights-server"), world.device("hotels-server"), world.item("cookie-alice"));
    let mut flights = Node::new(&graphs::DIRECT_CONTROLLER, flights_id);
    flights.init(&[world.id("option-3")], None, &cx);
    flights.device.state.values.insert(Variable::Item(cookie), text("c"));
    for (sender, epoch) in [("alice-browser", 7), ("alice-phone", 3)] {
        let receipt = Receipt { item: cookie, sender: world.device(sender), policy: world.id("option-3") };
        flights.device.state.received.insert(receipt);
        flights.device.memory.released.insert(receipt, Epoch(epoch));
    }
    flights.instance.location = Location::S3;
    let body = Body::Request { policy: world.id("hotels") };
    flights.receive(&Message { sender: hotels_id, receiver: flights_id, body }, &cx).unwrap();
    let sent = flights.send(hotels_id, Body::Send(ItemRelease::new(cookie, world.id("hotels"))), &cx).unwrap();
    assert_eq!(sent.release().map(|release| release.epoch), Some(Epoch(7)));
}

/// Reference: requirement 5: a release in the very epoch of the withdrawal is withdrawn, one in the next is not.
#[test]
fn requirement_5_covers_the_epoch_of_the_withdrawal() {
    use pilot_core::semantics::Epoch;
    let world = World::banner();
    let (cookie, policy) = (world.item("cookie-alice"), world.id("option-2"));
    let receipt = Receipt { item: cookie, sender: world.device("alice-browser"), policy };
    let held = |epoch| {
        let mut ghosts = Ghosts::default();
        let (own, known_to_sender) = (Some(policy), None);
        ghosts.provenance.insert(receipt, Provenance { own, offered: policy, shown: true, epoch, known_to_sender });
        ghosts.withdrawn.insert(cookie, Epoch(5));
        requirements::withdrawal(&receipt, &ghosts)
    };
    assert_eq!([4, 5, 6].map(|epoch| held(Epoch(epoch))), [false, false, true]);
}
