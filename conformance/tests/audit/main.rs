//! `conform audit`: what conforms is said to conform, and what does not is found.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod clean;
mod copies;
mod damage;
mod injections;
mod judges;
mod partial;
mod support;
