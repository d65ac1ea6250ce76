//! Local applications learn of accepted observations over a Unix socket: one line of JSON each, without the value.
//!
//! The socket is for the gateway's user and group (mode 0660), and off unless configured. Whoever connects hears of what
//! is accepted from then on. Nobody waits for a slow reader: who is [`MAX_WAITING_LINES`] behind, or does not read a line
//! within [`WRITE_TIMEOUT`], is dropped and counted.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::broadcast;

/// The most applications at a time. One more is disconnected at once.
pub const MAX_APPLICATIONS: usize = 16;
/// The most lines that wait for an application. Full: it is dropped and counted.
pub const MAX_WAITING_LINES: usize = 1_024;
/// How long an application may take to read a line. Longer: it is dropped and counted.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// A socket that failed to accept is tried again after this pause.
const ERROR_PAUSE: Duration = Duration::from_millis(100);

/// The socket. Dropped, it is gone.
#[derive(Debug)]
pub struct Applications {
    path: PathBuf,
    lines: broadcast::Sender<Arc<str>>,
    task: tokio::task::JoinHandle<()>,
    counters: Arc<Counters>,
}

#[derive(Debug, Default)]
struct Counters {
    connected: AtomicUsize,
    dropped: AtomicU64,
}

impl Applications {
    /// Listens. A socket that a dead process left is replaced: the caller holds the lock of the trace. Anything else of
    /// that name stays, and is an error.
    pub fn listen(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::FileTypeExt as _;
        match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.file_type().is_socket() => fs::remove_file(path)?,
            // Binding says that there is something.
            Ok(_) | Err(_) => {}
        }
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, Permissions::from_mode(0o660))?;
        let (lines, _) = broadcast::channel(MAX_WAITING_LINES);
        let counters = Arc::new(Counters::default());
        let task = tokio::spawn(accept(listener, lines.clone(), Arc::clone(&counters)));
        Ok(Self { path: path.into(), lines, task, counters })
    }

    /// Tells everybody who listens.
    pub fn tell(&self, line: &str) {
        // An error means that nobody does.
        let _ = self.lines.send(line.into());
    }

    /// How many listen.
    pub fn connected(&self) -> usize {
        self.counters.connected.load(Ordering::Relaxed)
    }

    /// How many were dropped because they were slow.
    pub fn dropped(&self) -> u64 {
        self.counters.dropped.load(Ordering::Relaxed)
    }
}

impl Drop for Applications {
    fn drop(&mut self) {
        self.task.abort();
        let _ = fs::remove_file(&self.path);
    }
}

async fn accept(listener: UnixListener, lines: broadcast::Sender<Arc<str>>, counters: Arc<Counters>) {
    loop {
        match listener.accept().await {
            Ok(_) if counters.connected.load(Ordering::Relaxed) >= MAX_APPLICATIONS => {}
            Ok((stream, _)) => {
                counters.connected.fetch_add(1, Ordering::Relaxed);
                let (lines, counters) = (lines.subscribe(), Arc::clone(&counters));
                tokio::spawn(async move {
                    if serve(stream, lines).await.is_err() {
                        counters.dropped.fetch_add(1, Ordering::Relaxed);
                    }
                    counters.connected.fetch_sub(1, Ordering::Relaxed);
                });
            }
            Err(_) => tokio::time::sleep(ERROR_PAUSE).await,
        }
    }
}

/// The reader is too slow.
struct TooSlow;

async fn serve(stream: UnixStream, mut lines: broadcast::Receiver<Arc<str>>) -> Result<(), TooSlow> {
    let (mut reader, mut writer) = stream.into_split();
    loop {
        let line = tokio::select! {
            line = lines.recv() => match line {
                Ok(line) => line,
                Err(broadcast::error::RecvError::Lagged(_)) => return Err(TooSlow),
                Err(broadcast::error::RecvError::Closed) => return Ok(()),
            },
            // Nothing is expected from an application but its end.
            () = ended(&mut reader) => return Ok(()),
        };
        let written = tokio::time::timeout(WRITE_TIMEOUT, writer.write_all(format!("{line}\n").as_bytes())).await;
        match written {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Ok(()),
            Err(_) => return Err(TooSlow),
        }
    }
}

/// Resolves when the other end is gone; what it says meanwhile is not looked at.
async fn ended(reader: &mut tokio::net::unix::OwnedReadHalf) {
    use tokio::io::AsyncReadExt as _;
    let mut unread = [0; 256];
    while let Ok(1..) = reader.read(&mut unread).await {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncBufReadExt as _, BufReader};

    /// Lets the other tasks go on until something holds.
    async fn until(mut holds: impl FnMut() -> bool) {
        for _ in 0..1_000_000 {
            if holds() {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("it never did");
    }

    /// Who listens gets every line; who does not read is dropped and counted, and nobody else notices.
    #[tokio::test(start_paused = true)]
    async fn slow_readers_are_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("applications.sock");
        let applications = Applications::listen(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o660);
        let reader = UnixStream::connect(&path).await.unwrap();
        let _slow = UnixStream::connect(&path).await.unwrap();
        until(|| applications.connected() == 2).await;
        let mut reader = BufReader::new(reader).lines();
        let long = "x".repeat(4_096);
        // More than the buffers of a socket hold, and more than wait.
        for told in 0..2 * MAX_WAITING_LINES {
            applications.tell(&long);
            assert_eq!(reader.next_line().await.unwrap().as_deref(), Some(long.as_str()), "line {told}");
        }
        tokio::time::advance(2 * WRITE_TIMEOUT).await;
        until(|| applications.dropped() == 1).await;
        until(|| applications.connected() == 1).await;
        applications.tell("last");
        assert_eq!(reader.next_line().await.unwrap().as_deref(), Some("last"));
        drop(reader);
        until(|| applications.connected() == 0).await;
        drop(applications);
        assert!(!path.exists());
    }
}
