//! The mesh file: only what the operator signed, only of now, and only without contradictions.

use pilot_core::evidence::mesh::{
    CLOCK_TOLERANCE, FrameTag, MAX_DEVICES, MAX_MESH_BYTES, MeshError, MeshProblem, Role, sign_mesh,
};
use pilot_core::evidence::{MeshDraft, MeshFile, Signature, cose};
use pilot_core::value::Time;
use pilot_core::vocabulary::{DEFAULT_VOCABULARY, Declarations};
use proptest::prelude::{Strategy as _, any, prop_assert_eq};

use super::fixture::{
    COUNTER, DAY, GATE, LIBRARY, NOW, VOCABULARY, changed_mesh, damaged, device, draft, gate, later, mesh, operator,
    public, secret,
};
use super::support::for_all;

fn open(text: &str, signature: &Signature, known_serial: Option<u64>) -> Result<MeshFile, MeshError> {
    MeshFile::open(text, signature, &public(&operator()), NOW, known_serial)
}

fn text() -> String {
    draft().to_toml().unwrap_or_else(|error| panic!("{error}"))
}

/// Why a changed draft cannot be written.
fn refusal(change: impl FnOnce(&mut MeshDraft)) -> String {
    let mut draft = draft();
    change(&mut draft);
    draft.to_toml().expect_err("refused").to_string()
}

/// Why a changed text cannot be read.
fn problem(old: &str, new: &str) -> String {
    let text = text();
    assert!(text.contains(old), "`{old}` is in\n{text}");
    MeshDraft::from_toml(&text.replacen(old, new, 1)).expect_err("refused").to_string()
}

#[test]
fn what_is_written_is_read() {
    let mut draft = draft();
    draft.next_operator_key = Some(public(&secret(6)));
    draft.devices[1].revoked = Some(later(17));
    let text = draft.to_toml().unwrap();
    assert_eq!(MeshDraft::from_toml(&text), Ok(draft.clone()));
    let opened = open(&text, &sign_mesh(&text, &operator()), None).unwrap();
    // The devices are in the order of their names then.
    assert_eq!(opened.contents().next_operator_key, Some(public(&secret(6))));
    assert_eq!(
        opened.devices().iter().map(|device| device.name.as_str()).collect::<Vec<_>>(),
        [LIBRARY, GATE, COUNTER]
    );
    assert_eq!(opened.device(COUNTER), Some(&draft.devices[1]));
}

/// The text form, pinned: operators read and edit it.
#[test]
fn a_mesh_file_reads_well() {
    let mut draft = draft();
    draft.vocabulary =
        Declarations::from_toml("extends = \"default\"\n[entities]\nmall = []\ngates = [\"mall\"]\n").unwrap();
    draft.devices.truncate(1);
    let key = public(&gate());
    assert_eq!(
        draft.to_toml().unwrap(),
        format!(
            r#"version = 1
serial = 7
issued = 2026-05-31T23:59:00Z
expires = 2026-07-01

[vocabulary]
extends = "default"

[vocabulary.entities]
"gates" = ["mall"]
"mall" = []

[[devices]]
name = "mall-gate#basic"
role = "controller"
entity = "gates"
tag = "c0ffee02"
signing_key = "{key}"
sealing_key = "x25519:{}"
valid_from = 2026-02-21
valid_until = 2026-09-09
"#,
            "02".repeat(32)
        )
    );
}

/// A vocabulary is written as it was read, the built-in one included.
#[test]
fn vocabularies_are_written_again() {
    let full = format!(
        "{VOCABULARY}[devices]\nphone = \"shop\"\n[items]\nhome = {{ type = \"address\", owner = \"phone\" }}\n"
    );
    for text in [VOCABULARY, DEFAULT_VOCABULARY, &full, "extends = \"default\"\n[entities]\n\"a.b#c\" = []\n"] {
        let read = Declarations::from_toml(text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(Declarations::from_toml(&read.to_toml()), Ok(read));
    }
}

#[test]
fn devices_are_found_by_name_tag_and_key() {
    let mesh = mesh();
    for device in mesh.devices() {
        assert_eq!(mesh.device(device.name.as_str()), Some(device));
        assert_eq!(mesh.device_by_tag(device.tag), Some(device));
        assert_eq!(mesh.device_by_key(&device.signing_key), Some(device));
        let entity = mesh.entity(device).unwrap();
        assert_eq!(mesh.vocabulary().entities.name(entity), device.entity);
    }
    assert_eq!(mesh.device("mall-gate"), None);
    assert_eq!(mesh.device_by_tag(FrameTag([0; 4])), None);
    assert_eq!(mesh.device_by_key(&public(&operator())), None);
}

/// The signature covers the exact bytes, comments and line ends included.
#[test]
fn a_damaged_mesh_file_is_never_opened() {
    let mut draft = draft();
    draft.devices.truncate(1);
    let text = draft.to_toml().unwrap();
    let signature = sign_mesh(&text, &operator());
    assert!(open(&text, &signature, None).is_ok());
    for damaged in damaged(text.as_bytes()) {
        if let Ok(damaged) = String::from_utf8(damaged) {
            assert_eq!(open(&damaged, &signature, None).err(), Some(MeshError::Signature));
        }
    }
    for damaged in damaged(&signature.0) {
        if let Ok(damaged) = damaged.try_into() {
            assert_eq!(open(&text, &Signature(damaged), None).err(), Some(MeshError::Signature));
        }
    }
    for damaged in damaged(signature.to_string().as_bytes()) {
        let damaged = String::from_utf8(damaged).ok().and_then(|text| text.parse::<Signature>().ok());
        assert!(damaged.is_none_or(|damaged| open(&text, &damaged, None).is_err()));
    }
}

/// Computed by a program in another language from the form in the documentation alone.
#[test]
fn the_signature_of_a_text_is_its_own() {
    let signature = "ed25519-signature:a1014d938d2f2eb5a984a4c788fa43291f775a7ad0c5bfb4b8a25e728fd02c3691c97484a5c2f11039fcda8ead8b169ca6c72f68d5e9d08c6999931c2233450d";
    assert_eq!(sign_mesh("version = 1\n", &operator()).to_string(), signature);
}

#[test]
fn only_the_operator_signs() {
    let text = text();
    assert_eq!(open(&text, &sign_mesh(&text, &gate()), None).err(), Some(MeshError::Signature));
    let as_statement = cose::sign_detached(cose::Domain::PolicyStatement, text.as_bytes(), &operator());
    assert_eq!(open(&text, &as_statement, None).err(), Some(MeshError::Signature));
}

/// The old key names the next one; before that, the next key signs for nobody.
#[test]
fn the_operators_key_rolls_over() {
    let next = secret(6);
    let first = changed_mesh(|draft| draft.next_operator_key = Some(public(&next)));
    let mut second = first.contents().clone();
    second.serial += 1;
    let text = second.to_toml().unwrap();
    let signature = sign_mesh(&text, &next);
    assert_eq!(open(&text, &signature, None).err(), Some(MeshError::Signature));
    let key = first.contents().next_operator_key.unwrap();
    assert!(MeshFile::open(&text, &signature, &key, NOW, Some(first.contents().serial)).is_ok());
}

#[test]
fn an_older_serial_is_refused() {
    let text = text();
    let signature = sign_mesh(&text, &operator());
    for known in [None, Some(0), Some(6), Some(7)] {
        assert!(open(&text, &signature, known).is_ok(), "{known:?}");
    }
    assert_eq!(open(&text, &signature, Some(8)).err(), Some(MeshError::Older { serial: 7, known: 8 }));
}

#[test]
fn the_file_must_be_of_now() {
    let text = text();
    let signature = sign_mesh(&text, &operator());
    let at = |now: Time| MeshFile::open(&text, &signature, &public(&operator()), now, None).map(drop);
    let (issued, expires) = (later(-60), later(30 * DAY as i64));
    assert_eq!(at(Time::from_unix(issued.unix() - CLOCK_TOLERANCE)), Ok(()));
    assert_eq!(at(Time::from_unix(issued.unix() - CLOCK_TOLERANCE - 1)), Err(MeshError::FromTheFuture(issued)));
    assert_eq!(at(Time::from_unix(expires.unix() - 1)), Ok(()));
    assert_eq!(at(expires), Err(MeshError::Expired(expires)));
}

#[test]
fn an_oversized_file_is_refused_unread() {
    let text = " ".repeat(MAX_MESH_BYTES + 1);
    assert_eq!(open(&text, &Signature([0; 64]), None).err(), Some(MeshError::TooLarge));
    assert_eq!(MeshDraft::from_toml(&text).expect_err("refused").problem, MeshProblem::TooLarge);
}

/// The count is looked at before any device is.
#[test]
fn too_many_devices_are_refused() {
    let device = "{name='',role='',entity='',tag='',signing_key='',sealing_key='',valid_from=2026-01-01,valid_until=2026-01-02},";
    let mesh = |count: usize| {
        let head = "version = 1\nserial = 1\nissued = 2026-01-01\nexpires = 2027-01-01\nvocabulary = {}\ndevices = [";
        MeshDraft::from_toml(&format!("{head}{}]", device.repeat(count))).expect_err("refused").problem
    };
    assert_eq!(mesh(MAX_DEVICES + 1), MeshProblem::TooManyDevices);
    assert!(matches!(mesh(1), MeshProblem::Name(..)));
}

#[test]
fn no_two_devices_are_confused() {
    let twin = |change: fn(&mut MeshDraft)| refusal(change);
    for (message, what) in [
        (
            "another device above has this name already",
            twin(|draft| draft.devices[1].name = draft.devices[0].name.clone()),
        ),
        ("another device above has this tag already", twin(|draft| draft.devices[1].tag = draft.devices[0].tag)),
        (
            "another device above has this signing key already",
            twin(|draft| draft.devices[2].signing_key = draft.devices[0].signing_key),
        ),
        (
            "another device above has this sealing key already",
            twin(|draft| draft.devices[2].sealing_key = draft.devices[1].sealing_key),
        ),
    ] {
        assert!(what.contains(message), "{what}");
    }
}

/// The operator's tool cannot be made to write something else than it was told.
#[test]
fn a_draft_that_cannot_be_written_is_refused() {
    assert!(refusal(|draft| draft.devices[0].entity = "gats".into()).contains("did you mean `gates`?"));
    assert!(
        refusal(|draft| draft.devices[0].entity = "gates\"\nrevoked = 2020-01-01 # ".into())
            .contains("cannot be written")
    );
    let beyond = Time::from_unix(Time::LAST_WRITABLE.unix() + 1);
    for refused in [
        refusal(|draft| draft.expires = beyond),
        refusal(|draft| draft.expires = draft.issued),
        refusal(|draft| draft.devices[0].valid_until = draft.devices[0].valid_from),
    ] {
        assert!(!refused.is_empty());
    }
}

/// Line, column, the line itself with a caret, and the nearest known name.
#[test]
fn mistakes_are_shown_where_they_are() {
    assert_eq!(
        problem("entity = \"gates\"", "entity = \"gats\""),
        "line 25, column 10: unknown entity `gats`; did you mean `gates`?\n 25 | entity = \"gats\"\n    |          ^^^^^^"
    );
    for (old, new, message) in [
        ("version = 1", "version = 2", "line 1, column 11: version 2 of mesh files is not known, only 1"),
        ("version = 1\n", "", "missing field `version`"),
        ("serial = 7", "serial = -7", "invalid value: integer `-7`"),
        ("serial = 7", "serial = 7\nserial = 8", "line 3, column 1: duplicate key"),
        ("serial", "serials", "unknown field `serials`"),
        ("issued = 2026-05-31T23:59:00Z", "issued = 2026-05-31T23:59:00", "line 3, column 10: bad time: not a date"),
        ("issued = 2026-05-31T23:59:00Z", "issued = 2026-05-31T23:59:00.5Z", "bad time: times are in whole seconds"),
        ("issued = 2026-05-31T23:59:00Z", "issued = 23:59:00", "bad time: not a date"),
        ("issued = 2026-05-31T23:59:00Z", "issued = 1780272000", "invalid type: integer"),
        (
            "expires = 2026-07-01",
            "expires = 2026-05-01",
            "line 4, column 11: this ends at or before its beginning, 2026-05-31",
        ),
        (
            "\"gates\" = [\"mall\"]",
            "\"gates\" = [\"male\"]",
            "line 9, column 12: unknown parent `male`; did you mean `mall`?",
        ),
        ("[vocabulary.purposes]", "[vocabulary.purpose]", "unknown field `purpose`"),
        ("[vocabulary]\n", "[vocabulary]\nextends = \"defaults\"\n", "only `default` can be extended"),
        (
            "[[devices]]",
            "[vocabulary.devices]\nphone = \"mall\"\n[[devices]]",
            "the vocabulary of a mesh has no devices or items",
        ),
        ("name = \"mall-gate#basic\"", "name = \"a b\"", "bad name `a b`: a name is made of ASCII letters"),
        (
            "role = \"controller\"",
            "role = \"subject\"",
            "unknown role `subject`: a device is a controller or a repository",
        ),
        ("tag = \"c0ffee02\"", "tag = \"C0FFEE02\"", "a frame tag has eight lower-case hexadecimal digits"),
        ("signing_key = \"ed25519:", "signing_key = \"x25519:", "`x25519` does not start with `ed25519:`"),
        (
            "sealing_key = \"x25519:02",
            "sealing_key = \"x25519:2",
            "`x25519:` is followed by 64 lower-case hexadecimal digits",
        ),
        ("valid_until = 2026-09-09", "valid_until = 2026-02-30", "line 30"),
        ("valid_until = 2026-09-09\n", "", "missing field `valid_until`"),
        ("valid_until = 2026-09-09", "valid_until = 2026-09-09\nrevokd = 2026-01-01", "unknown field `revokd`"),
        ("[[devices]]", "[[device]]", "unknown field `device`"),
    ] {
        let shown = problem(old, new);
        assert!(shown.contains(message), "`{message}` is not in\n{shown}");
    }
}

#[test]
fn every_draft_comes_back_as_it_was() {
    let writable = || 0..=Time::LAST_WRITABLE.unix();
    let devices =
        proptest::collection::vec((any::<bool>(), 0..3_usize, writable(), proptest::option::of(writable())), 0..4);
    let cases = (any::<u64>(), writable(), writable(), any::<bool>(), devices);
    for_all(&cases.prop_map(|case| case), 0.5..=0.95, |(serial, issued, expires, rolls_over, devices)| {
        let of = |(at, (controller, entity, until, revoked)): (usize, (bool, usize, u64, Option<u64>))| {
            let role = Role::ALL[usize::from(controller)];
            let mut device = device(&format!("device-{at}#x"), role, ["mall", "gates", "shop"][entity], 10 + at as u8);
            (device.valid_from, device.valid_until) = (Time::from_unix(until / 2), Time::from_unix(until));
            device.revoked = revoked.map(Time::from_unix);
            device
        };
        let draft = MeshDraft {
            serial,
            issued: Time::from_unix(issued),
            expires: Time::from_unix(expires),
            next_operator_key: rolls_over.then(|| public(&secret(6))),
            devices: devices.into_iter().enumerate().map(of).collect(),
            ..draft()
        };
        let is_written = draft.to_toml().is_ok();
        prop_assert_eq!(
            is_written,
            issued < expires && draft.devices.iter().all(|device| device.valid_until.unix() > 0)
        );
        Ok(!draft.devices.is_empty())
    });
}
