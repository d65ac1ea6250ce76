//! One controller: what it was told to advertise and whether it listens. A state machine without input or output.

mod advertising;
mod scanning;

use std::time::Duration;

use super::hci::{BdAddr, Opcode, Parameters, Status, complete};
use advertising::Sets;
pub use advertising::{AdvertisingSet, Transmission};
use scanning::Scanner;

/// What a controller is able to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// Bluetooth 4.2: one advertising set of 31 bytes, no LE Read Transmit Power.
    Legacy,
    /// Bluetooth 5: several sets, long advertisements, other channels.
    Extended,
}

/// How many advertising sets an extended controller has.
pub const ADVERTISING_SETS: u8 = 8;
/// The longest advertisement that an extended controller takes.
pub const MAX_ADVERTISEMENT_BYTES: u16 = 1650;

/// An emulated controller.
#[derive(Debug)]
pub struct Controller {
    /// Its public address.
    pub address: BdAddr,
    /// What it is able to do.
    pub generation: Generation,
    random: BdAddr,
    sets: Sets,
    scanner: Scanner,
}

/// What a command returns: parameters after the status, or another status.
type Returned = Result<Vec<u8>, Status>;

impl Controller {
    /// A controller that was just switched on.
    pub fn new(address: BdAddr, generation: Generation) -> Self {
        Self { address, generation, random: BdAddr::default(), sets: Sets::default(), scanner: Scanner::default() }
    }

    /// Obeys a command, or not; the event that says so.
    pub fn command(&mut self, now: Duration, opcode: Opcode, parameters: Parameters<'_>) -> (Status, Vec<u8>) {
        let (status, returned) = match self.obey(now, opcode, parameters) {
            Ok(returned) => (Status::Success, returned),
            Err(status) => (status, Vec::new()),
        };
        (status, complete(opcode, status, &returned))
    }

    /// What is sent now; events for the host about sets whose time is over.
    pub fn due(&mut self, now: Duration, jitter: Duration) -> (Vec<Transmission>, Vec<Vec<u8>>) {
        self.sets.due(now, jitter, self.address, self.random)
    }

    /// Hears a transmission; events for the host.
    pub fn hear(&mut self, transmission: &Transmission) -> Vec<Vec<u8>> {
        self.scanner.hear(transmission)
    }

    fn obey(&mut self, now: Duration, opcode: Opcode, mut parameters: Parameters<'_>) -> Returned {
        match opcode.0 {
            0x0c01 | 0x2001 => done(), // event masks: this host wants all that we send
            0x0c03 => {
                *self = Self::new(self.address, self.generation);
                done()
            }
            0x1001 => Ok(self.version()),
            0x1002 => Ok(self.supported_commands()),
            0x1003 => Ok(vec![0, 0, 0, 0, 0x60, 0, 0, 0]), // LE, and nothing else
            0x1009 => Ok(self.address.0.to_vec()),
            0x2002 => Ok(vec![251, 0, 8]), // room for data of connections
            0x2003 => Ok(vec![0, if self.is_extended() { 0x19 } else { 0 }, 0, 0, 0, 0, 0, 0]), // 2M, Coded, extended advertising
            0x2005 => {
                self.random = BdAddr(parameters.array().ok_or(Status::InvalidParameters)?);
                done()
            }
            0x2007 => Ok(vec![7]), // dBm
            0x200f => Ok(vec![8]), // accept list: never used, as nobody connects
            0x2010..=0x2012 => done(),
            0x2018 => Ok(fastrand::u64(..).to_le_bytes().to_vec()),
            0x201c => Ok(vec![0xff, 0xff, 0xff, 0xff, 0xff, 3, 0, 0]), // states: all but connections' extras
            0x204b if self.is_extended() => Ok(vec![0xec, 0xff, 0x0a, 0x00]), // -20 to 10 dBm
            0x2006 | 0x2008..=0x200a => self.sets.legacy_command(now, opcode, parameters),
            0x2035..=0x203d if self.is_extended() => self.sets.extended_command(now, opcode, parameters),
            0x200b | 0x200c => self.scanner.legacy_command(opcode, parameters),
            0x2041 | 0x2042 if self.is_extended() => self.scanner.extended_command(opcode, parameters),
            _ => Err(Status::UnknownCommand),
        }
    }

    fn is_extended(&self) -> bool {
        self.generation == Generation::Extended
    }

    /// HCI version, revision, LMP version, manufacturer (one that has no quirks), subversion.
    fn version(&self) -> Vec<u8> {
        let version = if self.is_extended() { 0x09 } else { 0x08 };
        vec![version, 0, 0, version, 0xf1, 0x05, 0, 0]
    }

    /// One bit for each command of which the host must know that it is there.
    fn supported_commands(&self) -> Vec<u8> {
        // Octet and bits. Event mask, reset; version, features, address; the LE commands of 4.0 without connections.
        let mut bits = vec![(5, 0xc0), (14, 0x28), (15, 0x02), (25, 0xf7), (26, 0xcf), (27, 0x83), (28, 0x08)];
        if self.is_extended() {
            // Advertising sets; extended scanning; transmit power.
            bits.extend([(36, 0xfe), (37, 0x63), (38, 0x80)]);
        }
        (0..64).map(|octet| bits.iter().find(|(at, _)| *at == octet).map_or(0, |(_, bits)| *bits)).collect()
    }
}

fn done() -> Returned {
    Ok(Vec::new())
}

#[cfg(test)]
mod tests;
