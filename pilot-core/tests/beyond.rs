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

use std::collections::BTreeSet;

use fixture::mall::{MALL, broadcast, broadcasting, download, holds, listening};
use fixture::{NEW_YEAR, Node, World, text, time};
use pilot_core::active::Inactive;
use pilot_core::codec;
use pilot_core::graph::message::{Release as ItemRelease, Withdrawal};
use pilot_core::graph::{
    Action, Body, Device, Graph, Guard, Instance, Label, Location, Message, MessageKind, Mistake, edge, enabled, offers,
};
use pilot_core::graphs;
use pilot_core::policy::Choice;
use pilot_core::semantics::{
    Claim, Delivery, DeviceState, Epoch, Event, Ghosts, Handover, Premise, Provenance, Receipt, Requirement,
    requirements, rules,
};
use pilot_core::syntax::parse_condition;
use pilot_core::value::{Number, Time, Value};
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
    assert!(mall.device.memory.released.is_empty());
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
    let epoch = Epoch::of(cx.now);
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
    let now = Epoch::of(cx.now);
    for (whom, epoch, kept) in [
        ("alice-browser", now, true),
        ("alice-phone", now, false),
        ("alice-browser", Epoch(now.0 + Epoch::WINDOW), true),
        ("alice-browser", Epoch(now.0 + Epoch::WINDOW + 1), false),
        ("alice-browser", Epoch(u64::MAX), false),
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
    let epoch = Epoch::of(cx.now);
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

/// Reference: Def. 4: the parameters of send↑ are variables of the instance. A subject answers who asked, and the
/// repository, too.
#[test]
fn an_answer_goes_to_who_asked() {
    let world = World::new(&format!(
        "{} policy for-hotels {{ collect cookie by hotels.com for hotel_ads, research until 2024-12-21 }}
            policy hotels-only {{ collect cookie by hotels.com for hotel_ads until 2024-04-19 }}
            policy hotels-research {{ collect cookie by hotels.com for research until 2024-04-19 }}",
        fixture::BANNER
    ));
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (alice_id, cookie) = (world.device("alice-browser"), world.item("cookie-alice"));
    let (flights, hotels) = (world.device("flights-server"), world.device("hotels-server"));
    let mut alice = Node::new(&graphs::DIRECT_SUBJECT, alice_id);
    alice.device.state.values.insert(Variable::Item(cookie), text("c"));
    alice.init(&[world.id("option-2"), world.id("for-hotels")], Some(cookie), &cx);
    let asks =
        |sender, policy: &str| Message { sender, receiver: alice_id, body: Body::Request { policy: world.id(policy) } };
    let answer = |policy: &str| Body::Send(ItemRelease::new(cookie, world.id(policy)));
    alice.receive(&asks(hotels, "hotels-only"), &cx).unwrap();
    assert!(alice.send(hotels, answer("hotels-only"), &cx).is_some());
    assert_eq!(alice.instance.exchange, None, "answered");
    alice.receive(&asks(hotels, "hotels-research"), &cx).unwrap();
    assert_eq!(alice.send(hotels, answer("hotels-only"), &cx), None, "hotels.com has asked for something else");
    assert!(alice.send(hotels, answer("hotels-research"), &cx).is_some());
    alice.receive(&asks(flights, "option-2"), &cx).unwrap();
    assert_eq!(alice.send(hotels, answer("hotels-only"), &cx), None, "flights.com has asked");
    assert!(alice.send(flights, answer("option-2"), &cx).is_some());

    let mut repository = Node::new(&graphs::REPOSITORY, world.device("policy-repository"));
    let ask = Message { sender: alice_id, receiver: repository.device.id, body: Body::RequestPolicies };
    repository.receive(&ask, &cx).unwrap();
    let listed = || Body::DownloadPolicies { offers: vec![] };
    assert_eq!(repository.send(hotels, listed(), &cx), None);
    assert!(repository.send(alice_id, listed(), &cx).is_some());
}

/// Reference: Def. 4: an instance releases and withdraws the item it is about, and no other that the device has.
#[test]
fn an_instance_is_about_one_item() {
    let world = World::new(&format!("{MALL} policy ages {{ collect age by mall for statistics until 2025-01-01 }}"));
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (gate, age) = (world.device("mall-gate"), world.item("age-alice"));
    let mut alice = broadcasting(&world, &["all", "age-only"], ("mall-gate", "ages"), &cx);
    alice.device.state.values.insert(Variable::Item(age), Value::Number(Number::whole(30)));
    let release = || Body::Broadcast(ItemRelease::new(age, world.id("ages")));
    let withdraw = || Body::Withdraw { item: age, withdrawal: Withdrawal::default() };
    assert_eq!(alice.send(gate, release(), &cx), None);
    assert_eq!(alice.send(gate, withdraw(), &cx), None);
    alice.instance.item = Some(age);
    assert!(alice.send(gate, release(), &cx).is_some());
    assert!(alice.send(gate, withdraw(), &cx).is_some());
}

/// Reference: S16: an instance about somebody else's item neither releases nor withdraws it.
#[test]
fn only_the_owner_releases_and_withdraws() {
    let world = World::banner();
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (flights, cookie) = (world.device("flights-server"), world.item("cookie-alice"));
    let consents = |device: &str| {
        let mut alice = Node::new(&graphs::DIRECT_SUBJECT, world.device(device));
        alice.device.state.values.insert(Variable::Item(cookie), text("c"));
        alice.init(&[world.id("option-2")], Some(cookie), &cx);
        let body = Body::Request { policy: world.id("option-2") };
        alice.receive(&Message { sender: flights, receiver: alice.device.id, body }, &cx).unwrap();
        let released = alice.send(flights, Body::Send(ItemRelease::new(cookie, world.id("option-2"))), &cx).is_some();
        let notice = Body::Withdraw { item: cookie, withdrawal: Withdrawal::default() };
        (released, alice.send(flights, notice, &cx).is_some())
    };
    assert_eq!(consents("alice-browser"), (true, true));
    assert_eq!(consents("alice-phone"), (false, false));
}

/// Reference: requirement 5: a broadcast is accepted within two epochs of 64 seconds, early or late.
#[test]
fn broadcasts_are_accepted_within_two_epochs() {
    let world = World::new(MALL);
    let judge = world.judge();
    let noon = world.cx(&judge, "2024-01-01T12:00:00Z");
    let mut alice = broadcasting(&world, &["all"], ("mall-gate", "mall"), &noon);
    let heard = broadcast(&mut alice, world.device("mall-gate"), &world, "mall", &noon).unwrap();
    for (now, kept) in [
        ("2024-01-01T11:57:51Z", false),
        ("2024-01-01T11:57:52Z", true),
        ("2024-01-01T12:03:11Z", true),
        ("2024-01-01T12:03:12Z", false),
    ] {
        let mut mall = listening(&world, "mall-gate", "mall", &noon);
        mall.receive(&heard, &world.cx(&judge, now)).unwrap();
        assert_eq!(holds(&mall, world.item("mac-alice")), kept, "{now}");
    }
}

/// Reference: elided steps: a broadcast of what is held from this sender under this policy takes the refusal loop.
#[test]
fn a_repeated_broadcast_means_nothing_new() {
    let world = World::new(MALL);
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (mac, gate) = (world.item("mac-alice"), world.device("mall-gate"));
    let mut alice = broadcasting(&world, &["all"], ("mall-gate", "mall"), &cx);
    let heard = broadcast(&mut alice, gate, &world, "mall", &cx).unwrap();
    let held = |sender: &str, policy: &str| {
        let mut mall = listening(&world, "mall-gate", "mall", &cx);
        let receipt = Receipt { item: mac, sender: world.device(sender), policy: world.id(policy) };
        mall.device.state.received.insert(receipt);
        let means_something = !mall.receive(&heard, &cx).unwrap().events.is_empty();
        (means_something, mall.at())
    };
    assert_eq!(held("alice-phone", "mall"), (false, Location::S2));
    assert_eq!(held("alice-phone", "mall-other"), (true, Location::S3), "under another policy");
    assert_eq!(held("shop-gate", "mall"), (true, Location::S3), "from somebody else");
}

/// Reference: requirement 5: what is out of date about an item is forgotten, and nothing else.
#[test]
fn only_what_is_out_of_date_is_forgotten() {
    let world = World::new(MALL);
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (mac, age) = (world.item("mac-alice"), world.item("age-alice"));
    let (gate, shop) = (world.device("mall-gate"), world.device("shop-gate"));
    let over = Withdrawal { epoch: Epoch(0), until: time(NEW_YEAR) };
    let matters = Withdrawal { until: time("2024-01-02"), ..over };
    let forgets = |about_mac: Withdrawal, given: Withdrawal| {
        let mut mall = listening(&world, "mall-gate", "mall", &cx);
        let memory = &mut mall.device.memory;
        memory.tombstones = [(mac, about_mac), (age, over)].into();
        memory.recipients = [((mac, gate), given), ((mac, shop), matters), ((age, gate), over)].into();
        let taken = mall.take(Action::Forget { item: mac }, &cx).is_some();
        let memory = mall.device.memory;
        (taken, memory.tombstones.into_keys().collect(), memory.recipients.into_keys().collect())
    };
    let known = |taken, items: &[_], recipients: &[_]| {
        (taken, items.iter().copied().collect::<BTreeSet<_>>(), recipients.iter().copied().collect::<BTreeSet<_>>())
    };
    let (all, rest) = ([(mac, gate), (mac, shop), (age, gate)], [(mac, shop), (age, gate)]);
    assert_eq!(forgets(matters, matters), known(false, &[mac, age], &all));
    assert_eq!(forgets(over, matters), known(true, &[age], &all));
    assert_eq!(forgets(matters, over), known(true, &[mac, age], &rest));
    assert_eq!(forgets(over, over), known(true, &[age], &rest));
}

/// Reference: requirement 5: messages overtake each other; the owner's last release is what a receipt remembers.
#[test]
fn a_receipt_remembers_the_last_release() {
    let world = World::banner();
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (alice, flights_id, policy) =
        (world.device("alice-browser"), world.device("flights-server"), world.id("option-2"));
    for epochs in [[3, 7], [7, 3]] {
        let mut flights = Node::new(&graphs::DIRECT_CONTROLLER, flights_id);
        flights.init(&[policy], None, &cx);
        for epoch in epochs {
            flights.send(alice, Body::Request { policy }, &cx).unwrap();
            let mut release = ItemRelease::new(world.item("cookie-alice"), policy);
            release.epoch = Epoch(epoch);
            flights.receive(&Message { sender: alice, receiver: flights_id, body: Body::Send(release) }, &cx).unwrap();
            flights.take(Action::Tau, &cx).unwrap();
        }
        assert!(flights.device.memory.released.into_values().eq([Epoch(7)]), "{epochs:?}");
    }
}

/// Reference: requirement 5 and S20: the ghosts, too, remember the last release and the last withdrawal, and nothing of
/// what was erased.
#[test]
fn ghosts_remember_the_last_release_and_withdrawal() {
    let world = World::banner();
    let (alice, flights) = (world.device("alice-browser"), world.device("flights-server"));
    let (item, policy) = (world.item("cookie-alice"), world.id("option-2"));
    let send =
        Event::Send(Delivery { handover: Handover { sender: alice, receiver: flights, item, policy }, value: None });
    for epochs in [[3, 7], [7, 3]] {
        let (mut state, mut ghosts) = (DeviceState::default(), Ghosts::default());
        for epoch in epochs.map(Epoch) {
            let provenance = Provenance { own: None, offered: policy, shown: true, epoch, known_to_sender: None };
            rules::apply(&send, Some(provenance), &mut state, &mut ghosts);
        }
        assert!(ghosts.provenance.values().map(|provenance| provenance.epoch).eq([Epoch(7)]), "{epochs:?}");
        for withdrawn in epochs.map(|epoch| Some(Epoch(epoch))) {
            rules::apply(&Event::Erase { controller: flights, item, withdrawn }, None, &mut state, &mut ghosts);
        }
        assert_eq!(ghosts, Ghosts { withdrawn: [(item, Epoch(7))].into(), ..Ghosts::default() }, "{epochs:?}");
    }
}

/// Reference: requirement 5: a notice from a clock that is ahead counts, but not beyond what clocks may differ.
#[test]
fn a_notice_from_the_future_counts_within_the_window() {
    let world = World::new(MALL);
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (item, now) = (world.item("mac-alice"), Epoch::of(cx.now).0);
    for (epoch, counts) in [(now + 1, now + 1), (now + 2, now + 2), (now + 3, now + 2), (u64::MAX, now + 2)] {
        let mut mall = listening(&world, "mall-gate", "mall", &cx);
        let withdrawal = Withdrawal { epoch: Epoch(epoch), until: cx.now };
        let body = Body::Withdraw { item, withdrawal };
        let notice = Message { sender: world.device("alice-phone"), receiver: mall.device.id, body };
        let events = mall.receive(&notice, &cx).unwrap().events;
        assert_eq!(events, [Event::Erase { controller: mall.device.id, item, withdrawn: Some(Epoch(counts)) }]);
        assert_eq!(mall.device.memory.tombstones[&item].epoch, Epoch(counts));
    }
}

/// Reference: requirement 5: a notice says until when any release so far matters, transfer rules included.
#[test]
fn a_notice_lasts_to_the_last_deadline_of_all_releases() {
    let world = World::new(&format!(
        "{MALL}
         policy with-rule {{
           collect mac-address by flights.com for statistics until 2025-01-01
           transfer to hotels.com for statistics until 2025-06-01
         }}
         policy short {{ collect mac-address by flights.com for statistics until 2024-06-01 }}
         policy mine {{
           collect mac-address by flights.com for statistics until 2026-01-01
           transfer to hotels.com for statistics until 2026-01-01
         }}"
    ));
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let flights = world.device("flights-server");
    let mut alice = broadcasting(&world, &["mine"], ("flights-server", "with-rule"), &cx);
    assert!(broadcast(&mut alice, flights, &world, "with-rule", &cx).is_some());
    alice.take(Action::Tau, &cx).unwrap();
    alice.send(world.device("policy-repository"), Body::RequestPolicies, &cx).unwrap();
    alice.receive(&download(&world, &[("flights-server", "short")]), &cx).unwrap();
    assert!(broadcast(&mut alice, flights, &world, "short", &cx).is_some());
    let item = world.item("mac-alice");
    let notice = alice.send(flights, Body::Withdraw { item, withdrawal: Withdrawal::default() }, &cx).unwrap();
    let withdrawal = Withdrawal { epoch: Epoch::of(cx.now), until: time("2025-06-01") };
    assert_eq!(notice.body, Body::Withdraw { item, withdrawal });
}

/// Reference: requirement 5: what is owed to a recipient covers every notice that came, in whichever order.
#[test]
fn owed_notices_cover_all_that_came() {
    let world = World::banner();
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (flights_id, hotels, item) =
        (world.device("flights-server"), world.device("hotels-server"), world.item("cookie-alice"));
    let mut flights = Node::new(&graphs::DIRECT_CONTROLLER, flights_id);
    flights.init(&[world.id("option-3")], None, &cx);
    flights.device.memory.recipients.insert((item, hotels), Withdrawal::default());
    for (epoch, until) in [(7, "2024-03-01"), (3, "2024-06-01")] {
        let body = Body::Withdraw { item, withdrawal: Withdrawal { epoch: Epoch(epoch), until: time(until) } };
        flights.receive(&Message { sender: world.device("alice-browser"), receiver: flights_id, body }, &cx).unwrap();
    }
    let both = Withdrawal { epoch: Epoch(7), until: time("2024-06-01") };
    assert_eq!(flights.device.memory.notices, [((item, hotels), both)].into());
}

/// Reference: Def. 4 and S19: who withdraws a policy no longer waits for answers under it, though it publish it again.
#[test]
fn a_withdrawn_policy_takes_its_requests_along() {
    let world = World::new(MALL);
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (repository, shop, policy) = (world.device("policy-repository"), world.device("shop-gate"), world.id("mall"));
    let keeps = |withdraws: bool| {
        let mut mall = listening(&world, "mall-gate", "mall", &cx);
        mall.send(shop, Body::Request { policy }, &cx).unwrap();
        if withdraws {
            mall.send(repository, Body::WithdrawPolicy { policy }, &cx).unwrap();
            mall.take(Action::ChangeOwn { own: vec![policy] }, &cx).unwrap();
            mall.send(repository, Body::UploadPolicy { policy }, &cx).unwrap();
        }
        let body = Body::Send(ItemRelease::new(world.item("mac-alice"), policy));
        mall.receive(&Message { sender: shop, receiver: mall.device.id, body }, &cx).unwrap();
        holds(&mall, world.item("mac-alice"))
    };
    assert!(keeps(false));
    assert!(!keeps(true));
}

/// Reference: Table 2, SEND: ν_rcv gets what ν_sndr had, ⊥ included; graph and rule agree.
#[test]
fn an_item_without_a_value_leaves_none() {
    let world = World::banner();
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (alice, cookie, policy) = (world.device("alice-browser"), world.item("cookie-alice"), world.id("option-2"));
    let mut flights = Node::new(&graphs::DIRECT_CONTROLLER, world.device("flights-server"));
    flights.init(&[policy], None, &cx);
    flights.send(alice, Body::Request { policy }, &cx).unwrap();
    flights.device.state.values.insert(Variable::Item(cookie), text("c"));
    let mut expected = flights.device.state.clone();
    let body = Body::Send(ItemRelease::new(cookie, policy));
    let step = flights.receive(&Message { sender: alice, receiver: flights.device.id, body }, &cx).unwrap();
    rules::apply(&step.events[0], None, &mut expected, &mut Ghosts::default());
    assert_eq!(flights.device.state, expected);
    assert_eq!(expected.value(cookie), None);
}

/// Reference: beyond the paper, Withdraw: a transfer rule for a part of a refused entity, or for a whole that it is part
/// of, might reach it; a whole may still have data itself.
#[test]
fn refusals_reach_parts_and_wholes_of_transfer_rules() {
    let policies = |name: &str, until: &str| {
        let policy = |entity| {
            format!(
                "policy {name}-{entity} {{
                   collect mac-address by flights.com for statistics until {until}
                   transfer to {entity} for statistics until {until}
                 }} "
            )
        };
        ["mall", "shop"].map(policy).concat()
    };
    let world = World::new(&format!("{MALL} {} {}", policies("may", "2026-01-01"), policies("offer", "2025-01-01")));
    let judge = world.judge();
    let (now, later) = (world.cx(&judge, NEW_YEAR), world.cx(&judge, "2024-01-02"));
    for (refused, mall_gets_it) in [("hotels-server", true), ("mall-gate", false), ("shop-gate", true)] {
        for offer in ["offer-mall", "offer-shop"] {
            let mut alice = broadcasting(&world, &["all", "may-mall", "may-shop"], ("mall-gate", "mall"), &now);
            alice.take(Action::Tau, &now).unwrap();
            alice.send(world.device("policy-repository"), Body::RequestPolicies, &now).unwrap();
            alice.receive(&download(&world, &[("mall-gate", "mall"), ("flights-server", offer)]), &now).unwrap();
            let notice = Body::Withdraw { item: world.item("mac-alice"), withdrawal: Withdrawal::default() };
            alice.send(world.device(refused), notice, &now).unwrap();
            let mut reaches = |device: &str, policy: &str| {
                broadcast(&mut alice, world.device(device), &world, policy, &later).is_some()
            };
            assert_eq!(reaches("flights-server", offer), refused == "hotels-server", "{refused}, {offer}");
            assert_eq!(reaches("mall-gate", "mall"), mall_gets_it, "{refused}");
        }
    }
}

/// Reference: S20: an item comes with the own policy that covers its release, and if none does, with an active one.
#[test]
fn provenance_names_the_policy_that_covers_the_release() {
    let world = World::banner();
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (sender, receiver) = (world.device("alice-browser"), world.device("flights-server"));
    let own = |offered: &str, own: &[&str]| {
        let mut alice = DeviceState::default();
        alice.policies.extend(own.iter().map(|own| (sender, world.id(own))));
        let handover = Handover { sender, receiver, item: world.item("cookie-alice"), policy: world.id(offered) };
        rules::provenance(&handover, &alice, &Ghosts::default(), &cx).unwrap().own
    };
    assert_eq!(own("option-3", &["option-2", "option-3"]), Some(world.id("option-3")));
    assert_eq!(own("option-3", &["option-2"]), Some(world.id("option-2")));
    assert_eq!(own("option-3", &["hotels"]), None, "not active");
}

/// Reference: S20: a transferred item comes with the last release whose terms allow the transfer, and if none does, with
/// any.
#[test]
fn provenance_of_a_transfer_is_the_last_release_that_allows_it() {
    let world = World::banner();
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (flights, item) = (world.device("flights-server"), world.item("cookie-alice"));
    let handover =
        Handover { sender: flights, receiver: world.device("hotels-server"), item, policy: world.id("hotels") };
    let epoch = |held: &[(&str, &str, u64)]| {
        let (mut state, mut ghosts) = (DeviceState::default(), Ghosts::default());
        for (sender, policy, epoch) in held {
            let (offered, epoch) = (world.id(policy), Epoch(*epoch));
            let receipt = Receipt { item, sender: world.device(sender), policy: offered };
            state.received.insert(receipt);
            let provenance = Provenance { own: None, offered, shown: true, epoch, known_to_sender: None };
            ghosts.provenance.insert(receipt, provenance);
        }
        rules::provenance(&handover, &state, &ghosts, &cx).map(|provenance| provenance.epoch)
    };
    assert_eq!(epoch(&[("alice-browser", "option-3", 7), ("alice-phone", "option-3", 3)]), Some(Epoch(7)));
    assert_eq!(epoch(&[("alice-browser", "option-3", 3), ("alice-phone", "option-3", 7)]), Some(Epoch(7)));
    assert_eq!(epoch(&[("alice-browser", "option-3", 3), ("alice-browser", "option-2", 7)]), Some(Epoch(3)));
    assert_eq!(epoch(&[("alice-browser", "option-2", 7)]), Some(Epoch(7)));
    assert_eq!(epoch(&[]), None);
}

/// Reference: requirement 3: a transfer says whether its sender knew the receiver's policy.
#[test]
fn provenance_of_a_transfer_says_what_its_sender_knew() {
    let world = World::banner();
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (sender, receiver) = (world.device("flights-server"), world.device("hotels-server"));
    let (item, offered, policy) = (world.item("cookie-alice"), world.id("option-3"), world.id("hotels"));
    let receipt = Receipt { item, sender: world.device("alice-browser"), policy: offered };
    let release = Provenance { own: None, offered, shown: true, epoch: Epoch(7), known_to_sender: None };
    let ghosts = Ghosts { provenance: [(receipt, release)].into(), ..Ghosts::default() };
    let mut flights = DeviceState { received: [receipt].into(), ..DeviceState::default() };
    let known = |flights: &DeviceState| {
        let handover = Handover { sender, receiver, item, policy };
        rules::provenance(&handover, flights, &ghosts, &cx).unwrap().known_to_sender
    };
    assert_eq!(known(&flights), Some(false));
    flights.policies.insert((receiver, policy));
    assert_eq!(known(&flights), Some(true));
}

/// Reference: Table 2: of several own policies, the refusal is about the one that comes furthest.
#[test]
fn refusals_speak_of_the_best_attempt() {
    let world = World::banner();
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (sender, receiver) = (world.device("alice-browser"), world.device("flights-server"));
    let (item, policy) = (world.item("cookie-alice"), world.id("option-3"));
    let refusal = |own: &[&str]| {
        let mut alice = DeviceState::default();
        alice.values.insert(Variable::Item(item), text("c"));
        alice.policies.extend(own.iter().map(|own| (sender, world.id(own))));
        alice.policies.insert((receiver, policy));
        rules::claim(&Claim::Send(Handover { sender, receiver, item, policy }), &alice, &cx)
    };
    assert_eq!(refusal(&["alice", "hotels"]), Err(Premise::OwnPolicyActive(Inactive::Entity)));
    assert_eq!(refusal(&["option-2", "alice"]), Err(Premise::WithinOwn));
    assert_eq!(refusal(&["option-2", "hotels"]), Err(Premise::WithinOwn));
    assert_eq!(refusal(&["option-2", "option-3"]), Ok(()));
}

/// Reference: Def. 3: what a graph offers, it offers once: to erase what is overdue however often it was received, to
/// pass on the notice that is owed, to forget.
#[test]
fn housekeeping_is_offered_once() {
    let world = World::banner();
    let judge = world.judge();
    let cx = world.cx(&judge, "2025-01-01");
    let (sender, receiver, item) =
        (world.device("flights-server"), world.device("hotels-server"), world.item("cookie-alice"));
    let mut flights = Node::new(&graphs::DIRECT_CONTROLLER, sender);
    flights.init(&[], None, &cx);
    for from in ["alice-browser", "alice-phone"] {
        let receipt = Receipt { item, sender: world.device(from), policy: world.id("option-2") };
        flights.device.state.received.insert(receipt);
    }
    let (over, owed) = (Withdrawal::default(), Withdrawal { epoch: Epoch(7), until: time(NEW_YEAR) });
    flights.device.memory.tombstones.insert(item, over);
    flights.device.memory.recipients.insert((item, receiver), over);
    flights.device.memory.notices.insert((item, receiver), owed);
    let notice = Message { sender, receiver, body: Body::Withdraw { item, withdrawal: owed } };
    assert_eq!(
        offers(flights.graph, &flights.instance, &flights.device, &cx),
        [Action::Expire { item }, Action::Send(notice), Action::Forget { item }]
    );
}

/// Reference: Def. 3: an action that several edges of a graph have is offered once.
#[test]
fn actions_of_several_edges_are_offered_once() {
    let world = World::new(MALL);
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let mall = listening(&world, "mall-gate", "mall", &cx);
    let (sender, receiver, policy) = (mall.device.id, world.device("policy-repository"), world.id("mall"));
    let tell = |body| Action::Send(Message { sender, receiver, body });
    assert_eq!(
        offers(mall.graph, &mall.instance, &mall.device, &cx),
        [tell(Body::UploadPolicy { policy }), tell(Body::WithdrawPolicy { policy })]
    );
}

/// Reference: Def. 3: what a controller has published it can withdraw, what is out of date it can forget, and from s₃ it
/// can go on.
#[test]
fn everything_that_can_be_done_is_offered() {
    let world = World::new(MALL);
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (mac, age) = (world.item("mac-alice"), world.item("age-alice"));
    let mut mall = listening(&world, "mall-gate", "mall", &cx);
    mall.take(Action::ChangeOwn { own: vec![] }, &cx).unwrap();
    mall.instance.location = Location::S3;
    mall.device.memory.tombstones.insert(mac, Withdrawal::default());
    mall.device.memory.recipients.insert((age, world.device("shop-gate")), Withdrawal::default());
    let body = Body::WithdrawPolicy { policy: world.id("mall") };
    let withdraw = Message { sender: mall.device.id, receiver: world.device("policy-repository"), body };
    let offered = offers(mall.graph, &mall.instance, &mall.device, &cx);
    let expected = [Action::Tau, Action::Send(withdraw), Action::Forget { item: mac }, Action::Forget { item: age }];
    assert_eq!(offered.iter().collect::<BTreeSet<_>>(), expected.iter().collect());
}

/// Reference: S1, S10: the guards that look right and are not allow what they are there to be caught for, and refuse
/// what they would refuse in a graph.
#[test]
fn mistaken_guards_are_the_mistakes_they_are_named_for() {
    let rule = |condition: &str, until: &str| format!("transfer to hotels.com {condition} for hotel_ads until {until}");
    let collect = |until: &str, rule: &str| {
        format!("{{ collect cookie by flights.com for special_offers until {until} {rule} }}")
    };
    let world = World::new(&format!(
        "{} policy wide {{ collect cookie by alphabet for research until 2024-12-21 }}
            policy subsidiary {{ collect cookie by google for research until 2024-12-21 }}
            policy adults {}
            policy anybody {}
            policy longer {}
            policy rule-longer {}
            policy ages {{ collect age by flights.com for special_offers until 2024-04-19 }}",
        fixture::BANNER,
        collect("2024-04-19", &rule("when age >= 18", "2024-04-19")),
        collect("2024-04-19", &rule("", "2024-04-19")),
        collect("2024-12-21", ""),
        collect("2024-04-19", &rule("", "2024-12-21")),
    ));
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (sender, receiver, item) =
        (world.device("alice-browser"), world.device("flights-server"), world.item("cookie-alice"));
    let allows = |mistake, mine: &str, offered: &str| {
        let guards = [Guard::Mistaken(mistake)];
        let edges = [edge(Location::S0, Label::Send(MessageKind::Send), &guards, &[], Location::S0)];
        let graph = Graph { name: "mistaken", figure: "", initial: Location::S0, edges: &edges };
        let mut device = Device::new(sender);
        device.state.policies.insert((sender, world.id(mine)));
        device.state.received.insert(Receipt { item, sender, policy: world.id(mine) });
        let body = Body::Send(ItemRelease::new(item, world.id(offered)));
        let action = Action::Send(Message { sender, receiver, body });
        enabled(&graph, &Instance::new(&graph), &device, &action, &cx).next().is_some()
    };
    assert!(allows(Mistake::WithinReceived, "wide", "subsidiary"));
    assert!(!allows(Mistake::WithinReceived, "option-3", "hotels"));
    assert!(allows(Mistake::CoversOwn, "option-2", "option-3"));
    assert!(!allows(Mistake::CoversOwn, "option-3", "option-2"));
    assert!(!allows(Mistake::CoversOwn, "alice", "option-3"), "not active");
    assert!(allows(Mistake::WithinOwnUnconditionally, "adults", "anybody"));
    assert!(!allows(Mistake::WithinOwnUnconditionally, "adults", "longer"));
    assert!(!allows(Mistake::WithinOwnUnconditionally, "adults", "rule-longer"));
    assert!(!allows(Mistake::WithinOwnUnconditionally, "adults", "ages"));
}

/// Reference: requirements 2 and 3: a policy was shown if the sender had it in its base, and it is about the item.
#[test]
fn provenance_says_whether_the_policy_was_shown() {
    let world = World::new(MALL);
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (sender, receiver) = (world.device("alice-phone"), world.device("mall-gate"));
    let shown = |known: &str, policy: &str| {
        let alice = DeviceState { policies: [(receiver, world.id(known))].into(), ..DeviceState::default() };
        let handover = Handover { sender, receiver, item: world.item("mac-alice"), policy: world.id(policy) };
        rules::provenance(&handover, &alice, &Ghosts::default(), &cx).unwrap().shown
    };
    assert!(shown("mall", "mall"));
    assert!(!shown("mall-more", "mall"), "not in her base");
    assert!(!shown("age-only", "age-only"), "not about the item");
}

/// Reference: requirement 5: an epoch is over when no message of it is fresh any more, not before.
#[test]
fn an_epoch_is_over_when_it_is_no_longer_fresh() {
    let noon = time("2024-01-01T12:00:00Z");
    let epoch = Epoch::of(noon);
    for (seconds, over) in [(0, false), (191, false), (192, true), (10_000, true)] {
        let now = Time::from_unix(noon.unix() + seconds);
        assert_eq!((epoch.is_over_at(now), epoch.is_fresh_at(now)), (over, !over), "after {seconds} seconds");
    }
}

/// Reference: §5: the requirements are called by their numbers.
#[test]
fn requirements_have_their_numbers() {
    let names = Requirement::ALL.map(|requirement| (requirement.number(), requirement.to_string()));
    assert_eq!(names, [1, 2, 3, 4, 5].map(|number| (number, format!("requirement-{number}"))));
}

/// Reference: ids stand for policies: a table has each policy once and finds it by its digest.
#[test]
fn policies_are_found_by_their_digest() {
    let mut world = World::banner();
    let known: Vec<_> = world.policies.iter().map(|(id, policy)| (id, policy.clone())).collect();
    for (id, policy) in known.clone() {
        assert_eq!(world.policies.intern(policy.clone(), &world.vocabulary), id);
        let digest = codec::digest(&Choice::Policy(policy), &world.vocabulary);
        assert_eq!(world.policies.digest(id), Some(digest));
        assert_eq!(world.policies.by_digest(&digest), Some(id));
    }
    assert_eq!(world.policies.iter().count(), known.len());
}

/// Reference: Fig. 3b: an answer is kept under the policy that its sender was asked with, and under no other.
#[test]
fn answers_come_under_the_policy_asked_with() {
    let world = World::banner();
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (browser, phone, cookie) =
        (world.device("alice-browser"), world.device("alice-phone"), world.item("cookie-alice"));
    let mut flights = Node::new(&graphs::DIRECT_CONTROLLER, world.device("flights-server"));
    flights.init(&[world.id("option-2"), world.id("option-3")], None, &cx);
    for (whom, policy) in [(phone, "option-3"), (browser, "option-2")] {
        flights.send(whom, Body::Request { policy: world.id(policy) }, &cx).unwrap();
        flights.take(Action::Tau, &cx).unwrap();
    }
    flights.instance.location = Location::S2;
    for (policy, kept) in [("option-3", false), ("option-2", true)] {
        let body = Body::Send(ItemRelease::new(cookie, world.id(policy)));
        flights.receive(&Message { sender: browser, receiver: flights.device.id, body }, &cx).unwrap();
        assert_eq!(holds(&flights, cookie), kept, "{policy}");
    }
}

/// Reference: requirement 5: who may have got an item is remembered while a broadcast of it can still arrive, though the
/// policy has ended.
#[test]
fn recipients_are_remembered_while_broadcasts_can_arrive() {
    let world = World::new(&format!(
        "{MALL} policy short {{ collect mac-address by mall for statistics until 2024-01-01T12:00:30Z }}"
    ));
    let judge = world.judge();
    let noon = world.cx(&judge, "2024-01-01T12:00:00Z");
    let mut alice = broadcasting(&world, &["all"], ("mall-gate", "short"), &noon);
    assert!(broadcast(&mut alice, world.device("mall-gate"), &world, "short", &noon).is_some());
    let forget = Action::Forget { item: world.item("mac-alice") };
    assert_eq!(alice.take(forget.clone(), &world.cx(&judge, "2024-01-01T12:03:11Z")), None);
    assert!(alice.take(forget, &world.cx(&judge, "2024-01-01T12:03:12Z")).is_some());
}

/// Reference: beyond the paper, Withdraw: to admit one entity again admits no other.
#[test]
fn only_who_is_admitted_is_admitted() {
    let world = World::new(MALL);
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let mut alice = broadcasting(&world, &["all"], ("mall-gate", "mall"), &cx);
    for refused in ["mall-gate", "hotels-server"] {
        let notice = Body::Withdraw { item: world.item("mac-alice"), withdrawal: Withdrawal::default() };
        alice.send(world.device(refused), notice, &cx).unwrap();
    }
    let entity = |name: &str| world.vocabulary.entities.id(name).unwrap();
    alice.take(Action::Admit { entity: entity("mall") }, &cx).unwrap();
    assert_eq!(alice.device.memory.refused, [entity("hotels.com")].into());
}

/// Reference: requirement 5: everybody who may have got the item is owed the notice, and giving it to one settles
/// nothing with the others.
#[test]
fn notices_are_owed_to_each_recipient() {
    let world = World::new(MALL);
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (item, gate) = (world.item("mac-alice"), world.device("mall-gate"));
    let recipients = ["alice-browser", "hotels-server", "shop-gate"].map(|name| world.device(name));
    let mut mall = listening(&world, "mall-gate", "mall", &cx);
    let withdrawal = Withdrawal { epoch: Epoch(7), until: time("2024-12-21") };
    mall.device.memory.recipients = recipients.map(|recipient| ((item, recipient), withdrawal)).into();
    let body = Body::Withdraw { item, withdrawal };
    mall.receive(&Message { sender: world.device("alice-phone"), receiver: gate, body: body.clone() }, &cx).unwrap();
    for recipient in recipients {
        assert!(mall.send(recipient, body.clone(), &cx).is_some(), "{}", world.vocabulary.device_name(recipient));
    }
    assert!(mall.device.memory.notices.is_empty());
}

/// Reference: requirements 1 and 2: a policy that says nothing about the item is no consent to its collection, nor is
/// another than the one that was shown.
#[test]
fn requirements_1_and_2_ask_for_the_policy_shown_about_the_item() {
    let world = World::new(MALL);
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let meets = |own: &str, offered: &str, held: &str| {
        let receipt =
            Receipt { item: world.item("mac-alice"), sender: world.device("alice-phone"), policy: world.id(held) };
        let release = Provenance {
            own: Some(world.id(own)),
            offered: world.id(offered),
            shown: true,
            epoch: Epoch(7),
            known_to_sender: None,
        };
        let complies = requirements::compliance(&receipt, &release, &cx);
        (complies, requirements::informed_collection(&receipt, &release, &cx))
    };
    assert_eq!(meets("all", "mall", "mall"), (true, true));
    assert_eq!(meets("age-only", "age-only", "age-only"), (false, false), "not about the item");
    assert_eq!(meets("all", "mall-other", "mall"), (true, false), "another was shown");
}
