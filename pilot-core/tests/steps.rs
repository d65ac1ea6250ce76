//! Random runs of the graphs: a refused step changes nothing, and every step that is taken means what it claims.
//!
//! The runs explore far less than a model checker, and more than hand-written scenarios: messages are lost, delayed,
//! reordered and duplicated, people change their minds, time passes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod fixture;

use std::cell::Cell;

use fixture::{Node, World, text, time};
use pilot_core::graph::message::{Release as ItemRelease, Withdrawal};
use pilot_core::graph::{Action, Body, Graph, Message, MessageKind, offers};
use pilot_core::graphs;
use pilot_core::semantics::{
    Contacts, Context, DeviceState, Epoch, Event, Ghosts, Provenance, Requirement, State, requirements, rules,
};
use pilot_core::subsumption::Judge;
use pilot_core::value::{Number, Time, Value};
use pilot_core::vocabulary::Variable;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};

const CASES: u32 = 10_000;

/// The usual seed; `PROPTEST_RNG_SEED` asks for other runs.
const SEED: u64 = 20_240_419;

/// Policies of the mall that Alice accepts, partly accepts, or refuses; each has a deadline within the runs' time.
const POLICIES: &str = "
policy generous {
  collect mac-address by mall for advertisement, statistics until 2024-01-03
  transfer to hotels.com when age >= 18 for advertisement until 2024-01-02T18:00:00Z
}
policy careful { collect mac-address by mall when place = \"town\" for statistics until 2024-01-03 }
policy other-things { collect age by mall for research until 2024-01-03 }
policy mall {
  collect mac-address by mall for statistics until 2024-01-02T12:00:00Z
  transfer to hotels.com when age >= 18 for newsletter until 2024-01-02T12:00:00Z
}
policy mall-short { collect mac-address by mall for statistics until 2024-01-02T06:00:00Z }
policy shop { collect mac-address by shop for newsletter until 2024-01-02T12:00:00Z }
policy hotels { collect mac-address by hotels.com for newsletter until 2024-01-02T12:00:00Z }
policy hotels-more { collect mac-address by hotels.com for research until 2024-01-02T12:00:00Z }
";
const START: &str = "2024-01-02";

/// How many actions a run tries.
const ATTEMPTS: usize = 250;

/// A stream of choices that depends on the seed alone (SplitMix64).
struct Choices(u64);

impl Choices {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % count.max(1) as u64) as usize
    }
}

/// Devices, messages in transit with their ghosts, and the abstract state beside them.
struct System<'w> {
    world: &'w World,
    contacts: Contacts,
    nodes: Vec<Node>,
    own: Vec<Vec<&'static str>>,
    transit: Vec<(Message, Option<Provenance>)>,
    state: State,
    now: Time,
}

impl<'w> System<'w> {
    fn direct(world: &'w World) -> Self {
        let subject = &graphs::DIRECT_SUBJECT;
        let controller = &graphs::DIRECT_CONTROLLER;
        Self::new(
            world,
            &[
                ("alice-phone", subject, &["generous", "careful", "other-things"]),
                ("mall-gate", controller, &["mall", "mall-short"]),
                ("shop-gate", controller, &["shop"]),
                ("hotels-server", controller, &["hotels", "hotels-more"]),
            ],
        )
    }

    fn indirect(world: &'w World) -> Self {
        let controller = &graphs::INDIRECT_CONTROLLER;
        Self::new(
            world,
            &[
                ("alice-phone", &graphs::INDIRECT_SUBJECT, &["generous", "careful", "other-things"]),
                ("mall-gate", controller, &["mall", "mall-short"]),
                ("shop-gate", controller, &["shop", "mall"]),
                ("hotels-server", controller, &["hotels", "hotels-more"]),
                ("policy-repository", &graphs::REPOSITORY, &[]),
            ],
        )
    }

    fn new(world: &'w World, parties: &[(&str, &'static Graph<'static>, &[&'static str])]) -> Self {
        let ids: Vec<_> = parties.iter().map(|(name, ..)| world.device(name)).collect();
        let mut nodes: Vec<Node> =
            parties.iter().map(|(name, graph, _)| Node::new(graph, world.device(name))).collect();
        for node in &mut nodes {
            let values = &mut node.device.state.values;
            values.insert(world.attribute("age"), Value::Number(Number::whole(20)));
            values.insert(world.attribute("place"), text("town"));
        }
        let alice = &mut nodes[0].device.state;
        alice.values.insert(Variable::Item(world.item("mac-alice")), text("02:00:00:00:00:01"));
        let mut state = State::default();
        for node in &nodes {
            state.devices.insert(node.device.id, (node.device.state.clone(), Ghosts::default()));
        }
        let own = parties.iter().map(|(_, _, own)| own.to_vec()).collect();
        let contacts = Contacts { repository: Some(world.device("policy-repository")), sources: ids };
        Self { world, contacts, nodes, own, transit: Vec::new(), state, now: time(START) }
    }

    fn cx<'s>(&'s self, judge: &'s Judge<'s>) -> Context<'s> {
        Context { contacts: &self.contacts, ..self.world.cx_at(judge, self.now) }
    }

    /// Something that could be tried: offered by a graph, decided by a user, delivered by the network, or nonsense.
    fn propose(&self, choices: &mut Choices, judge: &Judge<'_>) -> (usize, Action) {
        let kind = choices.below(10);
        if kind < 5 && !self.transit.is_empty() {
            let (message, _) = &self.transit[choices.below(self.transit.len())];
            let receiver = self.nodes.iter().position(|node| node.device.id == message.receiver).unwrap_or(0);
            let is_overheard = message.kind() == MessageKind::Broadcast && choices.below(2) == 0;
            let at = if is_overheard { choices.below(self.nodes.len()) } else { receiver };
            return (at, Action::Receive(message.clone()));
        }
        let at = choices.below(self.nodes.len());
        let action = match kind {
            5 => self.decision(at, choices),
            6 => self.nonsense(choices),
            _ => self.offer(at, choices, judge),
        };
        (at, action)
    }

    /// What a user may decide.
    fn decision(&self, at: usize, choices: &mut Choices) -> Action {
        let own: Vec<_> = self.own[at].iter().map(|name| self.world.id(name)).collect();
        if self.nodes[at].at() == self.nodes[at].graph.initial {
            return Action::Init { own, item: (at == 0).then(|| self.world.item("mac-alice")) };
        }
        match choices.below(8) {
            0 => Action::ChangeOwn { own: own.into_iter().filter(|_| choices.below(3) > 0).collect() },
            _ => {
                let device = self.nodes[choices.below(self.nodes.len())].device.id;
                Action::Admit { entity: self.world.vocabulary.directory().entity(device).expect("an entity") }
            }
        }
    }

    /// What a graph offers. Withdrawals are offered all the time and made rarely; τ is the last resort.
    fn offer(&self, at: usize, choices: &mut Choices, judge: &Judge<'_>) -> Action {
        let node = &self.nodes[at];
        if node.at() == node.graph.initial && node.graph.name != graphs::REPOSITORY.name {
            return self.decision(at, choices);
        }
        let (rare, mut usual): (Vec<_>, Vec<_>) = offers(node.graph, &node.instance, &node.device, &self.cx(judge))
            .into_iter()
            .partition(|action| *action == Action::Tau || action.message().is_some_and(is_withdrawal));
        if usual.is_empty() || choices.below(16) == 0 {
            usual.extend(rare);
        }
        match usual.len() {
            0 => Action::Tau,
            count => usual.swap_remove(choices.below(count)),
        }
    }

    /// A message that nobody should be able to send, or an action at the wrong time.
    fn nonsense(&self, choices: &mut Choices) -> Action {
        let device = self.nodes[choices.below(self.nodes.len())].device.id;
        let other = self.nodes[choices.below(self.nodes.len())].device.id;
        let ids: Vec<_> = self.world.policies.iter().map(|(id, _)| id).collect();
        let (policy, item) = (ids[choices.below(ids.len())], self.world.item("mac-alice"));
        let message = |body| Message { sender: device, receiver: other, body };
        let release = || {
            let mut release = ItemRelease::new(item, policy);
            release.epoch = Epoch::of(self.now);
            release
        };
        match choices.below(8) {
            0 => Action::Tau,
            1 => Action::Expire { item },
            2 => Action::Forget { item },
            3 => Action::Send(message(Body::Send(release()))),
            4 => Action::Send(message(Body::Broadcast(release()))),
            5 => Action::Send(message(Body::Withdraw {
                item,
                withdrawal: Withdrawal { epoch: Epoch::of(self.now), until: self.now },
            })),
            6 => Action::Send(message(Body::UploadPolicy { policy })),
            _ => Action::Send(message(Body::Request { policy })),
        }
    }

    /// Tries an action and checks it against the abstract semantics. Returns whether it was taken.
    fn attempt(&mut self, at: usize, action: Action, keep_message: bool, judge: &Judge<'_>, seen: &Seen) -> bool {
        let contacts = self.contacts.clone();
        let cx = Context { contacts: &contacts, ..self.world.cx_at(judge, self.now) };
        let before = self.nodes[at].clone();
        let Some(step) = self.nodes[at].take(action.clone(), &cx) else {
            assert_eq!(self.nodes[at], before, "a refused step changed something");
            seen.refused.set(seen.refused.get() + 1);
            return false;
        };
        let id = before.device.id;
        let mut ghost = None;
        let (share, ghosts) = &self.state.devices[&id];
        if let Some(claim) = &step.claim {
            assert_eq!(rules::claim(claim, share, &cx), Ok(()), "{}: {action:?}", before.graph.name);
            ghost = claim.handover().and_then(|handover| rules::provenance(handover, share, ghosts, &cx));
            assert_eq!(rules::vouch(claim, share, ghosts, &cx), Ok(ghost), "both at once");
        }
        let received = match &action {
            Action::Receive(message) => self.transit.iter().position(|(known, _)| known == message),
            _ => None,
        };
        let came_with = received.and_then(|place| self.transit[place].1);
        for event in &step.events {
            assert_eq!(event.device(), id, "a step changes its own device only");
            let (share, ghosts) = self.state.devices.get_mut(&id).expect("a device");
            let judged = rules::premises(event, share, &cx);
            assert_eq!(judged, Ok(()), "{}: {action:?} meant {event:?}", before.graph.name);
            rules::apply(event, came_with, share, ghosts);
            seen.count(event);
        }
        assert_eq!(self.nodes[at].device.state, self.state.devices[&id].0, "{}: {action:?}", before.graph.name);
        self.check_requirements(at, &cx);
        if let (Some(place), false) = (received, keep_message) {
            self.transit.swap_remove(place);
        }
        // As in the paper, messages in transit are a set.
        if let Some(message) = step.message.filter(|message| self.transit.iter().all(|(known, _)| known != message)) {
            self.transit.push((message, ghost));
        }
        true
    }

    fn check_requirements(&self, at: usize, cx: &Context<'_>) {
        let id = self.nodes[at].device.id;
        let (share, ghosts): &(DeviceState, Ghosts) = &self.state.devices[&id];
        for receipt in &share.received {
            for requirement in Requirement::ALL {
                let holds = requirement.holds(receipt, ghosts, 0, cx);
                assert!(holds, "{requirement} at {}", self.world.vocabulary.device_name(id));
            }
        }
    }

    /// Time passes; every controller sweeps, after which nothing overdue is held.
    fn pass_time(&mut self, seconds: u64, judge: &Judge<'_>, seen: &Seen) {
        self.now = Time::from_unix(self.now.unix() + seconds);
        for at in 0..self.nodes.len() {
            let overdue: Vec<_> = requirements::overdue(&self.nodes[at].device.state, &self.cx(judge)).collect();
            for item in overdue {
                self.attempt(at, Action::Expire { item }, false, judge, seen);
            }
        }
    }
}

fn is_withdrawal(message: &Message) -> bool {
    matches!(message.kind(), MessageKind::Withdraw | MessageKind::WithdrawPolicy)
}

/// What happened in all runs together: a run in which nothing happens shows nothing.
#[derive(Default, Debug)]
struct Seen {
    refused: Cell<u64>,
    taken: Cell<u64>,
    requests: Cell<u64>,
    sends: Cell<u64>,
    transfers: Cell<u64>,
    erasures: Cell<u64>,
    retractions: Cell<u64>,
}

impl Seen {
    fn count(&self, event: &Event) {
        let counter = match event {
            Event::Request { .. } => &self.requests,
            Event::Send(_) => &self.sends,
            Event::Transfer(_) => &self.transfers,
            Event::Erase { .. } => &self.erasures,
            Event::Retract { .. } => &self.retractions,
            Event::Own { .. } => return,
        };
        counter.set(counter.get() + 1);
    }
}

fn run(start: for<'w> fn(&'w World) -> System<'w>) -> Seen {
    let world = World::new(POLICIES);
    let judge = world.judge();
    let seen = Seen::default();
    let mut config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(SEED);
    }
    TestRunner::new(config)
        .run(&any::<u64>(), |seed| {
            let mut choices = Choices(seed);
            let mut system = start(&world);
            for _ in 0..ATTEMPTS {
                match choices.below(40) {
                    0 if choices.below(2) == 0 => system.pass_time([30, 600, 20_000][choices.below(3)], &judge, &seen),
                    1 if !system.transit.is_empty() => {
                        let lost = choices.below(system.transit.len());
                        system.transit.swap_remove(lost);
                    }
                    _ => {
                        let (at, action) = system.propose(&mut choices, &judge);
                        let duplicates = choices.below(3) == 0;
                        if system.attempt(at, action, duplicates, &judge, &seen) {
                            seen.taken.set(seen.taken.get() + 1);
                        }
                    }
                }
            }
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
    for (what, counter) in [
        ("refused steps", &seen.refused),
        ("steps", &seen.taken),
        ("requests", &seen.requests),
        ("sends", &seen.sends),
        ("transfers", &seen.transfers),
        ("erasures", &seen.erasures),
    ] {
        assert!(counter.get() >= u64::from(CASES) / 100, "hardly any {what}: {seen:?}");
    }
    seen
}

/// Reference: Figs. 3a and 3b refine Table 2; a refused step changes nothing.
#[test]
fn direct_runs_mean_what_they_claim() {
    run(|world| System::direct(world));
}

/// Reference: Figs. 4a, 4b and 4c refine Table 2; a refused step changes nothing.
#[test]
fn indirect_runs_mean_what_they_claim() {
    let seen = run(|world| System::indirect(world));
    assert!(seen.retractions.get() > 100, "{seen:?}");
}
