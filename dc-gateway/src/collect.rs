//! What the radio hears: refused and counted, or judged by the graph and kept.
//!
//! The graph knows an item by ids and holds a stand-in for its value, the handle of its record. The address itself is in
//! memory until the vault has it, and then in the vault and in the filter.

use std::sync::Arc;

use mesh_runtime::air::{Address, AddressKind, Sighting};
use mesh_runtime::driver::inbox::MAX_WAITING_MESSAGES;
use mesh_runtime::driver::{DriveError, Fate, Guest, NoRoom, Outcome};
use mesh_runtime::journal::{self, Origin};
use pilot_core::codec::Digest;
use pilot_core::evidence::Pseudonym;
use pilot_core::evidence::pseudonym::ConsentMark;
use pilot_core::evidence::trace::Reason;
use pilot_core::evidence::trace::action::{Cause, Item, Party};
use pilot_core::graph::message::Release;
use pilot_core::graph::{self, Body, Guard};
use pilot_core::semantics::{Delivery, Epoch};
use pilot_core::value::{Time, Value};
use pilot_core::vocabulary::ItemId;

use crate::filter::{Candidate, Verdict};
use crate::host::{Controller, Gateway};
use crate::value::Heard;
use crate::vault::{Change, Description, Handle, Record, VaultError};

/// Something that the graph judges, or will judge: a message can wait for its edge.
pub(crate) struct Arrival {
    handle: Handle,
    pseudonym: Pseudonym,
    heard: Heard,
    policy: Digest,
    epoch: Epoch,
}

impl Gateway {
    /// An advertisement was heard.
    pub(crate) fn heard(
        &mut self,
        sighting: &Sighting,
        driver: &mut Controller<'_>,
        now: Time,
    ) -> Result<Option<Outcome>, DriveError> {
        let candidate = match self.filter.look(sighting, now) {
            Verdict::Judge(candidate) => candidate,
            Verdict::Refused(reason) => {
                driver.recorder().recorder().elide(reason);
                self.count(reason.name());
                return Ok(None);
            }
            Verdict::NotAFrame(_) => {
                self.count("not-a-frame");
                return Ok(None);
            }
        };
        let signature = candidate.frame.signature().copied();
        if let (Some(_), Err(error)) = (signature, candidate.frame.verify(sighting.address, candidate.epoch)) {
            self.post.complaints.complain("consent-signature", None, &error, now);
            driver.recorder().recorder().elide(Reason::Other);
            self.count("consent-signature");
            return Ok(None);
        }
        let heard = Heard::new(sighting.address, sighting.address_kind, signature);
        self.judge(&candidate, heard, driver, now)
    }

    /// Gives a broadcast to the graph.
    fn judge(
        &mut self,
        candidate: &Candidate<'_>,
        heard: Heard,
        driver: &mut Controller<'_>,
        now: Time,
    ) -> Result<Option<Outcome>, DriveError> {
        let Some(policy) = driver.context(now).policies.by_digest(&candidate.policy) else {
            driver.recorder().recorder().elide(Reason::PolicyNotOurs);
            self.count(Reason::PolicyNotOurs.name());
            return Ok(None);
        };
        let pseudonym = Pseudonym::of(&heard.address.reveal(), &self.audit);
        let Ok((guest, item)) = self.guest(pseudonym, driver) else {
            self.count("no-room");
            return Ok(None);
        };
        let handle = Handle::random().map_err(|error| self.fail(error))?;
        let consent = heard.signature.map(|signed| ConsentMark::of(&signed.key, &signed.signature, &self.audit));
        let stand_in = Value::String(Arc::from(handle.to_string()));
        let release = Release { item, policy, epoch: candidate.epoch, value: Some(stand_in) };
        let message = graph::Message { sender: guest.device, receiver: self.me, body: Body::Broadcast(release) };
        if self.arrivals.len() > MAX_WAITING_MESSAGES {
            // The driver keeps no more of them either.
            self.arrivals.pop_front();
        }
        self.arrivals.push_back(Arrival { handle, pseudonym, heard, policy: candidate.policy, epoch: candidate.epoch });
        let origin = Origin { id: None, cause: Cause { head: None, consent } };
        let outcome = match journal::receive(driver, message, origin, now) {
            Ok(outcome) => outcome,
            Err(error) => {
                self.arrivals.pop_back();
                return Err(error);
            }
        };
        match outcome.fate {
            Fate::Taken | Fate::Waits => {}
            fate => {
                self.arrivals.pop_back();
                if fate == Fate::Elided(Some(Guard::NotYetHeld)) {
                    self.again(item, pseudonym, heard, candidate.policy, driver, now)?;
                }
                self.count(match fate {
                    Fate::Elided(Some(guard)) => Reason::of(guard).name(),
                    Fate::Full(_) => "no-room",
                    _ => Reason::Other.name(),
                });
            }
        }
        Ok(Some(outcome))
    }

    /// Whoever owns the item with this pseudonym, known to the driver from now on.
    pub(crate) fn guest(
        &mut self,
        pseudonym: Pseudonym,
        driver: &mut Controller<'_>,
    ) -> Result<(Guest, ItemId), NoRoom> {
        if let Some((guest, item)) = self.guests.get(&pseudonym).and_then(|guest| Some((*guest, guest.item?))) {
            return Ok((guest, item));
        }
        let (datatype, word) = &self.datatype;
        let guest = driver.introduce(Some(*datatype))?;
        let item = guest.item.ok_or(NoRoom)?;
        let names = &mut driver.recorder().names;
        names.guest(guest.device, Party::Owner);
        names.item(item, Item { pseudonym, datatype: word.clone() });
        self.guests.insert(pseudonym, guest);
        Ok((guest, item))
    }

    /// The graph has kept what arrived: the vault will, too.
    pub(crate) fn kept(&mut self, delivery: &Delivery, driver: &mut Controller<'_>) {
        let Some(Value::String(stand_in)) = &delivery.value else { return };
        let at = self.arrivals.iter().rposition(|arrival| arrival.handle.to_string() == **stand_in);
        let Some(arrival) = at.and_then(|at| self.arrivals.remove(at)) else {
            // The trace says that we hold something that we do not have.
            self.fail("an item was kept whose value is not known");
            return;
        };
        let Arrival { handle, pseudonym, heard, policy, epoch } = arrival;
        // Whatever the time: deadlines are the policy's.
        let until = driver.context(Time::default()).retention(delivery.handover.policy).unwrap_or_default();
        let datatype = self.datatype.1.as_str().to_owned();
        let description = Description { pseudonym, datatype, policy, until, epoch };
        match heard.to_secret() {
            Ok(secret) => self.changes.push(Change::Keep(Record { handle, description }, secret)),
            Err(error) => drop(self.fail(error)),
        }
        self.hold(delivery.handover.item, heard, policy, heard.signer());
        self.accepted = self.accepted.saturating_add(1);
    }

    /// A consent to what is held was heard again. If it was signed and this one is not, or by another key, whoever can name the
    /// address may take it back from now on: nobody can tell which of the two is the owner's.
    fn again(
        &mut self,
        item: ItemId,
        pseudonym: Pseudonym,
        heard: Heard,
        policy: Digest,
        driver: &mut Controller<'_>,
        now: Time,
    ) -> Result<(), DriveError> {
        // The vault is asked how it was heard first, so it must know what the graph knows.
        self.flush(driver)?;
        let (signer, revised) = self.first_heard(&pseudonym, policy, heard, now).map_err(|error| self.fail(error))?;
        self.changes.extend(revised);
        self.hold(item, heard, policy, signer);
        Ok(())
    }

    /// The key that is asked for from now on, and what becomes of the record if this consent is another.
    fn first_heard(
        &self,
        pseudonym: &Pseudonym,
        policy: Digest,
        heard: Heard,
        now: Time,
    ) -> Result<(Option<[u8; 32]>, Option<Change>), VaultError> {
        for record in self.vault.held_of(pseudonym)? {
            let known = self.vault.reveal(record.handle, now)?.as_ref().and_then(Heard::from_secret);
            let Some(known) = known.filter(|_| record.description.policy == policy) else { continue };
            let signer = known.signer();
            if signer.is_none() || signer == heard.signer() {
                return Ok((signer, None));
            }
            // INVARIANT: it is one byte longer than what was short enough.
            let secret = Heard { is_contested: true, ..known }.to_secret().ok();
            return Ok((None, secret.map(|secret| Change::Revise(record, secret))));
        }
        Ok((None, None))
    }

    fn hold(&mut self, item: ItemId, heard: Heard, policy: Digest, signer: Option<[u8; 32]>) {
        self.filter.hold(heard.address, heard.kind, policy, signer);
        self.addresses.insert(item, heard.address);
    }

    /// The graph judges this address again, of whichever kind it is: a pseudonym does not tell them apart.
    pub(crate) fn release(&mut self, address: Address) {
        self.filter.release(address, AddressKind::Public);
        self.filter.release(address, AddressKind::Random);
    }

    pub(crate) fn count(&mut self, reason: &'static str) {
        let count = self.refused.entry(reason).or_default();
        *count = count.saturating_add(1);
    }
}
