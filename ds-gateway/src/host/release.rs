//! From broadcast↑ to a frame on the air, and from withdraw↑ to a notice that its controller acknowledges.

use mesh_runtime::air::FrameBytes;
use mesh_runtime::air::frame::Kind;
use mesh_runtime::daemon::membership::Membership;
use mesh_runtime::driver::Driver;
use mesh_runtime::journal::Journal;
use mesh_runtime::protocol::sealed::Notice;
use pilot_core::codec;
use pilot_core::evidence::envelope::MessageId;
use pilot_core::evidence::{DeviceName, MeshDevice};
use pilot_core::graph::Device;
use pilot_core::graph::message::{Release, Withdrawal};
use pilot_core::policy::Choice;
use pilot_core::semantics::Context;
use pilot_core::value::Time;
use pilot_core::vocabulary::{DeviceId, ItemId};

use super::{Gateway, Question};
use crate::catalogue::{Catalogue, Offer};
use crate::decide;
use crate::frames::{self, Saying};
use crate::rotation::Announcement;
use crate::state::Owed;

/// What decides whether a frame may be on the air.
struct Permit<'p> {
    membership: &'p Membership,
    catalogue: &'p Catalogue,
    item: ItemId,
    device: &'p Device,
    context: Context<'p>,
}

impl Permit<'_> {
    /// The broadcast could be made again now, nothing since has taken it back, and the statement behind it still counts.
    fn allows(&self, controller: DeviceId, announcement: &Announcement) -> bool {
        let Announcement { name, policy: digest, epoch, .. } = announcement;
        let Self { device, item, context, .. } = *self;
        let now = context.now;
        let is_valid = |listed: &MeshDevice| listed.check_valid(now).is_ok();
        let is_stated = |offer: Offer<'_>| offer.policy == *digest && now < offer.expires;
        let Some(policy) = context.policies.by_digest(digest) else { return false };
        self.membership.is_in_force(now)
            && epoch.is_fresh_at(now)
            && self.membership.mesh().device(name.as_str()).is_some_and(is_valid)
            && self.catalogue.offer(name).is_some_and(is_stated)
            && device.memory.tombstones.get(&item).is_none_or(|withdrawn| *epoch > withdrawn.epoch)
            && decide::is_accepted(&decide::Question { device, item, controller, policy, context })
    }
}

impl Gateway<'_> {
    /// broadcast↑ was recorded: there is something to say for a controller.
    pub(super) fn announce(
        &mut self,
        controller: DeviceId,
        release: &Release,
        driver: &mut Driver<'_, Journal>,
        now: Time,
    ) {
        // The controller may have the item from now on, whether or not a frame comes of it.
        self.is_dirty = true;
        let Some(name) = driver.recorder().names.name_of(controller).cloned() else { return };
        let policies = driver.context(now).policies;
        let (Some(policy), Some(digest)) = (policies.policy(release.policy), policies.digest(release.policy)) else {
            return;
        };
        let Some(tag) = self.membership.tag(&name) else { return };
        let bytes = codec::encode(&Choice::Policy(policy.clone()), self.about.vocabulary);
        let saying = Saying {
            controller: tag,
            policy: digest,
            bytes: &bytes,
            epoch: release.epoch,
            address: self.radio.address,
        };
        let room = self.radio.advertiser.room();
        // A radio that was never there: frames are made when it is, the best that it can send.
        if room == 0 {
            return;
        }
        let Some((kind, frame)) = frames::make(&saying, self.radio.setting, room, &self.radio.keys) else {
            let reason = "a policy does not fit into a frame of the kind that the configuration asks for";
            return self.post.complaints.complain("too-long", None, &reason, now);
        };
        if kind == Kind::Signed {
            self.remembered.signed.insert(name.clone());
        }
        let announcement = Announcement { name, policy: digest, epoch: release.epoch, kind, frame };
        self.radio.rotation.announce(controller, announcement);
    }

    /// What says whether frames may be on the air now.
    fn permit<'p>(&'p self, driver: &'p Driver<'_, Journal>, now: Time) -> Permit<'p> {
        let Self { membership, catalogue, about, .. } = self;
        let (device, context) = (driver.device(), driver.context(now));
        Permit { membership, catalogue, item: about.item, device, context }
    }

    /// Those for whom there is a frame that may be said.
    pub(super) fn advertised_for(&self, driver: &Driver<'_, Journal>, now: Time) -> Vec<DeviceId> {
        let permit = self.permit(driver, now);
        let allowed = self.radio.rotation.announcements().filter(|(id, announcement)| permit.allows(*id, announcement));
        allowed.map(|(id, _)| id).collect()
    }

    /// Puts the frames on the air whose turn it is, or none. The state that remembers their receivers is stored.
    pub(super) fn take_turns(&mut self, driver: &Driver<'_, Journal>, now: Time) {
        let Self { membership, catalogue, about, radio, .. } = self;
        let (device, context) = (driver.device(), driver.context(now));
        let permit = Permit { membership, catalogue, item: about.item, device, context };
        let (room, sets) = (radio.advertiser.room(), radio.advertiser.sets());
        let wanted = radio.rotation.turn(now, sets, |controller, announcement| {
            // What a radio had room for it may not have any more; the next epoch brings a shorter one.
            announcement.frame.as_slice().len() <= room && permit.allows(controller, announcement)
        });
        if wanted != self.radio.on_air {
            self.radio.on_air = wanted;
            if let Err(error) = self.radio.say() {
                self.post.complaints.complain("radio", None, &error, now);
            }
        }
    }

    /// Takes the frames off the air that are on it and may not be said any more.
    pub(super) fn fall_silent_unless_allowed(&mut self, driver: &Driver<'_, Journal>, now: Time) {
        let permit = self.permit(driver, now);
        let is_allowed = |(controller, _): &&(DeviceId, FrameBytes)| {
            let announcement = self.radio.rotation.announcement(*controller);
            announcement.is_some_and(|announcement| permit.allows(*controller, announcement))
        };
        let still: Vec<_> = self.radio.on_air.iter().filter(is_allowed).copied().collect();
        if still.len() < self.radio.on_air.len() {
            self.radio.on_air = still;
            // A radio that is gone is silent.
            let _ = self.radio.say();
        }
    }

    /// Takes everything off the air that is on it.
    pub(super) fn fall_silent(&mut self) {
        self.radio.on_air.clear();
        // A radio that is gone is silent.
        let _ = self.radio.say();
    }

    /// withdraw↑ was recorded: a notice goes out, once that is stored, until it is acknowledged.
    pub(super) fn owe(&mut self, controller: DeviceId, withdrawal: Withdrawal, driver: &mut Driver<'_, Journal>) {
        let journal = driver.recorder();
        let (Some(sent), Some(name)) = (journal.next_sent(), journal.names.name_of(controller).cloned()) else {
            return;
        };
        let owed = Owed { id: sent.id, head: sent.head, withdrawal };
        if let Some(before) = self.remembered.notices.insert(name, owed) {
            // The new one takes back at least as much.
            self.requests.answered(&before.id);
        }
        self.is_dirty = true;
    }

    /// Makes questions of the notices that are owed, as many as there is room for, and drops those that no longer matter.
    pub(super) fn ask_for_acknowledgements(&mut self, now: Time) {
        let before = self.remembered.notices.len();
        self.remembered.notices.retain(|_, owed| !owed.withdrawal.is_over_at(now));
        self.is_dirty |= self.remembered.notices.len() < before;
        let notices = &self.remembered.notices;
        self.requests.retain(|question| match question {
            Question::Fetch => true,
            Question::Notice(controller) => notices.contains_key(controller),
        });
        for (controller, owed) in notices {
            if self.requests.about(&owed.id).is_none() {
                let question = Question::Notice(controller.clone());
                if self.requests.ask(owed.id, question, Some(owed.head), now).is_err() {
                    // No room: it stays in the state, and has its turn when others are acknowledged.
                    break;
                }
            }
        }
    }

    /// The notice for a controller, sealed anew each time.
    pub(super) fn notice(&self, controller: &DeviceName) -> Result<Vec<u8>, String> {
        let owed = self.remembered.notices.get(controller).ok_or("it is not owed any more")?;
        let device = self.membership.mesh().device(controller.as_str()).ok_or("the mesh file does not list it")?;
        let mut notice = Notice { item: self.radio.address, withdrawal: owed.withdrawal, signature: None };
        if self.remembered.signed.contains(controller) {
            notice = notice.sign(device.tag, &self.radio.keys.key(device.tag, self.radio.address));
        }
        notice.seal(device.tag, &device.sealing_key).map_err(|error| error.to_string())
    }

    /// The controller says that the data is gone.
    pub(super) fn acknowledged(&mut self, id: &MessageId, controller: &DeviceName) {
        self.requests.answered(id);
        if self.remembered.notices.get(controller).is_some_and(|owed| owed.id == *id) {
            self.remembered.notices.remove(controller);
            self.is_dirty = true;
            tracing::info!(waiting = self.remembered.notices.len(), "a withdrawal was acknowledged");
        }
    }
}
