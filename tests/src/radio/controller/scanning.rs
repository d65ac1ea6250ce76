//! Scanning: what is heard becomes advertising reports.

use std::collections::HashSet;

use super::advertising::{LEGACY, SCANNABLE, Transmission};
use super::{Returned, done};
use crate::radio::hci::{BdAddr, Opcode, Parameters, Status, le_event};

const ADVERTISING_REPORT: u8 = 0x02;
const EXTENDED_ADVERTISING_REPORT: u8 = 0x0d;
/// The event type of a scan response.
const RESPONSE: u16 = 0x08;
/// The event type of a report that another one continues.
const MORE_TO_COME: u16 = 0x20;
/// How much of an advertisement fits into one report.
const REPORT_BYTES: usize = 229;
/// As from the other end of a room, in dBm.
const RSSI: u8 = (-60_i8).cast_unsigned();

/// Whether and how a controller listens.
#[derive(Debug, Default)]
pub(super) struct Scanner {
    on: bool,
    /// Asks for scan responses.
    active: bool,
    /// Reports in the form of Bluetooth 5, which are the only ones for extended advertisements.
    extended: bool,
    /// With the duplicates filter: what it has reported since scanning was switched on.
    seen: Option<HashSet<Seen>>,
}

/// What the duplicates filter remembers: whose, random or not, an advertisement or a response; and of an extended one also the
/// data, which has a number there that changes with it. Of those of Bluetooth 4 controllers may look at the data, and most
/// do not.
type Seen = (BdAddr, bool, bool, Option<Vec<u8>>);

impl Scanner {
    /// LE Set Scan Parameters, Enable.
    pub fn legacy_command(&mut self, opcode: Opcode, mut parameters: Parameters<'_>) -> Returned {
        let first = parameters.byte().ok_or(Status::InvalidParameters)?;
        if opcode.0 == 0x200b {
            self.active = first == 1;
            return done();
        }
        self.extended = false;
        self.enable(first, parameters)
    }

    /// LE Set Extended Scan Parameters, Enable.
    pub fn extended_command(&mut self, opcode: Opcode, mut parameters: Parameters<'_>) -> Returned {
        let first = parameters.byte().ok_or(Status::InvalidParameters)?;
        if opcode.0 == 0x2041 {
            let [_filter_policy, _phys] = parameters.array().ok_or(Status::InvalidParameters)?;
            self.active = parameters.byte().ok_or(Status::InvalidParameters)? == 1;
            return done();
        }
        self.extended = true;
        self.enable(first, parameters)
    }

    fn enable(&mut self, on: u8, mut parameters: Parameters<'_>) -> Returned {
        let filter = parameters.byte().ok_or(Status::InvalidParameters)?;
        self.on = on == 1;
        self.seen = (filter != 0).then(HashSet::new);
        done()
    }

    /// Hears a transmission; reports about it.
    pub fn hear(&mut self, heard: &Transmission) -> Vec<Vec<u8>> {
        if !self.on || !(self.extended || heard.is_legacy()) {
            return Vec::new();
        }
        let mut reports = self.report(heard, false);
        if self.active && heard.properties & SCANNABLE != 0 {
            reports.extend(self.report(heard, true));
        }
        reports
    }

    fn report(&mut self, heard: &Transmission, response: bool) -> Vec<Vec<u8>> {
        let data = (!heard.is_legacy()).then(|| heard.data.clone());
        let is_news = |seen: &mut HashSet<Seen>| seen.insert((heard.address, heard.random, response, data));
        if !self.seen.as_mut().is_none_or(is_news) {
            return Vec::new();
        }
        if self.extended { extended_reports(heard, response) } else { vec![legacy_report(heard, response)] }
    }
}

fn legacy_report(heard: &Transmission, response: bool) -> Vec<u8> {
    let kind = match (response, heard.properties & 3) {
        (true, _) => 4,
        (_, 3) => 0,
        (_, 2) => 2,
        _ => 3,
    };
    let data = if response { &heard.response } else { &heard.data };
    let mut parameters = vec![1, kind, u8::from(heard.random)];
    parameters.extend(heard.address.0);
    parameters.push(data.len() as u8);
    parameters.extend(data);
    parameters.push(RSSI);
    le_event(ADVERTISING_REPORT, &parameters)
}

fn extended_reports(heard: &Transmission, response: bool) -> Vec<Vec<u8>> {
    let data = if response { &heard.response } else { &heard.data };
    let kind = heard.properties & (LEGACY | 3) | if response { RESPONSE } else { 0 };
    let mut parts: Vec<&[u8]> = data.chunks(REPORT_BYTES).collect();
    if parts.is_empty() {
        parts.push(&[]);
    }
    let last = parts.len() - 1;
    let report = |(number, part): (usize, &&[u8])| {
        let kind = if number < last { kind | MORE_TO_COME } else { kind };
        let mut parameters = vec![1];
        parameters.extend(kind.to_le_bytes());
        parameters.push(u8::from(heard.random));
        parameters.extend(heard.address.0);
        // Channels, set, unknown power, strength, not periodic, not directed.
        parameters.extend([1, heard.secondary_phy, heard.sid, 0x7f, RSSI, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        parameters.push(part.len() as u8);
        parameters.extend(*part);
        le_event(EXTENDED_ADVERTISING_REPORT, &parameters)
    };
    parts.iter().enumerate().map(report).collect()
}
