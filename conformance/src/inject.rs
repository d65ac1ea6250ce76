//! Copies of traces with one violation in them, to see that an auditor finds it.
//!
//! There are two sorts. *Semantic* kinds change what a device says it did: its trace is hashed, numbered and signed anew with
//! the device's keys, and so is whatever other traces say about it, so that only the meaning can give it away. *Integrity*
//! kinds change what is written, without the keys.
//!
//! * [`directory`]: what there is; [`scan`]: every step with the device before it; `replica`: the device;
//! * `bench`: choosing a place at random; `rewrite`: a trace with a change in it; `rechain`: its bytes;
//! * `release`, `collect`, `erase`, `transfer`, `lists`, `runs`: the semantic kinds; `damage`: the others.

mod bench;
mod collect;
mod damage;
pub mod directory;
mod erase;
mod lists;
mod rechain;
mod release;
mod replica;
mod rewrite;
mod runs;
pub mod scan;
mod transfer;

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use pilot_core::evidence::trace::chain::TooLarge;
use serde::Serialize;

use self::bench::{Bench, Made};
use self::directory::{Directory, entries};
use crate::audit::report::rules;
use crate::keys::KeyFileError;

/// How deep directories are copied.
pub const MAX_DEPTH: usize = 8;
/// There may be secret keys in a copy.
const DIRECTORY_MODE: u32 = 0o700;

/// A kind of violation.
pub struct Kind {
    /// What it is called.
    pub name: &'static str,
    /// What is done.
    pub sentence: &'static str,
    /// The rule that finds it.
    pub rule: &'static str,
    make: fn(&mut Bench<'_>) -> Result<Option<Made>, InjectError>,
}

impl Kind {
    /// The exit code of an audit that finds it: 1 for a violation, 2 if the trace itself is not to be believed.
    pub fn exit(&self) -> u8 {
        let is_integrity = [rules::CHAIN, rules::SEQUENCE, rules::SIGNATURE, rules::ANCHOR].contains(&self.rule);
        if is_integrity { 2 } else { 1 }
    }

    /// The kind of this name.
    pub fn of(name: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.name == name)
    }
}

/// What an audit should find, as `expected.json` says it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Expected {
    /// The kind of violation.
    pub kind: &'static str,
    /// In whose trace it shows.
    pub device: String,
    /// At which record.
    pub record: u64,
    /// By which rule.
    pub rule: &'static str,
    /// The exit code of the audit.
    pub exit: u8,
}

/// Why no violation was put anywhere.
#[derive(Debug, thiserror::Error)]
pub enum InjectError {
    /// The directory has nothing that it could be done to.
    #[error("there is no suitable place for `{kind}` in `{}`: {sentence}", directory.display())]
    NoPlace {
        /// Which kind.
        kind: &'static str,
        /// What would have been done.
        sentence: &'static str,
        /// Where.
        directory: PathBuf,
    },
    /// There is something already.
    #[error("`{}` exists already", .0.display())]
    Exists(PathBuf),
    /// The file system refused.
    #[error("cannot use `{}`: {error}", path.display())]
    File {
        /// Which file or directory.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Larger than [`directory::MAX_BYTES`].
    #[error("the traces have more than {} bytes together", directory::MAX_BYTES)]
    TooLarge,
    /// Directories within directories.
    #[error("`{}` has directories more than {MAX_DEPTH} deep", .0.display())]
    TooDeep(PathBuf),
    /// Not a mesh file.
    #[error("`{}` is no mesh file: {problem}", path.display())]
    Mesh {
        /// Which.
        path: PathBuf,
        /// Why.
        problem: String,
    },
    /// Not an opening.
    #[error("`{}` has something that is no opening", .0.display())]
    Opening(PathBuf),
    /// Already damaged.
    #[error("`{}` is damaged already, at byte {offset}", path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// Where.
        offset: usize,
    },
    /// A record cannot be read.
    #[error("a trace has a record that cannot be read")]
    Unreadable,
    /// Traces that name each other's records in a circle.
    #[error("the traces contradict each other: a record has the head of one that comes after it")]
    Cycle,
    /// No keys to sign with.
    #[error("what was changed must be signed again: {0}")]
    Keys(#[from] KeyFileError),
    /// A changed record does not fit.
    #[error(transparent)]
    Record(#[from] TooLarge),
}

impl InjectError {
    fn file(path: &Path, error: io::Error) -> Self {
        Self::File { path: path.into(), error }
    }
}

/// Copies a directory with one violation in it, at a place that the seed chooses among all suitable ones.
pub fn inject(
    kind: &'static Kind,
    from: &Path,
    out: &Path,
    keys: Option<&Path>,
    seed: u64,
) -> Result<Expected, InjectError> {
    if out.exists() {
        return Err(InjectError::Exists(out.into()));
    }
    let files = Directory::read(from)?;
    let vocabulary = files.mesh.vocabulary().clone();
    let mut bench = Bench::new(&files, &vocabulary, keys, seed);
    let no_place = || InjectError::NoPlace { kind: kind.name, sentence: kind.sentence, directory: from.into() };
    let made = (kind.make)(&mut bench)?.ok_or_else(no_place)?;
    let expected =
        Expected { kind: kind.name, device: made.device, record: made.record, rule: kind.rule, exit: kind.exit() };
    copy(from, out, 0)?;
    for change in made.changes {
        let path = out.join(change.path.strip_prefix(from).unwrap_or(&change.path));
        let done = match change.bytes {
            Some(bytes) => fs::create_dir_all(path.parent().unwrap_or(out)).and_then(|()| fs::write(&path, bytes)),
            None => fs::remove_file(&path),
        };
        done.map_err(|error| InjectError::file(&path, error))?;
    }
    let path = out.join("expected.json");
    let text = format!("{}\n", serde_json::to_string(&expected).unwrap_or_default());
    fs::write(&path, text).map_err(|error| InjectError::file(&path, error))?;
    Ok(expected)
}

/// Copies files and directories; whatever else there is, sockets of daemons for example, stays.
fn copy(from: &Path, to: &Path, depth: usize) -> Result<(), InjectError> {
    if depth > MAX_DEPTH {
        return Err(InjectError::TooDeep(from.into()));
    }
    DirBuilder::new().mode(DIRECTORY_MODE).create(to).map_err(|error| InjectError::file(to, error))?;
    for path in entries(from)? {
        let target = to.join(path.file_name().unwrap_or_default());
        let kind = fs::symlink_metadata(&path).map_err(|error| InjectError::file(&path, error))?.file_type();
        if kind.is_dir() {
            copy(&path, &target, depth + 1)?;
        } else if kind.is_file() {
            fs::copy(&path, &target).map_err(|error| InjectError::file(&path, error))?;
        }
    }
    Ok(())
}

const REQUIREMENT_4: &str = "requirement-4";
const REQUIREMENT_5: &str = "requirement-5";

macro_rules! kinds {
    ($($name:literal, $rule:expr, $make:path, $sentence:literal;)*) => {
        &[$(Kind { name: $name, rule: $rule, make: $make, sentence: $sentence }),*]
    };
}

/// Every kind, semantic ones first.
pub const KINDS: &[Kind] = kinds! {
    "collect-without-consent", rules::MESSAGE, collect::without_consent,
        "a controller keeps an item that its owner never released";
    "wrong-policy", rules::MESSAGE, collect::wrong_policy,
        "a controller keeps an item under another of its policies than the one it was released under";
    "wrong-controller", rules::GRAPH, collect::wrong_controller,
        "a controller keeps an item that was released to another one";
    "unpublished-policy", rules::GRAPH, collect::unpublished_policy,
        "a controller keeps an item under a policy that it has never published";
    "collect-after-deadline", rules::SEND, collect::after_deadline,
        "a controller keeps an item under a policy whose deadline has passed";
    "stale-broadcast", rules::GRAPH, collect::stale_broadcast,
        "a controller keeps an item because of a broadcast that is too old";
    "accepted-after-withdrawal", REQUIREMENT_5, collect::after_withdrawal,
        "a controller keeps an item again whose owner has taken that release back";
    "duplicated-item", rules::GRAPH, collect::duplicated_item,
        "a controller records twice that it accepted the same item";
    "unshown-policy", rules::SEND, release::unshown_policy,
        "a subject releases an item under a policy that nobody has shown her";
    "outside-own-policy", rules::SEND, release::outside_own_policy,
        "a subject releases an item although no policy of hers allows it";
    "condition-not-met", rules::SEND, release::condition_not_met,
        "a subject releases an item although a condition did not hold";
    "released-to-refused", rules::GRAPH, release::to_refused,
        "a subject releases an item to a controller from which she has withdrawn";
    "use-after-deadline", REQUIREMENT_4, erase::use_after_deadline,
        "a controller does not erase an item at its deadline";
    "erased-early", rules::GRAPH, erase::erased_early,
        "a controller says that a deadline was reached which was not";
    "transfer-without-rule", rules::TRANSFER, transfer::without_rule,
        "a controller hands on an item that no transfer rule covers";
    "transfer-unknown-policy", rules::TRANSFER, transfer::unknown_policy,
        "a controller hands on an item under a policy of the receiver that it does not know";
    "transfer-after-erasure", rules::TRANSFER, transfer::after_erasure,
        "a controller hands on an item that it has erased";
    "upload-not-current", rules::GRAPH, lists::upload_not_current,
        "a controller uploads a policy that it does not work under";
    "forged-upload", rules::MESSAGE, lists::forged_upload,
        "a repository lists a policy in the name of a controller that never uploaded it";
    "borrowed-id", rules::MESSAGE, lists::borrowed_id,
        "a repository lists a policy that no controller uploaded, under the id of another upload";
    "unvouched-offer", rules::R1, lists::unvouched_offer,
        "a subject is shown a policy that its controller never published";
    "download-mismatch", rules::GRAPH, lists::download_mismatch,
        "a subject downloads another catalogue than what she then knows";
    "message-altered", rules::MESSAGE, lists::message_altered,
        "what a controller received differs from what was sent";
    "exchanged-item", rules::MESSAGE, lists::exchanged_item,
        "a controller keeps another item than the one that was handed on to it";
    "skipped-location", rules::GRAPH, runs::skipped_location,
        "a device takes a step from where it is not";
    "back-dated-clock", rules::CLOCK, runs::back_dated_clock,
        "a device takes a step earlier than the one before";
    "invented-resume", rules::RESUME, runs::invented_resume,
        "a controller begins a run with an item that it never had";
    "forgotten-tombstone", rules::RESUME, runs::forgotten_tombstone,
        "a controller begins a run without a withdrawal that it was told of";
    "forgotten-recipient", rules::RESUME, runs::forgotten_recipient,
        "a controller begins a run without knowing to whom it handed an item";
    "missing-resume", rules::RESUME, runs::missing_resume,
        "a device does not say with what its first run begins";
    "dropped-record", rules::CHAIN, damage::dropped_record,
        "a record is cut out";
    "swapped-records", rules::CHAIN, damage::swapped_records,
        "two neighbouring records change places";
    "repeated-record", rules::CHAIN, damage::repeated_record,
        "a record stands there twice";
    "flipped-bit", rules::CHAIN, damage::flipped_bit,
        "one bit of a record is another";
    "cut-file", rules::CHAIN, damage::cut_file,
        "some bytes in the middle of a file are gone";
    "missing-file", rules::CHAIN, damage::missing_file,
        "a file between two others of a trace is gone";
    "renumbered-records", rules::SEQUENCE, damage::renumbered_records,
        "a device leaves a number out, and signs";
    "forged-signature", rules::SIGNATURE, damage::forged_signature,
        "a checkpoint is signed by somebody else";
    "rewritten-history", rules::ANCHOR, damage::rewritten_history,
        "a device writes its own trace anew, after others have recorded its heads";
    "two-histories", rules::ANCHOR, damage::two_histories,
        "a device has signed two traces that differ";
};
