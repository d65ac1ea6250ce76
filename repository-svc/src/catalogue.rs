//! What the repository hands out: the latest statement of each device, in the order in which they were stored.
//!
//! It follows the graph's Π: a statement is here once its upload was recorded, so that what a subject downloads is what
//! the trace says she did. Statements are handed on as they were signed.

use std::collections::BTreeMap;
use std::sync::Arc;

use pilot_core::evidence::DeviceName;

/// The latest statements.
#[derive(Debug, Default)]
pub struct Catalogue {
    by_revision: BTreeMap<u64, (DeviceName, Arc<[u8]>)>,
    revisions: BTreeMap<DeviceName, u64>,
    head: u64,
}

/// A part of a download.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// As they were signed.
    pub statements: Vec<Vec<u8>>,
    /// Up to here everything is known to whoever has this part and all before it.
    pub until: u64,
    /// The revision of the whole.
    pub head: u64,
}

impl Part {
    /// Whether nothing is left.
    pub const fn is_last(&self) -> bool {
        self.until == self.head
    }
}

impl Catalogue {
    /// A statement was stored at this revision, in place of the device's one before.
    pub fn insert(&mut self, device: DeviceName, revision: u64, statement: Arc<[u8]>) {
        if let Some(before) = self.revisions.insert(device.clone(), revision) {
            self.by_revision.remove(&before);
        }
        self.by_revision.insert(revision, (device, statement));
        self.pass(revision);
    }

    /// There is nothing to hand out at this revision.
    pub fn pass(&mut self, revision: u64) {
        self.head = self.head.max(revision);
    }

    /// A device's statement.
    pub fn statement(&self, device: &DeviceName) -> Option<&[u8]> {
        let (_, statement) = self.by_revision.get(self.revisions.get(device)?)?;
        Some(statement)
    }

    /// The highest revision so far.
    pub const fn head(&self) -> u64 {
        self.head
    }

    /// The statements after a revision, oldest first, up to a number of bytes; at least one if any is left.
    pub fn part(&self, since: u64, max_bytes: usize) -> Part {
        let (mut statements, mut bytes, mut until) = (Vec::new(), 0usize, since);
        for (revision, (_, statement)) in self.by_revision.range(since.saturating_add(1)..) {
            // The head of a CBOR byte string has at most five bytes.
            bytes = bytes.saturating_add(statement.len() + 5);
            if bytes > max_bytes && !statements.is_empty() {
                return Part { statements, until, head: self.head };
            }
            statements.push(statement.to_vec());
            until = *revision;
        }
        // Nothing is left, also where the last revisions were replaced, or `since` is of another catalogue.
        Part { statements, until: self.head, head: self.head }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> DeviceName {
        DeviceName::new(text).unwrap()
    }

    /// Whoever pulls part after part has the latest statement of every device, also if some change meanwhile.
    #[test]
    fn parts_make_a_whole() {
        let mut catalogue = Catalogue::default();
        for n in 0..100u8 {
            catalogue.insert(name(&format!("d{n}")), u64::from(n) + 1, vec![n; 10].into());
        }
        let (mut since, mut known, mut rounds) = (0, Vec::new(), 0);
        loop {
            let part = catalogue.part(since, 100);
            known.extend(part.statements.iter().map(|statement| statement[0]));
            rounds += 1;
            if rounds == 3 {
                // One that is known already and one that is not: both come again.
                catalogue.insert(name("d0"), 101, vec![200; 10].into());
                catalogue.insert(name("d99"), 102, vec![201; 10].into());
            } else if part.is_last() {
                break;
            }
            since = part.until;
        }
        assert_eq!(known.iter().filter(|n| **n < 99).count(), 99, "d0 to d98 as they were");
        assert!(!known.contains(&99), "what was replaced is not delivered");
        assert!(known.ends_with(&[200, 201]));
        assert!(rounds > 10);
    }

    /// A statement that is longer than a part comes alone; who knows more than there is learns the head.
    #[test]
    fn long_statements_and_strange_revisions() {
        let mut catalogue = Catalogue::default();
        assert_eq!(catalogue.part(0, 10), Part { statements: vec![], until: 0, head: 0 });
        catalogue.insert(name("a"), 1, vec![0; 1000].into());
        catalogue.insert(name("b"), 2, vec![1; 1000].into());
        let part = catalogue.part(0, 10);
        assert_eq!((part.statements.len(), part.until, part.is_last()), (1, 1, false));
        assert_eq!(catalogue.part(77, 10), Part { statements: vec![], until: 2, head: 2 });
        assert_eq!(catalogue.part(u64::MAX, 10).until, 2);
    }
}
