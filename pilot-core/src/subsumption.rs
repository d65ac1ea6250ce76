//! Defs. 5–7: p ⊑ q, "p is at least as restrictive as q", with S10 for the conditions of transfer rules.
//!
//! A preorder, not an order (S7): {newsletter, advertisement} and {advertisement} subsume each other.
//! Hence no `PartialOrd`; there is one spelling, `p.subsumes(&q, judge)`.

use crate::entailment::Entailments;
use crate::policy::{Choice, CommunicationRule, Policy, PolicyRef, UsageRule};
use crate::vocabulary::Vocabulary;

/// What judgements about policies need: the orders, and a memo of decided entailments.
#[derive(Debug)]
pub struct Judge<'v> {
    /// The orders.
    pub vocabulary: &'v Vocabulary,
    entailments: Entailments,
}

impl<'v> Judge<'v> {
    /// A judge over this vocabulary.
    pub fn new(vocabulary: &'v Vocabulary) -> Self {
        Self { vocabulary, entailments: Entailments::default() }
    }

    /// Decided entailments.
    pub const fn entailments(&self) -> &Entailments {
        &self.entailments
    }
}

impl UsageRule {
    /// Def. 5: dur₁ ≼ dur₂.
    pub fn subsumes(&self, other: &Self, judge: &Judge<'_>) -> bool {
        let covered = |purpose| other.purposes().iter().any(|allowed| judge.vocabulary.purposes.le(purpose, *allowed));
        self.purposes().iter().copied().all(covered) && self.retention() <= other.retention()
    }
}

impl CommunicationRule {
    /// Def. 6: dcr₁ ≼ dcr₂. Conditions play no part: for collection, the sender evaluates both.
    pub fn subsumes(&self, other: &Self, judge: &Judge<'_>) -> bool {
        judge.vocabulary.entities.le(self.entity, other.entity) && self.usage.subsumes(&other.usage, judge)
    }

    /// Def. 7 (iii) for one transfer rule, with S10: whoever sends under tr₁ alone must also keep to tr₂.
    pub fn subsumes_as_transfer(&self, other: &Self, judge: &Judge<'_>) -> bool {
        self.subsumes(other, judge) && judge.entailments.entails(&self.condition, &other.condition)
    }
}

impl Policy {
    /// Def. 7: p ⊑ q.
    pub fn subsumes<'q>(&self, other: impl Into<PolicyRef<'q>>, judge: &Judge<'_>) -> bool {
        let other = other.into();
        let covered =
            |rule: &CommunicationRule| other.transfers.iter().any(|allowed| rule.subsumes_as_transfer(allowed, judge));
        judge.vocabulary.datatypes.le(self.datatype(), other.datatype)
            && self.collection().subsumes(other.collection, judge)
            && self.transfers().iter().all(covered)
    }

    /// p ⊑ q or q ⊑ p (§3, rule R2).
    pub fn is_comparable(&self, other: &Self, judge: &Judge<'_>) -> bool {
        self.subsumes(other, judge) || other.subsumes(self, judge)
    }
}

impl Choice {
    /// p ⊑ q, where ⊥ ⊑ everything and only ⊥ ⊑ ⊥ (S21).
    pub fn subsumes(&self, other: &Self, judge: &Judge<'_>) -> bool {
        match (self, other) {
            (Self::Nothing, _) => true,
            (Self::Policy(_), Self::Nothing) => false,
            (Self::Policy(policy), Self::Policy(other)) => policy.subsumes(other, judge),
        }
    }
}
