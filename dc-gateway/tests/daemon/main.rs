//! The gateway as a daemon: a link and an air in this process, a clock that is set by hand, a repository and people made
//! by hand around it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod collecting;
mod configuration;
mod crashes;
mod over_mqtt;
mod publishing;
mod support;
mod withdrawing;
