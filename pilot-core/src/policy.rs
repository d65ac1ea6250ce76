//! Def. 1: PILOT privacy policies, `(datatype, dcr, TR)`, and the empty policy ⊥ of Table 1.
//!
//! A policy is made of ids of one [`Vocabulary`] and means nothing under another. A policy that exists is
//! well formed: its sets have no duplicates and one order, and it is within the limits below.

use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::condition::Condition;
use crate::syntax::format::condition_text;
use crate::value::Time;
use crate::vocabulary::{DataType, Entity, Purpose, Variable, Vocabulary};

/// The most purposes in one rule.
pub const MAX_PURPOSES: usize = 256;
/// The most transfer rules in one policy.
pub const MAX_TRANSFERS: usize = 256;
/// The most comparisons in all conditions of one policy: p ⊑ q asks for entailments between all their transfer rules.
pub const MAX_POLICY_COMPARISONS: usize = 256;
/// The most bytes of one policy in canonical form.
pub const MAX_POLICY_BYTES: usize = 64 << 10;

/// What somebody offers or accepts: a policy, or ⊥, "only what is necessary" (S21).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Choice {
    /// ⊥.
    Nothing,
    /// A policy.
    Policy(Policy),
}

impl Choice {
    /// The policy, if it is one.
    pub const fn policy(&self) -> Option<&Policy> {
        match self {
            Self::Nothing => None,
            Self::Policy(policy) => Some(policy),
        }
    }
}

impl From<Policy> for Choice {
    fn from(policy: Policy) -> Self {
        Self::Policy(policy)
    }
}

/// p = (t, dcr, TR).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Policy {
    datatype: DataType,
    collection: CommunicationRule,
    transfers: Vec<CommunicationRule>,
}

/// dcr = ⟨condition, entity, dur⟩. The sender checks condition and entity; the receiver keeps to the usage rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CommunicationRule {
    /// When the data may be communicated.
    pub condition: Condition,
    /// Who may receive it.
    pub entity: Entity,
    /// What the receiver may do with it.
    pub usage: UsageRule,
}

/// dur = ⟨Purposes, retention_time⟩.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UsageRule {
    purposes: Vec<Purpose>,
    retention: Time,
}

/// Why there is no such policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyProblem {
    /// The same purpose twice in a rule.
    #[error("a purpose is named twice")]
    DuplicatePurpose,
    /// The same transfer rule twice.
    #[error("two transfer rules are the same")]
    DuplicateTransfer,
    /// More than [`MAX_PURPOSES`].
    #[error("a rule has at most {MAX_PURPOSES} purposes")]
    TooManyPurposes,
    /// More than [`MAX_TRANSFERS`].
    #[error("a policy has at most {MAX_TRANSFERS} transfer rules")]
    TooManyTransfers,
    /// More than [`MAX_POLICY_COMPARISONS`].
    #[error("the conditions of a policy have at most {MAX_POLICY_COMPARISONS} comparisons together")]
    TooManyComparisons,
    /// More than [`MAX_POLICY_BYTES`].
    #[error("a policy takes at most {MAX_POLICY_BYTES} bytes")]
    TooLarge,
}

impl UsageRule {
    /// ⟨purposes, retention⟩.
    pub fn new(mut purposes: Vec<Purpose>, retention: Time) -> Result<Self, PolicyProblem> {
        if purposes.len() > MAX_PURPOSES {
            return Err(PolicyProblem::TooManyPurposes);
        }
        let count = purposes.len();
        purposes.sort_unstable();
        purposes.dedup();
        if purposes.len() < count {
            return Err(PolicyProblem::DuplicatePurpose);
        }
        Ok(Self { purposes, retention })
    }

    /// Purposes, in the byte order of their names.
    pub fn purposes(&self) -> &[Purpose] {
        &self.purposes
    }

    /// retention_time: the data is erased before this moment.
    pub const fn retention(&self) -> Time {
        self.retention
    }
}

impl Policy {
    /// (datatype, collection, transfers).
    pub fn new(
        datatype: DataType,
        collection: CommunicationRule,
        mut transfers: Vec<CommunicationRule>,
        vocabulary: &Vocabulary,
    ) -> Result<Self, PolicyProblem> {
        if transfers.len() > MAX_TRANSFERS {
            return Err(PolicyProblem::TooManyTransfers);
        }
        transfers.sort_by(|a, b| a.written_order(b, vocabulary));
        if transfers.iter().zip(transfers.iter().skip(1)).any(|(rule, next)| rule == next) {
            return Err(PolicyProblem::DuplicateTransfer);
        }
        let rules = transfers.iter().chain([&collection]);
        if rules.map(|rule| rule.condition.comparisons()).sum::<usize>() > MAX_POLICY_COMPARISONS {
            return Err(PolicyProblem::TooManyComparisons);
        }
        let policy = Self { datatype, collection, transfers };
        if crate::codec::encoded_len(&policy, vocabulary) > MAX_POLICY_BYTES {
            return Err(PolicyProblem::TooLarge);
        }
        Ok(policy)
    }

    /// p.t: the type of data it is about.
    pub const fn datatype(&self) -> DataType {
        self.datatype
    }

    /// p.dcr: who may collect the data, when, for what.
    pub const fn collection(&self) -> &CommunicationRule {
        &self.collection
    }

    /// p.TR: to whom the data may be transferred next, when, for what.
    pub fn transfers(&self) -> &[CommunicationRule] {
        &self.transfers
    }

    /// Whether any of its conditions depends on the value of a variable.
    pub fn reads(&self, variable: Variable) -> bool {
        let conditions = self.transfers.iter().map(|rule| &rule.condition).chain([&self.collection.condition]);
        conditions.into_iter().any(|condition| condition.reads(variable))
    }

    /// The last moment before which anybody may hold data because it was released under this policy: everybody who
    /// gets it by a transfer is bound by one of its transfer rules.
    pub fn last_deadline(&self) -> Time {
        let transfers = self.transfers.iter().map(|rule| rule.usage.retention);
        transfers.fold(self.collection.usage.retention, Time::max)
    }

    /// (p.t, tr, p.TR): how the receiver of a transfer under `rule` is bound.
    pub fn with_collection<'p>(&'p self, rule: &'p CommunicationRule) -> PolicyRef<'p> {
        PolicyRef { datatype: self.datatype, collection: rule, transfers: &self.transfers }
    }
}

/// The three parts of a policy, borrowed; they need not belong to the same one.
#[derive(Debug, Clone, Copy)]
pub struct PolicyRef<'p> {
    /// t.
    pub datatype: DataType,
    /// dcr.
    pub collection: &'p CommunicationRule,
    /// TR.
    pub transfers: &'p [CommunicationRule],
}

impl<'p> From<&'p Policy> for PolicyRef<'p> {
    fn from(policy: &'p Policy) -> Self {
        policy.with_collection(&policy.collection)
    }
}

impl CommunicationRule {
    /// The order in which a policy's transfer rules are kept and written: by the names in them, so that it is
    /// the same under every vocabulary.
    pub(crate) fn written_order(&self, other: &Self, vocabulary: &Vocabulary) -> Ordering {
        let key = |rule: &Self| (rule.entity, rule.usage.retention);
        key(self).cmp(&key(other)).then_with(|| self.usage.purposes.cmp(&other.usage.purposes)).then_with(|| match self
            .condition
            == other.condition
        {
            true => Ordering::Equal,
            false => condition_text(&self.condition, vocabulary).cmp(&condition_text(&other.condition, vocabulary)),
        })
    }
}
