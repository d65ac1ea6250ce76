//! The filter beside the graph of Fig. 4c, through the same random life: what it refuses, the graph refuses.

use std::cell::RefCell;
use std::collections::BTreeMap;

use dc_gateway::filter::{Filter, Verdict};
use ed25519_dalek::SigningKey;
use mesh_runtime::air::frame::{Frame, ShortEpoch};
use mesh_runtime::air::{AddressKind, FrameBytes};
use pilot_core::codec;
use pilot_core::evidence::trace::Reason;
use pilot_core::graph::message::{Release, Withdrawal};
use pilot_core::graph::{
    Action, Body, Device, Edge, Effect, Graph, Guard, Instance, Label, Location, Message, MessageKind, Step, enabled,
    hindrance, step,
};
use pilot_core::graphs::INDIRECT_CONTROLLER;
use pilot_core::policy::Choice;
use pilot_core::semantics::{Contacts, Context, Epoch, Policies, PolicyId};
use pilot_core::subsumption::Judge;
use pilot_core::syntax::parse_file;
use pilot_core::value::{Time, Value};
use pilot_core::vocabulary::{DeviceId, ItemId, Vocabulary};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};

use super::{MALL, NOW, SHOP, address, sighting};

const CASES: u32 = 512;
const STEPS: usize = 60;
const SEED: u64 = 4;

/// The guards that the filter knows.
const KNOWN: [Guard; 4] = [Guard::AddressedToMe, Guard::PublishedByMe, Guard::Fresh, Guard::NotYetHeld];

/// Each address is a phone with an item; the same bytes of another kind are another one.
const PHONES: [(u8, AddressKind); 4] =
    [(1, AddressKind::Public), (1, AddressKind::Random), (2, AddressKind::Public), (2, AddressKind::Random)];

const VOCABULARY: &str = r#"
[entities]
mall = []
shop = ["mall"]
people = []
repository = []
[datatypes]
mac = []
age = []
[purposes]
statistics = []
ads = []
[devices]
mall-gate = "mall"
shop-gate = "shop"
policy-repository = "repository"
phone-0 = "people"
phone-1 = "people"
phone-2 = "people"
phone-3 = "people"
[items]
mac-0 = { type = "mac", owner = "phone-0" }
mac-1 = { type = "mac", owner = "phone-1" }
mac-2 = { type = "mac", owner = "phone-2" }
mac-3 = { type = "mac", owner = "phone-3" }
"#;

/// Good; over in ten minutes; more than the others; not for the mall itself; not about addresses.
const POLICIES: &str = "
policy plain { collect mac by mall for statistics until 2031-01-01 }
policy short { collect mac by mall for statistics until 2030-01-01T00:10:00Z }
policy more { collect mac by mall for statistics, ads until 2031-01-01 }
policy shop { collect mac by shop for statistics until 2031-01-01 }
policy age { collect age by mall for statistics until 2031-01-01 }
";
const POLICY_COUNT: usize = 5;

/// Something that happens.
#[derive(Debug, Clone)]
enum Happening {
    /// A frame is heard.
    Frame {
        for_mall: bool,
        policy: usize,
        epochs_ahead: i64,
        form: Form,
        phone: usize,
    },
    /// The mall's own policies become these.
    Own(Vec<usize>),
    Publish(usize),
    Unpublish(usize),
    /// The owner of a phone withdraws.
    Withdraw(usize),
    Expire(usize),
    Wait(u64),
}

#[derive(Debug, Clone, Copy)]
enum Form {
    Legacy,
    Extended,
    Signed,
}

fn happening() -> impl Strategy<Value = Happening> {
    let form = prop_oneof![Just(Form::Legacy), Just(Form::Extended), Just(Form::Signed)];
    let frame = (prop::bool::weighted(0.8), 0..POLICY_COUNT, -4..=4_i64, form, 0..PHONES.len()).prop_map(
        |(for_mall, policy, epochs_ahead, form, phone)| Happening::Frame {
            for_mall,
            policy,
            epochs_ahead,
            form,
            phone,
        },
    );
    prop_oneof![
        20 => frame,
        2 => prop::collection::vec(0..POLICY_COUNT, 1..=3).prop_map(Happening::Own),
        4 => (0..POLICY_COUNT).prop_map(Happening::Publish),
        1 => (0..POLICY_COUNT).prop_map(Happening::Unpublish),
        1 => (0..PHONES.len()).prop_map(Happening::Withdraw),
        1 => (0..PHONES.len()).prop_map(Happening::Expire),
        3 => (0..200_u64).prop_map(Happening::Wait),
    ]
}

/// What does not change.
struct World {
    vocabulary: Vocabulary,
    policies: Policies,
    contacts: Contacts,
    ids: Vec<PolicyId>,
    /// Canonical bytes.
    bytes: Vec<Vec<u8>>,
}

impl World {
    fn new() -> Self {
        let vocabulary = Vocabulary::from_toml(VOCABULARY).unwrap();
        let mut policies = Policies::default();
        let (mut ids, mut bytes) = (Vec::new(), Vec::new());
        for source in parse_file(POLICIES, &vocabulary).unwrap().policies {
            bytes.push(codec::encode(&source.choice, &vocabulary));
            let Choice::Policy(policy) = source.choice else { panic!("⊥") };
            ids.push(policies.intern(policy, &vocabulary));
        }
        assert_eq!(ids.len(), POLICY_COUNT);
        let contacts = Contacts { repository: vocabulary.device("policy-repository"), sources: vec![] };
        Self { vocabulary, policies, contacts, ids, bytes }
    }

    fn device(&self, name: &str) -> DeviceId {
        self.vocabulary.device(name).unwrap()
    }

    fn phone(&self, phone: usize) -> (DeviceId, ItemId) {
        (self.device(&format!("phone-{phone}")), self.vocabulary.item(&format!("mac-{phone}")).unwrap())
    }
}

/// The mall's gate: the graph on its device, and the filter before it.
struct Gate<'w> {
    world: &'w World,
    judge: &'w Judge<'w>,
    instance: Instance,
    device: Device,
    filter: Filter,
    now: Time,
    /// The edge that keeps, with the filter's guards only, and with the others only.
    parts: [Edge<'w>; 2],
}

/// How often each thing was seen, so that nothing is shown about nothing.
type Seen = BTreeMap<&'static str, u32>;

impl<'w> Gate<'w> {
    fn new(world: &'w World, judge: &'w Judge<'w>, parts: [Edge<'w>; 2]) -> Self {
        let device = Device::new(world.device("mall-gate"));
        let instance = Instance::new(&INDIRECT_CONTROLLER);
        let mut gate = Self { world, judge, instance, device, filter: Filter::new(MALL), now: NOW, parts };
        gate.step(&Action::Init { own: vec![world.ids[0]], item: None }).unwrap();
        gate.happen(&Happening::Publish(0), &mut Seen::new());
        assert_eq!(gate.instance.location, Location::S2);
        gate
    }

    fn cx(&self) -> Context<'w> {
        let World { vocabulary, policies, contacts, .. } = self.world;
        Context {
            judge: self.judge,
            directory: vocabulary.directory(),
            policies,
            contacts,
            now: self.now,
            attested: None,
        }
    }

    fn step(&mut self, action: &Action) -> Option<Step> {
        let cx = self.cx();
        step(&INDIRECT_CONTROLLER, &mut self.instance, &mut self.device, action, &cx)
    }

    fn hindrance(&self, graph: &Graph<'_>, action: &Action) -> Option<Guard> {
        hindrance(graph, &self.instance, &self.device, action, &self.cx())
    }

    fn send(&mut self, body: Body) -> Option<Step> {
        let message = Message { sender: self.device.id, receiver: self.world.contacts.repository.unwrap(), body };
        self.step(&Action::Send(message))
    }

    fn happen(&mut self, happening: &Happening, seen: &mut Seen) {
        let world = self.world;
        match happening {
            Happening::Frame { .. } => self.hear(happening, seen),
            Happening::Own(own) => {
                self.step(&Action::ChangeOwn { own: own.iter().map(|at| world.ids[*at]).collect() }).unwrap();
            }
            // Not every policy is current, or published; then nothing happens.
            Happening::Publish(policy) => drop(self.send(Body::UploadPolicy { policy: world.ids[*policy] })),
            Happening::Unpublish(policy) => drop(self.send(Body::WithdrawPolicy { policy: world.ids[*policy] })),
            Happening::Withdraw(phone) => {
                let (sender, item) = world.phone(*phone);
                let withdrawal = Withdrawal { epoch: Epoch::of(self.now), until: self.now };
                let body = Body::Withdraw { item, withdrawal };
                self.step(&Action::Receive(Message { sender, receiver: self.device.id, body })).unwrap();
                self.release(*phone);
            }
            Happening::Expire(phone) => {
                if self.step(&Action::Expire { item: world.phone(*phone).1 }).is_some() {
                    self.release(*phone);
                }
            }
            Happening::Wait(seconds) => self.now = Time::from_unix(self.now.unix() + seconds),
        }
        let digests = self.device.memory.published.iter().map(|policy| world.policies.digest(*policy).unwrap());
        self.filter.publish(digests).unwrap();
    }

    fn release(&mut self, phone: usize) {
        let (person, kind) = PHONES[phone];
        self.filter.release(address(person), kind);
    }

    /// A frame comes in: the filter says what the graph says.
    fn hear(&mut self, happening: &Happening, seen: &mut Seen) {
        let Happening::Frame { for_mall, policy, phone, .. } = *happening else { panic!("no frame") };
        let (person, kind) = PHONES[phone];
        let (frame, action) = self.frame(happening);
        let heard = sighting(address(person), kind, frame);
        let reason = match self.filter.look(&heard, self.now) {
            Verdict::Refused(reason) => Some(reason),
            Verdict::Judge(candidate) => {
                assert_eq!(action.message().unwrap().release().unwrap().epoch, candidate.epoch);
                None
            }
            Verdict::NotAFrame(error) => panic!("{error}"),
        };

        // Exact: the filter is the graph with four of the guards.
        let [known, unknown] = self.parts.map(|part| self.hindrance(&only(&[part]), &action));
        assert_eq!(reason, known.map(Reason::of), "for the mall: {for_mall}");
        // Sound: what it refuses, the graph does not keep; and if nothing else is wrong, the reason is the graph's.
        let whole = self.hindrance(&INDIRECT_CONTROLLER, &action);
        if reason.is_some() {
            assert!(!self.keeps(&action));
            assert!(unknown.is_some() || reason == whole.map(Reason::of), "{reason:?} {whole:?}");
        }
        *seen.entry(reason.map_or("judged", Reason::name)).or_default() += 1;

        // Refused or not, the graph may have it: it takes the same loop.
        let kept = self.keeps(&action);
        self.step(&action).unwrap();
        if kept {
            *seen.entry("kept").or_default() += 1;
            self.filter.hold(address(person), kind, self.world.policies.digest(self.world.ids[policy]).unwrap(), None);
            self.step(&Action::Tau).unwrap();
        }
        assert_eq!(self.instance.location, Location::S2);
    }

    fn keeps(&self, action: &Action) -> bool {
        let cx = self.cx();
        let mut edges = enabled(&INDIRECT_CONTROLLER, &self.instance, &self.device, action, &cx);
        edges.any(|edge| INDIRECT_CONTROLLER.edges[edge].effects.contains(&Effect::Keep))
    }

    /// The same broadcast as the radio and as the graph have it.
    fn frame(&self, happening: &Happening) -> (FrameBytes, Action) {
        let Happening::Frame { for_mall, policy, epochs_ahead, form, phone } = *happening else { panic!("no frame") };
        let world = self.world;
        let (tag, receiver) = if for_mall { (MALL, "mall-gate") } else { (SHOP, "shop-gate") };
        let epoch = Epoch(Epoch::of(self.now).0.checked_add_signed(epochs_ahead).unwrap());
        let (bytes, item) = (&world.bytes[policy], address(PHONES[phone].0));
        let frame = match form {
            Form::Legacy => Frame::legacy(tag, world.policies.digest(world.ids[policy]).unwrap(), epoch),
            Form::Extended => Frame::extended(tag, bytes, epoch).unwrap(),
            Form::Signed => Frame::signed(tag, bytes, epoch, item, &SigningKey::from_bytes(&[1; 32])).unwrap(),
        };
        assert_eq!(ShortEpoch::of(epoch).nearest(Epoch::of(self.now)), Some(epoch));
        let (sender, item) = world.phone(phone);
        let value = Some(Value::String("an address".into()));
        let body = Body::Broadcast(Release { item, policy: world.ids[policy], epoch, value });
        (frame.encode(), Action::Receive(Message { sender, receiver: world.device(receiver), body }))
    }
}

/// A graph with these edges only.
fn only<'g>(edges: &'g [Edge<'g>]) -> Graph<'g> {
    Graph { edges, ..INDIRECT_CONTROLLER }
}

/// Reference: Fig. 4c; "the filter says no only where the graph would say the same no".
#[test]
fn what_the_filter_refuses_the_graph_refuses_for_the_same_reason() {
    let label = Label::Receive(MessageKind::Broadcast);
    let is_keeping = |edge: &&Edge<'_>| edge.label == label && edge.effects.contains(&Effect::Keep);
    let keeping = INDIRECT_CONTROLLER.edges.iter().find(is_keeping).unwrap();
    let (known, unknown): (Vec<_>, Vec<_>) = keeping.all_guards().partition(|guard| KNOWN.contains(guard));
    assert_eq!(known, KNOWN, "the order of the table is that of the filter");
    let parts = [&known, &unknown].map(|guards| Edge { guards, also: &[], ..*keeping });

    let world = World::new();
    let judge = Judge::new(&world.vocabulary);
    let seen = RefCell::new(Seen::new());
    let config =
        Config { cases: CASES, rng_seed: RngSeed::Fixed(SEED), failure_persistence: None, ..Config::default() };
    let lives = prop::collection::vec(happening(), 1..STEPS);
    let outcome = TestRunner::new(config).run(&lives, |life| {
        let mut gate = Gate::new(&world, &judge, parts);
        life.iter().for_each(|happening| gate.happen(happening, &mut seen.borrow_mut()));
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    let seen = seen.into_inner();
    for what in ["not-addressed", "policy-not-ours", "not-fresh", "already-held", "judged", "kept"] {
        assert!(seen.get(what).is_some_and(|count| *count >= 100), "{what}: {seen:?}");
    }
    assert!(seen["judged"] > seen["kept"], "the graph has more to say: {seen:?}");
}
