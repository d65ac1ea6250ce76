//! For each controller known: yes or no, and why, in English.
//!
//! [`is_accepted`] asks the graph itself: whether broadcast↑ could be taken. [`why`] looks at the same guards one after the
//! other, to say which of them it is.

use pilot_core::active::Inactive;
use pilot_core::condition::Condition;
use pilot_core::english::{self, Moment, refusal};
use pilot_core::explain::{Explanation, explain};
use pilot_core::graph::message::Release;
use pilot_core::graph::{Action, Body, Device, Instance, Location, Message, enabled};
use pilot_core::graphs::INDIRECT_SUBJECT;
use pilot_core::policy::{Choice, Policy};
use pilot_core::semantics::{Context, Epoch, PolicyId};
use pilot_core::syntax::SourcePolicy;
use pilot_core::vocabulary::{DeviceId, Entity, ItemId};

/// What is decided about: her device, her item, and a controller's policy.
#[derive(Debug, Clone, Copy)]
pub struct Question<'q> {
    /// Her device.
    pub device: &'q Device,
    /// Her item.
    pub item: ItemId,
    /// The controller.
    pub controller: DeviceId,
    /// Its policy.
    pub policy: PolicyId,
    /// Everything else that decides.
    pub context: Context<'q>,
}

/// Whether her graph can broadcast for the controller, at the location where broadcasts are made. Where the instance is at
/// the moment does not matter: while it asks for policies, it goes on saying what it has said.
pub fn is_accepted(question: &Question<'_>) -> bool {
    let Question { device, item, controller, policy, context } = question;
    let instance = Instance { location: Location::S3, item: Some(*item), exchange: None };
    let body = Body::Broadcast(Release::new(*item, *policy));
    let action = Action::Send(Message { sender: device.id, receiver: *controller, body });
    enabled(&INDIRECT_SUBJECT, &instance, device, &action, context).next().is_some()
}

/// The decision in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Whether she accepts the policy.
    pub accepted: bool,
    /// Why, or why not.
    pub why: String,
}

/// The decision about a controller's policy, under her own.
pub fn why(question: &Question<'_>, own: &[SourcePolicy]) -> Decision {
    let no = |why: String| Decision { accepted: false, why };
    let Question { device, item, controller, policy, context } = question;
    let vocabulary = context.judge.vocabulary;
    let (Some(offer), Some(entity)) = (context.policy(*policy), context.directory.entity(*controller)) else {
        return no("nothing is known of it any more".to_owned());
    };
    if let Some(why) = refused(question, offer, entity) {
        return no(why);
    }
    let choice = Choice::Policy(offer.clone());
    let mut covering: Vec<&SourcePolicy> = Vec::new();
    let mut nearest: Option<(&str, Explanation)> = None;
    for policy in own {
        match explain(&choice, &policy.choice, context.judge) {
            None => covering.push(policy),
            Some(why) if nearest.as_ref().is_none_or(|(_, other)| why.changes.len() < other.changes.len()) => {
                nearest = Some((&policy.name, why));
            }
            Some(_) => {}
        }
    }
    if covering.is_empty() {
        let explained = nearest.map(|(under, why)| refusal::explanation(&why, &choice, under, vocabulary));
        return no(explained.unwrap_or_else(|| "you accept nothing".to_owned()));
    }
    let active = |policy: &Policy| {
        let receiver = context.directory.entity(*controller).ok_or(Inactive::Entity)?;
        let datatype = context.directory.item(*item).ok_or(Inactive::Datatype)?.datatype;
        let values = &device.state.values;
        let communication = pilot_core::active::Communication { datatype, receiver, time: context.now, values };
        pilot_core::active::active_policy(policy, &communication, vocabulary)
    };
    if let Err(reason) = active(offer) {
        let reason = refusal::inactive(reason, offer.collection(), vocabulary);
        return no(format!("you would accept it, but at the moment it asks for nothing: {reason}"));
    }
    let mut hindrance = None;
    for policy in covering {
        let Some(own) = policy.choice.policy() else { continue };
        match active(own) {
            Ok(()) => return yes(policy, offer, own, question),
            Err(reason) => {
                let reason = refusal::inactive(reason, own.collection(), vocabulary);
                hindrance = Some(format!("not at the moment under your `{}`: {reason}", policy.name));
            }
        }
    }
    no(hindrance.unwrap_or_else(|| "you accept nothing".to_owned()))
}

/// Accepted, with what that depends on.
fn yes(under: &SourcePolicy, offer: &Policy, own: &Policy, question: &Question<'_>) -> Decision {
    let vocabulary = question.context.judge.vocabulary;
    let mut conditions: Vec<&Condition> = Vec::new();
    for condition in [offer, own].map(|policy| &policy.collection().condition) {
        if !condition.is_always() && !conditions.contains(&condition) {
            conditions.push(condition);
        }
    }
    let conditions: Vec<String> = conditions.into_iter().map(|it| english::condition(it, vocabulary)).collect();
    let mut why = format!("accepted under your `{}`", under.name);
    if !conditions.is_empty() {
        why.push_str(&format!(", while {}", conditions.join(" and ")));
    }
    why.push_str(&format!(", until {}", Moment(offer.collection().usage.retention())));
    let tombstone = question.device.memory.tombstones.get(&question.item);
    if tombstone.is_some_and(|withdrawn| Epoch::of(question.context.now) <= withdrawn.epoch) {
        why.push_str("; nothing is sent for a minute, because you have just withdrawn");
    }
    Decision { accepted: true, why }
}

/// That she has withdrawn from the controller, or from somebody to whom it would hand her data.
fn refused(question: &Question<'_>, offer: &Policy, entity: Entity) -> Option<String> {
    let entities = &question.context.judge.vocabulary.entities;
    let name = |entity| entities.name(entity);
    question.device.memory.refused.iter().find_map(|refused| {
        if entities.le(entity, *refused) {
            return Some(format!("you have withdrawn from `{}`", name(*refused)));
        }
        let related = |to: Entity| entities.le(to, *refused) || entities.le(*refused, to);
        let rule = offer.transfers().iter().find(|rule| related(rule.entity))?;
        let (to, refused) = (name(rule.entity), name(*refused));
        Some(format!("it may transfer to `{to}`, and you have withdrawn from `{refused}`"))
    })
}
