//! The driver: runs the graphs of the figures, records before it sends, and forgets what it need not know.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "test helpers")]

mod bounds;
mod contract;
mod differential;
mod figures;
mod running;
mod support;
