//! Writes a driver's steps to its device's trace: what a [`Driver`] records by, and what names its ids.
//!
//! A trace names devices, policies by digest and items by pseudonym; a driver knows numbers. [`Names`] is what a daemon
//! says about its numbers. A message that is sent gets its id here, because its record names it: [`Journal::next_sent`]
//! hands the ids out again, in the order of the steps.
//!
//! [`begin`] is the only way to a journal, so no run begins without saying with which variables.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use pilot_core::codec::{self, Digest};
use pilot_core::condition::Condition;
use pilot_core::evidence::envelope::{ChainHead, MessageId};
use pilot_core::evidence::trace::action::{self, Handle, Item, Party, Word};
use pilot_core::evidence::trace::{
    Action as TraceAction, Naming, Outcome as Attested, PolicyBytes, Reason, Resume, Rule, Step,
};
use pilot_core::evidence::{DeviceName, StatementId};
use pilot_core::graph::{Action, Device, Label, Message, MessageKind};
use pilot_core::policy::Choice;
use pilot_core::semantics::{Policies, PolicyId, Receipt};
use pilot_core::sorted::Sorted;
use pilot_core::value::Time;
use pilot_core::vocabulary::{DeviceId, Entity, ItemId, Variable, Vocabulary};

use crate::driver::inbox::MAX_WAITING_MESSAGES;
use crate::driver::{Cause, DriveError, Driver, Entry, Fate, Outcome, Record, RecordError, Setup};
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

/// Names, with the policies and words that a driver has now.
struct InContext<'n> {
    names: &'n Names,
    policies: &'n Policies,
    vocabulary: &'n Vocabulary,
}

impl InContext<'_> {
    fn bytes(&self, digest: &Digest) -> Option<PolicyBytes> {
        let policy = self.policies.policy(self.policies.by_digest(digest)?)?;
        PolicyBytes::new(codec::encode(&Choice::Policy(policy.clone()), self.vocabulary))
    }
}

impl Naming for InContext<'_> {
    fn party(&self, device: DeviceId) -> Option<Party> {
        self.names.parties.get(&device).cloned()
    }

    fn policy(&self, policy: PolicyId) -> Option<Digest> {
        self.policies.digest(policy)
    }

    fn item(&self, item: ItemId) -> Option<Item> {
        self.names.items.get(&item).cloned()
    }

    fn entity(&self, entity: Entity) -> Option<Word> {
        Word::new(self.vocabulary.entities.name(entity)).ok()
    }

    fn statement(&self, device: DeviceId, policy: PolicyId) -> Option<StatementId> {
        self.names.statements.get(&(device, self.policies.digest(policy)?)).copied()
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

/// Begins a run: records with which variables the device begins, and only then hands out its driver.
///
/// A variable that mentions somebody or something without a name is left out, of the record and of the device alike: no
/// step could name it, so all that it could do is to end the daemon later. Daemons make variables of what has a name, and
/// keep the rest elsewhere, so this is not expected; it is said in the log.
pub fn begin<'v>(
    mut setup: Setup<'v>,
    mut recorder: Recorder<Arc<SecretKeys>>,
    names: Names,
    now: Time,
) -> Result<Driver<'v, Journal>, RecordError> {
    let naming = InContext { names: &names, policies: &setup.policies, vocabulary: setup.vocabulary };
    let left_out = leave_out_unnamed(&mut setup.device, &naming);
    if left_out > 0 {
        tracing::warn!(left_out, "variables that the trace has no name for are forgotten");
    }
    let parts = Resume::of(&setup.device, &naming).map_err(RecordError::new)?;
    recorder.resume(parts, |digest| naming.bytes(digest), now).map_err(RecordError::new)?;
    let journal =
        Journal { recorder, names, arriving: Origin::default(), waiting: VecDeque::new(), sent: VecDeque::new() };
    Ok(Driver::new(setup, journal))
}

/// Takes what has no name out of a device's variables; how much that was.
fn leave_out_unnamed(device: &mut Device, naming: &impl Naming) -> usize {
    let is_listed = |device: &DeviceId| matches!(naming.party(*device), Some(Party::Device(_)));
    let is_party = |device: &DeviceId| naming.party(*device).is_some();
    let is_policy = |policy: &PolicyId| naming.policy(*policy).is_some();
    let is_item = |item: &ItemId| naming.item(*item).is_some();
    let is_receipt =
        |receipt: &Receipt| is_party(&receipt.sender) && is_item(&receipt.item) && is_policy(&receipt.policy);
    let count = |device: &Device| {
        let (state, memory) = (&device.state, &device.memory);
        let policies = state.policies.len() + memory.current.len() + memory.published.len() + memory.catalogue.len();
        let others = memory.asked.len() + memory.recipients.len() + memory.notices.len();
        policies + others + state.received.len() + memory.tombstones.len() + memory.refused.len()
    };
    let before = count(device);
    let (state, memory) = (&mut device.state, &mut device.memory);
    state.policies.retain(|(of, policy)| is_listed(of) && is_policy(policy));
    memory.current.retain(is_policy);
    memory.published.retain(is_policy);
    memory.catalogue.retain(|of, policy| is_listed(of) && is_policy(policy));
    let unnamed: Vec<Receipt> = state.received.iter().filter(|receipt| !is_receipt(receipt)).copied().collect();
    for receipt in unnamed {
        state.received.remove(&receipt);
        memory.released.remove(&receipt);
        if state.receipts_of(receipt.item).next().is_none() {
            state.values.remove(&Variable::Item(receipt.item));
        }
    }
    memory.asked.retain(|(of, policy)| is_party(of) && is_policy(policy));
    memory.recipients.retain(|(item, party), _| is_item(item) && is_party(party));
    memory.notices.retain(|(item, party), _| is_item(item) && is_party(party));
    memory.tombstones.retain(|item, _| is_item(item));
    memory.refused.retain(|entity| naming.entity(*entity).is_some());
    before - count(device)
}

impl Journal {
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
        let (policies, vocabulary) = (entry.context.policies, entry.context.judge.vocabulary);
        let naming = InContext { names: &self.names, policies, vocabulary };
        let action = TraceAction::of(entry.action, entry.step, (id, cause), &naming).map_err(RecordError::new)?;
        let instance = u32::try_from(entry.instance.0).map_err(RecordError::new)?;
        let outcomes = attested(entry);
        let step = Step { graph: 0, instance, from: entry.from, action, to: entry.to, outcomes };
        let policy = |digest: &Digest| naming.bytes(digest);
        let head = self.recorder.step(step, policy, entry.time).map_err(RecordError::new)?;
        tracing::debug!(from = %entry.from, to = %entry.to, action = %entry.action.label(), "step");
        if let (Action::Send(_), Some(id)) = (entry.action, id) {
            self.sent.push_back(Sent { id, head });
        }
        Ok(())
    }
}

/// What the device found out about conditions when it released an item: nobody else knows the values. For an item that it
/// hands on, these are also the conditions under which it may: those of the transfer rules under which it holds the item.
fn attested(entry: &Entry<'_>) -> Sorted<Attested> {
    let Label::Send(MessageKind::Broadcast | MessageKind::Send) = entry.action.label() else { return Sorted::new() };
    let (state, context) = (&entry.device.state, entry.context);
    let Some(message) = entry.action.message() else { return Sorted::new() };
    let attest = |id: PolicyId, rule: Rule, condition: &Condition| {
        let holds = condition.evaluate(&state.values) == Some(true);
        let policy = context.policies.digest(id)?;
        (!condition.is_always()).then_some(Attested { policy, rule, holds })
    };
    let collection = |id: PolicyId| attest(id, Rule::Collection, &context.policy(id)?.collection().condition);
    let transfers = |id: PolicyId| {
        let rules = context.policy(id).map(|policy| policy.transfers()).unwrap_or_default().iter();
        rules.zip(0..).filter_map(move |(rule, place)| attest(id, Rule::Transfer(place), &rule.condition))
    };
    let own = state.policies_of(entry.device.id);
    let held = message.item().into_iter().flat_map(|item| state.receipts_of(item)).map(|receipt| receipt.policy);
    let collections = message.policy().into_iter().chain(own).filter_map(collection);
    collections.chain(held.flat_map(transfers)).collect()
}

/// Sixteen random bytes.
pub fn new_id() -> Result<MessageId, RecordError> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(RecordError::new)?;
    Ok(MessageId(id))
}
