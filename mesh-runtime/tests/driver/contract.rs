//! Record, then send; and what is not recorded has not happened.

use mesh_runtime::driver::clock::{ClockProblem, EARLIEST};
use mesh_runtime::driver::limits::Limits;
use mesh_runtime::driver::pacing::{Pace, Pacing};
use mesh_runtime::driver::record::Memory;
use mesh_runtime::driver::{Decision, DriveError, Driver, Fate, Setup};
use pilot_core::graph::message::Release;
use pilot_core::graph::{Body, Guard, Label, Message, MessageKind};
use pilot_core::graphs;
use pilot_core::semantics::Epoch;
use pilot_core::value::Time;

use super::support::{Mall, START};

fn later(seconds: u64) -> Time {
    Time::from_unix(START.unix() + seconds)
}

/// A controller that listens.
fn listening(mall: &Mall) -> Driver<'static, Memory> {
    let mut gate = mall.driver(&graphs::INDIRECT_CONTROLLER, "mall-gate", &[], &[]);
    gate.decide(mall.init(&["mall"]), START).expect("recorded");
    assert_eq!(gate.poll(START).expect("recorded").expect("the upload").messages().count(), 1);
    gate
}

fn broadcast(mall: &Mall, policy: &str, receiver: &str) -> Message {
    let mut release = Release::new(mall.item("mac-alice"), mall.id(policy));
    release.epoch = Epoch::of(START);
    Message { sender: mall.device("alice-phone"), receiver: mall.device(receiver), body: Body::Broadcast(release) }
}

/// A step that cannot be recorded is taken back, sends nothing, and is the last one.
#[test]
fn without_a_record_nothing_happens() {
    let mall = Mall::new();
    let mut gate = mall.driver(&graphs::INDIRECT_CONTROLLER, "mall-gate", &[], &[]);
    gate.decide(mall.init(&["mall"]), START).expect("recorded");
    let (device, instances) = (gate.device().clone(), gate.instances().cloned().collect::<Vec<_>>());
    gate.recorder().is_broken = true;
    assert!(matches!(gate.poll(START), Err(DriveError::Record(_))));
    assert_eq!(*gate.device(), device, "the policy is not published");
    assert!(gate.instances().eq(&instances));
    gate.recorder().is_broken = false;
    assert!(matches!(gate.poll(START), Err(DriveError::Stopped)));
    assert!(matches!(gate.receive(broadcast(&mall, "mall", "mall-gate"), START), Err(DriveError::Stopped)));
    assert!(matches!(gate.decide(Decision::ChangeOwn { own: vec![] }, START), Err(DriveError::Stopped)));
    assert_eq!(gate.recorder().entries.len(), 1);
}

/// A refused broadcast is counted by its reason, not recorded; so is one of what is held already.
#[test]
fn refused_broadcasts_are_counted() {
    let mall = Mall::new();
    let mut gate = listening(&mall);
    let before = gate.recorder().entries.len();
    for (message, reason) in [
        (broadcast(&mall, "greedy", "mall-gate"), Guard::WithinCurrent),
        (broadcast(&mall, "mall-short", "mall-gate"), Guard::WithinCurrent),
        (broadcast(&mall, "mall", "shop-gate"), Guard::AddressedToMe),
    ] {
        let fate = gate.receive(message.clone(), START).expect("no failure").fate;
        assert!(
            matches!(fate, Fate::Elided(Some(found)) if found == reason || message.policy() == Some(mall.id("mall-short"))),
            "{fate:?}"
        );
    }
    assert_eq!(gate.counts().all_elided(), 3);
    assert_eq!(gate.recorder().entries.len(), before);
    assert_eq!(gate.receive(broadcast(&mall, "mall", "mall-gate"), START).expect("recorded").fate, Fate::Taken);
    assert_eq!(gate.receive(broadcast(&mall, "mall", "mall-gate"), START).expect("recorded").fate, Fate::Waits);
    let waited = std::iter::from_fn(|| gate.poll(later(10)).expect("recorded")).last().expect("the waiting one");
    assert_eq!(waited.fate, Fate::Elided(Some(Guard::NotYetHeld)));
}

/// Reference: the paper's msgs. A message without an edge waits, once; one that the graph never takes does not.
#[test]
fn messages_wait_for_their_edge() {
    let mall = Mall::new();
    let mut repository = mall.driver(&graphs::REPOSITORY, "policy-repository", &[], &[]);
    let ask = |name| Message {
        sender: mall.device(name),
        receiver: mall.device("policy-repository"),
        body: Body::RequestPolicies,
    };
    assert_eq!(repository.receive(ask("alice-phone"), START).expect("recorded").fate, Fate::Taken);
    assert_eq!(repository.receive(ask("shop-gate"), START).expect("recorded").fate, Fate::Waits);
    assert_eq!(repository.receive(ask("shop-gate"), START).expect("recorded").fate, Fate::Duplicate);
    assert_eq!(repository.receive(broadcast(&mall, "mall", "mall-gate"), START).expect("ok").fate, Fate::Foreign);
    let mut answered = Vec::new();
    while let Some(outcome) = repository.poll(START).expect("recorded") {
        answered.extend(outcome.messages().map(|message| message.receiver));
    }
    assert_eq!(answered, [mall.device("alice-phone"), mall.device("shop-gate")]);
    assert_eq!(repository.waiting(), 0);
}

/// Offers keep to their pace; a withdrawal does not wait.
#[test]
fn offers_are_paced() {
    let mall = Mall::new();
    let pace = Pace { between: 5, again: 60, ..Pace::default() };
    let pacing = Pacing::default()
        .everywhere(Label::Send(MessageKind::UploadPolicy), pace)
        .everywhere(Label::Send(MessageKind::Request), Pace { again: 1_000_000, ..Pace::default() });
    let setup = Setup { pacing, ..mall.setup(&graphs::INDIRECT_CONTROLLER, "mall-gate", &[], &[]) };
    let mut gate = Driver::new(setup, Memory::default());
    gate.decide(mall.init(&["mall", "mall-short"]), START).expect("recorded");
    let mut times = Vec::new();
    for second in 0..130 {
        while let Some(outcome) = gate.poll(later(second)).expect("recorded") {
            times.extend(outcome.messages().map(|_| second));
        }
        let next = gate.next_due(later(second));
        assert!(next > later(second) && next <= later(second + 64), "asked to wait until {next}");
    }
    assert_eq!(times, [0, 5, 60, 65, 120, 125], "two policies, each every minute, five seconds apart");
    let withdrawn = gate.decide(Decision::WithdrawPolicy { policy: mall.id("mall") }, later(129)).expect("recorded");
    assert_eq!(withdrawn.messages().count(), 1);
}

/// `next_due` is when something happens: polling only then gives the same run.
#[test]
fn polling_when_due_is_enough() {
    let mall = Mall::new();
    let mut traces = Vec::new();
    for every_second in [true, false] {
        let mut gate = listening(&mall);
        gate.receive(broadcast(&mall, "mall", "mall-gate"), START).expect("recorded");
        let mut now = START;
        while now < later(13 * 3_600) {
            while gate.poll(now).expect("recorded").is_some() {}
            now = if every_second { Time::from_unix(now.unix() + 1) } else { gate.next_due(now) };
        }
        traces.push(std::mem::take(&mut gate.recorder().entries));
    }
    assert!(traces[0].len() > 5);
    assert!(traces[0].iter().any(|entry| entry.action.label() == Label::Expire && entry.time == later(12 * 3_600)));
    assert_eq!(traces[0], traces[1]);
}

/// What is overdue is erased before a message is taken, even if nobody polled.
#[test]
fn erasing_comes_first() {
    let mall = Mall::new();
    let mut gate = listening(&mall);
    gate.receive(broadcast(&mall, "mall", "mall-gate"), START).expect("recorded");
    let outcome = gate.receive(broadcast(&mall, "greedy", "mall-gate"), later(12 * 3_600)).expect("recorded");
    assert_eq!(outcome.steps.len(), 1);
    assert_eq!(outcome.steps[0].action.label(), Label::Expire);
    assert!(gate.device().state.received.is_empty());
}

/// Without a sane clock nobody consents and nobody collects.
#[test]
fn an_insane_clock_is_not_believed() {
    let mall = Mall::new();
    let setup = Setup { since: Time::default(), ..mall.setup(&graphs::INDIRECT_CONTROLLER, "mall-gate", &[], &[]) };
    let mut gate = Driver::new(setup, Memory::default());
    let early = Time::from_unix(EARLIEST.unix() - 1);
    let refused = gate.decide(mall.init(&["mall"]), early);
    assert!(matches!(refused, Err(DriveError::Clock(ClockProblem::TooEarly))));
    gate.decide(mall.init(&["mall"]), START).expect("recorded");
    while gate.poll(START).expect("recorded").is_some() {}
    let back = Time::from_unix(START.unix() - 100);
    let message = broadcast(&mall, "mall", "mall-gate");
    let refused = gate.receive(message.clone(), back);
    assert!(matches!(refused, Err(DriveError::Clock(ClockProblem::SetBack { seconds: 100 }))));
    assert!(matches!(gate.poll(back), Err(DriveError::Clock(_))));
    let slightly = gate.receive(message, Time::from_unix(START.unix() - 2)).expect("recorded");
    assert_eq!(slightly.steps[0].time, START, "time stands still");
}

/// Full: nothing more is collected, asked or released; withdrawals still work.
#[test]
fn limits_err_on_the_side_of_not_collecting() {
    let mall = Mall::new();
    let limits = Limits { held: 0, ..Limits::default() };
    let setup = Setup { limits, ..mall.setup(&graphs::INDIRECT_CONTROLLER, "mall-gate", &[], &[]) };
    let mut gate = Driver::new(setup, Memory::default());
    gate.decide(mall.init(&["mall"]), START).expect("recorded");
    gate.poll(START).expect("recorded");
    let fate = gate.receive(broadcast(&mall, "mall", "mall-gate"), START).expect("no failure").fate;
    assert!(matches!(fate, Fate::Full(_)), "{fate:?}");
    assert!(gate.device().state.received.is_empty());
    let setup = mall.setup(&graphs::INDIRECT_SUBJECT, "alice-phone", &[], &["mac-alice"]);
    let limits = Limits { recipients: 0, tombstones: 0, ..Limits::default() };
    let mut alice = Driver::new(Setup { limits, ..setup }, Memory::default());
    let offers = vec![(mall.device("mall-gate"), mall.id("mall"))];
    alice.decide(Decision::Restore { own: vec![mall.id("generous")], offers }, START).expect("recorded");
    let mut sent = Vec::new();
    for second in 0..30 {
        while let Some(outcome) = alice.poll(later(second)).expect("recorded") {
            sent.extend(outcome.messages().map(Message::kind));
        }
    }
    assert!(!sent.contains(&MessageKind::Broadcast), "{sent:?}");
    assert!(alice.counts().full.values().sum::<u64>() > 0);
    let controller = mall.device("mall-gate");
    let withdrawn = alice.decide(Decision::Withdraw { controller }, later(30)).expect("recorded");
    assert_eq!(withdrawn.fate, Fate::Taken);
}
