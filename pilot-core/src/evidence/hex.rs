//! Bytes as lower-case hexadecimal digits: the one written form of keys, tags and digests.

use core::fmt;

/// Writes bytes as hexadecimal digits.
#[derive(Clone, Copy)]
pub struct Hex<'b>(pub &'b [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

/// The `N` bytes that `text` writes. Capitals are refused: what is compared and signed has one form.
pub fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

const fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn every_byte_has_one_written_form() {
        for byte in 0..=u8::MAX {
            let text = Hex(&[byte]).to_string();
            assert_eq!(decode(&text), Some([byte]));
            assert_eq!(decode::<1>(&text.to_uppercase()).is_some(), text == text.to_uppercase());
        }
        for bad in ["", "0", "000", "0g", " 0", "é"] {
            assert_eq!(decode::<1>(bad), None, "{bad}");
        }
    }
}
