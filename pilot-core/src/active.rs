//! Defs. 9 and 10: whether a policy, or a transfer rule of one, is active for a communication.

use crate::evaluate::Values;
use crate::policy::{CommunicationRule, Policy};
use crate::value::Time;
use crate::vocabulary::{DataType, Entity, Vocabulary};

/// The part of `send(sndr, rcv, i)` and of the state that activity depends on.
#[derive(Debug, Clone, Copy)]
pub struct Communication<'s> {
    /// type(i).
    pub datatype: DataType,
    /// entity(rcv).
    pub receiver: Entity,
    /// time(st, e).
    pub time: Time,
    /// ν_sndr: conditions are the sender's to evaluate.
    pub values: &'s Values,
}

/// Which conjunct of Def. 9 or 10 fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Inactive {
    /// type(i) ≰ t.
    #[error("the policy is not about this type of data")]
    Datatype,
    /// eval = false.
    #[error("its condition is false")]
    Condition,
    /// eval = ⊥, which counts as not active (S18).
    #[error("its condition is undefined")]
    Undefined,
    /// time ≥ rt.
    #[error("its deadline has passed")]
    Deadline,
    /// entity(rcv) ≰ e.
    #[error("the receiver is not the entity it names")]
    Entity,
}

/// Def. 9: activePolicy(p, send(sndr, rcv, i), st).
pub fn active_policy(
    policy: &Policy,
    communication: &Communication<'_>,
    vocabulary: &Vocabulary,
) -> Result<(), Inactive> {
    active_policy_if(policy.collection().condition.evaluate(communication.values), policy, communication, vocabulary)
}

/// Def. 9, where somebody else has evaluated the condition.
pub fn active_policy_if(
    condition: Option<bool>,
    policy: &Policy,
    communication: &Communication<'_>,
    vocabulary: &Vocabulary,
) -> Result<(), Inactive> {
    if !vocabulary.datatypes.le(communication.datatype, policy.datatype()) {
        return Err(Inactive::Datatype);
    }
    active_rule(condition, policy.collection(), communication, vocabulary)
}

/// Def. 10: activeTransfer(tr, p, transfer(sndr, rcv, i), st). The sender's own deadline counts as well.
pub fn active_transfer(
    rule: &CommunicationRule,
    policy: &Policy,
    communication: &Communication<'_>,
    vocabulary: &Vocabulary,
) -> Result<(), Inactive> {
    active_transfer_if(rule.condition.evaluate(communication.values), rule, policy, communication, vocabulary)
}

/// Def. 10, where somebody else has evaluated the condition.
pub fn active_transfer_if(
    condition: Option<bool>,
    rule: &CommunicationRule,
    policy: &Policy,
    communication: &Communication<'_>,
    vocabulary: &Vocabulary,
) -> Result<(), Inactive> {
    if communication.time >= policy.collection().usage.retention() {
        return Err(Inactive::Deadline);
    }
    active_rule(condition, rule, communication, vocabulary)
}

/// What both definitions ask of a communication rule.
fn active_rule(
    condition: Option<bool>,
    rule: &CommunicationRule,
    communication: &Communication<'_>,
    vocabulary: &Vocabulary,
) -> Result<(), Inactive> {
    match condition {
        None => return Err(Inactive::Undefined),
        Some(false) => return Err(Inactive::Condition),
        Some(true) => {}
    }
    if communication.time >= rule.usage.retention() {
        return Err(Inactive::Deadline);
    }
    if !vocabulary.entities.le(communication.receiver, rule.entity) {
        return Err(Inactive::Entity);
    }
    Ok(())
}
