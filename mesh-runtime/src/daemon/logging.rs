//! Logs: to the journal under systemd, else to standard error. `RUST_LOG` says how much.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::broker;

/// What is logged unless `RUST_LOG` says otherwise.
const DEFAULT: &str = "info";

/// What is never logged, whatever `RUST_LOG` says: the Bluetooth libraries show the addresses of everybody who passes by.
const NEVER: [&str; 6] = ["bluer", "btleplug", "bluez_async", "dbus", "dbus_crossroads", "dbus_tokio"];

fn is_never(target: &str) -> bool {
    NEVER.contains(&target.split("::").next().unwrap_or(target))
}

/// Starts logging. Called twice, it goes on as it was.
pub fn start() {
    let wanted = std::env::var("RUST_LOG").ok().filter(|wanted| !wanted.is_empty());
    let directives = wanted.unwrap_or_else(|| format!("{DEFAULT},{}", broker::LOG_DIRECTIVE));
    let filter = EnvFilter::try_new(directives).unwrap_or_else(|error| {
        eprintln!("RUST_LOG is not understood ({error}); logging what is usual");
        EnvFilter::new(DEFAULT)
    });
    // A filter of its own: in the other one, `RUST_LOG` could name a part of such a library and win.
    let may_be_said = filter_fn(|metadata| !is_never(metadata.target()));
    let registry = tracing_subscriber::registry().with(filter).with(may_be_said);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The libraries and every part of them, and nothing that is only called alike.
    #[test]
    fn bluetooth_libraries_are_never_heard() {
        for target in ["bluer", "bluez_async::events", "btleplug::bluez::adapter", "dbus::ffi"] {
            assert!(is_never(target), "{target}");
        }
        for target in ["mesh_runtime::air::bluez", "dbusy", "rumqttc"] {
            assert!(!is_never(target), "{target}");
        }
    }
}
