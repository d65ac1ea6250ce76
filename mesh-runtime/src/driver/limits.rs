//! How much a device remembers, and what happens when that is not enough: it **collects less**.
//!
//! | variable | limit | full |
//! | --- | --- | --- |
//! | ρ, what is held | [`MAX_HELD_RECEIPTS`] | further items are refused |
//! | tombstones | [`MAX_TOMBSTONES`] | nothing is collected until some are out of date, and a notice about an item of which nothing is known is refused, so it is not acknowledged and its sender repeats it. A notice about anything known is always taken: that leaves at most a tombstone per item held or passed on |
//! | recipients and notices | [`MAX_RECIPIENTS`] together | an item is not released to, or passed on to, anybody new |
//! | asked | [`MAX_ASKED`] | nobody new is asked for data |
//! | π, policies of others | [`MAX_OFFERS`] | a new one is not stored, a longer list of them is not taken over |
//! | Π | [`MAX_LISTED`] | devices not listed yet are refused |
//! | own policies | [`MAX_OWN_POLICIES`] | the user's larger set is refused, and no further policy is published until one is withdrawn |

use pilot_core::graph::{Action, Body, Device, Effect};

/// The most items held, once for each sender and policy.
pub const MAX_HELD_RECEIPTS: usize = 65_536;
/// The most tombstones of items of which nothing else is known.
pub const MAX_TOMBSTONES: usize = 65_536;
/// The most pairs of an item and somebody who may have got it, and notices owed to them.
pub const MAX_RECIPIENTS: usize = 131_072;
/// The most pairs of a device and a policy under which it was asked for data.
pub const MAX_ASKED: usize = 131_072;
/// The most policies of others in π.
pub const MAX_OFFERS: usize = 131_072;
/// The most devices whose policy a repository lists.
pub const MAX_LISTED: usize = 131_072;
/// The most own policies.
pub const MAX_OWN_POLICIES: usize = 1_024;

/// A limit that a step would have exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Limit {
    /// See [`MAX_HELD_RECEIPTS`].
    #[error("too many items are held")]
    Held,
    /// See [`MAX_TOMBSTONES`].
    #[error("too many withdrawals are remembered")]
    Tombstones,
    /// See [`MAX_RECIPIENTS`].
    #[error("too many recipients are remembered")]
    Recipients,
    /// See [`MAX_ASKED`].
    #[error("too many devices were asked for data")]
    Asked,
    /// See [`MAX_OFFERS`].
    #[error("too many policies of others are known")]
    Offers,
    /// See [`MAX_LISTED`].
    #[error("too many policies are listed")]
    Listed,
    /// See [`MAX_OWN_POLICIES`].
    #[error("too many own policies")]
    Own,
}

/// The limits; smaller ones are for tests and small devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// See [`MAX_HELD_RECEIPTS`].
    pub held: usize,
    /// See [`MAX_TOMBSTONES`].
    pub tombstones: usize,
    /// See [`MAX_RECIPIENTS`].
    pub recipients: usize,
    /// See [`MAX_ASKED`].
    pub asked: usize,
    /// See [`MAX_OFFERS`].
    pub offers: usize,
    /// See [`MAX_LISTED`].
    pub listed: usize,
    /// See [`MAX_OWN_POLICIES`].
    pub own: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            held: MAX_HELD_RECEIPTS,
            tombstones: MAX_TOMBSTONES,
            recipients: MAX_RECIPIENTS,
            asked: MAX_ASKED,
            offers: MAX_OFFERS,
            listed: MAX_LISTED,
            own: MAX_OWN_POLICIES,
        }
    }
}

impl Limits {
    /// The limit that keeps a step with these effects from being taken.
    pub(super) fn lacking(&self, effects: &[Effect], action: &Action, device: &Device) -> Option<Limit> {
        effects.iter().find_map(|effect| self.lacking_for(*effect, action, device))
    }

    fn lacking_for(&self, effect: Effect, action: &Action, device: &Device) -> Option<Limit> {
        let (state, memory) = (&device.state, &device.memory);
        let message = action.message();
        let owed = memory.recipients.len() + memory.notices.len();
        match effect {
            Effect::Keep if state.received.len() >= self.held => Some(Limit::Held),
            Effect::Keep if memory.tombstones.len() >= self.tombstones => Some(Limit::Tombstones),
            Effect::LeaveTombstone => {
                let is_known = action.item().is_some_and(|item| device.mentions_item(item));
                (memory.tombstones.len() >= self.tombstones && !is_known).then_some(Limit::Tombstones)
            }
            Effect::RememberRecipient => {
                let key = message.and_then(|message| Some((message.item()?, message.receiver)));
                let is_new = key.is_none_or(|key| !memory.recipients.contains_key(&key));
                (is_new && owed >= self.recipients).then_some(Limit::Recipients)
            }
            Effect::RememberAsking => {
                let key = message.and_then(|message| Some((message.receiver, message.policy()?)));
                let is_new = key.is_none_or(|key| !memory.asked.contains(&key));
                (is_new && memory.asked.len() >= self.asked).then_some(Limit::Asked)
            }
            Effect::StoreOffer => {
                let known = message.and_then(|message| Some((message.sender, message.policy()?)));
                let is_new = known.is_none_or(|known| !state.policies.contains(&known));
                (is_new && state.policies.len() >= self.offers).then_some(Limit::Offers)
            }
            Effect::RestoreOffers | Effect::ReplaceOffers => (offers_in(action) > self.offers).then_some(Limit::Offers),
            Effect::List => {
                let is_new = message.is_none_or(|message| !memory.catalogue.contains_key(&message.sender));
                (is_new && memory.catalogue.len() >= self.listed).then_some(Limit::Listed)
            }
            Effect::Publish => {
                let is_new = message.and_then(|m| m.policy()).is_none_or(|p| !memory.published.contains(&p));
                (is_new && memory.published.len() >= self.own).then_some(Limit::Own)
            }
            Effect::AdoptOwn | Effect::ReplaceOwn => (own_in(action) > self.own).then_some(Limit::Own),
            _ => None,
        }
    }
}

fn offers_in(action: &Action) -> usize {
    match (action, action.message().map(|message| &message.body)) {
        (Action::Restore { offers, .. }, _) | (_, Some(Body::DownloadPolicies { offers })) => offers.len(),
        _ => 0,
    }
}

fn own_in(action: &Action) -> usize {
    match action {
        Action::Init { own, .. } | Action::Restore { own, .. } | Action::ChangeOwn { own } => own.len(),
        _ => 0,
    }
}
