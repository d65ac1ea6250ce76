//! A finite supply of small choices, from which the generators make everything else.
//!
//! proptest shrinks the choices towards zero, and generators put the simplest thing at zero.

use proptest::collection::vec;
use proptest::prelude::any;
use proptest::strategy::Strategy;

/// Choices not made yet; by default none, and everything is as simple as can be.
#[derive(Debug, Clone, Default)]
pub struct Choices(std::vec::IntoIter<u8>);

/// `case` made of up to `count` choices.
pub fn cases<T: std::fmt::Debug>(count: usize, case: impl Fn(&mut Choices) -> T) -> impl Strategy<Value = T> {
    vec(any::<u8>(), count).prop_map(move |bytes| case(&mut Choices(bytes.into_iter())))
}

impl Choices {
    /// A number below `count`; 0 when the supply is used up.
    pub fn below(&mut self, count: usize) -> usize {
        usize::from(self.0.next().unwrap_or(0)) % count.max(1)
    }

    /// One of several.
    pub fn pick<T: Clone>(&mut self, options: &[T]) -> T {
        options[self.below(options.len())].clone()
    }

    /// True in one of `count` cases.
    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == count - 1
    }

    /// Any number.
    pub fn any_u64(&mut self) -> u64 {
        (0..8).fold(0, |number, _| number << 8 | self.below(256) as u64)
    }
}
