//! The end that listens: scans without pause, and hands on what carries our identifier.
//!
//! BlueZ shows a device as an object. What it says for the first time is a property of the new object, and what it says
//! after that comes as a change of the property, each time it is heard (`DuplicateData`). Objects stay for a while after
//! their device has fallen silent, with their last data; so what was there before the scan counts for nothing, and
//! neither does an object without a signal strength.
//!
//! BlueZ merges the filters of all who scan, so there is no use in one: everything is looked at here.
//!
//! **In rounds.** Linux has controllers filter duplicates while it scans, and many of them look at the address only: of
//! somebody who says several things in turn, the first would be heard and the others not. After ten seconds BlueZ even
//! takes a rest. So the scan is started anew with every look at the adapter, and then everybody is new.

use std::fmt::Write as _;
use std::pin::Pin;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use btleplug::api::{
    AddressType, Central as _, CentralEvent, Manager as _, Peripheral as _, PeripheralProperties, ScanFilter,
};
use btleplug::platform::{Adapter, Manager, PeripheralId};
use futures_util::{FutureExt as _, Stream, StreamExt as _};
use pilot_core::value::Time;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::adapter::Station;
use super::attempts::Attempts;
use super::ear::{Data, Ear, Neighbour, Turn};
use super::rest::Restlessness;
use super::speaker::short_uuid;
use super::{AdapterName, BluezError, CALL_TIMEOUT, CHECK_INTERVAL, Settings};
use crate::air::{Address, AddressKind, Carrier, Radio, Sighting};

type Events = Pin<Box<dyn Stream<Item = CentralEvent> + Send>>;

/// The task behind an [`Air`](crate::air::Air) that listens.
pub(super) struct Listener {
    settings: Settings,
    radio: Radio,
    attempts: Attempts,
    ear: Ear,
    /// When it was made: the beginning of the ear's time.
    start: Instant,
    /// Kept over failures: a connection to D-Bus that btleplug has made is never closed again.
    manager: Option<Manager>,
}

impl Listener {
    pub(super) fn new(settings: Settings, radio: Radio) -> Self {
        let attempts = Attempts::new(settings.adapter.clone());
        Self { settings, radio, attempts, ear: Ear::default(), start: Instant::now(), manager: None }
    }

    /// Until nobody listens any more.
    pub(super) async fn run(mut self) {
        let listener = self.radio.sightings.clone();
        loop {
            let error = tokio::select! {
                error = self.listen() => error,
                () = listener.closed() => break,
            };
            self.radio.set_up(false);
            self.ear.forget();
            tokio::select! {
                () = self.attempts.failed(error) => {}
                () = listener.closed() => break,
            }
        }
        self.stop().await;
    }

    /// Listens until that fails.
    async fn listen(&mut self) -> BluezError {
        match self.try_to_listen().await {
            Ok(never) => match never {},
            Err(error) => error,
        }
    }

    async fn try_to_listen(&mut self) -> Result<std::convert::Infallible, BluezError> {
        let station = Station::open(&self.settings.adapter).await?;
        station.glance().await?.check_power(&self.settings.adapter)?;
        let central = self.central().await?;
        // A scan that was ours before bluetoothd lost its adapter, say.
        let _ = answer(central.stop_scan()).await;
        let mut events = self.fresh_events(&central).await?;
        answer(central.start_scan(ScanFilter::default())).await?;
        self.radio.set_up(true);
        self.attempts.succeeded();

        let mut restlessness = Restlessness::new(Instant::now());
        let mut checks = interval(CHECK_INTERVAL);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let waiting = Instant::now();
            tokio::select! {
                event = events.next() => {
                    let waited = waiting.elapsed();
                    self.hear(&central, event.ok_or(BluezError::NoBus)?).await;
                    if restlessness.is_too_long(waited, Instant::now()) {
                        tracing::warn!("more is heard than BlueZ can tell: what waited is dropped");
                        events = self.fresh_events(&central).await?;
                        restlessness = Restlessness::new(Instant::now());
                    }
                }
                _ = checks.tick() => {
                    let state = station.glance().await?;
                    state.check_power(&self.settings.adapter)?;
                    if !state.is_discovering {
                        return Err(BluezError::Dropped);
                    }
                    answer(central.stop_scan()).await?;
                    answer(central.start_scan(ScanFilter::default())).await?;
                }
            }
        }
    }

    /// btleplug's view of the adapter.
    async fn central(&mut self) -> Result<Adapter, BluezError> {
        if let Some(manager) = &self.manager
            && let Ok(central) = find(manager, &self.settings.adapter).await
        {
            return Ok(central);
        }
        // The adapter is there, as the station has seen, so the connection is what is gone.
        let manager = answer(Manager::new()).await?;
        let central = find(&manager, &self.settings.adapter).await;
        self.manager = Some(manager);
        central
    }

    /// What BlueZ will say from now on. What it remembers from before is counted and forgotten.
    async fn fresh_events(&mut self, central: &Adapter) -> Result<Events, BluezError> {
        let mut events = answer(central.events()).await?;
        while let Some(Some(event)) = events.next().now_or_never() {
            if matches!(event, CentralEvent::DeviceDiscovered(_)) {
                self.radio.count(|counters| &counters.stale, 1);
            }
        }
        Ok(events)
    }

    async fn hear(&mut self, central: &Adapter, event: CentralEvent) {
        match (event, self.settings.carrier) {
            (CentralEvent::ManufacturerDataAdvertisement { id, manufacturer_data }, Carrier::Manufacturer(company)) => {
                if let Some(data) = manufacturer_data.get(&company) {
                    self.hear_change(central, &id, data).await;
                }
            }
            (CentralEvent::ServiceDataAdvertisement { id, service_data }, Carrier::Service(uuid)) => {
                if let Some(data) = service_data.get(&short_uuid(uuid)) {
                    self.hear_change(central, &id, data).await;
                }
            }
            (CentralEvent::DeviceDiscovered(id), _) => self.hear_first(central, &id).await,
            (CentralEvent::RssiUpdate { id, rssi }, _) => {
                if let Some(address) = address_of(&id) {
                    self.ear.measure(address, narrow(rssi));
                }
            }
            _ => {}
        }
    }

    /// A device that BlueZ did not know: what it says is among its properties, if it says something to us.
    async fn hear_first(&mut self, central: &Adapter, id: &PeripheralId) {
        let Some(properties) = properties(central, id).await else { return };
        let Some(data) = carried(&properties, self.settings.carrier) else { return };
        let neighbour = neighbour(&properties);
        let Some(address) = address_of(id) else { return };
        if self.ear.turn(address, self.start.elapsed()) == Turn::Limited {
            return self.radio.count(|counters| &counters.limited, 1);
        }
        let data = Data::of_first(data, neighbour.rssi);
        self.ear.meet(address, neighbour);
        self.tell(address, neighbour, data);
    }

    /// A device that was heard again.
    async fn hear_change(&mut self, central: &Adapter, id: &PeripheralId, data: &[u8]) {
        let Some(address) = address_of(id) else { return };
        let neighbour = match self.ear.turn(address, self.start.elapsed()) {
            Turn::Limited => return self.radio.count(|counters| &counters.limited, 1),
            Turn::Known(neighbour) => neighbour,
            Turn::Stranger => {
                // Gone again, or BlueZ is: the next one will say more.
                let Some(properties) = properties(central, id).await else { return };
                let neighbour = neighbour(&properties);
                self.ear.meet(address, neighbour);
                neighbour
            }
        };
        self.tell(address, neighbour, Data::of_change(data));
    }

    fn tell(&self, address: Address, Neighbour { kind, rssi }: Neighbour, data: Data) {
        match data {
            Data::Frame(frame) => {
                self.radio.hear(Sighting { address, address_kind: kind, rssi, frame, time: now() });
            }
            Data::TooLong => self.radio.count(|counters| &counters.malformed, 1),
            Data::Stale => self.radio.count(|counters| &counters.stale, 1),
        }
    }

    /// BlueZ would go on scanning until the process ends.
    async fn stop(&self) {
        if let Some(manager) = &self.manager
            && let Ok(central) = find(manager, &self.settings.adapter).await
        {
            let _ = answer(central.stop_scan()).await;
        }
    }
}

/// btleplug's answers about the adapter, in time. It says less about what is wrong than bluer does.
async fn answer<T>(call: impl Future<Output = btleplug::Result<T>>) -> Result<T, BluezError> {
    let answered = timeout(CALL_TIMEOUT, call).await.map_err(|_| BluezError::Silent)?;
    answered.map_err(|error| BluezError::Failed(error.to_string()))
}

async fn find(manager: &Manager, name: &AdapterName) -> Result<Adapter, BluezError> {
    for adapter in answer(manager.adapters()).await? {
        // "hci0 (usb:…)"
        let info = answer(adapter.adapter_info()).await?;
        if info.split_whitespace().next() == Some(name.as_str()) {
            return Ok(adapter);
        }
    }
    Err(BluezError::NoAdapter(name.clone()))
}

/// What BlueZ knows of a device. Why it cannot be had is not said anywhere: that would have its address in it.
async fn properties(central: &Adapter, id: &PeripheralId) -> Option<PeripheralProperties> {
    let asked = async { central.peripheral(id).await?.properties().await };
    timeout(CALL_TIMEOUT, asked).await.ok()?.ok()?
}

fn carried(properties: &PeripheralProperties, carrier: Carrier) -> Option<&[u8]> {
    let data = match carrier {
        Carrier::Manufacturer(company) => properties.manufacturer_data.get(&company),
        Carrier::Service(uuid) => properties.service_data.get(&short_uuid(uuid)),
    };
    data.map(Vec::as_slice)
}

fn neighbour(properties: &PeripheralProperties) -> Neighbour {
    let kind = match properties.address_type {
        Some(AddressType::Public) => AddressKind::Public,
        Some(AddressType::Random) | None => AddressKind::Random,
    };
    Neighbour { kind, rssi: properties.rssi.map(narrow) }
}

fn narrow(rssi: i16) -> i8 {
    rssi.clamp(i8::MIN.into(), i8::MAX.into()) as i8
}

/// The address in the path of an object, `hci0/dev_00_11_22_33_44_55`.
fn address_of(id: &PeripheralId) -> Option<Address> {
    let mut path = String::new();
    // Not `to_string`, which panics if the path is not BlueZ's.
    write!(path, "{id}").ok()?;
    parse_path(&path)
}

fn parse_path(path: &str) -> Option<Address> {
    let (_, digits) = path.rsplit_once("/dev_")?;
    let mut bytes = [0; 6];
    let mut parts = digits.split('_');
    for byte in &mut bytes {
        *byte = u8::from_str_radix(parts.next().filter(|part| part.len() == 2)?, 16).ok()?;
    }
    parts.next().is_none().then(|| Address::new(bytes))
}

fn now() -> Time {
    Time::from_unix(SystemTime::now().duration_since(UNIX_EPOCH).as_ref().map_or(0, Duration::as_secs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_addresses() {
        let address = parse_path("hci0/dev_C0_FF_EE_01_02_0a").unwrap();
        assert_eq!(address.reveal(), [0xc0, 0xff, 0xee, 1, 2, 10]);
        for wrong in
            ["", "hci0", "hci0/dev_", "hci0/dev_C0_FF_EE_01_02", "hci0/dev_C0_FF_EE_01_02_0a_00", "hci0/dev_é_"]
        {
            assert_eq!(parse_path(wrong), None, "{wrong}");
        }
    }
}
