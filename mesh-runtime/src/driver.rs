//! Runs any program graph on a device.
//!
//! **Contract.** *Choose an action (a due offer, a user's decision, or a message from the inbox) → `step` → append and
//! flush the record → only then let the message leave the process.* A step that cannot be recorded is taken back, its
//! message goes nowhere, and the driver takes no further one.
//!
//! The [`Driver`] itself has no clock, no socket and no randomness: time is an argument, what happened is the result,
//! and whoever holds it sends what it hands out. [`run`] is such a holder, for daemons. The model checker runs the same
//! graphs in the same way (`conformance/src/cell.rs`): a message goes to the device once and to every instance that can
//! take it, what is overdue is erased before anything else, and a user's policies reach all instances at once.
//!
//! * [`record`]: what is written down before a message leaves;
//! * [`pacing`]: when to do what the graph offers; [`inbox`]: messages that have no edge yet;
//! * [`guests`]: ids of strangers, which end with the last mention of them; [`limits`]: how much is remembered;
//! * [`clock`]: time, and whether to believe it.
//!
//! **Elided steps.** A step that changes neither location nor variables, sends nothing and means no event is not
//! recorded, only counted: a refused broadcast leaves a number and nothing else.

mod agenda;
mod attempt;
pub mod clock;
pub mod counts;
pub mod guests;
pub mod inbox;
pub mod limits;
pub mod pacing;
pub mod record;
pub mod run;
mod undo;

use pilot_core::graph::{Action, Body, Device, Graph, Guard, Instance, Label, Location, Message, MessageKind, Step};
use pilot_core::semantics::{Contacts, Context, Policies, PolicyId};
use pilot_core::subsumption::Judge;
use pilot_core::value::{Time, Value};
use pilot_core::vocabulary::{Attribute, DeviceId, Directory, Entity, ItemId, Variable, Vocabulary};

use self::agenda::Agenda;
use self::attempt::Attempt;
use self::clock::{ClockProblem, Sanity};
use self::counts::{Counts, add};
use self::guests::Guests;
pub use self::guests::{Guest, NoRoom};
use self::inbox::Inbox;
use self::limits::{Limit, Limits};
use self::pacing::{Paces, Pacing};
pub use self::record::{Cause, Entry, InstanceNumber, Record, RecordError};

/// What a driver is made of.
#[derive(Debug, Clone)]
pub struct Setup<'v> {
    /// What it runs.
    pub graph: &'v Graph<'v>,
    /// The words.
    pub vocabulary: &'v Vocabulary,
    /// The devices and items that it will always know, itself among them.
    pub directory: Directory,
    /// The policies that it will always know.
    pub policies: Policies,
    /// Whom it addresses.
    pub contacts: Contacts,
    /// Strangers in the directory whom the device's variables mention: they go when nothing mentions them any more.
    pub guests: Vec<Guest>,
    /// The device's variables, new ([`Device::new`]) or as they were kept.
    pub device: Device,
    /// One instance per item; without items, one.
    pub items: Vec<ItemId>,
    /// When to do what the graph offers.
    pub pacing: Pacing,
    /// How much to remember.
    pub limits: Limits,
    /// The last time that was recorded, if any.
    pub since: Time,
}

/// A device that runs a graph. See the [module](self).
#[derive(Debug)]
pub struct Driver<'v, R> {
    graph: &'v Graph<'v>,
    world: World<'v>,
    device: Device,
    seats: Vec<Seat>,
    items: Vec<ItemId>,
    inbox: Inbox,
    guests: Guests,
    paces: Paces,
    limits: Limits,
    agenda: Agenda,
    sanity: Sanity,
    counts: Counts,
    recorder: R,
    is_stopped: bool,
}

/// What guards read and steps never change.
#[derive(Debug)]
struct World<'v> {
    judge: Judge<'v>,
    directory: Directory,
    policies: Policies,
    contacts: Contacts,
}

/// An instance, and since when it has been at its location.
#[derive(Debug)]
struct Seat {
    instance: Instance,
    entered: Time,
}

/// What a user decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Her policies; the first thing a gateway is told.
    Init {
        /// Her policies.
        own: Vec<PolicyId>,
    },
    /// The same, with the offers that were known when the device last ran.
    Restore {
        /// Her policies.
        own: Vec<PolicyId>,
        /// What π had of others.
        offers: Vec<(DeviceId, PolicyId)>,
    },
    /// Her policies are these from now on.
    ChangeOwn {
        /// All of them.
        own: Vec<PolicyId>,
    },
    /// She no longer refuses this entity.
    Admit {
        /// Whom.
        entity: Entity,
    },
    /// She does not want to wait: τ now, wherever it can be taken. A subject then asks for policies again.
    Refresh,
    /// She takes back what she released to a controller, of every item.
    Withdraw {
        /// From whom.
        controller: DeviceId,
    },
    /// A controller withdraws a policy from its repository.
    WithdrawPolicy {
        /// Which.
        policy: PolicyId,
    },
}

/// What came of a decision, a message or due work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The recorded steps, in order, erasures of what was overdue first. Their messages may leave now, in this order.
    pub steps: Vec<Taken>,
    /// What became of the matter as a whole.
    pub fate: Fate,
    /// Guests that nothing mentions any more. Their ids will be given to others: forget what you know by them.
    pub forgotten: Vec<Guest>,
}

/// A recorded step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// Who took it.
    pub instance: InstanceNumber,
    /// Where the instance was.
    pub from: Location,
    /// Where it is.
    pub to: Location,
    /// What was done.
    pub action: Action,
    /// The edge, the message to send, and the events.
    pub step: Step,
    /// When.
    pub time: Time,
    /// Why.
    pub cause: Cause,
}

/// What became of a decision, a message or due work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// At least one step was taken and recorded.
    Taken,
    /// It changed nothing. For a message that was refused: the guard that did it.
    Elided(Option<Guard>),
    /// The message waits for its edge.
    Waits,
    /// No edge can be taken: the decision does not fit here.
    Impossible,
    /// The message is for somebody else, or of a kind that the graph never takes.
    Foreign,
    /// The message waits already.
    Duplicate,
    /// There was no room for what it would have left behind.
    Full(Limit),
    /// A message was dropped that had waited too long.
    Stale,
    /// Nothing but guests leaving.
    Idle,
}

/// Why a driver does nothing.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// The step was taken back and nothing was sent. The daemon must stop.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A step could not be recorded earlier.
    #[error("an earlier step could not be recorded")]
    Stopped,
    /// The clock is not believed; nothing is done until it is.
    #[error(transparent)]
    Clock(#[from] ClockProblem),
}

impl<'v, R: Record> Driver<'v, R> {
    /// A device at the start of its graph.
    pub fn new(setup: Setup<'v>, recorder: R) -> Self {
        let Setup { graph, vocabulary, directory, policies, contacts, guests, device, items, pacing, limits, since } =
            setup;
        let seat = || Seat { instance: Instance::new(graph), entered: since };
        Self {
            graph,
            world: World { judge: Judge::new(vocabulary), directory, policies, contacts },
            device,
            seats: (0..items.len().max(1)).map(|_| seat()).collect(),
            items,
            inbox: Inbox::default(),
            guests: Guests::known(guests),
            paces: Paces::new(pacing),
            limits,
            agenda: Agenda::default(),
            sanity: Sanity::since(since),
            counts: Counts::default(),
            recorder,
            is_stopped: false,
        }
    }

    /// Does what the user decides. Her policies go to every instance at first, and to the device later.
    pub fn decide(&mut self, decision: Decision, now: Time) -> Result<Outcome, DriveError> {
        let now = self.begin(now)?;
        let mut outcome = Outcome::new();
        self.erase_overdue(now, &mut outcome)?;
        for (at, action) in self.actions_of(decision) {
            let attempt = self.attempt(at, &action, Cause::User, now)?;
            outcome.add(attempt);
        }
        self.after(&outcome);
        Ok(outcome)
    }

    /// Takes a message: by every instance that can, or else it waits. The caller has verified who sent it.
    pub fn receive(&mut self, message: Message, now: Time) -> Result<Outcome, DriveError> {
        let now = self.begin(now)?;
        let parties = [Some(message.sender), Some(message.receiver), self.owner_in(&message)];
        let mut outcome = Outcome::new();
        self.erase_overdue(now, &mut outcome)?;
        if !self.is_for_us(&message) {
            add(&mut self.counts.foreign);
            outcome.fate = Fate::Foreign;
        } else if self.inbox.contains(&message) {
            add(&mut self.counts.duplicates);
            outcome.fate = Fate::Duplicate;
        } else {
            let action = Action::Receive(message);
            self.deliver(&action, Cause::Message, now, &mut outcome)?;
            if let (Fate::Impossible, Action::Receive(message)) = (outcome.fate, action) {
                self.let_wait(message, now, &mut outcome);
            }
        }
        self.doubt(parties, &mut outcome.forgotten);
        self.after(&outcome);
        Ok(outcome)
    }

    /// The next thing that is due, until there is none. What is overdue comes first, then withdraw notices, then messages
    /// that wait, then what the graph offers, τ last.
    pub fn poll(&mut self, now: Time) -> Result<Option<Outcome>, DriveError> {
        let now = self.begin(now)?;
        self.next(now)
    }

    /// When to poll again if nothing else happens; not later than `MAX_IDLE_SECONDS` (see `agenda`) from now, since
    /// conditions depend on time.
    pub fn next_due(&self, now: Time) -> Time {
        self.agenda.next_due(now)
    }

    /// The device's variables.
    pub const fn device(&self) -> &Device {
        &self.device
    }

    /// The instances, in the order of their items.
    pub fn instances(&self) -> impl Iterator<Item = &Instance> {
        self.seats.iter().map(|seat| &seat.instance)
    }

    /// What judgements read, at a time.
    pub const fn context(&self, now: Time) -> Context<'_> {
        self.world.context(now)
    }

    /// What was counted.
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// How many messages wait.
    pub fn waiting(&self) -> usize {
        self.inbox.len()
    }

    /// The recorder, for checkpoints.
    pub const fn recorder(&mut self) -> &mut R {
        &mut self.recorder
    }

    /// The end of the driver: its recorder, to be closed.
    pub fn into_recorder(self) -> R {
        self.recorder
    }

    /// Changes ν of attributes: the context that conditions speak of. Items are set when the driver is made.
    pub fn set_attribute(&mut self, attribute: Attribute, value: Value) {
        self.device.state.values.insert(Variable::Attribute(attribute), value);
        self.agenda.disturb();
    }

    /// Forgets when offers with this label were last taken: what the device says there has changed, so it is said at once.
    pub fn repeat(&mut self, label: Label) {
        self.paces.forget_label(label);
        self.agenda.disturb();
    }

    /// Learns of a device of the mesh, for good.
    pub fn add_device(&mut self, entity: Entity) -> DeviceId {
        self.world.directory.add_device(entity)
    }

    /// Whether to act at all, and by what time.
    fn begin(&mut self, shown: Time) -> Result<Time, DriveError> {
        if self.is_stopped {
            return Err(DriveError::Stopped);
        }
        Ok(self.sanity.believe(shown)?)
    }

    /// A change from outside makes what was planned out of date.
    fn after(&mut self, outcome: &Outcome) {
        if !outcome.steps.is_empty() {
            self.agenda.disturb();
        }
    }

    /// A decision as actions of instances.
    fn actions_of(&self, decision: Decision) -> Vec<(InstanceNumber, Action)> {
        let first = |action| vec![(InstanceNumber(0), action)];
        let (sender, contacts) = (self.device.id, &self.world.contacts);
        match decision {
            Decision::Init { own } => self.for_each_item(|item| Action::Init { own: own.clone(), item }),
            Decision::Restore { own, offers } => {
                self.for_each_item(|item| Action::Restore { own: own.clone(), item, offers: offers.clone() })
            }
            Decision::ChangeOwn { own } => first(Action::ChangeOwn { own }),
            Decision::Admit { entity } => first(Action::Admit { entity }),
            Decision::Refresh => self.for_each_item(|_| Action::Tau),
            Decision::Withdraw { controller } => {
                let notice = |item| Body::Withdraw { item, withdrawal: Default::default() };
                let send = |body| Action::Send(Message { sender, receiver: controller, body });
                let numbered = self.items.iter().enumerate();
                numbered.map(|(at, item)| (InstanceNumber(at), send(notice(*item)))).collect()
            }
            Decision::WithdrawPolicy { policy } => {
                let body = Body::WithdrawPolicy { policy };
                let to = |receiver| Action::Send(Message { sender, receiver, body });
                contacts.repository.map(|repository| first(to(repository))).unwrap_or_default()
            }
        }
    }

    fn for_each_item(&self, action: impl Fn(Option<ItemId>) -> Action) -> Vec<(InstanceNumber, Action)> {
        let items = (0..self.seats.len()).map(|at| (InstanceNumber(at), self.items.get(at).copied()));
        items.map(|(at, item)| (at, action(item))).collect()
    }

    fn is_for_us(&self, message: &Message) -> bool {
        let me = self.device.id;
        let is_heard = message.receiver == me || message.kind() == MessageKind::Broadcast;
        let label = Label::Receive(message.kind());
        message.sender != me && is_heard && self.graph.edges.iter().any(|edge| edge.label == label)
    }

    fn owner_in(&self, message: &Message) -> Option<DeviceId> {
        Some(self.world.directory.item(message.item()?)?.owner)
    }
}

impl World<'_> {
    const fn context(&self, now: Time) -> Context<'_> {
        let Self { judge, directory, policies, contacts } = self;
        Context { judge, directory, policies, contacts, now, attested: None }
    }
}

impl Outcome {
    const fn new() -> Self {
        Self { steps: Vec::new(), fate: Fate::Impossible, forgotten: Vec::new() }
    }

    /// The messages that may leave now, in order.
    pub fn messages(&self) -> impl Iterator<Item = &Message> {
        self.steps.iter().filter_map(|taken| taken.step.message.as_ref())
    }

    /// A step counts for more than none, and a reason for more than none.
    fn add(&mut self, attempt: Attempt) {
        let fate = match attempt {
            Attempt::Taken(taken) => {
                self.steps.push(*taken);
                Fate::Taken
            }
            Attempt::Elided(reason) => Fate::Elided(reason),
            Attempt::Full(limit) => Fate::Full(limit),
            Attempt::NoEdge => return,
        };
        if self.fate != Fate::Taken {
            self.fate = fate;
        }
    }
}
