//! Withdrawals, which lie beyond the paper: notices, tombstones, epochs, refused entities, and requirement 5.

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
use pilot_core::graph::message::{Release as ItemRelease, Withdrawal};
use pilot_core::graph::{Action, Body, Location, Message, offers};
use pilot_core::graphs;
use pilot_core::semantics::{
    Delivery, DeviceState, Epoch, Event, Ghosts, Handover, Provenance, Receipt, requirements, rules,
};
use pilot_core::value::Time;
use pilot_core::vocabulary::{DeviceId, Variable};

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

/// Reference: requirement 5: a notice from far in the future is not over.
#[test]
fn epochs_do_not_wrap() {
    assert!(!Epoch(u64::MAX).is_over_at(time(NEW_YEAR)));
    assert!(!Epoch(u64::MAX).is_fresh_at(time(NEW_YEAR)));
    assert!(Epoch(0).is_over_at(time(NEW_YEAR)));
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
