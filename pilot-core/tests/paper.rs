//! The paper, walked through from its first definition to its last: one test per definition, rule, table row and
//! worked example. Where we depart from the printed text, the decision is named; `decisions.rs` has those.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod fixture;

use fixture::{NEW_YEAR, Node, World, text, time};
use pilot_core::active::{Communication, Inactive, active_policy, active_transfer};
use pilot_core::english;
use pilot_core::evaluate::Values;
use pilot_core::graph::message::Release as ItemRelease;
use pilot_core::graph::{Action, Body, Location, Message};
use pilot_core::graphs;
use pilot_core::policy::Choice;
use pilot_core::semantics::rules::happen;
use pilot_core::semantics::{Delivery, Event, Ghosts, Handover, Premise, Receipt, Requirement, State};
use pilot_core::syntax::parse_condition;
use pilot_core::value::{Number, Value};
use pilot_core::vocabulary::{Variable, Vocabulary};

// §2, Privacy Policy Language

/// Reference: §2, Basic Definitions: Google ≤ Alphabet, city ≤ address, newsletter ≤ advertisement.
#[test]
fn the_orders_say_what_is_a_kind_of_what() {
    let v = Vocabulary::from_toml(fixture::VOCABULARY).unwrap();
    let entity = |name: &str| v.entities.id(name).unwrap();
    assert!(v.entities.le(entity("google"), entity("alphabet")));
    assert!(!v.entities.le(entity("alphabet"), entity("google")));
    assert!(v.entities.le(entity("google"), entity("google")));
    assert!(v.datatypes.le(v.datatypes.id("city").unwrap(), v.datatypes.id("address").unwrap()));
    assert!(v.purposes.le(v.purposes.id("newsletter").unwrap(), v.purposes.id("advertisement").unwrap()));
    assert!(!v.purposes.le(v.purposes.id("research").unwrap(), v.purposes.id("advertisement").unwrap()));
}

/// Reference: §2: the functions entity, type and owner.
#[test]
fn devices_have_entities_and_items_have_types_and_owners() {
    let world = World::banner();
    let (directory, v) = (world.vocabulary.directory(), &world.vocabulary);
    assert_eq!(directory.entity(world.device("flights-server")), v.entities.id("flights.com"));
    let item = directory.item(world.item("cookie-alice")).unwrap();
    assert_eq!(Some(item.datatype), v.datatypes.id("cookie"));
    assert_eq!(item.owner, world.device("alice-browser"));
}

/// Reference: §2: "Only data from adults may be collected", age ≥ 18.
#[test]
fn only_data_from_adults() {
    let world = World::banner();
    let adult = parse_condition("age >= 18", &world.vocabulary).unwrap();
    let aged = |age| Values::from([(world.attribute("age"), Value::Number(Number::whole(age)))]);
    assert_eq!(adult.evaluate(&aged(18)), Some(true));
    assert_eq!(adult.evaluate(&aged(17)), Some(false));
}

/// Reference: Def. 1 and the examples after it: ⟨{research}, 19/04/2024⟩ and ⟨age > 18, AdsCom, dur₁⟩.
#[test]
fn policies_have_a_datatype_a_collection_rule_and_transfer_rules() {
    let world = World::new("policy p { collect age by AdsCom when age > 18 for research until 2024-04-19 }");
    let (p, v) = (world.policy("p"), &world.vocabulary);
    assert_eq!(v.datatypes.name(p.datatype()), "age");
    assert_eq!(v.entities.name(p.collection().entity), "AdsCom");
    assert_eq!(p.collection().condition, parse_condition("age > 18", v).unwrap());
    assert_eq!(p.collection().usage.purposes(), [v.purposes.id("research").unwrap()]);
    assert_eq!(p.collection().usage.retention(), time("2024-04-19"));
    assert!(p.transfers().is_empty());
}

/// Reference: §2: "only her employer … when she is at work, and, when being in a museum, only the museum".
#[test]
fn two_policies_for_two_places() {
    let world = World::new(
        r#"policy at-work {
             collect city by employer
               when weekday(now) <= 5 and hour(now) >= 8 and hour(now) < 18 and place = "work"
               for statistics until 2025-01-01
           }
           policy in-the-museum {
             collect city by museum
               when distance(latitude, longitude, 48.8606, 2.3376) < 300
               for statistics until 2025-01-01
           }"#,
    );
    let v = &world.vocabulary;
    let active = |policy: &str, receiver: &str, values: &Values| {
        let communication = Communication {
            datatype: v.datatypes.id("city").unwrap(),
            receiver: v.entities.id(receiver).unwrap(),
            time: time(NEW_YEAR),
            values,
        };
        active_policy(world.policy(policy), &communication, v)
    };
    let place = |place: &str, at: &str, lat: &str, lon: &str| {
        Values::from([
            (world.attribute("place"), text(place)),
            (world.attribute("now"), Value::Time(time(at))),
            (world.attribute("latitude"), Value::Number(lat.parse().unwrap())),
            (world.attribute("longitude"), Value::Number(lon.parse().unwrap())),
        ])
    };
    let at_work = place("work", "2024-01-02T10:00:00Z", "48.89", "2.24");
    let in_museum = place("town", "2024-01-06T10:00:00Z", "48.8611", "2.3364");
    assert_eq!(active("at-work", "employer", &at_work), Ok(()));
    assert_eq!(active("at-work", "museum", &at_work), Err(Inactive::Entity));
    assert_eq!(active("in-the-museum", "museum", &at_work), Err(Inactive::Condition));
    assert_eq!(active("in-the-museum", "museum", &in_museum), Ok(()));
    assert_eq!(active("at-work", "employer", &in_museum), Err(Inactive::Condition));
}

/// Reference: Table 1, row 1.
#[test]
fn option_1_is_the_empty_policy() {
    let world = World::banner();
    assert_eq!(world.choice("option-1"), &Choice::Nothing);
    assert_eq!(
        english::sentence(world.choice("option-1"), &world.vocabulary),
        "Collected data may be used only for necessary purposes."
    );
}

/// Reference: Table 1, row 2.
#[test]
fn option_2_is_special_offers() {
    let world = World::banner();
    assert_eq!(
        english::sentence(world.choice("option-2"), &world.vocabulary),
        "Data of type cookie can be collected by flights.com and used for special_offers purposes until 21/12/2024."
    );
}

/// Reference: Table 1, row 3 (which prints "purpose" once where the other rows print "purposes").
#[test]
fn option_3_is_special_offers_and_a_transfer() {
    let world = World::banner();
    assert_eq!(
        english::sentence(world.choice("option-3"), &world.vocabulary),
        "Data of type cookie can be collected by flights.com and used for special_offers purposes until 21/12/2024. \
         This data may be transferred by flights.com to hotels.com which may use it for hotel_ads purposes until \
         19/04/2024."
    );
}

/// Reference: Table 1, row 4.
#[test]
fn option_4_is_a_transfer_only() {
    let world = World::banner();
    assert_eq!(
        english::sentence(world.choice("option-4"), &world.vocabulary),
        "Data of type cookie can be collected by flights.com and transferred to hotels.com which may use it for \
         hotel_ads purposes until 19/04/2024."
    );
}

/// Reference: §2, running example: with a secure cookie Alice may choose options 1 and 2, otherwise only 1.
#[test]
fn alice_may_choose_two_options_if_the_cookie_is_secure() {
    let world = World::banner();
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let selectable = |secure: bool| -> Vec<&str> {
        let values = Values::from([(world.attribute("cookie.secure"), Value::Boolean(secure))]);
        let (flights, cookie) = (world.device("flights-server"), world.item("cookie-alice"));
        let may_choose = |option: &&str| match world.choice(option) {
            Choice::Nothing => true,
            choice => {
                let [option, alice] = [world.id(option), world.id("alice")];
                choice.subsumes(world.choice("alice"), &judge)
                    && cx.active_policy(option, &values, flights, cookie).is_ok()
                    && cx.active_policy(alice, &values, flights, cookie).is_ok()
            }
        };
        ["option-1", "option-2", "option-3", "option-4"].into_iter().filter(may_choose).collect()
    };
    assert_eq!(selectable(true), ["option-1", "option-2"]);
    assert_eq!(selectable(false), ["option-1"]);
}

/// Reference: §2: Alice's policy in natural language.
#[test]
fn alice_reads_her_policy_in_english() {
    let world = World::banner();
    assert_eq!(
        english::sentence(world.choice("alice"), &world.vocabulary),
        "Data of type cookie can be collected by flights.com if cookie.secure is true and used for special_offers \
         purposes until 21/12/2024."
    );
}

// §3, Abstract Operational Semantics

/// Alice's browser and flights.com before anything has happened: she has her cookie, and knows that it is secure.
fn before_the_visit(world: &World) -> State {
    let mut state = State::default();
    let (alice, _) = state.devices.entry(world.device("alice-browser")).or_default();
    alice.values.insert(Variable::Item(world.item("cookie-alice")), text("c"));
    alice.values.insert(world.attribute("cookie.secure"), Value::Boolean(true));
    state
}

fn own(world: &World, device: &str, policy: &str) -> Event {
    Event::Own { device: world.device(device), added: vec![world.id(policy)], removed: vec![] }
}

fn request(world: &World, sender: &str, receiver: &str, policy: &str, replaced: Option<&str>) -> Event {
    let (sender, receiver) = (world.device(sender), world.device(receiver));
    Event::Request { sender, receiver, policy: world.id(policy), replaced: replaced.map(|q| world.id(q)) }
}

fn delivery(world: &World, sender: &str, receiver: &str, policy: &str) -> Delivery {
    let (sender, receiver) = (world.device(sender), world.device(receiver));
    let handover = Handover { sender, receiver, item: world.item("cookie-alice"), policy: world.id(policy) };
    Delivery { handover, value: Some(text("c")) }
}

/// Runs events that must all be possible.
fn run(world: &World, events: &[Event]) -> State {
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let mut state = before_the_visit(world);
    for event in events {
        happen(event, &mut state, &cx).unwrap_or_else(|premise| panic!("{event:?}: {premise}"));
    }
    state
}

/// The premise that forbids an event after others.
fn refusal(world: &World, before: &[Event], event: &Event, now: &str) -> Result<(), Premise> {
    let judge = world.judge();
    let mut state = run(world, before);
    let untouched = state.clone();
    let outcome = happen(event, &mut state, &world.cx(&judge, now));
    if outcome.is_err() {
        let share = |state: &State| state.devices.get(&event.device()).cloned().unwrap_or_default();
        assert_eq!(share(&state), share(&untouched), "a refused event changes nothing");
    }
    outcome
}

/// Reference: Def. 2 and Fig. 2: the state after Alice has loaded flights.com and chosen option 2.
#[test]
fn the_state_of_figure_2_is_reached_by_the_rules() {
    let world = World::banner();
    let state = run(
        &world,
        &[
            own(&world, "alice-browser", "alice"),
            own(&world, "flights-server", "option-2"),
            request(&world, "flights-server", "alice-browser", "option-2", None),
            Event::Send(delivery(&world, "alice-browser", "flights-server", "option-2")),
        ],
    );
    let (alice, flights) = (world.device("alice-browser"), world.device("flights-server"));
    let cookie = world.item("cookie-alice");
    let at_alice = &state.devices[&alice].0;
    assert!(at_alice.policies.iter().eq(&[(alice, world.id("alice")), (flights, world.id("option-2"))]));
    assert_eq!(at_alice.value(cookie), Some(&text("c")));
    assert!(at_alice.received.is_empty());
    let at_flights = &state.devices[&flights].0;
    assert!(at_flights.policies.iter().eq(&[(flights, world.id("option-2"))]));
    assert_eq!(at_flights.value(cookie), Some(&text("c")));
    let receipt = Receipt { sender: alice, item: cookie, policy: world.id("option-2") };
    assert!(at_flights.received.iter().eq(&[receipt]));
}

/// Reference: Table 2, R1.
#[test]
fn r1_adds_a_policy_that_is_not_comparable() {
    let world = World::new(
        "policy p { collect cookie by flights.com for special_offers until 2024-12-21 }
         policy q { collect cookie by flights.com for statistics until 2024-12-21 }",
    );
    let first = [own(&world, "flights-server", "p"), request(&world, "flights-server", "alice-browser", "p", None)];
    let also_q = Event::Own { device: world.device("flights-server"), added: vec![world.id("q")], removed: vec![] };
    let state =
        run(&world, &[&first[..], &[also_q, request(&world, "flights-server", "alice-browser", "q", None)]].concat());
    let known: Vec<_> =
        state.devices[&world.device("alice-browser")].0.policies_of(world.device("flights-server")).collect();
    assert_eq!(known, [world.id("p"), world.id("q")]);
}

/// Reference: Table 2, R1, each premise.
#[test]
fn r1_needs_the_senders_policy_and_nothing_comparable() {
    let world = World::banner();
    let ask = request(&world, "flights-server", "alice-browser", "option-2", None);
    assert_eq!(refusal(&world, &[], &ask, NEW_YEAR), Err(Premise::SenderHasPolicy));
    let before = [own(&world, "flights-server", "option-2"), ask.clone()];
    assert_eq!(refusal(&world, &before, &ask, NEW_YEAR), Err(Premise::NothingComparable));
}

/// Reference: Table 2, R2.
#[test]
fn r2_replaces_a_comparable_policy() {
    let world = World::banner();
    let state = run(
        &world,
        &[
            own(&world, "flights-server", "option-2"),
            own(&world, "flights-server", "option-3"),
            request(&world, "flights-server", "alice-browser", "option-2", None),
            request(&world, "flights-server", "alice-browser", "option-3", Some("option-2")),
        ],
    );
    let known: Vec<_> =
        state.devices[&world.device("alice-browser")].0.policies_of(world.device("flights-server")).collect();
    assert_eq!(known, [world.id("option-3")]);
}

/// Reference: Table 2, R2, each premise.
#[test]
fn r2_needs_its_witness() {
    let world = World::banner();
    let replace = request(&world, "flights-server", "alice-browser", "option-3", Some("option-2"));
    assert_eq!(refusal(&world, &[], &replace, NEW_YEAR), Err(Premise::SenderHasPolicy));
    let owns = own(&world, "flights-server", "option-3");
    assert_eq!(refusal(&world, std::slice::from_ref(&owns), &replace, NEW_YEAR), Err(Premise::ReplacedIsKnown));
    let hotels = own(&world, "flights-server", "hotels");
    let knows = request(&world, "flights-server", "alice-browser", "hotels", None);
    let replace = request(&world, "flights-server", "alice-browser", "option-3", Some("hotels"));
    assert_eq!(refusal(&world, &[owns, hotels, knows], &replace, NEW_YEAR), Err(Premise::ReplacedIsComparable));
}

/// Reference: Table 2, SEND: the effect.
#[test]
fn send_records_sender_item_and_the_receivers_policy() {
    let world = World::banner();
    let before = [
        own(&world, "alice-browser", "option-3"),
        own(&world, "flights-server", "option-2"),
        request(&world, "flights-server", "alice-browser", "option-2", None),
    ];
    let send = Event::Send(delivery(&world, "alice-browser", "flights-server", "option-2"));
    let state = run(&world, &[&before[..], &[send]].concat());
    let flights = &state.devices[&world.device("flights-server")].0;
    assert_eq!(flights.received.first().map(|receipt| receipt.policy), Some(world.id("option-2")));
    assert_eq!(flights.value(world.item("cookie-alice")), Some(&text("c")));
}

/// Reference: Table 2, SEND, each premise, and S16.
#[test]
fn send_needs_every_premise() {
    let world = World::banner();
    let alices = own(&world, "alice-browser", "alice");
    let offers = [
        own(&world, "flights-server", "option-2"),
        request(&world, "flights-server", "alice-browser", "option-2", None),
    ];
    let send = Event::Send(delivery(&world, "alice-browser", "flights-server", "option-2"));
    let with = |events: &[Event]| [&offers[..], events].concat();

    assert_eq!(refusal(&world, &with(std::slice::from_ref(&alices)), &send, NEW_YEAR), Ok(()));
    assert_eq!(refusal(&world, std::slice::from_ref(&alices), &send, NEW_YEAR), Err(Premise::ReceiverPolicyKnown));
    assert_eq!(
        refusal(&world, &with(std::slice::from_ref(&alices)), &send, "2024-12-21"),
        Err(Premise::ReceiverPolicyActive(Inactive::Deadline))
    );
    assert_eq!(refusal(&world, &offers, &send, NEW_YEAR), Err(Premise::OwnPolicy));
    let hers = own(&world, "alice-browser", "hotels");
    assert_eq!(refusal(&world, &with(&[hers]), &send, NEW_YEAR), Err(Premise::OwnPolicyActive(Inactive::Entity)));
    let bigger = [
        own(&world, "flights-server", "option-3"),
        request(&world, "flights-server", "alice-browser", "option-3", None),
        alices.clone(),
    ];
    let send_bigger = Event::Send(delivery(&world, "alice-browser", "flights-server", "option-3"));
    assert_eq!(refusal(&world, &bigger, &send_bigger, NEW_YEAR), Err(Premise::WithinOwn));
    let erased =
        Event::Erase { controller: world.device("alice-browser"), item: world.item("cookie-alice"), withdrawn: None };
    assert_eq!(refusal(&world, &with(&[alices, erased]), &send, NEW_YEAR), Err(Premise::ValueDefined));
    let resend = Event::Send(delivery(&world, "flights-server", "hotels-server", "hotels"));
    assert_eq!(refusal(&world, &offers, &resend, NEW_YEAR), Err(Premise::OwnerSends));
}

/// Collection by flights.com under an option that Alice accepts in full, and hotels.com asking flights.com.
fn after_collection(world: &World, option: &str) -> Vec<Event> {
    vec![
        own(world, "alice-browser", option),
        own(world, "flights-server", option),
        request(world, "flights-server", "alice-browser", option, None),
        Event::Send(delivery(world, "alice-browser", "flights-server", option)),
        own(world, "hotels-server", "hotels"),
        request(world, "hotels-server", "flights-server", "hotels", None),
    ]
}

/// Reference: Table 2, TRANSFER, and §2: option 3 lets flights.com transfer to hotels.com, and to nobody else.
#[test]
fn option_3_transfers_to_hotels_com_and_nowhere_else() {
    let world = World::banner();
    let before = after_collection(&world, "option-3");
    let to_hotels = Event::Transfer(delivery(&world, "flights-server", "hotels-server", "hotels"));
    let state = run(&world, &[&before[..], &[to_hotels]].concat());
    let hotels = &state.devices[&world.device("hotels-server")].0;
    let receipt = hotels.received.first().unwrap();
    assert_eq!((receipt.sender, receipt.policy), (world.device("flights-server"), world.id("hotels")));
    assert_eq!(hotels.value(world.item("cookie-alice")), Some(&text("c")));

    for (device, entity) in [("other-server", "other.com"), ("mall-gate", "mall")] {
        let text = format!(
            "{} policy theirs {{ collect cookie by {entity} for hotel_ads until 2024-04-19 }}",
            fixture::BANNER
        );
        let world = World::new(&text);
        let asks = [own(&world, device, "theirs"), request(&world, device, "flights-server", "theirs", None)];
        let before = [&after_collection(&world, "option-3")[..], &asks].concat();
        let transfer = Event::Transfer(delivery(&world, "flights-server", device, "theirs"));
        assert_eq!(refusal(&world, &before, &transfer, NEW_YEAR), Err(Premise::TransferActive(Inactive::Entity)));
    }
}

/// Reference: Table 2, TRANSFER, each premise.
#[test]
fn transfer_needs_every_premise() {
    let world = World::banner();
    let transfer = Event::Transfer(delivery(&world, "flights-server", "hotels-server", "hotels"));
    let all = after_collection(&world, "option-3");
    assert_eq!(refusal(&world, &all, &transfer, NEW_YEAR), Ok(()));
    assert_eq!(refusal(&world, &all[..5], &transfer, NEW_YEAR), Err(Premise::ReceiverPolicyKnown));
    assert_eq!(refusal(&world, &all[4..], &transfer, NEW_YEAR), Err(Premise::ValueDefined));
    assert_eq!(refusal(&world, &all, &transfer, "2024-04-19"), Err(Premise::ReceiverPolicyActive(Inactive::Deadline)));
    let without_rule = after_collection(&world, "option-2");
    assert_eq!(refusal(&world, &without_rule, &transfer, NEW_YEAR), Err(Premise::RuleExists));
    let text =
        format!("{} policy greedy {{ collect cookie by hotels.com for statistics until 2024-04-19 }}", fixture::BANNER);
    let world = World::new(&text);
    let asks =
        [own(&world, "hotels-server", "greedy"), request(&world, "hotels-server", "flights-server", "greedy", None)];
    let before = [&after_collection(&world, "option-3")[..4], &asks].concat();
    let transfer = Event::Transfer(delivery(&world, "flights-server", "hotels-server", "greedy"));
    assert_eq!(refusal(&world, &before, &transfer, NEW_YEAR), Err(Premise::WithinTransferRule));
    let own_item = Event::Transfer(delivery(&world, "alice-browser", "flights-server", "option-3"));
    assert_eq!(refusal(&world, &before[..3], &own_item, NEW_YEAR), Err(Premise::ItemReceived));
}

// §4, Refinement into Operational Models

/// Reference: Def. 3: an edge is taken when its condition holds, and its effect changes the variables.
#[test]
fn a_program_graph_moves_only_along_its_edges() {
    let world = World::banner();
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let mut alice = Node::new(&graphs::DIRECT_SUBJECT, world.device("alice-browser"));
    assert_eq!(alice.at(), Location::S0);
    assert_eq!(alice.take(Action::Tau, &cx), None, "s₀ has no edge labelled τ");
    let step = alice.init(&[world.id("alice")], Some(world.item("cookie-alice")), &cx);
    assert_eq!(step.events, [own(&world, "alice-browser", "alice")]);
    assert_eq!(alice.at(), Location::S1);
}

/// Reference: Def. 4: what one side sends is what the other binds; a message for somebody else is nobody's.
#[test]
fn devices_synchronise_by_messages() {
    let world = World::banner();
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let mut flights = Node::new(&graphs::DIRECT_CONTROLLER, world.device("flights-server"));
    flights.init(&[world.id("option-2")], None, &cx);
    let policy = world.id("option-2");
    let message = flights.send(world.device("alice-browser"), Body::Request { policy }, &cx).unwrap();
    let mut hotels = Node::new(&graphs::DIRECT_SUBJECT, world.device("hotels-server"));
    hotels.init(&[], None, &cx);
    assert_eq!(hotels.receive(&message, &cx), None);
    let in_others_name = Message { sender: world.device("hotels-server"), ..message };
    assert_eq!(flights.take(Action::Send(in_others_name), &cx), None);
}

/// Reference: Fig. 3a and 3b: request, send, and the transfer that S1 makes possible.
#[test]
fn the_cookie_banner_runs() {
    let world = World::banner();
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (alice_id, flights_id, hotels_id) =
        (world.device("alice-browser"), world.device("flights-server"), world.device("hotels-server"));
    let (option, hotel, cookie) = (world.id("option-3"), world.id("hotels"), world.item("cookie-alice"));

    let mut alice = Node::new(&graphs::DIRECT_SUBJECT, alice_id);
    alice.device.state.values.insert(Variable::Item(cookie), text("c"));
    alice.init(&[option], Some(cookie), &cx);
    let mut flights = Node::new(&graphs::DIRECT_CONTROLLER, flights_id);
    flights.init(&[option], None, &cx);

    let request = flights.send(alice_id, Body::Request { policy: option }, &cx).unwrap();
    assert_eq!(flights.at(), Location::S2);
    alice.receive(&request, &cx).unwrap();
    assert_eq!(alice.at(), Location::S2);
    assert_eq!(alice.take(Action::Tau, &cx), None, "she may send, so τ / p_dc ⋢ p_ds is not enabled");
    let sent = alice.send(flights_id, Body::Send(ItemRelease::new(cookie, option)), &cx).unwrap();
    assert_eq!(alice.at(), Location::S1);
    let step = flights.receive(&sent, &cx).unwrap();
    assert_eq!(step.events, [Event::Send(delivery(&world, "alice-browser", "flights-server", "option-3"))]);
    assert_eq!(flights.at(), Location::S3);

    let mut hotels = Node::new(&graphs::DIRECT_CONTROLLER, hotels_id);
    hotels.init(&[hotel], None, &cx);
    let request = hotels.send(flights_id, Body::Request { policy: hotel }, &cx).unwrap();
    flights.receive(&request, &cx).unwrap();
    assert_eq!(flights.at(), Location::S4);
    let sent = flights.send(hotels_id, Body::Send(ItemRelease::new(cookie, hotel)), &cx).unwrap();
    assert_eq!(flights.at(), Location::S3);
    let step = hotels.receive(&sent, &cx).unwrap();
    assert_eq!(step.events, [Event::Transfer(delivery(&world, "flights-server", "hotels-server", "hotels"))]);
}

/// Reference: Fig. 3a: "Otherwise, data collection does not take place, and the PG goes back to wait".
#[test]
fn a_refused_request_leads_back_to_waiting() {
    let world = World::banner();
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (alice_id, flights_id) = (world.device("alice-browser"), world.device("flights-server"));
    let cookie = world.item("cookie-alice");
    let mut alice = Node::new(&graphs::DIRECT_SUBJECT, alice_id);
    alice.device.state.values.insert(Variable::Item(cookie), text("c"));
    alice.device.state.values.insert(world.attribute("cookie.secure"), Value::Boolean(true));
    alice.init(&[world.id("alice")], Some(cookie), &cx);
    let request =
        Message { sender: flights_id, receiver: alice_id, body: Body::Request { policy: world.id("option-3") } };
    alice.receive(&request, &cx).unwrap();
    let release = ItemRelease::new(cookie, world.id("option-3"));
    assert_eq!(alice.send(flights_id, Body::Send(release), &cx), None);
    assert!(alice.take(Action::Tau, &cx).unwrap().events.is_empty());
    assert_eq!(alice.at(), Location::S1);
}

/// Words for Figs. 4a to 4c: the mall's policy, and what Alice thinks of it.
const MALL: &str = "
policy mall { collect mac-address by mall for statistics until 2025-01-01 }
policy shop { collect mac-address by shop for advertisement until 2025-01-01 }
policy alice { collect mac-address by mall for statistics until 2026-01-01 }
";

/// Reference: Figs. 4a, 4b and 4c: upload, download, broadcast; the shop, which she does not accept, hears nothing.
#[test]
fn the_shopping_mall_runs() {
    let world = World::new(MALL);
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (phone, mall_id, shop_id) = (world.device("alice-phone"), world.device("mall-gate"), world.device("shop-gate"));
    let (repository_id, mac) = (world.device("policy-repository"), world.item("mac-alice"));

    let mut repository = Node::new(&graphs::REPOSITORY, repository_id);
    let mut controllers = Vec::new();
    for (id, policy) in [(mall_id, world.id("mall")), (shop_id, world.id("shop"))] {
        let mut controller = Node::new(&graphs::INDIRECT_CONTROLLER, id);
        controller.init(&[policy], None, &cx);
        let upload = controller.send(repository_id, Body::UploadPolicy { policy }, &cx).unwrap();
        assert_eq!(controller.at(), Location::S2);
        repository.receive(&upload, &cx).unwrap();
        controllers.push(controller);
    }

    let mut alice = Node::new(&graphs::INDIRECT_SUBJECT, phone);
    alice.device.state.values.insert(Variable::Item(mac), text("02:00:00:00:00:01"));
    alice.init(&[world.id("alice")], Some(mac), &cx);
    let request = alice.send(repository_id, Body::RequestPolicies, &cx).unwrap();
    repository.receive(&request, &cx).unwrap();
    let download = repository.send(phone, Body::DownloadPolicies { offers: vec![] }, &cx).unwrap();
    let step = alice.receive(&download, &cx).unwrap();
    assert_eq!(step.events, [request_event(&world, "mall-gate", "mall"), request_event(&world, "shop-gate", "shop"),]);
    assert_eq!(alice.at(), Location::S3);

    let for_shop = Body::Broadcast(ItemRelease::new(mac, world.id("shop")));
    assert_eq!(alice.send(shop_id, for_shop, &cx), None, "advertisement is not what she accepts");
    let heard = alice.send(mall_id, Body::Broadcast(ItemRelease::new(mac, world.id("mall"))), &cx).unwrap();
    assert_eq!(alice.at(), Location::S3);

    let [mall, shop] = &mut controllers[..] else { panic!("two controllers") };
    let before = shop.clone();
    let step = shop.receive(&heard, &cx).unwrap();
    assert!(step.events.is_empty());
    assert_eq!(shop, &before, "a refused broadcast leaves nothing behind");
    let step = mall.receive(&heard, &cx).unwrap();
    assert_eq!(step.events.len(), 1);
    assert_eq!(mall.at(), Location::S3);
    assert_eq!(mall.device.state.value(mac), Some(&text("02:00:00:00:00:01")));
    alice.take(Action::Tau, &cx).unwrap();
    assert_eq!(alice.at(), Location::S1, "τ: she updates her policy database");
}

fn request_event(world: &World, sender: &str, policy: &str) -> Event {
    request(world, sender, "alice-phone", policy, None)
}

// §5, Verification of Legal Privacy Requirements

/// What flights.com holds after a lawful collection, and how it came about.
fn after_lawful_collection(world: &World) -> (Receipt, Ghosts) {
    let state = run(world, &after_collection(world, "option-3"));
    let (flights, ghosts) = state.devices[&world.device("flights-server")].clone();
    (*flights.received.first().unwrap(), ghosts)
}

/// Reference: Requirement 1, at the moment of release (S20).
#[test]
fn requirement_1_every_item_is_bound_by_a_policy_that_complies() {
    let world = World::banner();
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (receipt, mut ghosts) = after_lawful_collection(&world);
    assert!(Requirement::Compliance.holds(&receipt, &ghosts, 0, &cx));
    ghosts.provenance.get_mut(&receipt).unwrap().own = Some(world.id("alice"));
    assert!(!Requirement::Compliance.holds(&receipt, &ghosts, 0, &cx), "option 3 is not within Alice's policy");
}

/// Reference: Requirement 2.
#[test]
fn requirement_2_nobody_collects_before_showing_a_policy() {
    let world = World::banner();
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let (receipt, mut ghosts) = after_lawful_collection(&world);
    assert!(Requirement::InformedCollection.holds(&receipt, &ghosts, 0, &cx));
    ghosts.provenance.get_mut(&receipt).unwrap().shown = false;
    assert!(!Requirement::InformedCollection.holds(&receipt, &ghosts, 0, &cx));
}

// Appendix A, Policy subsumption

/// p ⊑ q for two policies written out.
fn subsumes(p: &str, q: &str) -> bool {
    let world = World::new(&format!("policy p {{ {p} }} policy q {{ {q} }}"));
    world.choice("p").subsumes(world.choice("q"), &world.judge())
}

/// Reference: Def. 5 (i) and (ii).
#[test]
fn usage_rules_compare_purposes_and_deadlines() {
    let rule = |purposes: &str, until: &str| format!("collect cookie by google for {purposes} until {until}");
    let q = rule("advertisement, research", "100");
    assert!(subsumes(&rule("newsletter", "100"), &q));
    assert!(subsumes(&rule("newsletter, hotel_ads, research", "99"), &q));
    assert!(subsumes(&rule("nothing", "0"), &q));
    assert!(!subsumes(&rule("statistics", "100"), &q), "(i)");
    assert!(!subsumes(&q, &rule("newsletter, research", "100")), "(i)");
    assert!(!subsumes(&rule("newsletter", "101"), &q), "(ii)");
}

/// Reference: Def. 6 (i) and (ii); conditions play no part.
#[test]
fn communication_rules_compare_entities_and_usage() {
    let rule = |entity: &str, when: &str| format!("collect cookie by {entity} {when} for research until 100");
    assert!(subsumes(&rule("google", ""), &rule("alphabet", "")));
    assert!(!subsumes(&rule("alphabet", ""), &rule("google", "")), "(i)");
    assert!(!subsumes(&rule("google", ""), "collect cookie by alphabet for research until 99"), "(ii)");
    assert!(subsumes(&rule("google", ""), &rule("google", "when age > 18")));
}

/// Reference: Def. 7 (i), (ii) and (iii).
#[test]
fn policies_compare_datatypes_collection_and_transfers() {
    let policy =
        |datatype: &str, transfers: &str| format!("collect {datatype} by google for research until 100 {transfers}");
    let to = |entity: &str| format!("transfer to {entity} for hotel_ads until 50");
    let both = format!("{} {}", to("hotels.com"), to("flights.com"));
    assert!(subsumes(&policy("city", ""), &policy("address", "")));
    assert!(!subsumes(&policy("address", ""), &policy("city", "")), "(i)");
    assert!(!subsumes(&policy("city", ""), "collect city by AdsCom for research until 100"), "(ii)");
    assert!(subsumes(&policy("city", &to("hotels.com")), &policy("city", &both)));
    assert!(!subsumes(&policy("city", &both), &policy("city", &to("hotels.com"))), "(iii)");
}

// Appendix B, Condition evaluation, Active Policies and Transfer rules

/// Reference: Def. 8 and Table 3, one line per row.
#[test]
fn conditions_evaluate_as_in_table_3() {
    let world = World::banner();
    let values = Values::from([
        (world.attribute("age"), Value::Number(Number::whole(20))),
        (world.attribute("now"), Value::Time(time("2024-01-02T10:30:00Z"))),
        (Variable::Item(world.item("mac-alice")), text("02:00:00:00:00:01")),
    ]);
    for (condition, expected) in [
        ("true", Some(true)),
        ("false", Some(false)),
        ("age = 20", Some(true)),
        (r#"mac-alice = "02:00:00:00:00:01""#, Some(true)),
        ("hour(now) = 10 and weekday(now) = 2", Some(true)),
        ("age < 18", Some(false)),
        (r#"place = "work""#, None),
        ("age > 18 and age < 30", Some(true)),
        (r#"age < 18 and place = "work""#, None),
        (r#"age > 18 or place = "work""#, None),
        ("not age < 18", Some(true)),
        (r#"not place = "work""#, None),
        ("length(place) = 4", None),
    ] {
        let parsed = parse_condition(condition, &world.vocabulary).unwrap();
        assert_eq!(parsed.evaluate(&values), expected, "{condition}");
    }
}

/// Reference: Def. 9, each conjunct.
#[test]
fn a_policy_is_active_for_its_type_condition_time_and_entity() {
    let world = World::new("policy p { collect address by alphabet when age >= 18 for research until 2024-04-19 }");
    let v = &world.vocabulary;
    let judge = |datatype: &str, receiver: &str, at: &str, age: Option<u32>| {
        let values: Values =
            age.map(|age| (world.attribute("age"), Value::Number(Number::whole(age)))).into_iter().collect();
        let communication = Communication {
            datatype: v.datatypes.id(datatype).unwrap(),
            receiver: v.entities.id(receiver).unwrap(),
            time: time(at),
            values: &values,
        };
        active_policy(world.policy("p"), &communication, v)
    };
    assert_eq!(judge("city", "google", "2024-04-18T23:59:59Z", Some(18)), Ok(()));
    assert_eq!(judge("cookie", "google", NEW_YEAR, Some(18)), Err(Inactive::Datatype));
    assert_eq!(judge("city", "google", NEW_YEAR, Some(17)), Err(Inactive::Condition));
    assert_eq!(judge("city", "google", NEW_YEAR, None), Err(Inactive::Undefined));
    assert_eq!(judge("city", "google", "2024-04-19", Some(18)), Err(Inactive::Deadline));
    assert_eq!(judge("city", "mall", NEW_YEAR, Some(18)), Err(Inactive::Entity));
}

/// Reference: Def. 10, each conjunct.
#[test]
fn a_transfer_rule_is_active_until_either_deadline() {
    let world = World::new(
        "policy p {
           collect address by google for research until 2024-03-01
           transfer to AdsCom when age >= 18 for research until 2024-02-01
           transfer to mall for research until 2024-09-01
         }",
    );
    let (v, p) = (&world.vocabulary, world.policy("p"));
    let [ads, mall] = p.transfers() else { panic!("two rules") };
    let judge = |rule, receiver: &str, at: &str, age: u32| {
        let values = Values::from([(world.attribute("age"), Value::Number(Number::whole(age)))]);
        let communication = Communication {
            datatype: v.datatypes.id("city").unwrap(),
            receiver: v.entities.id(receiver).unwrap(),
            time: time(at),
            values: &values,
        };
        active_transfer(rule, p, &communication, v)
    };
    assert_eq!(judge(ads, "AdsCom", NEW_YEAR, 18), Ok(()));
    assert_eq!(judge(ads, "AdsCom", NEW_YEAR, 17), Err(Inactive::Condition));
    assert_eq!(judge(ads, "AdsCom", "2024-02-01", 18), Err(Inactive::Deadline), "rt_tr");
    assert_eq!(judge(mall, "shop", "2024-02-29", 18), Ok(()));
    assert_eq!(judge(mall, "shop", "2024-03-01", 18), Err(Inactive::Deadline), "rt_p");
    assert_eq!(judge(mall, "AdsCom", NEW_YEAR, 18), Err(Inactive::Entity));
}
