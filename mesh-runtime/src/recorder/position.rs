//! What else a daemon has on its disk follows its trace. A [`Position`] says how far: after a crash the rest is read from
//! the trace, and what must not be forgotten is done again.

use std::path::Path;

use pilot_core::evidence::envelope::ChainHead;
use pilot_core::evidence::trace::frame::GENESIS;
use pilot_core::evidence::trace::{Record, Verifier};
use pilot_core::evidence::{DeviceName, VerifyingKey};

use pilot_core::evidence::hex::{self, Hex};
use serde::{Deserialize, Serialize};

use super::OpenError;
use super::files::{self, Seen};

/// After how many records that change nothing else on the disk the position there is moved on all the same, so that little
/// is read again after a crash.
pub const MAX_BEHIND: u64 = 1_024;

/// A place between two records of a trace. In JSON: `{"next": 17, "head": "<32 bytes>"}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Position {
    /// The number of the record after it.
    pub next: u64,
    /// The hash of the record before it.
    pub head: ChainHead,
}

impl Position {
    /// Before the first record.
    pub const START: Self = Self { next: 0, head: GENESIS };

    /// Whether so much was recorded since that it is time to move on.
    pub const fn is_far_behind(self, now: Self) -> bool {
        now.next.saturating_sub(self.next) >= MAX_BEHIND
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    next: u64,
    head: String,
}

impl From<Position> for Written {
    fn from(position: Position) -> Self {
        Self { next: position.next, head: Hex(&position.head.0).to_string() }
    }
}

impl TryFrom<Written> for Position {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        let head = hex::decode(&written.head).ok_or("the head of a trace has 32 bytes")?;
        Ok(Self { next: written.next, head: ChainHead(head) })
    }
}

/// Shows the records after a position, verified, with their hashes. `false`, and nothing is shown, if the trace does not
/// have the position: files are missing, or it is another trace. `end` is where the trace ends.
pub(super) fn follow(
    directory: &Path,
    device: &DeviceName,
    key: &VerifyingKey,
    (from, end): (Position, Position),
    mut see: impl FnMut(Record, ChainHead),
) -> Result<bool, OpenError> {
    if from.next >= end.next {
        return Ok(from == end);
    }
    let cannot = |error| OpenError::File { path: directory.into(), error };
    let mut paths = files::list(directory).map_err(cannot)?;
    // Records may have been followed by another file before anybody took note of them.
    let mut first = paths.len();
    while let Some(at) = first.checked_sub(1) {
        first = at;
        let begins = paths.get(at).map(|path| files::first_record(path)).transpose()?.flatten();
        if begins.is_some_and(|begins| begins <= from.next) {
            break;
        }
    }
    let mut verifier = Verifier::new(|open| (open.device == *device).then_some(*key));
    let (mut is_found, mut is_other) = (false, false);
    for path in paths.split_off(first) {
        verifier.begin_file();
        files::read(&path, &mut verifier, |Seen { record, previous, hash }| {
            if record.sequence == from.next {
                is_found = previous == from.head;
                is_other = !is_found;
            }
            if is_found {
                see(record, hash);
            }
        })?;
        if is_other {
            break;
        }
    }
    Ok(is_found)
}
