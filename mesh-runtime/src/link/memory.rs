//! Links inside one process: a hub instead of a broker, with faults on demand.
//!
//! For tests of whatever uses a [`Link`]: the hub can lose, repeat and reorder messages, and can be partitioned. All of
//! it follows one seed, so on a single-threaded runtime equal seeds give equal runs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, watch};

use super::outbox::{Command, Outbox};
use super::{Disconnection, Event, Events, Filter, Link, MAX_PACKET_BYTES, Message};

/// What goes wrong on the way from the hub to each receiver, each in thousandths of the deliveries.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Where the chances begin.
    pub seed: u64,
    /// Deliveries that do not happen.
    pub loss: u16,
    /// Deliveries that happen twice.
    pub duplication: u16,
    /// Deliveries that wait for the next one to the same receiver and arrive after it. The last one may wait for ever,
    /// which is one more loss.
    pub reordering: u16,
}

/// Connects links of one process. Clones are the same hub.
#[derive(Clone, Debug)]
pub struct Hub(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    faults: Faults,
    chance: fastrand::Rng,
    /// Whether links made from now on are connected.
    running: bool,
    members: Vec<Member>,
}

/// The hub's side of one link.
#[derive(Debug)]
struct Member {
    outbox: Arc<Outbox>,
    events: mpsc::Sender<Event>,
    reachable: watch::Sender<bool>,
    /// What the hub delivers; empty while the link is not connected.
    filters: Vec<Filter>,
    held: Option<Message>,
}

impl Default for Hub {
    fn default() -> Self {
        Self::new()
    }
}

impl Hub {
    /// A hub on which nothing goes wrong.
    #[must_use]
    pub fn new() -> Self {
        Self::with_faults(Faults::default())
    }

    /// A hub on which some things go wrong.
    #[must_use]
    pub fn with_faults(faults: Faults) -> Self {
        let chance = fastrand::Rng::with_seed(faults.seed);
        Self(Arc::new(Mutex::new(Inner { faults, chance, running: true, members: Vec::new() })))
    }

    /// A new link. Must be called inside a tokio runtime.
    #[must_use]
    pub fn connect(&self) -> (Link, Events) {
        let (link, receiver, outbox, events) = Link::open();
        let mut inner = self.inner();
        let (reachable, reached) = watch::channel(inner.running);
        let member = Member { outbox: outbox.clone(), events, reachable, filters: Vec::new(), held: None };
        let sender = member.events.clone();
        inner.members.push(member);
        drop(inner);
        tokio::spawn(run(self.clone(), outbox, sender, reached));
        (link, receiver)
    }

    /// Disconnects everybody, as a broker that is stopped.
    pub fn stop(&self) {
        self.reach(|_| true, false);
        self.inner().running = false;
    }

    /// Lets everybody connect again, as a broker that is started again: without any memory of subscriptions.
    pub fn start(&self) {
        self.inner().running = true;
        self.reach(|_| true, true);
    }

    /// Cuts one link off from the hub.
    pub fn partition(&self, link: &Link) {
        self.reach(|member| Arc::ptr_eq(&member.outbox, &link.0.0), false);
    }

    /// Ends the partition of a link.
    pub fn heal(&self, link: &Link) {
        self.reach(|member| Arc::ptr_eq(&member.outbox, &link.0.0), true);
    }

    fn reach(&self, whom: impl Fn(&Member) -> bool, reachable: bool) {
        for member in self.inner().members.iter_mut().filter(|member| whom(member)) {
            member.reachable.send_replace(reachable);
            if !reachable {
                // At once, not when its task next runs: what is published after a partition must not cross it.
                member.filters.clear();
                member.held = None;
            }
        }
    }

    /// No code below can leave the hub half changed, so a poisoned lock still guards a good state.
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with_member(&self, outbox: &Arc<Outbox>, change: impl FnOnce(&mut Member)) {
        if let Some(member) = self.inner().members.iter_mut().find(|member| Arc::ptr_eq(&member.outbox, outbox)) {
            change(member);
        }
    }

    fn obey(&self, outbox: &Arc<Outbox>, command: Command) {
        match command {
            Command::Publish(message) => self.inner().publish(&message),
            Command::Subscribe(filter) => self.with_member(outbox, |member| member.filters.push(filter)),
            Command::Unsubscribe(filter) => {
                self.with_member(outbox, |member| member.filters.retain(|known| *known != filter));
            }
        }
    }
}

impl Inner {
    fn publish(&mut self, message: &Message) {
        let Self { faults, chance, members, .. } = self;
        let mut happens = |thousandths: u16| chance.u16(0..1000) < thousandths;
        for member in members.iter_mut() {
            if !member.filters.iter().any(|filter| filter.matches(&message.topic)) {
                continue;
            }
            // All three are drawn for each delivery: raising one rate does not shift the others' chances.
            let (lost, twice, later) = (happens(faults.loss), happens(faults.duplication), happens(faults.reordering));
            if lost {
                continue;
            }
            if later && member.held.is_none() {
                member.held = Some(message.clone());
                continue;
            }
            member.deliver(message.clone());
            if twice {
                member.deliver(message.clone());
            }
            if let Some(held) = member.held.take() {
                member.deliver(held);
            }
        }
    }
}

impl Member {
    /// A hub cannot wait for one slow member, so what does not fit is dropped and counted, as a broker does.
    fn deliver(&self, message: Message) {
        if self.events.try_send(Event::Message(message)).is_err() {
            self.outbox.count_dropped();
        }
    }
}

/// The life of one link: connected while it is reachable, until it closes.
async fn run(hub: Hub, outbox: Arc<Outbox>, events: mpsc::Sender<Event>, mut reached: watch::Receiver<bool>) {
    loop {
        let reachable = tokio::select! {
            () = outbox.closing() => false,
            reachable = reached.wait_for(|reachable| *reachable) => reachable.is_ok(),
        };
        if !reachable {
            break;
        }
        let filters = outbox.connected(MAX_PACKET_BYTES);
        hub.with_member(&outbox, |member| {
            // A partition may have come since; then the loop below ends at once.
            if *member.reachable.borrow() {
                member.filters = filters;
            }
        });
        if events.send(Event::Connected).await.is_err() {
            break;
        }
        let closed = loop {
            tokio::select! {
                biased;
                _ = reached.wait_for(|reachable| !*reachable) => break false,
                () = events.closed() => break true,
                command = outbox.next() => match command {
                    Some(command) => hub.obey(&outbox, command),
                    None => break true,
                },
            }
        };
        outbox.disconnected();
        if closed {
            break;
        }
        let reason = Disconnection::Lost("the hub is out of reach".to_owned());
        if events.send(Event::Disconnected { reason }).await.is_err() {
            break;
        }
    }
    hub.inner().members.retain(|member| !Arc::ptr_eq(&member.outbox, &outbox));
    // Nobody may be listening any more, which is fine.
    let _ = events.send(Event::Disconnected { reason: Disconnection::Closed }).await;
}
