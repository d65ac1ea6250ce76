//! What a device has from before when a run of it begins.
//!
//! A graph begins anew with each run of the daemon, but the device remembers: what it holds, what was taken back, what it
//! has published. The first records of a run say with which variables it begins, so that an auditor knows them without
//! knowing how a daemon stores them, and can compare them with those that the run before ended with.
//!
//! A record has at most [`MAX_RESUMED`] elements in each list; what does not fit goes into the next one, and they add up.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::action::{Item, Offer, Party, Word};
use super::naming::{Names, Naming, Unnamed};
use crate::codec::Digest;
use crate::graph::Device;
use crate::graph::message::Withdrawal;
use crate::semantics::Epoch;
use crate::vocabulary::{DeviceId, ItemId};

/// The most elements in each list of one record.
pub const MAX_RESUMED: usize = 4096;

/// The variables of [`Device`] without its secrets, or a part of them. Values are not among them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resume {
    /// π: own policies, and those of others.
    pub policies: BTreeSet<Offer>,
    /// The policies that a controller works under.
    pub current: BTreeSet<Digest>,
    /// The policies that a controller has published and not withdrawn.
    pub published: BTreeSet<Digest>,
    /// What a repository lists.
    pub catalogue: BTreeSet<Offer>,
    /// ρ, and when the owners released what is in it.
    pub received: BTreeSet<Held>,
    /// Whom a controller has asked for data, under which policy.
    pub asked: BTreeSet<(Party, Digest)>,
    /// Who may have got an item from here.
    pub recipients: BTreeSet<Remembered>,
    /// Withdraw notices to pass on.
    pub notices: BTreeSet<Remembered>,
    /// Items of which releases are withdrawn.
    pub tombstones: BTreeSet<(Item, Withdrawal)>,
    /// Entities from which a subject has withdrawn.
    pub refused: BTreeSet<Word>,
}

/// (s, i, p) ∈ ρ, and when the owner released i.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Held {
    /// s.
    pub sender: Party,
    /// i.
    pub item: Item,
    /// p.
    pub policy: Digest,
    /// When.
    pub epoch: Epoch,
}

/// Somebody who may have an item, or is owed a notice about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Remembered {
    /// i.
    pub item: Item,
    /// Who.
    pub party: Party,
    /// What a withdrawal must cover, or takes back.
    pub withdrawal: Withdrawal,
}

impl Resume {
    /// The variables of a device: at least one record, although there may be nothing in it.
    pub fn of(device: &Device, naming: &impl Naming) -> Result<Vec<Self>, Unnamed> {
        let (names, memory) = (Names(naming), &device.memory);
        let remembered = |((item, party), withdrawal): (&(ItemId, DeviceId), &Withdrawal)| {
            Ok(Remembered { item: names.item(*item)?, party: names.party(*party)?, withdrawal: *withdrawal })
        };
        let held = device.state.received.iter().map(|receipt| {
            let (item, policy) = (names.item(receipt.item)?, names.policy(receipt.policy)?);
            let epoch = memory.released.get(receipt).copied().unwrap_or_default();
            Ok(Held { sender: names.party(receipt.sender)?, item, policy, epoch })
        });
        let asked = memory.asked.iter().map(|(party, policy)| Ok((names.party(*party)?, names.policy(*policy)?)));
        let tombstones = memory.tombstones.iter().map(|(item, withdrawal)| Ok((names.item(*item)?, *withdrawal)));
        let refused = memory.refused.iter().map(|entity| naming.entity(*entity).ok_or(Unnamed::Entity));
        let listed = memory.catalogue.iter().map(|(device, policy)| (*device, *policy));

        let mut parts = alloc::vec![Self::default()];
        let policies = names.offers(device.state.policies.iter().copied())?;
        spread(&mut parts, |part| &mut part.policies, policies.into_iter().map(Ok))?;
        spread(&mut parts, |part| &mut part.current, memory.current.iter().map(|policy| names.policy(*policy)))?;
        spread(&mut parts, |part| &mut part.published, memory.published.iter().map(|policy| names.policy(*policy)))?;
        spread(&mut parts, |part| &mut part.catalogue, names.offers(listed)?.into_iter().map(Ok))?;
        spread(&mut parts, |part| &mut part.received, held)?;
        spread(&mut parts, |part| &mut part.asked, asked)?;
        spread(&mut parts, |part| &mut part.recipients, memory.recipients.iter().map(remembered))?;
        spread(&mut parts, |part| &mut part.notices, memory.notices.iter().map(remembered))?;
        spread(&mut parts, |part| &mut part.tombstones, tombstones)?;
        spread(&mut parts, |part| &mut part.refused, refused)?;
        Ok(parts)
    }

    /// Whether every list is short enough to be read again.
    pub(in crate::evidence::trace) fn is_short(&self) -> bool {
        let Self { policies, current, published, catalogue, received, asked, recipients, notices, tombstones, refused } =
            self;
        let lengths = [
            policies.len(),
            current.len(),
            published.len(),
            catalogue.len(),
            received.len(),
            asked.len(),
            recipients.len(),
            notices.len(),
            tombstones.len(),
            refused.len(),
        ];
        lengths.into_iter().all(|length| length <= MAX_RESUMED)
    }

    /// Shows every policy that it names, some perhaps more than once.
    pub fn for_each_policy(&self, mut see: impl FnMut(&Digest)) {
        self.policies.iter().chain(&self.catalogue).for_each(|offer| see(&offer.policy));
        self.current.iter().chain(&self.published).for_each(&mut see);
        self.received.iter().for_each(|held| see(&held.policy));
        self.asked.iter().for_each(|(_, policy)| see(policy));
    }
}

/// Puts elements into a list of one record after the other, as many as fit.
fn spread<T: Ord>(
    parts: &mut Vec<Resume>,
    list: impl Fn(&mut Resume) -> &mut BTreeSet<T>,
    elements: impl Iterator<Item = Result<T, Unnamed>>,
) -> Result<(), Unnamed> {
    for (at, element) in elements.enumerate() {
        let part = at / MAX_RESUMED;
        if part >= parts.len() {
            parts.push(Resume::default());
        }
        if let Some(part) = parts.get_mut(part) {
            list(part).insert(element?);
        }
    }
    Ok(())
}
