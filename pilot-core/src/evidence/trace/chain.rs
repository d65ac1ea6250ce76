//! Writing a trace: each record gets its number, the hash of the one before and its own.
//!
//! What a device signs at a checkpoint (detached COSE, [`Domain::TraceCheckpoint`]) is the canonical CBOR of
//!
//! ```text
//! [1,                        ; version of the format
//!  device: tstr,             ; whose trace
//!  sequence: uint, time: uint,
//!  head: bstr .size 32,      ; the hash of the record before the checkpoint
//!  [* elided],               ; as in the record
//!  continues: bool / null]   ; as in the record; null for a checkpoint that is no close
//! ```
//!
//! The head stands for every record before it, so one signature covers the whole trace up to here.

use alloc::vec::Vec;
use minicbor::Encoder;

use super::action::{Action, Body};
use super::form::write_elided;
use super::frame::{self, GENESIS};
use super::{Checkpoint, Content, Elided, MAX_BODY_BYTES, MAX_GRAPHS, MAX_LIST, MAX_OUTCOMES, Record, VERSION};
use crate::evidence::cose::{Domain, sign_detached};
use crate::evidence::envelope::ChainHead;
use crate::evidence::form::WriteResult;
use crate::evidence::{DeviceName, Signer};
use crate::value::Time;

/// The end of a trace, to which records are appended. A copy is a place to go back to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chain {
    head: ChainHead,
    next: u64,
}

/// A record is too large for the format, and was not appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a record is too large: at most {MAX_BODY_BYTES} bytes, {MAX_LIST} policies and {MAX_OUTCOMES} outcomes")]
pub struct TooLarge;

impl Chain {
    /// A new trace.
    pub const fn new() -> Self {
        Self { head: GENESIS, next: 0 }
    }

    /// After the record with this hash, `next` records into the trace.
    pub const fn resume(head: ChainHead, next: u64) -> Self {
        Self { head, next }
    }

    /// The hash of the last record.
    pub const fn head(&self) -> ChainHead {
        self.head
    }

    /// The number of the next record.
    pub const fn next_sequence(&self) -> u64 {
        self.next
    }

    /// Appends a record and returns its bytes. A checkpoint's signature is taken as it is; [`Chain::checkpoint`] and
    /// [`Chain::close`] make one.
    pub fn append(&mut self, time: Time, content: Content) -> Result<Vec<u8>, TooLarge> {
        if !is_short(&content) {
            return Err(TooLarge);
        }
        let body = Record { sequence: self.next, time, content }.to_bytes();
        if body.len() > MAX_BODY_BYTES {
            return Err(TooLarge);
        }
        let (bytes, hash) = frame::write(self.head, &body);
        *self = Self { head: hash, next: self.next.saturating_add(1) };
        Ok(bytes)
    }

    /// Appends a checkpoint, signed.
    pub fn checkpoint(
        &mut self,
        time: Time,
        device: &DeviceName,
        elided: Elided,
        signer: &impl Signer,
    ) -> Result<Vec<u8>, TooLarge> {
        let signature = self.sign(time, device, &elided, None, signer);
        self.append(time, Content::Checkpoint(Checkpoint { elided, signature }))
    }

    /// Appends a closing checkpoint, signed. `continues`: whether the trace goes on in another file.
    pub fn close(
        &mut self,
        time: Time,
        device: &DeviceName,
        elided: Elided,
        continues: bool,
        signer: &impl Signer,
    ) -> Result<Vec<u8>, TooLarge> {
        let signature = self.sign(time, device, &elided, Some(continues), signer);
        self.append(time, Content::Close { checkpoint: Checkpoint { elided, signature }, continues })
    }

    fn sign(
        &self,
        time: Time,
        device: &DeviceName,
        elided: &Elided,
        continues: Option<bool>,
        signer: &impl Signer,
    ) -> crate::evidence::Signature {
        let payload = Signed { device, sequence: self.next, time, head: self.head, elided, continues }.to_bytes();
        sign_detached(Domain::TraceCheckpoint, &payload, signer)
    }
}

impl Default for Chain {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether every list is short enough to be read again.
fn is_short(content: &Content) -> bool {
    match content {
        Content::Open(open) => open.graphs.len() <= MAX_GRAPHS,
        Content::Policy(_) | Content::Checkpoint(_) | Content::Close { .. } => true,
        Content::Resume(resume) => resume.is_short(),
        Content::Step(step) => {
            step.outcomes.len() <= MAX_OUTCOMES
                && match &step.action {
                    Action::Init { own, .. } | Action::ChangeOwn { own } => own.len() <= MAX_LIST,
                    Action::Restore { own, offers, .. } => own.len() <= MAX_LIST && offers.len() <= MAX_LIST,
                    Action::Send(message) | Action::Receive(message, _) => match &message.body {
                        Body::DownloadPolicies { added, removed, .. } => {
                            added.len() <= MAX_LIST && removed.len() <= MAX_LIST
                        }
                        _ => true,
                    },
                    Action::Admit { .. } | Action::Tau | Action::Expire { .. } | Action::Forget { .. } => true,
                }
        }
    }
}

/// What is signed.
pub(super) struct Signed<'s> {
    pub(super) device: &'s DeviceName,
    pub(super) sequence: u64,
    pub(super) time: Time,
    pub(super) head: ChainHead,
    pub(super) elided: &'s Elided,
    pub(super) continues: Option<bool>,
}

impl Signed<'_> {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(128);
        let result = self.write(&mut Encoder::new(&mut bytes));
        // INVARIANT: writing to a `Vec` cannot fail.
        debug_assert!(result.is_ok());
        bytes
    }

    fn write(&self, out: &mut Encoder<&mut Vec<u8>>) -> WriteResult {
        out.array(7)?.u8(VERSION)?.str(self.device.as_str())?.u64(self.sequence)?.u64(self.time.unix())?;
        write_elided(self.elided, out.bytes(&self.head.0)?)?;
        match self.continues {
            Some(continues) => out.bool(continues)?,
            None => out.null()?,
        };
        Ok(())
    }
}
