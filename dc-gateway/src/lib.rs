//! The controller's gateway of Fig. 4c as a daemon: it keeps what people consented to, and erases it in time.
//!
//! It runs the graph of Fig. 4c on the mesh's driver. It publishes its controller's policy and insists until the
//! repository has it, listens to the air, lets through only what is addressed to it and covered by a policy that it
//! published, and keeps that, encrypted, until its deadline or until the person withdraws. What is refused leaves a number
//! and no byte behind.
//!
//! ```text
//! DATA/                 mode 0700
//!   trace/              what it did, for auditors
//!   vault.redb          what it holds, sealed; vault.key opens it
//!   audit.key           names items in trace and vault; whoever has it can tell whose they are
//!   published.json      what it said about its policies
//!   trust               the mesh files that it has seen
//!   control.sock        its user asks and decides here
//! ```
//!
//! # Where to read
//!
//! * [`config`]: what can be configured; [`command`]: the command line; [`run`]: the life of the daemon.
//! * [`filter`]: what of all that the radio hears is worth the graph's time.
//! * [`vault`]: the personal data on disk, and what "erased" means; [`value`]: what is sealed there.
//! * [`published`]: its signed statements; [`applications`]: who learns of observations.
//! * `host`, with `start`, `follow`, `collect`, `notices`, `upload` and `status`: what is done with what comes in.

pub mod applications;
mod collect;
pub mod command;
pub mod config;
pub mod filter;
mod follow;
mod host;
pub mod notices;
pub mod published;
mod start;
pub mod status;
pub mod upload;
pub mod value;
pub mod vault;

use std::future::Future;
use std::sync::Arc;

use mesh_runtime::air::{Air, bluez};
use mesh_runtime::daemon::config::AirSetting;
use mesh_runtime::daemon::{Failure, control};
use mesh_runtime::driver::clock::{Clock, SystemClock};
use mesh_runtime::driver::run::{Sources, run as drive};
use mesh_runtime::link::mqtt;
use mesh_runtime::link::{Events, Link};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::config::Config;
use crate::host::{Gateway, Input};

/// What waits for the gateway, besides what link and radio keep. Full: the link stops reading, the radio drops and counts.
const MAX_INPUTS: usize = 1_024;
/// Runs a gateway until it is asked to end.
pub async fn run(config: Config, shutdown: impl Future<Output = ()>) -> Result<(), Failure> {
    let (link, events) = mqtt::connect(config.broker.clone());
    let air = match &config.air {
        AirSetting::Bluez(settings) => bluez::listen(settings.clone()),
        AirSetting::Simulated(simulated) => simulated.join(config.address).await?,
    };
    run_on(config, link, events, air, &SystemClock, shutdown).await
}

/// Runs a gateway on a link and a radio.
pub async fn run_on(
    config: Config,
    link: Link,
    events: Events,
    air: Air,
    clock: &impl Clock,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Failure> {
    let vocabulary = Arc::new(config.membership.mesh().vocabulary().clone());
    let data = config.data.clone();
    let (mut gateway, mut driver) = Gateway::start(config, link.clone(), &vocabulary, clock.now())?;
    gateway.health = Some(air.health.clone());
    // The trace is locked now, so no other gateway is alive here.
    let (control, commands) = control::listen(&data).map_err(Failure::runtime)?;
    let (inputs_sender, inputs) = mpsc::channel(MAX_INPUTS);
    let listener = listen_to_link(events, inputs_sender.clone());
    let radio = listen_to_air(air, inputs_sender);
    tracing::info!("ready");
    let done = drive(&mut driver, &mut gateway, Sources { inputs, commands }, clock, shutdown).await;
    drop(control);
    radio.abort();
    let closed = driver.into_recorder().close(clock.now());
    let failure = gateway.failure.take();
    // The vault is closed before whoever waits for us starts the next gateway.
    drop(gateway);
    link.close();
    // What is still in the outbox leaves before the process does.
    let _ = tokio::time::timeout(mqtt::CLOSE_TIMEOUT, listener).await;
    match failure {
        Some(reason) => Err(Failure::Runtime(reason)),
        None => {
            done.map_err(Failure::runtime).and(closed.map_err(Failure::runtime))?;
            tracing::info!("stopped");
            Ok(())
        }
    }
}

fn listen_to_link(mut events: Events, inputs: mpsc::Sender<Input>) -> JoinHandle<()> {
    tokio::spawn(async move {
        while let Some(event) = events.next().await {
            if inputs.send(Input::Link(event)).await.is_err() {
                return;
            }
        }
    })
}

fn listen_to_air(mut air: Air, inputs: mpsc::Sender<Input>) -> JoinHandle<()> {
    tokio::spawn(async move {
        while let Some(sighting) = air.sightings.next().await {
            if inputs.send(Input::Heard(sighting)).await.is_err() {
                return;
            }
        }
        tracing::error!("the radio is gone: nothing is heard any more");
    })
}
