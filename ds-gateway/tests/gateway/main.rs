//! The whole gateway, over an in-process link and a simulated air, with hand-made other ends.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

mod attacks;
mod catalogue;
mod commands;
mod configuration;
mod crashes;
mod life;
mod mesh;
mod support;
