//! The simulated air: separate processes on one machine hear each other's frames, with no radio and no set-up.
//!
//! ```text
//!   ds-gateway ──── at every interval ────►  ┌─────┐   in range, not lost, once or twice   ────► dc-gateway
//!   ds-gateway ──────── its frame ────────►  │ hub │   ───────────────────────────────────────► dc-gateway
//!                                            └─────┘
//! ```
//!
//! Whoever creates the air starts a [`Hub`]: one UDP socket on loopback, on a port that the operating system chooses, so two
//! demos cannot clash. Everybody else [`join`]s it. A participant says what it advertises at every interval, as
//! Bluetooth does, and the hub passes each frame on to those who would hear it in its [`World`].
//!
//! UDP, because it behaves like air: a process that dies falls silent, one that is slow misses frames, a hub that comes
//! back is found again by the next frame, and nothing has to be connected, acknowledged or queued.
//!
//! ```
//! use mesh_runtime::air::simulated::{Hub, Participant, World, join};
//! use mesh_runtime::air::{Address, AddressKind, FrameBytes};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let hub = Hub::start(World::default()).await?;
//! let phone = Participant::new(Address::new([0xc0, 0xff, 0xee, 1, 2, 3]), AddressKind::Random);
//! let gate = Participant::new(Address::new([0xc0, 0xff, 0xee, 4, 5, 6]), AddressKind::Random);
//! let phone = join(hub.address(), phone).await?;
//! let mut gate = join(hub.address(), gate).await?;
//! phone.advertiser.advertise(FrameBytes::new(b"hello"))?;
//! let sighting = gate.sightings.next().await.ok_or("the radio is gone")?;
//! assert_eq!(sighting.frame.as_slice(), b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pilot_core::value::Time;
use tokio::net::UdpSocket;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::frame::MAX_FRAME_BYTES;
use super::{Address, AddressKind, Air, Radio, Sighting};

mod hub;
mod place;
#[cfg(test)]
mod tests;
mod wire;
mod world;

pub use hub::{Hub, HubCounts, HubError, MAX_LATE, MAX_PARTICIPANTS};
pub use place::{HubAddress, HubAddressError};
pub use world::{MAX_LATENESS, PerMille, Position, World};

use wire::{Heard, MAX_DATAGRAM_BYTES, Said, Token};

/// How often a frame is repeated unless said otherwise: as BlueZ does at its fastest.
pub const DEFAULT_INTERVAL: Duration = Duration::from_millis(100);
/// The shortest interval.
pub const MIN_INTERVAL: Duration = Duration::from_millis(1);
/// The longest interval: that of Bluetooth, 10.24 seconds, rounded.
pub const MAX_INTERVAL: Duration = Duration::from_secs(10);
/// A socket that fails is tried again after this pause.
const ERROR_PAUSE: Duration = Duration::from_millis(10);

/// Who takes part, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Participant {
    /// Its frames come from this address.
    pub address: Address,
    /// What sort of address that is.
    pub address_kind: AddressKind,
    /// Where it is.
    pub position: Position,
    /// How often it repeats its frame, from [`MIN_INTERVAL`] to [`MAX_INTERVAL`].
    pub interval: Duration,
    /// How many bytes it can advertise, at most [`MAX_FRAME_BYTES`]; 24 simulates an old radio.
    pub room: usize,
}

impl Participant {
    /// A participant with a modern radio in the middle of the world.
    pub const fn new(address: Address, address_kind: AddressKind) -> Self {
        let position = Position { east: 0, north: 0 };
        Self { address, address_kind, position, interval: DEFAULT_INTERVAL, room: MAX_FRAME_BYTES }
    }
}

/// Why somebody cannot take part.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// An interval that is too short or too long.
    #[error("an interval of {0:?} is not between {MIN_INTERVAL:?} and {MAX_INTERVAL:?}")]
    Interval(Duration),
    /// More room than frames can have.
    #[error("a radio with room for {0} bytes: frames have at most {MAX_FRAME_BYTES}")]
    Room(usize),
    /// The operating system gave it no socket.
    #[error("no socket for the simulated air on loopback")]
    Socket(#[source] io::Error),
}

/// Takes part in an air. The hub need not be there yet: [`Health::until_up`](super::Health::until_up) waits for it.
pub async fn join(hub: HubAddress, participant: Participant) -> Result<Air, JoinError> {
    if !(MIN_INTERVAL..=MAX_INTERVAL).contains(&participant.interval) {
        return Err(JoinError::Interval(participant.interval));
    }
    if participant.room > MAX_FRAME_BYTES {
        return Err(JoinError::Room(participant.room));
    }
    let here: IpAddr = hub.socket().ip();
    let socket = UdpSocket::bind(SocketAddr::from((here, 0))).await.map_err(JoinError::Socket)?;
    // Connected, so that nobody but the hub is heard.
    socket.connect(hub.socket()).await.map_err(JoinError::Socket)?;
    let (air, radio) = Air::new(participant.room);
    let simulated =
        SimulatedRadio { socket, token: hub.token(), participant, radio, is_advertising: true, said: 0, expected: 0 };
    tokio::spawn(simulated.run());
    Ok(air)
}

/// The task behind a participant's [`Air`].
struct SimulatedRadio {
    socket: UdpSocket,
    token: Token,
    participant: Participant,
    radio: Radio,
    /// Whether there is still somebody who could change what is advertised.
    is_advertising: bool,
    /// How many datagrams it sent.
    said: u64,
    /// The number that the hub's next datagram should have.
    expected: u64,
}

impl SimulatedRadio {
    async fn run(mut self) {
        // One byte more than the longest, to notice longer ones.
        let mut buffer = [0; MAX_DATAGRAM_BYTES + 1];
        let mut ticks = interval(self.participant.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while self.is_advertising || !self.radio.sightings.is_closed() {
            tokio::select! {
                changed = self.radio.wanted.changed(), if self.is_advertising => match changed {
                    Ok(()) => ticks.reset_immediately(),
                    Err(_) => self.is_advertising = false,
                },
                _ = ticks.tick() => self.say(),
                received = self.socket.recv(&mut buffer) => match received {
                    Ok(length) => self.receive(buffer.get(..length).unwrap_or_default()),
                    Err(_) => {
                        // Nobody has the hub's port.
                        self.radio.set_up(false);
                        sleep(ERROR_PAUSE).await;
                    }
                },
            }
        }
    }

    /// Says what is advertised, or only that it is there.
    fn say(&mut self) {
        let Participant { address, address_kind, position, .. } = self.participant;
        // An error means that nobody wants to advertise any more, whatever the last frame was.
        let is_wanted = self.radio.wanted.has_changed().is_ok();
        // One at a time: more is not accepted.
        let frame = if is_wanted { self.radio.wanted.borrow_and_update().first().copied() } else { None };
        let please_answer = !*self.radio.up.borrow();
        let said = Said { number: self.said, address, address_kind, please_answer, position, frame };
        self.said += 1;
        // What cannot be sent now is repeated at the next interval; that the hub is gone shows when receiving.
        let _ = self.socket.try_send(&said.encode(self.token));
    }

    fn receive(&mut self, datagram: &[u8]) {
        let Some(Heard { number, address, address_kind, rssi, frame }) = Heard::decode(datagram, self.token) else {
            return self.radio.count(|counters| &counters.malformed, 1);
        };
        self.radio.set_up(true);
        // A hub that was started again counts from 0; nothing is known to be missed then.
        self.radio.count(|counters| &counters.missed, number.saturating_sub(self.expected));
        self.expected = number.saturating_add(1);
        if let Some(frame) = frame {
            self.radio.hear(Sighting { address, address_kind, rssi: Some(rssi), frame, time: now() });
        }
    }
}

/// The clock. One that says it is before 1970 is not set, and no frame is fresh then.
fn now() -> Time {
    Time::from_unix(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}
