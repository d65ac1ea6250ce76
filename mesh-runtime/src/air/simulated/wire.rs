//! What participants and hub say to each other: one datagram, one thing.
//!
//! ```text
//!                 0        4       12       20        26      27         35
//! Said, to it     │ "air1" │ token │ number │ address │ flags │ position │ frame or nothing
//! Heard, from it  │ "air1" │ token │ number │ address │ flags │ rssi │ frame or nothing
//!                 0        4       12       20        26      27     28
//! ```
//!
//! Numbers are big-endian; a position is east and north. Of the flags, bit 0 says that the address is random, and bit 1, in
//! Said only, asks for an answer; the others are 0. `number` counts what this sender sent to this receiver, so that the
//! receiver knows what it missed. A participant without a frame says that it is there; a hub without a frame says that
//! it heard that.

use crate::air::bytes::{FrameBytes, take};
use crate::air::frame::MAX_FRAME_BYTES;
use crate::air::{Address, AddressKind};

use super::world::Position;

/// The longest datagram.
pub const MAX_DATAGRAM_BYTES: usize = SAID_BYTES + MAX_FRAME_BYTES;

const VERSION: &[u8; 4] = b"air1";
const SAID_BYTES: usize = 35;
const RANDOM_ADDRESS: u8 = 1;
const PLEASE_ANSWER: u8 = 2;

/// Keeps airs apart: a datagram with another token is not for this air.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token(pub u64);

/// What a participant sends to the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Said {
    pub number: u64,
    pub address: Address,
    pub address_kind: AddressKind,
    pub please_answer: bool,
    pub position: Position,
    pub frame: Option<FrameBytes>,
}

/// What the hub sends to a participant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    pub number: u64,
    pub address: Address,
    pub address_kind: AddressKind,
    pub rssi: i8,
    pub frame: Option<FrameBytes>,
}

impl Said {
    pub fn encode(&self, token: Token) -> Vec<u8> {
        let answer = if self.please_answer { PLEASE_ANSWER } else { 0 };
        let mut bytes = start(token, self.number, self.address, kind_flag(self.address_kind) | answer);
        bytes.extend(self.position.east.to_be_bytes());
        bytes.extend(self.position.north.to_be_bytes());
        bytes.extend(self.frame.iter().flat_map(FrameBytes::as_slice));
        bytes
    }

    /// `None` if these bytes are not what a participant of this air says.
    pub fn decode(bytes: &[u8], token: Token) -> Option<Self> {
        let mut rest = bytes;
        let (number, address, flags) = read_start(&mut rest, token)?;
        let east = i32::from_be_bytes(take(&mut rest)?);
        let north = i32::from_be_bytes(take(&mut rest)?);
        if flags & !(RANDOM_ADDRESS | PLEASE_ANSWER) != 0 {
            return None;
        }
        Some(Self {
            number,
            address,
            address_kind: kind(flags),
            please_answer: flags & PLEASE_ANSWER != 0,
            position: Position { east, north },
            frame: frame(rest)?,
        })
    }
}

impl Heard {
    pub fn encode(&self, token: Token) -> Vec<u8> {
        let mut bytes = start(token, self.number, self.address, kind_flag(self.address_kind));
        bytes.extend(self.rssi.to_be_bytes());
        bytes.extend(self.frame.iter().flat_map(FrameBytes::as_slice));
        bytes
    }

    /// `None` if these bytes are not what the hub of this air says.
    pub fn decode(bytes: &[u8], token: Token) -> Option<Self> {
        let mut rest = bytes;
        let (number, address, flags) = read_start(&mut rest, token)?;
        let rssi = i8::from_be_bytes(take(&mut rest)?);
        if flags & !RANDOM_ADDRESS != 0 {
            return None;
        }
        Some(Self { number, address, address_kind: kind(flags), rssi, frame: frame(rest)? })
    }
}

fn start(token: Token, number: u64, address: Address, flags: u8) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(MAX_DATAGRAM_BYTES);
    bytes.extend(VERSION);
    bytes.extend(token.0.to_be_bytes());
    bytes.extend(number.to_be_bytes());
    bytes.extend(address.reveal());
    bytes.push(flags);
    bytes
}

fn read_start(rest: &mut &[u8], token: Token) -> Option<(u64, Address, u8)> {
    let version: [u8; 4] = take(rest)?;
    let found = Token(u64::from_be_bytes(take(rest)?));
    let number = u64::from_be_bytes(take(rest)?);
    let address = Address::new(take(rest)?);
    let [flags] = take(rest)?;
    (version == *VERSION && found == token).then_some((number, address, flags))
}

/// What is left is the frame, if there is one; `None` if it is too long for one.
fn frame(rest: &[u8]) -> Option<Option<FrameBytes>> {
    if rest.is_empty() { Some(None) } else { FrameBytes::new(rest).map(Some) }
}

const fn kind_flag(kind: AddressKind) -> u8 {
    match kind {
        AddressKind::Public => 0,
        AddressKind::Random => RANDOM_ADDRESS,
    }
}

const fn kind(flags: u8) -> AddressKind {
    if flags & RANDOM_ADDRESS == 0 { AddressKind::Public } else { AddressKind::Random }
}
