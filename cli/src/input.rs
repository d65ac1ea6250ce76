//! Files: read within their limits, policies chosen by extension, and the vocabulary that goes with them.

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::Args;
use pilot_core::codec::{self, CodecProblem};
use pilot_core::diagnostic::{Located, is_invisible};
use pilot_core::name::check_name;
use pilot_core::policy::{Choice, MAX_POLICY_BYTES};
use pilot_core::syntax::json::{self, JsonProblem};
use pilot_core::syntax::{MAX_FILE_BYTES, SourceFile, SourcePolicy, SyntaxProblem, parse_file};
use pilot_core::value::{Time, TimeError};
use pilot_core::vocabulary::{DEFAULT_VOCABULARY, MAX_VOCABULARY_BYTES, Vocabulary};

use serde::de::IgnoredAny;

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
    /// Vocabulary of the policies [default: for each file the `vocabulary.toml` beside it (`compare`, `diff`: beside
    /// the subjects' policies) if there is one, otherwise the built-in vocabulary]
    #[arg(long, value_name = "FILE")]
    vocabulary: Option<PathBuf>,
}

impl VocabularyOption {
    /// The vocabulary asked for, or the one beside `file`, or the built-in one.
    pub(crate) fn load(&self, file: &Path) -> Result<Words, Failure> {
        self.vocabulary.as_deref().map_or_else(|| Words::beside(file), Words::load)
    }

    /// For commands over several files: the vocabulary asked for, read once, or for each file as [`Self::load`] finds it.
    pub(crate) fn load_for_each(&self) -> Result<WordsByFile, Failure> {
        Ok(match &self.vocabulary {
            Some(path) => WordsByFile::Chosen(Words::load(path)?),
            None => WordsByFile::Beside(None),
        })
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

/// The vocabularies of several files.
#[derive(Debug)]
pub(crate) enum WordsByFile {
    /// One for all.
    Chosen(Words),
    /// Those beside the files. Only the last is kept, with its directory: files of a directory usually come together.
    Beside(Option<(PathBuf, Words)>),
}

impl WordsByFile {
    /// The vocabulary of this file.
    pub(crate) fn of(&mut self, file: &Path) -> Result<&Words, Failure> {
        match self {
            Self::Chosen(words) => Ok(words),
            Self::Beside(last) => {
                let directory = directory_of(file);
                let (_, words) = match last.take().filter(|(its_directory, _)| its_directory == directory) {
                    Some(same) => last.insert(same),
                    None => last.insert((directory.to_path_buf(), Words::beside(file)?)),
                };
                Ok(words)
            }
        }
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

    /// The vocabulary beside a policy file, or the built-in one.
    fn beside(file: &Path) -> Result<Self, Failure> {
        // Without a directory of its own, standard input is in the working directory.
        vocabulary_in(directory_of(file))?.map_or_else(Self::built_in, |(origin, text)| Self::parse(&text, origin))
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
            Form::Json => self.policies_in_json(&text(path, MAX_FILE_BYTES)?, path),
            Form::Cbor => {
                let choice = codec::decode(&bytes(path, MAX_POLICY_BYTES)?, &self.vocabulary);
                let choice = choice.map_err(|error| {
                    let unknown = if let CodecProblem::Unknown(what, ..) = error.problem { Some(what) } else { None };
                    Failure::Cbor(origin, Box::new(error), self.looked_up(unknown))
                })?;
                Ok(unnamed(path, vec![choice]))
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
            let unknown = if let SyntaxProblem::Unknown { what, .. } = error.problem { Some(what) } else { None };
            Failure::Syntax(origin, Box::new(error), self.looked_up(unknown))
        })
    }

    /// Parses one policy in JSON form, or JSON Lines: a policy on each line that is not blank.
    fn policies_in_json(&self, source: &str, path: &Path) -> Result<SourceFile, Failure> {
        let parse = |text: &str, lines_before: usize| {
            json::parse(text, &self.vocabulary).map_err(|mut error| {
                error.line += lines_before;
                let looked_up = self.looked_up(unknown_in_json(&error.problem));
                Failure::Json(path.into(), Box::new(error), looked_up)
            })
        };
        let choices = if is_json_lines(source) {
            let lines = source.lines().enumerate().filter(|(_, line)| !is_blank(line));
            lines.map(|(lines_before, line)| parse(line, lines_before)).collect::<Result<_, _>>()?
        } else {
            vec![parse(source, 0)?]
        };
        Ok(unnamed(path, choices))
    }

    /// Of an error about an unknown name: `unknown` says of what it would be the name.
    fn looked_up(&self, unknown: Option<&str>) -> LookedUp {
        // Functions and comparisons are in no vocabulary.
        match unknown.filter(|what| ["attribute", "datatype", "entity", "purpose"].contains(what)) {
            None => LookedUp::Nowhere,
            Some("entity") if matches!(self.origin, Origin::BuiltIn(_)) && self.vocabulary.entities.is_empty() => {
                LookedUp::WithoutEntities(self.origin.clone())
            }
            Some(_) => LookedUp::In(self.origin.clone()),
        }
    }
}

/// Says in which vocabulary a name was looked up, where that may be the cause of an error.
#[derive(Debug)]
pub(crate) enum LookedUp {
    /// The error is not about a name.
    Nowhere,
    /// In this vocabulary.
    In(Origin),
    /// An entity, in a vocabulary that leaves entities to its users.
    WithoutEntities(Origin),
}

impl fmt::Display for LookedUp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::In(origin) | Self::WithoutEntities(origin)) = self else { return Ok(()) };
        write!(out, "\n  names are looked up in {origin} (see --vocabulary)")?;
        if let Self::WithoutEntities(_) = self {
            write!(
                out,
                "\n  {origin} has no entities; write a vocabulary.toml (see `consent-mesh vocabulary --help`), with \
                 `extends = \"default\"`"
            )?;
        }
        Ok(())
    }
}

/// Of what the unknown name in an error would be the name. Errors pass through serde, which makes sentences of them.
fn unknown_in_json(problem: &JsonProblem) -> Option<&str> {
    let JsonProblem::Malformed(sentence) = problem else { return None };
    let sentence = sentence.split_once(" of the condition: ").map_or(sentence.as_str(), |(_, sentence)| sentence);
    sentence.strip_prefix("unknown ")?.split(' ').next()
}

/// Whether a text is several JSON values, the first of them on one line, or none. The only other good one is one value,
/// on as many lines as it likes.
fn is_json_lines(source: &str) -> bool {
    let mut lines = source.lines().filter(|line| !is_blank(line));
    match (lines.next(), lines.next()) {
        (None, _) => true,
        (Some(first), Some(_)) => serde_json::from_str::<IgnoredAny>(first).is_ok(),
        (Some(_), None) => false,
    }
}

fn is_blank(line: &str) -> bool {
    line.trim_ascii().is_empty()
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
            Some("json" | "jsonl") => Self::Json,
            Some("cbor") => Self::Cbor,
            _ => Self::Text,
        }
    }
}

/// A policy that has no name in its file is called like the file; several are numbered.
fn unnamed(path: &Path, choices: Vec<Choice>) -> SourceFile {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let is_alone = choices.len() == 1;
    let named = |(number, choice): (usize, Choice)| {
        let number = if is_alone { String::new() } else { format!("-{number}") };
        let name = format!("{stem}{number}");
        // The name of a file need not be one of a policy.
        let name = if check_name(&name).is_ok() { name } else { format!("policy{number}") };
        SourcePolicy::new(&name, choice)
    };
    SourceFile { policies: (1..).zip(choices).map(named).collect(), end_comments: Vec::new() }
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

/// The time at which deadlines are judged.
#[derive(Debug, Args)]
pub(crate) struct NowOption {
    /// Judge deadlines at this time: a date, an RFC 3339 time or Unix seconds [default: now]
    #[arg(long, value_name = "TIME", value_parser = moment)]
    now: Option<Time>,
}

impl NowOption {
    /// The time asked for, or the clock's.
    pub(crate) fn time(&self) -> Time {
        self.now.unwrap_or_else(clock)
    }
}

/// Now.
pub(crate) fn clock() -> Time {
    // A clock before 1970 is as good as 1970.
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Time::from_unix(since_1970.as_secs())
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
