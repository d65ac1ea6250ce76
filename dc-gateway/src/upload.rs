//! What is said to the repository: the policy, and that it is withdrawn. Said until it is acknowledged, and again from time
//! to time, because a repository can lose its disk.
//!
//! The statement exists, signed and on the disk, before the step that sends it is recorded: the record names it.

use mesh_runtime::driver::run::Host as _;
use mesh_runtime::driver::{Decision, DriveError, Outcome, RecordError};
use mesh_runtime::journal::new_id;
use mesh_runtime::protocol::message::{Message, Refusal};
use mesh_runtime::protocol::requests::MAX_RETRY_AFTER;
use pilot_core::codec::{self, Digest};
use pilot_core::evidence::envelope::{ChainHead, MessageId};
use pilot_core::graph::{self, Body, Label, MessageKind};
use pilot_core::policy::{Choice, Policy};
use pilot_core::semantics::PolicyId;
use pilot_core::value::Time;

use crate::host::{Controller, Gateway};
use crate::published::{PublishError, Statement};

/// The upload as the graph labels it.
pub(crate) const UPLOAD: Label = Label::Send(MessageKind::UploadPolicy);
/// A policy that was acknowledged is uploaded again after this many seconds, or a quarter of its statement's life.
pub const UPLOAD_AGAIN_SECONDS: u64 = 12 * 3_600;
/// A repository that knows a higher version is answered with a higher one at most once in so many seconds.
pub const RAISE_SECONDS: u64 = 10;

/// A statement on its way.
#[derive(Debug, Clone)]
pub(crate) struct Upload {
    statement: Statement,
    /// `None`: a withdrawal.
    policy: Option<Digest>,
}

/// What the repository is known to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing was said.
    Silent,
    /// It was told and has not answered.
    Waiting {
        /// Since when.
        since: Time,
    },
    /// It has the statement.
    Acknowledged {
        /// Which.
        version: u64,
        /// Since when.
        since: Time,
    },
}

/// What to tell the user, and what happened; or why nothing did.
pub(crate) type Changed = Result<(String, Option<Outcome>), String>;

impl Gateway {
    /// Makes sure that there is a statement about a policy, before a step names it.
    pub(crate) fn state(
        &mut self,
        policy: &Policy,
        driver: &mut Controller<'_>,
        now: Time,
    ) -> Result<(), PublishError> {
        let id = self.published.publish(policy, self.membership.mesh(), now)?.id();
        let digest = self.digest(policy);
        driver.recorder().names.statement(self.me, digest, id);
        Ok(())
    }

    pub(crate) fn digest(&self, policy: &Policy) -> Digest {
        codec::digest(&Choice::Policy(policy.clone()), &self.vocabulary)
    }

    /// The policy that this device works under, if it has not withdrawn it.
    pub(crate) fn current(&self, driver: &Controller<'_>, now: Time) -> Option<(Digest, Policy)> {
        let context = driver.context(now);
        let id = *driver.device().memory.current.first()?;
        Some((context.policies.digest(id)?, context.policy(id)?.clone()))
    }

    /// A step sends something: from now on it is said until it is acknowledged.
    pub(crate) fn sent(&mut self, message: &graph::Message, driver: &mut Controller<'_>, time: Time) {
        let Some(sent) = driver.recorder().next_sent() else { return };
        let Some(digest) = message.policy().and_then(|policy| driver.context(time).policies.digest(policy)) else {
            return;
        };
        // What is noted as recorded is so also after the end of the machine.
        if let Err(error) = driver.recorder().recorder().sync() {
            return drop(self.fail(error));
        }
        let (noted, upload) = match message.body {
            Body::UploadPolicy { .. } => {
                let statement = self.published.statement(&digest).cloned();
                let upload = statement.map(|statement| Upload { statement, policy: Some(digest) });
                (self.published.upload_is_recorded(&digest), upload)
            }
            Body::WithdrawPolicy { .. } => {
                let noted = self.published.withdrawal_is_recorded(&digest, sent);
                (noted, self.published.withdrawal().cloned().map(|statement| Upload { statement, policy: None }))
            }
            _ => return,
        };
        if let Err(error) = noted {
            drop(self.fail(error));
        } else if let Some(upload) = upload {
            self.ask(sent.id, upload, Some(sent.head), time);
        }
    }

    fn ask(&mut self, id: MessageId, upload: Upload, head: Option<ChainHead>, now: Time) {
        let version = upload.statement.version;
        // Whatever was said before is out of date.
        self.requests.retain(|_| false);
        if let Err(error) = self.requests.ask(id, upload, head, now) {
            self.post.complaints.complain("not-sent", None, &error, now);
        }
        match self.standing {
            Standing::Acknowledged { version: known, .. } if known == version => {}
            Standing::Waiting { .. } => {}
            Standing::Silent | Standing::Acknowledged { .. } => self.standing = Standing::Waiting { since: now },
        }
    }

    /// Says a withdrawal that an earlier run could not get acknowledged, by the id that its record has.
    pub(crate) fn resume_withdrawal(&mut self, now: Time) {
        let sent = self.published.sent();
        let id = sent.map_or_else(new_id, |sent| Ok(sent.id));
        if let (Some(statement), Ok(id)) = (self.published.withdrawal().cloned(), id) {
            self.ask(id, Upload { statement, policy: None }, sent.map(|sent| sent.head), now);
        }
    }

    /// Says what is due to be said.
    pub(crate) fn repeat_uploads(&mut self, now: Time) {
        let Self { requests, post, repository, membership, .. } = self;
        for due in requests.due(now) {
            let message = Message::Upload { statement: due.about.statement.bytes.clone() };
            post.send(repository, due.id, due.head, &message, membership.mesh(), now);
        }
    }

    /// The repository has it.
    pub(crate) fn uploaded(&mut self, request: MessageId, version: u64, now: Time) {
        if self.requests.about(&request).is_none_or(|upload| upload.statement.version != version) {
            return;
        }
        let Some(upload) = self.requests.answered(&request) else { return };
        match upload.policy {
            Some(policy) => {
                if !matches!(self.standing, Standing::Acknowledged { .. }) {
                    tracing::info!(version, %policy, "the repository has the policy");
                }
            }
            None => {
                tracing::info!(version, "the repository knows that the policy is withdrawn");
                if let Err(error) = self.published.withdrawal_is_known() {
                    tracing::warn!(%error, "the withdrawal will be said once more after a restart");
                }
            }
        }
        self.standing = Standing::Acknowledged { version, since: now };
    }

    /// The repository does not want it.
    pub(crate) fn upload_refused(
        &mut self,
        request: MessageId,
        reason: Refusal,
        driver: &mut Controller<'_>,
        now: Time,
    ) -> Result<(), DriveError> {
        let Some(upload) = self.requests.about(&request) else { return Ok(()) };
        let is_withdrawal = upload.policy.is_none();
        match reason {
            Refusal::Busy { retry_after } => self.requests.postpone(&request, retry_after, now),
            Refusal::NotHigher { stored } if now >= self.next_raise && self.published.can_raise(stored) => {
                tracing::warn!(stored, "the repository has a later statement of this device; making a higher one");
                self.next_raise = Time::from_unix(now.unix().saturating_add(RAISE_SECONDS));
                self.published.raise(stored);
                let said = if is_withdrawal {
                    self.published.withdraw_again(now).map(drop).map(|()| self.resume_withdrawal(now))
                } else {
                    self.say_again(driver, now)
                };
                said.map_err(|error| self.fail(error))?;
            }
            Refusal::NotHigher { .. } => self.requests.postpone(&request, RAISE_SECONDS, now),
            other => {
                self.post.complaints.complain("upload-refused", Some(&self.repository), &other, now);
                self.requests.postpone(&request, MAX_RETRY_AFTER, now);
            }
        }
        Ok(())
    }

    /// States the current policy anew if that is needed, and uploads it at once.
    fn say_again(&mut self, driver: &mut Controller<'_>, now: Time) -> Result<(), PublishError> {
        if let Some((_, policy)) = self.current(driver, now) {
            self.state(&policy, driver, now)?;
            driver.repeat(UPLOAD);
        }
        Ok(())
    }

    /// A statement whose life is half over is replaced.
    pub(crate) fn renew(&mut self, driver: &mut Controller<'_>, now: Time) -> Result<(), DriveError> {
        let current = driver.device().memory.current.first();
        let Some(digest) = current.and_then(|id| driver.context(now).policies.digest(*id)) else { return Ok(()) };
        let is_old = self.published.statement(&digest).is_none_or(|statement| statement.is_old(now));
        if is_old && self.is_member(now) {
            self.say_again(driver, now).map_err(|error| self.fail(error))?;
        }
        Ok(())
    }

    /// The filter lets pass what somebody may consent to, and without a current policy that is nothing.
    pub(crate) fn tell_filter(&mut self, also: Option<Digest>, now: Time) -> Result<(), String> {
        let published = self.published.policies(now).map(|(digest, _)| *digest).chain(also);
        self.filter.publish(published).map_err(|error| error.to_string())
    }

    /// Reads the policy file again, and works under what it says.
    pub(crate) fn reload(&mut self, driver: &mut Controller<'_>, now: Time) -> Result<Changed, DriveError> {
        if !self.is_member(now) {
            return Ok(Err("this device is no member of the mesh now".into()));
        }
        let policy = match self.source.read(&self.vocabulary, self.entity, self.datatype.0) {
            Ok(policy) => policy,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let digest = self.digest(&policy);
        if self.current(driver, now).is_some_and(|(current, _)| current == digest) {
            return Ok(Ok((format!("The policy {digest} has not changed."), None)));
        }
        // Before the graph publishes it.
        if let Err(problem) = self.tell_filter(Some(digest), now) {
            return Ok(Err(problem));
        }
        let Ok(id) = driver.intern(policy.clone()) else {
            return Ok(Err("there is no room for another policy".into()));
        };
        if let Err(error) = self.state(&policy, driver, now) {
            return Ok(Err(error.to_string()));
        }
        let outcome = driver.decide(Decision::ChangeOwn { own: vec![id] }, now)?;
        driver.repeat(UPLOAD);
        tracing::info!(policy = %digest, "a new policy is in force");
        Ok(Ok((format!("The policy {digest} is in force, and on its way to the repository."), Some(outcome))))
    }

    /// withdrawPolicy↑ for each of these policies. The repository lists the current one, so its record comes last: its
    /// envelope is the one that leaves.
    pub(crate) fn record_withdrawals(
        &mut self,
        mut policies: Vec<PolicyId>,
        driver: &mut Controller<'_>,
        now: Time,
    ) -> Result<(), DriveError> {
        policies.sort_by_key(|policy| driver.device().memory.current.contains(policy));
        for policy in policies {
            let outcome = driver.decide(Decision::WithdrawPolicy { policy }, now)?;
            self.happened(outcome, driver);
        }
        Ok(())
    }

    /// Takes back every policy that is published.
    pub(crate) fn withdraw_policy(&mut self, driver: &mut Controller<'_>, now: Time) -> Result<Changed, DriveError> {
        let published: Vec<PolicyId> = driver.device().memory.published.iter().copied().collect();
        if published.is_empty() {
            return Ok(Err("no policy is published".into()));
        }
        let policies = driver.context(now).policies;
        let digests = published.iter().filter_map(|policy| policies.digest(*policy)).collect();
        let recorder = driver.recorder().recorder();
        // After a crash the trace is read from here on.
        recorder.sync().map_err(RecordError::new)?;
        if let Err(error) = self.published.withdraw(digests, recorder.position(), now) {
            return Ok(Err(error.to_string()));
        }
        self.record_withdrawals(published, driver, now)?;
        // After the graph has withdrawn them.
        self.tell_filter(None, now).map_err(|problem| self.fail(problem))?;
        tracing::info!("the policy is withdrawn; nothing is collected");
        let said = "The policy is withdrawn: nothing is collected any more. What is held stays until its deadline.";
        Ok(Ok((said.into(), None)))
    }
}
