//! The scenario that `tests/ble-vm/run.sh` plays in a virtual machine with real BlueZ, and what must be true of it
//! afterwards.
//!
//! [`cast`] has who takes part, and writes the files of the mesh before it starts. `tests/ble-vm/scenario.sh` plays it; in
//! there, [`holds`] says what a controller holds at the moment. [`check`] looks at what came out: every daemon's files, what
//! the emulated controllers sent and heard ([`radio_log`]), what btmon saw.

pub mod cast;
pub mod check;
mod evidence;
pub mod holds;
pub mod radio_log;
