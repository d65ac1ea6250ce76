//! Model checking of the program graphs, on the very tables that the daemons run, and audits of what they did.
//!
//! The paper verifies with TLC that the abstract semantics meets the privacy requirements and that the program graphs
//! refine it. This crate does so on the graphs of [`pilot_core::graphs`] and with concrete policies:
//!
//! * [`scenario`]: who takes part, with which policies;
//! * [`refine`]: one checked step; [`cell`]: everything that one device can do, each step checked;
//! * [`compose`]: all devices, one by one; [`system`]: Def. 4, every interleaving of devices and messages;
//!   [`abstract_model`]: Table 2 by itself;
//! * [`explore`]: every reachable state of a model, and a shortest run to what is wrong; [`symmetry`]: renamings of each
//!   other counted once; [`coverage`]: what was seen at all;
//! * [`verify`]: a verdict about a model, as `conform verify` prints it; [`render`]: the paper's notation;
//! * [`variant`], [`each_guard`]: graphs that are wrong, to be refused;
//! * [`draw`]: pictures of the graphs;
//! * [`audit`]: whether what daemons recorded is allowed; [`show`]: traces, one line per record; [`plain`]: how times,
//!   numbers and foreign texts are written;
//! * [`simulate`]: conforming traces of any size; [`inject`]: copies of traces with one violation; [`keys`]: the secrets
//!   that it takes to sign them.
//!
//! It does not depend on the daemons' code: it calls the same `step`.

pub mod abstract_model;
pub mod audit;
pub mod cell;
pub mod compose;
pub mod coverage;
pub mod draw;
pub mod each_guard;
pub mod explore;
pub mod inject;
pub mod keys;
pub mod memory;
pub mod plain;
pub mod progress;
pub mod refine;
pub mod render;
pub mod scenario;
pub mod show;
pub mod simulate;
pub mod symmetry;
pub mod system;
pub mod table;
pub mod variant;
pub mod verify;
