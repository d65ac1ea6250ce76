//! The end that advertises, only from the address that was consented to: one frame at a time, or a few where the
//! controller has advertising sets.
//!
//! A frame is an advertisement that BlueZ registers; another frame is another one, and the old one is taken back first.
//! `Type=peripheral`, because with `broadcast` BlueZ makes up an address. Nothing else is in it: no name, no services, no
//! transmit power, all of which would tell one device from another.

use std::collections::BTreeMap;

use bluer::Uuid;
use bluer::adv::{Advertisement, AdvertisementHandle, SecondaryChannel, Type};
use tokio::time::{MissedTickBehavior, interval};

use super::adapter::{Station, within};
use super::attempts::Attempts;
use super::{ADVERTISING_INTERVAL, BluezError, CHECK_INTERVAL, Settings};
use crate::air::frame::LEGACY_FRAME_BYTES;
use crate::air::{Address, Carrier, FrameBytes, Radio};

/// A frame, and what ends it when it is dropped.
type OnAir = (FrameBytes, AdvertisementHandle);

/// The task behind an [`Air`](crate::air::Air) that advertises.
pub(super) struct Speaker {
    settings: Settings,
    /// The item: whoever hears a frame takes it from there.
    address: Address,
    radio: Radio,
    attempts: Attempts,
    /// What was said about long frames, to say it once.
    declined: Option<String>,
}

impl Speaker {
    pub(super) fn new(settings: Settings, address: Address, radio: Radio) -> Self {
        let attempts = Attempts::new(settings.adapter.clone());
        Self { settings, address, radio, attempts, declined: None }
    }

    /// Until nobody wants to advertise any more.
    pub(super) async fn run(mut self) {
        while let Err(error) = self.speak().await {
            self.radio.set_up(false);
            let mut wanted = self.radio.wanted.clone();
            tokio::select! {
                () = self.attempts.failed(error) => {}
                () = gone(&mut wanted) => return,
            }
        }
    }

    /// Says what is wanted until that fails, or until there is nobody left who wants something.
    async fn speak(&mut self) -> Result<(), BluezError> {
        let station = Station::open(&self.settings.adapter).await?;
        let facts = station.look().await?;
        self.check(&facts.state)?;
        self.set_room(facts.offer.room().map_err(|declined| declined.to_string()));
        self.radio.set_sets(facts.sets());
        self.radio.set_up(true);
        self.attempts.succeeded();

        let mut on_air = Vec::new();
        let mut checks = interval(CHECK_INTERVAL);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.follow(&station, &mut on_air).await?;
            tokio::select! {
                changed = self.radio.wanted.changed() => if changed.is_err() {
                    take_back(on_air).await;
                    return Ok(());
                },
                state = async { checks.tick().await; station.glance().await } => {
                    let state = state?;
                    self.check(&state)?;
                    let (active, _) = state.advertisements.unwrap_or_default();
                    if usize::from(active) < on_air.len() {
                        return Err(BluezError::Dropped);
                    }
                }
            }
        }
    }

    /// Takes back what is not wanted any more, and only then puts on the air what is new: silence does not wait for
    /// anything, and there may be room for one advertisement only.
    async fn follow(&mut self, station: &Station, on_air: &mut Vec<OnAir>) -> Result<(), BluezError> {
        let wanted = self.radio.wanted.borrow_and_update().clone();
        let ended: Vec<OnAir> = on_air.extract_if(.., |(frame, _)| !wanted.contains(frame)).collect();
        take_back(ended).await;
        for frame in wanted {
            // What is wanted by now is another matter: who has withdrawn does not wait for the rest.
            if self.radio.wanted.has_changed().unwrap_or(true) {
                break;
            }
            if !on_air.iter().any(|(said, _)| *said == frame) {
                on_air.extend(self.register(station, frame).await?);
            }
        }
        Ok(())
    }

    fn check(&self, state: &super::adapter::State) -> Result<(), BluezError> {
        let name = &self.settings.adapter;
        state.check_power(name)?;
        state.check_address(name, Some(self.address))?;
        state.advertisements.map(|_| ()).ok_or_else(|| BluezError::NotAdvertising(name.clone()))
    }

    /// Puts a frame on the air. A long one that is refused shows that long ones are not possible after all; the next ones
    /// will be short.
    async fn register(&mut self, station: &Station, frame: FrameBytes) -> Result<Option<OnAir>, BluezError> {
        match within(station.adapter.advertise(advertisement(self.settings.carrier, &frame))).await {
            Ok(handle) => Ok(Some((frame, handle))),
            Err(BluezError::Failed(reason)) if frame.as_slice().len() > LEGACY_FRAME_BYTES => {
                self.set_room(Err(format!("BlueZ refused one: {reason}")));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn set_room(&mut self, room: Result<usize, String>) {
        match room {
            Ok(room) => {
                self.declined = None;
                self.radio.set_room(room);
            }
            Err(reason) => {
                self.radio.set_room(LEGACY_FRAME_BYTES);
                if self.declined.as_ref() != Some(&reason) {
                    tracing::info!(adapter = %self.settings.adapter, reason, "only legacy frames: extended advertising is declined");
                    self.declined = Some(reason);
                }
            }
        }
    }
}

/// Unregisters. bluer does it in tasks of its own, which are given their turn before anything else is sent to BlueZ.
async fn take_back(ended: Vec<OnAir>) {
    if ended.is_empty() {
        return;
    }
    drop(ended);
    for _ in 0..TURNS {
        tokio::task::yield_now().await;
    }
}

/// How many turns other tasks get to send what they have to send.
const TURNS: usize = 4;

/// Until nobody wants to advertise any more.
async fn gone(wanted: &mut tokio::sync::watch::Receiver<Vec<FrameBytes>>) {
    while wanted.changed().await.is_ok() {}
}

fn advertisement(carrier: Carrier, frame: &FrameBytes) -> Advertisement {
    let data = frame.as_slice().to_vec();
    let is_long = data.len() > LEGACY_FRAME_BYTES;
    let mut advertisement = Advertisement {
        advertisement_type: Type::Peripheral,
        secondary_channel: is_long.then_some(SecondaryChannel::OneM),
        min_interval: Some(ADVERTISING_INTERVAL),
        max_interval: Some(ADVERTISING_INTERVAL),
        ..Advertisement::default()
    };
    match carrier {
        Carrier::Manufacturer(company) => advertisement.manufacturer_data = BTreeMap::from([(company, data)]),
        Carrier::Service(uuid) => advertisement.service_data = BTreeMap::from([(short_uuid(uuid), data)]),
    }
    advertisement
}

/// A 16-bit UUID in full. (Bluetooth Core Specification, volume 3, part B, 2.5.1)
pub(super) const fn short_uuid(uuid: u16) -> Uuid {
    Uuid::from_fields(uuid as u32, 0, 0x1000, &[0x80, 0, 0, 0x80, 0x5f, 0x9b, 0x34, 0xfb])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_advertisement_has_a_frame_and_nothing_else() {
        let frame = FrameBytes::new(&[7; 24]).unwrap();
        let said = advertisement(Carrier::Manufacturer(0xffff), &frame);
        let bare = Advertisement {
            manufacturer_data: BTreeMap::from([(0xffff, vec![7; 24])]),
            min_interval: Some(ADVERTISING_INTERVAL),
            max_interval: Some(ADVERTISING_INTERVAL),
            ..Advertisement::default()
        };
        assert_eq!(said, bare);
        let long = advertisement(Carrier::Service(0xfd6f), &FrameBytes::new(&[7; 25]).unwrap());
        assert_eq!(long.secondary_channel, Some(SecondaryChannel::OneM));
        let uuid = long.service_data.keys().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(uuid, ["0000fd6f-0000-1000-8000-00805f9b34fb"]);
    }
}
