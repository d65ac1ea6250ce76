//! Writing the text of a mesh file.

use alloc::string::String;
use core::fmt::{self, Write};

use super::read::VERSION;
use super::{MeshDevice, MeshDraft};

/// The text of a draft; whoever calls this reads it back.
pub(super) fn text(draft: &MeshDraft) -> String {
    let mut text = String::new();
    let result = write_draft(draft, &mut text);
    // INVARIANT: writing to a `String` cannot fail.
    debug_assert!(result.is_ok());
    text
}

fn write_draft(draft: &MeshDraft, out: &mut String) -> fmt::Result {
    writeln!(out, "version = {VERSION}\nserial = {}", draft.serial)?;
    writeln!(out, "issued = {}\nexpires = {}", draft.issued, draft.expires)?;
    if let Some(key) = &draft.next_operator_key {
        writeln!(out, "next_operator_key = \"{key}\"")?;
    }
    writeln!(out, "\n[vocabulary]")?;
    draft.vocabulary.write(out, "vocabulary.")?;
    draft.devices.iter().try_for_each(|device| write_device(device, out))
}

fn write_device(device: &MeshDevice, out: &mut String) -> fmt::Result {
    writeln!(out, "\n[[devices]]\nname = \"{}\"\nrole = \"{}\"", device.name, device.role.word())?;
    writeln!(out, "entity = \"{}\"\ntag = \"{}\"", device.entity, device.tag)?;
    writeln!(out, "signing_key = \"{}\"\nsealing_key = \"{}\"", device.signing_key, device.sealing_key)?;
    writeln!(out, "valid_from = {}\nvalid_until = {}", device.valid_from, device.valid_until)?;
    device.revoked.iter().try_for_each(|since| writeln!(out, "revoked = {since}"))
}
