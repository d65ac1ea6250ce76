//! From a configuration and a data directory to a gateway that can run.

use std::path::Path;
use std::sync::Arc;

use mesh_runtime::air::{Address, Air};
use mesh_runtime::daemon::Failure;
use mesh_runtime::daemon::state_file;
use mesh_runtime::driver::limits::Limits;
use mesh_runtime::driver::pacing::{Pace, Pacing};
use mesh_runtime::driver::{Driver, Setup};
use mesh_runtime::journal::{Journal, Names};
use mesh_runtime::keys::{SecretKeys, secret_file};
use mesh_runtime::link::Link;
use mesh_runtime::protocol::changes_topic;
use mesh_runtime::protocol::post::Post;
use mesh_runtime::recorder::{Found, Identity, Recorder, Settings};
use pilot_core::evidence::trace::GraphName;
use pilot_core::evidence::trace::action::{Item as TraceItem, Word};
use pilot_core::evidence::{AuditKey, Pseudonym};
use pilot_core::graph::{Device, Label, Location, MessageKind};
use pilot_core::graphs::INDIRECT_SUBJECT;
use pilot_core::semantics::{Contacts, Epoch, Policies};
use pilot_core::value::{Kind, Time, Value};
use pilot_core::vocabulary::{Directory, Item, ItemId, Variable, Vocabulary};

use crate::catalogue::Catalogue;
use crate::catalogue::verify::Reader;
use crate::config::attributes::NOW;
use crate::config::{Config, Timing};
use crate::frames::ConsentKeys;
use crate::host::{Gateway, Place, Radio, Repository};
use crate::rotation::Rotation;
use crate::state::{About, Remembered, RestoreError, State};

/// Opens or makes everything in the data directory, and puts back what was remembered. Nothing is sent yet.
pub fn prepare<'v>(
    config: Config,
    vocabulary: &'v Vocabulary,
    link: Link,
    air: Air,
    now: Time,
) -> Result<(Driver<'v, Journal>, Gateway<'v>), Failure> {
    state_file::make_directory(&config.data).map_err(Failure::runtime)?;
    config.membership.remember().map_err(Failure::runtime)?;
    let recorder = open_trace(&config, now)?;
    let audit = AuditKey::new(secret(&config.audit_key)?);
    let consent = ConsentKeys::new(secret(&config.data.join("consent.key"))?);

    let (mut directory, mut names) = config.membership.roll(vocabulary);
    let me = directory.add_stranger();
    names.device(me, config.name.clone());
    let item = add_item(&config, vocabulary, &audit, &mut directory, &mut names)?;
    let mut device = Device::new(me);
    device.state.values.insert(Variable::Item(item), value(config.address));
    for (attribute, value) in &config.attributes {
        device.state.values.insert(Variable::Attribute(*attribute), value.clone());
    }

    let about = About { item, pseudonym: pseudonym(config.address, &audit), vocabulary };
    let place = Place { catalogue: config.data.join("policies.cbor"), state: config.data.join("state.json") };
    let (remembered, since) = restore(&place.state, &mut device, &names, &about)?;
    let since = since.max(recorder.since());
    let reader = Reader { mesh: config.membership.mesh(), vocabulary, now };
    let stored = Catalogue::load(&place.catalogue, &config.repository, &reader).map_err(Failure::runtime)?;
    let is_stored = stored.is_some();
    let catalogue = stored.unwrap_or_else(|| Catalogue::new(config.repository.clone()));

    let repository = repository(&config, &names)?;
    let contacts = Contacts { repository: Some(repository.id), sources: Vec::new() };
    let setup = Setup {
        graph: &INDIRECT_SUBJECT,
        vocabulary,
        directory,
        policies: Policies::default(),
        contacts,
        guests: Vec::new(),
        device,
        items: vec![item],
        pacing: pacing(config.timing),
        limits: Limits::default(),
        since,
    };
    let driver = Driver::new(setup, Journal::new(recorder, names));
    let post = Post::of_subject(link).map_err(Failure::runtime)?;
    let radio = Radio::new(air, Rotation::new(config.timing.rotation, fastrand::Rng::new()), config.frame, consent);
    let mut gateway = Gateway::new(about, config, repository, post, catalogue, remembered, radio, place);
    gateway.is_stored = is_stored;
    gateway.subscribe().map_err(Failure::runtime)?;
    Ok((driver, gateway))
}

fn open_trace(config: &Config, now: Time) -> Result<Recorder<Arc<SecretKeys>>, Failure> {
    let path = config.data.join("keys");
    let keys = if path.exists() { SecretKeys::load(&path) } else { SecretKeys::create(&path) };
    let identity = Identity {
        device: config.name.clone(),
        graphs: vec![GraphName::of(&INDIRECT_SUBJECT)],
        mesh_serial: config.membership.mesh().contents().serial,
    };
    let settings = Settings::new(&config.trace);
    let keys = Arc::new(keys.map_err(Failure::runtime)?);
    let (recorder, found) = Recorder::open(settings, identity, keys, now).map_err(Failure::runtime)?;
    if let Found::Interrupted { torn } = found {
        tracing::warn!(torn, "the last run was interrupted");
    }
    Ok(recorder)
}

fn secret(path: &Path) -> Result<zeroize::Zeroizing<[u8; secret_file::SECRET_BYTES]>, Failure> {
    secret_file::load_or_create(path).map_err(Failure::runtime)
}

fn pseudonym(address: Address, audit: &AuditKey) -> Pseudonym {
    Pseudonym::of(&address.reveal(), audit)
}

/// ν(item). It never leaves this process: a frame has the address by being sent with it.
fn value(address: Address) -> Value {
    let digits: Vec<String> = address.reveal().iter().map(|byte| format!("{byte:02x}")).collect();
    Value::String(digits.join(":").into())
}

fn add_item(
    config: &Config,
    vocabulary: &Vocabulary,
    audit: &AuditKey,
    directory: &mut Directory,
    names: &mut Names,
) -> Result<ItemId, Failure> {
    let owner = names.id_of(&config.name).ok_or_else(|| Failure::runtime("the gateway has no number"))?;
    let item = directory.add_item(Item { datatype: config.datatype, owner });
    let datatype = Word::new(vocabulary.datatypes.name(config.datatype)).map_err(Failure::configuration)?;
    names.item(item, TraceItem { pseudonym: pseudonym(config.address, audit), datatype });
    Ok(item)
}

fn repository(config: &Config, names: &Names) -> Result<Repository, Failure> {
    let name = config.repository.clone();
    let missing = || Failure::configuration(format!("the entity of the repository `{name}` is unknown"));
    let id = names.id_of(&name).ok_or_else(missing)?;
    let tag = config.membership.tag(&name).ok_or_else(missing)?;
    let changes = changes_topic(tag).map_err(Failure::runtime)?;
    Ok(Repository { name, id, changes })
}

/// Puts back whom she refuses and who may have her item; the time of the last run comes along.
fn restore(path: &Path, device: &mut Device, names: &Names, about: &About<'_>) -> Result<(Remembered, Time), Failure> {
    let Some(state) = state_file::load::<State>(path).map_err(Failure::runtime)? else {
        return Ok((Remembered::default(), Time::default()));
    };
    let since = state.time();
    let (memory, remembered) = state.restore(names, about).map_err(|error| {
        let path = path.display();
        match error {
            RestoreError::OtherItem => Failure::configuration(format!(
                "`{path}`: {error}; withdraw under the old one first, or use another data directory"
            )),
            error => Failure::runtime(format!("`{path}`: {error}")),
        }
    })?;
    device.memory = memory;
    Ok((remembered, since))
}

/// A frame says again what was recorded once per epoch.
fn pacing(timing: Timing) -> Pacing {
    let wait = |dwell| Pace { dwell, ..Pace::default() };
    Pacing::default()
        .at(Location::S3, Label::Tau, wait(timing.refresh))
        .at(Location::S2, Label::Tau, wait(timing.answer))
        .everywhere(Label::Send(MessageKind::Broadcast), Pace { again: Epoch::SECONDS, ..Pace::default() })
}

/// The attribute that is the clock's, if the vocabulary has it.
pub(crate) fn clock_attribute(vocabulary: &Vocabulary) -> Option<pilot_core::vocabulary::Attribute> {
    match vocabulary.variable(NOW)? {
        (Variable::Attribute(attribute), Kind::Time) => Some(attribute),
        _ => None,
    }
}
