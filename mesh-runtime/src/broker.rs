//! An embedded MQTT broker (`rumqttd`) for the demo and for a mesh on one machine.
//!
//! It has no access control, so it listens on loopback only. It is used for what it does well, plain publish and
//! subscribe at QoS 0: it drops retained messages silently, ignores `noLocal`, takes 44 ms for a QoS 1 round trip, and a
//! shared subscription whose only member drops out ends its router for good, which is why a supervisor pings it over a
//! link of its own and starts a new one, on the same port, when the ping does not come back.
//!
//! What stopping it cannot do: `rumqttd` has no way to end its router. [`Broker::stop`] closes the listener and all
//! connections and frees the port, but one parked thread and what the router remembers stay until the process ends; the
//! same after each restart. While it runs, it keeps a log of up to [`LOG_SEGMENT_BYTES`] × [`LOG_SEGMENTS`] for every
//! filter that anybody ever subscribed to. A mesh that is to run for long, or across machines, has a broker of its own.
//!
//! Its log lines are of the target `rumqttd`; daemons add [`LOG_DIRECTIVE`] to their filter.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rumqttd::protocol::v5::V5;
use rumqttd::{ConnectionSettings, LinkType, Router, RouterConfig, Server, ServerSettings};
use thiserror::Error;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::link::{Event, Events, Filter, Link, MAX_PACKET_BYTES, Topic, mqtt};

/// For a `tracing` filter: the broker says a lot about every connection, with client ids and topics, and calls each
/// connection that ends an error. Whether it works is asked by our own pings.
pub const LOG_DIRECTIVE: &str = "rumqttd=off";

/// How often the supervisor pings the broker.
pub const PING_INTERVAL: Duration = Duration::from_secs(2);

/// How long a ping may take. Then the broker counts as dead. Whoever replaces a broker that is only slow disconnects
/// everybody, and what they were saying is lost.
pub const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the first ping may take, until the broker listens and connecting included. Then it counts as not started.
pub const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Attempts to start on a port that somebody else may take first. Then starting fails.
pub const START_ATTEMPTS: u32 = 8;

/// Connections at a time. A further one is not answered.
pub const MAX_CONNECTIONS: usize = 1024;

/// Size of a segment of the log of one filter. A receiver that falls behind by more than a segment misses messages.
pub const LOG_SEGMENT_BYTES: usize = 1024 * 1024;

/// Segments of the log of one filter. Full: the oldest is dropped.
pub const LOG_SEGMENTS: usize = 2;

/// Where the supervisor publishes its pings.
const PING_TOPIC: &str = "consent-mesh/embedded-broker/ping";

/// How long to wait for the broker's thread to end; it only has to drop its sockets.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Fixed header of a packet near the limit: what the broker's own limit does not count.
const FIXED_HEADER_BYTES: usize = 4;

/// A running embedded broker. Dropping it stops it in the background; [`stop`](Self::stop) also waits.
#[derive(Debug)]
pub struct Broker {
    address: SocketAddr,
    restarts: Arc<AtomicU64>,
    stop: Option<oneshot::Sender<()>>,
    supervisor: JoinHandle<()>,
}

/// Why the embedded broker did not start.
#[derive(Debug, Error)]
pub enum BrokerError {
    /// Asked for an address that other machines can reach.
    #[error(
        "the embedded broker listens on loopback only, not on `{0}`: it has no access control; \
         use mosquitto or another MQTT 5 broker for a network"
    )]
    NotLoopback(SocketAddr),
    /// The port is taken, or loopback is missing.
    #[error("the embedded broker cannot listen on `{address}`: {error}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the operating system says.
        error: io::Error,
    },
    /// It listens but does not work.
    #[error("the embedded broker on `{0}` does not answer its first ping")]
    Silent(SocketAddr),
    /// No thread for it.
    #[error("cannot start a thread for the embedded broker: {0}")]
    Thread(io::Error),
}

impl Broker {
    /// Starts a broker on a loopback address; port 0 means any free one. Returns when it has answered a first ping.
    /// Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// See [`BrokerError`].
    pub async fn start(wanted: SocketAddr) -> Result<Self, BrokerError> {
        if !wanted.ip().is_loopback() {
            return Err(BrokerError::NotLoopback(wanted));
        }
        let mut attempt = 1;
        let (address, generation, pinger) = loop {
            let address = probe(wanted)?;
            match begin(address).await {
                Ok((generation, pinger)) => break (address, generation, pinger),
                // Somebody else took the port since it was probed.
                Err(BrokerError::Listen { .. }) if wanted.port() == 0 && attempt < START_ATTEMPTS => attempt += 1,
                Err(error) => return Err(error),
            }
        };
        let restarts = Arc::new(AtomicU64::new(0));
        let (stop, stopped) = oneshot::channel();
        let supervisor = tokio::spawn(supervise(address, generation, pinger, restarts.clone(), stopped));
        Ok(Self { address, restarts, stop: Some(stop), supervisor })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same as a URL for [`mqtt::Settings`].
    #[must_use]
    pub fn url(&self) -> String {
        format!("mqtt://{}", self.address)
    }

    /// How often it was started again because it did not answer.
    #[must_use]
    pub fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    /// Stops it: when this returns, the port is free and all connections are closed.
    pub async fn stop(mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        // The supervisor does not panic; if it was cancelled with its runtime, the broker went with it.
        let _ = self.supervisor.await;
    }
}

/// One life of the broker, in its own thread with its own runtime, so that it shares nothing with the daemon.
#[derive(Debug)]
struct Generation {
    stop: oneshot::Sender<()>,
    /// The listener's error, or nothing if it was told to stop.
    ended: oneshot::Receiver<Option<io::Error>>,
}

impl Generation {
    fn spawn(address: SocketAddr) -> Result<Self, BrokerError> {
        let (stop, stopped) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        thread::Builder::new()
            .name("embedded-broker".to_owned())
            .spawn(move || {
                let _ = end.send(serve(address, stopped).err());
            })
            .map_err(BrokerError::Thread)?;
        Ok(Self { stop, ended })
    }

    async fn stop(self) {
        let _ = self.stop.send(());
        let _ = timeout(STOP_TIMEOUT, self.ended).await;
    }
}

/// Runs router and listener until told to stop. Dropping the runtime drops the listener and all connections.
fn serve(address: SocketAddr, stopped: oneshot::Receiver<()>) -> Result<(), io::Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let router = Router::new(0, router_settings()).spawn();
    let mut server = Server::new(server_settings(address), router, V5);
    runtime.block_on(async move {
        tokio::select! {
            end = server.start(LinkType::Remote) => end.map_err(|error| io::Error::other(error.to_string())),
            _ = stopped => Ok(()),
        }
    })
}

fn router_settings() -> RouterConfig {
    RouterConfig {
        max_connections: MAX_CONNECTIONS,
        max_outgoing_packet_count: 200,
        max_segment_size: LOG_SEGMENT_BYTES,
        max_segment_count: LOG_SEGMENTS,
        ..RouterConfig::default()
    }
}

fn server_settings(address: SocketAddr) -> ServerSettings {
    ServerSettings {
        name: "embedded".to_owned(),
        listen: address,
        tls: None,
        // A pause after each accepted connection; there is no reason for one on loopback.
        next_connection_delay_ms: 0,
        connections: ConnectionSettings {
            connection_timeout_ms: 5000,
            max_payload_size: MAX_PACKET_BYTES - FIXED_HEADER_BYTES,
            max_inflight_count: 100,
            auth: None,
            external_auth: None,
            dynamic_filters: false,
        },
    }
}

/// An address that is free at this moment. `rumqttd` does not say which port it got, so a free one is looked for first;
/// and where somebody else's broker listens, ours must not take its answer for its own.
fn probe(wanted: SocketAddr) -> Result<SocketAddr, BrokerError> {
    TcpListener::bind(wanted)
        .and_then(|listener| listener.local_addr())
        .map_err(|error| BrokerError::Listen { address: wanted, error })
}

/// Starts a generation and waits for its first pong.
async fn begin(address: SocketAddr) -> Result<(Generation, Pinger), BrokerError> {
    let mut generation = Generation::spawn(address)?;
    let mut pinger = Pinger::new(address);
    tokio::select! {
        end = &mut generation.ended => {
            let error = end.ok().flatten().unwrap_or_else(|| io::Error::other("its thread ended"));
            Err(BrokerError::Listen { address, error })
        }
        alive = pinger.ping(START_TIMEOUT) => if alive {
            Ok((generation, pinger))
        } else {
            generation.stop().await;
            Err(BrokerError::Silent(address))
        }
    }
}

/// Pings the broker and starts it again when it does not answer.
async fn supervise(
    address: SocketAddr,
    mut generation: Generation,
    mut pinger: Pinger,
    restarts: Arc<AtomicU64>,
    mut stopped: oneshot::Receiver<()>,
) {
    loop {
        let alive = async {
            tokio::select! {
                _ = &mut generation.ended => false,
                () = sleep(PING_INTERVAL) => pinger.ping(PING_TIMEOUT).await,
            }
        };
        tokio::select! {
            _ = &mut stopped => break,
            alive = alive => if alive { continue },
        }
        tracing::warn!(%address, "the embedded broker does not answer; starting it again");
        generation.stop().await;
        (generation, pinger) = loop {
            match restart(address).await {
                Ok(next) => break next,
                Err(error) => tracing::error!(%error, "the embedded broker does not start again"),
            }
            tokio::select! {
                _ = &mut stopped => return,
                () = sleep(PING_INTERVAL) => {}
            }
        };
        restarts.fetch_add(1, Ordering::Relaxed);
    }
    generation.stop().await;
}

async fn restart(address: SocketAddr) -> Result<(Generation, Pinger), BrokerError> {
    begin(probe(address)?).await
}

/// Publishes to itself through the broker.
struct Pinger {
    link: Link,
    events: Events,
    count: u64,
}

impl Pinger {
    fn new(address: SocketAddr) -> Self {
        let (link, events) = mqtt::connect(mqtt::Endpoint::plain(address));
        Self { link, events, count: 0 }
    }

    /// Whether this very ping came back in time.
    async fn ping(&mut self, limit: Duration) -> bool {
        self.count += 1;
        let expected = self.count.to_be_bytes();
        let (Ok(topic), Ok(filter)) = (Topic::new(PING_TOPIC), Filter::new(PING_TOPIC)) else {
            return false;
        };
        if self.link.subscribe(filter).is_err() || self.link.publish(topic, expected.to_vec()).is_err() {
            return false;
        }
        let pong = async {
            while let Some(event) = self.events.next().await {
                if matches!(event, Event::Message(message) if message.payload == expected[..]) {
                    return true;
                }
            }
            false
        };
        timeout(limit, pong).await.unwrap_or(false)
    }
}
