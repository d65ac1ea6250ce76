//! The record of a step: written before its message leaves.

use std::error::Error;
use std::fmt;

use pilot_core::graph::{Action, Device, Location, Step};
use pilot_core::semantics::Context;
use pilot_core::value::Time;

/// Which graph instance of a device; a subject's device has one per item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct InstanceNumber(pub usize);

/// Why a step was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The graph offered it and it was due.
    Due,
    /// The user decided it.
    User,
    /// A message, as it arrived.
    Message,
    /// A message that had waited for its edge.
    WaitingMessage,
}

/// A step that was taken and is about to be known to others.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'e> {
    /// The graph's name.
    pub graph: &'e str,
    /// The instance that took it.
    pub instance: InstanceNumber,
    /// Where the instance was.
    pub from: Location,
    /// Where it is.
    pub to: Location,
    /// What was done. For a↑ without what the step put into the message, which is in `step`.
    pub action: &'e Action,
    /// The edge, the message as it will leave, the claim and the events.
    pub step: &'e Step,
    /// When.
    pub time: Time,
    /// Why.
    pub cause: Cause,
    /// The device's variables after the step.
    pub device: &'e Device,
    /// What the ids in all this stand for. They may stand for something else later.
    pub context: &'e Context<'e>,
}

/// Keeps entries. [`Record::record`] returns once the entry has left the process (appended and flushed), or fails, after
/// which the driver takes no more steps.
pub trait Record {
    /// Appends and flushes one entry.
    fn record(&mut self, entry: &Entry<'_>) -> Result<(), RecordError>;
}

/// A step could not be recorded.
#[derive(Debug, thiserror::Error)]
#[error("the step could not be recorded: {0}")]
pub struct RecordError(#[source] Box<dyn Error + Send + Sync>);

impl RecordError {
    /// With the reason, which holds no personal value.
    pub fn new(reason: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(reason.into())
    }
}

/// An entry without what it borrows from the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// See [`Entry`].
    pub instance: InstanceNumber,
    /// See [`Entry`].
    pub from: Location,
    /// See [`Entry`].
    pub to: Location,
    /// See [`Entry`].
    pub action: Action,
    /// See [`Entry`].
    pub step: Step,
    /// See [`Entry`].
    pub time: Time,
    /// See [`Entry`].
    pub cause: Cause,
}

impl Entry<'_> {
    /// A copy that can be kept.
    pub fn to_kept(&self) -> Kept {
        let Self { instance, from, to, time, cause, .. } = *self;
        Kept { instance, from, to, action: self.action.clone(), step: self.step.clone(), time, cause }
    }
}

/// Keeps entries in memory, for tests. It grows without bound.
#[derive(Default)]
pub struct Memory {
    /// What was recorded, oldest first.
    pub entries: Vec<Kept>,
    /// When set, every entry fails.
    pub is_broken: bool,
}

impl Record for Memory {
    fn record(&mut self, entry: &Entry<'_>) -> Result<(), RecordError> {
        if self.is_broken {
            return Err(RecordError::new("the recorder is broken"));
        }
        self.entries.push(entry.to_kept());
        Ok(())
    }
}

/// Says how much, not what.
impl fmt::Debug for Memory {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Memory({} entries)", self.entries.len())
    }
}
