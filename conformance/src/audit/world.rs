//! A judge's own numbers, beyond those that everybody knows: items, and those without a name.
//!
//! An item has another pseudonym in each trace, so each trace has items of its own; an opening says that several of them are
//! one.

use pilot_core::codec::Digest;
use pilot_core::evidence::mesh::{FrameTag, Role};
use pilot_core::evidence::trace::PolicyBytes;
use pilot_core::evidence::trace::action::Word;
use pilot_core::evidence::{DeviceName, Pseudonym};
use pilot_core::semantics::{Attested, Contacts, Context, Policies, PolicyId, Receipt};
use pilot_core::subsumption::Judge;
use pilot_core::value::Time;
use pilot_core::vocabulary::{DataType, DeviceId, Directory, Entity, Item, ItemId};

use super::consents::Consents;
use super::facts::Facts;

/// The numbers of everything, for one judge.
pub struct World<'v> {
    facts: &'v Facts<'v>,
    /// The orders and ⊑.
    pub judge: Judge<'v>,
    /// entity(d), type(i), owner(i).
    pub directory: Directory,
    /// Every policy that a trace has.
    pub policies: &'v Policies,
}

/// Who has no name.
pub const SOMEBODY: &str = "a subject";

/// Whom a device addresses in one step.
pub fn contacts(repository: Option<DeviceId>) -> Contacts {
    Contacts { repository, sources: Vec::new() }
}

impl<'v> World<'v> {
    /// Only what everybody knows.
    pub fn new(facts: &'v Facts<'v>) -> Self {
        Self {
            facts,
            judge: Judge::new(facts.vocabulary),
            directory: facts.directory().clone(),
            policies: &facts.policies,
        }
    }

    /// The number of a device that everybody knows.
    pub fn device(&self, name: &DeviceName) -> Option<DeviceId> {
        self.facts.device(name)
    }

    /// The name of a device; of whoever has none, [`SOMEBODY`].
    pub fn name(&self, device: DeviceId) -> &str {
        self.facts.name(device).map_or(SOMEBODY, DeviceName::as_str)
    }

    /// Whether anybody has said who it is.
    pub fn is_named(&self, device: DeviceId) -> bool {
        self.facts.name(device).is_some()
    }

    /// Whether it is a repository.
    pub fn is_repository(&self, device: DeviceId) -> bool {
        self.role(device) == Some(Role::Repository)
    }

    /// What a mesh file says it is there for.
    pub fn role(&self, device: DeviceId) -> Option<Role> {
        self.facts.role(device)
    }

    /// What stands for it in radio frames.
    pub fn tags(&self, device: DeviceId) -> &'v [FrameTag] {
        self.facts.tags(device)
    }

    /// What subjects have signed.
    pub const fn consents(&self) -> &'v Consents {
        &self.facts.consents
    }

    /// Whether the vocabulary lacks a word of a policy.
    pub fn lacks_words_of(&self, policy: &PolicyBytes) -> bool {
        self.facts.lacks_words() && self.policy(&policy.digest()).is_none()
    }

    /// The number of a policy.
    pub fn policy(&self, digest: &Digest) -> Option<PolicyId> {
        self.facts.policy(digest)
    }

    /// When what was received must be erased.
    pub fn deadline(&self, receipt: &Receipt) -> Option<Time> {
        Some(self.policies.policy(receipt.policy)?.collection().usage.retention())
    }

    /// The number of an entity.
    pub fn entity(&self, word: &Word) -> Option<Entity> {
        self.judge.vocabulary.entities.id(word.as_str())
    }

    /// The number of a datatype.
    pub fn datatype(&self, word: &Word) -> Option<DataType> {
        self.facts.datatype(word)
    }

    /// The opening that a pseudonym belongs to, and whose it is.
    pub fn opening(&self, pseudonym: &Pseudonym) -> Option<(u32, DeviceId)> {
        self.facts.opening(pseudonym)
    }

    /// A new item.
    pub fn add_item(&mut self, datatype: DataType, owner: Option<DeviceId>) -> ItemId {
        let owner = owner.unwrap_or_else(|| self.directory.add_stranger());
        self.directory.add_item(Item { datatype, owner })
    }

    /// Forgets an item that nothing mentions, and its owner if nobody knows her otherwise.
    pub fn remove_item(&mut self, item: ItemId) {
        if let Some(Item { owner, .. }) = self.directory.remove_item(item) {
            self.remove_stranger(owner);
        }
    }

    /// Forgets somebody without a name.
    pub fn remove_stranger(&mut self, device: DeviceId) {
        if !self.is_named(device) {
            self.directory.remove_device(device);
        }
    }

    /// What judgements read.
    pub const fn context<'c>(&'c self, contacts: &'c Contacts, attested: &'c dyn Attested, now: Time) -> Context<'c> {
        let Self { judge, directory, policies, .. } = self;
        Context { judge, directory, policies, contacts, now, attested: Some(attested) }
    }
}
