//! What BlueZ says about an adapter, and whether that will do.

use std::future::Future;

use bluer::{Adapter, AddressType, ErrorKind, InternalErrorKind, Session};
use tokio::time::timeout;

use super::privacy;
use super::room::{Offer, Version};
use super::{AdapterName, CALL_TIMEOUT, MAX_SETS};
use crate::air::{Address, AddressKind};

/// Why there is no radio at the moment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BluezError {
    /// No system bus.
    #[error("there is no D-Bus on this machine, or it does not let us in")]
    NoBus,
    /// Nobody has the name `org.bluez`.
    #[error("BlueZ does not run (bluetoothd is not on D-Bus)")]
    NoBluez,
    /// D-Bus does not let us speak to it.
    #[error("D-Bus does not allow this user to speak to BlueZ")]
    Denied,
    /// No adapter of this name.
    #[error("there is no adapter `{0}`")]
    NoAdapter(AdapterName),
    /// It is switched off.
    #[error("the adapter `{0}` is switched off")]
    Off(AdapterName),
    /// It cannot advertise.
    #[error("the adapter `{0}` cannot advertise")]
    NotAdvertising(AdapterName),
    /// It has no address for good.
    #[error("the adapter `{0}` has a random address: it would not be seen under the same one tomorrow")]
    Random(AdapterName),
    /// It hides its address.
    #[error(
        "BlueZ hides the address of its adapters (Privacy in {file} is not off), so nobody would see the one consented to"
    )]
    Private {
        /// Which file says so.
        file: &'static str,
    },
    /// Another adapter than the one that was meant.
    #[error("the adapter `{0}` has another address than the one that is consented to")]
    OtherAddress(AdapterName),
    /// What was started does not go on: bluetoothd was restarted, say.
    #[error("BlueZ has dropped what it was asked to do")]
    Dropped,
    /// It did not answer in time.
    #[error("BlueZ does not answer")]
    Silent,
    /// Anything else, in the words of BlueZ about an adapter.
    #[error("BlueZ says: {0}")]
    Failed(String),
}

impl BluezError {
    /// Whether only a person can change it: no use in waiting.
    pub const fn is_lasting(&self) -> bool {
        matches!(self, Self::Random(_) | Self::Private { .. } | Self::OtherAddress(_))
    }
}

/// Only about adapters: what BlueZ says about other devices has their addresses.
impl From<bluer::Error> for BluezError {
    fn from(error: bluer::Error) -> Self {
        match &error.kind {
            ErrorKind::Internal(InternalErrorKind::DBus(name)) => match name.as_str() {
                // D-Bus may have tried to start it.
                name if name.starts_with("org.freedesktop.DBus.Error.Spawn.") => Self::NoBluez,
                "org.freedesktop.DBus.Error.ServiceUnknown" | "org.freedesktop.DBus.Error.NameHasNoOwner" => {
                    Self::NoBluez
                }
                "org.freedesktop.DBus.Error.AccessDenied" => Self::Denied,
                "org.freedesktop.DBus.Error.NoServer" | "org.freedesktop.DBus.Error.FileNotFound" => Self::NoBus,
                "org.freedesktop.DBus.Error.NoReply" => Self::Silent,
                name => Self::Failed(name.to_owned()),
            },
            ErrorKind::Internal(InternalErrorKind::DBusConnectionLost) => Self::NoBus,
            kind => Self::Failed(kind.to_string()),
        }
    }
}

/// What there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// What can change.
    pub state: State,
    /// What it offers to frames.
    pub offer: Offer,
}

/// What can change while it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// Its address, which is personal if it is a subject's.
    pub address: Address,
    /// What sort of address that is.
    pub address_kind: AddressKind,
    /// Whether it is switched on.
    pub is_powered: bool,
    /// Whether somebody scans with it.
    pub is_discovering: bool,
    /// How many advertisements it sends at this moment, whoever asked for them, and how many more it could; `None` if it
    /// cannot advertise at all.
    pub advertisements: Option<(u8, u8)>,
}

impl Facts {
    /// How many frames can be on the air at the same time. Without advertising sets in the controller, Linux would send
    /// several in turns of its own, two seconds each, which know nothing of ours.
    pub fn sets(&self) -> usize {
        let (_, more) = self.state.advertisements.unwrap_or_default();
        if self.offer.has_secondary_channel { usize::from(more).clamp(1, MAX_SETS) } else { 1 }
    }
}

impl State {
    /// Whether an advertisement would be seen under its address, and whether that is the wanted one.
    pub fn check_address(&self, name: &AdapterName, wanted: Option<Address>) -> Result<(), BluezError> {
        if self.address_kind == AddressKind::Random {
            return Err(BluezError::Random(name.clone()));
        }
        privacy::check()?;
        match wanted {
            Some(address) if address != self.address => Err(BluezError::OtherAddress(name.clone())),
            _ => Ok(()),
        }
    }

    /// Whether it is switched on.
    pub fn check_power(&self, name: &AdapterName) -> Result<(), BluezError> {
        if self.is_powered { Ok(()) } else { Err(BluezError::Off(name.clone())) }
    }
}

/// A connection to BlueZ.
pub(super) struct Station {
    pub(super) adapter: Adapter,
    name: AdapterName,
}

impl Station {
    /// Finds the adapter.
    pub(super) async fn open(name: &AdapterName) -> Result<Self, BluezError> {
        let session = within(Session::new()).await.map_err(|error| match error {
            BluezError::Failed(_) => BluezError::NoBus,
            known => known,
        })?;
        let names = within(session.adapter_names()).await?;
        if !names.iter().any(|found| found == name.as_str()) {
            return Err(BluezError::NoAdapter(name.clone()));
        }
        Ok(Self { adapter: session.adapter(name.as_str())?, name: name.clone() })
    }

    /// Asks for everything.
    pub(super) async fn look(&self) -> Result<Facts, BluezError> {
        Ok(Facts { state: self.glance().await?, offer: self.offer().await })
    }

    /// Asks for what can change.
    pub(super) async fn glance(&self) -> Result<State, BluezError> {
        let Self { adapter, name } = self;
        let gone = |error| match error {
            // An object, or a part of it, that is not there.
            BluezError::Failed(_) => BluezError::NoAdapter(name.clone()),
            known => known,
        };
        let address = within(adapter.address()).await.map_err(gone)?;
        let address_kind = match within(adapter.address_type()).await? {
            AddressType::LePublic | AddressType::BrEdr => AddressKind::Public,
            AddressType::LeRandom => AddressKind::Random,
        };
        let advertisements = match within(adapter.supported_advertising_instances()).await {
            Ok(more) => Some((within(adapter.active_advertising_instances()).await?, more)),
            Err(_) => None,
        };
        let is_powered = within(adapter.is_powered()).await?;
        let is_discovering = within(adapter.is_discovering()).await?;
        Ok(State { address: Address::new(address.0), address_kind, is_powered, is_discovering, advertisements })
    }

    /// What is not there, or cannot be asked for, is not offered.
    async fn offer(&self) -> Offer {
        let adapter = &self.adapter;
        let modalias = within(adapter.modalias()).await.ok().flatten();
        let channels = within(adapter.supported_advertising_secondary_channels()).await.ok().flatten();
        let capabilities = within(adapter.supported_advertising_capabilities()).await.ok().flatten();
        Offer {
            version: modalias.and_then(|modalias| Version::of(modalias.vendor, modalias.product, modalias.device)),
            has_secondary_channel: channels.is_some_and(|channels| !channels.is_empty()),
            longest: capabilities.map(|capabilities| capabilities.max_advertisement_length),
        }
    }
}

/// An answer in time.
pub(super) async fn within<T>(call: impl Future<Output = bluer::Result<T>>) -> Result<T, BluezError> {
    timeout(CALL_TIMEOUT, call).await.map_err(|_| BluezError::Silent)?.map_err(BluezError::from)
}

/// What there is to say about an adapter now.
pub async fn inspect(name: &AdapterName) -> Result<Facts, BluezError> {
    Station::open(name).await?.look().await
}
