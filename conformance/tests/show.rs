//! `conform show`: traces as a person reads them, and what is said of those that were changed.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use conformance::show::{Form, ShowError, show};
use pilot_core::codec::Digest;
use pilot_core::evidence::trace::action::{Action, Body, Cause, Item, Message, Offer, Party, Release, Word};
use pilot_core::evidence::trace::verify::VerifyProblem;
use pilot_core::evidence::trace::{
    Chain, Checkpoint, Content, Elided, GraphName, Open, Outcome, PolicyBytes, Reason, Resume, Rule, Step,
};
use pilot_core::evidence::{DeviceName, Pseudonym, Signature};
use pilot_core::graph::Location;
use pilot_core::graphs;
use pilot_core::semantics::Epoch;
use pilot_core::sorted::Sorted;
use pilot_core::value::Time;

const NOW: Time = Time::from_unix(1_780_272_000);

/// A directory of its own, gone afterwards.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("show-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn with(name: &str, files: &[&[u8]]) -> Self {
        let directory = Self::new(name);
        for (number, file) in files.iter().enumerate() {
            fs::write(directory.0.join(format!("trace-{number:08}.cborseq")), file).unwrap();
        }
        fs::write(directory.0.join("lock"), "").unwrap();
        directory
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn gate() -> DeviceName {
    DeviceName::new("mall-gate").unwrap()
}

fn open(torn: u64) -> Content {
    let graphs = vec![GraphName::of(&graphs::INDIRECT_CONTROLLER)];
    Content::Open(Open { device: gate(), graphs, mesh_serial: 7, torn })
}

fn step(from: Location, action: Action, to: Location) -> Content {
    Content::Step(Box::new(Step { graph: 0, instance: 0, from, action, to, outcomes: Sorted::new() }))
}

fn accepted() -> Content {
    let item = Item { pseudonym: Pseudonym::from_bytes([0x9c; 32]), datatype: Word::new("MACAddress").unwrap() };
    let release = Release { item, policy: Digest([0x3f; 32]), epoch: Epoch(27_816_750), handle: None };
    let (sender, receiver) = (Party::Owner, Party::Device(gate()));
    let message = Message { sender, receiver, body: Body::Broadcast(release), id: None };
    step(Location::S2, Action::Receive(message, Cause::default()), Location::S3)
}

/// Nobody verifies it here.
fn checkpoint(elided: Elided) -> Checkpoint {
    Checkpoint { elided, signature: Signature([5; 64]) }
}

fn close(continues: bool) -> Content {
    Content::Close { checkpoint: checkpoint(Elided::default()), continues }
}

/// The records, each apart: a run of two files that was stopped.
fn records() -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let mut elided = Elided::default();
    elided.count(Reason::NotAddressed);
    elided.count(Reason::AlreadyHeld);
    elided.count(Reason::AlreadyHeld);
    let offer = |name: &str| Offer { device: DeviceName::new(name).unwrap(), policy: Digest([1; 32]), statement: None };
    let resume = Resume { policies: [offer("mall-gate"), offer("shop")].into(), ..Resume::default() };
    let mut judged = Step {
        graph: 0,
        instance: 3,
        from: Location::S3,
        action: Action::Tau,
        to: Location::S2,
        outcomes: Sorted::new(),
    };
    judged.outcomes.insert(Outcome { policy: Digest([1; 32]), rule: Rule::Collection, holds: true });
    judged.outcomes.insert(Outcome { policy: Digest([1; 32]), rule: Rule::Transfer(2), holds: false });
    let many = Action::ChangeOwn { own: (0..20).map(|byte| Digest([byte; 32])).collect() };
    let mut chain = Chain::new();
    let mut append = |content| chain.append(NOW, content).unwrap();
    let first = vec![
        append(open(0)),
        append(Content::Resume(Box::default())),
        append(Content::Resume(Box::new(resume))),
        append(Content::Policy(PolicyBytes::new(vec![0xf6]).unwrap())),
        append(accepted()),
        append(Content::Step(Box::new(judged))),
        append(Content::Checkpoint(checkpoint(elided))),
        append(step(Location::S2, many, Location::S2)),
        append(close(true)),
    ];
    let second = vec![append(open(17)), append(step(Location::S0, Action::Tau, Location::S1)), append(close(false))];
    (first, second)
}

fn shown(path: &Path, form: Form) -> (Result<(), ShowError>, String) {
    let mut out = Vec::new();
    let done = show(path, form, &mut out);
    (done, String::from_utf8(out).unwrap())
}

/// Damage, and which record and byte it is said to be at.
fn damage(directory: &Directory) -> (VerifyProblem, u64, u64) {
    match shown(&directory.0, Form::Text).0 {
        Err(ShowError::Damage { error, .. }) => (error.problem, error.record, error.offset),
        other => unreachable!("{other:?}"),
    }
}

fn length(records: &[Vec<u8>]) -> u64 {
    records.iter().map(Vec::len).sum::<usize>() as u64
}

/// Each kind of record has its line, in the paper's notation.
#[test]
fn a_trace_is_shown_line_by_line() {
    let (first, second) = records();
    let directory = Directory::with("lines", &[&first.concat(), &second.concat()]);
    let (done, text) = shown(&directory.0, Form::Text);
    done.unwrap();
    let when = "2026-06-01T00:00:00Z";
    for line in [
        format!("     0  {when}  open mall-gate: indirect-controller, mesh file 7"),
        format!("     1  {when}  resume: nothing"),
        format!("     2  {when}  resume: policies 2"),
        format!("     3  {when}  policy b0b2988b…, 1 byte"),
        format!("     4  {when}  s₂ –broadcast↓(owner, MACAddress 9c9c9c9c…, mall-gate, 3f3f3f3f…)→ s₃"),
        format!(
            "     5  {when}  indirect-controller 3: s₃ –τ→ s₂ where collection of 01010101… holds, transfer 2 of \
             01010101… does not hold"
        ),
        format!("     6  {when}  checkpoint, 3 steps elided: 1 not-addressed, 2 already-held"),
        format!("     8  {when}  close: the trace goes on in the next file"),
        format!(
            "     9  {when}  open mall-gate: indirect-controller, mesh file 7, after a crash that left 17 bytes of a record"
        ),
        format!("    11  {when}  close: the device stops"),
        "12 records, hashes and chain in order. The device has stopped, and said so.".to_string(),
        "Signatures were not verified: that takes keys, see `conform audit`.".to_string(),
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\nis not in\n{text}");
    }
    assert!(text.contains("and 12 more}") && !text.contains("Open tail"), "{text}");
}

/// One object per line, with whole digests.
#[test]
fn json_has_an_object_per_line() {
    let (first, second) = records();
    let directory = Directory::with("json", &[&first.concat(), &second.concat()]);
    let (done, text) = shown(&directory.0, Form::Json);
    done.unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = lines.iter().map(|line| line["kind"].as_str().unwrap()).collect();
    let expected =
        "open resume resume policy step step checkpoint step close open step close end".split(' ').collect::<Vec<_>>();
    assert_eq!(kinds, expected);
    assert_eq!(lines[4]["action"], "broadcast↓");
    assert_eq!(lines[4]["policy"], "3f".repeat(32));
    assert_eq!((lines[4]["from"].as_str(), lines[4]["to"].as_str()), (Some("s2"), Some("s3")));
    assert_eq!(lines[6]["elided"], serde_json::json!({"not-addressed": 1, "already-held": 2}));
    assert_eq!(lines[10]["offset"], second[0].len());
    assert_eq!(lines[10]["file"], "trace-00000001.cborseq");
    assert_eq!((lines[12]["end"].as_str(), lines[12]["records"].as_u64()), (Some("closed"), Some(12)));
}

/// A file alone is shown as well, also one from the middle.
#[test]
fn a_file_is_shown_alone() {
    let (first, second) = records();
    let directory = Directory::with("alone", &[&first.concat(), &second.concat()]);
    let (done, text) = shown(&directory.0.join("trace-00000000.cborseq"), Form::Text);
    done.unwrap();
    assert!(text.contains("The trace goes on in a file that is not here."), "{text}");
    let (done, text) = shown(&directory.0.join("trace-00000001.cborseq"), Form::Text);
    done.unwrap();
    assert!(text.contains("It begins with record 9: files are missing before it."), "{text}");
}

/// A bit that is flipped anywhere is found, or leaves an open tail and fewer records.
#[test]
fn damage_is_found() {
    let (first, second) = records();
    let whole = second.concat();
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1 << (at % 8);
        let directory = Directory::with("flip", &[&first.concat(), &changed]);
        match shown(&directory.0, Form::Text) {
            (Err(ShowError::Damage { path, error }), _) => {
                assert!(path.ends_with("trace-00000001.cborseq"));
                let record = second.iter().scan(0, |end, record| {
                    *end += record.len();
                    Some(*end)
                });
                let record = record.take_while(|end| *end <= at).count();
                assert!(
                    (error.record, error.offset) == (9 + record as u64, length(&second[..record])),
                    "{at}: {error}"
                );
            }
            (Ok(()), text) => assert!(text.contains("Open tail: 2 records"), "{at}: {text}"),
            (Err(other), _) => unreachable!("{other}"),
        }
    }
}

/// What is left out, repeated or moved does not follow.
#[test]
fn records_cannot_be_moved() {
    let (first, second) = records();
    let mut dropped = first.clone();
    dropped.remove(4);
    let directory = Directory::with("dropped", &[&dropped.concat(), &second.concat()]);
    assert_eq!(damage(&directory), (VerifyProblem::Previous, 4, length(&first[..4])));
    let mut swapped = first.clone();
    swapped.swap(4, 5);
    let directory = Directory::with("swapped", &[&swapped.concat(), &second.concat()]);
    assert_eq!(damage(&directory).0, VerifyProblem::Previous);
    let directory = Directory::with("order", &[&second.concat(), &first.concat()]);
    assert_eq!(damage(&directory).0, VerifyProblem::NotContinued);
    let directory = Directory::with("zeros", &[&first.concat(), &[&second.concat()[..], &[0; 8]].concat()]);
    assert_eq!(damage(&directory).2, length(&second));
    let torn = [&first.concat()[..length(&first) as usize - 3], &second.concat()].map(<[u8]>::to_vec);
    let directory = Directory::with("torn-first", &[&torn[0], &torn[1]]);
    assert_eq!(damage(&directory).0, VerifyProblem::AfterTorn);
}

/// A chain with right hashes is still refused where records stand in a place that is not theirs.
#[test]
fn order_is_checked() {
    let chained = |contents: Vec<Content>| {
        let mut chain = Chain::new();
        contents.into_iter().flat_map(|content| chain.append(NOW, content).unwrap()).collect::<Vec<u8>>()
    };
    let tau = || step(Location::S0, Action::Tau, Location::S1);
    for (name, contents, problem) in [
        ("no-open", vec![tau()], VerifyProblem::NotOpen),
        ("after-close", vec![open(0), close(false), tau()], VerifyProblem::NotOpen),
        ("after-end", vec![open(0), close(true), open(0)], VerifyProblem::AfterClose),
    ] {
        assert_eq!(damage(&Directory::with(name, &[&chained(contents)])).0, problem, "{name}");
    }
    let gap = Chain::resume(pilot_core::evidence::envelope::ChainHead([0; 32]), 5).append(NOW, open(0)).unwrap();
    assert_eq!(damage(&Directory::with("gap", &[&gap])).0, VerifyProblem::Beginning);
}

/// The end of a trace may be missing; then it is said what not to rely on.
#[test]
fn an_open_tail_is_said() {
    let (first, _) = records();
    let sealed = length(&first[..7]);
    for cut in sealed..length(&first) - 1 {
        let directory = Directory::with("tail", &[&first.concat()[..cut as usize]]);
        let (done, text) = shown(&directory.0, Form::Text);
        done.unwrap();
        assert!(text.contains("It is open") == (cut > sealed) || cut == sealed, "{text}");
        let records = if cut >= length(&first[..8]) { "1 record" } else { "0 records" };
        let bytes = cut - sealed;
        let expected = format!("Open tail: {records}, {bytes} byte");
        assert_eq!(text.contains(&expected), bytes > 0, "{cut}: {text}");
    }
}

/// A record that is larger than one piece of the file is read in pieces.
#[test]
fn large_records_are_shown() {
    let mut chain = Chain::new();
    let own: BTreeSet<Digest> = (0..20_000_u32)
        .map(|number| {
            let mut digest = [0; 32];
            digest[..4].copy_from_slice(&number.to_be_bytes());
            Digest(digest)
        })
        .collect();
    let large = step(Location::S2, Action::ChangeOwn { own }, Location::S2);
    let file = [open(0), large, close(false)].map(|content| chain.append(NOW, content).unwrap()).concat();
    assert!(file.len() > 600_000);
    let directory = Directory::with("large", &[&file]);
    let (done, text) = shown(&directory.0, Form::Text);
    done.unwrap();
    assert!(text.contains("and 19992 more}") && text.contains("3 records"), "{text}");
}

fn conform(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_conform")).args(arguments).output().unwrap()
}

/// Exit codes, and where damage is.
#[test]
fn the_command_says_what_is_wrong() {
    let (first, second) = records();
    let directory = Directory::with("command", &[&first.concat(), &second.concat()]);
    let path = directory.0.to_str().unwrap();
    assert_eq!(conform(&["show", path]).status.code(), Some(0));

    let mut changed = second.concat();
    let at = second[0].len() + 40;
    changed[at] ^= 1;
    fs::write(directory.0.join("trace-00000001.cborseq"), changed).unwrap();
    let output = conform(&["show", path]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("trace-00000001.cborseq` is damaged: record 10 at byte "), "{error}");
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 10, "what comes before it is shown");

    let empty = Directory::new("nothing");
    assert_eq!(conform(&["show", empty.0.to_str().unwrap()]).status.code(), Some(2));
    assert_eq!(conform(&["show", "there/is/no/such/trace"]).status.code(), Some(2));
    assert_eq!(conform(&["show", "/dev/null"]).status.code(), Some(2));
}

/// `conform show … | head` ends without a complaint.
#[test]
fn a_reader_may_leave_early() {
    let mut chain = Chain::new();
    let mut file = chain.append(NOW, open(0)).unwrap();
    for _ in 0..20_000 {
        file.extend(chain.append(NOW, step(Location::S0, Action::Tau, Location::S1)).unwrap());
    }
    let directory = Directory::with("early", &[&file]);
    let mut child = Command::new(env!("CARGO_BIN_EXE_conform"))
        .args(["show", directory.0.to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut some = [0; 100];
    child.stdout.take().unwrap().read_exact(&mut some).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}
