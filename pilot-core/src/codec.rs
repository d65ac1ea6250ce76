//! The canonical byte form of policies: deterministic CBOR (RFC 8949 §4.2), over names and never over ids.
//!
//! ```text
//! choice     = null                                    ; ⊥
//!            / [1, datatype: tstr, rule, [* rule]]     ; 1 is the version of this form
//! rule       = [condition, entity: tstr, [* purpose: tstr], retention: uint]
//! condition  = bool
//!            / [0, term, comparison: tstr, term]       ; comparison as written, "=" …
//!            / [1, condition]                          ; not
//!            / [2, condition, condition]               ; and
//!            / [3, condition, condition]               ; or
//! term       = [0, name: tstr]                         ; attribute or item
//!            / [1, millionths: int]                    ; number
//!            / [2, tstr] / [3, bool] / [4, uint]       ; string, boolean, time in Unix seconds
//!            / [5, function: tstr, * term]
//! ```
//!
//! Lengths are definite, integers shortest, purposes sorted by their bytes, transfer rules by (entity, retention,
//! purposes, condition as text). Decoding encodes what it understood once more and refuses any other bytes, so a
//! policy has exactly one byte form and one digest.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::convert::Infallible;
use core::fmt;
use minicbor::data::Type;
use minicbor::encode::Write;
use minicbor::{Decoder, Encoder};
use sha2::{Digest as _, Sha256};

use crate::condition::{Comparison, Condition, ConditionProblem, Formula, MAX_DEPTH, MAX_NODES, Term};
use crate::diagnostic::{Hint, Quoted, foreign_message};
use crate::function::Function;
use crate::policy::{
    Choice, CommunicationRule, MAX_POLICY_BYTES, MAX_PURPOSES, MAX_TRANSFERS, Policy, PolicyProblem, UsageRule,
};
use crate::value::{Number, Time, Value};
use crate::vocabulary::{Id, Order, Vocabulary};

const VERSION: u8 = 1;

/// SHA-256 of a policy's canonical bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

/// Why bytes are no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset}: {problem}")]
pub struct CodecError {
    /// Where.
    pub offset: usize,
    /// What.
    pub problem: CodecProblem,
}

/// Why bytes are no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodecProblem {
    /// More than [`MAX_POLICY_BYTES`].
    #[error("a policy takes at most {MAX_POLICY_BYTES} bytes")]
    TooLarge,
    /// Not CBOR, or not of our form.
    #[error("{0}")]
    Malformed(String),
    /// A form we do not know.
    #[error("policy form {0} is not known, only {VERSION}")]
    Version(u64),
    /// An array of the wrong length.
    #[error("an array of {expected} was needed, this one has {found}")]
    Length {
        /// The form's length.
        expected: u64,
        /// The length found.
        found: u64,
    },
    /// A length that is left open.
    #[error("lengths must be definite")]
    Indefinite,
    /// A number that stands for no kind of condition or term.
    #[error("{0} stands for no condition or term")]
    Tag(u64),
    /// A name the vocabulary does not have.
    #[error("unknown {0} {1}{2}")]
    Unknown(&'static str, Quoted, Hint),
    /// A bad condition.
    #[error("{0}")]
    Condition(ConditionProblem),
    /// A bad policy.
    #[error("{0}")]
    Policy(PolicyProblem),
    /// Understood, but there is another, canonical form.
    #[error("not the canonical form")]
    NotCanonical,
    /// Something after the policy.
    #[error("bytes after the policy")]
    TrailingBytes,
}

/// The canonical bytes of a policy.
pub fn encode(choice: &Choice, vocabulary: &Vocabulary) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes);
    let result = match choice {
        Choice::Nothing => encoder.null().map(drop),
        Choice::Policy(policy) => encode_policy(&mut encoder, policy, vocabulary),
    };
    // INVARIANT: writing to a `Vec` cannot fail, and there is no other way for encoding to fail.
    debug_assert!(result.is_ok());
    bytes
}

/// The digest of a policy.
pub fn digest(choice: &Choice, vocabulary: &Vocabulary) -> Digest {
    Digest(Sha256::digest(encode(choice, vocabulary)).into())
}

/// How many canonical bytes a policy has.
pub(crate) fn encoded_len(policy: &Policy, vocabulary: &Vocabulary) -> usize {
    struct Count(usize);
    impl Write for Count {
        type Error = Infallible;
        fn write_all(&mut self, bytes: &[u8]) -> Result<(), Infallible> {
            self.0 += bytes.len();
            Ok(())
        }
    }
    let mut encoder = Encoder::new(Count(0));
    let result = encode_policy(&mut encoder, policy, vocabulary);
    debug_assert!(result.is_ok());
    encoder.into_writer().0
}

type EncodeResult<W> = Result<(), minicbor::encode::Error<<W as Write>::Error>>;

fn encode_policy<W: Write>(out: &mut Encoder<W>, policy: &Policy, vocabulary: &Vocabulary) -> EncodeResult<W> {
    out.array(4)?.u8(VERSION)?.str(vocabulary.datatypes.name(policy.datatype()))?;
    encode_rule(out, policy.collection(), vocabulary)?;
    out.array(policy.transfers().len() as u64)?;
    policy.transfers().iter().try_for_each(|rule| encode_rule(out, rule, vocabulary))
}

fn encode_rule<W: Write>(out: &mut Encoder<W>, rule: &CommunicationRule, vocabulary: &Vocabulary) -> EncodeResult<W> {
    out.array(4)?;
    encode_formula(out, rule.condition.formula(), vocabulary)?;
    out.str(vocabulary.entities.name(rule.entity))?;
    out.array(rule.usage.purposes().len() as u64)?;
    for purpose in rule.usage.purposes() {
        out.str(vocabulary.purposes.name(*purpose))?;
    }
    out.u64(rule.usage.retention().unix())?;
    Ok(())
}

fn encode_formula<W: Write>(out: &mut Encoder<W>, formula: &Formula, vocabulary: &Vocabulary) -> EncodeResult<W> {
    match formula {
        Formula::True => out.bool(true).map(drop),
        Formula::False => out.bool(false).map(drop),
        Formula::Compare(left, comparison, right) => {
            out.array(4)?.u8(0)?;
            encode_term(out, left, vocabulary)?;
            out.str(comparison.symbol())?;
            encode_term(out, right, vocabulary)
        }
        Formula::Not(inner) => {
            out.array(2)?.u8(1)?;
            encode_formula(out, inner, vocabulary)
        }
        Formula::And(left, right) | Formula::Or(left, right) => {
            out.array(3)?.u8(if matches!(formula, Formula::And(..)) { 2 } else { 3 })?;
            encode_formula(out, left, vocabulary)?;
            encode_formula(out, right, vocabulary)
        }
    }
}

fn encode_term<W: Write>(out: &mut Encoder<W>, term: &Term, vocabulary: &Vocabulary) -> EncodeResult<W> {
    match term {
        Term::Variable(variable, _) => out.array(2)?.u8(0)?.str(vocabulary.variable_name(*variable))?,
        Term::Constant(Value::Number(number)) => out.array(2)?.u8(1)?.i64(number.millionths())?,
        Term::Constant(Value::String(text)) => out.array(2)?.u8(2)?.str(text)?,
        Term::Constant(Value::Boolean(value)) => out.array(2)?.u8(3)?.bool(*value)?,
        Term::Constant(Value::Time(time)) => out.array(2)?.u8(4)?.u64(time.unix())?,
        Term::Call(function, arguments) => {
            out.array(2 + arguments.len() as u64)?.u8(5)?.str(function.name())?;
            return arguments.iter().try_for_each(|argument| encode_term(out, argument, vocabulary));
        }
    };
    Ok(())
}

/// Decodes canonical bytes; any other bytes are refused.
pub fn decode(bytes: &[u8], vocabulary: &Vocabulary) -> Result<Choice, CodecError> {
    if bytes.len() > MAX_POLICY_BYTES {
        return Err(CodecError { offset: 0, problem: CodecProblem::TooLarge });
    }
    let mut reader = Reader { decoder: Decoder::new(bytes), vocabulary };
    let choice = reader.choice().map_err(|problem| CodecError { offset: reader.decoder.position(), problem })?;
    let end = reader.decoder.position();
    if end < bytes.len() {
        return Err(CodecError { offset: end, problem: CodecProblem::TrailingBytes });
    }
    let canonical = encode(&choice, vocabulary);
    match canonical.iter().zip(bytes).position(|(canonical, byte)| canonical != byte) {
        None if canonical.len() == bytes.len() => Ok(choice),
        at => Err(CodecError { offset: at.unwrap_or(canonical.len()), problem: CodecProblem::NotCanonical }),
    }
}

struct Reader<'b, 'v> {
    decoder: Decoder<'b>,
    vocabulary: &'v Vocabulary,
}

impl From<minicbor::decode::Error> for CodecProblem {
    fn from(error: minicbor::decode::Error) -> Self {
        Self::Malformed(foreign_message(&error.to_string()))
    }
}

impl<'b, 'v> Reader<'b, 'v> {
    fn choice(&mut self) -> Result<Choice, CodecProblem> {
        if self.decoder.datatype()? == Type::Null {
            self.decoder.null()?;
            return Ok(Choice::Nothing);
        }
        self.array_of(4)?;
        let version = self.decoder.u64()?;
        if version != u64::from(VERSION) {
            return Err(CodecProblem::Version(version));
        }
        let datatype = self.name("datatype", &self.vocabulary.datatypes)?;
        let collection = self.rule()?;
        let count = self.array(MAX_TRANSFERS, CodecProblem::Policy(PolicyProblem::TooManyTransfers))?;
        let transfers: Result<Vec<_>, _> = (0..count).map(|_| self.rule()).collect();
        Policy::new(datatype, collection, transfers?, self.vocabulary).map(Choice::Policy).map_err(CodecProblem::Policy)
    }

    fn rule(&mut self) -> Result<CommunicationRule, CodecProblem> {
        self.array_of(4)?;
        let formula = self.formula(1, &mut 0)?;
        let condition = Condition::new(formula).map_err(CodecProblem::Condition)?;
        let entity = self.name("entity", &self.vocabulary.entities)?;
        let count = self.array(MAX_PURPOSES, CodecProblem::Policy(PolicyProblem::TooManyPurposes))?;
        let purposes: Result<Vec<_>, _> = (0..count).map(|_| self.name("purpose", &self.vocabulary.purposes)).collect();
        let retention = Time::from_unix(self.decoder.u64()?);
        let usage = UsageRule::new(purposes?, retention).map_err(CodecProblem::Policy)?;
        Ok(CommunicationRule { condition, entity, usage })
    }

    fn formula(&mut self, depth: usize, nodes: &mut usize) -> Result<Formula, CodecProblem> {
        count_node(depth, nodes)?;
        if self.decoder.datatype()? == Type::Bool {
            return Ok(if self.decoder.bool()? { Formula::True } else { Formula::False });
        }
        let length = self.array(4, CodecProblem::Malformed("too long an array for a condition".to_string()))?;
        let tag = self.decoder.u64()?;
        let parts_of = |expected| check_length(expected, length);
        Ok(match tag {
            0 => {
                parts_of(4)?;
                let left = self.term(depth + 1, nodes)?;
                let comparison = self.comparison()?;
                Formula::Compare(left, comparison, self.term(depth + 1, nodes)?)
            }
            1 => {
                parts_of(2)?;
                Formula::Not(Box::new(self.formula(depth + 1, nodes)?))
            }
            2 | 3 => {
                parts_of(3)?;
                let left = Box::new(self.formula(depth + 1, nodes)?);
                let right = Box::new(self.formula(depth + 1, nodes)?);
                if tag == 2 { Formula::And(left, right) } else { Formula::Or(left, right) }
            }
            tag => return Err(CodecProblem::Tag(tag)),
        })
    }

    fn comparison(&mut self) -> Result<Comparison, CodecProblem> {
        let symbol = self.decoder.str()?;
        let comparison = Comparison::ALL.into_iter().find(|comparison| comparison.symbol() == symbol);
        comparison.ok_or_else(|| CodecProblem::Unknown("comparison", Quoted::new(symbol), Hint(None)))
    }

    fn term(&mut self, depth: usize, nodes: &mut usize) -> Result<Term, CodecProblem> {
        count_node(depth, nodes)?;
        let length = self.array(MAX_NODES, CodecProblem::Condition(ConditionProblem::TooManyParts))?;
        let tag = self.decoder.u64()?;
        if tag == 5 {
            let name = self.decoder.str()?;
            let unknown = || CodecProblem::Unknown("function", Quoted::new(name), Hint(None));
            let function = Function::by_name(name).ok_or_else(unknown)?;
            let arguments: Result<Vec<_>, _> = (2..length).map(|_| self.term(depth + 1, nodes)).collect();
            return Ok(Term::Call(function, arguments?));
        }
        check_length(2, length)?;
        Ok(match tag {
            0 => {
                let name = self.decoder.str()?;
                let unknown =
                    || CodecProblem::Unknown("attribute", Quoted::new(name), self.vocabulary.variable_hint(name));
                let (variable, kind) = self.vocabulary.variable(name).ok_or_else(unknown)?;
                Term::Variable(variable, kind)
            }
            1 => Term::Constant(Value::Number(Number::from_millionths(self.decoder.i64()?))),
            2 => Term::Constant(Value::String(self.decoder.str()?.into())),
            3 => Term::Constant(Value::Boolean(self.decoder.bool()?)),
            4 => Term::Constant(Value::Time(Time::from_unix(self.decoder.u64()?))),
            tag => return Err(CodecProblem::Tag(tag)),
        })
    }

    fn name<I: Id>(&mut self, what: &'static str, order: &Order<I>) -> Result<I, CodecProblem> {
        let name = self.decoder.str()?;
        order.id(name).ok_or_else(|| CodecProblem::Unknown(what, Quoted::new(name), order.hint(name)))
    }

    /// The length of an array that may have up to `limit` elements.
    fn array(&mut self, limit: usize, too_long: CodecProblem) -> Result<u64, CodecProblem> {
        let length = self.decoder.array()?.ok_or(CodecProblem::Indefinite)?;
        if length > limit as u64 { Err(too_long) } else { Ok(length) }
    }

    fn array_of(&mut self, expected: u64) -> Result<(), CodecProblem> {
        let found = self.decoder.array()?.ok_or(CodecProblem::Indefinite)?;
        check_length(expected, found)
    }
}

fn check_length(expected: u64, found: u64) -> Result<(), CodecProblem> {
    if expected == found { Ok(()) } else { Err(CodecProblem::Length { expected, found }) }
}

/// Bounds recursion before it happens: decoding deeper than a condition can be would only be refused later.
fn count_node(depth: usize, nodes: &mut usize) -> Result<(), CodecProblem> {
    *nodes += 1;
    if depth > MAX_DEPTH {
        Err(CodecProblem::Condition(ConditionProblem::TooDeep))
    } else if *nodes > MAX_NODES {
        Err(CodecProblem::Condition(ConditionProblem::TooManyParts))
    } else {
        Ok(())
    }
}
