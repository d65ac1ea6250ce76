//! One device, run again as its trace says: the words of a trace become actions of the interpreter, and what the device
//! remembers between runs is compared with what it says it does.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use hashbrown::{HashMap, HashSet};
use pilot_core::codec::Digest;
use pilot_core::evidence::trace::action::{self, Body as Said, CatalogueDigest, Connection, Offer, Party};
use pilot_core::evidence::trace::{self, GraphName, Resume};
use pilot_core::evidence::{DeviceName, Pseudonym};
use pilot_core::graph::message::{Release, Withdrawal};
use pilot_core::graph::{Action, Body, Device, Graph, Instance, Label, Message};
use pilot_core::semantics::{DeviceState, Ghosts, PolicyId, Receipt};
use pilot_core::value::{Time, Value};
use pilot_core::vocabulary::{DataType, DeviceId, Id as _, Item, ItemId, Variable};

use super::due::Due;
use super::note::Named;
use super::report::MAX_CHART;
use super::world::World;

/// What stands for every value: an auditor has none.
pub const STAND_IN: Value = Value::Boolean(true);

/// The most instances of graphs that a device runs at once: one for each item of a subject, and one of anybody else.
pub const MAX_INSTANCES: usize = 1 << 12;

/// A device under audit.
pub struct Replay {
    /// Its name.
    pub name: DeviceName,
    /// Its number.
    pub id: DeviceId,
    graphs: Vec<&'static Graph<'static>>,
    /// Its variables, changed by the graph.
    pub device: Device,
    /// Its share of the abstract state, changed by the rules.
    pub state: DeviceState,
    /// How what it holds came about.
    pub ghosts: Ghosts,
    instances: BTreeMap<(u8, u32), Instance>,
    items: HashMap<Pseudonym, ItemId>,
    /// Likewise the other way.
    pseudonyms: HashMap<ItemId, Pseudonym>,
    connections: HashMap<Connection, DeviceId>,
    /// How many steps there were since those of no more use were forgotten.
    since_forgotten: usize,
    /// What is held, by when it must be gone.
    pub due: Due,
    /// Held on somebody's word whose trace nobody has.
    pub presumed: BTreeSet<Receipt>,
    /// The digest of what π has of others, if it is known.
    listed: Option<CatalogueDigest>,
    /// The digest of Π_DCs, if it is known.
    catalogue: Option<CatalogueDigest>,
    /// Where the run stands.
    pub run: Run,
    /// The latest time of a step.
    pub latest: Time,
    /// How many steps there were since everything was compared.
    pub since_compared: u64,
    /// What it did last.
    pub chart: VecDeque<Beat>,
}

/// The run that is under way.
#[derive(Debug, Default)]
pub struct Run {
    /// How far it has come.
    pub stage: Stage,
    /// When it began.
    pub began: Time,
    /// The time of the last record of the one before.
    pub ended: Time,
    /// The time of the last record.
    pub seen: Time,
    /// The variables at the end of the run before, while it is said with what this one begins.
    pub before: Option<Box<Device>>,
    /// Why nothing is known of before, if it is not.
    pub unknown: Option<&'static str>,
    /// How it stands.
    pub last: Last,
}

/// How far a run has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stage {
    /// A `resume` must come before the next step.
    #[default]
    Due,
    /// `resume` records are coming in.
    Resuming,
    /// Steps are judged.
    Running,
    /// Something cannot be told, so nothing more of this run is judged.
    Lost,
}

/// How a run stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Last {
    /// It has not begun.
    #[default]
    Nothing,
    /// It goes on.
    Running,
    /// It goes on in the next file.
    Continues,
    /// It was closed.
    Stopped,
}

/// Something that a device did.
#[derive(Debug, Clone, Copy)]
pub struct Beat {
    /// Which record.
    pub record: u64,
    /// When.
    pub time: Time,
    /// What.
    pub label: Label,
    /// With whom; numbers of those without a name are given again.
    pub peer: Option<Option<DeviceId>>,
}

/// Why a step cannot be run again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Untold {
    /// A policy without its bytes, or with words that the vocabulary lacks.
    #[error("the trace does not have the policy {0}, or the mesh file's vocabulary lacks a word of it")]
    Policy(Digest),
    /// A datatype that the vocabulary lacks.
    #[error("the mesh file's vocabulary lacks the datatype `{0}`")]
    Datatype(String),
    /// An entity that the vocabulary lacks.
    #[error("the mesh file's vocabulary lacks the entity `{0}`")]
    Entity(String),
    /// A device that no mesh file lists.
    #[error("no mesh file that is here lists `{0}`")]
    Device(DeviceName),
    /// "The owner", in a message without an item.
    #[error("it speaks of the owner of nothing")]
    Owner,
    /// No graph of this number.
    #[error("the trace does not say which graph it runs")]
    Graph,
    /// More than [`MAX_INSTANCES`].
    #[error("it would be at more than {MAX_INSTANCES} places at once")]
    Instances,
}

impl Replay {
    /// A device of which nothing is known yet.
    pub fn new(name: DeviceName, id: DeviceId) -> Self {
        Self {
            name,
            id,
            graphs: Vec::new(),
            device: Device::new(id),
            state: DeviceState::default(),
            ghosts: Ghosts::default(),
            instances: BTreeMap::new(),
            items: HashMap::new(),
            pseudonyms: HashMap::new(),
            connections: HashMap::new(),
            since_forgotten: 0,
            due: Due::default(),
            presumed: BTreeSet::new(),
            listed: None,
            catalogue: None,
            run: Run::default(),
            latest: Time::default(),
            since_compared: 0,
            chart: VecDeque::with_capacity(MAX_CHART),
        }
    }

    /// An `open` record.
    pub fn open(&mut self, graphs: &[GraphName]) {
        self.graphs = graphs.iter().filter_map(|name| name.graph()).collect();
    }

    /// The graph of a step.
    pub fn graph(&self, number: u8) -> Result<&'static Graph<'static>, Untold> {
        self.graphs.get(usize::from(number)).copied().ok_or(Untold::Graph)
    }

    /// The instance of a step, which begins when it is first heard of. Whoever changes it puts it back.
    pub fn instance(&self, step: &trace::Step, graph: &Graph<'_>) -> Result<Instance, Untold> {
        match self.instances.get(&(step.graph, step.instance)) {
            Some(instance) => Ok(instance.clone()),
            None if self.instances.len() >= MAX_INSTANCES => Err(Untold::Instances),
            None => Ok(Instance::new(graph)),
        }
    }

    /// The instance after the step.
    pub fn put_back(&mut self, step: &trace::Step, instance: Instance) {
        self.instances.insert((step.graph, step.instance), instance);
    }

    /// Remembers what it did, for charts.
    pub fn beat(&mut self, beat: Beat) {
        if self.chart.len() >= MAX_CHART {
            self.chart.pop_front();
        }
        self.chart.push_back(beat);
    }

    /// The pseudonym of an item.
    pub fn pseudonym(&self, item: ItemId) -> Option<&Pseudonym> {
        self.pseudonyms.get(&item)
    }

    fn item(&mut self, item: &action::Item, world: &mut World<'_>) -> Result<ItemId, Untold> {
        // Mostly it is known.
        let is_it = |id: &ItemId| {
            let datatype = world.directory.item(*id).map(|known| known.datatype);
            datatype.is_some_and(|known| world.judge.vocabulary.datatypes.name(known) == item.datatype.as_str())
        };
        if let Some(id) = self.items.get(&item.pseudonym).copied().filter(is_it) {
            return Ok(id);
        }
        let lacking = || Untold::Datatype(item.datatype.as_str().into());
        let datatype = world.datatype(&item.datatype).ok_or_else(lacking)?;
        let id = self.item_of(&item.pseudonym, datatype, world);
        if let Some(known) = world.directory.item(id).filter(|known| known.datatype != datatype) {
            // A notice does not say what the item is.
            world.directory.set_item(id, Item { datatype, ..known });
        }
        Ok(id)
    }

    fn item_of(&mut self, pseudonym: &Pseudonym, datatype: DataType, world: &mut World<'_>) -> ItemId {
        if let Some(id) = self.items.get(pseudonym) {
            return *id;
        }
        let id = world.add_item(datatype, world.opening(pseudonym).map(|(_, owner)| owner));
        self.items.insert(*pseudonym, id);
        self.pseudonyms.insert(id, *pseudonym);
        id
    }

    /// The subject's own item: she is its owner, and has it.
    fn own_item(&mut self, item: &action::Item, world: &mut World<'_>) -> Result<ItemId, Untold> {
        let id = self.item(item, world)?;
        if let Some(known) = world.directory.item(id).filter(|known| known.owner != self.id) {
            world.directory.set_item(id, Item { owner: self.id, ..known });
            world.remove_stranger(known.owner);
        }
        for state in [&mut self.device.state, &mut self.state] {
            state.values.insert(Variable::Item(id), STAND_IN);
        }
        Ok(id)
    }

    /// A device that a mesh file lists, or this one. Nothing is known of any other.
    fn listed(&self, name: &DeviceName, world: &World<'_>) -> Result<DeviceId, Untold> {
        let known = world.device(name).filter(|device| *device == self.id || world.role(*device).is_some());
        known.ok_or_else(|| Untold::Device(name.clone()))
    }

    fn party(&mut self, party: &Party, item: Option<ItemId>, world: &mut World<'_>) -> Result<DeviceId, Untold> {
        match party {
            Party::Device(name) => self.listed(name, world),
            Party::Owner => {
                let owner = item.and_then(|item| world.directory.item(item)).map(|item| item.owner);
                owner.ok_or(Untold::Owner)
            }
            Party::Connection(connection) => {
                let new = || world.directory.add_stranger();
                Ok(*self.connections.entry(*connection).or_insert_with(new))
            }
        }
    }

    fn policies<'d>(
        &self,
        digests: impl IntoIterator<Item = &'d Digest>,
        world: &World<'_>,
    ) -> Result<Vec<PolicyId>, Untold> {
        digests.into_iter().map(|digest| world.policy(digest).ok_or(Untold::Policy(*digest))).collect()
    }

    fn offers<'o>(
        &self,
        offers: impl IntoIterator<Item = &'o Offer>,
        world: &mut World<'_>,
    ) -> Result<Vec<(DeviceId, PolicyId)>, Untold> {
        let offer = |offer: &Offer| {
            let policy = world.policy(&offer.policy).ok_or(Untold::Policy(offer.policy))?;
            Ok((self.listed(&offer.device, world)?, policy))
        };
        let mut offers = offers.into_iter().map(offer).collect::<Result<Vec<_>, _>>()?;
        offers.sort_unstable();
        Ok(offers)
    }

    /// What the interpreter is to do again.
    pub fn action(&mut self, said: &trace::Action, named: &Named, world: &mut World<'_>) -> Result<Action, Untold> {
        Ok(match said {
            trace::Action::Init { own, item } => Action::Init {
                own: self.policies(own, world)?,
                item: item.as_ref().map(|item| self.own_item(item, world)).transpose()?,
            },
            trace::Action::Restore { own, item, offers } => Action::Restore {
                own: self.policies(own, world)?,
                item: item.as_ref().map(|item| self.own_item(item, world)).transpose()?,
                offers: self.offers(offers, world)?,
            },
            trace::Action::ChangeOwn { own } => Action::ChangeOwn { own: self.policies(own, world)? },
            trace::Action::Admit { entity } => {
                let lacking = || Untold::Entity(entity.as_str().into());
                Action::Admit { entity: world.entity(entity).ok_or_else(lacking)? }
            }
            trace::Action::Tau => Action::Tau,
            trace::Action::Expire { item } => Action::Expire { item: self.nameless(item, world) },
            trace::Action::Forget { item } => Action::Forget { item: self.nameless(item, world) },
            trace::Action::Send(message) => Action::Send(self.message(message, named, false, world)?),
            trace::Action::Receive(message, _) => Action::Receive(self.message(message, named, true, world)?),
        })
    }

    /// An item of which only the pseudonym is said.
    fn nameless(&mut self, pseudonym: &Pseudonym, world: &mut World<'_>) -> ItemId {
        self.item_of(pseudonym, DataType::from_index(0), world)
    }

    fn message(
        &mut self,
        said: &action::Message,
        named: &Named,
        is_received: bool,
        world: &mut World<'_>,
    ) -> Result<Message, Untold> {
        let item = match &said.body {
            Said::Send(release) | Said::Broadcast(release) => Some(self.item(&release.item, world)?),
            Said::Withdraw { item, .. } => Some(self.nameless(item, world)),
            _ => None,
        };
        let sender = named.sender.map_or_else(|| self.party(&said.sender, item, world), Ok)?;
        let receiver = named.receiver.map_or_else(|| self.party(&said.receiver, item, world), Ok)?;
        let policy = |digest: &Digest| named.policy.ok_or(Untold::Policy(*digest));
        let release = |release: &action::Release, item| {
            let (policy, epoch) = (policy(&release.policy)?, release.epoch);
            let new = Release::new(item, policy);
            Ok(if is_received { Release { epoch, value: Some(STAND_IN), ..new } } else { new })
        };
        let body = match (&said.body, item) {
            (Said::Send(said), Some(item)) => Body::Send(release(said, item)?),
            (Said::Broadcast(said), Some(item)) => Body::Broadcast(release(said, item)?),
            (Said::Withdraw { withdrawal, .. }, Some(item)) => Body::Withdraw { item, withdrawal: *withdrawal },
            (Said::Request { policy: said }, _) => Body::Request { policy: policy(said)? },
            (Said::UploadPolicy { policy: said, .. }, _) => Body::UploadPolicy { policy: policy(said)? },
            (Said::WithdrawPolicy { policy: said }, _) => Body::WithdrawPolicy { policy: policy(said)? },
            (Said::DownloadPolicies { added, removed, .. }, _) if is_received => {
                Body::DownloadPolicies { offers: self.download(added, removed, world)? }
            }
            (Said::DownloadPolicies { .. }, _) => Body::DownloadPolicies { offers: Vec::new() },
            (Said::RequestPolicies | Said::Send(_) | Said::Broadcast(_) | Said::Withdraw { .. }, _) => {
                Body::RequestPolicies
            }
        };
        Ok(Message { sender, receiver, body })
    }

    /// Π: what π has of others, without what was removed, and with what was added.
    fn download(
        &self,
        added: &BTreeSet<Offer>,
        removed: &BTreeSet<Offer>,
        world: &mut World<'_>,
    ) -> Result<Vec<(DeviceId, PolicyId)>, Untold> {
        let others = self.device.state.policies.iter().copied().filter(|(of, _)| *of != self.id);
        let mut offers: Vec<(DeviceId, PolicyId)> = others.collect();
        let removed = self.offers(removed, world)?;
        if !removed.is_empty() {
            offers.retain(|offer| removed.binary_search(offer).is_err());
        }
        let added = self.offers(added, world)?;
        if !added.is_empty() {
            offers.extend(added);
            offers.sort_unstable();
            offers.dedup();
        }
        Ok(offers)
    }

    /// Whether a digest of Π is that of what was listed to this device, or by it.
    pub fn is_catalogue(&mut self, said: &CatalogueDigest, is_received: bool, world: &World<'_>) -> bool {
        let known = if is_received { &mut self.listed } else { &mut self.catalogue };
        if known.is_none() {
            let mut named: Vec<(&str, Digest)> = Vec::new();
            let mut name = |device: DeviceId, policy: PolicyId| {
                named.extend(world.policies.digest(policy).map(|policy| (world.name(device), policy)));
            };
            if is_received {
                let others = self.device.state.policies.iter().filter(|(of, _)| *of != self.id);
                others.for_each(|(device, policy)| name(*device, *policy));
            } else {
                self.device.memory.catalogue.iter().for_each(|(device, policy)| name(*device, *policy));
            }
            named.sort_unstable();
            *known = Some(CatalogueDigest::of_sorted(named.iter().map(|(device, policy)| (*device, policy))));
        }
        *known == Some(*said)
    }

    /// Policies have changed, so digests of them are out of date.
    pub fn policies_changed(&mut self) {
        (self.listed, self.catalogue) = (None, None);
    }

    /// Forgets an item that is of no more use, and whoever asked and was answered.
    pub fn forget(&mut self, item: Option<ItemId>, world: &mut World<'_>) {
        if let Some(item) = item.filter(|item| !self.device.mentions_item(*item)) {
            let is_used = self.instances.values().any(|instance| instance.item == Some(item));
            if let (false, Some(pseudonym)) = (is_used, self.pseudonyms.remove(&item)) {
                self.items.remove(&pseudonym);
                self.ghosts.withdrawn.remove(&item);
                let owed = self.ghosts.owed.range((item, DeviceId::from_index(0))..).map(|(key, _)| *key);
                for key in owed.take_while(|(of, _)| *of == item).collect::<Vec<_>>() {
                    self.ghosts.owed.remove(&key);
                }
                world.remove_item(item);
            }
        }
        // Who holds items may name a guest there. A number that is given again must not stand in anything that is compared.
        // All of them are looked at, so only now and then.
        self.since_forgotten += 1;
        let is_due = self.since_forgotten > self.connections.len();
        if is_due && !self.connections.is_empty() && self.device.devices_with_items().next().is_none() {
            self.since_forgotten = 0;
            let exchanges = self.instances.values().filter_map(|instance| instance.exchange);
            let peers: HashSet<DeviceId> = exchanges.map(|exchange| exchange.peer).collect();
            let device = &self.device;
            self.connections.retain(|_, guest| {
                let is_used = peers.contains(guest) || device.has_policies_of(*guest);
                if !is_used {
                    world.remove_stranger(*guest);
                }
                is_used
            });
        }
    }

    /// A run begins: nothing is left but what `resume` records say. What there was before is kept for comparison.
    pub fn begin_run(&mut self, now: Time) {
        let before = std::mem::replace(&mut self.device, Device::new(self.id));
        if self.run.unknown.is_none() {
            self.run.before = Some(Box::new(before));
        }
        self.instances.clear();
        self.policies_changed();
        (self.run.began, self.run.stage) = (now, Stage::Resuming);
    }

    /// Every item that has a pseudonym here.
    pub fn items_known(&self) -> Vec<ItemId> {
        self.pseudonyms.keys().copied().collect()
    }

    /// Whether enough has happened since everything was compared that doing so again costs little in comparison.
    pub fn is_comparable_now(&mut self) -> bool {
        let size = self.state.received.len() + self.state.policies.len();
        let is_due = self.since_compared as usize >= size;
        if is_due {
            self.since_compared = 0;
        }
        is_due
    }

    /// Variables from before.
    pub fn resume(&mut self, said: &Resume, world: &mut World<'_>) -> Result<(), Untold> {
        let policies = self.offers(&said.policies, world)?;
        self.device.state.policies.extend(policies);
        self.device.memory.current.extend(self.policies(&said.current, world)?);
        self.device.memory.published.extend(self.policies(&said.published, world)?);
        let listed = self.offers(&said.catalogue, world)?;
        self.device.memory.catalogue.extend(listed);
        for held in &said.received {
            let item = self.item(&held.item, world)?;
            let sender = self.party(&held.sender, Some(item), world)?;
            let policy = world.policy(&held.policy).ok_or(Untold::Policy(held.policy))?;
            let receipt = Receipt { item, sender, policy };
            self.device.state.received.insert(receipt);
            self.device.state.values.insert(Variable::Item(item), STAND_IN);
            self.device.memory.released.insert(receipt, held.epoch);
        }
        for (party, digest) in &said.asked {
            let policy = world.policy(digest).ok_or(Untold::Policy(*digest))?;
            let party = self.party(party, None, world)?;
            self.device.memory.asked.insert((party, policy));
        }
        for remembered in &said.recipients {
            let (key, withdrawal) = self.remembered(remembered, world)?;
            self.device.memory.recipients.insert(key, withdrawal);
        }
        for remembered in &said.notices {
            let (key, withdrawal) = self.remembered(remembered, world)?;
            self.device.memory.notices.insert(key, withdrawal);
        }
        for (item, withdrawal) in &said.tombstones {
            let item = self.item(item, world)?;
            self.device.memory.tombstones.insert(item, *withdrawal);
        }
        for entity in &said.refused {
            let known = world.entity(entity).ok_or_else(|| Untold::Entity(entity.as_str().into()))?;
            self.device.memory.refused.insert(known);
        }
        Ok(())
    }

    fn remembered(
        &mut self,
        said: &trace::resume::Remembered,
        world: &mut World<'_>,
    ) -> Result<((ItemId, DeviceId), Withdrawal), Untold> {
        let item = self.item(&said.item, world)?;
        Ok(((item, self.party(&said.party, Some(item), world)?), said.withdrawal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pilot_core::graph::Location;
    use pilot_core::graphs::REPOSITORY;
    use pilot_core::sorted::Sorted;

    /// Whoever makes up a number for each step fills no memory.
    #[test]
    fn instances_are_bounded() {
        let mut replay = Replay::new(DeviceName::new("registry").unwrap(), DeviceId::from_index(0));
        let step = |instance| {
            let (from, to) = (Location::S0, Location::S0);
            trace::Step { graph: 0, instance, from, action: trace::Action::Tau, to, outcomes: Sorted::new() }
        };
        let most = u32::try_from(MAX_INSTANCES).unwrap();
        for number in 0..most {
            let instance = replay.instance(&step(number), &REPOSITORY).unwrap();
            replay.put_back(&step(number), instance);
        }
        assert_eq!(replay.instance(&step(most), &REPOSITORY), Err(Untold::Instances));
        assert!(replay.instance(&step(0), &REPOSITORY).is_ok());
    }
}
