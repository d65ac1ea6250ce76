//! Links against everything that can carry them: the hub inside the process, the embedded broker, and real mosquitto.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "test helpers")]

mod alike;
mod embedded;
mod memory;
mod mosquitto;
mod round_trip;
mod settings;
mod support;
