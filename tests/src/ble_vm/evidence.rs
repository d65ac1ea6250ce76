//! What came out of the virtual machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use dc_gateway::value::Heard;
use dc_gateway::vault::{MAX_LISTED, Vault};
use mesh_runtime::air::AddressKind;
use pilot_core::codec::{Digest, digest};
use pilot_core::evidence::Pseudonym;
use pilot_core::syntax::parse_file;
use pilot_core::vocabulary::Vocabulary;

use super::cast::{self, Device};
use super::holds::audit_key;
use super::radio_log::{self, Line};
use crate::VOCABULARY;

/// Something held: the address, whether it is a public one, and the policy.
pub type Holding = ([u8; 6], bool, Digest);

/// The files that came out, and what is read from them.
pub struct Evidence {
    /// `/out` of the machine.
    pub out: PathBuf,
    /// What was on air.
    pub air: Vec<Line>,
    /// How long each phase took, in seconds; `None` if it did not end.
    pub phases: BTreeMap<String, Option<f64>>,
}

impl Evidence {
    /// Reads what is there.
    pub fn read(out: &Path) -> std::io::Result<Self> {
        let air = radio_log::read(&out.join("radio.log"))?;
        let timeline = fs::read_to_string(out.join("timeline"))?;
        let phase = |line: &str| line.split_once(' ').map(|(name, seconds)| (name.to_owned(), seconds.parse().ok()));
        Ok(Self { out: out.to_owned(), air, phases: timeline.lines().filter_map(phase).collect() })
    }

    /// The files of the mesh.
    pub fn mesh(&self) -> PathBuf {
        self.out.join("mesh")
    }

    /// What is in a vault, opened with its own key. The directory is a copy that a moment was made of, or the end.
    pub fn vault(&self, data: &Path) -> Result<BTreeSet<Holding>, String> {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", data.display());
        // Opening may write.
        let copy = tempfile::tempdir().map_err(|error| failed(&error))?;
        for name in ["vault.redb", "vault.key"] {
            fs::copy(data.join(name), copy.path().join(name)).map_err(|error| failed(&error))?;
        }
        let now = cast::now();
        let opened = Vault::open(&copy.path().join("vault.redb"), &copy.path().join("vault.key"), now);
        let (vault, _) = opened.map_err(|error| failed(&error))?;
        let mut held = BTreeSet::new();
        for record in vault.records(None, MAX_LISTED).map_err(|error| failed(&error))? {
            let secret = vault.reveal(record.handle, now).map_err(|error| failed(&error))?;
            let heard = secret.as_ref().and_then(Heard::from_secret).ok_or("a record without a value")?;
            held.insert((heard.address.reveal(), heard.kind == AddressKind::Public, record.description.policy));
        }
        Ok(held)
    }

    /// What is transmitted by somebody, or heard by somebody of somebody.
    pub fn sent_by(&self, device: Device) -> impl Iterator<Item = &Line> {
        self.air.iter().filter(move |line| line.is_sent && line.address == device.address)
    }

    /// Whether a controller told its host of something that this device said.
    pub fn heard(&self, by: Device, device: Device) -> bool {
        self.air
            .iter()
            .any(|line| !line.is_sent && line.controller == Some(by.adapter) && line.address == device.address)
    }

    /// A file of the mesh.
    pub fn text(&self, path: &str) -> String {
        fs::read_to_string(self.mesh().join(path)).unwrap_or_default()
    }
}

/// The digest of the only policy in a file.
pub fn digest_of(file: &Path) -> Digest {
    let vocabulary = Vocabulary::from_toml(VOCABULARY).unwrap();
    let source = fs::read_to_string(file).unwrap();
    let policies = parse_file(&source, &vocabulary).unwrap().policies;
    digest(&policies.first().expect("a policy").choice, &vocabulary)
}

/// Every form in which an address might have been written down.
pub fn forms(device: Device) -> Vec<Vec<u8>> {
    let mut reversed = device.address;
    reversed.reverse();
    let mut forms = vec![device.address.to_vec(), reversed.to_vec()];
    for bytes in [device.address, reversed] {
        for separator in [":", "-", "_", ""] {
            let text = bytes.map(|byte| format!("{byte:02x}")).join(separator);
            forms.push(text.to_uppercase().into_bytes());
            forms.push(text.into_bytes());
        }
    }
    forms
}

/// And the pseudonym, by which a controller that knows its own key could tell whether it has met that address.
pub fn pseudonyms(root: &Path, controller: Device, device: Device) -> Vec<Vec<u8>> {
    let pseudonym = Pseudonym::of(&device.address, &audit_key(root, controller.name));
    vec![pseudonym.as_bytes().to_vec(), pseudonym.to_string().into_bytes()]
}
