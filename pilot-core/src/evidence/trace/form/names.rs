//! Names that were read before.

use alloc::vec::Vec;
use smol_str::SmolStr;

/// How many names are kept: those that a trace says again and again are few.
const PLACES: usize = 64;

/// Names that were read before. A trace says the same few in almost every record, and to see that it is one of them takes much
/// less than to check it. What is read does not depend on them.
#[derive(Debug, Default)]
pub struct KnownNames(Vec<Option<SmolStr>>);

impl KnownNames {
    pub(super) fn find(&self, bytes: &[u8]) -> Option<&SmolStr> {
        let known = self.0.get(place(bytes))?.as_ref()?;
        (known.as_bytes() == bytes).then_some(known)
    }

    /// Keeps a name in place of another.
    pub(super) fn remember(&mut self, name: SmolStr) {
        if self.0.is_empty() {
            self.0.resize(PLACES, None);
        }
        if let Some(place) = self.0.get_mut(place(name.as_bytes())) {
            *place = Some(name);
        }
    }
}

/// Where a name is kept. Most differ in their last letters or in their length.
fn place(name: &[u8]) -> usize {
    let [.., before, last] = name else { return 0 };
    (usize::from(*last) + 10 * usize::from(*before) + 5 * name.len()) % PLACES
}
