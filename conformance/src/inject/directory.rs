//! What `conform simulate` or `consent-mesh demo --keep` left behind: traces, the mesh file, audit keys, openings, keys.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use pilot_core::evidence::envelope::ChainHead;
use pilot_core::evidence::mesh::MeshFile;
use pilot_core::evidence::trace::{Content, Frame, Record};
use pilot_core::evidence::{AuditKey, DeviceName, hex};
use serde::Deserialize;
use zeroize::Zeroizing;

use super::InjectError;
use crate::keys::Keys;

/// The most bytes of all traces together: they are held in memory.
pub const MAX_BYTES: u64 = 4 << 30;

/// A directory to put a violation into.
pub struct Directory {
    /// Where it is.
    pub root: PathBuf,
    /// Who takes part, and the words.
    pub mesh: MeshFile,
    /// The traces, in the order of their directories' names.
    pub traces: Vec<Trace>,
    /// What the subjects tell an auditor.
    pub openings: Vec<Opening>,
    /// The keys of the pseudonyms, by the devices' names.
    pub audit: BTreeMap<String, AuditKey>,
}

/// A trace as it is.
pub struct Trace {
    /// Whose.
    pub device: DeviceName,
    /// Where.
    pub directory: PathBuf,
    /// The graph that it is a run of.
    pub graph: &'static str,
    /// Its files, in their order.
    pub files: Vec<PathBuf>,
    bytes: Vec<Vec<u8>>,
    spans: Vec<Span>,
    /// What follows the last complete record.
    pub torn: Vec<u8>,
}

#[derive(Clone, Copy)]
struct Span {
    file: usize,
    start: usize,
    length: usize,
}

/// A subject's item.
pub struct Opening {
    /// Whose.
    pub device: DeviceName,
    /// What it is.
    pub datatype: String,
    /// Its bytes.
    pub item: Vec<u8>,
    /// The key of the pseudonyms in her trace.
    pub audit_key: AuditKey,
}

#[derive(Deserialize)]
struct WrittenOpening {
    device: String,
    datatype: String,
    item: String,
    audit_key: String,
}

impl Trace {
    /// How many records it has.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// A record with its frame's bytes.
    pub fn frame(&self, at: usize) -> Option<Frame<'_>> {
        Frame::first(self.frame_bytes(at)?).ok().flatten()
    }

    /// The bytes of a record, with its frame.
    pub fn frame_bytes(&self, at: usize) -> Option<&[u8]> {
        let Span { file, start, length } = *self.spans.get(at)?;
        self.bytes.get(file)?.get(start..start.checked_add(length)?)
    }

    /// What a record says.
    pub fn record(&self, at: usize) -> Option<Record> {
        Record::from_bytes(self.frame(at)?.body).ok()
    }

    /// The hash of a record.
    pub fn hash(&self, at: usize) -> Option<ChainHead> {
        self.frame(at).map(|frame| frame.hash)
    }

    /// In which file a record is, and where it begins there.
    pub fn place(&self, at: usize) -> Option<(usize, usize)> {
        self.spans.get(at).map(|span| (span.file, span.start))
    }

    /// The bytes of a file.
    pub fn file_bytes(&self, file: usize) -> Option<&[u8]> {
        self.bytes.get(file).map(Vec::as_slice)
    }

    fn read(directory: &Path) -> Result<Option<Self>, InjectError> {
        let mut files: Vec<PathBuf> = entries(directory)?;
        files.retain(|path| path.extension().is_some_and(|extension| extension == "cborseq"));
        let (mut bytes, mut spans, mut torn) = (Vec::new(), Vec::new(), Vec::new());
        for (file, path) in files.iter().enumerate() {
            let content = fs::read(path).map_err(|error| InjectError::file(path, error))?;
            let mut start = 0;
            loop {
                let rest = content.get(start..).unwrap_or_default();
                let damaged = || InjectError::Damaged { path: path.clone(), offset: start };
                let length = match Frame::first(rest).map_err(|_| damaged())? {
                    Some(frame) => frame.length,
                    None => {
                        torn = rest.to_vec();
                        break;
                    }
                };
                spans.push(Span { file, start, length });
                start += length;
            }
            bytes.push(content);
        }
        let Some(first) = bytes.first().and_then(|bytes| Frame::first(bytes).ok()).flatten() else { return Ok(None) };
        let Ok(Record { content: Content::Open(open), .. }) = Record::from_bytes(first.body) else { return Ok(None) };
        let graph = open.graphs.first().map_or("", |graph| graph.as_str());
        Ok(Some(Self { device: open.device, directory: directory.into(), graph, files, bytes, spans, torn }))
    }
}

/// What is in a directory, by name.
pub fn entries(directory: &Path) -> Result<Vec<PathBuf>, InjectError> {
    let failed = |error| InjectError::file(directory, error);
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        paths.push(entry.map_err(failed)?.path());
    }
    paths.sort();
    Ok(paths)
}

impl Directory {
    /// Reads everything.
    pub fn read(root: &Path) -> Result<Self, InjectError> {
        let path = root.join("mesh.toml");
        let text = fs::read_to_string(&path).map_err(|error| InjectError::file(&path, error))?;
        let mesh =
            MeshFile::unverified(&text).map_err(|error| InjectError::Mesh { path, problem: error.to_string() })?;
        let (mut traces, mut total) = (Vec::new(), 0);
        for directory in entries(&root.join("traces"))? {
            for path in entries(&directory)? {
                total += path.metadata().map_or(0, |metadata| metadata.len());
            }
            if total > MAX_BYTES {
                return Err(InjectError::TooLarge);
            }
            traces.extend(Trace::read(&directory)?);
        }
        let mut directory = Self { root: root.into(), mesh, traces, openings: Vec::new(), audit: BTreeMap::new() };
        directory.read_audit()?;
        Ok(directory)
    }

    fn read_audit(&mut self) -> Result<(), InjectError> {
        let directory = self.root.join("audit");
        if !directory.is_dir() {
            return Ok(());
        }
        for path in entries(&directory)? {
            let bytes = Zeroizing::new(fs::read(&path).map_err(|error| InjectError::file(&path, error))?);
            let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
            match (path.extension().and_then(|extension| extension.to_str()), <[u8; 32]>::try_from(bytes.as_slice())) {
                (Some("key"), Ok(key)) => {
                    self.audit.insert(name, AuditKey::new(Zeroizing::new(key)));
                }
                (Some("opening"), _) => self.read_openings(&path, &bytes)?,
                (None, _) if name == "openings" => self.read_openings(&path, &bytes)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn read_openings(&mut self, path: &Path, bytes: &[u8]) -> Result<(), InjectError> {
        for written in serde_json::Deserializer::from_slice(bytes).into_iter::<WrittenOpening>() {
            let opening = written.ok().and_then(|written| {
                let audit_key = AuditKey::new(Zeroizing::new(hex::decode(&written.audit_key)?));
                let digits = written.item.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
                let item = digits.map(|pair| hex::decode(pair?).map(|[byte]| byte)).collect::<Option<Vec<u8>>>()?;
                let device = DeviceName::new(&written.device).ok()?;
                Some(Opening { device, datatype: written.datatype, item, audit_key })
            });
            self.openings.push(opening.ok_or_else(|| InjectError::Opening(path.into()))?);
        }
        Ok(())
    }

    /// The secret keys of a device: in a directory of keys, or where a subject's gateway keeps its own.
    pub fn keys(&self, device: &DeviceName, keys: Option<&Path>) -> Result<Keys, InjectError> {
        let among = keys.map_or_else(|| self.root.join("keys"), Path::to_path_buf).join(format!("{device}.key"));
        let own = self.root.join("data").join(device.as_str()).join("keys");
        let path = if !among.exists() && own.exists() { own } else { among };
        Ok(Keys::read(&path)?)
    }
}
