//! Model checking of the program graphs, on the very tables that the daemons run.
//!
//! The paper verifies with TLC that the abstract semantics meets the privacy requirements and that the program graphs
//! refine it. This crate does so on the graphs of [`pilot_core::graphs`] and with concrete policies:
//!
//! * [`scenario`]: who takes part, with which policies;
//! * [`abstract_model`]: Table 2 by itself;
//! * [`system`]: Def. 4, devices that run graphs and a set of messages;
//! * [`refine`]: one checked step;
//! * [`explore`]: every reachable state of a model, and a shortest run to what is wrong;
//! * [`verify`]: a verdict about a model, as `conform verify` prints it; [`render`]: the paper's notation.
//!
//! It does not depend on the daemons' code: it calls the same `step`.

pub mod abstract_model;
pub mod cell;
pub mod compose;
pub mod coverage;
pub mod draw;
pub mod each_guard;
pub mod explore;
pub mod memory;
pub mod progress;
pub mod refine;
pub mod render;
pub mod scenario;
pub mod symmetry;
pub mod system;
pub mod table;
pub mod variant;
pub mod verify;
