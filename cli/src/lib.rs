//! A whole mesh on one machine, on disk: what `consent-mesh demo` and the end-to-end tests start.

pub mod layout;
