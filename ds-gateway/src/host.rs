//! What the gateway does with what its graph says: it asks, opens answers, puts frames on the air and repeats notices.
//!
//! * this file: the gateway, and the order in which things happen;
//! * `policies`: from requestPolicies↑ to downloadPolicies↓;
//! * `release`: from broadcast↑ to a frame on the air, and from withdraw↑ to a notice;
//! * `user`: what she asks and decides.
//!
//! **Stored, then sent.** Frames and notices leave in [`Host::settle`] only, after the state that remembers them is on the
//! disk: who may have the item is known after any crash. A step is recorded before that, so what she takes back is in the
//! trace even if the state is not stored any more, and the next start takes it from there (`follow`). Falling silent does
//! not wait for anything.

mod policies;
mod release;
mod user;

use std::path::PathBuf;

use mesh_runtime::air::{Address, AdvertiseError, Advertiser, Air, FrameBytes, Health};
use mesh_runtime::daemon::control::Asked;
use mesh_runtime::daemon::membership::Membership;
use mesh_runtime::daemon::state_file;
use mesh_runtime::driver::clock::ClockProblem;
use mesh_runtime::driver::run::Host;
use mesh_runtime::driver::{Decision, DriveError, Driver, NoRoom, Outcome, RecordError};
use mesh_runtime::journal::Journal;
use mesh_runtime::link::{self, Disconnection, Event, SubscribeError, Topic};
use mesh_runtime::protocol::post::Post;
use mesh_runtime::protocol::requests::Requests;
use mesh_runtime::recorder::Position;
use pilot_core::evidence::DeviceName;
use pilot_core::graph::{Body, Label, Location, MessageKind};
use pilot_core::policy::Choice;
use pilot_core::semantics::{Epoch, PolicyId};
use pilot_core::value::{Time, Value};
use pilot_core::vocabulary::{Attribute, DeviceId, Variable};

use crate::catalogue::Catalogue;
use crate::catalogue::verify::Reader;
use crate::config::{Config, FrameSetting, OwnPolicies};
use crate::download::Download;
use crate::frames::ConsentKeys;
use crate::rotation::Rotation;
use crate::start::clock_attribute;
use crate::state::{About, Remembered, State};

/// Whom she asks for policies.
#[derive(Debug, Clone)]
pub struct Repository {
    /// Its name.
    pub name: DeviceName,
    /// Its number.
    pub id: DeviceId,
    /// Where it says that something has changed.
    pub changes: Topic,
}

/// What a question that waits is about.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Question {
    /// The next part of the download.
    Fetch,
    /// The notice that this controller is owed.
    Notice(DeviceName),
}

/// What she says on the air.
#[derive(Debug)]
pub struct Radio {
    /// The item: what she speaks from.
    address: Address,
    advertiser: Advertiser,
    health: Health,
    rotation: Rotation,
    on_air: Vec<(DeviceId, FrameBytes)>,
    /// What there was room for when frames were last made.
    room: usize,
    setting: FrameSetting,
    keys: ConsentKeys,
}

impl Radio {
    /// A silent radio.
    pub fn new(air: Air, address: Address, rotation: Rotation, setting: FrameSetting, keys: ConsentKeys) -> Self {
        // She does not listen.
        let Air { advertiser, health, sightings: _ } = air;
        let room = advertiser.room();
        Self { address, advertiser, health, rotation, on_air: Vec::new(), room, setting, keys }
    }

    /// Whether there is room for other frames than before. What a real radio can send is known only once it is there.
    fn has_another_room(&mut self) -> bool {
        let room = self.advertiser.room();
        std::mem::replace(&mut self.room, room) != room
    }

    /// Says what is to be on the air.
    fn say(&self) -> Result<(), AdvertiseError> {
        let frames: Vec<FrameBytes> = self.on_air.iter().map(|(_, frame)| *frame).collect();
        self.advertiser.advertise_all(&frames)
    }
}

/// Where things are stored.
#[derive(Debug)]
pub struct Place {
    /// Π.
    pub catalogue: PathBuf,
    /// The state.
    pub state: PathBuf,
}

/// The daemon around the driver.
#[derive(Debug)]
pub struct Gateway<'v> {
    about: About<'v>,
    repository: Repository,
    membership: Membership,
    own: OwnPolicies,
    post: Post,
    requests: Requests<Question>,
    download: Option<Download>,
    catalogue: Catalogue,
    /// Whether Π was stored by an earlier run.
    pub(crate) is_stored: bool,
    remembered: Remembered,
    /// Whether the state has changed since it was stored.
    is_dirty: bool,
    /// Up to where in the trace the stored state goes.
    followed: Position,
    radio: Radio,
    place: Place,
    /// The clock's attribute, whether some policy reads it, and when it was last set.
    clock: Option<Attribute>,
    reads_clock: Option<bool>,
    told: Time,
    is_started: bool,
    is_connected: bool,
    /// Whether the mesh file was in force when it was last looked at, to say it once.
    is_in_force: bool,
    /// The repository has said that there is something new.
    is_news: bool,
    /// Nothing is released in this epoch any more, because something was withdrawn in it.
    silent_in: Option<Epoch>,
    /// The connection was lost, so a question that waits must not be asked again in the same words.
    is_new_connection: bool,
    /// When she last asked for policies.
    asked: Time,
}

impl<'v> Gateway<'v> {
    /// A gateway that has not begun.
    #[expect(clippy::too_many_arguments, reason = "each is made in one place, and they have nothing in common")]
    pub(crate) fn new(
        about: About<'v>,
        config: Config,
        repository: Repository,
        post: Post,
        catalogue: Catalogue,
        (remembered, followed): (Remembered, Position),
        radio: Radio,
        place: Place,
    ) -> Self {
        Self {
            about,
            repository,
            membership: config.membership,
            own: config.own,
            post,
            requests: Requests::default(),
            download: None,
            catalogue,
            is_stored: false,
            remembered,
            is_dirty: false,
            followed,
            radio,
            place,
            clock: clock_attribute(about.vocabulary),
            reads_clock: None,
            told: Time::default(),
            is_started: false,
            is_connected: false,
            is_in_force: true,
            is_news: false,
            silent_in: None,
            is_new_connection: false,
            asked: Time::default(),
        }
    }

    /// Listens for answers and for news.
    pub(crate) fn subscribe(&self) -> Result<(), SubscribeError> {
        let mine = self.post.my_topic(self.membership.mesh());
        for topic in mine.into_iter().chain([self.repository.changes.clone()]) {
            self.post.link().subscribe(topic.into())?;
        }
        Ok(())
    }

    /// The network is gone. Whatever comes next, nobody shall be able to link it to what was before: another key, another
    /// topic, and nothing is sent until there is a connection.
    fn disconnected(&mut self, reason: &Disconnection) {
        tracing::warn!(%reason, "not connected; going on with what is known");
        self.is_connected = false;
        // What waits in the outbox is signed by the key that is given up.
        self.post.link().discard();
        self.is_new_connection = true;
        // Asked again with another id, on the next connection. A notice keeps its own: the trace names it.
        self.requests.retain(|question| *question != Question::Fetch);
        self.download = None;
        let before = self.post.my_topic(self.membership.mesh());
        let changed = self.post.become_somebody_else().map_err(|error| error.to_string());
        let unsubscribe = |topic: Topic| self.post.link().unsubscribe(&topic.into());
        let subscribed = changed.and_then(|()| {
            let ended = before.map_or(Ok(()), unsubscribe).and_then(|()| self.subscribe());
            ended.map_err(|error| error.to_string())
        });
        if let Err(error) = subscribed {
            tracing::error!(%error, "cannot listen for answers");
        }
    }

    fn connected(&mut self, now: Time) {
        tracing::info!("connected");
        self.is_connected = true;
        self.requests.hasten(now);
    }

    /// Where the instance of the graph is.
    fn location(driver: &Driver<'_, Journal>) -> Location {
        driver.instances().next().map_or(Location::S0, |instance| instance.location)
    }

    /// The numbers of her policies.
    fn own_ids(&self, driver: &mut Driver<'_, Journal>) -> Result<Vec<PolicyId>, NoRoom> {
        let policies = self.own.policies().iter().filter_map(|policy| match &policy.choice {
            Choice::Policy(policy) => Some(policy.clone()),
            Choice::Nothing => None,
        });
        policies.map(|policy| driver.intern(policy)).collect()
    }

    /// Init, or Restore with what was stored.
    fn start(&mut self, driver: &mut Driver<'_, Journal>, now: Time) -> Result<(), DriveError> {
        self.is_started = true;
        let own = self.own_ids(driver).map_err(RecordError::new)?;
        let decision = if self.is_stored {
            Decision::Restore { own, offers: self.offers(driver, now) }
        } else {
            Decision::Init { own }
        };
        self.told = Time::default();
        self.tell_time(driver, now);
        let outcome = driver.decide(decision, now)?;
        self.happened(outcome, driver);
        tracing::info!(policies = self.catalogue.offers().count(), "ready");
        Ok(())
    }

    /// Tells conditions what time it is, if any asks.
    fn tell_time(&mut self, driver: &mut Driver<'_, Journal>, now: Time) {
        let Some(clock) = self.clock.filter(|_| self.told != now) else { return };
        let reads = |driver: &Driver<'_, Journal>| {
            let policies = driver.context(now).policies;
            policies.iter().any(|(_, policy)| policy.reads(Variable::Attribute(clock)))
        };
        if *self.reads_clock.get_or_insert_with(|| reads(driver)) {
            self.told = now;
            driver.set_attribute(clock, Value::Time(now));
        }
    }

    /// Looks at the mesh file. New devices get numbers; who may speak for whom may have changed, so everything is asked for
    /// again.
    fn look(&mut self, driver: &mut Driver<'_, Journal>, now: Time, at_once: bool) {
        if self.membership.look(now, at_once) {
            self.membership.enrol(driver, self.about.vocabulary);
            let reader = Reader { mesh: self.membership.mesh(), vocabulary: self.about.vocabulary, now };
            let gone = self.catalogue.start_over(&reader);
            tracing::info!(gone, "policies that nobody vouches for any more are not accepted");
            self.is_news = true;
            self.fall_silent_unless_allowed(driver, now);
        }
        let is_in_force = self.membership.is_in_force(now);
        if is_in_force != std::mem::replace(&mut self.is_in_force, is_in_force) {
            match is_in_force {
                true => tracing::info!("the mesh file is in force again"),
                false => tracing::error!("the mesh file has expired: nobody is believed, nothing is sent"),
            }
        }
    }

    /// Puts the state on the disk if it has changed.
    fn persist(&mut self, driver: &mut Driver<'_, Journal>, now: Time) -> Result<(), DriveError> {
        let recorder = driver.recorder().recorder();
        let position = recorder.position();
        if self.is_dirty || self.followed.is_far_behind(position) {
            recorder.sync().map_err(RecordError::new)?;
            let memory = &driver.device().memory.clone();
            let (names, as_of) = (&driver.recorder().names, (position, now));
            let state = State::of(memory, &self.remembered, names, &self.about, as_of);
            state_file::store(&self.place.state, &state).map_err(RecordError::new)?;
            (self.is_dirty, self.followed) = (false, position);
        }
        Ok(())
    }

    /// The first of several times at which there is something to do.
    fn wake(&self, now: Time) -> Time {
        let in_a_second = Time::from_unix(now.unix().saturating_add(1));
        // A radio that comes back may have room for other frames.
        let is_ticking = self.reads_clock == Some(true) || self.is_news || !self.radio.health.is_up();
        // What cannot be sent is not waited for.
        let due = if self.is_connected && self.is_in_force { self.requests.next_due() } else { None };
        let times = [due, self.radio.rotation.next_turn(), is_ticking.then_some(in_a_second)];
        times.into_iter().flatten().fold(self.membership.next_look(), Time::min)
    }
}

/// How long it takes at least, in seconds, from one question for policies to the next, whatever the repository says to be
/// new: each is recorded.
pub const MIN_REFRESH_SECONDS: u64 = 2;

/// What is said on the air.
const BROADCAST: Label = Label::Send(MessageKind::Broadcast);

impl Host<Journal> for Gateway<'_> {
    type Input = Event;
    type Command = Asked;

    fn receive(
        &mut self,
        event: Event,
        driver: &mut Driver<'_, Journal>,
        now: Time,
    ) -> Result<Option<Outcome>, DriveError> {
        match event {
            Event::Connected => self.connected(now),
            Event::Disconnected { reason } => self.disconnected(&reason),
            Event::Message(message) => return self.message(&message, driver, now),
        }
        Ok(None)
    }

    fn command(
        &mut self,
        asked: Asked,
        driver: &mut Driver<'_, Journal>,
        now: Time,
    ) -> Result<Option<Outcome>, DriveError> {
        self.answer(asked, driver, now)?;
        Ok(None)
    }

    fn happened(&mut self, outcome: Outcome, driver: &mut Driver<'_, Journal>) {
        for taken in outcome.steps {
            let now = taken.time;
            match taken.step.message.map(|message| (message.receiver, message.body)) {
                Some((_, Body::RequestPolicies)) => self.ask_for_policies(driver, now),
                Some((controller, Body::Broadcast(release))) => self.announce(controller, &release, driver, now),
                Some((controller, Body::Withdraw { withdrawal, .. })) => {
                    self.silent_in = Some(Epoch::of(now));
                    self.owe(controller, withdrawal, driver);
                }
                _ => {}
            }
            match taken.action.label() {
                Label::ChangeOwn | Label::Receive(MessageKind::DownloadPolicies) | Label::Restore => {
                    self.reads_clock = None;
                }
                Label::Admit => {
                    self.is_dirty = true;
                    // She has just said so, and shall not have to wait for the next epoch.
                    driver.repeat(BROADCAST);
                }
                Label::Forget => self.is_dirty = true,
                _ => {}
            }
            self.fall_silent_unless_allowed(driver, now);
        }
    }

    fn settle(&mut self, driver: &mut Driver<'_, Journal>, now: Time) -> Result<Option<Time>, DriveError> {
        self.look(driver, now, false);
        if !self.is_started {
            self.start(driver, now)?;
            return Ok(Some(now));
        }
        self.tell_time(driver, now);
        if self.silent_in.is_some_and(|epoch| Epoch::of(now) > epoch) {
            self.silent_in = None;
            driver.repeat(BROADCAST);
        }
        if self.radio.has_another_room() {
            driver.repeat(BROADCAST);
        }
        driver.recorder().recorder().tick(now).map_err(RecordError::new)?;
        if self.is_connected && std::mem::take(&mut self.is_new_connection) && Self::location(driver) == Location::S2 {
            // The graph's way to give up an answer; then it asks again, with another id.
            let outcome = driver.decide(Decision::Refresh, now)?;
            self.happened(outcome, driver);
            self.is_news = true;
        }
        let is_soon = now.unix().saturating_sub(self.asked.unix()) < MIN_REFRESH_SECONDS;
        if self.is_news && !is_soon && Self::location(driver) == Location::S3 {
            self.is_news = false;
            let outcome = driver.decide(Decision::Refresh, now)?;
            self.happened(outcome, driver);
        }
        self.persist(driver, now)?;
        self.ask_what_is_due(now);
        self.take_turns(driver, now);
        Ok(Some(self.wake(now)))
    }

    fn clock_changed(&mut self, problem: Option<ClockProblem>) {
        match problem {
            Some(problem) => {
                tracing::error!(%problem, "the clock is not believed: nothing is done");
                self.fall_silent();
            }
            None => tracing::info!("the clock is believed again"),
        }
    }

    fn checkpoint(&mut self, driver: &mut Driver<'_, Journal>, _: Time) -> Result<(), RecordError> {
        self.fall_silent();
        driver.recorder().recorder().sync().map_err(RecordError::new)
    }
}

/// Whether a message came on this topic.
fn is_on(message: &link::Message, topic: &Topic) -> bool {
    message.topic == *topic
}
