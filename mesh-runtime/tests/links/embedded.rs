//! What concerns only the embedded broker: where it listens, and that it comes back.

use std::time::Duration;

use mesh_runtime::broker::{Broker, BrokerError};
use rumqttc::{AsyncClient, MqttOptions, Packet, PublishOptions, QoS, SessionMode};

use crate::support::{LOOPBACK, PATIENCE, await_connected, await_disconnected, await_message, filter, plain, topic};

/// An address that other machines can reach is refused, with a sentence that says what to use instead.
#[tokio::test]
async fn only_loopback() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:1883"] {
        let error = Broker::start(address.parse().unwrap()).await.unwrap_err();
        assert!(matches!(error, BrokerError::NotLoopback(_)), "{error}");
        assert!(error.to_string().contains("mosquitto"), "{error}");
    }
}

/// Several brokers find ports of their own; a taken port is refused; a stopped broker's port is free again.
#[tokio::test]
async fn ports_are_found_and_freed() {
    let first = Broker::start(LOOPBACK).await.unwrap();
    let second = Broker::start(LOOPBACK).await.unwrap();
    assert_ne!(first.address(), second.address());
    let address = first.address();
    let error = Broker::start(address).await.unwrap_err();
    assert!(matches!(error, BrokerError::Listen { .. }), "{error}");
    first.stop().await;
    let again = Broker::start(address).await.unwrap();
    assert_eq!((again.address(), again.restarts()), (address, 0));
    again.stop().await;
    second.stop().await;
}

/// Also a broker that is only dropped closes its connections.
#[tokio::test]
async fn dropping_stops() {
    let broker = Broker::start(LOOPBACK).await.unwrap();
    let (_link, mut events) = plain(&broker.url());
    await_connected(&mut events).await;
    drop(broker);
    await_disconnected(&mut events).await;
}

/// A member of a shared subscription with a persistent session goes away without acknowledging: `rumqttd`'s router dies
/// of that. The supervisor notices, starts a new broker at the same place, and links find back to it.
#[tokio::test]
async fn a_dead_router_is_replaced() {
    let broker = Broker::start(LOOPBACK).await.unwrap();
    let (link, mut events) = plain(&broker.url());
    link.subscribe(filter("work")).unwrap();
    await_connected(&mut events).await;
    kill_router(broker.address().port()).await;

    let deadline = tokio::time::Instant::now() + PATIENCE;
    while broker.restarts() == 0 {
        assert!(tokio::time::Instant::now() < deadline, "the broker was not started again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    await_disconnected(&mut events).await;
    await_connected(&mut events).await;
    link.publish(topic("work"), &b"goes on"[..]).unwrap();
    while await_message(&mut events).await.payload != b"goes on"[..] {}
    broker.stop().await;
}

async fn kill_router(port: u16) {
    let mut options = MqttOptions::new("member", ("127.0.0.1", port));
    options.set_session_mode(SessionMode::Persistent);
    options.set_ack_mode(rumqttc::AckMode::Manual);
    let (client, mut event_loop) = AsyncClient::builder(options).capacity(10).build();
    client.subscribe("$share/group/work", QoS::AtLeastOnce).await.unwrap();
    loop {
        match event_loop.poll().await.unwrap() {
            rumqttc::Event::Incoming(Packet::SubAck(_)) => {
                client.publish("work", "unacknowledged", PublishOptions::at_least_once()).await.unwrap();
            }
            rumqttc::Event::Incoming(Packet::Publish(_)) => return,
            _ => {}
        }
    }
}
