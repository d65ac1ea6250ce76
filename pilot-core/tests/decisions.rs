//! The semantic decisions S1 to S21, each with a test that names it. ARCHITECTURE.md lists them under Deviations; where
//! the printed form is unsafe, the test shows how.

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
use pilot_core::graph::message::Release as ItemRelease;
use pilot_core::graph::{Action, Body, Instance, Location, Message, step};
use pilot_core::graphs;
use pilot_core::lint;
use pilot_core::policy::Choice;
use pilot_core::semantics::rules::happen;
use pilot_core::semantics::{
    Claim, Context, Delivery, DeviceState, Event, Ghosts, Handover, Premise, Receipt, Requirement, State, rules,
};
use pilot_core::vocabulary::Variable;

/// Reference: S1. The printed guard p_dc' ⊑ p_i forbids the transfer that option 3 grants and grants one that nobody
/// allowed; TRANSFER's premises do neither.
#[test]
fn s1_transfers_follow_the_transfer_rules() {
    let world = World::new(&format!(
        "{} policy wide {{ collect cookie by alphabet for research until 2024-12-21 }}
            policy subsidiary {{ collect cookie by google for research until 2024-12-21 }}",
        fixture::BANNER
    ));
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let transfers = |held: &str, asking: &str, offer: &str| {
        let (controller, peer, cookie) =
            (world.device("flights-server"), world.device(asking), world.item("cookie-alice"));
        let mut node = Node::new(&graphs::DIRECT_CONTROLLER, controller);
        node.init(&[world.id(held)], None, &cx);
        node.device.state.values.insert(Variable::Item(cookie), text("c"));
        let receipt = Receipt { item: cookie, sender: world.device("alice-browser"), policy: world.id(held) };
        node.device.state.received.insert(receipt);
        node.instance.location = Location::S3;
        let body = Body::Request { policy: world.id(offer) };
        node.receive(&Message { sender: peer, receiver: controller, body }, &cx).unwrap();
        node.send(peer, Body::Send(ItemRelease::new(cookie, world.id(offer))), &cx).is_some()
    };
    let printed_guard = |offer: &str, held: &str| world.policy(offer).subsumes(world.policy(held), &judge);
    assert!(!printed_guard("hotels", "option-3") && transfers("option-3", "hotels-server", "hotels"));
    assert!(printed_guard("subsidiary", "wide") && !transfers("wide", "google-server", "subsidiary"));
}

/// Reference: S2. After a legal transfer the printed requirement 1 is false, and ours holds, along chains as well.
#[test]
fn s2_compliance_covers_chains_of_transfers() {
    let chain = "transfer to hotels.com for hotel_ads until 2024-04-19
                 transfer to other.com for hotel_ads until 2024-04-19";
    let world = World::new(&format!(
        "policy mine {{ collect cookie by flights.com for special_offers until 2024-12-21 {chain} }}
         policy flights {{ collect cookie by flights.com for special_offers until 2024-12-21 {chain} }}
         policy hotels {{ collect cookie by hotels.com for hotel_ads until 2024-04-19 {chain} }}
         policy other {{ collect cookie by other.com for hotel_ads until 2024-04-19 }}"
    ));
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let mut state = State::default();
    let alice = world.device("alice-browser");
    let (device, _) = state.devices.entry(alice).or_default();
    device.values.insert(Variable::Item(world.item("cookie-alice")), text("c"));
    let own =
        |device, policy| Event::Own { device: world.device(device), added: vec![world.id(policy)], removed: vec![] };
    let ask = |sender, receiver, policy| Event::Request {
        sender: world.device(sender),
        receiver: world.device(receiver),
        policy: world.id(policy),
        replaced: None,
    };
    let hand = |sender, receiver, policy| {
        let (sender, receiver) = (world.device(sender), world.device(receiver));
        let handover = Handover { sender, receiver, item: world.item("cookie-alice"), policy: world.id(policy) };
        Delivery { handover, value: Some(text("c")) }
    };
    for event in [
        own("alice-browser", "mine"),
        own("flights-server", "flights"),
        own("hotels-server", "hotels"),
        own("other-server", "other"),
        ask("flights-server", "alice-browser", "flights"),
        ask("hotels-server", "flights-server", "hotels"),
        ask("other-server", "hotels-server", "other"),
        Event::Send(hand("alice-browser", "flights-server", "flights")),
        Event::Transfer(hand("flights-server", "hotels-server", "hotels")),
        Event::Transfer(hand("hotels-server", "other-server", "other")),
    ] {
        happen(&event, &mut state, &cx).unwrap_or_else(|premise| panic!("{premise}"));
    }
    for (device, policy) in [("hotels-server", "hotels"), ("other-server", "other")] {
        let (holder, ghosts) = &state.devices[&world.device(device)];
        let receipt = *holder.received.first().unwrap();
        assert!(!world.policy(policy).subsumes(world.policy("mine"), &judge), "the printed form: p_i ⊑ p_ds");
        for requirement in Requirement::ALL {
            assert!(requirement.holds(&receipt, ghosts, 0, &cx), "{requirement} at {device}");
        }
    }
}

/// Reference: S3. Two gates have published the same policy; only the one that is addressed keeps the data.
#[test]
fn s3_only_the_addressee_keeps_a_broadcast() {
    let world = World::new(MALL);
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (mut mall, mut shop) =
        (listening(&world, "mall-gate", "mall", &cx), listening(&world, "shop-gate", "mall", &cx));
    let mut alice = broadcasting(&world, &["all"], ("mall-gate", "mall"), &cx);
    let heard = broadcast(&mut alice, world.device("mall-gate"), &world, "mall", &cx).unwrap();
    shop.receive(&heard, &cx).unwrap();
    mall.receive(&heard, &cx).unwrap();
    assert!(!holds(&shop, world.item("mac-alice")));
    assert!(holds(&mall, world.item("mac-alice")));
}

/// Reference: S4. What was published and not withdrawn is accepted while it is within a current policy.
#[test]
fn s4_a_controller_accepts_what_it_published_and_still_keeps_to() {
    let world = World::new(MALL);
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (mac, gate) = (world.item("mac-alice"), world.device("mall-gate"));
    let mut alice = broadcasting(&world, &["all"], ("mall-gate", "mall"), &cx);
    let heard = broadcast(&mut alice, gate, &world, "mall", &cx).unwrap();
    let after = |change: &dyn Fn(&mut Node)| {
        let mut mall = listening(&world, "mall-gate", "mall", &cx);
        change(&mut mall);
        mall.receive(&heard, &cx).unwrap();
        mall.device.state.receipts_of(mac).map(|receipt| receipt.policy).collect::<Vec<_>>()
    };
    let change_to = |policy: &str| Action::ChangeOwn { own: vec![world.id(policy)] };
    assert_eq!(after(&|_| ()), [world.id("mall")]);
    assert_eq!(after(&|mall| drop(mall.take(change_to("mall-more"), &cx).unwrap())), [world.id("mall")], "bound by p");
    assert_eq!(after(&|mall| drop(mall.take(change_to("mall-other"), &cx).unwrap())), [], "not within p_dc any more");
    let withdraw = |mall: &mut Node| {
        let policy = world.id("mall");
        mall.send(world.device("policy-repository"), Body::WithdrawPolicy { policy }, &cx).unwrap();
    };
    assert_eq!(after(&withdraw), [], "withdrawn");
    let keeps_more = |mall: &mut Node| {
        mall.take(Action::ChangeOwn { own: vec![world.id("mall"), world.id("mall-more")] }, &cx).unwrap();
        withdraw(mall);
    };
    assert_eq!(after(&keeps_more), [], "withdrawn, though within another current one");
    let mut other = listening(&world, "mall-gate", "mall-more", &cx);
    other.receive(&heard, &cx).unwrap();
    assert!(!holds(&other, mac), "within p_dc, but not published by it");
}

/// Reference: S5. The claim is judged when the broadcast leaves; a change of mind while it is in flight does not
/// undo it. The receiver re-checks what it can: type, entity and deadline.
#[test]
fn s5_premises_are_judged_when_the_message_leaves() {
    let world = World::new(&format!("{MALL} policy of-age {{ collect age by mall for statistics until 2025-01-01 }}"));
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (mac, gate) = (world.item("mac-alice"), world.device("mall-gate"));
    let mut alice = broadcasting(&world, &["all"], ("mall-gate", "mall"), &cx);
    let before = alice.device.state.clone();
    let body = Body::Broadcast(ItemRelease::new(mac, world.id("mall")));
    let taken = alice.take(Action::Send(Message { sender: alice.device.id, receiver: gate, body }), &cx).unwrap();
    let claim = taken.claim.unwrap();
    assert!(matches!(claim, Claim::Send(_)));
    assert_eq!(rules::claim(&claim, &before, &cx), Ok(()));

    alice.take(Action::ChangeOwn { own: vec![] }, &cx).unwrap();
    assert_eq!(rules::claim(&claim, &alice.device.state, &cx), Err(Premise::OwnPolicy), "judged at ↓ it would fail");
    let heard = taken.message.unwrap();
    let mut mall = listening(&world, "mall-gate", "mall", &cx);
    let step = mall.receive(&heard, &cx).unwrap();
    assert_eq!(rules::premises(&step.events[0], &mall.device.state, &cx), Ok(()));

    let refused = |message: &Message, gate: &str, policy: &str, now: &str| {
        let mut node = listening(&world, gate, policy, &world.cx(&judge, NEW_YEAR));
        let cx = world.cx(&judge, now);
        node.receive(message, &cx).unwrap();
        !holds(&node, mac)
    };
    let with_policy = |policy: &str, receiver: &str| {
        let mut release = heard.release().unwrap().clone();
        release.policy = world.id(policy);
        Message { body: Body::Broadcast(release), receiver: world.device(receiver), ..heard.clone() }
    };
    assert!(refused(&with_policy("of-age", "mall-gate"), "mall-gate", "of-age", NEW_YEAR), "type(i) ≰ p.t");
    assert!(refused(&with_policy("shop", "mall-gate"), "mall-gate", "shop", NEW_YEAR), "entity(rcv) ≰ p.dcr.e");
    let mut late = heard.clone();
    if let Body::Broadcast(release) = &mut late.body {
        release.epoch = pilot_core::semantics::Epoch::of(time("2025-01-01"));
    }
    assert!(refused(&late, "mall-gate", "mall", "2025-01-01"), "time ≥ p.dcr.rt");
}

/// Reference: S5. What the rules ask of the receiver: a policy about the item, for this receiver, and in time.
#[test]
fn s5_the_receiver_judges_type_entity_and_deadline() {
    let world =
        World::new(&format!("{MALL} policy homes {{ collect address by mall for statistics until 2025-01-01 }}"));
    let judge = world.judge();
    let judged = |item: &str, policy: &str, now: &str| {
        let (sender, receiver) = (world.device("alice-phone"), world.device("mall-gate"));
        let handover = Handover { sender, receiver, item: world.item(item), policy: world.id(policy) };
        let event = Event::Send(Delivery { handover, value: None });
        rules::premises(&event, &DeviceState::default(), &world.cx(&judge, now))
    };
    assert_eq!(judged("mac-alice", "mall", NEW_YEAR), Ok(()));
    assert_eq!(judged("city-alice", "homes", NEW_YEAR), Ok(()), "a city is an address");
    assert_eq!(judged("mac-alice", "age-only", NEW_YEAR), Err(Premise::AboutItem));
    assert_eq!(judged("mac-alice", "shop", NEW_YEAR), Err(Premise::NamesReceiver));
    assert_eq!(judged("mac-alice", "mall", "2025-01-01"), Err(Premise::InTime));
}

/// Reference: S6. A request that replaces several comparable policies is as many R2 steps, each with its witness.
#[test]
fn s6_a_request_replaces_each_comparable_policy() {
    let world = World::new(
        "policy a { collect cookie by flights.com for special_offers until 2024-12-21 }
         policy b { collect cookie by flights.com for statistics until 2024-12-21 }
         policy both { collect cookie by flights.com for special_offers, statistics until 2024-12-21 }",
    );
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (flights, alice_id) = (world.device("flights-server"), world.device("alice-browser"));
    let mut alice = Node::new(&graphs::DIRECT_SUBJECT, alice_id);
    alice.init(&[], Some(world.item("cookie-alice")), &cx);
    let mut ask = |policy: &str, cx: &Context<'_>| {
        let body = Body::Request { policy: world.id(policy) };
        let step = alice.receive(&Message { sender: flights, receiver: alice_id, body }, cx).unwrap();
        alice.take(Action::Tau, cx).unwrap();
        (step.events, alice.device.state.policies_of(flights).collect::<Vec<_>>())
    };
    let event = |policy: &str, replaced: Option<&str>| Event::Request {
        sender: flights,
        receiver: alice_id,
        policy: world.id(policy),
        replaced: replaced.map(|q| world.id(q)),
    };
    assert_eq!(ask("a", &cx).0, [event("a", None)]);
    assert_eq!(ask("b", &cx).0, [event("b", None)]);
    let (events, known) = ask("both", &cx);
    assert_eq!(events, [event("both", Some("a")), event("both", Some("b"))]);
    assert_eq!(known, [world.id("both")]);
}

/// Reference: S7. ⊑ is a preorder: two different policies can subsume each other.
#[test]
fn s7_subsumption_is_not_antisymmetric() {
    let world = World::new(
        "policy a { collect cookie by mall for advertisement, newsletter until 100 }
         policy b { collect cookie by mall for advertisement until 100 }
         policy c { collect cookie by mall when age > 18 for advertisement until 100 }",
    );
    let judge = world.judge();
    for (p, q) in [("a", "b"), ("b", "a"), ("b", "c"), ("c", "b")] {
        assert!(world.policy(p).subsumes(world.policy(q), &judge), "{p} ⊑ {q}");
    }
    assert_ne!(world.policy("a"), world.policy("b"));
}

/// Reference: S8. Lost messages and refusals do not leave a graph stuck.
#[test]
fn s8_lost_messages_leave_nobody_stuck() {
    let world = World::new(MALL);
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (repository, mac) = (world.device("policy-repository"), world.item("mac-alice"));

    let mut alice = broadcasting(&world, &["all"], ("mall-gate", "mall"), &cx);
    alice.take(Action::Tau, &cx).unwrap();
    alice.send(repository, Body::RequestPolicies, &cx).unwrap();
    assert_eq!(alice.at(), Location::S2);
    alice.take(Action::Tau, &cx).unwrap();
    assert_eq!(alice.at(), Location::S3, "4a: timeout");
    assert!(broadcast(&mut alice, world.device("mall-gate"), &world, "mall", &cx).is_some(), "with the last π");

    let mut restarted = Node::new(&graphs::INDIRECT_SUBJECT, world.device("alice-phone"));
    let offers = vec![(world.device("mall-gate"), world.id("mall"))];
    let own = vec![world.id("all")];
    let step = restarted.take(Action::Restore { own, item: Some(mac), offers }, &cx).unwrap();
    assert!(matches!(step.events[..], [Event::Own { .. }, Event::Request { .. }]), "4a: a stored π");

    let mut asking = Node::new(&graphs::DIRECT_CONTROLLER, world.device("mall-gate"));
    asking.init(&[world.id("mall")], None, &cx);
    asking.send(world.device("alice-phone"), Body::Request { policy: world.id("mall") }, &cx).unwrap();
    asking.take(Action::Tau, &cx).unwrap();
    assert_eq!(asking.at(), Location::S1, "3b: timeout");

    let mut mall = listening(&world, "mall-gate", "mall", &cx);
    assert!(mall.send(repository, Body::UploadPolicy { policy: world.id("mall") }, &cx).is_some(), "4c: re-upload");
    let heard = broadcast(&mut alice, world.device("mall-gate"), &world, "mall", &cx).unwrap();
    mall.receive(&heard, &cx).unwrap();
    mall.take(Action::Tau, &cx).unwrap();
    assert_eq!(mall.at(), Location::S2, "4c: it goes on listening");
}

/// Reference: S9. A policy with retention 0 can never be active; lint says so.
#[test]
fn s9_a_deadline_of_zero_is_never_active() {
    let world = World::banner();
    let judge = world.judge();
    let cx = world.cx(&judge, "1970-01-01");
    let (flights, cookie) = (world.device("flights-server"), world.item("cookie-alice"));
    assert!(cx.active_policy(world.id("option-4"), &Default::default(), flights, cookie).is_err());
    let named = [("option-4", world.choice("option-4"))];
    let findings = lint::lint(&named, time("1970-01-01"), &judge);
    assert!(findings.iter().any(|finding| finding.lint.name() == "never-active"), "{findings:?}");
}

/// Reference: S10. The condition of a transfer rule must entail the condition it is matched with.
#[test]
fn s10_transfer_conditions_must_entail() {
    let policy = |name: &str, condition: &str| {
        format!(
            "policy {name} {{ collect cookie by flights.com for special_offers until 100
               transfer to hotels.com {condition} for hotel_ads until 100 }} "
        )
    };
    let subsumes = |p: &str, q: &str| {
        let world = World::new(&(policy("p", p) + &policy("q", q)));
        world.choice("p").subsumes(world.choice("q"), &world.judge())
    };
    assert!(!subsumes("", "when age >= 18"), "the printed Def. 7 says yes, and nobody would ever ask her age");
    assert!(subsumes("when age >= 18", ""));
    assert!(subsumes("when age >= 21", "when age >= 18"));
    assert!(subsumes("when age > 18", "when age >= 18"));
    assert!(!subsumes("when age > 17", "when age >= 18"), "numbers are dense");
    assert!(subsumes("when age >= 18 and cookie.secure", "when cookie.secure"));
    assert!(!subsumes("when age >= 18", "when age >= 18 or cookie.secure"), "Table 3 is strict: ⊥ or true is ⊥");
    assert!(subsumes(r#"when place = "a""#, r#"when place != "b""#));
    assert!(subsumes("when not cookie.secure", "when cookie.secure = false"));
    assert!(subsumes("", "when true") && subsumes("when true", ""));
    let collection =
        |name: &str, when: &str| format!("policy {name} {{ collect cookie by mall {when} for research until 1 }} ");
    let world = World::new(&(collection("p", "") + &collection("q", "when age >= 18")));
    assert!(world.choice("p").subsumes(world.choice("q"), &world.judge()), "both are evaluated by the sender");
}

/// Reference: S11. Own policies come from the user, at first and later.
#[test]
fn s11_people_change_their_minds() {
    let world = World::new(MALL);
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let mut alice = broadcasting(&world, &["all"], ("mall-gate", "mall"), &cx);
    let step = alice.take(Action::ChangeOwn { own: vec![world.id("age-only")] }, &cx).unwrap();
    let (added, removed) = (vec![world.id("age-only")], vec![world.id("all")]);
    assert_eq!(step.events, [Event::Own { device: world.device("alice-phone"), added, removed }]);
    assert_eq!(broadcast(&mut alice, world.device("mall-gate"), &world, "mall", &cx), None);
}

/// Reference: S12. A subject has several own policies; any that is active will do.
#[test]
fn s12_some_active_own_policy_is_enough() {
    let world = World::new(&format!(
        r#"{MALL} policy at-work {{ collect mac-address by mall when place = "work" for statistics until 2026-01-01 }}
           policy in-town {{ collect mac-address by mall when place = "town" for statistics until 2026-01-01 }}"#
    ));
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let gate = world.device("mall-gate");
    let mut alice = broadcasting(&world, &["at-work", "in-town", "age-only"], ("mall-gate", "mall"), &cx);
    for (place, allowed) in [("work", true), ("town", true), ("home", false)] {
        alice.device.state.values.insert(world.attribute("place"), text(place));
        assert_eq!(broadcast(&mut alice, gate, &world, "mall", &cx).is_some(), allowed, "{place}");
    }
}

/// Reference: S13. Instances on one device share π: a request arrives once, an instance re-reads π when it sends, and
/// a request never overwrites an incomparable policy.
#[test]
fn s13_instances_share_the_device() {
    let world = World::new(&format!(
        "{MALL} policy ages {{ collect age by mall for statistics until 2025-01-01 }}
         policy macs {{ collect mac-address by mall for newsletter until 2025-01-01 }}"
    ));
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (phone, gate) = (world.device("alice-phone"), world.device("mall-gate"));
    let mut first = Node::new(&graphs::DIRECT_SUBJECT, phone);
    let own = [world.id("all"), world.id("age-only")];
    first.init(&own, Some(world.item("mac-alice")), &cx);
    first.device.state.values.insert(Variable::Item(world.item("mac-alice")), text("02:00:00:00:00:01"));
    let mut second = Instance::new(&graphs::DIRECT_SUBJECT);
    let init = Action::Init { own: own.to_vec(), item: Some(world.item("age-alice")) };
    let again = step(&graphs::DIRECT_SUBJECT, &mut second, &mut first.device, &init, &cx).unwrap();
    assert!(again.events.is_empty(), "the device has these policies already");

    let ask =
        |policy: &str| Message { sender: gate, receiver: phone, body: Body::Request { policy: world.id(policy) } };
    first.receive(&ask("mall"), &cx).unwrap();
    let before = first.device.state.clone();
    step(&graphs::DIRECT_SUBJECT, &mut second, &mut first.device, &Action::Receive(ask("mall")), &cx).unwrap();
    assert_eq!(first.device.state, before, "the same request, delivered to the second instance");
    step(&graphs::DIRECT_SUBJECT, &mut second, &mut first.device, &Action::Tau, &cx).unwrap();
    step(&graphs::DIRECT_SUBJECT, &mut second, &mut first.device, &Action::Receive(ask("ages")), &cx).unwrap();
    assert!(first.device.state.knows(gate, world.id("mall")), "R1 adds what is not comparable");

    step(&graphs::DIRECT_SUBJECT, &mut second, &mut first.device, &Action::Tau, &cx).unwrap();
    step(&graphs::DIRECT_SUBJECT, &mut second, &mut first.device, &Action::Receive(ask("mall-more")), &cx).unwrap();
    let remembered = ItemRelease::new(world.item("mac-alice"), world.id("mall"));
    assert_eq!(first.send(gate, Body::Send(remembered), &cx), None, "what it remembers has been replaced in π");
}

/// Reference: S14. In Def. 4's interleaving rule each side moves under its own condition φᵢ: two devices that differ in
/// their own policies only, side by side.
#[test]
fn s14_each_side_moves_under_its_own_condition() {
    let world = World::new(MALL);
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let gate = world.device("mall-gate");
    for (first, second) in [("all", "age-only"), ("age-only", "all")] {
        let mut pair = [first, second].map(|own| broadcasting(&world, &[own], ("mall-gate", "mall"), &cx));
        let moved = pair.each_mut().map(|node| broadcast(node, gate, &world, "mall", &cx).is_some());
        assert_eq!(moved, [first == "all", second == "all"], "with φ₁ for both, the second would move like the first");
    }
}

/// Reference: S15. One download is many abstract requests.
#[test]
fn s15_a_step_can_stand_for_many_events() {
    let world = World::new(MALL);
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let mut alice = broadcasting(&world, &["all"], ("mall-gate", "mall"), &cx);
    alice.take(Action::Tau, &cx).unwrap();
    alice.send(world.device("policy-repository"), Body::RequestPolicies, &cx).unwrap();
    let step = alice.receive(&download(&world, &[("mall-gate", "mall-other"), ("shop-gate", "shop")]), &cx).unwrap();
    assert!(matches!(step.events[..], [Event::Retract { .. }, Event::Request { .. }, Event::Request { .. }]));
}

/// Reference: S16. Only the owner sends; a collector that hands on vouches for a transfer.
#[test]
fn s16_a_collector_transfers_and_never_sends() {
    let world = World::banner();
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (flights_id, hotels_id, cookie) =
        (world.device("flights-server"), world.device("hotels-server"), world.item("cookie-alice"));
    let mut flights = Node::new(&graphs::DIRECT_CONTROLLER, flights_id);
    flights.init(&[world.id("option-3")], None, &cx);
    flights.send(world.device("alice-browser"), Body::Request { policy: world.id("option-3") }, &cx).unwrap();
    let mut release = ItemRelease::new(cookie, world.id("option-3"));
    release.value = Some(text("c"));
    let sent = Message { sender: world.device("alice-browser"), receiver: flights_id, body: Body::Send(release) };
    flights.receive(&sent, &cx).unwrap();
    let ask = Message { sender: hotels_id, receiver: flights_id, body: Body::Request { policy: world.id("hotels") } };
    flights.receive(&ask, &cx).unwrap();
    let body = Body::Send(ItemRelease::new(cookie, world.id("hotels")));
    let step = flights.take(Action::Send(Message { sender: flights_id, receiver: hotels_id, body }), &cx).unwrap();
    let Some(Claim::Transfer(handover)) = step.claim else { panic!("a transfer") };
    let as_send = rules::claim(&Claim::Send(handover), &flights.device.state, &cx);
    assert_eq!(as_send, Err(Premise::OwnerSends));
}

/// Reference: S17. A request is claimed when the policy is uploaded; older versions stay valid until withdrawn.
#[test]
fn s17_uploads_vouch_for_later_requests() {
    let world = World::new(MALL);
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (repository, gate) = (world.device("policy-repository"), world.device("mall-gate"));
    let mut mall = listening(&world, "mall-gate", "mall", &cx);
    mall.take(Action::ChangeOwn { own: vec![world.id("mall-more")] }, &cx).unwrap();
    let body = Body::UploadPolicy { policy: world.id("mall-more") };
    let step = mall.take(Action::Send(Message { sender: gate, receiver: repository, body }), &cx).unwrap();
    assert_eq!(step.claim, Some(Claim::Request { sender: gate, policy: world.id("mall-more") }));
    let old = Claim::Request { sender: gate, policy: world.id("mall") };
    assert_eq!(rules::claim(&old, &mall.device.state, &cx), Ok(()), "still published");
    mall.send(repository, Body::WithdrawPolicy { policy: world.id("mall") }, &cx).unwrap();
    assert_eq!(rules::claim(&old, &mall.device.state, &cx), Err(Premise::SenderHasPolicy));
}

/// Reference: S18. R2 removes the pair (sndr, q) and no other; ⊥ counts as not active.
#[test]
fn s18_r2_removes_one_pair_and_undefined_is_not_active() {
    let world = World::banner();
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (flights, hotels, alice) =
        (world.device("flights-server"), world.device("hotels-server"), world.device("alice-browser"));
    let (mut state, mut ghosts) = (DeviceState::default(), Ghosts::default());
    state.policies.extend([(flights, world.id("option-2")), (hotels, world.id("option-2"))]);
    let replace = Event::Request {
        sender: flights,
        receiver: alice,
        policy: world.id("option-3"),
        replaced: Some(world.id("option-2")),
    };
    rules::apply(&replace, None, &mut state, &mut ghosts);
    assert!(state.knows(hotels, world.id("option-2")));
    assert!(!state.knows(flights, world.id("option-2")));

    let undefined = cx.active_policy(world.id("alice"), &Default::default(), flights, world.item("cookie-alice"));
    assert_eq!(undefined, Err(pilot_core::active::Inactive::Undefined));
}

/// Reference: S19 (a). Banner options are comparable offers; only the chosen one is requested.
#[test]
fn s19_a_requesting_options_one_by_one_leaves_the_last() {
    let world = World::banner();
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (flights, alice_id) = (world.device("flights-server"), world.device("alice-browser"));
    for options in [["option-2", "option-3"], ["option-3", "option-2"]] {
        let mut alice = Node::new(&graphs::DIRECT_SUBJECT, alice_id);
        alice.init(&[], Some(world.item("cookie-alice")), &cx);
        for option in options {
            let body = Body::Request { policy: world.id(option) };
            alice.receive(&Message { sender: flights, receiver: alice_id, body }, &cx).unwrap();
            alice.take(Action::Tau, &cx).unwrap();
        }
        assert!(alice.device.state.policies_of(flights).eq([world.id(options[1])]), "{options:?}");
    }
}

/// Reference: S19 (b). One logical device per offer; versions of one offer replace each other in the repository.
#[test]
fn s19_b_versions_replace_each_other_and_offers_do_not() {
    let world = World::new(MALL);
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let id = world.device("policy-repository");
    let mut repository = Node::new(&graphs::REPOSITORY, id);
    for (device, policy) in [("mall-gate", "mall"), ("shop-gate", "shop"), ("mall-gate", "mall-other")] {
        let body = Body::UploadPolicy { policy: world.id(policy) };
        repository.receive(&Message { sender: world.device(device), receiver: id, body }, &cx).unwrap();
    }
    let listed: Vec<_> = repository.device.memory.catalogue.iter().map(|(device, policy)| (*device, *policy)).collect();
    assert_eq!(
        listed,
        [(world.device("mall-gate"), world.id("mall-other")), (world.device("shop-gate"), world.id("shop"))]
    );
    let forged = Message {
        sender: world.device("hotels-server"),
        receiver: id,
        body: Body::UploadPolicy { policy: world.id("mall") },
    };
    repository.receive(&forged, &cx).unwrap();
    assert_eq!(repository.device.memory.catalogue.len(), 2, "hotels.com does not speak for the mall");
}

/// Reference: S19 (b). A controller takes the policy it names off the list, if that is what is listed for it.
#[test]
fn s19_b_withdrawn_policies_are_no_longer_listed() {
    let world = World::new(MALL);
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let id = world.device("policy-repository");
    let mut repository = Node::new(&graphs::REPOSITORY, id);
    let (mall, shop) = (world.device("mall-gate"), world.device("shop-gate"));
    let mut listed_after = |sender, body| {
        repository.receive(&Message { sender, receiver: id, body }, &cx).unwrap();
        repository.device.memory.catalogue.keys().copied().collect::<Vec<_>>()
    };
    let withdraw = |policy: &str| Body::WithdrawPolicy { policy: world.id(policy) };
    listed_after(mall, Body::UploadPolicy { policy: world.id("mall") });
    listed_after(shop, Body::UploadPolicy { policy: world.id("shop") });
    assert_eq!(listed_after(mall, withdraw("mall-more")), [mall, shop], "an earlier version");
    assert_eq!(listed_after(shop, withdraw("mall")), [mall, shop], "somebody else's");
    assert_eq!(listed_after(mall, withdraw("mall")), [shop]);
}

/// Reference: S19 (c), (d), (e). The guard reads π; downloads retract, then request, in a fixed order; what is
/// unchanged yields no event.
#[test]
fn s19_c_to_e_downloads_retract_then_request() {
    let world = World::new(MALL);
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (mall, shop, phone) = (world.device("mall-gate"), world.device("shop-gate"), world.device("alice-phone"));
    let mut alice = broadcasting(&world, &["all"], ("mall-gate", "mall"), &cx);
    let mut refresh = |listed: &[(&str, &str)]| {
        alice.take(Action::Tau, &cx).unwrap();
        alice.send(world.device("policy-repository"), Body::RequestPolicies, &cx).unwrap();
        alice.receive(&download(&world, listed), &cx).unwrap().events
    };
    assert_eq!(refresh(&[("mall-gate", "mall")]), []);
    let request = |sender, policy| Event::Request { sender, receiver: phone, policy: world.id(policy), replaced: None };
    let retract = |controller, policy| Event::Retract { controller, device: phone, policy: world.id(policy) };
    assert_eq!(refresh(&[("shop-gate", "shop"), ("mall-gate", "mall")]), [request(shop, "shop")]);
    assert_eq!(
        refresh(&[("mall-gate", "mall-more")]),
        [retract(mall, "mall"), retract(shop, "shop"), request(mall, "mall-more")]
    );
    assert_eq!(refresh(&[]), [retract(mall, "mall-more")]);
    assert_eq!(broadcast(&mut alice, mall, &world, "mall-more", &cx), None, "there is no second copy of Π");
}

/// Reference: S20. Requirements speak of the moment of release.
#[test]
fn s20_a_lawful_collection_stays_lawful() {
    let world = World::new(MALL);
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (phone, gate, mac) = (world.device("alice-phone"), world.device("mall-gate"), world.item("mac-alice"));
    let mut state = State::default();
    state.devices.entry(phone).or_default().0.values.insert(Variable::Item(mac), text("02:00:00:00:00:01"));
    let own = |device, policy: &str| Event::Own { device, added: vec![world.id(policy)], removed: vec![] };
    let ask = |policy, replaced: Option<&str>| Event::Request {
        sender: gate,
        receiver: phone,
        policy: world.id(policy),
        replaced: replaced.map(|q| world.id(q)),
    };
    let value = Some(text("02:00:00:00:00:01"));
    let handover = Handover { sender: phone, receiver: gate, item: mac, policy: world.id("mall") };
    let send = Event::Send(Delivery { handover, value });
    let tightened = Event::Own { device: phone, added: vec![world.id("age-only")], removed: vec![world.id("all")] };
    for event in [
        own(phone, "all"),
        own(gate, "mall"),
        own(gate, "mall-more"),
        ask("mall", None),
        send,
        tightened,
        ask("mall-more", Some("mall")),
    ] {
        happen(&event, &mut state, &cx).unwrap_or_else(|premise| panic!("{premise}"));
    }
    let (alice, (holder, ghosts)) = (&state.devices[&phone].0, &state.devices[&gate]);
    let receipt = *holder.received.first().unwrap();
    let printed_1 = alice.policies_of(phone).any(|own| cx.subsumes(receipt.policy, own));
    let printed_2 = alice.knows(gate, receipt.policy);
    assert!(!printed_1 && !printed_2, "the printed forms are false by now");
    for requirement in Requirement::ALL {
        assert!(requirement.holds(&receipt, ghosts, 0, &cx), "{requirement}");
    }
}

/// Reference: S21. ⊥ ⊑ everything, only ⊥ ⊑ ⊥; as own policy it means that nothing is released. That it is never
/// requested, uploaded or broadcast is a matter of types: messages hold a `PolicyId`, and no table has one for ⊥.
#[test]
fn s21_bottom_allows_nothing() {
    let world = World::banner();
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    for choice in world.choices.values() {
        assert!(Choice::Nothing.subsumes(choice, &judge));
        assert_eq!(choice.subsumes(&Choice::Nothing, &judge), *choice == Choice::Nothing);
    }
    assert_eq!(world.policies.iter().count(), world.choices.len() - 1, "all but option 1");
    let (flights, alice_id, cookie) =
        (world.device("flights-server"), world.device("alice-browser"), world.item("cookie-alice"));
    let mut alice = Node::new(&graphs::DIRECT_SUBJECT, alice_id);
    alice.device.state.values.insert(Variable::Item(cookie), text("c"));
    alice.init(&[], Some(cookie), &cx);
    let body = Body::Request { policy: world.id("option-2") };
    alice.receive(&Message { sender: flights, receiver: alice_id, body }, &cx).unwrap();
    assert_eq!(alice.send(flights, Body::Send(ItemRelease::new(cookie, world.id("option-2"))), &cx), None);
}
