//! The filter: sound, exact, bounded, silent about addresses, and free of allocations.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod advertisements;
mod allocations;
mod fuzz_body;
mod graph;
mod rules;

use mesh_runtime::air::frame::ControllerTag;
use mesh_runtime::air::{Address, AddressKind, FrameBytes, Sighting};
use pilot_core::value::Time;

/// 2030-01-01T00:00:00Z.
const NOW: Time = Time::from_unix(1_893_456_000);
const MALL: ControllerTag = ControllerTag(*b"mall");
const SHOP: ControllerTag = ControllerTag(*b"shop");

/// A person's address.
fn address(person: u8) -> Address {
    Address::new([2, 0, 0, 0, 0, person])
}

fn sighting(address: Address, address_kind: AddressKind, frame: FrameBytes) -> Sighting {
    Sighting { address, address_kind, rssi: None, frame, time: NOW }
}
