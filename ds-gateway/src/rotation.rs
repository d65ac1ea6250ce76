//! What is on the air, and for how long: one frame at a time, or as many as the radio can send, each in its turn.
//!
//! The order is shuffled each period. The set of accepted policies is a fingerprint of a person, and an order that stays the
//! same would make it a clearer one.

use std::collections::BTreeMap;

use mesh_runtime::air::FrameBytes;
use mesh_runtime::air::frame::Kind;
use pilot_core::codec::Digest;
use pilot_core::evidence::DeviceName;
use pilot_core::semantics::Epoch;
use pilot_core::value::Time;
use pilot_core::vocabulary::DeviceId;

/// A broadcast that was recorded, as a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    /// The controller's name.
    pub name: DeviceName,
    /// The controller's policy.
    pub policy: Digest,
    /// When it was released.
    pub epoch: Epoch,
    /// What sort of frame it is.
    pub kind: Kind,
    /// What to advertise.
    pub frame: FrameBytes,
}

/// Frames that take turns. At most one per controller, so there are no more than devices in the mesh.
#[derive(Debug)]
pub struct Rotation {
    announcements: BTreeMap<DeviceId, Announcement>,
    /// Who comes next, last first.
    turns: Vec<DeviceId>,
    on_air: Vec<DeviceId>,
    /// When the turn of those ends.
    until: Option<Time>,
    seconds: u64,
    chance: fastrand::Rng,
}

impl Rotation {
    /// Nothing to say yet; each frame will have its turn for so long.
    pub const fn new(seconds: u64, chance: fastrand::Rng) -> Self {
        Self { announcements: BTreeMap::new(), turns: Vec::new(), on_air: Vec::new(), until: None, seconds, chance }
    }

    /// Something new to say for a controller; it replaces what was said before.
    pub fn announce(&mut self, controller: DeviceId, announcement: Announcement) {
        self.announcements.insert(controller, announcement);
    }

    /// What there is to say for a controller.
    pub fn announcement(&self, controller: DeviceId) -> Option<&Announcement> {
        self.announcements.get(&controller)
    }

    /// Everything there is to say, whether or not it may be said at the moment.
    pub fn announcements(&self) -> impl Iterator<Item = (DeviceId, &Announcement)> {
        self.announcements.iter().map(|(controller, announcement)| (*controller, announcement))
    }

    /// Whose frames are to be on the air now, at most `sets`, and which; `may` says whether a frame may still be. What is
    /// stale is forgotten.
    pub fn turn(
        &mut self,
        now: Time,
        sets: usize,
        may: impl Fn(DeviceId, &Announcement) -> bool,
    ) -> Vec<(DeviceId, FrameBytes)> {
        self.announcements.retain(|_, announcement| announcement.epoch.is_fresh_at(now));
        let allowed = |controller: DeviceId| {
            let announcement = self.announcements.get(&controller).filter(|announcement| may(controller, announcement));
            announcement.map(|announcement| (controller, announcement.frame))
        };
        // A clock that was set back must not keep one frame on the air for ever.
        let is_turn = |until: &Time| now < *until && until.unix().saturating_sub(now.unix()) <= self.seconds;
        self.until = self.until.filter(is_turn);
        let mut said: Vec<_> = match self.until {
            Some(_) => self.on_air.iter().filter_map(|controller| allowed(*controller)).take(sets).collect(),
            None => Vec::new(),
        };
        // Twice: what is left of this period, then a whole new one.
        for _ in 0..2 {
            while said.len() < sets
                && let Some(controller) = self.turns.pop()
            {
                if !said.iter().any(|(on_air, _)| *on_air == controller) {
                    said.extend(allowed(controller));
                }
            }
            if said.len() >= sets {
                break;
            }
            self.turns = self.announcements.keys().copied().collect();
            self.chance.shuffle(&mut self.turns);
        }
        self.on_air = said.iter().map(|(controller, _)| *controller).collect();
        let end = || Time::from_unix(now.unix().saturating_add(self.seconds));
        self.until = if said.is_empty() { None } else { Some(self.until.unwrap_or_else(end)) };
        said
    }

    /// When the next frames take their turn; `None` while nothing is on the air.
    pub const fn next_turn(&self) -> Option<Time> {
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    use pilot_core::vocabulary::Id as _;

    const START: Time = Time::from_unix(1_704_153_600);

    fn rotation(controllers: usize) -> Rotation {
        let mut rotation = Rotation::new(1, fastrand::Rng::with_seed(7));
        let frame = FrameBytes::new(b"frame").unwrap();
        let name = DeviceName::new("gate").unwrap();
        let announcement =
            Announcement { name, policy: Digest([1; 32]), epoch: Epoch::of(START), kind: Kind::Legacy, frame };
        (0..controllers).for_each(|at| rotation.announce(DeviceId::from_index(at), announcement.clone()));
        rotation
    }

    fn at(second: u64) -> Time {
        Time::from_unix(START.unix() + second)
    }

    fn heard(rotation: &mut Rotation, seconds: std::ops::Range<u64>, refused: Option<usize>) -> Vec<usize> {
        let may = |controller: DeviceId, _: &Announcement| Some(controller.index()) != refused;
        let turns = seconds.flat_map(|second| rotation.turn(at(second), 1, may));
        turns.map(|(controller, _)| controller.index()).collect()
    }

    /// In each period everybody has one turn, in an order that changes.
    #[test]
    fn everybody_has_a_turn_in_changing_order() {
        let mut rotation = rotation(5);
        let periods: Vec<Vec<usize>> =
            (0..4).map(|period| heard(&mut rotation, period * 5..period * 5 + 5, None)).collect();
        for period in &periods {
            assert_eq!(period.iter().copied().collect::<BTreeSet<_>>().len(), 5, "{periods:?}");
        }
        assert!(periods.windows(2).any(|two| two[0] != two[1]), "{periods:?}");
    }

    /// Who may not be advertised for has no turn, and loses it in the middle.
    #[test]
    fn what_may_not_be_said_is_not_said() {
        let mut rotation = rotation(2);
        let first = rotation.turn(at(0), 1, |_, _| true)[0].0;
        let next = rotation.turn(at(0), 1, |controller, _| controller != first);
        assert!(next[0].0 != first, "at once");
        assert_eq!(rotation.turn(at(0), 1, |_, _| false), []);
        assert_eq!(rotation.next_turn(), None);
        assert_eq!(heard(&mut rotation, 1..4, Some(0)), [1, 1, 1]);
    }

    /// With several sets, turns are shared: everybody is heard sooner, and nobody twice at a time.
    #[test]
    fn several_sets_share_the_turns() {
        let mut few = rotation(2);
        for second in 0..10 {
            assert_eq!(few.turn(at(second), 4, |_, _| true).len(), 2, "all of them, always");
        }
        let mut many = rotation(6);
        let mut seen = BTreeSet::new();
        for second in 0..2 {
            let said = many.turn(at(second), 3, |_, _| true);
            assert_eq!(said.len(), 3);
            // Within the turn, nothing changes.
            assert_eq!(many.turn(at(second), 3, |_, _| true), said);
            seen.extend(said.iter().map(|(controller, _)| controller.index()));
        }
        assert_eq!(seen.len(), 6);
        let one = many.turn(at(1), 1, |_, _| true);
        assert_eq!(one.len(), 1, "a radio may lose its sets");
    }

    /// Frames that nobody would accept any more are not sent.
    #[test]
    fn stale_frames_are_forgotten() {
        let mut rotation = rotation(1);
        assert_eq!(rotation.turn(at(Epoch::SECONDS * Epoch::WINDOW), 1, |_, _| true).len(), 1);
        assert_eq!(rotation.turn(at(Epoch::SECONDS * (Epoch::WINDOW + 1)), 1, |_, _| true), []);
        assert_eq!(rotation.announcements().count(), 0);
    }
}
