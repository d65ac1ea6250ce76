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

use hashbrown::HashMap;
use pilot_core::value::Time;

use super::mail::{CLOCK_SKEW, Sheets};
use super::note::{Deed, Note, Notes};
use super::post::{Mark, Need, Post};
use super::scout::Scouts;

/// How many traces are looked at for a circle, as long as others can have their turns.
const MAX_WALK: usize = 64;

/// Where notes come from and marks go to.
pub trait Desk {
    /// More notes of a trace, if there are any yet.
    fn notes(&mut self, trace: usize) -> More;
    /// What the judge of a trace must know of its next message that arrives, or of what it takes over.
    fn mark(&mut self, trace: usize, mark: Mark);
}

/// More notes of a trace.
pub enum More {
    /// These.
    Notes(Notes),
    /// Not yet.
    Later,
    /// There are no more.
    Over,
}

/// The notes of one trace that have not had their turn.
struct Feed {
    notes: std::vec::IntoIter<Note>,
    sheets: Sheets,
    is_over: bool,
}

impl Feed {
    /// Whether it is known what comes next.
    fn is_known(&mut self, trace: usize, desk: &mut impl Desk) -> bool {
        while self.notes.as_slice().is_empty() && !self.is_over {
            match desk.notes(trace) {
                More::Notes(Notes { notes, sheets }) => (self.notes, self.sheets) = (notes.into_iter(), sheets),
                More::Later => return false,
                More::Over => self.is_over = true,
            }
        }
        true
    }

    /// The next note, if it is known.
    fn peek(&self) -> Option<&Note> {
        self.notes.as_slice().first()
    }
}

/// The order, as far as it has come.
pub struct Merge<'v> {
    post: Post<'v>,
    scouts: Scouts<'v>,
    feeds: Vec<Feed>,
    /// Traces of which it is not known what comes next. Until it is, nothing has its turn.
    unknown: Vec<usize>,
    /// Traces whose next note can have its turn, the earliest first.
    ready: BinaryHeap<Reverse<(Time, usize)>>,
    /// For each trace, what its next note waits for, if it does.
    waits: Vec<Option<Waiting>>,
    /// For each trace, who waits for it.
    awaited: Vec<Vec<usize>>,
    /// Everybody who waits, the earliest first.
    held: BTreeSet<(Time, usize)>,
    /// For each trace, of which others its next note expects nothing more.
    given_up: Vec<Vec<usize>>,
}

/// When a note was made that waits, and what for.
#[derive(Clone, Copy)]
struct Waiting {
    time: Time,
    need: Need,
}

impl<'v> Merge<'v> {
    /// Nothing has had its turn yet.
    pub fn new(post: Post<'v>, scouts: Scouts<'v>, traces: usize) -> Self {
        let feed = |_| Feed { notes: Vec::new().into_iter(), sheets: Sheets::default(), is_over: false };
        Self {
            post,
            scouts,
            feeds: (0..traces).map(feed).collect(),
            unknown: (0..traces).collect(),
            ready: BinaryHeap::new(),
            waits: vec![None; traces],
            awaited: vec![Vec::new(); traces],
            held: BTreeSet::new(),
            given_up: vec![Vec::new(); traces],
        }
    }

    /// Gives notes their turns, as many as can have them by now. Whether there were any.
    pub fn go_on(&mut self, desk: &mut impl Desk) -> bool {
        let mut is_any = false;
        while self.is_all_known(desk) && self.give_turn(desk) {
            is_any = true;
        }
        is_any
    }

    /// Whether it is known of every trace what comes next.
    fn is_all_known(&mut self, desk: &mut impl Desk) -> bool {
        while let Some(at) = self.unknown.last().copied() {
            if !self.feeds.get_mut(at).is_none_or(|feed| feed.is_known(at, desk)) {
                return false;
            }
            self.unknown.pop();
            let next = self.see_next(at);
            self.ready.extend(next.map(|time| Reverse((time, at))));
            self.release_who_waits_for(at, next);
        }
        true
    }

    /// It is known what comes next in a trace: its time.
    fn see_next(&mut self, at: usize) -> Option<Time> {
        let note = self.feeds.get(at).and_then(Feed::peek);
        if let Some(Deed::Open { seen }) = note.map(|note| &note.deed) {
            self.post.opens_next(at, *seen);
        }
        let next = note.map(|note| note.time);
        self.given_up.get_mut(at).into_iter().for_each(Vec::clear);
        next
    }

    /// The time of a trace's next note; none at its end.
    fn next_time(&self, trace: usize) -> Option<Time> {
        self.feeds.get(trace)?.peek().map(|note| note.time)
    }

    /// Gives one note its turn; `false` when there is none left.
    fn give_turn(&mut self, desk: &mut impl Desk) -> bool {
        loop {
            let earliest = self.ready.peek().map(|Reverse((time, _))| *time);
            // If somebody waits much longer than clocks can differ, those who are waited for may wait, too.
            let is_late = |(time, _): &(Time, usize)| {
                earliest.is_none_or(|earliest| time.unix().saturating_add(2 * CLOCK_SKEW) < earliest.unix())
            };
            let late = self.held.first().copied().filter(is_late);
            // Where nobody else can have a turn, there is a circle, however long.
            let most = if earliest.is_some() { MAX_WALK } else { usize::MAX };
            if let Some(circle) = late.and_then(|(_, at)| self.circle(at, most)) {
                self.cut(&circle);
                continue;
            }
            let Some(Reverse((time, at))) = self.ready.peek().copied() else { return false };
            let may_come = |need: &Need| {
                need.from != at
                    && self
                        .next_time(need.from)
                        .is_some_and(|next| next.unix() <= time.unix().saturating_add(CLOCK_SKEW))
                    && self.given_up.get(at).is_some_and(|given_up| !given_up.contains(&need.from))
            };
            let note = self.feeds.get(at).and_then(Feed::peek);
            if let Some(need) = note.and_then(|note| self.post.need(at, note, may_come)) {
                self.ready.pop();
                self.hold(at, Waiting { time, need });
                continue;
            }
            let Some(feed) = self.feeds.get_mut(at) else { return false };
            let mark = feed.notes.next().and_then(|note| self.post.handle(at, note, &feed.sheets));
            if let Some(mark) = mark {
                desk.mark(at, mark);
            }
            self.advance(at, desk);
            return true;
        }
    }

    /// The first of those that are ready has had its turn.
    fn advance(&mut self, at: usize, desk: &mut impl Desk) {
        let Some(feed) = self.feeds.get_mut(at) else { return };
        if !feed.is_known(at, desk) {
            self.ready.pop();
            return self.unknown.push(at);
        }
        let next = self.see_next(at);
        // It stays the first if nobody else is earlier: to put another in its place costs less than to take it out.
        if let Some(mut first) = self.ready.peek_mut() {
            match next {
                Some(time) => *first = Reverse((time, at)),
                None => drop(PeekMut::pop(first)),
            }
        }
        self.release_who_waits_for(at, next);
    }

    fn release_who_waits_for(&mut self, at: usize, next: Option<Time>) {
        let Some(all) = self.awaited.get_mut(at).filter(|all| !all.is_empty()) else { return };
        for trace in std::mem::take(all) {
            let Some(Waiting { time, need }) = self.waits.get(trace).copied().flatten() else { continue };
            let until = time.unix().saturating_add(CLOCK_SKEW);
            if self.post.is_met(&need) || next.is_none_or(|next| next.unix() > until) {
                self.release(trace);
            } else if let Some(all) = self.awaited.get_mut(at) {
                all.push(trace);
            }
        }
    }

    fn hold(&mut self, at: usize, waiting: Waiting) {
        self.held.insert((waiting.time, at));
        self.awaited.get_mut(waiting.need.from).into_iter().for_each(|all| all.push(at));
        self.waits.get_mut(at).into_iter().for_each(|waits| *waits = Some(waiting));
    }

    fn release(&mut self, at: usize) {
        let Some(Waiting { time, .. }) = self.waits.get_mut(at).and_then(Option::take) else { return };
        self.held.remove(&(time, at));
        self.ready.push(Reverse((time, at)));
    }

    /// The traces that wait for each other in a circle, if whoever waits here waits for them, and there are not too many. At the end
    /// of a row stands somebody who will have its turn, so nobody in it waits in vain.
    fn circle(&self, at: usize, most: usize) -> Option<Vec<usize>> {
        let (mut row, mut places, mut next) = (Vec::new(), HashMap::new(), at);
        while let Some(Waiting { need, .. }) = self.waits.get(next).copied().flatten() {
            if let Some(place) = places.insert(next, row.len()) {
                return Some(row.split_off(place));
            }
            if row.len() >= most {
                break;
            }
            row.push(next);
            next = need.from;
        }
        None
    }

    /// Something in a circle does not come, and is given up. The others may get what they wait for then.
    ///
    /// If all of it comes, something was sent twice and only the second time is here; or somebody has received something before it
    /// was sent, which can only be a radio frame, for everything else carries the hash of its sender's record. So these are chosen
    /// in this order: what does not come, what may be missing, a frame, and the one whose sender's clock is furthest ahead.
    fn cut(&mut self, circle: &[usize]) {
        let mut vain = None;
        for at in circle {
            let Some(Waiting { time, need }) = self.waits.get(*at).copied().flatten() else { continue };
            let ahead = self.next_time(need.from).map_or(u64::MAX, |next| next.unix().saturating_sub(time.unix()));
            let is_vain = !self.scouts.will_come(&need, time);
            let hope = (is_vain, self.post.may_be_missing(&need, time), need.is_frame(), ahead, Reverse(*at));
            vain = vain.max(Some((hope, need.from)));
        }
        let Some(((.., Reverse(vain)), from)) = vain else { return };
        self.awaited.get_mut(from).into_iter().for_each(|all| all.retain(|waiting| *waiting != vain));
        self.given_up.get_mut(vain).into_iter().for_each(|given_up| given_up.push(from));
        self.release(vain);
    }
}
