//! An echo: a process that answers each message on one topic with a message of a given size on another, and does
//! nothing else. It is this benchmark's binary, started with other arguments, and uses the same link as the daemons.

use std::io::Read as _;
use std::process::{Child, Command, ExitCode, Stdio};

use consent_mesh_tests::Mesh;
use mesh_runtime::link::{Event, Events, Filter, Link, Topic, mqtt};

const ECHO: &str = "--echo";
const QUESTIONS: &str = "consent-mesh/benchmark/questions";
const ANSWERS: &str = "consent-mesh/benchmark/answers";

/// What the echo is told.
#[derive(Debug)]
pub struct Settings {
    broker: String,
    answer_bytes: usize,
}

impl Settings {
    /// `--echo BROKER BYTES`; `None` if an echo is not what is wanted.
    pub fn from_arguments(arguments: &[String]) -> Option<Self> {
        let [mode, broker, bytes] = arguments else { return None };
        (mode == ECHO).then(|| Self { broker: broker.clone(), answer_bytes: bytes.parse().unwrap() })
    }
}

fn topic(text: &str) -> Topic {
    Topic::new(text).unwrap()
}

fn connect(broker: &str, listen: &str) -> (Link, Events) {
    let settings = mqtt::Settings { url: broker.to_owned(), ..mqtt::Settings::default() };
    let (link, events) = mqtt::connect(settings.load().unwrap());
    link.subscribe(Filter::from(topic(listen))).unwrap();
    (link, events)
}

/// Answers until standard input ends, as it does with whoever started this process.
pub fn run(settings: &Settings) -> ExitCode {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    // As the daemons do.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (link, mut events) = connect(&settings.broker, QUESTIONS);
        while let Some(event) = events.next().await {
            if let Event::Message(came) = event {
                let mut answer = came.payload.to_vec();
                answer.resize(settings.answer_bytes, 0);
                link.publish(topic(ANSWERS), answer).unwrap();
            }
        }
    });
    ExitCode::SUCCESS
}

/// An echo, and a link to it.
#[derive(Debug)]
pub struct Echo {
    child: Child,
    link: Link,
    events: Events,
}

impl Echo {
    /// Starts an echo that answers with so many bytes, and waits until it does.
    pub fn start(mesh: &Mesh, answer_bytes: usize) -> Self {
        let broker = mesh.broker.url();
        let child = Command::new(std::env::current_exe().unwrap())
            .args([ECHO, &broker, &answer_bytes.to_string()])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let (link, events) = mesh.runtime.block_on(async { connect(&broker, ANSWERS) });
        let mut echo = Self { child, link, events };
        mesh.runtime.block_on(async {
            while echo.events.next().await != Some(Event::Connected) {}
            // Nobody says when the other process has subscribed.
            while tokio::time::timeout(std::time::Duration::from_millis(100), echo.ask(vec![0])).await.is_err() {}
            while tokio::time::timeout(std::time::Duration::from_millis(100), echo.events.next()).await.is_ok() {}
        });
        echo
    }

    /// Sends bytes and waits for the answer.
    pub async fn ask(&mut self, bytes: Vec<u8>) {
        self.link.publish(topic(QUESTIONS), bytes).unwrap();
        while !matches!(self.events.next().await.expect("a link"), Event::Message(_)) {}
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
