//! What each word in the guard column means. Guards only read.

use super::device::Exchange;
use super::interpreter::{Situation, candidates};
use super::message::{Release, Withdrawal};
use super::{Action, Body, Device, Guard, Label, Mistake};
use crate::policy::CommunicationRule;
use crate::semantics::{Context, Epoch, PolicyId, Receipt};
use crate::vocabulary::{DeviceId, ItemId};

impl Guard {
    pub(super) fn holds(self, situation: &Situation<'_>) -> bool {
        let Situation { device, action, cx, .. } = situation;
        let (state, memory, me) = (&device.state, &device.memory, device.id);
        let message = action.message();
        let policy = message.and_then(|message| message.policy());
        let release = message.and_then(|message| message.release());
        let with_policy = |test: &dyn Fn(PolicyId) -> bool| policy.is_some_and(test);
        let with_item = |test: &dyn Fn(ItemId) -> bool| action.item().is_some_and(test);
        match self {
            Self::OwnItem => action.item() == situation.instance.item,
            Self::InExchange => message.is_some_and(|m| {
                situation.instance.exchange == Some(Exchange { peer: m.receiver, policy: m.policy() })
            }),
            Self::MyRepository => message.is_some_and(|m| {
                let other = if m.sender == me { m.receiver } else { m.sender };
                cx.contacts.repository == Some(other)
            }),
            Self::CurrentPolicy => with_policy(&|p| memory.current.contains(&p)),
            Self::OfferKnown => message.is_some_and(|m| with_policy(&|p| state.knows(m.receiver, p))),
            Self::OfferActive => with_policy(&|p| situation.is_active(p)),
            Self::WithinOwn => with_policy(&|p| situation.is_within_own(p)),
            Self::ItemOwned => with_item(&|i| cx.owner(i) == Some(me)),
            Self::ItemHeld => with_item(&|i| state.value(i).is_some()),
            Self::NotRefused => situation.concerns_nobody_refused(),
            Self::PastWithdrawal => {
                with_item(&|i| memory.tombstones.get(&i).is_none_or(|t| Epoch::of(cx.now) > t.epoch))
            }
            Self::WithinTransferRule => with_policy(&|p| situation.is_within_transfer_rule(p)),
            Self::AddressedToMe => message.is_some_and(|m| m.receiver == me),
            Self::FromOwner => message.is_some_and(|m| with_item(&|i| cx.owner(i) == Some(m.sender))),
            Self::AskedFor => message.is_some_and(|m| with_policy(&|p| memory.asked.contains(&(m.sender, p)))),
            Self::PublishedByMe => with_policy(&|p| memory.published.contains(&p)),
            Self::WithinCurrent => with_policy(&|p| memory.current.iter().any(|own| cx.subsumes(p, *own))),
            Self::AboutItem => with_policy(&|p| with_item(&|i| cx.is_about(p, i))),
            Self::NamesMe => with_policy(&|p| cx.names_entity_of(p, me)),
            Self::NamesSender => message.is_some_and(|m| with_policy(&|p| cx.names_entity_of(p, m.sender))),
            Self::InTime => with_policy(&|p| cx.is_in_time(p)),
            Self::NotWithdrawn => {
                release.is_some_and(|r| memory.tombstones.get(&r.item).is_none_or(|t| r.epoch > t.epoch))
            }
            Self::Fresh => release.is_some_and(|r| r.epoch.is_fresh_at(cx.now)),
            Self::NotFromFuture => release.is_some_and(|r| r.epoch <= Epoch::last_at(cx.now)),
            Self::NotYetHeld => message.is_some_and(|m| {
                let held = |r: &Release| {
                    state.receipts_of(r.item).any(|receipt| receipt.sender == m.sender && receipt.policy == r.policy)
                };
                !release.is_some_and(held)
            }),
            Self::DeadlineReached => with_item(&|i| state.receipts_of(i).any(|receipt| !cx.is_in_time(receipt.policy))),
            Self::NoticeDue => message.is_some_and(|m| {
                let Body::Withdraw { item, withdrawal } = m.body else { return false };
                memory.notices.get(&(item, m.receiver)) == Some(&withdrawal)
            }),
            Self::Outdated => with_item(&|i| {
                let over = |withdrawal: &Withdrawal| withdrawal.is_over_at(cx.now);
                memory.tombstones.get(&i).is_some_and(over)
                    || memory.recipients_of(i).any(|(_, recipient)| over(&recipient))
            }),
            Self::Unless(label) => !situation.can_take(label),
            Self::Mistaken(mistake) => with_policy(&|p| situation.is_mistakenly_allowed(mistake, p)),
        }
    }
}

impl Situation<'_> {
    /// Whether a policy is active for handing the message's item to its receiver.
    fn is_active(&self, policy: PolicyId) -> bool {
        let Some(message) = self.action.message() else { return false };
        let active = |item| self.cx.active_policy(policy, &self.device.state.values, message.receiver, item).is_ok();
        message.item().is_some_and(active)
    }

    /// Whether neither the receiver nor anybody to whom the policy allows a transfer belongs to a refused entity.
    fn concerns_nobody_refused(&self) -> bool {
        let (Some(message), refused) = (self.action.message(), &self.device.memory.refused) else { return false };
        let entities = &self.cx.judge.vocabulary.entities;
        let receiver = self.cx.directory.entity(message.receiver);
        let policy = message.policy().and_then(|policy| self.cx.policy(policy));
        let (Some(receiver), Some(policy)) = (receiver, policy) else { return false };
        refused.iter().all(|refused| {
            let related = |entity| entities.le(entity, *refused) || entities.le(*refused, entity);
            !entities.le(receiver, *refused) && !policy.transfers().iter().any(|rule| related(rule.entity))
        })
    }

    /// ∃ own q · q is active for the same communication and p ⊑ q.
    fn is_within_own(&self, p: PolicyId) -> bool {
        let mut own = self.device.state.policies_of(self.device.id);
        own.any(|own| self.is_active(own) && self.cx.subsumes(p, own))
    }

    fn is_mistakenly_allowed(&self, mistake: Mistake, p: PolicyId) -> bool {
        let (device, cx) = (self.device, self.cx);
        let mut own = device.state.policies_of(device.id).filter(|own| self.is_active(*own));
        match mistake {
            Mistake::WithinReceived => {
                let Some(item) = self.action.item() else { return false };
                device.state.receipts_of(item).any(|receipt| cx.subsumes(p, receipt.policy))
            }
            Mistake::CoversOwn => own.any(|own| cx.subsumes(own, p)),
            Mistake::WithinOwnUnconditionally => own.any(|own| {
                let (Some(p), Some(own)) = (cx.policy(p), cx.policy(own)) else { return false };
                let covered = |rule: &CommunicationRule| own.transfers().iter().any(|tr| rule.subsumes(tr, cx.judge));
                cx.judge.vocabulary.datatypes.le(p.datatype(), own.datatype())
                    && p.collection().subsumes(own.collection(), cx.judge)
                    && p.transfers().iter().all(covered)
            }),
        }
    }

    /// ∃ (_, i, p_i) ∈ ρ, tr ∈ p_i.TR · tr is active and p ⊑ (p_i.t, tr, p_i.TR).
    fn is_within_transfer_rule(&self, p: PolicyId) -> bool {
        let Some((message, item)) = self.action.message().and_then(|m| Some((m, m.item()?))) else { return false };
        transferable_under(self.device, item, p, message.receiver, self.cx).next().is_some()
    }

    /// Whether an edge from here with this label can be taken: by this message, or by any that might be sent.
    fn can_take(&self, label: Label) -> bool {
        let here = Some(self.instance.location);
        self.graph.edges.iter().filter(|edge| edge.from == here && edge.label == label).any(|edge| {
            let is_rival = !edge.all_guards().any(|guard| matches!(guard, Guard::Unless(_)));
            let takes = |action: &Action| {
                let situation = Situation { action, ..*self };
                edge.all_guards().all(|guard| guard.holds(&situation))
            };
            is_rival
                && match label {
                    Label::Receive(_) => takes(self.action),
                    _ => candidates(label, self.instance, self.device, self.cx.contacts).iter().any(takes),
                }
        })
    }
}

/// The receipts of an item whose policy allows handing it to a receiver under policy p.
pub(super) fn transferable_under<'d>(
    device: &'d Device,
    item: ItemId,
    p: PolicyId,
    receiver: DeviceId,
    cx: &'d Context<'d>,
) -> impl Iterator<Item = &'d Receipt> {
    let values = &device.state.values;
    device.state.receipts_of(item).filter(move |receipt| {
        let Some(held) = cx.policy(receipt.policy) else { return false };
        held.transfers().iter().any(|rule| {
            cx.active_transfer(rule, held, values, receiver, item).is_ok()
                && cx.subsumes_parts(p, held.with_collection(rule))
        })
    })
}
