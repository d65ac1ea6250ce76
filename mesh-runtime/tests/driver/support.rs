//! A shopping mall whose devices are drivers, and an in-memory net between them.

use std::collections::BTreeMap;

use mesh_runtime::driver::limits::Limits;
use mesh_runtime::driver::pacing::{Pace, Pacing};
use mesh_runtime::driver::record::Memory;
use mesh_runtime::driver::{Decision, Driver, Outcome, Setup};
use pilot_core::codec;
use pilot_core::graph::{Device, Graph, Label, Location, Message, MessageKind};
use pilot_core::graphs;
use pilot_core::policy::Choice;
use pilot_core::semantics::{Contacts, Policies, PolicyId};
use pilot_core::syntax::parse_file;
use pilot_core::value::{Time, Value};
use pilot_core::vocabulary::{DeviceId, ItemId, Variable, Vocabulary};

const VOCABULARY: &str = r#"
[entities]
mall = []
shop = ["mall"]
hotels = []
alice = []
repository = []
[datatypes]
mac-address = []
[purposes]
statistics = []
advertisement = []
newsletter = ["advertisement"]
[attributes]
age = "number"
[devices]
alice-phone = "alice"
mall-gate = "mall"
shop-gate = "shop"
hotels-server = "hotels"
policy-repository = "repository"
[items]
mac-alice = { type = "mac-address", owner = "alice-phone" }
mac-watch = { type = "mac-address", owner = "alice-phone" }
"#;

const POLICIES: &str = "
policy generous {
  collect mac-address by mall for advertisement, statistics until 2024-01-03
  transfer to hotels for advertisement until 2024-01-02T18:00:00Z
}
policy careful { collect mac-address by mall for statistics until 2024-01-03 }
policy mall {
  collect mac-address by mall for statistics until 2024-01-02T12:00:00Z
  transfer to hotels for newsletter until 2024-01-02T12:00:00Z
}
policy mall-short { collect mac-address by mall for statistics until 2024-01-02T06:00:00Z }
policy greedy { collect mac-address by mall for statistics until 2025-01-02 }
policy shop { collect mac-address by shop for newsletter until 2024-01-02T12:00:00Z }
policy hotels { collect mac-address by hotels for newsletter until 2024-01-02T12:00:00Z }
";

/// 2024-01-02T00:00:00Z.
pub const START: Time = Time::from_unix(1_704_153_600);

/// Words, policies and names.
pub struct Mall {
    pub vocabulary: &'static Vocabulary,
    pub policies: Policies,
    ids: BTreeMap<String, PolicyId>,
}

impl Mall {
    pub fn new() -> Self {
        // Leaked: a test makes a few of these.
        let vocabulary: &'static Vocabulary =
            Box::leak(Box::new(Vocabulary::from_toml(VOCABULARY).expect("the vocabulary")));
        let file = parse_file(POLICIES, vocabulary).unwrap_or_else(|error| panic!("{error}"));
        let (mut policies, mut ids) = (Policies::default(), BTreeMap::new());
        for source in file.policies {
            let Choice::Policy(policy) = source.choice else { continue };
            ids.insert(source.name, policies.intern(policy, vocabulary));
        }
        Self { vocabulary, policies, ids }
    }

    pub fn id(&self, name: &str) -> PolicyId {
        self.ids[name]
    }

    pub fn ids(&self) -> Vec<PolicyId> {
        self.ids.values().copied().collect()
    }

    pub fn device(&self, name: &str) -> DeviceId {
        self.vocabulary.device(name).expect("a device")
    }

    pub fn item(&self, name: &str) -> ItemId {
        self.vocabulary.item(name).expect("an item")
    }

    pub fn digest(&self, name: &str) -> codec::Digest {
        self.policies.digest(self.id(name)).expect("a digest")
    }

    /// A device of the mall. Alice has the values of her items.
    pub fn setup(
        &self,
        graph: &'static Graph<'static>,
        name: &str,
        sources: &[&str],
        items: &[&str],
    ) -> Setup<'static> {
        let mut device = Device::new(self.device(name));
        for item in items {
            device.state.values.insert(Variable::Item(self.item(item)), Value::String("02:00:00:00:00:01".into()));
        }
        Setup {
            guests: Vec::new(),
            graph,
            vocabulary: self.vocabulary,
            directory: self.vocabulary.directory().clone(),
            policies: self.policies.clone(),
            contacts: Contacts {
                repository: Some(self.device("policy-repository")),
                sources: sources.iter().map(|name| self.device(name)).collect(),
            },
            device,
            items: items.iter().map(|name| self.item(name)).collect(),
            pacing: calm(),
            limits: Limits::default(),
            since: START,
        }
    }

    pub fn driver(
        &self,
        graph: &'static Graph<'static>,
        name: &str,
        sources: &[&str],
        items: &[&str],
    ) -> Driver<'static, Memory> {
        Driver::new(self.setup(graph, name, sources, items), Memory::default())
    }

    /// Figs. 4a to 4c.
    pub fn indirect(&self) -> Net {
        Net::new(vec![
            self.driver(&graphs::INDIRECT_SUBJECT, "alice-phone", &[], &["mac-alice"]),
            self.driver(&graphs::INDIRECT_CONTROLLER, "mall-gate", &[], &[]),
            self.driver(&graphs::INDIRECT_CONTROLLER, "hotels-server", &["mall-gate"], &[]),
            self.driver(&graphs::REPOSITORY, "policy-repository", &[], &[]),
        ])
    }

    /// Figs. 3a and 3b.
    pub fn direct(&self) -> Net {
        Net::new(vec![
            self.driver(&graphs::DIRECT_SUBJECT, "alice-phone", &[], &["mac-alice", "mac-watch"]),
            self.driver(&graphs::DIRECT_CONTROLLER, "mall-gate", &["alice-phone"], &[]),
            self.driver(&graphs::DIRECT_CONTROLLER, "hotels-server", &["mall-gate"], &[]),
        ])
    }

    pub fn init(&self, own: &[&str]) -> Decision {
        Decision::Init { own: own.iter().map(|name| self.id(name)).collect() }
    }
}

/// Nothing is repeated within the tests' time; timeouts are long, going on takes ten seconds.
pub fn calm() -> Pacing {
    let hour = Pace { again: 3_600, ..Pace::default() };
    Pacing::default()
        .everywhere(Label::Send(MessageKind::Broadcast), hour)
        .everywhere(Label::Send(MessageKind::UploadPolicy), hour)
        .everywhere(Label::Send(MessageKind::Request), hour)
        .everywhere(Label::Send(MessageKind::RequestPolicies), hour)
        .everywhere(Label::Tau, Pace { dwell: 10, ..Pace::default() })
}

/// Drivers, and what they have sent to whom.
pub struct Net {
    pub drivers: Vec<Driver<'static, Memory>>,
    pub sent: Vec<Message>,
    pub now: Time,
}

impl Net {
    pub fn new(drivers: Vec<Driver<'static, Memory>>) -> Self {
        Self { drivers, sent: Vec::new(), now: START }
    }

    pub fn decide(&mut self, at: usize, decision: Decision) -> Outcome {
        let outcome = self.drivers[at].decide(decision, self.now).expect("recorded");
        self.sent.extend(outcome.messages().cloned());
        outcome
    }

    /// Everybody does what is due, and messages arrive in order, until nothing more happens.
    pub fn settle(&mut self) {
        loop {
            for driver in &mut self.drivers {
                while let Some(outcome) = driver.poll(self.now).expect("recorded") {
                    self.sent.extend(outcome.messages().cloned());
                }
            }
            if self.sent.is_empty() {
                return;
            }
            for message in std::mem::take(&mut self.sent) {
                for driver in &mut self.drivers {
                    let is_broadcast = message.kind() == MessageKind::Broadcast;
                    if driver.device().id != message.sender && (is_broadcast || driver.device().id == message.receiver)
                    {
                        let outcome = driver.receive(message.clone(), self.now).expect("recorded");
                        self.sent.extend(outcome.messages().cloned());
                    }
                }
            }
        }
    }

    pub fn pass(&mut self, seconds: u64) {
        self.now = Time::from_unix(self.now.unix() + seconds);
        self.settle();
    }

    /// The trace of a device, in the figures' words.
    pub fn trace(&mut self, at: usize) -> Vec<String> {
        let entries = self.drivers[at].recorder().entries.iter();
        entries.map(|entry| format!("{} {}→{}", entry.action.label(), entry.from, entry.to)).collect()
    }

    pub fn at(&self, at: usize) -> Vec<Location> {
        self.drivers[at].instances().map(|instance| instance.location).collect()
    }
}
