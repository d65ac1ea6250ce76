//! The repository of Fig. 4b as a daemon: it stores the policy statements of controllers' devices and hands them on.
//!
//! A repository "stores and sends policies, but does not modify them". It runs the graph of Fig. 4b on the mesh's
//! driver: uploads come in signed, are checked, made durable, recorded, and only then acknowledged; downloads deliver Π
//! with the signatures it came with, so that subjects verify everything themselves and trust the repository with nothing.
//!
//! # Where to read
//!
//! * [`config`]: what can be configured; [`command`]: the command line;
//! * [`store`]: the statements on disk, and what "durable" means;
//! * [`catalogue`]: the same in memory, in the order in which they are handed out;
//! * `host`: what is done with a message; [`run`]: the life of the daemon.

pub mod catalogue;
pub mod command;
pub mod config;
mod host;
mod left_out;
pub mod store;

use std::future::Future;
use std::sync::Arc;

use mesh_runtime::air::simulated::{Hub, World};
use mesh_runtime::broker::{Broker as EmbeddedBroker, BrokerError};
use mesh_runtime::daemon::{Failure, control, state_file};
use mesh_runtime::driver::clock::{Clock, SystemClock};
use mesh_runtime::driver::run::{Sources, run as drive};
use mesh_runtime::link::mqtt::{self, Endpoint};
use mesh_runtime::link::{Events, Link};
use tokio::sync::mpsc;

use crate::config::{Broker, Config};
use crate::host::{Input, Repository};
use crate::store::PolicyStore;

/// What waits for the repository, besides what the link keeps. Full: the link stops reading.
const MAX_INPUTS: usize = 1_024;

/// Runs a repository until it is asked to end.
pub async fn run(config: Config, shutdown: impl Future<Output = ()>) -> Result<(), Failure> {
    let (endpoint, broker) = match &config.broker {
        Broker::At(endpoint) => (Endpoint::clone(endpoint), None),
        Broker::Embedded(address) => {
            let broker = EmbeddedBroker::start(*address).await.map_err(no_broker)?;
            tracing::info!(url = broker.url(), "the embedded broker listens");
            let settings = mqtt::Settings { url: broker.url(), ..Default::default() };
            (settings.load().map_err(Failure::runtime)?, Some(broker))
        }
    };
    let air = match config.simulated_air {
        Some(address) => {
            let hub = Hub::start_at(address, World::default()).await.map_err(Failure::runtime)?;
            tracing::info!(address = %hub.address(), "the simulated air is up");
            Some(hub)
        }
        None => None,
    };
    let (link, events) = mqtt::connect(endpoint);
    let done = run_on(config, link, events, &SystemClock, shutdown).await;
    if let Some(air) = air {
        air.stop().await;
    }
    if let Some(broker) = broker {
        broker.stop().await;
    }
    done
}

/// An address that is taken is no mistake in what the repository was told: often it runs already.
fn no_broker(error: BrokerError) -> Failure {
    match &error {
        BrokerError::Listen { error: cause, .. } if cause.kind() == std::io::ErrorKind::AddrInUse => {
            Failure::runtime(format!("{error}; does a repository run already, or another broker?"))
        }
        BrokerError::NotLoopback(_) => Failure::configuration(error),
        _ => Failure::runtime(error),
    }
}

/// Runs a repository on a link.
pub async fn run_on(
    config: Config,
    link: Link,
    mut events: Events,
    clock: &impl Clock,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Failure> {
    let now = clock.now();
    let vocabulary = config.membership.mesh().vocabulary().clone();
    let data = config.data.clone();
    state_file::make_directory(&data).map_err(Failure::configuration)?;
    let store = PolicyStore::open(&data.join("policies")).map_err(Failure::runtime)?;
    let (sender, inputs) = mpsc::channel(MAX_INPUTS);
    let (mut repository, mut driver) =
        Repository::start(config, link.clone(), Arc::new(store), sender.clone(), &vocabulary, now)?;
    // The trace is locked now, so no other repository is alive here.
    let (control, commands) = control::listen(&data).map_err(Failure::runtime)?;
    let listener = tokio::spawn(async move {
        while let Some(event) = events.next().await {
            if sender.send(Input::Link(event)).await.is_err() {
                return;
            }
        }
    });
    tracing::info!("ready");
    let done = drive(&mut driver, &mut repository, Sources { inputs, commands }, clock, shutdown).await;
    drop(control);
    let closed = driver.into_recorder().close(clock.now());
    link.close();
    // What is still in the outbox leaves before the process does.
    let _ = tokio::time::timeout(mqtt::CLOSE_TIMEOUT, listener).await;
    done.map_err(Failure::runtime).and(closed.map_err(Failure::runtime))?;
    tracing::info!("stopped");
    Ok(())
}
