//! Reading the text of a mesh file; strict, so that a misspelt field is an error and not a missing restriction.

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;
use serde::Deserialize;
use toml::Spanned;
use toml::value::Datetime;

use super::{DeviceName, MAX_DEVICES, MAX_MESH_BYTES, MeshContentError, MeshDevice, MeshDraft, MeshProblem, Role};
use crate::diagnostic::{Located, Quoted, foreign_message};
use crate::value::Time;
use crate::vocabulary::{Declarations, Vocabulary};

/// The version of the form.
pub(super) const VERSION: u64 = 1;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: Spanned<u64>,
    serial: u64,
    issued: Spanned<Datetime>,
    expires: Spanned<Datetime>,
    next_operator_key: Option<Spanned<String>>,
    vocabulary: Declarations,
    #[serde(default)]
    devices: Vec<Device>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Device {
    name: Spanned<String>,
    role: Spanned<String>,
    entity: Spanned<String>,
    tag: Spanned<String>,
    signing_key: Spanned<String>,
    sealing_key: Spanned<String>,
    valid_from: Spanned<Datetime>,
    valid_until: Spanned<Datetime>,
    revoked: Option<Spanned<Datetime>>,
}

type Problem = (Range<usize>, MeshProblem);

/// What a mesh file says, and its vocabulary.
pub(super) fn read(text: &str) -> Result<(MeshDraft, Vocabulary), MeshContentError> {
    if text.len() > MAX_MESH_BYTES {
        return Err(Located::new("", 0..0, MeshProblem::TooLarge));
    }
    let toml = |error: toml::de::Error| {
        let problem = MeshProblem::Toml(foreign_message(error.message()));
        Located::new(text, error.span().unwrap_or(0..0), problem)
    };
    let file = toml::from_str(text).map_err(toml)?;
    contents(file).map_err(|(span, problem)| Located::new(text, span, problem))
}

fn contents(file: File) -> Result<(MeshDraft, Vocabulary), Problem> {
    if *file.version.as_ref() != VERSION {
        return Err((file.version.span(), MeshProblem::Version(*file.version.as_ref())));
    }
    let (issued, expires) = period(&file.issued, &file.expires)?;
    if let Some(span) = file.vocabulary.first_device_or_item() {
        return Err((span, MeshProblem::Personal));
    }
    let build = file.vocabulary.clone().build();
    let vocabulary = build.map_err(|(span, problem)| (span, MeshProblem::Vocabulary(problem)))?;
    if let Some(one_too_many) = file.devices.get(MAX_DEVICES) {
        return Err((one_too_many.name.span(), MeshProblem::TooManyDevices));
    }
    let mut taken = Taken::default();
    let devices: Result<Vec<_>, _> = file.devices.iter().map(|entry| device(entry, &vocabulary, &mut taken)).collect();
    let draft = MeshDraft {
        serial: file.serial,
        issued,
        expires,
        next_operator_key: file.next_operator_key.as_ref().map(key).transpose()?,
        devices: devices?,
        vocabulary: file.vocabulary,
    };
    Ok((draft, vocabulary))
}

/// What the devices read so far have, each once.
#[derive(Default)]
struct Taken {
    names: BTreeSet<DeviceName>,
    tags: BTreeSet<super::FrameTag>,
    signing_keys: BTreeSet<super::VerifyingKey>,
    sealing_keys: BTreeSet<super::SealingKey>,
}

fn device(entry: &Device, vocabulary: &Vocabulary, taken: &mut Taken) -> Result<MeshDevice, Problem> {
    let name = DeviceName::new(entry.name.as_ref())
        .map_err(|error| (entry.name.span(), MeshProblem::Name(Quoted::new(entry.name.as_ref()), error)))?;
    let role = Role::ALL.into_iter().find(|role| role.word() == entry.role.as_ref());
    let unknown_role = || (entry.role.span(), MeshProblem::Role(Quoted::new(entry.role.as_ref())));
    let entity = entry.entity.as_ref();
    if vocabulary.entities.id(entity).is_none() {
        let problem = MeshProblem::UnknownEntity(Quoted::new(entity), vocabulary.entities.hint(entity));
        return Err((entry.entity.span(), problem));
    }
    let tag = entry.tag.as_ref().parse().map_err(|error| (entry.tag.span(), MeshProblem::Tag(error)))?;
    let (valid_from, valid_until) = period(&entry.valid_from, &entry.valid_until)?;
    let device = MeshDevice {
        name,
        role: role.ok_or_else(unknown_role)?,
        entity: entity.to_string(),
        tag,
        signing_key: key(&entry.signing_key)?,
        sealing_key: key(&entry.sealing_key)?,
        valid_from,
        valid_until,
        revoked: entry.revoked.as_ref().map(moment).transpose()?,
    };
    for (is_new, span, what) in [
        (taken.names.insert(device.name.clone()), entry.name.span(), "name"),
        (taken.tags.insert(device.tag), entry.tag.span(), "tag"),
        (taken.signing_keys.insert(device.signing_key), entry.signing_key.span(), "signing key"),
        (taken.sealing_keys.insert(device.sealing_key), entry.sealing_key.span(), "sealing key"),
    ] {
        if !is_new {
            return Err((span, MeshProblem::Duplicate(what)));
        }
    }
    Ok(device)
}

fn key<K: core::str::FromStr<Err = super::KeyError>>(text: &Spanned<String>) -> Result<K, Problem> {
    text.as_ref().parse().map_err(|error| (text.span(), MeshProblem::Key(error)))
}

fn moment(written: &Spanned<Datetime>) -> Result<Time, Problem> {
    let time: Result<Time, _> = written.as_ref().to_string().parse();
    time.map_err(|error| (written.span(), MeshProblem::Time(error)))
}

fn period(from: &Spanned<Datetime>, until: &Spanned<Datetime>) -> Result<(Time, Time), Problem> {
    let (start, end) = (moment(from)?, moment(until)?);
    if start < end { Ok((start, end)) } else { Err((until.span(), MeshProblem::Period(start))) }
}
