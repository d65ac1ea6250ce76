//! What lies beyond the paper: erasing at the deadline, requirements 3 and 4, and the ways around consent that the graphs
//! close although the figures do not speak of them. Withdrawals have a file of their own.

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
    Claim, DeviceState, Epoch, Event, Ghosts, Handover, Premise, Provenance, Receipt, Requirement, requirements, rules,
};
use pilot_core::syntax::parse_condition;
use pilot_core::value::{Number, Value};
use pilot_core::vocabulary::Variable;

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
