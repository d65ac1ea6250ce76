//! A socket on which the user of a daemon asks and decides: one line of JSON each way.
//!
//! The socket is in the daemon's data directory, for its owner only. `ds-gateway status`, `withdraw` and `decide` speak to
//! it; so can other programs of the same user.

use std::fs::{self, Permissions};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

/// The longest line, either way; a longer one ends the connection.
pub const MAX_LINE_BYTES: u64 = 64 << 20;
/// The most requests that wait for the daemon. Full: connections wait.
pub const MAX_WAITING: usize = 16;
/// How long a client waits for its answer.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// What the socket is called in a data directory.
pub const SOCKET_NAME: &str = "control.sock";

/// A request, and where its answer goes. Dropped without an answer, the client is told that there is none.
#[derive(Debug)]
pub struct Asked {
    /// What is asked.
    pub request: Value,
    answer: oneshot::Sender<Value>,
}

impl Asked {
    /// Answers; whoever asked may have gone.
    pub fn answer(self, answer: Value) {
        let _ = self.answer.send(answer);
    }

    /// Answers that it cannot be done, and why; without a personal value, because it may be logged: a signal has nobody who
    /// waits for an answer.
    pub fn refuse(self, reason: impl std::fmt::Display) {
        if self.answer.send(serde_json::json!({ "error": reason.to_string() })).is_err() {
            tracing::warn!(%reason, "refused");
        }
    }
}

/// Listens until dropped; then the socket is gone.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Control {
    fn drop(&mut self) {
        self.task.abort();
        let _ = fs::remove_file(&self.path);
    }
}

/// Listens on a socket in a directory. A socket that a dead process left there is replaced: the caller holds the lock of
/// the trace, so no other daemon is alive.
pub fn listen(directory: &Path) -> io::Result<(Control, mpsc::Receiver<Asked>)> {
    let path = directory.join(SOCKET_NAME);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&path)?;
    fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    let (sender, receiver) = mpsc::channel(MAX_WAITING);
    let task = tokio::spawn(async move {
        let hangups = tokio::spawn(hangups(sender.clone()));
        let _ends_with_us = AbortOnDrop(hangups);
        loop {
            match listener.accept().await {
                Ok((stream, _)) => drop(tokio::spawn(serve(stream, sender.clone()))),
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    });
    Ok((Control { path, task }, receiver))
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// SIGHUP is the same as being asked to `reload`, without an answer.
async fn hangups(asked: mpsc::Sender<Asked>) {
    let Ok(mut hangup) = signal(SignalKind::hangup()) else { return };
    while hangup.recv().await.is_some() {
        let (answer, _) = oneshot::channel();
        let request = serde_json::json!({ "command": "reload" });
        if asked.send(Asked { request, answer }).await.is_err() {
            return;
        }
    }
}

async fn serve(stream: UnixStream, asked: mpsc::Sender<Asked>) {
    let (reader, mut writer) = stream.into_split();
    let mut lines = tokio::io::BufReader::new(reader.take(MAX_LINE_BYTES)).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let answer = match serde_json::from_str(&line) {
            Ok(request) => {
                let (answer, answered) = oneshot::channel();
                if asked.send(Asked { request, answer }).await.is_err() {
                    return;
                }
                answered.await.unwrap_or_else(|_| serde_json::json!({ "error": "the daemon gave no answer" }))
            }
            Err(_) => serde_json::json!({ "error": "a request is one line of JSON" }),
        };
        if writer.write_all(format!("{answer}\n").as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Why a daemon could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nobody listens.
    #[error("no daemon answers at `{}` ({error}); is it running?", path.display())]
    Unreachable {
        /// The socket.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It answered something else.
    #[error("the daemon's answer is not understood")]
    Malformed,
    /// It said no.
    #[error("{0}")]
    Refused(String),
}

/// Asks the daemon whose data is in a directory. Blocks.
pub fn ask(directory: &Path, request: &Value) -> Result<Value, AskError> {
    let path = directory.join(SOCKET_NAME);
    let unreachable = |error| AskError::Unreachable { path: path.clone(), error };
    let mut stream = StdUnixStream::connect(&path).map_err(unreachable)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(unreachable)?;
    stream.write_all(format!("{request}\n").as_bytes()).map_err(unreachable)?;
    let mut line = String::new();
    BufReader::new(stream.take(MAX_LINE_BYTES)).read_line(&mut line).map_err(unreachable)?;
    let answer: Value = serde_json::from_str(&line).map_err(|_| AskError::Malformed)?;
    match answer.get("error").and_then(Value::as_str) {
        Some(error) => Err(AskError::Refused(error.to_owned())),
        None => Ok(answer),
    }
}
