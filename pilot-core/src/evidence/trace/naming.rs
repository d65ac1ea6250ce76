//! From what the interpreter did to what a trace says. The matches are exhaustive without a wildcard: whoever adds an
//! action or a message must say here what an auditor gets to know of it.

use alloc::collections::BTreeSet;

use super::action::{Action, Body, CatalogueDigest, Cause, Handle, Item, Message, Offer, Party, Release, Word};
use crate::codec::Digest;
use crate::evidence::envelope::MessageId;
use crate::evidence::{DeviceName, Pseudonym, StatementId};
use crate::graph::{self, message};
use crate::semantics::PolicyId;
use crate::semantics::event::Event;
use crate::vocabulary::{DeviceId, Entity, ItemId};

/// What the ids of a running device stand for. Each method answers `None` for an id that it does not know.
pub trait Naming {
    /// Who a device is to this trace.
    fn party(&self, device: DeviceId) -> Option<Party>;
    /// The digest of a policy.
    fn policy(&self, policy: PolicyId) -> Option<Digest>;
    /// The item under the audit key of this trace, and its datatype.
    fn item(&self, item: ItemId) -> Option<Item>;
    /// The name of an entity.
    fn entity(&self, entity: Entity) -> Option<Word>;
    /// The signed statement by which a device works under a policy; `None` if there is none.
    fn statement(&self, device: DeviceId, policy: PolicyId) -> Option<StatementId>;
    /// What the controllers call an item among themselves; `None` outside transfers.
    fn handle(&self, item: ItemId) -> Option<Handle>;
}

/// An id in a step has no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unnamed {
    /// A device, or one that is listed in a catalogue but is not a device of the mesh.
    #[error("a step names a device that has no name")]
    Device,
    /// A policy.
    #[error("a step names a policy that is not known")]
    Policy,
    /// An item.
    #[error("a step names an item that is not known")]
    Item,
    /// An entity.
    #[error("a step names an entity that is not known")]
    Entity,
}

impl Action {
    /// What a trace says of an action and the step it led to. `id` is that of the message sent or received, `cause` what
    /// is known of where a received one came from.
    pub fn of(
        action: &graph::Action,
        step: &graph::Step,
        (id, cause): (Option<MessageId>, Cause),
        naming: &impl Naming,
    ) -> Result<Self, Unnamed> {
        let names = Names(naming);
        Ok(match action {
            graph::Action::Init { own, item } => Self::Init { own: names.policies(own)?, item: names.optional(*item)? },
            graph::Action::Restore { own, item, offers } => Self::Restore {
                own: names.policies(own)?,
                item: names.optional(*item)?,
                offers: names.offers(offers.iter().copied())?,
            },
            graph::Action::ChangeOwn { own } => Self::ChangeOwn { own: names.policies(own)? },
            graph::Action::Admit { entity } => Self::Admit { entity: naming.entity(*entity).ok_or(Unnamed::Entity)? },
            graph::Action::Tau => Self::Tau,
            graph::Action::Expire { item } => Self::Expire { item: names.pseudonym(*item)? },
            graph::Action::Forget { item } => Self::Forget { item: names.pseudonym(*item)? },
            // As it leaves: the effects have filled in what the message takes along.
            graph::Action::Send(message) => {
                Self::Send(names.message(step.message.as_ref().unwrap_or(message), &[], id)?)
            }
            graph::Action::Receive(message) => Self::Receive(names.message(message, &step.events, id)?, cause),
        })
    }
}

pub(super) struct Names<'n, N>(pub(super) &'n N);

impl<N: Naming> Names<'_, N> {
    fn message(&self, message: &graph::Message, events: &[Event], id: Option<MessageId>) -> Result<Message, Unnamed> {
        let policy = |policy: &PolicyId| self.policy(*policy);
        let body = match &message.body {
            graph::Body::Request { policy: p } => Body::Request { policy: policy(p)? },
            graph::Body::Send(release) => Body::Send(self.release(release)?),
            graph::Body::RequestPolicies => Body::RequestPolicies,
            graph::Body::DownloadPolicies { offers } => self.download(offers, events)?,
            graph::Body::UploadPolicy { policy: p } => {
                Body::UploadPolicy { policy: policy(p)?, statement: self.0.statement(message.sender, *p) }
            }
            graph::Body::WithdrawPolicy { policy: p } => Body::WithdrawPolicy { policy: policy(p)? },
            graph::Body::Broadcast(release) => Body::Broadcast(self.release(release)?),
            graph::Body::Withdraw { item, withdrawal } => {
                Body::Withdraw { item: self.pseudonym(*item)?, withdrawal: *withdrawal }
            }
        };
        Ok(Message { sender: self.party(message.sender)?, receiver: self.party(message.receiver)?, body, id })
    }

    /// The difference that a download made is what its events say: retracts, then requests (S19).
    fn download(&self, offers: &[(DeviceId, PolicyId)], events: &[Event]) -> Result<Body, Unnamed> {
        let listed = offers.iter().map(|(device, policy)| Ok((self.device(*device)?, self.policy(*policy)?)));
        let catalogue = CatalogueDigest::of(&listed.collect::<Result<_, _>>()?);
        let added = events.iter().filter_map(|event| match event {
            Event::Request { sender, policy, .. } => Some((*sender, *policy)),
            _ => None,
        });
        let removed = events.iter().filter_map(|event| match event {
            Event::Retract { controller, policy, .. } => Some((*controller, *policy)),
            _ => None,
        });
        Ok(Body::DownloadPolicies { catalogue, added: self.offers(added)?, removed: self.offers(removed)? })
    }

    /// Everything but the value.
    fn release(&self, release: &message::Release) -> Result<Release, Unnamed> {
        let message::Release { item, policy, epoch, value: _ } = release;
        let (item, handle) = (self.item(*item)?, self.0.handle(*item));
        Ok(Release { item, policy: self.policy(*policy)?, epoch: *epoch, handle })
    }

    pub(super) fn offers(
        &self,
        offers: impl Iterator<Item = (DeviceId, PolicyId)>,
    ) -> Result<BTreeSet<Offer>, Unnamed> {
        let offer = |(device, policy)| {
            let statement = self.0.statement(device, policy);
            Ok(Offer { device: self.device(device)?, policy: self.policy(policy)?, statement })
        };
        offers.map(offer).collect()
    }

    pub(super) fn party(&self, device: DeviceId) -> Result<Party, Unnamed> {
        self.0.party(device).ok_or(Unnamed::Device)
    }

    fn device(&self, device: DeviceId) -> Result<DeviceName, Unnamed> {
        match self.party(device)? {
            Party::Device(name) => Ok(name),
            Party::Connection(_) | Party::Owner => Err(Unnamed::Device),
        }
    }

    pub(super) fn policy(&self, policy: PolicyId) -> Result<Digest, Unnamed> {
        self.0.policy(policy).ok_or(Unnamed::Policy)
    }

    pub(super) fn policies<'p>(
        &self,
        policies: impl IntoIterator<Item = &'p PolicyId>,
    ) -> Result<BTreeSet<Digest>, Unnamed> {
        policies.into_iter().map(|policy| self.policy(*policy)).collect()
    }

    pub(super) fn item(&self, item: ItemId) -> Result<Item, Unnamed> {
        self.0.item(item).ok_or(Unnamed::Item)
    }

    fn optional(&self, item: Option<ItemId>) -> Result<Option<Item>, Unnamed> {
        item.map(|item| self.item(item)).transpose()
    }

    fn pseudonym(&self, item: ItemId) -> Result<Pseudonym, Unnamed> {
        self.item(item).map(|item| item.pseudonym)
    }
}
