//! `air watch`, `air decode` and `doctor`: what is on the air, and whether a gateway can run here.

mod support;

use std::time::{SystemTime, UNIX_EPOCH};

use mesh_runtime::air::frame::{ControllerTag, Frame};
use mesh_runtime::air::simulated::{Hub, Participant, World, join};
use mesh_runtime::air::{Address, AddressKind};
use pilot_core::codec::Digest;
use pilot_core::semantics::Epoch;
use pilot_core::value::Time;

use support::Directory;

/// Reference: docs/frame.md, "legacy, advertised by default".
const LEGACY: &str = "0201061bffffff116d616c6c601ebef19405185d5b775410ab66c5b8c36f62";
/// A bus that is nowhere.
const WITHOUT_BUS: &str = "DBUS_SYSTEM_BUS_ADDRESS=unix:path=/nowhere/bus \"$@\"";

#[test]
fn advertisements_are_decoded() {
    let directory = Directory::new();
    let words = directory.run(&["air", "decode", LEGACY]).quietly(0);
    assert_eq!(
        words,
        "legacy frame for 6d616c6c, the policy 601ebef19405185d5b775410ab66c5b8…, stale: nobody accepts it\n"
    );
    let words = directory.run(&["air", "decode", "--service", "fd00", LEGACY]).quietly(1);
    assert_eq!(words, "no frame: there is no service data of fd00 in it\n");
    let words = directory.run(&["air", "decode", &LEGACY[..40]]).quietly(1);
    assert_eq!(words, "no advertisement: the structure at byte 3 says that it has 27 bytes, and there are 16\n");
    let words = directory.run(&["air", "decode", "05ffffff1100"]).quietly(1);
    assert_eq!(words, "no frame: no frame of the legacy kind has 2 bytes\n");
    assert!(directory.run(&["air", "decode", "0x12"]).refused().contains("hexadecimal"));
    assert!(directory.run(&["air", "decode", "--manufacturer", "12", LEGACY]).refused().contains("four hexadecimal"));
}

/// Whoever watches sees frames, and addresses only if asked for.
#[test]
fn frames_on_a_simulated_air_are_shown() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (hub, _speaker) = runtime.block_on(async {
        let hub = Hub::start(World::default()).await.unwrap();
        let phone = Participant::new(Address::new([0xc0, 0xff, 0xee, 1, 2, 3]), AddressKind::Random);
        let phone = join(hub.address(), phone).await.unwrap();
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let frame = Frame::legacy(ControllerTag(*b"mall"), Digest([0xab; 32]), Epoch::of(Time::from_unix(seconds)));
        phone.advertiser.advertise(Some(frame.encode())).unwrap();
        (hub, phone)
    });
    let directory = Directory::new();
    let air = hub.address().to_string();
    let watch = ["air", "watch", "--seconds", "2", "--simulated", air.as_str()];
    let shown = directory.run(&watch).quietly(0);
    let first = shown.lines().next().unwrap();
    assert!(first.contains(" device 1, -39 dBm: legacy frame for 6d616c6c, the policy abab"), "{shown}");
    assert_eq!(shown.lines().count(), 2, "each frame once, then the counts: {shown}");
    assert!(!shown.contains("c0:ff:ee"), "{shown}");
    let shown = directory.run(&[&watch[..], &["--addresses"]].concat()).quietly(0);
    assert!(shown.contains("device 1 (c0:ff:ee:01:02:03 random)"), "{shown}");

    // The same radio, by a configuration.
    directory.write("gate.toml", format!("device = \"gate\"\n[air]\nsimulated = {air:?}\n"));
    directory.run(&["air", "watch", "--seconds", "2", "--config", "gate.toml"]).quietly(0);
    drop(hub);
    let shown = directory.run(&["air", "watch", "--seconds", "1", "--config", "gate.toml"]).quietly(1);
    assert_eq!(shown, "0 sightings, 0 missed, 0 malformed, 0 stale, 0 beyond the limit\n");
}

#[test]
fn a_radio_must_be_chosen() {
    let directory = Directory::new();
    let none = directory.run(&["air", "watch"]);
    assert!(none.code == Some(2) && none.err.contains("--bluez"), "{}", none.err);
    assert!(directory.run(&["air", "watch", "--bluez", "wlan0"]).refused().contains("a name like `hci0`"));
    assert!(directory.run(&["air", "watch", "--simulated", "here"]).refused().contains("is no simulated air"));
    directory.write("none.toml", "device = \"gate\"\n");
    assert!(directory.run(&["air", "watch", "--config", "none.toml"]).refused().contains("no section `[air]`"));
}

/// A radio that is not there is not waited for.
#[test]
fn watching_without_a_radio_ends() {
    let directory = Directory::new();
    let ran = directory.run_in_shell(WITHOUT_BUS, &["air", "watch", "--bluez", "hci0"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{}", ran.err);
    assert!(ran.err.contains("there is no D-Bus on this machine, or it does not let us in"), "{}", ran.err);
    assert!(ran.err.contains("`consent-mesh doctor --bluez hci0` says what to do"), "{}", ran.err);
}

/// Without BlueZ, there is no doubt about what is missing, and what to do.
#[test]
fn the_doctor_misses_bluez() {
    let directory = Directory::new();
    let ran = directory.run_in_shell(WITHOUT_BUS, &["doctor"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(1), ""), "{}", ran.out);
    assert!(ran.out.starts_with("BAD   there is no D-Bus on this machine"), "{}", ran.out);
    assert!(ran.out.contains("→ BlueZ needs D-Bus: `apt install dbus bluez`"), "{}", ran.out);
    // What cannot be known is no reason to fail.
    assert!(ran.out.contains("note  nobody says whether the clock is synchronised"), "{}", ran.out);
    assert!(directory.run(&["doctor", "--bluez", "wlan0"]).refused().contains("a name like `hci0`"));
}

#[test]
fn the_doctor_looks_at_what_a_configuration_needs() {
    let directory = Directory::new();
    let air = "[air]\nsimulated = \"127.0.0.1:1884/000000000000c0de\"\n";
    directory.write("gate.toml", air);
    let ran = directory.run_in_shell(WITHOUT_BUS, &["doctor", "--config", "gate.toml"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    assert!(ran.out.starts_with("ok    the radio is simulated"), "{}", ran.out);
    directory.write("gate.toml", format!("{air}[broker]\nurl = \"mqtt://127.0.0.1:1\"\n"));
    let ran = directory.run_in_shell(WITHOUT_BUS, &["doctor", "--config", "gate.toml"]);
    assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("BAD   the broker cannot be reached"), "{}", ran.out);
    directory.write("gate.toml", "[air]\nbluez = \"hci0\"\nroom = 24\n");
    assert!(directory.run(&["doctor", "--config", "gate.toml"]).refused().contains("are for a simulated air"));
}
