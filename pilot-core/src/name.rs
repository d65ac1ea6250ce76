//! Names: what a vocabulary may call things, and the nearest known name when one is misspelt.

use alloc::string::{String, ToString};

/// The longest name, in bytes.
pub const MAX_NAME_BYTES: usize = 128;

/// Words of the policy language; a vocabulary cannot use them as names.
pub const RESERVED: [&str; 14] = [
    "and", "by", "collect", "false", "for", "not", "nothing", "or", "policy", "to", "transfer", "true", "until", "when",
];

/// The longest of them, in bytes.
const MAX_RESERVED_BYTES: usize = 8;

/// Why a text is no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Empty or too long.
    #[error("a name has 1 to {MAX_NAME_BYTES} bytes")]
    Length,
    /// A character that words cannot have.
    #[error("a name is made of ASCII letters, digits and `_ - . : #`, and starts with a letter, a digit or `_`")]
    Character,
    /// Reads as a number or a date.
    #[error("a name must not read as a number or a date")]
    LooksLikeValue,
    /// A word of the language.
    #[error("this word belongs to the policy language")]
    Reserved,
}

/// Accepts `text` as a name, or says why not.
pub fn check_name(text: &str) -> Result<(), NameError> {
    if text.is_empty() || text.len() > MAX_NAME_BYTES {
        return Err(NameError::Length);
    }
    let begins_with = |test: fn(&u8) -> bool| text.as_bytes().first().is_some_and(test);
    if !text.bytes().all(|byte| WORD_BYTES.get(usize::from(byte)) == Some(&true))
        || !begins_with(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
    {
        return Err(NameError::Character);
    }
    // Every name in a trace is checked: most are neither, at a glance.
    if begins_with(u8::is_ascii_digit) && looks_like_value(text) {
        return Err(NameError::LooksLikeValue);
    }
    if text.len() <= MAX_RESERVED_BYTES && begins_with(begins_reserved) && RESERVED.contains(&text) {
        return Err(NameError::Reserved);
    }
    Ok(())
}

/// [`is_word_byte`] of every byte: an auditor checks each byte of each name in a trace.
const WORD_BYTES: [bool; 256] = {
    let mut table = [false; 256];
    let mut rest: &mut [bool] = &mut table;
    let mut byte = 0;
    while let [first, others @ ..] = rest {
        *first = is_word_byte(byte);
        byte = byte.wrapping_add(1);
        rest = others;
    }
    table
};

/// Whether a byte can be part of a word: of a name, a number or a date.
pub(crate) const fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':' | b'#')
}

/// Whether one of the [`RESERVED`] words begins with this letter.
const fn begins_reserved(letter: &u8) -> bool {
    matches!(letter, b'a'..=b'c' | b'f' | b'n'..=b'p' | b't' | b'u' | b'w')
}

/// Whether the policy language reads this word as a number or a time rather than as a name.
pub(crate) fn looks_like_value(word: &str) -> bool {
    let dated = word.len() >= 10
        && word.bytes().take(10).enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    let digits = word.strip_prefix('-').unwrap_or(word);
    dated
        || (digits.starts_with(|c: char| c.is_ascii_digit())
            && digits.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b':')))
}

/// The most edits between a word and the name it may be a misspelling of.
const MAX_EDITS: usize = 3;

/// The known name nearest to `wanted`, if one is near enough to be a misspelling of it.
pub fn nearest<'n>(wanted: &str, known: impl Iterator<Item = &'n str>) -> Option<String> {
    if wanted.len() > MAX_NAME_BYTES {
        return None;
    }
    let mut best = None;
    // One more than is allowed: what is found must be nearer than this.
    let mut bound = wanted.len().div_ceil(3).clamp(1, MAX_EDITS) + 1;
    for name in known {
        if bound == 0 {
            break;
        }
        if let Some(edits) = edits_below(bound, wanted.as_bytes(), name.as_bytes()) {
            (best, bound) = (Some(name), edits);
        }
    }
    best.map(ToString::to_string)
}

/// Levenshtein's distance, if it is below `bound`, capitals aside. Only cells near the diagonal can matter, so a long
/// name costs no more than its length times `bound`.
fn edits_below(bound: usize, from: &[u8], to: &[u8]) -> Option<usize> {
    if from.len().abs_diff(to.len()) >= bound {
        return None;
    }
    let mut row: [usize; MAX_NAME_BYTES + 1] = core::array::from_fn(|at| at);
    for (at, byte) in from.iter().enumerate() {
        let first = (at + 1).saturating_sub(bound);
        let last = (at + 1 + bound).min(to.len());
        let mut diagonal = *row.get(first)?;
        // Left of the band nothing is reachable within the bound.
        let mut left = if first == 0 { at + 1 } else { bound };
        *row.get_mut(first)? = left;
        let mut smallest = left;
        for (other, cell) in to.get(first..last)?.iter().zip(row.get_mut(first + 1..=last)?) {
            let changed = diagonal + usize::from(!byte.eq_ignore_ascii_case(other));
            diagonal = *cell;
            left = changed.min(diagonal + 1).min(left + 1);
            *cell = left;
            smallest = smallest.min(left);
        }
        if smallest >= bound {
            return None;
        }
        // Right of the band likewise.
        if let Some(cell) = row.get_mut(last + 1) {
            *cell = bound;
        }
    }
    row.get(to.len()).copied().filter(|edits| *edits < bound)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn names_are_words_that_mean_nothing_else() {
        for name in ["flights.com", "mac-address", "mall-gate#basic", "dpv:Marketing", "_x", "7-eleven.com", "p1"] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in ["12", "2024-12-21", "2024-12-21T00:00:00Z", "1.5", "1-2"] {
            assert_eq!(check_name(name), Err(NameError::LooksLikeValue), "{name}");
        }
        for name in ["a b", "é", "-a", ".a", "a+b", "a\n"] {
            assert_eq!(check_name(name), Err(NameError::Character), "{name}");
        }
        for name in RESERVED {
            assert_eq!(check_name(name), Err(NameError::Reserved), "{name}");
        }
        assert_eq!(check_name(""), Err(NameError::Length));
        assert_eq!(check_name(&"a".repeat(129)), Err(NameError::Length));
    }

    #[test]
    fn the_nearest_name_is_found_and_strangers_are_not_offered() {
        let known = ["hotel_ads", "special_offers", "newsletter"];
        assert_eq!(nearest("hotel_add", known.into_iter()).as_deref(), Some("hotel_ads"));
        assert_eq!(nearest("Newsleter", known.into_iter()).as_deref(), Some("newsletter"));
        assert_eq!(nearest("research", known.into_iter()), None);
        assert_eq!(nearest("NEWSLETTER", known.into_iter()).as_deref(), Some("newsletter"));
        assert_eq!(nearest("a", ["ab", "b"].into_iter()).as_deref(), Some("ab"), "the first of equals");
    }

    /// Levenshtein's distance by its definition.
    fn slow(from: &[u8], to: &[u8]) -> usize {
        match (from.split_first(), to.split_first()) {
            (None, _) => to.len(),
            (_, None) => from.len(),
            (Some((a, rest)), Some((b, others))) if a == b => slow(rest, others),
            (Some((_, rest)), Some((_, others))) => 1 + slow(rest, others).min(slow(rest, to)).min(slow(from, others)),
        }
    }

    #[test]
    fn the_banded_distance_is_the_distance() {
        let words: Vec<String> =
            ["", "a", "b", "ab", "ba", "abc", "acb", "aabb", "bbaa", "abab", "aaaaa", "baaab", "abcabc"]
                .into_iter()
                .map(String::from)
                .collect();
        for from in &words {
            for to in &words {
                let distance = slow(from.as_bytes(), to.as_bytes());
                for bound in 1..=4 {
                    let expected = Some(distance).filter(|distance| *distance < bound);
                    assert_eq!(edits_below(bound, from.as_bytes(), to.as_bytes()), expected, "{from} {to} {bound}");
                }
            }
        }
    }
}
