//! A named partial order (≤_E, ≤_T, ≤_P): a graph of "more general" relations, closed once.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Debug;
use core::ops::Range;

use super::VocabularyProblem;
use crate::diagnostic::{Hint, Quoted};
use crate::name::{check_name, nearest};

/// The most names one order can have: its closure then takes 32 MiB.
pub const MAX_NAMES: usize = 16_384;

/// The most direct parents of one name.
pub const MAX_PARENTS: usize = 256;

/// A small number that stands for a name.
pub trait Id: Copy + Ord + Debug {
    /// The id at this position of its table.
    fn from_index(index: usize) -> Self;
    /// The position of this id in its table.
    fn index(self) -> usize;
}

/// A name as a file declares it, not yet resolved.
#[derive(Debug, Clone)]
pub(super) struct Declared {
    pub(super) name: String,
    pub(super) parents: Vec<(String, Range<usize>)>,
    pub(super) span: Range<usize>,
}

/// A finite set of names under a reflexive, transitive "is a kind of" relation.
///
/// Ids are given in the byte order of the names, so a set sorted by id is sorted by name.
#[derive(Debug, Clone)]
pub struct Order<I> {
    names: Vec<Box<str>>,
    parents: Vec<Vec<I>>,
    /// Bit b of row a: a ≤ b.
    closure: Vec<u64>,
    words_per_row: usize,
}

impl<I: Id> Order<I> {
    /// a ≤ b: a is b, or a kind of b.
    #[inline]
    pub fn le(&self, a: I, b: I) -> bool {
        let word = self.closure.get(a.index() * self.words_per_row + b.index() / 64);
        word.is_some_and(|word| word >> (b.index() % 64) & 1 == 1)
    }

    /// The id of a name.
    pub fn id(&self, name: &str) -> Option<I> {
        self.names.binary_search_by(|known| (**known).cmp(name)).ok().map(I::from_index)
    }

    /// The name of an id; of an id from elsewhere, `?`.
    pub fn name(&self, id: I) -> &str {
        self.names.get(id.index()).map_or("?", |name| name)
    }

    /// The direct parents of an id, the next more general ones.
    pub fn parents(&self, id: I) -> &[I] {
        self.parents.get(id.index()).map_or(&[], |parents| parents)
    }

    /// Every id, in the byte order of the names.
    pub fn ids(&self) -> impl Iterator<Item = I> + Clone {
        (0..self.names.len()).map(I::from_index)
    }

    /// Every name, in byte order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    /// How many names there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// "; did you mean …?" for a name that is not here.
    pub fn hint(&self, wanted: &str) -> Hint {
        Hint(nearest(wanted, self.names()))
    }

    pub(super) fn build(mut declared: Vec<Declared>) -> Result<Self, (Range<usize>, VocabularyProblem)> {
        if let Some(one_too_many) = declared.get(MAX_NAMES) {
            return Err((one_too_many.span.clone(), VocabularyProblem::TooManyNames));
        }
        for entry in &declared {
            check_name(&entry.name)
                .map_err(|error| (entry.span.clone(), VocabularyProblem::Name(Quoted::new(&entry.name), error)))?;
        }
        declared.sort_by(|a, b| a.name.cmp(&b.name));
        let mut order = Self {
            names: declared.iter().map(|entry| entry.name.as_str().into()).collect(),
            parents: Vec::with_capacity(declared.len()),
            closure: Vec::new(),
            words_per_row: declared.len().div_ceil(64),
        };
        for (entry, next) in declared.iter().zip(declared.iter().skip(1)) {
            if entry.name == next.name {
                // The second declaration in the file, not in the alphabet, is the one too many.
                let span = core::cmp::max_by_key(&entry.span, &next.span, |span| span.start).clone();
                return Err((span, VocabularyProblem::Duplicate(Quoted::new(&entry.name))));
            }
        }
        for entry in &declared {
            let mut parents = Vec::with_capacity(entry.parents.len());
            let mut seen = BTreeSet::new();
            if let Some((_, span)) = entry.parents.get(MAX_PARENTS) {
                return Err((span.clone(), VocabularyProblem::TooManyParents));
            }
            for (parent, span) in &entry.parents {
                let Some(id) = order.id(parent) else {
                    let others = order.names().filter(|name| *name != entry.name);
                    let hint = Hint(nearest(parent, others));
                    let problem = VocabularyProblem::UnknownParent(Quoted::new(parent), hint);
                    return Err((span.clone(), problem));
                };
                if !seen.insert(id) {
                    return Err((span.clone(), VocabularyProblem::Duplicate(Quoted::new(parent))));
                }
                parents.push(id);
            }
            order.parents.push(parents);
        }
        order.close().map_err(|cycle| {
            let span = cycle.first().and_then(|id| declared.get(id.index())).map(|entry| entry.span.clone());
            let names = cycle.iter().map(|id| order.name(*id).to_string()).collect();
            (span.unwrap_or_default(), VocabularyProblem::Cycle(names))
        })?;
        Ok(order)
    }

    /// Fills the closure, parents before children; or returns a cycle, its first name repeated at its end.
    fn close(&mut self) -> Result<(), Vec<I>> {
        let count = self.names.len();
        let mut waiting_for: Vec<usize> = self.parents.iter().map(Vec::len).collect();
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); count];
        for (child, parents) in self.parents.iter().enumerate() {
            for parent in parents {
                if let Some(children) = children.get_mut(parent.index()) {
                    children.push(child);
                }
            }
        }
        let mut ready: Vec<usize> = (0..count).filter(|id| waiting_for.get(*id) == Some(&0)).collect();
        let mut closed = 0;
        self.closure = vec![0; count * self.words_per_row];
        let mut row = vec![0_u64; self.words_per_row];
        while let Some(id) = ready.pop() {
            closed += 1;
            row.fill(0);
            if let Some(word) = row.get_mut(id / 64) {
                *word |= 1 << (id % 64);
            }
            for parent in self.parents.get(id).into_iter().flatten() {
                let start = parent.index() * self.words_per_row;
                let above = self.closure.iter().skip(start).take(self.words_per_row);
                row.iter_mut().zip(above).for_each(|(word, above)| *word |= above);
            }
            let target = self.closure.iter_mut().skip(id * self.words_per_row);
            target.zip(&row).for_each(|(word, new)| *word = *new);
            for child in children.get(id).into_iter().flatten() {
                if let Some(waiting) = waiting_for.get_mut(*child) {
                    *waiting -= 1;
                    if *waiting == 0 {
                        ready.push(*child);
                    }
                }
            }
        }
        if closed == count { Ok(()) } else { Err(self.find_cycle(&waiting_for)) }
    }

    /// Every name still waiting has a parent still waiting: following them must come round.
    fn find_cycle(&self, waiting_for: &[usize]) -> Vec<I> {
        let is_stuck = |id: &I| waiting_for.get(id.index()).is_some_and(|waiting| *waiting > 0);
        let mut path: Vec<I> = Vec::new();
        let mut visited = vec![false; self.names.len()];
        let mut next = self.ids().find(is_stuck);
        while let Some(id) = next {
            if visited.get(id.index()) == Some(&true) {
                let start = path.iter().position(|seen| *seen == id).unwrap_or(0);
                let mut cycle = path.split_off(start);
                cycle.push(id);
                return cycle;
            }
            if let Some(seen) = visited.get_mut(id.index()) {
                *seen = true;
            }
            path.push(id);
            next = self.parents(id).iter().copied().find(is_stuck);
        }
        path
    }
}
