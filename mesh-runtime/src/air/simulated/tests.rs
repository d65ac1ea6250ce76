//! The hub as a datagram sees it: participants that count, so that nothing depends on time.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::time::timeout;

use super::wire::{Heard, MAX_DATAGRAM_BYTES, Said, Token};
use super::{Hub, Participant, PerMille, Position, World, join};
use crate::air::{Address, AddressKind, FrameBytes, MAX_WAITING_SIGHTINGS};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// So few that every operating system buffers them.
const BATCH: u64 = 50;

/// A participant without a clock: it speaks when told to.
struct Peer {
    socket: UdpSocket,
    token: Token,
    said: Said,
}

impl Peer {
    async fn join(hub: &Hub, last_byte: u8, position: Position) -> Self {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).await.unwrap();
        socket.connect(hub.address().socket()).await.unwrap();
        let said = Said {
            number: 0,
            address: Address::new([2, 0, 0, 0, 0, last_byte]),
            address_kind: AddressKind::Random,
            please_answer: false,
            position,
            frame: None,
        };
        let mut peer = Self { socket, token: hub.address().token(), said };
        peer.settle().await;
        peer
    }

    async fn send(&mut self, please_answer: bool, frame: Option<FrameBytes>) {
        let said = Said { please_answer, frame, ..self.said };
        self.said.number += 1;
        self.socket.send(&said.encode(self.token)).await.unwrap();
    }

    /// Advertises a number.
    async fn say(&mut self, number: u64) {
        self.send(false, FrameBytes::new(&number.to_be_bytes())).await;
    }

    async fn receive(&self) -> Heard {
        let mut buffer = [0; MAX_DATAGRAM_BYTES];
        let length = timeout(PATIENCE, self.socket.recv(&mut buffer)).await.unwrap().unwrap();
        Heard::decode(&buffer[..length], self.token).unwrap()
    }

    /// Asks for an answer, and returns what the hub sent before it. After this, the hub has seen all that was said.
    async fn settle(&mut self) -> Vec<Heard> {
        self.send(true, None).await;
        let mut heard = Vec::new();
        loop {
            let next = self.receive().await;
            if next.frame.is_none() {
                return heard;
            }
            heard.push(next);
        }
    }
}

fn number(heard: &Heard) -> u64 {
    u64::from_be_bytes(heard.frame.unwrap().as_slice().try_into().unwrap())
}

fn per_mille(of_a_thousand: u16) -> PerMille {
    PerMille::new(of_a_thousand).unwrap()
}

/// The numbers that a listener hears of `count`.
async fn heard_of(count: u64, hub: &Hub) -> Vec<u64> {
    let mut speaker = Peer::join(hub, 1, Position::default()).await;
    let mut listener = Peer::join(hub, 2, Position::default()).await;
    let mut heard = Vec::new();
    for batch in 0..count / BATCH {
        for number in batch * BATCH..(batch + 1) * BATCH {
            speaker.say(number).await;
        }
        speaker.settle().await;
        heard.extend(listener.settle().await.iter().map(number));
    }
    heard
}

/// 300 ‰ of 3,000 frames, within four standard deviations; which ones is up to the seed alone.
#[tokio::test]
async fn losses_are_as_many_as_said_and_follow_the_seed() {
    let mut outcomes = Vec::new();
    for seed in [4, 4, 5] {
        let hub = Hub::start(World { seed, loss: per_mille(300), ..World::default() }).await.unwrap();
        let heard = heard_of(3_000, &hub).await;
        let counts = hub.counts();
        assert_eq!((counts.frames, counts.missed, counts.doubled), (3_000, 0, 0));
        assert_eq!(counts.lost, 3_000 - heard.len() as u64);
        assert!(counts.lost.abs_diff(900) < 100, "{} lost", counts.lost);
        assert!(heard.is_sorted());
        outcomes.push(heard);
    }
    assert_eq!(outcomes[0], outcomes[1]);
    assert_ne!(outcomes[0], outcomes[2]);
}

/// A fifth of 1,000 frames comes twice, within four standard deviations, and all come at least once.
#[tokio::test]
async fn frames_are_doubled() {
    let hub = Hub::start(World { seed: 4, duplication: per_mille(200), ..World::default() }).await.unwrap();
    let heard = heard_of(1_000, &hub).await;
    assert_eq!(heard.iter().collect::<BTreeSet<_>>().len(), 1_000);
    let twice = heard.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert_eq!((heard.len(), hub.counts().doubled), (1_000 + twice, twice as u64));
    assert!(twice.abs_diff(200) < 51, "{twice} twice");
}

#[tokio::test]
async fn frames_come_late_and_out_of_order() {
    let lateness = Duration::from_millis(20);
    let hub = Hub::start(World { seed: 4, delay: per_mille(500), lateness, ..World::default() }).await.unwrap();
    let mut speaker = Peer::join(&hub, 1, Position::default()).await;
    let listener = Peer::join(&hub, 2, Position::default()).await;
    let mut heard = Vec::new();
    for number in 0..BATCH {
        speaker.say(number).await;
    }
    while heard.len() < BATCH as usize {
        heard.push(number(&listener.receive().await));
    }
    assert!(!heard.is_sorted());
    heard.sort_unstable();
    assert_eq!(heard, (0..BATCH).collect::<Vec<_>>());
    let counts = hub.counts();
    assert!(counts.delayed > 0 && counts.delayed < BATCH, "{counts:?}");
}

/// Three in a row, five metres apart, who hear six metres: the middle hears both, the ends hear the middle.
#[tokio::test]
async fn who_is_too_far_away_hears_nothing() {
    let hub = Hub::start(World { range: Some(600), ..World::default() }).await.unwrap();
    let mut row = Vec::new();
    for (last_byte, east) in [(1, 0), (2, 500), (3, 1_000)] {
        row.push(Peer::join(&hub, last_byte, Position { east, north: 0 }).await);
    }
    for (at, peer) in row.iter_mut().enumerate() {
        peer.say(at as u64).await;
        peer.send(false, None).await;
    }
    // Everybody has spoken before anybody listens.
    let mut waiting = Vec::new();
    for peer in &mut row {
        waiting.push(peer.settle().await);
    }
    let mut heard = Vec::new();
    for (peer, mut waiting) in row.iter_mut().zip(waiting) {
        waiting.extend(peer.settle().await);
        assert!(waiting.iter().all(|heard| heard.rssi == -72), "five metres");
        heard.push(waiting.iter().map(number).collect::<BTreeSet<_>>());
    }
    assert_eq!(heard, [BTreeSet::from([1]), BTreeSet::from([0, 2]), BTreeSet::from([1])]);
    assert_eq!(hub.counts().out_of_range, 2);
}

#[tokio::test]
async fn malformed_datagrams_are_counted_and_dropped() {
    let hub = Hub::start(World::default()).await.unwrap();
    let mut speaker = Peer::join(&hub, 1, Position::default()).await;
    let mut listener = Peer::join(&hub, 2, Position::default()).await;
    let right = Said { frame: FrameBytes::new(&[7; 244]), ..speaker.said }.encode(speaker.token);
    let mut wrong: Vec<Vec<u8>> = (0..35).map(|length| right[..length].to_vec()).collect();
    wrong.push([&right[..], &[7]].concat());
    wrong.push(vec![7; 60_000]);
    for (at, byte) in [(0, b'b'), (3, b'2'), (4, !right[4]), (26, right[26] | 4), (26, right[26] | 0x80)] {
        let mut changed = right.clone();
        changed[at] = byte;
        wrong.push(changed);
    }
    for datagram in &wrong {
        speaker.socket.send(datagram).await.unwrap();
    }
    speaker.settle().await;
    assert_eq!(hub.counts().malformed, wrong.len() as u64);
    assert_eq!(listener.settle().await, []);
    speaker.socket.send(&right).await.unwrap();
    speaker.settle().await;
    assert_eq!(listener.settle().await.len(), 1);
}

/// Whoever does not read keeps the oldest sightings, and the others are counted: each of them, wherever it was lost.
#[tokio::test]
async fn a_slow_reader_loses_frames_and_not_memory() {
    let hub = Hub::start(World::default()).await.unwrap();
    let slow = Participant::new(Address::new([2, 0, 0, 0, 0, 2]), AddressKind::Public);
    let mut slow = join(hub.address(), slow).await.unwrap();
    assert!(timeout(PATIENCE, slow.health.until_up()).await.unwrap());
    let mut speaker = Peer::join(&hub, 1, Position::default()).await;
    let total = 60 * BATCH;
    for number in 0..total {
        speaker.say(number).await;
        if number % BATCH == BATCH - 1 {
            speaker.settle().await;
        }
    }
    let done = async {
        while slow.health.counts().heard + slow.health.counts().missed < total {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, done).await.unwrap();
    let counts = slow.health.counts();
    assert_eq!((counts.heard, counts.missed), (MAX_WAITING_SIGHTINGS as u64, total - MAX_WAITING_SIGHTINGS as u64));
    for expected in 0..MAX_WAITING_SIGHTINGS as u64 {
        assert_eq!(slow.sightings.try_next().unwrap().frame.as_slice(), expected.to_be_bytes());
    }
    assert_eq!(slow.sightings.try_next(), None);
}

/// What a participant gets from the hub's port and does not understand is counted, and the next one is understood.
#[tokio::test]
async fn participants_drop_what_is_malformed() {
    let hub = UdpSocket::bind(("127.0.0.1", 0)).await.unwrap();
    let token = Token(7);
    let address = super::HubAddress::new(hub.local_addr().unwrap(), token).unwrap();
    let listener = Participant::new(Address::new([2, 0, 0, 0, 0, 2]), AddressKind::Public);
    let mut listener = join(address, listener).await.unwrap();
    let mut buffer = [0; MAX_DATAGRAM_BYTES];
    let (_, from) = timeout(PATIENCE, hub.recv_from(&mut buffer)).await.unwrap().unwrap();

    let (sender, frame) = (Address::new([2, 0, 0, 0, 0, 1]), FrameBytes::new(b"hello"));
    let heard = |number, frame| Heard { number, address: sender, address_kind: AddressKind::Random, rssi: -40, frame };
    let right = heard(4, frame).encode(token);
    for wrong in [&right[..27], &heard(4, frame).encode(Token(8)), &[7; 1_000], &[]] {
        hub.send_to(wrong, from).await.unwrap();
    }
    hub.send_to(&right, from).await.unwrap();
    let sighting = timeout(PATIENCE, listener.sightings.next()).await.unwrap().unwrap();
    assert_eq!((sighting.address, sighting.rssi, Some(sighting.frame)), (sender, Some(-40), frame));
    // Numbers 0 to 3 never came.
    let counts = listener.health.counts();
    assert_eq!((counts.malformed, counts.missed, counts.heard), (4, 4, 1));
}
