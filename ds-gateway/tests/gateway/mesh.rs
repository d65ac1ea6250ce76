//! A small mesh on disk: an operator, a repository, three controllers, and Alice's configuration.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use mesh_runtime::driver::clock::{Clock as _, SystemClock};
use mesh_runtime::keys::SecretKeys;
use mesh_runtime::mesh_file::signature_path;
use pilot_core::evidence::mesh::{FrameTag, MeshDevice, MeshDraft, MeshFile, Role, sign_mesh};
use pilot_core::evidence::statement::Content;
use pilot_core::evidence::{DeviceName, PolicyStatement, Signer as _};
use pilot_core::syntax::parse_file;
use pilot_core::value::Time;
use pilot_core::vocabulary::{Declarations, Vocabulary};
use tempfile::TempDir;

/// The words: those of `examples/mall`.
const WORDS: &str = "extends = 'default'\n[entities]\nmall = []\nshop = []\nbookshop = ['shop']\nadvertiser = []\n\
                     registrar = []\n";

/// Devices and their entities.
const DEVICES: [(&str, Role, &str); 4] = [
    ("ads", Role::Controller, "advertiser"),
    ("gate", Role::Controller, "mall"),
    ("registry", Role::Repository, "registrar"),
    ("till", Role::Controller, "bookshop"),
];

/// How long statements count.
pub const STATEMENT_SECONDS: u64 = 86_400 * 20;

pub struct Mesh {
    pub directory: TempDir,
    pub operator: SecretKeys,
    pub keys: BTreeMap<&'static str, Arc<SecretKeys>>,
    pub vocabulary: Vocabulary,
    pub now: Time,
}

pub fn name(text: &str) -> DeviceName {
    DeviceName::new(text).unwrap()
}

impl Mesh {
    /// With a signed mesh file, and policies under which Alice accepts the mall, and a bookshop while she is an adult.
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let keys = DEVICES.map(|(device, ..)| (device, Arc::new(SecretKeys::generate().unwrap())));
        let (operator, now) = (SecretKeys::generate().unwrap(), SystemClock.now());
        let vocabulary = Vocabulary::from_toml(WORDS).unwrap();
        let mesh = Self { directory, operator, keys: keys.into(), vocabulary, now };
        mesh.sign(1, |_| {});
        mesh.write_policies(
            "policy mall { collect MACAddress by mall for ServiceUsageAnalytics until 2036-01-01 }
             policy books { collect MACAddress by shop when age >= 18 for PersonalisedAdvertising until 2036-01-01 }",
        );
        mesh
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.directory.path().join(file)
    }

    pub fn write_policies(&self, text: &str) {
        fs::write(self.path("alice.pilot"), text).unwrap();
    }

    /// Writes and signs the mesh file.
    pub fn sign(&self, serial: u64, change: impl Fn(&mut MeshDraft)) {
        let day = |days: u64| Time::from_unix(self.now.unix() + days * 86_400);
        let device = |(device, role, entity): (&str, Role, &str)| MeshDevice {
            name: name(device),
            role,
            entity: entity.to_owned(),
            tag: tag(device),
            signing_key: self.keys[device].public().signing,
            sealing_key: self.keys[device].public().sealing,
            valid_from: self.now,
            valid_until: day(30),
            revoked: None,
        };
        let mut draft = MeshDraft {
            serial,
            issued: self.now,
            expires: day(30),
            next_operator_key: None,
            vocabulary: Declarations::from_toml(WORDS).unwrap(),
            devices: DEVICES.map(device).into(),
        };
        change(&mut draft);
        let text = draft.to_toml().unwrap();
        let path = self.path("mesh.toml");
        fs::write(signature_path(&path), format!("{}\n", sign_mesh(&text, &self.operator))).unwrap();
        fs::write(&path, text).unwrap();
    }

    pub fn open(&self) -> MeshFile {
        let text = fs::read_to_string(self.path("mesh.toml")).unwrap();
        let signature = sign_mesh(&text, &self.operator);
        MeshFile::open(&text, &signature, &self.operator.verifying_key(), self.now, None).unwrap()
    }

    /// A statement of a device: a policy in the text form, or a withdrawal.
    pub fn statement(&self, device: &str, version: u64, policy: Option<&str>) -> Vec<u8> {
        let entity = DEVICES.iter().find(|(known, ..)| *known == device).unwrap().2;
        let content = policy.map_or(Content::Withdrawal, |text| {
            let file = parse_file(&format!("policy p {{ {text} }}"), &self.vocabulary).unwrap();
            Content::Policy(file.policies[0].choice.policy().unwrap().clone())
        });
        let statement = PolicyStatement {
            device: name(device),
            entity: self.vocabulary.entities.id(entity).unwrap(),
            version,
            content,
            issued: self.now,
            expires: Time::from_unix(self.now.unix() + STATEMENT_SECONDS),
        };
        statement.sign(&self.vocabulary, &*self.keys[device])
    }

    /// What the three controllers publish: Alice accepts the gate's and the till's.
    pub fn offers(&self) -> Vec<Vec<u8>> {
        vec![
            self.statement("gate", 1, Some("collect MACAddress by mall for ServiceUsageAnalytics until 2036-01-01")),
            self.statement(
                "ads",
                1,
                Some("collect MACAddress by advertiser for PersonalisedAdvertising until 2036-01-01"),
            ),
            self.statement(
                "till",
                1,
                Some("collect MACAddress by bookshop for PersonalisedAdvertising until 2036-01-01"),
            ),
        ]
    }

    /// Alice's configuration, with some lines at the top changed or added.
    pub fn config(&self, air: &str, settings: &str) -> PathBuf {
        let operator = self.operator.verifying_key();
        let text = format!(
            "name = 'alice-phone'\ndata = 'alice'\npolicies = ['alice.pilot']\n{settings}\n\
             [mesh]\nfile = 'mesh.toml'\noperator = '{operator}'\n[broker]\nurl = 'mqtt://127.0.0.1:1'\n\
             [air]\nsimulated = '{air}'\n[item]\naddress = 'c0:ff:ee:00:00:01'\n[attributes]\nage = 34\n"
        );
        let path = self.path("ds-gateway.toml");
        fs::write(&path, text).unwrap();
        path
    }
}

/// The frame tag of a device: its first letters.
pub fn tag(device: &str) -> FrameTag {
    let mut tag = [0; 4];
    tag.iter_mut().zip(device.bytes()).for_each(|(to, from)| *to = from);
    FrameTag(tag)
}
