//! Several traces of one device: copies of each other, or different histories.
//!
//! Whoever collects traces gets some of them twice, perhaps an older copy as well. A copy says nothing new, and nothing in it
//! counts twice. A device that has signed two records of one number, with one key, has told two stories, and nobody can say which
//! of them is true: one is judged, and that there is another is a finding.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use pilot_core::value::Time;

use super::feed::{self, Cursor, Unreadable};
use super::seal::{Keys, Sealed};

/// A trace that is not judged, because a longer one of the same device is.
pub struct Aside {
    /// It.
    pub trace: Sealed,
    /// Where the other one lies.
    pub other: String,
    /// Why not.
    pub why: Why,
}

/// How a trace relates to a longer one of the same device, if all of it is said there, or contradicted.
#[derive(Debug, Clone, Copy)]
pub enum Why {
    /// All of it is there, too.
    Copy,
    /// This record is the first that is not the same, made at this time, as the trace says that is not judged.
    Fork(u64, Time),
}

/// Which traces are judged, and which are set aside.
pub fn sort_out(traces: Vec<Sealed>, keys: &Keys<'_>) -> (Vec<Sealed>, Vec<Aside>) {
    let (mut judged, mut aside) = (Vec::new(), Vec::new());
    let mut of_devices = BTreeMap::<_, Vec<Sealed>>::new();
    for trace in traces {
        // A device with another key has begun anew.
        match trace.first.as_ref().and_then(|open| Some((open.device.clone(), *keys.of_trace(open)?.as_bytes()))) {
            Some(key) => of_devices.entry(key).or_default().push(trace),
            None => judged.push(trace),
        }
    }
    for mut several in of_devices.into_values() {
        several.sort_by_key(|trace| Reverse((end(trace), trace.standing.records)));
        let mut several = several.into_iter();
        let Some(longest) = several.next() else { continue };
        let other = longest.files.directory.display().to_string();
        let mut others = Vec::new();
        for trace in several {
            // What cannot be read is said when it is judged.
            match relation(&longest, &trace).ok().flatten() {
                Some(why) => aside.push(Aside { trace, other: other.clone(), why }),
                None => others.push(trace),
            }
        }
        judged.push(longest);
        judged.extend(others);
    }
    (judged, aside)
}

/// The number of the last signed record.
fn end(trace: &Sealed) -> Option<u64> {
    trace.standing.sealed.map(|sealed| sealed.record)
}

/// Of all that both have signed.
fn relation(longest: &Sealed, other: &Sealed) -> Result<Option<Why>, Unreadable> {
    let [mut one, mut two] = [longest, other].map(|trace| Cursor::new(trace, feed::piece(2)));
    let (mut first, mut second) = (one.take_next()?, two.take_next()?);
    while let (Some((record, hash, _)), Some((other_record, other_hash, _))) = (&first, &second) {
        match record.sequence.cmp(&other_record.sequence) {
            Ordering::Less => first = one.take_next()?,
            Ordering::Greater => second = two.take_next()?,
            Ordering::Equal if hash != other_hash => return Ok(Some(Why::Fork(record.sequence, other_record.time))),
            Ordering::Equal => (first, second) = (one.take_next()?, two.take_next()?),
        }
    }
    let is_within = longest.standing.first <= other.standing.first && second.is_none();
    Ok(is_within.then_some(Why::Copy))
}
