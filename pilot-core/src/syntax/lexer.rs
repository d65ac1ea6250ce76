//! From text to words, signs and strings, each with its place.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use super::parser::SyntaxProblem;
use crate::diagnostic::is_invisible;
use crate::name::is_word_byte;

/// One token; comments are collected beside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token<'s> {
    pub(super) kind: TokenKind<'s>,
    pub(super) span: Range<usize>,
    /// Comments since the token before, those that began on its line first.
    pub(super) comments: Vec<Comment>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Comment {
    pub(super) text: String,
    pub(super) on_line_of_previous: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TokenKind<'s> {
    /// A name, keyword, number or time.
    Word(&'s str),
    /// `{ } ( ) , = != < <= > >=`
    Sign(&'static str),
    /// A string constant, unescaped.
    String(String),
    /// The end of the input.
    End,
}

/// Longer signs first.
const SIGNS: [&str; 11] = ["!=", "<=", ">=", "{", "}", "(", ")", ",", "=", "<", ">"];

pub(super) struct Lexer<'s> {
    source: &'s str,
    at: usize,
}

impl<'s> Lexer<'s> {
    pub(super) const fn new(source: &'s str) -> Self {
        Self { source, at: 0 }
    }

    fn rest(&self) -> &'s str {
        self.source.get(self.at..).unwrap_or_default()
    }

    pub(super) fn next_token(&mut self) -> Result<Token<'s>, (Range<usize>, SyntaxProblem)> {
        let comments = self.skip_blanks()?;
        let start = self.at;
        let rest = self.rest();
        let kind = if rest.is_empty() {
            TokenKind::End
        } else if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
            self.at += sign.len();
            TokenKind::Sign(sign)
        } else if rest.starts_with('"') {
            TokenKind::String(self.string()?)
        } else {
            // `+` belongs to words that start with a digit: the offset of a time.
            let numeric = rest.starts_with(|c: char| c.is_ascii_digit());
            let length = rest.bytes().take_while(|b| is_word_byte(*b) || (numeric && *b == b'+')).count();
            if length == 0 {
                let character = rest.chars().next().unwrap_or_default();
                return Err((start..start + character.len_utf8(), SyntaxProblem::StrangeCharacter(character)));
            }
            self.at += length;
            TokenKind::Word(rest.get(..length).unwrap_or_default())
        };
        Ok(Token { kind, span: start..self.at, comments })
    }

    fn skip_blanks(&mut self) -> Result<Vec<Comment>, (Range<usize>, SyntaxProblem)> {
        let mut comments = Vec::new();
        let mut on_line_of_previous = self.at > 0;
        loop {
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
            on_line_of_previous &= !rest.get(..blank).unwrap_or_default().contains('\n');
            self.at += blank;
            let rest = self.rest();
            if !rest.starts_with("//") && !rest.starts_with('#') {
                return Ok(comments);
            }
            let line = rest.split('\n').next().unwrap_or_default();
            let text = line.trim_end();
            // What a reviewer sees must be what there is, in comments as well.
            if let Some((offset, strange)) = text.char_indices().find(|(_, c)| *c != '\t' && is_invisible(*c)) {
                let start = self.at + offset;
                return Err((start..start + strange.len_utf8(), SyntaxProblem::StrangeCharacter(strange)));
            }
            self.at += line.len();
            comments.push(Comment { text: text.to_string(), on_line_of_previous });
        }
    }

    fn string(&mut self) -> Result<String, (Range<usize>, SyntaxProblem)> {
        let start = self.at;
        let mut text = String::new();
        let mut characters = self.rest().char_indices().skip(1);
        while let Some((offset, character)) = characters.next() {
            let here = start + offset;
            match character {
                '"' => {
                    self.at = here + 1;
                    return Ok(text);
                }
                '\n' => break,
                '\\' => {
                    let bad = |end: usize| (here..end, SyntaxProblem::BadEscape);
                    match characters.next() {
                        Some((_, '"')) => text.push('"'),
                        Some((_, '\\')) => text.push('\\'),
                        Some((_, 'n')) => text.push('\n'),
                        Some((_, 't')) => text.push('\t'),
                        Some((_, 'u')) => {
                            let rest = self.source.get(here + 2..).unwrap_or_default();
                            let digits = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
                            let digits = digits.map(|(digits, _)| digits).ok_or_else(|| bad(here + 2))?;
                            let end = here + 4 + digits.len();
                            let is_short_hex =
                                (1..=6).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
                            let code = u32::from_str_radix(digits, 16).ok().filter(|_| is_short_hex);
                            text.push(code.and_then(char::from_u32).ok_or_else(|| bad(end.min(self.source.len())))?);
                            while characters.next().is_some_and(|(_, character)| character != '}') {}
                        }
                        Some((end, _)) => return Err(bad(start + end + 1)),
                        None => break,
                    }
                }
                character if is_invisible(character) => {
                    return Err((here..here + character.len_utf8(), SyntaxProblem::StrangeCharacter(character)));
                }
                character => text.push(character),
            }
        }
        Err((start..start + 1, SyntaxProblem::UnterminatedString))
    }
}
