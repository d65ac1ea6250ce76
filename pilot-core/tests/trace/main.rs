//! Traces are believed for what they say: one byte form, no change unnoticed, no personal value, and no crash.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod bad_input;
mod damage;
#[path = "../fixture/mod.rs"]
mod fixture;
mod form;
mod samples;
mod steps;
#[path = "../support/mod.rs"]
mod support;
