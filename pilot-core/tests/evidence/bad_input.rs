//! Bad input is refused with a sentence, also when somebody signed it: no crash, no stall, one byte form.

use std::sync::LazyLock;

use pilot_core::evidence::cose::{self, Domain, Signed};
use pilot_core::evidence::envelope::{Arrival, MessageId, Receiver, Sender};
use pilot_core::evidence::{Envelope, MeshDraft, MeshFile, PolicyStatement};

use super::fixture::{GATE, LIBRARY, NOW, draft, gate, mesh, name, statement};
use super::support::fuzz_bodies::refused;
use super::support::mutator::fuzz;

static MESH: LazyLock<MeshFile> = LazyLock::new(mesh);

fn envelope() -> Envelope {
    Envelope {
        sender: Sender::Device(name(GATE)),
        receiver: Receiver::Everyone,
        topic: "t".into(),
        id: MessageId([7; 16]),
        time: NOW,
        head: None,
        message: b"message".to_vec(),
    }
}

/// A statement that its device signed, whatever it is.
fn statement_body(payload: &[u8]) -> bool {
    // As it is: a signature that nobody made.
    assert!(PolicyStatement::open(payload, &MESH, MESH.vocabulary(), NOW).is_err());
    let bytes = cose::sign(Domain::PolicyStatement, payload, &gate());
    match PolicyStatement::open(&bytes, &MESH, MESH.vocabulary(), NOW) {
        Ok(statement) => {
            assert_eq!(statement.sign(MESH.vocabulary(), &gate()), bytes, "one byte form per statement");
            true
        }
        Err(error) => refused(&error),
    }
}

/// An envelope that its sender signed, whatever it is.
fn envelope_body(payload: &[u8]) -> bool {
    let receiver = Receiver::Everyone;
    let arrival = Arrival { mesh: &MESH, topic: "t", receiver: &receiver, anonymous_allowed: true, now: NOW };
    assert!(Envelope::open(payload, &arrival).is_err());
    let bytes = cose::sign(Domain::Envelope, payload, &gate());
    match Envelope::open(&bytes, &arrival) {
        Ok(envelope) => {
            assert_eq!(envelope.sign(&gate()).as_ref(), Ok(&bytes), "one byte form per envelope");
            true
        }
        Err(error) => refused(&error),
    }
}

/// A mesh file that its operator wrote by hand.
fn mesh_body(text: &[u8]) -> bool {
    match MeshDraft::from_toml(&String::from_utf8_lossy(text)) {
        Ok(draft) => {
            let text = draft.to_toml().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(MeshDraft::from_toml(&text), Ok(draft));
            true
        }
        Err(error) => refused(&error),
    }
}

fn payload(bytes: &[u8]) -> Vec<u8> {
    Signed::read(bytes, usize::MAX).unwrap().payload.to_vec()
}

const CBOR_WORDS: [&str; 8] = ["\u{0}", "\u{1}", "\u{18}", "\u{1a}", "\u{1b}", "egates", "aA", "@"];

#[test]
fn fuzzed_statements() {
    let seed = payload(&statement(MESH.vocabulary()).sign(MESH.vocabulary(), &gate()));
    fuzz("statement", &[seed], &CBOR_WORDS, statement_body);
}

#[test]
fn fuzzed_envelopes() {
    let seed = payload(&envelope().sign(&gate()).unwrap());
    fuzz("envelope", &[seed], &[LIBRARY, GATE, CBOR_WORDS[1], CBOR_WORDS[2], CBOR_WORDS[4]], envelope_body);
}

#[test]
fn fuzzed_mesh_files() {
    let words =
        ["[[devices]]\n", "[vocabulary]\n", "extends = \"default\"\n", "revoked = 2026-01-01\n", "\"", "#", "= 7"];
    fuzz("mesh", &[draft().to_toml().unwrap().into()], &words, mesh_body);
}
