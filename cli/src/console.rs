//! The terminal: output, errors and the exit code.

use std::fmt::Display;
use std::io::{self, BufWriter, ErrorKind, IsTerminal, StdoutLock, Write};
use std::process::ExitCode;

use mesh_runtime::keys::KeyFileError;
use pilot_core::codec::CodecError;
use pilot_core::diagnostic::{Quoted, is_invisible};
use pilot_core::evidence::keys::KeyError;
use pilot_core::syntax::SyntaxError;
use pilot_core::syntax::json::JsonError;
use pilot_core::vocabulary::VocabularyError;

use crate::input::{LookedUp, NotUtf8, Origin};
use crate::mesh::MeshFailure;

/// What a command found; its exit code. The greater, the worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Answer {
    /// Yes, or done.
    Yes = 0,
    /// No: refused, not formatted, or findings where none are wanted.
    No = 1,
    /// Some of the input was bad. What was good in it has been dealt with.
    BadInput = 2,
}

/// Why a command could not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A file that cannot be read.
    #[error("{0}: {1}")]
    Read(Origin, io::Error),
    /// A directory that is not there.
    #[error("{0}: this directory does not exist")]
    NoDirectory(Origin),
    /// Something that is no file where only files are read.
    #[error("{0}: not a regular file")]
    NotAFile(Origin),
    /// A socket, which cannot be opened.
    #[error("{0}: a socket cannot be read as a file (`-` is standard input)")]
    Socket(Origin),
    /// A file larger than its kind may be.
    #[error("{0}: more than {1} bytes")]
    TooLarge(Origin, usize),
    /// A text file that is no text.
    #[error("{0}: {1}")]
    NotUtf8(Origin, NotUtf8),
    /// A bad vocabulary.
    #[error("{0}: {1}")]
    Vocabulary(Origin, Box<VocabularyError>),
    /// A subject's vocabulary and another one of a controller.
    #[error("{0} and {1} differ: choose one with --vocabulary FILE")]
    TwoVocabularies(Origin, Origin),
    /// A vocabulary of a controller, where the subject has none.
    #[error(
        "{0}: this is the controller's vocabulary, and there is none beside the subject's policies: \
         choose one with --vocabulary FILE"
    )]
    ForeignVocabulary(Origin),
    /// A bad policy file.
    #[error("{0}: {1}{2}")]
    Syntax(Origin, Box<SyntaxError>, LookedUp),
    /// A bad policy in JSON.
    #[error("{0}: {1}{2}")]
    Json(Origin, Box<JsonError>, LookedUp),
    /// A bad policy in CBOR.
    #[error("{0}: {1}{2}")]
    Cbor(Origin, Box<CodecError>, LookedUp),
    /// Somewhere a policy is needed and there is none.
    #[error("{0}: there is no policy in it")]
    NoPolicy(Origin),
    /// A policy that is not in the file.
    #[error("{0}: there is no policy called {1}")]
    NoSuchPolicy(Origin, Quoted),
    /// A form that holds one policy, and several to choose from.
    #[error("{0}: it has {1} policies; choose one with --policy NAME")]
    SeveralPolicies(Origin, usize),
    /// Formatting is for the text form.
    #[error("{0}: only policies in text form are formatted")]
    NotText(Origin),
    /// A text that grows beyond what could be read again.
    #[error("{0}: formatted, it would have more than {1} bytes")]
    FormattedTooLarge(Origin, usize),
    /// A file under several names: the others would keep the old text.
    #[error("{0}: it has other names (hard links), which would keep the old text; it is left as it is")]
    HardLinked(Origin),
    /// A file that would change hands.
    #[error("{0}: its owner and group could not be kept: {1}; it is left as it is")]
    Owner(Origin, io::Error),
    /// A file that somebody else has written to meanwhile.
    #[error("{0}: it has changed since it was read; it is left as it is")]
    Changed(Origin),
    /// Secret keys that were not made, or not read.
    #[error("{}", visible(.0))]
    SecretKeys(#[from] KeyFileError),
    /// A bad public key after an option.
    #[error("{0}: {1}")]
    Key(&'static str, KeyError),
    /// Something about a mesh file.
    #[error("{0}: {1}")]
    Mesh(Origin, Box<MeshFailure>),
    /// Standard input can be read once.
    #[error("only one file can be `-`, standard input")]
    StandardInputTwice,
    /// A name that the example needs and its vocabulary does not have.
    #[error("the example's vocabulary has no {0}")]
    Example(&'static str),
    /// A configuration of a daemon.
    #[error("{}", visible(.0))]
    Configuration(String),
    /// A radio that cannot be listened to.
    #[error("the air: {0}")]
    Air(String),
    /// The demo cannot go on.
    #[error("the demo: {0}")]
    Demo(String),
    /// A file that cannot be written.
    #[error("{0}: cannot be written: {1}")]
    Write(Origin, io::Error),
    /// Output that cannot be written.
    #[error("cannot write output: {0}")]
    Output(#[from] io::Error),
}

/// A message of one line that names files, without what would steer a terminal.
pub(crate) fn visible(message: &impl Display) -> String {
    message.to_string().replace(is_invisible, "\u{fffd}")
}

/// Standard output, buffered, and standard error.
///
/// When whoever reads the output has gone, what follows is dropped: `… | head` is no error, and the exit code still
/// tells the answer.
#[derive(Debug)]
pub(crate) struct Console {
    out: BufWriter<StdoutLock<'static>>,
    is_closed: bool,
    is_terminal: bool,
    has_colour: bool,
}

impl Console {
    /// Enough for many lines of output per system call.
    const BUFFER_BYTES: usize = 64 << 10;

    pub(crate) fn new() -> Self {
        let is_terminal = io::stdout().is_terminal();
        // https://no-color.org: set and not empty means no.
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        Self {
            out: BufWriter::with_capacity(Self::BUFFER_BYTES, io::stdout().lock()),
            is_closed: false,
            is_terminal,
            has_colour: is_terminal && !refused && !is_dumb,
        }
    }

    /// Whether nobody reads the output any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Whether a person reads the output.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Whether the output may have colours.
    pub(crate) fn has_colour(&self) -> bool {
        self.has_colour
    }

    /// Says what is wrong, for commands that go on with the next file.
    pub(crate) fn complain(&mut self, what: impl Display) {
        // In the order of the events when both streams are one terminal. Nobody can be told of a failure here.
        let _ = self.flush();
        let _ = writeln!(io::stderr().lock(), "error: {what}");
    }

    /// Says what may surprise, but is no error.
    pub(crate) fn note(&mut self, what: impl Display) {
        let _ = self.flush();
        let _ = writeln!(io::stderr().lock(), "note: {what}");
    }

    /// Flushes the output and turns the answer into an exit code.
    pub(crate) fn finish(mut self, answer: Result<Answer, Failure>) -> ExitCode {
        let answer = answer.and_then(|answer| {
            self.flush()?;
            Ok(answer)
        });
        let answer = answer.unwrap_or_else(|failure| {
            self.complain(failure);
            Answer::BadInput
        });
        ExitCode::from(answer as u8)
    }

    fn unless_closed<T>(&mut self, result: io::Result<T>, dropped: T) -> io::Result<T> {
        match result {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(dropped)
            }
            result => result,
        }
    }
}

impl Write for Console {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_closed {
            return Ok(bytes.len());
        }
        let result = self.out.write(bytes);
        self.unless_closed(result, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.is_closed {
            return Ok(());
        }
        let result = self.out.flush();
        self.unless_closed(result, ())
    }
}
