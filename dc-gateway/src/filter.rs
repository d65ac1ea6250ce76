//! What stands before the graph of Fig. 4c: says "no" to the frames that the graph would refuse anyway, fast.
//!
//! A radio in a busy place hears far more than it is told. Asking the graph costs a message with ids for sender, item and
//! policy; this costs a look at 24 bytes. The filter knows four of the guards before `Keep`, in the order of the table,
//! and nothing else:
//!
//! | guard | here |
//! | --- | --- |
//! | `AddressedToMe` | the frame has this device's tag |
//! | `PublishedByMe` | its digest begins like that of a published policy |
//! | `Fresh` | its epoch is near the present one |
//! | `NotYetHeld` | the address is not held under that policy, or by another key |
//!
//! **It never decides for a "yes".** What passes is a [`Candidate`], which the graph judges. What is refused, the graph
//! refuses at the same moment: at least the guard that the [`Reason`] is of does not hold. The graph may name an earlier
//! one in its table that the filter cannot see, such as `InTime`.
//!
//! For that to stay true the filter must not know less than it should of what is published, nor more of what is held:
//!
//! * [`publish`](Filter::publish) **before** the graph publishes, and **after** it has withdrawn a policy;
//! * [`hold`](Filter::hold) **after** the graph has kept an item, and [`release`](Filter::release) it **before** the next
//!   look after the graph has erased it.
//!
//! Looking allocates nothing, whatever was heard.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use mesh_runtime::air::frame::{ControllerTag, DigestPrefix, Frame, FrameError, Header, KEY_BYTES};
use mesh_runtime::air::{Address, AddressKind, Sighting};
use mesh_runtime::driver::limits::{MAX_HELD_RECEIPTS, MAX_OWN_POLICIES};
use pilot_core::codec::Digest;
use pilot_core::evidence::trace::Reason;
use pilot_core::semantics::Epoch;
use pilot_core::value::Time;

/// The most pairs of an address and a policy that the filter remembers as held: as many as the graph's device can hold.
/// What does not fit is judged by the graph each time it is heard, which is slower and as right.
pub const MAX_HELD: usize = MAX_HELD_RECEIPTS;

/// The most published policies: as many as the graph's device can publish. A larger set is refused.
pub const MAX_PUBLISHED: usize = MAX_OWN_POLICIES;

/// What a controller's device needs to know to refuse a frame.
pub struct Filter {
    tag: ControllerTag,
    /// Each digest after the part of it that frames have. No two parts are equal; in their order.
    published: Vec<(DigestPrefix, Digest)>,
    /// With the key by which it was signed, if only that key can take it back.
    held: BTreeMap<Held, Option<[u8; KEY_BYTES]>>,
}

/// That an address is held under a policy. In the order of addresses, because that is how they are released.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    address: Address,
    kind: AddressKind,
    policy: Digest,
}

/// What is to be done about a sighting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "it lives for one look, and a box would be an allocation")]
pub enum Verdict<'s> {
    /// Nothing: the graph would refuse it, for this reason.
    Refused(Reason),
    /// Nothing: it is no frame, so it says nothing to the graph.
    NotAFrame(FrameError),
    /// The graph decides.
    Judge(Candidate<'s>),
}

/// A well-formed frame for this device about a policy that it published, fresh and new. The signature, if it has one, is
/// not verified yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate<'s> {
    /// The frame.
    pub frame: Frame<'s>,
    /// The whole digest of the policy that it names.
    pub policy: Digest,
    /// The epoch that it means.
    pub epoch: Epoch,
}

/// Why a set of policies cannot be published. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// A frame could not say which of the two it means.
    #[error("the digests `{0}` and `{1}` begin alike, so no frame could say which of the two policies it means")]
    SamePrefix(Digest, Digest),
    /// See [`MAX_PUBLISHED`].
    #[error("{0} policies are too many, at most {MAX_PUBLISHED} are published")]
    TooMany(usize),
}

impl Filter {
    /// For the device with this tag. It has published nothing and holds nothing, so everything is refused.
    pub const fn new(tag: ControllerTag) -> Self {
        Self { tag, published: Vec::new(), held: BTreeMap::new() }
    }

    /// These policies, and no others, are published from now on. What is held under others is remembered all the same:
    /// a policy may come back.
    pub fn publish(&mut self, policies: impl IntoIterator<Item = Digest>) -> Result<(), PublishError> {
        let policies: BTreeSet<Digest> = policies.into_iter().collect();
        if policies.len() > MAX_PUBLISHED {
            return Err(PublishError::TooMany(policies.len()));
        }
        // The order of digests is that of their beginnings.
        let published: Vec<_> = policies.into_iter().map(|digest| (DigestPrefix::from(digest), digest)).collect();
        for ((prefix, digest), (next_prefix, next)) in published.iter().zip(published.iter().skip(1)) {
            if prefix == next_prefix {
                return Err(PublishError::SamePrefix(*digest, *next));
            }
        }
        self.published = published;
        Ok(())
    }

    /// The graph has this address under this policy: broadcasts that repeat it are refused from now on. Also to be called
    /// when the graph says so of what the filter had no room for, or has not seen since a restart.
    ///
    /// With the key that signed it, consents without that key still pass: they change who can take it back.
    pub fn hold(&mut self, address: Address, kind: AddressKind, policy: Digest, signer: Option<[u8; KEY_BYTES]>) {
        let held = Held { address, kind, policy };
        if self.held.len() < MAX_HELD || self.held.contains_key(&held) {
            self.held.insert(held, signer);
        }
    }

    /// The address was erased or withdrawn, whatever the policies: the graph judges it again.
    pub fn release(&mut self, address: Address, kind: AddressKind) {
        let of = |policy| Held { address, kind, policy };
        let all = of(Digest([0; 32]))..=of(Digest([u8::MAX; 32]));
        while let Some((held, _)) = self.held.range(all.clone()).next() {
            let held = *held;
            self.held.remove(&held);
        }
    }

    /// Whether a sighting is worth the graph's time, which is `now`.
    ///
    /// The policy in an extended or signed frame is looked at last: hashing it costs more than all the rest.
    pub fn look<'s>(&self, sighting: &'s Sighting, now: Time) -> Verdict<'s> {
        let header = match Header::decode(sighting.frame.as_slice()) {
            Ok(header) => header,
            Err(error) => return Verdict::NotAFrame(error),
        };
        let (policy, epoch) = match self.pass(&header, sighting, now) {
            Ok(passed) => passed,
            Err(reason) => return Verdict::Refused(reason),
        };
        match Frame::decode(sighting.frame.as_slice()) {
            Err(error) => Verdict::NotAFrame(error),
            // Only the beginning of its digest is that of a published one.
            Ok(frame) if frame.policy().is_some_and(|carried| carried.digest() != policy) => {
                Verdict::Refused(Reason::PolicyNotOurs)
            }
            Ok(frame) => Verdict::Judge(Candidate { frame, policy, epoch }),
        }
    }

    /// The four guards, in the order of the graph's table: it matters for the reason.
    fn pass(&self, header: &Header, sighting: &Sighting, now: Time) -> Result<(Digest, Epoch), Reason> {
        if header.controller != self.tag {
            return Err(Reason::NotAddressed);
        }
        let found = self.published.binary_search_by_key(&header.policy, |(prefix, _)| *prefix);
        let published = found.ok().and_then(|at| self.published.get(at));
        let (_, policy) = *published.ok_or(Reason::PolicyNotOurs)?;
        let epoch = header.epoch.fresh_at(now).ok_or(Reason::NotFresh)?;
        match self.held.get(&Held { address: sighting.address, kind: sighting.address_kind, policy }) {
            Some(None) => return Err(Reason::AlreadyHeld),
            Some(signer) if *signer == header.key(sighting.frame.as_slice()) => return Err(Reason::AlreadyHeld),
            Some(_) | None => {}
        }
        Ok((policy, epoch))
    }
}

/// How many are held, but not who.
impl fmt::Debug for Filter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let published = self.published.iter().map(|(_, digest)| digest).collect::<Vec<_>>();
        let mut shown = out.debug_struct("Filter");
        shown.field("tag", &self.tag).field("published", &published).field("held", &self.held.len()).finish()
    }
}
