//! Opening a store again in the same process.

use std::path::Path;
use std::time::{Duration, Instant};

use repository_svc::store::{OpenError, PolicyStore};

/// Longer than it takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Opens a store. One that this process has just closed may be locked for a moment: sled gives up its lock late.
pub(crate) fn open(path: &Path) -> PolicyStore {
    let begun = Instant::now();
    loop {
        match PolicyStore::open(path) {
            Err(OpenError::InUse(_)) if begun.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(10)),
            store => return store.unwrap(),
        }
    }
}
