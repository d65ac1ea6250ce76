//! The same over an embedded broker, by the machine's clock: what `dc-gateway run` does.

use std::fs;

use mesh_runtime::air::Address;
use mesh_runtime::broker::Broker;
use mesh_runtime::driver::clock::{Clock as _, SystemClock};
use mesh_runtime::link::mqtt;
use tokio::sync::oneshot;

use super::support::{Gate, Place};

const ALICE: Address = Address::new([0xc0, 0xff, 0xee, 0x12, 0x34, 0x56]);
const LASTING: &str = "policy lasting { collect MACAddress by mall for ServiceUsageAnalytics until 2099-01-01 }";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gateway_runs_over_a_broker() {
    let place = Place::new().await;
    place.clock.set(SystemClock.now());
    place.write_policy(LASTING);
    let broker = Broker::start("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let path = place.path("gate.toml");
    let config = fs::read_to_string(&path).unwrap().replace("mqtt://127.0.0.1:1", &broker.url());
    fs::write(&path, config).unwrap();
    let settings = mqtt::Settings { url: broker.url(), ..Default::default() };
    let mut registry = place.registry_on(mqtt::connect(settings.load().unwrap())).await;
    let config = place.load().unwrap();
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(dc_gateway::run(config, async { drop(stopped.await) }));
    let gate = Gate::new(place.data(), stop, task);
    assert_eq!(registry.acknowledge().await.version, 1);
    gate.until("acknowledged", |status| status["repository"]["acknowledged"] == 1).await;
    let _alice = place.phone(ALICE, place.consent(LASTING)).await;
    gate.until_held(1).await;
    gate.end().await.unwrap();
    place.assert_nowhere(ALICE);
    broker.stop().await;
}
