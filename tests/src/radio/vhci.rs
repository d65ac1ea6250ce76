//! Input and output: one `/dev/vhci` per controller, a clock, and orders over a Unix socket.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use super::air::Air;
use super::controller::{Controller, Generation};
use super::hci::{self, BdAddr};

const DEVICE: &str = "/dev/vhci";
/// The first byte of packets about the device itself: to make one, and which one it became.
const VENDOR_PACKET: u8 = 0xff;
/// How exactly advertising intervals are kept, and how long a host waits for an answer.
const TICK: Duration = Duration::from_millis(5);
/// Longer than the kernel takes to say which adapter it made.
const PATIENCE: Duration = Duration::from_secs(30);

/// A controller on the command line: `ADDRESS` or `ADDRESS=legacy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    address: BdAddr,
    generation: Generation,
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, generation) = match text.split_once('=') {
            None => (text, Generation::Extended),
            Some((address, "extended")) => (address, Generation::Extended),
            Some((address, "legacy")) => (address, Generation::Legacy),
            Some((_, other)) => return Err(format!("`{other}` is neither `legacy` nor `extended`")),
        };
        Ok(Self { address: address.parse()?, generation })
    }
}

/// What the emulator can be told while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// `unplug N`
    Unplug(usize),
    /// `plug N`
    Plug(usize),
    /// `loss PERCENT`
    Loss(u8),
    /// `cut on`, `cut off`
    Cut(bool),
    /// `mark NAME`: what is sent or heard after it is in the log once more.
    Mark,
    /// `beacon public|random ADDRESS [DATA]`: without data it falls silent.
    Beacon {
        /// Whether the address is random.
        random: bool,
        /// The address.
        address: BdAddr,
        /// What it advertises.
        data: Vec<u8>,
    },
}

impl FromStr for Order {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |word: &str| word.parse::<u8>().map_err(|_| format!("`{word}` is no number"));
        Ok(match words.as_slice() {
            ["unplug", index] => Self::Unplug(number(index)?.into()),
            ["plug", index] => Self::Plug(number(index)?.into()),
            ["loss", percent] => Self::Loss(number(percent)?),
            ["cut", "on"] => Self::Cut(true),
            ["cut", "off"] => Self::Cut(false),
            ["mark", _] => Self::Mark,
            ["beacon", kind @ ("public" | "random"), address, data @ ..] => {
                Self::Beacon { random: *kind == "random", address: address.parse()?, data: bytes(&data.concat())? }
            }
            _ => return Err(format!("`{line}` is no order")),
        })
    }
}

fn bytes(text: &str) -> Result<Vec<u8>, String> {
    let wrong = || format!("`{text}` is not hexadecimal");
    let digits: Option<Vec<u8>> = text.chars().map(|digit| Some(digit.to_digit(16)? as u8)).collect();
    let (pairs, rest) = digits.as_deref().ok_or_else(wrong)?.as_chunks::<2>();
    if rest.is_empty() { Ok(pairs.iter().map(|[high, low]| high << 4 | low).collect()) } else { Err(wrong()) }
}

/// The emulator: one loop that waits for hosts, orders and time.
pub struct Radio {
    air: Air<File>,
    wanted: Vec<Wanted>,
    plugged: BTreeMap<usize, Plugged>,
    orders: UnixListener,
    begun: Instant,
}

/// A controller that the kernel sees: as long as this file is open.
struct Plugged {
    device: File,
    /// Whether the kernel has said which adapter it is.
    is_adapter: bool,
}

impl Radio {
    /// Runs these controllers until the process ends.
    pub fn run(wanted: Vec<Wanted>, seed: u64, log: &Path, control: &Path) -> io::Result<()> {
        let air = Air::new(seed, File::options().create(true).append(true).open(log)?);
        let orders = UnixListener::bind(control)?;
        orders.set_nonblocking(true)?;
        let mut radio = Self { air, wanted, plugged: BTreeMap::new(), orders, begun: Instant::now() };
        // One after the other, so that the first is hci0.
        for index in 0..radio.wanted.len() {
            radio.plug(index)?;
        }
        loop {
            radio.turn()?;
            match radio.orders.accept() {
                // Whoever hangs up early gets no answer.
                Ok((stream, _)) => drop(radio.serve(&stream)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Answers hosts, lets time pass, and sleeps for a tick.
    fn turn(&mut self) -> io::Result<()> {
        let indices: Vec<usize> = self.plugged.keys().copied().collect();
        for index in indices {
            while self.read(index)? {}
        }
        for (index, packet) in self.air.pass(self.now())? {
            self.write(index, &packet);
        }
        std::thread::sleep(TICK);
        Ok(())
    }

    /// Reads what the kernel says to a controller, and answers. Whether it said anything.
    fn read(&mut self, index: usize) -> io::Result<bool> {
        let mut buffer = [0; 2048];
        let Some(plugged) = self.plugged.get_mut(&index) else { return Ok(false) };
        let length = match plugged.device.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            length => length?,
        };
        let packet = buffer.get(..length).unwrap_or_default();
        if packet.first() == Some(&VENDOR_PACKET) {
            plugged.is_adapter = true;
        } else if let Some((opcode, parameters)) = hci::command(packet) {
            let answer = self.air.command(self.now(), index, opcode, parameters)?;
            self.write(index, &answer);
        }
        Ok(true)
    }

    fn write(&mut self, index: usize, packet: &[u8]) {
        if let Some(plugged) = self.plugged.get_mut(&index) {
            // The kernel refuses packets of an adapter that it is taking down.
            let _ = plugged.device.write(packet);
        }
    }

    fn plug(&mut self, index: usize) -> io::Result<()> {
        let wanted = *self.wanted.get(index).ok_or_else(|| io::Error::other("there is no such controller"))?;
        if self.plugged.contains_key(&index) {
            return Err(io::Error::other("it is plugged in"));
        }
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let mut device = OpenOptions::new().read(true).write(true).custom_flags(flags).open(DEVICE)?;
        device.write_all(&[VENDOR_PACKET, 0])?;
        self.air.plug(index, Controller::new(wanted.address, wanted.generation));
        self.plugged.insert(index, Plugged { device, is_adapter: false });
        let begun = Instant::now();
        while self.plugged.get(&index).is_some_and(|plugged| !plugged.is_adapter) {
            if begun.elapsed() > PATIENCE {
                return Err(io::Error::other("the kernel makes no adapter"));
            }
            self.turn()?;
        }
        Ok(())
    }

    fn unplug(&mut self, index: usize) -> io::Result<()> {
        self.plugged.remove(&index).ok_or_else(|| io::Error::other("it is not plugged in"))?;
        self.air.unplug(index);
        Ok(())
    }

    /// Takes one order; answers `ok` or what is wrong.
    fn serve(&mut self, stream: &UnixStream) -> io::Result<()> {
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        let line = line.trim();
        let done = line.parse().and_then(|order| self.obey(order).map_err(|error| error.to_string()));
        let answer = done.map_or_else(|error| error, |()| "ok".to_owned());
        self.air.write(self.now(), "order", &format!("{line}: {answer}"))?;
        writeln!(&mut &*stream, "{answer}")
    }

    fn obey(&mut self, order: Order) -> io::Result<()> {
        match order {
            Order::Unplug(index) => return self.unplug(index),
            Order::Plug(index) => return self.plug(index),
            Order::Loss(percent) => self.air.lose(percent),
            Order::Cut(cut) => self.air.cut(cut),
            Order::Mark => self.air.mark(),
            Order::Beacon { random, address, data } => self.air.beacon(address, random, data),
        }
        Ok(())
    }
}

/// Gives an emulator that runs an order; its answer.
pub fn tell(control: &Path, order: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(control)?;
    writeln!(stream, "{order}")?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    Ok(answer.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read_strictly() {
        assert_eq!("unplug 1".parse(), Ok(Order::Unplug(1)));
        assert_eq!("cut off".parse(), Ok(Order::Cut(false)));
        let beacon = "beacon random c0:00:00:00:00:01 020106".parse::<Order>().unwrap();
        let Order::Beacon { random, address, data } = beacon else { panic!("another order") };
        assert_eq!((random, address.0, data.as_slice()), (true, [1, 0, 0, 0, 0, 0xc0], [2, 1, 6].as_slice()));
        for wrong in
            ["", "unplug", "unplug one", "cut maybe", "beacon public 00:11", "beacon public 00:11:22:33:44:55 0g"]
        {
            assert!(wrong.parse::<Order>().is_err(), "{wrong}");
        }
    }
}
