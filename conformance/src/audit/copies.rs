//! Several traces of one device: copies of each other, or different histories.
//!
//! Whoever collects traces gets some of them twice, perhaps an older copy as well. A copy says nothing new, and nothing in it
//! counts twice. A device that has signed two records of one number, with one key, has told two stories, and nobody can say which
//! of them is true: one is judged, and that there is another is a finding.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use pilot_core::evidence::trace::verify;
use pilot_core::value::Time;

use super::feed::{Cursor, Unreadable};
use super::seal::{Keys, Sealed};

/// How many bytes of a trace are in memory.
const PIECE_BYTES: usize = 32 << 10;

/// A trace that is not judged, because a longer one of the same device is.
pub struct Aside {
    /// It.
    pub trace: Sealed,
    /// Where the other one lies.
    pub other: String,
    /// Where it tells something else than the other one; nowhere, if it is a copy.
    pub fork: Option<Fork>,
}

/// The first record that is not the same.
#[derive(Debug, Clone, Copy)]
pub struct Fork {
    /// Its number.
    pub record: u64,
    /// When it was made, as the trace says that is not judged.
    pub time: Time,
}

/// How a trace relates to a longer one of the same device.
enum Relation {
    /// All of it is there, too.
    Copy,
    /// It tells something else from there on.
    Fork(Fork),
    /// It has records that the other one does not have, and contradicts it nowhere.
    Different,
}

/// Which traces are judged, in their order, and which are set aside.
pub fn sort_out(traces: Vec<Sealed>, keys: &Keys<'_>) -> (Vec<Sealed>, Vec<Aside>) {
    let mut of_devices = BTreeMap::<_, Vec<usize>>::new();
    for (at, trace) in traces.iter().enumerate() {
        // A device with another key has begun anew.
        let key = trace.first.as_ref().and_then(|open| Some((open.device.clone(), *keys.of_trace(open)?.as_bytes())));
        key.into_iter().for_each(|key| of_devices.entry(key).or_default().push(at));
    }
    let mut reasons = vec![None; traces.len()];
    for mut several in of_devices.into_values() {
        let trace = |at: &usize| traces.get(*at);
        several.sort_by_key(|at| Reverse(trace(at).map(|trace| (end(trace), trace.standing.records))));
        let Some((longest, others)) = several.split_first() else { continue };
        for at in others {
            let (Some(longest), Some(other), Some(reason)) = (trace(longest), trace(at), reasons.get_mut(*at)) else {
                continue;
            };
            // What cannot be read is said when it is judged.
            let fork = match relation(longest, other).unwrap_or(Relation::Different) {
                Relation::Copy => None,
                Relation::Fork(fork) => Some(fork),
                Relation::Different => continue,
            };
            *reason = Some((longest.files.directory.display().to_string(), fork));
        }
    }
    let (mut judged, mut aside) = (Vec::with_capacity(traces.len()), Vec::new());
    for (trace, reason) in traces.into_iter().zip(reasons) {
        match reason {
            Some((other, fork)) => aside.push(Aside { trace, other, fork }),
            None => judged.push(trace),
        }
    }
    (judged, aside)
}

/// The number of the last signed record.
fn end(trace: &Sealed) -> Option<u64> {
    trace.standing.sealed.map(|verify::Sealed { record, .. }| record)
}

/// Of all that both have signed.
fn relation(longest: &Sealed, other: &Sealed) -> Result<Relation, Unreadable> {
    let [mut one, mut two] = [longest, other].map(|trace| Cursor::new(trace, PIECE_BYTES));
    let (mut first, mut second) = (one.take_next()?, two.take_next()?);
    let is_within = longest.standing.first <= other.standing.first && other.damage.is_none();
    while let (Some((record, hash, _)), Some((other_record, other_hash, _))) = (&first, &second) {
        match record.sequence.cmp(&other_record.sequence) {
            Ordering::Less => first = one.take_next()?,
            Ordering::Greater => second = two.take_next()?,
            Ordering::Equal if hash != other_hash => {
                return Ok(Relation::Fork(Fork { record: record.sequence, time: other_record.time }));
            }
            Ordering::Equal => (first, second) = (one.take_next()?, two.take_next()?),
        }
    }
    Ok(if is_within && second.is_none() { Relation::Copy } else { Relation::Different })
}
