//! A trace as a daemon's recorder writes it, without waiting for the disk after each record.
//!
//! Thousands of devices write at once, more than a process may have open files: records are collected in memory and
//! appended to the file now and then.

use std::fs::{DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use hashbrown::HashSet;
use pilot_core::codec::{self, Digest};
use pilot_core::evidence::DeviceName;
use pilot_core::evidence::envelope::ChainHead;
use pilot_core::evidence::trace::{Chain, Content, Elided, GraphName, Open, PolicyBytes, Reason, Resume, Step};
use pilot_core::policy::Choice;
use pilot_core::semantics::Policies;
use pilot_core::value::Time;
use pilot_core::vocabulary::Vocabulary;

use super::{DIRECTORY_MODE, SimulateError};
use crate::keys::Keys;
use crate::show::trace_file_name;

/// A checkpoint after this many records.
pub const CHECKPOINT_RECORDS: u64 = 1_024;
/// A checkpoint after this many seconds, if there is anything to sign.
pub const CHECKPOINT_SECONDS: u64 = 60;
/// A new file once one has this many bytes, unless told otherwise.
pub const MAX_FILE_BYTES: u64 = 64 << 20;
const FILE_MODE: u32 = 0o600;
/// The serial of the mesh file.
const MESH_SERIAL: u64 = 1;

/// What policies are called and made of.
#[derive(Clone, Copy)]
pub struct Words<'w> {
    /// The policies in use.
    pub policies: &'w Policies,
    /// Their words.
    pub vocabulary: &'w Vocabulary,
}

impl Words<'_> {
    fn bytes(&self, digest: &Digest) -> Option<PolicyBytes> {
        let policy = self.policies.policy(self.policies.by_digest(digest)?)?;
        PolicyBytes::new(codec::encode(&Choice::Policy(policy.clone()), self.vocabulary))
    }
}

/// How much goes where.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How many bytes of records are kept in memory before they are written.
    pub buffer_bytes: usize,
    /// How many bytes a file has before the next one is begun.
    pub file_bytes: u64,
}

/// Writes one trace.
pub struct Writer {
    directory: PathBuf,
    device: DeviceName,
    graph: GraphName,
    keys: Keys,
    chain: Chain,
    number: u32,
    /// How many bytes the file has, those in the buffer included.
    length: u64,
    total: u64,
    buffer: Vec<u8>,
    limits: Limits,
    /// The policies since the last `open`; those that nobody has any more are forgotten.
    named: HashSet<Digest>,
    elided: Elided,
    unsigned: u64,
    signed_at: Time,
}

impl Writer {
    /// A trace that has nothing in it yet, in a directory that does not exist yet.
    pub fn new(
        directory: PathBuf,
        device: DeviceName,
        graph: GraphName,
        keys: Keys,
        limits: Limits,
    ) -> Result<Self, SimulateError> {
        let made = DirBuilder::new().mode(DIRECTORY_MODE).create(&directory);
        made.map_err(|error| SimulateError::File { path: directory.clone(), error })?;
        Ok(Self {
            directory,
            device,
            graph,
            keys,
            chain: Chain::new(),
            number: 0,
            length: 0,
            total: 0,
            buffer: Vec::new(),
            limits,
            named: HashSet::new(),
            elided: Elided::default(),
            unsigned: 0,
            signed_at: Time::default(),
        })
    }

    /// The hash of the last record.
    pub fn head(&self) -> ChainHead {
        self.chain.head()
    }

    /// How many records and bytes there are.
    pub fn size(&self) -> (u64, u64) {
        (self.chain.next_sequence(), self.total)
    }

    /// A run begins: `open`, a checkpoint unless it is the first, and what the device has from before.
    pub fn begin(&mut self, parts: Vec<Resume>, words: Words<'_>, now: Time) -> Result<(), SimulateError> {
        let is_first = self.chain.next_sequence() == 0;
        // What was only counted is lost with the process that counted it.
        self.elided = Elided::default();
        self.open(now)?;
        if is_first {
            self.signed_at = now;
        } else {
            self.checkpoint(now)?;
        }
        for part in parts {
            let mut new = Vec::new();
            part.for_each_policy(|digest| new.push(*digest));
            self.policies(&new, words, now)?;
            self.append(now, Content::Resume(Box::new(part)))?;
        }
        Ok(())
    }

    /// A step, and before it the policies that it names for the first time.
    pub fn step(&mut self, step: Step, words: Words<'_>, now: Time) -> Result<(), SimulateError> {
        let seconds = now.unix().saturating_sub(self.signed_at.unix());
        if (seconds >= CHECKPOINT_SECONDS && self.unsigned > 0) || self.unsigned >= CHECKPOINT_RECORDS {
            self.checkpoint(now)?;
        }
        if self.length >= self.limits.file_bytes {
            self.close(true, now)?;
            self.flush()?;
            (self.number, self.length) = (self.number.saturating_add(1), 0);
            self.open(now)?;
        }
        let mut new = Vec::new();
        step.for_each_policy(|digest| {
            if !self.named.contains(digest) {
                new.push(*digest);
            }
        });
        self.policies(&new, words, now)?;
        self.append(now, Content::Step(Box::new(step)))
    }

    /// Counts a step that changed nothing.
    pub fn elide(&mut self, reason: Reason) {
        self.elided.count(reason);
    }

    /// The device stops, or goes on in the next file.
    pub fn close(&mut self, continues: bool, now: Time) -> Result<(), SimulateError> {
        let elided = std::mem::take(&mut self.elided);
        let bytes = self.chain.close(now, &self.device, elided, continues, &self.keys.signing)?;
        self.signed(&bytes, now)
    }

    /// Forgets the names of policies that nobody has any more.
    pub fn forget(&mut self, policies: &Policies) {
        self.named.retain(|digest| policies.by_digest(digest).is_some());
    }

    /// Writes what is only in memory.
    pub fn flush(&mut self) -> Result<(), SimulateError> {
        let path = self.directory.join(trace_file_name(self.number));
        let file = File::options().append(true).create(true).mode(FILE_MODE).open(&path);
        let written = file.and_then(|mut file: File| -> io::Result<()> { file.write_all(&self.buffer) });
        written.map_err(|error| SimulateError::File { path, error })?;
        self.buffer.clear();
        Ok(())
    }

    fn open(&mut self, now: Time) -> Result<(), SimulateError> {
        self.named.clear();
        let (device, graphs) = (self.device.clone(), vec![self.graph]);
        self.append(now, Content::Open(Open { device, graphs, mesh_serial: MESH_SERIAL, torn: 0 }))
    }

    /// Those of the policies that are not in the file yet, in the order of their digests.
    fn policies(&mut self, named: &[Digest], words: Words<'_>, now: Time) -> Result<(), SimulateError> {
        let mut new: Vec<&Digest> = named.iter().filter(|digest| !self.named.contains(*digest)).collect();
        new.sort_unstable();
        new.dedup();
        for digest in new {
            let unknown = || SimulateError::malformed(format_args!("nobody knows the policy {digest}"));
            self.append(now, Content::Policy(words.bytes(digest).ok_or_else(unknown)?))?;
            self.named.insert(*digest);
        }
        Ok(())
    }

    fn checkpoint(&mut self, now: Time) -> Result<(), SimulateError> {
        let elided = std::mem::take(&mut self.elided);
        let bytes = self.chain.checkpoint(now, &self.device, elided, &self.keys.signing)?;
        self.signed(&bytes, now)
    }

    fn signed(&mut self, bytes: &[u8], now: Time) -> Result<(), SimulateError> {
        (self.unsigned, self.signed_at) = (0, now);
        self.write(bytes)
    }

    fn append(&mut self, now: Time, content: Content) -> Result<(), SimulateError> {
        let bytes = self.chain.append(now, content)?;
        self.unsigned += 1;
        self.write(&bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), SimulateError> {
        self.buffer.extend_from_slice(bytes);
        self.length += bytes.len() as u64;
        self.total += bytes.len() as u64;
        if self.buffer.len() >= self.limits.buffer_bytes { self.flush() } else { Ok(()) }
    }
}
