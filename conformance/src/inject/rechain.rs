//! Writes traces anew after a change: records are numbered, hashed and signed again, by the keys of their devices.
//!
//! Other traces name records by their hashes: who received a message has the head that came with it. So a new hash changes
//! those records as well, and everything after them, in their own traces. All traces are gone through together, in an
//! order in which a message is sent before it is received; what nothing changes is copied.

use std::collections::BTreeMap;
use std::path::Path;

use pilot_core::evidence::envelope::ChainHead;
use pilot_core::evidence::trace::{Action, Chain, Content, Record};
use pilot_core::value::Time;

use super::InjectError;
use super::directory::{Directory, Trace};
use crate::keys::Keys;

/// A record of a trace to be written.
pub enum Line {
    /// As it was.
    Kept(usize),
    /// Another one in place of an old one, if there was one.
    New {
        /// Which it replaces: heads that name that one will name this one.
        of: Option<usize>,
        /// When.
        time: Time,
        /// What it says. What is signed is signed anew.
        content: Content,
    },
}

/// What is to be done to one trace.
#[derive(Default)]
pub struct Plan {
    /// Its records; `None` keeps all.
    pub lines: Option<Vec<Line>>,
    /// Records keep the numbers that they had.
    pub keeps_numbers: bool,
    /// The record at this place is signed by a stranger.
    pub forged: Option<usize>,
}

/// A trace that was written: its files' bytes, and whether anything in it changed.
pub struct Written {
    /// The bytes of each file.
    pub files: Vec<Vec<u8>>,
    /// Whether they are others than before.
    pub is_changed: bool,
}

/// A trace being written.
struct Writing<'d> {
    trace: &'d Trace,
    lines: Vec<Line>,
    plan: Plan,
    chain: Chain,
    /// How many lines are done.
    done: usize,
    /// The old records up to here are done, or gone.
    reached: usize,
    files: Vec<Vec<u8>>,
    begins_file: bool,
    is_changed: bool,
    keys: Option<Keys>,
}

/// Writes all traces. With `alone`, no other trace is told of new hashes.
pub fn rechain(
    directory: &Directory,
    mut plans: BTreeMap<usize, Plan>,
    keys: Option<&Path>,
    alone: bool,
) -> Result<Vec<Written>, InjectError> {
    let mut all: Vec<Writing<'_>> = Vec::new();
    for (at, trace) in directory.traces.iter().enumerate() {
        let mut plan = plans.remove(&at).unwrap_or_default();
        let lines = plan.lines.take().unwrap_or_else(|| (0..trace.len()).map(Line::Kept).collect());
        all.push(Writing {
            trace,
            lines,
            plan,
            chain: Chain::new(),
            done: 0,
            reached: 0,
            files: Vec::new(),
            begins_file: true,
            is_changed: false,
            keys: None,
        });
    }
    let places = if alone { BTreeMap::new() } else { named_heads(directory) };
    let mut heads: BTreeMap<ChainHead, ChainHead> = BTreeMap::new();
    for at in 0..all.len() {
        // Which trace is to be written, and up to which of its old records.
        let mut stack = vec![(at, usize::MAX)];
        while let Some((current, until)) = stack.last().copied() {
            let Some(writing) = all.get(current) else { break };
            if writing.reached > until || writing.done >= writing.lines.len() {
                stack.pop();
                continue;
            }
            let needed = writing.head_needed().and_then(|head| places.get(&head).copied());
            let is_missing = |(trace, record): &(usize, usize)| {
                all.get(*trace).is_some_and(|other| other.reached <= *record && other.done < other.lines.len())
            };
            match needed.filter(is_missing) {
                Some((trace, record)) if stack.iter().all(|(waiting, _)| *waiting != trace) => {
                    stack.push((trace, record));
                }
                Some(_) => return Err(InjectError::Cycle),
                None => {
                    let Some(writing) = all.get_mut(current) else { break };
                    writing.line(directory, keys, &mut heads)?;
                    if alone {
                        heads.clear();
                    }
                }
            }
        }
    }
    Ok(all.into_iter().map(|writing| Written { is_changed: writing.is_changed, files: writing.files }).collect())
}

/// Where the records are whose hashes others have.
fn named_heads(directory: &Directory) -> BTreeMap<ChainHead, (usize, usize)> {
    let mut named = BTreeMap::new();
    for trace in &directory.traces {
        for at in 0..trace.len() {
            if let Some(head) = trace.record(at).as_ref().and_then(head_of) {
                named.insert(head, None);
            }
        }
    }
    for (number, trace) in directory.traces.iter().enumerate() {
        for at in 0..trace.len() {
            if let Some(place) = trace.hash(at).and_then(|hash| named.get_mut(&hash)) {
                *place = Some((number, at));
            }
        }
    }
    named.into_iter().filter_map(|(head, place)| Some((head, place?))).collect()
}

fn head_of(record: &Record) -> Option<ChainHead> {
    match &record.content {
        Content::Step(step) => match &step.action {
            Action::Receive(_, cause) => cause.head,
            _ => None,
        },
        _ => None,
    }
}

impl Writing<'_> {
    /// The head that the next record has.
    fn head_needed(&self) -> Option<ChainHead> {
        match self.lines.get(self.done)? {
            Line::Kept(at) => head_of(&self.trace.record(*at)?),
            Line::New { time, content, .. } => head_of(&Record { sequence: 0, time: *time, content: content.clone() }),
        }
    }

    /// Writes the next record.
    fn line(
        &mut self,
        directory: &Directory,
        keys: Option<&Path>,
        heads: &mut BTreeMap<ChainHead, ChainHead>,
    ) -> Result<(), InjectError> {
        let Some(line) = self.lines.get_mut(self.done) else { return Ok(()) };
        let line = std::mem::replace(line, Line::Kept(0));
        let (old, changed) = match line {
            Line::Kept(at) => (Some(at), None),
            Line::New { of, time, content } => (of, Some((time, content))),
        };
        let read = |at: usize| self.trace.record(at).map(|record| (record.time, record.content));
        let is_new = changed.is_some();
        let Some((time, mut content)) = changed.or_else(|| read(old?)) else { return Err(InjectError::Unreadable) };
        let old_head = if let Content::Step(step) = &mut content { told(step, heads) } else { false };
        if let (true, Some(at)) = (self.plan.keeps_numbers, old) {
            self.chain = Chain::resume(self.chain.head(), at as u64);
        }
        let is_forged = self.plan.forged.is_some() && self.plan.forged == old;
        let frame = old.and_then(|at| self.trace.frame(at));
        let is_same = frame.is_some_and(|frame| {
            !is_new
                && !old_head
                && !is_forged
                && frame.previous == self.chain.head()
                && Some(self.chain.next_sequence()) == old.map(|at| at as u64)
        });
        let ends_file = matches!(content, Content::Close { continues: true, .. });
        let bytes = match frame.filter(|_| is_same) {
            Some(frame) => {
                let bytes = old.and_then(|at| self.trace.frame_bytes(at)).unwrap_or_default().to_vec();
                self.chain = Chain::resume(frame.hash, self.chain.next_sequence().saturating_add(1));
                bytes
            }
            None => {
                self.is_changed = true;
                self.write(time, content, is_forged, directory, keys)?
            }
        };
        if let Some(frame) = frame.filter(|frame| frame.hash != self.chain.head()) {
            heads.insert(frame.hash, self.chain.head());
        }
        if self.begins_file {
            self.files.push(Vec::new());
        }
        self.begins_file = ends_file;
        if let Some(file) = self.files.last_mut() {
            file.extend_from_slice(&bytes);
        }
        self.done += 1;
        // What was cut out is never waited for.
        self.reached = self.lines.get(self.done..).unwrap_or_default().iter().find_map(Line::old).unwrap_or(usize::MAX);
        Ok(())
    }

    fn write(
        &mut self,
        time: Time,
        content: Content,
        is_forged: bool,
        directory: &Directory,
        keys: Option<&Path>,
    ) -> Result<Vec<u8>, InjectError> {
        let is_signed = matches!(content, Content::Checkpoint(_) | Content::Close { .. });
        if is_signed && self.keys.is_none() {
            self.keys = Some(directory.keys(&self.trace.device, keys)?);
        }
        let stranger = Keys::new(&[0x5a; 32], [0x5a; 32]);
        let signer = if is_forged { Some(&stranger) } else { self.keys.as_ref() };
        let device = &self.trace.device;
        Ok(match (content, signer) {
            (Content::Checkpoint(checkpoint), Some(keys)) => {
                self.chain.checkpoint(time, device, checkpoint.elided, &keys.signing)?
            }
            (Content::Close { checkpoint, continues }, Some(keys)) => {
                self.chain.close(time, device, checkpoint.elided, continues, &keys.signing)?
            }
            (content, _) => self.chain.append(time, content)?,
        })
    }
}

impl Line {
    const fn old(&self) -> Option<usize> {
        match self {
            Self::Kept(at) => Some(*at),
            Self::New { of, .. } => *of,
        }
    }
}

/// Puts the new head into a step that has an old one; whether it did.
fn told(step: &mut pilot_core::evidence::trace::Step, heads: &BTreeMap<ChainHead, ChainHead>) -> bool {
    let Action::Receive(_, cause) = &mut step.action else { return false };
    let Some(new) = cause.head.and_then(|head| heads.get(&head)) else { return false };
    cause.head = Some(*new);
    true
}
