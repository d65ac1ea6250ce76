//! What wakes judges that have found nothing to do.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use super::judges::lock;

/// Rings when somebody has done something, so that who sleeps looks again whether there is something to do.
#[derive(Default)]
pub struct Bell {
    /// How often it has rung.
    rung: AtomicU64,
    sleepers: AtomicUsize,
    /// Whether somebody has panicked, so that nobody need go on.
    is_broken: Mutex<bool>,
    wakes: Condvar,
}

impl Bell {
    /// How often it has rung. To be asked before one looks for something to do.
    pub fn heard(&self) -> u64 {
        self.rung.load(Ordering::SeqCst)
    }

    /// Somebody has done something.
    pub fn ring(&self) {
        self.rung.fetch_add(1, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            let _sleepers_sleep = lock(&self.is_broken);
            self.wakes.notify_all();
        }
    }

    /// Sleeps until it has rung more often than this. Whether there is still something to do.
    pub fn sleep(&self, heard: u64) -> bool {
        let mut is_broken = lock(&self.is_broken);
        // Who rings after this sees that somebody sleeps; who rang before is heard now.
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        while !*is_broken && self.heard() == heard {
            is_broken = self.wakes.wait(is_broken).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        !*is_broken
    }
}

/// Whoever panics wakes everybody, for nobody else will.
pub struct Alarm<'b>(&'b Bell);

impl<'b> Alarm<'b> {
    /// For as long as it is kept.
    pub const fn of(bell: &'b Bell) -> Self {
        Self(bell)
    }
}

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            *lock(&self.0.is_broken) = true;
            self.0.ring();
        }
    }
}
