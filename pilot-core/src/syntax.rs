//! The text form of policies: files `*.pilot`.
//!
//! ```text
//! file      = { policy }
//! policy    = "policy" name "{" ( "nothing" | collect { transfer } ) "}"
//! collect   = "collect" datatype "by" entity rule
//! transfer  = "transfer" "to" entity rule
//! rule      = [ "when" condition ] "for" ( "nothing" | purpose { "," purpose } ) "until" moment
//! moment    = date | RFC 3339 time | natural number (Unix seconds)
//! condition = conjunction { "or" conjunction }
//! conjunction = negation { "and" negation }
//! negation  = "not" negation | "(" condition ")" | term [ comparison term ]
//! comparison = "=" | "!=" | "<" | "<=" | ">" | ">="
//! term      = name | number | date | RFC 3339 time | string | "true" | "false" | function "(" [ term { "," term } ] ")"
//! ```
//!
//! `//` and `#` start comments. A boolean term alone, `cookie.secure`, means `cookie.secure = true`.

pub mod format;
pub mod json;
mod lexer;
mod parser;

use alloc::string::{String, ToString};
use alloc::vec::Vec;

pub use self::parser::{MAX_FILE_BYTES, SyntaxError, SyntaxProblem, parse_condition, parse_file};
use crate::policy::Choice;

/// A parsed file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Its policies, in the order of the file.
    pub policies: Vec<SourcePolicy>,
    /// Comments after the last policy.
    pub end_comments: Vec<String>,
}

/// A policy as it stands in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourcePolicy {
    /// Its name in the file; no part of the policy.
    pub name: String,
    /// The policy.
    pub choice: Choice,
    comments: PolicyComments,
}

impl SourcePolicy {
    /// A policy without comments.
    pub fn new(name: &str, choice: Choice) -> Self {
        Self { name: name.to_string(), choice, comments: PolicyComments::default() }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct PolicyComments {
    policy: Attached,
    collection: RuleComments,
    transfers: Vec<RuleComments>,
    end: Attached,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct RuleComments {
    head: Attached,
    when: Attached,
    purposes: Attached,
    until: Attached,
}

/// Comments on the lines before a clause, and at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Attached {
    before: Vec<String>,
    after: Vec<String>,
}
