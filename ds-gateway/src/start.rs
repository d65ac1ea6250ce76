//! From a configuration and a data directory to a gateway that can run.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mesh_runtime::air::{Address, Air};
use mesh_runtime::daemon::Failure;
use mesh_runtime::daemon::state_file;
use mesh_runtime::driver::limits::Limits;
use mesh_runtime::driver::pacing::{Pace, Pacing};
use mesh_runtime::driver::{Driver, Setup};
use mesh_runtime::journal::{self, Journal, Names};
use mesh_runtime::keys::{SecretKeys, secret_file};
use mesh_runtime::link::Link;
use mesh_runtime::protocol::changes_topic;
use mesh_runtime::protocol::post::Post;
use mesh_runtime::recorder::{Found, Identity, Position, Recorder, Settings};
use pilot_core::evidence::trace::GraphName;
use pilot_core::evidence::trace::action::{Item as TraceItem, Word};
use pilot_core::evidence::{AuditKey, Pseudonym};
use pilot_core::graph::{Device, Label, Location, MessageKind};
use pilot_core::graphs::INDIRECT_SUBJECT;
use pilot_core::semantics::{Contacts, Epoch, Policies};
use pilot_core::value::{Kind, Time, Value};
use pilot_core::vocabulary::{Directory, Item, ItemId, Variable, Vocabulary};

use crate::NO_ADDRESS;
use crate::catalogue::Catalogue;
use crate::catalogue::verify::Reader;
use crate::config::attributes::NOW;
use crate::config::{Config, Timing};
use crate::follow::Behind;
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
    let address = config.address.ok_or_else(|| Failure::configuration(NO_ADDRESS))?;
    state_file::make_directory(&config.data).map_err(Failure::runtime)?;
    config.membership.remember().map_err(Failure::runtime)?;
    let mut recorder = open_trace(&config, now)?;
    let audit = AuditKey::new(secret(&config.audit_key)?);
    let consent = ConsentKeys::new(secret(&config.data.join("consent.key"))?);

    let (mut directory, mut names) = config.membership.roll(vocabulary);
    let me = directory.add_stranger();
    names.device(me, config.name.clone());
    let pseudonym = Pseudonym::of(&address.reveal(), &audit);
    let item = add_item(&config, pseudonym, &mut directory, &mut names)?;
    let mut device = Device::new(me);
    device.state.values.insert(Variable::Item(item), value(address));
    for (attribute, value) in &config.attributes {
        device.state.values.insert(Variable::Attribute(*attribute), value.clone());
    }

    let about = About { item, pseudonym, vocabulary };
    let place = Place { catalogue: config.data.join("policies.cbor"), state: config.data.join("state.json") };
    let Restored { mut remembered, since, position: mut followed } =
        restore(&place.state, &mut device, &names, &about)?;
    let since = since.max(recorder.since());
    let memory = &mut device.memory;
    let mut behind =
        Behind { memory, remembered: &mut remembered, names: &names, directory: &directory, about: &about };
    if behind.catch_up(followed, &recorder)? {
        // At once, so that the next crash finds its place in this trace.
        recorder.sync().map_err(Failure::runtime)?;
        let state = State::of(&device.memory, &remembered, &names, &about, (recorder.position(), now));
        state_file::store(&place.state, &state).map_err(Failure::runtime)?;
        followed = recorder.position();
    }
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
    let driver = journal::begin(setup, recorder, names, now).map_err(Failure::runtime)?;
    let post = Post::of_subject(link).map_err(Failure::runtime)?;
    let rotation = Rotation::new(config.timing.rotation, fastrand::Rng::new());
    let radio = Radio::new(air, address, rotation, config.frame, consent);
    let mut gateway = Gateway::new(about, config, repository, post, catalogue, (remembered, followed), radio, place);
    gateway.is_stored = is_stored;
    gateway.subscribe().map_err(Failure::runtime)?;
    Ok((driver, gateway))
}

fn open_trace(config: &Config, now: Time) -> Result<Recorder<Arc<SecretKeys>>, Failure> {
    let path = keys_path(config);
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

/// Where the keys are that sign her trace.
pub(crate) fn keys_path(config: &Config) -> PathBuf {
    config.data.join("keys")
}

fn secret(path: &Path) -> Result<zeroize::Zeroizing<[u8; secret_file::SECRET_BYTES]>, Failure> {
    secret_file::load_or_create(path).map_err(Failure::runtime)
}

/// ν(item). It never leaves this process: a frame has the address by being sent with it.
fn value(address: Address) -> Value {
    let digits: Vec<String> = address.reveal().iter().map(|byte| format!("{byte:02x}")).collect();
    Value::String(digits.join(":").into())
}

fn add_item(
    config: &Config,
    pseudonym: Pseudonym,
    directory: &mut Directory,
    names: &mut Names,
) -> Result<ItemId, Failure> {
    let owner = names.id_of(&config.name).ok_or_else(|| Failure::runtime("the gateway has no number"))?;
    let item = directory.add_item(Item { datatype: config.datatype, owner });
    let datatype = Word::new(config.vocabulary.datatypes.name(config.datatype)).map_err(Failure::configuration)?;
    names.item(item, TraceItem { pseudonym, datatype });
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

/// What she remembers besides the variables of her graph, as of when, and up to where in the trace.
struct Restored {
    remembered: Remembered,
    since: Time,
    position: Position,
}

/// Puts back whom she refuses and who may have her item.
fn restore(path: &Path, device: &mut Device, names: &Names, about: &About<'_>) -> Result<Restored, Failure> {
    let Some(state) = state_file::load::<State>(path).map_err(Failure::runtime)? else {
        let (remembered, since) = (Remembered::default(), Time::default());
        return Ok(Restored { remembered, since, position: Position::START });
    };
    let (since, position) = (state.time(), state.position());
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
    Ok(Restored { remembered, since, position })
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
