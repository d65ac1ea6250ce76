//! The controller's gateway of Figs. 4c and 3b as a daemon: it keeps what people consented to, and erases it in time.
//!
//! It will listen to the air, let through only what is addressed to it and covered by a policy that it published,
//! and keep that, encrypted, until its deadline or until the person withdraws. What is refused leaves no byte behind.
//!
//! # Where to read
//!
//! * [`filter`]: what of all that the radio hears is worth the graph's time.
//! * [`vault`]: the personal data on disk, and what "erased" means.

pub mod filter;
pub mod vault;
