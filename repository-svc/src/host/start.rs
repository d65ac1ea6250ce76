//! From the disk to a repository at work.

use std::collections::BTreeMap;
use std::sync::Arc;

use mesh_runtime::daemon::Failure;
use mesh_runtime::driver::Setup;
use mesh_runtime::driver::limits::Limits;
use mesh_runtime::driver::pacing::Pacing;
use mesh_runtime::journal::{self, Origin};
use mesh_runtime::link::Link;
use mesh_runtime::protocol::post::Post;
use mesh_runtime::recorder::{Identity, Recorder, Settings};
use pilot_core::evidence::statement::Content;
use pilot_core::evidence::trace::GraphName;
use pilot_core::evidence::trace::action::Cause;
use pilot_core::evidence::{PolicyStatement, StatementId};
use pilot_core::graph::Device;
use pilot_core::graphs::REPOSITORY;
use pilot_core::semantics::{Contacts, Policies};
use pilot_core::value::Time;
use pilot_core::vocabulary::Vocabulary;
use tokio::sync::mpsc;

use super::downloads::DOWNLOAD_BURST;
use super::{Driving, Input, Repository, Upload};
use crate::catalogue::Catalogue;
use crate::config::Config;
use crate::left_out::LeftOut;
use crate::store::{Came, MAX_CHANGES_BYTES, PolicyStore, Revision};

impl Repository {
    /// Opens the trace and takes up where the last run ended.
    pub(crate) fn start<'v>(
        config: Config,
        link: Link,
        store: Arc<PolicyStore>,
        inputs: mpsc::Sender<Input>,
        vocabulary: &'v Vocabulary,
        now: Time,
    ) -> Result<(Self, Driving<'v>), Failure> {
        let Config { name, keys, membership, data, trace, .. } = config;
        membership.remember().map_err(Failure::runtime)?;
        let (directory, mut names) = membership.roll(vocabulary);
        let me = names.id_of(&name).ok_or_else(|| Failure::configuration("the mesh file does not list this device"))?;
        let identity = Identity {
            device: name.clone(),
            graphs: vec![GraphName::of(&REPOSITORY)],
            mesh_serial: membership.mesh().contents().serial,
        };
        let opened = Recorder::open(Settings::new(&trace), identity, Arc::clone(&keys), now);
        let (recorder, found) = opened.map_err(Failure::runtime)?;
        tracing::debug!(?found, "trace opened");

        let (mut policies, mut device) = (Policies::default(), Device::new(me));
        let (mut catalogue, mut unrecorded) = (Catalogue::default(), Vec::new());
        let (recorded, mut count) = (store.recorded(), 0u64);
        let mut left_out = LeftOut::load(&data).map_err(Failure::runtime)?;
        let mut since = Revision(0);
        loop {
            let changes = store.changes(since, MAX_CHANGES_BYTES).map_err(Failure::runtime)?;
            for entry in changes.entries {
                let bytes: Arc<[u8]> = entry.statement.bytes().into();
                let opened = PolicyStatement::open(&bytes, membership.mesh(), vocabulary, now);
                match (opened, names.id_of(&entry.device)) {
                    // The trace does not say that it is listed.
                    (Ok(statement), Some(_))
                        if entry.revision > recorded || left_out.has(&entry.device, entry.revision) =>
                    {
                        unrecorded.push((entry.revision, Upload { statement, bytes }, entry.came));
                        continue;
                    }
                    (Ok(PolicyStatement { content: Content::Policy(policy), .. }), Some(id)) => {
                        let policy = policies.intern(policy, vocabulary);
                        if let Some(digest) = policies.digest(policy) {
                            names.statement(id, digest, StatementId::of(&bytes));
                        }
                        device.memory.catalogue.insert(id, policy);
                    }
                    (Ok(_), Some(_)) => {}
                    // Expired, or of a device that is no longer in the mesh. It stays in the store: its version counts.
                    (Err(_), _) | (_, None) => {
                        count += 1;
                        left_out.insert(&entry.device, entry.revision);
                        catalogue.pass(entry.revision.0);
                        continue;
                    }
                }
                catalogue.insert(entry.device, entry.revision.0, bytes);
            }
            since = changes.until;
            if changes.until == changes.head {
                break;
            }
        }
        if count > 0 {
            tracing::info!(left_out = count, "statements that are not valid now are not handed out");
        }
        // Before the trace says that they are not listed any more.
        left_out.store().map_err(Failure::runtime)?;
        let setup = Setup {
            graph: &REPOSITORY,
            vocabulary,
            directory,
            policies,
            contacts: Contacts::default(),
            guests: Vec::new(),
            device,
            items: Vec::new(),
            pacing: Pacing::default(),
            limits: Limits::default(),
            since: recorder.since(),
        };
        let post = Post::of_device(link, name.clone(), keys);
        let mut driver = journal::begin(setup, recorder, names, now).map_err(Failure::runtime)?;
        let vocabulary = vocabulary.clone();
        let mut repository = Self {
            name,
            me,
            membership,
            vocabulary,
            post,
            store,
            inputs,
            catalogue,
            left_out,
            durable: BTreeMap::new(),
            downloads: BTreeMap::new(),
            downloads_left: (DOWNLOAD_BURST, now),
            acknowledgements: Vec::new(),
            syncing: None,
            noted: recorded.0,
            announced: None,
            is_connected: false,
            uploads: 0,
            served: 0,
        };
        // Durable when the last run was cut off, and not in its trace; or left out then.
        for (revision, upload, Came { id, head }) in unrecorded {
            let origin = Origin { id, cause: Cause { head, consent: None } };
            repository.list(revision, upload, origin, &mut driver, now).map_err(Failure::runtime)?;
        }
        repository.subscribe().map_err(Failure::runtime)?;
        Ok((repository, driver))
    }
}
