//! Bluetooth LE controllers without radio: the kernel drives them through `/dev/vhci` as if they were hardware, and what one
//! of them advertises the others hear.
//!
//! ```text
//!  bluetoothd ── kernel ── /dev/vhci ── Controller ─┐
//!                                                   ├── Air: interval, loss, cut; a log of what was sent and heard
//!  bluetoothd ── kernel ── /dev/vhci ── Controller ─┘
//!                                          beacons ─┘   devices that are nobody's adapter
//! ```
//!
//! [`controller`] answers HCI commands, [`air`] lets time pass, and neither does input or output: [`vhci`] does, and
//! takes orders over a Unix socket. Only what advertising and scanning need is there: no connections, no encryption.
//! A legacy controller is one of Bluetooth 4.2: it can neither send nor hear extended advertisements.

// Hosts say what they like: nothing of it may end the emulator.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

pub mod air;
pub mod controller;
pub mod hci;
pub mod vhci;
