//! What the tests of the language share: random policies over names, the slow twin that judges them, and the
//! bodies that every parser is fuzzed with.

#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of this")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

pub mod brute_force;
pub mod choices;
pub mod fuzz_bodies;
pub mod generate;
pub mod hard_conditions;
pub mod mutator;
pub mod named;
pub mod oracle;
pub mod related;
pub mod spelling;

use std::cell::Cell;
use std::ops::RangeInclusive;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};

/// How many random cases a law is tried on; `PROPTEST_CASES` can ask for more.
pub const CASES: u32 = 10_000;

/// The usual seed.
const SEED: u64 = 20_240_419;

/// Tries a law on random cases.
///
/// The law answers a question about each case ("are the two related?"), and the share of cases with the answer
/// yes must lie in `share_of_yes`: a law that only ever sees strangers shows nothing.
///
/// Runs with equal seeds are equal; `PROPTEST_RNG_SEED` asks for other cases than the usual ones.
pub fn for_all<S: Strategy>(
    cases: &S,
    share_of_yes: RangeInclusive<f64>,
    law: impl Fn(S::Value) -> Result<bool, TestCaseError>,
) {
    let mut config = Config { failure_persistence: None, ..Config::default() };
    config.cases = config.cases.max(CASES);
    let seed = match config.rng_seed {
        RngSeed::Fixed(seed) => seed,
        RngSeed::Random => SEED,
    };
    config.rng_seed = RngSeed::Fixed(seed);
    let count = config.cases;
    let yes = Cell::new(0_u32);
    let outcome = TestRunner::new(config).run(cases, |case| {
        yes.set(yes.get() + u32::from(law(case)?));
        Ok(())
    });
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(why, case)) => panic!("PROPTEST_RNG_SEED={seed}: {why}\nsmallest case: {case:#?}"),
        Err(error) => panic!("PROPTEST_RNG_SEED={seed}: {error}"),
    }
    let share = f64::from(yes.get()) / f64::from(count);
    println!("{count} cases, {:.1} % yes", 100.0 * share);
    assert!(share_of_yes.contains(&share), "PROPTEST_RNG_SEED={seed}: {share} of the cases answer yes");
}
