//! What a step did, in words that are no secret: devices by name, policies by digest, items by pseudonym.
//!
//! These types mirror [`graph::Action`](crate::graph::Action), [`Message`](crate::graph::Message) and
//! [`Body`](crate::graph::Body); [`naming`](super::naming) translates. No type here has room for a personal value: text
//! is a [`Word`] or a [`DeviceName`], bytes are digests, and an item is a [`Pseudonym`].

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::fmt;
use minicbor::Encoder;
use sha2::{Digest as _, Sha256};
use smol_str::SmolStr;

use crate::codec::Digest;
use crate::evidence::envelope::{ChainHead, MessageId};
use crate::evidence::hex::Hex;
use crate::evidence::pseudonym::ConsentMark;
use crate::evidence::{DeviceName, Pseudonym, StatementId, VerifyingKey};
use crate::graph::message::Withdrawal;
use crate::graph::{Label, MessageKind};
use crate::name::{NameError, check_name};
use crate::semantics::Epoch;

/// A name of the shared vocabulary: an entity or a datatype.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Word(pub(super) SmolStr);

impl Word {
    /// Accepts `text` as a name.
    pub fn new(text: &str) -> Result<Self, NameError> {
        check_name(text).map(|()| Self(text.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Word {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// A subject, as far as one connection goes: the first half of SHA-256("consent-mesh connection" ‖ key), the key being
/// the one that she made for that connection. Both ends can compute it, and it is of no use afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Connection(pub(super) [u8; 16]);

impl Connection {
    /// Of the key that signs on this connection.
    pub fn of(key: &VerifyingKey) -> Self {
        let digest = Sha256::new().chain_update(b"consent-mesh connection").chain_update(key.as_bytes()).finalize();
        let mut half = [0; 16];
        half.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
        Self(half)
    }
}

impl fmt::Display for Connection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        Hex(&self.0).fmt(out)
    }
}

/// Sixteen random bytes by which controllers speak of an item among themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub [u8; 16]);

/// Somebody who sends or receives.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Party {
    /// A device of the mesh, or the device whose trace this is.
    Device(DeviceName),
    /// A subject, for the length of one connection.
    Connection(Connection),
    /// A subject of whom nothing is known but that she owns the item of this step.
    Owner,
}

/// An item and what it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Item {
    /// i.
    pub pseudonym: Pseudonym,
    /// type(i).
    pub datatype: Word,
}

/// (d, p): a device works under a policy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offer {
    /// d.
    pub device: DeviceName,
    /// p.
    pub policy: Digest,
    /// The signed statement that says so, where there is one.
    pub statement: Option<StatementId>,
}

/// A digest of Π: which device works under which policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CatalogueDigest(pub [u8; 32]);

impl CatalogueDigest {
    /// SHA-256("consent-mesh catalogue" ‖ the canonical CBOR of `[* [device, policy]]`), in the order of the set.
    pub fn of(offers: &BTreeSet<(DeviceName, Digest)>) -> Self {
        Self::of_sorted(offers.iter().map(|(device, policy)| (device.as_str(), policy)))
    }

    /// The same, of a set that comes in its order.
    pub fn of_sorted<'o>(offers: impl ExactSizeIterator<Item = (&'o str, &'o Digest)>) -> Self {
        // As many bytes as a policy and most names take.
        let mut bytes = Vec::with_capacity(offers.len().saturating_mul(64).saturating_add(9));
        let mut out = Encoder::new(&mut bytes);
        let result = out.array(offers.len() as u64).and_then(|out| {
            for (device, policy) in offers {
                out.array(2)?.str(device)?.bytes(&policy.0)?;
            }
            Ok(())
        });
        // INVARIANT: writing to a `Vec` cannot fail.
        debug_assert!(result.is_ok());
        Self(Sha256::new().chain_update(b"consent-mesh catalogue").chain_update(&bytes).finalize().into())
    }
}

/// An item on its way; the value is not here.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release {
    /// i and type(i).
    pub item: Item,
    /// p.
    pub policy: Digest,
    /// When the owner released it.
    pub epoch: Epoch,
    /// What the controllers call it, for a transfer.
    pub handle: Option<Handle>,
}

/// What a message said.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Body {
    /// request(dc, d, p).
    Request {
        /// p.
        policy: Digest,
    },
    /// send(d, dc, p, i).
    Send(Release),
    /// requestPolicies(ds).
    RequestPolicies,
    /// downloadPolicies(ds, Π).
    DownloadPolicies {
        /// Of Π.
        catalogue: CatalogueDigest,
        /// At ↓: what π did not have and now has.
        added: BTreeSet<Offer>,
        /// At ↓: what π had and Π does not list.
        removed: BTreeSet<Offer>,
    },
    /// uploadPolicy(dc, p).
    UploadPolicy {
        /// p.
        policy: Digest,
        /// The signed statement that says so, where there is one.
        statement: Option<StatementId>,
    },
    /// withdrawPolicy(dc, p).
    WithdrawPolicy {
        /// p.
        policy: Digest,
    },
    /// broadcast(ds, i, dc, p).
    Broadcast(Release),
    /// withdraw(d, dc, i).
    Withdraw {
        /// i.
        item: Pseudonym,
        /// What is taken back.
        withdrawal: Withdrawal,
    },
}

/// A message without its secrets.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Message {
    /// Who sent it.
    pub sender: Party,
    /// For whom it is; of a broadcast, the controller that it names.
    pub receiver: Party,
    /// What it said.
    pub body: Body,
    /// The envelope's id. A radio frame has none.
    pub id: Option<MessageId>,
}

impl Message {
    /// The item that it is about.
    pub const fn pseudonym(&self) -> Option<&Pseudonym> {
        match &self.body {
            Body::Send(release) | Body::Broadcast(release) => Some(&release.item.pseudonym),
            Body::Withdraw { item, .. } => Some(item),
            _ => None,
        }
    }
}

/// What a receiver knows of where a message came from, beyond its sender and its id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Cause {
    /// The head of the sender's trace when the message left, as its envelope says.
    pub head: Option<ChainHead>,
    /// That the owner signed this release.
    pub consent: Option<ConsentMark>,
}

/// What a device did.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// init(p, i).
    Init {
        /// The user's policies.
        own: BTreeSet<Digest>,
        /// The instance's item.
        item: Option<Item>,
    },
    /// init(p, i) with known offers.
    Restore {
        /// The user's policies.
        own: BTreeSet<Digest>,
        /// The instance's item.
        item: Option<Item>,
        /// What π had of others.
        offers: BTreeSet<Offer>,
    },
    /// The user's policies are these from now on.
    ChangeOwn {
        /// All of them.
        own: BTreeSet<Digest>,
    },
    /// The user no longer refuses this entity.
    Admit {
        /// Whom.
        entity: Word,
    },
    /// τ.
    Tau,
    /// The deadline of an item is reached.
    Expire {
        /// Which.
        item: Pseudonym,
    },
    /// What is remembered about an item is of no more use.
    Forget {
        /// Which.
        item: Pseudonym,
    },
    /// a↑.
    Send(Message),
    /// a↓ and what it came from.
    Receive(Message, Cause),
}

impl Body {
    /// Its kind.
    pub const fn kind(&self) -> MessageKind {
        match self {
            Self::Request { .. } => MessageKind::Request,
            Self::Send(_) => MessageKind::Send,
            Self::RequestPolicies => MessageKind::RequestPolicies,
            Self::DownloadPolicies { .. } => MessageKind::DownloadPolicies,
            Self::UploadPolicy { .. } => MessageKind::UploadPolicy,
            Self::WithdrawPolicy { .. } => MessageKind::WithdrawPolicy,
            Self::Broadcast(_) => MessageKind::Broadcast,
            Self::Withdraw { .. } => MessageKind::Withdraw,
        }
    }

    /// The policies it names.
    fn for_each_policy(&self, mut see: impl FnMut(&Digest)) {
        match self {
            Self::Request { policy } | Self::UploadPolicy { policy, .. } | Self::WithdrawPolicy { policy } => {
                see(policy)
            }
            Self::Send(release) | Self::Broadcast(release) => see(&release.policy),
            Self::DownloadPolicies { added, removed, .. } => {
                added.iter().chain(removed).for_each(|offer| see(&offer.policy));
            }
            Self::RequestPolicies | Self::Withdraw { .. } => {}
        }
    }
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
            Self::Send(message) => Label::Send(message.body.kind()),
            Self::Receive(message, _) => Label::Receive(message.body.kind()),
        }
    }

    /// Shows every policy that the action names.
    pub fn for_each_policy(&self, mut see: impl FnMut(&Digest)) {
        match self {
            Self::Init { own, .. } | Self::ChangeOwn { own } => own.iter().for_each(see),
            Self::Restore { own, offers, .. } => {
                own.iter().chain(offers.iter().map(|offer| &offer.policy)).for_each(see);
            }
            Self::Send(message) | Self::Receive(message, _) => message.body.for_each_policy(&mut see),
            Self::Admit { .. } | Self::Tau | Self::Expire { .. } | Self::Forget { .. } => {}
        }
    }
}
