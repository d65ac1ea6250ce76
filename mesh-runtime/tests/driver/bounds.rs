//! What is refused leaves nothing behind, and what is forgotten is gone.

use mesh_runtime::driver::inbox::{MAX_WAIT_SECONDS, MAX_WAITING_MESSAGES};
use mesh_runtime::driver::record::Memory;
use mesh_runtime::driver::{Driver, Fate, Guest};
use pilot_core::graph::message::Release;
use pilot_core::graph::{Body, Message};
use pilot_core::graphs;
use pilot_core::semantics::{Epoch, PolicyId};
use pilot_core::syntax::parse_file;
use pilot_core::value::Time;

use super::support::{Mall, START};

const STRANGERS: usize = 100_000;

fn listening(mall: &Mall) -> Driver<'static, Memory> {
    let mut gate = mall.driver(&graphs::INDIRECT_CONTROLLER, "mall-gate", &[], &[]);
    gate.decide(mall.init(&["mall"]), START).expect("recorded");
    while gate.poll(START).expect("recorded").is_some() {}
    gate
}

fn stranger(gate: &mut Driver<'static, Memory>, mall: &Mall) -> Guest {
    let datatype = mall.vocabulary.datatypes.id("mac-address").expect("a datatype");
    gate.introduce(Some(datatype)).expect("room")
}

fn broadcast(guest: Guest, policy: PolicyId, mall: &Mall, now: Time) -> Message {
    let mut release = Release::new(guest.item.expect("an item"), policy);
    release.epoch = Epoch::of(now);
    Message { sender: guest.device, receiver: mall.device("mall-gate"), body: Body::Broadcast(release) }
}

/// 100,000 refused broadcasts from as many addresses: tables and memory are as before.
#[test]
fn refused_strangers_leave_nothing_behind() {
    let mall = Mall::new();
    let mut gate = listening(&mall);
    let (directory, device) = (gate.context(START).directory.clone(), gate.device().clone());
    let (policies, entries) = (gate.context(START).policies.count(), gate.recorder().entries.len());
    let refuse = |gate: &mut Driver<'static, Memory>| {
        let guest = stranger(gate, &mall);
        let outcome = gate.receive(broadcast(guest, mall.id("greedy"), &mall, START), START).expect("no failure");
        assert!(matches!(outcome.fate, Fate::Elided(Some(_))));
        assert_eq!(outcome.forgotten, [guest]);
    };
    refuse(&mut gate);
    let memory = allocation_counter::measure(|| (1..STRANGERS).for_each(|_| refuse(&mut gate)));
    assert_eq!((memory.count_current, memory.bytes_current), (0, 0));
    assert!(memory.bytes_max < 4_096, "{} bytes at once", memory.bytes_max);
    assert_eq!(*gate.context(START).directory, directory);
    assert_eq!((gate.guests(), gate.waiting(), gate.context(START).policies.count()), (0, 0, policies));
    assert_eq!(*gate.device(), device);
    assert_eq!(gate.recorder().entries.len(), entries);
    assert_eq!(gate.counts().all_elided(), STRANGERS as u64);
}

/// A stranger whose item is kept keeps its ids until the item is erased; then others get them.
#[test]
fn ids_end_with_the_last_mention() {
    let mall = Mall::new();
    let mut gate = listening(&mall);
    let directory = gate.context(START).directory.clone();
    let guest = stranger(&mut gate, &mall);
    let outcome = gate.receive(broadcast(guest, mall.id("mall"), &mall, START), START).expect("recorded");
    assert_eq!((outcome.fate, outcome.forgotten.len(), gate.guests()), (Fate::Taken, 0, 1));
    let later = Time::from_unix(START.unix() + 12 * 3_600);
    for (now, held) in [(Time::from_unix(later.unix() - 1), 1), (later, 0)] {
        let mut forgotten = Vec::new();
        while let Some(outcome) = gate.poll(now).expect("recorded") {
            forgotten.extend(outcome.forgotten);
        }
        assert_eq!(gate.guests(), held);
        assert_eq!(forgotten.len(), 1 - held, "told once");
    }
    assert_eq!(*gate.context(START).directory, directory);
}

/// After a withdrawal the tombstone mentions the item; when it is out of date, the stranger is forgotten.
#[test]
fn a_tombstone_keeps_the_item_known() {
    let mall = Mall::new();
    let mut gate = listening(&mall);
    let guest = stranger(&mut gate, &mall);
    gate.receive(broadcast(guest, mall.id("mall"), &mall, START), START).expect("recorded");
    let withdrawal = pilot_core::graph::message::Withdrawal { epoch: Epoch::of(START), until: START };
    let body = Body::Withdraw { item: guest.item.expect("an item"), withdrawal };
    let notice = Message { sender: guest.device, receiver: mall.device("mall-gate"), body };
    gate.receive(notice, START).expect("recorded");
    while gate.poll(START).expect("recorded").is_some() {}
    assert_eq!((gate.guests(), gate.device().memory.tombstones.len()), (1, 1));
    let now = Time::from_unix(START.unix() + 64 * 4);
    while gate.poll(now).expect("recorded").is_some() {}
    assert_eq!((gate.guests(), gate.device().memory.tombstones.len()), (0, 0));
}

/// The inbox is bounded in number and time; what falls out is counted, and its sender forgotten.
#[test]
fn the_inbox_is_bounded() {
    let mall = Mall::new();
    let mut gate = listening(&mall);
    let first = stranger(&mut gate, &mall);
    gate.receive(broadcast(first, mall.id("mall"), &mall, START), START).expect("recorded");
    for _ in 0..2 * MAX_WAITING_MESSAGES {
        let guest = stranger(&mut gate, &mall);
        let outcome = gate.receive(broadcast(guest, mall.id("mall"), &mall, START), START).expect("no failure");
        assert_eq!(outcome.fate, Fate::Waits);
        assert!(gate.waiting() <= MAX_WAITING_MESSAGES);
    }
    while gate.poll(START).expect("recorded").is_some() {}
    assert_eq!(gate.counts().displaced, MAX_WAITING_MESSAGES as u64);
    assert_eq!(gate.guests(), 1 + MAX_WAITING_MESSAGES);
    let now = Time::from_unix(START.unix() + MAX_WAIT_SECONDS + 1);
    while gate.poll(now).expect("recorded").is_some() {}
    assert_eq!((gate.waiting(), gate.counts().stale, gate.guests()), (0, MAX_WAITING_MESSAGES as u64, 1));
}

/// Policies that nothing mentions lose their ids once there are many; those in use stay.
#[test]
fn policies_out_of_use_are_dropped() {
    let mall = Mall::new();
    let mut repository = mall.driver(&graphs::REPOSITORY, "policy-repository", &[], &[]);
    for version in 0..10_000_u64 {
        let until = Time::from_unix(START.unix() + version);
        let text = format!("policy p {{ collect mac-address by mall for statistics until {until} }}");
        let file = parse_file(&text, mall.vocabulary).unwrap_or_else(|error| panic!("{error}"));
        let policy = repository.intern(file.policies[0].choice.policy().expect("a policy").clone()).expect("room");
        let (sender, receiver) = (mall.device("mall-gate"), mall.device("policy-repository"));
        let upload = Message { sender, receiver, body: Body::UploadPolicy { policy } };
        assert_eq!(repository.receive(upload, START).expect("recorded").fate, Fate::Taken);
        assert!(repository.poll(START).expect("recorded").is_none());
    }
    let listed = repository.device().memory.catalogue[&mall.device("mall-gate")];
    let cx = repository.context(START);
    assert_eq!(cx.retention(listed), Some(Time::from_unix(START.unix() + 9_999)));
    assert!(cx.policies.count() < 2_000, "{}", cx.policies.count());
    assert!(cx.policies.by_digest(&mall.digest("mall")).is_some(), "what was there from the start stays");
}
