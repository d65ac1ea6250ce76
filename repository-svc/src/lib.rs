//! The repository of Fig. 4b as a daemon: it stores the policy statements of controllers' devices and hands them on.
//!
//! A repository "stores and sends policies, but does not modify them". It will run the graph of Fig. 4b on the mesh's
//! driver: uploads come in signed, are checked, made durable and only then acknowledged; downloads deliver Π with the
//! signatures it came with, so that subjects verify everything themselves and trust the repository with nothing.
//!
//! # Where to read
//!
//! [`store`]: the statements on disk, and what "durable" means.

pub mod store;
