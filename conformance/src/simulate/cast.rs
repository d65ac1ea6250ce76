//! Who takes part in a simulation: a repository, controllers in groups, and people with something about them.

use std::fmt::Write as _;
use std::sync::Arc;

use fastrand::Rng;
use pilot_core::evidence::mesh::{FrameTag, Role as MeshRole};
use pilot_core::evidence::trace::action::Word;
use pilot_core::evidence::{AuditKey, DeviceName, MeshDevice, MeshDraft, Pseudonym};
use pilot_core::value::{Number, Time, Value};
use pilot_core::vocabulary::{Declarations, DeviceId, Directory, Id as _, Item, ItemId, Variable, Vocabulary};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::{START, Settings, SimulateError};
use crate::keys::Keys;
use crate::scenario::Role;

/// How many controllers belong together, and pass data on to each other.
pub const GROUP: u32 = 4;
/// The name of the repository.
pub const REPOSITORY: &str = "registry";
/// The most items of a subject.
const MAX_ITEMS: u32 = 3;
/// How long the mesh file and its devices are valid, in seconds: longer than any simulation.
const VALID_SECONDS: u64 = 3_650 * 24 * 3_600;
/// How far its beginning lies before the start.
const SINCE_SECONDS: u64 = 3_600;

/// Everybody, by the numbers of their devices and items.
pub struct Cast {
    /// The words.
    pub vocabulary: Vocabulary,
    /// Likewise, as the mesh file declares them.
    declarations: Declarations,
    /// entity(d), type(i), owner(i).
    pub directory: Directory,
    /// The devices: the repository, the controllers, the subjects.
    pub devices: Vec<Member>,
    /// The items.
    pub items: Vec<Thing>,
    /// The operator of the mesh.
    pub operator: Keys,
}

/// A device.
pub struct Member {
    /// Which it is.
    pub id: DeviceId,
    /// What it is called.
    pub name: DeviceName,
    /// What it does.
    pub role: Role,
    /// Signs for it.
    pub keys: Keys,
    /// K.
    pub audit: AuditKey,
    /// The bytes of K.
    pub audit_bytes: [u8; 32],
    /// ν at the start.
    pub values: Vec<(Variable, Value)>,
    /// Its items, with their pseudonyms under its own K.
    pub items: Vec<(ItemId, Pseudonym)>,
}

/// An item.
pub struct Thing {
    /// Its bytes: what a pseudonym stands for.
    pub bytes: Vec<u8>,
    /// type(i).
    pub datatype: Word,
}

/// Thirty-two bytes that follow from the seed, what they are for, and whose they are.
pub(super) fn derive(seed: u64, what: &str, name: &str) -> [u8; 32] {
    let hash = Sha256::new().chain_update(b"consent-mesh simulation").chain_update(seed.to_be_bytes());
    let hash = hash.chain_update(what).chain_update([0]).chain_update(name);
    hash.finalize().into()
}

pub(super) fn keys(seed: u64, name: &str) -> Keys {
    Keys::new(&derive(seed, "signing", name), derive(seed, "sealing", name))
}

/// The group of a controller. The last group has those who would be too few for one of their own.
pub fn group_of(controller: u32, controllers: u32) -> u32 {
    (controller / GROUP).min(groups(controllers) - 1)
}

/// How many groups there are.
pub fn groups(controllers: u32) -> u32 {
    (controllers / GROUP).max(1)
}

fn words(controllers: u32) -> String {
    let mut text = "[entities]\nregistrar = []\ncommerce = []\n".to_owned();
    for group in 0..groups(controllers) {
        let _ = writeln!(text, "mall-{group} = [\"commerce\"]");
    }
    for controller in 0..controllers {
        let _ = writeln!(text, "shop-{controller} = [\"mall-{}\"]", group_of(controller, controllers));
    }
    text += "[datatypes]\nPersonalData = []\nDeviceIdentifier = [\"PersonalData\"]\nMACAddress = [\"DeviceIdentifier\"]\n\
             LoyaltyNumber = [\"PersonalData\"]\n\
             [purposes]\nServiceImprovement = []\nAnalytics = [\"ServiceImprovement\"]\n\
             FootfallAnalytics = [\"Analytics\"]\nMarketing = []\nPersonalisedOffers = [\"Marketing\"]\n\
             DirectMarketing = [\"Marketing\"]\nSecurity = []\n\
             [attributes]\nage = \"number\"\ncertified = \"boolean\"\n";
    text
}

fn number(number: u8) -> Result<Number, SimulateError> {
    number.to_string().parse().map_err(SimulateError::malformed)
}

impl Cast {
    /// Makes everybody up.
    pub fn new(settings: &Settings) -> Result<Self, SimulateError> {
        let text = words(settings.controllers);
        let mut cast = Self {
            vocabulary: Vocabulary::from_toml(&text).map_err(SimulateError::malformed)?,
            declarations: Declarations::from_toml(&text).map_err(SimulateError::malformed)?,
            directory: Directory::default(),
            devices: Vec::new(),
            items: Vec::new(),
            operator: keys(settings.seed, "operator"),
        };
        let mut rng = Rng::with_seed(settings.seed ^ 0x6361_7374);
        cast.add(settings.seed, REPOSITORY, Role::Repository, Some("registrar"), Vec::new())?;
        for controller in 0..settings.controllers {
            let mut values = cast.value("certified", Value::Boolean(rng.u8(..5) > 0));
            // Who hands data on evaluates the conditions, so it must know: some ask for the age at the door.
            values.extend(cast.value("age", Value::Number(number(42)?)));
            let (name, entity) = (format!("gate-{controller:03}"), format!("shop-{controller}"));
            cast.add(settings.seed, &name, Role::Controller, Some(&entity), values)?;
        }
        for subject in 0..settings.subjects {
            let values = cast.value("age", Value::Number(number(rng.u8(12..80))?));
            let id = cast.add(settings.seed, &format!("person-{subject:05}"), Role::Subject, None, values)?;
            for place in 0..rng.u32(1..=MAX_ITEMS) {
                cast.add_item(id, subject, place, &mut rng)?;
            }
        }
        Ok(cast)
    }

    fn value(&self, attribute: &str, value: Value) -> Vec<(Variable, Value)> {
        self.vocabulary.variable(attribute).map(|(variable, _)| (variable, value)).into_iter().collect()
    }

    fn add(
        &mut self,
        seed: u64,
        name: &str,
        role: Role,
        entity: Option<&str>,
        values: Vec<(Variable, Value)>,
    ) -> Result<DeviceId, SimulateError> {
        let id = match entity.and_then(|entity| self.vocabulary.entities.id(entity)) {
            Some(entity) => self.directory.add_device(entity),
            None => self.directory.add_stranger(),
        };
        let audit_bytes = derive(seed, "audit", name);
        self.devices.push(Member {
            id,
            name: DeviceName::new(name).map_err(SimulateError::malformed)?,
            role,
            keys: keys(seed, name),
            audit: AuditKey::new(Zeroizing::new(audit_bytes)),
            audit_bytes,
            values,
            items: Vec::new(),
        });
        Ok(id)
    }

    /// Everybody has an address; some have more to tell.
    fn add_item(&mut self, owner: DeviceId, subject: u32, place: u32, rng: &mut Rng) -> Result<(), SimulateError> {
        let datatype = if place == 0 || rng.bool() { "MACAddress" } else { "LoyaltyNumber" };
        let [a, b, c, d] = subject.to_be_bytes();
        let bytes = match (datatype, u8::try_from(place)) {
            ("MACAddress", Ok(place)) => vec![0xc2, place, a, b, c, d],
            _ => format!("loyalty-{subject}-{place}").into_bytes(),
        };
        let id = self.vocabulary.datatypes.id(datatype).ok_or_else(|| SimulateError::malformed(datatype))?;
        let item = self.directory.add_item(Item { datatype: id, owner });
        let value = Value::String(Arc::from(format!("{datatype}-{subject}-{place}")));
        if let Some(member) = self.devices.get_mut(owner.index()) {
            member.items.push((item, Pseudonym::of(&bytes, &member.audit)));
            member.values.push((Variable::Item(item), value));
        }
        self.items.push(Thing { bytes, datatype: Word::new(datatype).map_err(SimulateError::malformed)? });
        Ok(())
    }

    /// A device.
    pub fn member(&self, device: DeviceId) -> Option<&Member> {
        self.devices.get(device.index())
    }

    /// The numbers of the controllers.
    pub fn controllers(&self) -> impl Iterator<Item = DeviceId> {
        self.devices.iter().filter(|member| member.role == Role::Controller).map(|member| member.id)
    }

    /// The mesh file's contents.
    pub(super) fn mesh(&self) -> Result<MeshDraft, SimulateError> {
        let issued = Time::from_unix(START.unix().saturating_sub(SINCE_SECONDS));
        let expires = Time::from_unix(START.unix().saturating_add(VALID_SECONDS));
        let mut devices = Vec::new();
        for (member, tag) in self.devices.iter().zip(1_u32..) {
            let role = match member.role {
                Role::Repository => MeshRole::Repository,
                Role::Controller => MeshRole::Controller,
                // Subjects are in no mesh file.
                Role::Subject => continue,
            };
            let entity = self.directory.entity(member.id).map(|entity| self.vocabulary.entities.name(entity));
            devices.push(MeshDevice {
                name: member.name.clone(),
                role,
                entity: entity.unwrap_or_default().to_owned(),
                tag: FrameTag(tag.to_be_bytes()),
                signing_key: member.keys.verifying_key(),
                sealing_key: member.keys.sealing_key().map_err(SimulateError::malformed)?,
                valid_from: issued,
                valid_until: expires,
                revoked: None,
            });
        }
        let vocabulary = self.declarations.clone();
        Ok(MeshDraft { serial: 1, issued, expires, next_operator_key: None, vocabulary, devices })
    }
}
