//! The address of an advertiser: the personal value that all of this is about.

use std::fmt;

/// A six-byte Bluetooth address, most significant byte first, as people write it.
///
/// It is the item itself, so it is shown by neither `Debug` nor `Display`: an address in a log is data that nobody
/// consented to. Who needs the bytes asks for them by name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address([u8; 6]);

impl Address {
    /// The address of these bytes.
    pub const fn new(bytes: [u8; 6]) -> Self {
        Self(bytes)
    }

    /// The bytes. They are personal data: not for logs, errors or traces.
    pub const fn reveal(self) -> [u8; 6] {
        self.0
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Address(hidden)")
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("hidden address")
    }
}

/// Who gave out an address. The same six bytes of either kind are different addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddressKind {
    /// By the manufacturer, for good.
    Public,
    /// By the device itself, and perhaps not for long.
    Random,
}
