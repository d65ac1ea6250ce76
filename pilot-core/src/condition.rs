//! §2: the conditions 𝒞 of communication rules, `φ ::= t₁ ∗ t₂ | ¬φ | φ₁ ∧ φ₂ | tt | ff` over terms
//! `t ::= i | c | f(t⃗)`. Disjunction is here too, because people write it.
//!
//! A [`Condition`] that exists is well typed and small: [`crate::entailment`] decides every one of them exactly.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::entailment::for_each_term;
use crate::function::Function;
use crate::value::{Kind, Time, Value};
use crate::vocabulary::Variable;

/// The most comparisons in one condition; entailment explores their combinations.
pub const MAX_COMPARISONS: usize = 16;
/// The deepest nesting of `and`, `or`, `not`, parentheses and calls.
pub const MAX_DEPTH: usize = 32;
/// The most formulas and terms in one condition.
pub const MAX_NODES: usize = 128;
/// The longest text constant, in bytes.
pub const MAX_STRING_BYTES: usize = 256;

/// A well-typed, bounded condition; cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Condition(Arc<Formula>);

/// Conditions are looked up by themselves, mostly: what is one and the same need not be compared.
impl Ord for Condition {
    fn cmp(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) { Ordering::Equal } else { self.0.cmp(&other.0) }
    }
}

impl PartialOrd for Condition {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// φ.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Formula {
    /// tt.
    True,
    /// ff.
    False,
    /// t₁ ∗ t₂.
    Compare(Term, Comparison, Term),
    /// ¬φ.
    Not(Box<Formula>),
    /// φ₁ ∧ φ₂.
    And(Box<Formula>, Box<Formula>),
    /// φ₁ ∨ φ₂.
    Or(Box<Formula>, Box<Formula>),
}

/// t.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Term {
    /// An attribute or item, with the kind of its values.
    Variable(Variable, Kind),
    /// c.
    Constant(Value),
    /// f(t⃗).
    Call(Function, Vec<Term>),
}

/// ∗, one of six predicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// Why a formula is no condition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConditionProblem {
    /// More than [`MAX_COMPARISONS`].
    #[error("a condition has at most {MAX_COMPARISONS} comparisons")]
    TooManyComparisons,
    /// More than [`MAX_NODES`].
    #[error("a condition has at most {MAX_NODES} parts")]
    TooManyParts,
    /// Deeper than [`MAX_DEPTH`].
    #[error("a condition nests at most {MAX_DEPTH} levels deep")]
    TooDeep,
    /// A text constant longer than [`MAX_STRING_BYTES`].
    #[error("a text in a condition has at most {MAX_STRING_BYTES} bytes")]
    StringTooLong,
    /// A time constant that cannot be written as a date.
    #[error("a time in a condition is before the year 10000")]
    TimeTooLate,
    /// Two sides of different kinds.
    #[error("a {0} cannot be compared with a {1}")]
    Mismatch(Kind, Kind),
    /// `<` on texts or booleans.
    #[error("a {1} cannot be compared with `{0}`, only with `=` and `!=`")]
    NoOrder(&'static str, Kind),
    /// The wrong number of arguments.
    #[error("`{function}` takes {expected} argument{}, not {found}", if *expected == 1 { "" } else { "s" })]
    Arity {
        /// The function's name.
        function: &'static str,
        /// How many it takes.
        expected: usize,
        /// How many there are.
        found: usize,
    },
    /// An argument of the wrong kind.
    #[error("argument {argument} of `{function}` must be a {expected}, and this is a {found}")]
    Argument {
        /// The function's name.
        function: &'static str,
        /// Which argument, from 1.
        argument: usize,
        /// The kind it takes.
        expected: Kind,
        /// The kind it was given.
        found: Kind,
    },
}

impl Condition {
    /// Accepts a formula that is well typed and within the limits.
    pub fn new(formula: Formula) -> Result<Self, ConditionProblem> {
        let mut size = Size::default();
        formula.check(1, &mut size)?;
        Ok(Self(Arc::new(formula)))
    }

    /// The condition tt.
    pub fn always() -> Self {
        Self(Arc::new(Formula::True))
    }

    /// Whether this is the condition tt.
    pub fn is_always(&self) -> bool {
        matches!(*self.0, Formula::True)
    }

    /// How many comparisons it has.
    pub fn comparisons(&self) -> usize {
        fn count(formula: &Formula) -> usize {
            match formula {
                Formula::True | Formula::False => 0,
                Formula::Compare(..) => 1,
                Formula::Not(inner) => count(inner),
                Formula::And(left, right) | Formula::Or(left, right) => count(left) + count(right),
            }
        }
        count(&self.0)
    }

    /// The formula.
    pub fn formula(&self) -> &Formula {
        &self.0
    }

    /// Whether its value depends on the value of a variable.
    pub fn reads(&self, variable: Variable) -> bool {
        let mut reads = false;
        for_each_term(&self.0, &mut |term| reads |= matches!(term, Term::Variable(of, _) if *of == variable));
        reads
    }
}

impl Default for Condition {
    fn default() -> Self {
        Self::always()
    }
}

#[derive(Default)]
struct Size {
    comparisons: usize,
    nodes: usize,
}

impl Size {
    fn count_node(&mut self, depth: usize) -> Result<(), ConditionProblem> {
        self.nodes += 1;
        if depth > MAX_DEPTH {
            Err(ConditionProblem::TooDeep)
        } else if self.nodes > MAX_NODES {
            Err(ConditionProblem::TooManyParts)
        } else {
            Ok(())
        }
    }
}

impl Formula {
    fn check(&self, depth: usize, size: &mut Size) -> Result<(), ConditionProblem> {
        size.count_node(depth)?;
        match self {
            Self::True | Self::False => Ok(()),
            Self::Not(inner) => inner.check(depth + 1, size),
            Self::And(left, right) | Self::Or(left, right) => {
                left.check(depth + 1, size)?;
                right.check(depth + 1, size)
            }
            Self::Compare(left, comparison, right) => {
                size.comparisons += 1;
                if size.comparisons > MAX_COMPARISONS {
                    return Err(ConditionProblem::TooManyComparisons);
                }
                left.check(depth + 1, size)?;
                right.check(depth + 1, size)?;
                comparison.check(left.kind(), right.kind())
            }
        }
    }
}

impl Term {
    /// The kind of this term's values.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Variable(_, kind) => *kind,
            Self::Constant(value) => value.kind(),
            Self::Call(function, _) => function.result(),
        }
    }

    fn check(&self, depth: usize, size: &mut Size) -> Result<(), ConditionProblem> {
        size.count_node(depth)?;
        match self {
            Self::Variable(..) => Ok(()),
            Self::Constant(value) => check_constant(value),
            Self::Call(function, arguments) => {
                for argument in arguments {
                    argument.check(depth + 1, size)?;
                }
                function.check(arguments)
            }
        }
    }
}

/// Accepts a constant that a condition can hold.
pub(crate) fn check_constant(value: &Value) -> Result<(), ConditionProblem> {
    match value {
        Value::String(text) if text.len() > MAX_STRING_BYTES => Err(ConditionProblem::StringTooLong),
        Value::Time(time) if *time > Time::LAST_WRITABLE => Err(ConditionProblem::TimeTooLate),
        _ => Ok(()),
    }
}

impl Comparison {
    /// Every comparison.
    pub const ALL: [Self; 6] =
        [Self::Equal, Self::NotEqual, Self::Less, Self::LessOrEqual, Self::Greater, Self::GreaterOrEqual];

    /// As it is written.
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }

    /// The comparison that says the same with its sides exchanged.
    pub const fn mirrored(self) -> Self {
        match self {
            Self::Equal | Self::NotEqual => self,
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
        }
    }

    /// Whether it holds between sides that are ordered like this.
    pub const fn holds(self, ordering: core::cmp::Ordering) -> bool {
        match self {
            Self::Equal => ordering.is_eq(),
            Self::NotEqual => ordering.is_ne(),
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterOrEqual => ordering.is_ge(),
        }
    }

    /// Accepts sides of these kinds.
    pub fn check(self, left: Kind, right: Kind) -> Result<(), ConditionProblem> {
        if left != right {
            Err(ConditionProblem::Mismatch(left, right))
        } else if !left.is_ordered() && !matches!(self, Self::Equal | Self::NotEqual) {
            Err(ConditionProblem::NoOrder(self.symbol(), left))
        } else {
            Ok(())
        }
    }
}
