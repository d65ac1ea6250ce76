//! Measures request and response through each carrier. Not a test of speed: run it by hand, in release mode, with
//! `cargo test --release -p mesh-runtime --test links -- --ignored --nocapture round_trip`.

use std::time::{Duration, Instant};

use crate::support::{Carrier, await_connected, await_message, filter, topic};

const ROUNDS: usize = 2000;
const BYTES: usize = 300;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn round_trip_times() {
    for (name, carrier) in
        [("memory", Carrier::memory()), ("rumqttd", Carrier::embedded().await), ("mosquitto", Carrier::mosquitto())]
    {
        let mut times = measure(&carrier).await;
        times.sort_unstable();
        let at = |percent: usize| times[times.len() * percent / 100];
        println!("{name:>10}: p50 {:?}, p90 {:?}, p99 {:?}", at(50), at(90), at(99));
    }
}

async fn measure(carrier: &Carrier) -> Vec<Duration> {
    let (server, mut requests) = carrier.link();
    server.subscribe(filter("request")).unwrap();
    await_connected(&mut requests).await;
    let echo = tokio::spawn(async move {
        loop {
            let request = await_message(&mut requests).await;
            server.publish(topic("answer"), request.payload).unwrap();
        }
    });
    let (client, mut answers) = carrier.link();
    client.subscribe(filter("answer")).unwrap();
    await_connected(&mut answers).await;
    let mut times = Vec::with_capacity(ROUNDS);
    for round in 0..ROUNDS + 100 {
        let started = Instant::now();
        client.publish(topic("request"), vec![0; BYTES]).unwrap();
        assert_eq!(await_message(&mut answers).await.payload.len(), BYTES);
        // The first hundred warm things up.
        if round >= 100 {
            times.push(started.elapsed());
        }
    }
    echo.abort();
    times
}
