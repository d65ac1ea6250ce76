//! Looks ahead in traces: whether what somebody waits for is still to come.
//!
//! Where traces wait for each other in a circle, something that is waited for is not in its sender's trace at all, for nothing
//! is received before it is sent. Which it is, only reading on tells; otherwise somebody who invents a message would make others
//! look as if they had. Circles are rare, so nothing is kept for them: a trace is read once more, once for all of them.

use std::collections::VecDeque;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use pilot_core::value::Time;

use super::facts::Facts;
use super::feed::{self, Cursor};
use super::mail::CLOCK_SKEW;
use super::note::{Deed, Leaving, Scribe};
use super::post::{Need, Needed};
use super::seal::Sealed;

/// How long something is remembered that somebody may wait for, in seconds: longer than any circle lasts.
const KEPT_SECONDS: u64 = 4 * CLOCK_SKEW;
/// The most that is remembered of a trace. When there is more, whatever is waited for from it is thought to come.
const MAX_AHEAD: usize = 1 << 16;
/// How many records are read at once.
const BATCH: usize = 64;

/// Who looks ahead.
pub struct Scouts<'v> {
    traces: &'v [Sealed],
    facts: &'v Facts<'v>,
    scouts: HashMap<usize, Scout>,
}

/// A reader of one trace that is ahead of the merge.
struct Scout {
    cursor: Cursor,
    scribe: Scribe,
    /// The time of the last record that was read; `None` at the end.
    seen: Option<Time>,
    /// When it does what, the last time.
    known: HashMap<Needed, Time>,
    order: VecDeque<(Time, Needed)>,
}

impl<'v> Scouts<'v> {
    /// Nobody has looked yet.
    pub fn new(traces: &'v [Sealed], facts: &'v Facts<'v>) -> Self {
        Self { traces, facts, scouts: HashMap::new() }
    }

    /// Whether what a record waits for that was made at this time comes before its patience is over.
    pub fn will_come(&mut self, need: &Need, time: Time) -> bool {
        let (traces, facts) = (self.traces, self.facts);
        let Some(trace) = traces.get(need.from) else { return false };
        let scout = match self.scouts.entry(need.from) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(vacant) => match Scout::new(trace, traces.len(), facts) {
                Some(scout) => vacant.insert(scout),
                None => return false,
            },
        };
        let until = Time::from_unix(time.unix().saturating_add(CLOCK_SKEW));
        let since = Time::from_unix(time.unix().saturating_sub(KEPT_SECONDS));
        scout.forget(since);
        while scout.seen.is_some_and(|seen| seen <= until) && scout.order.len() < MAX_AHEAD {
            scout.read_on(facts);
            scout.forget(since);
        }
        let is_cut_short = scout.seen.is_some_and(|seen| seen <= until);
        is_cut_short || scout.known.contains_key(&need.what)
    }
}

impl Scout {
    /// At the beginning of a trace; none if nobody judges it.
    fn new(trace: &Sealed, traces: usize, facts: &Facts<'_>) -> Option<Self> {
        let device = facts.device(trace.device()?)?;
        let (cursor, scribe) = (Cursor::new(trace, feed::piece(traces)), Scribe::new(device));
        Some(Self { cursor, scribe, seen: Some(Time::default()), known: HashMap::new(), order: VecDeque::new() })
    }

    fn read_on(&mut self, facts: &Facts<'_>) {
        for _ in 0..BATCH {
            // That it cannot be read on, its judge says.
            let Ok(Some((record, hash, _))) = self.cursor.take_next() else {
                self.seen = None;
                break;
            };
            self.seen = Some(record.time);
            self.scribe.note(record, hash, facts);
        }
        for note in self.scribe.take().notes {
            let Deed::Send(Leaving { key, vouch }) = note.deed else { continue };
            let message = key.map(|(key, _)| Needed::Message(key));
            for done in message.into_iter().chain(vouch.map(Needed::Voucher)) {
                self.known.insert(done, note.time);
                self.order.push_back((note.time, done));
            }
        }
    }

    /// What was before that nobody waits for any more.
    fn forget(&mut self, before: Time) {
        while let Some((time, done)) = self.order.front().copied().filter(|(time, _)| *time < before) {
            self.order.pop_front();
            if self.known.get(&done) == Some(&time) {
                self.known.remove(&done);
            }
        }
    }
}
