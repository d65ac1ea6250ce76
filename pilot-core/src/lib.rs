//! PILOT privacy policies as code.
#![no_std]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod active;
pub mod codec;
pub mod condition;
pub mod diagnostic;
pub mod english;
pub mod entailment;
pub mod evaluate;
pub mod explain;
pub mod function;
pub mod graph;
pub mod graphs;
pub mod lint;
pub mod name;
pub mod policy;
pub mod semantics;
pub mod subsumption;
pub mod syntax;
pub mod value;
pub mod vocabulary;
