//! S10: does condition c₁ entail condition c₂? Decided exactly, so that ⊑ is transitive.
//!
//! The theory is fixed. Each distinct non-constant term is an independent variable compared with constants;
//! numbers and times are dense orders without ends, texts an infinite set with = and ≠, booleans {true, false};
//! a comparison of two non-constant terms is an opaque atom that is true or false. Terms without variables are
//! their values. Table 3 is strict in ⊥, so c₁ can only vouch for terms that occur in it.
//!
//! **Procedure.** Constants cut a variable's domain into finitely many regions in which no comparison changes,
//! so "c₁ and not c₂" has a model iff some choice of regions satisfies it. With its negations pushed inwards that
//! formula is monotone in its literals, the comparisons and denied comparisons as they occur in it. So of a
//! variable's regions only those count whose set of true literals is maximal, and a variable whose literals can
//! all be true together is no choice at all. Two conditions have at most 2 · [`MAX_COMPARISONS`] literals, hence
//! at most 3¹⁰ · 2 combinations of choices. They are searched one variable after the other, 64 at a time;
//! a branch is given up once the formula is false even if all undecided literals are true. So it always ends
//! with an answer, and soon.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cell::RefCell;

use crate::condition::{Comparison, Condition, Formula, MAX_COMPARISONS, Term};
use crate::evaluate::Values;
use crate::value::{Kind, Value};

/// How many decided pairs of conditions are remembered; when full, all are forgotten and decided anew.
pub const MAX_REMEMBERED: usize = 4_096;

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

/// Calls `visit` for every term of a formula, terms in terms included.
pub(crate) fn for_each_term<'f>(formula: &'f Formula, visit: &mut impl FnMut(&'f Term)) {
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

/// A set of literals, by their position in c₁ and then c₂.
type Literals = u32;
const _: () = assert!(2 * MAX_COMPARISONS <= Literals::BITS as usize);

/// What an independent choice is about.
#[derive(PartialEq, Eq)]
enum Unknown<'f> {
    Term(&'f Term),
    Opaque(&'f Term, Comparison, &'f Term),
}

/// A comparison of an unknown with a constant, or the denial of one; an opaque one has no constant.
struct Literal {
    bit: Literals,
    comparison: Comparison,
    constant: Option<Value>,
    is_denied: bool,
}

/// How many combinations of choices are looked at together, one in each bit of a word.
const LANES: usize = u64::BITS as usize;

/// "c₁ and not c₂", and what its literals are about.
struct Search<'f> {
    from: &'f Formula,
    to: &'f Formula,
    /// For each literal: the lanes in which it is true by its constants or by the first choices.
    lanes: Vec<u64>,
    /// For each other unknown: its literals, and the largest sets of them that can be true together.
    choices: Vec<(Literals, Vec<Literals>)>,
}

impl<'f> Search<'f> {
    fn new(from: &'f Formula, to: &'f Formula) -> Self {
        let mut comparisons = Vec::new();
        list_comparisons(from, false, &mut comparisons);
        list_comparisons(to, true, &mut comparisons);
        let count = comparisons.len();

        let mut fixed = 0;
        let mut unknowns: Vec<(Unknown<'f>, Vec<Literal>)> = Vec::new();
        for (at, (left, comparison, right, is_denied)) in comparisons.into_iter().enumerate() {
            let bit: Literals = 1 << at;
            let (unknown, comparison, constant) = match (ground(left), ground(right)) {
                (Some(left), Some(right)) => {
                    fixed |= if comparison.holds(left.cmp(&right)) != is_denied { bit } else { 0 };
                    continue;
                }
                (None, Some(value)) => (Unknown::Term(left), comparison, Some(value)),
                (Some(value), None) => (Unknown::Term(right), comparison.mirrored(), Some(value)),
                (None, None) => (Unknown::Opaque(left, comparison, right), comparison, None),
            };
            let literal = Literal { bit, comparison, constant, is_denied };
            match unknowns.iter_mut().find(|(known, _)| *known == unknown) {
                Some((_, literals)) => literals.push(literal),
                None => unknowns.push((unknown, Vec::from([literal]))),
            }
        }
        let choice = |(unknown, literals): (Unknown<'f>, Vec<Literal>)| {
            let all = literals.iter().fold(0, |all, literal| all | literal.bit);
            (all, maximal(possible_sets(&unknown, &literals)))
        };
        let mut choices: Vec<_> = unknowns.into_iter().map(choice).collect();
        choices.sort_by_key(|(_, sets)| sets.len());

        let mut combinations = Vec::from([fixed]);
        while let Some((_, sets)) = choices.first()
            && combinations.len() * sets.len() <= LANES
        {
            combinations = sets.iter().flat_map(|set| combinations.iter().map(move |lane| lane | set)).collect();
            choices.remove(0);
        }
        // Lanes to spare repeat the first ones.
        let combinations = combinations.iter().cycle().take(LANES);
        let lanes_of = |literal: usize| {
            combinations.clone().fold(0, |lanes, combination| lanes << 1 | u64::from(combination >> literal & 1))
        };
        Self { from, to, lanes: (0..count).map(lanes_of).collect(), choices }
    }

    /// Whether "c₁ and not c₂" has a model.
    fn finds_model(&self) -> bool {
        let undecided = self.choices.iter().fold(0, |all, (literals, _)| all | literals);
        self.explore(&self.choices, 0, undecided)
    }

    fn explore(&self, choices: &[(Literals, Vec<Literals>)], chosen: Literals, undecided: Literals) -> bool {
        let mut literals = self.lanes.iter().enumerate().map(|(at, lanes)| {
            let is_in = |set: Literals| if set >> at & 1 == 1 { u64::MAX } else { 0 };
            let surely = lanes | is_in(chosen);
            Truth { surely, possibly: surely | is_in(undecided) }
        });
        let truth = truth(self.from, false, &mut literals).and(truth(self.to, true, &mut literals));
        match choices.split_first() {
            _ if truth.surely != 0 => true,
            Some(((literals, sets), rest)) if truth.possibly != 0 => {
                sets.iter().any(|set| self.explore(rest, chosen | set, undecided & !literals))
            }
            _ => false,
        }
    }
}

fn list_comparisons<'f>(formula: &'f Formula, is_denied: bool, list: &mut Vec<(&'f Term, Comparison, &'f Term, bool)>) {
    match formula {
        Formula::True | Formula::False => {}
        Formula::Not(inner) => list_comparisons(inner, !is_denied, list),
        Formula::And(left, right) | Formula::Or(left, right) => {
            list_comparisons(left, is_denied, list);
            list_comparisons(right, is_denied, list);
        }
        Formula::Compare(left, comparison, right) => list.push((left, *comparison, right, is_denied)),
    }
}

fn ground(term: &Term) -> Option<Value> {
    // INVARIANT: functions are total on arguments of their kinds, so a ground term of a condition has a value.
    if is_ground(term) { term.evaluate(&Values::new()) } else { None }
}

/// For each region of the unknown's domain, the literals that are true there.
fn possible_sets(unknown: &Unknown<'_>, literals: &[Literal]) -> Vec<Literals> {
    let true_where = |holds: &dyn Fn(&Literal) -> bool| {
        literals.iter().filter(|literal| holds(literal) != literal.is_denied).fold(0, |set, literal| set | literal.bit)
    };
    let Unknown::Term(term) = unknown else {
        return Vec::from([true_where(&|_| false), true_where(&|_| true)]);
    };
    let mut constants: Vec<&Value> = literals.iter().filter_map(|literal| literal.constant.as_ref()).collect();
    constants.sort();
    constants.dedup();
    // Positions 1, 3, 5, … are the constants in order; even ones lie between them, before and after.
    let position_of = |value: &Value| constants.iter().position(|known| *known == value).map_or(0, |at| 2 * at + 1);
    let true_at = |position: usize| {
        true_where(&|literal| literal.comparison.holds(position.cmp(&literal.constant.as_ref().map_or(0, position_of))))
    };
    match term.kind() {
        Kind::Number | Kind::Time => (0..=2 * constants.len()).map(true_at).collect(),
        // Unequal texts have no order: one position stands for every text that is not named.
        Kind::String => (0..constants.len()).map(|at| 2 * at + 1).chain([0]).map(true_at).collect(),
        // A truth that is not named has position 0: different from the one that is.
        Kind::Boolean => [false, true].map(|truth| true_at(position_of(&Value::Boolean(truth)))).into(),
    }
}

/// The sets that are part of no other.
fn maximal(mut sets: Vec<Literals>) -> Vec<Literals> {
    sets.sort_unstable();
    sets.dedup();
    let is_maximal = |set: &Literals| !sets.iter().any(|other| other != set && set & !other == 0);
    sets.iter().copied().filter(is_maximal).collect()
}

/// What is known of a formula while some literals are undecided: the lanes in which it is true …
#[derive(Clone, Copy)]
struct Truth {
    /// … even if they are all false.
    surely: u64,
    /// … if they are all true.
    possibly: u64,
}

impl Truth {
    const fn and(self, other: Self) -> Self {
        Self { surely: self.surely & other.surely, possibly: self.possibly & other.possibly }
    }

    const fn or(self, other: Self) -> Self {
        Self { surely: self.surely | other.surely, possibly: self.possibly | other.possibly }
    }
}

/// The truth of a formula or of its denial, given that of its literals in their order.
fn truth(formula: &Formula, is_denied: bool, literals: &mut impl Iterator<Item = Truth>) -> Truth {
    const NEVER: Truth = Truth { surely: 0, possibly: 0 };
    const ALWAYS: Truth = Truth { surely: u64::MAX, possibly: u64::MAX };
    match formula {
        Formula::True | Formula::False => {
            if matches!(formula, Formula::True) != is_denied {
                ALWAYS
            } else {
                NEVER
            }
        }
        // INVARIANT: there is a literal for each comparison.
        Formula::Compare(..) => literals.next().unwrap_or(NEVER),
        Formula::Not(inner) => truth(inner, !is_denied, literals),
        Formula::And(left, right) | Formula::Or(left, right) => {
            let (left, right) = (truth(left, is_denied, literals), truth(right, is_denied, literals));
            if matches!(formula, Formula::And(..)) != is_denied { left.and(right) } else { left.or(right) }
        }
    }
}
