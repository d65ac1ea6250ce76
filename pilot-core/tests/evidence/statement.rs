//! Policy statements: opened when all is as it should be, and each thing that is not is refused by its name.

use minicbor::Encoder;
use pilot_core::codec;
use pilot_core::evidence::cose::{self, CoseError, Domain};
use pilot_core::evidence::mesh::{CLOCK_TOLERANCE, Invalid};
use pilot_core::evidence::statement::{Content, MAX_STATEMENT_BYTES, StatementError};
use pilot_core::evidence::{FormError, MeshFile, PolicyStatement, StatementId};
use pilot_core::policy::Choice;
use pilot_core::value::Time;
use pilot_core::vocabulary::Vocabulary;
use proptest::prelude::{Strategy as _, any, prop_assert_eq};

use super::fixture::{
    COUNTER, DAY, GATE, LIBRARY, NOW, VOCABULARY, changed_mesh, damaged, gate, later, library, mesh, name, policy,
    secret, statement,
};
use super::support::for_all;

fn open(bytes: &[u8], mesh: &MeshFile, now: Time) -> Result<PolicyStatement, StatementError> {
    PolicyStatement::open(bytes, mesh, mesh.vocabulary(), now)
}

/// The gate signs a changed statement.
fn refusal(change: impl FnOnce(&mut PolicyStatement, &Vocabulary)) -> StatementError {
    let mesh = mesh();
    let mut statement = statement(mesh.vocabulary());
    change(&mut statement, mesh.vocabulary());
    open(&statement.sign(mesh.vocabulary(), &gate()), &mesh, NOW).expect_err("refused")
}

/// Signs these elements as the gate would.
fn signed(elements: impl FnOnce(&mut Encoder<&mut Vec<u8>>)) -> Vec<u8> {
    let mut payload = Vec::new();
    elements(&mut Encoder::new(&mut payload));
    cose::sign(Domain::PolicyStatement, &payload, &gate())
}

#[test]
fn what_is_signed_is_opened() {
    let mesh = mesh();
    let policy = statement(mesh.vocabulary());
    let withdrawal = PolicyStatement { version: 4, content: Content::Withdrawal, ..policy.clone() };
    for statement in [policy, withdrawal] {
        let bytes = statement.sign(mesh.vocabulary(), &gate());
        assert_eq!(open(&bytes, &mesh, NOW), Ok(statement.clone()));
        assert_eq!(bytes, statement.sign(mesh.vocabulary(), &gate()), "signing again gives the same bytes");
        // Whoever knows more words besides opens it as well.
        let local = VOCABULARY.replace("address = []", "address = []\ncity = [\"address\"]");
        let local = Vocabulary::from_toml(&local).unwrap_or_else(|error| panic!("{error}"));
        assert!(PolicyStatement::open(&bytes, &mesh, &local, NOW).is_ok());
    }
}

/// The id is SHA-256 of the exact bytes; computed by a program in another language from the form in the documentation
/// alone.
#[test]
fn a_statement_has_one_id() {
    let mesh = mesh();
    let bytes = statement(mesh.vocabulary()).sign(mesh.vocabulary(), &gate());
    let id = StatementId::of(&bytes);
    assert_eq!(id.to_string(), "101de20faab997f5585d643136af470012148e981bd58089f6e5bdc6e4f09bef");
    assert_ne!(StatementId::of(&bytes[1..]), id);
}

/// One byte form: no bit, no end can be changed.
#[test]
fn a_damaged_statement_is_never_opened() {
    let mesh = mesh();
    let bytes = statement(mesh.vocabulary()).sign(mesh.vocabulary(), &gate());
    for (at, damaged) in damaged(&bytes).enumerate() {
        assert!(open(&damaged, &mesh, NOW).is_err(), "damage {at}");
    }
}

#[test]
fn whose_statement_it_is_must_be_known() {
    let error = refusal(|statement, _| statement.device = name("mall-gate#basik"));
    assert_eq!(
        error.to_string(),
        "a statement of the unknown device `mall-gate#basik`; did you mean `mall-gate#basic`?"
    );
    // Signed by another device of the mesh, or in its name.
    assert_eq!(refusal(|statement, _| statement.device = name(COUNTER)), StatementError::Signature(name(COUNTER)));
    let mesh = mesh();
    let forged = statement(mesh.vocabulary()).sign(mesh.vocabulary(), &secret(3));
    assert_eq!(open(&forged, &mesh, NOW), Err(StatementError::Signature(name(GATE))));
    // A repository has no policies of its own.
    let mut of_the_library = statement(mesh.vocabulary());
    of_the_library.device = name(LIBRARY);
    let bytes = of_the_library.sign(mesh.vocabulary(), &library());
    assert_eq!(open(&bytes, &mesh, NOW), Err(StatementError::NotAController(name(LIBRARY))));
    // An envelope's signature is none of a statement.
    let bytes = statement(mesh.vocabulary()).sign(mesh.vocabulary(), &gate());
    let payload = cose::Signed::read(&bytes, MAX_STATEMENT_BYTES).unwrap().payload;
    let envelope = cose::sign(Domain::Envelope, payload, &gate());
    assert_eq!(open(&envelope, &mesh, NOW), Err(StatementError::Signature(name(GATE))));
}

/// A thief of a revoked key can say any time of issue, so it does not matter.
#[test]
fn the_device_must_be_valid_now() {
    let bytes = statement(mesh().vocabulary()).sign(mesh().vocabulary(), &gate());
    let with = |revoked: Option<i64>, from: i64, until: i64| {
        let mesh = changed_mesh(|draft| {
            draft.devices[0].revoked = revoked.map(later);
            draft.devices[0].valid_from = later(from);
            draft.devices[0].valid_until = later(until);
        });
        open(&bytes, &mesh, NOW)
    };
    let refused = |invalid| Err(StatementError::Device(name(GATE), invalid));
    assert!(with(None, 0, 1).is_ok());
    assert!(with(Some(1), 0, 1).is_ok(), "revoked from the next second on");
    assert_eq!(with(Some(0), -9, 9), refused(Invalid::Revoked(NOW)));
    assert_eq!(with(Some(-9), -9, 9), refused(Invalid::Revoked(later(-9))));
    assert_eq!(with(None, 1, 2), refused(Invalid::NotYet(later(1))));
    assert_eq!(with(None, -1, 0), refused(Invalid::NoLonger(NOW)));
}

#[test]
fn the_statement_must_be_of_now() {
    let tolerance = CLOCK_TOLERANCE as i64;
    let mesh = mesh();
    let with = |issued: Time, expires: Time| {
        let statement = PolicyStatement { issued, expires, ..statement(mesh.vocabulary()) };
        open(&statement.sign(mesh.vocabulary(), &gate()), &mesh, NOW).map(drop)
    };
    assert_eq!(with(later(-9), later(1)), Ok(()));
    assert_eq!(with(later(-9), NOW), Err(StatementError::Expired(name(GATE), NOW)));
    assert_eq!(with(later(tolerance), later(999)), Ok(()));
    let ahead = later(tolerance + 1);
    assert_eq!(with(ahead, later(999)), Err(StatementError::FromTheFuture(name(GATE), ahead)));
    assert_eq!(with(later(5), later(5)), Err(StatementError::Period(name(GATE))));
    assert_eq!(with(Time::from_unix(0), Time::from_unix(u64::MAX)), Ok(()));
}

/// S19: a repository lists a policy only for a device whose entity it names, or a part of it.
#[test]
fn the_policy_must_name_the_devices_entity() {
    let for_shop = "collect address by shop for ads until 2027-01-01";
    let error = refusal(|statement, vocabulary| statement.content = Content::Policy(policy(for_shop, vocabulary)));
    assert!(matches!(error, StatementError::ForeignEntity { .. }));
    assert_eq!(
        error.to_string(),
        "the policy of mall-gate#basic is for `shop`, of which its entity `gates` is no part"
    );
    // The order matters: a device of the mall is not one of its gates.
    let mesh = changed_mesh(|draft| draft.devices[0].entity = "mall".into());
    let mut of_the_mall = statement(mesh.vocabulary());
    of_the_mall.entity = mesh.vocabulary().entities.id("mall").unwrap();
    let for_gates = "collect address by gates for ads until 2027-01-01";
    of_the_mall.content = Content::Policy(policy(for_gates, mesh.vocabulary()));
    let opened = open(&of_the_mall.sign(mesh.vocabulary(), &gate()), &mesh, NOW);
    assert!(matches!(opened, Err(StatementError::ForeignEntity { .. })));

    let error = refusal(|statement, vocabulary| statement.entity = vocabulary.entities.id("shop").unwrap());
    assert_eq!(error.to_string(), "mall-gate#basic belongs to `gates`, and its statement says `shop`");
}

#[test]
fn names_must_be_in_the_vocabulary_in_use() {
    let mesh = mesh();
    let bytes = statement(mesh.vocabulary()).sign(mesh.vocabulary(), &gate());
    let under = |vocabulary: &str| {
        let vocabulary = Vocabulary::from_toml(vocabulary).unwrap();
        PolicyStatement::open(&bytes, &mesh, &vocabulary, NOW).expect_err("refused").to_string()
    };
    assert_eq!(
        under("[entities]\ngate = []\n"),
        "the statement of mall-gate#basic is for the unknown entity `gates`; did you mean `gate`?"
    );
    assert_eq!(
        under("[entities]\ngates = []\n[datatypes]\naddres = []\n"),
        "the policy of mall-gate#basic: byte 10: unknown datatype `address`; did you mean `addres`?"
    );
}

#[test]
fn the_form_must_be_the_one_form() {
    let mesh = mesh();
    let refused = |bytes: &[u8]| open(bytes, &mesh, NOW).expect_err("refused");
    let nothing = codec::encode(&Choice::Nothing, mesh.vocabulary());
    let (issued, expires) = (NOW.unix(), NOW.unix() + DAY);
    let elements = |length: u64, version: u8, content: &[u8], rest: &[u64]| {
        signed(|out| {
            out.array(length).unwrap().u8(version).unwrap().str(GATE).unwrap().str("gates").unwrap();
            out.u64(1).unwrap().bytes(content).unwrap();
            for number in rest {
                out.u64(*number).unwrap();
            }
        })
    };
    // S21.
    assert_eq!(refused(&elements(7, 1, &nothing, &[issued, expires])), StatementError::Nothing(name(GATE)));
    let error = refused(&elements(7, 1, b"\x84\x07", &[issued, expires])).to_string();
    assert_eq!(error, "the policy of mall-gate#basic: byte 2: policy form 7 is not known, only 1");
    assert_eq!(
        refused(&elements(8, 2, &nothing, &[issued, expires, 0])),
        StatementError::Form(FormError::Version { found: 2, known: 1 })
    );
    for (bytes, message) in [
        (elements(8, 1, &nothing, &[issued, expires, 0]), "an array of 7 was needed"),
        (elements(7, 1, &nothing, &[issued, expires, 0]), "bytes after the payload"),
        (elements(7, 1, &nothing, &[issued]), "end of input"),
        (signed(|out| assert!(out.str("hello").is_ok())), "unexpected type"),
        (signed(|_| {}), "end of input"),
    ] {
        let error = refused(&bytes);
        assert!(matches!(error, StatementError::Form(FormError::Malformed { .. })), "{error}");
        assert!(error.to_string().contains(message), "{error}");
    }
    // Understood, but one of the numbers is longer than it must be.
    let canonical = statement(mesh.vocabulary()).sign(mesh.vocabulary(), &gate());
    let payload = cose::Signed::read(&canonical, MAX_STATEMENT_BYTES).unwrap().payload;
    let version_at = 2 + 1 + GATE.len() + 1 + "gates".len();
    assert_eq!(payload[version_at], 3);
    let longer = [&payload[..version_at], &[0x18, 3], &payload[version_at + 1..]].concat();
    let bytes = cose::sign(Domain::PolicyStatement, &longer, &gate());
    assert_eq!(refused(&bytes), StatementError::Form(FormError::NotCanonical));

    assert_eq!(
        refused(&vec![0x84; MAX_STATEMENT_BYTES + 1]),
        StatementError::Cose(CoseError::TooLarge(MAX_STATEMENT_BYTES))
    );
}

#[test]
fn every_statement_comes_back_as_it_was() {
    let mesh = mesh();
    let vocabulary = mesh.vocabulary();
    let policies = [
        "collect address by mall for ads until 2027-01-01",
        "collect address by gates when age >= 18 for nothing until 1 transfer to shop for ads until 2",
    ]
    .map(|text| policy(text, vocabulary));
    let cases = (0..3_usize, any::<u64>(), 0..=NOW.unix() + CLOCK_TOLERANCE, NOW.unix() + CLOCK_TOLERANCE + 1..);
    for_all(&cases.prop_map(|case| case), 0.2..=0.5, |(content, version, issued, expires)| {
        let statement = PolicyStatement {
            version,
            content: policies.get(content).cloned().map_or(Content::Withdrawal, Content::Policy),
            issued: Time::from_unix(issued),
            expires: Time::from_unix(expires),
            ..statement(vocabulary)
        };
        let opened = open(&statement.sign(vocabulary, &gate()), &mesh, NOW);
        prop_assert_eq!(opened, Ok(statement.clone()));
        Ok(statement.content == Content::Withdrawal)
    });
}
