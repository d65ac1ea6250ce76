//! What each word in the effect column does. Effects cannot fail: every guard has been checked before.
//!
//! They are written on the device's variables, not with the rules of [`crate::semantics::rules`]: that both arrive at
//! the same state is what the model checker and the auditor check.

use alloc::borrow::Cow;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::device::Exchange;
use super::guards::transferable_under;
use super::interpreter::Step;
use super::message::Withdrawal;
use super::{Action, Body, Device, Effect, Instance};
use crate::policy::Policy;
use crate::semantics::{Context, Delivery, Epoch, Event, Handover, PolicyId, Receipt};
use crate::value::Time;
use crate::vocabulary::{DeviceId, ItemId, Variable};

/// The places an effect may change.
pub(super) struct Change<'s> {
    pub(super) instance: &'s mut Instance,
    pub(super) device: &'s mut Device,
    pub(super) step: &'s mut Step,
    pub(super) action: &'s Action,
    pub(super) cx: &'s Context<'s>,
}

impl Change<'_> {
    pub(super) fn make(&mut self, effect: Effect) {
        match effect {
            Effect::AdoptOwn => self.adopt_own(),
            Effect::AdoptItem => {
                if let Action::Init { item, .. } | Action::Restore { item, .. } = self.action {
                    self.instance.item = *item;
                }
            }
            Effect::RestoreOffers => {
                if let Action::Restore { offers, .. } = self.action {
                    let others = offers.iter().filter(|(of, _)| *of != self.device.id).copied();
                    others.collect::<Vec<_>>().into_iter().for_each(|(of, policy)| self.store_offer(of, policy));
                }
            }
            Effect::ReplaceOwn => self.replace_own(),
            Effect::ReplaceOffers => self.replace_offers(),
            Effect::Keep => self.keep(),
            Effect::Erase => self.with_item(Self::erase),
            Effect::LeaveTombstone => self.leave_tombstone(),
            Effect::OweNotices => self.owe_notices(),
            Effect::ForgetOutdated => self.with_item(Self::forget_outdated),
            Effect::CarryItem => self.carry_item(),
            Effect::CarryWithdrawal => self.carry_withdrawal(),
            Effect::CarryCatalogue => {
                let listed = &self.device.memory.catalogue;
                if let Some(Body::DownloadPolicies { offers }) = self.step.message.as_mut().map(|m| &mut m.body) {
                    *offers = listed.iter().map(|(device, policy)| (*device, *policy)).collect();
                }
            }
            Effect::EndExchange => self.instance.exchange = None,
            Effect::Admit => {
                if let Action::Admit { entity } = self.action {
                    self.device.memory.refused.remove(entity);
                }
            }
            Effect::StoreOffer
            | Effect::BeginExchange
            | Effect::Publish
            | Effect::RememberAsking
            | Effect::Unpublish
            | Effect::List
            | Effect::Unlist
            | Effect::RememberRecipient
            | Effect::SettleNotice
            | Effect::Refuse => self.take_over(effect),
        }
    }

    /// Effects that only move what the message says into a variable.
    fn take_over(&mut self, effect: Effect) {
        let Some(message) = self.action.message() else { return };
        let (sender, receiver) = (message.sender, message.receiver);
        let memory = &mut self.device.memory;
        match (effect, message.policy(), message.item()) {
            (Effect::StoreOffer, Some(policy), _) => self.store_offer(sender, policy),
            (Effect::BeginExchange, policy, _) => self.instance.exchange = Some(Exchange { peer: sender, policy }),
            (Effect::Publish, Some(policy), _) => {
                memory.published.insert(policy);
            }
            (Effect::Unpublish, Some(policy), _) => self.unpublish(policy),
            (Effect::List, Some(policy), _) => {
                memory.catalogue.insert(sender, policy);
            }
            (Effect::Unlist, Some(policy), _) => {
                memory.catalogue.retain(|of, listed| (*of, *listed) != (sender, policy))
            }
            (Effect::RememberRecipient, Some(policy), Some(item)) => {
                let until = self.cx.policy(policy).map(Policy::last_deadline).unwrap_or_default();
                let epoch = Epoch::of(self.cx.now);
                let known = memory.recipients.entry((item, receiver)).or_default();
                *known = known.and(Withdrawal { epoch, until });
            }
            (Effect::SettleNotice, _, Some(item)) => {
                memory.notices.remove(&(item, receiver));
            }
            (Effect::RememberAsking, Some(policy), _) => {
                memory.asked.insert((receiver, policy));
            }
            (Effect::Refuse, ..) => memory.refused.extend(self.cx.directory.entity(receiver)),
            _ => {}
        }
    }

    fn carry_item(&mut self) {
        let Some(message) = &mut self.step.message else { return };
        let (Body::Send(release) | Body::Broadcast(release)) = &mut message.body else { return };
        release.value = self.device.state.value(release.item).cloned();
        release.epoch = if self.cx.owner(release.item) == Some(self.device.id) {
            Epoch::of(self.cx.now)
        } else {
            // The owner's last release among those whose terms allow this transfer.
            let allowing = transferable_under(self.device, release.item, release.policy, message.receiver, self.cx);
            let epochs = allowing.filter_map(|receipt| self.device.memory.released.get(receipt));
            epochs.max().copied().unwrap_or_default()
        };
    }

    fn own_policies(&self) -> BTreeSet<PolicyId> {
        self.device.state.policies_of(self.device.id).collect()
    }

    fn adopt_own(&mut self) {
        let (Action::Init { own, .. } | Action::Restore { own, .. }) = self.action else { return };
        let known = self.own_policies();
        let new: BTreeSet<PolicyId> = own.iter().copied().filter(|policy| !known.contains(policy)).collect();
        self.device.memory.current.extend(own);
        self.set_own(new, BTreeSet::new());
    }

    fn replace_own(&mut self) {
        let Action::ChangeOwn { own } = self.action else { return };
        let (known, wanted) = (self.own_policies(), own.iter().copied().collect::<BTreeSet<_>>());
        self.device.memory.current.clone_from(&wanted);
        let unpublished = &(&known - &wanted) - &self.device.memory.published;
        self.set_own(&wanted - &known, unpublished);
    }

    fn set_own(&mut self, added: BTreeSet<PolicyId>, removed: BTreeSet<PolicyId>) {
        let device = self.device.id;
        let policies = &mut self.device.state.policies;
        for policy in &removed {
            policies.remove(&(device, *policy));
        }
        policies.extend(added.iter().map(|policy| (device, *policy)));
        if !added.is_empty() || !removed.is_empty() {
            let (added, removed) = (added.into_iter().collect(), removed.into_iter().collect());
            self.step.events.push(Event::Own { device, added, removed });
        }
    }

    /// R2 for each comparable policy of the same sender, which gives way (S6); R1 if there is none. Others stay (S13).
    fn store_offer(&mut self, sender: DeviceId, policy: PolicyId) {
        let (state, cx, receiver) = (&mut self.device.state, self.cx, self.device.id);
        let comparable: Vec<PolicyId> =
            state.policies_of(sender).filter(|known| cx.is_comparable(policy, *known)).collect();
        let mut request = |replaced| self.step.events.push(Event::Request { sender, receiver, policy, replaced });
        if comparable.is_empty() {
            request(None);
        }
        for known in comparable {
            state.policies.remove(&(sender, known));
            request(Some(known));
        }
        state.policies.insert((sender, policy));
    }

    /// Retracts for what is no longer listed, then requests for what is new, in the order of Π (S19).
    fn replace_offers(&mut self) {
        let Some(Body::DownloadPolicies { offers }) = self.action.message().map(|message| &message.body) else {
            return;
        };
        let me = self.device.id;
        let mut listed = Cow::Borrowed(offers.as_slice());
        // Π comes sorted; whoever sends it otherwise changes nothing.
        if !listed.is_sorted_by(|one, next| one < next) {
            listed.to_mut().sort_unstable();
            listed.to_mut().dedup();
        }
        let (mut gone, mut is_news) = (Vec::new(), false);
        let mut others = listed.iter().filter(|(of, _)| *of != me).peekable();
        for known in self.device.state.policies.iter().filter(|(of, _)| *of != me) {
            while others.next_if(|offer| *offer < known).is_some() {
                is_news = true;
            }
            if others.next_if_eq(&known).is_none() {
                gone.push(*known);
            }
        }
        is_news |= others.peek().is_some();
        for (controller, policy) in gone {
            self.device.state.policies.remove(&(controller, policy));
            self.step.events.push(Event::Retract { controller, device: me, policy });
        }
        if !is_news {
            return;
        }
        for (of, policy) in listed.iter().filter(|(of, _)| *of != me) {
            if !self.device.state.knows(*of, *policy) {
                self.store_offer(*of, *policy);
            }
        }
    }

    fn unpublish(&mut self, policy: PolicyId) {
        let device = self.device.id;
        self.device.memory.published.remove(&policy);
        self.device.memory.current.remove(&policy);
        self.device.memory.asked.retain(|(_, asked)| *asked != policy);
        self.device.state.policies.remove(&(device, policy));
        self.step.events.push(Event::Retract { controller: device, device, policy });
    }

    fn keep(&mut self) {
        let Some((message, release)) = self.action.message().and_then(|m| Some((m, m.release()?))) else { return };
        let (sender, receiver, item, policy) = (message.sender, self.device.id, release.item, release.policy);
        let receipt = Receipt { item, sender, policy };
        self.device.state.received.insert(receipt);
        match &release.value {
            Some(value) => self.device.state.values.insert(Variable::Item(item), value.clone()),
            None => self.device.state.values.remove(&Variable::Item(item)),
        };
        let released = self.device.memory.released.entry(receipt).or_insert(release.epoch);
        *released = release.epoch.max(*released);
        let handover = Handover { sender, receiver, item, policy };
        let delivery = Delivery { handover, value: release.value.clone() };
        let from_owner = self.cx.owner(item) == Some(sender);
        self.step.events.push(if from_owner { Event::Send(delivery) } else { Event::Transfer(delivery) });
    }

    fn erase(&mut self, item: ItemId) {
        let withdrawn = self.withdrawal().map(|(_, withdrawal)| withdrawal.epoch);
        let state = &mut self.device.state;
        let held: Vec<Receipt> = state.receipts_of(item).copied().collect();
        for receipt in held {
            state.received.remove(&receipt);
            self.device.memory.released.remove(&receipt);
        }
        state.values.remove(&Variable::Item(item));
        self.step.events.push(Event::Erase { controller: self.device.id, item, withdrawn });
    }

    fn leave_tombstone(&mut self) {
        let Some((item, withdrawal)) = self.withdrawal() else { return };
        let known = self.device.memory.tombstones.entry(item).or_default();
        *known = known.and(withdrawal);
    }

    /// Notices get lost, so the owner may repeat hers, and it is passed on again; what comes round from another
    /// controller is passed on only if it is news.
    fn owe_notices(&mut self) {
        let Some((item, withdrawal)) = self.withdrawal() else { return };
        let known = self.device.memory.tombstones.get(&item).copied().unwrap_or_default();
        let from_owner = self.action.message().map(|message| message.sender) == self.cx.owner(item);
        if !from_owner && known == known.and(withdrawal) {
            return;
        }
        let recipients: Vec<DeviceId> = self.device.memory.recipients_of(item).map(|(device, _)| device).collect();
        for recipient in recipients {
            let owed = self.device.memory.notices.entry((item, recipient)).or_default();
            *owed = owed.and(withdrawal);
        }
    }

    /// What the notice says, as it leaves or as it came.
    fn withdrawal(&self) -> Option<(ItemId, Withdrawal)> {
        let Body::Withdraw { item, withdrawal } = self.step.message.as_ref().or(self.action.message())?.body else {
            return None;
        };
        Some((item, withdrawal.counted_at(self.cx.now)))
    }

    /// The subject takes back all she has released so far, from everybody who may get it because of that.
    fn carry_withdrawal(&mut self) {
        let now = Withdrawal { epoch: Epoch::of(self.cx.now), until: Time::default() };
        let Some(Body::Withdraw { item, withdrawal }) = self.step.message.as_mut().map(|m| &mut m.body) else { return };
        let recipients = self.device.memory.recipients_of(*item);
        *withdrawal = recipients.map(|(_, recipient)| recipient).fold(now, Withdrawal::and);
    }

    fn forget_outdated(&mut self, item: ItemId) {
        let now = self.cx.now;
        let memory = &mut self.device.memory;
        if memory.tombstones.get(&item).is_some_and(|withdrawal| withdrawal.is_over_at(now)) {
            memory.tombstones.remove(&item);
        }
        let over = memory.recipients_of(item).filter(|(_, recipient)| recipient.is_over_at(now));
        for (recipient, _) in over.collect::<Vec<_>>() {
            memory.recipients.remove(&(item, recipient));
        }
    }

    fn with_item(&mut self, change: impl FnOnce(&mut Self, ItemId)) {
        if let Some(item) = self.action.item() {
            change(self, item);
        }
    }
}
