//! The simulated air as gateways use it.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::time::Duration;

use mesh_runtime::air::simulated::{Hub, HubAddress, JoinError, Participant, World, join};
use mesh_runtime::air::{Address, AddressKind, AdvertiseError, Air, FrameBytes, Sighting};
use pilot_core::value::Time;
use tokio::time::timeout;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
const INTERVAL: Duration = Duration::from_millis(5);

fn participant(last_byte: u8) -> Participant {
    let address = Address::new([0xc0, 0xff, 0xee, 0, 0, last_byte]);
    let kind = if last_byte.is_multiple_of(2) { AddressKind::Public } else { AddressKind::Random };
    Participant { interval: INTERVAL, ..Participant::new(address, kind) }
}

/// A participant that the hub knows of.
async fn joined(hub: HubAddress, last_byte: u8) -> Air {
    let mut air = join(hub, participant(last_byte)).await.unwrap();
    assert!(timeout(PATIENCE, air.health.until_up()).await.unwrap());
    air
}

async fn next(air: &mut Air) -> Sighting {
    timeout(PATIENCE, air.sightings.next()).await.unwrap().unwrap()
}

/// Waits until this is heard; what was heard before is passed over.
async fn until_heard(air: &mut Air, frame: FrameBytes) {
    while next(air).await.frame != frame {}
}

fn frame(text: &str) -> FrameBytes {
    FrameBytes::new(text.as_bytes()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_advertisers_and_two_listeners() {
    let hub = Hub::start(World::default()).await.unwrap();
    let address = hub.address();
    let listeners: Vec<_> = [11, 12]
        .map(|last_byte| async move {
            let mut air = joined(address, last_byte).await;
            let mut heard: BTreeMap<[u8; 6], (AddressKind, Vec<u8>, u32)> = BTreeMap::new();
            // Until each was heard five times: what is said is repeated.
            while heard.len() < 2 || heard.values().any(|(.., times)| *times < 5) {
                let Sighting { address, address_kind, frame, .. } = next(&mut air).await;
                let entry = heard.entry(address.reveal()).or_insert((address_kind, frame.as_slice().to_vec(), 0));
                assert_eq!((entry.0, &entry.1[..]), (address_kind, frame.as_slice()));
                entry.2 += 1;
            }
            heard.into_iter().map(|(address, (kind, frame, _))| (address, kind, frame)).collect::<Vec<_>>()
        })
        .map(tokio::spawn)
        .into();
    let advertisers = [(1, "alice"), (2, "bob")].map(|(last_byte, name)| {
        tokio::spawn(async move {
            let air = joined(address, last_byte).await;
            air.advertiser.advertise(Some(frame(name))).unwrap();
            air
        })
    });
    for listener in listeners {
        let expected = [
            ([0xc0, 0xff, 0xee, 0, 0, 1], AddressKind::Random, b"alice".to_vec()),
            ([0xc0, 0xff, 0xee, 0, 0, 2], AddressKind::Public, b"bob".to_vec()),
        ];
        assert_eq!(listener.await.unwrap(), expected);
    }
    for (advertiser, last_byte) in advertisers.into_iter().zip([1, 2]) {
        let mut air = advertiser.await.unwrap();
        // Nobody hears itself.
        while let Some(heard) = air.sightings.try_next() {
            assert_ne!(heard.address, participant(last_byte).address);
        }
    }
}

/// Once the next frame is heard, the one before is not heard any more.
#[tokio::test]
async fn a_frame_replaces_the_one_before() {
    let hub = Hub::start(World::default()).await.unwrap();
    let (alice, mut gate) = (joined(hub.address(), 1).await, joined(hub.address(), 2).await);
    for turn in 0..20 {
        let current = frame(&format!("turn {turn}"));
        alice.advertiser.advertise(Some(current)).unwrap();
        until_heard(&mut gate, current).await;
        for _ in 0..3 {
            assert_eq!(next(&mut gate).await.frame, current);
        }
    }
}

/// After one interval nothing is said any more. The waiting is what is tested here, not a way to wait for something.
#[tokio::test]
async fn stopping_takes_effect_within_an_interval() {
    let hub = Hub::start(World::default()).await.unwrap();
    let (alice, mut gate) = (joined(hub.address(), 1).await, joined(hub.address(), 2).await);
    alice.advertiser.advertise(Some(frame("hello"))).unwrap();
    until_heard(&mut gate, frame("hello")).await;
    alice.advertiser.advertise(None).unwrap();
    tokio::time::sleep(INTERVAL).await;
    // The hub answers a newcomer after it has read all that was said before.
    let _newcomer = joined(hub.address(), 3).await;
    let said = hub.counts().frames;
    tokio::time::sleep(10 * INTERVAL).await;
    assert_eq!(hub.counts().frames, said);
    alice.advertiser.advertise(Some(frame("again"))).unwrap();
    until_heard(&mut gate, frame("again")).await;
}

/// Dropping the advertiser stops it and leaves the listener; dropping the listener leaves the advertiser.
#[tokio::test]
async fn each_end_lives_by_itself() {
    let hub = Hub::start(World::default()).await.unwrap();
    let (alice, bob) = (joined(hub.address(), 1).await, joined(hub.address(), 2).await);
    let Air { advertiser: alice_says, sightings: mut alice_hears, .. } = alice;
    let Air { advertiser: bob_says, sightings: bob_hears, .. } = bob;
    let mut gate = joined(hub.address(), 3).await;
    drop(bob_hears);
    bob_says.advertise(Some(frame("bob"))).unwrap();
    alice_says.advertise(Some(frame("alice"))).unwrap();
    until_heard(&mut gate, frame("alice")).await;
    drop(alice_says);
    assert_eq!(timeout(PATIENCE, alice_hears.next()).await.unwrap().unwrap().frame, frame("bob"));
    tokio::time::sleep(INTERVAL).await;
    // What Alice had said before has arrived when a newcomer is heard.
    let newcomer = joined(hub.address(), 5).await;
    newcomer.advertiser.advertise(Some(frame("newcomer"))).unwrap();
    until_heard(&mut gate, frame("newcomer")).await;
    for _ in 0..20 {
        assert_ne!(next(&mut gate).await.frame, frame("alice"));
    }
    until_heard(&mut gate, frame("bob")).await;
}

/// A hub that is not there yet, goes away and comes back: everybody finds it without being told.
#[tokio::test]
async fn the_hub_may_come_and_go() {
    // A place that no other process or test is given while nobody is there.
    let [.., high, low] = std::process::id().to_be_bytes();
    let address: HubAddress = format!("127.77.{high}.{low}:20077/0123456789abcdef").parse().unwrap();
    let mut alice = join(address, participant(1)).await.unwrap();
    let mut gate = join(address, participant(2)).await.unwrap();
    alice.advertiser.advertise(Some(frame("hello"))).unwrap();
    for _ in 0..3 {
        assert!(!gate.health.is_up());
        let hub = Hub::start_at(address, World::default()).await.unwrap();
        for air in [&mut alice, &mut gate] {
            assert!(timeout(PATIENCE, air.health.until_up()).await.unwrap());
        }
        until_heard(&mut gate, frame("hello")).await;
        hub.stop().await;
        for air in [&mut alice, &mut gate] {
            timeout(PATIENCE, air.health.until_down()).await.unwrap();
        }
        while gate.sightings.try_next().is_some() {}
    }
    assert_eq!(gate.health.counts().missed, 0);
}

/// Another air, even one on the same port later, is another air.
#[tokio::test]
async fn airs_do_not_mix() {
    let (here, there) = (Hub::start(World::default()).await.unwrap(), Hub::start(World::default()).await.unwrap());
    assert_ne!(here.address(), there.address());
    let (text, other) = (here.address().to_string(), there.address().to_string());
    assert_eq!(text.parse(), Ok(here.address()));
    let (socket, _) = text.split_once('/').unwrap();
    let (_, other_token) = other.split_once('/').unwrap();
    let stale: HubAddress = format!("{socket}/{other_token}").parse().unwrap();

    let stranger = join(stale, participant(1)).await.unwrap();
    stranger.advertiser.advertise(Some(frame("stranger"))).unwrap();
    let elsewhere = joined(there.address(), 2).await;
    elsewhere.advertiser.advertise(Some(frame("elsewhere"))).unwrap();
    let (alice, mut gate) = (joined(here.address(), 3).await, joined(here.address(), 4).await);
    alice.advertiser.advertise(Some(frame("alice"))).unwrap();
    for _ in 0..20 {
        assert_eq!(next(&mut gate).await.frame, frame("alice"));
    }
    assert!(here.counts().malformed > 0);
    assert!(!stranger.health.is_up());
}

#[test]
fn addresses_of_airs_are_on_this_machine() {
    for good in ["127.0.0.1:40123/0123456789abcdef", "[::1]:1/0000000000000000"] {
        assert_eq!(good.parse::<HubAddress>().unwrap().to_string(), good);
    }
    for (bad, why) in [
        ("", "was needed"),
        ("127.0.0.1:40123", "was needed"),
        ("127.0.0.1/0123456789abcdef", "was needed"),
        ("localhost:1/0123456789abcdef", "was needed"),
        ("127.0.0.1:1/+123456789abcdef", "was needed"),
        ("127.0.0.1:1/123456789abcdef", "was needed"),
        ("0.0.0.0:1/0123456789abcdef", "on this machine"),
        ("192.168.0.1:1/0123456789abcdef", "on this machine"),
        ("[::]:1/0123456789abcdef", "on this machine"),
    ] {
        let error = bad.parse::<HubAddress>().unwrap_err().to_string();
        assert!(error.contains(why) && error.contains(&format!("`{bad}`")), "{error}");
    }
}

#[tokio::test]
async fn an_old_radio_has_less_room() {
    let hub = Hub::start(World::default()).await.unwrap();
    let old = join(hub.address(), Participant { room: 24, ..participant(1) }).await.unwrap().advertiser;
    assert_eq!(old.room(), 24);
    assert_eq!(old.advertise(FrameBytes::new(&[7; 24])), Ok(()));
    let too_long = AdvertiseError::TooLong { room: 24, length: 25 };
    assert_eq!(old.advertise(FrameBytes::new(&[7; 25])), Err(too_long));
    let join = |participant| join(hub.address(), participant);
    assert!(matches!(join(Participant { room: 245, ..participant(1) }).await, Err(JoinError::Room(245))));
    for interval in [Duration::ZERO, Duration::from_secs(11)] {
        let result = join(Participant { interval, ..participant(1) }).await;
        assert!(matches!(result, Err(JoinError::Interval(_))));
    }
}

/// Reference: no personal value in a log, error or `Debug` output.
#[test]
fn no_output_shows_an_address() {
    let bytes = [0xc0, 0xff, 0xee, 0x12, 0x34, 0x56];
    let address = Address::new(bytes);
    let sighting = |address| Sighting {
        address,
        address_kind: AddressKind::Random,
        rssi: Some(-60),
        frame: frame("hello"),
        time: Time::from_unix(5),
    };
    let shown = |address| {
        let participant = Participant::new(address, AddressKind::Random);
        format!("{:?} {:#?} {participant:?} {address:?} {address}", sighting(address), sighting(address))
    };
    // Whatever the address is, the text is the same, so it can have nothing of it.
    assert_eq!(shown(address), shown(Address::new([0; 6])));
    let shown = shown(address).to_lowercase();
    for part in bytes.iter().flat_map(|byte| [format!("{byte:02x}"), format!(", {byte}")]).chain(["ff:ee".into()]) {
        // Two hexadecimal digits may stand in a word by chance; none of these do.
        assert!(!shown.contains(&part), "`{part}` in `{shown}`");
    }
    assert_eq!(address.reveal(), bytes);
}

/// Every socket of this process, which runs all tests of this file, is bound to loopback.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn nothing_listens_outside_loopback() {
    let hub = Hub::start(World::default()).await.unwrap();
    let _alice = joined(hub.address(), 1).await;
    let links = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| entry.unwrap().path().read_link().ok());
    let own: Vec<String> =
        links.filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())).collect();
    let mut bound = 0;
    for table in ["udp", "udp6", "tcp", "tcp6"] {
        let Ok(table) = std::fs::read_to_string(format!("/proc/self/net/{table}")) else { continue };
        for line in table.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [_, local, .., inode] = fields.get(..10).unwrap() else { panic!("`{line}`") };
            if own.iter().any(|socket| socket == inode) {
                bound += 1;
                let is_loopback = local.split(':').next().is_some_and(|ip| ip.len() == 8 && ip.ends_with("7F"))
                    || local.starts_with(&format!("{}01000000:", "0".repeat(24)));
                assert!(is_loopback, "bound to {local}");
            }
        }
    }
    assert!(bound >= 2, "the hub and a participant are among them");
}

const AIR: &str = "SIMULATED_AIR";

/// Not a test: the other process of the next one.
#[tokio::test]
#[ignore = "started by another test"]
async fn a_process_that_advertises() {
    let Ok(hub) = std::env::var(AIR) else { return };
    let air = joined(hub.parse().unwrap(), 1).await;
    air.advertiser.advertise(Some(frame("another process"))).unwrap();
    std::future::pending::<()>().await;
}

/// Separate processes share an air, and one that is killed falls silent.
#[tokio::test]
async fn processes_share_an_air() {
    let hub = Hub::start(World::default()).await.unwrap();
    let mut gate = joined(hub.address(), 2).await;
    let mut child = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_process_that_advertises", "--ignored"])
        .env(AIR, hub.address().to_string())
        .stdout(std::process::Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    until_heard(&mut gate, frame("another process")).await;
    child.kill().await.unwrap();
    // What it said while it was alive has arrived when a newcomer is heard.
    let alice = joined(hub.address(), 3).await;
    alice.advertiser.advertise(Some(frame("alice"))).unwrap();
    until_heard(&mut gate, frame("alice")).await;
    for _ in 0..20 {
        assert_eq!(next(&mut gate).await.frame, frame("alice"));
    }
}
