//! What is done to traces without their devices' keys, and what a device can do to its own trace but not to others'.

use fastrand::Rng;
use pilot_core::evidence::trace::{Action, Content, Elided, Reason, Record};
use pilot_core::value::Time;
use std::collections::BTreeMap;
use std::path::PathBuf;

use super::InjectError;
use super::bench::{Bench, Change, Lot, Made};
use super::directory::Trace;
use super::rechain::{Line, Plan};

/// For each trace: records whose hashes others have, with when and where those say so.
type Anchors = BTreeMap<usize, Vec<(usize, (Time, usize, usize))>>;

/// How many records a trace has at least that is damaged, and how many follow the damage.
const ROOM: usize = 8;
/// How many bytes are cut out at most.
const MAX_CUT: usize = 200;

/// A record in the middle of a trace and of its file, with signed ones after it.
fn somewhere(bench: &mut Bench<'_>) -> Option<(usize, usize)> {
    let mut lot = Lot::default();
    for (number, trace) in bench.files.traces.iter().enumerate() {
        let signed = (0..trace.len()).rev().find(|at| is_signed(trace, *at)).unwrap_or(0);
        for at in 1..signed.saturating_sub(ROOM) {
            let file = |at: usize| trace.place(at).map(|(file, _)| file);
            if file(at) == file(at + ROOM) {
                lot.offer(&mut bench.rng, || Some((number, at)));
            }
        }
    }
    lot.draw(&mut bench.rng).into_iter().next()
}

fn is_signed(trace: &Trace, at: usize) -> bool {
    let record = trace.record(at);
    record.is_some_and(|record| matches!(record.content, Content::Checkpoint(_) | Content::Close { .. }))
}

/// Changes the bytes of the file around a record: what stands before it, it, the one after it, and the rest.
fn damage(
    bench: &mut Bench<'_>,
    shown: usize,
    change: impl FnOnce(&[u8], &[u8], &mut Rng) -> Vec<u8>,
) -> Result<Option<Made>, InjectError> {
    let Some((number, at)) = somewhere(bench) else { return Ok(None) };
    let Some(trace) = bench.files.traces.get(number) else { return Ok(None) };
    let (Some((file, start)), Some(one), Some(next)) =
        (trace.place(at), trace.frame_bytes(at), trace.frame_bytes(at + 1))
    else {
        return Ok(None);
    };
    let whole = trace.file_bytes(file).unwrap_or_default();
    let (head, rest) = whole.split_at_checked(start).unwrap_or((whole, &[]));
    let tail = rest.get(one.len() + next.len()..).unwrap_or_default();
    let bytes = Some([head, &change(one, next, &mut bench.rng), tail].concat());
    let changes = trace.files.get(file).map(|path| Change { path: path.clone(), bytes }).into_iter().collect();
    Ok(Some(Made { device: trace.device.to_string(), record: (at + shown) as u64, changes }))
}

pub(super) fn dropped_record(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    damage(bench, 0, |_, next, _| next.to_vec())
}

pub(super) fn swapped_records(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    damage(bench, 0, |one, next, _| [next, one].concat())
}

pub(super) fn repeated_record(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    damage(bench, 1, |one, next, _| [one, one, next].concat())
}

pub(super) fn flipped_bit(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    damage(bench, 0, |one, next, rng| {
        let mut one = one.to_vec();
        let at = rng.usize(..one.len().max(1));
        if let Some(byte) = one.get_mut(at) {
            *byte ^= 1 << rng.u8(..8);
        }
        [&one, next].concat()
    })
}

pub(super) fn cut_file(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    damage(bench, 0, |one, next, rng| {
        // It begins within the first record, so that more is wrong than that one is missing.
        let from = rng.usize(1..one.len().max(2));
        let to = from + rng.usize(1..=MAX_CUT);
        let both = [one, next].concat();
        [both.get(..from).unwrap_or_default(), both.get(to..).unwrap_or_default()].concat()
    })
}

/// A file that others stand before and after.
pub(super) fn missing_file(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    let mut lot = Lot::default();
    for (number, trace) in bench.files.traces.iter().enumerate() {
        for file in 1..trace.files.len().saturating_sub(1) {
            lot.offer(&mut bench.rng, || Some((number, file)));
        }
    }
    let Some((number, file)) = lot.draw(&mut bench.rng).into_iter().next() else { return Ok(None) };
    let Some(trace) = bench.files.traces.get(number) else { return Ok(None) };
    let first = (0..trace.len()).find(|at| trace.place(*at).is_some_and(|(place, _)| place == file));
    let changes = trace.files.get(file).map(|path| Change { path: path.clone(), bytes: None }).into_iter().collect();
    Ok(first.map(|at| Made { device: trace.device.to_string(), record: at as u64, changes }))
}

/// A checkpoint that is not the last record of its file.
fn checkpoint(bench: &mut Bench<'_>, is_suitable: impl Fn(usize, usize) -> bool) -> Option<(usize, usize)> {
    let mut lot = Lot::default();
    for (number, trace) in bench.files.traces.iter().enumerate() {
        for at in 1..trace.len().saturating_sub(ROOM) {
            let is_checkpoint = || {
                let record = trace.record(at);
                record.is_some_and(|record| matches!(record.content, Content::Checkpoint(_)))
            };
            if is_suitable(number, at) {
                lot.offer(&mut bench.rng, || is_checkpoint().then_some((number, at)));
            }
        }
    }
    lot.draw(&mut bench.rng).into_iter().next()
}

pub(super) fn forged_signature(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    let Some((number, at)) = checkpoint(bench, |_, _| true) else { return Ok(None) };
    let plan = Plan { forged: Some(at), ..Plan::default() };
    bench.made(BTreeMap::from([(number, plan)]), false, bench.device(number), at).map(Some)
}

/// A checkpoint is left out, and everything after it keeps its number.
pub(super) fn renumbered_records(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    let Some((number, at)) = checkpoint(bench, |_, _| true) else { return Ok(None) };
    let length = bench.files.traces.get(number).map_or(0, Trace::len);
    let lines = (0..length).filter(|line| *line != at).map(Line::Kept).collect();
    let plan = Plan { lines: Some(lines), keeps_numbers: true, ..Plan::default() };
    bench.made(BTreeMap::from([(number, plan)]), false, bench.device(number), at).map(Some)
}

/// A checkpoint counts one step more that changed nothing. Others have heads of what came after it.
pub(super) fn rewritten_history(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    // For each trace, the records of it whose hashes others have, with where those say so.
    let mut anchored: Anchors = BTreeMap::new();
    for (id, (number, at)) in &bench.index.sent {
        for (trace, record) in bench.index.received.get(id).into_iter().flatten() {
            let Some(found) = bench.files.traces.get(*trace).and_then(|trace| trace.record(*record)) else { continue };
            let Record { time, content: Content::Step(step), .. } = found else { continue };
            let Action::Receive(_, cause) = &step.action else { continue };
            let hash = bench.files.traces.get(*number).and_then(|trace| trace.hash(*at));
            if cause.head.is_some() && cause.head == hash {
                anchored.entry(*number).or_default().push((*at, (time, *trace, *record)));
            }
        }
    }
    let graph = |number: usize| bench.files.traces.get(number).map(|trace| trace.graph);
    anchored.retain(|number, _| graph(*number) == Some("indirect-controller"));
    let is_known = |number: usize, at: usize| {
        anchored.get(&number).is_some_and(|heads| heads.iter().any(|(record, _)| *record > at))
    };
    let Some((number, at)) = checkpoint(bench, is_known) else { return Ok(None) };
    let later = anchored.get(&number).into_iter().flatten().filter(|(record, _)| *record > at);
    let Some((_, trace, record)) = later.map(|(_, place)| *place).min() else { return Ok(None) };
    let plan = BTreeMap::from([(number, recounted(bench, number, at))]);
    bench.made(plan, true, bench.device(trace), record).map(Some)
}

/// A checkpoint of a trace counts one step more that changed nothing.
fn recounted(bench: &Bench<'_>, number: usize, at: usize) -> Plan {
    let lines = bench.files.traces.get(number).map(|trace| {
        let line = |line| match trace.record(line) {
            Some(Record { time, content: Content::Checkpoint(mut checkpoint), .. }) if line == at => {
                let mut elided: Elided = checkpoint.elided.clone();
                elided.count(Reason::Other);
                checkpoint.elided = elided;
                Line::New { of: Some(line), time, content: Content::Checkpoint(checkpoint) }
            }
            _ => Line::Kept(line),
        };
        (0..trace.len()).map(line).collect()
    });
    Plan { lines, ..Plan::default() }
}

/// Likewise in a second trace, which lies beside the first one.
pub(super) fn two_histories(bench: &mut Bench<'_>) -> Result<Option<Made>, InjectError> {
    let Some((number, at)) = checkpoint(bench, |_, _| true) else { return Ok(None) };
    let plan = BTreeMap::from([(number, recounted(bench, number, at))]);
    let mut made = bench.made(plan, true, bench.device(number), at)?;
    for Change { path, .. } in &mut made.changes {
        let (directory, file) = (path.parent().unwrap_or(path), path.file_name().unwrap_or_default());
        let mut beside = directory.as_os_str().to_owned();
        beside.push("-again");
        *path = PathBuf::from(beside).join(file);
    }
    Ok(Some(made))
}
