//! The five figures, run by drivers.

use mesh_runtime::driver::{Decision, Fate};
use pilot_core::graph::{Label, Location, MessageKind};

use super::support::Mall;

/// Reference: Figs. 4a, 4b and 4c; and deadlines. The traces are exactly the steps.
#[test]
fn indirect_communication_runs_through_its_figures() {
    let mall = Mall::new();
    let mut net = mall.indirect();
    net.decide(1, mall.init(&["mall"]));
    net.settle();
    net.decide(0, mall.init(&["generous"]));
    net.settle();
    assert_eq!(net.trace(3), ["uploadPolicy↓ s₀→s₀", "requestPolicies↓ s₀→s₁", "downloadPolicies↑ s₁→s₀"]);
    let alice = ["init s₀→s₁", "requestPolicies↑ s₁→s₂", "downloadPolicies↓ s₂→s₃", "broadcast↑ s₃→s₃"];
    assert_eq!(net.trace(0), alice);
    assert_eq!(net.trace(1), ["init s₀→s₁", "uploadPolicy↑ s₁→s₂", "broadcast↓ s₂→s₃"]);
    assert_eq!(net.drivers[1].device().state.received.len(), 1);
    net.pass(10);
    assert_eq!(net.trace(1)[3..], ["τ s₃→s₂"]);
    net.pass(12 * 3_600);
    assert!(net.trace(1).contains(&"expire s₂→s₂".to_string()), "{:?}", net.trace(1));
    assert!(net.drivers[1].device().state.received.is_empty());
    assert!(net.drivers[1].device().state.values.is_empty());
}

/// Reference: Figs. 3a and 3b; TRANSFER; and a withdraw notice, which follows the item.
#[test]
fn direct_communication_runs_through_its_figures() {
    let mall = Mall::new();
    let mut net = mall.direct();
    net.decide(0, mall.init(&["generous"]));
    net.decide(1, mall.init(&["mall"]));
    net.settle();
    assert_eq!(net.trace(1), ["init s₀→s₁", "request↑ s₁→s₂", "send↓ s₂→s₃"]);
    net.decide(2, mall.init(&["hotels"]));
    net.settle();
    assert_eq!(net.trace(1)[3..], ["request↓ s₃→s₄", "send↑ s₄→s₃"]);
    assert_eq!(net.trace(2), ["init s₀→s₁", "request↑ s₁→s₂", "send↓ s₂→s₃"]);
    // A request goes to both of her instances; each answers for its item.
    let alice = net.trace(0);
    assert_eq!(alice[..4], ["init s₀→s₁", "init s₀→s₁", "request↓ s₁→s₂", "request↓ s₁→s₂"]);
    assert_eq!(alice[4..], ["send↑ s₂→s₁", "send↑ s₂→s₁"]);
    let withdrawn = net.decide(0, Decision::Withdraw { controller: mall.device("mall-gate") });
    assert_eq!((withdrawn.fate, withdrawn.messages().count()), (Fate::Taken, 2));
    net.settle();
    for at in [1, 2] {
        assert!(net.drivers[at].device().state.received.is_empty(), "{:?}", net.trace(at));
    }
    assert!(net.trace(1).contains(&"withdraw↑ s₃→s₃".to_string()), "{:?}", net.trace(1));
}

/// Reference: Fig. 3a, τ. A refusal is an answer: it is not paced.
#[test]
fn a_refusal_ends_the_exchange_at_once() {
    let mall = Mall::new();
    let mut net = mall.direct();
    net.decide(0, mall.init(&["careful"]));
    net.decide(1, mall.init(&["greedy"]));
    net.settle();
    assert_eq!(net.trace(0)[2..], ["request↓ s₁→s₂", "request↓ s₁→s₂", "τ s₂→s₁", "τ s₂→s₁"]);
    assert_eq!(net.at(1), [Location::S2]);
    net.pass(10);
    assert_eq!(net.at(1), [Location::S1], "the timeout");
}

/// Changed policies, a withdrawn policy, and a controller that is admitted again.
#[test]
fn users_decide() {
    let mall = Mall::new();
    let mut net = mall.indirect();
    net.decide(1, mall.init(&["mall"]));
    net.settle();
    net.decide(0, mall.init(&["generous"]));
    net.settle();
    let gate = mall.device("mall-gate");
    net.decide(0, Decision::Withdraw { controller: gate });
    net.pass(4_000);
    let broadcasts = |trace: Vec<String>| trace.iter().filter(|step| step.starts_with("broadcast↑")).count();
    assert_eq!(broadcasts(net.trace(0)), 1, "she refuses the mall now");
    let entity = mall.vocabulary.entities.id("mall").expect("an entity");
    assert_eq!(net.decide(0, Decision::Admit { entity }).fate, Fate::Taken);
    net.pass(64);
    net.pass(11);
    assert_eq!(broadcasts(net.trace(0)), 2, "{:?}", net.trace(0));
    let same = net.decide(0, Decision::ChangeOwn { own: vec![mall.id("generous")] });
    assert_eq!(same.fate, Fate::Elided(None), "nothing changes");
    assert_eq!(net.decide(1, Decision::WithdrawPolicy { policy: mall.id("mall") }).fate, Fate::Taken);
    net.settle();
    assert!(net.drivers[3].device().memory.catalogue.is_empty());
    assert_eq!(net.decide(3, mall.init(&[])).fate, Fate::Impossible, "a repository has no init");
}

/// A policy that comes back is uploaded at once if the driver is told to repeat what it says, and else when its time comes.
#[test]
fn what_has_changed_is_said_at_once() {
    let mall = Mall::new();
    let upload = Label::Send(MessageKind::UploadPolicy);
    for is_told in [false, true] {
        let mut net = mall.indirect();
        net.decide(1, mall.init(&["mall"]));
        net.settle();
        for name in ["mall-short", "mall"] {
            net.pass(1);
            net.decide(1, Decision::ChangeOwn { own: vec![mall.id(name)] });
            if is_told {
                net.drivers[1].repeat(upload);
            }
            net.settle();
        }
        let listed = net.drivers[3].device().memory.catalogue[&mall.device("mall-gate")];
        assert_eq!(listed, mall.id(if is_told { "mall" } else { "mall-short" }));
    }
}
