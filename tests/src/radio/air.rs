//! What is between controllers: time, distance, and somebody who writes down what was sent.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write};
use std::time::Duration;

use super::controller::{Controller, Transmission};
use super::hci::{BdAddr, Opcode, Parameters, Status};

/// How often a beacon advertises.
const BEACON_INTERVAL: Duration = Duration::from_millis(500);
/// Advertising is delayed at random by up to this, so that two devices do not meet for ever (volume 6, part B, 4.4.2.2).
const MAX_JITTER_MICROSECONDS: u64 = 10_000;

/// A packet for the host of a controller.
pub type ForHost = (usize, Vec<u8>);

/// All controllers, and what is between them.
///
/// The log has a line for each different thing that was sent, and one for each controller that reported it to its host:
///
/// ```text
/// seconds  sent   controller       public|random ADDRESS legacy|extended DATA RESPONSE
/// seconds  heard  by a controller  public|random ADDRESS legacy|extended DATA RESPONSE
/// ```
///
/// Data is hexadecimal, `-` if there is none; the controller of a beacon is `-`. Lines `order` and `unknown` have what the
/// emulator was told to do, and commands that it does not have.
#[derive(Debug)]
pub struct Air<L> {
    controllers: BTreeMap<usize, Controller>,
    beacons: BTreeMap<(BdAddr, bool), (Transmission, Duration)>,
    loss_percent: u8,
    cut: bool,
    random: fastrand::Rng,
    noted: HashSet<(&'static str, Option<usize>, Transmission)>,
    log: L,
}

impl<L: Write> Air<L> {
    /// An empty air. Equal seeds lose equal frames.
    pub fn new(seed: u64, log: L) -> Self {
        Self {
            controllers: BTreeMap::new(),
            beacons: BTreeMap::new(),
            loss_percent: 0,
            cut: false,
            random: fastrand::Rng::with_seed(seed),
            noted: HashSet::new(),
            log,
        }
    }

    /// A controller is there from now on.
    pub fn plug(&mut self, index: usize, controller: Controller) {
        self.controllers.insert(index, controller);
    }

    /// A controller is gone.
    pub fn unplug(&mut self, index: usize) {
        self.controllers.remove(&index);
    }

    /// How many percent of what is sent each listener misses.
    pub fn lose(&mut self, percent: u8) {
        self.loss_percent = percent.min(100);
    }

    /// Nobody hears anybody.
    pub fn cut(&mut self, cut: bool) {
        self.cut = cut;
    }

    /// What was written down may be written once more.
    pub fn mark(&mut self) {
        self.noted.clear();
    }

    /// A device that is nobody's adapter advertises this from now on; without data it falls silent.
    pub fn beacon(&mut self, address: BdAddr, random: bool, data: Vec<u8>) {
        if data.is_empty() {
            self.beacons.remove(&(address, random));
        } else {
            let sent = Transmission::beacon(address, random, data);
            self.beacons.insert((address, random), (sent, Duration::ZERO));
        }
    }

    /// A host's command; the answer.
    pub fn command(
        &mut self,
        now: Duration,
        index: usize,
        opcode: Opcode,
        parameters: Parameters<'_>,
    ) -> io::Result<Vec<u8>> {
        let controller = self.controllers.get_mut(&index).ok_or_else(|| io::Error::other("no such controller"))?;
        let (status, answer) = controller.command(now, opcode, parameters);
        if status == Status::UnknownCommand {
            self.write(now, "unknown", &format!("{index} {opcode}"))?;
        }
        Ok(answer)
    }

    /// Lets time pass; what hosts are told.
    pub fn pass(&mut self, now: Duration) -> io::Result<Vec<ForHost>> {
        let mut for_hosts = Vec::new();
        let mut on_air: Vec<(Option<usize>, Transmission)> = Vec::new();
        for (index, controller) in &mut self.controllers {
            let jitter = Duration::from_micros(self.random.u64(..MAX_JITTER_MICROSECONDS));
            let (sent, events) = controller.due(now, jitter);
            on_air.extend(sent.into_iter().map(|sent| (Some(*index), sent)));
            for_hosts.extend(events.into_iter().map(|event| (*index, event)));
        }
        for (sent, next) in self.beacons.values_mut().filter(|(_, next)| *next <= now) {
            *next = now + BEACON_INTERVAL + Duration::from_micros(self.random.u64(..MAX_JITTER_MICROSECONDS));
            on_air.push((None, sent.clone()));
        }
        for (sender, sent) in on_air {
            self.note(now, "sent", sender, &sent)?;
            for_hosts.extend(self.deliver(now, sender, &sent)?);
        }
        Ok(for_hosts)
    }

    fn deliver(&mut self, now: Duration, sender: Option<usize>, sent: &Transmission) -> io::Result<Vec<ForHost>> {
        let mut for_hosts = Vec::new();
        let mut reported_by = Vec::new();
        for (index, listener) in self.controllers.iter_mut().filter(|(index, _)| Some(**index) != sender) {
            // Drawn in any case, so that what is lost does not depend on who listens.
            let lost = self.random.u8(..100) < self.loss_percent;
            if self.cut || lost {
                continue;
            }
            let reports = listener.hear(sent);
            if !reports.is_empty() {
                reported_by.push(*index);
            }
            for_hosts.extend(reports.into_iter().map(|report| (*index, report)));
        }
        for index in reported_by {
            self.note(now, "heard", Some(index), sent)?;
        }
        Ok(for_hosts)
    }

    /// Writes a line, unless there is the same one already.
    fn note(&mut self, now: Duration, what: &'static str, who: Option<usize>, sent: &Transmission) -> io::Result<()> {
        if !self.noted.insert((what, who, sent.clone())) {
            return Ok(());
        }
        let who = who.map_or("-".to_owned(), |index| index.to_string());
        let kind = if sent.random { "random" } else { "public" };
        let form = if sent.is_legacy() { "legacy" } else { "extended" };
        let (data, response) = (hexadecimal(&sent.data), hexadecimal(&sent.response));
        self.write(now, what, &format!("{who} {kind} {} {form} {data} {response}", sent.address))
    }

    /// Writes any line.
    pub fn write(&mut self, now: Duration, what: &str, text: &str) -> io::Result<()> {
        writeln!(self.log, "{:.3} {what} {text}", now.as_secs_f64())
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    if bytes.is_empty() { "-".to_owned() } else { bytes.iter().map(|byte| format!("{byte:02x}")).collect() }
}

#[cfg(test)]
mod tests;
