//! Runs any program graph as a daemon.
//!
//! `pilot-core` has the graphs and the one interpreter that executes them; it knows no clock, socket or file. This crate
//! is everything around it: what carries messages between devices and what keeps a daemon alive. It knows no particular
//! graph, so that a repository, a subject's gateway and a controller's gateway are a graph, a configuration and this.
//!
//! # Where to read
//!
//! * [`daemon`]: what every daemon does besides: configuration, membership, logs, signals, its user.
//! * [`driver`]: runs a graph on a device. The loop contract stands at its top.
//! * [`air`]: the radio. What a frame says ([`air::frame`]), what a signed one proves ([`pilot_core::evidence::consent`]);
//!   Bluetooth ([`air::bluez`]), and a simulated air that separate processes share ([`air::simulated`]).
//! * [`link`]: bytes on topics, published and subscribed, over MQTT or inside one process.
//! * [`keys`]: the secrets of a device or an operator, in a file that only its owner can read.
//! * [`mesh_file`]: the operator's mesh file and its signature on disk, and which operator's key is believed.
//! * [`broker`]: an embedded MQTT broker on loopback, for the demo and for a mesh on one machine.
//! * [`protocol`]: what daemons say to each other on those topics.
//! * [`journal`]: what a driver did, named for its trace.
//! * [`recorder`]: the device's trace, written before anything is sent.
//! * [`lock`]: locks of files, with patience.

pub mod air;
mod backoff;
pub mod broker;
pub mod daemon;
pub mod driver;
pub mod journal;
pub mod keys;
pub mod link;
pub mod lock;
pub mod mesh_file;
pub mod protocol;
pub mod recorder;
