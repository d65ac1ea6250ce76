//! The driver in real time, with a clock that is set by hand.

use std::sync::{Arc, Mutex};

use mesh_runtime::driver::clock::{ClockProblem, ManualClock};
use mesh_runtime::driver::run::{Host, Sources, run};
use mesh_runtime::driver::{Decision, DriveError, Driver, Entry, Outcome, Record, RecordError};
use pilot_core::graph::{Body, Message, MessageKind};
use pilot_core::graphs;
use pilot_core::value::Time;
use tokio::sync::{mpsc, oneshot};

use super::support::{Mall, START};

/// What recorder and host write into one log.
type Log = Arc<Mutex<Vec<String>>>;

struct Recorder {
    log: Log,
    fails_at: Option<MessageKind>,
}

impl Record for Recorder {
    fn record(&mut self, entry: &Entry<'_>) -> Result<(), RecordError> {
        if self.fails_at.is_some() && entry.step.message.as_ref().map(Message::kind) == self.fails_at {
            return Err(RecordError::new("the disk is full"));
        }
        self.log.lock().expect("unpoisoned").push(format!("record {}", entry.action.label()));
        Ok(())
    }
}

struct Daemon {
    log: Log,
    changed: mpsc::UnboundedSender<String>,
}

impl Daemon {
    fn note(&self, what: String) {
        self.log.lock().expect("unpoisoned").push(what.clone());
        // The test may have seen enough.
        let _ = self.changed.send(what);
    }
}

impl Host<Recorder> for Daemon {
    type Input = Message;
    type Command = Decision;

    fn receive(
        &mut self,
        input: Message,
        driver: &mut Driver<'_, Recorder>,
        now: Time,
    ) -> Result<Option<Outcome>, DriveError> {
        driver.receive(input, now).map(Some)
    }

    fn command(
        &mut self,
        command: Decision,
        driver: &mut Driver<'_, Recorder>,
        now: Time,
    ) -> Result<Option<Outcome>, DriveError> {
        driver.decide(command, now).map(Some)
    }

    fn happened(&mut self, outcome: Outcome, _: &mut Driver<'_, Recorder>) {
        for message in outcome.messages() {
            self.note(format!("send {}", message.kind().name()));
        }
    }

    fn settle(&mut self, _: &mut Driver<'_, Recorder>, _: Time) -> Result<Option<Time>, DriveError> {
        Ok(None)
    }

    fn clock_changed(&mut self, problem: Option<ClockProblem>) {
        self.note(problem.map_or("clock is back".into(), |problem| problem.to_string()));
    }

    fn checkpoint(&mut self, _: &mut Driver<'_, Recorder>, _: Time) -> Result<(), RecordError> {
        self.note("checkpoint".into());
        Ok(())
    }
}

/// A running controller, and everything it listens to.
struct Running {
    task: tokio::task::JoinHandle<Result<(), RecordError>>,
    inputs: mpsc::Sender<Message>,
    commands: mpsc::Sender<Decision>,
    clock: ManualClock,
    shutdown: oneshot::Sender<()>,
    changed: mpsc::UnboundedReceiver<String>,
    log: Log,
}

fn start(mall: &Mall, fails_at: Option<MessageKind>) -> Running {
    let log = Log::default();
    let setup = mall.setup(&graphs::INDIRECT_CONTROLLER, "mall-gate", &[], &[]);
    let mut driver = Driver::new(setup, Recorder { log: log.clone(), fails_at });
    let (inputs, from_inputs) = mpsc::channel(8);
    let (commands, from_commands) = mpsc::channel(8);
    let (shutdown, asked) = oneshot::channel();
    let (to_test, changed) = mpsc::unbounded_channel();
    let clock = ManualClock::new(START);
    let (its_clock, mut host) = (clock.clone(), Daemon { log: log.clone(), changed: to_test });
    let task = tokio::spawn(async move {
        let sources = Sources { inputs: from_inputs, commands: from_commands };
        let stop = async { drop(asked.await) };
        run(&mut driver, &mut host, sources, &its_clock, stop).await
    });
    Running { task, inputs, commands, clock, shutdown, changed, log }
}

fn withdraw(mall: &Mall) -> Message {
    let body = Body::Withdraw { item: mall.item("mac-alice"), withdrawal: Default::default() };
    Message { sender: mall.device("alice-phone"), receiver: mall.device("mall-gate"), body }
}

/// Every message is recorded before it is sent; shutdown finishes what is due and ends with a checkpoint.
#[tokio::test]
async fn records_come_before_messages() {
    let mall = Mall::new();
    let mut running = start(&mall, None);
    running.commands.send(mall.init(&["mall"])).await.expect("running");
    assert_eq!(running.changed.recv().await.as_deref(), Some("send uploadPolicy"));
    running.inputs.send(withdraw(&mall)).await.expect("running");
    running.clock.set(Time::from_unix(START.unix() + 3_600));
    assert_eq!(running.changed.recv().await.as_deref(), Some("send uploadPolicy"), "again after an hour");
    running.shutdown.send(()).expect("running");
    running.task.await.expect("no panic").expect("recorded");
    let log = running.log.lock().expect("unpoisoned").clone();
    let upload = ["record uploadPolicy↑", "send uploadPolicy"];
    assert_eq!(log[..3], [&["record init"], &upload[..]].concat());
    assert_eq!(log.last().map(String::as_str), Some("checkpoint"));
    for (place, _) in log.iter().enumerate().filter(|(_, what)| what.starts_with("send")) {
        assert_eq!(log[place - 1..=place], upload);
    }
    assert!(log.iter().any(|what| what == "record withdraw↓"), "{log:?}");
}

/// A step that cannot be recorded ends the daemon, and its message was not sent.
#[tokio::test]
async fn a_full_disk_ends_the_daemon() {
    let mall = Mall::new();
    let running = start(&mall, Some(MessageKind::UploadPolicy));
    running.commands.send(mall.init(&["mall"])).await.expect("running");
    let ended = running.task.await.expect("no panic").expect_err("the disk is full");
    assert_eq!(ended.to_string(), "the step could not be recorded: the disk is full");
    assert_eq!(*running.log.lock().expect("unpoisoned"), ["record init"]);
}

/// An insane clock is reported once, nothing is done meanwhile, and everything goes on afterwards.
#[tokio::test]
async fn an_insane_clock_is_an_event() {
    let mall = Mall::new();
    let mut running = start(&mall, None);
    running.clock.set(Time::from_unix(1_000));
    assert_eq!(running.changed.recv().await.as_deref(), Some("the clock shows a time before 2024"));
    running.commands.send(mall.init(&["mall"])).await.expect("running");
    running.commands.send(mall.init(&["mall"])).await.expect("running");
    while running.commands.capacity() < 8 {
        tokio::task::yield_now().await;
    }
    running.clock.set(START);
    assert_eq!(running.changed.recv().await.as_deref(), Some("clock is back"));
    assert_eq!(running.log.lock().expect("unpoisoned").len(), 2, "the commands were refused");
    running.commands.send(mall.init(&["mall"])).await.expect("running");
    assert_eq!(running.changed.recv().await.as_deref(), Some("send uploadPolicy"));
    running.shutdown.send(()).expect("running");
    running.task.await.expect("no panic").expect("recorded");
}
