//! Evidence is believed for what it says and for nothing else: each refusal, one byte form, and no crash.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod bad_input;
mod cose;
mod envelope;
mod fixture;
mod keys;
mod mesh;
mod statement;
#[path = "../support/mod.rs"]
mod support;
