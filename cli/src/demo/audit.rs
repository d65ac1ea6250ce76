//! The end of the demo: what the daemons recorded is judged as an auditor would judge it.

use std::fs;
use std::path::PathBuf;

use conformance::audit::report::{Filter, Report};
use conformance::audit::sources::{Given, Sources};
use conformance::audit::{Progress, audit};
use consent_mesh::layout::Layout;
use pilot_core::evidence::trace::{Frame, Head};

/// A record that was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tampered {
    /// Whose.
    pub(super) device: String,
    /// Its number.
    pub(super) record: u64,
}

/// Judges everything that was recorded, with what the demo's people have revealed.
pub(super) fn judge(layout: &Layout, openings: Vec<PathBuf>) -> Result<Report, String> {
    let given = Given { operator: Some(layout.operator_file()), openings, ..Given::default() };
    let sources = Sources::find(&[layout.root().to_owned()], &given).map_err(|error| error.to_string())?;
    Ok(audit(&sources, Filter::default(), &Progress::default()))
}

/// Changes one bit of the record in the middle of a device's trace, as somebody would who has access to the disk.
pub(super) fn tamper(layout: &Layout, device: &str) -> Result<Tampered, String> {
    let path: PathBuf = layout.trace(device).join("trace-00000000.cborseq");
    let mut bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let (mut records, mut rest) = (Vec::new(), bytes.as_slice());
    while let Ok(Some(frame)) = Frame::first(rest) {
        let begins = bytes.len() - rest.len();
        // The body begins after the record's head; its last byte is one of what the step says.
        let end = begins + frame.length;
        let head = Head::of(frame.body).ok_or("the trace cannot be read")?;
        records.push((head.sequence, end - HASH_BYTES - 1));
        rest = rest.get(frame.length..).unwrap_or_default();
    }
    let (record, place) = *records.get(records.len() / 2).ok_or("there is no record to change")?;
    if let Some(byte) = bytes.get_mut(place) {
        *byte ^= 1;
    }
    fs::write(&path, &bytes).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Tampered { device: device.into(), record })
}

/// What comes after the body of a record.
const HASH_BYTES: usize = 34;
