//! A device run again, record by record, to know what each step means and what else could have happened there.

use std::collections::{BTreeMap, BTreeSet};

use pilot_core::codec::{self, Digest};
use pilot_core::condition::Condition;
use pilot_core::evidence::mesh::Role;
use pilot_core::evidence::trace::action::{self, Body as Said, Connection, Offer, Party};
use pilot_core::evidence::trace::{self, Content, PolicyBytes, Resume, Rule};
use pilot_core::evidence::{DeviceName, Pseudonym};
use pilot_core::graph::message::{Release, Withdrawal};
use pilot_core::graph::{Action, Body, Device, Graph, Instance, Location, Message, Step, enabled, take};
use pilot_core::policy::{Choice, Policy};
use pilot_core::semantics::{Contacts, Context, Policies, PolicyId, Receipt};
use pilot_core::subsumption::Judge;
use pilot_core::value::{Time, Value};
use pilot_core::vocabulary::{DataType, DeviceId, Directory, Id as _, Item, ItemId, Variable, Vocabulary};

use super::directory::Directory as Files;

/// What stands for every value.
const STAND_IN: Value = Value::Boolean(true);

/// What the names in all traces stand for.
pub struct World<'v> {
    judge: Judge<'v>,
    /// entity(d), type(i), owner(i).
    pub directory: Directory,
    /// Every policy of every trace.
    pub policies: Policies,
    devices: BTreeMap<DeviceName, DeviceId>,
    names: BTreeMap<DeviceId, DeviceName>,
    repositories: BTreeSet<DeviceId>,
    opened: BTreeMap<Pseudonym, ItemId>,
    /// The opened items, with what each trace calls them.
    pseudonyms: BTreeMap<(ItemId, DeviceId), Pseudonym>,
}

impl<'v> World<'v> {
    /// The devices of the mesh, the subjects with openings, and all policies.
    pub fn new(files: &Files, vocabulary: &'v Vocabulary) -> Self {
        let mut world = Self {
            judge: Judge::new(vocabulary),
            directory: Directory::default(),
            policies: Policies::default(),
            devices: BTreeMap::new(),
            names: BTreeMap::new(),
            repositories: BTreeSet::new(),
            opened: BTreeMap::new(),
            pseudonyms: BTreeMap::new(),
        };
        for device in files.mesh.devices() {
            let entity = vocabulary.entities.id(&device.entity);
            let id = entity.map(|entity| world.directory.add_device(entity));
            let id = id.unwrap_or_else(|| world.directory.add_stranger());
            world.know(id, &device.name);
            if device.role == Role::Repository {
                world.repositories.insert(id);
            }
        }
        for opening in &files.openings {
            let owner = world.device(&opening.device);
            let datatype = vocabulary.datatypes.id(&opening.datatype).unwrap_or(DataType::from_index(0));
            let item = world.directory.add_item(Item { datatype, owner });
            world.opened.insert(Pseudonym::of(&opening.item, &opening.audit_key), item);
            for (name, key) in &files.audit {
                let pseudonym = Pseudonym::of(&opening.item, key);
                world.opened.insert(pseudonym, item);
                let writer = DeviceName::new(name).ok().and_then(|name| world.known_device(&name));
                world.pseudonyms.extend(writer.map(|writer| ((item, writer), pseudonym)));
            }
        }
        world
    }

    fn know(&mut self, id: DeviceId, name: &DeviceName) {
        self.devices.insert(name.clone(), id);
        self.names.insert(id, name.clone());
    }

    /// The number of a device, which is a stranger if nobody has heard of it.
    pub fn device(&mut self, name: &DeviceName) -> DeviceId {
        if let Some(id) = self.devices.get(name) {
            return *id;
        }
        let id = self.directory.add_stranger();
        self.know(id, name);
        id
    }

    /// The number of a device that is known.
    pub fn known_device(&self, name: &DeviceName) -> Option<DeviceId> {
        self.devices.get(name).copied()
    }

    /// The name of a device.
    pub fn name(&self, device: DeviceId) -> Option<&DeviceName> {
        self.names.get(&device)
    }

    /// The words.
    pub const fn vocabulary(&self) -> &'v Vocabulary {
        self.judge.vocabulary
    }

    /// The item of a pseudonym that an opening explains.
    pub fn opened(&self, pseudonym: &Pseudonym) -> Option<ItemId> {
        self.opened.get(pseudonym).copied()
    }

    /// Every opened item.
    pub fn opened_items(&self) -> Vec<ItemId> {
        let items: BTreeSet<ItemId> = self.opened.values().copied().collect();
        items.into_iter().collect()
    }

    /// What the trace of a device calls an opened item.
    pub fn named(&self, item: ItemId, writer: DeviceId) -> Option<action::Item> {
        let datatype = self.vocabulary().datatypes.name(self.directory.item(item)?.datatype);
        let datatype = action::Word::new(datatype).ok()?;
        Some(action::Item { pseudonym: *self.pseudonyms.get(&(item, writer))?, datatype })
    }

    /// When what was received must be erased.
    pub fn deadline(&self, receipt: &Receipt) -> Option<Time> {
        Some(self.policies.policy(receipt.policy)?.collection().usage.retention())
    }

    /// Learns a policy.
    pub fn learn(&mut self, bytes: &PolicyBytes) {
        if let Ok(Choice::Policy(policy)) = codec::decode(bytes.as_bytes(), self.vocabulary()) {
            self.policies.intern(policy, self.judge.vocabulary);
        }
    }

    /// Learns a policy that nobody has.
    pub fn invent(&mut self, policy: Policy) -> PolicyId {
        self.policies.intern(policy, self.judge.vocabulary)
    }

    /// The bytes of a policy.
    pub fn bytes(&self, digest: &Digest) -> Option<PolicyBytes> {
        let policy = self.policies.policy(self.policies.by_digest(digest)?)?;
        PolicyBytes::new(codec::encode(&Choice::Policy(policy.clone()), self.vocabulary()))
    }

    /// What judgements read.
    pub fn context<'w>(
        &'w self,
        contacts: &'w Contacts,
        attested: &'w BTreeMap<Condition, bool>,
        now: Time,
    ) -> Context<'w> {
        let Self { judge, directory, policies, .. } = self;
        Context { judge, directory, policies, contacts, now, attested: Some(attested) }
    }

    /// How conditions came out, as a step says.
    pub fn attested(&self, step: &trace::Step) -> BTreeMap<Condition, bool> {
        let condition = |outcome: &trace::Outcome| {
            let policy = self.policies.policy(self.policies.by_digest(&outcome.policy)?)?;
            let rule = match outcome.rule {
                Rule::Collection => policy.collection(),
                Rule::Transfer(place) => policy.transfers().get(usize::from(place))?,
            };
            Some((rule.condition.clone(), outcome.holds))
        };
        step.outcomes.iter().filter_map(condition).collect()
    }

    /// The repository that a message is from or for.
    pub fn contacts(&self, action: &Action) -> Contacts {
        let both = action.message().map(|message| [message.sender, message.receiver]).into_iter().flatten();
        let repository = both.into_iter().find(|device| self.repositories.contains(device));
        Contacts { repository, sources: Vec::new() }
    }
}

/// A device.
#[derive(Clone)]
pub struct Replica {
    /// Who it is.
    pub id: DeviceId,
    name: DeviceName,
    /// Its graph.
    pub graph: &'static Graph<'static>,
    /// Its variables.
    pub device: Device,
    instances: BTreeMap<u32, Instance>,
    items: BTreeMap<Pseudonym, ItemId>,
    connections: BTreeMap<Connection, DeviceId>,
    is_resuming: bool,
}

impl Replica {
    /// A device of which nothing is known yet.
    pub fn new(name: &DeviceName, graph: &'static Graph<'static>, world: &mut World<'_>) -> Self {
        let id = world.device(name);
        Self {
            id,
            name: name.clone(),
            graph,
            device: Device::new(id),
            instances: BTreeMap::new(),
            items: BTreeMap::new(),
            connections: BTreeMap::new(),
            is_resuming: false,
        }
    }

    /// Where an instance stands.
    pub fn location(&self, instance: u32) -> Location {
        self.instances.get(&instance).map_or(self.graph.initial, |instance| instance.location)
    }

    /// The item of an instance.
    pub fn item_of(&self, instance: u32) -> Option<ItemId> {
        self.instances.get(&instance)?.item
    }

    /// A copy of an instance.
    pub fn instance(&self, instance: u32) -> Instance {
        self.instances.get(&instance).cloned().unwrap_or_else(|| Instance::new(self.graph))
    }

    /// A record that is no step.
    pub fn note(&mut self, content: &Content, world: &mut World<'_>) {
        match content {
            Content::Resume(resume) => self.resume(resume, world),
            Content::Policy(bytes) => world.learn(bytes),
            Content::Open(_) | Content::Step(_) | Content::Checkpoint(_) | Content::Close { .. } => {}
        }
    }

    fn item(&mut self, pseudonym: &Pseudonym, datatype: Option<&str>, world: &mut World<'_>) -> ItemId {
        let known = self.items.get(pseudonym).copied().or_else(|| world.opened(pseudonym));
        let datatype = datatype.and_then(|name| world.vocabulary().datatypes.id(name));
        let item = known.unwrap_or_else(|| {
            let owner = world.directory.add_stranger();
            world.directory.add_item(Item { datatype: datatype.unwrap_or(DataType::from_index(0)), owner })
        });
        self.items.insert(*pseudonym, item);
        let about = world.directory.item(item).filter(|about| Some(about.datatype) != datatype);
        if let (Some(datatype), Some(about)) = (datatype, about) {
            world.directory.set_item(item, Item { datatype, ..about });
        }
        item
    }

    fn whole(&mut self, item: &action::Item, world: &mut World<'_>) -> ItemId {
        self.item(&item.pseudonym, Some(item.datatype.as_str()), world)
    }

    /// Her own item: she is its owner, and has it.
    fn own(&mut self, item: Option<&action::Item>, world: &mut World<'_>) -> Option<ItemId> {
        let id = self.whole(item?, world);
        if let Some(about) = world.directory.item(id).filter(|about| about.owner != self.id) {
            world.directory.set_item(id, Item { owner: self.id, ..about });
        }
        self.device.state.values.insert(Variable::Item(id), STAND_IN);
        Some(id)
    }

    fn party(&mut self, party: &Party, item: Option<ItemId>, world: &mut World<'_>) -> Option<DeviceId> {
        Some(match party {
            Party::Device(name) if *name == self.name => self.id,
            Party::Device(name) => world.device(name),
            Party::Owner => world.directory.item(item?)?.owner,
            Party::Connection(connection) => {
                *self.connections.entry(*connection).or_insert_with(|| world.directory.add_stranger())
            }
        })
    }

    fn offers<'o>(
        &self,
        offers: impl IntoIterator<Item = &'o Offer>,
        world: &mut World<'_>,
    ) -> Option<Vec<(DeviceId, PolicyId)>> {
        let offer = |offer: &Offer| Some((world.device(&offer.device), world.policies.by_digest(&offer.policy)?));
        let mut offers: Vec<_> = offers.into_iter().map(offer).collect::<Option<_>>()?;
        offers.sort_unstable();
        Some(offers)
    }

    /// What the interpreter is to do; `None` if a word or policy is not known.
    pub fn action(&mut self, said: &trace::Action, world: &mut World<'_>) -> Option<Action> {
        let policies = |own: &BTreeSet<Digest>, world: &World<'_>| {
            own.iter().map(|digest| world.policies.by_digest(digest)).collect::<Option<Vec<_>>>()
        };
        Some(match said {
            trace::Action::Init { own, item } => {
                Action::Init { own: policies(own, world)?, item: self.own(item.as_ref(), world) }
            }
            trace::Action::Restore { own, item, offers } => Action::Restore {
                own: policies(own, world)?,
                item: self.own(item.as_ref(), world),
                offers: self.offers(offers, world)?,
            },
            trace::Action::ChangeOwn { own } => Action::ChangeOwn { own: policies(own, world)? },
            trace::Action::Admit { entity } => {
                Action::Admit { entity: world.vocabulary().entities.id(entity.as_str())? }
            }
            trace::Action::Tau => Action::Tau,
            trace::Action::Expire { item } => Action::Expire { item: self.item(item, None, world) },
            trace::Action::Forget { item } => Action::Forget { item: self.item(item, None, world) },
            trace::Action::Send(message) => Action::Send(self.message(message, false, world)?),
            trace::Action::Receive(message, _) => Action::Receive(self.message(message, true, world)?),
        })
    }

    fn message(&mut self, said: &action::Message, is_received: bool, world: &mut World<'_>) -> Option<Message> {
        let item = match &said.body {
            Said::Send(release) | Said::Broadcast(release) => Some(self.whole(&release.item, world)),
            Said::Withdraw { item, .. } => Some(self.item(item, None, world)),
            _ => None,
        };
        let (sender, receiver) = (self.party(&said.sender, item, world)?, self.party(&said.receiver, item, world)?);
        let policy = |digest: &Digest| world.policies.by_digest(digest);
        let release = |said: &action::Release| {
            let new = Release::new(item?, policy(&said.policy)?);
            Some(if is_received { Release { epoch: said.epoch, value: Some(STAND_IN), ..new } } else { new })
        };
        let body = match &said.body {
            Said::Send(said) => Body::Send(release(said)?),
            Said::Broadcast(said) => Body::Broadcast(release(said)?),
            Said::Withdraw { withdrawal, .. } => Body::Withdraw { item: item?, withdrawal: *withdrawal },
            Said::Request { policy: said } => Body::Request { policy: policy(said)? },
            Said::UploadPolicy { policy: said, .. } => Body::UploadPolicy { policy: policy(said)? },
            Said::WithdrawPolicy { policy: said } => Body::WithdrawPolicy { policy: policy(said)? },
            Said::RequestPolicies => Body::RequestPolicies,
            Said::DownloadPolicies { added, removed, .. } => {
                let known = self.device.state.policies.iter().copied().filter(|(of, _)| *of != self.id);
                let mut offers: BTreeSet<(DeviceId, PolicyId)> = known.filter(|_| is_received).collect();
                let (added, removed) = (self.offers(added, world)?, self.offers(removed, world)?);
                offers.retain(|offer| !removed.contains(offer));
                offers.extend(added);
                Body::DownloadPolicies { offers: offers.into_iter().collect() }
            }
        };
        Some(Message { sender, receiver, body })
    }

    /// Takes a step if the graph allows it as the trace says, and with what the trace says that a message took along. If
    /// only the latter differs, the step is taken all the same.
    pub fn follow(&mut self, step: &trace::Step, now: Time, world: &mut World<'_>) -> Option<Step> {
        let action = self.action(&step.action, world)?;
        let (contacts, attested) = (world.contacts(&action), world.attested(step));
        let cx = world.context(&contacts, &attested, now);
        let mut instance = self.instance(step.instance);
        if instance.location != step.from {
            return None;
        }
        let edge = enabled(self.graph, &instance, &self.device, &action, &cx).next()?;
        if self.graph.edges.get(edge).is_none_or(|edge| edge.to.unwrap_or(step.from) != step.to) {
            return None;
        }
        let taken = take(self.graph, edge, &mut instance, &mut self.device, &action, &cx)?;
        self.instances.insert(step.instance, instance);
        carries(&step.action, &taken).then_some(taken)
    }

    /// Takes a step along the edge that it looks like, whatever the guards say.
    pub fn force(&mut self, step: &trace::Step, now: Time, world: &mut World<'_>) -> Option<Step> {
        let action = self.action(&step.action, world)?;
        let (contacts, attested) = (world.contacts(&action), world.attested(step));
        let cx = world.context(&contacts, &attested, now);
        let mut instance = self.instance(step.instance);
        let edges = self.graph.edges.iter().enumerate().filter(|(_, edge)| {
            let is_here = edge.from.is_none_or(|from| from == step.from) && edge.to.unwrap_or(step.from) == step.to;
            is_here && edge.label == action.label()
        });
        let (edge, _) = edges.max_by_key(|(_, edge)| edge.effects.len())?;
        let taken = take(self.graph, edge, &mut instance, &mut self.device, &action, &cx);
        instance.location = step.to;
        self.instances.insert(step.instance, instance);
        taken
    }

    fn resume(&mut self, said: &Resume, world: &mut World<'_>) {
        if !std::mem::replace(&mut self.is_resuming, true) {
            self.device = Device::new(self.id);
            self.instances.clear();
        }
        let policy = |digest: &Digest, world: &World<'_>| world.policies.by_digest(digest);
        self.device.state.policies.extend(self.offers(&said.policies, world).into_iter().flatten());
        self.device.memory.current.extend(said.current.iter().filter_map(|digest| policy(digest, world)));
        self.device.memory.published.extend(said.published.iter().filter_map(|digest| policy(digest, world)));
        self.device.memory.catalogue.extend(self.offers(&said.catalogue, world).into_iter().flatten());
        for held in &said.received {
            let item = self.whole(&held.item, world);
            let (Some(sender), Some(policy)) =
                (self.party(&held.sender, Some(item), world), policy(&held.policy, world))
            else {
                continue;
            };
            let receipt = Receipt { item, sender, policy };
            self.device.state.received.insert(receipt);
            self.device.state.values.insert(Variable::Item(item), STAND_IN);
            self.device.memory.released.insert(receipt, held.epoch);
        }
        for (party, digest) in &said.asked {
            let asked = self.party(party, None, world).zip(policy(digest, world));
            self.device.memory.asked.extend(asked);
        }
        let mut remembered = |all: &BTreeSet<trace::resume::Remembered>| {
            let one = |one: &trace::resume::Remembered| {
                let item = self.whole(&one.item, world);
                Some(((item, self.party(&one.party, Some(item), world)?), one.withdrawal))
            };
            all.iter().filter_map(one).collect::<BTreeMap<(ItemId, DeviceId), Withdrawal>>()
        };
        let (recipients, notices) = (remembered(&said.recipients), remembered(&said.notices));
        self.device.memory.recipients.extend(recipients);
        self.device.memory.notices.extend(notices);
        for (item, withdrawal) in &said.tombstones {
            let item = self.whole(item, world);
            self.device.memory.tombstones.insert(item, *withdrawal);
        }
        let entities = said.refused.iter().filter_map(|word| world.vocabulary().entities.id(word.as_str()));
        self.device.memory.refused.extend(entities);
    }

    /// A step comes: `resume` records are over.
    pub fn begin(&mut self) {
        self.is_resuming = false;
    }
}

/// Whether a message left with what the step says that it took along.
fn carries(said: &trace::Action, taken: &Step) -> bool {
    let (trace::Action::Send(said), Some(message)) = (said, &taken.message) else { return true };
    match (&said.body, &message.body) {
        (Said::Send(said), Body::Send(release)) | (Said::Broadcast(said), Body::Broadcast(release)) => {
            said.epoch == release.epoch
        }
        (Said::Withdraw { withdrawal: said, .. }, Body::Withdraw { withdrawal, .. }) => said == withdrawal,
        _ => true,
    }
}
