//! Writes a driver's steps to its device's trace: what a [`Driver`] records by, and what names its ids.
//!
//! A trace names devices, policies by digest and items by pseudonym; a driver knows numbers. [`Names`] is what a daemon
//! says about its numbers. A message that is sent gets its id here, because its record names it: [`Journal::next_sent`]
//! hands the ids out again, in the order of the steps.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use pilot_core::codec::{self, Digest};
use pilot_core::evidence::envelope::{ChainHead, MessageId};
use pilot_core::evidence::trace::action::{self, Handle, Item, Party, Word};
use pilot_core::evidence::trace::{
    Action as TraceAction, Naming, Outcome as Attested, PolicyBytes, Reason, Rule, Step,
};
use pilot_core::evidence::{DeviceName, StatementId};
use pilot_core::graph::{Action, Label, Message, MessageKind};
use pilot_core::policy::Choice;
use pilot_core::semantics::{Context, PolicyId};
use pilot_core::value::Time;
use pilot_core::vocabulary::{DeviceId, Entity, ItemId};

use crate::driver::inbox::MAX_WAITING_MESSAGES;
use crate::driver::{Cause, DriveError, Driver, Entry, Fate, Outcome, Record, RecordError};
use crate::keys::SecretKeys;
use crate::recorder::Recorder;

/// What the numbers of a driver stand for.
#[derive(Debug, Default)]
pub struct Names {
    parties: BTreeMap<DeviceId, Party>,
    devices: BTreeMap<DeviceName, DeviceId>,
    items: BTreeMap<ItemId, Item>,
    statements: BTreeMap<(DeviceId, Digest), StatementId>,
}

impl Names {
    /// A device of the mesh, or the one whose trace this is.
    pub fn device(&mut self, id: DeviceId, name: DeviceName) {
        self.devices.insert(name.clone(), id);
        self.parties.insert(id, Party::Device(name));
    }

    /// Somebody who is in no mesh file.
    pub fn guest(&mut self, id: DeviceId, party: Party) {
        self.parties.insert(id, party);
    }

    /// An item.
    pub fn item(&mut self, id: ItemId, item: Item) {
        self.items.insert(id, item);
    }

    /// The statement by which a device works under a policy.
    pub fn statement(&mut self, device: DeviceId, policy: Digest, statement: StatementId) {
        self.statements.insert((device, policy), statement);
    }

    /// The number of a device of the mesh.
    pub fn id_of(&self, name: &DeviceName) -> Option<DeviceId> {
        self.devices.get(name).copied()
    }

    /// The name of a device of the mesh.
    pub fn name_of(&self, id: DeviceId) -> Option<&DeviceName> {
        match self.parties.get(&id)? {
            Party::Device(name) => Some(name),
            Party::Connection(_) | Party::Owner => None,
        }
    }

    /// What an item is called in the trace.
    pub fn item_of(&self, id: ItemId) -> Option<&Item> {
        self.items.get(&id)
    }

    /// The number will be somebody else's.
    pub fn forget_device(&mut self, id: DeviceId) {
        if let Some(Party::Device(name)) = self.parties.remove(&id) {
            self.devices.remove(&name);
        }
    }

    /// The number will be another item's.
    pub fn forget_item(&mut self, id: ItemId) {
        self.items.remove(&id);
    }

    /// The device works under none of the policies that it stated so far.
    pub fn forget_statements(&mut self, device: DeviceId) {
        let all = (device, Digest([0; 32]))..=(device, Digest([u8::MAX; 32]));
        let stated: Vec<_> = self.statements.range(all).map(|(key, _)| *key).collect();
        for key in stated {
            self.statements.remove(&key);
        }
    }

    /// Of each device, only the statements of these policies matter from now on.
    pub fn retain_statements(&mut self, matters: impl Fn(DeviceId, &Digest) -> bool) {
        self.statements.retain(|(device, policy), _| matters(*device, policy));
    }
}

/// Names within one step.
struct InContext<'n>(&'n Names, &'n Context<'n>);

impl Naming for InContext<'_> {
    fn party(&self, device: DeviceId) -> Option<Party> {
        self.0.parties.get(&device).cloned()
    }

    fn policy(&self, policy: PolicyId) -> Option<Digest> {
        self.1.policies.digest(policy)
    }

    fn item(&self, item: ItemId) -> Option<Item> {
        self.0.items.get(&item).cloned()
    }

    fn entity(&self, entity: Entity) -> Option<Word> {
        Word::new(self.1.judge.vocabulary.entities.name(entity)).ok()
    }

    fn statement(&self, device: DeviceId, policy: PolicyId) -> Option<StatementId> {
        self.0.statements.get(&(device, self.1.policies.digest(policy)?)).copied()
    }

    fn handle(&self, _: ItemId) -> Option<Handle> {
        // Items change hands between controllers only by transfers.
        None
    }
}

/// Where a message came from.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    /// The envelope's id; a radio frame has none.
    pub id: Option<MessageId>,
    /// What else is known.
    pub cause: action::Cause,
}

/// The envelope of a message that was recorded and may leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// Its id.
    pub id: MessageId,
    /// The trace's head after the record.
    pub head: ChainHead,
}

/// A device's trace, and the names in it.
pub struct Journal {
    recorder: Recorder<Arc<SecretKeys>>,
    /// What ids stand for.
    pub names: Names,
    arriving: Origin,
    /// Messages that wait for their edge, with where they came from.
    waiting: VecDeque<(Message, Origin)>,
    sent: VecDeque<Sent>,
}

impl Journal {
    /// For a trace that is open.
    pub fn new(recorder: Recorder<Arc<SecretKeys>>, names: Names) -> Self {
        Self { recorder, names, arriving: Origin::default(), waiting: VecDeque::new(), sent: VecDeque::new() }
    }

    /// The recorder, for checkpoints and syncs.
    pub const fn recorder(&mut self) -> &mut Recorder<Arc<SecretKeys>> {
        &mut self.recorder
    }

    /// The latest time in the trace when it was opened.
    pub const fn since(&self) -> Time {
        self.recorder.since()
    }

    /// Closes the trace.
    pub fn close(self, now: Time) -> Result<(), crate::recorder::RecordError> {
        self.recorder.close(now)
    }

    /// The id for the next message that was recorded as sent and has not been asked for. Broadcasts have none.
    pub fn next_sent(&mut self) -> Option<Sent> {
        self.sent.pop_front()
    }

    fn origin(&self, cause: Cause, message: &Message) -> Origin {
        match cause {
            Cause::WaitingMessage => {
                let known = self.waiting.iter().rev().find(|(waiting, _)| waiting == message);
                known.map(|(_, origin)| origin.clone()).unwrap_or_default()
            }
            Cause::Due | Cause::User | Cause::Message => self.arriving.clone(),
        }
    }
}

/// [`Driver::receive`], with where the message came from; steps that changed nothing are counted in the trace.
pub fn receive(
    driver: &mut Driver<'_, Journal>,
    message: Message,
    origin: Origin,
    now: Time,
) -> Result<Outcome, DriveError> {
    // A download can be long, and finds its edge or comes too late; everything else is short.
    let copy = (message.kind() != MessageKind::DownloadPolicies).then(|| message.clone());
    driver.recorder().arriving = origin;
    let outcome = driver.receive(message, now);
    let journal = driver.recorder();
    let origin = std::mem::take(&mut journal.arriving);
    match (outcome.as_ref().map(|outcome| outcome.fate), copy) {
        (Ok(Fate::Elided(reason)), _) => journal.recorder.elide(reason.map_or(Reason::Other, Reason::of)),
        (Ok(Fate::Waits), Some(message)) => {
            if journal.waiting.len() >= MAX_WAITING_MESSAGES {
                journal.waiting.pop_front();
            }
            journal.waiting.push_back((message, origin));
        }
        _ => {}
    }
    outcome
}

impl Record for Journal {
    fn record(&mut self, entry: &Entry<'_>) -> Result<(), RecordError> {
        let (id, cause) = match entry.action {
            Action::Receive(message) => {
                let origin = self.origin(entry.cause, message);
                (origin.id, origin.cause)
            }
            Action::Send(message) if message.kind() != MessageKind::Broadcast => (Some(new_id()?), Default::default()),
            _ => (None, Default::default()),
        };
        let naming = InContext(&self.names, entry.context);
        let action = TraceAction::of(entry.action, entry.step, (id, cause), &naming).map_err(RecordError::new)?;
        let instance = u32::try_from(entry.instance.0).map_err(RecordError::new)?;
        let outcomes = attested(entry);
        let step = Step { graph: 0, instance, from: entry.from, action, to: entry.to, outcomes };
        let vocabulary = entry.context.judge.vocabulary;
        let policy = |digest: &Digest| {
            let policies = entry.context.policies;
            let policy = policies.policy(policies.by_digest(digest)?)?;
            PolicyBytes::new(codec::encode(&Choice::Policy(policy.clone()), vocabulary))
        };
        let head = self.recorder.step(step, policy, entry.time).map_err(RecordError::new)?;
        tracing::debug!(from = %entry.from, to = %entry.to, action = %entry.action.label(), "step");
        if let (Action::Send(_), Some(id)) = (entry.action, id) {
            self.sent.push_back(Sent { id, head });
        }
        Ok(())
    }
}

/// What the device found out about conditions when it released an item: nobody else knows the values.
fn attested(entry: &Entry<'_>) -> BTreeSet<Attested> {
    let Label::Send(MessageKind::Broadcast | MessageKind::Send) = entry.action.label() else { return BTreeSet::new() };
    let state = &entry.device.state;
    let offer = entry.action.message().and_then(Message::policy);
    let own = state.policies_of(entry.device.id);
    let outcome = |id: PolicyId| {
        let condition = &entry.context.policy(id)?.collection().condition;
        let holds = condition.evaluate(&state.values) == Some(true);
        let policy = entry.context.policies.digest(id)?;
        (!condition.is_always()).then_some(Attested { policy, rule: Rule::Collection, holds })
    };
    offer.into_iter().chain(own).filter_map(outcome).collect()
}

/// Sixteen random bytes.
pub fn new_id() -> Result<MessageId, RecordError> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(RecordError::new)?;
    Ok(MessageId(id))
}
