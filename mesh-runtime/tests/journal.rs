//! A device's journal: each run says with what it begins, messages carry what their records say, and whoever hands an item
//! on attests the conditions under which it may.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use std::path::Path;
use std::sync::Arc;

use mesh_runtime::driver::limits::Limits;
use mesh_runtime::driver::pacing::Pacing;
use mesh_runtime::driver::{Decision, Driver, Setup};
use mesh_runtime::journal::{self, Journal, Names};
use mesh_runtime::keys::SecretKeys;
use mesh_runtime::recorder::{Identity, Position, Recorder, Settings};
use pilot_core::evidence::envelope::ChainHead;
use pilot_core::evidence::trace::action::{Action, Item, Message, Offer, Party, Word};
use pilot_core::evidence::trace::resume::Held;
use pilot_core::evidence::trace::{Content, GraphName, Outcome, Record, Resume, Rule};
use pilot_core::evidence::{AuditKey, DeviceName, Pseudonym};
use pilot_core::graph::message::{Release, Withdrawal};
use pilot_core::graph::{self, Body, Device, Label, MessageKind};
use pilot_core::graphs::INDIRECT_CONTROLLER;
use pilot_core::policy::Choice;
use pilot_core::semantics::{Contacts, Epoch, Policies, PolicyId, Receipt};
use pilot_core::syntax::parse_file;
use pilot_core::value::{Number, Time, Value};
use pilot_core::vocabulary::{DeviceId, Directory, Id as _, ItemId, Variable, Vocabulary};

const WORDS: &str = r#"
[entities]
mall = []
hotels = []
museum = []
registrar = []
[datatypes]
mac-address = []
[purposes]
statistics = []
[attributes]
age = "number"
"#;

const POLICIES: &str = "
policy mall {
  collect mac-address by mall for statistics until 2024-01-03
  transfer to hotels when age >= 18 for statistics until 2024-01-03
  transfer to hotels when age >= 65 for statistics until 2024-01-04
  transfer to museum for statistics until 2024-01-03
}
policy hotels { collect mac-address by hotels for statistics until 2024-01-03 }
";

/// 2024-01-02T00:00:00Z.
const NOW: Time = Time::from_unix(1_704_153_600);

fn name(text: &str) -> DeviceName {
    DeviceName::new(text).unwrap()
}

/// A gate of the mall, a server of the hotels, a registry, and somebody's phone.
struct Mall {
    vocabulary: Vocabulary,
    policies: Policies,
    directory: Directory,
    gate: DeviceId,
    server: DeviceId,
    registry: DeviceId,
    owner: DeviceId,
    item: ItemId,
    keys: Arc<SecretKeys>,
}

impl Mall {
    fn new() -> Self {
        let vocabulary = Vocabulary::from_toml(WORDS).unwrap();
        let mut policies = Policies::default();
        for source in parse_file(POLICIES, &vocabulary).unwrap_or_else(|error| panic!("{error}")).policies {
            let Choice::Policy(policy) = source.choice else { continue };
            policies.intern(policy, &vocabulary);
        }
        let mut directory = Directory::default();
        let mut device = |entity| directory.add_device(vocabulary.entities.id(entity).unwrap());
        let (gate, server, registry) = (device("mall"), device("hotels"), device("registrar"));
        let owner = directory.add_stranger();
        let datatype = vocabulary.datatypes.id("mac-address").unwrap();
        let item = directory.add_item(pilot_core::vocabulary::Item { datatype, owner });
        let keys = Arc::new(SecretKeys::generate().unwrap());
        Self { vocabulary, policies, directory, gate, server, registry, owner, item, keys }
    }

    fn policy(&self, place: usize) -> PolicyId {
        self.policies.iter().nth(place).unwrap().0
    }

    fn item(&self) -> Item {
        let pseudonym = Pseudonym::of(b"phone", &AuditKey::new([9; 32].into()));
        Item { pseudonym, datatype: Word::new("mac-address").unwrap() }
    }

    fn names(&self) -> Names {
        let mut names = Names::default();
        for (id, text) in [(self.gate, "gate"), (self.server, "server"), (self.registry, "registry")] {
            names.device(id, name(text));
        }
        names.guest(self.owner, Party::Owner);
        names.item(self.item, self.item());
        names
    }

    fn receipt(&self) -> Receipt {
        Receipt { item: self.item, sender: self.owner, policy: self.policy(0) }
    }

    /// The gate with something in every variable that a gateway restores.
    fn device(&self) -> Device {
        let mut device = Device::new(self.gate);
        let (state, memory) = (&mut device.state, &mut device.memory);
        state.policies.insert((self.gate, self.policy(0)));
        memory.published.insert(self.policy(0));
        state.received.insert(self.receipt());
        state.values.insert(Variable::Item(self.item), Value::String("02:00:00:00:00:01".into()));
        memory.released.insert(self.receipt(), Epoch::of(NOW));
        memory.tombstones.insert(self.item, Withdrawal { epoch: Epoch(5), until: NOW });
        device
    }

    fn setup(&self, device: Device) -> Setup<'_> {
        Setup {
            graph: &INDIRECT_CONTROLLER,
            vocabulary: &self.vocabulary,
            directory: self.directory.clone(),
            policies: self.policies.clone(),
            contacts: Contacts { repository: Some(self.registry), sources: Vec::new() },
            guests: Vec::new(),
            device,
            items: Vec::new(),
            pacing: Pacing::default(),
            limits: Limits::default(),
            since: NOW,
        }
    }

    fn recorder(&self, directory: &Path) -> Recorder<Arc<SecretKeys>> {
        let graphs = vec![GraphName::of(&INDIRECT_CONTROLLER)];
        let identity = Identity { device: name("gate"), graphs, mesh_serial: 1 };
        Recorder::open(Settings::new(directory), identity, Arc::clone(&self.keys), NOW).unwrap().0
    }

    fn begin(&self, directory: &Path, device: Device) -> Driver<'_, Journal> {
        journal::begin(self.setup(device), self.recorder(directory), self.names(), NOW).unwrap()
    }
}

/// The whole trace of a driver.
fn records(driver: &mut Driver<'_, Journal>) -> Vec<(Record, ChainHead)> {
    let mut records = Vec::new();
    assert!(driver.recorder().recorder().follow(Position::START, |record, hash| records.push((record, hash))).unwrap());
    records
}

fn resumes(records: &[(Record, ChainHead)]) -> Vec<Resume> {
    let resume = |(record, _): &(Record, ChainHead)| match &record.content {
        Content::Resume(resume) => Some((**resume).clone()),
        _ => None,
    };
    records.iter().filter_map(resume).collect()
}

/// Every run begins with a resume, also one that begins with nothing, and it stands before the first step and after the
/// policies that it names.
#[test]
fn every_run_says_with_what_it_begins() {
    let (mall, directory) = (Mall::new(), tempfile::tempdir().unwrap());
    let trace = directory.path().join("trace");
    drop(mall.begin(&trace, Device::new(mall.gate)));
    let mut driver = mall.begin(&trace, mall.device());
    driver.decide(Decision::Init { own: vec![mall.policy(0)] }, NOW).unwrap();

    let records = records(&mut driver);
    let kinds: Vec<&str> = records
        .iter()
        .map(|(record, _)| match record.content {
            Content::Open(_) => "open",
            Content::Policy(_) => "policy",
            Content::Step(_) => "step",
            Content::Checkpoint(_) => "checkpoint",
            Content::Close { .. } => "close",
            Content::Resume(_) => "resume",
        })
        .collect();
    assert_eq!(kinds, ["open", "resume", "open", "checkpoint", "policy", "resume", "step"]);
    let digest = mall.policies.digest(mall.policy(0)).unwrap();
    let own = Offer { device: name("gate"), policy: digest, statement: None };
    let held = Held { sender: Party::Owner, item: mall.item(), policy: digest, epoch: Epoch::of(NOW) };
    let full = Resume {
        policies: [own].into(),
        published: [digest].into(),
        received: [held].into(),
        tombstones: [(mall.item(), Withdrawal { epoch: Epoch(5), until: NOW })].into(),
        ..Resume::default()
    };
    assert_eq!(resumes(&records), [Resume::default(), full]);
}

/// What the trace cannot name is neither in the record nor in the device, and the run begins all the same.
#[test]
fn what_has_no_name_is_left_out() {
    let (mall, directory) = (Mall::new(), tempfile::tempdir().unwrap());
    let mut device = mall.device();
    let (nobody, nothing, unknown) = (DeviceId::from_index(77), ItemId::from_index(78), PolicyId::from_index(79));
    let memory = &mut device.memory;
    device.state.policies.extend([(nobody, mall.policy(0)), (mall.gate, unknown)]);
    device.state.received.insert(Receipt { item: nothing, ..mall.receipt() });
    device.state.received.insert(Receipt { policy: unknown, ..mall.receipt() });
    device.state.values.insert(Variable::Item(nothing), Value::String("02:00:00:00:00:02".into()));
    memory.current.insert(unknown);
    memory.published.insert(unknown);
    memory.catalogue.insert(nobody, mall.policy(0));
    memory.asked.insert((nobody, mall.policy(0)));
    memory.recipients.insert((mall.item, nobody), Withdrawal::default());
    memory.notices.insert((nothing, mall.server), Withdrawal::default());
    memory.tombstones.insert(nothing, Withdrawal::default());

    let mut driver = mall.begin(&directory.path().join("trace"), device);
    assert_eq!(*driver.device(), mall.device());
    let found = resumes(&records(&mut driver));
    let mut plain = mall.begin(&directory.path().join("other"), mall.device());
    assert_eq!(found, resumes(&records(&mut plain)));
}

/// What may leave carries the id and the hash of its record.
#[test]
fn a_message_carries_what_its_record_says() {
    let (mall, directory) = (Mall::new(), tempfile::tempdir().unwrap());
    let mut driver = mall.begin(&directory.path().join("trace"), Device::new(mall.gate));
    driver.decide(Decision::Init { own: vec![mall.policy(0)] }, NOW).unwrap();
    while driver.poll(NOW).unwrap().is_some() {}
    let sent = driver.recorder().next_sent().expect("an upload");
    let (last, hash) = records(&mut driver).pop().unwrap();
    let Content::Step(step) = last.content else { panic!("{last:?}") };
    assert_eq!(step.action.label(), Label::Send(MessageKind::UploadPolicy));
    let Action::Send(Message { id, .. }) = step.action else { panic!("an upload") };
    assert_eq!((id, hash), (Some(sent.id), sent.head));
}

/// A controller that hands an item on says how the conditions of the transfer rules came out under which it holds it.
/// Reference: Def. 10.
#[test]
fn transfers_attest_the_rules_that_allow_them() {
    let (mall, directory) = (Mall::new(), tempfile::tempdir().unwrap());
    let mut driver = mall.begin(&directory.path().join("trace"), Device::new(mall.gate));
    let age = match mall.vocabulary.variable("age").unwrap().0 {
        Variable::Attribute(attribute) => attribute,
        other => panic!("{other:?}"),
    };
    driver.set_attribute(age, Value::Number(Number::whole(34)));
    driver.decide(Decision::Init { own: vec![mall.policy(0)] }, NOW).unwrap();
    let settle = |driver: &mut Driver<'_, Journal>| while driver.poll(NOW).unwrap().is_some() {};
    settle(&mut driver);
    let value = Some(Value::String("02:00:00:00:00:01".into()));
    let release = Release { value, epoch: Epoch::of(NOW), ..Release::new(mall.item, mall.policy(0)) };
    let broadcast = graph::Message { sender: mall.owner, receiver: mall.gate, body: Body::Broadcast(release) };
    driver.receive(broadcast, NOW).unwrap();
    let body = Body::Request { policy: mall.policy(1) };
    driver.receive(graph::Message { sender: mall.server, receiver: mall.gate, body }, NOW).unwrap();
    settle(&mut driver);

    let is_transfer = |(record, _): &(Record, ChainHead)| match &record.content {
        Content::Step(step) if step.action.label() == Label::Send(MessageKind::Send) => Some(step.outcomes.clone()),
        _ => None,
    };
    let policy = mall.policies.digest(mall.policy(0)).unwrap();
    let found = records(&mut driver).iter().find_map(is_transfer).expect("a transfer");
    let rules = mall.policies.policy(mall.policy(0)).unwrap().transfers().iter().zip(0..);
    let expected = rules.filter(|(rule, _)| !rule.condition.is_always()).map(|(rule, place)| {
        let holds = rule.condition.evaluate(&driver.device().state.values) == Some(true);
        Outcome { policy, rule: Rule::Transfer(place), holds }
    });
    assert_eq!(found, expected.collect());
    assert_eq!(found.iter().map(|outcome| outcome.holds).filter(|holds| *holds).count(), 1, "{found:?}");
    assert_eq!(found.len(), 2, "the rule without a condition has no outcome");
}
