//! The daemon around the driver: what comes in, what happened, and what is done once for many steps.
//!
//! | file | what |
//! | --- | --- |
//! | `start`, `follow` | the device as the disk has it |
//! | `collect` | what the radio hears |
//! | `notices` | what people take back |
//! | `upload` | what is said to the repository |
//! | `status` | what the user is told |
//!
//! **Record, then act.** A step is in the trace before the vault changes. What the steps between two looks at the network
//! change in the vault is one transaction, in [`Host::settle`], before anything is acknowledged, told to applications or
//! shown to the user. The trace is synced before, and the transaction says how far it follows the trace: after a crash the
//! next start does again what must not be forgotten (`follow`). If the vault fails, the daemon ends: the next start begins
//! from what the vault has.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use mesh_runtime::air::{self, Address, Sighting};
use mesh_runtime::daemon::control::Asked;
use mesh_runtime::daemon::membership::Membership;
use mesh_runtime::driver::clock::ClockProblem;
use mesh_runtime::driver::run::Host;
use mesh_runtime::driver::{DriveError, Driver, Guest, Outcome, RecordError};
use mesh_runtime::journal::Journal;
use mesh_runtime::keys::SecretKeys;
use mesh_runtime::link::Event as LinkEvent;
use mesh_runtime::protocol::message::Message;
use mesh_runtime::protocol::post::{Opened, Post};
use mesh_runtime::protocol::requests::Requests;
use mesh_runtime::recorder::Position;
use pilot_core::evidence::envelope::Sender;
use pilot_core::evidence::mesh::FrameTag;
use pilot_core::evidence::trace::action::Word;
use pilot_core::evidence::{AuditKey, DeviceName, Pseudonym};
use pilot_core::graph::{Action, MessageKind};
use pilot_core::semantics::Event;
use pilot_core::value::Time;
use pilot_core::vocabulary::{DataType, DeviceId, Entity, ItemId, Vocabulary};
use serde_json::json;

use crate::applications::Applications;
use crate::collect::Arrival;
use crate::config::PolicySource;
use crate::filter::Filter;
use crate::notices::Notices;
use crate::published::Published;
use crate::upload::{Standing, Upload};
use crate::vault::{Change, Vault};

/// What comes to the gateway.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a frame that will be refused is not worth an allocation")]
pub(crate) enum Input {
    /// From the network.
    Link(LinkEvent),
    /// From the radio.
    Heard(Sighting),
}

pub(crate) type Controller<'v> = Driver<'v, Journal>;

/// The gateway.
pub(crate) struct Gateway {
    pub(crate) name: DeviceName,
    pub(crate) me: DeviceId,
    pub(crate) tag: FrameTag,
    pub(crate) entity: Entity,
    pub(crate) keys: Arc<SecretKeys>,
    pub(crate) audit: AuditKey,
    pub(crate) membership: Membership,
    /// Whether the mesh file and this device's entry in it are valid, as last said.
    pub(crate) is_in_force: bool,
    pub(crate) vocabulary: Arc<Vocabulary>,
    pub(crate) datatype: (DataType, Word),
    pub(crate) source: PolicySource,

    pub(crate) post: Post,
    pub(crate) is_connected: bool,
    pub(crate) repository: Sender,
    pub(crate) published: Published,
    pub(crate) requests: Requests<Upload>,
    pub(crate) standing: Standing,
    /// When a repository that knows a higher version is answered next.
    pub(crate) next_raise: Time,

    pub(crate) filter: Filter,
    pub(crate) health: Option<air::Health>,
    /// Whose item is known to the driver, and by which ids.
    pub(crate) guests: BTreeMap<Pseudonym, Guest>,
    /// What the filter knows as held.
    pub(crate) addresses: BTreeMap<ItemId, Address>,
    /// What was heard and is not kept yet.
    pub(crate) arrivals: VecDeque<Arrival>,
    pub(crate) accepted: u64,
    pub(crate) refused: BTreeMap<&'static str, u64>,

    pub(crate) vault: Vault,
    /// What the vault does not know yet, in the order of the steps.
    pub(crate) changes: Vec<Change>,
    /// Up to where the vault follows the trace.
    pub(crate) followed: Position,
    pub(crate) compact_seconds: u64,
    pub(crate) next_sweep: Time,
    pub(crate) applications: Option<Applications>,
    pub(crate) notices: Notices,
    /// Why the daemon must end.
    pub(crate) failure: Option<String>,
}

impl Gateway {
    /// The daemon must end; nothing more is done.
    pub(crate) fn fail(&mut self, error: impl std::fmt::Display) -> DriveError {
        let reason = self.failure.get_or_insert_with(|| error.to_string()).clone();
        DriveError::Record(RecordError::new(reason))
    }

    fn check(&self) -> Result<(), DriveError> {
        self.failure.clone().map_or(Ok(()), |reason| Err(DriveError::Record(RecordError::new(reason))))
    }

    /// Changes the vault as the recorded steps say, and tells applications what is new in it.
    pub(crate) fn flush(&mut self, driver: &mut Controller<'_>) -> Result<(), DriveError> {
        self.check()?;
        let recorder = driver.recorder().recorder();
        // INVARIANT: every recorded step has come by in `happened`, so `changes` has all that the trace says up to here.
        let position = recorder.position();
        if self.changes.is_empty() && !self.followed.is_far_behind(position) {
            return Ok(());
        }
        // What the vault has, the trace has, also after the end of the machine.
        recorder.sync().map_err(RecordError::new)?;
        let changes = std::mem::take(&mut self.changes);
        if let Err(error) = self.vault.apply(&changes, position) {
            return Err(self.fail(error));
        }
        self.followed = position;
        for change in &changes {
            if let (Change::Keep(record, _), Some(applications)) = (change, &self.applications) {
                applications.tell(&self.observation(record).to_string());
            }
        }
        Ok(())
    }

    /// Whether this device is a member now. If not, nothing is believed, collected or sent; said once per change.
    pub(crate) fn is_member(&mut self, now: Time) -> bool {
        let listed = self.membership.mesh().device(self.name.as_str());
        let is_mine = listed.is_some_and(|device| {
            device.check_valid(now).is_ok()
                && device.tag == self.tag
                && device.signing_key == self.keys.public().signing
                && device.sealing_key == self.keys.public().sealing
        });
        let is_in_force = self.membership.is_in_force(now) && is_mine;
        if is_in_force != self.is_in_force {
            self.is_in_force = is_in_force;
            if is_in_force {
                tracing::info!("this device is a member of the mesh again");
            } else {
                tracing::error!("the mesh file has expired or does not list this device: nothing is collected or sent");
            }
        }
        is_in_force
    }

    /// A message that opened.
    fn opened(
        &mut self,
        opened: Opened,
        driver: &mut Controller<'_>,
        now: Time,
    ) -> Result<Option<Outcome>, DriveError> {
        match &opened.message {
            Message::Uploaded { request, version, .. } if opened.sender == self.repository => {
                self.uploaded(*request, *version, now);
            }
            Message::Refused { request, reason } if opened.sender == self.repository => {
                self.upload_refused(*request, *reason, driver, now)?;
            }
            Message::Withdraw { sealed } => {
                let sealed = sealed.clone();
                return self.notice(&opened, &sealed, driver, now);
            }
            other => self.post.complaints.complain("not-for-us", Some(&opened.sender), &other.name(), now),
        }
        Ok(None)
    }

    /// What a recorded step means outside the graph.
    fn took(&mut self, action: &Action, events: &[Event], driver: &mut Controller<'_>) {
        for event in events {
            match event {
                Event::Send(delivery) => self.kept(delivery, driver),
                Event::Erase { item, .. } => self.erased(*item, action, driver),
                _ => {}
            }
        }
    }

    /// An item is erased: from the vault, and from what the filter knows.
    fn erased(&mut self, item: ItemId, action: &Action, driver: &mut Controller<'_>) {
        let Some(pseudonym) = driver.recorder().names.item_of(item).map(|item| item.pseudonym) else { return };
        let is_withdrawal = action.message().is_some_and(|message| message.kind() == MessageKind::Withdraw);
        let tombstone = driver.device().memory.tombstones.get(&item).copied();
        self.changes.push(match tombstone.filter(|_| is_withdrawal) {
            Some(withdrawal) => Change::Withdraw(pseudonym, withdrawal),
            None => Change::Erase(pseudonym),
        });
        if let Some(address) = self.addresses.remove(&item) {
            self.release(address);
        }
    }
}

impl Host<Journal> for Gateway {
    type Input = Input;
    type Command = Asked;

    fn receive(&mut self, input: Input, driver: &mut Controller<'_>, now: Time) -> Result<Option<Outcome>, DriveError> {
        self.check()?;
        match input {
            Input::Heard(sighting) => {
                if self.is_member(now) {
                    return self.heard(&sighting, driver, now);
                }
            }
            Input::Link(LinkEvent::Connected) => {
                tracing::info!("connected to the broker");
                self.is_connected = true;
                self.requests.hasten(now);
            }
            Input::Link(LinkEvent::Disconnected { reason }) => {
                tracing::warn!(%reason, "not connected to the broker");
                self.is_connected = false;
            }
            Input::Link(LinkEvent::Message(came)) => {
                let is_member = self.is_member(now);
                if let Some(opened) = self.post.open(&came, self.membership.mesh(), true, now) {
                    // People can take back what is held here, whatever the operator thinks of this device.
                    let is_notice = matches!(opened.message, Message::Withdraw { .. });
                    if is_member || is_notice {
                        return self.opened(opened, driver, now);
                    }
                }
            }
        }
        Ok(None)
    }

    fn command(&mut self, asked: Asked, driver: &mut Controller<'_>, now: Time) -> Result<Option<Outcome>, DriveError> {
        self.check()?;
        let changed = match asked.request.get("command").and_then(|command| command.as_str()) {
            Some("status") => {
                let status = self.status(driver, now);
                asked.answer(status);
                return Ok(None);
            }
            Some("held") => {
                match self.held() {
                    Ok(held) => asked.answer(json!({ "held": held })),
                    Err(error) => asked.refuse(error),
                }
                return Ok(None);
            }
            Some("consents") => {
                match self.consents(now) {
                    Ok(consents) => asked.answer(json!({ "consents": consents })),
                    Err(error) => asked.refuse(error),
                }
                return Ok(None);
            }
            Some("reload") => {
                self.membership.look(now, true);
                self.reload(driver, now)
            }
            Some("withdraw-policy") => self.withdraw_policy(driver, now),
            _ => {
                asked.refuse(
                    "a gateway knows the commands `status`, `held`, `consents`, `reload` and `withdraw-policy`",
                );
                return Ok(None);
            }
        };
        match changed {
            Err(error) => {
                asked.refuse(&error);
                Err(error)
            }
            Ok(Ok((said, outcome))) => {
                asked.answer(json!({ "said": said }));
                Ok(outcome)
            }
            Ok(Err(problem)) => {
                asked.refuse(problem);
                Ok(None)
            }
        }
    }

    fn happened(&mut self, outcome: Outcome, driver: &mut Controller<'_>) {
        for taken in &outcome.steps {
            self.took(&taken.action, &taken.step.events, driver);
            if let Some(message) = &taken.step.message {
                self.sent(message, driver, taken.time);
            }
        }
        for guest in outcome.forgotten {
            let names = &mut driver.recorder().names;
            if let Some(item) = guest.item {
                if let Some(pseudonym) = names.item_of(item).map(|item| item.pseudonym) {
                    self.guests.remove(&pseudonym);
                }
                names.forget_item(item);
                self.addresses.remove(&item);
            }
            names.forget_device(guest.device);
        }
    }

    fn settle(&mut self, driver: &mut Controller<'_>, now: Time) -> Result<Option<Time>, DriveError> {
        self.flush(driver)?;
        self.membership.look(now, false);
        self.renew(driver, now)?;
        let recorder = driver.recorder().recorder();
        recorder.tick(now).map_err(RecordError::new)?;
        if self.notices.are_done() {
            // What is acknowledged survives the end of the machine.
            recorder.sync().map_err(RecordError::new)?;
            let head = recorder.head();
            self.acknowledge(head, now);
        }
        // Not while something is due: it is erased by a step, which the trace has.
        if now >= self.next_sweep && driver.next_due(now) > now {
            self.next_sweep = Time::from_unix(now.unix().saturating_add(self.compact_seconds));
            if let Err(error) = self.vault.sweep(now) {
                return Err(self.fail(error));
            }
        }
        // Without a connection it would only wait in the outbox, and be stale when it leaves.
        if self.is_connected && self.is_member(now) {
            self.repeat_uploads(now);
        }
        Ok(Some(Time::from_unix(now.unix().saturating_add(1))))
    }

    fn clock_changed(&mut self, problem: Option<ClockProblem>) {
        match problem {
            Some(problem) => tracing::error!(%problem, "nothing is done until the clock is right"),
            None => tracing::info!("the clock is right again"),
        }
    }

    fn checkpoint(&mut self, driver: &mut Controller<'_>, _: Time) -> Result<(), RecordError> {
        driver.recorder().recorder().sync().map_err(RecordError::new)
    }
}
