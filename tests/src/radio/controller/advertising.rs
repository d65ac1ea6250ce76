//! Advertising sets: what is sent, how often, from which address.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{ADVERTISING_SETS, MAX_ADVERTISEMENT_BYTES, Returned, done};
use crate::radio::hci::{BdAddr, Opcode, Parameters, Status, le_event};

/// Properties of an advertisement, as in LE Set Extended Advertising Parameters.
const CONNECTABLE: u16 = 0x01;
/// Answers active scanners.
pub(super) const SCANNABLE: u16 = 0x02;
/// In the form of Bluetooth 4.
pub(super) const LEGACY: u16 = 0x10;

/// The longest advertisement in the form of Bluetooth 4.
const MAX_LEGACY_BYTES: usize = 31;
/// A unit of advertising intervals.
const SLOT: Duration = Duration::from_micros(625);
/// Nobody advertises more often than the specification allows.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(20);
const SET_TERMINATED: u8 = 0x12;

/// One advertising set.
#[derive(Debug, Clone, Default)]
pub struct AdvertisingSet {
    properties: u16,
    interval: Duration,
    from_random: bool,
    /// The set's own random address, if it has one.
    random: Option<BdAddr>,
    secondary_phy: u8,
    sid: u8,
    data: Vec<u8>,
    response: Vec<u8>,
    running: Option<Running>,
}

#[derive(Debug, Clone, Copy)]
struct Running {
    next: Duration,
    until: Option<Duration>,
}

/// One advertisement on the air.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Transmission {
    /// Who says it is.
    pub address: BdAddr,
    /// Whether that address is a random one.
    pub random: bool,
    /// The set's properties.
    pub properties: u16,
    /// On which channels the rest of an extended advertisement is: 1 (1M), 2 (2M) or 3 (Coded).
    pub secondary_phy: u8,
    /// The set's number on the air, if it is extended.
    pub sid: u8,
    /// Advertising data.
    pub data: Vec<u8>,
    /// What it answers an active scanner.
    pub response: Vec<u8>,
}

impl Transmission {
    /// Whether controllers of Bluetooth 4 can hear it.
    pub const fn is_legacy(&self) -> bool {
        self.properties & LEGACY != 0
    }

    /// A device that is nobody's adapter and says this all the time.
    pub fn beacon(address: BdAddr, random: bool, data: Vec<u8>) -> Self {
        Self { address, random, properties: LEGACY, secondary_phy: 0, sid: 0xff, data, response: Vec::new() }
    }
}

/// The sets of a controller.
#[derive(Debug, Default)]
pub(super) struct Sets(BTreeMap<u8, AdvertisingSet>);

impl Sets {
    /// LE Set Advertising Parameters, Data, Scan Response Data, Enable: the one set of a Bluetooth 4 controller.
    pub fn legacy_command(&mut self, now: Duration, opcode: Opcode, parameters: Parameters<'_>) -> Returned {
        let set = self.0.entry(0).or_default();
        set.legacy_command(now, opcode, parameters).ok_or(Status::InvalidParameters)?;
        done()
    }

    /// The commands of extended advertising.
    pub fn extended_command(&mut self, now: Duration, opcode: Opcode, mut parameters: Parameters<'_>) -> Returned {
        match opcode.0 {
            0x203a => return Ok(MAX_ADVERTISEMENT_BYTES.to_le_bytes().to_vec()),
            0x203b => return Ok(vec![ADVERTISING_SETS]),
            0x2039 => return self.enable(now, parameters),
            0x203d => {
                self.0.clear();
                return done();
            }
            _ => {}
        }
        let handle = parameters.byte().ok_or(Status::InvalidParameters)?;
        if opcode.0 == 0x2036 {
            let is_new = !self.0.contains_key(&handle);
            if is_new && self.0.len() >= usize::from(ADVERTISING_SETS) {
                return Err(Status::Disallowed);
            }
            self.0.entry(handle).or_default().set_parameters(parameters).ok_or(Status::InvalidParameters)?;
            return Ok(vec![7]); // dBm
        }
        let set = self.0.get_mut(&handle).ok_or(Status::UnknownAdvertisingSet)?;
        match opcode.0 {
            0x2035 => set.random = Some(BdAddr(parameters.array().ok_or(Status::InvalidParameters)?)),
            0x2037 | 0x2038 => {
                let is_legacy = set.properties & LEGACY != 0;
                let kept = if opcode.0 == 0x2037 { &mut set.data } else { &mut set.response };
                let whole = assemble(kept, parameters).ok_or(Status::InvalidParameters)?;
                let room = if is_legacy { MAX_LEGACY_BYTES } else { usize::from(MAX_ADVERTISEMENT_BYTES) };
                if whole.len() > room {
                    return Err(Status::InvalidParameters);
                }
                *kept = whole;
            }
            0x203c if set.running.is_some() => return Err(Status::Disallowed),
            0x203c => {
                self.0.remove(&handle);
            }
            _ => return Err(Status::UnknownCommand),
        }
        done()
    }

    /// LE Set Extended Advertising Enable; without any set it disables all of them.
    fn enable(&mut self, now: Duration, mut parameters: Parameters<'_>) -> Returned {
        let enable = parameters.byte().ok_or(Status::InvalidParameters)? == 1;
        let count = parameters.byte().ok_or(Status::InvalidParameters)?;
        if count == 0 && !enable {
            self.0.values_mut().for_each(|set| set.running = None);
        }
        for _ in 0..count {
            let handle = parameters.byte().ok_or(Status::InvalidParameters)?;
            let duration = parameters.two().ok_or(Status::InvalidParameters)?;
            let _max_events = parameters.byte();
            let set = self.0.get_mut(&handle).ok_or(Status::UnknownAdvertisingSet)?;
            let until = (duration > 0).then(|| now + Duration::from_millis(10) * u32::from(duration));
            set.running = enable.then_some(Running { next: now, until });
        }
        done()
    }

    /// What is sent now, and events about sets whose time is over.
    pub fn due(
        &mut self,
        now: Duration,
        jitter: Duration,
        public: BdAddr,
        random: BdAddr,
    ) -> (Vec<Transmission>, Vec<Vec<u8>>) {
        let (mut sent, mut events) = (Vec::new(), Vec::new());
        for (handle, set) in &mut self.0 {
            let Some(running) = set.running.as_mut() else { continue };
            if running.until.is_some_and(|until| until <= now) {
                set.running = None;
                // No connection, and nobody counts the advertisements.
                events.push(le_event(SET_TERMINATED, &[Status::AdvertisingTimeout as u8, *handle, 0, 0, 0]));
            } else if running.next <= now {
                running.next = now + set.interval.max(SHORTEST_INTERVAL) + jitter;
                let address = if set.from_random { set.random.unwrap_or(random) } else { public };
                sent.push(set.transmission(address));
            }
        }
        (sent, events)
    }
}

impl AdvertisingSet {
    fn legacy_command(&mut self, now: Duration, opcode: Opcode, mut parameters: Parameters<'_>) -> Option<()> {
        match opcode.0 {
            0x2006 => {
                self.interval = SLOT * u32::from(parameters.two()?);
                let _longest = parameters.two()?;
                self.properties = LEGACY
                    | match parameters.byte()? {
                        0 => CONNECTABLE | SCANNABLE,
                        2 => SCANNABLE,
                        _ => 0,
                    };
                self.from_random = parameters.byte()? & 1 == 1;
            }
            0x2008 | 0x2009 => {
                let length = usize::from(parameters.byte()?);
                let data = parameters.bytes(length)?.to_vec();
                (data.len() <= MAX_LEGACY_BYTES).then_some(())?;
                *if opcode.0 == 0x2008 { &mut self.data } else { &mut self.response } = data;
            }
            _ => self.running = (parameters.byte()? == 1).then_some(Running { next: now, until: None }),
        }
        Some(())
    }

    /// LE Set Extended Advertising Parameters, after the handle.
    fn set_parameters(&mut self, mut parameters: Parameters<'_>) -> Option<()> {
        self.properties = parameters.two()?;
        self.interval = SLOT * parameters.three()?;
        let _longest = parameters.three()?;
        let _channels = parameters.byte()?;
        self.from_random = parameters.byte()? & 1 == 1;
        let _peer: [u8; 7] = parameters.array()?;
        let _filter_policy = parameters.byte()?;
        let _power = parameters.byte()?;
        let _primary_phy = parameters.byte()?;
        let _skipped = parameters.byte()?;
        self.secondary_phy = parameters.byte()?;
        self.sid = parameters.byte()?;
        Some(())
    }

    fn transmission(&self, address: BdAddr) -> Transmission {
        let is_legacy = self.properties & LEGACY != 0;
        Transmission {
            address,
            random: self.from_random,
            properties: self.properties,
            secondary_phy: if is_legacy { 0 } else { self.secondary_phy.max(1) },
            sid: if is_legacy { 0xff } else { self.sid },
            data: self.data.clone(),
            response: self.response.clone(),
        }
    }
}

/// Advertising data comes whole, or in fragments that continue what is there.
fn assemble(there: &[u8], mut parameters: Parameters<'_>) -> Option<Vec<u8>> {
    let operation = parameters.byte()?;
    let _fragmentation = parameters.byte()?;
    let length = usize::from(parameters.byte()?);
    let part = parameters.bytes(length)?;
    match operation {
        1 | 3 => Some(part.to_vec()),
        0 | 2 => Some([there, part].concat()),
        4 => Some(there.to_vec()),
        _ => None,
    }
}
