//! `mesh add`, `mesh renew` and `mesh revoke`: the devices of a mesh.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use mesh_runtime::keys::PublicKeys;
use pilot_core::diagnostic::{Hint, Quoted};
use pilot_core::evidence::mesh::{DeviceName, FrameTag, MeshDevice, MeshDraft, Role};
use pilot_core::name::nearest;
use pilot_core::value::Time;

use super::{Edited, MAX_DAYS, MeshFailure, UNSIGNED, days_after};
use crate::console::{Answer, Console, Failure};
use crate::input;

/// How often a tag is chosen at random before that is given up. Of 2³² at most 2¹⁷ are taken.
const MAX_TAG_CHOICES: usize = 16;

#[derive(Debug, Args)]
#[command(after_help = "\
The keys are what `consent-mesh keys new` or `keys show` printed on the device. A controller has one device for each \
offer that people can accept. The frame tag, eight hexadecimal digits, stands for the device in radio frames; it is \
chosen at random.

The file is written anew: comments in it are lost.

Examples:
  consent-mesh mesh add mesh.toml --device gate --role controller --entity mall --keys $(cat gate.pub)
  consent-mesh mesh add mesh.toml --device registry --role repository --entity registrar --keys ed25519:… x25519:…

Exit codes: 0 done, 2 errors.")]
pub(crate) struct Add {
    /// Mesh file
    file: PathBuf,
    /// Name of the device, new in this mesh
    #[arg(long, value_name = "NAME")]
    device: String,
    /// What the device is there for
    #[arg(long, value_parser = PossibleValuesParser::new(Role::ALL.map(Role::word)))]
    role: String,
    /// Whose device it is: an entity of the mesh's vocabulary
    #[arg(long)]
    entity: String,
    /// Its public keys, as `consent-mesh keys show` prints them
    #[arg(long, num_args = 2, value_names = ["ED25519", "X25519"])]
    keys: Vec<String>,
    /// What stands for the device in radio frames [default: chosen at random]
    #[arg(long)]
    tag: Option<String>,
    /// Days from now on for which the keys are valid
    #[arg(long, value_name = "N", default_value_t = 365, value_parser = clap::value_parser!(i64).range(1..=MAX_DAYS))]
    days: i64,
}

#[derive(Debug, Args)]
#[command(after_help = "\
With --keys, the old keys stop to count at once for whoever opens the signed file, also for what they have signed \
before: the device signs and uploads its policy again. A revocation ends, because it was about the old keys. Without \
--keys, only the time is renewed, and a revoked device is refused.

The file is written anew: comments in it are lost.

Examples:
  consent-mesh mesh renew mesh.toml --device gate --keys $(cat gate-2.pub)
  consent-mesh mesh renew mesh.toml --device gate --days 90

Exit codes: 0 done, 2 errors.")]
pub(crate) struct Renew {
    /// Mesh file
    file: PathBuf,
    /// Name of the device
    #[arg(long, value_name = "NAME")]
    device: String,
    /// Its new public keys, as `consent-mesh keys show` prints them [default: keeps those it has]
    #[arg(long, num_args = 2, value_names = ["ED25519", "X25519"])]
    keys: Vec<String>,
    /// Days from now on for which the keys are valid
    #[arg(long, value_name = "N", default_value_t = 365, value_parser = clap::value_parser!(i64).range(1..=MAX_DAYS))]
    days: i64,
}

#[derive(Debug, Args)]
#[command(after_help = "\
From that moment on nothing that the device has signed counts, whenever it says it did: a thief can write any date. The \
device stays in the file, so that its name and its frame tag go to nobody else.

The file is written anew: comments in it are lost.

Examples:
  consent-mesh mesh revoke mesh.toml --device gate
  consent-mesh mesh revoke mesh.toml --device gate --at 2026-06-01T10:00:00Z

Exit codes: 0 done, 2 errors.")]
pub(crate) struct Revoke {
    /// Mesh file
    file: PathBuf,
    /// Name of the device
    #[arg(long, value_name = "NAME")]
    device: String,
    /// From when on: a date, an RFC 3339 time or Unix seconds [default: now]
    #[arg(long, value_name = "TIME", value_parser = input::moment)]
    at: Option<Time>,
}

pub(crate) fn add(arguments: &Add, console: &mut Console) -> Result<Answer, Failure> {
    let mut mesh = Edited::read(&arguments.file)?;
    let name = DeviceName::new(&arguments.device)
        .map_err(|error| mesh.failure(MeshFailure::Name(Quoted::new(&arguments.device), error)))?;
    if mesh.draft.devices.iter().any(|device| device.name == name) {
        return Err(mesh.failure(MeshFailure::DeviceExists(name)));
    }
    let keys = public_keys(&arguments.keys)?;
    let tag = match &arguments.tag {
        Some(tag) => tag.parse().map_err(|error| mesh.failure(MeshFailure::Tag(error)))?,
        None => random_tag(&mesh.draft).ok_or_else(|| mesh.failure(MeshFailure::NoTag))?,
    };
    let valid_from = input::clock();
    let device = MeshDevice {
        name,
        // The command line knows no other words.
        role: if arguments.role == Role::Repository.word() { Role::Repository } else { Role::Controller },
        entity: arguments.entity.clone(),
        tag,
        signing_key: keys.signing,
        sealing_key: keys.sealing,
        valid_from,
        valid_until: days_after(valid_from, arguments.days),
        revoked: None,
    };
    check_free(&device, &mesh.draft).map_err(|what| mesh.failure(what))?;
    let said = format!("added {} `{}` of {}, tag {tag}", device.role.word(), device.name, device.entity);
    mesh.draft.devices.push(device);
    finish(&mesh, &said, console)
}

pub(crate) fn renew(arguments: &Renew, console: &mut Console) -> Result<Answer, Failure> {
    let mut mesh = Edited::read(&arguments.file)?;
    let (at, mut device) = find(&mesh, &arguments.device)?;
    device.valid_from = input::clock();
    device.valid_until = days_after(device.valid_from, arguments.days);
    let mut said = format!("`{}` is valid until {}", device.name, device.valid_until);
    if arguments.keys.is_empty() {
        if let Some(since) = device.revoked {
            return Err(mesh.failure(MeshFailure::Revoked(device.name, since)));
        }
    } else {
        let keys = public_keys(&arguments.keys)?;
        (device.signing_key, device.sealing_key, device.revoked) = (keys.signing, keys.sealing, None);
        check_free(&device, &mesh.draft).map_err(|what| mesh.failure(what))?;
        said += ", with new keys";
    }
    replace(&mut mesh.draft, at, device);
    finish(&mesh, &said, console)
}

pub(crate) fn revoke(arguments: &Revoke, console: &mut Console) -> Result<Answer, Failure> {
    let mut mesh = Edited::read(&arguments.file)?;
    let (at, mut device) = find(&mesh, &arguments.device)?;
    let since = arguments.at.unwrap_or_else(input::clock);
    if let Some(before) = device.revoked.filter(|before| *before <= since) {
        return Err(mesh.failure(MeshFailure::RevokedBefore(device.name, before)));
    }
    device.revoked = Some(since);
    let said = format!("`{}` is revoked since {since}", device.name);
    replace(&mut mesh.draft, at, device);
    finish(&mesh, &said, console)
}

fn finish(mesh: &Edited, said: &str, console: &mut Console) -> Result<Answer, Failure> {
    mesh.write(&mesh.new_text()?)?;
    writeln!(console, "{}: {said}; {UNSIGNED}", mesh.origin)?;
    Ok(Answer::Yes)
}

/// Where a device is, and what it is.
fn find(mesh: &Edited, name: &str) -> Result<(usize, MeshDevice), Failure> {
    let devices = &mesh.draft.devices;
    let found = devices.iter().enumerate().find(|(_, device)| device.name.as_str() == name);
    found.map(|(at, device)| (at, device.clone())).ok_or_else(|| {
        let hint = Hint(nearest(name, devices.iter().map(|device| device.name.as_str())));
        mesh.failure(MeshFailure::NoDevice(Quoted::new(name), hint))
    })
}

fn replace(draft: &mut MeshDraft, at: usize, device: MeshDevice) {
    if let Some(place) = draft.devices.get_mut(at) {
        *place = device;
    }
}

/// Whether no device has this tag or one of these keys. A device that is renewed keeps its tag, but the keys that it has
/// are not new ones.
fn check_free(device: &MeshDevice, draft: &MeshDraft) -> Result<(), MeshFailure> {
    for other in &draft.devices {
        let taken = [
            (other.tag == device.tag && other.name != device.name, "frame tag"),
            (other.signing_key == device.signing_key, "signing key"),
            (other.sealing_key == device.sealing_key, "sealing key"),
        ];
        if let Some((_, what)) = taken.into_iter().find(|(is_taken, _)| *is_taken) {
            return Err(MeshFailure::Taken { what, by: other.name.clone() });
        }
    }
    Ok(())
}

fn random_tag(draft: &MeshDraft) -> Option<FrameTag> {
    (0..MAX_TAG_CHOICES).find_map(|_| {
        let mut bytes = [0; 4];
        getrandom::fill(&mut bytes).ok()?;
        Some(FrameTag(bytes)).filter(|tag| draft.devices.iter().all(|device| device.tag != *tag))
    })
}

/// The two keys of a device. Not parsed by clap, which would repeat them in its errors: somebody may have given a secret.
fn public_keys(words: &[String]) -> Result<PublicKeys, Failure> {
    let mut words = words.iter().map(String::as_str);
    let mut next = || words.next().unwrap_or_default();
    let bad = |error| Failure::Key("--keys", error);
    Ok(PublicKeys { signing: next().parse().map_err(bad)?, sealing: next().parse().map_err(bad)? })
}
