//! `consent-mesh doctor`: can a gateway run here? One line for each thing that it needs, and what to do about those that
//! are not so.

mod bluetooth;
mod clock;

use std::fmt;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use mesh_runtime::air::bluez::AdapterName;
use mesh_runtime::daemon::config::{AirSetting, Surroundings, surroundings};
use mesh_runtime::link::mqtt::{self, CONNECT_TIMEOUT, Endpoint, Settings};
use mesh_runtime::link::{Event, Link};
use tokio::time::timeout;

use crate::console::{Answer, Console, Failure};

#[derive(Debug, Args)]
#[command(after_help = "\
Looks, and changes nothing; the adapter's address is not shown. Run it as the user that the gateway will be.

Examples:
  consent-mesh doctor                               the adapter hci0, and the clock
  consent-mesh doctor --config ds-gateway.toml      its radio, its broker, and the clock
  consent-mesh doctor --bluez hci1 --broker mqtt://broker.example:1883

Exit codes: 0 a gateway can run, 1 something must be done first, 2 errors.")]
pub(crate) struct Doctor {
    /// Look at the radio and the broker of a daemon with this configuration
    #[arg(long, value_name = "FILE", conflicts_with_all = ["bluez", "broker"])]
    config: Option<PathBuf>,
    /// Look at this Bluetooth adapter
    #[arg(long, value_name = "ADAPTER", default_value = "hci0")]
    bluez: String,
    /// See whether this broker can be reached
    #[arg(long, value_name = "URL")]
    broker: Option<String>,
}

/// How things stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// As it should be.
    Fine,
    /// A gateway can run, with less than it could have.
    Note,
    /// Something must be done.
    Bad,
}

/// What was found.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    verdict: Verdict,
    what: String,
    /// What to do, if something is to be done.
    advice: Option<&'static str>,
}

impl Finding {
    fn fine(what: impl Into<String>) -> Self {
        Self { verdict: Verdict::Fine, what: what.into(), advice: None }
    }

    fn note(what: impl Into<String>, advice: &'static str) -> Self {
        Self { verdict: Verdict::Note, what: what.into(), advice: Some(advice) }
    }

    /// Bad for some, and for others not.
    fn bad_if(is_bad: bool, what: impl Into<String>, advice: &'static str) -> Self {
        if is_bad { Self::bad(what, advice) } else { Self::note(what, advice) }
    }

    fn bad(what: impl Into<String>, advice: &'static str) -> Self {
        Self { verdict: Verdict::Bad, what: what.into(), advice: Some(advice) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.verdict {
            Verdict::Fine => "ok  ",
            Verdict::Note => "note",
            Verdict::Bad => "BAD ",
        };
        write!(out, "{word}  {}", self.what)?;
        self.advice.map_or(Ok(()), |advice| write!(out, "\n      → {advice}"))
    }
}

pub(crate) fn run(arguments: &Doctor, console: &mut Console) -> Result<Answer, Failure> {
    let Surroundings { air, broker, is_subject } = around(arguments)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Output)?;
    let findings = runtime.block_on(async {
        let mut findings = match &air {
            Some(AirSetting::Bluez(settings)) => bluetooth::look(&settings.adapter, is_subject).await,
            Some(AirSetting::Simulated(_)) => vec![Finding::fine("the radio is simulated: no Bluetooth is needed")],
            None => Vec::new(),
        };
        findings.push(clock::look());
        if let Some(broker) = broker {
            findings.push(reach(broker).await);
        }
        findings
    });
    for finding in &findings {
        writeln!(console, "{finding}")?;
    }
    let is_bad = findings.iter().any(|finding| finding.verdict == Verdict::Bad);
    Ok(if is_bad { Answer::No } else { Answer::Yes })
}

fn around(arguments: &Doctor) -> Result<Surroundings, Failure> {
    if let Some(path) = &arguments.config {
        return surroundings(path).map_err(|error| Failure::Configuration(error.to_string()));
    }
    let adapter = AdapterName::new(&arguments.bluez);
    let adapter = adapter.ok_or_else(|| Failure::Air("an adapter has a name like `hci0`".to_owned()))?;
    let broker = arguments.broker.as_ref().map(|url| Settings { url: url.clone(), ..Settings::default() }.load());
    let broker = broker.transpose().map_err(|error| Failure::Configuration(error.to_string()))?;
    let settings = mesh_runtime::air::bluez::Settings { adapter, carrier: mesh_runtime::air::Carrier::default() };
    Ok(Surroundings { air: Some(AirSetting::Bluez(settings)), broker, is_subject: false })
}

/// Connects, as a daemon would, and hangs up.
async fn reach(broker: Endpoint) -> Finding {
    const ADVICE: &str = "start the broker, or change `url` in `[broker]`; from other machines, its port must be open";
    let (link, mut events): (Link, _) = mqtt::connect(broker);
    let first = timeout(CONNECT_TIMEOUT + Duration::from_secs(1), events.next()).await;
    link.close();
    match first {
        Ok(Some(Event::Connected)) => Finding::fine("the broker can be reached"),
        Ok(Some(Event::Disconnected { reason })) => Finding::bad(reason.to_string(), ADVICE),
        _ => Finding::bad("the broker does not answer", ADVICE),
    }
}
