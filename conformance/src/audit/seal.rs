//! First pass: how far each trace can be believed. Chain, numbers and signatures are verified; what steps say is not read.
//!
//! Traces are independent of each other here, so all cores work.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use pilot_core::evidence::keys::verify_all;
use pilot_core::evidence::mesh::MeshDevice;
use pilot_core::evidence::trace::verify::{End, VerifyError, VerifyProblem};
use pilot_core::evidence::trace::{Content, GraphName, Head, Open, Reader, Record, Standing, Verifier};
use pilot_core::evidence::{DeviceName, VerifyingKey};
use pilot_core::value::Time;

use super::facts::Found;
use super::hashing::Hashing;
use super::judges::MAX_JUDGES;
use super::report::rules;
use super::sources::{Sources, TraceFiles};

/// How much of a file is read at once.
const PIECE_BYTES: usize = 128 << 10;

/// How many signatures are verified at once.
const SIGNATURES: usize = 64;

/// How far a trace can be believed.
#[derive(Debug)]
pub struct Sealed {
    /// Where it lies.
    pub files: TraceFiles,
    /// Whose it is, and what it runs, as its first record says.
    pub first: Option<Open>,
    /// What was read.
    pub standing: Standing,
    /// Where the last signed record ends: which file, and the byte after it. Nothing after it is judged.
    pub end: Option<(usize, u64)>,
    /// The first and the last sealed time.
    pub period: (Time, Time),
    /// How many signatures were verified.
    pub signatures: u64,
    /// What is wrong after that.
    pub damage: Option<Damage>,
}

/// What is wrong with a trace, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The number that the record should have.
    pub record: u64,
    /// Which rule.
    pub rule: &'static str,
    /// Where and what.
    pub text: String,
    /// Whether nobody knows the key: then there is nothing to say against the trace itself.
    pub is_unknown_key: bool,
}

impl Sealed {
    /// The device, if it is known.
    pub fn device(&self) -> Option<&DeviceName> {
        self.first.as_ref().map(|open| &open.device)
    }

    /// The graph that it runs.
    pub fn graph(&self) -> Option<GraphName> {
        self.first.as_ref().and_then(|open| open.graphs.first().copied())
    }

    /// Whether it was closed, so that nothing can be missing at its end.
    pub fn is_closed(&self) -> bool {
        self.damage.is_none() && self.standing.end == End::Closed
    }
}

/// The keys that verify traces.
#[derive(Debug, Default)]
pub struct Keys<'m> {
    /// Of devices in mesh files: by name, the serials with what they say of the device.
    devices: BTreeMap<&'m DeviceName, Vec<(u64, &'m MeshDevice)>>,
    /// Of subjects.
    subjects: BTreeMap<DeviceName, VerifyingKey>,
    /// The highest serial of a mesh file.
    newest: u64,
}

impl<'m> Keys<'m> {
    /// Everything that the sources know.
    pub fn of(sources: &'m Sources) -> Self {
        let mut keys = Self::default();
        for mesh in &sources.meshes {
            let serial = mesh.file.contents().serial;
            keys.newest = keys.newest.max(serial);
            for device in mesh.file.devices() {
                keys.devices.entry(&device.name).or_default().push((serial, device));
            }
        }
        let opened = sources.openings.iter().filter_map(|opening| Some((opening.device.clone(), opening.signing_key?)));
        keys.subjects.extend(opened);
        keys
    }

    /// That of a trace that opens like this: from the mesh file that it names, or else from the last one before, or else from
    /// the first one after.
    pub fn of_trace(&self, open: &Open) -> Option<VerifyingKey> {
        let Some(known) = self.devices.get(&open.device) else { return self.subjects.get(&open.device).copied() };
        let before = known.iter().rev().find(|(serial, _)| *serial <= open.mesh_serial);
        before.or(known.first()).map(|(_, device)| device.signing_key)
    }

    /// What the operator says last of the device that has this key: that it was revoked may be said later.
    pub fn last_word(&self, open: &Open) -> Option<&'m MeshDevice> {
        let key = self.of_trace(open)?;
        let known = self.devices.get(&open.device)?.iter().rev();
        known.map(|(_, device)| *device).find(|device| device.signing_key == key)
    }
}

/// Verifies every trace, and finds the policies in them; `read` is told how many bytes were done.
pub fn seal_all(
    threads: NonZeroUsize,
    traces: &[TraceFiles],
    keys: &Keys<'_>,
    read: &AtomicU64,
) -> (Vec<Sealed>, Found) {
    let (next, done, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()), Mutex::new(Found::new()));
    std::thread::scope(|scope| {
        for _ in 0..threads.get().min(MAX_JUDGES).min(traces.len()) {
            scope.spawn(|| {
                let mut reader = Reader::new();
                while let Some((at, files)) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    traces.get(at).map(|files| (at, files))
                } {
                    let sealed = seal(files, keys, &found, &mut reader, read);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((at, sealed));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    (done.into_iter().map(|(_, sealed)| sealed).collect(), found)
}

fn seal(files: &TraceFiles, keys: &Keys<'_>, found: &Mutex<Found>, reader: &mut Reader, read: &AtomicU64) -> Sealed {
    let verifier = || Verifier::new(|open: &Open| keys.of_trace(open));
    let skimming = |verifier| Skimming {
        verifier,
        hashing: Hashing::new(),
        keys,
        found,
        listed: None,
        end: None,
        period: None,
        last: Time::default(),
        signatures: 0,
        first: None,
        read: 0,
        is_doubtful: false,
    };
    // Signatures are verified many at once. If one of them is wrong, everything is read again, to see which.
    let mut quick = skimming(verifier().put_off_signatures());
    let damage = quick.all(files, reader, read);
    if !quick.is_doubtful {
        return quick.sealed(files, damage);
    }
    read.fetch_sub(quick.read, Ordering::Relaxed);
    let mut thorough = skimming(verifier());
    let damage = thorough.all(files, reader, read);
    thorough.sealed(files, damage)
}

struct Skimming<'k, K> {
    verifier: Verifier<K>,
    hashing: Hashing,
    keys: &'k Keys<'k>,
    found: &'k Mutex<Found>,
    /// What is known of the device of the last `open` record.
    listed: Option<&'k MeshDevice>,
    end: Option<(usize, u64)>,
    period: Option<(Time, Time)>,
    last: Time,
    signatures: u64,
    first: Option<Open>,
    /// How many bytes were read.
    read: u64,
    /// Some signature that was put off is wrong.
    is_doubtful: bool,
}

impl<K: FnMut(&Open) -> Option<VerifyingKey>> Skimming<'_, K> {
    /// Reads all files, as far as they are undamaged.
    fn all(&mut self, files: &TraceFiles, reader: &mut Reader, read: &AtomicU64) -> Option<Damage> {
        let damage = (0..files.files.len()).find_map(|at| self.file(files, at, reader, read).err());
        self.settle(1);
        damage
    }

    fn sealed(self, files: &TraceFiles, damage: Option<Damage>) -> Sealed {
        let Self { verifier, end, period, signatures, first, .. } = self;
        let (files, standing, period) = (files.clone(), verifier.standing(), period.unwrap_or_default());
        Sealed { files, first, standing, end, period, signatures, damage }
    }

    /// Verifies the signatures that were put off, if there are as many.
    fn settle(&mut self, least: usize) {
        if let Some(signatures) = self.verifier.take_put_off(least) {
            self.is_doubtful |= !verify_all(&signatures);
        }
    }

    fn file(&mut self, files: &TraceFiles, at: usize, reader: &mut Reader, read: &AtomicU64) -> Result<(), Damage> {
        let Some(path) = files.files.get(at) else { return Ok(()) };
        let about = |record, rule, text| Damage { record, rule, text, is_unknown_key: false };
        let unreadable = |record, error: std::io::Error| {
            about(record, rules::FILE, format!("`{}` cannot be read: {error}", path.display()))
        };
        let damaged = |error: VerifyError| Damage {
            record: error.record,
            rule: rule_of(&error.problem),
            text: format!("`{}`, {error}", path.display()),
            is_unknown_key: matches!(error.problem, VerifyProblem::UnknownKey(_)),
        };
        let number = self.verifier.standing().records;
        if let Some(missing) = files.missing_before(at) {
            return Err(about(number, rules::CHAIN, format!("`{}` is missing", missing.display())));
        }
        let mut file = File::open(path).map_err(|error| unreadable(number, error))?;
        self.verifier.begin_file();
        reader.restart();
        loop {
            let length = reader.feed_by(PIECE_BYTES, |room| file.read(room));
            let length = length.map_err(|error| unreadable(self.verifier.standing().records, error))?;
            read.fetch_add(length as u64, Ordering::Relaxed);
            self.read = self.read.saturating_add(length as u64);
            // What comes after a wrong signature does not matter.
            if length == 0 || self.is_doubtful {
                break;
            }
            let (frames, misframed) = reader.frames();
            for ((offset, frame), true_hash) in frames.iter().zip(self.hashing.true_hashes(&frames)) {
                self.may_sign(frame.body, *offset, path)?;
                let head = self.verifier.skim(*offset, frame, true_hash).map_err(damaged)?;
                self.last = self.last.max(head.time);
                if head.is_policy() {
                    self.find(frame.body);
                }
                if head.is_signature() {
                    self.signatures += 1;
                    self.settle(SIGNATURES);
                    self.end = Some((at, offset.saturating_add(frame.length as u64)));
                    // The latest that it says, not what it says last: that would be its own choice.
                    self.period.get_or_insert((head.time, head.time)).1 = self.last;
                } else if self.period.is_none() {
                    self.period = Some((head.time, head.time));
                }
            }
            if let Some(error) = misframed {
                return Err(damaged(self.verifier.misframed(error)));
            }
        }
        let offset = reader.offset();
        let rest = reader.finish().map_err(|error| damaged(self.verifier.misframed(error)))?;
        self.verifier.end_file(offset, rest).map_err(damaged)
    }

    /// A policy is known by the hash of its bytes, so it does not matter in whose trace it is, nor where.
    fn find(&self, body: &[u8]) {
        if let Ok(Record { content: Content::Policy(policy), .. }) = Record::from_bytes(body) {
            let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
            found.entry(policy.digest()).or_insert(policy);
        }
    }

    /// A signature counts only while the operator lets the device sign. Looked at before the verifier does, which would believe it.
    fn may_sign(&mut self, body: &[u8], offset: u64, path: &Path) -> Result<(), Damage> {
        let Some(head) = Head::of(body).filter(|head| !head.is_plain()) else { return Ok(()) };
        let (record, path) = (head.sequence, path.display());
        let damage = |rule, why: String| {
            let text = format!("`{path}`, record {record} at byte {offset}: {why}");
            Err(Damage { record, rule, text, is_unknown_key: false })
        };
        if let Some(open) = open_of(body) {
            let (serial, newest) = (open.mesh_serial, self.keys.newest);
            self.listed = self.keys.last_word(&open);
            self.first.get_or_insert(open);
            // Who takes part and which words there are, only that one says.
            return if serial <= newest {
                Ok(())
            } else {
                damage(rules::MESH, format!("it names mesh file {serial}, and the newest one here is {newest}"))
            };
        }
        let Some(Err(invalid)) = self.listed.map(|device| device.check_valid(head.time)) else { return Ok(()) };
        damage(rules::SIGNATURE, format!("the key that signed it at {} is {invalid}", head.time))
    }
}

fn open_of(body: &[u8]) -> Option<Open> {
    match Record::from_bytes(body).ok()?.content {
        Content::Open(open) => Some(open),
        _ => None,
    }
}

fn rule_of(problem: &VerifyProblem) -> &'static str {
    match problem {
        VerifyProblem::Sequence(_) | VerifyProblem::Beginning => rules::SEQUENCE,
        VerifyProblem::Signature(_) | VerifyProblem::UnknownKey(_) => rules::SIGNATURE,
        VerifyProblem::Frame(_)
        | VerifyProblem::Body(_)
        | VerifyProblem::Hash
        | VerifyProblem::Previous
        | VerifyProblem::NotOpen
        | VerifyProblem::AfterClose
        | VerifyProblem::NotContinued
        | VerifyProblem::AfterTorn
        | VerifyProblem::Device(..)
        | VerifyProblem::Graph(_) => rules::CHAIN,
    }
}
