//! Numbered things.

use std::hash::{BuildHasher, Hash};

use hashbrown::{DefaultHashBuilder, HashTable};

/// Things, each kept once and numbered when it first appears.
#[derive(Debug)]
pub struct Table<T> {
    items: Vec<T>,
    numbers: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl<T: Eq + Hash> Table<T> {
    /// The number of a thing, which is added if it is new.
    pub fn number(&mut self, item: T) -> u32 {
        let Self { items, numbers, hasher } = self;
        let next = u32::try_from(items.len()).unwrap_or(u32::MAX);
        let same = |number: &u32| items.get(*number as usize) == Some(&item);
        let rehash = |number: &u32| items.get(*number as usize).map_or(0, |known| hasher.hash_one(known));
        let number = *numbers.entry(hasher.hash_one(&item), same, rehash).or_insert(next).get();
        if number == next {
            items.push(item);
        }
        number
    }

    /// The thing with a number.
    pub fn item(&self, number: u32) -> Option<&T> {
        self.items.get(number as usize)
    }

    /// Everything, by number.
    pub fn items(&self) -> &[T] {
        &self.items
    }
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { items: Vec::new(), numbers: HashTable::new(), hasher: DefaultHashBuilder::default() }
    }
}
