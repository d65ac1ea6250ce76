//! The policy store from outside: versions, restarts, notes, and directories it must refuse.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pilot_core::evidence::DeviceName;
use repository_svc::store::{
    Entry, MAX_CHANGES_BYTES, MAX_STATEMENT_BYTES, OpenError, PolicyStore, PutError, Revision, Statement, Version,
};
use tokio::task::JoinSet;

fn device(name: &str) -> DeviceName {
    DeviceName::new(name).unwrap()
}

fn statement(version: u64, bytes: &[u8]) -> Statement {
    Statement::new(Version(version), bytes).unwrap()
}

fn open(path: &Path) -> PolicyStore {
    PolicyStore::open(path).unwrap()
}

fn everything(store: &PolicyStore) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut since = Revision(0);
    loop {
        let changes = store.changes(since, MAX_CHANGES_BYTES).unwrap();
        entries.extend(changes.entries);
        since = changes.until;
        if changes.until == changes.head {
            return entries;
        }
    }
}

/// Puts all of them at once.
async fn put_all(store: &Arc<PolicyStore>, puts: Vec<(DeviceName, Statement)>) {
    let mut tasks = JoinSet::new();
    for (device, statement) in puts {
        let store = store.clone();
        tasks.spawn(async move {
            while store.put(device.clone(), statement.clone()).await == Err(PutError::Busy) {
                tokio::task::yield_now().await;
            }
        });
    }
    tasks.join_all().await;
}

#[tokio::test]
async fn the_highest_version_stays_and_so_does_a_withdrawal() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let mall = device("mall-gate");
    {
        let store = open(&path);
        assert_eq!((store.count(), store.revision()), (0, Revision(0)));
        assert_eq!(store.statement(&mall).unwrap(), None);
        assert_eq!(store.put(mall.clone(), statement(3, b"policy")).await, Ok(Revision(1)));
        assert_eq!(store.put(mall.clone(), statement(7, b"withdrawal")).await, Ok(Revision(2)));
    }
    let store = open(&path);
    for (version, bytes, identical) in [(3, &b"policy"[..], false), (7, b"another", false), (7, b"withdrawal", true)] {
        let refused = PutError::NotHigher { stored: Version(7), identical };
        assert_eq!(store.put(mall.clone(), statement(version, bytes)).await, Err(refused));
    }
    assert_eq!(store.statement(&mall).unwrap(), Some(statement(7, b"withdrawal")));
    assert_eq!((store.count(), store.revision()), (1, Revision(2)), "a refusal changes nothing");
    assert_eq!(store.put(mall.clone(), statement(u64::MAX, b"last")).await, Ok(Revision(3)));
}

/// sled writes long log items to `blobs/` and never syncs them: an acknowledged statement there could be lost. Leaves
/// full of the longest statements are the longest items.
#[tokio::test]
async fn the_longest_statements_stay_in_the_file_that_is_synced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let longest = vec![0xA5; MAX_STATEMENT_BYTES];
    let name = |at: u64| device(&format!("{at:0>128}", at = format!("d{at}")));
    {
        let store = Arc::new(open(&path));
        for version in 1..=3 {
            put_all(&store, (0..100).map(|at| (name(at), statement(version, &longest))).collect()).await;
            assert_eq!(fs::read_dir(path.join("blobs")).unwrap().count(), 0, "version {version}");
        }
    }
    let store = open(&path);
    assert_eq!(fs::read_dir(path.join("blobs")).unwrap().count(), 0);
    assert_eq!(everything(&store).len(), 100);
    assert!(Statement::new(Version(1), &[0; MAX_STATEMENT_BYTES + 1]).is_err());
}

/// Names and contents of a directory's files, one level deep.
fn contents(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let bytes = if entry.path().is_dir() { Vec::new() } else { fs::read(entry.path()).unwrap() };
        files.insert(entry.file_name().into_string().unwrap(), bytes);
    }
    files
}

/// What opening says to a directory that it refuses, and that it leaves it as it was.
fn refusal(path: &Path) -> OpenError {
    let before = contents(path);
    let error = PolicyStore::open(path).expect_err("must be refused");
    assert!(contents(path) == before, "a refused directory was changed");
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    error
}

#[tokio::test]
async fn one_process_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let store = open(&path);
    store.put(device("a"), statement(1, b"1")).await.unwrap();
    let error = refusal(&path);
    assert!(matches!(error, OpenError::InUse(_)), "{error}");
    assert_eq!(store.put(device("a"), statement(2, b"2")).await, Ok(Revision(2)), "the first goes on");
    drop(store);
    assert_eq!(open(&path).count(), 1);
}

/// sled gives its lock up late, after a store is made or closed. That is waited for, and not taken for another process.
#[test]
fn a_lock_that_is_given_up_late_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    drop(open(&path));
    let database = fs::File::open(path.join("db")).unwrap();
    database.lock().unwrap();
    let late = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        drop(database);
    });
    assert_eq!(open(&path).count(), 0);
    late.join().unwrap();
}

#[test]
fn other_directories_and_formats_are_refused_and_not_touched() {
    let directory = tempfile::tempdir().unwrap();
    let other = directory.path().join("other");
    fs::create_dir(&other).unwrap();
    drop(PolicyStore::open(&other).expect("an empty directory becomes a store"));

    fs::write(other.join("FORMAT"), "consent-mesh policy store 1\n").unwrap();
    let error = refusal(&other);
    assert!(
        matches!(&error, OpenError::OtherFormat { found, .. } if found == "consent-mesh policy store 1"),
        "{error}"
    );

    fs::remove_file(other.join("FORMAT")).unwrap();
    assert!(matches!(refusal(&other), OpenError::NotAStore(_)));

    let missing = directory.path().join("no/such/parent");
    assert!(matches!(PolicyStore::open(&missing), Err(OpenError::Io { .. })));
    let file = directory.path().join("file");
    fs::write(&file, "x").unwrap();
    assert!(matches!(PolicyStore::open(&file), Err(OpenError::Io { .. })));
}

/// A store with some statements, closed.
async fn filled(path: &Path) {
    let store = Arc::new(open(path));
    for version in 1..=4 {
        put_all(
            &store,
            (0..200).map(|at| (device(&format!("d{at}")), statement(version, &[version as u8; 300]))).collect(),
        )
        .await;
    }
}

#[tokio::test]
async fn missing_and_shortened_files_are_refused_and_not_replaced_by_empty_ones() {
    let directory = tempfile::tempdir().unwrap();
    for (at, name) in ["conf", "db"].into_iter().enumerate() {
        let path = directory.path().join(at.to_string());
        filled(&path).await;
        fs::write(path.join(name), "").unwrap();
        assert!(refusal(&path).to_string().contains("is cut short"));
        fs::remove_file(path.join(name)).unwrap();
        assert!(refusal(&path).to_string().contains("is missing"));
    }
}

#[tokio::test]
async fn a_snapshot_that_a_kill_left_unfinished_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    filled(&path).await;
    // The second opening makes a snapshot of all that.
    drop(open(&path));
    let files = contents(&path);
    let (name, snapshot) = files.iter().find(|(name, _)| name.starts_with("snap.")).expect("there is a snapshot");
    for length in [0, 5, snapshot.len() / 2, snapshot.len()] {
        // Of a later moment than the finished one.
        let unfinished = path.join(format!("{}F.generating", &name[..name.len() - 1]));
        fs::write(&unfinished, &snapshot[..length]).unwrap();
        let store = open(&path);
        assert_eq!((store.count(), store.revision()), (200, Revision(800)), "{length} bytes");
        assert!(!unfinished.exists(), "{length} bytes");
    }
}

/// Writes a note as the store does: a revision and its complement.
fn write_note(path: &Path, name: &str, revision: u64) {
    fs::write(path.join(name), [revision.to_be_bytes(), (!revision).to_be_bytes()].concat()).unwrap();
}

#[tokio::test]
async fn what_was_recorded_is_noted_and_a_missing_or_torn_note_means_nothing_was() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    {
        let store = open(&path);
        assert_eq!(store.recorded(), Revision(0));
        for version in 1..=9 {
            store.put(device("a"), statement(version, b"x")).await.unwrap();
        }
        assert_eq!(store.recorded(), Revision(0), "storing is not recording");
        store.note_recorded(Revision(7)).unwrap();
        store.note_recorded(Revision(5)).unwrap();
        assert_eq!(store.recorded(), Revision(7), "a late note of less changes nothing");
    }
    let recorded = || open(&path).recorded();
    assert_eq!(recorded(), Revision(7), "also after a restart");

    let mut torn = [7_u64.to_be_bytes(), (!7_u64).to_be_bytes()].concat();
    assert_eq!(fs::read(path.join("RECORDED")).unwrap(), torn);
    torn[7] = 8;
    fs::write(path.join("RECORDED"), &torn).unwrap();
    assert_eq!(recorded(), Revision(0), "torn in the middle");
    fs::write(path.join("RECORDED"), &torn[..8]).unwrap();
    assert_eq!(recorded(), Revision(0), "half of it");
    fs::remove_file(path.join("RECORDED")).unwrap();
    assert_eq!(recorded(), Revision(0), "none at all");
    assert_eq!(fs::read(path.join("RECORDED")).unwrap().len(), 16, "there is one again");
}

/// An old copy of the database beside newer notes: acknowledged statements are lost, and their revisions would be given
/// a second time.
#[tokio::test]
async fn a_database_behind_either_note_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    filled(&path).await;
    for name in ["HIGHEST", "RECORDED"] {
        let before = fs::read(path.join(name)).unwrap();
        write_note(&path, name, 801);
        let error = PolicyStore::open(&path).expect_err("must be refused");
        assert!(error.to_string().contains("it is at revision 800, and was at 801 before"), "{name}: {error}");
        write_note(&path, name, 800);
        drop(open(&path));
        fs::write(path.join(name), before).unwrap();
    }
}

/// Whatever is wrong with the database file: opening either says so or gives everything that was acknowledged.
#[tokio::test]
async fn a_damaged_database_is_refused_or_complete() {
    let directory = tempfile::tempdir().unwrap();
    let original = directory.path().join("original");
    filled(&original).await;
    let files = contents(&original);
    let length = files["db"].len();
    let (mut refused, mut complete) = (0, 0);
    for at in 0..41 {
        let path = directory.path().join(format!("copy-{at}"));
        fs::create_dir_all(path.join("blobs")).unwrap();
        for (name, bytes) in files.iter().filter(|(name, _)| *name != "blobs") {
            fs::write(path.join(name), bytes).unwrap();
        }
        let mut bytes = files["db"].clone();
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        match at {
            // Pages in a row through what is written, the end cut off, or everything zero.
            0..30 => {
                let from = used * at / 30;
                for byte in bytes.iter_mut().skip(from).take(64) {
                    *byte ^= 0x55;
                }
            }
            30..39 => bytes.truncate(used * (at - 29) / 10),
            39 => bytes = vec![0; length],
            // And one that nothing happened to.
            _ => {}
        }
        fs::write(path.join("db"), &bytes).unwrap();
        match PolicyStore::open(&path) {
            Err(error @ (OpenError::Damaged { .. } | OpenError::Io { .. })) => {
                println!("case {at}: {error}");
                refused += 1;
            }
            Err(other) => panic!("{other}"),
            Ok(store) => {
                let entries = everything(&store);
                assert_eq!(entries.len(), 200, "case {at}");
                assert!(entries.iter().all(|entry| entry.statement == statement(4, &[4; 300])), "case {at}");
                complete += 1;
            }
        }
    }
    println!("{refused} refused, {complete} complete");
    assert!(refused >= 20 && complete >= 1, "{refused} refused, {complete} complete");
}
