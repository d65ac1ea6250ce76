//! The air: what a gateway says to whoever is near, and what it hears.
//!
//! An [`Air`] has an end to advertise with, an end to listen to, and a look at how the radio is doing. What is behind
//! them is a task that has the other ends: [Bluetooth](bluez), or the [simulated air](simulated). A gateway cannot tell
//! which, and neither needs a trait with two implementations and boxed futures.
//!
//! The air promises nothing. Frames are repeated until others replace them, and any one of them may be lost, doubled or
//! late; so whoever is slow loses frames, which are counted, and never memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use pilot_core::value::Time;
use tokio::sync::{mpsc, watch};

mod address;
pub mod advertisement;
pub mod bluez;
mod bytes;
mod carrier;
mod epoch;
pub mod frame;
pub mod simulated;

pub use address::{Address, AddressKind};
pub use bytes::FrameBytes;
pub use carrier::Carrier;

/// How many sightings wait for a listener. When there are more, the newest are dropped and counted as missed: an
/// advertiser repeats what it says.
pub const MAX_WAITING_SIGHTINGS: usize = 1_024;

/// An advertisement that was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sighting {
    /// Who advertises. It is hidden in every output.
    pub address: Address,
    /// What sort of address that is.
    pub address_kind: AddressKind,
    /// How strong the signal was, in dBm, if the radio says so.
    pub rssi: Option<i8>,
    /// What was said; not yet known to be a frame.
    pub frame: FrameBytes,
    /// When, by the listener's clock.
    pub time: Time,
}

/// A radio as a gateway sees it. Take it apart to use its ends in different tasks; the radio is switched off when both
/// `advertiser` and `sightings` are dropped.
#[derive(Debug)]
pub struct Air {
    /// What to say.
    pub advertiser: Advertiser,
    /// What is heard.
    pub sightings: Sightings,
    /// How the radio is doing.
    pub health: Health,
}

/// Says the same things again and again, most radios one at a time. Dropped, it stops.
#[derive(Debug)]
pub struct Advertiser {
    wanted: watch::Sender<Vec<FrameBytes>>,
    means: Arc<Means>,
}

/// What a radio can send.
#[derive(Debug)]
struct Means {
    room: AtomicUsize,
    sets: AtomicUsize,
}

/// Why something cannot be advertised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AdvertiseError {
    /// Longer than what this radio can send: use a legacy frame.
    #[error("the radio sends at most {room} bytes, the frame has {length}")]
    TooLong {
        /// See [`Advertiser::room`].
        room: usize,
        /// The frame's length.
        length: usize,
    },
    /// More than this radio can send at a time.
    #[error("the radio sends {sets} frames at a time, not {frames}")]
    TooMany {
        /// See [`Advertiser::sets`].
        sets: usize,
        /// How many there are.
        frames: usize,
    },
    /// The radio's task has ended.
    #[error("the radio is gone")]
    Gone,
}

impl Advertiser {
    /// Replaces what is being advertised; `None` stops. What was advertised before is not sent again, and the new frame
    /// is sent at once and then at every interval. Of frames that follow each other faster than the radio takes them up,
    /// only the last is sent.
    pub fn advertise(&self, frame: Option<FrameBytes>) -> Result<(), AdvertiseError> {
        self.advertise_all(frame.as_slice())
    }

    /// Likewise, with several frames at the same time, at most [`Self::sets`].
    pub fn advertise_all(&self, frames: &[FrameBytes]) -> Result<(), AdvertiseError> {
        let length = frames.iter().map(|frame| frame.as_slice().len()).max().unwrap_or_default();
        let (room, sets) = (self.room(), self.sets());
        if length > room {
            return Err(AdvertiseError::TooLong { room, length });
        }
        if frames.len() > sets {
            return Err(AdvertiseError::TooMany { sets, frames: frames.len() });
        }
        self.wanted.send(frames.to_vec()).map_err(|_| AdvertiseError::Gone)
    }

    /// How many bytes the radio can send: none if that is not known yet, [`frame::LEGACY_FRAME_BYTES`] if it is an old one, up to
    /// [`frame::MAX_FRAME_BYTES`]. It may change: what a real radio can send is known only once it is there.
    pub fn room(&self) -> usize {
        self.means.room.load(Ordering::Relaxed)
    }

    /// How many frames it can send at the same time: at least one. It may change likewise.
    pub fn sets(&self) -> usize {
        self.means.sets.load(Ordering::Relaxed)
    }
}

/// What is heard, oldest first. At most [`MAX_WAITING_SIGHTINGS`] wait here.
#[derive(Debug)]
pub struct Sightings(mpsc::Receiver<Sighting>);

impl Sightings {
    /// The next sighting; `None` once the radio is gone. Nothing is lost if it is cancelled.
    pub async fn next(&mut self) -> Option<Sighting> {
        self.0.recv().await
    }

    /// A sighting that waits already.
    pub fn try_next(&mut self) -> Option<Sighting> {
        self.0.try_recv().ok()
    }
}

/// How a radio is doing.
#[derive(Debug, Clone)]
pub struct Health {
    up: watch::Receiver<bool>,
    counters: Arc<Counters>,
}

/// What a radio has counted since it was switched on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Sightings handed to the listener.
    pub heard: u64,
    /// Sightings lost because the listener, or this process, was too slow.
    pub missed: u64,
    /// What came over the air and was no advertisement.
    pub malformed: u64,
    /// What was not heard now, but remembered by somebody from before.
    pub stale: u64,
    /// Sightings of an address that says more than anybody has to say.
    pub limited: u64,
}

impl Health {
    /// Whether the radio works at this moment.
    pub fn is_up(&self) -> bool {
        *self.up.borrow()
    }

    /// Waits until the radio works; `false` if it is gone.
    pub async fn until_up(&mut self) -> bool {
        self.up.wait_for(|up| *up).await.is_ok()
    }

    /// Waits until the radio does not work, or is gone.
    pub async fn until_down(&mut self) {
        // An error means that it is gone.
        let _ = self.up.wait_for(|up| !*up).await;
    }

    /// What it has counted.
    pub fn counts(&self) -> Counts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counters { heard, missed, malformed, stale, limited } = &*self.counters;
        Counts {
            heard: of(heard),
            missed: of(missed),
            malformed: of(malformed),
            stale: of(stale),
            limited: of(limited),
        }
    }
}

#[derive(Debug, Default)]
struct Counters {
    heard: AtomicU64,
    missed: AtomicU64,
    malformed: AtomicU64,
    stale: AtomicU64,
    limited: AtomicU64,
}

/// The other ends, for the task that is the radio.
#[derive(Debug)]
struct Radio {
    wanted: watch::Receiver<Vec<FrameBytes>>,
    sightings: mpsc::Sender<Sighting>,
    up: watch::Sender<bool>,
    means: Arc<Means>,
    counters: Arc<Counters>,
}

impl Air {
    /// Both sides of a radio that can send `room` bytes.
    fn new(room: usize) -> (Self, Radio) {
        let (wanted, wanted_by_radio) = watch::channel(Vec::new());
        let (heard, sightings) = mpsc::channel(MAX_WAITING_SIGHTINGS);
        let (up, is_up) = watch::channel(false);
        let counters = Arc::new(Counters::default());
        let means = Arc::new(Means { room: AtomicUsize::new(room), sets: AtomicUsize::new(1) });
        let radio = Radio {
            wanted: wanted_by_radio,
            sightings: heard,
            up,
            means: Arc::clone(&means),
            counters: Arc::clone(&counters),
        };
        let health = Health { up: is_up, counters };
        (Self { advertiser: Advertiser { wanted, means }, sightings: Sightings(sightings), health }, radio)
    }
}

impl Radio {
    /// Hands a sighting to the listener, or drops it if too many wait, or if nobody listens.
    fn hear(&self, sighting: Sighting) {
        match self.sightings.try_send(sighting) {
            Ok(()) => self.count(|counters| &counters.heard, 1),
            Err(mpsc::error::TrySendError::Full(_)) => self.count(|counters| &counters.missed, 1),
            Err(mpsc::error::TrySendError::Closed(_)) => {}
        }
    }

    fn count(&self, counter: impl FnOnce(&Counters) -> &AtomicU64, by: u64) {
        counter(&self.counters).fetch_add(by, Ordering::Relaxed);
    }

    fn set_room(&self, room: usize) {
        self.means.room.store(room, Ordering::Relaxed);
    }

    fn set_sets(&self, sets: usize) {
        self.means.sets.store(sets.max(1), Ordering::Relaxed);
    }

    fn set_up(&self, up: bool) {
        self.up.send_if_modified(|was| std::mem::replace(was, up) != up);
    }
}
