//! No change before the last checkpoint goes unnoticed; what comes after it is reported as open.

use ed25519_dalek::SigningKey;
use pilot_core::evidence::trace::frame::{Frame, FrameProblem, Rest};
use pilot_core::evidence::trace::verify::{End, VerifyProblem};
use pilot_core::evidence::trace::{Chain, Content, Elided, Reason};
use pilot_core::graph::Location;

use super::samples::{NOW, accepted, elided, gate, open, signer, small, step, verify};

/// Exhaustive: each bit of a trace, turned round. Before the record that closes the trace this is an error; within it,
/// an error or an open trace.
#[test]
fn every_turned_bit_is_detected() {
    let records = small();
    let bytes = records.concat();
    let last = bytes.len() - records[records.len() - 1].len();
    assert_eq!(verify(&bytes).unwrap().0.end, End::Closed);
    for bit in 0..8 * bytes.len() {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        match verify(&damaged) {
            Err(error) => assert!(error.offset <= bit as u64 / 8, "bit {bit}: {error}"),
            Ok((standing, _)) => {
                assert!(bit / 8 >= last, "bit {bit} of {last} bytes: {standing:?}");
                assert_eq!((standing.end, standing.records), (End::Open, 6), "bit {bit}");
                assert!(standing.torn_bytes > 0);
            }
        }
    }
}

/// Exhaustive: a trace cut off anywhere is open, and says how much is not signed; nothing is lost but the record that
/// was cut.
#[test]
fn every_cut_leaves_an_open_trace() {
    let records = small();
    let bytes = records.concat();
    let ends: Vec<usize> = records
        .iter()
        .scan(0, |end, record| {
            *end += record.len();
            Some(*end)
        })
        .collect();
    for cut in 1..bytes.len() {
        let (standing, read) = verify(&bytes[..cut]).unwrap();
        let complete = ends.iter().filter(|end| **end <= cut).count();
        let torn = cut - complete.checked_sub(1).map_or(0, |last| ends[last]);
        assert_eq!(read.len(), complete, "{cut}");
        assert_eq!(standing.torn_bytes, torn as u64, "{cut}");
        let sealed = if complete >= 5 { ends[4] } else { 0 };
        assert_eq!(standing.open_bytes, (cut - sealed) as u64, "{cut}");
        assert_eq!(standing.sealed.map(|sealed| sealed.record), (complete >= 5).then_some(4));
        assert_ne!(standing.end, End::Closed);
    }
}

/// Every record left out, repeated, or put in another's place.
#[test]
fn records_cannot_be_dropped_repeated_or_moved() {
    let records = small();
    let last = records.len() - 1;
    for at in 0..records.len() {
        let mut dropped = records.clone();
        dropped.remove(at);
        // Without its last record the trace looks as it did before that was written: open.
        match verify(&dropped.concat()) {
            Ok((standing, _)) => assert_eq!((at, standing.end), (last, End::Open)),
            Err(error) => assert_eq!((error.record, at < last), (at as u64, true)),
        }
        for to in 0..records.len() {
            let mut repeated = records.clone();
            repeated.insert(to, records[at].clone());
            assert!(verify(&repeated.concat()).is_err(), "{at} again at {to}");
            let mut moved = records.clone();
            moved.swap(at, to);
            assert_eq!(verify(&moved.concat()).is_err(), at != to, "{at} and {to}");
        }
    }
}

/// Somebody without the device's key makes the chain fit again: only the signatures tell, and they do.
#[test]
fn rewriting_takes_the_key() {
    let rewrite = |key: &SigningKey, count: &Elided| {
        let mut chain = Chain::new();
        let mut bytes = chain.append(NOW, Content::Open(open())).unwrap();
        bytes.extend(chain.append(NOW, Content::Step(Box::new(accepted()))).unwrap());
        bytes.extend(chain.checkpoint(NOW, &gate(), count.clone(), key).unwrap());
        bytes
    };
    let honest = rewrite(&signer(), &elided());
    assert!(verify(&honest).is_ok());
    let error = verify(&rewrite(&SigningKey::from_bytes(&[3; 32]), &elided())).unwrap_err();
    assert_eq!(error.problem, VerifyProblem::Signature(gate()));

    // Each part of what is signed, changed in the record, with the signature of the original.
    let (_, records) = verify(&honest).unwrap();
    let Content::Checkpoint(original) = &records[2].content else { panic!("a checkpoint") };
    let mut more = original.clone();
    more.elided.count(Reason::Other);
    let later = pilot_core::value::Time::from_unix(NOW.unix() + 1);
    let forge = |steps: usize, time, content| {
        let mut chain = Chain::new();
        let mut bytes = chain.append(NOW, Content::Open(open())).unwrap();
        for _ in 0..steps {
            bytes.extend(chain.append(NOW, Content::Step(Box::new(accepted()))).unwrap());
        }
        bytes.extend(chain.append(time, content).unwrap());
        verify(&bytes).map(drop).map_err(|error| error.problem)
    };
    assert_eq!(forge(1, NOW, Content::Checkpoint(original.clone())), Ok(()));
    let closed = |continues| Content::Close { checkpoint: original.clone(), continues };
    for (what, steps, time, content) in [
        ("the counts", 1, NOW, Content::Checkpoint(more)),
        ("the time", 1, later, Content::Checkpoint(original.clone())),
        ("the steps before", 2, NOW, Content::Checkpoint(original.clone())),
        ("the kind", 1, NOW, closed(true)),
        ("the kind", 1, NOW, closed(false)),
    ] {
        assert_eq!(forge(steps, time, content), Err(VerifyProblem::Signature(gate())), "{what}");
    }
}

/// A damaged length is not taken for a record that was being written when the device stopped.
#[test]
fn a_wrong_length_is_no_torn_record() {
    let records = small();
    let unfinished = &records[2][..records[2].len() - 1];
    assert_eq!(Rest::of(unfinished), Ok(Rest::Torn(unfinished.len() as u64)));
    let inside = [unfinished, &records[3]].concat();
    assert_eq!(Rest::of(&inside), Err(FrameProblem::Length));
    // Something that only looks like a record is part of an unfinished one.
    let mut lookalike = records[3].clone();
    lookalike[40] ^= 1;
    let inside = [&[0x83, 0x58, 0x20][..], &[0; 32], &[0x59, 0xff, 0xff], &lookalike].concat();
    assert!(matches!(Rest::of(&inside), Ok(Rest::Torn(_))));
    // Unless there are so many that looking at all of them would take forever.
    let nested = [[0x83, 0x58, 0x20].as_slice(), &[0x58; 32], &[0x59, 0x58, 0x58]].concat().repeat(20_000);
    let began = std::time::Instant::now();
    let _ = Rest::of(&nested);
    assert!(began.elapsed().as_secs() < 5);
}

/// A frame whose hash fits says nothing about what came before; the chain does.
#[test]
fn a_step_cannot_be_invented() {
    let records = small();
    let mut chain = Chain::resume(Frame::first(&records[1]).unwrap().unwrap().hash, 2);
    let invented =
        chain.append(NOW, Content::Step(Box::new(step(Location::S0, accepted().action, Location::S1)))).unwrap();
    let mut changed = records.clone();
    changed[2] = invented;
    let error = verify(&changed.concat()).unwrap_err();
    assert_eq!((error.record, error.problem), (3, VerifyProblem::Previous));
}

/// A device that leaves a number out, whatever its reason, is found out although its chain and signatures are right.
#[test]
fn numbers_have_no_gap() {
    let mut chain = Chain::new();
    let mut bytes = chain.append(NOW, Content::Open(open())).unwrap();
    let mut chain = Chain::resume(chain.head(), 2);
    bytes.extend(chain.checkpoint(NOW, &gate(), Elided::default(), &signer()).unwrap());
    let error = verify(&bytes).unwrap_err();
    assert_eq!((error.record, error.problem), (1, VerifyProblem::Sequence(2)));
    // Nor can a trace begin in the middle and say that nothing was before.
    let beginning = Chain::resume(Chain::new().head(), 3).append(NOW, Content::Open(open())).unwrap();
    assert_eq!(verify(&beginning).unwrap_err().problem, VerifyProblem::Beginning);
}
