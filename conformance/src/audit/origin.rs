//! Where a message came from, as the post says: both of its ends are compared, and what was vouched for when it left is
//! believed. If the other end is not here, what should have come with it is presumed, and said to be unjudged.

use std::collections::BTreeSet;

use pilot_core::evidence::trace::Action as SaidAction;
use pilot_core::evidence::trace::action::{Body as Said, Cause, Message as SaidMessage, Offer};
use pilot_core::graph::message::Withdrawal;
use pilot_core::graph::{Action, Body, Label, Message, MessageKind};
use pilot_core::semantics::Claim;
use pilot_core::value::Time;
use pilot_core::vocabulary::{DeviceId, ItemId};

use super::consents::Proof;
use super::court::{Court, Place};
use super::mail::{Letter, Part, Vouch, Whom};
use super::note::{ENDS, part};
use super::post::{Mark, Origin, Voucher};
use super::replay::{Replay, STAND_IN};
use super::report::{Class, rules};
use super::runs::presumed;
use super::trial::handover;
use super::words;
use crate::refine::Evidence;

/// A record names signatures only.
const SIGNED: &str = "the consent is signed";
/// S17.
const VOUCHED: &str = "R1, R2: (sndr, p) ∈ π_sndr";

impl Court<'_> {
    /// What came with a message, as far as both ends of it are known; otherwise what should have.
    pub(super) fn came_with(&mut self, place: Place, said: &SaidAction, action: &Action, mark: &Mark) -> Evidence {
        let mut evidence = Evidence { value: Some(STAND_IN), ..Evidence::default() };
        let (said, cause, message) = match (said, action) {
            (SaidAction::Restore { offers, .. }, _) => {
                evidence.listed = self.vouched_for(place, offers, &mark.vouchers);
                return evidence;
            }
            (SaidAction::Receive(said, cause), Action::Receive(message)) => (said, cause, message),
            _ => return evidence,
        };
        self.see_origin(place, (said, cause), action, message, &mark.origin);
        if let Said::DownloadPolicies { added, .. } = &said.body {
            evidence.listed = self.vouched_for(place, added, &mark.vouchers);
        }
        if let Body::Request { policy } = message.body {
            evidence.claim = Some(Claim::Request { sender: message.sender, policy });
        }
        // The trace was held back until this is known, so nobody waits here.
        let vouched = match &mark.origin {
            Origin::Matched(sent) => Some(sent.vouched()),
            _ => None,
        };
        if let Body::Withdraw { withdrawal, .. } = message.body {
            let taken_back = if let Some(Vouch::Notice(epoch)) = vouched { epoch } else { withdrawal.epoch };
            evidence.withdrawn = Some(taken_back);
        }
        if let Some(handover) = handover(message) {
            let is_owner = self.world.directory.item(handover.item).is_some_and(|item| item.owner == message.sender);
            evidence.claim = Some(if is_owner { Claim::Send(handover) } else { Claim::Transfer(handover) });
            let provenance = if let Some(Vouch::Item(provenance)) = vouched { Some(provenance) } else { None };
            let receipt = handover.receipt();
            let epoch = message.release().map(|release| release.epoch).unwrap_or_default();
            evidence.provenance = Some(provenance.unwrap_or_else(|| presumed(&receipt, epoch)));
            if let Some(replay) = self.replays.get_mut(place.trace) {
                // Whoever receives it does not answer for a sender who did wrong, or cannot be judged.
                match provenance {
                    Some(_) => replay.presumed.remove(&receipt),
                    None => replay.presumed.insert(receipt),
                };
            }
            let proof = self.proof(place, said, cause, message.receiver);
            if is_owner {
                self.weigh(place, vouched.is_some(), proof);
            }
        }
        evidence
    }

    /// Both ends of a message are compared, as far as the other one is known.
    fn see_origin(
        &mut self,
        place: Place,
        (said, cause): (&SaidMessage, &Cause),
        action: &Action,
        message: &Message,
        origin: &Origin,
    ) {
        match origin {
            Origin::Nothing => {}
            Origin::Matched(sent) => {
                self.figures.matched += 1;
                self.compare_ends(place, (said, cause), message, sent);
            }
            Origin::Uploaded(sent) => {
                self.figures.matched += 1;
                if let Some(sent) = sent {
                    self.anchor(place, cause, sent);
                }
            }
            Origin::Missing => self.not_sent(place, action),
            Origin::Unjudged(premise, why) => self.unjudged_at(place.trace, premise, why),
        }
    }

    /// What the signature proves that a record names. One that is of something else is a finding.
    fn proof(&mut self, place: Place, said: &SaidMessage, cause: &Cause, receiver: DeviceId) -> Option<Proof> {
        let (mark, Said::Broadcast(release)) = (cause.consent.as_ref()?, &said.body) else { return None };
        let proof = self.world.consents().proof(mark, release, self.world.tags(receiver));
        if proof == Proof::Wrong {
            let name = self.world.name(receiver);
            let text = format!("{name} at {} kept an item with a signature that is not of this consent", place.time);
            let premise = "the signature is of this item, controller, policy and epoch".to_owned();
            self.found(Class::Violation, place, rules::CONSENT, premise, text, Some(release.policy));
        }
        Some(proof)
    }

    /// How well a consent is known.
    fn weigh(&mut self, place: Place, is_matched: bool, proof: Option<Proof>) {
        match (is_matched, proof) {
            (true, _) => self.evidence.witnessed += 1,
            (false, Some(Proof::Holds)) => self.evidence.signed += 1,
            (false, proof) => {
                self.evidence.attested += 1;
                if proof == Some(Proof::NotShown) {
                    self.unjudged_at(
                        place.trace,
                        SIGNED,
                        "the controller has not shown the signature, which may have been erased with its item, or its audit key",
                    );
                }
            }
        }
    }

    /// Somebody received what nobody sent.
    #[cold]
    fn not_sent(&mut self, place: Place, action: &Action) {
        let Some(replay) = self.replays.get(place.trace) else { return };
        let sender = action.message().map_or("nobody", |message| self.world.name(message.sender));
        let deed = words::deed(action, replay, &self.world, place.time);
        let because = match action.label() {
            Label::Receive(MessageKind::Broadcast | MessageKind::Send) => {
                format!("which {sender} had not released to it so")
            }
            _ => format!("which {sender} had not sent"),
        };
        let policy = action.message().and_then(Message::policy).and_then(|id| self.world.policies.digest(id));
        self.found(Class::Violation, place, rules::MESSAGE, ENDS.into(), format!("{deed}, {because}"), policy);
    }

    /// What arrived is what was sent.
    fn compare_ends(&mut self, place: Place, (said, cause): (&SaidMessage, &Cause), message: &Message, sent: &Letter) {
        self.anchor(place, cause, sent);
        let part = match (part(&said.body), message.item()) {
            (Some(Part::TakenBack(arrived)), Some(item)) => {
                Some(Part::TakenBack(self.as_sent(place, arrived, item, sent)))
            }
            (part, _) => part,
        };
        // Which item it is can be told of those that are opened, as far as there are audit keys.
        let opening = said.pseudonym().and_then(|pseudonym| self.world.opening(pseudonym)).map(|(number, _)| number);
        let may_be_item = opening.is_none() || sent.opening.is_none() || opening == sent.opening;
        let arrived = (message.kind(), message.policy(), part);
        // Subjects are anonymous to repositories, and items have their owners' names only where they are opened.
        let may_be = |one: DeviceId, other: Whom| {
            let is_same = Whom::Known(one) == other || other == Whom::Anonymous;
            is_same || !self.world.is_named(one)
        };
        if may_be_item
            && arrived == (sent.kind, sent.policy, sent.part)
            && may_be(message.sender, Whom::Known(sent.sender))
            && may_be(message.receiver, sent.receiver)
        {
            return;
        }
        let Some(replay) = self.replays.get(place.trace) else { return };
        let name = self.world.name(sent.sender);
        let text = format!("{} at {} took a message of {name} for another than was sent", replay.name, place.time);
        self.found(Class::Violation, place, rules::MESSAGE, "what arrives is what was sent".into(), text, None);
    }

    /// A withdrawal as it left. Who holds nothing of an item need not believe until when it matters, and says so by no time.
    fn as_sent(&self, place: Place, arrived: Withdrawal, item: ItemId, sent: &Letter) -> Withdrawal {
        let holds = |replay: &Replay| replay.device.state.receipts_of(item).next().is_some();
        let is_held = self.replays.get(place.trace).is_some_and(holds);
        match sent.part {
            Some(Part::TakenBack(sent)) if arrived.until == Time::default() && !is_held => {
                Withdrawal { until: sent.until, ..arrived }
            }
            _ => arrived,
        }
    }

    /// Whoever received a message has recorded where the sender's trace stood.
    fn anchor(&mut self, place: Place, cause: &Cause, sent: &Letter) {
        if cause.head.is_none_or(|head| head == sent.hash) {
            return;
        }
        let Some(replay) = self.replays.get(place.trace) else { return };
        let name = self.world.name(sent.sender);
        let text = format!("{} has seen another history of {name} than {name}'s trace tells", replay.name);
        let premise = "the head that came with a message is that of the sender's record".to_owned();
        self.found(Class::Integrity, place, rules::ANCHOR, premise, text, None);
    }

    /// The offers for which their controllers have vouched, as far as their traces are here.
    fn vouched_for(&mut self, place: Place, offers: &BTreeSet<Offer>, vouchers: &[Voucher]) -> Vec<Claim> {
        let mut claims = Vec::with_capacity(offers.len());
        for (number, Offer { device, policy, .. }) in offers.iter().enumerate() {
            let Some(sender) = self.world.device(device) else { continue };
            let Some(policy) = self.world.policy(policy) else { continue };
            match vouchers.get(number).copied().unwrap_or(Voucher::Given) {
                Voucher::Given => {}
                Voucher::Presumed(why) => self.unjudged_at(place.trace, VOUCHED, why),
                Voucher::Lacking => continue,
            }
            claims.push(Claim::Request { sender, policy });
        }
        claims.sort_unstable();
        claims
    }
}
