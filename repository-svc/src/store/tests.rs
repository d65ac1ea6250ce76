//! Group commit seen from inside, with a sync that the test holds up or lets fail.

use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Waker};
use std::time::Duration;

use tempfile::TempDir;

use super::*;

fn device(name: &str) -> DeviceName {
    DeviceName::new(name).unwrap()
}

fn statement(version: u64, bytes: &[u8]) -> Statement {
    Statement::new(Version(version), bytes).unwrap()
}

/// A store whose sync says when it begins, and ends when and how it is told.
///
/// The last is dropped first: a test that fails lets the writer go before it waits for it.
fn held_store(directory: &TempDir) -> (PolicyStore, Receiver<()>, Sender<std::io::Result<()>>) {
    let (began, begins) = channel();
    let (end, ended) = channel();
    let sync = move |_: &std::fs::File| {
        // A test may not care.
        let _ = began.send(());
        ended.recv().unwrap_or(Ok(()))
    };
    (PolicyStore::open_with(&directory.path().join("store"), Box::new(sync)).unwrap(), begins, end)
}

/// Waits until a sync has begun.
fn wait(begins: &Receiver<()>) {
    begins.recv_timeout(Duration::from_secs(20)).expect("no sync begins");
}

type Queued<'s> = Pin<Box<dyn Future<Output = Result<Revision, PutError>> + 's>>;

/// Puts that are queued and not yet answered.
struct Started<'s>(Vec<Queued<'s>>);

/// Queues puts in this order, without waiting for their answers.
fn start(store: &PolicyStore, puts: impl IntoIterator<Item = (DeviceName, Statement)>) -> Started<'_> {
    let mut context = Context::from_waker(Waker::noop());
    let start = |(device, statement)| {
        let mut put: Queued<'_> = Box::pin(store.put(device, statement));
        assert!(put.as_mut().poll(&mut context).is_pending());
        put
    };
    Started(puts.into_iter().map(start).collect())
}

impl Started<'_> {
    async fn answers(self) -> Vec<Result<Revision, PutError>> {
        let mut answers = Vec::new();
        for put in self.0 {
            answers.push(put.await);
        }
        answers
    }
}

#[tokio::test]
async fn puts_that_arrive_during_a_sync_share_the_next_one() {
    let directory = tempfile::tempdir().unwrap();
    let (store, begins, end) = held_store(&directory);

    let first = start(&store, [(device("first"), statement(1, b"1"))]);
    wait(&begins);
    let others = start(&store, (0..63).map(|at| (device(&format!("device-{at}")), statement(1, b"1"))));
    drop(end);

    assert_eq!(first.answers().await, [Ok(Revision(1))]);
    assert!(others.answers().await.iter().all(Result::is_ok));
    assert_eq!((store.commits().statements(), store.commits().syncs()), (64, 2));
    assert_eq!((store.count(), store.revision()), (64, Revision(64)));
}

#[tokio::test]
async fn a_full_queue_answers_busy_at_once_and_what_was_queued_is_stored() {
    let directory = tempfile::tempdir().unwrap();
    let (store, begins, end) = held_store(&directory);

    let first = start(&store, [(device("first"), statement(1, b"1"))]);
    wait(&begins);
    let queued = start(&store, (0..MAX_QUEUED).map(|at| (device(&format!("device-{at}")), statement(1, b"1"))));
    assert_eq!(store.put(device("late"), statement(1, b"1")).await, Err(PutError::Busy));
    drop(end);

    assert!(first.answers().await.iter().chain(&queued.answers().await).all(Result::is_ok));
    assert_eq!(store.statement(&device("late")).unwrap(), None);
}

#[tokio::test]
async fn what_is_not_durable_yet_is_neither_answered_nor_read() {
    let directory = tempfile::tempdir().unwrap();
    let (store, begins, end) = held_store(&directory);
    let (old, new) = (device("old"), device("new"));
    end.send(Ok(())).unwrap();
    store.put(old.clone(), statement(1, b"before")).await.unwrap();
    wait(&begins);

    let puts = start(&store, [(old.clone(), statement(2, b"after"))]);
    wait(&begins);
    // A second group, of a new device and the same one again, waits behind the first.
    let more = start(&store, [(new.clone(), statement(1, b"new")), (old.clone(), statement(2, b"after"))]);
    let seen = || (store.statement(&old).unwrap(), store.statement(&new).unwrap(), store.revision(), store.count());
    let before = (Some(statement(1, b"before")), None, Revision(1), 1);
    assert_eq!(seen(), before);
    let changes = || store.changes(Revision(0), MAX_CHANGES_BYTES).unwrap();
    let entry =
        Entry { device: old.clone(), statement: statement(1, b"before"), revision: Revision(1), came: Came::default() };
    assert_eq!(changes(), Changes { entries: vec![entry], until: Revision(1), head: Revision(1) });

    end.send(Ok(())).unwrap();
    assert_eq!(puts.answers().await, [Ok(Revision(2))]);
    wait(&begins);
    assert_eq!(seen(), (Some(statement(2, b"after")), None, Revision(2), 1));
    let entry =
        Entry { device: old.clone(), statement: statement(2, b"after"), revision: Revision(2), came: Came::default() };
    assert_eq!(changes(), Changes { entries: vec![entry.clone()], until: Revision(2), head: Revision(2) });
    drop(end);
    let again = PutError::NotHigher { stored: Version(2), identical: true };
    assert_eq!(more.answers().await, [Ok(Revision(3)), Err(again)]);
    assert_eq!(store.count(), 2);
    let late =
        Entry { device: new.clone(), statement: statement(1, b"new"), revision: Revision(3), came: Came::default() };
    assert_eq!(changes().entries, [entry, late]);
}

/// The kernel may forget what it could not write and report success for the next sync, so there must be no next one.
#[tokio::test]
async fn after_a_failed_sync_nothing_is_accepted_and_readers_keep_the_durable_contents() {
    let directory = tempfile::tempdir().unwrap();
    let (store, _begins, end) = held_store(&directory);
    for result in [Ok(()), Err(std::io::Error::other("disk on fire")), Ok(())] {
        end.send(result).unwrap();
    }
    assert_eq!(store.put(device("a"), statement(1, b"1")).await, Ok(Revision(1)));
    assert_eq!(store.put(device("a"), statement(2, b"2")).await, Err(PutError::Failed));
    assert_eq!(store.put(device("a"), statement(3, b"3")).await, Err(PutError::Failed));
    assert_eq!(store.statement(&device("a")).unwrap(), Some(statement(1, b"1")));
    assert_eq!(store.revision(), Revision(1));
    let entry =
        Entry { device: device("a"), statement: statement(1, b"1"), revision: Revision(1), came: Came::default() };
    let durable = Changes { entries: vec![entry], until: Revision(1), head: Revision(1) };
    assert_eq!(store.changes(Revision(0), MAX_CHANGES_BYTES).unwrap(), durable);
    let failure = store.commits().failure().unwrap().to_string();
    assert_eq!(failure, "the policy store's file cannot be synced: disk on fire");
}

#[tokio::test]
async fn within_one_group_each_put_is_judged_by_those_before_it() {
    let directory = tempfile::tempdir().unwrap();
    let (store, begins, end) = held_store(&directory);
    let first = start(&store, [(device("first"), statement(1, b"1"))]);
    wait(&begins);

    let tasks = start(&store, [5, 4, 5, 6].map(|version| (device("same"), statement(version, b"x"))));
    drop(end);
    first.answers().await;
    let stored = |identical| PutError::NotHigher { stored: Version(5), identical };
    let expected = [Ok(Revision(2)), Err(stored(false)), Err(stored(true)), Ok(Revision(3))];
    assert_eq!(tasks.answers().await, expected);
    assert_eq!((store.count(), store.commits().syncs()), (2, 2));
    let changes = store.changes(Revision(1), MAX_CHANGES_BYTES).unwrap();
    let last =
        Entry { device: device("same"), statement: statement(6, b"x"), revision: Revision(3), came: Came::default() };
    assert_eq!(changes.entries, [last], "version 5 was replaced in its own group");
}

/// What is noted ahead of the store would make the daemon skip statements to come, and the store unreadable.
#[tokio::test]
async fn nothing_is_noted_as_recorded_that_is_not_durable() {
    let directory = tempfile::tempdir().unwrap();
    let (store, begins, end) = held_store(&directory);
    let put = start(&store, [(device("a"), statement(1, b"1"))]);
    wait(&begins);
    store.note_recorded(Revision(1)).unwrap();
    assert_eq!(store.recorded(), Revision(0));
    drop(end);
    assert_eq!(put.answers().await, [Ok(Revision(1))]);
    store.note_recorded(Revision(u64::MAX)).unwrap();
    assert_eq!(store.recorded(), Revision(1));
}

/// A store of two statements, with one entry of its tree overwritten.
async fn overwritten(path: &Path, key: &[u8], value: Vec<u8>) -> Result<PolicyStore, OpenError> {
    {
        let store = PolicyStore::open(path)?;
        store.put(device("a"), statement(1, b"1")).await.unwrap();
        store.put(device("b"), statement(1, b"1")).await.unwrap();
    }
    {
        let disk = format::open(path)?.disk;
        disk.statements.insert(key, value).unwrap();
        disk.database.flush().unwrap();
    }
    PolicyStore::open(path)
}

#[tokio::test]
async fn revisions_that_contradict_each_other_are_damage() {
    let directory = tempfile::tempdir().unwrap();
    let of = |revision| {
        format::Stored { statement: statement(1, b"1"), revision: Revision(revision), came: Came::default() }.encode()
    };
    let totals = |revision, count| format::Totals { revision: Revision(revision), count }.encode();
    let cases = [
        ("sound", b"b".as_slice(), of(2), None),
        ("zero", b"a", of(0), Some("a statement cannot be of revision 0")),
        ("twice", b"a", of(2), Some("a statement cannot be of revision 2")),
        ("ahead", b"b", of(3), Some("its last statement is of revision 3, and was of 2 before")),
        ("behind", format::TOTALS_KEY, totals(3, 2), Some("its last statement is of revision 2, and was of 3 before")),
        ("counted", format::TOTALS_KEY, totals(2, 3), Some("it has 2 statements, and had 3 before")),
    ];
    for (name, key, value, expected) in cases {
        let opened = overwritten(&directory.path().join(name), key, value).await;
        let problem = match opened {
            Ok(_) => None,
            Err(OpenError::Damaged { problem, .. }) => Some(problem),
            Err(other) => panic!("{name}: {other}"),
        };
        assert_eq!(problem.as_deref(), expected, "{name}");
    }
}

/// The index and the tree are two accounts of the same; where they differ, nothing is served.
#[tokio::test]
async fn a_statement_that_is_not_of_its_revision_is_not_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    PolicyStore::open(&path).unwrap().put(device("a"), statement(1, b"1")).await.unwrap();
    let Opened { disk, totals, index, .. } = format::open(&path).unwrap();
    let sound = View::new(disk.statements.clone(), totals, index);
    assert_eq!(sound.changes(Revision(0), 0).unwrap().entries.len(), 1);
    for wrong in [(Revision(2), device("a")), (Revision(1), device("b"))] {
        let view = View::new(disk.statements.clone(), totals, [wrong].into());
        assert!(matches!(view.changes(Revision(0), 0), Err(ReadError::Damaged)));
    }
}
