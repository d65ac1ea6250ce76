//! From requestPolicies↑ to downloadPolicies↓: Π is asked for in parts, and each statement in it is opened here.

use mesh_runtime::driver::{DriveError, Driver, Fate, Outcome, RecordError};
use mesh_runtime::journal::{self, Journal, Origin};
use mesh_runtime::link;
use mesh_runtime::protocol::message::{Message, Refusal};
use mesh_runtime::protocol::post::Opened;
use mesh_runtime::protocol::requests::MAX_RETRY_AFTER;
use pilot_core::evidence::PolicyStatement;
use pilot_core::evidence::envelope::{MessageId, Sender};
use pilot_core::evidence::statement::Content;
use pilot_core::evidence::trace::action::Cause;
use pilot_core::graph::{self, Body, Location};
use pilot_core::semantics::PolicyId;
use pilot_core::value::Time;
use pilot_core::vocabulary::DeviceId;

use super::{Gateway, Question, is_on};
use crate::catalogue::Refused;
use crate::catalogue::verify::Reader;
use crate::download::{Download, Progress};

/// A part of a download, as it came.
struct Part {
    since: u64,
    until: u64,
    head: u64,
    statements: Vec<Vec<u8>>,
}

impl Gateway<'_> {
    /// requestPolicies↑ was recorded.
    pub(super) fn ask_for_policies(&mut self, driver: &mut Driver<'_, Journal>, now: Time) {
        let Some(sent) = driver.recorder().next_sent() else { return };
        // Whoever asks again does not wait for the last answer any more. What came of it is in the catalogue.
        self.requests.retain(|question| *question != Question::Fetch);
        self.download = Some(Download::begin(sent.id, Some(sent.head), &self.catalogue, now));
        (self.asked, self.is_news) = (now, false);
        self.ask(sent.id, now);
    }

    /// Asks for the next part, with the same id.
    fn ask(&mut self, id: MessageId, now: Time) {
        let head = self.download.as_ref().and_then(|download| download.head);
        if let Err(error) = self.requests.ask(id, Question::Fetch, head, now) {
            // Too many notices wait. The graph goes on by τ, and asks again.
            self.post.complaints.complain("not-asked", None, &error, now);
        }
    }

    /// Sends every question that is due; without a connection none is.
    pub(super) fn ask_what_is_due(&mut self, now: Time) {
        if !self.is_connected {
            return;
        }
        // Notices leave also when the mesh file has expired: what was given is taken back all the same.
        let is_in_force = self.membership.is_in_force(now);
        self.ask_for_acknowledgements(now);
        let due: Vec<_> = self.requests.due(now).map(|due| (due.id, due.about.clone(), due.head)).collect();
        for (id, question, head) in due {
            let (to, message) = match question {
                Question::Fetch if !is_in_force => continue,
                Question::Fetch => {
                    let Some(download) = &self.download else { continue };
                    (self.repository.name.clone(), Message::Fetch { since: download.since() })
                }
                Question::Notice(controller) => match self.notice(&controller) {
                    Ok(sealed) => (controller, Message::Withdraw { sealed }),
                    Err(reason) => {
                        self.post.complaints.complain("not-told", Some(&Sender::Device(controller)), &reason, now);
                        continue;
                    }
                },
            };
            self.post.send(&Sender::Device(to), id, head, &message, self.membership.mesh(), now);
        }
    }

    /// Something came over the link.
    pub(super) fn message(
        &mut self,
        came: &link::Message,
        driver: &mut Driver<'_, Journal>,
        now: Time,
    ) -> Result<Option<Outcome>, DriveError> {
        if !self.membership.is_in_force(now) {
            return Ok(None);
        }
        let mesh = self.membership.mesh();
        if is_on(came, &self.repository.changes) {
            let opened = self.post.open_announcement(came, mesh, now);
            if let Some(opened) = opened {
                self.news(&opened, now);
            }
            return Ok(None);
        }
        let Some(opened) = self.post.open(came, mesh, false, now) else { return Ok(None) };
        self.answered(opened, driver, now)
    }

    /// The repository says that there is something new.
    fn news(&mut self, opened: &Opened, now: Time) {
        match opened.message {
            Message::Changed { revision } if self.is_repository(&opened.sender) => {
                // A lower one is news as well: the repository has lost something.
                self.is_news |= revision != self.catalogue.head();
            }
            _ => self.complain_about(opened, "unasked", now),
        }
    }

    fn is_repository(&self, sender: &Sender) -> bool {
        matches!(sender, Sender::Device(name) if *name == self.repository.name)
    }

    fn complain_about(&mut self, opened: &Opened, kind: &'static str, now: Time) {
        let reason = format!("`{}` that nobody asked for", opened.message.name());
        self.post.complaints.complain(kind, Some(&opened.sender), &reason, now);
    }

    /// An answer to a question that waits, by whoever was asked.
    fn answered(
        &mut self,
        opened: Opened,
        driver: &mut Driver<'_, Journal>,
        now: Time,
    ) -> Result<Option<Outcome>, DriveError> {
        let request = opened.message.answers();
        let Some((id, question)) = request.and_then(|id| Some((id, self.requests.about(&id)?.clone()))) else {
            // An answer to a question that was asked twice, or has been answered since.
            return Ok(None);
        };
        let asked = match &question {
            Question::Fetch => self.repository.name.clone(),
            Question::Notice(controller) => controller.clone(),
        };
        if opened.sender != Sender::Device(asked) {
            self.complain_about(&opened, "wrong-sender", now);
            return Ok(None);
        }
        let origin = Origin { id: Some(opened.id), cause: Cause { head: opened.head, consent: None } };
        match (question, opened.message) {
            (Question::Fetch, Message::Policies { since, until, head, statements, .. }) => {
                return self.take_part(id, Part { since, until, head, statements }, origin, driver, now);
            }
            (Question::Notice(controller), Message::Withdrawn { .. }) => self.acknowledged(&id, &controller),
            (_, Message::Refused { reason: Refusal::Busy { retry_after }, .. }) => {
                self.requests.postpone(&id, retry_after, now);
            }
            (_, Message::Refused { reason, .. }) => {
                self.requests.postpone(&id, MAX_RETRY_AFTER, now);
                self.post.complaints.complain("refused-by-peer", Some(&opened.sender), &reason, now);
            }
            (_, other) => {
                let reason = format!("`{}` is no answer to this question", other.name());
                self.post.complaints.complain("malformed", Some(&opened.sender), &reason, now);
            }
        }
        Ok(None)
    }

    /// A part of Π. The next one is asked for before the signatures in this one are verified: both take their time.
    fn take_part(
        &mut self,
        id: MessageId,
        part: Part,
        origin: Origin,
        driver: &mut Driver<'_, Journal>,
        now: Time,
    ) -> Result<Option<Outcome>, DriveError> {
        let Part { since, until, head, statements } = part;
        let Some(download) = self.download.as_mut().filter(|download| download.id == id) else { return Ok(None) };
        let progress = match download.advance((since, until, head), statements.len()) {
            Ok(Progress::Repeated) => return Ok(None),
            Ok(progress) => progress,
            Err(error) => {
                let repository = Sender::Device(self.repository.name.clone());
                self.post.complaints.complain("malformed", Some(&repository), &error, now);
                return Ok(None);
            }
        };
        if progress == Progress::Complete {
            self.requests.answered(&id);
        } else {
            self.ask(id, now);
            self.persist(driver, now)?;
            self.ask_what_is_due(now);
        }
        if progress != Progress::Anew {
            self.take_statements(statements, now);
        }
        if progress != Progress::Complete {
            return Ok(None);
        }
        let mut download = self.download.take();
        let seen = download.as_mut().and_then(Download::seen).map(|seen| &*seen);
        self.catalogue.complete(head, seen, now);
        self.catalogue.store(&self.place.catalogue).map_err(RecordError::new)?;
        self.deliver(origin, driver, now)
    }

    fn take_statements(&mut self, statements: Vec<Vec<u8>>, now: Time) {
        let reader = Reader { mesh: self.membership.mesh(), vocabulary: self.about.vocabulary, now };
        let seen = self.download.as_mut().and_then(Download::seen);
        let repository = Sender::Device(self.repository.name.clone());
        for refused in self.catalogue.take(statements, seen, &reader) {
            let kind = match refused {
                Refused::Unverifiable(_) => "statement",
                Refused::RolledBack { .. } => "rolled-back",
            };
            self.post.complaints.complain(kind, Some(&repository), &refused, now);
        }
    }

    /// Π is complete: downloadPolicies↓, if the graph still waits for it. Otherwise what came is there for the next time.
    fn deliver(
        &mut self,
        origin: Origin,
        driver: &mut Driver<'_, Journal>,
        now: Time,
    ) -> Result<Option<Outcome>, DriveError> {
        if Self::location(driver) != Location::S2 {
            return Ok(None);
        }
        let offers = self.offers(driver, now);
        let (count, listed) = (offers.len(), offers.clone());
        let body = Body::DownloadPolicies { offers };
        let message = graph::Message { sender: self.repository.id, receiver: driver.device().id, body };
        let outcome = journal::receive(driver, message, origin, now)?;
        if let Fate::Full(limit) = outcome.fate {
            self.post.complaints.complain("full", None, &limit, now);
        }
        let digests: std::collections::BTreeSet<_> = {
            let policies = driver.context(now).policies;
            listed.iter().filter_map(|(device, policy)| Some((*device, policies.digest(*policy)?))).collect()
        };
        driver.recorder().names.retain_statements(|device, digest| digests.contains(&(device, *digest)));
        tracing::info!(policies = count, revision = self.catalogue.head(), "the policies of the mesh are known");
        Ok(Some(outcome))
    }

    /// Every policy that is listed and in force, with numbers, sorted.
    pub(super) fn offers(&mut self, driver: &mut Driver<'_, Journal>, now: Time) -> Vec<(DeviceId, PolicyId)> {
        let mut left_out = 0_u64;
        for policy in self.catalogue.take_fresh() {
            left_out += u64::from(driver.intern(policy).is_err());
        }
        let (mesh, vocabulary) = (self.membership.mesh(), self.about.vocabulary);
        let mut offers = Vec::new();
        for (name, offer) in self.catalogue.offers() {
            let is_valid = mesh.device(name.as_str()).is_some_and(|device| device.check_valid(now).is_ok());
            if offer.expires <= now || !is_valid {
                continue;
            }
            let known = driver.recorder().names.id_of(name);
            // A device that has changed hands has another number after a restart.
            let is_same = |id: &DeviceId| driver.context(now).directory.entity(*id) == Some(offer.entity);
            let Some(id) = known.filter(is_same) else {
                left_out += 1;
                continue;
            };
            let interned = driver.context(now).policies.by_digest(&offer.policy);
            let policy = interned.or_else(|| {
                // It has lost its number meanwhile.
                let statement = PolicyStatement::open(offer.bytes, mesh, vocabulary, now).ok()?;
                let Content::Policy(policy) = statement.content else { return None };
                driver.intern(policy).ok()
            });
            let Some(policy) = policy else {
                left_out += 1;
                continue;
            };
            driver.recorder().names.statement(id, offer.policy, offer.statement);
            offers.push((id, policy));
        }
        if left_out > 0 {
            tracing::warn!(count = left_out, "some policies are left out: there is no room, or a restart is needed");
        }
        offers.sort_unstable();
        offers
    }
}
