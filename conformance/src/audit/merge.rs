//! The causal merge: an order of the records of all traces in which every message is sent before it is received.
//!
//! Traces are followed by their clocks, the earliest record first. A record that waits for another trace is held back until
//! that trace has come to it, or so far beyond that it will not come any more ([`CLOCK_SKEW`]). Nothing is stored for that:
//! a trace that waits is not read on.
//!
//! The order depends on what the traces say, and on nothing else: not on how many judges there are, nor how fast they are.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::atomic::{AtomicU64, Ordering};

use pilot_core::value::Time;

use super::judges::{Desks, Feed};
use super::mail::CLOCK_SKEW;
use super::note::Deed;
use super::post::{Need, Post};

/// How many records have had their turn before progress is reported.
const REPORT_EVERY: u64 = 4096;

/// Gives every record its turn.
pub fn merge(mut post: Post<'_>, feeds: Vec<Feed>, desks: Desks, judged: &AtomicU64) {
    let mut merge = Merge::new(feeds, desks);
    let mut count = 0;
    while merge.next(&mut post) {
        count += 1;
        if count % REPORT_EVERY == 0 {
            judged.store(count, Ordering::Relaxed);
        }
    }
    merge.desks.flush();
    judged.store(count, Ordering::Relaxed);
}

struct Merge {
    feeds: Vec<Feed>,
    desks: Desks,
    /// The time of each trace's next record; `None` at its end.
    next: Vec<Option<Time>>,
    /// Traces whose next record can have its turn, the earliest first.
    ready: BinaryHeap<Reverse<(Time, usize)>>,
    /// For each trace, who waits for it.
    waiting: Vec<Vec<Waiting>>,
    /// Everybody who waits, the earliest first.
    held: BTreeSet<(Time, usize)>,
    /// Who has waited long enough.
    is_patient: Vec<bool>,
}

#[derive(Clone, Copy)]
struct Waiting {
    trace: usize,
    time: Time,
    need: Need,
}

impl Merge {
    fn new(mut feeds: Vec<Feed>, mut desks: Desks) -> Self {
        let first = |feed: &mut Feed| feed.peek(&mut desks).map(|note| note.time);
        let next: Vec<Option<Time>> = feeds.iter_mut().map(first).collect();
        let ready = next.iter().enumerate().filter_map(|(at, time)| Some(Reverse(((*time)?, at)))).collect();
        let waiting = vec![Vec::new(); feeds.len()];
        let is_patient = vec![true; feeds.len()];
        Self { feeds, desks, next, ready, waiting, held: BTreeSet::new(), is_patient }
    }

    /// Gives one record its turn; `false` when there is none left.
    fn next(&mut self, post: &mut Post<'_>) -> bool {
        loop {
            let earliest = self.ready.peek().map(|Reverse((time, _))| *time);
            // Whoever waits much longer than clocks can differ waits in vain: its sender waits, too.
            let is_late = |(time, _): &(Time, usize)| {
                earliest.is_none_or(|earliest| time.unix().saturating_add(2 * CLOCK_SKEW) < earliest.unix())
            };
            if let Some((time, at)) = self.held.first().copied().filter(is_late) {
                self.release(at, time);
                continue;
            }
            let Some(Reverse((time, at))) = self.ready.peek().copied() else { return false };
            let Some(feed) = self.feeds.get_mut(at) else { return false };
            let Some(note) = feed.peek(&mut self.desks) else {
                self.ready.pop();
                continue;
            };
            if let Some(need) = post.need(note).filter(|need| !post.is_met(need)) {
                let sender = self.next.get(need.from).copied().flatten();
                let patience = post.patience(&need);
                let may_come = sender.is_some_and(|next| next.unix() <= time.unix().saturating_add(patience));
                let is_patient = self.is_patient.get(at).copied().unwrap_or(false);
                if may_come && is_patient && need.from != at {
                    self.ready.pop();
                    self.hold(Waiting { trace: at, time, need });
                    continue;
                }
            }
            if let Some(note) = feed.take() {
                let mark = post.handle(at, note);
                feed.order(mark, &mut self.desks);
            }
            self.advance(at, post);
            return true;
        }
    }

    /// The first record of those that are ready has had its turn.
    fn advance(&mut self, at: usize, post: &mut Post<'_>) {
        let Some(feed) = self.feeds.get_mut(at) else { return };
        let next = feed.peek(&mut self.desks).map(|note| {
            if matches!(note.deed, Deed::Open) {
                post.opens_next(at);
            }
            note.time
        });
        if let (Some(known), Some(is_patient)) = (self.next.get_mut(at), self.is_patient.get_mut(at)) {
            (*known, *is_patient) = (next, true);
        }
        // It stays the first if nobody else is earlier: to put another in its place costs less than to take it out.
        if let Some(mut first) = self.ready.peek_mut() {
            match next {
                Some(time) => *first = Reverse((time, at)),
                None => drop(PeekMut::pop(first)),
            }
        }
        let Some(waiting) = self.waiting.get_mut(at).filter(|waiting| !waiting.is_empty()) else { return };
        let is_over = |one: &Waiting| {
            let until = one.time.unix().saturating_add(post.patience(&one.need));
            post.is_met(&one.need) || next.is_none_or(|next| next.unix() > until)
        };
        waiting.retain(|one| {
            let is_released = is_over(one);
            if is_released {
                self.held.remove(&(one.time, one.trace));
                self.ready.push(Reverse((one.time, one.trace)));
            }
            !is_released
        });
    }

    fn hold(&mut self, waiting: Waiting) {
        self.held.insert((waiting.time, waiting.trace));
        if let Some(list) = self.waiting.get_mut(waiting.need.from) {
            list.push(waiting);
        }
    }

    /// Nobody is waited for any more.
    fn release(&mut self, at: usize, time: Time) {
        self.held.remove(&(time, at));
        for list in &mut self.waiting {
            list.retain(|waiting| waiting.trace != at);
        }
        if let Some(known) = self.is_patient.get_mut(at) {
            *known = false;
        }
        self.ready.push(Reverse((time, at)));
    }
}
