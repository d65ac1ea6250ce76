//! Broadcasts that were sent and may still arrive.
//!
//! Many more are sent than arrive, so sending one costs next to nothing: it is put behind those that its sender has sent to the
//! same receiver before. When one arrives, it is looked for there; almost always it is the last one.
//!
//! What was sent is forgotten sheet by sheet, each when the last broadcast on it can no longer be accepted.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use pilot_core::semantics::{Epoch, PolicyId};
use pilot_core::value::Time;
use pilot_core::vocabulary::{DeviceId, Id as _};

use super::mail::{CLOCK_SKEW, Letter, MAX_IN_FLIGHT, Sheet};

/// The most broadcasts of one sender to one receiver that are remembered, so that looking for one never takes long.
const MAX_BETWEEN_TWO: usize = 1 << 13;
/// For how long a broadcast is remembered: its epoch, the window after it, and clocks that differ.
const BROADCAST_SECONDS: u64 = (1 + Epoch::WINDOW) * Epoch::SECONDS + 3 * CLOCK_SKEW;

/// By what both ends of a broadcast are known to belong together, for a radio frame has no id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Broadcast {
    /// Whose item it brings.
    pub owner: DeviceId,
    /// Which: the number of an opening.
    pub opening: u32,
    /// For whom.
    pub receiver: DeviceId,
    /// Under which policy.
    pub policy: PolicyId,
    /// When it was released.
    pub epoch: Epoch,
}

/// Broadcasts under way.
#[derive(Debug, Default)]
pub struct Air {
    /// By the numbers of the devices.
    senders: Vec<Sender>,
    /// Who has sent something, and until when it is remembered, once for each sheet. Times come almost in order, so the order of
    /// sending is good enough.
    due: VecDeque<(Time, DeviceId)>,
    count: usize,
}

#[derive(Debug, Default)]
struct Sender {
    /// What it has sent, the oldest first, and until when that is remembered.
    sheets: VecDeque<(Time, Sheet)>,
    /// How many sheets were forgotten before these.
    forgotten: u64,
    /// To whom, the oldest first.
    sent: HashMap<DeviceId, VecDeque<Sent>>,
}

#[derive(Debug)]
struct Sent {
    opening: u32,
    policy: PolicyId,
    epoch: Epoch,
    /// How many sheets of the sender came before the one that it is on, and its place there.
    sheet: u64,
    place: u32,
}

impl Air {
    /// A broadcast leaves, which stands at this place of a sheet. If others are forgotten although they might still arrive, their
    /// senders are noted.
    pub fn send(
        &mut self,
        broadcast: &Broadcast,
        (sheet, place): (&Sheet, u32),
        now: Time,
        lossy: &mut HashSet<DeviceId>,
    ) {
        let Broadcast { owner, opening, receiver, policy, epoch } = *broadcast;
        if owner.index() >= self.senders.len() {
            self.senders.resize_with(owner.index() + 1, Sender::default);
        }
        let Some(sender) = self.senders.get_mut(owner.index()) else { return };
        let until = Time::from_unix(now.unix().saturating_add(BROADCAST_SECONDS));
        match sender.sheets.back_mut() {
            Some((known, last)) if Arc::ptr_eq(last, sheet) => *known = until,
            _ => {
                sender.sheets.push_back((until, Arc::clone(sheet)));
                self.due.push_back((until, owner));
            }
        }
        let sheet = sender.forgotten + sender.sheets.len() as u64 - 1;
        let between = sender.sent.entry(receiver).or_default();
        between.push_back(Sent { opening, policy, epoch, sheet, place });
        self.count += 1;
        if between.len() > MAX_BETWEEN_TWO {
            between.pop_front();
            self.count -= 1;
            lossy.insert(owner);
        }
        self.forget(now, lossy);
    }

    /// What was sent so. If it was more than once, the last.
    pub fn find(&self, broadcast: &Broadcast) -> Option<Letter> {
        let sender = self.senders.get(broadcast.owner.index())?;
        let Sent { sheet, place, .. } = sender.find(broadcast)?;
        let (_, sheet) = sender.sheets.get(usize::try_from(sheet.checked_sub(sender.forgotten)?).ok()?)?;
        Letter::of(sheet, *place)
    }

    /// Whether it was sent.
    pub fn has(&self, broadcast: &Broadcast) -> bool {
        self.senders.get(broadcast.owner.index()).is_some_and(|sender| sender.find(broadcast).is_some())
    }

    /// Forgets what can no longer be accepted, and if there is still too much, what was sent first.
    fn forget(&mut self, now: Time, lossy: &mut HashSet<DeviceId>) {
        while let Some((until, owner)) = self.due.front().copied() {
            let is_full = self.count > MAX_IN_FLIGHT;
            if until > now && !is_full {
                break;
            }
            self.due.pop_front();
            let Some(sender) = self.senders.get_mut(owner.index()) else { continue };
            match sender.sheets.front() {
                // More was written on it meanwhile.
                Some((until, _)) if *until > now && !is_full => self.due.push_back((*until, owner)),
                _ => {
                    self.count -= sender.forget_first();
                    if until > now {
                        lossy.insert(owner);
                    }
                }
            }
        }
    }
}

impl Sender {
    fn find(&self, broadcast: &Broadcast) -> Option<&Sent> {
        let Broadcast { opening, policy, epoch, .. } = *broadcast;
        let is_it = |sent: &&Sent| (sent.policy, sent.epoch, sent.opening) == (policy, epoch, opening);
        self.sent.get(&broadcast.receiver)?.iter().rev().find(is_it)
    }

    /// The first sheet is forgotten. Returns how many broadcasts were on it.
    fn forget_first(&mut self) -> usize {
        self.sheets.pop_front();
        self.forgotten += 1;
        let mut count = 0;
        self.sent.retain(|_, between| {
            while between.front().is_some_and(|sent| sent.sheet < self.forgotten) {
                between.pop_front();
                count += 1;
            }
            !between.is_empty()
        });
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::OnceLock;

    use pilot_core::evidence::envelope::ChainHead;
    use pilot_core::graph::MessageKind;

    use crate::audit::mail::{self, Drafts, Part, Whom};

    fn broadcast(receiver: usize, epoch: u64) -> Broadcast {
        let device = DeviceId::from_index;
        let (policy, epoch) = (PolicyId::from_index(0), Epoch(epoch));
        Broadcast { owner: device(0), opening: 0, receiver: device(receiver), policy, epoch }
    }

    /// On a sheet each, or all on one. Whether any others of the same sender were lost.
    fn send(air: &mut Air, all: &[(Broadcast, u64)], is_one_sheet: bool) -> bool {
        let mut lossy = HashSet::new();
        for (number, some) in all.chunks(if is_one_sheet { all.len() } else { 1 }).enumerate() {
            let mut drafts = Drafts::default();
            for (broadcast, _) in some {
                let (kind, sender, receiver) =
                    (MessageKind::Broadcast, broadcast.owner, Whom::Known(broadcast.receiver));
                let (part, hash) =
                    (Some(Part::Released(broadcast.epoch, None)), ChainHead([u8::try_from(number).unwrap(); 32]));
                let (policy, opening, vouch) = (None, Some(broadcast.opening), OnceLock::new());
                drafts.add(mail::Sent { kind, sender, receiver, policy, hash, part, opening, vouch });
            }
            let sheets = drafts.take();
            for (place, (broadcast, seconds)) in (0..).zip(some) {
                let place = (sheets.of(MessageKind::Broadcast), place);
                air.send(broadcast, place, Time::from_unix(*seconds), &mut lossy);
            }
        }
        lossy.contains(&DeviceId::from_index(0))
    }

    /// The last one counts, and each only for its receiver and its epoch.
    #[test]
    fn the_last_one_is_found() {
        let mut air = Air::default();
        let all = [(broadcast(1, 0), 0), (broadcast(2, 0), 1), (broadcast(1, 0), 2), (broadcast(1, 1), 70)];
        assert!(!send(&mut air, &all, false));
        let number = |broadcast: Broadcast| air.find(&broadcast).map(|letter| letter.hash.0[0]);
        assert_eq!(number(broadcast(1, 0)), Some(2));
        assert_eq!(number(broadcast(2, 0)), Some(1));
        assert_eq!(number(broadcast(1, 1)), Some(3));
        assert_eq!((number(broadcast(2, 1)), number(broadcast(3, 0))), (None, None));
        assert!(air.has(&broadcast(1, 1)) && !air.has(&broadcast(2, 1)));
    }

    /// A sheet is remembered as long as the last broadcast on it.
    #[test]
    fn what_is_too_old_is_forgotten() {
        for is_one_sheet in [true, false] {
            let mut air = Air::default();
            let late = BROADCAST_SECONDS - 1;
            assert!(!send(&mut air, &[(broadcast(1, 0), 0), (broadcast(2, 0), late)], is_one_sheet));
            assert!(!send(&mut air, &[(broadcast(3, 0), late + 1)], true));
            assert_eq!(air.has(&broadcast(1, 0)), is_one_sheet);
            assert!(air.has(&broadcast(2, 0)));
            assert!(!send(&mut air, &[(broadcast(4, 0), 2 * late + 2)], true));
            assert!(!air.has(&broadcast(1, 0)) && !air.has(&broadcast(2, 0)));
            assert_eq!((air.count, air.due.len(), air.senders[0].sheets.len()), (1, 1, 1));
        }
    }

    /// Memory is bounded, and what is lost by that is said.
    #[test]
    fn not_too_many_are_remembered() {
        let mut air = Air::default();
        let all = vec![(broadcast(1, 0), 0); 2];
        assert!((0..MAX_BETWEEN_TWO / 2).all(|_| !send(&mut air, &all, true)));
        assert!(send(&mut air, &all, true));
        assert_eq!(air.count, MAX_BETWEEN_TWO);

        let mut air = Air::default();
        assert!(!send(&mut air, &all, true) && !send(&mut air, &all, true));
        air.count += MAX_IN_FLIGHT - 4;
        assert!(send(&mut air, &[(broadcast(2, 0), 0)], true));
        assert_eq!(air.count, MAX_IN_FLIGHT - 1, "without those of the first sheet");
        assert!(air.has(&broadcast(1, 0)) && air.has(&broadcast(2, 0)));
    }
}
