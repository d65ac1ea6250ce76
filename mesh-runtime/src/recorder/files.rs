//! The directory of a trace: its lock, its files, and where the last one ends.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pilot_core::evidence::envelope::ChainHead;
use pilot_core::evidence::trace::frame::Rest;
use pilot_core::evidence::trace::verify::End;
use pilot_core::evidence::trace::{Chain, Frame, Open, Reader, Record, Standing, Verifier};
use pilot_core::evidence::{DeviceName, VerifyingKey};
use pilot_core::value::Time;

use super::{Found, OpenError};
use crate::lock::lock_within;

const LOCK: &str = "lock";
const PREFIX: &str = "trace-";
const SUFFIX: &str = ".cborseq";
/// Only the daemon's user reads a trace.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;
/// How long a trace that is locked is waited for. Then it counts as another process's.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);
/// How many bytes are read at once.
const PIECE_BYTES: usize = 64 << 10;

/// The path of a trace's file.
pub fn path(directory: &Path, number: u32) -> PathBuf {
    directory.join(format!("{PREFIX}{number:08}{SUFFIX}"))
}

fn number_of(name: &str) -> Option<u32> {
    let digits = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    let number = digits.parse().ok()?;
    // `+1` and `1` are numbers, too, but not the names of files.
    (format!("{number:08}") == digits).then_some(number)
}

/// The paths of a trace's files, in the order in which they were written.
pub fn list(directory: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(numbers(directory)?.into_iter().map(|number| path(directory, number)).collect())
}

fn numbers(directory: &Path) -> io::Result<Vec<u32>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(directory)? {
        numbers.extend(entry?.file_name().to_str().and_then(number_of));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Makes the directory if necessary and locks it for as long as the returned file is open.
pub(super) fn prepare(directory: &Path) -> Result<File, OpenError> {
    let cannot = |error| OpenError::File { path: directory.into(), error };
    DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(directory).map_err(cannot)?;
    let path = directory.join(LOCK);
    let cannot = |error| OpenError::File { path: path.clone(), error };
    let mut options = OpenOptions::new();
    let lock = options.write(true).create(true).truncate(false).mode(FILE_MODE).open(&path).map_err(cannot)?;
    match lock_within(&lock, LOCK_PATIENCE) {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked(directory.into())),
        Err(TryLockError::Error(error)) => Err(cannot(error)),
    }
}

/// Makes the file after this one, so that it survives the end of the machine.
pub(super) fn create(directory: &Path, after: u32) -> io::Result<(u32, File)> {
    let number = after.checked_add(1).ok_or_else(|| io::Error::other("there are no numbers for more files"))?;
    make(directory, number).map(|file| (number, file))
}

fn make(directory: &Path, number: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.read(true).append(true).create_new(true).mode(FILE_MODE).open(path(directory, number))?;
    File::open(directory)?.sync_all()?;
    Ok(file)
}

/// The last file of a trace and where the trace goes on.
pub(super) struct Last {
    pub(super) number: u32,
    pub(super) file: File,
    pub(super) length: u64,
    pub(super) chain: Chain,
    pub(super) found: Found,
    pub(super) is_closed: bool,
    /// The latest time in it.
    pub(super) since: Time,
}

/// Finds the end of a trace, verifies the file it is in, and takes an unfinished record off. Without a trace, begins one.
pub(super) fn last(directory: &Path, device: &DeviceName, key: &VerifyingKey) -> Result<Last, OpenError> {
    let cannot = |error| OpenError::File { path: directory.into(), error };
    let numbers = numbers(directory).map_err(cannot)?;
    let Some((number, earlier)) = numbers.split_last().map(|(last, earlier)| (*last, earlier)) else {
        let (number, file) = (0, make(directory, 0).map_err(cannot)?);
        let (chain, found, since) = (Chain::new(), Found::New, Time::default());
        return Ok(Last { number, file, length: 0, chain, found, is_closed: false, since });
    };
    let last_path = path(directory, number);
    let cannot = |error| OpenError::File { path: last_path.clone(), error };
    let mut file = OpenOptions::new().read(true).append(true).open(&last_path).map_err(cannot)?;
    let (standing, length, mut since) = verify(&mut file, &last_path, device, key)?;
    if standing.torn_bytes > 0 {
        file.set_len(length).and_then(|()| file.sync_all()).map_err(cannot)?;
    }
    let (torn, mut standing) = (standing.torn_bytes, standing);
    if let (0, Some(before)) = (standing.records, earlier.last()) {
        // The device had stopped between two files.
        let before = path(directory, *before);
        let cannot = |error| OpenError::File { path: before.clone(), error };
        let mut file = File::open(&before).map_err(cannot)?;
        (standing, _, since) = verify(&mut file, &before, device, key)?;
    }
    let found = match standing.end {
        End::Closed => Found::Closed,
        End::Empty if torn == 0 => Found::New,
        End::Empty | End::Continues | End::Open => Found::Interrupted { torn },
    };
    let next = standing.first.saturating_add(standing.records);
    let chain = Chain::resume(standing.head, next);
    let is_closed = standing.end == End::Continues && length > 0;
    Ok(Last { number, file, length, chain, found, is_closed, since })
}

/// Verifies one file; how far it is believed, how many bytes complete records have, and the latest time in them.
fn verify(
    file: &mut File,
    path: &Path,
    device: &DeviceName,
    key: &VerifyingKey,
) -> Result<(Standing, u64, Time), OpenError> {
    let mut verifier = Verifier::new(|open| (open.device == *device).then_some(*key));
    let mut since = Time::default();
    let length = read_from(file, path, &mut verifier, |seen| since = since.max(seen.record.time))?;
    Ok((verifier.standing(), length, since))
}

/// A record that was verified.
pub(super) struct Seen {
    pub(super) record: Record,
    /// The hash of the one before it.
    pub(super) previous: ChainHead,
    pub(super) hash: ChainHead,
}

/// Shows the records of a file, each after it was verified.
pub(super) fn read<K: FnMut(&Open) -> Option<VerifyingKey>>(
    path: &Path,
    verifier: &mut Verifier<K>,
    see: impl FnMut(Seen),
) -> Result<(), OpenError> {
    let mut file = File::open(path).map_err(|error| OpenError::File { path: path.into(), error })?;
    read_from(&mut file, path, verifier, see).map(drop)
}

/// Likewise; how many bytes complete records have.
fn read_from<K: FnMut(&Open) -> Option<VerifyingKey>>(
    file: &mut File,
    path: &Path,
    verifier: &mut Verifier<K>,
    mut see: impl FnMut(Seen),
) -> Result<u64, OpenError> {
    let damaged = |error| OpenError::Damaged { path: path.into(), error };
    let mut reader = Reader::new();
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let read = file.read(&mut piece).map_err(|error| OpenError::File { path: path.into(), error })?;
        if read == 0 {
            break;
        }
        reader.feed(piece.get(..read).unwrap_or_default());
        while let Some((offset, frame)) = reader.frame().map_err(|error| damaged(verifier.misframed(error)))? {
            let record = verifier.check(offset, &frame).map_err(damaged)?;
            see(Seen { record, previous: frame.previous, hash: frame.hash });
        }
    }
    let length = reader.offset();
    let rest: Rest = reader.finish().map_err(|error| damaged(verifier.misframed(error)))?;
    verifier.end_file(length, rest).map_err(damaged)?;
    Ok(length)
}

/// The number of a file's first record, which is not verified; `None` if there is none that can be read.
pub(super) fn first_record(path: &Path) -> Result<Option<u64>, OpenError> {
    let cannot = |error| OpenError::File { path: path.into(), error };
    let mut beginning = Vec::new();
    // An `open` record is short.
    let file = File::open(path).map_err(cannot)?;
    file.take(PIECE_BYTES as u64).read_to_end(&mut beginning).map_err(cannot)?;
    let frame = Frame::first(&beginning).ok().flatten();
    Ok(frame.and_then(|frame| Record::from_bytes(frame.body).ok()).map(|record| record.sequence))
}
