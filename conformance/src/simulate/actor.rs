//! A device: its variables, its graph instances, its trace, and the one way to take a step.

use hashbrown::HashMap;
use pilot_core::codec::Digest;
use pilot_core::condition::Condition;
use pilot_core::evidence::envelope::{ChainHead, MessageId};
use pilot_core::evidence::trace::action::{Cause, Connection, Handle, Item, Party, Word};
use pilot_core::evidence::trace::{Action as TraceAction, GraphName, Naming, Outcome, Reason, Resume, Rule, Step};
use pilot_core::evidence::{Pseudonym, StatementId};
use pilot_core::graph::{self, Action, Device, Graph, Instance, Label, MessageKind, enabled, hindrance, take};
use pilot_core::graphs;
use pilot_core::semantics::{Contacts, Context, Policies, PolicyId};
use pilot_core::sorted::Sorted;
use pilot_core::subsumption::Judge;
use pilot_core::value::Time;
use pilot_core::vocabulary::{DeviceId, Entity, Id as _, ItemId};

use super::SimulateError;
use super::agenda::Letter;
use super::cast::{Cast, Member};
use super::writer::{Words, Writer};
use crate::scenario::Role;

/// What steps read and never change.
pub struct Setting<'c> {
    /// Who is who.
    pub cast: &'c Cast,
    /// The orders and ⊑.
    pub judge: Judge<'c>,
    /// The policies in use.
    pub policies: Policies,
    /// Whom devices address.
    pub contacts: Contacts,
    /// The signed statements by which controllers work under policies.
    pub statements: HashMap<(DeviceId, PolicyId), StatementId>,
}

impl<'c> Setting<'c> {
    /// What judgements read at a moment.
    pub fn context(&self, now: Time) -> Context<'_> {
        let Self { cast, judge, policies, contacts, .. } = self;
        Context { judge, directory: &cast.directory, policies, contacts, now, attested: None }
    }

    fn words(&self) -> Words<'_> {
        Words { policies: &self.policies, vocabulary: &self.cast.vocabulary }
    }
}

/// What is known of a message beside its contents.
#[derive(Clone, Copy, Default)]
pub struct Envelope {
    /// Its id; a radio frame has none.
    pub id: Option<MessageId>,
    /// The head of the sender's trace when it left; likewise.
    pub head: Option<ChainHead>,
    /// By which a repository knows a subject.
    pub connection: Option<Connection>,
    /// What controllers call the item in it.
    pub handle: Option<Handle>,
}

impl Envelope {
    /// Of a message that arrives.
    pub fn of(letter: &Letter) -> Self {
        Self { id: letter.id, head: letter.head, connection: letter.connection, handle: letter.handle }
    }
}

/// A device at work.
pub struct Actor<'c> {
    /// Who it is.
    pub member: &'c Member,
    /// The graph that it runs.
    pub graph: &'static Graph<'static>,
    /// Its variables.
    pub device: Device,
    /// Its graph instances.
    pub instances: Vec<Instance>,
    /// Whether its process runs.
    pub is_up: bool,
    /// Whether the last one ended in order.
    pub is_closed: bool,
    /// What it records.
    pub trace: Writer,
    /// How many steps it took.
    pub steps: u64,
}

/// What names stand in one device's trace for numbers.
struct Names<'n, 'c> {
    setting: &'n Setting<'c>,
    member: &'n Member,
    envelope: Envelope,
}

impl Naming for Names<'_, '_> {
    fn party(&self, device: DeviceId) -> Option<Party> {
        let member = self.setting.cast.member(device)?;
        Some(match (member.role, self.member.role) {
            (Role::Subject, _) if device == self.member.id => Party::Device(member.name.clone()),
            (Role::Subject, Role::Repository) => Party::Connection(self.envelope.connection?),
            (Role::Subject, _) => Party::Owner,
            (Role::Controller | Role::Repository, _) => Party::Device(member.name.clone()),
        })
    }

    fn policy(&self, policy: PolicyId) -> Option<Digest> {
        self.setting.policies.digest(policy)
    }

    fn item(&self, item: ItemId) -> Option<Item> {
        let thing = self.setting.cast.items.get(item.index())?;
        let own = self.member.items.iter().find(|(own, _)| *own == item);
        let pseudonym = own.map_or_else(|| Pseudonym::of(&thing.bytes, &self.member.audit), |(_, known)| *known);
        Some(Item { pseudonym, datatype: thing.datatype.clone() })
    }

    fn entity(&self, entity: Entity) -> Option<Word> {
        Word::new(self.setting.cast.vocabulary.entities.name(entity)).ok()
    }

    fn statement(&self, device: DeviceId, policy: PolicyId) -> Option<StatementId> {
        self.setting.statements.get(&(device, policy)).copied()
    }

    fn handle(&self, _: ItemId) -> Option<Handle> {
        self.envelope.handle
    }
}

impl<'c> Actor<'c> {
    /// A device whose process does not run yet.
    pub fn new(
        member: &'c Member,
        trace: impl FnOnce(GraphName) -> Result<Writer, SimulateError>,
    ) -> Result<Self, SimulateError> {
        let graph = match member.role {
            Role::Subject => &graphs::INDIRECT_SUBJECT,
            Role::Controller => &graphs::INDIRECT_CONTROLLER,
            Role::Repository => &graphs::REPOSITORY,
        };
        let mut device = Device::new(member.id);
        device.state.values.extend(member.values.iter().cloned());
        let (trace, instances) = (trace(GraphName::of(graph))?, Vec::new());
        Ok(Self { member, graph, device, instances, is_up: false, is_closed: false, trace, steps: 0 })
    }

    /// Its process begins, with the variables that it has.
    pub fn begin(&mut self, setting: &Setting<'_>, now: Time) -> Result<(), SimulateError> {
        self.instances = vec![Instance::new(self.graph); self.member.items.len().max(1)];
        self.is_up = true;
        let names = Names { setting, member: self.member, envelope: Envelope::default() };
        let parts = Resume::of(&self.device, &names)?;
        self.trace.begin(parts, setting.words(), now)
    }

    /// Takes a step and records it. A step that changes nothing is counted; one that the graph refuses is none.
    pub fn act(
        &mut self,
        at: usize,
        action: &Action,
        envelope: Envelope,
        setting: &Setting<'_>,
        now: Time,
    ) -> Result<Option<graph::Step>, SimulateError> {
        let cx = setting.context(now);
        let Some(instance) = self.instances.get_mut(at) else { return Ok(None) };
        let from = instance.location;
        let Some(edge) = enabled(self.graph, instance, &self.device, action, &cx).next() else { return Ok(None) };
        let changes_nothing = self.graph.edges.get(edge).is_some_and(|e| e.effects.is_empty() && e.to == Some(from));
        if changes_nothing {
            let reason = hindrance(self.graph, instance, &self.device, action, &cx);
            self.trace.elide(reason.map_or(Reason::Other, Reason::of));
            return Ok(None);
        }
        let Some(step) = take(self.graph, edge, instance, &mut self.device, action, &cx) else { return Ok(None) };
        let to = instance.location;
        let names = Names { setting, member: self.member, envelope };
        let cause = Cause { head: envelope.head, consent: None };
        let recorded = TraceAction::of(action, &step, (envelope.id, cause), &names)?;
        let outcomes = attested(action, &self.device, &cx);
        let instance = u32::try_from(at).unwrap_or(u32::MAX);
        let record = Step { graph: 0, instance, from, action: recorded, to, outcomes };
        self.trace.step(record, setting.words(), now)?;
        self.steps += 1;
        Ok(Some(step))
    }
}

/// What a device found out about conditions when it let an item go: of the receiver's policy, of its own, and of the transfer
/// rules under which it has the item. Nobody else knows the values.
fn attested(action: &Action, device: &Device, cx: &Context<'_>) -> Sorted<Outcome> {
    let Label::Send(MessageKind::Broadcast | MessageKind::Send) = action.label() else { return Sorted::new() };
    let Some(message) = action.message() else { return Sorted::new() };
    let state = &device.state;
    let attest = |id: PolicyId, rule: Rule, condition: &Condition| {
        let policy = cx.policies.digest(id)?;
        let holds = || condition.evaluate(&state.values) == Some(true);
        (!condition.is_always()).then(|| Outcome { policy, rule, holds: holds() })
    };
    let collection = |id: PolicyId| attest(id, Rule::Collection, &cx.policy(id)?.collection().condition);
    let transfers = |id: PolicyId| {
        let rules = cx.policy(id).map(|policy| policy.transfers()).unwrap_or_default().iter();
        rules.zip(0..).filter_map(move |(rule, place)| attest(id, Rule::Transfer(place), &rule.condition))
    };
    let own = state.policies_of(device.id);
    let held = message.item().into_iter().flat_map(|item| state.receipts_of(item)).map(|receipt| receipt.policy);
    message.policy().into_iter().chain(own).filter_map(collection).chain(held.flat_map(transfers)).collect()
}
