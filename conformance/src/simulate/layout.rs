//! The files beside the traces, laid out as `consent-mesh demo --keep` does.
//!
//! ```text
//! OUT/
//!   mesh.toml, mesh.toml.sig, operator.pub
//!   keys/DEVICE.key          secret keys, the operator's among them
//!   audit/DEVICE.key         K: thirty-two bytes
//!   audit/openings           what the subjects give an auditor, a JSON object per line
//!   traces/DEVICE/           the traces
//! ```

use std::fs::{self, DirBuilder};
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use pilot_core::evidence::hex::Hex;
use pilot_core::evidence::mesh::sign_mesh;
use pilot_core::vocabulary::Id as _;
use serde_json::json;

use super::cast::Cast;
use super::{DIRECTORY_MODE, SimulateError};
use crate::keys::write_private;
use crate::scenario::Role;

/// Writes everything but the traces.
pub(super) fn write(cast: &Cast, out: &Path) -> Result<(), SimulateError> {
    let at =
        |path: &Path, done: std::io::Result<()>| done.map_err(|error| SimulateError::File { path: path.into(), error });
    for name in ["keys", "audit", "traces"] {
        let path = out.join(name);
        at(&path, DirBuilder::new().mode(DIRECTORY_MODE).create(&path))?;
    }
    let text = cast.mesh()?.to_toml().map_err(SimulateError::malformed)?;
    let signature = sign_mesh(&text, &cast.operator.signing);
    let operator = cast.operator.verifying_key();
    for (name, text) in
        [("mesh.toml", text), ("mesh.toml.sig", format!("{signature}\n")), ("operator.pub", format!("{operator}\n"))]
    {
        let path = out.join(name);
        at(&path, fs::write(&path, text))?;
    }
    cast.operator.write(&out.join("keys/operator.key"))?;
    for member in &cast.devices {
        member.keys.write(&out.join("keys").join(format!("{}.key", member.name)))?;
        let path = out.join("audit").join(format!("{}.key", member.name));
        at(&path, write_private(&path, &member.audit_bytes))?;
    }
    let path = out.join("audit/openings");
    at(&path, write_private(&path, &openings(cast)))
}

fn openings(cast: &Cast) -> Vec<u8> {
    let mut lines = Vec::new();
    for member in cast.devices.iter().filter(|member| member.role == Role::Subject) {
        for (item, _) in &member.items {
            let Some(thing) = cast.items.get(item.index()) else { continue };
            let opening = json!({
                "device": member.name.as_str(),
                "datatype": thing.datatype.as_str(),
                "item": Hex(&thing.bytes).to_string(),
                "audit_key": Hex(&member.audit_bytes).to_string(),
                "signing_key": member.keys.verifying_key().to_string(),
            });
            // Writing to a `Vec` cannot fail.
            let _ = writeln!(lines, "{opening}");
        }
    }
    lines
}
