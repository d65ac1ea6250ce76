//! What an auditor is given: traces, mesh files, audit keys and openings.
//!
//! A directory is searched for traces, wherever in it they lie. What `consent-mesh demo --keep` and `conform simulate` leave
//! behind is found by itself: `mesh.toml`, and under `audit` the keys (`*.key`) and openings (`*.opening`, `openings`)
//! and signed consents (`*.consents`).

mod error;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use pilot_core::evidence::consent::ConsentSignature;
use pilot_core::evidence::hex;
use pilot_core::evidence::keys::Signature;
use pilot_core::evidence::mesh::{MAX_MESH_BYTES, MeshFile};
use pilot_core::evidence::trace::action::Word;
use pilot_core::evidence::{AuditKey, DeviceName, Pseudonym, VerifyingKey};
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

pub use self::error::SourceError;
use super::consents::Shown;
use crate::show::{trace_file_name, trace_file_number};

/// How deep directories are searched for traces.
pub const MAX_DEPTH: usize = 8;
/// The most traces in one audit; with more, it is not begun.
pub const MAX_TRACES: usize = 1 << 20;
/// The largest file of openings or signed consents, in bytes.
pub const MAX_OPENINGS_BYTES: u64 = 256 << 20;
/// The largest other file, in bytes: a signature or a key.
const MAX_SMALL_BYTES: u64 = 4096;
/// The longest item in an opening, in bytes.
const MAX_ITEM_BYTES: usize = 4096;

/// What an auditor is given.
#[derive(Debug, Default)]
pub struct Sources {
    /// Every trace.
    pub traces: Vec<TraceFiles>,
    /// What may lead to more traces and was not followed: links, and what is no file although it has the name of one.
    pub skipped: Vec<PathBuf>,
    /// The operator's key.
    pub operator: Option<VerifyingKey>,
    /// Mesh files, by their serials.
    pub meshes: Vec<Mesh>,
    /// Audit keys.
    pub keys: Vec<AuditKey>,
    /// What subjects reveal.
    pub openings: Vec<Opening>,
    /// Whether the openings were found beside the traces, so that nobody has said from whom they are.
    pub are_openings_found: bool,
    /// Signed consents that controllers show.
    pub consents: Vec<Shown>,
}

/// A directory with the trace of one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceFiles {
    /// Where.
    pub directory: PathBuf,
    /// Its files, in their order.
    pub files: Vec<PathBuf>,
}

impl TraceFiles {
    /// A file that should stand before the one at this place. The first ones are another matter: archived perhaps.
    pub fn missing_before(&self, at: usize) -> Option<PathBuf> {
        let number = |at: usize| trace_file_number(self.files.get(at)?);
        let next = number(at.checked_sub(1)?)?.checked_add(1)?;
        (next < number(at)?).then(|| self.directory.join(trace_file_name(next)))
    }
}

/// A mesh file.
#[derive(Debug)]
pub struct Mesh {
    /// What it says.
    pub file: MeshFile,
    /// Whether an operator whose key was given, or one whom it named, has signed it.
    pub is_verified: bool,
}

/// What a subject reveals to an auditor: which item is hers, and how her trace names it.
#[derive(Debug, Clone)]
pub struct Opening {
    /// Her device.
    pub device: DeviceName,
    /// What the item is.
    pub datatype: Word,
    /// The item.
    item: Zeroizing<Vec<u8>>,
    /// The key of the pseudonyms in her trace.
    audit_key: AuditKey,
    /// The key that signs her trace.
    pub signing_key: Option<VerifyingKey>,
}

impl Opening {
    /// What her own trace calls the item.
    pub fn own_pseudonym(&self) -> Pseudonym {
        Pseudonym::of(&self.item, &self.audit_key)
    }

    /// The same for equal items.
    pub fn fingerprint(&self) -> Pseudonym {
        self.pseudonym_under(&AuditKey::new(Zeroizing::new([0; 32])))
    }

    /// What the trace of whoever has this key calls it.
    pub fn pseudonym_under(&self, key: &AuditKey) -> Pseudonym {
        Pseudonym::of(&self.item, key)
    }
}

/// What the user says besides directories.
#[derive(Debug, Clone, Default)]
pub struct Given {
    /// Mesh files.
    pub meshes: Vec<PathBuf>,
    /// The operator's public key.
    pub operator: Option<PathBuf>,
    /// Audit keys.
    pub keys: Vec<PathBuf>,
    /// Openings.
    pub openings: Vec<PathBuf>,
    /// Signed consents.
    pub consents: Vec<PathBuf>,
}

impl Sources {
    /// Finds and reads everything but the traces themselves.
    pub fn find(directories: &[PathBuf], given: &Given) -> Result<Self, SourceError> {
        let (mut traces, mut skipped) = (BTreeSet::new(), Vec::new());
        let directories = &distinct(directories);
        for directory in directories {
            if directory.is_file() {
                return Err(SourceError::File(directory.clone()));
            }
            find_traces(directory, 0, &mut traces, &mut skipped)?;
        }
        if traces.is_empty() {
            let names: Vec<String> = directories.iter().map(|path| format!("`{}`", path.display())).collect();
            return Err(SourceError::NoTrace(names.join(", ")));
        }
        let traces = traces.into_iter().map(trace_files).collect::<Result<_, _>>()?;
        let operator = given.operator.as_deref().map(operator_key).transpose()?;
        let mut meshes: BTreeSet<PathBuf> = given.meshes.iter().cloned().collect();
        if meshes.is_empty() {
            meshes.extend(directories.iter().map(|path| path.join("mesh.toml")).filter(|path| path.is_file()));
        }
        let audits: Vec<PathBuf> =
            directories.iter().map(|path| path.join("audit")).filter(|path| path.is_dir()).collect();
        let Given { mut keys, mut openings, mut consents, .. } = given.clone();
        let beside = audits.iter().map(|path| entries(path)).collect::<Result<Vec<_>, _>>()?.concat();
        // Whoever put them there has not put a pipe there, which would be waited for.
        for path in beside.into_iter().filter(|path| path.is_file()) {
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("key") if given.keys.is_empty() => keys.push(path),
                Some("opening") if given.openings.is_empty() => openings.push(path),
                Some("consents") if given.consents.is_empty() => consents.push(path),
                None if given.openings.is_empty() && path.ends_with("openings") => openings.push(path),
                _ => {}
            }
        }
        let openings = openings.iter().map(|path| {
            let opened = read_lines("opening", path, Written::open)?;
            // Otherwise it would put those out of use that were found.
            let is_nothing = opened.is_empty() && given.openings.contains(path);
            if is_nothing { Err(SourceError::NoOpening(path.clone())) } else { Ok(opened) }
        });
        let openings = openings.collect::<Result<Vec<_>, _>>()?.concat();
        agree(&openings)?;
        let consents = consents.iter().map(|path| read_lines("signed consent", path, WrittenConsent::open));
        Ok(Self {
            traces,
            skipped,
            operator,
            meshes: read_meshes(meshes, operator)?,
            keys: keys.iter().map(|path| audit_key(path)).collect::<Result<_, _>>()?,
            are_openings_found: given.openings.is_empty() && !openings.is_empty(),
            openings,
            consents: consents.collect::<Result<Vec<_>, _>>()?.concat(),
        })
    }
}

/// Nobody can tell who is right of two that contradict each other; whoever wants to hide something could have made one up.
fn agree(openings: &[Opening]) -> Result<(), SourceError> {
    let (mut keys, mut owners) = (BTreeMap::new(), BTreeMap::new());
    for opening in openings {
        if let Some(key) = opening.signing_key
            && *keys.entry(&opening.device).or_insert(key) != key
        {
            return Err(SourceError::TwoKeys(opening.device.clone()));
        }
        let owner = *owners.entry(opening.fingerprint()).or_insert(&opening.device);
        if *owner != opening.device {
            return Err(SourceError::TwoOwners([owner.clone(), opening.device.clone()]));
        }
    }
    Ok(())
}

fn failed(path: &Path) -> impl Fn(io::Error) -> SourceError {
    let path = path.to_owned();
    move |source| SourceError::Io { path: path.clone(), source }
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>, SourceError> {
    let listed = fs::read_dir(directory).map_err(failed(directory))?;
    let mut paths = listed.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, _>>().map_err(failed(directory))?;
    paths.sort();
    Ok(paths)
}

/// Links are not followed: they can lead in circles, and out of what the auditor was given.
fn find_traces(
    directory: &Path,
    depth: usize,
    found: &mut BTreeSet<PathBuf>,
    skipped: &mut Vec<PathBuf>,
) -> Result<(), SourceError> {
    if depth > MAX_DEPTH {
        return Err(SourceError::TooDeep(directory.into()));
    }
    for path in entries(directory)? {
        let kind = fs::symlink_metadata(&path).map_err(failed(&path))?.file_type();
        let is_named_so = trace_file_number(&path).is_some();
        if is_named_so && kind.is_file() {
            found.insert(directory.into());
            if found.len() > MAX_TRACES {
                return Err(SourceError::TooMany);
            }
        } else if is_named_so || (kind.is_symlink() && path.is_dir()) {
            skipped.push(path);
        } else if kind.is_dir() {
            find_traces(&path, depth + 1, found, skipped)?;
        }
    }
    Ok(())
}

fn trace_files(directory: PathBuf) -> Result<TraceFiles, SourceError> {
    let is_file = |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file());
    let files =
        entries(&directory)?.into_iter().filter(|path| trace_file_number(path).is_some() && is_file(path)).collect();
    Ok(TraceFiles { directory, files })
}

fn read(path: &Path, limit: u64) -> Result<Zeroizing<Vec<u8>>, SourceError> {
    let mut bytes = Zeroizing::new(Vec::new());
    let file = File::open(path).map_err(failed(path))?;
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(failed(path))?;
    if bytes.len() as u64 > limit { Err(SourceError::TooLarge { path: path.into(), limit }) } else { Ok(bytes) }
}

fn read_text(path: &Path, limit: u64) -> Result<Zeroizing<String>, SourceError> {
    let not_text = |_| SourceError::Io { path: path.into(), source: io::Error::other("it is not UTF-8 text") };
    String::from_utf8(read(path, limit)?.to_vec()).map(Zeroizing::new).map_err(not_text)
}

/// Each once, however often it is named.
fn distinct(directories: &[PathBuf]) -> Vec<PathBuf> {
    let mut known = BTreeSet::new();
    let is_new = |path: &&PathBuf| known.insert(path.canonicalize().unwrap_or_else(|_| path.to_path_buf()));
    directories.iter().filter(is_new).cloned().collect()
}

/// The first word of what `consent-mesh keys new` prints, or the file with it.
fn operator_key(path: &Path) -> Result<VerifyingKey, SourceError> {
    let text = match path.to_str() {
        Some(key) if key.starts_with(VerifyingKey::PREFIX) => Zeroizing::new(key.to_owned()),
        _ => read_text(path, MAX_SMALL_BYTES)?,
    };
    let wrong = || SourceError::Key { path: path.into(), what: "operator's public key (`ed25519:…`)" };
    text.split_whitespace().next().ok_or_else(wrong)?.parse().map_err(|_| wrong())
}

fn audit_key(path: &Path) -> Result<AuditKey, SourceError> {
    let bytes = read(path, MAX_SMALL_BYTES)?;
    let key: Result<[u8; 32], _> = bytes.as_slice().try_into();
    let wrong = |_| SourceError::Key { path: path.into(), what: "audit key: it needs 32 bytes" };
    key.map(|key| AuditKey::new(Zeroizing::new(key))).map_err(wrong)
}

/// Each must be signed by the operator, or by whom an earlier one names as the next.
fn read_meshes(paths: BTreeSet<PathBuf>, operator: Option<VerifyingKey>) -> Result<Vec<Mesh>, SourceError> {
    if paths.is_empty() {
        return Err(SourceError::NoMesh);
    }
    let mut read = Vec::new();
    for path in paths {
        let text = read_text(&path, MAX_MESH_BYTES as u64)?;
        let file = MeshFile::unverified(&text)
            .map_err(|problem| SourceError::Mesh { path: path.clone(), problem: problem.to_string() })?;
        read.push((file.contents().serial, path, text, file));
    }
    read.sort_by_key(|(serial, ..)| *serial);
    for pair in read.windows(2) {
        if let [(serial, one, text, _), (next, other, other_text, _)] = pair
            && serial == next
            && text != other_text
        {
            return Err(SourceError::TwoMeshes { paths: [one.clone(), other.clone()], serial: *serial });
        }
    }
    let mut roles = BTreeMap::new();
    for (serial, _, _, file) in &read {
        for device in file.devices() {
            let (known, first) = *roles.entry(&device.name).or_insert(((device.role, &device.entity), *serial));
            if known != (device.role, &device.entity) {
                return Err(SourceError::OtherRole { device: device.name.clone(), serials: [first, *serial] });
            }
        }
    }
    let mut operators: Vec<VerifyingKey> = operator.into_iter().collect();
    let mut meshes = Vec::new();
    for (_, path, text, file) in read {
        let mut is_verified = false;
        if operator.is_some() {
            let signatures = signatures(&path)?;
            let is_signed = |key: &VerifyingKey| signatures.iter().any(|one| MeshFile::is_signed(&text, one, key));
            if !operators.iter().any(is_signed) {
                return Err(SourceError::NotSigned(path));
            }
            operators.extend(file.contents().next_operator_key);
            is_verified = true;
        }
        meshes.push(Mesh { file, is_verified });
    }
    Ok(meshes)
}

/// `mesh.toml.sig` beside `mesh.toml`: one or two lines.
fn signatures(mesh: &Path) -> Result<Vec<Signature>, SourceError> {
    let mut path = mesh.as_os_str().to_owned();
    path.push(".sig");
    let path = PathBuf::from(path);
    let text = match read_text(&path, MAX_SMALL_BYTES) {
        Err(SourceError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Err(SourceError::NoSignature(mesh.into()));
        }
        text => text?,
    };
    let wrong = || SourceError::Key { path: path.clone(), what: "signature of a mesh file" };
    text.lines().map(|line| line.parse().map_err(|_| wrong())).collect()
}

/// One JSON object after the other.
fn read_lines<W: DeserializeOwned, T>(
    what: &'static str,
    path: &Path,
    open: impl Fn(W) -> Result<T, &'static str>,
) -> Result<Vec<T>, SourceError> {
    let bytes = read(path, MAX_OPENINGS_BYTES)?;
    let objects = serde_json::Deserializer::from_slice(&bytes).into_iter::<W>();
    let parse = |(at, written): (usize, Result<W, serde_json::Error>)| {
        let problem = match written {
            // What is wrong, and where, but nothing of what it says.
            Err(error) => format!("not of its form, line {}, column {}", error.line(), error.column()),
            Ok(written) => match open(written) {
                Ok(opened) => return Ok(opened),
                Err(problem) => problem.to_owned(),
            },
        };
        Err(SourceError::Line { what, path: path.into(), number: at + 1, problem })
    };
    objects.enumerate().map(parse).collect()
}

/// A signed consent as it is written.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenConsent {
    item: String,
    key: String,
    signature: String,
}

impl WrittenConsent {
    fn open(self) -> Result<Shown, &'static str> {
        let item = hex::decode(&self.item).ok_or("`item` needs 12 hexadecimal digits")?;
        let key = hex::decode(&self.key).ok_or("`key` needs 64 hexadecimal digits")?;
        let signature = hex::decode(&self.signature).ok_or("`signature` needs 128 hexadecimal digits")?;
        Ok(Shown { item: Zeroizing::new(item), signature: ConsentSignature { key, signature } })
    }
}

/// An opening as it is written.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    device: String,
    datatype: String,
    item: String,
    audit_key: String,
    signing_key: Option<String>,
}

impl Written {
    fn open(self) -> Result<Opening, &'static str> {
        let item = bytes_of(&self.item).ok_or("`item` needs hexadecimal digits")?;
        let key = hex::decode(&self.audit_key).ok_or("`audit_key` needs 64 hexadecimal digits")?;
        let signing_key = self.signing_key.map(|key| key.parse()).transpose();
        Ok(Opening {
            device: DeviceName::new(&self.device).map_err(|_| "`device` is no name")?,
            datatype: Word::new(&self.datatype).map_err(|_| "`datatype` is no name")?,
            item,
            audit_key: AuditKey::new(Zeroizing::new(key)),
            signing_key: signing_key.map_err(|_| "`signing_key` is no public key (`ed25519:…`)")?,
        })
    }
}

fn bytes_of(digits: &str) -> Option<Zeroizing<Vec<u8>>> {
    if digits.is_empty() || digits.len() > 2 * MAX_ITEM_BYTES {
        return None;
    }
    let bytes = digits.as_bytes().chunks(2).map(|pair| {
        let [byte] = hex::decode(std::str::from_utf8(pair).ok()?)?;
        Some(byte)
    });
    bytes.collect::<Option<Vec<u8>>>().map(Zeroizing::new)
}
