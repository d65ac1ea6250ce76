//! kill -9 under load: what was acknowledged is there afterwards.
//!
//! The test starts itself again as a child, which puts statements with many clients, writes a line for each
//! acknowledgement, and notes it as recorded. It is killed in the middle, after a number of lines drawn from a fixed
//! seed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use pilot_core::evidence::DeviceName;
use repository_svc::store::{MAX_CHANGES_BYTES, PolicyStore, Revision, Statement, Version};

const CHILD: &str = "POLICY_STORE_KILL_CHILD";
const KILLS: u64 = 15;
const CLIENTS: u64 = 32;

fn device(client: u64) -> DeviceName {
    DeviceName::new(&format!("client-{client}")).unwrap()
}

/// Bytes that say whose they are and of which version, so that a mix-up would be seen.
fn statement(client: u64, version: u64) -> Statement {
    let bytes = format!("{client} {version} ").repeat(30 + (client * version % 50) as usize);
    Statement::new(Version(version), bytes.as_bytes()).unwrap()
}

/// Puts ever higher versions until it is killed.
async fn put_forever(path: PathBuf) {
    let store = Arc::new(PolicyStore::open(&path).unwrap());
    // The lines are the trace: one after the other, each noted before the next is written.
    let trace = Arc::new(Mutex::new(std::io::stdout()));
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..CLIENTS {
        let (store, trace) = (store.clone(), trace.clone());
        clients.spawn(async move {
            let stored = store.statement(&device(client)).unwrap();
            for version in stored.map_or(1, |stored| stored.version().0 + 1).. {
                let Revision(revision) = store.put(device(client), statement(client, version)).await.unwrap();
                let mut trace = trace.lock().unwrap();
                // One write per line: the parent must not see half of one.
                trace.write_all(format!("ack {client} {version} {revision}\n").as_bytes()).unwrap();
                store.note_recorded(Revision(revision)).unwrap();
            }
        });
    }
    clients.join_all().await;
}

fn spawn_child(path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "acknowledged_puts_survive_kill_9", "--nocapture"])
        .env(CHILD, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The number after `state` in a fixed sequence (Knuth's MMIX).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_puts_survive_kill_9() {
    if let Some(path) = std::env::var_os(CHILD) {
        return put_forever(path.into()).await;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let mut seed = 4;
    let mut acknowledged: BTreeMap<u64, u64> = BTreeMap::new();
    let mut lines = 0;
    // The highest revision in the trace, and what it was before the last line.
    let (mut recorded, mut recorded_before) = (0, 0);
    for kill in 0..KILLS {
        let mut child = spawn_child(&path);
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut lives_for = next(&mut seed) % 700;
        for line in output.lines() {
            let line = line.unwrap();
            let Some(ack) = line.strip_prefix("ack ") else { continue };
            let numbers: Vec<u64> = ack.split(' ').map(|number| number.parse().unwrap()).collect();
            let [client, version, revision] = numbers[..] else { panic!("{line}") };
            acknowledged.insert(client, version);
            (recorded, recorded_before) = (recorded.max(revision), recorded);
            lines += 1;
            // What is still in the pipe is read on: it was acknowledged as well.
            if lives_for == 0 {
                child.kill().unwrap();
            }
            lives_for = lives_for.wrapping_sub(1);
        }
        assert!(!child.wait().unwrap().success(), "the child ends only by being killed");

        let store = PolicyStore::open(&path).unwrap_or_else(|error| panic!("after kill {kill}: {error}"));
        for (client, version) in &acknowledged {
            let stored = store.statement(&device(*client)).unwrap().expect("an acknowledged statement is lost");
            assert!(stored.version().0 >= *version, "kill {kill}: client {client} lost version {version}");
            assert_eq!(stored, statement(*client, stored.version().0), "kill {kill}: of client {client}");
        }
        let noted = store.recorded().0;
        assert!([recorded, recorded_before].contains(&noted), "kill {kill}: {noted} is noted, not {recorded}");

        // The index of revisions is built anew, and lists the same statements.
        let changes = store.changes(Revision(0), MAX_CHANGES_BYTES).unwrap();
        assert_eq!((changes.until, changes.head), (store.revision(), store.revision()), "kill {kill}");
        assert!(changes.entries.is_sorted_by(|one, next| one.revision < next.revision), "kill {kill}");
        assert_eq!(changes.entries.len() as u64, store.count(), "kill {kill}");
        for entry in &changes.entries {
            assert_eq!(store.statement(&entry.device).unwrap().as_ref(), Some(&entry.statement), "kill {kill}");
        }
        let versions = changes.entries.iter().map(|entry| entry.statement.version().0);
        assert_eq!(store.revision().0, versions.sum::<u64>(), "kill {kill}: each put made one revision");
    }
    println!("{lines} acknowledgements, {KILLS} kills, nothing lost");
    assert!(lines > KILLS * 100, "{lines}");
}
