//! The recorder: what it acknowledged is in the trace, whatever happens to the process, and the trace verifies.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use ed25519_dalek::SigningKey;
use mesh_runtime::recorder::{Found, Identity, OpenError, Position, RecordError, Recorder, Settings, files};
use pilot_core::codec::Digest;
use pilot_core::evidence::trace::action::{Action, Body, Cause, Item, Message, Party, Release, Word};
use pilot_core::evidence::trace::verify::{End, VerifyProblem};
use pilot_core::evidence::trace::{Content, GraphName, Open, PolicyBytes, Reason, Record, Standing, Step, Verifier};
use pilot_core::evidence::{AuditKey, DeviceName, Pseudonym, Signer};
use pilot_core::graph::Location;
use pilot_core::graphs;
use pilot_core::semantics::Epoch;
use pilot_core::sorted::Sorted;
use pilot_core::value::Time;

const NOW: Time = Time::from_unix(1_780_272_000);
const CHILD: &str = "RECORDER_CHILD";
const KILLS: u64 = 12;

fn later(seconds: u64) -> Time {
    Time::from_unix(NOW.unix() + seconds)
}

fn name(text: &str) -> DeviceName {
    DeviceName::new(text).unwrap()
}

fn identity() -> Identity {
    let graphs = vec![GraphName::of(&graphs::INDIRECT_CONTROLLER)];
    Identity { device: name("mall-gate"), graphs, mesh_serial: 7 }
}

fn signer() -> SigningKey {
    SigningKey::from_bytes(&[2; 32])
}

fn settings(directory: &Path) -> Settings {
    Settings::new(&directory.join("trace"))
}

fn open(settings: &Settings) -> (Recorder<SigningKey>, Found) {
    Recorder::open(settings.clone(), identity(), signer(), NOW).unwrap()
}

fn policy() -> PolicyBytes {
    PolicyBytes::new(b"stands for a policy".to_vec()).unwrap()
}

fn known(digest: &Digest) -> Option<PolicyBytes> {
    Some(policy()).filter(|policy| policy.digest() == *digest)
}

fn address(person: u32) -> [u8; 6] {
    let [a, b, c, d] = person.to_be_bytes();
    [0xC0, 0xFF, a, b, c, d]
}

/// An accepted broadcast; tests tell them apart by the instance.
fn step(person: u32) -> Step {
    let pseudonym = Pseudonym::of(&address(person), &AuditKey::new([9; 32].into()));
    let item = Item { pseudonym, datatype: Word::new("mac-address").unwrap() };
    let body = Body::Broadcast(Release { item, policy: policy().digest(), epoch: Epoch(27_816_750), handle: None });
    let message = Message { sender: Party::Owner, receiver: Party::Device(name("mall-gate")), body, id: None };
    let action = Action::Receive(message, Cause::default());
    Step { graph: 0, instance: person, from: Location::S2, action, to: Location::S3, outcomes: Sorted::new() }
}

fn record(recorder: &mut Recorder<SigningKey>, people: std::ops::Range<u32>) {
    for person in people {
        let head = recorder.step(step(person), known, NOW).unwrap();
        assert_eq!(head, recorder.head());
    }
}

/// Verifies the whole trace of a directory, as an auditor would.
fn audit(settings: &Settings) -> (Standing, Vec<Record>) {
    let key = Signer::verifying_key(&signer());
    let mut verifier = Verifier::new(|open: &Open| (open.device == identity().device).then_some(key));
    let mut records = Vec::new();
    for path in files::list(&settings.directory).unwrap() {
        let bytes = fs::read(&path).unwrap();
        let verified = verifier.file(&bytes, |_, record| records.push(record));
        verified.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    (verifier.standing(), records)
}

fn people(records: &[Record]) -> Vec<u32> {
    let person = |record: &Record| match &record.content {
        Content::Step(step) => Some(step.instance),
        _ => None,
    };
    records.iter().filter_map(person).collect()
}

fn only_file(settings: &Settings) -> std::path::PathBuf {
    let files = files::list(&settings.directory).unwrap();
    assert_eq!(files.len(), 1);
    files[0].clone()
}

#[test]
fn a_trace_goes_on_where_it_was_closed() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(directory.path());
    for (run, expected) in [Found::New, Found::Closed, Found::Closed].into_iter().enumerate() {
        let (mut recorder, found) = open(&settings);
        assert_eq!(found, expected);
        let first = run as u32 * 10;
        record(&mut recorder, first..first + 10);
        assert_eq!(audit(&settings).0.end, End::Open, "while it runs");
        recorder.close(NOW).unwrap();
        let (standing, records) = audit(&settings);
        assert_eq!((standing.end, standing.open_records), (End::Closed, 0));
        assert_eq!(people(&records), (0..first + 10).collect::<Vec<_>>());
    }
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&only_file(&settings)), 0o600);
    assert_eq!(mode(&settings.directory), 0o700);
    // Each run can be judged alone.
    let policies = audit(&settings).1.iter().filter(|record| matches!(record.content, Content::Policy(_))).count();
    assert_eq!(policies, 3);
}

#[test]
fn two_recorders_cannot_write_one_trace() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(directory.path());
    let (recorder, _) = open(&settings);
    let second = Recorder::open(settings.clone(), identity(), signer(), NOW);
    assert!(matches!(second.map(drop), Err(OpenError::Locked(_))));
    drop(recorder);
    assert_eq!(open(&settings).1, Found::Interrupted { torn: 0 });
}

/// Reference: evidence without secrets.
#[test]
fn no_address_is_in_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(directory.path());
    let (mut recorder, _) = open(&settings);
    record(&mut recorder, 0x0102_0304..0x0102_0308);
    recorder.close(NOW).unwrap();
    let bytes = fs::read(only_file(&settings)).unwrap();
    for person in 0x0102_0304..0x0102_0308 {
        assert!(!bytes.windows(6).any(|window| window == address(person)));
        let (written, plain) = (format!("{:02x?}", address(person)), address(person).map(|b| format!("{b:02x}")));
        for text in [written, plain.concat(), plain.join(":"), plain.concat().to_uppercase()] {
            assert!(!bytes.windows(text.len()).any(|window| window == text.as_bytes()), "{text}");
        }
    }
    assert!(bytes.windows(11).any(|window| window == b"mac-address"), "the search finds what is there");
}

/// A step whose policy nobody could read is not recorded, nor under bytes that are not the policy's.
#[test]
fn every_step_can_be_judged() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(directory.path());
    let (mut recorder, _) = open(&settings);
    let other = PolicyBytes::new(b"another".to_vec());
    for bytes in [None, other] {
        let refused = recorder.step(step(1), |_| bytes.clone(), NOW);
        assert!(matches!(refused, Err(RecordError::UnknownPolicy(digest)) if digest == policy().digest()));
    }
    record(&mut recorder, 2..3);
    assert_eq!(people(&audit(&settings).1), [2]);
}

/// After so many records, or so many seconds if there was anything to sign, or when the clock was set back.
#[test]
fn checkpoints_come_in_time_and_count_what_was_elided() {
    let directory = tempfile::tempdir().unwrap();
    let settings = Settings { checkpoint_records: 4, ..settings(directory.path()) };
    let (mut recorder, _) = open(&settings);
    let signed = || {
        let records = audit(&settings).1;
        let checkpoint = |record: &Record| match &record.content {
            Content::Checkpoint(checkpoint) | Content::Close { checkpoint, .. } => {
                Some((record.sequence, checkpoint.elided.iter().collect::<Vec<_>>()))
            }
            _ => None,
        };
        records.iter().filter_map(checkpoint).collect::<Vec<_>>()
    };
    record(&mut recorder, 0..2);
    assert_eq!(signed(), []);
    record(&mut recorder, 2..3);
    assert_eq!(signed(), [(4, vec![])], "four records, then the checkpoint, then the step");
    recorder.tick(later(59)).unwrap();
    assert_eq!(signed().len(), 1, "not yet");
    recorder.tick(later(60)).unwrap();
    assert_eq!(signed().len(), 2);
    recorder.tick(later(1_000)).unwrap();
    assert_eq!(signed().len(), 2, "nothing happened");
    let before = fs::metadata(only_file(&settings)).unwrap().len();
    (0..1_000).for_each(|_| recorder.elide(Reason::NotAddressed));
    recorder.elide(Reason::AlreadyHeld);
    assert_eq!(fs::metadata(only_file(&settings)).unwrap().len(), before, "refused people leave no byte");
    recorder.tick(later(1_000)).unwrap();
    assert_eq!(signed()[2].1, [(Reason::NotAddressed, 1_000), (Reason::AlreadyHeld, 1)]);
    recorder.elide(Reason::Other);
    recorder.tick(NOW).unwrap();
    assert_eq!(signed()[3].1, [(Reason::Other, 1)], "the clock was set back");
    recorder.close(NOW).unwrap();
    assert_eq!(signed()[4].1, [], "each is counted once");
}

/// Exhaustive: the machine stops after any byte of the last records. No complete record is lost, and what was not
/// complete is gone.
#[test]
fn torn_tails_at_every_byte() {
    let directory = tempfile::tempdir().unwrap();
    let original = settings(directory.path());
    let (mut recorder, _) = open(&original);
    record(&mut recorder, 0..1);
    drop(recorder);
    let bytes = fs::read(only_file(&original)).unwrap();
    let (_, complete) = audit(&original);
    for cut in 0..bytes.len() {
        let directory = tempfile::tempdir().unwrap();
        let settings = settings(directory.path());
        fs::create_dir(&settings.directory).unwrap();
        fs::write(files::path(&settings.directory, 0), &bytes[..cut]).unwrap();
        let before = audit(&settings);
        let (recorder, found) = open(&settings);
        let torn = before.0.torn_bytes;
        assert_eq!(found, if cut == 0 { Found::New } else { Found::Interrupted { torn } }, "{cut}");
        drop(recorder);
        let (standing, records) = audit(&settings);
        assert_eq!(records[..before.1.len()], complete[..before.1.len()]);
        assert!(cut == 0 || standing.open_records == 0, "what was found is signed at once");
        let Content::Open(reopened) = &records[before.1.len()].content else { panic!("an open record") };
        assert_eq!(reopened.torn, torn);
    }
}

/// Only an unfinished record is taken off. Anything else is left as it is, for a person to look at.
#[test]
fn a_damaged_trace_is_not_written_to() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(directory.path());
    let (mut recorder, _) = open(&settings);
    record(&mut recorder, 0..3);
    recorder.close(NOW).unwrap();
    let path = only_file(&settings);
    let bytes = fs::read(&path).unwrap();
    // The first byte, a previous hash, a body's length, a body, and the last byte.
    for at in [0, 10, 35, 36, 60, bytes.len() - 1] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 4;
        fs::write(&path, &damaged).unwrap();
        let refused = Recorder::open(settings.clone(), identity(), signer(), NOW).map(drop);
        assert!(matches!(refused, Err(OpenError::Damaged { .. })), "{at}");
        assert_eq!(fs::read(&path).unwrap(), damaged);
    }
    fs::write(&path, &bytes).unwrap();
    let other = Identity { device: name("shop-gate"), ..identity() };
    let Err(OpenError::Damaged { error, .. }) = Recorder::open(settings.clone(), other, signer(), NOW).map(drop) else {
        panic!("the trace of another device")
    };
    assert_eq!(error.problem, VerifyProblem::UnknownKey(name("mall-gate")));
    let stranger = SigningKey::from_bytes(&[3; 32]);
    let refused = Recorder::open(settings.clone(), identity(), stranger, NOW).map(drop);
    assert!(matches!(refused, Err(OpenError::Damaged { error, .. })
        if error.problem == VerifyProblem::Signature(name("mall-gate"))));
    assert_eq!(open(&settings).1, Found::Closed);
}

/// Files of a bounded size that form one chain, also if the device stops between two of them.
#[test]
fn a_full_file_is_followed_by_another() {
    let directory = tempfile::tempdir().unwrap();
    let settings = Settings { max_file_bytes: 2_000, ..settings(directory.path()) };
    let (mut recorder, _) = open(&settings);
    record(&mut recorder, 0..50);
    recorder.close(NOW).unwrap();
    let all: Vec<u32> = (0..50).collect();
    let (standing, records) = audit(&settings);
    assert_eq!((standing.end, people(&records)), (End::Closed, all.clone()));
    let files = files::list(&settings.directory).unwrap();
    assert!(files.len() >= 5, "{}", files.len());
    let count = |wanted: fn(&Content) -> bool| records.iter().filter(|record| wanted(&record.content)).count();
    assert_eq!(count(|content| matches!(content, Content::Policy(_))), files.len(), "each can be judged alone");
    assert_eq!(count(|content| matches!(content, Content::Close { continues: true, .. })), files.len() - 1);
    for file in &files {
        assert!(fs::metadata(file).unwrap().len() < 2_000 + 1_000);
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    }

    // The last file was not made, or is empty, or its first record is not complete.
    let last = files[files.len() - 1].clone();
    let bytes = fs::read(&last).unwrap();
    for cut in [None, Some(0), Some(1), Some(50)] {
        match cut {
            None => fs::remove_file(&last).unwrap(),
            Some(cut) => fs::write(&last, &bytes[..cut]).unwrap(),
        }
        let (mut recorder, found) = open(&settings);
        assert_eq!(found, Found::Interrupted { torn: cut.unwrap_or(0) as u64 });
        record(&mut recorder, 100..101);
        recorder.close(NOW).unwrap();
        let (standing, records) = audit(&settings);
        assert_eq!(standing.end, End::Closed);
        let steps = people(&records);
        assert_eq!((steps.last(), &steps[..steps.len() - 1]), (Some(&100), &all[..steps.len() - 1]));
        assert_eq!(files::list(&settings.directory).unwrap(), files);
    }
}

/// Runs this test's own program again as a child that does only `test`, through a shell that says `before`.
fn child(test: &str, directory: &Path, before: &str) -> Command {
    let mut command = Command::new("sh");
    let run = format!("{before} exec \"$0\" --exact {test} --nocapture");
    command.args(["-c", &run]).arg(std::env::current_exe().unwrap()).env(CHILD, directory).stdout(Stdio::piped());
    command
}

/// The number after `state` in a fixed sequence (Knuth's MMIX).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// One write per line: the parent must not see half of one.
fn say(line: &str) {
    std::io::stdout().write_all(format!("{line}\n").as_bytes()).unwrap();
}

#[test]
fn acknowledged_steps_survive_kill_9() {
    let small = |directory: &Path| Settings { checkpoint_records: 8, max_file_bytes: 4_000, ..settings(directory) };
    if let Some(directory) = std::env::var_os(CHILD) {
        let settings = small(Path::new(&directory));
        let (mut recorder, _) = open(&settings);
        let first = people(&audit(&settings).1).last().map_or(0, |last| last + 1);
        for person in first.. {
            recorder.step(step(person), known, NOW).unwrap();
            say(&format!("ack {person}"));
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let settings = small(directory.path());
    let (mut state, mut acknowledged) = (1, None);
    for kill in 0..KILLS {
        let mut child = child("acknowledged_steps_survive_kill_9", directory.path(), "").spawn().unwrap();
        let lines = 1 + next(&mut state) as usize % 150;
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let acks = output.by_ref().filter_map(|line| line.strip_prefix("ack ").map(|person| person.parse().unwrap()));
        acknowledged = acks.take(lines).last();
        child.kill().unwrap();
        child.wait().unwrap();
        // What it still said before it died.
        let said: Option<u32> = output.filter_map(|line| line.strip_prefix("ack ")?.parse().ok()).last();
        acknowledged = said.or(acknowledged);
        let recorded = people(&audit(&settings).1);
        assert!(recorded.iter().copied().eq(0..recorded.len() as u32), "kill {kill}: none twice, none missing");
        let acknowledged: u32 = acknowledged.unwrap();
        assert!(recorded.len() as u32 > acknowledged, "kill {kill}: {acknowledged} of {}", recorded.len());
    }
    let (recorder, found) = open(&settings);
    assert!(matches!(found, Found::Interrupted { .. }));
    recorder.close(NOW).unwrap();
    let (standing, records) = audit(&settings);
    assert_eq!(standing.end, End::Closed);
    println!("{} records, {KILLS} kills, last acknowledged {acknowledged:?}", records.len());
}

/// A disk that is full (for the test: a limit on the size of files): the step that does not fit is an error, nothing of
/// it is in the trace, and everything acknowledged before is.
#[test]
fn a_full_disk_is_an_error_and_leaves_a_whole_trace() {
    if let Some(directory) = std::env::var_os(CHILD) {
        let settings = Settings { checkpoint_records: 1_000_000, ..settings(Path::new(&directory)) };
        let (mut recorder, _) = open(&settings);
        let mut failures = 0;
        for person in 0.. {
            let (head, next) = (recorder.head(), recorder.next_sequence());
            match recorder.step(step(person), known, NOW) {
                Ok(_) => say(&format!("ack {person}")),
                Err(RecordError::Write(error)) => {
                    assert_eq!((recorder.head(), recorder.next_sequence()), (head, next), "as if nothing happened");
                    assert_eq!(error.kind(), std::io::ErrorKind::FileTooLarge);
                    failures += 1;
                }
                Err(error) => panic!("{error}"),
            }
            if failures == 3 {
                break;
            }
        }
        // A shorter record than the one that did not fit, as when there is room again.
        let tau = Step { action: Action::Tau, instance: u32::MAX, ..step(0) };
        let fits = recorder.step(tau, known, NOW).is_ok();
        say(&format!("fits {fits}"));
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    // Blocks of 512 bytes or of a kibibyte, as the shell likes; the signal that comes with the limit is ignored.
    let limit = "trap '' XFSZ; ulimit -f 20;";
    let child = child("a_full_disk_is_an_error_and_leaves_a_whole_trace", directory.path(), limit);
    let output = { child }.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let acknowledged: Vec<u32> =
        text.lines().filter_map(|line| line.strip_prefix("ack ")).map(|person| person.parse().unwrap()).collect();
    assert!(acknowledged.len() > 10, "{text}");
    let settings = settings(directory.path());
    let (standing, records) = audit(&settings);
    let mut expected = acknowledged;
    if text.contains("fits true") {
        expected.push(u32::MAX);
    }
    assert_eq!((standing.torn_bytes, people(&records)), (0, expected));
    assert!(matches!(open(&settings).1, Found::Interrupted { torn: 0 }));
}

fn followed(recorder: &Recorder<SigningKey>, from: Position) -> Option<Vec<u32>> {
    let mut records = Vec::new();
    let is_found = recorder.follow(from, |record, _| records.push(record)).unwrap();
    assert!(is_found || records.is_empty(), "what is of another trace is not shown");
    is_found.then(|| people(&records))
}

/// What follows a trace finds its place again, also if the trace went on in other files before anybody took note, and
/// notices when it is not the trace that it followed.
#[test]
fn a_position_is_found_again() {
    let directory = tempfile::tempdir().unwrap();
    let settings = Settings { max_file_bytes: 2_000, ..settings(directory.path()) };
    let (mut recorder, _) = open(&settings);
    let mut positions = vec![recorder.position()];
    for person in 0..40 {
        record(&mut recorder, person..person + 1);
        positions.push(recorder.position());
    }
    assert!(files::list(&settings.directory).unwrap().len() > 3);
    let all: Vec<u32> = (0..40).collect();
    assert_eq!(followed(&recorder, Position::START), Some(all.clone()));
    for (after, position) in positions.iter().enumerate() {
        assert_eq!(followed(&recorder, *position).as_deref(), Some(&all[after..]), "after {after}");
        let other = Position { next: position.next, head: Position::START.head };
        assert_eq!(followed(&recorder, other), None, "another trace of this length");
    }
    drop(recorder);
    let recorder = open(&settings).0;
    assert_eq!(followed(&recorder, positions[39]), Some(vec![39]), "also after a restart");
    let end = recorder.position();
    assert_eq!(followed(&recorder, Position { next: end.next + 1, ..end }), None, "a longer trace");

    // Old files may be kept elsewhere; a position in the others is still found, and one in them is not.
    fs::remove_file(&files::list(&settings.directory).unwrap()[0]).unwrap();
    assert_eq!(followed(&recorder, positions[39]), Some(vec![39]));
    assert_eq!(followed(&recorder, Position::START), None);
}
