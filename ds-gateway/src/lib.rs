//! The subject's gateway of Fig. 4a as a daemon: her policies and her item, and a radio.
//!
//! It asks a repository for the policies of all controllers, opens each statement itself, compares every policy with hers,
//! and advertises, in turn, for those controllers whose policy she accepts. It never advertises for one that she refuses,
//! goes on with the last policies it knows when there is no network, and when she withdraws it falls silent at once and
//! repeats the notice until the controller says that the data is gone.
//!
//! **Nobody learns who she is.** She is in no mesh file. Each connection to the broker has a new key, and answers come to a
//! topic made from it. On the air there are frames, and her address only because that is the item she consented to give.
//!
//! # What is kept, in the data directory
//!
//! | file | what |
//! | --- | --- |
//! | `trace/` | what the gateway did, for an auditor; items by pseudonym |
//! | `keys` | signs the trace; known to nobody in the mesh |
//! | `audit.key` | makes the pseudonyms; destroyed, nobody can link them to her |
//! | `consent.key` | makes a signing key for each controller and address |
//! | `trust` | the newest mesh file's serial |
//! | `policies.cbor` | Π, and of each device the highest version of its statements |
//! | `state.json` | whom she refuses, who may have her item, notices not acknowledged yet |
//! | `control.sock` | where she asks and decides |
//!
//! # Where to read
//!
//! * [`config`]: what it is told; [`command`]: the command line;
//! * `host`: what it does with what its graph says, and its user;
//! * [`catalogue`], `download`: Π; `decide`: yes or no, and why;
//! * `frames`, `rotation`: what is on the air; `state`, `follow`: what survives a restart;
//! * [`opening`]: what she gives an auditor.

pub mod catalogue;
pub mod command;
pub mod config;
mod decide;
mod download;
mod follow;
mod frames;
mod host;
pub mod opening;
mod rotation;
mod start;
mod state;

use std::future::Future;

use mesh_runtime::air::{Address, Air, bluez};
use mesh_runtime::daemon::config::AirSetting;
use mesh_runtime::daemon::{Failure, control};
use mesh_runtime::driver::clock::{Clock, SystemClock};
use mesh_runtime::driver::run::{self, Sources};
use mesh_runtime::link::{Event, Events, Link, mqtt};
use tokio::sync::mpsc;

use self::config::Config;

/// Link events that wait for the gateway. Full: the link stops reading from the network until there is room.
pub const MAX_WAITING_EVENTS: usize = 256;

/// Runs a gateway until shutdown.
pub async fn run(mut config: Config, shutdown: impl Future<Output = ()>) -> Result<(), Failure> {
    let mut shutdown = std::pin::pin!(shutdown);
    let (air, address) = tokio::select! {
        switched_on = switch_on(&config) => switched_on?,
        () = &mut shutdown => return Ok(()),
    };
    config.address = Some(address);
    let (link, events) = mqtt::connect(config.endpoint.clone());
    run_with(config, (link, events), air, &SystemClock, shutdown).await
}

/// The radio, and the address that others will hear from it: the item. An adapter may have to be waited for.
async fn switch_on(config: &Config) -> Result<(Air, Address), Failure> {
    match (&config.air, config.address) {
        (AirSetting::Bluez(settings), wanted) => {
            let address = bluez::identify(settings, wanted).await.map_err(Failure::configuration)?;
            Ok((bluez::speak(settings.clone(), address), address))
        }
        (AirSetting::Simulated(simulated), Some(address)) => Ok((simulated.join(address).await?, address)),
        (AirSetting::Simulated(_), None) => Err(Failure::configuration(NO_ADDRESS)),
    }
}

/// A configuration does not say the address, and nobody has asked the adapter.
pub(crate) const NO_ADDRESS: &str = "the address that is consented to is not known";

/// Runs a gateway over a link, an air and a clock.
pub async fn run_with(
    config: Config,
    (link, events): (Link, Events),
    air: Air,
    clock: &impl Clock,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Failure> {
    let data = config.data.clone();
    let vocabulary = config.vocabulary.clone();
    let (mut driver, mut gateway) = start::prepare(config, &vocabulary, link.clone(), air, clock.now())?;
    // Not before the trace is locked: no other gateway can be behind the socket that is replaced.
    let listening = control::listen(&data);
    let (_control, commands) =
        listening.map_err(|error| Failure::runtime(format!("cannot listen in `{}`: {error}", data.display())))?;
    let (to_inputs, inputs) = mpsc::channel(MAX_WAITING_EVENTS);
    let listener = tokio::spawn(pump_events(events, to_inputs));
    let sources = Sources { inputs, commands };
    let ended = run::run(&mut driver, &mut gateway, sources, clock, shutdown).await;
    link.close();
    // What is still in the outbox leaves before the process does.
    let _ = tokio::time::timeout(mqtt::CLOSE_TIMEOUT, listener).await;
    // A step that could not be recorded is the reason to tell, not that the trace cannot be closed either.
    ended.map_err(Failure::runtime)?;
    driver.into_recorder().close(clock.now()).map_err(Failure::runtime)?;
    tracing::info!("stopped");
    Ok(())
}

async fn pump_events(mut events: Events, inputs: mpsc::Sender<Event>) {
    while let Some(event) = events.next().await {
        if inputs.send(event).await.is_err() {
            return;
        }
    }
}
