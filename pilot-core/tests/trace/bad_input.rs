//! Bad input is refused with a sentence: no crash, no stall, one byte form.

use std::cell::RefCell;

use pilot_core::evidence::trace::{Chain, Content, KnownNames, Record};

use super::samples::{NOW, contents, small, verify};
use super::support::fuzz_bodies::refused;
use super::support::mutator::fuzz;

const WORDS: [&str; 8] = ["\u{0}", "\u{1}", "\u{18}", "\u{1a}", "\u{1b}", "X ", "@", "mac-address"];

thread_local! {
    static NAMES: RefCell<KnownNames> = RefCell::default();
}

/// Whatever a body is, it is refused or has this one form, and what was read before makes no difference.
fn body(bytes: &[u8]) -> bool {
    let again = NAMES.with_borrow_mut(|names| Record::from_bytes_with(bytes, names));
    assert_eq!(again, Record::from_bytes(bytes));
    match Record::from_bytes(bytes) {
        Ok(record) => {
            assert_eq!(record.to_bytes(), bytes, "one byte form per record");
            true
        }
        Err(error) => refused(&error),
    }
}

/// Whatever a file is, what is accepted of it was signed: records of the small trace, from its beginning.
fn file(bytes: &[u8]) -> bool {
    match verify(bytes) {
        Ok((standing, records)) => {
            let (_, ours) = verify(&small().concat()).unwrap();
            let sealed = standing.sealed.map_or(0, |sealed| sealed.record as usize + 1);
            assert_eq!(records[..sealed], ours[..sealed]);
            true
        }
        Err(error) => refused(&error),
    }
}

#[test]
fn fuzzed_bodies() {
    let record = |content| Record { sequence: 3, time: NOW, content }.to_bytes();
    let seeds: Vec<Vec<u8>> = contents().into_iter().map(record).collect();
    fuzz("trace body", &seeds, &WORDS, body);
}

#[test]
fn fuzzed_files() {
    let mut chain = Chain::new();
    let open = chain.append(NOW, contents().remove(0)).unwrap();
    assert!(matches!(contents()[0], Content::Open(_)));
    fuzz("trace file", &[small().concat(), open], &WORDS, file);
}
