//! The bytes between a host and a controller (Bluetooth Core 5.4, volume 4, part E).

use std::fmt;

/// The first byte of a packet that is a command.
pub const COMMAND_PACKET: u8 = 0x01;
const EVENT_PACKET: u8 = 0x04;
const COMMAND_COMPLETE: u8 = 0x0e;
const LE_META: u8 = 0x3e;

/// What becomes of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// It was done.
    Success = 0x00,
    /// This controller does not have it.
    UnknownCommand = 0x01,
    /// Not now.
    Disallowed = 0x0c,
    /// Its parameters make no sense.
    InvalidParameters = 0x12,
    /// Advertising ended because its time was over.
    AdvertisingTimeout = 0x3c,
    /// No advertising set has this handle.
    UnknownAdvertisingSet = 0x42,
}

/// A command's operation code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Opcode(pub u16);

impl fmt::Display for Opcode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:04x}", self.0)
    }
}

/// Splits a command packet into its code and its parameters.
pub fn command(packet: &[u8]) -> Option<(Opcode, Parameters<'_>)> {
    let mut rest = Parameters(packet);
    if rest.byte()? != COMMAND_PACKET {
        return None;
    }
    let opcode = Opcode(rest.two()?);
    let length = usize::from(rest.byte()?);
    Some((opcode, Parameters(rest.bytes(length)?)))
}

/// Parameters that are not yet read, little-endian as all of HCI.
#[derive(Debug, Clone, Copy)]
pub struct Parameters<'p>(pub &'p [u8]);

impl<'p> Parameters<'p> {
    /// The next byte.
    pub fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    /// The next two bytes.
    pub fn two(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// The next three bytes.
    pub fn three(&mut self) -> Option<u32> {
        self.array().map(|[low, middle, high]| u32::from_le_bytes([low, middle, high, 0]))
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (part, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*part)
    }

    /// The next so many bytes.
    pub fn bytes(&mut self, count: usize) -> Option<&'p [u8]> {
        let (part, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(part)
    }
}

/// The event that ends a command.
pub fn complete(opcode: Opcode, status: Status, returned: &[u8]) -> Vec<u8> {
    // One more command may come.
    let mut parameters = vec![1];
    parameters.extend(opcode.0.to_le_bytes());
    parameters.push(status as u8);
    parameters.extend(returned);
    event(COMMAND_COMPLETE, &parameters)
}

/// An event about Low Energy.
pub fn le_event(subevent: u8, parameters: &[u8]) -> Vec<u8> {
    let mut whole = vec![subevent];
    whole.extend(parameters);
    event(LE_META, &whole)
}

/// An event has at most 255 bytes of parameters; ours are shorter.
fn event(code: u8, parameters: &[u8]) -> Vec<u8> {
    let mut packet = vec![EVENT_PACKET, code, u8::try_from(parameters.len()).unwrap_or(u8::MAX)];
    packet.extend(parameters);
    packet
}

/// A device address in the order of HCI, least significant byte first; shown as people write it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BdAddr(pub [u8; 6]);

impl fmt::Display for BdAddr {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, f] = self.0;
        write!(out, "{f:02x}:{e:02x}:{d:02x}:{c:02x}:{b:02x}:{a:02x}")
    }
}

impl std::str::FromStr for BdAddr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no address such as 00:aa:01:00:00:01");
        let bytes: Result<Vec<u8>, _> = text.split(':').map(|byte| u8::from_str_radix(byte, 16)).collect();
        let mut bytes = <[u8; 6]>::try_from(bytes.map_err(|_| wrong())?).map_err(|_| wrong())?;
        bytes.reverse();
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_split_and_a_cut_one_is_none() {
        let (opcode, mut parameters) = command(&[1, 0x0c, 0x20, 2, 1, 0]).unwrap();
        assert_eq!(
            (opcode, parameters.byte(), parameters.byte(), parameters.byte()),
            (Opcode(0x200c), Some(1), Some(0), None)
        );
        assert!(command(&[1, 0x0c, 0x20, 2, 1]).is_none());
    }

    #[test]
    fn addresses_are_written_the_other_way_round() {
        let address: BdAddr = "00:AA:01:02:03:04".parse().unwrap();
        assert_eq!(address.0, [4, 3, 2, 1, 0xaa, 0]);
        assert_eq!(address.to_string(), "00:aa:01:02:03:04");
        assert!("00:AA:01:02:03".parse::<BdAddr>().is_err());
    }
}
