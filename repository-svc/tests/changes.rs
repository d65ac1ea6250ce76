//! Statements in the order of their revisions: a download, from the start or from where the last one ended, is complete
//! and has nothing that was replaced, whatever is stored meanwhile.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pilot_core::evidence::DeviceName;
use repository_svc::store::{
    Came, Changes, Entry, MAX_CHANGES_BYTES, MAX_STATEMENT_BYTES, PolicyStore, Revision, Statement, Version,
};
use tokio::task::JoinSet;

fn device(number: u64) -> DeviceName {
    DeviceName::new(&format!("d{number}")).unwrap()
}

/// Bytes that say whose they are and of which version, so that a mix-up would be seen.
fn statement(number: u64, version: u64) -> Statement {
    let bytes = format!("{number} {version} ").repeat(1 + (number * version % 40) as usize);
    Statement::new(Version(version), bytes.as_bytes()).unwrap()
}

fn entry(number: u64, version: u64, revision: u64) -> Entry {
    Entry {
        device: device(number),
        statement: statement(number, version),
        revision: Revision(revision),
        came: Came::default(),
    }
}

fn open(directory: &Path) -> PolicyStore {
    PolicyStore::open(&directory.join("store")).unwrap()
}

/// The number after `state` in a fixed sequence (Knuth's MMIX).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

type Contents = BTreeMap<DeviceName, (Statement, Revision)>;

/// Somebody who downloads.
#[derive(Default)]
struct Reader {
    contents: Contents,
    until: Revision,
}

impl Reader {
    /// Takes the next part; whether there is nothing left.
    fn read(&mut self, store: &PolicyStore, max_bytes: usize) -> bool {
        let Changes { entries, until, head } = store.changes(self.until, max_bytes).unwrap();
        assert!(self.until <= until && until <= head);
        assert!(until == head || !entries.is_empty(), "there is more, so there must be at least one");
        let mut last = self.until;
        for Entry { device, statement, revision, .. } in entries {
            assert!(last < revision && revision <= until, "revisions go up");
            last = revision;
            self.contents.insert(device, (statement, revision));
        }
        self.until = until;
        until == head
    }
}

#[tokio::test]
async fn statements_come_in_the_order_of_their_revisions_and_replaced_ones_do_not() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(directory.path());
    let nothing = Changes { entries: Vec::new(), until: Revision(0), head: Revision(0) };
    assert_eq!(store.changes(Revision(0), 0).unwrap(), nothing);
    // Not in the order of the names, and the first one twice.
    for (number, version) in [(3, 1), (2, 1), (1, 1), (3, 2)] {
        store.put(device(number), statement(number, version)).await.unwrap();
    }
    let all = [entry(2, 1, 2), entry(1, 1, 3), entry(3, 2, 4)];
    for restarted in [false, true] {
        if restarted {
            drop(store);
            store = open(directory.path());
        }
        for (since, known) in [(0, 0), (1, 0), (2, 1), (3, 2), (4, 3)] {
            let changes = store.changes(Revision(since), usize::MAX).unwrap();
            assert_eq!(changes.entries, all[known..], "since {since}");
            assert_eq!((changes.until, changes.head), (Revision(4), Revision(4)), "since {since}");
        }
        let ahead = store.changes(Revision(5), usize::MAX).unwrap();
        assert_eq!(ahead, Changes { entries: Vec::new(), until: Revision(4), head: Revision(4) });
    }
}

#[tokio::test]
async fn a_part_is_as_long_as_asked_for_and_at_least_one_statement() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let sized = |bytes| Statement::new(Version(1), &vec![7; bytes]).unwrap();
    for number in 0..20 {
        store.put(device(number), sized(98)).await.unwrap();
    }
    // Names have two or three bytes: ten statements have 1,000 bytes.
    for (max_bytes, expected) in [(0, 1), (100, 1), (199, 1), (200, 2), (999, 9), (1_000, 10), (MAX_CHANGES_BYTES, 20)]
    {
        let changes = store.changes(Revision(0), max_bytes).unwrap();
        assert_eq!(changes.entries.len(), expected, "{max_bytes}");
        assert_eq!((changes.until, changes.head), (Revision(expected as u64), Revision(20)), "{max_bytes}");
    }
    for number in 0..20 {
        let longest = Statement::new(Version(2), &vec![7; MAX_STATEMENT_BYTES]).unwrap();
        store.put(device(number), longest).await.unwrap();
    }
    let most = store.changes(Revision(0), usize::MAX).unwrap();
    assert_eq!(most.entries.len(), MAX_CHANGES_BYTES / (MAX_STATEMENT_BYTES + 3), "there is a limit");
}

/// Puts, reads of any length and restarts in any order, against a map. Each reader has at each of its ends exactly the
/// contents, and what it gets on the way is never something that was replaced.
#[tokio::test]
async fn whoever_reads_to_the_head_has_the_contents_whatever_was_stored_in_between() {
    const DEVICES: u64 = 12;
    for seed in 0..8 {
        let directory = tempfile::tempdir().unwrap();
        let mut store = open(directory.path());
        let mut random = seed;
        let mut contents = Contents::new();
        let mut readers: [Reader; 3] = Default::default();
        let (mut ends, mut restarts) = (0, 0);
        for _ in 0..400 {
            match next(&mut random) % 64 {
                0 => {
                    drop(store);
                    store = open(directory.path());
                    restarts += 1;
                }
                1..24 => {
                    let number = next(&mut random) % DEVICES;
                    let version = contents.get(&device(number)).map_or(1, |(stored, _)| stored.version().0 + 1);
                    let revision = store.put(device(number), statement(number, version)).await.unwrap();
                    contents.insert(device(number), (statement(number, version), revision));
                }
                _ => {
                    let reader = &mut readers[next(&mut random) as usize % 3];
                    let since = reader.until;
                    let at_end = reader.read(&store, next(&mut random) as usize % 500);
                    let news = reader.contents.iter().filter(|(_, (_, revision))| *revision > since);
                    assert!(news.clone().all(|(device, got)| contents.get(device) == Some(got)), "seed {seed}");
                    if at_end {
                        assert_eq!(reader.contents, contents, "seed {seed}");
                        assert_eq!(reader.until, store.revision(), "seed {seed}");
                        ends += 1;
                    }
                }
            }
        }
        assert!(ends > 20 && restarts > 0, "seed {seed}: {ends} ends, {restarts} restarts");
    }
}

/// The same while many clients put at once: what a reader has at a head is, for each device, the last that its puts were
/// answered with up to that revision.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_beside_writers_has_at_each_head_what_was_stored_up_to_it() {
    const CLIENTS: u64 = 24;
    const VERSIONS: u64 = 60;
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(open(directory.path()));
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let store = store.clone();
        clients.spawn(async move {
            let mut stored = Vec::new();
            for version in 1..=VERSIONS {
                let revision = store.put(device(client), statement(client, version)).await.unwrap();
                stored.push((revision, (client, version)));
            }
            stored
        });
    }
    let finished = Arc::new(AtomicBool::new(false));
    let reading = tokio::task::spawn_blocking({
        let (store, finished) = (store.clone(), finished.clone());
        move || {
            let mut reader = Reader::default();
            let mut seen = BTreeMap::new();
            loop {
                let is_last = finished.load(Ordering::Acquire);
                if reader.read(&store, 2_000) {
                    seen.insert(reader.until, reader.contents.clone());
                    if is_last {
                        return seen;
                    }
                }
            }
        }
    });
    let mut history = BTreeMap::new();
    while let Some(stored) = clients.join_next().await {
        // Also if a client fails, the reader must not wait for more.
        history.extend(stored.unwrap_or_default());
    }
    finished.store(true, Ordering::Release);
    assert!(history.keys().copied().eq((1..=CLIENTS * VERSIONS).map(Revision)), "each put has a revision of its own");

    let mut seen = reading.await.unwrap();
    let heads = seen.len();
    let mut contents = Contents::new();
    assert!(seen.remove(&Revision(0)).is_none_or(|read| read == contents), "before the first put");
    for (revision, (client, version)) in history {
        contents.insert(device(client), (statement(client, version), revision));
        if let Some(read) = seen.remove(&revision) {
            assert_eq!(read, contents, "at {revision:?}");
        }
    }
    println!("{heads} heads");
    assert!(seen.is_empty(), "a head that no put was answered with");
    assert!(heads > 0, "the last one, however slow the reader was");
}
