//! `docs/protocol.md` and the code say the same: its test vectors are what the code makes, and the code opens them.
//!
//! A vector is a fenced block whose first line says a kind and a name. Blocks of the kind `hex` hold digits, with spaces and
//! comments after `;` to be left out; all others hold text, to the byte.

#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use ed25519_dalek::SigningKey;
use mesh_runtime::air::Address;
use mesh_runtime::keys::SecretKeys;
use mesh_runtime::link::{MAX_PACKET_BYTES, MAX_TOPIC_BYTES as MAX_LINK_TOPIC_BYTES, Topic};
use mesh_runtime::mesh_file::{MAX_SIGNATURE_FILE_BYTES, parse_signatures};
use mesh_runtime::protocol::message::{MAX_STATEMENTS_BYTES, Message, Refusal};
use mesh_runtime::protocol::sealed::{MAX_SEALED_BYTES, Notice};
use mesh_runtime::protocol::{changes_topic, device_topic, subject_topic};
use pilot_core::codec;
use pilot_core::evidence::cose::Domain;
use pilot_core::evidence::envelope::{
    self, Arrival, ChainHead, FRESHNESS_WINDOW, MAX_ENVELOPE_BYTES, MAX_MESSAGE_BYTES, MessageId, Receiver, Sender,
};
use pilot_core::evidence::mesh::{CLOCK_TOLERANCE, FrameTag, MAX_DEVICES, MAX_MESH_BYTES, MeshDraft, sign_mesh};
use pilot_core::evidence::statement::{Content, MAX_STATEMENT_BYTES};
use pilot_core::evidence::{
    DeviceName, Envelope, MeshFile, PolicyStatement, Signature, Signer, StatementId, VerifyingKey,
};
use pilot_core::graph::message::Withdrawal;
use pilot_core::name::MAX_NAME_BYTES;
use pilot_core::policy::{Choice, MAX_POLICY_BYTES, Policy};
use pilot_core::semantics::Epoch;
use pilot_core::syntax::parse_file;
use pilot_core::value::Time;
use pilot_core::vocabulary::Vocabulary;

const DOCUMENT: &str = include_str!("../../docs/protocol.md");

/// 2026-06-01, the moment of all vectors.
const NOW: Time = Time::from_unix(1_780_272_000);
const GATE: &str = "mall-gate#basic";
const LIBRARY: &str = "library";
const GATE_TAG: FrameTag = FrameTag(*b"gate");
const LIBRARY_TAG: FrameTag = FrameTag(*b"libr");
/// Where the secrets of each party begin; a secret is 32 bytes that count up.
const OPERATOR_SECRET: u8 = 0x00;
const GATE_SECRET: u8 = 0x40;
const LIBRARY_SECRET: u8 = 0x80;
const CONNECTION_SECRET: u8 = 0xc0;
const CONSENT_SECRET: u8 = 0xe0;
const UPLOAD: MessageId = MessageId([0x11; 16]);
const FETCH: MessageId = MessageId([0x22; 16]);
const WITHDRAW: MessageId = MessageId([0x33; 16]);

/// The text of a block.
fn block(kind: &str, name: &str) -> &'static str {
    let opening = format!("\n```{kind} {name}\n");
    let (_, rest) = DOCUMENT.split_once(&opening).unwrap_or_else(|| panic!("no block `{kind} {name}`"));
    assert!(!rest.contains(&opening), "two blocks `{kind} {name}`");
    let end = rest.find("\n```").unwrap_or_else(|| panic!("no end of `{name}`"));
    &rest[..=end]
}

/// The bytes of a block of the kind `hex`.
fn bytes(name: &str) -> Vec<u8> {
    let digits = block("hex", name).lines().map(|line| line.split(';').next().unwrap_or_default());
    let digits: Vec<char> = digits.flat_map(str::chars).filter(|character| !character.is_whitespace()).collect();
    assert!(digits.len().is_multiple_of(2), "`{name}` has half a byte");
    let byte = |pair: &[char]| u8::from_str_radix(&String::from_iter(pair), 16);
    digits.chunks(2).map(|pair| byte(pair).unwrap_or_else(|_| panic!("`{name}` has {pair:?}"))).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn secret(first: u8) -> SigningKey {
    SigningKey::from_bytes(&std::array::from_fn(|at| first + at as u8))
}

fn public(first: u8) -> VerifyingKey {
    Signer::verifying_key(&secret(first))
}

fn name(text: &str) -> DeviceName {
    DeviceName::new(text).unwrap()
}

fn mesh() -> MeshFile {
    let signatures = parse_signatures(block("text", "mesh.toml.sig")).unwrap();
    MeshFile::open(block("toml", "mesh.toml"), &signatures[0], &public(OPERATOR_SECRET), NOW, None).unwrap()
}

fn policy(block_name: &str, vocabulary: &Vocabulary) -> Policy {
    let file = parse_file(block("pilot", block_name), vocabulary).unwrap_or_else(|error| panic!("{error}"));
    file.policies[0].choice.policy().cloned().unwrap()
}

/// What the gate states in the vectors.
fn stated() -> Vec<u8> {
    let mesh = mesh();
    statement(3, Content::Policy(policy("policy", mesh.vocabulary())), mesh.vocabulary())
}

fn statement(version: u64, content: Content, vocabulary: &Vocabulary) -> Vec<u8> {
    let entity = vocabulary.entities.id("gates").unwrap();
    let (issued, expires) = (Time::from_unix(NOW.unix() - 60), Time::from_unix(NOW.unix() + 30 * 86_400));
    let statement = PolicyStatement { device: name(GATE), entity, version, content, issued, expires };
    statement.sign(vocabulary, &secret(GATE_SECRET))
}

/// The notice of the vectors, not signed.
fn notice() -> Notice {
    let withdrawal = Withdrawal { epoch: Epoch::of(NOW), until: Time::from_unix(1_798_761_600) };
    Notice { item: Address::new([0xc0, 0xff, 0xee, 0x12, 0x34, 0x56]), withdrawal, signature: None }
}

/// The messages of the vectors.
fn messages() -> BTreeMap<&'static str, Message> {
    let refused = |reason| Message::Refused { request: UPLOAD, reason };
    BTreeMap::from([
        ("message-upload", Message::Upload { statement: stated() }),
        ("message-uploaded", Message::Uploaded { request: UPLOAD, version: 3, revision: 500 }),
        ("message-fetch", Message::Fetch { since: 0 }),
        (
            "message-policies",
            Message::Policies { request: FETCH, since: 0, until: 500, head: 501, statements: vec![stated()] },
        ),
        ("message-changed", Message::Changed { revision: 501 }),
        ("message-withdraw", Message::Withdraw { sealed: bytes("sealed-notice") }),
        ("message-withdrawn", Message::Withdrawn { request: WITHDRAW }),
        ("message-refused-0", refused(Refusal::Malformed)),
        ("message-refused-1", refused(Refusal::NotAllowed)),
        ("message-refused-2", refused(Refusal::Statement)),
        ("message-refused-3", refused(Refusal::NotHigher { stored: 7 })),
        ("message-refused-4", refused(Refusal::Busy { retry_after: 5 })),
        ("message-refused-5", refused(Refusal::OutOfOrder)),
        ("message-refused-6", refused(Refusal::NotTheOwner)),
    ])
}

/// The envelopes of the vectors: from whom with which secret, to whom, with which id and message.
fn envelopes() -> BTreeMap<&'static str, (Envelope, u8)> {
    let device = |text| (Sender::Device(name(text)), Receiver::Device(name(text)));
    let ((gate, _), (library, to_library), (_, to_gate)) = (device(GATE), device(LIBRARY), device(GATE));
    let subject = public(CONNECTION_SECRET);
    let messages = messages();
    let envelope = |sender, receiver, topic: Topic, id, message: &str| {
        let (topic, head) = (topic.as_str().to_owned(), None);
        Envelope { sender, receiver, topic, id, time: NOW, head, message: messages[message].encode() }
    };
    let at_library = device_topic(LIBRARY_TAG).unwrap();
    let at_subject = subject_topic(&subject).unwrap();
    let mut upload = envelope(gate, to_library.clone(), at_library.clone(), UPLOAD, "message-upload");
    upload.head = Some(ChainHead([0x55; 32]));
    let fetch = envelope(Sender::Anonymous(subject), to_library, at_library, FETCH, "message-fetch");
    let answer = MessageId([0x44; 16]);
    let policies = envelope(library.clone(), Receiver::Anonymous(subject), at_subject, answer, "message-policies");
    let changes = changes_topic(LIBRARY_TAG).unwrap();
    let changed = envelope(library, Receiver::Everyone, changes, answer, "message-changed");
    let at_gate = device_topic(GATE_TAG).unwrap();
    let withdraw = envelope(Sender::Anonymous(subject), to_gate, at_gate, WITHDRAW, "message-withdraw");
    BTreeMap::from([
        ("envelope-upload", (upload, GATE_SECRET)),
        ("envelope-fetch", (fetch, CONNECTION_SECRET)),
        ("envelope-policies", (policies, LIBRARY_SECRET)),
        ("envelope-changed", (changed, LIBRARY_SECRET)),
        ("envelope-withdraw", (withdraw, CONNECTION_SECRET)),
    ])
}

/// Every vector in digits, made by the code; of the sealed notice, which is random, what the document has.
fn vectors() -> BTreeMap<&'static str, Vec<u8>> {
    let mesh = mesh();
    let vocabulary = mesh.vocabulary();
    let mut vectors = BTreeMap::new();
    for of in ["policy", "policy-conditions"] {
        vectors.insert(of, codec::encode(&Choice::Policy(policy(of, vocabulary)), vocabulary));
    }
    vectors.insert("policy-digest", codec::digest(&Choice::Policy(policy("policy", vocabulary)), vocabulary).0.into());
    vectors.insert("statement-signed-bytes", signed_bytes(b"consent-mesh policy statement", &stated()));
    vectors.insert("statement-id", StatementId::of(&stated()).0.into());
    vectors.insert("statement", stated());
    vectors.insert("statement-withdrawal", statement(4, Content::Withdrawal, vocabulary));
    vectors.extend(messages().into_iter().map(|(name, message)| (name, message.encode())));
    vectors.extend(
        envelopes().into_iter().map(|(name, (envelope, first))| (name, envelope.sign(&secret(first)).unwrap())),
    );
    vectors.insert("sealed-notice", bytes("sealed-notice"));
    vectors.insert("notice-signed-bytes", notice_signed_bytes());
    let signed = notice().sign(GATE_TAG, &secret(CONSENT_SECRET));
    vectors.insert("notice-signature", signed.signature.unwrap().signature.into());
    vectors
}

/// The `Sig_structure` of a COSE_Sign1 in our form, put together by hand; the signature is over it.
fn signed_bytes(domain: &[u8], sealed: &[u8]) -> Vec<u8> {
    let payload_and_head = &sealed[6..sealed.len() - 66];
    let domain_head = [0x58, domain.len() as u8];
    [&[0x84, 0x6a], &b"Signature1"[..], &[0x43, 0xa1, 0x01, 0x32], &domain_head, domain, payload_and_head].concat()
}

/// What the key of a consent signs to take it back, put together by hand.
fn notice_signed_bytes() -> Vec<u8> {
    let (item, epoch, until) = ([0xc0, 0xff, 0xee, 0x12, 0x34, 0x56], 27_816_750_u64, 1_798_761_600_u64);
    [&b"consent-mesh/withdraw/1\0"[..], &GATE_TAG.0, &item, &epoch.to_be_bytes(), &until.to_be_bytes()].concat()
}

/// What the document shows is what the code makes, byte by byte, and it shows nothing else.
#[test]
fn vectors_are_what_the_code_makes() {
    let made = vectors();
    for (name, made) in &made {
        assert_eq!(hex(&bytes(name)), hex(made), "`{name}`");
    }
    let shown = DOCUMENT.lines().filter_map(|line| line.strip_prefix("```hex "));
    for shown in shown {
        assert!(made.contains_key(shown), "nobody makes `{shown}`");
    }
}

/// What is signed has the signature at its end; so the two pictures of signed bytes are right.
#[test]
fn signed_bytes_are_signed() {
    let stated = bytes("statement");
    let signature = Signature(stated[stated.len() - 64..].try_into().unwrap());
    assert!(public(GATE_SECRET).verifies(&bytes("statement-signed-bytes"), &signature));
    let signature = Signature(bytes("notice-signature").try_into().unwrap());
    assert!(public(CONSENT_SECRET).verifies(&bytes("notice-signed-bytes"), &signature));
}

/// The operator's signature is the one that the code makes, and the mesh file says what the document says about it.
#[test]
fn the_mesh_file_opens() {
    let text = block("toml", "mesh.toml");
    assert_eq!(block("text", "mesh.toml.sig"), format!("{}\n", sign_mesh(text, &secret(OPERATOR_SECRET))));
    let mesh = mesh();
    assert_eq!(mesh.device(GATE).unwrap().tag, GATE_TAG);
    assert_eq!(mesh.device(GATE).unwrap().signing_key, public(GATE_SECRET));
    assert_eq!(mesh.device(LIBRARY).unwrap().tag, LIBRARY_TAG);
    assert_eq!(mesh.device(LIBRARY).unwrap().signing_key, public(LIBRARY_SECRET));
}

/// Key files have the form that is shown, and the keys of the mesh file are theirs.
fn key_file(of: &str) -> SecretKeys {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(of);
    fs::write(&path, block("text", of)).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    SecretKeys::load(&path).unwrap()
}

#[test]
fn key_files_have_the_form_that_is_shown() {
    let keys = key_file("gate.key").public();
    assert_eq!(keys.signing, public(GATE_SECRET));
    assert_eq!(mesh().device(GATE).unwrap().sealing_key, keys.sealing);
}

/// The statements open, and say what the document says.
#[test]
fn statements_open() {
    let mesh = mesh();
    let open = |block| PolicyStatement::open(&bytes(block), &mesh, mesh.vocabulary(), NOW).unwrap();
    let stated = open("statement");
    assert_eq!((stated.device.as_str(), stated.version), (GATE, 3));
    assert_eq!(stated.content, Content::Policy(policy("policy", mesh.vocabulary())));
    assert_eq!(open("statement-withdrawal").content, Content::Withdrawal);
}

/// Each envelope opens where it is for, and has the message that the document says.
#[test]
fn envelopes_open() {
    let mesh = mesh();
    for (block, (envelope, _)) in envelopes() {
        let anonymous_allowed = matches!(envelope.sender, Sender::Anonymous(_));
        let (topic, receiver) = (envelope.topic.as_str(), &envelope.receiver);
        let arrival = Arrival { mesh: &mesh, topic, receiver, anonymous_allowed, now: NOW };
        let opened = Envelope::open(&bytes(block), &arrival);
        assert_eq!(opened.as_ref(), Ok(&envelope), "{block}");
        Message::decode(&envelope.message).unwrap_or_else(|error| panic!("{block}: {error}"));
    }
}

/// The topics of the document are those of the code.
#[test]
fn topics_are_as_shown() {
    let subject = public(CONNECTION_SECRET);
    let topics = [device_topic(LIBRARY_TAG), subject_topic(&subject), changes_topic(LIBRARY_TAG)];
    let topics: String = topics.map(|topic| format!("{}\n", topic.unwrap().as_str())).concat();
    assert_eq!(block("text", "topics"), topics);
}

/// The gate opens the sealed notice with its key file, and finds the notice and its signature.
#[test]
fn the_sealed_notice_opens() {
    let opened = Notice::open(&bytes("sealed-notice"), GATE_TAG, &key_file("gate.key"));
    let signed = notice().sign(GATE_TAG, &secret(CONSENT_SECRET));
    assert_eq!(opened.as_ref(), Ok(&signed));
    assert!(opened.unwrap().is_signed_by(public(CONSENT_SECRET).as_bytes(), GATE_TAG));
}

/// A number as the document writes it: 65,536.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().map(|group| str::from_utf8(group).unwrap()).collect();
    groups.join(",")
}

/// The table of limits has the numbers of the code.
#[test]
fn limits_are_as_shown() {
    let g = grouped;
    let rows = [
        format!("| name | {} |", g(MAX_NAME_BYTES)),
        format!("| policy; statement | {}; {} |", g(MAX_POLICY_BYTES), g(MAX_STATEMENT_BYTES)),
        format!(
            "| topic in an envelope; of our links | {}; {} |",
            g(envelope::MAX_TOPIC_BYTES),
            g(MAX_LINK_TOPIC_BYTES)
        ),
        format!(
            "| message; envelope; MQTT packet | {}; {}; {} |",
            g(MAX_MESSAGE_BYTES),
            g(MAX_ENVELOPE_BYTES),
            g(MAX_PACKET_BYTES)
        ),
        format!("| statements in one part of a download | {}, or one statement |", g(MAX_STATEMENTS_BYTES)),
        format!("| sealed notice | {} |", g(MAX_SEALED_BYTES)),
        format!(
            "| mesh file; signature file; devices in a mesh file | {}; {}; {} devices |",
            g(MAX_MESH_BYTES),
            g(MAX_SIGNATURE_FILE_BYTES),
            g(MAX_DEVICES)
        ),
        format!(
            "`issued` at most {CLOCK_TOLERANCE} s ahead, `time` of an envelope at most {FRESHNESS_WINDOW} s either way"
        ),
    ];
    for row in rows {
        assert!(DOCUMENT.contains(&row), "the document does not say `{row}`");
    }
}

/// The table of versions has the words of the code, and the domains are those that are signed.
#[test]
fn words_are_as_shown() {
    let mut other = Message::Fetch { since: 0 }.encode();
    other[1] = 2;
    let form = Message::decode(&other).unwrap_err().to_string();
    let mesh = block("toml", "mesh.toml").replace("version = 1", "version = 2");
    let mesh = MeshDraft::from_toml(&mesh).unwrap_err().problem.to_string();
    let domains = [Domain::MeshFile, Domain::PolicyStatement, Domain::Envelope, Domain::TraceCheckpoint];
    let domains = domains.map(|domain| String::from_utf8(domain.external_aad().to_vec()).unwrap());
    for words in domains.iter().chain([&form, &mesh]) {
        assert!(DOCUMENT.contains(&format!("`{words}`")), "the document does not say `{words}`");
    }
}
