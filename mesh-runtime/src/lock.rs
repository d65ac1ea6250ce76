//! Locks of files that another process may hold, and that are sometimes given up late.

use std::fs::{File, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// Locks a file; one that is locked is waited for, but not longer than `patience`. A lock can outlive its owner a little: a
/// thread that still has the file, or a child process that has not yet begun its own program.
pub fn lock_within(file: &File, patience: Duration) -> Result<(), TryLockError> {
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if begun.elapsed() < patience => thread::sleep(PAUSE),
            result => return result,
        }
    }
}
