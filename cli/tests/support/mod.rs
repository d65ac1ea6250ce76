//! Runs the real program over a directory of its own.

#![allow(dead_code, reason = "each test file uses its part of this")]
#![expect(clippy::unwrap_used, reason = "a test that cannot write its files has failed")]

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Longer than any command takes.
const PATIENCE_SECONDS: &str = "30";

/// Somebody who is not root, and in no group of root's.
const NOBODY: u32 = 65_534;

/// A directory that is gone after the test.
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("consent-mesh-test-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// With the files of `examples/flights`.
    pub(crate) fn flights() -> Self {
        let directory = Self::new();
        for file in ["vocabulary.toml", "banner.pilot", "alice.pilot"] {
            fs::copy(examples().join("flights").join(file), directory.path(file)).unwrap();
        }
        directory
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.0.join(file)
    }

    pub(crate) fn write(&self, file: &str, contents: impl AsRef<[u8]>) {
        fs::write(self.path(file), contents).unwrap();
    }

    pub(crate) fn read(&self, file: &str) -> String {
        fs::read_to_string(self.path(file)).unwrap()
    }

    /// Makes a directory in it.
    pub(crate) fn make(&self, directory: &str) {
        fs::create_dir(self.path(directory)).unwrap();
    }

    /// Makes a pipe with a name in it, which nobody ever writes to.
    pub(crate) fn make_pipe(&self, file: &str) {
        assert!(Command::new("mkfifo").arg(self.path(file)).status().unwrap().success());
    }

    /// Names of everything in it.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Runs the program here.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with(arguments, "")
    }

    /// Runs the program here with this standard input.
    pub(crate) fn run_with(&self, arguments: &[&str], input: impl AsRef<[u8]>) -> Ran {
        Self::ran(&mut self.command(arguments), input)
    }

    /// Runs commands of the shell here, in which `"$@"` is the program; ended with 124 if it waits for ever.
    pub(crate) fn run_in_shell(&self, script: &str, arguments: &[&str]) -> Ran {
        let mut command = Command::new("timeout");
        command.args([PATIENCE_SECONDS, "bash", "-c", script, "bash", env!("CARGO_BIN_EXE_consent-mesh")]);
        Self::ran(command.args(arguments).current_dir(&self.0), "")
    }

    /// The program, in a directory that it owns: as [`NOBODY`] where root runs the tests, elsewhere as whoever runs them.
    pub(crate) fn unprivileged(&self, arguments: &[&str]) -> Command {
        // A copy, because root's directories may be closed to others. By another process, because nobody can execute
        // a file that is open for writing, and a child that another test starts meanwhile would have it open.
        let program = self.path("consent-mesh");
        assert!(
            Command::new("cp")
                .args([env!("CARGO_BIN_EXE_consent-mesh").as_ref(), &*program])
                .status()
                .unwrap()
                .success()
        );
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&self.0);
        if chown(&self.0, Some(NOBODY), Some(NOBODY)).is_ok() {
            for name in self.names() {
                chown(self.path(&name), Some(NOBODY), Some(NOBODY)).unwrap();
            }
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    /// Runs a command with this standard input.
    pub(crate) fn ran(command: &mut Command, input: impl AsRef<[u8]>) -> Ran {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.as_ref().to_vec();
        // Beside, so that neither side waits for the other's full pipe; a program may end without reading it all.
        let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        Ran::new(&output)
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_consent-mesh"));
        command.args(arguments).current_dir(&self.0);
        command
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The project's examples.
pub(crate) fn examples() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples"))
}

/// What a run left behind.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) err: String,
}

impl Ran {
    fn new(output: &Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            bytes: output.stdout.clone(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The output, of a run that ended with this code and said nothing on standard error.
    pub(crate) fn quietly(self, code: i32) -> String {
        assert_eq!((self.code, self.err.as_str()), (Some(code), ""), "{}", self.out);
        self.out
    }

    /// The errors of a run that ended with 2.
    pub(crate) fn refused(self) -> String {
        assert_eq!(self.code, Some(2), "{}{}", self.out, self.err);
        assert!(self.err.starts_with("error: "), "{}", self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self.err
    }
}
