//! What happens when: a queue of tasks by the second, first come, first served.

use std::collections::{BTreeMap, VecDeque};

use pilot_core::evidence::envelope::{ChainHead, MessageId};
use pilot_core::evidence::trace::action::{Connection, Handle};
use pilot_core::graph::Message;
use pilot_core::semantics::PolicyId;
use pilot_core::value::Time;
use pilot_core::vocabulary::{DeviceId, ItemId};

/// Something to be done.
pub enum Task {
    /// A subject looks around.
    Wake(DeviceId),
    /// A controller publishes a new version of its policy.
    Publish(DeviceId),
    /// A controller withdraws a policy.
    Retire(DeviceId, PolicyId),
    /// A controller erases what is due.
    Sweep(DeviceId),
    /// A controller asks another one for data.
    Ask(DeviceId),
    /// Something remembered about an item may be of no more use.
    Forget(DeviceId, ItemId),
    /// A message arrives.
    Deliver(Box<Letter>),
    /// A device starts again.
    Start(DeviceId),
}

/// A message on its way.
pub struct Letter {
    /// Who hears it.
    pub to: DeviceId,
    /// What it says.
    pub message: Message,
    /// The envelope's id; a radio frame has none.
    pub id: Option<MessageId>,
    /// The head of the sender's trace when it left; likewise.
    pub head: Option<ChainHead>,
    /// By which a repository knows a subject.
    pub connection: Option<Connection>,
    /// What controllers call the item in it.
    pub handle: Option<Handle>,
    /// Which instance it answers.
    pub instance: usize,
}

impl Task {
    /// Who does it.
    pub fn device(&self) -> DeviceId {
        match self {
            Self::Wake(device)
            | Self::Publish(device)
            | Self::Retire(device, _)
            | Self::Sweep(device)
            | Self::Ask(device)
            | Self::Forget(device, _)
            | Self::Start(device) => *device,
            Self::Deliver(letter) => letter.to,
        }
    }
}

/// The tasks to come. Whoever is at work says when, by its own clock.
#[derive(Default)]
pub struct Agenda {
    /// How many seconds the clock of whoever is at work is ahead.
    pub ahead: u64,
    /// What is left of this second.
    now: (Time, VecDeque<Task>),
    seconds: BTreeMap<Time, VecDeque<Task>>,
}

impl Agenda {
    /// A task for a moment that is not over.
    pub fn at(&mut self, time: Time, task: Task) {
        let time = Time::from_unix(time.unix().saturating_sub(self.ahead)).max(self.now.0);
        self.seconds.entry(time).or_default().push_back(task);
    }

    /// A task some seconds from now.
    pub fn after(&mut self, seconds: u64, now: Time, task: Task) {
        self.at(later(now, seconds), task);
    }

    /// What time it is.
    pub const fn now(&self) -> Time {
        self.now.0
    }

    /// The next task, and when it is done.
    pub fn take_next(&mut self) -> Option<(Time, Task)> {
        if self.now.1.is_empty() {
            self.now = self.seconds.pop_first()?;
        }
        self.now.1.pop_front().map(|task| (self.now.0, task))
    }

    /// Every policy that a task mentions.
    pub fn policies(&self) -> impl Iterator<Item = PolicyId> {
        self.seconds.values().flatten().chain(&self.now.1).flat_map(|task| match task {
            Task::Retire(_, policy) => vec![*policy],
            Task::Deliver(letter) => letter.policies().collect(),
            _ => Vec::new(),
        })
    }
}

impl Letter {
    /// Every policy that it mentions.
    pub fn policies(&self) -> impl Iterator<Item = PolicyId> {
        self.message.policy().into_iter().chain(self.message.offers().iter().map(|(_, policy)| *policy))
    }
}

/// Some seconds later.
pub fn later(time: Time, seconds: u64) -> Time {
    Time::from_unix(time.unix().saturating_add(seconds))
}
