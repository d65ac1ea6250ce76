//! The hub: hears every participant and lets those hear it who would in the [`World`].
//!
//! It has one socket and one task, and keeps nothing that it cannot bound: who is there, and which copies are late. What is
//! too much for it or for a listener is dropped by the operating system, whose buffers are bounded, and noticed by the
//! numbers that datagrams carry.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval, sleep, sleep_until};

use super::place::HubAddress;
use super::wire::{Heard, MAX_DATAGRAM_BYTES, Said, Token};
use super::world::{Arrival, MAX_LATENESS, Position, World, signal_strength};
use super::{ERROR_PAUSE, MAX_INTERVAL};
use crate::air::Address;

/// How many participants an air has. When there are more, newcomers are refused and counted until somebody is forgotten.
pub const MAX_PARTICIPANTS: usize = 1_024;
/// How many copies can be late at the same time. When there are more, the newest are lost and counted.
pub const MAX_LATE: usize = 4_096;
/// Who says nothing for this long is forgotten. Participants say something at every interval.
const PATIENCE: Duration = Duration::from_secs(3 * MAX_INTERVAL.as_secs());
/// How often the hub looks for whom to forget.
const FORGET_EVERY: Duration = Duration::from_secs(1);

/// What a hub has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HubCounts {
    /// Frames that participants sent and the hub received.
    pub frames: u64,
    /// Copies of them sent to listeners.
    pub delivered: u64,
    /// Frames that a listener was too far away for.
    pub out_of_range: u64,
    /// Frames that the world lost on the way to a listener.
    pub lost: u64,
    /// Frames that the world doubled on the way to a listener.
    pub doubled: u64,
    /// Copies that the world delayed.
    pub delayed: u64,
    /// What came too fast for the hub, or could not be sent on.
    pub missed: u64,
    /// Datagrams of newcomers for whom there was no room.
    pub refused: u64,
    /// Datagrams that no participant of this air would send.
    pub malformed: u64,
}

/// Why a hub does not start.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// The operating system gave it no socket.
    #[error("no socket for the simulated air on loopback: {0}")]
    Socket(#[source] io::Error),
}

/// A simulated air. Whoever creates it starts its hub, tells the others its address, and keeps it: dropped, the air
/// is gone, until another hub is started [at the same address](Hub::start_at).
#[derive(Debug)]
pub struct Hub {
    address: HubAddress,
    counts: Arc<Mutex<HubCounts>>,
    task: JoinHandle<()>,
}

impl Hub {
    /// Starts an air on a port of its own.
    pub async fn start(world: World) -> Result<Self, HubError> {
        // Not a secret: it keeps apart airs that have the same port one after the other.
        let token = Token(RandomState::new().hash_one(std::process::id()));
        Self::bind((Ipv4Addr::LOCALHOST, 0).into(), token, world).await
    }

    /// Starts an air where one was before; who took part in that one takes part in this one.
    pub async fn start_at(address: HubAddress, world: World) -> Result<Self, HubError> {
        Self::bind(address.socket(), address.token(), world).await
    }

    async fn bind(socket: SocketAddr, token: Token, world: World) -> Result<Self, HubError> {
        let socket = UdpSocket::bind(socket).await.map_err(HubError::Socket)?;
        let local = socket.local_addr().map_err(HubError::Socket)?;
        let not_loopback = || HubError::Socket(io::ErrorKind::AddrNotAvailable.into());
        let address = HubAddress::new(local, token).ok_or_else(not_loopback)?;
        let counts = Arc::new(Mutex::new(HubCounts::default()));
        let relay = Relay {
            world,
            token,
            socket,
            participants: HashMap::new(),
            late: VecDeque::new(),
            counts: Arc::clone(&counts),
        };
        Ok(Self { address, counts, task: tokio::spawn(relay.run()) })
    }

    /// What participants need to know.
    pub const fn address(&self) -> HubAddress {
        self.address
    }

    /// What it has counted.
    pub fn counts(&self) -> HubCounts {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the air. After this its port is free.
    pub async fn stop(mut self) {
        self.task.abort();
        // It says that it was cancelled, which we know.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The hub's task.
struct Relay {
    world: World,
    token: Token,
    socket: UdpSocket,
    participants: HashMap<SocketAddr, Participant>,
    /// In the order in which they are due: all are late by the same time.
    late: VecDeque<(Instant, SocketAddr, Heard)>,
    counts: Arc<Mutex<HubCounts>>,
}

struct Participant {
    address: Address,
    position: Position,
    last_seen: Instant,
    /// The number that its next datagram should have.
    expected: u64,
    /// How many datagrams it was sent.
    sent: u64,
}

impl Relay {
    async fn run(mut self) {
        // One byte more than the longest, to notice longer ones.
        let mut buffer = [0; MAX_DATAGRAM_BYTES + 1];
        let mut forget = interval(FORGET_EVERY);
        loop {
            let due = self.late.front().map(|(due, ..)| *due);
            tokio::select! {
                received = self.socket.recv_from(&mut buffer) => match received {
                    Ok((length, from)) => self.receive(from, buffer.get(..length).unwrap_or_default()),
                    Err(_) => sleep(ERROR_PAUSE).await,
                },
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => self.deliver_late(),
                _ = forget.tick() => self.forget(),
            }
        }
    }

    fn receive(&mut self, from: SocketAddr, datagram: &[u8]) {
        let Some(said) = Said::decode(datagram, self.token) else {
            return self.count(|counts| counts.malformed += 1);
        };
        if !self.notice(from, &said) {
            return self.count(|counts| counts.refused += 1);
        }
        if said.please_answer {
            let Said { address, address_kind, .. } = said;
            self.send(from, Heard { number: 0, address, address_kind, rssi: 0, frame: None });
        }
        if said.frame.is_some() {
            self.count(|counts| counts.frames += 1);
            self.relay(from, &said);
        }
    }

    /// Remembers who is there; `false` if there is no room for a newcomer.
    fn notice(&mut self, from: SocketAddr, said: &Said) -> bool {
        let Said { number, address, position, .. } = *said;
        let known = self.participants.get(&from);
        if known.is_none() && self.participants.len() >= MAX_PARTICIPANTS {
            return false;
        }
        // Nobody can have missed what was said before it came, or before it began again.
        let missed = known.map_or(0, |known| number.saturating_sub(known.expected));
        let sent = known.map_or(0, |known| known.sent);
        let expected = number.saturating_add(1);
        self.participants.insert(from, Participant { address, position, last_seen: Instant::now(), expected, sent });
        self.count(|counts| counts.missed += missed);
        true
    }

    fn relay(&mut self, from: SocketAddr, said: &Said) {
        let Said { number, address, address_kind, position, frame, .. } = *said;
        let mut deliveries = Vec::with_capacity(2 * self.participants.len());
        let (mut out_of_range, mut lost, mut doubled) = (0, 0, 0);
        for (socket, listener) in self.participants.iter().filter(|(socket, _)| **socket != from) {
            if !self.world.reaches(position, listener.position) {
                out_of_range += 1;
                continue;
            }
            let rssi = signal_strength(position, listener.position);
            let heard = Heard { number: 0, address, address_kind, rssi, frame };
            let before = deliveries.len();
            let arrivals = self.world.arrivals(address, listener.address, number);
            deliveries.extend(arrivals.map(|arrival| (*socket, heard, arrival)));
            lost += u64::from(deliveries.len() == before);
            doubled += u64::from(deliveries.len() > before + 1);
        }
        self.count(|counts| {
            counts.out_of_range += out_of_range;
            counts.lost += lost;
            counts.doubled += doubled;
        });
        for (socket, heard, arrival) in deliveries {
            match arrival {
                Arrival::Now => self.send(socket, heard),
                Arrival::Late => self.delay(socket, heard),
            }
        }
    }

    fn delay(&mut self, socket: SocketAddr, heard: Heard) {
        if self.late.len() >= MAX_LATE {
            return self.count(|counts| counts.missed += 1);
        }
        self.count(|counts| counts.delayed += 1);
        self.late.push_back((Instant::now() + self.world.lateness.min(MAX_LATENESS), socket, heard));
    }

    fn deliver_late(&mut self) {
        let now = Instant::now();
        while let Some((due, socket, heard)) = self.late.pop_front() {
            if due > now {
                self.late.push_front((due, socket, heard));
                break;
            }
            self.send(socket, heard);
        }
    }

    /// Sends with the listener's next number, unless it was forgotten.
    fn send(&mut self, to: SocketAddr, heard: Heard) {
        let Some(listener) = self.participants.get_mut(&to) else { return };
        let number = listener.sent;
        listener.sent += 1;
        let datagram = Heard { number, ..heard }.encode(self.token);
        let is_sent = self.socket.try_send_to(&datagram, to).is_ok();
        self.count(|counts| {
            counts.missed += u64::from(!is_sent);
            counts.delivered += u64::from(is_sent && heard.frame.is_some());
        });
    }

    fn forget(&mut self) {
        self.participants.retain(|_, participant| participant.last_seen.elapsed() < PATIENCE);
    }

    fn count(&self, change: impl FnOnce(&mut HubCounts)) {
        change(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::air::simulated::PerMille;
    use crate::air::{AddressKind, FrameBytes};

    const TOKEN: Token = Token(1);

    async fn relay(world: World) -> Relay {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let (participants, late, counts) = Default::default();
        Relay { world, token: TOKEN, socket, participants, late, counts }
    }

    /// A datagram that says where its sender is, and a frame if it has a number.
    fn said(number: Option<u64>) -> Vec<u8> {
        let address = Address::new([2, 0, 0, 0, 0, 1]);
        let frame = number.and_then(|number| FrameBytes::new(&number.to_be_bytes()));
        let (number, position) = (number.unwrap_or(0), Position::default());
        Said { number, address, address_kind: AddressKind::Public, please_answer: false, position, frame }.encode(TOKEN)
    }

    fn from(port: usize) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, u16::try_from(port).unwrap()).into()
    }

    #[tokio::test(start_paused = true)]
    async fn participants_are_bounded_and_forgotten() {
        let mut relay = relay(World::default()).await;
        for port in 0..MAX_PARTICIPANTS + 10 {
            relay.receive(from(10_000 + port), &said(None));
        }
        assert_eq!(relay.participants.len(), MAX_PARTICIPANTS);
        assert_eq!(relay.counts.lock().unwrap().refused, 10);

        tokio::time::advance(PATIENCE / 2).await;
        relay.receive(from(10_000), &said(None));
        tokio::time::advance(PATIENCE / 2).await;
        relay.forget();
        assert_eq!(relay.participants.keys().copied().collect::<Vec<_>>(), [from(10_000)]);
        relay.receive(from(9_999), &said(None));
        assert_eq!(relay.participants.len(), 2);
    }

    #[tokio::test]
    async fn late_copies_are_bounded() {
        let always = PerMille::new(1_000).unwrap();
        let world = World { delay: always, lateness: Duration::MAX, ..World::default() };
        let mut relay = relay(world).await;
        relay.receive(from(9_999), &said(None));
        for number in 0..MAX_LATE + 10 {
            relay.receive(from(10_000), &said(Some(number as u64)));
        }
        assert_eq!(relay.late.len(), MAX_LATE);
        let counts = *relay.counts.lock().unwrap();
        assert_eq!((counts.delayed, counts.missed, counts.delivered), (MAX_LATE as u64, 10, 0));
    }

    #[tokio::test]
    async fn what_came_too_fast_is_counted() {
        let mut relay = relay(World::default()).await;
        // Three are missing; the participant then begins again, of which nothing can be said.
        for number in [100, 101, 105, 0, 1] {
            relay.receive(from(10_000), &said(Some(number)));
        }
        assert_eq!(relay.counts.lock().unwrap().missed, 3);
    }
}
