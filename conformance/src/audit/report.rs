//! What an audit says. `conform audit` prints it, as text, as JSON or as a page.

use std::ops::AddAssign;

use pilot_core::codec::Digest;
use pilot_core::value::Time;

/// The most findings that a report shows; the rest are counted.
pub const MAX_FINDINGS: usize = 1_000;
/// The most points on a timeline; with more, neighbours are added up.
pub const MAX_TIMELINE: usize = 240;
/// The most messages before a finding that a report shows.
pub const MAX_CHART: usize = 12;

/// The outcome of an audit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// What is wrong, by time, device and record, at most [`MAX_FINDINGS`].
    pub findings: Vec<Finding>,
    /// How many more of each class there are.
    pub more: Findings,
    /// How many violations there are that the user did not want to see.
    pub elsewhere: u64,
    /// What the user wanted to see.
    pub filter: Filter,
    /// Whether everything must be judged.
    pub is_strict: bool,
    /// How well the consents to what was accepted are known.
    pub evidence: Evidence,
    /// What it rests on besides the traces.
    pub inputs: Inputs,
    /// What could not be judged, and why.
    pub unjudged: Vec<Unjudged>,
    /// Every trace that was read, by the names of the devices.
    pub traces: Vec<Trace>,
    /// What was counted.
    pub figures: Figures,
    /// When something happened, and how much.
    pub timeline: Vec<Moment>,
    /// The policies that findings and holdings speak of.
    pub policies: Vec<PolicyText>,
    /// What was held in the end.
    pub holdings: Vec<Holding>,
}

/// What an audit rests on besides traces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inputs {
    /// The serials of the mesh files.
    pub meshes: Vec<u64>,
    /// The operator's key that they were verified with.
    pub operator: Option<String>,
    /// How many audit keys.
    pub keys: u64,
    /// How many openings.
    pub openings: u64,
    /// Whether these lay beside the traces: then whoever has put them there says whose they are.
    pub are_openings_found: bool,
    /// How many signed consents.
    pub consents: u64,
}

/// Which violations the user wants to see. The verdict is that of all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Not earlier than this.
    pub since: Option<Time>,
    /// Only of these devices.
    pub devices: Vec<String>,
}

/// How many findings there are of each class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Findings {
    /// [`Class::Violation`].
    pub violations: u64,
    /// [`Class::Integrity`].
    pub integrity: u64,
}

/// The outcome in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is wrong with what was judged.
    Conforms,
    /// A rule or a requirement was violated.
    Violates,
    /// The input is damaged, missing or empty, so that nobody can tell; or everything must be judged, and something could not be.
    Unjudgeable,
}

/// What kind of thing is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// A rule of the semantics, an edge of a graph or a requirement.
    Violation,
    /// The trace itself: changed, cut, not signed, unreadable.
    Integrity,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What kind.
    pub class: Class,
    /// Whose trace.
    pub device: String,
    /// Which record of it.
    pub record: u64,
    /// When, by the device's clock, if it is about a moment.
    pub time: Option<Time>,
    /// Which rule: see [`rules`].
    pub rule: String,
    /// What does not hold, in the paper's words.
    pub premise: String,
    /// A sentence for people.
    pub text: String,
    /// The policy that it is about.
    pub policy: Option<Digest>,
    /// What the device did and heard last, this included, oldest first, at most [`MAX_CHART`].
    pub chart: Vec<Arrow>,
}

/// The names of rules.
pub mod rules {
    /// Records are damaged, or do not follow each other.
    pub const CHAIN: &str = "chain";
    /// A record is missing, repeated or moved.
    pub const SEQUENCE: &str = "sequence";
    /// Not signed by the device, or nobody knows its key.
    pub const SIGNATURE: &str = "signature";
    /// A file cannot be read.
    pub const FILE: &str = "file";
    /// The mesh file that a trace names is not here, or lacks a word of it.
    pub const MESH: &str = "mesh";
    /// Another trace has seen a different history of this device, or the device has signed two.
    pub const ANCHOR: &str = "anchor";
    /// A record names a signature of something else.
    pub const CONSENT: &str = "consent";
    /// No edge of the graph allows the step.
    pub const GRAPH: &str = "graph";
    /// What was received was not sent, or not so.
    pub const MESSAGE: &str = "message";
    /// A run does not begin as it should: with more than the one before had, without a withdrawal, or without saying with what.
    pub const RESUME: &str = "resume";
    /// Time goes back.
    pub const CLOCK: &str = "clock";
    /// Table 2, R1.
    pub const R1: &str = "R1";
    /// Table 2, R2.
    pub const R2: &str = "R2";
    /// Table 2, SEND.
    pub const SEND: &str = "SEND";
    /// Table 2, TRANSFER.
    pub const TRANSFER: &str = "TRANSFER";
    /// The graph and the abstract semantics arrive at different states.
    pub const STATE: &str = "state";
}

/// A line of a message sequence chart: a message, or a step of one device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrow {
    /// Which record.
    pub record: u64,
    /// When.
    pub time: Time,
    /// Whose record it is.
    pub device: String,
    /// With whom; without one it is a step of the device alone.
    pub peer: Option<String>,
    /// Whether the message goes from the device to the peer.
    pub is_sent: bool,
    /// The action in the paper's notation, `broadcast↓` for example.
    pub label: String,
}

/// How well the consents are known to what was accepted: each accepted item counts once, at its best level.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The subject's own trace has the release.
    pub witnessed: u64,
    /// The controller has shown the subject's signature, and it was verified.
    pub signed: u64,
    /// Only the controller says so.
    pub attested: u64,
}

/// A premise that could not be judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unjudged {
    /// Whose trace.
    pub device: String,
    /// Which premise.
    pub premise: String,
    /// Why not.
    pub why: String,
    /// How often.
    pub count: u64,
}

/// A trace that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// Whose; `?` if nobody can tell.
    pub device: String,
    /// Where it lies.
    pub directory: String,
    /// The graph that it is a run of.
    pub graph: String,
    /// How many records are sealed.
    pub records: u64,
    /// The first and the last time in it, if it could be read.
    pub period: Option<(Time, Time)>,
    /// The hash of the last signed record: all before it is as it was when somebody else has noted the same.
    pub head: Option<String>,
    /// How it ends.
    pub end: Ending,
}

/// How a trace ends, or why it was not judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The device stopped, and signed that.
    Closed,
    /// No closing checkpoint stands at its end.
    Open(Open),
    /// In a file that is missing.
    Missing,
    /// It is damaged, and what comes after that is not judged.
    Damaged,
    /// Nobody can tell: nothing in it is signed by a key that is known.
    Unread,
    /// It is not judged, for the trace that lies there has all of its records.
    CopyOf(String),
    /// It is not judged, for the trace that lies there tells another history of the device, which is a finding.
    Contradicts(String),
}

/// An end that nobody has signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open {
    /// How many records after the last signed one are ignored.
    pub records: u64,
    /// How many bytes they have, those of an unfinished record included.
    pub bytes: u64,
}

/// What was counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// Records that were judged.
    pub records: u64,
    /// Steps among them.
    pub steps: u64,
    /// Abstract events that they stand for.
    pub events: u64,
    /// Items that were accepted from their owners.
    pub accepted: u64,
    /// Items that were received from other controllers.
    pub transferred: u64,
    /// Items that were erased at their deadline or before.
    pub erased: u64,
    /// Withdraw notices that were delivered.
    pub withdrawn: u64,
    /// Steps that changed nothing and were only counted, as the checkpoints say.
    pub elided: u64,
    /// Messages of which both ends are known.
    pub matched: u64,
    /// Conditions that only the device that evaluated them can vouch for.
    pub attested_conditions: u64,
    /// Checkpoints whose signatures were verified.
    pub signatures: u64,
}

/// What happened within some seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moment {
    /// When it begins.
    pub from: Time,
    /// How many seconds it lasts.
    pub seconds: u64,
    /// Steps.
    pub steps: u64,
    /// Items accepted or received.
    pub accepted: u64,
    /// Items erased.
    pub erased: u64,
    /// Findings.
    pub findings: u64,
}

/// A policy in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyText {
    /// By which findings name it.
    pub digest: Digest,
    /// What it allows.
    pub english: String,
}

/// What a device held in the end under one policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// Who.
    pub device: String,
    /// Under which policy.
    pub policy: Digest,
    /// How many items.
    pub items: u64,
    /// When they must be gone.
    pub until: Time,
}

impl Filter {
    /// Whether it wants this. What is damaged is nobody's to overlook.
    pub fn wants(&self, finding: &Finding) -> bool {
        let is_late = || self.since.is_none_or(|since| finding.time.is_none_or(|time| time >= since));
        let is_of_them = || self.devices.is_empty() || self.devices.contains(&finding.device);
        finding.class == Class::Integrity || (is_late() && is_of_them())
    }
}

impl Findings {
    /// One more.
    pub fn count(&mut self, class: Class) {
        match class {
            Class::Violation => self.violations += 1,
            Class::Integrity => self.integrity += 1,
        }
    }
}

impl AddAssign for Findings {
    fn add_assign(&mut self, Self { violations, integrity }: Self) {
        self.violations += violations;
        self.integrity += integrity;
    }
}

impl AddAssign for Evidence {
    fn add_assign(&mut self, Self { witnessed, signed, attested }: Self) {
        self.witnessed += witnessed;
        self.signed += signed;
        self.attested += attested;
    }
}

impl AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.records += other.records;
        self.steps += other.steps;
        self.events += other.events;
        self.accepted += other.accepted;
        self.transferred += other.transferred;
        self.erased += other.erased;
        self.withdrawn += other.withdrawn;
        self.elided = self.elided.saturating_add(other.elided);
        self.matched += other.matched;
        self.attested_conditions += other.attested_conditions;
        self.signatures += other.signatures;
    }
}

impl Report {
    /// The outcome in a word.
    pub fn verdict(&self) -> Verdict {
        let total = self.total();
        if total.violations > 0 {
            Verdict::Violates
        } else if total.integrity > 0 || self.figures.records == 0 || (self.is_strict && !self.unjudged.is_empty()) {
            Verdict::Unjudgeable
        } else {
            Verdict::Conforms
        }
    }

    /// How many findings there are in all.
    pub fn total(&self) -> Findings {
        let mut total = self.more;
        total.violations += self.elsewhere;
        self.findings.iter().for_each(|finding| total.count(finding.class));
        total
    }

    /// The exit code.
    pub fn exit_code(&self) -> u8 {
        match self.verdict() {
            Verdict::Conforms => 0,
            Verdict::Violates => 1,
            Verdict::Unjudgeable => 2,
        }
    }

    /// The traces that were judged.
    pub fn judged(&self) -> impl Iterator<Item = &Trace> {
        self.traces.iter().filter(|trace| matches!(trace.end, Ending::Closed | Ending::Open(_) | Ending::Missing))
    }

    /// The traces that are open.
    pub fn open(&self) -> impl Iterator<Item = (&Trace, Open)> {
        self.traces
            .iter()
            .filter_map(|trace| if let Ending::Open(open) = trace.end { Some((trace, open)) } else { None })
    }
}

impl Ending {
    /// The word for it.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open(_) => "open",
            Self::Missing => "missing",
            Self::Damaged => "damaged",
            Self::Unread => "unread",
            Self::CopyOf(_) => "copy",
            Self::Contradicts(_) => "contradicts",
        }
    }

    /// Where the trace lies that was judged in place of this one.
    pub fn other(&self) -> Option<&str> {
        match self {
            Self::CopyOf(other) | Self::Contradicts(other) => Some(other),
            Self::Closed | Self::Open(_) | Self::Missing | Self::Damaged | Self::Unread => None,
        }
    }
}

impl Verdict {
    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Conforms => "conforms",
            Self::Violates => "violates",
            Self::Unjudgeable => "unjudgeable",
        }
    }
}
