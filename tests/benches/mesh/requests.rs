//! How long a subject waits for the repository: her fetch, signed and opened at both ends and recorded by the
//! repository, against an echo behind the same broker that sends as many bytes each way.

use std::hint::black_box;
use std::time::{Duration, Instant};

use consent_mesh_tests::peer::{Peer, new_id};
use consent_mesh_tests::{Kind, Mesh, now};
use mesh_runtime::keys::SecretKeys;
use mesh_runtime::link::Event;
use mesh_runtime::protocol::device_topic;
use mesh_runtime::protocol::message::Message;
use pilot_core::evidence::DeviceName;
use pilot_core::evidence::envelope::{Envelope, Receiver, Sender};

use crate::Sizes;
use crate::crowd::Crowd;
use crate::echo::Echo;
use crate::report::{Report, Times, time};

/// How many policies are stored.
const POLICIES: usize = 4;
/// A download may take so many times as long as an echo.
const GOAL: f64 = 2.0;

/// How often a signature is made and verified to know how long that takes.
const REPETITIONS: u32 = 200;

/// What was measured behind one broker.
struct Measured {
    fetch: Times,
    echo: Times,
    signatures: Duration,
}

/// Measures with each broker.
pub fn measure(sizes: &Sizes, report: &mut Report) {
    for kind in Kind::ALL {
        let mut mesh = Mesh::new(kind);
        Crowd::join(&mut mesh, POLICIES).fill_store(&mut mesh);
        mesh.start("registry");
        let Measured { fetch, echo, signatures } = alternate(&mesh, sizes.requests);
        let ratio = fetch.percentile(50).as_secs_f64() / echo.percentile(50).as_secs_f64();
        let name = match kind {
            Kind::Embedded => "embedded broker",
            Kind::Mosquitto => "mosquitto",
        };
        let both = |times: &Times| format!("{}, {}", time(times.percentile(50)), time(times.percentile(99)));
        report.say(format!("echo, {name}: p50, p99"), both(&echo));
        report.say(format!("fetch, {name}: p50, p99"), both(&fetch));
        report.say("  of it signing and opening, at both ends", time(signatures));
        report.judge("  fetch to echo, p50", format!("{ratio:.2} ×"), format!("≤ {GOAL} ×"), ratio <= GOAL);
        mesh.stop("registry");
    }
}

/// A fetch, an echo, a fetch, an echo: whatever else the machine does meets both.
fn alternate(mesh: &Mesh, count: usize) -> Measured {
    let mut subject = mesh.runtime.block_on(Peer::subject(mesh));
    let Exchange { question, answer, signatures } = mesh.runtime.block_on(look_at_one(&mut subject));
    let mut echo = Echo::start(mesh, answer);
    let (mut fetches, mut echoes) = (Vec::new(), Vec::new());
    mesh.runtime.block_on(async {
        for number in 0..count + count / 10 {
            let began = Instant::now();
            fetch(&mut subject).await;
            let fetched = began.elapsed();
            let began = Instant::now();
            echo.ask(vec![0; question]).await;
            let echoed = began.elapsed();
            // The first ones find everything cold.
            if number >= count / 10 {
                fetches.push(fetched);
                echoes.push(echoed);
            }
        }
    });
    Measured { fetch: Times::new(fetches), echo: Times::new(echoes), signatures }
}

async fn fetch(subject: &mut Peer) {
    let id = new_id();
    subject.say("registry", id, &Message::Fetch { since: 0 });
    let answer = subject.answer_within(id, Duration::from_secs(10)).await;
    let Some(Message::Policies { statements, .. }) = answer else { panic!("no policies, but {answer:?}") };
    assert_eq!(statements.len(), POLICIES);
}

/// What one fetch looks like.
struct Exchange {
    /// Bytes of the question on the link.
    question: usize,
    /// Bytes of the answer.
    answer: usize,
    /// How long signing and opening take for both of them.
    signatures: Duration,
}

async fn look_at_one(subject: &mut Peer) -> Exchange {
    let id = new_id();
    let message = Message::Fetch { since: 0 };
    let registry = DeviceName::new("registry").unwrap();
    let topic = device_topic(subject.mesh.device("registry").unwrap().tag).unwrap();
    // Any key makes a signature of this length, in this time.
    let keys = SecretKeys::generate().unwrap();
    let envelope = Envelope {
        sender: Sender::Anonymous(keys.public().signing),
        receiver: Receiver::Device(registry.clone()),
        topic: topic.as_str().into(),
        id,
        time: now(),
        head: None,
        message: message.encode(),
    };
    let began = Instant::now();
    for _ in 0..REPETITIONS {
        black_box(envelope.sign(&keys).unwrap());
    }
    let signing = began.elapsed() / REPETITIONS;
    let question = envelope.sign(&keys).unwrap().len();
    subject.post.send(&Sender::Device(registry), id, None, &message, &subject.mesh, now());
    loop {
        if let Event::Message(came) = subject.next().await {
            let began = Instant::now();
            for _ in 0..REPETITIONS {
                black_box(subject.post.open(&came, &subject.mesh, false, now()).expect("an answer that opens"));
            }
            let opening = began.elapsed() / REPETITIONS;
            return Exchange { question, answer: came.payload.len(), signatures: 2 * (signing + opening) };
        }
    }
}
