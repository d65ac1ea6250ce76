//! The vault: what is kept, what is erased, what is left in the file, and files it must refuse.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use dc_gateway::vault::{Change, Description, Handle, MAX_VALUE_BYTES, OpenError, Record, Secret, Swept, Vault};
use mesh_runtime::keys::KeyFileError;
use mesh_runtime::keys::secret_file::SecretFileError;
use mesh_runtime::recorder::Position;
use pilot_core::codec::Digest;
use pilot_core::evidence::envelope::ChainHead;
use pilot_core::evidence::{AuditKey, Pseudonym};
use pilot_core::graph::message::Withdrawal;
use pilot_core::semantics::Epoch;
use pilot_core::value::Time;
use tempfile::TempDir;
use zeroize::Zeroizing;

const NOW: Time = Time::from_unix(1_000_000);
const LATER: Time = Time::from_unix(2_000_000);

/// A directory with a vault and its key.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn vault(&self) -> PathBuf {
        self.0.path().join("vault")
    }

    fn key(&self) -> PathBuf {
        self.0.path().join("vault.key")
    }

    fn open_at(&self, now: Time) -> Result<(Vault, Swept), OpenError> {
        Vault::open(&self.vault(), &self.key(), now)
    }

    fn open(&self) -> Vault {
        self.open_at(NOW).unwrap().0
    }
}

fn pseudonym(person: u64) -> Pseudonym {
    Pseudonym::of(&person.to_be_bytes(), &AuditKey::new(Zeroizing::new([7; 32])))
}

/// A value that would be found in a file.
fn value(person: u64) -> Vec<u8> {
    format!("the-address-of-person-{person:06}").into_bytes()
}

fn item(person: u64, until: Time, epoch: u64) -> (Description, Secret) {
    let description = Description {
        pseudonym: pseudonym(person),
        datatype: "mac-address".into(),
        policy: Digest([person as u8; 32]),
        until,
        epoch: Epoch(epoch),
    };
    (description, Secret::new(value(person)).unwrap())
}

fn contains(file: &Path, bytes: &[u8]) -> bool {
    fs::read(file).unwrap().windows(bytes.len()).any(|window| window == bytes)
}

#[test]
fn what_is_kept_comes_back_also_after_a_restart() {
    let place = Place::new();
    let items = [item(1, LATER, 5), item(2, LATER, 6), item(1, LATER, 7)];
    let handles = place.open().insert(&items).unwrap();
    let vault = place.open();
    assert_eq!(vault.count().unwrap(), 3);
    for (handle, (_, secret)) in handles.iter().zip(&items) {
        assert_eq!(vault.reveal(*handle, NOW).unwrap().as_ref(), Some(secret));
    }
    let mut held = vault.held_of(&pseudonym(1)).unwrap();
    held.sort_by_key(|record| record.description.epoch);
    assert_eq!(held.iter().map(|record| record.handle).collect::<Vec<_>>(), [handles[0], handles[2]]);
    assert_eq!(held[0].description, items[0].0);
    assert_eq!(vault.held_of(&pseudonym(3)).unwrap(), []);

    let first = vault.records(None, 2).unwrap();
    let rest = vault.records(first.last().map(|record| record.handle), 2).unwrap();
    assert_eq!((first.len(), rest.len()), (2, 1));
    let mut listed: Vec<_> = first.iter().chain(&rest).map(|record| record.handle).collect();
    let mut expected = handles;
    expected.sort();
    assert!(listed.is_sorted());
    listed.sort();
    assert_eq!(listed, expected);
    assert_eq!(vault.reveal(Handle([0; 16]), NOW).unwrap(), None);
}

/// Changes happen in their order, and all or none of them.
#[test]
fn several_changes_are_one() {
    let place = Place::new();
    let mut vault = place.open();
    let keep = |person, epoch| {
        let (description, secret) = item(person, LATER, epoch);
        Change::Keep(Record { handle: Handle::random().unwrap(), description }, secret)
    };
    let withdrawal = Withdrawal { epoch: Epoch(5), until: LATER };
    let changes = [
        keep(1, 5),
        keep(2, 5),
        // Everything of the owner goes, as in the graph, also what was released later.
        keep(2, 6),
        Change::Withdraw(pseudonym(2), withdrawal),
        keep(3, 5),
        Change::Erase(pseudonym(3)),
        keep(3, 7),
    ];
    assert_eq!(vault.position().unwrap(), Position::START);
    let position = Position { next: 17, head: ChainHead([3; 32]) };
    vault.apply(&changes, position).unwrap();
    drop(vault);
    let mut vault = place.open();
    assert_eq!(vault.position().unwrap(), position, "also after compaction");
    let epochs = |vault: &Vault, person| {
        let held = vault.held_of(&pseudonym(person)).unwrap();
        held.iter().map(|record| record.description.epoch.0).collect::<Vec<_>>()
    };
    assert_eq!((1..=3).map(|person| epochs(&vault, person)).collect::<Vec<_>>(), [vec![5], vec![], vec![7]]);
    assert_eq!(vault.tombstones().unwrap(), [(pseudonym(2), withdrawal)]);
    let held: Vec<Handle> = vault.records(None, 10).unwrap().iter().map(|record| record.handle).collect();
    vault.discard(&[held[0], Handle([0; 16])]).unwrap();
    assert_eq!(vault.records(None, 10).unwrap().iter().map(|record| record.handle).collect::<Vec<_>>(), held[1..]);
}

/// A vault whose trace is another one keeps what was taken back, and nothing else.
#[test]
fn without_its_trace_nothing_is_held() {
    let place = Place::new();
    let mut vault = place.open();
    vault.insert(&[item(1, LATER, 5), item(2, NOW, 5)]).unwrap();
    vault.withdraw(&pseudonym(3), Withdrawal { epoch: Epoch(5), until: LATER }).unwrap();
    drop(vault);
    let mut vault = Vault::unlock(&place.vault(), &place.key()).unwrap();
    let position = Position { next: 4, head: ChainHead([1; 32]) };
    assert_eq!(vault.erase_all(position).unwrap(), 2);
    assert_eq!(vault.position().unwrap(), position);
    let (vault, swept) = vault.sweep(NOW).unwrap();
    assert!(swept.erased.is_empty() && swept.compacted);
    assert_eq!((vault.count().unwrap(), vault.tombstones().unwrap().len()), (0, 1));
}

#[test]
fn nothing_shows_a_value_by_accident() {
    let place = Place::new();
    let mut vault = place.open();
    let (description, secret) = item(1, LATER, 5);
    let shown = format!(
        "{vault:?} {secret:?} {description:?} {:?}",
        AuditKey::new(Zeroizing::new(*b"0123456789abcdef0123456789abcdef"))
    );
    vault.insert(&[(description, secret)]).unwrap();
    let shown = format!("{shown} {:?}", vault.records(None, 10).unwrap());
    for hidden in ["address-of-person", "0123456789", "48, 49"] {
        assert!(!shown.contains(hidden), "{shown}");
    }
    drop(vault);
    assert!(!contains(&place.vault(), &value(1)), "values are never in the file");
    assert!(Secret::new(vec![0; MAX_VALUE_BYTES + 1]).is_err());
}

type Row = (&'static str, &'static [u8; 32], u64, u64, &'static [u8; 32], &'static [u8]);
const RECORDS: redb::TableDefinition<&[u8; 16], Row> = redb::TableDefinition::new("records");
const KEYS: redb::TableDefinition<&[u8; 16], &[u8]> = redb::TableDefinition::new("keys");

/// The sealed value and the sealed key of a record in a closed vault, as the file has them.
fn sealed(file: &Path, handle: Handle) -> [Vec<u8>; 2] {
    let database = redb::Database::open(file).unwrap();
    let transaction = database.begin_read().unwrap();
    let records = transaction.open_table(RECORDS).unwrap();
    let keys = transaction.open_table(KEYS).unwrap();
    let value = records.get(&handle.0).unwrap().unwrap().value().5.to_vec();
    let key = keys.get(&handle.0).unwrap().unwrap().value().to_vec();
    [value, key]
}

#[test]
fn after_erasing_and_compacting_no_byte_of_the_record_is_in_the_file() {
    let place = Place::new();
    let mut vault = place.open();
    let keep: Vec<_> = (100..300).map(|person| item(person, LATER, 5)).collect();
    let kept = vault.insert(&keep).unwrap();
    let gone = vault.insert(&[item(1, LATER, 5), item(2, NOW, 5), item(3, LATER, 5)]).unwrap();
    drop(vault);
    let remembered: Vec<_> = gone.iter().flat_map(|handle| sealed(&place.vault(), *handle)).collect();
    for bytes in &remembered {
        assert!(contains(&place.vault(), bytes), "or the search below means nothing");
    }

    // By name, by its deadline, by a withdrawal.
    let vault = &mut place.open_at(Time::from_unix(NOW.unix() - 1)).unwrap().0;
    assert_eq!(vault.erase(&pseudonym(1)).unwrap(), 1);
    assert!(contains(&place.vault(), &remembered[0]), "erased, but lingering: this is why there is compact()");
    let notice = Withdrawal { epoch: Epoch(5), until: LATER };
    assert_eq!(vault.withdraw(&pseudonym(3), notice).unwrap(), 1);
    assert_eq!(vault.sweep(NOW).unwrap(), Swept { erased: vec![item(2, NOW, 5).0], forgotten: 0, compacted: true });
    assert!(!vault.compact().unwrap(), "there is nothing left to do");

    for bytes in &remembered {
        assert!(!contains(&place.vault(), bytes));
        for part in bytes.chunks_exact(12) {
            assert!(!contains(&place.vault(), part), "a part of it is left");
        }
    }
    for handle in &gone {
        assert!(!contains(&place.vault(), &handle.0));
        assert_eq!(vault.reveal(*handle, Time::from_unix(0)).unwrap(), None);
    }
    for (handle, (_, secret)) in kept.iter().zip(&keep) {
        assert_eq!(vault.reveal(*handle, NOW).unwrap().as_ref(), Some(secret));
    }
    let mut names: Vec<_> = fs::read_dir(place.0.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["vault", "vault.key"]);
}

/// Requirement 4, after downtime: what fell due is gone before anything can be read.
#[test]
fn opening_erases_what_fell_due_in_the_meantime() {
    let place = Place::new();
    let due = |seconds| Time::from_unix(NOW.unix() + seconds);
    let handles = place.open().insert(&[item(1, due(10), 5), item(2, due(20), 5), item(3, due(30), 5)]).unwrap();
    let remembered = sealed(&place.vault(), handles[1]);

    let (vault, swept) = place.open_at(due(20)).unwrap();
    let overdue = vec![item(1, due(10), 5).0, item(2, due(20), 5).0];
    assert_eq!(swept, Swept { erased: overdue, forgotten: 0, compacted: true });
    assert_eq!(vault.count().unwrap(), 1);
    assert!(remembered.iter().all(|bytes| !contains(&place.vault(), bytes)));
    assert!(vault.reveal(handles[2], due(29)).unwrap().is_some());
    assert_eq!(vault.reveal(handles[2], due(30)).unwrap(), None, "due, though not yet swept");
    drop(vault);
    assert_eq!(place.open_at(due(20)).unwrap().1, Swept::default());
}

#[test]
fn what_was_erased_before_a_crash_is_compacted_at_the_next_start() {
    let place = Place::new();
    let mut vault = place.open();
    let handle = vault.insert(&[item(1, LATER, 5)]).unwrap()[0];
    drop(vault);
    let remembered = sealed(&place.vault(), handle);
    place.open().erase(&pseudonym(1)).unwrap();
    fs::write(place.0.path().join("vault.new"), "what an interrupted compaction leaves").unwrap();
    let (_vault, swept) = place.open_at(NOW).unwrap();
    assert_eq!(swept, Swept { erased: vec![], forgotten: 0, compacted: true });
    assert!(remembered.iter().all(|bytes| !contains(&place.vault(), bytes)));
    assert!(!place.0.path().join("vault.new").exists());
}

/// Requirement 5: releases up to the notice's epoch are gone, later ones are not touched, and the tombstone stays as
/// long as it matters.
#[test]
fn a_withdrawal_erases_up_to_its_epoch_and_leaves_a_tombstone() {
    let place = Place::new();
    let mut vault = place.open();
    vault.insert(&[item(1, LATER, 4), item(1, LATER, 5), item(1, LATER, 6), item(2, LATER, 4)]).unwrap();
    let notice = |epoch, until| Withdrawal { epoch: Epoch(epoch), until: Time::from_unix(until) };
    assert_eq!(vault.tombstone(&pseudonym(1)).unwrap(), None);
    assert_eq!(vault.withdraw(&pseudonym(1), notice(5, 1_500_000)).unwrap(), 2);
    assert_eq!(vault.held_of(&pseudonym(1)).unwrap().len(), 1);
    assert_eq!(vault.held_of(&pseudonym(2)).unwrap().len(), 1);
    // An older notice that comes late takes nothing back of the newer one.
    assert_eq!(vault.withdraw(&pseudonym(1), notice(3, 1_600_000)).unwrap(), 0);
    drop(vault);

    let mut vault = place.open();
    let both = notice(5, 1_600_000);
    assert_eq!(vault.tombstone(&pseudonym(1)).unwrap(), Some(both));
    assert_eq!(vault.sweep(Time::from_unix(1_599_999)).unwrap().forgotten, 0);
    assert_eq!(vault.sweep(Time::from_unix(1_600_000)).unwrap().forgotten, 1);
    assert_eq!(vault.tombstone(&pseudonym(1)).unwrap(), None);
}

#[test]
fn ten_thousand_records_are_quick() {
    let place = Place::new();
    let mut vault = place.open();
    let items: Vec<_> = (0..10_000).map(|person| item(person, if person % 2 == 0 { NOW } else { LATER }, 5)).collect();
    let begin = Instant::now();
    let mut lap = {
        let mut last = begin;
        move |what: &str| println!("{what}: {:?}", std::mem::replace(&mut last, Instant::now()).elapsed())
    };
    let handles = vault.insert(&items).unwrap();
    lap("inserted");
    for handle in &handles {
        vault.reveal(*handle, Time::from_unix(0)).unwrap().unwrap();
    }
    lap("revealed");
    let Swept { erased, forgotten, compacted } = vault.sweep(NOW).unwrap();
    assert_eq!((erased.len(), forgotten, compacted), (5_000, 0, true));
    lap("half erased and compacted");
    drop(vault);
    assert_eq!(place.open().count().unwrap(), 5_000);
    lap("opened");
    // Generous, for a busy machine without optimisation: a step that is quadratic would take far longer.
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
}

#[test]
fn the_key_file_is_private_and_needed() {
    let place = Place::new();
    drop(place.open());
    for file in [place.key(), place.vault()] {
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    for mode in [0o640, 0o604, 0o660, 0o601] {
        fs::set_permissions(place.key(), fs::Permissions::from_mode(mode)).unwrap();
        let error = place.open_at(NOW).unwrap_err();
        assert!(matches!(error, OpenError::Key(SecretFileError::File(KeyFileError::Permissions { .. }))), "{error}");
        assert!(error.to_string().contains(&format!("mode {mode:04o}")), "{error}");
    }
    fs::set_permissions(place.key(), fs::Permissions::from_mode(0o400)).unwrap();
    drop(place.open());

    let key = fs::read(place.key()).unwrap();
    fs::remove_file(place.key()).unwrap();
    assert!(matches!(place.open_at(NOW), Err(OpenError::KeyMissing { .. })));
    assert!(!place.key().exists(), "no new key for an old vault");
    for wrong in [&key[..31], &[&key[..], b"\n"].concat()] {
        write_key(&place, wrong);
        assert!(matches!(place.open_at(NOW), Err(OpenError::Key(SecretFileError::Length(_)))));
    }
    write_key(&place, &[9; 32]);
    let before = fs::read(place.vault()).unwrap();
    assert!(matches!(place.open_at(LATER), Err(OpenError::WrongKey { .. })));
    write_key(&place, &key);
    drop(place.open());
    assert_eq!(before.len(), fs::read(place.vault()).unwrap().len());
}

fn write_key(place: &Place, bytes: &[u8]) {
    fs::write(place.key(), bytes).unwrap();
    fs::set_permissions(place.key(), fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn one_process_at_a_time_also_after_compacting() {
    let place = Place::new();
    let mut vault = place.open();
    assert!(matches!(place.open_at(NOW), Err(OpenError::InUse(_))));
    vault.insert(&[item(1, NOW, 5)]).unwrap();
    assert!(vault.sweep(NOW).unwrap().compacted);
    assert!(matches!(place.open_at(NOW), Err(OpenError::InUse(_))));
    drop(vault);
    drop(place.open());
}

/// Flipped bytes, cut ends, other files: an error that says so, or a vault in which everything is as it was.
#[test]
fn a_damaged_file_is_refused_or_complete_and_never_a_panic() {
    let place = Place::new();
    let items: Vec<_> = (0..300).map(|person| item(person, LATER, 5)).collect();
    let handles = place.open().insert(&items).unwrap();
    let sound = fs::read(place.vault()).unwrap();
    let (mut refused, mut complete) = (0, 0);
    let mut attempt = |bytes: &[u8], what: String| {
        fs::write(place.vault(), bytes).unwrap();
        match place.open_at(NOW) {
            Err(error) => {
                assert!(error.to_string().contains("vault"), "{what}: {error}");
                refused += 1;
            }
            Ok((vault, _)) => {
                for (handle, (_, secret)) in handles.iter().zip(&items) {
                    assert_eq!(vault.reveal(*handle, NOW).unwrap().as_ref(), Some(secret), "{what}");
                }
                complete += 1;
            }
        }
    };
    let step = sound.len() / 100;
    for at in (0..320).chain((320..sound.len()).step_by(step)) {
        let mut bytes = sound.clone();
        bytes[at] ^= 0xFF;
        attempt(&bytes, format!("byte {at}"));
    }
    for length in (0..sound.len()).step_by(sound.len() / 20) {
        attempt(&sound[..length], format!("{length} bytes"));
    }
    attempt(&[b'x'; 10_000], "another file".into());
    attempt(&vec![0; sound.len()], "zeros".into());
    attempt(&sound, "nothing".into());
    println!("{refused} refused, {complete} complete");
    assert!(refused > 50 && complete > 0, "{refused} refused, {complete} complete");
}

/// Somebody who can write to the file but lacks the key cannot give a value a later deadline.
#[test]
fn a_record_is_bound_to_what_it_says() {
    let place = Place::new();
    let handle = place.open().insert(&[item(1, LATER, 5)]).unwrap()[0];
    {
        let database = redb::Database::open(place.vault()).unwrap();
        let transaction = database.begin_write().unwrap();
        {
            let mut records = transaction.open_table(RECORDS).unwrap();
            let row = records.remove(&handle.0).unwrap().unwrap();
            let (datatype, policy, until, epoch, pseudonym, sealed) = row.value();
            let (policy, pseudonym, sealed) = (*policy, *pseudonym, sealed.to_vec());
            let datatype = datatype.to_owned();
            drop(row);
            records
                .insert(
                    &handle.0,
                    (datatype.as_str(), &policy, until + 1_000_000, epoch, &pseudonym, sealed.as_slice()),
                )
                .unwrap();
        }
        transaction.commit().unwrap();
    }
    let error = place.open().reveal(handle, NOW).unwrap_err();
    assert_eq!(error.to_string(), format!("the record {handle} is damaged"));
}
