//! kill -9 among inserts, erasures, withdrawals and compactions: what was acknowledged stays done.
//!
//! The test starts itself again as a child, which works on a vault and writes a line for each change that returned. It
//! is killed in the middle, after a number of lines drawn from a fixed seed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use dc_gateway::vault::{Description, Secret, Vault};
use pilot_core::codec::Digest;
use pilot_core::evidence::{AuditKey, Pseudonym};
use pilot_core::graph::message::Withdrawal;
use pilot_core::semantics::Epoch;
use pilot_core::value::Time;
use zeroize::Zeroizing;

const CHILD: &str = "VAULT_KILL_CHILD";
const KILLS: u64 = 12;
const NOW: Time = Time::from_unix(1_000_000);
const LATER: Time = Time::from_unix(2_000_000);

fn open(directory: &Path) -> Vault {
    Vault::open(&directory.join("vault"), &directory.join("vault.key"), NOW).unwrap().0
}

fn pseudonym(person: u64) -> Pseudonym {
    Pseudonym::of(&person.to_be_bytes(), &AuditKey::new(Zeroizing::new([7; 32])))
}

fn item(person: u64) -> (Description, Secret) {
    let (pseudonym, datatype) = (pseudonym(person), "mac-address".into());
    let description = Description { pseudonym, datatype, policy: Digest([1; 32]), until: LATER, epoch: Epoch(5) };
    (description, Secret::new(person.to_be_bytes().repeat(10)).unwrap())
}

/// Each person's item is inserted; every second one is erased later, every fourth one by a withdrawal.
fn work_forever(directory: &Path, first: u64) {
    let mut vault = open(directory);
    let say = |what: &str, person: u64| {
        // One write per line: the parent must not see half of one.
        std::io::stdout().write_all(format!("ack {what} {person}\n").as_bytes()).unwrap();
    };
    for person in first.. {
        vault.insert(&[item(person)]).unwrap();
        say("inserted", person);
        let Some(earlier) = person.checked_sub(3).filter(|earlier| *earlier >= first && earlier % 2 == 0) else {
            continue;
        };
        say("erasing", earlier);
        if earlier % 4 == 0 {
            vault.withdraw(&pseudonym(earlier), Withdrawal { epoch: Epoch(5), until: LATER }).unwrap();
            say("withdrawn", earlier);
        } else {
            vault.erase(&pseudonym(earlier)).unwrap();
            say("erased", earlier);
        }
        if person % 8 == 1 {
            vault.sweep(NOW).unwrap();
        }
    }
}

/// The number after `state` in a fixed sequence (Knuth's MMIX).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

#[test]
fn acknowledged_changes_survive_kill_9() {
    if let Some(work) = std::env::var_os(CHILD) {
        let work = work.into_string().unwrap();
        let (first, directory) = work.split_once(' ').unwrap();
        return work_forever(Path::new(directory), first.parse().unwrap());
    }
    let directory = tempfile::tempdir().unwrap();
    let mut seed = 4;
    // The last that was said about each person.
    let mut said: BTreeMap<u64, String> = BTreeMap::new();
    for kill in 0..KILLS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "acknowledged_changes_survive_kill_9", "--nocapture"])
            .env(CHILD, format!("{} {}", 100_000 * kill, directory.path().display()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lives_for = next(&mut seed) % 150;
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            let Some(ack) = line.strip_prefix("ack ") else { continue };
            let (what, person) = ack.split_once(' ').unwrap();
            said.insert(person.parse().unwrap(), what.into());
            // What is still in the pipe is read on: it was acknowledged as well.
            if lives_for == 0 {
                child.kill().unwrap();
            }
            lives_for = lives_for.wrapping_sub(1);
        }
        assert!(!child.wait().unwrap().success(), "the child ends only by being killed");

        let vault = open(directory.path());
        for (person, what) in &said {
            let held = vault.held_of(&pseudonym(*person)).unwrap();
            let buried = vault.tombstone(&pseudonym(*person)).unwrap().is_some();
            match (what.as_str(), &held[..], buried) {
                ("inserted", [record], false) => {
                    let value = vault.reveal(record.handle, NOW).unwrap();
                    assert_eq!(value, Some(item(*person).1), "kill {kill}, person {person}");
                }
                ("erased", [], false) | ("withdrawn", [], true) => {}
                // Killed between saying and doing, or between doing and saying: one or the other, but not half of it.
                ("erasing", [_], false) => {}
                ("erasing", [], buried) if buried == (person % 4 == 0) => {}
                (what, held, buried) => panic!("kill {kill}: {person} {what}, {} held, {buried}", held.len()),
            }
        }
    }
    println!("{} people, {KILLS} kills, nothing lost", said.len());
    assert!(said.len() as u64 > KILLS * 10, "{}", said.len());
}
