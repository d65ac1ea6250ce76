//! Logs: to the journal under systemd, else to standard error. `RUST_LOG` says how much.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::broker;

/// What is logged unless `RUST_LOG` says otherwise.
const DEFAULT: &str = "info";

/// Starts logging. Called twice, it goes on as it was.
pub fn start() {
    let wanted = std::env::var("RUST_LOG").ok().filter(|wanted| !wanted.is_empty());
    let directives = wanted.unwrap_or_else(|| format!("{DEFAULT},{}", broker::LOG_DIRECTIVE));
    let filter = EnvFilter::try_new(&directives).unwrap_or_else(|error| {
        eprintln!("RUST_LOG is not understood ({error}); logging what is usual");
        EnvFilter::new(DEFAULT)
    });
    let registry = tracing_subscriber::registry().with(filter);
    // systemd sets this when standard error is the journal, which takes fields, not only lines.
    let journal = std::env::var_os("JOURNAL_STREAM").and_then(|_| tracing_journald::layer().ok());
    // A second start is refused, and that is fine: tests start several daemons in one process.
    let _ = match journal {
        Some(journal) => registry.with(journal).try_init(),
        None => {
            let colours = std::io::stderr().is_terminal();
            let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(colours);
            registry.with(layer.with_target(false)).try_init()
        }
    };
}
