//! What people take back. A notice is sealed for this device; it erases what is held of its item, leaves a tombstone, and
//! is acknowledged once both are on the disk.
//!
//! If every consent to what is held of an address was signed, and was never heard without that key, one of those keys takes
//! it back. Otherwise whoever can name the address may: we err on the side of erasing, and nobody can keep others from it by a
//! signed frame of her own, be it the first. A notice that says nothing new is answered again and changes nothing.

use mesh_runtime::driver::{DriveError, Fate, Outcome};
use mesh_runtime::journal::{self, Origin};
use mesh_runtime::protocol::message::{Message, Refusal};
use mesh_runtime::protocol::post::Opened;
use mesh_runtime::protocol::sealed::Notice;
use pilot_core::evidence::Pseudonym;
use pilot_core::evidence::envelope::{ChainHead, MessageId, Sender};
use pilot_core::evidence::trace::action::Cause;
use pilot_core::graph::message::Withdrawal;
use pilot_core::graph::{self, Body};
use pilot_core::value::Time;

use crate::host::{Controller, Gateway};
use crate::value::Heard;
use crate::vault::VaultError;

/// The most notices that are opened in one second, which takes a tenth of a millisecond each. More: their senders are told to
/// come again.
pub const MAX_NOTICES_PER_SECOND: u32 = 1_024;
/// How many notices about addresses of which nothing is held are taken at once: each costs records in the trace, and anybody
/// can make them up. More: their senders are told to come again. Notices about what is held have no such limit.
pub const MAX_UNKNOWN: u64 = 1_024;
/// How many seconds it takes until one more of them is taken.
pub const UNKNOWN_SECONDS: u64 = 4;
/// When they may, in seconds.
pub const RETRY_AFTER: u64 = 2;

/// Notices that are being answered.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    /// How many were opened in this second.
    second: (Time, u32),
    /// How many about unknown addresses were taken, as of when.
    unknown: (Time, u64),
    /// Done, and not acknowledged yet.
    done: Vec<(Sender, MessageId)>,
}

impl Notices {
    pub(crate) fn are_done(&self) -> bool {
        !self.done.is_empty()
    }

    /// Whether one more can be looked at.
    fn admit(&mut self, now: Time) -> bool {
        if self.second.0 != now {
            self.second = (now, 0);
        }
        self.second.1 = self.second.1.saturating_add(1);
        self.second.1 <= MAX_NOTICES_PER_SECOND
    }

    /// Whether one more about an unknown address can be taken.
    fn admit_unknown(&mut self, now: Time) -> bool {
        let (since, taken) = self.unknown;
        let back = now.unix().saturating_sub(since.unix()) / UNKNOWN_SECONDS;
        if back > 0 {
            self.unknown = (now, taken.saturating_sub(back));
        }
        let has_room = self.unknown.1 < MAX_UNKNOWN;
        self.unknown.1 = self.unknown.1.saturating_add(u64::from(has_room));
        has_room
    }
}

impl Gateway {
    /// Somebody takes releases of an item back.
    pub(crate) fn notice(
        &mut self,
        opened: &Opened,
        sealed: &[u8],
        driver: &mut Controller<'_>,
        now: Time,
    ) -> Result<Option<Outcome>, DriveError> {
        if !matches!(opened.sender, Sender::Anonymous(_)) {
            self.refuse(opened, Refusal::NotAllowed, now);
            return Ok(None);
        }
        if !self.notices.admit(now) {
            self.refuse(opened, Refusal::Busy { retry_after: RETRY_AFTER }, now);
            return Ok(None);
        }
        let notice = match Notice::open(sealed, self.tag, &self.keys) {
            Ok(notice) => notice,
            Err(error) => {
                self.post.complaints.complain("notice", Some(&opened.sender), &error, now);
                self.refuse(opened, Refusal::Malformed, now);
                return Ok(None);
            }
        };
        // The vault is asked whose consent this was, so it must know what the graph knows.
        self.flush(driver)?;
        let pseudonym = Pseudonym::of(&notice.item.reveal(), &self.audit);
        let signers = self.signers(&pseudonym, now).map_err(|error| self.fail(error))?;
        let is_signer = |key: &Option<[u8; 32]>| key.is_none_or(|key| notice.is_signed_by(&key, self.tag));
        if !signers.is_empty() && !signers.iter().any(is_signer) {
            self.post.complaints.complain("not-the-owner", Some(&opened.sender), &"signed by another key", now);
            self.refuse(opened, Refusal::NotTheOwner, now);
            return Ok(None);
        }
        if self.is_known(&pseudonym, notice.withdrawal, driver, now) {
            self.notices.done.push((opened.sender.clone(), opened.id));
            return Ok(None);
        }
        self.take_back(opened, pseudonym, notice.withdrawal, driver, now)
    }

    /// The keys that signed the consents to what is held of an owner; `None` for one that was also heard without.
    fn signers(&self, pseudonym: &Pseudonym, now: Time) -> Result<Vec<Option<[u8; 32]>>, VaultError> {
        let mut signers = Vec::new();
        for record in self.vault.held_of(pseudonym)? {
            let heard = self.vault.reveal(record.handle, now)?.as_ref().and_then(Heard::from_secret);
            signers.push(heard.and_then(|heard| heard.signer()));
        }
        Ok(signers)
    }

    /// Whether the tombstone says as much already. Whatever is held then was released later, and stays.
    fn is_known(&self, pseudonym: &Pseudonym, withdrawal: Withdrawal, driver: &mut Controller<'_>, now: Time) -> bool {
        let Some(item) = self.guests.get(pseudonym).and_then(|guest| guest.item) else { return false };
        let said = withdrawal.counted_at(now).epoch;
        let device = driver.device();
        let is_held = device.state.receipts_of(item).next().is_some();
        let known = device.memory.tombstones.get(&item);
        known.is_some_and(|known| said <= known.epoch && (!is_held || withdrawal.until <= known.until))
    }

    fn take_back(
        &mut self,
        opened: &Opened,
        pseudonym: Pseudonym,
        withdrawal: Withdrawal,
        driver: &mut Controller<'_>,
        now: Time,
    ) -> Result<Option<Outcome>, DriveError> {
        let busy = Refusal::Busy { retry_after: RETRY_AFTER };
        let item = self.guests.get(&pseudonym).and_then(|guest| guest.item);
        let is_held = item.is_some_and(|item| driver.device().state.receipts_of(item).next().is_some());
        if !is_held && !self.notices.admit_unknown(now) {
            self.refuse(opened, busy, now);
            return Ok(None);
        }
        // Of an address of which nothing is held only a frame that is on its way can matter, and frames are not fresh for
        // long. Believing the deadline of a notice that anybody can make up would let strangers fill the tombstones.
        let until = if is_held { withdrawal.until } else { Time::default() };
        let withdrawal = Withdrawal { until, ..withdrawal };
        let Ok((guest, item)) = self.guest(pseudonym, driver) else {
            self.refuse(opened, busy, now);
            return Ok(None);
        };
        let body = Body::Withdraw { item, withdrawal };
        let message = graph::Message { sender: guest.device, receiver: self.me, body };
        let origin = Origin { id: Some(opened.id), cause: Cause { head: opened.head, consent: None } };
        let outcome = journal::receive(driver, message, origin, now)?;
        match outcome.fate {
            Fate::Taken => {
                tracing::debug!("a consent was withdrawn");
                self.notices.done.push((opened.sender.clone(), opened.id));
            }
            _ => self.refuse(opened, busy, now),
        }
        Ok(Some(outcome))
    }

    /// What was taken back is gone, and the trace that says so is on the disk.
    pub(crate) fn acknowledge(&mut self, head: ChainHead, now: Time) {
        for (sender, request) in std::mem::take(&mut self.notices.done) {
            self.answer(&sender, &Message::Withdrawn { request }, Some(head), now);
        }
    }

    fn refuse(&mut self, opened: &Opened, reason: Refusal, now: Time) {
        self.answer(&opened.sender, &Message::Refused { request: opened.id, reason }, None, now);
    }

    fn answer(&mut self, to: &Sender, message: &Message, head: Option<ChainHead>, now: Time) {
        self.post.answer(to, head, message, self.membership.mesh(), now);
    }
}
