//! The device as the disk has it: what was published, what is held, what was taken back.
//!
//! What the trace says and the rest of the disk does not is done first (`follow`). Then what fell due while the daemon was
//! down is erased, before anything else happens. The device starts as if it still had it, so that the first thing it does
//! is to erase it by the graph, and to record that.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use mesh_runtime::air::frame::ControllerTag;
use mesh_runtime::daemon::{Failure, state_file};
use mesh_runtime::driver::limits::Limits;
use mesh_runtime::driver::pacing::{Pace, Pacing};
use mesh_runtime::driver::run::Host as _;
use mesh_runtime::driver::{Decision, Guest, RecordError, Setup};
use mesh_runtime::journal::{self, Names};
use mesh_runtime::keys::{SecretKeys, secret_file};
use mesh_runtime::link::{Filter as TopicFilter, Link};
use mesh_runtime::protocol::post::Post;
use mesh_runtime::protocol::requests::Requests;
use mesh_runtime::recorder::{Identity, Position, Recorder, Settings};
use pilot_core::codec::{self, Digest};
use pilot_core::evidence::envelope::Sender;
use pilot_core::evidence::trace::GraphName;
use pilot_core::evidence::trace::action::{Item, Party, Word};
use pilot_core::evidence::{AuditKey, Pseudonym};
use pilot_core::graph::{Device, Location};
use pilot_core::graphs::INDIRECT_CONTROLLER;
use pilot_core::policy::Choice;
use pilot_core::semantics::{Contacts, Policies, PolicyId, Receipt};
use pilot_core::value::{Time, Value};
use pilot_core::vocabulary::{DataType, Directory, Item as ItemEntry, ItemId, Variable, Vocabulary};

use crate::applications::Applications;
use crate::config::Config;
use crate::filter::Filter;
use crate::follow;
use crate::host::{Controller, Gateway};
use crate::notices::Notices;
use crate::published::{Author, Published};
use crate::upload::{Standing, UPLOAD, UPLOAD_AGAIN_SECONDS};
use crate::vault::{Description, MAX_LISTED, Record, Vault, VaultError};

/// What stands in the device for a value that is gone from the vault already.
const GONE: &str = "gone";

impl Gateway {
    /// Opens trace and vault, and takes up where the last run ended.
    pub(crate) fn start<'v>(
        config: Config,
        link: Link,
        vocabulary: &'v Arc<Vocabulary>,
        now: Time,
    ) -> Result<(Self, Controller<'v>), Failure> {
        let (directory, names) = config.membership.roll(vocabulary);
        let unlisted = || Failure::configuration("the mesh file does not list this device and its repository");
        let me = names.id_of(&config.name).ok_or_else(unlisted)?;
        let repository = names.id_of(&config.repository).ok_or_else(unlisted)?;
        let Disk { recorder, audit, vault, followed, overdue, published } = Disk::open(&config, vocabulary, now)?;
        let word = Word::new(vocabulary.datatypes.name(config.datatype)).map_err(Failure::runtime)?;
        let mut memory = Memory {
            vocabulary,
            heard: (config.datatype, word.clone()),
            directory,
            names,
            policies: Policies::default(),
            device: Device::new(me),
            guests: BTreeMap::new(),
        };
        let own = memory.remember_policies(&published, &config, now);
        let vault = memory.remember_items(vault, &overdue).map_err(Failure::runtime)?;
        let applications = config.applications.as_deref().map(Applications::listen).transpose();
        let gateway = Self {
            me,
            audit,
            is_in_force: true,
            vocabulary: Arc::clone(vocabulary),
            datatype: (config.datatype, word),
            post: Post::of_device(link, config.name.clone(), Arc::clone(&config.keys)),
            is_connected: false,
            repository: Sender::Device(config.repository),
            published,
            requests: Requests::default(),
            standing: Standing::Silent,
            next_raise: Time::default(),
            filter: Filter::new(ControllerTag(config.tag.0)),
            health: None,
            guests: memory.guests.clone(),
            addresses: BTreeMap::new(),
            arrivals: VecDeque::new(),
            accepted: 0,
            refused: BTreeMap::new(),
            vault,
            changes: Vec::new(),
            followed,
            compact_seconds: config.compact_seconds,
            next_sweep: Time::from_unix(now.unix().saturating_add(config.compact_seconds)),
            applications: applications.map_err(|error| Failure::runtime(format!("`applications.socket`: {error}")))?,
            notices: Notices::default(),
            failure: None,
            name: config.name,
            tag: config.tag,
            entity: config.entity,
            keys: config.keys,
            membership: config.membership,
            source: config.source,
        };
        let contacts = Contacts { repository: Some(repository), sources: Vec::new() };
        let driver = memory.into_driver(contacts, pacing(config.statement_seconds), recorder, now);
        gateway.begin(driver.map_err(Failure::runtime)?, own, now)
    }

    /// init, with the policy of the configuration unless it was withdrawn.
    fn begin<'v>(
        mut self,
        mut driver: Controller<'v>,
        own: Option<PolicyId>,
        now: Time,
    ) -> Result<(Self, Controller<'v>), Failure> {
        let topic = self.post.my_topic(self.membership.mesh());
        let topic = topic.ok_or_else(|| Failure::configuration("the mesh file does not list this device"))?;
        self.post.link().subscribe(TopicFilter::from(topic)).map_err(Failure::runtime)?;
        let policy = own.and_then(|own| driver.context(now).policy(own).cloned());
        match &policy {
            Some(policy) => {
                if policy.collection().usage.retention() <= now {
                    tracing::warn!("the deadline of the policy has passed: nothing will be collected");
                }
                self.state(policy, &mut driver, now).map_err(Failure::runtime)?;
            }
            None => tracing::warn!("the policy was withdrawn: nothing is collected until `dc-gateway reload`"),
        }
        self.tell_filter(None, now).map_err(Failure::configuration)?;
        let own = own.into_iter().collect();
        let outcome = driver.decide(Decision::Init { own }, now).map_err(Failure::runtime)?;
        self.happened(outcome, &mut driver);
        self.resume_withdrawal(now);
        let unrecorded = self.published.unrecorded().map(|(_, digests)| digests.clone()).unwrap_or_default();
        let policies = driver.context(now).policies;
        let unrecorded = unrecorded.iter().filter_map(|digest| policies.by_digest(digest)).collect();
        self.record_withdrawals(unrecorded, &mut driver, now).map_err(Failure::runtime)?;
        Ok((self, driver))
    }
}

/// What lies in the data directory.
struct Disk {
    recorder: Recorder<Arc<SecretKeys>>,
    audit: AuditKey,
    vault: Vault,
    /// Up to where the vault follows the trace.
    followed: Position,
    /// What fell due while the daemon was down, and is gone from the vault.
    overdue: Vec<Description>,
    published: Published,
}

impl Disk {
    fn open(config: &Config, vocabulary: &Arc<Vocabulary>, now: Time) -> Result<Self, Failure> {
        let data = &config.data;
        state_file::make_directory(data).map_err(Failure::runtime)?;
        config.membership.remember().map_err(Failure::runtime)?;
        let identity = Identity {
            device: config.name.clone(),
            graphs: vec![GraphName::of(&INDIRECT_CONTROLLER)],
            mesh_serial: config.membership.mesh().contents().serial,
        };
        // Before the rest: it locks the directory.
        let opened = Recorder::open(Settings::new(&config.trace), identity, Arc::clone(&config.keys), now);
        let (mut recorder, found) = opened.map_err(Failure::runtime)?;
        tracing::debug!(?found, "trace opened");
        let audit = audit_key(&config.audit_key, data)?;
        let unlocked = Vault::unlock(&data.join("vault.redb"), &data.join("vault.key"));
        let (vault, swept, followed) = follow::catch_up(unlocked.map_err(Failure::runtime)?, &mut recorder, now)?;
        if !swept.erased.is_empty() {
            tracing::info!(records = swept.erased.len(), "what fell due while the daemon was down is erased");
        }
        let author = Author {
            device: config.name.clone(),
            entity: config.entity,
            keys: Arc::clone(&config.keys),
            vocabulary: Arc::clone(vocabulary),
            seconds: config.statement_seconds,
        };
        let published = Published::load(&data.join("published.json"), author, now).map_err(Failure::runtime)?;
        let published = with_what_was_recorded(published, &recorder)?;
        Ok(Self { recorder, audit, vault, followed, overdue: swept.erased, published })
    }
}

/// A run that ended while it withdrew policies may have recorded that, and not noted it.
fn with_what_was_recorded(
    mut published: Published,
    recorder: &Recorder<Arc<SecretKeys>>,
) -> Result<Published, Failure> {
    let Some((position, _)) = published.unrecorded() else { return Ok(published) };
    match follow::withdrawn_after(position, recorder).map_err(Failure::runtime)? {
        Some(withdrawn) => {
            for (policy, sent) in withdrawn {
                published.withdrawal_is_recorded(&policy, sent).map_err(Failure::runtime)?;
            }
        }
        None => published.forget_unrecorded().map_err(Failure::runtime)?,
    }
    Ok(published)
}

/// Uploads are repeated, at s₂ as anywhere else by the graph's leave.
fn pacing(statement_seconds: u64) -> Pacing {
    let again = UPLOAD_AGAIN_SECONDS.min(statement_seconds / 4);
    Pacing::default().at(Location::S2, UPLOAD, Pace { again, ..Pace::default() })
}

/// K. Without it nobody could take back what is in the vault, so a new one is made only for a new vault.
fn audit_key(path: &Path, data: &Path) -> Result<AuditKey, Failure> {
    let key = match secret_file::load(path).map_err(Failure::runtime)? {
        Some(key) => key,
        None if data.join("vault.redb").exists() => {
            let path = path.display();
            return Err(Failure::runtime(format!(
                "there is a vault, but not the key `{path}` that names what is in it"
            )));
        }
        None => secret_file::create(path).map_err(Failure::runtime)?,
    };
    Ok(AuditKey::new(key))
}

/// What the driver will be made of.
struct Memory<'v> {
    vocabulary: &'v Arc<Vocabulary>,
    heard: (DataType, Word),
    directory: Directory,
    names: Names,
    policies: Policies,
    device: Device,
    guests: BTreeMap<Pseudonym, Guest>,
}

impl<'v> Memory<'v> {
    /// π and what is published; the id of the policy to work under, unless it was withdrawn.
    fn remember_policies(&mut self, published: &Published, config: &Config, now: Time) -> Option<PolicyId> {
        for policy in published.known() {
            self.policies.intern(policy.clone(), self.vocabulary);
        }
        for digest in published.recorded(now) {
            if let Some(id) = self.policies.by_digest(digest) {
                self.device.memory.published.insert(id);
                self.device.state.policies.insert((self.device.id, id));
            }
            if let Some(statement) = published.statement(digest) {
                self.names.statement(self.device.id, *digest, statement.id());
            }
        }
        let own = self.policies.intern(config.policy.clone(), self.vocabulary);
        let digest = codec::digest(&Choice::Policy(config.policy.clone()), self.vocabulary);
        (!published.is_withdrawn(&digest)).then_some(own)
    }

    /// ρ, ν and tombstones, from the vault and from what it has just erased. Records that nobody could judge are erased.
    fn remember_items(&mut self, mut vault: Vault, overdue: &[Description]) -> Result<Vault, VaultError> {
        let (mut unknown, mut last) = (Vec::new(), None);
        loop {
            let records = vault.records(last, MAX_LISTED)?;
            let Some(end) = records.last() else { break };
            last = Some(end.handle);
            for Record { handle, description } in &records {
                if self.remember_item(description, &handle.to_string()).is_none() {
                    unknown.push(*handle);
                }
            }
        }
        for description in overdue {
            if self.remember_item(description, GONE).is_none() {
                tracing::warn!("something was erased whose policy is not known any more; the trace cannot say so");
            }
        }
        if !unknown.is_empty() {
            tracing::warn!(records = unknown.len(), "records whose policy is not known any more are erased");
            vault.discard(&unknown)?;
        }
        for (pseudonym, withdrawal) in vault.tombstones()? {
            let heard = self.heard.clone();
            if let Some(item) = self.guest(pseudonym, heard) {
                self.device.memory.tombstones.insert(item, withdrawal);
            }
        }
        Ok(vault)
    }

    fn remember_item(&mut self, description: &Description, stand_in: &str) -> Option<()> {
        let policy = self.known(&description.policy)?;
        let datatype = self.vocabulary.datatypes.id(&description.datatype)?;
        let item = self.guest(description.pseudonym, (datatype, Word::new(&description.datatype).ok()?))?;
        let sender = self.directory.item(item)?.owner;
        let receipt = Receipt { item, sender, policy };
        self.device.state.received.insert(receipt);
        self.device.state.values.insert(Variable::Item(item), Value::String(Arc::from(stand_in)));
        let released = self.device.memory.released.entry(receipt).or_insert(description.epoch);
        *released = description.epoch.max(*released);
        Some(())
    }

    fn known(&self, policy: &Digest) -> Option<PolicyId> {
        self.policies.by_digest(policy)
    }

    /// The item of an owner, who is a guest.
    fn guest(&mut self, pseudonym: Pseudonym, (datatype, word): (DataType, Word)) -> Option<ItemId> {
        if let Some(guest) = self.guests.get(&pseudonym) {
            return guest.item;
        }
        let owner = self.directory.add_stranger();
        let item = self.directory.add_item(ItemEntry { datatype, owner });
        self.names.guest(owner, Party::Owner);
        self.names.item(item, Item { pseudonym, datatype: word });
        self.guests.insert(pseudonym, Guest { device: owner, item: Some(item) });
        Some(item)
    }

    fn into_driver(
        self,
        contacts: Contacts,
        pacing: Pacing,
        recorder: Recorder<Arc<SecretKeys>>,
        now: Time,
    ) -> Result<Controller<'v>, RecordError> {
        let setup = Setup {
            graph: &INDIRECT_CONTROLLER,
            vocabulary: self.vocabulary,
            directory: self.directory,
            policies: self.policies,
            contacts,
            guests: self.guests.into_values().collect(),
            device: self.device,
            items: Vec::new(),
            pacing,
            limits: Limits::default(),
            since: recorder.since(),
        };
        journal::begin(setup, recorder, self.names, now)
    }
}
