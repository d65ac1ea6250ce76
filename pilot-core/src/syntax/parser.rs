//! From tokens to policies: recursive descent with a bounded depth, so that errors are ours to word.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::ops::Range;

use super::lexer::{Lexer, Token, TokenKind};
use super::{Attached, PolicyComments, RuleComments, SourceFile, SourcePolicy};
use crate::condition::{Comparison, Condition, ConditionProblem, Formula, MAX_DEPTH, MAX_NODES, Term, check_constant};
use crate::diagnostic::{Hint, Located, Quoted};
use crate::function::Function;
use crate::name::{NameError, RESERVED, check_name, looks_like_value, nearest};
use crate::policy::{Choice, CommunicationRule, MAX_TRANSFERS, Policy, PolicyProblem, UsageRule};
use crate::value::{Kind, NumberError, Time, TimeError, Value};
use crate::vocabulary::{Entity, Id, Order, Purpose, Vocabulary};

/// The largest policy file.
pub const MAX_FILE_BYTES: usize = 16 << 20;

/// The deepest nesting of the text: every tree within [`MAX_DEPTH`] can be written, with its parentheses.
const MAX_NESTING: usize = 4 * MAX_DEPTH;

/// Why a text is no policy, with the place.
pub type SyntaxError = Located<SyntaxProblem>;

/// Why a text is no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxProblem {
    /// More than [`MAX_FILE_BYTES`].
    #[error("a policy file has at most {MAX_FILE_BYTES} bytes")]
    TooLarge,
    /// A character that is no part of the language.
    #[error("unexpected character {} (U+{:04X})", Quoted::new(.0.encode_utf8(&mut [0; 4])), u32::from(*.0))]
    StrangeCharacter(char),
    /// A string without end on its line.
    #[error("this text has no closing quote on its line")]
    UnterminatedString,
    /// Not one of the known escapes.
    #[error("a text knows the escapes \\\" \\\\ \\n \\t and \\u{{…}}")]
    BadEscape,
    /// Another token was needed.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// What could have stood there.
        expected: &'static str,
        /// What stood there.
        found: Found,
    },
    /// A name the vocabulary does not have.
    #[error("unknown {what} {name}{hint}")]
    Unknown {
        /// Of what it would be the name.
        what: &'static str,
        /// The name.
        name: Quoted,
        /// The nearest one.
        hint: Hint,
    },
    /// Not a name.
    #[error("bad policy name {0}: {1}")]
    Name(Quoted, NameError),
    /// Two policies of one name.
    #[error("a policy called {0} stands above already")]
    DuplicateName(Quoted),
    /// Not a number.
    #[error("bad number {0}: {1}")]
    Number(Quoted, NumberError),
    /// Not a moment.
    #[error("bad time {0}: {1}")]
    Time(Quoted, TimeError),
    /// A retention that does not fit.
    #[error("bad time {0}: more seconds than a 64-bit number holds")]
    TimeTooLarge(Quoted),
    /// A term alone that is not boolean.
    #[error("a {0} is no condition; compare it with something")]
    NotACondition(Kind),
    /// A condition that is ill typed or too big.
    #[error("{0}")]
    Condition(ConditionProblem),
    /// A policy that is not well formed.
    #[error("{0}")]
    Policy(PolicyProblem),
}

/// What stood in the wrong place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found(Option<Quoted>);

impl core::fmt::Display for Found {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match &self.0 {
            Some(text) => write!(out, "{text}"),
            None => out.write_str("the end"),
        }
    }
}

type Problem = (Range<usize>, SyntaxProblem);

/// Parses a file of policies.
pub fn parse_file(source: &str, vocabulary: &Vocabulary) -> Result<SourceFile, SyntaxError> {
    if source.len() > MAX_FILE_BYTES {
        return Err(Located::new("", 0..0, SyntaxProblem::TooLarge));
    }
    let file = || {
        let mut parser = Parser::new(source, vocabulary)?;
        let mut policies = Vec::new();
        let mut names = BTreeSet::new();
        while parser.peeked.kind != TokenKind::End {
            policies.push(parser.policy(&mut names)?);
        }
        let end_comments = core::mem::take(&mut parser.peeked.comments).into_iter().map(|c| c.text).collect();
        Ok(SourceFile { policies, end_comments })
    };
    file().map_err(|(span, problem)| Located::new(source, span, problem))
}

/// Parses a condition that stands alone.
pub fn parse_condition(source: &str, vocabulary: &Vocabulary) -> Result<Condition, SyntaxError> {
    if source == "true" {
        return Ok(Condition::always());
    }
    if source.len() > MAX_FILE_BYTES {
        return Err(Located::new("", 0..0, SyntaxProblem::TooLarge));
    }
    let condition = || {
        let mut parser = Parser::new(source, vocabulary)?;
        let condition = parser.condition()?;
        match parser.peeked.kind {
            TokenKind::End => Ok(condition),
            _ => Err(parser.expected("`and`, `or` or the end of the condition")),
        }
    };
    condition().map_err(|(span, problem)| Located::new(source, span, problem))
}

struct Parser<'s> {
    source: &'s str,
    vocabulary: &'s Vocabulary,
    lexer: Lexer<'s>,
    peeked: Token<'s>,
    /// Terms, negations and parentheses of the current condition so far.
    nodes: usize,
}

impl<'s> Parser<'s> {
    fn new(source: &'s str, vocabulary: &'s Vocabulary) -> Result<Self, Problem> {
        let mut lexer = Lexer::new(source);
        let peeked = lexer.next_token()?;
        Ok(Self { source, vocabulary, lexer, peeked, nodes: 0 })
    }

    fn policy(&mut self, names: &mut BTreeSet<&'s str>) -> Result<SourcePolicy, Problem> {
        let mut comments = PolicyComments::default();
        self.clause("policy", &mut comments.policy, None)?;
        let (name, span) = self.word("a policy name")?;
        check_name(name).map_err(|error| (span.clone(), SyntaxProblem::Name(Quoted::new(name), error)))?;
        if !names.insert(name) {
            return Err((span, SyntaxProblem::DuplicateName(Quoted::new(name))));
        }
        self.sign("{")?;
        let choice = if self.is_word("nothing") {
            self.clause("nothing", &mut comments.collection.head, Some(&mut comments.policy))?;
            self.take_comments(&mut comments.end, Some(&mut comments.collection.head));
            Choice::Nothing
        } else {
            self.rules(&mut comments, span)?
        };
        self.sign("}")?;
        self.take_comments_on_line(&mut comments.end);
        Ok(SourcePolicy { name: name.to_string(), choice, comments })
    }

    fn rules(&mut self, comments: &mut PolicyComments, name_span: Range<usize>) -> Result<Choice, Problem> {
        if !self.is_word("collect") {
            return Err(self.expected("`collect` or `nothing`"));
        }
        self.clause("collect", &mut comments.collection.head, Some(&mut comments.policy))?;
        let datatype = self.name("datatype", &self.vocabulary.datatypes)?;
        self.keyword("by")?;
        let collection = self.rule(&mut comments.collection)?;
        let mut transfers: Vec<(CommunicationRule, RuleComments)> = Vec::new();
        while self.is_word("transfer") {
            if transfers.len() == MAX_TRANSFERS {
                return Err((self.peeked.span.clone(), SyntaxProblem::Policy(PolicyProblem::TooManyTransfers)));
            }
            let mut own = RuleComments::default();
            let previous = transfers.last_mut().map_or(&mut comments.collection, |(_, comments)| comments);
            self.clause("transfer", &mut own.head, Some(&mut previous.until))?;
            self.keyword("to")?;
            let rule = self.rule(&mut own)?;
            transfers.push((rule, own));
        }
        let last = transfers.last_mut().map_or(&mut comments.collection, |(_, comments)| comments);
        self.take_comments(&mut comments.end, Some(&mut last.until));
        if !matches!(self.peeked.kind, TokenKind::Sign("}")) {
            return Err(self.expected("`transfer` or `}`"));
        }
        // Comments move with their rules when the rules are put in order.
        transfers.sort_by(|(a, _), (b, _)| a.written_order(b, self.vocabulary));
        let (transfers, own): (Vec<_>, Vec<_>) = transfers.into_iter().unzip();
        comments.transfers = own;
        Policy::new(datatype, collection, transfers, self.vocabulary)
            .map(Choice::Policy)
            .map_err(|problem| (name_span, SyntaxProblem::Policy(problem)))
    }

    /// From the entity on: `entity [when condition] for purposes until moment`.
    fn rule(&mut self, comments: &mut RuleComments) -> Result<CommunicationRule, Problem> {
        let entity: Entity = self.name("entity", &self.vocabulary.entities)?;
        let RuleComments { head, when, purposes: at_purposes, until } = comments;
        let mut condition = Condition::always();
        let previous = if self.is_word("when") {
            self.clause("when", when, Some(head))?;
            condition = self.condition()?;
            when
        } else {
            head
        };
        if !self.is_word("for") {
            return Err(self.expected("`when` or `for`"));
        }
        let start = self.peeked.span.start;
        self.clause("for", at_purposes, Some(previous))?;
        let purposes = self.purposes()?;
        let span = start..self.peeked.span.start;
        self.clause("until", until, Some(at_purposes))?;
        let retention = self.retention()?;
        let usage = UsageRule::new(purposes, retention).map_err(|p| (span, SyntaxProblem::Policy(p)))?;
        Ok(CommunicationRule { condition, entity, usage })
    }

    fn purposes(&mut self) -> Result<Vec<Purpose>, Problem> {
        let mut purposes = Vec::new();
        if self.is_word("nothing") {
            self.advance()?;
            if !self.is_word("until") {
                return Err(self.expected("`until`"));
            }
            return Ok(purposes);
        }
        loop {
            purposes.push(self.name("purpose", &self.vocabulary.purposes)?);
            if !matches!(self.peeked.kind, TokenKind::Sign(",")) {
                return Ok(purposes);
            }
            self.advance()?;
        }
    }

    fn retention(&mut self) -> Result<Time, Problem> {
        let (word, span) = self.word("a date, a time or Unix seconds")?;
        if word.bytes().all(|byte| byte.is_ascii_digit()) {
            let seconds = word.parse().map_err(|_| (span, SyntaxProblem::TimeTooLarge(Quoted::new(word))))?;
            return Ok(Time::from_unix(seconds));
        }
        word.parse().map_err(|error| (span, SyntaxProblem::Time(Quoted::new(word), error)))
    }

    fn condition(&mut self) -> Result<Condition, Problem> {
        let start = self.peeked.span.start;
        self.nodes = 0;
        let formula = self.disjunction(1)?;
        let span = start..self.peeked.span.start;
        Condition::new(formula).map_err(|problem| (span, SyntaxProblem::Condition(problem)))
    }

    fn disjunction(&mut self, depth: usize) -> Result<Formula, Problem> {
        let mut left = self.conjunction(depth)?;
        while self.is_word("or") {
            self.advance()?;
            left = Formula::Or(Box::new(left), Box::new(self.conjunction(depth)?));
        }
        Ok(left)
    }

    fn conjunction(&mut self, depth: usize) -> Result<Formula, Problem> {
        let mut left = self.negation(depth)?;
        while self.is_word("and") {
            self.advance()?;
            left = Formula::And(Box::new(left), Box::new(self.negation(depth)?));
        }
        Ok(left)
    }

    fn negation(&mut self, depth: usize) -> Result<Formula, Problem> {
        let deeper = self.deeper(depth)?;
        if self.is_word("not") {
            self.advance()?;
            return Ok(Formula::Not(Box::new(self.negation(deeper)?)));
        }
        if matches!(self.peeked.kind, TokenKind::Sign("(")) {
            self.advance()?;
            let inner = self.disjunction(deeper)?;
            self.sign(")")?;
            return Ok(inner);
        }
        let start = self.peeked.span.clone();
        let left = self.term(deeper)?;
        let Some(comparison) = self.comparison() else {
            return match left {
                Term::Constant(Value::Boolean(true)) => Ok(Formula::True),
                Term::Constant(Value::Boolean(false)) => Ok(Formula::False),
                term if term.kind() == Kind::Boolean => {
                    Ok(Formula::Compare(term, Comparison::Equal, Term::Constant(Value::Boolean(true))))
                }
                term => Err((start, SyntaxProblem::NotACondition(term.kind()))),
            };
        };
        self.advance()?;
        let end = self.peeked.span.end;
        let right = self.term(deeper)?;
        let ill_typed = |problem| (start.start..end, SyntaxProblem::Condition(problem));
        comparison.check(left.kind(), right.kind()).map_err(ill_typed)?;
        if self.comparison().is_some() {
            return Err(self.expected("`and`, `or` or the end of the condition"));
        }
        Ok(Formula::Compare(left, comparison, right))
    }

    fn comparison(&self) -> Option<Comparison> {
        let TokenKind::Sign(sign) = self.peeked.kind else { return None };
        Comparison::ALL.into_iter().find(|comparison| comparison.symbol() == sign)
    }

    fn term(&mut self, depth: usize) -> Result<Term, Problem> {
        let deeper = self.deeper(depth)?;
        if let TokenKind::String(text) = &self.peeked.kind {
            let value = Value::String(text.as_str().into());
            check_constant(&value).map_err(|p| (self.peeked.span.clone(), SyntaxProblem::Condition(p)))?;
            self.advance()?;
            return Ok(Term::Constant(value));
        }
        const EXPECTED: &str = "an attribute, a constant or a function";
        let is_truth = self.is_word("true") || self.is_word("false");
        if !is_truth && matches!(self.peeked.kind, TokenKind::Word(word) if RESERVED.binary_search(&word).is_ok()) {
            return Err(self.expected(EXPECTED));
        }
        let (word, span) = self.word(EXPECTED)?;
        if is_truth {
            return Ok(Term::Constant(Value::Boolean(word == "true")));
        }
        if looks_like_value(word) || word.starts_with('-') {
            return constant(word).map(Term::Constant).map_err(|problem| (span, problem));
        }
        if !matches!(self.peeked.kind, TokenKind::Sign("(")) {
            let unknown = || SyntaxProblem::Unknown {
                what: "attribute",
                name: Quoted::new(word),
                hint: self.vocabulary.variable_hint(word),
            };
            let (variable, kind) = self.vocabulary.variable(word).ok_or_else(|| (span, unknown()))?;
            return Ok(Term::Variable(variable, kind));
        }
        let names = || Function::ALL.into_iter().map(Function::name);
        let function = Function::by_name(word).ok_or_else(|| {
            let hint = Hint(nearest(word, names()));
            (span.clone(), SyntaxProblem::Unknown { what: "function", name: Quoted::new(word), hint })
        })?;
        self.advance()?;
        let mut arguments = Vec::new();
        while !matches!(self.peeked.kind, TokenKind::Sign(")")) {
            if !arguments.is_empty() {
                self.sign(",")?;
            }
            arguments.push(self.term(deeper)?);
        }
        let end = self.peeked.span.end;
        self.advance()?;
        function.check(&arguments).map_err(|p| (span.start..end, SyntaxProblem::Condition(p)))?;
        Ok(Term::Call(function, arguments))
    }

    /// Bounds the recursion, and with it the tree: a tree too deep to check would be too deep to drop.
    fn deeper(&mut self, depth: usize) -> Result<usize, Problem> {
        self.nodes += 1;
        let problem = if depth > MAX_NESTING {
            ConditionProblem::TooDeep
        } else if self.nodes > 4 * MAX_NODES {
            ConditionProblem::TooManyParts
        } else {
            return Ok(depth + 1);
        };
        Err((self.peeked.span.clone(), SyntaxProblem::Condition(problem)))
    }

    /// Takes the keyword that begins a clause; comments before it are its own or the end of the clause before.
    fn clause(
        &mut self,
        keyword: &'static str,
        own: &mut Attached,
        previous: Option<&mut Attached>,
    ) -> Result<(), Problem> {
        self.take_comments(own, previous);
        self.keyword(keyword)
    }

    fn take_comments(&mut self, own: &mut Attached, previous: Option<&mut Attached>) {
        let mut previous = previous;
        let mut kept = Vec::new();
        for comment in core::mem::take(&mut self.peeked.comments) {
            match &mut previous {
                Some(previous) if comment.on_line_of_previous => previous.after.push(comment.text),
                _ => kept.push(comment.text),
            }
        }
        own.before.extend(kept);
    }

    /// Takes only the comments on the line of the token before; the others belong to what follows.
    fn take_comments_on_line(&mut self, own: &mut Attached) {
        let comments = core::mem::take(&mut self.peeked.comments);
        let (on_line, later): (Vec<_>, Vec<_>) = comments.into_iter().partition(|comment| comment.on_line_of_previous);
        own.after.extend(on_line.into_iter().map(|comment| comment.text));
        self.peeked.comments = later;
    }

    fn name<I: Id>(&mut self, what: &'static str, order: &Order<I>) -> Result<I, Problem> {
        let expected = match what {
            "datatype" => "a datatype",
            "entity" => "an entity",
            _ => "a purpose",
        };
        let (word, span) = self.word(expected)?;
        order
            .id(word)
            .ok_or_else(|| (span, SyntaxProblem::Unknown { what, name: Quoted::new(word), hint: order.hint(word) }))
    }

    fn word(&mut self, expected: &'static str) -> Result<(&'s str, Range<usize>), Problem> {
        let TokenKind::Word(word) = self.peeked.kind else { return Err(self.expected(expected)) };
        let span = self.peeked.span.clone();
        self.advance()?;
        Ok((word, span))
    }

    fn is_word(&self, keyword: &str) -> bool {
        self.peeked.kind == TokenKind::Word(keyword)
    }

    fn keyword(&mut self, keyword: &'static str) -> Result<(), Problem> {
        let expected = match keyword {
            "policy" => "`policy`",
            "by" => "`by`",
            "to" => "`to`",
            "until" => "`,` or `until`",
            other => other,
        };
        if self.is_word(keyword) { self.advance() } else { Err(self.expected(expected)) }
    }

    fn sign(&mut self, sign: &'static str) -> Result<(), Problem> {
        let expected = match sign {
            "{" => "`{`",
            "}" => "`}`",
            ")" => "`)`",
            "," => "`,` or `)`",
            other => other,
        };
        if self.peeked.kind == TokenKind::Sign(sign) { self.advance() } else { Err(self.expected(expected)) }
    }

    fn advance(&mut self) -> Result<(), Problem> {
        let mut next = self.lexer.next_token()?;
        // Comments nobody has asked for yet wait for the next clause.
        core::mem::swap(&mut self.peeked.comments, &mut next.comments);
        next.comments.append(&mut self.peeked.comments);
        self.peeked = next;
        Ok(())
    }

    fn expected(&self, expected: &'static str) -> Problem {
        let found = match &self.peeked.kind {
            TokenKind::End => Found(None),
            _ => Found(self.source.get(self.peeked.span.clone()).map(Quoted::new)),
        };
        (self.peeked.span.clone(), SyntaxProblem::Expected { expected, found })
    }
}

/// A word that reads as a number or a time.
fn constant(word: &str) -> Result<Value, SyntaxProblem> {
    let number = word.parse().map(Value::Number);
    let is_time = word.bytes().skip(1).any(|byte| matches!(byte, b'-' | b':'));
    if is_time {
        let time: Time = word.parse().map_err(|error| SyntaxProblem::Time(Quoted::new(word), error))?;
        let value = Value::Time(time);
        return check_constant(&value).map(|()| value).map_err(SyntaxProblem::Condition);
    }
    number.map_err(|error| SyntaxProblem::Number(Quoted::new(word), error))
}
