//! Sets that stand in a row.

use alloc::vec::{self, Vec};
use core::slice;

/// A set of few elements, in their order in one piece of memory: read, walked through and dropped faster than a tree.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sorted<T>(Vec<T>);

impl<T> Sorted<T> {
    /// The empty set.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Its elements, in their order.
    pub fn iter(&self) -> slice::Iter<'_, T> {
        self.0.iter()
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: Ord> Sorted<T> {
    /// Puts an element in; `false` if it is there already.
    pub fn insert(&mut self, element: T) -> bool {
        let place = self.0.binary_search(&element);
        if let Err(place) = place {
            self.0.insert(place, element);
        }
        place.is_err()
    }

    /// Takes an element out; `false` if it is not there.
    pub fn remove(&mut self, element: &T) -> bool {
        let place = self.0.binary_search(element);
        if let Ok(place) = place {
            self.0.remove(place);
        }
        place.is_ok()
    }

    /// The empty set, with room for as many.
    pub(crate) fn with_capacity(count: usize) -> Self {
        Self(Vec::with_capacity(count))
    }

    /// Puts an element in that comes after all others; `None` if it does not.
    #[must_use]
    pub(crate) fn append(&mut self, last: T) -> Option<()> {
        if self.0.last().is_some_and(|known| *known >= last) {
            return None;
        }
        self.0.push(last);
        Some(())
    }
}

impl<T> Default for Sorted<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Ord> FromIterator<T> for Sorted<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        let mut elements: Vec<T> = elements.into_iter().collect();
        elements.sort_unstable();
        elements.dedup();
        Self(elements)
    }
}

impl<'s, T> IntoIterator for &'s Sorted<T> {
    type Item = &'s T;
    type IntoIter = slice::Iter<'s, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<T> IntoIterator for Sorted<T> {
    type Item = T;
    type IntoIter = vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_set_in_order() {
        let mut set: Sorted<u8> = [3, 1, 2, 3].into_iter().collect();
        assert!(!set.insert(2) && set.insert(0) && set.remove(&3) && !set.remove(&3));
        assert_eq!(set.iter().copied().collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!((set.append(2), set.append(5), set.len()), (None, Some(()), 4));
        assert!(Sorted::<u8>::default().is_empty());
    }
}
