//! Where in an input a problem is: line, column, the line itself and a caret under the place.

use alloc::string::String;
use core::fmt::{self, Write as _};
use core::ops::Range;

/// How many characters of a source line an error shows.
const EXCERPT_CHARS: usize = 100;

/// A problem `E` together with its place in the text it was found in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located<E> {
    /// What is wrong.
    pub problem: E,
    /// Line of the place, from 1.
    pub line: usize,
    /// Column of the place in characters, from 1.
    pub column: usize,
    excerpt: String,
    caret_at: usize,
    caret_len: usize,
}

impl<E> Located<E> {
    /// Places `problem` at the byte range `span` of `source`.
    pub fn new(source: &str, span: Range<usize>, problem: E) -> Self {
        let start = floor_char_boundary(source, span.start);
        let before = source.get(..start).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
        let text = source.get(line_start..).unwrap_or_default();
        let text = text.split(['\n', '\r']).next().unwrap_or_default();

        // A window of the line around the caret, so that a line of a megabyte stays readable.
        let fits = text.chars().nth(EXCERPT_CHARS).is_none();
        let first = if fits { 0 } else { (column - 1).saturating_sub(EXCERPT_CHARS / 2) };
        let mut excerpt = String::new();
        let mut caret_at = 0;
        for (at, character) in text.chars().enumerate().skip(first).take(EXCERPT_CHARS) {
            if at == column - 1 {
                caret_at = excerpt.chars().count();
            }
            match character {
                '\t' => excerpt.push(' '),
                // A terminal must not be steered by the input it is shown.
                character if is_invisible(character) => excerpt.push('\u{fffd}'),
                character => excerpt.push(character),
            }
        }
        if column > first + excerpt.chars().count() {
            caret_at = excerpt.chars().count();
        }
        let marked = source.get(start..span.end.max(start)).unwrap_or_default();
        let marked = marked.split(['\n', '\r']).next().unwrap_or_default();
        let room = (excerpt.chars().count().saturating_sub(caret_at)).max(1);
        let caret_len = marked.chars().count().clamp(1, room);
        Self { problem, line, column, excerpt, caret_at, caret_len }
    }

    /// The same place with another problem.
    pub fn map<F>(self, change: impl FnOnce(E) -> F) -> Located<F> {
        let Self { problem, line, column, excerpt, caret_at, caret_len } = self;
        Located { problem: change(problem), line, column, excerpt, caret_at, caret_len }
    }
}

impl<E: fmt::Display> fmt::Display for Located<E> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = alloc::format!("{}", self.line);
        writeln!(out, "line {}, column {}: {}", self.line, self.column, self.problem)?;
        writeln!(out, " {number} | {}", self.excerpt)?;
        for _ in 0..number.len() + 1 {
            out.write_char(' ')?;
        }
        out.write_str(" | ")?;
        for _ in 0..self.caret_at {
            out.write_char(' ')?;
        }
        for _ in 0..self.caret_len {
            out.write_char('^')?;
        }
        Ok(())
    }
}

impl<E: core::error::Error> core::error::Error for Located<E> {}

fn floor_char_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// A name taken from outside, as an error quotes it: short, in backticks, without control characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quoted(String);

impl Quoted {
    /// How many characters of a foreign name an error repeats.
    const CHARS: usize = 64;

    /// Takes what an error may repeat of `text`.
    pub fn new(text: &str) -> Self {
        Self(shortened(text, Self::CHARS))
    }
}

/// A sentence of another library, which may repeat its input, as an error passes it on.
pub fn foreign_message(text: &str) -> String {
    const CHARS: usize = 400;
    shortened(text, CHARS)
}

/// The first characters of a text, without those that steer a terminal.
fn shortened(text: &str, chars: usize) -> String {
    let visible = |character: char| if is_invisible(character) { '\u{fffd}' } else { character };
    let mut kept: String = text.chars().take(chars).map(visible).collect();
    if text.chars().nth(chars).is_some() {
        kept.push('…');
    }
    kept
}

impl fmt::Display for Quoted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "`{}`", self.0)
    }
}

/// Characters that would let a text show something else than it says: controls, bidirectional marks, fillers.
pub fn is_invisible(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// "; did you mean `x`?", or nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint(pub Option<String>);

impl fmt::Display for Hint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(name) => write!(out, "; did you mean `{name}`?"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn the_caret_stands_under_the_place() {
        let source = "policy a {\n  collect cookei by x\n}";
        let at = source.find("cookei").unwrap();
        let shown = Located::new(source, at..at + 6, "unknown").to_string();
        assert_eq!(shown, "line 2, column 11: unknown\n 2 |   collect cookei by x\n   |           ^^^^^^");
    }

    #[test]
    fn a_very_long_line_is_shown_in_part() {
        let source = "(".repeat(1_000_000);
        let located = Located::new(&source, 999_990..999_991, "too deep");
        assert_eq!((located.line, located.column), (1, 999_991));
        assert!(located.to_string().len() < 500);
    }

    #[test]
    fn control_characters_of_the_input_are_not_passed_on() {
        let shown = Located::new("a\u{1b}[2Jb", 0..1, Quoted::new("\u{1b}[2J")).to_string();
        assert!(!shown.contains('\u{1b}'));
    }
}
