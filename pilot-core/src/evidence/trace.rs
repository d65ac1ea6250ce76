//! Traces: what a device did, step by step, so that an auditor can judge it afterwards.
//!
//! A trace is a sequence of records, each with the hash of the one before it. From time to time the device signs where
//! it stands. Whoever has its public key can then tell, without any secret, that nothing before the last signature was
//! changed, cut out or moved. A trace is spread over files, each a CBOR sequence (RFC 8742) of records:
//!
//! ```text
//! 83                        array of three
//!   58 20 (32 bytes)        previous: the hash of the record before; of the very first record, zeros
//!   (bstr) body             the canonical CBOR of the body, at most 64 MiB
//!   58 20 (32 bytes)        hash: SHA-256("consent-mesh trace record" ‖ previous ‖ body)
//!
//! body = [0, sequence, time, 1, device: tstr, graphs: [+ tstr], mesh: uint, torn: uint]   ; open
//!      / [1, sequence, time, policy: bstr]                                               ; policy
//!      / [2, sequence, time, graph, instance, from, action, to, [* outcome]]             ; step
//!      / [3, sequence, time, [* elided], signature: bstr .size 64]                       ; checkpoint
//!      / [4, sequence, time, [* elided], signature: bstr .size 64, continues: bool]      ; close
//!      / [5, sequence, time, …]                                                          ; resume
//! ```
//!
//! `docs/trace-format.md` says the rest: actions, outcomes, what is signed, and what a reader must refuse. The frame
//! has a fixed form, so a reader can find the records, and check the chain, without understanding a body.
//!
//! * this file: records as values;
//! * [`action`]: what steps did, without secrets, [`resume`]: what a run begins with, and [`naming`]: how to get there
//!   from the interpreter's words;
//! * `form`: their one byte form;
//! * [`frame`]: records in a stream of bytes, of any length and in any pieces;
//! * [`chain`]: writing; [`verify`]: believing.
//!
//! # What is promised
//!
//! Edits, cuts and reordering before the last checkpoint are detected by anyone who has the device's public key. Not
//! promised: records after the last checkpoint (the *open tail*), and a device that rewrites its own history, unless
//! peers' traces have anchored it by the heads that its messages carried.

pub mod action;
pub mod chain;
mod form;
pub mod frame;
pub mod naming;
pub mod resume;
pub mod verify;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use sha2::{Digest as _, Sha256};

pub use self::action::Action;
pub use self::chain::Chain;
pub use self::form::{BodyError, BodyProblem, Head, KnownNames};
pub use self::frame::{Frame, Reader};
pub use self::naming::Naming;
pub use self::resume::Resume;
pub use self::verify::{Standing, Verifier};
use super::keys::Signature;
use super::mesh::{DeviceName, MAX_DEVICES};
use crate::codec::Digest;
use crate::graph::{Graph, Guard, Location};
use crate::graphs;
use crate::policy::{MAX_POLICY_BYTES, MAX_TRANSFERS};
use crate::sorted::Sorted;
use crate::value::Time;

/// The version of the format, which every `open` record says.
pub const VERSION: u8 = 1;
/// The largest body: a download that replaces the offers of a full mesh. Larger ones are neither written nor read.
pub const MAX_BODY_BYTES: usize = 64 << 20;
/// The most policies or offers in one list; with more, no record is made.
pub const MAX_LIST: usize = MAX_DEVICES;
/// The most graphs on one device.
pub const MAX_GRAPHS: usize = 64;
/// The most outcomes in one step: each rule of two policies.
pub const MAX_OUTCOMES: usize = 2 * (MAX_TRANSFERS + 1);

/// A record: where it stands, when it was made, what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// How many records of the trace stand before it.
    pub sequence: u64,
    /// When, by the device's clock.
    pub time: Time,
    /// What it says.
    pub content: Content,
}

/// What a record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// The first record of a file, and of each run of the device.
    Open(Open),
    /// A policy that steps until the next `open` may name.
    Policy(PolicyBytes),
    /// A step of a graph.
    Step(Box<Step>),
    /// The device signs where it stands.
    Checkpoint(Checkpoint),
    /// Likewise, at the end of a file or of a run.
    Close {
        /// Where it stands.
        checkpoint: Checkpoint,
        /// Whether the trace goes on in the next file. If not, the device has stopped.
        continues: bool,
    },
    /// A run begins, with these variables.
    Resume(Box<Resume>),
}

/// Who writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    /// Whose trace it is.
    pub device: DeviceName,
    /// The graphs that run on the device; steps name them by their place here.
    pub graphs: Vec<GraphName>,
    /// The serial of the mesh file in use.
    pub mesh_serial: u64,
    /// How many bytes of an unfinished record were removed because the device had stopped in the middle of writing it.
    pub torn: u64,
}

/// The name of one of the five graphs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GraphName(&'static str);

impl GraphName {
    /// Of a graph.
    pub const fn of(graph: &Graph<'_>) -> Self {
        Self(graph.name)
    }

    /// The graph of this name, if there is one.
    pub fn new(name: &str) -> Option<Self> {
        graphs::ALL.iter().find(|graph| graph.name == name).map(|graph| Self(graph.name))
    }

    /// The name.
    pub const fn as_str(self) -> &'static str {
        self.0
    }

    /// The graph.
    pub fn graph(self) -> Option<&'static Graph<'static>> {
        graphs::ALL.into_iter().find(|graph| graph.name == self.0)
    }
}

/// The canonical bytes of a policy (see [`codec`](crate::codec)). Not decoded: that takes a vocabulary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyBytes(Vec<u8>);

impl PolicyBytes {
    /// These bytes, unless they are more than a policy can have.
    pub fn new(bytes: Vec<u8>) -> Option<Self> {
        (bytes.len() <= MAX_POLICY_BYTES).then_some(Self(bytes))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// By which steps name the policy.
    pub fn digest(&self) -> Digest {
        Digest(Sha256::digest(&self.0).into())
    }
}

/// A step that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Which graph, by its place in the last `open` record.
    pub graph: u8,
    /// Which instance of it on this device.
    pub instance: u32,
    /// Where it was.
    pub from: Location,
    /// What it did.
    pub action: Action,
    /// Where it is now.
    pub to: Location,
    /// What the device found out about conditions over personal values, and nobody else can.
    pub outcomes: Sorted<Outcome>,
}

impl Step {
    /// Shows every policy that the step names, some perhaps more than once.
    pub fn for_each_policy(&self, mut see: impl FnMut(&Digest)) {
        self.action.for_each_policy(&mut see);
        self.outcomes.iter().for_each(|outcome| see(&outcome.policy));
    }
}

/// A condition of a policy was evaluated: the device attests it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Outcome {
    /// Which policy.
    pub policy: Digest,
    /// Which of its rules.
    pub rule: Rule,
    /// Whether the condition held.
    pub holds: bool,
}

/// A communication rule of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// The data collection rule.
    Collection,
    /// A transfer rule, by its place in the canonical form.
    Transfer(u16),
}

/// Where a device stands: what it signs is everything up to here, and how much it did not record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Steps since the last checkpoint that changed nothing and were only counted.
    pub elided: Elided,
    /// The device's signature; [`chain`] says of what.
    pub signature: Signature,
}

/// How many steps were elided for which reason; no reason has a count of zero.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Elided(BTreeMap<Reason, u64>);

impl Elided {
    /// One more.
    pub fn count(&mut self, reason: Reason) {
        let count = self.0.entry(reason).or_default();
        *count = count.saturating_add(1);
    }

    /// Whether nothing was elided.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The reasons with their counts, in the order of [`Reason::ALL`].
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Reason, u64)> {
        self.0.iter().map(|(reason, count)| (*reason, *count))
    }
}

/// Why a step changed nothing: what the receiver found missing. None of them says who it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The broadcast was for another controller.
    NotAddressed,
    /// The policy is none that this device has published or still works under.
    PolicyNotOurs,
    /// The policy does not cover the item or the device.
    NotCovered,
    /// The policy's deadline has passed.
    PastDeadline,
    /// The owner has withdrawn such releases.
    Withdrawn,
    /// Too old, or from the future.
    NotFresh,
    /// The item is held under this policy already.
    AlreadyHeld,
    /// Nobody had asked for it.
    NotAskedFor,
    /// Anything else.
    Other,
}

impl Reason {
    /// All reasons; a trace names each by its place here.
    pub const ALL: [Self; 9] = [
        Self::NotAddressed,
        Self::PolicyNotOurs,
        Self::NotCovered,
        Self::PastDeadline,
        Self::Withdrawn,
        Self::NotFresh,
        Self::AlreadyHeld,
        Self::NotAskedFor,
        Self::Other,
    ];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotAddressed => "not-addressed",
            Self::PolicyNotOurs => "policy-not-ours",
            Self::NotCovered => "not-covered",
            Self::PastDeadline => "past-deadline",
            Self::Withdrawn => "withdrawn",
            Self::NotFresh => "not-fresh",
            Self::AlreadyHeld => "already-held",
            Self::NotAskedFor => "not-asked-for",
            Self::Other => "other",
        }
    }

    /// The reason that a guard did not hold.
    pub const fn of(guard: Guard) -> Self {
        match guard {
            Guard::AddressedToMe => Self::NotAddressed,
            Guard::PublishedByMe | Guard::WithinCurrent | Guard::CurrentPolicy => Self::PolicyNotOurs,
            Guard::AboutItem | Guard::NamesMe | Guard::NamesSender => Self::NotCovered,
            Guard::InTime => Self::PastDeadline,
            Guard::NotWithdrawn => Self::Withdrawn,
            Guard::Fresh | Guard::NotFromFuture => Self::NotFresh,
            Guard::NotYetHeld => Self::AlreadyHeld,
            Guard::AskedFor => Self::NotAskedFor,
            _ => Self::Other,
        }
    }
}
