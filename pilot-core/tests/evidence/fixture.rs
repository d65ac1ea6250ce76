//! A small mesh: a mall with a gate, a shop with a counter, and a library that is the repository.

use ed25519_dalek::SigningKey;
use pilot_core::evidence::mesh::{FrameTag, Role, sign_mesh};
use pilot_core::evidence::statement::Content;
use pilot_core::evidence::{
    DeviceName, MeshDevice, MeshDraft, MeshFile, PolicyStatement, SealingKey, Signer, VerifyingKey,
};
use pilot_core::policy::{Choice, Policy};
use pilot_core::syntax::parse_file;
use pilot_core::value::Time;
use pilot_core::vocabulary::{Declarations, Vocabulary};

pub(crate) const VOCABULARY: &str = r#"
[entities]
mall = []
gates = ["mall"]
shop = []
[datatypes]
address = []
[purposes]
ads = []
[attributes]
age = "number"
"#;

/// 2026-06-01.
pub(crate) const NOW: Time = Time::from_unix(1_780_272_000);
pub(crate) const DAY: u64 = 86_400;

pub(crate) const GATE: &str = "mall-gate#basic";
pub(crate) const COUNTER: &str = "shop-counter";
pub(crate) const LIBRARY: &str = "library";

/// The secret key of a seed; each party has its own.
pub(crate) fn secret(seed: u8) -> SigningKey {
    SigningKey::from_bytes(&[seed; 32])
}

pub(crate) fn operator() -> SigningKey {
    secret(1)
}

pub(crate) fn gate() -> SigningKey {
    secret(2)
}

pub(crate) fn library() -> SigningKey {
    secret(4)
}

/// A subject's key, made for one connection.
pub(crate) fn anonymous() -> SigningKey {
    secret(5)
}

pub(crate) fn public(key: &SigningKey) -> VerifyingKey {
    Signer::verifying_key(key)
}

pub(crate) fn name(text: &str) -> DeviceName {
    DeviceName::new(text).unwrap()
}

/// `NOW` and so many seconds.
pub(crate) fn later(seconds: i64) -> Time {
    Time::from_unix(NOW.unix().checked_add_signed(seconds).unwrap())
}

pub(crate) fn device(device: &str, role: Role, entity: &str, seed: u8) -> MeshDevice {
    MeshDevice {
        name: name(device),
        role,
        entity: entity.into(),
        tag: FrameTag([0xc0, 0xff, 0xee, seed]),
        signing_key: public(&secret(seed)),
        sealing_key: SealingKey::from_bytes(&[seed; 32]).unwrap(),
        valid_from: later(-100 * DAY as i64),
        valid_until: later(100 * DAY as i64),
        revoked: None,
    }
}

pub(crate) fn draft() -> MeshDraft {
    MeshDraft {
        serial: 7,
        issued: later(-60),
        expires: later(30 * DAY as i64),
        next_operator_key: None,
        vocabulary: Declarations::from_toml(VOCABULARY).unwrap(),
        devices: vec![
            device(GATE, Role::Controller, "gates", 2),
            device(COUNTER, Role::Controller, "shop", 3),
            device(LIBRARY, Role::Repository, "mall", 4),
        ],
    }
}

/// The mesh after a change that its operator signed.
pub(crate) fn changed_mesh(change: impl FnOnce(&mut MeshDraft)) -> MeshFile {
    let mut draft = draft();
    change(&mut draft);
    let text = draft.to_toml().unwrap_or_else(|error| panic!("{error}"));
    MeshFile::open(&text, &sign_mesh(&text, &operator()), &public(&operator()), NOW, None).unwrap()
}

pub(crate) fn mesh() -> MeshFile {
    changed_mesh(|_| {})
}

pub(crate) fn policy(text: &str, vocabulary: &Vocabulary) -> Policy {
    let file = parse_file(&format!("policy p {{ {text} }}"), vocabulary).unwrap_or_else(|error| panic!("{error}"));
    match &file.policies[0].choice {
        Choice::Policy(policy) => policy.clone(),
        Choice::Nothing => panic!("`{text}` is a policy"),
    }
}

/// The gate's policy, stated a minute ago.
pub(crate) fn statement(vocabulary: &Vocabulary) -> PolicyStatement {
    PolicyStatement {
        device: name(GATE),
        entity: vocabulary.entities.id("gates").unwrap(),
        version: 3,
        content: Content::Policy(policy("collect address by mall for ads until 2027-01-01", vocabulary)),
        issued: later(-60),
        expires: later(DAY as i64),
    }
}

/// Every way to change bytes a little: each bit turned round, the end cut off anywhere, a byte more at the end.
pub(crate) fn damaged(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    let flipped = (0..8 * bytes.len()).map(|bit| {
        let mut flipped = bytes.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        flipped
    });
    let cut = (0..bytes.len()).map(|end| bytes[..end].to_vec());
    flipped.chain(cut).chain([0x00, 0x0a, 0x20, 0xf6, 0xff].map(|byte| [bytes, &[byte]].concat()))
}
