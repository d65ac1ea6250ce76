//! S10: does condition c₁ entail condition c₂? Decided exactly, so that ⊑ is transitive.
//!
//! The theory is fixed. Each distinct non-constant term is an independent variable compared with constants;
//! numbers and times are dense orders without ends, texts an infinite set with = and ≠, booleans {true, false};
//! a comparison of two non-constant terms is an opaque atom that is true or false. Terms without variables are
//! their values. Table 3 is strict in ⊥, so c₁ can only vouch for terms that occur in it.
//!
//! **Procedure.** Constants cut a variable's domain into finitely many regions in which no comparison changes,
//! so "c₁ and not c₂" has a model iff some choice of regions satisfies it. The search fixes one variable after
//! the other and gives up a branch once c₁ is false or c₂ is true whatever the rest may be. Conditions have at
//! most [`MAX_COMPARISONS`] comparisons, so it always ends with an answer.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cell::RefCell;

use crate::condition::{Comparison, Condition, Formula, MAX_COMPARISONS, Term};
use crate::evaluate::Values;
use crate::value::{Kind, Value};

/// How many decided pairs of conditions are remembered; when full, all are forgotten and decided anew.
pub const MAX_REMEMBERED: usize = 65_536;

impl Condition {
    /// c₁ ⟹ c₂: on every state on which c₁ evaluates to true, so does c₂.
    pub fn entails(&self, other: &Self) -> bool {
        self == other || (knows_terms_of(self, other) && !Search::new(self.formula(), other.formula()).finds_model())
    }

    /// Whether some state makes it true.
    pub fn is_satisfiable(&self) -> bool {
        Search::new(self.formula(), &Formula::False).finds_model()
    }
}

/// Remembers decided entailments. One per thread: it is a memo, not a place to share state.
#[derive(Debug, Default)]
pub struct Entailments {
    decided: RefCell<BTreeMap<Condition, BTreeMap<Condition, bool>>>,
    count: core::cell::Cell<usize>,
}

impl Entailments {
    /// As [`Condition::entails`], decided once.
    pub fn entails(&self, from: &Condition, to: &Condition) -> bool {
        if to.is_always() || from == to {
            return true;
        }
        let known = self.decided.borrow().get(from).and_then(|known| known.get(to)).copied();
        known.unwrap_or_else(|| {
            let answer = from.entails(to);
            let mut decided = self.decided.borrow_mut();
            if self.count.get() == MAX_REMEMBERED {
                decided.clear();
                self.count.set(0);
            }
            decided.entry(from.clone()).or_default().insert(to.clone(), answer);
            self.count.set(self.count.get() + 1);
            answer
        })
    }
}

/// Whether every non-constant term of `to` occurs in `from`.
fn knows_terms_of(from: &Condition, to: &Condition) -> bool {
    let (mut known, mut wanted) = (BTreeSet::new(), BTreeSet::new());
    for_each_term(from.formula(), &mut |term| {
        known.insert(term);
    });
    for_each_term(to.formula(), &mut |term| {
        wanted.insert(term);
    });
    wanted.into_iter().all(|term| is_ground(term) || known.contains(term))
}

fn for_each_term<'f>(formula: &'f Formula, visit: &mut impl FnMut(&'f Term)) {
    fn descend<'f>(term: &'f Term, visit: &mut impl FnMut(&'f Term)) {
        visit(term);
        if let Term::Call(_, arguments) = term {
            arguments.iter().for_each(|argument| descend(argument, visit));
        }
    }
    match formula {
        Formula::True | Formula::False => {}
        Formula::Not(inner) => for_each_term(inner, visit),
        Formula::And(left, right) | Formula::Or(left, right) => {
            for_each_term(left, visit);
            for_each_term(right, visit);
        }
        Formula::Compare(left, _, right) => {
            descend(left, visit);
            descend(right, visit);
        }
    }
}

fn is_ground(term: &Term) -> bool {
    match term {
        Term::Variable(..) => false,
        Term::Constant(_) => true,
        Term::Call(_, arguments) => arguments.iter().all(is_ground),
    }
}

/// A set of comparisons, by their position in c₁ and then c₂.
type Atoms = u32;
const _: () = assert!(2 * MAX_COMPARISONS <= Atoms::BITS as usize);

/// What an independent choice is about.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Unknown<'f> {
    Term(&'f Term),
    Opaque(&'f Term, Comparison, &'f Term),
}

struct Search<'f> {
    from: &'f Formula,
    to: &'f Formula,
    /// Comparisons between constants, and which of them hold.
    fixed: (Atoms, Atoms),
    /// For each unknown: its comparisons, and the sets of them that can hold together.
    choices: Vec<(Atoms, Vec<Atoms>)>,
}

impl<'f> Search<'f> {
    fn new(from: &'f Formula, to: &'f Formula) -> Self {
        let mut comparisons = Vec::new();
        list_comparisons(from, &mut comparisons);
        list_comparisons(to, &mut comparisons);

        let mut fixed = (0, 0);
        let mut unknowns: Vec<(Unknown<'f>, Vec<Bound>)> = Vec::new();
        for (at, (left, comparison, right)) in comparisons.into_iter().enumerate() {
            let atom: Atoms = 1 << at;
            let nothing = Values::new();
            let (unknown, bound) = match (ground(left, &nothing), ground(right, &nothing)) {
                (Some(left), Some(right)) => {
                    fixed.0 |= atom;
                    fixed.1 |= if comparison.holds(left.cmp(&right)) { atom } else { 0 };
                    continue;
                }
                (None, Some(value)) => (Unknown::Term(left), Bound { atom, comparison, value: Some(value) }),
                (Some(value), None) => {
                    (Unknown::Term(right), Bound { atom, comparison: comparison.mirrored(), value: Some(value) })
                }
                (None, None) => (Unknown::Opaque(left, comparison, right), Bound { atom, comparison, value: None }),
            };
            match unknowns.iter_mut().find(|(known, _)| *known == unknown) {
                Some((_, bounds)) => bounds.push(bound),
                None => unknowns.push((unknown, Vec::from([bound]))),
            }
        }
        let choices = unknowns
            .into_iter()
            .map(|(unknown, bounds)| {
                let atoms = bounds.iter().fold(0, |atoms, bound| atoms | bound.atom);
                (atoms, possible_sets(&unknown, &bounds))
            })
            .collect();
        Self { from, to, fixed, choices }
    }

    /// Whether c₁ and not c₂ has a model.
    fn finds_model(&self) -> bool {
        let (known, holding) = self.fixed;
        self.explore(&self.choices, known, holding)
    }

    fn explore(&self, choices: &[(Atoms, Vec<Atoms>)], known: Atoms, holding: Atoms) -> bool {
        let mut position = 0;
        let from = truth(self.from, known, holding, &mut position);
        let to = truth(self.to, known, holding, &mut position);
        match (from, to, choices.split_first()) {
            (Some(false), _, _) | (_, Some(true), _) => false,
            (Some(true), Some(false), _) => true,
            (_, _, Some(((atoms, sets), rest))) => {
                sets.iter().any(|set| self.explore(rest, known | atoms, holding | set))
            }
            (_, _, None) => false,
        }
    }
}

/// One comparison of an unknown with a constant; an opaque one has no constant.
struct Bound {
    atom: Atoms,
    comparison: Comparison,
    value: Option<Value>,
}

fn list_comparisons<'f>(formula: &'f Formula, list: &mut Vec<(&'f Term, Comparison, &'f Term)>) {
    match formula {
        Formula::True | Formula::False => {}
        Formula::Not(inner) => list_comparisons(inner, list),
        Formula::And(left, right) | Formula::Or(left, right) => {
            list_comparisons(left, list);
            list_comparisons(right, list);
        }
        Formula::Compare(left, comparison, right) => list.push((left, *comparison, right)),
    }
}

fn ground(term: &Term, nothing: &Values) -> Option<Value> {
    // INVARIANT: functions are total on arguments of their kinds, so a ground term of a condition has a value.
    if is_ground(term) { term.evaluate(nothing) } else { None }
}

/// The sets of comparisons that hold together in some region of the unknown's domain.
fn possible_sets(unknown: &Unknown<'_>, bounds: &[Bound]) -> Vec<Atoms> {
    let all = bounds.iter().fold(0, |atoms, bound| atoms | bound.atom);
    let Unknown::Term(term) = unknown else { return Vec::from([0, all]) };

    let mut constants: Vec<&Value> = bounds.iter().filter_map(|bound| bound.value.as_ref()).collect();
    constants.sort();
    constants.dedup();
    // Positions 1, 3, 5, … are the constants in order; even ones lie between them, before and after.
    let position_of = |value: &Value| constants.iter().position(|known| *known == value).map_or(0, |at| 2 * at + 1);
    let holding_at = |position: usize| {
        bounds.iter().fold(0, |set, bound| {
            let constant = bound.value.as_ref().map_or(0, position_of);
            if bound.comparison.holds(position.cmp(&constant)) { set | bound.atom } else { set }
        })
    };
    let mut sets: Vec<Atoms> = match term.kind() {
        Kind::Number | Kind::Time => (0..=2 * constants.len()).map(holding_at).collect(),
        // Unequal texts have no order: one position stands for every text that is not named.
        Kind::String => (0..constants.len()).map(|at| 2 * at + 1).chain([0]).map(holding_at).collect(),
        Kind::Boolean => [false, true]
            .into_iter()
            .map(|value| match constants.iter().position(|known| **known == Value::Boolean(value)) {
                Some(at) => holding_at(2 * at + 1),
                // Not named, hence different from the one that is.
                None => holding_at(0),
            })
            .collect(),
    };
    sets.sort_unstable();
    sets.dedup();
    sets
}

/// The truth of a formula when only the `known` comparisons are decided; comparisons are numbered in order.
fn truth(formula: &Formula, known: Atoms, holding: Atoms, position: &mut u32) -> Option<bool> {
    match formula {
        Formula::True => Some(true),
        Formula::False => Some(false),
        Formula::Compare(..) => {
            let atom = 1 << *position;
            *position += 1;
            (known & atom != 0).then_some(holding & atom != 0)
        }
        Formula::Not(inner) => truth(inner, known, holding, position).map(|value| !value),
        Formula::And(left, right) => {
            match (truth(left, known, holding, position), truth(right, known, holding, position)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            }
        }
        Formula::Or(left, right) => {
            match (truth(left, known, holding, position), truth(right, known, holding, position)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            }
        }
    }
}
