//! What the rules and the graphs read and never change: words, policies, who is who, and the time.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;

use crate::active::{Communication, Inactive, active_policy_if, active_transfer_if};
use crate::codec::{self, Digest};
use crate::condition::Condition;
use crate::evaluate::Values;
use crate::policy::{Choice, CommunicationRule, Policy, PolicyRef};
use crate::slots::Slots;
use crate::subsumption::Judge;
use crate::value::Time;
use crate::vocabulary::{DeviceId, Directory, Id, ItemId, Vocabulary};

/// A policy in a table of [`Policies`]: states and messages hold these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyId(pub(crate) u32);

impl Id for PolicyId {
    fn from_index(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    fn index(self) -> usize {
        self.0 as usize
    }
}

/// Policies, each once. There is no ⊥ among them: it is never requested, uploaded or broadcast (S21).
#[derive(Debug, Clone, Default)]
pub struct Policies {
    policies: Slots<(Policy, Digest)>,
    ids: BTreeMap<Digest, PolicyId>,
}

impl Policies {
    /// The id of a policy, which is added if it is new. Ids of policies that were removed are given again.
    pub fn intern(&mut self, policy: Policy, vocabulary: &Vocabulary) -> PolicyId {
        let choice = Choice::Policy(policy);
        let digest = codec::digest(&choice, vocabulary);
        let new = PolicyId::from_index(self.policies.next_place());
        let id = *self.ids.entry(digest).or_insert(new);
        if let (true, Choice::Policy(policy)) = (id == new, choice) {
            self.policies.insert((policy, digest));
        }
        id
    }

    /// Forgets a policy. The caller knows that nothing refers to it: neither a state nor a message.
    pub fn remove(&mut self, id: PolicyId) -> Option<Policy> {
        let (policy, digest) = self.policies.remove(id.index())?;
        self.ids.remove(&digest);
        Some(policy)
    }

    /// The policy of an id; ids of another table may have none.
    pub fn policy(&self, id: PolicyId) -> Option<&Policy> {
        self.policies.at(id.index()).map(|(policy, _)| policy)
    }

    /// The digest of a policy.
    pub fn digest(&self, id: PolicyId) -> Option<Digest> {
        self.policies.at(id.index()).map(|(_, digest)| *digest)
    }

    /// The policy of a digest.
    pub fn by_digest(&self, digest: &Digest) -> Option<PolicyId> {
        self.ids.get(digest).copied()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.policies.len()
    }

    /// Every policy.
    pub fn iter(&self) -> impl Iterator<Item = (PolicyId, &Policy)> {
        self.policies.iter().map(|(place, (policy, _))| (PolicyId::from_index(place), policy))
    }
}

/// What judgements depend on besides the state.
#[derive(Debug, Clone, Copy)]
pub struct Context<'c> {
    /// The orders and ⊑.
    pub judge: &'c Judge<'c>,
    /// entity(d), type(i), owner(i).
    pub directory: &'c Directory,
    /// The policies that ids stand for.
    pub policies: &'c Policies,
    /// Whom devices address.
    pub contacts: &'c Contacts,
    /// time(st, e).
    pub now: Time,
    /// For who replays what others did: the conditions over values that only they had, as they say these came out. Any
    /// other is ⊥. Without it, conditions are evaluated.
    pub attested: Option<&'c dyn Attested>,
}

/// How conditions came out over values that only another device had, as that says.
pub trait Attested: fmt::Debug + Sync {
    /// How a condition came out; `None` if nothing is said of it.
    fn outcome(&self, condition: &Condition) -> Option<bool>;
}

impl Attested for BTreeMap<Condition, bool> {
    fn outcome(&self, condition: &Condition) -> Option<bool> {
        self.get(condition).copied()
    }
}

/// Whom devices address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contacts {
    /// The policy repository.
    pub repository: Option<DeviceId>,
    /// Devices from which data may be requested.
    pub sources: Vec<DeviceId>,
}

impl<'c> Context<'c> {
    /// The policy of an id.
    pub fn policy(&self, id: PolicyId) -> Option<&'c Policy> {
        self.policies.policy(id)
    }

    /// p ⊑ q.
    pub fn subsumes(&self, p: PolicyId, q: PolicyId) -> bool {
        self.policy(q).is_some_and(|q| self.subsumes_parts(p, q.into()))
    }

    /// p ⊑ (t, dcr, TR).
    pub fn subsumes_parts(&self, p: PolicyId, parts: PolicyRef<'_>) -> bool {
        self.policy(p).is_some_and(|p| p.subsumes(parts, self.judge))
    }

    /// p ⊑ q or q ⊑ p.
    pub fn is_comparable(&self, p: PolicyId, q: PolicyId) -> bool {
        self.subsumes(p, q) || self.subsumes(q, p)
    }

    /// owner(i).
    pub fn owner(&self, item: ItemId) -> Option<DeviceId> {
        self.directory.item(item).map(|item| item.owner)
    }

    /// type(i) ≤ p.t.
    pub fn is_about(&self, policy: PolicyId, item: ItemId) -> bool {
        let (Some(policy), Some(item)) = (self.policy(policy), self.directory.item(item)) else { return false };
        self.judge.vocabulary.datatypes.le(item.datatype, policy.datatype())
    }

    /// entity(d) ≤ p.dcr.e.
    pub fn names_entity_of(&self, policy: PolicyId, device: DeviceId) -> bool {
        let (Some(policy), Some(entity)) = (self.policy(policy), self.directory.entity(device)) else { return false };
        self.judge.vocabulary.entities.le(entity, policy.collection().entity)
    }

    /// p.dcr.dur.rt.
    pub fn retention(&self, policy: PolicyId) -> Option<Time> {
        self.policy(policy).map(|policy| policy.collection().usage.retention())
    }

    /// time < p.dcr.dur.rt.
    pub fn is_in_time(&self, policy: PolicyId) -> bool {
        self.retention(policy).is_some_and(|retention| self.now < retention)
    }

    /// Def. 9: activePolicy(p, send(sndr, rcv, i), st), with the sender's ν.
    pub fn active_policy(
        &self,
        policy: PolicyId,
        values: &Values,
        receiver: DeviceId,
        item: ItemId,
    ) -> Result<(), Inactive> {
        let policy = self.policy(policy).ok_or(Inactive::Datatype)?;
        let communication = self.communication(values, receiver, item)?;
        let condition = self.evaluate(&policy.collection().condition, values);
        active_policy_if(condition, policy, &communication, self.judge.vocabulary)
    }

    /// Def. 10: activeTransfer(tr, p, transfer(sndr, rcv, i), st), with the sender's ν.
    pub fn active_transfer(
        &self,
        rule: &CommunicationRule,
        policy: &Policy,
        values: &Values,
        receiver: DeviceId,
        item: ItemId,
    ) -> Result<(), Inactive> {
        let communication = self.communication(values, receiver, item)?;
        active_transfer_if(self.evaluate(&rule.condition, values), rule, policy, &communication, self.judge.vocabulary)
    }

    fn evaluate(&self, condition: &Condition, values: &Values) -> Option<bool> {
        match self.attested {
            Some(attested) if !condition.is_always() => attested.outcome(condition),
            _ => condition.evaluate(values),
        }
    }

    fn communication<'s>(
        &self,
        values: &'s Values,
        receiver: DeviceId,
        item: ItemId,
    ) -> Result<Communication<'s>, Inactive> {
        let receiver = self.directory.entity(receiver).ok_or(Inactive::Entity)?;
        let datatype = self.directory.item(item).ok_or(Inactive::Datatype)?.datatype;
        Ok(Communication { datatype, receiver, time: self.now, values })
    }
}
