//! Files: read within their limits, policies chosen by extension, and the vocabulary that goes with them.

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use clap::Args;
use pilot_core::codec::{self, CodecProblem};
use pilot_core::diagnostic::{Located, is_invisible};
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
            Self::File(path) => out.write_str(&path.to_string_lossy().replace(is_invisible, "\u{fffd}")),
            Self::BuiltIn(name) => out.write_str(name),
        }
    }
}

/// The vocabulary of policy commands.
#[derive(Debug, Args)]
pub(crate) struct VocabularyOption {
    /// Vocabulary of the policies [default: `vocabulary.toml` beside the first file (`compare`, `diff`: beside the
    /// subjects' policies) if there is one, otherwise the built-in vocabulary]
    #[arg(long, value_name = "FILE")]
    vocabulary: Option<PathBuf>,
}

impl VocabularyOption {
    /// The vocabulary asked for, or the one beside `file`, or the built-in one.
    pub(crate) fn load(&self, file: &Path) -> Result<Words, Failure> {
        // Without a directory of its own, standard input is in the working directory.
        self.load_of_subject(Some(directory_of(file)), &[])
    }

    /// Where a controller's policies are judged by a subject's: the vocabulary asked for, or the one in the subject's
    /// directory, or the built-in one.
    ///
    /// Vocabularies decide: where `broker` is a kind of `shop`, who accepts the shop accepts the broker. So a controller
    /// has no say in it, and where one keeps another vocabulary beside its policies, somebody has to choose.
    pub(crate) fn load_of_subject(&self, subject: Option<&Path>, controllers: &[&Path]) -> Result<Words, Failure> {
        if let Some(path) = &self.vocabulary {
            return Words::load(path);
        }
        let own = subject.map_or(Ok(None), vocabulary_in)?;
        for file in controllers.iter().filter(|file| Origin::from(**file) != Origin::StandardInput) {
            match (&own, vocabulary_in(directory_of(file))?) {
                (Some((own, text)), Some((other, its_text))) if *text != its_text => {
                    return Err(Failure::TwoVocabularies(own.clone(), other));
                }
                (None, Some((other, _))) => return Err(Failure::ForeignVocabulary(other)),
                _ => {}
            }
        }
        own.map_or_else(Words::built_in, |(origin, text)| Words::parse(&text, origin))
    }
}

/// The directory of a file; of one without, and of standard input, the working directory.
pub(crate) fn directory_of(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new(""))
}

/// The text of the vocabulary in a directory, if there is one.
fn vocabulary_in(directory: &Path) -> Result<Option<(Origin, String)>, Failure> {
    let path = directory.join("vocabulary.toml");
    if is_regular_file(&path)? {
        Ok(Some((path.as_path().into(), text(&path, MAX_VOCABULARY_BYTES)?)))
    } else if path.exists() {
        Err(Failure::NotAFile(path.as_path().into()))
    } else {
        Ok(None)
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
    let mut bytes = Vec::new();
    // One byte more than allowed tells a file of the limit's size from a larger one.
    match open(path)?.take(limit as u64 + 1).read_to_end(&mut bytes) {
        Ok(_) if bytes.len() > limit => Err(Failure::TooLarge(path.into(), limit)),
        Ok(_) => Ok(bytes),
        Err(error) => Err(Failure::Read(path.into(), error)),
    }
}

/// Opens what somebody named: a file, `-`, or a pipe, which a shell makes of `<(…)`.
///
/// A pipe may keep its reader waiting. What nobody named, only found, is read if it [`is_regular_file`].
pub(crate) fn open(path: &Path) -> Result<Box<dyn Read>, Failure> {
    let origin = Origin::from(path);
    if origin == Origin::StandardInput {
        return Ok(Box::new(io::stdin().lock()));
    }
    if path.metadata().is_ok_and(|metadata| metadata.file_type().is_socket()) {
        return Err(Failure::Socket(origin));
    }
    match File::open(path) {
        Ok(file) => Ok(Box::new(file)),
        Err(error) => Err(Failure::Read(origin, error)),
    }
}

/// Whether there is a file, links followed, that can be read without waiting for anybody.
pub(crate) fn is_regular_file(path: &Path) -> Result<bool, Failure> {
    match path.metadata() {
        Ok(metadata) => Ok(metadata.is_file()),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        Err(error) => Err(Failure::Read(path.into(), error)),
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
