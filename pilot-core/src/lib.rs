//! PILOT privacy policies as code: the language, its semantics, and the program graphs that implement it.
//!
//! This crate is the paper *Model-Checking the Implementation of Consent* (Pardo, Le Métayer), and the paper is its
//! table of contents: each definition, table and figure has one file, whose first line names it.
//!
//! **Everything here is a deterministic function of its arguments.** No clock, no input or output, no randomness, no
//! global state: time is an argument, and the crate is `no_std`, so that the compiler keeps it so. A daemon that runs a
//! graph, a model checker that explores it and an auditor who replays it therefore see the same steps.
//!
//! # Where to read
//!
//! 1. [`vocabulary`]: the words (entities, datatypes, purposes) and their orders; [`value`], [`condition`],
//!    [`function`]: what conditions are made of.
//! 2. [`policy`]: Def. 1. Its written forms: [`syntax`] (text and JSON), [`codec`] (canonical bytes), [`english`].
//! 3. [`subsumption`]: p ⊑ q, with [`entailment`] for conditions and [`explain`] for every "no". [`evaluate`] and
//!    [`active`]: when a policy applies. [`lint`]: what its author may not have meant.
//! 4. [`semantics`]: the state, Table 2 and the privacy requirements.
//! 5. [`graph`]: program graphs and their one interpreter; [`graphs`]: the five figures as tables.
//! 6. [`evidence`]: what devices sign and others verify: policy statements, the operator's mesh file, envelopes.
//!
//! # Example
//!
//! ```
//! use pilot_core::subsumption::Judge;
//! use pilot_core::syntax::parse_file;
//! use pilot_core::vocabulary::Vocabulary;
//!
//! let vocabulary = Vocabulary::from_toml(
//!     r#"
//!     [entities]
//!     "flights.com" = []
//!     [datatypes]
//!     cookie = []
//!     [purposes]
//!     advertisement = []
//!     special_offers = ["advertisement"]
//!     "#,
//! )?;
//! let file = parse_file(
//!     "policy offer { collect cookie by flights.com for special_offers until 2030-12-21 }
//!      policy mine  { collect cookie by flights.com for advertisement  until 2031-01-01 }",
//!     &vocabulary,
//! )?;
//! let [offer, mine] = &file.policies[..] else { unreachable!() };
//! let judge = Judge::new(&vocabulary);
//! assert!(offer.choice.subsumes(&mine.choice, &judge));
//! assert!(!mine.choice.subsumes(&offer.choice, &judge));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
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
pub mod evidence;
pub mod explain;
pub mod function;
pub mod graph;
pub mod graphs;
pub mod lint;
pub mod name;
pub mod policy;
pub mod semantics;
mod slots;
pub mod sorted;
pub mod subsumption;
pub mod syntax;
pub mod value;
pub mod vocabulary;
