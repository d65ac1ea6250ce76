//! What each word in the guard column means. Guards only read.

use super::device::Exchange;
use super::interpreter::{Situation, candidates};
use super::message::{Release, Withdrawal};
use super::{Action, Body, Device, Guard, Label, Message, Mistake};
use crate::policy::CommunicationRule;
use crate::semantics::{Context, Epoch, PolicyId, Receipt};
use crate::vocabulary::{DeviceId, ItemId};

impl Guard {
    pub(super) fn holds(self, situation: &Situation<'_>) -> bool {
        let Situation { device, action, cx, .. } = situation;
        let (state, memory, me) = (&device.state, &device.memory, device.id);
        let message = action.message();
        // Found out where a guard asks for it, and not for every guard.
        let policy = || message.and_then(Message::policy);
        let release = || message.and_then(Message::release);
        let item = || action.item();
        match self {
            Self::OwnItem => item() == situation.instance.item,
            Self::InExchange => message.is_some_and(|m| {
                situation.instance.exchange == Some(Exchange { peer: m.receiver, policy: m.policy() })
            }),
            Self::MyRepository => message.is_some_and(|m| {
                let other = if m.sender == me { m.receiver } else { m.sender };
                cx.contacts.repository == Some(other)
            }),
            Self::CurrentPolicy => policy().is_some_and(|p| memory.current.contains(&p)),
            Self::OfferKnown => message.is_some_and(|m| policy().is_some_and(|p| state.knows(m.receiver, p))),
            Self::OfferActive => policy().is_some_and(|p| situation.is_active(p)),
            Self::WithinOwn => policy().is_some_and(|p| situation.is_within_own(p)),
            Self::ItemOwned => item().is_some_and(|i| cx.owner(i) == Some(me)),
            Self::ItemHeld => item().is_some_and(|i| state.value(i).is_some()),
            Self::NotRefused => situation.concerns_nobody_refused(),
            Self::PastWithdrawal => {
                item().is_some_and(|i| memory.tombstones.get(&i).is_none_or(|t| Epoch::of(cx.now) > t.epoch))
            }
            Self::WithinTransferRule => policy().is_some_and(|p| situation.is_within_transfer_rule(p)),
            Self::AddressedToMe => message.is_some_and(|m| m.receiver == me),
            Self::FromOwner => message.is_some_and(|m| item().is_some_and(|i| cx.owner(i) == Some(m.sender))),
            Self::AskedFor => message.is_some_and(|m| policy().is_some_and(|p| memory.asked.contains(&(m.sender, p)))),
            Self::PublishedByMe => policy().is_some_and(|p| memory.published.contains(&p)),
            Self::WithinCurrent => policy().is_some_and(|p| memory.current.iter().any(|own| cx.subsumes(p, *own))),
            Self::AboutItem => policy().is_some_and(|p| item().is_some_and(|i| cx.is_about(p, i))),
            Self::NamesMe => policy().is_some_and(|p| cx.names_entity_of(p, me)),
            Self::NamesSender => message.is_some_and(|m| policy().is_some_and(|p| cx.names_entity_of(p, m.sender))),
            Self::InTime => policy().is_some_and(|p| cx.is_in_time(p)),
            Self::NotWithdrawn => {
                release().is_some_and(|r| memory.tombstones.get(&r.item).is_none_or(|t| r.epoch > t.epoch))
            }
            Self::Fresh => release().is_some_and(|r| r.epoch.is_fresh_at(cx.now)),
            Self::NotFromFuture => release().is_some_and(|r| r.epoch <= Epoch::last_at(cx.now)),
            Self::NotYetHeld => message.is_some_and(|m| {
                let receipt = |r: &Release| Receipt { item: r.item, sender: m.sender, policy: r.policy };
                !release().is_some_and(|r| state.received.contains(&receipt(r)))
            }),
            Self::DeadlineReached => {
                item().is_some_and(|i| state.receipts_of(i).any(|receipt| !cx.is_in_time(receipt.policy)))
            }
            Self::NoticeDue => message.is_some_and(|m| {
                let Body::Withdraw { item, withdrawal } = m.body else { return false };
                memory.notices.get(&(item, m.receiver)) == Some(&withdrawal)
            }),
            Self::Outdated => item().is_some_and(|i| {
                let over = |withdrawal: &Withdrawal| withdrawal.is_over_at(cx.now);
                memory.tombstones.get(&i).is_some_and(over)
                    || memory.recipients_of(i).any(|(_, recipient)| over(&recipient))
            }),
            Self::Unless(label) => situation.rival(label).is_none(),
            Self::Mistaken(mistake) => policy().is_some_and(|p| situation.is_mistakenly_allowed(mistake, p)),
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

    /// The edge from here with this label that can be taken: by this message, or by any that might be sent.
    pub(super) fn rival(&self, label: Label) -> Option<usize> {
        let here = Some(self.instance.location);
        self.graph.edges.iter().position(|edge| {
            if edge.from != here || edge.label != label {
                return false;
            }
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
