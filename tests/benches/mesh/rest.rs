//! What daemons cost that have nothing to do: their memory, and how long they take to start.

use std::time::{Duration, Instant};

use consent_mesh_tests::{Kind, Mesh, PATIENCE, address, policy};
use serde_json::{Value, json};

use crate::Sizes;
use crate::crowd::Crowd;
use crate::report::{Report, Times, memory, time};

/// The most memory of a gateway at rest, in bytes: gateways run on small machines. A repository keeps the database's cache.
const MEMORY_GOAL: u64 = 20_000_000;
/// The longest start, from nothing until the daemon answers its user.
const START_GOAL: Duration = Duration::from_secs(1);

/// Who runs, and what it is.
const DAEMONS: [(&str, &str); 3] = [("registry", "repository"), ("mall-gate", "dc-gateway"), ("alice", "ds-gateway")];

/// Measures behind mosquitto, with the default vocabulary.
pub fn measure(sizes: &Sizes, report: &mut Report) {
    let count = sizes.policies_at_rest;
    let mut mesh = Mesh::new(Kind::Mosquitto);
    mesh.controller("mall-gate", "mall", &policy("analytics", "mall", "ServiceUsageAnalytics", 3_600));
    mesh.subject("alice", &address(1), &policy("yes", "mall", "ServiceUsageAnalytics", 7_200), "");
    Crowd::join(&mut mesh, count - 1).fill_store(&mut mesh);
    for (name, _) in DAEMONS {
        mesh.start(name);
    }
    mesh.until_listed(count as u64);
    let knows_all = |status: &Value| (status["policies"]["count"].as_u64()? == count as u64).then_some(());
    mesh.until("alice", "status", "she knows every policy", knows_all);
    std::thread::sleep(Duration::from_secs(sizes.quiet_seconds));
    for (name, kind) in DAEMONS {
        let bytes = mesh.daemon(name).memory();
        let what = format!("memory of {kind}, {count} policies");
        if kind == "repository" {
            report.say(what, memory(bytes));
        } else {
            report.judge(what, memory(bytes), format!("≤ {}", memory(MEMORY_GOAL)), bytes <= MEMORY_GOAL);
        }
    }
    for (name, kind) in DAEMONS {
        let starts = (0..sizes.starts).map(|_| restart(&mut mesh, name)).collect();
        let median = Times::new(starts).percentile(50);
        report.judge(
            format!("start of {kind}, p50 of {}", sizes.starts),
            time(median),
            format!("≤ {}", time(START_GOAL)),
            median <= START_GOAL,
        );
    }
    for (name, _) in DAEMONS {
        mesh.stop(name);
    }
}

/// Stops a daemon and starts it again; the time until it answers its user.
fn restart(mesh: &mut Mesh, name: &str) -> Duration {
    mesh.stop(name);
    let began = Instant::now();
    mesh.launch(name);
    while mesh.ask(name, &json!({ "command": "status" })).is_err() {
        assert!(began.elapsed() < PATIENCE, "{name} does not start\n{}", mesh.log(name));
        std::thread::sleep(Duration::from_millis(2));
    }
    began.elapsed()
}
