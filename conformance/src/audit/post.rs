//! The post: knows what was sent and who has vouched for what, and tells judges where what arrives came from.
//!
//! It goes by what traces say, in the order of the merge; whether they say the truth, each trace's judge finds out. So the
//! post is all that judges have in common, and it is quick.

use hashbrown::HashSet;
use pilot_core::semantics::PolicyId;
use pilot_core::value::Time;
use pilot_core::vocabulary::DeviceId;

use super::facts::Facts;
use super::mail::{self, CLOCK_SKEW, Key, Letter, Mail, Sheets, Whom};
use super::note::{Arrival, Deed, ENDS, Leaving, Note, Offered};
use super::replay::Last;
use super::seal::Sealed;

/// What is known of the other end of a record's message, if it has one.
#[derive(Debug)]
pub enum Origin {
    /// There is no other end, or it makes no difference.
    Nothing,
    /// It was sent so.
    Matched(Letter),
    /// An upload or a request that was vouched for; the very one, if that is known.
    Uploaded(Option<Letter>),
    /// The sender's trace is here, and does not have it.
    Missing,
    /// Nobody can tell: what is not judged, and why.
    Unjudged(&'static str, &'static str),
}

/// Whether a controller has said that it works under a policy (S17).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Voucher {
    /// It has.
    Given,
    /// It may have.
    Presumed(&'static str),
    /// It has not.
    Lacking,
}

/// What the post tells a judge about a message that arrives.
#[derive(Debug)]
pub struct Mark {
    /// Where it came from.
    pub origin: Origin,
    /// For each policy that it takes over, in their order; empty if every one is vouched for.
    pub vouchers: Vec<Voucher>,
}

impl Mark {
    /// For a record that comes from nowhere.
    pub const NOTHING: Self = Self { origin: Origin::Nothing, vouchers: Vec::new() };

    /// Whether what was vouched for when its message left is not said yet.
    pub fn is_early(&self) -> bool {
        matches!(&self.origin, Origin::Matched(sent) if !sent.is_judged())
    }
}

/// What a record waits for, from a device whose trace is here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// What it is.
    pub what: Needed,
    /// The place of that trace.
    pub from: usize,
    /// Whether it may come at any time.
    is_lasting: bool,
}

/// What a record can wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Needed {
    /// That it sends this.
    Message(Key),
    /// That it says that it works under this policy. The message that tells of it comes after that, but may be missing.
    Voucher((DeviceId, PolicyId)),
}

/// No moment is later.
const NEVER: Time = Time::from_unix(u64::MAX);

impl Need {
    /// Whether it is a radio frame, which says nothing of its sender's trace.
    pub const fn is_frame(&self) -> bool {
        matches!(self.what, Needed::Message(Key::Broadcast(_)))
    }
}

/// How a trace stands, as far as the other end of its messages is concerned.
#[derive(Debug)]
struct Standing {
    device: Option<DeviceId>,
    begin: Time,
    /// Until when it is sealed, and whether it was closed there.
    until: Time,
    is_closed: bool,
    /// If the beginning is missing, or the device had another key before: until when nothing is known of it, which is when
    /// another run begins.
    unknown_until: Option<Time>,
    is_resuming: bool,
    last: Last,
    /// The next thing that concerns others is the beginning of another run, this one was not closed, and this is the time of
    /// its last record.
    interrupted_at: Option<Time>,
    /// From when to when it was not known what the device does, for each run that was interrupted.
    gaps: Vec<(Time, Time)>,
}

impl Standing {
    /// Gaps that are close to each other count as one, so that there are not many.
    fn was_interrupted(&mut self, from: Time, to: Time) {
        match self.gaps.last_mut() {
            Some((begin, end)) if *begin <= from && from.unix() <= end.unix().saturating_add(2 * CLOCK_SKEW) => {
                *end = to.max(*end);
            }
            _ => self.gaps.push((from, to)),
        }
    }
}

/// The post.
pub struct Post<'v> {
    facts: &'v Facts<'v>,
    standings: Vec<Standing>,
    mail: Mail,
    /// Under which policies controllers have said that they work (S17).
    vouched: HashSet<(DeviceId, PolicyId)>,
}

impl<'v> Post<'v> {
    /// Nothing is under way.
    pub fn new(traces: &[Sealed], facts: &'v Facts<'v>) -> Self {
        let standing = |(at, trace): (usize, &Sealed)| {
            let device = trace.device().and_then(|name| facts.device(name));
            // A device may have ended another trace then.
            let has_begun_anew = device.is_some_and(|device| facts.has_begun_anew(device, at));
            let had_another_key = device.is_some_and(|device| !has_begun_anew && facts.had_another_key(device));
            let first = Some(trace.period.0).filter(|_| had_another_key);
            Standing {
                device,
                begin: trace.period.0,
                until: trace.period.1,
                is_closed: trace.is_closed(),
                unknown_until: if trace.standing.first != 0 { Some(NEVER) } else { first },
                is_resuming: false,
                last: Last::default(),
                interrupted_at: None,
                gaps: if has_begun_anew { vec![(trace.period.0, trace.period.0)] } else { Vec::new() },
            }
        };
        let standings = traces.iter().enumerate().map(standing).collect();
        Self { facts, standings, mail: Mail::default(), vouched: HashSet::new() }
    }

    /// What a record waits for that is not here yet, and `may_come`: who received something comes after who sent it.
    pub fn need(&self, at: usize, note: &Note, may_come: impl Fn(&Need) -> bool) -> Option<Need> {
        let device = self.standings.get(at).and_then(|standing| standing.device);
        let is_for_others = |key: &Key| matches!(key, Key::Broadcast(broadcast) if Some(broadcast.receiver) != device);
        let (message, offers) = match &note.deed {
            Deed::Receive(Arrival { kind, key, from, offers, .. }) => {
                // Whoever took what was released to somebody else did wrong whenever that was.
                let key = key.filter(|key| !is_for_others(key));
                let is_lasting = mail::is_lasting(*kind);
                let message = key.zip(*from).map(|(key, from)| Need { what: Needed::Message(key), from, is_lasting });
                (message, offers)
            }
            Deed::Restore(offers) => (None, offers),
            _ => return None,
        };
        let voucher = |(device, policy): &Offered| {
            let from = self.facts.trace((*device)?, note.time)?;
            Some(Need { what: Needed::Voucher(device.zip(*policy)?), from, is_lasting: false })
        };
        let mut needs = message.into_iter().chain(offers.iter().filter_map(voucher));
        needs.find(|need| !self.is_met(need) && may_come(need))
    }

    /// Whether what a record waits for is here.
    pub fn is_met(&self, need: &Need) -> bool {
        match &need.what {
            Needed::Message(key) => self.mail.has(key),
            Needed::Voucher(vouch) => self.vouched.contains(vouch),
        }
    }

    /// Whether nothing follows if what was waited for does not come, because it may be missing from its sender's trace.
    pub fn may_be_missing(&self, need: &Need, time: Time) -> bool {
        self.gap(need.from, time, need.is_lasting).is_some()
    }

    /// A record of a trace has its turn: what leaves is under way from now on, and what arrives is looked up.
    pub fn handle(&mut self, at: usize, note: Note, sheets: &Sheets) -> Option<Mark> {
        let Note { time, deed } = note;
        self.note_run(at, &deed, time);
        match deed {
            Deed::Open { .. } | Deed::Close { .. } | Deed::Resume(_) | Deed::Begun => None,
            Deed::Restore(offers) => Some(Mark { origin: Origin::Nothing, vouchers: self.vouchers(&offers, time) }),
            Deed::Send(Leaving { key, vouch }) => {
                self.vouched.extend(vouch);
                if let Some((key, place)) = key {
                    self.mail.send(key, sheets, place, time);
                }
                None
            }
            Deed::Receive(arrival) => {
                let vouchers = self.vouchers(&arrival.offers, time);
                Some(Mark { origin: self.origin(at, &arrival, time), vouchers })
            }
        }
    }

    /// Follows how the runs of a device begin and end.
    fn note_run(&mut self, at: usize, deed: &Deed, time: Time) {
        let Some(standing) = self.standings.get_mut(at) else { return };
        match deed {
            Deed::Resume(published) => {
                standing.is_resuming = true;
                if let (Some(NEVER), Some(device)) = (standing.unknown_until, standing.device) {
                    // Nobody can tell when it was published.
                    self.vouched.extend(published.iter().map(|policy| (device, *policy)));
                }
                return;
            }
            Deed::Open { seen } => {
                if standing.last == Last::Running {
                    standing.was_interrupted(*seen, time);
                }
                standing.last = Last::Running;
                // From now on the gap says so, and only around it.
                standing.interrupted_at = None;
            }
            Deed::Close { continues } => {
                standing.last = if *continues { Last::Continues } else { Last::Stopped };
            }
            Deed::Begun | Deed::Restore(_) | Deed::Send(_) | Deed::Receive(_) => {}
        }
        if std::mem::take(&mut standing.is_resuming) && standing.unknown_until == Some(NEVER) {
            standing.unknown_until = Some(time);
        }
    }

    /// The next thing that concerns others is that a device begins to run, and the last thing before that it did at this time.
    /// If its run was not closed, it is not known what it did then.
    pub fn opens_next(&mut self, at: usize, seen: Time) {
        if let Some(standing) = self.standings.get_mut(at) {
            standing.interrupted_at = Some(seen).filter(|_| standing.last == Last::Running);
        }
    }

    /// The other end of a message.
    fn origin(&mut self, at: usize, arrival: &Arrival, time: Time) -> Origin {
        let Arrival { kind, key, from, unjudged, vouch, .. } = arrival;
        if let Some((key, sent)) = key.and_then(|key| Some((key, self.mail.find(&key)?))) {
            match *vouch {
                None => {
                    // Others may say that they have got it; it is still under way to whom it is for.
                    let device = self.standings.get(at).and_then(|standing| standing.device);
                    let is_its = sent.receiver == Whom::Anonymous || device.map(Whom::Known) == Some(sent.receiver);
                    if let Key::Envelope(key) = key
                        && is_its
                        && mail::is_lasting(sent.kind)
                    {
                        self.mail.arrived(key, time);
                    }
                    return Origin::Matched(sent);
                }
                Some(vouch) if sent.kind == *kind && vouch == (Some(sent.sender), sent.policy) => {
                    return Origin::Uploaded(Some(sent));
                }
                // An id of another message vouches for nothing.
                Some(_) => {}
            }
        }
        let Some(from) = *from else { return Origin::Unjudged(unjudged.0, unjudged.1) };
        // Uploads and requests are vouched for once and for all, so any of them will do (S17).
        let vouch = vouch.and_then(|(device, policy)| device.zip(policy));
        if vouch.is_some_and(|vouch| self.vouched.contains(&vouch)) {
            return Origin::Uploaded(None);
        }
        // That a message is not in the trace of its sender says something only if nothing is missing there.
        self.gap(from, time, mail::is_lasting(*kind)).map_or(Origin::Missing, |why| Origin::Unjudged(ENDS, why))
    }

    /// Why something that arrived by this time may be missing from the trace of its sender.
    fn gap(&self, from: usize, time: Time, is_lasting: bool) -> Option<&'static str> {
        let standing = self.standings.get(from)?;
        let is_recent = |until: Time| time.unix() <= until.unix().saturating_add(CLOCK_SKEW);
        if standing.unknown_until.is_some_and(|until| is_lasting || is_recent(until)) {
            Some("the beginning of the sender's trace is missing")
        } else if time.unix().saturating_add(CLOCK_SKEW) < standing.begin.unix() {
            Some("the sender's trace begins after that")
        } else if !standing.is_closed && time.unix().saturating_add(CLOCK_SKEW) >= standing.until.unix() {
            Some("the sender's trace is open or damaged at its end")
        } else if time.unix() > standing.until.unix().saturating_add(CLOCK_SKEW) {
            Some("the sender's trace ends before that, and may have gone on")
        } else if standing.device.is_some_and(|sender| self.mail.has_lost(sender)) {
            Some("too many of the sender's messages were under way")
        } else {
            self.interruption(from, time)
        }
    }

    /// Whether a device was interrupted around this time: the last records before that may be lost.
    fn interruption(&self, from: usize, time: Time) -> Option<&'static str> {
        let standing = self.standings.get(from)?;
        let now = time.unix();
        let is_near = |(from, to): &(Time, Time)| {
            from.unix().saturating_sub(CLOCK_SKEW) <= now && now <= to.unix().saturating_add(CLOCK_SKEW)
        };
        let since = standing.interrupted_at;
        let is_interrupted = since.is_some_and(|since| since.unix().saturating_sub(CLOCK_SKEW) <= now)
            || standing.gaps.iter().any(is_near);
        is_interrupted.then_some("the sender was interrupted at that time")
    }

    /// Whether controllers have vouched for their policies, as far as their traces are here.
    fn vouchers(&self, offers: &[Offered], time: Time) -> Vec<Voucher> {
        let voucher = |(device, policy): &Offered| {
            if device.zip(*policy).is_some_and(|offer| self.vouched.contains(&offer)) {
                return Voucher::Given;
            }
            let why = match device.and_then(|device| self.facts.trace(device, time)) {
                None => Some("the controller's trace is not here, or is damaged"),
                Some(from) => self.gap(from, time, false),
            };
            why.map_or(Voucher::Lacking, Voucher::Presumed)
        };
        if offers.iter().all(|offer| voucher(offer) == Voucher::Given) {
            return Vec::new();
        }
        offers.iter().map(voucher).collect()
    }
}
