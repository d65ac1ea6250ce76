//! What this device has said about its policies, on disk (`published.json`): its signed statements, the highest version,
//! and policies that it took back.
//!
//! A statement is on the disk before anybody hears of it, so no version is ever used twice. A policy that was published
//! stays here until it is withdrawn (S17) or its deadline has passed: until then people may consent to it. A withdrawn
//! one stays until its deadline, because things may be held under it, and a restart must not publish it again.
//!
//! The trace says what is published: a statement counts once its upload is recorded, which is noted here before it leaves,
//! and a withdrawal that was not recorded when a run ended is recorded by the next one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mesh_runtime::daemon::state_file::{self, StateError};
use mesh_runtime::journal::Sent;
use mesh_runtime::keys::SecretKeys;
use mesh_runtime::recorder::Position;
use pilot_core::codec::{self, Digest};
use pilot_core::evidence::envelope::{ChainHead, MessageId};
use pilot_core::evidence::hex::{self, Hex};
use pilot_core::evidence::statement::Content;
use pilot_core::evidence::{DeviceName, MeshFile, PolicyStatement, StatementId};
use pilot_core::policy::{Choice, Policy};
use pilot_core::value::Time;
use pilot_core::vocabulary::{Entity, Vocabulary};
use serde::{Deserialize, Serialize};

/// How far ahead of ours a version may be that a repository says to have: more uploads than a device makes in its life.
pub const MAX_RAISE: u64 = 1 << 20;

/// Who speaks, and by which words.
#[derive(Debug, Clone)]
pub struct Author {
    /// The device.
    pub device: DeviceName,
    /// entity(device).
    pub entity: Entity,
    /// Signs.
    pub keys: Arc<SecretKeys>,
    /// The words.
    pub vocabulary: Arc<Vocabulary>,
    /// How long a statement is valid, in seconds.
    pub seconds: u64,
}

/// A signed statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// Which of the device's.
    pub version: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
    issued: Time,
    expires: Time,
}

impl Statement {
    /// By which traces name it.
    pub fn id(&self) -> StatementId {
        StatementId::of(&self.bytes)
    }

    /// Whether less than half of its life is left.
    pub fn is_old(&self, now: Time) -> bool {
        let life = self.expires.unix().saturating_sub(self.issued.unix());
        now < self.issued || self.expires.unix().saturating_sub(now.unix()) <= life / 2
    }
}

/// Why nothing was said.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// It could not be written down.
    #[error(transparent)]
    State(#[from] StateError),
    /// There is no higher version.
    #[error("the versions of this device's statements are used up")]
    Versions,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Published {
    path: PathBuf,
    author: Author,
    highest: u64,
    statements: BTreeMap<Digest, (Policy, Statement)>,
    /// Those of the statements' policies of which an upload was recorded.
    uploaded: BTreeSet<Digest>,
    withdrawn: BTreeMap<Digest, Policy>,
    /// A withdrawal that the repository has not acknowledged.
    withdrawal: Option<Statement>,
    /// The envelope by which the trace says so.
    sent: Option<Sent>,
    /// Policies whose withdrawal is not known to be recorded, and where the trace ended before it could be.
    unrecorded: BTreeSet<Digest>,
    position: Option<Position>,
}

impl Published {
    /// What was said in earlier runs. Policies that the vocabulary in use cannot say any more are left out.
    pub fn load(path: &Path, author: Author, now: Time) -> Result<Self, StateError> {
        let vocabulary = Arc::clone(&author.vocabulary);
        let file: File = state_file::load(path)?.unwrap_or_default();
        let damaged = || StateError::Damaged(path.into());
        let mut found = Self {
            path: path.into(),
            author,
            highest: file.highest,
            statements: BTreeMap::new(),
            uploaded: BTreeSet::new(),
            withdrawn: BTreeMap::new(),
            withdrawal: None,
            sent: None,
            unrecorded: BTreeSet::new(),
            position: file.position,
        };
        if let Some(SentFile { id, head }) = &file.sent {
            let sent = || Some(Sent { id: MessageId(hex::decode(id)?), head: ChainHead(hex::decode(head)?) });
            found.sent = Some(sent().ok_or_else(damaged)?);
        }
        for digest in &file.unrecorded {
            found.unrecorded.insert(hex::decode(digest).map(Digest).ok_or_else(damaged)?);
        }
        if let Some(said) = file.withdrawal {
            found.withdrawal = Some(said.read().ok_or_else(damaged)?);
        }
        for entry in file.published {
            let bytes = from_hex(&entry.policy).ok_or_else(damaged)?;
            let statement = entry.statement.read().ok_or_else(damaged)?;
            if let Some((digest, policy)) = read_policy(&bytes, &vocabulary, now) {
                found.statements.insert(digest, (policy, statement));
                if entry.uploaded {
                    found.uploaded.insert(digest);
                }
            }
        }
        for policy in file.withdrawn {
            let bytes = from_hex(&policy).ok_or_else(damaged)?;
            found.withdrawn.extend(read_policy(&bytes, &vocabulary, now));
        }
        Ok(found)
    }

    /// The policies that are published, not withdrawn, and not over: somebody may consent to them.
    pub fn policies(&self, now: Time) -> impl Iterator<Item = (&Digest, &Policy)> {
        let published = self.statements.iter().map(|(digest, (policy, _))| (digest, policy));
        published.filter(move |(_, policy)| now < policy.collection().usage.retention())
    }

    /// Those of them that the trace says to be published: an upload was recorded, and no withdrawal.
    pub fn recorded(&self, now: Time) -> impl Iterator<Item = &Digest> {
        let uploaded = self.policies(now).map(|(digest, _)| digest).filter(|digest| self.uploaded.contains(*digest));
        uploaded.chain(&self.unrecorded)
    }

    /// Every policy under which something may be held, or was until a while ago.
    pub fn known(&self) -> impl Iterator<Item = &Policy> {
        self.statements.values().map(|(policy, _)| policy).chain(self.withdrawn.values())
    }

    /// The policy of a digest, if it is one of those.
    pub fn policy(&self, digest: &Digest) -> Option<&Policy> {
        self.statements.get(digest).map(|(policy, _)| policy).or_else(|| self.withdrawn.get(digest))
    }

    /// Whether a policy was withdrawn, and not published again since.
    pub fn is_withdrawn(&self, policy: &Digest) -> bool {
        self.withdrawn.contains_key(policy)
    }

    /// The statement about a policy.
    pub fn statement(&self, policy: &Digest) -> Option<&Statement> {
        self.statements.get(policy).map(|(_, statement)| statement)
    }

    /// The withdrawal that the repository has not acknowledged.
    pub const fn withdrawal(&self) -> Option<&Statement> {
        self.withdrawal.as_ref()
    }

    /// The envelope of that withdrawal, if the trace has it.
    pub const fn sent(&self) -> Option<Sent> {
        self.sent
    }

    /// The policies whose withdrawal is not known to be recorded, and where the trace ended before it could be.
    pub fn unrecorded(&self) -> Option<(Position, &BTreeSet<Digest>)> {
        self.position.filter(|_| !self.unrecorded.is_empty()).map(|position| (position, &self.unrecorded))
    }

    /// An upload of a policy is recorded; it may leave when this returns.
    pub fn upload_is_recorded(&mut self, policy: &Digest) -> Result<(), StateError> {
        if self.statements.contains_key(policy) && self.uploaded.insert(*policy) { self.store() } else { Ok(()) }
    }

    /// The withdrawal of a policy is recorded; it may leave when this returns.
    pub fn withdrawal_is_recorded(&mut self, policy: &Digest, sent: Sent) -> Result<(), StateError> {
        self.unrecorded.remove(policy);
        self.sent = Some(sent);
        self.store()
    }

    /// The trace does not know of these withdrawals, nor that the policies were published: it is another one.
    pub fn forget_unrecorded(&mut self) -> Result<(), StateError> {
        (self.unrecorded, self.sent) = (BTreeSet::new(), None);
        self.store()
    }

    /// A statement that can be uploaded now: the stored one, if it still opens and has more than half of its life left,
    /// or a new one, which is on the disk when this returns.
    pub fn publish(&mut self, policy: &Policy, mesh: &MeshFile, now: Time) -> Result<&Statement, PublishError> {
        let vocabulary = &self.author.vocabulary;
        let digest = codec::digest(&Choice::Policy(policy.clone()), vocabulary);
        let opens = |statement: &Statement| PolicyStatement::open(&statement.bytes, mesh, vocabulary, now).is_ok();
        let is_latest = |statement: &Statement| statement.version == self.highest && self.withdrawal.is_none();
        let fits = |statement: &Statement| is_latest(statement) && !statement.is_old(now) && opens(statement);
        if !self.statement(&digest).is_some_and(fits) {
            let statement = self.sign(Content::Policy(policy.clone()), now)?;
            let before = self.statements.insert(digest, (policy.clone(), statement));
            let (withdrawn, withdrawal) = (self.withdrawn.remove(&digest), self.withdrawal.take());
            if let Err(error) = self.store() {
                // What is not on the disk is not said: a higher version may be made of it after a crash.
                match before {
                    Some(before) => self.statements.insert(digest, before),
                    None => self.statements.remove(&digest),
                };
                self.withdrawn.extend(withdrawn.map(|policy| (digest, policy)));
                self.withdrawal = withdrawal;
                return Err(error.into());
            }
        }
        self.statement(&digest).ok_or(PublishError::Versions)
    }

    /// Takes all policies back: the statement that says so, which is on the disk when this returns. The withdrawals of
    /// those that the trace says to be published will be recorded after `position`.
    pub fn withdraw(
        &mut self,
        published: BTreeSet<Digest>,
        position: Position,
        now: Time,
    ) -> Result<&Statement, PublishError> {
        (self.unrecorded, self.position, self.sent) = (published, Some(position), None);
        self.withdraw_again(now)
    }

    /// The same, of what is withdrawn already: the statement has to be a higher one.
    pub fn withdraw_again(&mut self, now: Time) -> Result<&Statement, PublishError> {
        let statement = self.sign(Content::Withdrawal, now)?;
        let published = std::mem::take(&mut self.statements);
        self.uploaded.clear();
        self.withdrawn.extend(published.into_iter().map(|(digest, (policy, _))| (digest, policy)));
        self.withdrawal = Some(statement);
        self.store()?;
        self.withdrawal.as_ref().ok_or(PublishError::Versions)
    }

    /// Whether to believe that the repository has this version of ours: one of a lost disk is not far ahead, and versions
    /// end somewhere.
    pub(crate) const fn can_raise(&self, stored: u64) -> bool {
        stored <= self.highest.saturating_add(MAX_RAISE)
    }

    /// The repository has a statement of this version: this device lost its disk, or whoever had its keys before it did
    /// not. The next statement is higher.
    pub fn raise(&mut self, stored: u64) {
        self.highest = self.highest.max(stored);
    }

    /// The repository has acknowledged the withdrawal.
    pub fn withdrawal_is_known(&mut self) -> Result<(), StateError> {
        self.withdrawal = None;
        self.store()
    }

    fn sign(&mut self, content: Content, now: Time) -> Result<Statement, PublishError> {
        let author = &self.author;
        let version = self.highest.checked_add(1).ok_or(PublishError::Versions)?;
        let expires = Time::from_unix(now.unix().saturating_add(author.seconds));
        let statement = PolicyStatement {
            device: author.device.clone(),
            entity: author.entity,
            version,
            content,
            issued: now,
            expires,
        };
        let bytes = statement.sign(&author.vocabulary, &author.keys);
        self.highest = version;
        Ok(Statement { version, bytes, issued: now, expires })
    }

    fn store(&self) -> Result<(), StateError> {
        let vocabulary = &self.author.vocabulary;
        let text = |policy: &Policy| to_hex(&codec::encode(&Choice::Policy(policy.clone()), vocabulary));
        let entry = |(digest, (policy, statement)): (&Digest, &(Policy, Statement))| Entry {
            policy: text(policy),
            statement: Said::write(statement),
            uploaded: self.uploaded.contains(digest),
        };
        let sent = |sent: &Sent| SentFile { id: Hex(&sent.id.0).to_string(), head: Hex(&sent.head.0).to_string() };
        let file = File {
            highest: self.highest,
            published: self.statements.iter().map(entry).collect(),
            withdrawn: self.withdrawn.values().map(text).collect(),
            withdrawal: self.withdrawal.as_ref().map(Said::write),
            sent: self.sent.as_ref().map(sent),
            unrecorded: self.unrecorded.iter().map(Digest::to_string).collect(),
            position: self.position,
        };
        state_file::store(&self.path, &file)
    }
}

/// A policy that still matters.
fn read_policy(bytes: &[u8], vocabulary: &Vocabulary, now: Time) -> Option<(Digest, Policy)> {
    let Ok(Choice::Policy(policy)) = codec::decode(bytes, vocabulary) else {
        tracing::warn!("a published policy has words that the mesh's vocabulary does not have; it is forgotten");
        return None;
    };
    let is_over = policy.collection().usage.retention().unix().saturating_add(KEPT_SECONDS) <= now.unix();
    (!is_over).then(|| (codec::digest(&Choice::Policy(policy.clone()), vocabulary), policy))
}

/// How long a policy is remembered after its deadline: a daemon that was down for this long still knows what it is that
/// it erases.
const KEPT_SECONDS: u64 = 366 * 86_400;

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    highest: u64,
    published: Vec<Entry>,
    withdrawn: Vec<String>,
    withdrawal: Option<Said>,
    sent: Option<SentFile>,
    unrecorded: Vec<String>,
    position: Option<Position>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SentFile {
    id: String,
    head: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    policy: String,
    statement: Said,
    uploaded: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    version: u64,
    issued: u64,
    expires: u64,
    signed: String,
}

impl Said {
    fn write(statement: &Statement) -> Self {
        let Statement { version, bytes, issued, expires } = statement;
        Self { version: *version, issued: issued.unix(), expires: expires.unix(), signed: to_hex(bytes) }
    }

    fn read(self) -> Option<Statement> {
        let (issued, expires) = (Time::from_unix(self.issued), Time::from_unix(self.expires));
        Some(Statement { version: self.version, bytes: from_hex(&self.signed)?, issued, expires })
    }
}

fn to_hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let digit = |character: u8| char::from(character).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let byte = |[high, low]: &[u8; 2]| Some(digit(*high)? << 4 | digit(*low)?);
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}
