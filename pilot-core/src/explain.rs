//! Why p ⋢ q, clause by clause, and the smallest change of p that would make it ⊑ q.
//!
//! The clauses of Defs. 5–7 are independent of each other, so repairing each failing one, and nothing else, is an
//! irredundant edit. A transfer rule that no rule of q covers is repaired with one change if one is enough, and
//! dropped otherwise.

use alloc::vec::Vec;

use crate::condition::Condition;
use crate::policy::{Choice, CommunicationRule, Policy, PolicyProblem, UsageRule};
use crate::subsumption::Judge;
use crate::value::Time;
use crate::vocabulary::{DataType, Entity, Purpose, Vocabulary};

/// Why p ⋢ q.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// Every clause that fails; never empty.
    pub failures: Vec<Failure>,
    /// What would repair all of them: p with these changes ⊑ q, and with fewer of them it is not.
    pub changes: Vec<Change>,
}

/// A clause of Def. 7 that fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// q is ⊥.
    NothingAccepted,
    /// (i): t₁ ≰ t₂.
    Datatype {
        /// t₁.
        offered: DataType,
        /// t₂.
        accepted: DataType,
    },
    /// (ii), about the collection rule.
    Collection(RuleFailure),
    /// (iii): a transfer rule that no rule of q covers.
    Transfer {
        /// Its place in p.TR.
        rule: usize,
        /// The rule of q.TR that comes nearest, and what it objects to; none if q has no transfer rule.
        nearest: Option<(usize, Vec<RuleFailure>)>,
    },
}

/// A clause of Def. 5 or 6, or S10's, that fails between two rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleFailure {
    /// e₁ ≰ e₂.
    Entity {
        /// e₁.
        offered: Entity,
        /// e₂.
        accepted: Entity,
    },
    /// A purpose that no accepted one covers.
    Purpose(Purpose),
    /// rt₁ > rt₂.
    Retention {
        /// rt₁.
        offered: Time,
        /// rt₂.
        accepted: Time,
    },
    /// c₁ does not entail c₂ (transfer rules only).
    Condition {
        /// c₁.
        offered: Condition,
        /// c₂.
        accepted: Condition,
    },
}

/// One change of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Offer ⊥ instead.
    OfferNothing,
    /// Ask for this type of data.
    Datatype(DataType),
    /// Change the collection rule.
    Collection(RuleChange),
    /// Change the transfer rule at this place.
    Transfer(usize, RuleChange),
    /// Drop the transfer rule at this place.
    DropTransfer(usize),
}

/// One change of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleChange {
    /// Name this entity.
    Entity(Entity),
    /// Drop this purpose.
    DropPurpose(Purpose),
    /// Erase by this time.
    Retention(Time),
    /// Transfer only under this condition.
    Condition(Condition),
}

/// Why p ⋢ q, or `None` if p ⊑ q.
pub fn explain(p: &Choice, q: &Choice, judge: &Judge<'_>) -> Option<Explanation> {
    let (Choice::Policy(p), Choice::Policy(q)) = (p, q) else {
        let explanation =
            || Explanation { failures: [Failure::NothingAccepted].into(), changes: [Change::OfferNothing].into() };
        return (!p.subsumes(q, judge)).then(explanation);
    };
    let (mut failures, mut changes) = (Vec::new(), Vec::new());
    if !judge.vocabulary.datatypes.le(p.datatype(), q.datatype()) {
        failures.push(Failure::Datatype { offered: p.datatype(), accepted: q.datatype() });
        changes.push(Change::Datatype(q.datatype()));
    }
    each_rule_failure(p.collection(), q.collection(), judge, |failure| {
        changes.push(Change::Collection(failure.remedy()));
        failures.push(Failure::Collection(failure));
    });
    for (at, rule) in p.transfers().iter().enumerate() {
        if q.transfers().iter().any(|accepted| rule.subsumes_as_transfer(accepted, judge)) {
            continue;
        }
        let nearest = nearest_rule(rule, q, judge);
        changes.push(match nearest.as_ref().map(|(_, failures)| failures.as_slice()) {
            Some([one]) => Change::Transfer(at, one.remedy()),
            _ => Change::DropTransfer(at),
        });
        failures.push(Failure::Transfer { rule: at, nearest });
    }
    (!failures.is_empty()).then_some(Explanation { failures, changes })
}

impl Explanation {
    /// p with the changes made.
    pub fn apply(&self, p: &Choice, vocabulary: &Vocabulary) -> Result<Choice, PolicyProblem> {
        apply(&self.changes, p, vocabulary)
    }
}

/// p with these changes made; transfer rules that become the same are one.
pub fn apply(changes: &[Change], p: &Choice, vocabulary: &Vocabulary) -> Result<Choice, PolicyProblem> {
    let Choice::Policy(policy) = p else { return Ok(Choice::Nothing) };
    let mut datatype = policy.datatype();
    let mut collection = policy.collection().clone();
    let mut transfers: Vec<Option<CommunicationRule>> = policy.transfers().iter().cloned().map(Some).collect();
    for change in changes {
        match change {
            Change::OfferNothing => return Ok(Choice::Nothing),
            Change::Datatype(accepted) => datatype = *accepted,
            Change::Collection(change) => collection = change.apply(collection)?,
            Change::Transfer(at, change) => {
                if let Some(Some(rule)) = transfers.get_mut(*at) {
                    *rule = change.apply(rule.clone())?;
                }
            }
            Change::DropTransfer(at) => {
                if let Some(rule) = transfers.get_mut(*at) {
                    *rule = None;
                }
            }
        }
    }
    let mut kept: Vec<CommunicationRule> = Vec::new();
    for rule in transfers.into_iter().flatten() {
        if !kept.contains(&rule) {
            kept.push(rule);
        }
    }
    Policy::new(datatype, collection, kept, vocabulary).map(Choice::Policy)
}

impl RuleChange {
    fn apply(&self, rule: CommunicationRule) -> Result<CommunicationRule, PolicyProblem> {
        let CommunicationRule { mut condition, mut entity, usage } = rule;
        let (mut purposes, mut retention) = (usage.purposes().to_vec(), usage.retention());
        match self {
            Self::Entity(accepted) => entity = *accepted,
            Self::DropPurpose(dropped) => purposes.retain(|purpose| purpose != dropped),
            Self::Retention(accepted) => retention = *accepted,
            Self::Condition(accepted) => condition = accepted.clone(),
        }
        Ok(CommunicationRule { condition, entity, usage: UsageRule::new(purposes, retention)? })
    }
}

impl RuleFailure {
    fn remedy(&self) -> RuleChange {
        match self {
            Self::Entity { accepted, .. } => RuleChange::Entity(*accepted),
            Self::Purpose(purpose) => RuleChange::DropPurpose(*purpose),
            Self::Retention { accepted, .. } => RuleChange::Retention(*accepted),
            Self::Condition { accepted, .. } => RuleChange::Condition(accepted.clone()),
        }
    }
}

/// The rule of q.TR with the fewest objections to `rule`, the first of equals.
fn nearest_rule(rule: &CommunicationRule, q: &Policy, judge: &Judge<'_>) -> Option<(usize, Vec<RuleFailure>)> {
    let objections = |accepted: &CommunicationRule| {
        let mut failures = Vec::new();
        each_rule_failure(rule, accepted, judge, |failure| failures.push(failure));
        if !judge.entailments().entails(&rule.condition, &accepted.condition) {
            let (offered, accepted) = (rule.condition.clone(), accepted.condition.clone());
            failures.push(RuleFailure::Condition { offered, accepted });
        }
        failures
    };
    q.transfers().iter().map(objections).enumerate().min_by_key(|(_, failures)| failures.len())
}

/// The clauses of Defs. 5 and 6 that fail.
fn each_rule_failure(
    offered: &CommunicationRule,
    accepted: &CommunicationRule,
    judge: &Judge<'_>,
    mut found: impl FnMut(RuleFailure),
) {
    let vocabulary = judge.vocabulary;
    if !vocabulary.entities.le(offered.entity, accepted.entity) {
        found(RuleFailure::Entity { offered: offered.entity, accepted: accepted.entity });
    }
    for purpose in offered.usage.purposes() {
        if !accepted.usage.purposes().iter().any(|allowed| vocabulary.purposes.le(*purpose, *allowed)) {
            found(RuleFailure::Purpose(*purpose));
        }
    }
    let (offered, accepted) = (offered.usage.retention(), accepted.usage.retention());
    if offered > accepted {
        found(RuleFailure::Retention { offered, accepted });
    }
}
