//! Where in an advertisement a frame is: under which 16-bit identifier.
//!
//! An advertisement is a row of structures, each a length, a type and data. Two types are for whoever wants to say
//! something of their own, and both begin with 16 bits that say whose it is: *manufacturer data* with a company
//! identifier, *service data* with a short UUID. Either leaves 24 bytes of an old advertisement for a frame.
//!
//! **The default is manufacturer data of 0xFFFF.** The Bluetooth SIG gives identifiers of both sorts to its members, and
//! we have none. 0xFFFF is the one that it has set aside for those without, and it is nobody's: a UUID that we made up might be
//! assigned tomorrow, and one that is assigned would be a lie. Others experiment with 0xFFFF, too; a frame has a version,
//! fixed lengths and a tag to be told from that. It is not for products that are sold: who has an identifier configures it,
//! on every device of the mesh.

use std::fmt;

/// Whose data a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// Manufacturer data (type 0xFF) of a company.
    Manufacturer(u16),
    /// Service data (type 0x16) of a 16-bit UUID.
    Service(u16),
}

impl Default for Carrier {
    fn default() -> Self {
        Self::Manufacturer(0xffff)
    }
}

impl Carrier {
    /// From what a configuration says: at most one of the two, each four hexadecimal digits.
    pub fn of(manufacturer: Option<&str>, service: Option<&str>) -> Result<Self, &'static str> {
        match (manufacturer, service) {
            (None, None) => Ok(Self::default()),
            (Some(company), None) => identifier(company).map(Self::Manufacturer),
            (None, Some(uuid)) => identifier(uuid).map(Self::Service),
            (Some(_), Some(_)) => Err("frames are manufacturer data or service data, not both"),
        }
    }
}

impl fmt::Display for Carrier {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Manufacturer(company) => write!(out, "manufacturer data of {company:04x}"),
            Self::Service(uuid) => write!(out, "service data of {uuid:04x}"),
        }
    }
}

fn identifier(text: &str) -> Result<u16, &'static str> {
    let is_hexadecimal = text.len() == 4 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = if is_hexadecimal { u16::from_str_radix(text, 16).ok() } else { None };
    number.ok_or("an identifier has four hexadecimal digits, like `ffff`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_four_hexadecimal_digits() {
        assert_eq!(Carrier::of(None, None), Ok(Carrier::Manufacturer(0xffff)));
        assert_eq!(Carrier::of(Some("004c"), None), Ok(Carrier::Manufacturer(0x4c)));
        assert_eq!(Carrier::of(None, Some("FD6f")), Ok(Carrier::Service(0xfd6f)));
        assert!(Carrier::of(Some("ffff"), Some("fd6f")).is_err());
        for wrong in ["", "4c", "0x4c", "+04c", "fffff", "ﬀff"] {
            assert!(Carrier::of(Some(wrong), None).is_err(), "{wrong}");
        }
    }
}
