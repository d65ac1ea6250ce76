//! What the end-to-end tests stand on: a mesh of real processes, a broker of either kind, and waiting with a limit.
//!
//! Daemons run from the release build of `consent-mesh`, as they are shipped. Everything listens on loopback, at ports
//! that the operating system chose, and ends with the test.

pub mod audit;
pub mod ble_vm;
pub mod broker;
pub mod peer;
pub mod process;
pub mod radio;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use consent_mesh::layout::{Controller, Layout, Subject};
use mesh_runtime::air::simulated::{Hub, World};
use mesh_runtime::daemon::control::{AskError, ask};
use pilot_core::value::Time;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

pub use self::broker::{Broker, Kind};
pub use self::process::Daemon;

/// Longer than any awaited event takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// The words of the tests.
pub const VOCABULARY: &str = "\
extends = \"default\"

[entities]
registrar = []
mall = []
shop = []
bookshop = [\"shop\"]
advertiser = []
";

/// A mesh: files, broker, air, processes.
pub struct Mesh {
    /// Its files.
    pub layout: Layout,
    /// Its broker.
    pub broker: Broker,
    hub: Option<Hub>,
    daemons: BTreeMap<String, Daemon>,
    kinds: BTreeMap<String, &'static str>,
    /// For what is not a process.
    pub runtime: Runtime,
    /// Whether what its daemons recorded is judged in the end: not if somebody made up what they know.
    pub is_audited: bool,
    directory: TempDir,
}

impl Mesh {
    /// A mesh with a repository, which does not run yet.
    pub fn new(kind: Kind) -> Self {
        Self::in_world(kind, World::default())
    }

    /// The same, in another air.
    pub fn in_world(kind: Kind, world: World) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let directory = TempDir::new().unwrap();
        let broker = Broker::start(kind, &runtime);
        let hub = runtime.block_on(Hub::start(world)).unwrap();
        let air = hub.address().to_string();
        let mut layout = Layout::new(directory.path(), VOCABULARY, &broker.url(), &air).unwrap();
        layout.repository("registry", "registrar").unwrap();
        let kinds = BTreeMap::from([("registry".to_owned(), "repository")]);
        Self { layout, broker, hub: Some(hub), daemons: BTreeMap::new(), kinds, runtime, is_audited: true, directory }
    }

    /// Where everything is.
    pub fn root(&self) -> &Path {
        self.directory.path()
    }

    /// Adds a controller and signs the mesh file.
    pub fn controller(&mut self, name: &str, entity: &str, policy: &str) {
        self.layout.controller(&Controller { name, entity, policy, settings: "" }).unwrap();
        self.layout.sign().unwrap();
        self.kinds.insert(name.to_owned(), "dc-gateway");
    }

    /// Adds a subject.
    pub fn subject(&mut self, name: &str, address: &str, policies: &str, settings: &str) {
        self.layout.subject(&Subject { name, address, policies, settings }).unwrap();
        self.kinds.insert(name.to_owned(), "ds-gateway");
    }

    /// The subjects that were added.
    pub fn subjects(&self) -> Vec<String> {
        self.kinds.iter().filter(|(_, kind)| **kind == "ds-gateway").map(|(name, _)| name.clone()).collect()
    }

    /// Starts a daemon and waits until it is connected.
    pub fn start(&mut self, name: &str) {
        self.launch(name);
        self.until_connected(name);
    }

    /// Waits until a daemon is connected to its broker.
    pub fn until_connected(&self, name: &str) {
        self.until(name, "status", "it is connected", |status| status["connected"].as_bool()?.then_some(()));
    }

    /// Starts a daemon.
    pub fn launch(&mut self, name: &str) {
        let kind = self.kinds[name];
        let daemon = Daemon::start(kind, &self.layout.config(name), &self.layout.log(name));
        self.daemons.insert(name.to_owned(), daemon);
    }

    /// Asks a daemon to end, and expects it to do so in order.
    pub fn stop(&mut self, name: &str) {
        let ended = self.daemons.remove(name).expect("it runs").stop();
        assert!(ended.success(), "{name} ended with {ended}\n{}", self.log(name));
    }

    /// kill -9.
    pub fn kill(&mut self, name: &str) {
        self.daemons.remove(name).expect("it runs").kill();
    }

    /// A running daemon.
    pub fn daemon(&self, name: &str) -> &Daemon {
        &self.daemons[name]
    }

    /// What a daemon said on its standard error.
    pub fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.layout.log(name)).unwrap_or_default()
    }

    /// Asks a daemon.
    pub fn ask(&self, name: &str, request: &Value) -> Result<Value, AskError> {
        ask(&self.layout.data(name), request)
    }

    /// Asks a daemon that is there.
    pub fn command(&self, name: &str, command: &str) -> Value {
        self.ask(name, &json!({ "command": command }))
            .unwrap_or_else(|error| panic!("{name}: {error}\n{}", self.log(name)))
    }

    /// Asks a daemon until its answer is the wanted one.
    pub fn until<T>(&self, name: &str, command: &str, what: &str, wanted: impl Fn(&Value) -> Option<T>) -> T {
        let begun = Instant::now();
        let mut last = Value::Null;
        while begun.elapsed() < PATIENCE {
            if let Ok(answer) = self.ask(name, &json!({ "command": command })) {
                if let Some(found) = wanted(&answer) {
                    return found;
                }
                last = answer;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        // The reason is often in somebody else's log.
        let log = |name: &String| format!("the log of {name}:\n{}\n", self.log(name));
        let logs: String = self.daemons.keys().map(log).collect();
        panic!("waited in vain until of {name}: {what}\nlast answer: {last}\n{logs}");
    }

    /// How many items a controller holds.
    pub fn held(&self, name: &str) -> usize {
        self.command(name, "held")["held"].as_array().expect("a list").len()
    }

    /// Waits until a controller holds so many items.
    pub fn until_held(&self, name: &str, count: usize) {
        let is_count = |answer: &Value| (answer["held"].as_array()?.len() == count).then_some(());
        self.until(name, "held", &format!("it holds {count}"), is_count);
    }

    /// Waits until the repository lists so many policies.
    pub fn until_listed(&self, count: u64) {
        let is_count = |answer: &Value| (answer["listed"].as_u64()? == count).then_some(());
        self.until("registry", "status", &format!("it lists {count}"), is_count);
    }

    /// What a subject decides about a controller: yes or no, and why. `None` if she does not know it.
    pub fn decision(&self, subject: &str, controller: &str) -> Option<(bool, String)> {
        let answer = self.command(subject, "decide");
        decision_in(&answer, controller)
    }

    /// Waits until a subject decides so about a controller; returns why.
    pub fn until_decided(&self, subject: &str, controller: &str, accepted: bool) -> String {
        self.until(subject, "decide", &format!("{controller}: {accepted}"), |answer| {
            decision_in(answer, controller).filter(|(says, _)| *says == accepted).map(|(_, why)| why)
        })
    }
}

fn decision_in(answer: &Value, controller: &str) -> Option<(bool, String)> {
    let mut decisions = answer["decisions"].as_array()?.iter();
    let decision = decisions.find(|decision| decision["controller"] == controller)?;
    Some((decision["accepted"].as_bool()?, decision["why"].as_str()?.to_owned()))
}

/// What a mesh leaves behind is judged when its test is over: whatever was done to it, what its daemons recorded conforms.
impl Drop for Mesh {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let running: Vec<String> = self.daemons.keys().cloned().collect();
            running.iter().for_each(|name| self.stop(name));
            if self.is_audited {
                audit::assert_conforms(&self.layout, &self.subjects());
            }
        }
        self.daemons.clear();
        if let Some(hub) = self.hub.take() {
            self.runtime.block_on(hub.stop());
        }
        self.broker.stop(&self.runtime);
    }
}

/// A policy that lets an entity collect addresses for a purpose, for so many seconds from now.
pub fn policy(name: &str, entity: &str, purpose: &str, seconds: u64) -> String {
    let until = now().unix() + seconds;
    format!("policy {name} {{\n  collect MACAddress by {entity}\n    for {purpose}\n    until {until}\n}}\n")
}

/// The clock.
pub fn now() -> Time {
    use mesh_runtime::driver::clock::{Clock as _, SystemClock};
    SystemClock.now()
}

/// Every file below a directory.
pub fn files_below(root: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                directories.push(entry.path());
            } else if kind.is_file() {
                found.push(entry.path());
            }
        }
    }
    found
}

/// Every file below a directory that contains these bytes.
pub fn files_with(root: &Path, bytes: &[u8]) -> Vec<std::path::PathBuf> {
    let contains = |path: &std::path::PathBuf| {
        let content = std::fs::read(path).unwrap_or_default();
        content.windows(bytes.len()).any(|window| window == bytes)
    };
    files_below(root).into_iter().filter(contains).collect()
}

/// A subject with an address, for tests with several.
pub fn address(number: u8) -> String {
    format!("c0:ff:ee:00:00:{number:02x}")
}

/// The bytes of that address.
pub const fn address_bytes(number: u8) -> [u8; 6] {
    [0xc0, 0xff, 0xee, 0, 0, number]
}

impl Mesh {
    /// Which of these addresses a controller holds.
    pub fn holds(&self, controller: &str, numbers: &[u8]) -> Vec<u8> {
        self.holds_in(&self.command(controller, "held"), controller, numbers)
    }

    /// Waits until a controller holds exactly these addresses.
    pub fn until_holds(&self, controller: &str, wanted: &[u8]) {
        let what = format!("it holds exactly {wanted:?}");
        self.until(controller, "held", &what, |answer| {
            let all: Vec<u8> = (0..=u8::MAX).collect();
            let count = answer["held"].as_array()?.len();
            (count == wanted.len() && self.holds_in(answer, controller, &all) == wanted).then_some(())
        });
    }

    fn holds_in(&self, answer: &Value, controller: &str, numbers: &[u8]) -> Vec<u8> {
        let key = mesh_runtime::keys::secret_file::load(&self.layout.audit_key(controller)).unwrap();
        let key = pilot_core::evidence::AuditKey::new(key.expect("an audit key"));
        let held: Vec<&str> =
            answer["held"].as_array().unwrap().iter().filter_map(|held| held["pseudonym"].as_str()).collect();
        let pseudonym = |number: u8| pilot_core::evidence::Pseudonym::of(&address_bytes(number), &key).to_string();
        numbers.iter().copied().filter(|number| held.contains(&pseudonym(*number).as_str())).collect()
    }

    /// Replaces a controller's or a subject's policies.
    pub fn rewrite_policy(&self, name: &str, text: &str) {
        std::fs::write(self.root().join("config").join(format!("{name}.pilot")), text).unwrap();
    }
}
