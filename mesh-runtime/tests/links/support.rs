//! What the tests stand on: brokers that end with the test, certificates that nobody else trusts, waiting with a limit.

use std::fs::{self, Permissions};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mesh_runtime::broker::Broker;
use mesh_runtime::link::memory::Hub;
use mesh_runtime::link::mqtt::{self, Settings};
use mesh_runtime::link::{Disconnection, Event, Events, Filter, Link, Message, Topic};
use tempfile::TempDir;

/// Longer than any of the awaited events takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

pub fn topic(text: &str) -> Topic {
    Topic::new(text).unwrap()
}

pub fn filter(text: &str) -> Filter {
    Filter::new(text).unwrap()
}

/// The next event that satisfies a condition.
pub async fn await_event<T>(events: &mut Events, what: &str, mut wanted: impl FnMut(Event) -> Option<T>) -> T {
    let search = async {
        loop {
            let event = events.next().await.unwrap_or_else(|| panic!("the link ended instead of: {what}"));
            if let Some(found) = wanted(event) {
                return found;
            }
        }
    };
    tokio::time::timeout(PATIENCE, search).await.unwrap_or_else(|_| panic!("waited in vain for: {what}"))
}

pub async fn await_connected(events: &mut Events) {
    await_event(events, "connected", |event| (event == Event::Connected).then_some(())).await;
}

pub async fn await_disconnected(events: &mut Events) -> Disconnection {
    await_event(events, "disconnected", |event| match event {
        Event::Disconnected { reason } => Some(reason),
        _ => None,
    })
    .await
}

pub async fn await_message(events: &mut Events) -> Message {
    await_event(events, "a message", |event| match event {
        Event::Message(message) => Some(message),
        _ => None,
    })
    .await
}

/// What carries links in a test.
pub enum Carrier {
    Memory(Hub),
    Embedded { broker: Option<Broker>, address: SocketAddr },
    Mosquitto(Mosquitto),
}

impl Carrier {
    pub fn memory() -> Self {
        Self::Memory(Hub::new())
    }

    pub async fn embedded() -> Self {
        let broker = Broker::start(LOOPBACK).await.unwrap();
        Self::Embedded { address: broker.address(), broker: Some(broker) }
    }

    pub fn mosquitto() -> Self {
        Self::Mosquitto(Mosquitto::start("allow_anonymous true\n"))
    }

    pub fn link(&self) -> (Link, Events) {
        match self {
            Self::Memory(hub) => hub.connect(),
            Self::Embedded { address, .. } => plain(&format!("mqtt://{address}")),
            Self::Mosquitto(mosquitto) => plain(&mosquitto.url("mqtt")),
        }
    }

    /// Without a goodbye, where that is possible.
    pub async fn kill(&mut self) {
        match self {
            Self::Memory(hub) => hub.stop(),
            Self::Embedded { broker, .. } => broker.take().expect("is running").stop().await,
            Self::Mosquitto(mosquitto) => mosquitto.kill(),
        }
    }

    /// Again, at the same place.
    pub async fn restart(&mut self) {
        match self {
            Self::Memory(hub) => hub.start(),
            Self::Embedded { broker, address } => *broker = Some(Broker::start(*address).await.unwrap()),
            Self::Mosquitto(mosquitto) => mosquitto.restart(),
        }
    }
}

pub fn plain(url: &str) -> (Link, Events) {
    mqtt::connect(Settings { url: url.to_owned(), ..Settings::default() }.load().unwrap())
}

/// A mosquitto of our own on loopback. Ends only the process that it started.
pub struct Mosquitto {
    child: Option<Child>,
    port: u16,
    directory: TempDir,
    extra: String,
}

impl Mosquitto {
    /// With further lines for its configuration, in which `DIRECTORY` stands for a directory with the given files.
    pub fn start_with_files(extra: &str, files: &[(&str, &[u8])]) -> Self {
        let directory = TempDir::new().unwrap();
        for (name, bytes) in files {
            fs::write(directory.path().join(name), bytes).unwrap();
        }
        let extra = extra.replace("DIRECTORY", directory.path().to_str().unwrap());
        let mut mosquitto = Self { child: None, port: 0, directory, extra };
        for _ in 0..8 {
            mosquitto.port = TcpListener::bind(LOOPBACK).unwrap().local_addr().unwrap().port();
            if mosquitto.try_start() {
                return mosquitto;
            }
        }
        panic!("mosquitto does not start; its last words:\n{}", mosquitto.last_words());
    }

    pub fn start(extra: &str) -> Self {
        Self::start_with_files(extra, &[])
    }

    pub fn url(&self, scheme: &str) -> String {
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub fn restart(&mut self) {
        assert!(self.try_start(), "mosquitto does not start again:\n{}", self.last_words());
    }

    fn last_words(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// Whether it listens. If its process ended, the port was taken.
    fn try_start(&mut self) -> bool {
        let configuration = self.directory.path().join("mosquitto.conf");
        // Started by root it would become a user that cannot read the directory; for others the line has no effect.
        let text = format!(
            "user root\nlistener {} 127.0.0.1\nset_tcp_nodelay true\npersistence false\n{}",
            self.port, self.extra
        );
        fs::write(&configuration, text).unwrap();
        let log = fs::File::create(self.directory.path().join("log")).unwrap();
        let child = Command::new(mosquitto_binary())
            .arg("-c")
            .arg(&configuration)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("mosquitto was found but cannot be started");
        let child = self.child.insert(child);
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if child.try_wait().unwrap().is_some() {
                return false;
            }
            if TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }
}

impl Drop for Mosquitto {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Debian puts it where only root looks.
fn mosquitto_binary() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin"), PathBuf::from("/usr/local/sbin")])
        .map(|directory| directory.join("mosquitto"))
        .find(|file| file.is_file())
        .expect("mosquitto is not installed: `tests/run.sh` installs it (Debian package `mosquitto`)")
}

/// A password file for mosquitto with one user.
pub fn mosquitto_passwords(user: &str, password: &str) -> Vec<u8> {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("passwords");
    fs::write(&file, format!("{user}:{password}\n")).unwrap();
    let status = Command::new("mosquitto_passwd").arg("-U").arg(&file).status();
    assert!(status.expect("mosquitto_passwd comes with mosquitto").success());
    fs::read(&file).unwrap()
}

/// Writes a file that only its owner may read.
pub fn secret_file(directory: &Path, name: &str, content: &str) -> PathBuf {
    let path = directory.join(name);
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    path
}

/// A throw-away certificate authority.
pub struct Authority(rcgen::CertifiedIssuer<'static, rcgen::KeyPair>);

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut parameters = rcgen::CertificateParams::default();
        parameters.distinguished_name.push(rcgen::DnType::CommonName, name);
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        Self(rcgen::CertifiedIssuer::self_signed(parameters, key).unwrap())
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for a host name or address, and its key.
    pub fn issue(&self, name: &str) -> (String, String) {
        let mut parameters = rcgen::CertificateParams::new([name.to_owned()]).unwrap();
        parameters.distinguished_name.push(rcgen::DnType::CommonName, name);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = parameters.signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}
