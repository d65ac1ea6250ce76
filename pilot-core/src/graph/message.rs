//! What travels between devices, and actions with their parameters.

use alloc::vec::Vec;

use super::Label;
use crate::semantics::{Epoch, PolicyId};
use crate::value::{Time, Value};
use crate::vocabulary::{DeviceId, Entity, ItemId};

/// A message: a synchronisation action of Def. 4 with its parameters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Message {
    /// Who sent it.
    pub sender: DeviceId,
    /// For whom it is. A broadcast is heard by everybody; this is the controller that it names.
    pub receiver: DeviceId,
    /// What it says.
    pub body: Body,
}

/// What a message says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Body {
    /// request(dc, d, p).
    Request {
        /// p.
        policy: PolicyId,
    },
    /// send(d, dc, p, i).
    Send(Release),
    /// requestPolicies(ds).
    RequestPolicies,
    /// downloadPolicies(ds, Π).
    DownloadPolicies {
        /// Π, sorted.
        offers: Vec<(DeviceId, PolicyId)>,
    },
    /// uploadPolicy(dc, p).
    UploadPolicy {
        /// p.
        policy: PolicyId,
    },
    /// withdrawPolicy(dc, p) (S19).
    WithdrawPolicy {
        /// p.
        policy: PolicyId,
    },
    /// broadcast(ds, i, dc, p).
    Broadcast(Release),
    /// withdraw(d, dc, i): the owner takes releases of the item back.
    Withdraw {
        /// i.
        item: ItemId,
        /// What she takes back.
        withdrawal: Withdrawal,
    },
}

/// Which releases of an item are taken back, and how long that matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Withdrawal {
    /// Every release up to this epoch.
    pub epoch: Epoch,
    /// The last deadline of these releases: until then some controller may hold one and transfer it.
    pub until: Time,
}

impl Withdrawal {
    /// Both: the later epoch, the later deadline.
    pub fn and(self, other: Self) -> Self {
        Self { epoch: self.epoch.max(other.epoch), until: self.until.max(other.until) }
    }

    /// As a device counts it at a time. A notice from a clock that is far ahead counts as if it came from one as far ahead
    /// as clocks may be: nothing later can be held.
    pub fn counted_at(self, now: Time) -> Self {
        Self { epoch: self.epoch.min(Epoch::last_at(now)), ..self }
    }

    /// Whether no release it takes back can arrive any more, neither by a broadcast nor by a transfer.
    pub fn is_over_at(self, now: Time) -> bool {
        self.epoch.is_over_at(now) && now >= self.until
    }
}

/// An item on its way.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release {
    /// i.
    pub item: ItemId,
    /// p.
    pub policy: PolicyId,
    /// When the owner released it; a transfer keeps this. Filled in by [`super::Effect::CarryItem`].
    pub epoch: Epoch,
    /// ν(sender, i) when it left; likewise.
    pub value: Option<Value>,
}

impl Release {
    /// An item about to leave.
    pub fn new(item: ItemId, policy: PolicyId) -> Self {
        Self { item, policy, epoch: Epoch::default(), value: None }
    }
}

/// A message without its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MessageKind {
    /// request.
    Request,
    /// send.
    Send,
    /// requestPolicies.
    RequestPolicies,
    /// downloadPolicies.
    DownloadPolicies,
    /// uploadPolicy.
    UploadPolicy,
    /// withdrawPolicy.
    WithdrawPolicy,
    /// broadcast.
    Broadcast,
    /// withdraw.
    Withdraw,
}

impl MessageKind {
    /// The action's name in the figures.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Send => "send",
            Self::RequestPolicies => "requestPolicies",
            Self::DownloadPolicies => "downloadPolicies",
            Self::UploadPolicy => "uploadPolicy",
            Self::WithdrawPolicy => "withdrawPolicy",
            Self::Broadcast => "broadcast",
            Self::Withdraw => "withdraw",
        }
    }
}

impl Message {
    /// Its kind.
    pub const fn kind(&self) -> MessageKind {
        match self.body {
            Body::Request { .. } => MessageKind::Request,
            Body::Send(_) => MessageKind::Send,
            Body::RequestPolicies => MessageKind::RequestPolicies,
            Body::DownloadPolicies { .. } => MessageKind::DownloadPolicies,
            Body::UploadPolicy { .. } => MessageKind::UploadPolicy,
            Body::WithdrawPolicy { .. } => MessageKind::WithdrawPolicy,
            Body::Broadcast(_) => MessageKind::Broadcast,
            Body::Withdraw { .. } => MessageKind::Withdraw,
        }
    }

    /// The item on its way, for a send or broadcast.
    pub const fn release(&self) -> Option<&Release> {
        match &self.body {
            Body::Send(release) | Body::Broadcast(release) => Some(release),
            _ => None,
        }
    }

    /// p, if it has one.
    pub const fn policy(&self) -> Option<PolicyId> {
        match &self.body {
            Body::Request { policy } | Body::UploadPolicy { policy } | Body::WithdrawPolicy { policy } => Some(*policy),
            Body::Send(release) | Body::Broadcast(release) => Some(release.policy),
            Body::RequestPolicies | Body::DownloadPolicies { .. } | Body::Withdraw { .. } => None,
        }
    }

    /// Π, for a download; otherwise nothing.
    pub fn offers(&self) -> &[(DeviceId, PolicyId)] {
        match &self.body {
            Body::DownloadPolicies { offers } => offers,
            _ => &[],
        }
    }

    /// i, if it has one.
    pub const fn item(&self) -> Option<ItemId> {
        match &self.body {
            Body::Send(release) | Body::Broadcast(release) => Some(release.item),
            Body::Withdraw { item, .. } => Some(*item),
            _ => None,
        }
    }
}

/// Something a device can do, with its parameters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// init(p, i), with the user's input.
    Init {
        /// Her policies.
        own: Vec<PolicyId>,
        /// The item this instance is about; controllers have none.
        item: Option<ItemId>,
    },
    /// init(p, i) with the offers that were known when the device last ran.
    Restore {
        /// Her policies.
        own: Vec<PolicyId>,
        /// The item.
        item: Option<ItemId>,
        /// What π had of others.
        offers: Vec<(DeviceId, PolicyId)>,
    },
    /// The user's policies are these from now on.
    ChangeOwn {
        /// All of them.
        own: Vec<PolicyId>,
    },
    /// The user no longer refuses this entity.
    Admit {
        /// Whom.
        entity: Entity,
    },
    /// τ.
    Tau,
    /// The deadline of an item is reached.
    Expire {
        /// Which.
        item: ItemId,
    },
    /// What is remembered about an item is of no more use.
    Forget {
        /// Which.
        item: ItemId,
    },
    /// a↑.
    Send(Message),
    /// a↓.
    Receive(Message),
}

impl Action {
    /// The action without its parameters.
    pub const fn label(&self) -> Label {
        match self {
            Self::Init { .. } => Label::Init,
            Self::Restore { .. } => Label::Restore,
            Self::ChangeOwn { .. } => Label::ChangeOwn,
            Self::Admit { .. } => Label::Admit,
            Self::Tau => Label::Tau,
            Self::Expire { .. } => Label::Expire,
            Self::Forget { .. } => Label::Forget,
            Self::Send(message) => Label::Send(message.kind()),
            Self::Receive(message) => Label::Receive(message.kind()),
        }
    }

    /// The message sent or received.
    pub const fn message(&self) -> Option<&Message> {
        match self {
            Self::Send(message) | Self::Receive(message) => Some(message),
            _ => None,
        }
    }

    /// The item it is about.
    pub const fn item(&self) -> Option<ItemId> {
        match self {
            Self::Expire { item } | Self::Forget { item } => Some(*item),
            Self::Send(message) | Self::Receive(message) => message.item(),
            _ => None,
        }
    }
}
