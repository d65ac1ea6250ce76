//! `mesh …`: the life of a mesh file, and everything that is refused on the way.

#![expect(clippy::unwrap_used, reason = "a test that cannot write its files has failed")]

mod support;

use std::fs;

use support::{Directory, Ran};

/// A directory with the keys of an operator and of some devices, and a vocabulary.
struct Mesh(Directory);

impl Mesh {
    fn new() -> Self {
        let directory = Directory::new();
        directory.write("v.toml", "extends = 'default'\nentities = { mall = [], shop = ['mall'], registrar = [] }");
        for owner in ["operator", "gate", "till", "registry"] {
            directory.run(&["keys", "new", &format!("{owner}.key")]).quietly(0);
        }
        Self(directory)
    }

    /// With a mesh file that has three devices and is signed.
    fn signed() -> Self {
        let mesh = Self::new();
        mesh.run(&["new", "mesh.toml", "--vocabulary", "v.toml"]).quietly(0);
        mesh.add("gate", "controller", "mall", &[]).quietly(0);
        mesh.add("till", "controller", "shop", &["--tag", "00c0ffee"]).quietly(0);
        mesh.add("registry", "repository", "registrar", &[]).quietly(0);
        mesh.sign("operator", &[]).quietly(0);
        mesh
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        self.0.run(&[["mesh"].as_slice(), arguments].concat())
    }

    /// The public keys of an owner.
    fn keys(&self, owner: &str) -> [String; 2] {
        let shown = self.0.run(&["keys", "show", &format!("{owner}.key")]).quietly(0);
        let mut lines = shown.lines().map(str::to_owned);
        [lines.next().unwrap(), lines.next().unwrap()]
    }

    fn add(&self, device: &str, role: &str, entity: &str, more: &[&str]) -> Ran {
        let [signing, sealing] = self.keys(device);
        let arguments =
            ["add", "mesh.toml", "--device", device, "--role", role, "--entity", entity, "--keys", &signing, &sealing];
        self.run(&[arguments.as_slice(), more].concat())
    }

    fn sign(&self, operator: &str, more: &[&str]) -> Ran {
        let key = format!("{operator}.key");
        self.run(&[["sign", "mesh.toml", "--key", &key].as_slice(), more].concat())
    }

    fn verify(&self, operator: &str, more: &[&str]) -> Ran {
        let [signing, _] = self.keys(operator);
        self.run(&[["verify", "mesh.toml", "--operator", &signing].as_slice(), more].concat())
    }

    /// Why a daemon would refuse the mesh file.
    fn refusal(&self, operator: &str, more: &[&str]) -> String {
        let out = self.verify(operator, more).quietly(1);
        out.strip_prefix("mesh.toml: refused: ").unwrap().trim_end().to_owned()
    }
}

const NOT_SIGNED_BY: &str = "the operator's key did not sign this mesh file";

#[test]
fn the_life_of_a_mesh() {
    let mesh = Mesh::new();
    let said = mesh.run(&["new", "mesh.toml", "--vocabulary", "v.toml", "--days", "30"]).quietly(0);
    assert!(said.starts_with("mesh.toml: made, without devices; not signed yet"), "{said}");
    assert_eq!(mesh.refusal("operator", &[]), "nobody has signed it");

    let said = mesh.add("gate", "controller", "mall", &["--tag", "0badcafe"]).quietly(0);
    assert!(said.starts_with("mesh.toml: added controller `gate` of mall, tag 0badcafe; not signed yet"), "{said}");
    mesh.add("till", "controller", "shop", &[]).quietly(0);
    mesh.add("registry", "repository", "registrar", &[]).quietly(0);
    let said = mesh.sign("operator", &[]).quietly(0);
    assert!(said.starts_with("mesh.toml: signed: serial 1, 3 devices, expires "), "{said}");
    let good = mesh.verify("operator", &[]).quietly(0);
    assert!(good.starts_with("mesh.toml: good: serial 1, 3 devices, issued "), "{good}");
    assert!(good.contains("\n  gate: controller of mall, tag 0badcafe, valid until "), "{good}");
    assert!(good.contains("\n  registry: repository of registrar, tag "), "{good}");

    // A device's keys are stolen, then it gets new ones.
    mesh.run(&["revoke", "mesh.toml", "--device", "gate", "--at", "2026-01-02T03:04:05Z"]).quietly(0);
    assert_eq!(mesh.refusal("operator", &[]), NOT_SIGNED_BY, "an edit is not signed by itself");
    mesh.sign("operator", &[]).quietly(0);
    let good = mesh.verify("operator", &["--serial", "2"]).quietly(0);
    assert!(
        good.contains("\n  gate: controller of mall, tag 0badcafe, revoked since 2026-01-02T03:04:05Z\n"),
        "{good}"
    );
    let old = mesh.keys("gate");
    mesh.0.run(&["keys", "new", "gate-2.key"]).quietly(0);
    let [signing, sealing] = mesh.keys("gate-2");
    let said = mesh.run(&["renew", "mesh.toml", "--device", "gate", "--keys", &signing, &sealing]).quietly(0);
    assert!(said.contains("with new keys"), "{said}");
    mesh.sign("operator", &[]).quietly(0);
    let good = mesh.verify("operator", &[]).quietly(0);
    assert!(good.contains("\n  gate: controller of mall, tag 0badcafe, valid until "), "{good}");
    let text = mesh.0.read("mesh.toml");
    assert!(text.contains(&signing) && text.contains(&sealing) && !old.iter().any(|key| text.contains(key)), "{text}");

    // Nothing but public keys, whatever happened.
    assert_eq!(mesh.0.names().iter().filter(|name| name.starts_with("mesh") || name.starts_with('.')).count(), 2);
    for owner in ["operator", "gate", "gate-2", "till", "registry"] {
        for line in mesh.0.read(&format!("{owner}.key")).lines().skip(1) {
            assert!(!text.contains(line.split_once(':').unwrap().1));
        }
    }
}

#[test]
fn the_operator_rolls_over_to_another_key() {
    let mesh = Mesh::signed();
    mesh.0.run(&["keys", "new", "next.key"]).quietly(0);
    let [next, _] = mesh.keys("next");
    let said = mesh.sign("operator", &["--next-operator", &next]).quietly(0);
    assert!(said.ends_with(&format!("  next {next}\n")), "{said}");
    assert!(mesh.verify("operator", &[]).quietly(0).contains(&format!("\n  next operator {next}\n")));
    assert_eq!(mesh.refusal("next", &[]), NOT_SIGNED_BY);
    // Whoever missed that file learns of it from the next one of the old key.
    mesh.sign("operator", &[]).quietly(0);
    assert!(mesh.0.read("mesh.toml").contains("next_operator_key"));
    // The new key signs, and the rollover is done.
    mesh.sign("next", &[]).quietly(0);
    assert!(!mesh.0.read("mesh.toml").contains("next_operator_key"));
    assert!(mesh.verify("next", &["--serial", "4"]).quietly(0).contains("good: serial 4"));
    assert_eq!(mesh.refusal("operator", &[]), NOT_SIGNED_BY);
    let err = mesh.sign("next", &["--next-operator", &next]).refused();
    assert!(err.contains("--next-operator: this is the key that signs already"), "{err}");
}

#[test]
fn a_daemon_refuses_what_is_old_changed_or_of_somebody_else() {
    let mesh = Mesh::signed();
    mesh.sign("operator", &["--days", "2"]).quietly(0);
    mesh.verify("operator", &["--serial", "2"]).quietly(0);
    assert_eq!(mesh.refusal("till", &[]), NOT_SIGNED_BY);
    let older = "serial 2 of the mesh file is lower than 3, which is known already";
    assert_eq!(mesh.refusal("operator", &["--serial", "3"]), older);
    let expired = mesh.refusal("operator", &["--now", "2100-01-01"]);
    assert!(expired.starts_with("the mesh file expired at "), "{expired}");
    let early = mesh.refusal("operator", &["--now", "2020-01-01"]);
    assert!(early.ends_with(", which is in the future"), "{early}");

    // The last byte of a line's value, in each place where it might not matter.
    let (text, signature) = (mesh.0.read("mesh.toml"), mesh.0.read("mesh.toml.sig"));
    for at in [0, text.len() / 3, text.len() / 2, text.len() - 1] {
        let mut changed = text.clone().into_bytes();
        changed[at] ^= 1;
        mesh.0.write("mesh.toml", &changed);
        assert_eq!(mesh.refusal("operator", &[]), NOT_SIGNED_BY, "{at}");
    }
    mesh.0.write("mesh.toml", &text);
    let digit = if signature.contains(":0") { ":1" } else { ":0" };
    let at = signature.find(':').unwrap();
    mesh.0.write("mesh.toml.sig", format!("{}{digit}{}", &signature[..at], &signature[at + 2..]));
    assert_eq!(mesh.refusal("operator", &[]), NOT_SIGNED_BY);
    mesh.0.write("mesh.toml.sig", "yes\n");
    let err = mesh.verify("operator", &[]).refused();
    assert!(err.contains("`mesh.toml.sig` is not the signature of a mesh file"), "{err}");
    let err = mesh.run(&["verify", "mesh.toml", "--operator", "operator.key"]).refused();
    assert_eq!(err, "error: --operator: `this` does not start with `ed25519:`\n");
}

/// Between its steps, `sign` leaves two signatures: of the file that is, and of the file to come.
#[test]
fn there_is_a_good_pair_between_the_steps_of_signing() {
    let mesh = Mesh::signed();
    let (old_text, old_signature) = (mesh.0.read("mesh.toml"), mesh.0.read("mesh.toml.sig"));
    mesh.sign("operator", &[]).quietly(0);
    let (new_text, new_signature) = (mesh.0.read("mesh.toml"), mesh.0.read("mesh.toml.sig"));
    mesh.0.write("mesh.toml.sig", format!("{new_signature}{old_signature}"));
    mesh.verify("operator", &["--serial", "2"]).quietly(0);
    mesh.0.write("mesh.toml", &old_text);
    assert!(mesh.verify("operator", &[]).quietly(0).contains("good: serial 1,"));

    // After a crash there, signing goes on as if nothing had been.
    mesh.0.write("mesh.toml", &new_text);
    mesh.sign("operator", &[]).quietly(0);
    assert_eq!(mesh.0.read("mesh.toml.sig").lines().count(), 1);
    mesh.verify("operator", &["--serial", "3"]).quietly(0);
    // Also if the crash left something that is no signature.
    mesh.0.write("mesh.toml.sig", "");
    mesh.sign("operator", &[]).quietly(0);
    mesh.verify("operator", &["--serial", "4"]).quietly(0);
}

/// If the mesh file cannot be written, the old pair is as good as before.
#[test]
fn a_failed_signature_leaves_the_old_pair() {
    let mesh = Mesh::signed();
    fs::hard_link(mesh.0.path("mesh.toml"), mesh.0.path("other.toml")).unwrap();
    let before = mesh.0.read("mesh.toml");
    let err = mesh.sign("operator", &[]).refused();
    assert!(err.contains("other names (hard links)"), "{err}");
    assert_eq!(mesh.0.read("mesh.toml"), before);
    assert_eq!(mesh.0.read("mesh.toml.sig").lines().count(), 2, "stopped between the steps");
    assert!(mesh.verify("operator", &[]).quietly(0).contains("good: serial 1,"));
}

#[test]
fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let mesh = Mesh::signed();
    mesh.0.run(&["keys", "new", "new.key"]).quietly(0);
    let ([new, new_sealing], [till, till_sealing]) = (mesh.keys("new"), mesh.keys("till"));
    let before = mesh.0.read("mesh.toml");
    let add = |device, entity, signing, sealing, more: &[&'static str]| {
        let arguments = ["add", "mesh.toml", "--role", "controller", "--device", device, "--entity", entity, "--keys"];
        mesh.run(&[arguments.as_slice(), &[signing, sealing], more].concat()).refused()
    };
    let weak = format!("ed25519:01{}", "0".repeat(62));
    for (err, said) in [
        (add("new", "mal", &new, &new_sealing, &[]), "mesh.toml: unknown entity `mal`; did you mean `mall`?"),
        (
            add("gate", "mall", &new, &new_sealing, &[]),
            "mesh.toml: there is a device `gate` already; `consent-mesh mesh",
        ),
        (add("a b", "mall", &new, &new_sealing, &[]), "mesh.toml: bad name `a b`: a name is made of"),
        (add("new", "mall", &till, &new_sealing, &[]), "mesh.toml: device `till` has this signing key already"),
        (add("new", "mall", &new, &till_sealing, &[]), "mesh.toml: device `till` has this sealing key already"),
        (
            add("new", "mall", &new, &new_sealing, &["--tag", "00c0ffee"]),
            "mesh.toml: device `till` has this frame tag already",
        ),
        (add("new", "mall", &new, &new_sealing, &["--tag", "C0FFEE"]), "mesh.toml: --tag: a frame tag has eight"),
        (add("new", "mall", &new_sealing, &new, &[]), "--keys: `x25519` does not start with `ed25519:`"),
        (add("new", "mall", &weak, &new_sealing, &[]), "--keys: this is a weak key, which anybody can use"),
        (
            mesh.run(&["revoke", "mesh.toml", "--device", "gaet"]).refused(),
            "mesh.toml: there is no device `gaet`; did you mean `gate`?",
        ),
        (
            mesh.run(&["renew", "mesh.toml", "--device", "gate", "--keys", &till, &new_sealing]).refused(),
            "mesh.toml: device `till` has this signing key already",
        ),
        (
            mesh.run(&["renew", "mesh.toml", "--device", "till", "--keys", &till, &new_sealing]).refused(),
            "mesh.toml: device `till` has this signing key already",
        ),
        (mesh.run(&["new", "mesh.toml", "--vocabulary", "v.toml"]).refused(), "mesh.toml: it exists already"),
        (mesh.run(&["sign", "none.toml", "--key", "operator.key"]).refused(), "none.toml: No such file"),
        (mesh.run(&["sign", "mesh.toml", "--key", "v.toml"]).refused(), "`v.toml` holds secret keys but has mode"),
        (mesh.run(&["sign", "mesh.toml", "--key", "operator.key", "--days", "0"]).refused(), "invalid value '0'"),
    ] {
        assert!(err.starts_with(&format!("error: {said}")), "{err}");
        assert_eq!(mesh.0.read("mesh.toml"), before);
    }
    mesh.verify("operator", &[]).quietly(0);
}

#[test]
fn a_revocation_is_not_weakened() {
    let mesh = Mesh::signed();
    let revoke = |at| mesh.run(&["revoke", "mesh.toml", "--device", "gate", "--at", at]);
    revoke("2026-02-01").quietly(0);
    let err = revoke("2026-03-01").refused();
    assert!(err.contains("device `gate` is revoked since 2026-02-01 already"), "{err}");
    revoke("2026-01-01").quietly(0);
    let err = mesh.run(&["renew", "mesh.toml", "--device", "gate"]).refused();
    assert!(err.contains("device `gate` is revoked since 2026-01-01: give it new keys with --keys"), "{err}");
    mesh.run(&["renew", "mesh.toml", "--device", "till", "--days", "7"]).quietly(0);
}

#[test]
fn tags_at_random_differ() {
    let mesh = Mesh::signed();
    let text = mesh.0.read("mesh.toml");
    let mut tags: Vec<&str> = text.lines().filter(|line| line.starts_with("tag = ")).collect();
    tags.sort_unstable();
    tags.dedup();
    assert_eq!(tags.len(), 3, "{text}");
}

/// The vocabulary of a file for one's own use may have devices and items; those of a mesh are nobody else's business.
#[test]
fn devices_and_items_of_a_vocabulary_are_left_out() {
    let directory = Directory::new();
    let vocabulary = support::examples().join("mall/vocabulary.toml");
    let ran = directory.run(&["mesh", "new", "mesh.toml", "--vocabulary", vocabulary.to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(
        ran.err.starts_with("note: ") && ran.err.ends_with(": its devices and items are left out\n"),
        "{}",
        ran.err
    );
    let text = directory.read("mesh.toml");
    assert!(text.contains("\"bookshop\" = [\"shop\"]") && !text.contains("visitor-phone"), "{text}");
    assert!(!text.contains("visitor-mac"), "{text}");
}

/// An operator who adds words or takes back a rollover does it by hand.
#[test]
fn a_file_edited_by_hand_is_signed_as_it_is() {
    let mesh = Mesh::signed();
    let edited = mesh.0.read("mesh.toml").replace("[vocabulary.entities]\n", "[vocabulary.entities]\nmuseum = []\n");
    mesh.0.write("mesh.toml", format!("# the museum joins\n{edited}"));
    assert_eq!(mesh.refusal("operator", &[]), NOT_SIGNED_BY);
    mesh.sign("operator", &[]).quietly(0);
    mesh.verify("operator", &["--serial", "2"]).quietly(0);
    assert!(mesh.0.read("mesh.toml").contains("\"museum\" = []"));
    mesh.0.write("mesh.toml", mesh.0.read("mesh.toml").replace("\"museum\" = []", "museum = ['mal']"));
    let err = mesh.sign("operator", &[]).refused();
    assert!(err.starts_with("error: mesh.toml: line ") && err.contains("unknown parent `mal`"), "{err}");
}
