//! Files: read within their limits, policies chosen by extension, and the vocabulary that goes with them.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use pilot_core::codec::{self, CodecProblem};
use pilot_core::diagnostic::Located;
use pilot_core::name::check_name;
use pilot_core::policy::{Choice, MAX_POLICY_BYTES};
use pilot_core::syntax::json::{self, MAX_JSON_BYTES};
use pilot_core::syntax::{MAX_FILE_BYTES, SourceFile, SourcePolicy, SyntaxProblem, parse_file};
use pilot_core::value::{Time, TimeError};
use pilot_core::vocabulary::{DEFAULT_VOCABULARY, MAX_VOCABULARY_BYTES, Vocabulary};

use crate::console::Failure;

/// Where a text comes from, as messages name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// `-`.
    StandardInput,
    /// A file.
    File(PathBuf),
    /// Part of this program.
    BuiltIn(&'static str),
}

impl From<&Path> for Origin {
    fn from(path: &Path) -> Self {
        if path == Path::new("-") { Self::StandardInput } else { Self::File(path.to_path_buf()) }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StandardInput => out.write_str("standard input"),
            // A terminal must not be steered by a file's name.
            Self::File(path) => out.write_str(&path.to_string_lossy().replace(char::is_control, "\u{fffd}")),
            Self::BuiltIn(name) => out.write_str(name),
        }
    }
}

/// The vocabulary of policy commands.
#[derive(Debug, Args)]
pub(crate) struct VocabularyOption {
    /// Vocabulary of the policies [default: `vocabulary.toml` beside the (first) file if there is one, otherwise the
    /// built-in vocabulary]
    #[arg(long, value_name = "FILE")]
    vocabulary: Option<PathBuf>,
}

impl VocabularyOption {
    /// The vocabulary asked for, or the one beside `file`, or the built-in one.
    pub(crate) fn load(&self, file: &Path) -> Result<Words, Failure> {
        if let Some(path) = &self.vocabulary {
            return Words::load(path);
        }
        // Without a directory of its own, a file (or standard input) is in the working directory.
        let beside = file.parent().unwrap_or(Path::new("")).join("vocabulary.toml");
        if beside.is_file() { Words::load(&beside) } else { Words::built_in() }
    }
}

/// A vocabulary, and where it comes from.
#[derive(Debug)]
pub(crate) struct Words {
    pub(crate) vocabulary: Vocabulary,
    pub(crate) origin: Origin,
}

impl Words {
    /// Reads a vocabulary file.
    pub(crate) fn load(path: &Path) -> Result<Self, Failure> {
        Self::parse(&text(path, MAX_VOCABULARY_BYTES)?, path.into())
    }

    /// The built-in vocabulary.
    pub(crate) fn built_in() -> Result<Self, Failure> {
        Self::parse(DEFAULT_VOCABULARY, Origin::BuiltIn("the built-in vocabulary"))
    }

    /// Takes the text of a vocabulary file.
    pub(crate) fn parse(source: &str, origin: Origin) -> Result<Self, Failure> {
        match Vocabulary::from_toml(source) {
            Ok(vocabulary) => Ok(Self { vocabulary, origin }),
            Err(error) => Err(Failure::Vocabulary(origin, Box::new(error))),
        }
    }

    /// Reads the policies of a file.
    pub(crate) fn policies(&self, path: &Path) -> Result<SourceFile, Failure> {
        let origin = Origin::from(path);
        match Form::of(path) {
            Form::Text => self.policies_in_text(&text(path, MAX_FILE_BYTES)?, origin),
            Form::Json => {
                let choice = json::parse(&text(path, MAX_JSON_BYTES)?, &self.vocabulary);
                let choice = choice.map_err(|error| Failure::Json(origin, Box::new(error), self.looked_up(true)))?;
                Ok(single(path, choice))
            }
            Form::Cbor => {
                let choice = codec::decode(&bytes(path, MAX_POLICY_BYTES)?, &self.vocabulary);
                let choice = choice.map_err(|error| {
                    let is_unknown = matches!(error.problem, CodecProblem::Unknown(..));
                    Failure::Cbor(origin, Box::new(error), self.looked_up(is_unknown))
                })?;
                Ok(single(path, choice))
            }
        }
    }

    /// As [`Words::policies`], where a file without any would make the answer meaningless.
    pub(crate) fn some_policies(&self, path: &Path) -> Result<Vec<SourcePolicy>, Failure> {
        let policies = self.policies(path)?.policies;
        if policies.is_empty() { Err(Failure::NoPolicy(path.into())) } else { Ok(policies) }
    }

    /// Parses policies in text form.
    pub(crate) fn policies_in_text(&self, source: &str, origin: Origin) -> Result<SourceFile, Failure> {
        parse_file(source, &self.vocabulary).map_err(|error| {
            let is_unknown = matches!(error.problem, SyntaxProblem::Unknown { .. });
            Failure::Syntax(origin, Box::new(error), self.looked_up(is_unknown))
        })
    }

    fn looked_up(&self, may_be_unknown: bool) -> LookedUp {
        LookedUp(may_be_unknown.then(|| self.origin.clone()))
    }
}

/// Says in which vocabulary a name was looked up, where that may be the cause of an error.
#[derive(Debug)]
pub(crate) struct LookedUp(Option<Origin>);

impl fmt::Display for LookedUp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(origin) => write!(out, "\n  names are looked up in {origin} (see --vocabulary)"),
            None => Ok(()),
        }
    }
}

/// The form of a policy file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    Json,
    Cbor,
}

impl Form {
    /// By extension; text unless it says otherwise.
    pub(crate) fn of(path: &Path) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("json") => Self::Json,
            Some("cbor") => Self::Cbor,
            _ => Self::Text,
        }
    }
}

/// A policy that has no name in its file is called like the file.
fn single(path: &Path, choice: Choice) -> SourceFile {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).filter(|stem| check_name(stem).is_ok());
    let policies = vec![SourcePolicy::new(stem.unwrap_or("policy"), choice)];
    SourceFile { policies, end_comments: Vec::new() }
}

/// Reads a text of at most `limit` bytes.
pub(crate) fn text(path: &Path, limit: usize) -> Result<String, Failure> {
    String::from_utf8(bytes(path, limit)?).map_err(|error| Failure::NotUtf8(path.into(), NotUtf8::new(&error)))
}

fn bytes(path: &Path, limit: usize) -> Result<Vec<u8>, Failure> {
    let read = |reader: &mut dyn Read| {
        let mut bytes = Vec::new();
        // One byte more than allowed tells a file of the limit's size from a larger one.
        reader.take(limit as u64 + 1).read_to_end(&mut bytes).map(|_| bytes)
    };
    let origin = Origin::from(path);
    let bytes = match &origin {
        Origin::StandardInput => read(&mut io::stdin().lock()),
        _ => File::open(path).and_then(|mut file| read(&mut file)),
    };
    match bytes {
        Ok(bytes) if bytes.len() > limit => Err(Failure::TooLarge(origin, limit)),
        bytes => bytes.map_err(|error| Failure::Read(origin, error)),
    }
}

/// Where a file stops being text.
#[derive(Debug)]
pub(crate) struct NotUtf8(Located<&'static str>);

impl NotUtf8 {
    fn new(error: &std::string::FromUtf8Error) -> Self {
        let valid = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        let valid = str::from_utf8(valid).unwrap_or_default();
        Self(Located::new(valid, valid.len()..valid.len(), "this is not UTF-8 text"))
    }
}

impl fmt::Display for NotUtf8 {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// A moment on the command line: as after `until` in a policy.
pub(crate) fn moment(text: &str) -> Result<Time, String> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().map(Time::from_unix).map_err(|_| "more seconds than a 64-bit number holds".to_string());
    }
    text.parse().map_err(|error| match error {
        TimeError::NotATime => format!("{error}, nor Unix seconds"),
        _ => error.to_string(),
    })
}
