//! The policy store from outside: versions, order, chunks, restarts, and directories it must refuse.

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

use repository_svc::store::{
    DeviceName, Entry, MAX_CHUNK_BYTES, MAX_STATEMENT_BYTES, OpenError, PolicyStore, PutError, Revision, Statement,
    Version,
};
use tokio::task::JoinSet;

fn device(name: &str) -> DeviceName {
    DeviceName::parse(name).unwrap()
}

fn statement(version: u64, bytes: &[u8]) -> Statement {
    Statement::new(Version(version), bytes).unwrap()
}

fn everything(store: &PolicyStore, max_bytes: usize) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    loop {
        let chunk = store.chunk(entries.last().map(|entry| &entry.device), max_bytes).unwrap();
        entries.extend(chunk.entries);
        if chunk.is_last {
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
        let store = PolicyStore::open(&path).unwrap();
        assert_eq!((store.count(), store.revision()), (0, Revision(0)));
        assert_eq!(store.statement(&mall).unwrap(), None);
        assert_eq!(store.put(mall.clone(), statement(3, b"policy")).await, Ok(Revision(1)));
        assert_eq!(store.put(mall.clone(), statement(7, b"withdrawal")).await, Ok(Revision(2)));
    }
    let store = PolicyStore::open(&path).unwrap();
    for (version, bytes, identical) in [(3, &b"policy"[..], false), (7, b"another", false), (7, b"withdrawal", true)] {
        let refused = PutError::NotHigher { stored: Version(7), identical };
        assert_eq!(store.put(mall.clone(), statement(version, bytes)).await, Err(refused));
    }
    assert_eq!(store.statement(&mall).unwrap(), Some(statement(7, b"withdrawal")));
    assert_eq!((store.count(), store.revision()), (1, Revision(2)), "a refusal changes nothing");
    assert_eq!(store.put(mall.clone(), statement(u64::MAX, b"last")).await, Ok(Revision(3)));
}

#[tokio::test]
async fn chunks_give_every_statement_once_in_the_order_of_the_names() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(PolicyStore::open(&directory.path().join("store")).unwrap());
    let expected: BTreeMap<_, _> =
        (0..500_u64).map(|at| (device(&format!("d{at}")), statement(1, &vec![7; at as usize]))).collect();
    put_all(&store, expected.clone().into_iter().collect()).await;

    for max_bytes in [0, 1_000, 10_000, usize::MAX] {
        let entries = everything(&store, max_bytes);
        assert!(entries.iter().map(|entry| (&entry.device, &entry.statement)).eq(&expected), "{max_bytes}");
    }
    let chunk = store.chunk(Some(&device("d498")), 1_000).unwrap();
    let names: Vec<_> = chunk.entries.iter().take(3).map(|entry| entry.device.as_str()).collect();
    assert_eq!((names, chunk.is_last), (vec!["d499", "d5", "d50"], false));
    let sizes = chunk.entries.iter().map(|entry| entry.device.as_str().len() + entry.statement.bytes().len());
    assert!((900..=1_000).contains(&sizes.sum::<usize>()));
    assert_eq!(store.chunk(None, 0).unwrap().entries.len(), 1, "always at least one");
    let after_all = store.chunk(Some(&device("zzz")), 0).unwrap();
    assert!(after_all.is_last && after_all.entries.is_empty());
}

#[tokio::test]
async fn a_chunk_says_of_which_contents_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let store = PolicyStore::open(&directory.path().join("store")).unwrap();
    for name in ["a", "b"] {
        store.put(device(name), statement(1, b"1")).await.unwrap();
    }
    let first = store.chunk(None, 0).unwrap();
    store.put(device("b"), statement(2, b"2")).await.unwrap();
    let second = store.chunk(Some(&device("a")), 0).unwrap();
    assert_eq!((first.revision, second.revision), (Revision(2), Revision(3)));
    assert_eq!(second.entries, [Entry { device: device("b"), statement: statement(2, b"2") }]);
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
        let store = Arc::new(PolicyStore::open(&path).unwrap());
        for version in 1..=3 {
            put_all(&store, (0..100).map(|at| (name(at), statement(version, &longest))).collect()).await;
            assert_eq!(fs::read_dir(path.join("blobs")).unwrap().count(), 0, "version {version}");
        }
    }
    let store = PolicyStore::open(&path).unwrap();
    assert_eq!(fs::read_dir(path.join("blobs")).unwrap().count(), 0);
    assert_eq!(everything(&store, MAX_CHUNK_BYTES).len(), 100);
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
    let store = PolicyStore::open(&path).unwrap();
    store.put(device("a"), statement(1, b"1")).await.unwrap();
    let error = refusal(&path);
    assert!(matches!(error, OpenError::InUse(_)), "{error}");
    assert_eq!(store.put(device("a"), statement(2, b"2")).await, Ok(Revision(2)), "the first goes on");
    drop(store);
    assert_eq!(PolicyStore::open(&path).unwrap().count(), 1);
}

#[test]
fn other_directories_and_formats_are_refused_and_not_touched() {
    let directory = tempfile::tempdir().unwrap();
    let other = directory.path().join("other");
    fs::create_dir(&other).unwrap();
    drop(PolicyStore::open(&other).expect("an empty directory becomes a store"));

    fs::write(other.join("FORMAT"), "consent-mesh policy store 2\n").unwrap();
    let error = refusal(&other);
    assert!(
        matches!(&error, OpenError::OtherFormat { found, .. } if found == "consent-mesh policy store 2"),
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
    let store = Arc::new(PolicyStore::open(path).unwrap());
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
                let entries = everything(&store, MAX_CHUNK_BYTES);
                assert_eq!(entries.len(), 200, "case {at}");
                assert!(entries.iter().all(|entry| entry.statement == statement(4, &[4; 300])), "case {at}");
                complete += 1;
            }
        }
    }
    println!("{refused} refused, {complete} complete");
    assert!(refused >= 20 && complete >= 1, "{refused} refused, {complete} complete");
}
