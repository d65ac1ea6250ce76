//! How long a subject's gateway takes from its start until it knows and has verified every policy of a large mesh.

use std::time::{Duration, Instant};

use consent_mesh_tests::peer::Peer;
use consent_mesh_tests::{Kind, Mesh, address, policy};
use mesh_runtime::protocol::message::Message;
use serde_json::json;

use crate::Sizes;
use crate::crowd::Crowd;
use crate::report::{Report, memory, time};

/// How often the gateway is asked what it knows.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long anything here may take.
const LIMIT: Duration = Duration::from_secs(300);
/// "A few seconds", for the gateway's download and verification.
const GOAL: Duration = Duration::from_secs(10);

/// Measures behind mosquitto.
pub fn measure(sizes: &Sizes, report: &mut Report) {
    let count = sizes.policies;
    let mut mesh = Mesh::new(Kind::Mosquitto);
    mesh.subject("alice", &address(1), &policy("yes", "shop", "ServiceUsageAnalytics", 7_200), "");
    Crowd::join(&mut mesh, count).fill_store(&mut mesh);
    let started = start(&mut mesh, "registry");
    mesh.until_connected("registry");
    report.say(format!("start of a repository with {count} policies"), time(started));

    let pulled = mesh.runtime.block_on(pull(&mesh, count));
    report.say(format!("{count} policies pulled, not verified"), figure(count, pulled));

    let ready = start(&mut mesh, "alice");
    report.say(format!("start of a gateway in a mesh of {count}"), time(ready));
    let began = Instant::now();
    loop {
        let status = mesh.command("alice", "status");
        if status["policies"]["count"].as_u64() == Some(count as u64) {
            break;
        }
        assert!(began.elapsed() < LIMIT, "no download in time: {status}\n{}", mesh.log("alice"));
        std::thread::sleep(LOOK_EVERY);
    }
    let known = began.elapsed();
    let goal = format!("a few seconds: ≤ {}", time(GOAL));
    report.judge(format!("{count} policies downloaded and verified"), figure(count, known), goal, known <= GOAL);
    for name in ["registry", "alice"] {
        report.say(format!("  memory of {name} then"), memory(mesh.daemon(name).memory()));
    }
    mesh.stop("alice");
    mesh.stop("registry");
}

fn figure(count: usize, taken: Duration) -> String {
    format!("{}, {:.0} /s", time(taken), count as f64 / taken.as_secs_f64())
}

/// Starts a daemon and waits until it answers its user.
fn start(mesh: &mut Mesh, name: &str) -> Duration {
    let began = Instant::now();
    mesh.launch(name);
    while mesh.ask(name, &json!({ "command": "status" })).is_err() {
        assert!(began.elapsed() < LIMIT, "{name} does not start\n{}", mesh.log(name));
        std::thread::sleep(Duration::from_millis(20));
    }
    began.elapsed()
}

/// Every part, one after the other, by somebody who believes everything.
async fn pull(mesh: &Mesh, count: usize) -> Duration {
    let mut subject = Peer::subject(mesh).await;
    let began = Instant::now();
    let (mut since, mut pulled) = (0, 0);
    loop {
        let answer = subject.ask("registry", &Message::Fetch { since }).await;
        let Message::Policies { until, head, statements, .. } = answer else { panic!("{answer:?}") };
        (since, pulled) = (until, pulled + statements.len());
        if until == head {
            assert_eq!(pulled, count);
            return began.elapsed();
        }
    }
}
