//! A broker of either kind, which can be restarted at the same address.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mesh_runtime::broker::Broker as Embedded;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::PATIENCE;

/// Which broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The one in our own binary.
    Embedded,
    /// The one that real meshes use.
    Mosquitto,
}

impl Kind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Embedded, Self::Mosquitto];
}

/// A running broker.
pub struct Broker {
    address: SocketAddr,
    running: Running,
}

enum Running {
    Embedded(Option<Embedded>),
    Mosquitto { child: Option<Child>, directory: TempDir },
}

impl Broker {
    /// Starts a broker on loopback.
    pub fn start(kind: Kind, runtime: &Runtime) -> Self {
        match kind {
            Kind::Embedded => {
                let broker = runtime.block_on(Embedded::start(([127, 0, 0, 1], 0).into())).unwrap();
                Self { address: broker.address(), running: Running::Embedded(Some(broker)) }
            }
            Kind::Mosquitto => {
                // Free now; if somebody else takes it before mosquitto does, mosquitto says so and the test fails.
                let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
                let directory = TempDir::new().unwrap();
                let lines = format!(
                    "listener {} 127.0.0.1\nallow_anonymous true\nset_tcp_nodelay true\nmax_queued_messages 10000\n",
                    address.port()
                );
                fs::write(directory.path().join("mosquitto.conf"), lines).unwrap();
                let mut broker = Self { address, running: Running::Mosquitto { child: None, directory } };
                broker.restart(runtime);
                broker
            }
        }
    }

    /// For configurations.
    pub fn url(&self) -> String {
        format!("mqtt://{}", self.address)
    }

    /// Ends all connections, and listens again.
    pub fn restart(&mut self, runtime: &Runtime) {
        self.stop(runtime);
        match &mut self.running {
            Running::Embedded(broker) => {
                *broker = Some(runtime.block_on(Embedded::start(self.address)).unwrap());
            }
            Running::Mosquitto { child, directory } => {
                // Debian puts it where only root looks.
                let path = format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default());
                let started = Command::new("mosquitto")
                    .env("PATH", path)
                    .arg("-c")
                    .arg(directory.path().join("mosquitto.conf"))
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
                    .expect("mosquitto is installed by tests/run.sh");
                let started = child.insert(started);
                let begun = Instant::now();
                while TcpStream::connect(self.address).is_err() {
                    assert!(matches!(started.try_wait(), Ok(None)), "mosquitto has ended: is its port taken?");
                    assert!(begun.elapsed() < PATIENCE, "mosquitto does not listen");
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
    }

    /// Ends it.
    pub fn stop(&mut self, runtime: &Runtime) {
        match &mut self.running {
            Running::Embedded(broker) => {
                if let Some(broker) = broker.take() {
                    runtime.block_on(broker.stop());
                }
            }
            Running::Mosquitto { child, .. } => {
                if let Some(mut child) = child.take() {
                    let _ = child.kill();
                    let _ = child.wait();
                }
            }
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if let Running::Mosquitto { child: Some(child), .. } = &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
