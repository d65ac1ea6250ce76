//! Uploads: checked, stored, listed, and then acknowledged.

use std::sync::Arc;

use mesh_runtime::driver::run::Host as _;
use mesh_runtime::driver::{DriveError, Fate, RecordError};
use mesh_runtime::journal::{self, Origin};
use mesh_runtime::protocol::message::{Message, Refusal};
use pilot_core::evidence::envelope::Sender;
use pilot_core::evidence::statement::Content;
use pilot_core::evidence::trace::action::Cause;
use pilot_core::evidence::{PolicyStatement, StatementId};
use pilot_core::graph::{self, Body};
use pilot_core::value::Time;
use pilot_core::vocabulary::DeviceId;

use super::{Driving, Input, RETRY_AFTER, Repository, Request, Stored, Syncing, Upload};
use crate::store::{Came, PutError, Revision, Statement, Version};

/// Acknowledgements that wait for a sync of the trace. Who repeats what is stored then is told to come again.
const MAX_WAITING: usize = 1_024;

impl Repository {
    /// Checks a statement and gives it to the store, which says later what came of it.
    pub(super) fn upload(&mut self, request: Request, bytes: Vec<u8>, now: Time) {
        let Sender::Device(sender) = &request.sender else {
            self.post.complaints.complain("anonymous-upload", Some(&request.sender), &"only devices upload", now);
            return self.refuse(&request, Refusal::NotAllowed, now);
        };
        let statement = match PolicyStatement::open(&bytes, self.membership.mesh(), &self.vocabulary, now) {
            Ok(statement) if statement.device == *sender => statement,
            Ok(_) => {
                self.post.complaints.complain("forged-upload", Some(&request.sender), &"of another device", now);
                return self.refuse(&request, Refusal::NotAllowed, now);
            }
            Err(error) => {
                self.post.complaints.complain("statement", Some(&request.sender), &error, now);
                return self.refuse(&request, Refusal::Statement, now);
            }
        };
        let Ok(stored) = Statement::new(Version(statement.version), &bytes) else {
            return self.refuse(&request, Refusal::Statement, now);
        };
        let upload = Upload { statement, bytes: bytes.into() };
        let (store, inputs) = (Arc::clone(&self.store), self.inputs.clone());
        tokio::spawn(async move {
            let came = Came { id: Some(request.id), head: request.head };
            let result = store.put_as_it_came(upload.statement.device.clone(), stored, came).await;
            // An error means that the repository has ended; whoever asked asks again.
            let _ = inputs.send(Input::Stored(Box::new(Stored { request, upload, result }))).await;
        });
    }

    /// The store has answered.
    pub(super) fn stored(&mut self, stored: Stored, driver: &mut Driving<'_>, now: Time) -> Result<(), DriveError> {
        let Stored { request, upload, result } = stored;
        let version = upload.statement.version;
        match result {
            Ok(revision) => {
                self.durable.insert(revision.0, (request, upload));
                self.list_durable(driver, now)?;
            }
            Err(PutError::NotHigher { identical: true, .. }) => {
                // The sender has missed our answer, or somebody repeats what it sent. If we have not recorded it yet, the
                // answer is on its way.
                let is_listed = self.catalogue.statement(&upload.statement.device) == Some(&upload.bytes);
                if is_listed && self.acknowledgements.len() < MAX_WAITING {
                    self.acknowledge(request, version);
                } else {
                    self.refuse(&request, Refusal::Busy { retry_after: RETRY_AFTER }, now);
                }
            }
            Err(PutError::NotHigher { stored, identical: false }) => {
                self.post.complaints.complain(
                    "rolled-back",
                    Some(&request.sender),
                    &"a version that is not higher",
                    now,
                );
                self.refuse(&request, Refusal::NotHigher { stored: stored.0 }, now);
            }
            Err(PutError::Busy) => self.refuse(&request, Refusal::Busy { retry_after: RETRY_AFTER }, now),
            Err(PutError::Failed) => {
                tracing::error!("the policy store cannot write; nothing is accepted until a restart");
                self.refuse(&request, Refusal::OutOfOrder, now);
            }
        }
        Ok(())
    }

    /// Lists what is durable, in the order of the revisions. If the clock is not believed, it waits here.
    pub(super) fn list_durable(&mut self, driver: &mut Driving<'_>, now: Time) -> Result<(), DriveError> {
        loop {
            let revision = self.catalogue.head().saturating_add(1);
            let Some((request, upload)) = self.durable.get(&revision).cloned() else { return Ok(()) };
            let origin = Origin { id: Some(request.id), cause: Cause { head: request.head, consent: None } };
            let version = upload.statement.version;
            let is_listed = self.list(Revision(revision), upload, origin, driver, now)?;
            self.durable.remove(&revision);
            if is_listed {
                self.acknowledge(request, version);
            } else {
                self.refuse(&request, Refusal::OutOfOrder, now);
            }
        }
    }

    fn acknowledge(&mut self, request: Request, version: u64) {
        self.uploads = self.uploads.saturating_add(1);
        let revision = self.catalogue.head();
        let message = Message::Uploaded { request: request.id, version, revision };
        self.acknowledgements.push((request, message));
    }

    /// Begins to sync the trace, if there is anything new in it and no sync under way.
    pub(super) fn sync_trace(&mut self, driver: &mut Driving<'_>) -> Result<(), RecordError> {
        let is_noted = self.noted == self.catalogue.head() && self.left_out.is_stored();
        if self.syncing.is_some() || (self.acknowledgements.is_empty() && is_noted) {
            return Ok(());
        }
        let recorder = driver.recorder().recorder();
        if !self.left_out.is_stored() {
            // What is listed again must be in the trace before it is forgotten here. What is not listed must be known here
            // before it counts as recorded.
            recorder.sync().map_err(RecordError::new)?;
            self.left_out.store().map_err(RecordError::new)?;
        }
        let sync = recorder.begin_sync().map_err(RecordError::new)?;
        self.syncing = Some(Syncing {
            revision: self.catalogue.head(),
            head: recorder.head(),
            acknowledgements: std::mem::take(&mut self.acknowledgements),
        });
        let inputs = self.inputs.clone();
        // If the repository has ended, nobody waits for it.
        tokio::task::spawn_blocking(move || drop(inputs.blocking_send(Input::Synced(sync.wait()))));
        Ok(())
    }

    /// What the sync was for is durable in the store and in the trace.
    pub(super) fn synced(&mut self, now: Time) {
        let Some(Syncing { revision, head, acknowledgements }) = self.syncing.take() else { return };
        self.noted = revision;
        if let Err(error) = self.store.note_recorded(Revision(revision)) {
            tracing::warn!(%error, "uploads may be recorded once more after the next start");
        }
        for (request, message) in acknowledgements {
            self.answer(&request, &message, Some(head), now);
        }
    }

    /// A statement is durable: the graph's uploadPolicy↓ or withdrawPolicy↓. Whether it is listed: the graph may have no
    /// room, and then it is not handed out either.
    pub(super) fn list(
        &mut self,
        revision: Revision,
        upload: Upload,
        origin: Origin,
        driver: &mut Driving<'_>,
        now: Time,
    ) -> Result<bool, DriveError> {
        let Upload { statement, bytes } = upload;
        let body = self.body_of(&statement, &bytes, driver, now);
        let is_listed = match body {
            Some((sender, Some(body))) => {
                let message = graph::Message { sender, receiver: self.me, body };
                let outcome = journal::receive(driver, message, origin, now)?;
                let is_listed = matches!(outcome.fate, Fate::Taken | Fate::Elided(None));
                self.happened(outcome, driver);
                is_listed
            }
            // A withdrawal of nothing: there is no step, and still it must be known.
            Some((_, None)) => true,
            None => false,
        };
        if is_listed {
            self.left_out.remove(&statement.device);
            self.catalogue.insert(statement.device, revision.0, bytes);
        } else {
            tracing::error!(device = %statement.device, "there is no room for another policy");
            self.left_out.insert(&statement.device, revision);
            self.catalogue.pass(revision.0);
        }
        Ok(is_listed)
    }

    /// Who says what, in the words of the graph; `None` if there is no number for it.
    fn body_of(
        &self,
        statement: &PolicyStatement,
        bytes: &[u8],
        driver: &mut Driving<'_>,
        now: Time,
    ) -> Option<(DeviceId, Option<Body>)> {
        let sender = driver.recorder().names.id_of(&statement.device)?;
        let Content::Policy(policy) = &statement.content else {
            let listed = driver.device().memory.catalogue.get(&sender).copied();
            return Some((sender, listed.map(|policy| Body::WithdrawPolicy { policy })));
        };
        let policy = driver.intern(policy.clone()).ok()?;
        let digest = driver.context(now).policies.digest(policy)?;
        let names = &mut driver.recorder().names;
        names.forget_statements(sender);
        names.statement(sender, digest, StatementId::of(bytes));
        Some((sender, Some(Body::UploadPolicy { policy })))
    }
}
