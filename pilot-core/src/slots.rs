//! Tables whose entries come and go: what [`crate::vocabulary::Directory`] and [`crate::semantics::Policies`] are made of.
//!
//! A daemon hears of devices, items and policies for years. An entry that nobody refers to any more can be taken out,
//! and its place is given to the next one, so that a table is as large as what is in use, not as what was ever heard of.

use alloc::vec::Vec;

/// Values at numbered places.
#[derive(Debug, Clone)]
pub(crate) struct Slots<T> {
    places: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Slots<T> {
    /// Puts a value at a free place and returns the place.
    pub(crate) fn insert(&mut self, value: T) -> usize {
        let place = self.free.pop().unwrap_or(self.places.len());
        match self.places.get_mut(place) {
            Some(free) => *free = Some(value),
            None => self.places.push(Some(value)),
        }
        place
    }

    /// Takes the value at a place out, and frees the place.
    pub(crate) fn remove(&mut self, place: usize) -> Option<T> {
        let value = self.places.get_mut(place)?.take()?;
        self.free.push(place);
        Some(value)
    }

    /// Replaces the value at a place that has one.
    pub(crate) fn set(&mut self, place: usize, value: T) {
        if let Some(Some(known)) = self.places.get_mut(place) {
            *known = value;
        }
    }

    #[inline]
    pub(crate) fn at(&self, place: usize) -> Option<&T> {
        self.places.get(place)?.as_ref()
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// The place that the next value gets.
    pub(crate) fn next_place(&self) -> usize {
        self.free.last().copied().unwrap_or(self.places.len())
    }

    /// Every value with its place.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &T)> + Clone {
        self.places.iter().enumerate().filter_map(|(place, value)| Some((place, value.as_ref()?)))
    }
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

/// The same values at the same places; which free place is next does not matter.
impl<T: PartialEq> PartialEq for Slots<T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<T: Eq> Eq for Slots<T> {}
