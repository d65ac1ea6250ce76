//! A record has one byte form; a stream may come in any pieces.

use pilot_core::evidence::trace::chain::TooLarge;
use pilot_core::evidence::trace::frame::{FrameProblem, Rest};
use pilot_core::evidence::trace::verify::{End, VerifyProblem};
use pilot_core::evidence::trace::{
    BodyProblem, Chain, Content, Elided, Frame, MAX_BODY_BYTES, MAX_GRAPHS, Reason, Record, Verifier,
};
use pilot_core::graph::{Guard, Location};

use super::samples::{
    NOW, accepted, contents, device, elided, gate, lengths, open, signer, small, step, verify, verify_files,
};

/// Each record, read again, is the same; and its kind and label are those it had.
#[test]
fn records_round_trip() {
    let mut chain = Chain::new();
    let mut bytes = Vec::new();
    for content in contents() {
        bytes.extend(chain.append(NOW, content).unwrap());
    }
    bytes.extend(chain.checkpoint(NOW, &gate(), elided(), &signer()).unwrap());
    bytes.extend(chain.close(NOW, &gate(), Elided::default(), false, &signer()).unwrap());
    let (standing, records) = verify(&bytes).unwrap();
    assert_eq!((standing.end, standing.open_records, standing.head), (End::Closed, 0, chain.head()));
    assert_eq!((standing.records, chain.next_sequence()), (records.len() as u64, records.len() as u64));
    for (sequence, (record, content)) in records.iter().zip(contents()).enumerate() {
        assert_eq!((record.sequence, record.time, &record.content), (sequence as u64, NOW, &content));
    }
    let Content::Checkpoint(checkpoint) = &records[records.len() - 2].content else { panic!("a checkpoint") };
    assert_eq!(checkpoint.elided, elided());
    let expected = Reason::ALL.into_iter().zip(0..).skip(1);
    assert!(checkpoint.elided.iter().eq(expected), "no reason with a count of zero");
}

/// The bytes that `docs/trace-format.md` shows.
#[test]
fn the_picture_is_true() {
    let mut chain = Chain::new();
    let bytes = chain
        .append(
            NOW,
            Content::Step(Box::new(step(Location::S3, pilot_core::evidence::trace::Action::Tau, Location::S2))),
        )
        .unwrap();
    let body = b"\x89\x02\x00\x1a\x6a\x1c\xcb\x80\x00\x00\x03\x81\x04\x02\x80";
    assert_eq!(bytes[..35], [&[0x83, 0x58, 0x20][..], &[0; 32]].concat());
    assert_eq!(bytes[35..36 + body.len()], [&[0x40 + body.len() as u8], &body[..]].concat());
    assert_eq!(bytes[36 + body.len()..38 + body.len()], [0x58, 0x20]);
    assert_eq!(bytes[38 + body.len()..], chain.head().0);
}

#[test]
fn a_stream_comes_in_any_pieces() {
    let records = small();
    let expected: Vec<usize> = records.iter().map(Vec::len).collect();
    let bytes = records.concat();
    for piece in 1..=bytes.len() {
        assert_eq!(lengths(&bytes, piece), (expected.clone(), Rest::Nothing), "{piece}");
    }
}

/// Other ways to write the same body, and bodies that are none.
#[test]
fn only_one_form_is_read() {
    let bytes = Record { sequence: 5, time: NOW, content: Content::Step(Box::new(accepted())) }.to_bytes();
    assert!(Record::from_bytes(&bytes).is_ok());
    let refused = |what: &str, bytes: &[u8]| Record::from_bytes(bytes).expect_err(what).problem;
    let not_canonical = [
        ("a longer number", [&bytes[..2], &[0x18, 5], &bytes[3..]].concat()),
        ("a byte at the end", [&bytes[..], &[0]].concat()),
    ];
    for (what, bytes) in not_canonical {
        assert_eq!(refused(what, &bytes), BodyProblem::NotCanonical, "{what}");
    }
    let open = Record { sequence: 0, time: NOW, content: Content::Open(open()) }.to_bytes();
    let at = 1 + 1 + 1 + 5;
    assert_eq!(refused("version", &[&open[..at], &[2], &open[at + 1..]].concat()), BodyProblem::Version(2));
    for cut in 0..bytes.len() {
        assert!(matches!(refused("cut", &bytes[..cut]), BodyProblem::Malformed(_)), "{cut}");
    }
}

/// A record with more than can be read again is not written, and the chain is where it was.
#[test]
fn what_is_too_large_is_not_appended() {
    let mut chain = Chain::new();
    let mut much = open();
    much.graphs = vec![much.graphs[0]; MAX_GRAPHS + 1];
    assert_eq!(chain.append(NOW, Content::Open(much)), Err(TooLarge));
    assert_eq!(chain, Chain::new());
}

#[test]
fn frames_are_strict() {
    let frame = &small()[3][..];
    assert!(Frame::first(frame).unwrap().is_some_and(|frame| frame.is_intact()));
    let with = |at: usize, bytes: &[u8]| [&frame[..at], bytes, &frame[at + bytes.len()..]].concat();
    let length = frame[35] - 0x40;
    for (bytes, problem) in [
        (with(0, &[0x84]), FrameProblem::NoRecord),
        (with(1, &[0x78]), FrameProblem::NoRecord),
        (with(2, &[0x21]), FrameProblem::NoRecord),
        (with(35, &[0x5f]), FrameProblem::Body),
        (with(35, &[0x60]), FrameProblem::Body),
        ([&frame[..35], &[0x58, length], &frame[36..]].concat(), FrameProblem::Body),
        (with(35, &[[0x5a].as_slice(), &(MAX_BODY_BYTES as u32 + 1).to_be_bytes()].concat()), FrameProblem::TooLarge),
        (with(35, &[0x41]), FrameProblem::NoHash),
    ] {
        assert_eq!(Frame::first(&bytes), Err(problem));
    }
}

/// A trace in several files: each but the last says that it goes on, and the next one continues the chain.
#[test]
fn files_follow_each_other() {
    let mut chain = Chain::new();
    let file = |chain: &mut Chain, continues: Option<bool>| {
        let mut bytes = chain.append(NOW, Content::Open(open())).unwrap();
        if let Some(continues) = continues {
            bytes.extend(chain.close(NOW, &gate(), Elided::default(), continues, &signer()).unwrap());
        }
        bytes
    };
    let (first, second) = (file(&mut chain, Some(true)), file(&mut chain, Some(true)));
    let (last, after) = (file(&mut chain, Some(false)), file(&mut chain, None));
    let end = |files: &[&[u8]]| verify_files(files).map(|(standing, _)| standing.end).map_err(|error| error.problem);
    assert_eq!(end(&[&first, &second, &last]), Ok(End::Closed));
    assert_eq!(end(&[&first, &second]), Ok(End::Continues), "the last file is missing");
    assert_eq!(end(&[&first, &last]), Err(VerifyProblem::Previous), "one in the middle is missing");
    assert_eq!(end(&[&second, &first]), Err(VerifyProblem::Previous));
    assert_eq!(end(&[&first, &first]), Err(VerifyProblem::Previous));
    assert_eq!(end(&[&first, &second, &last, &after]), Err(VerifyProblem::NotContinued));
    // The device was started again, in the same file.
    let (standing, _) = verify_files(&[&first, &second, &[last.clone(), after].concat()]).unwrap();
    assert_eq!((standing.end, standing.open_records), (End::Open, 1));
    // Without the first files, it is said where the trace begins.
    let (standing, _) = verify_files(&[&second, &last]).unwrap();
    assert_eq!((standing.end, standing.first, standing.records), (End::Closed, 2, 4));
    assert_eq!(end(&[&[first.clone(), second].concat()]), Err(VerifyProblem::AfterClose));
    assert_eq!(end(&[]), Ok(End::Empty));
    assert_eq!(end(&[&first[..first.len() - 1], &last]), Err(VerifyProblem::AfterTorn));
}

/// A trace opens before it does anything else, and stays that of one device.
#[test]
fn kinds_come_in_their_order() {
    let tau = || Content::Step(Box::new(accepted()));
    let verify_contents = |contents: Vec<Content>| {
        let mut chain = Chain::new();
        let bytes: Vec<u8> = contents.into_iter().flat_map(|content| chain.append(NOW, content).unwrap()).collect();
        verify(&bytes).map(|(standing, _)| standing.end).map_err(|error| error.problem)
    };
    let mut other = open();
    other.device = device("shop-gate");
    let mut elsewhere = accepted();
    elsewhere.graph = 2;
    assert_eq!(verify_contents(vec![Content::Open(open()), tau()]), Ok(End::Open));
    assert_eq!(verify_contents(vec![tau()]), Err(VerifyProblem::NotOpen));
    let problem = verify_contents(vec![Content::Open(other.clone())]);
    assert_eq!(problem, Err(VerifyProblem::UnknownKey(device("shop-gate"))));
    let problem = verify_contents(vec![Content::Open(open()), Content::Step(Box::new(elsewhere))]);
    assert_eq!(problem, Err(VerifyProblem::Graph(2)));

    let mut chain = Chain::new();
    let bytes = [open(), other].map(|open| chain.append(NOW, Content::Open(open)).unwrap()).concat();
    let key = pilot_core::evidence::Signer::verifying_key(&signer());
    let error = Verifier::new(|_| Some(key)).file(&bytes, |_, _| {}).unwrap_err();
    assert_eq!(error.problem, VerifyProblem::Device(gate(), device("shop-gate")));

    let closed = small().concat();
    let mut chain = Chain::resume(verify(&closed).unwrap().0.head, 7);
    let more = chain.append(NOW, tau()).unwrap();
    assert_eq!(verify(&[closed, more].concat()).unwrap_err().problem, VerifyProblem::NotOpen);
}

/// Every reason has its own word, and the guards of Fig. 4c have theirs.
#[test]
fn reasons_are_apart() {
    let names: std::collections::BTreeSet<_> = Reason::ALL.iter().map(|reason| reason.name()).collect();
    assert_eq!(names.len(), Reason::ALL.len());
    assert!(Reason::ALL.iter().enumerate().all(|(at, reason)| *reason as usize == at));
    assert_eq!(Reason::of(Guard::AddressedToMe), Reason::NotAddressed);
    assert_eq!(Reason::of(Guard::NotYetHeld), Reason::AlreadyHeld);
}
