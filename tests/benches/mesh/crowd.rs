//! Many controllers' devices: keys, places in the mesh file, and signed statements, without a process for each.

use std::num::NonZero;
use std::sync::Arc;
use std::thread;

use consent_mesh_tests::{Mesh, now, policy};
use mesh_runtime::daemon::state_file;
use mesh_runtime::keys::SecretKeys;
use mesh_runtime::mesh_file::{SignedMesh, signature_path};
use pilot_core::evidence::mesh::{FrameTag, MeshDraft, Role, sign_mesh};
use pilot_core::evidence::statement::Content;
use pilot_core::evidence::{DeviceName, MeshDevice, MeshFile, PolicyStatement};
use pilot_core::policy::Choice;
use pilot_core::value::Time;
use repository_svc::store::{MAX_GROUP, PolicyStore, Statement, Version};
use tokio::task::JoinSet;

/// The entity of them all.
const ENTITY: &str = "mall";
/// Their first frame tag, above those of a layout.
const FIRST_TAG: u32 = 1 << 24;

/// A device of the crowd.
#[derive(Debug)]
pub struct Member {
    /// Its name.
    pub name: DeviceName,
    /// Its keys.
    pub keys: Arc<SecretKeys>,
}

/// The devices, and the mesh file that lists them.
#[derive(Debug)]
pub struct Crowd {
    /// The devices.
    pub members: Vec<Member>,
    /// The mesh file.
    pub mesh: MeshFile,
}

impl Crowd {
    /// So many devices join a mesh. Whoever else is to join must have done so before.
    pub fn join(mesh: &mut Mesh, count: usize) -> Self {
        mesh.layout.sign().unwrap();
        let numbers: Vec<usize> = (0..count).collect();
        let members = with_all_processors(&numbers, |number| Member {
            name: DeviceName::new(&format!("gate-{number}")).unwrap(),
            keys: Arc::new(SecretKeys::generate().unwrap()),
        });
        let path = mesh.layout.root().join("mesh.toml");
        let mut draft = MeshDraft::from_toml(&std::fs::read_to_string(&path).unwrap()).unwrap();
        draft.serial += 1;
        let (valid_from, valid_until) = (draft.issued, draft.expires);
        draft.devices.extend((FIRST_TAG..).zip(&members).map(|(tag, member)| MeshDevice {
            name: member.name.clone(),
            role: Role::Controller,
            entity: ENTITY.to_owned(),
            tag: FrameTag(tag.to_be_bytes()),
            signing_key: member.keys.public().signing,
            sealing_key: member.keys.public().sealing,
            valid_from,
            valid_until,
            revoked: None,
        }));
        let operator = SecretKeys::load(&mesh.layout.keys("operator")).unwrap();
        let text = draft.to_toml().unwrap();
        let signature = format!("{}\n", sign_mesh(&text, &operator));
        state_file::store_bytes(&path, text.as_bytes()).unwrap();
        state_file::store_bytes(&signature_path(&path), signature.as_bytes()).unwrap();
        let signed = SignedMesh::read(&path).unwrap();
        Self { members, mesh: signed.open(&mesh.layout.operator().signing, now(), None).unwrap() }
    }

    /// A device's statement of this version. No two devices have the same policy.
    pub fn statement(&self, number: usize, version: u64) -> Vec<u8> {
        let member = &self.members[number];
        let text = policy("analytics", ENTITY, "ServiceUsageAnalytics", 100_000 + number as u64);
        let parsed = pilot_core::syntax::parse_file(&text, self.mesh.vocabulary()).unwrap();
        let Choice::Policy(policy) = parsed.policies.into_iter().next().unwrap().choice else { panic!("no policy") };
        let issued = now();
        let statement = PolicyStatement {
            device: member.name.clone(),
            entity: self.mesh.vocabulary().entities.id(ENTITY).unwrap(),
            version,
            content: Content::Policy(policy),
            issued,
            expires: Time::from_unix(issued.unix() + 3_600),
        };
        statement.sign(self.mesh.vocabulary(), &*member.keys)
    }

    /// Puts a statement of each into the store of a repository that does not run.
    pub fn fill_store(&self, mesh: &mut Mesh) {
        // The repository finds policies that no record of its explains.
        mesh.is_audited = false;
        let numbers: Vec<usize> = (0..self.members.len()).collect();
        let statements = with_all_processors(&numbers, |number| self.statement(*number, 1));
        let data = mesh.layout.data("registry");
        state_file::make_directory(&data).unwrap();
        let store = Arc::new(PolicyStore::open(&data.join("policies")).unwrap());
        let puts: Vec<_> = self.members.iter().map(|member| member.name.clone()).zip(statements).collect();
        mesh.runtime.block_on(async {
            for group in puts.chunks(MAX_GROUP) {
                let mut waiting = JoinSet::new();
                for (device, bytes) in group.iter().cloned() {
                    let store = Arc::clone(&store);
                    waiting.spawn(async move {
                        store.put(device, Statement::new(Version(1), &bytes).unwrap()).await.unwrap();
                    });
                }
                while let Some(put) = waiting.join_next().await {
                    put.unwrap();
                }
            }
        });
        // Or the repository would first record them all, as if it had been killed.
        store.note_recorded(store.revision()).unwrap();
    }
}

/// Does something for each, in their order.
pub fn with_all_processors<T: Sync, R: Send>(all: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let work = &work;
    thread::scope(|scope| {
        let shares = all.chunks(all.len().div_ceil(processors).max(1));
        let workers: Vec<_> =
            shares.map(|share| scope.spawn(move || share.iter().map(work).collect::<Vec<R>>())).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    })
}
