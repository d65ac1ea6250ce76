//! Several judges at work, each with traces of its own: it reads them, and judges the records that have had their turn.
//!
//! ```text
//!   judge:  reads a piece of a trace ──── notes ───►  merge and post: whose turn is it, and where did it come from?
//!   judge:  judges the records of a trace  ◄──── orders ────┘
//!   judge:  of a message that arrives  ◄── what was vouched for ──  the judge of who sent it
//! ```
//!
//! A judge takes many orders at once and judges them trace by trace: what belongs to a device is then still in the processor's
//! cache. It needs another judge only for what was vouched for when a message left, and that had its turn before. If it is not
//! there yet, the judge holds the trace back and goes on with the others. What had its turn first, of all that is not judged,
//! needs nobody, so nobody waits for ever. Findings bear the number of their turn, so a report is the same whoever judges, and when.
//!
//! The next piece of a trace is asked for when the last one is taken, and read when few enough of its pieces are in memory.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};

use pilot_core::vocabulary::DeviceId;

use super::court::{Court, Filter};
use super::facts::Facts;
use super::feed::{self, Cursor, Entry, Unreadable};
use super::mail::Sent;
use super::merge;
use super::note::Note;
use super::post::{Mark, Origin, Post};
use super::replay::Replay;
use super::seal::Sealed;
use super::world::World;

/// The most judges; more threads than that are no help.
pub const MAX_JUDGES: usize = 256;
/// How many orders are given to a judge at once. Fewer, if the merge has to wait for notes.
const ORDERS: usize = 1024;
/// How many pieces of a trace are in memory at once.
const PIECES: NonZeroUsize = NonZeroUsize::MIN.saturating_add(2);

/// How traces are judged.
#[derive(Debug, Clone, Copy)]
pub struct Judges {
    /// How many judges there are.
    pub count: NonZeroUsize,
    /// How many orders each is given at once, at most.
    pub orders: usize,
    /// How many pieces of a trace are in memory at once, at most.
    pub pieces: NonZeroUsize,
}

impl Judges {
    /// So many, at their usual work.
    pub const fn new(count: NonZeroUsize) -> Self {
        Self { count, orders: ORDERS, pieces: PIECES }
    }
}

/// What a judge is to do.
enum Task {
    /// Read on in a trace.
    Read(usize),
    /// Judge records.
    Judge(Vec<Order>),
}

/// The next record of a trace has its turn.
struct Order {
    /// How many had theirs before.
    turn: u64,
    /// The place of the trace among those of the judge.
    trace: usize,
    what: What,
}

impl Order {
    /// The message whose sender is not judged yet.
    fn awaited(&self) -> Option<&Arc<Sent>> {
        match &self.what {
            What::Record(Mark { origin: Origin::Matched(sent), .. }) => Some(sent).filter(|sent| !sent.is_judged()),
            What::Record(_) | What::Unreadable(_) => None,
        }
    }
}

enum What {
    Record(Mark),
    /// There is none: the trace cannot be read on.
    Unreadable(Unreadable),
}

/// Judges every sealed record; returns the judges.
pub fn judge_all<'v>(
    judges: Judges,
    facts: &'v Facts<'v>,
    traces: &[Sealed],
    filter: &Filter,
    judged: &AtomicU64,
) -> Vec<Court<'v>> {
    let count = judges.count.get().min(MAX_JUDGES).min(traces.len()).max(1);
    let piece = feed::piece(traces.len());
    std::thread::scope(|scope| {
        let (mut benches, mut tasks) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let (send, receive) = mpsc::channel();
            tasks.push(send);
            benches.push((Bench::new(facts, filter.clone(), judges.pieces), receive));
        }
        let mut feeds = Vec::new();
        for (trace, judge) in traces.iter().zip(shares(traces, count)) {
            let (send, notes) = mpsc::channel();
            if let (Some((bench, _)), Some(tasks)) = (benches.get_mut(judge), tasks.get(judge)) {
                let number = bench.take_on(trace, piece, send);
                let _ = tasks.send(Task::Read(number));
                feeds.push(Feed { judge, number, notes, batch: Vec::new().into_iter(), is_over: false });
            }
        }
        let threads: Vec<_> =
            benches.into_iter().map(|(bench, tasks)| scope.spawn(move || bench.work(&tasks))).collect();
        let outbox = tasks.iter().map(|_| Vec::new()).collect();
        merge::merge(Post::new(traces, facts), feeds, Desks { tasks, outbox, most: judges.orders, turn: 0 }, judged);
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}

/// Which judge takes which trace: the longest first, each to who has least to do.
fn shares(traces: &[Sealed], judges: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..traces.len()).collect();
    let records = |at: &usize| traces.get(*at).map_or(0, |trace| trace.standing.records);
    order.sort_by_key(|at| std::cmp::Reverse(records(at)));
    let (mut shares, mut load) = (vec![0; traces.len()], vec![0_u64; judges]);
    for at in order {
        let least = load.iter().enumerate().min_by_key(|(_, load)| **load).map_or(0, |(judge, _)| judge);
        if let (Some(share), Some(load)) = (shares.get_mut(at), load.get_mut(least)) {
            *share = least;
            *load = load.saturating_add(records(&at));
        }
    }
    shares
}

/// Where orders for the judges are collected.
pub struct Desks {
    tasks: Vec<Sender<Task>>,
    outbox: Vec<Vec<Order>>,
    /// How many are given to a judge at once.
    most: usize,
    turn: u64,
}

impl Desks {
    fn order(&mut self, judge: usize, trace: usize, what: What) {
        let Some(orders) = self.outbox.get_mut(judge) else { return };
        orders.push(Order { turn: self.turn, trace, what });
        self.turn += 1;
        if orders.len() >= self.most {
            let orders = std::mem::replace(orders, Vec::with_capacity(self.most));
            self.give(judge, Task::Judge(orders));
        }
    }

    fn give(&self, judge: usize, task: Task) {
        // An error means that the judge has ended, which it does only by a panic: that is everybody's end.
        let _ = self.tasks.get(judge).map(|tasks| tasks.send(task));
    }

    /// Everything that was ordered is given out. To be called before anybody is waited for.
    pub fn flush(&mut self) {
        for judge in 0..self.outbox.len() {
            let orders = self.outbox.get_mut(judge).map(std::mem::take).unwrap_or_default();
            if !orders.is_empty() {
                self.give(judge, Task::Judge(orders));
            }
        }
    }
}

type Notes = Result<Vec<Note>, Unreadable>;

/// The notes on the records of one trace, in their order.
pub struct Feed {
    judge: usize,
    number: usize,
    notes: Receiver<Notes>,
    batch: std::vec::IntoIter<Note>,
    is_over: bool,
}

impl Feed {
    /// The note on the next record.
    pub fn peek(&mut self, desks: &mut Desks) -> Option<&Note> {
        if self.batch.as_slice().is_empty() && !self.is_over {
            self.refill(desks);
        }
        self.batch.as_slice().first()
    }

    /// The same, and on to the next.
    pub fn take(&mut self) -> Option<Note> {
        self.batch.next()
    }

    /// The record whose note was taken has its turn.
    pub fn order(&self, mark: Mark, desks: &mut Desks) {
        desks.order(self.judge, self.number, What::Record(mark));
    }

    fn refill(&mut self, desks: &mut Desks) {
        let notes = self.notes.try_recv().or_else(|error| match error {
            TryRecvError::Empty => {
                desks.flush();
                self.notes.recv()
            }
            TryRecvError::Disconnected => Err(mpsc::RecvError),
        });
        match notes {
            Ok(Ok(batch)) => {
                self.batch = batch.into_iter();
                desks.give(self.judge, Task::Read(self.number));
            }
            Ok(Err(damage)) => {
                self.is_over = true;
                desks.order(self.judge, self.number, What::Unreadable(damage));
            }
            Err(mpsc::RecvError) => self.is_over = true,
        }
    }
}

/// A judge with its traces.
struct Bench<'v> {
    facts: &'v Facts<'v>,
    court: Court<'v>,
    traces: Vec<Pile>,
    /// Traces whose next order can be carried out.
    ready: VecDeque<usize>,
    /// Traces whose next order waits for another judge.
    held: Vec<usize>,
    /// How many pieces of a trace are in memory, at most.
    pieces: NonZeroUsize,
    /// Lists that records were in, to be used again.
    empty: Vec<Vec<Entry>>,
    bytes: Vec<u8>,
}

/// The records of a trace that are read and not judged.
struct Pile {
    device: Option<DeviceId>,
    cursor: Cursor,
    /// `None` once there is nothing more.
    notes: Option<Sender<Notes>>,
    batches: VecDeque<Vec<Entry>>,
    /// Another piece is asked for, and there are enough.
    is_read_due: bool,
    /// How many records of the first batch are judged.
    done: usize,
    orders: VecDeque<Order>,
}

impl<'v> Bench<'v> {
    fn new(facts: &'v Facts<'v>, filter: Filter, pieces: NonZeroUsize) -> Self {
        let court = Court::new(World::new(facts), filter);
        let (traces, ready, held) = (Vec::new(), VecDeque::new(), Vec::new());
        Self { facts, court, traces, ready, held, pieces, empty: Vec::new(), bytes: Vec::new() }
    }

    /// Another trace, and its place here.
    fn take_on(&mut self, trace: &Sealed, piece: usize, notes: Sender<Notes>) -> usize {
        let device = trace.device().and_then(|name| Some((name, self.facts.device(name)?)));
        if let Some((name, id)) = device {
            let mut replay = Replay::new(name.clone(), id);
            replay.run.is_unknown = trace.standing.first != 0;
            self.court.replays.push(replay);
        }
        self.traces.push(Pile {
            device: device.map(|(_, id)| id),
            cursor: Cursor::new(trace, piece),
            notes: Some(notes),
            batches: VecDeque::new(),
            is_read_due: false,
            done: 0,
            orders: VecDeque::new(),
        });
        self.traces.len() - 1
    }

    fn work(mut self, tasks: &Receiver<Task>) -> Court<'v> {
        loop {
            let task = if self.held.is_empty() { tasks.recv().ok() } else { tasks.try_recv().ok() };
            match task {
                Some(Task::Read(trace)) => self.read(trace),
                Some(Task::Judge(orders)) => orders.into_iter().for_each(|order| self.accept(order)),
                None if self.held.is_empty() => return self.court,
                None => self.wait(),
            }
            self.judge_ready();
        }
    }

    fn accept(&mut self, order: Order) {
        let trace = order.trace;
        let Some(pile) = self.traces.get_mut(trace) else { return };
        if pile.orders.is_empty() {
            self.ready.push_back(trace);
        }
        pile.orders.push_back(order);
    }

    /// Waits until the earliest of those that are held back can be judged. Its sender had its turn before, so that comes.
    fn wait(&self) {
        let first = |trace: &usize| self.traces.get(*trace).and_then(|pile| pile.orders.front());
        let earliest = self.held.iter().filter_map(first).min_by_key(|order| order.turn);
        if let Some(sent) = earliest.and_then(Order::awaited) {
            sent.vouch();
        }
    }

    /// Judges until every order that is left waits for another judge.
    fn judge_ready(&mut self) {
        loop {
            self.ready.extend(self.held.extract_if(.., |trace| {
                let next = self.traces.get(*trace).and_then(|pile| pile.orders.front());
                next.is_none_or(|order| order.awaited().is_none())
            }));
            if self.ready.is_empty() {
                return;
            }
            while let Some(trace) = self.ready.pop_front() {
                self.judge_trace(trace);
            }
        }
    }

    /// Judges the records of a trace that have their turns, up to one that waits for another judge.
    fn judge_trace(&mut self, trace: usize) {
        while let Some(pile) = self.traces.get_mut(trace) {
            let Some(next) = pile.orders.front() else { return };
            if next.awaited().is_some() {
                return self.held.push(trace);
            }
            let Some(order) = pile.orders.pop_front() else { return };
            self.judge(order);
        }
    }

    fn read(&mut self, trace: usize) {
        let Some(pile) = self.traces.get_mut(trace) else { return };
        pile.is_read_due = pile.batches.len() >= self.pieces.get();
        if pile.is_read_due {
            return;
        }
        let Some((notes, device)) = pile.notes.as_ref().zip(pile.device) else {
            pile.notes = None;
            return;
        };
        let batch = pile.cursor.batch(self.empty.pop().unwrap_or_default(), &mut self.bytes);
        let is_last = batch.as_ref().map_or(true, Vec::is_empty);
        let noted = batch.map(|batch| {
            let noted = batch.iter().map(|entry| Note::of(entry, device, self.facts)).collect();
            pile.batches.push_back(batch);
            noted
        });
        // An error means that the merge has ended.
        let _ = notes.send(noted);
        if is_last {
            pile.notes = None;
        }
    }

    fn judge(&mut self, order: Order) {
        let Order { turn, trace, what } = order;
        let Some(pile) = self.traces.get_mut(trace) else { return };
        self.court.turn = turn;
        let mark = match what {
            What::Record(mark) => mark,
            What::Unreadable(damage) => return self.court.unreadable(trace, &damage),
        };
        if let Some(entry) = pile.batches.front().and_then(|batch| batch.get(pile.done)) {
            self.court.hear(trace, entry, mark);
            pile.done += 1;
        }
        if pile.batches.front().is_some_and(|batch| batch.len() <= pile.done) {
            pile.done = 0;
            if let Some(mut judged) = pile.batches.pop_front() {
                judged.clear();
                self.empty.push(judged);
            }
            if pile.is_read_due {
                self.read(trace);
            }
        }
    }
}
