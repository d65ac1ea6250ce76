//! What names in traces stand for, as far as it is the same for everybody: devices, policies, words and openings, numbered
//! for the interpreter. Known before anything is judged, so that all judges can share it.

use std::collections::BTreeMap;
use std::hash::BuildHasher as _;

use hashbrown::{DefaultHashBuilder, HashMap, HashSet, HashTable};
use pilot_core::codec::{self, Digest};
use pilot_core::evidence::mesh::{FrameTag, Role};
use pilot_core::evidence::trace::PolicyBytes;
use pilot_core::evidence::trace::action::Word;
use pilot_core::evidence::{AuditKey, DeviceName, Pseudonym};
use pilot_core::policy::Choice;
use pilot_core::semantics::{Policies, PolicyId};
use pilot_core::value::Time;
use pilot_core::vocabulary::{DataType, DeviceId, Directory, Id as _, Vocabulary};

use super::consents::Consents;
use super::mail::CLOCK_SKEW;
use super::seal::Sealed;
use super::sources::{Opening, Sources};

/// The policies that traces have, by their digests.
pub type Found = BTreeMap<Digest, PolicyBytes>;

/// The numbers of what everybody knows.
pub struct Facts<'v> {
    /// The orders.
    pub vocabulary: &'v Vocabulary,
    /// Every policy that a trace has.
    pub policies: Policies,
    /// A digest is as good as random, so a part of it stands for it in the table.
    numbers: HashTable<(Digest, PolicyId)>,
    hashing: DefaultHashBuilder,
    /// Whether the vocabulary lacks a word of some policy.
    lacks_words: bool,
    /// entity(d) of the devices with names.
    directory: Directory,
    devices: HashMap<DeviceName, DeviceId>,
    /// By the numbers of the devices, which are those from 0 on.
    names: Vec<DeviceName>,
    /// Likewise, for those that a mesh file lists.
    roles: Vec<Option<Role>>,
    /// What stands for each device in radio frames, as every mesh file says.
    tags: HashMap<DeviceId, Vec<FrameTag>>,
    datatypes: HashMap<Word, DataType>,
    /// Which opening a pseudonym belongs to, whoever's trace it is from.
    opened: HashMap<Pseudonym, u32>,
    /// The devices of the openings, by their numbers.
    owners: Vec<DeviceId>,
    /// Those that had several keys, as the mesh files say.
    with_several_keys: HashSet<DeviceId>,
    /// Which traces are whose, and when they begin: a device that got a new key has begun anew. In their order.
    traces: HashMap<DeviceId, Vec<(Time, usize)>>,
    /// What subjects have signed.
    pub consents: Consents,
}

impl<'v> Facts<'v> {
    /// The devices of all mesh files, the newest first, those of the openings, and those of the traces.
    pub fn new(vocabulary: &'v Vocabulary, sources: &Sources, traces: &[Sealed], found: &Found) -> Self {
        let word = |datatype| Some((Word::new(vocabulary.datatypes.name(datatype)).ok()?, datatype));
        let mut facts = Self {
            vocabulary,
            policies: Policies::default(),
            numbers: HashTable::new(),
            hashing: DefaultHashBuilder::default(),
            lacks_words: false,
            directory: Directory::default(),
            devices: HashMap::new(),
            names: Vec::new(),
            roles: Vec::new(),
            tags: HashMap::new(),
            datatypes: vocabulary.datatypes.ids().filter_map(word).collect(),
            opened: HashMap::new(),
            owners: Vec::new(),
            with_several_keys: HashSet::new(),
            traces: HashMap::new(),
            consents: Consents::of(sources),
        };
        let mut keys = HashMap::new();
        for device in sources.meshes.iter().rev().flat_map(|mesh| mesh.file.devices()) {
            let id = match facts.device(&device.name) {
                Some(id) => id,
                None => {
                    let id = match vocabulary.entities.id(&device.entity) {
                        Some(entity) => facts.directory.add_device(entity),
                        None => facts.directory.add_stranger(),
                    };
                    facts.know(id, &device.name, Some(device.role))
                }
            };
            facts.tags.entry(id).or_default().push(device.tag);
            if *keys.entry(id).or_insert(device.signing_key) != device.signing_key {
                facts.with_several_keys.insert(id);
            }
        }
        let mut items = HashMap::new();
        for opening in &sources.openings {
            facts.open(opening, &mut items, &sources.keys);
        }
        for (at, trace) in traces.iter().enumerate() {
            let Some(name) = trace.device() else { continue };
            let id = facts.enrol(name);
            facts.traces.entry(id).or_default().push((trace.period.0, at));
        }
        facts.traces.values_mut().for_each(|traces| traces.sort_unstable());
        for (digest, bytes) in found {
            facts.learn(*digest, bytes);
        }
        facts
    }

    /// A device may open an item several times, for it may have had several keys.
    fn open(&mut self, opening: &Opening, items: &mut HashMap<Pseudonym, u32>, keys: &[AuditKey]) {
        let owner = self.enrol(&opening.device);
        let number = *items.entry(opening.fingerprint()).or_insert_with(|| {
            self.owners.push(owner);
            u32::try_from(self.owners.len() - 1).unwrap_or(u32::MAX)
        });
        self.opened.insert(opening.own_pseudonym(), number);
        for key in keys {
            self.opened.insert(opening.pseudonym_under(key), number);
        }
    }

    /// Whether a device has had several keys.
    pub fn had_another_key(&self, device: DeviceId) -> bool {
        self.with_several_keys.contains(&device)
    }

    fn know(&mut self, id: DeviceId, name: &DeviceName, role: Option<Role>) -> DeviceId {
        self.devices.insert(name.clone(), id);
        self.names.push(name.clone());
        self.roles.push(role);
        id
    }

    fn enrol(&mut self, name: &DeviceName) -> DeviceId {
        self.device(name).unwrap_or_else(|| {
            let id = self.directory.add_stranger();
            self.know(id, name, None)
        })
    }

    /// A policy gets a number, unless the vocabulary lacks a word of it, or it is none.
    fn learn(&mut self, digest: Digest, bytes: &PolicyBytes) {
        let Ok(Choice::Policy(policy)) = codec::decode(bytes.as_bytes(), self.vocabulary) else {
            self.lacks_words = true;
            return;
        };
        let id = self.policies.intern(policy, self.vocabulary);
        let hashing = self.hashing.clone();
        let hash = |digest: &Digest| hashing.hash_one(beginning(digest));
        self.numbers.insert_unique(hash(&digest), (digest, id), |(digest, _)| hash(digest));
    }

    /// Whether the vocabulary lacks a word of some policy, or some policy is none.
    pub const fn lacks_words(&self) -> bool {
        self.lacks_words
    }

    /// The number of a device.
    pub fn device(&self, name: &DeviceName) -> Option<DeviceId> {
        self.devices.get(name).copied()
    }

    /// The name of a device, if it is one of those that everybody knows.
    pub fn name(&self, device: DeviceId) -> Option<&DeviceName> {
        self.names.get(device.index())
    }

    /// What a mesh file says it is there for; `None` if none lists it.
    pub fn role(&self, device: DeviceId) -> Option<Role> {
        self.roles.get(device.index()).copied().flatten()
    }

    /// What stands for it in radio frames.
    pub fn tags(&self, device: DeviceId) -> &[FrameTag] {
        self.tags.get(&device).map_or(&[], Vec::as_slice)
    }

    /// entity(d) of those who have names: where a judge begins.
    pub const fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The place of the trace, if it is here, that has what a device did at this time, by somebody else's clock.
    pub fn trace(&self, device: DeviceId, time: Time) -> Option<usize> {
        let traces = self.traces.get(&device)?;
        let begun =
            traces.iter().rev().find(|(begin, _)| *begin <= Time::from_unix(time.unix().saturating_add(CLOCK_SKEW)));
        begun.or(traces.first()).map(|(_, at)| *at)
    }

    /// Whether a device has an earlier trace than this one.
    pub fn has_begun_anew(&self, device: DeviceId, trace: usize) -> bool {
        self.traces.get(&device).and_then(|traces| traces.first()).is_some_and(|(_, first)| *first != trace)
    }

    /// The number of a policy; `None` if no trace has it, or the vocabulary lacks a word of it.
    pub fn policy(&self, digest: &Digest) -> Option<PolicyId> {
        let hash = self.hashing.hash_one(beginning(digest));
        self.numbers.find(hash, |(known, _)| known == digest).map(|(_, id)| *id)
    }

    /// The number of a datatype.
    pub fn datatype(&self, word: &Word) -> Option<DataType> {
        self.datatypes.get(word).copied()
    }

    /// The opening that a pseudonym belongs to, and whose it is.
    pub fn opening(&self, pseudonym: &Pseudonym) -> Option<(u32, DeviceId)> {
        let number = *self.opened.get(pseudonym)?;
        Some((number, self.owners.get(number as usize).copied()?))
    }
}

fn beginning(digest: &Digest) -> u64 {
    digest.0.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}
