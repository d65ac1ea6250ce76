//! Whether BlueZ hides addresses.
//!
//! With `Privacy` on, BlueZ advertises with addresses that change every few minutes, and says so nowhere on D-Bus:
//! `Address` is the one that is hidden. So its configuration is read. (Privacy can be switched on by other means, `btmgmt`
//! for example, which is seen by nobody but an administrator: docs/threat-model.md.)

use std::fs::File;
use std::io::Read as _;

use super::BluezError;

/// Where bluetoothd has its settings.
pub(super) const FILE: &str = "/etc/bluetooth/main.conf";

/// No configuration is longer.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// A file that is not there, or not for us, says nothing, and privacy is off by default.
pub(super) fn check() -> Result<(), BluezError> {
    let mut text = String::new();
    let read = File::open(FILE).and_then(|file| file.take(MAX_FILE_BYTES).read_to_string(&mut text));
    if read.is_ok() && is_on(&text) { Err(BluezError::Private { file: FILE }) } else { Ok(()) }
}

/// The last setting counts, in whatever section: there is one of this name only.
fn is_on(text: &str) -> bool {
    let mut settings = text.lines().rev().filter_map(|line| line.split_once('='));
    let privacy = settings.find(|(name, _)| name.trim() == "Privacy");
    privacy.is_some_and(|(_, value)| !matches!(value.trim(), "off" | "false" | ""))
}

#[cfg(test)]
mod tests {
    use super::is_on;

    #[test]
    fn privacy_is_off_unless_it_says_otherwise() {
        assert!(!is_on(""));
        assert!(!is_on("[General]\n# Privacy = device\n#Privacy = on\n"));
        assert!(!is_on("[General]\nPrivacy = off\n"));
        assert!(is_on("[General]\nPrivacy = device\n"));
        assert!(is_on("[General]\nPrivacy=network\n"));
        assert!(is_on("Privacy=off\nPrivacy = on"));
    }
}
