//! Def. 8 and Table 3: `eval(ν, d, φ)`. Strict: where any term is undefined, the whole condition is ⊥.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::condition::{Condition, Formula, Term};
use crate::value::Value;
use crate::vocabulary::Variable;

/// ν_d: what one device knows. A variable that is not listed is ⊥.
pub type Values = BTreeMap<Variable, Value>;

impl Condition {
    /// eval(ν, d, φ), with ν_d as `values`; `None` is ⊥.
    pub fn evaluate(&self, values: &Values) -> Option<bool> {
        self.formula().evaluate(values)
    }
}

impl Formula {
    fn evaluate(&self, values: &Values) -> Option<bool> {
        match self {
            Self::True => Some(true),
            Self::False => Some(false),
            Self::Not(inner) => Some(!inner.evaluate(values)?),
            // `&` and `|`, not `&&` and `||`: Table 3 asks both sides, even when one decides.
            Self::And(left, right) => Some(left.evaluate(values)? & right.evaluate(values)?),
            Self::Or(left, right) => Some(left.evaluate(values)? | right.evaluate(values)?),
            Self::Compare(left, comparison, right) => {
                // INVARIANT: a condition is well typed, so both sides are of one kind.
                Some(comparison.holds(left.evaluate(values)?.cmp(&right.evaluate(values)?)))
            }
        }
    }
}

impl Term {
    /// The term's value; `None` is ⊥.
    pub fn evaluate(&self, values: &Values) -> Option<Value> {
        match self {
            // A device may hold a value of another kind than the vocabulary says: as good as none.
            Self::Variable(variable, kind) => values.get(variable).filter(|value| value.kind() == *kind).cloned(),
            Self::Constant(value) => Some(value.clone()),
            Self::Call(function, arguments) => {
                let arguments: Option<Vec<Value>> = arguments.iter().map(|term| term.evaluate(values)).collect();
                function.apply(&arguments?)
            }
        }
    }
}
