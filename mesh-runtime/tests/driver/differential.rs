//! Random runs, step by step beside `pilot_core::graph::step` on a copy, each step judged against the abstract
//! semantics by the model checker's own `refines`.

use std::collections::BTreeMap;

use conformance::refine::{Evidence, Taken as Judged, meets_requirements, refines};
use mesh_runtime::driver::{Decision, DriveError, Outcome};
use pilot_core::graph::{Action, Device, Graph, Instance, Message, MessageKind, step};
use pilot_core::graphs;
use pilot_core::semantics::Ghosts;
use pilot_core::value::Time;

use super::support::{Mall, Net};

/// What the driver should have become.
struct Shadow {
    graph: &'static Graph<'static>,
    device: Device,
    instances: Vec<Instance>,
    ghosts: Ghosts,
}

struct Run<'m> {
    mall: &'m Mall,
    net: Net,
    shadows: Vec<Shadow>,
    evidence: BTreeMap<Message, Evidence>,
    transit: Vec<Message>,
    random: fastrand::Rng,
    steps: usize,
    failures: usize,
}

impl<'m> Run<'m> {
    fn new(mall: &'m Mall, net: Net, graphs: &[&'static Graph<'static>], seed: u64) -> Self {
        let shadow = |(driver, graph): (&mesh_runtime::driver::Driver<'_, _>, &&'static Graph<'static>)| Shadow {
            graph,
            device: driver.device().clone(),
            instances: driver.instances().cloned().collect(),
            ghosts: Ghosts::default(),
        };
        let shadows = net.drivers.iter().zip(graphs).map(shadow).collect();
        let (evidence, random) = (BTreeMap::new(), fastrand::Rng::with_seed(seed));
        Self { mall, net, shadows, evidence, transit: Vec::new(), random, steps: 0, failures: 0 }
    }

    /// Something random. Returns whether the run goes on.
    fn act(&mut self) -> bool {
        let at = self.random.usize(..self.net.drivers.len());
        let now = self.net.now;
        self.net.drivers[at].recorder().is_broken = self.random.u8(..100) == 0;
        let mut is_idle = false;
        let result = match self.random.u8(..20) {
            0 => {
                let seconds = [1, 11, 70, 3_700, 20_000][self.random.usize(..5)];
                self.net.now = Time::from_unix(now.unix() + seconds);
                return true;
            }
            1..=3 => {
                let decision = self.decision(at);
                self.net.drivers[at].decide(decision, now)
            }
            4..=10 if !self.transit.is_empty() => {
                let place = self.random.usize(..self.transit.len());
                let message = self.transit[place].clone();
                if self.random.u8(..3) > 0 {
                    self.transit.swap_remove(place);
                }
                let is_overheard = message.kind() == MessageKind::Broadcast && self.random.bool();
                let receiver = self.net.drivers.iter().position(|driver| driver.device().id == message.receiver);
                let to = if is_overheard { at } else { receiver.unwrap_or(at) };
                let result = self.net.drivers[to].receive(message, now);
                return self.check(to, result, false);
            }
            _ => match self.net.drivers[at].poll(now) {
                Ok(Some(outcome)) => Ok(outcome),
                Ok(None) => {
                    is_idle = true;
                    Ok(Outcome { steps: vec![], fate: mesh_runtime::driver::Fate::Idle, forgotten: vec![] })
                }
                Err(error) => Err(error),
            },
        };
        self.check(at, result, is_idle)
    }

    fn decision(&mut self, at: usize) -> Decision {
        let all = self.mall.ids();
        let own: Vec<_> = all.into_iter().filter(|_| self.random.u8(..3) == 0).collect();
        let offers = self.shadows[at].device.state.policies.iter().copied();
        let device = self.shadows[self.random.usize(..self.shadows.len())].device.id;
        let is_new = self.shadows[at].instances.iter().all(|i| i.location == self.shadows[at].graph.initial);
        match self.random.u8(..12) {
            0 => Decision::Restore { own, offers: offers.collect() },
            1 => Decision::Withdraw { controller: device },
            2 => {
                let entity = self.mall.vocabulary.directory().entity(device).expect("an entity");
                Decision::Admit { entity }
            }
            3 => Decision::WithdrawPolicy { policy: self.mall.ids()[self.random.usize(..self.mall.ids().len())] },
            4 => Decision::ChangeOwn { own },
            _ if is_new => Decision::Init { own: self.usual(at) },
            _ => Decision::ChangeOwn { own: self.usual(at) },
        }
    }

    fn usual(&self, at: usize) -> Vec<pilot_core::semantics::PolicyId> {
        let name = self.mall.vocabulary.device_name(self.shadows[at].device.id);
        vec![self.mall.id(match name {
            "alice-phone" => "generous",
            "mall-gate" => "mall",
            _ => "hotels",
        })]
    }

    /// The copy takes the recorded steps: each is the same, and in the end so is the device, whatever else was tried.
    fn check(&mut self, at: usize, result: Result<Outcome, DriveError>, is_idle: bool) -> bool {
        let now = self.net.now;
        let goes_on = match result {
            Ok(_) => true,
            Err(DriveError::Record(_)) => {
                self.failures += 1;
                false
            }
            Err(error) => panic!("{error}"),
        };
        let driver = &mut self.net.drivers[at];
        let recorded = std::mem::take(&mut driver.recorder().entries);
        if let Ok(outcome) = &result {
            let returned: Vec<_> = outcome.steps.iter().map(|taken| &taken.step).collect();
            assert!(recorded.iter().map(|entry| &entry.step).eq(returned), "what is returned is what is recorded");
        }
        let cx = driver.context(now);
        let shadow = &mut self.shadows[at];
        for entry in recorded {
            let mut state = shadow.device.state.clone();
            let instance = &mut shadow.instances[entry.instance.0];
            assert_eq!(instance.location, entry.from);
            let taken = step(shadow.graph, instance, &mut shadow.device, &entry.action, &cx);
            assert_eq!(taken.as_ref(), Some(&entry.step), "{:?}", entry.action);
            assert_eq!(instance.location, entry.to);
            let came_with = match &entry.action {
                Action::Receive(message) => self.evidence.get(message).cloned().unwrap_or_default(),
                Action::Restore { offers, .. } => restored(offers),
                _ => Evidence::default(),
            };
            let judged = Judged { device: &shadow.device, instance, action: &entry.action, step: &entry.step };
            let goes_with = refines(&judged, &mut state, &mut shadow.ghosts, &came_with, &cx);
            let goes_with = goes_with.unwrap_or_else(|found| panic!("{found:?}: {:?}", entry.action));
            assert_eq!(state, shadow.device.state, "the events lead where the step led");
            if let Some(message) = entry.step.message {
                self.evidence.insert(message.clone(), goes_with);
                self.transit.push(message);
            }
            self.steps += 1;
        }
        assert_eq!(*driver.device(), shadow.device, "elided, refused and failed steps change nothing");
        assert!(driver.instances().eq(&shadow.instances));
        if is_idle {
            meets_requirements(&shadow.device.state, &shadow.ghosts, &cx).unwrap_or_else(|found| panic!("{found:?}"));
        }
        goes_on
    }
}

fn restored(offers: &[(pilot_core::vocabulary::DeviceId, pilot_core::semantics::PolicyId)]) -> Evidence {
    let claim = |(sender, policy): &(_, _)| pilot_core::semantics::Claim::Request { sender: *sender, policy: *policy };
    Evidence { listed: offers.iter().map(claim).collect(), ..Evidence::default() }
}

fn runs(start: impl Fn(&Mall) -> Net, graphs: &[&'static Graph<'static>]) {
    let mall = Mall::new();
    let (mut steps, mut failures, mut kinds) = (0, 0, BTreeMap::new());
    for seed in 0..400 {
        let mut run = Run::new(&mall, start(&mall), graphs, seed);
        let mut left = 400;
        while left > 0 && run.act() {
            left -= 1;
        }
        steps += run.steps;
        failures += run.failures;
        for message in run.evidence.keys() {
            *kinds.entry(message.kind()).or_insert(0) += 1;
        }
    }
    assert!(steps > 10_000 && failures > 100, "{steps} steps, {failures} failures");
    assert!(kinds.len() >= 3 && kinds.values().all(|count| *count > 20), "{kinds:?}");
}

/// Reference: Figs. 3a and 3b, Table 2.
#[test]
fn direct_runs_are_steps_of_the_graphs() {
    runs(Mall::direct, &[&graphs::DIRECT_SUBJECT, &graphs::DIRECT_CONTROLLER, &graphs::DIRECT_CONTROLLER]);
}

/// Reference: Figs. 4a, 4b and 4c, Table 2.
#[test]
fn indirect_runs_are_steps_of_the_graphs() {
    let controller = &graphs::INDIRECT_CONTROLLER;
    runs(Mall::indirect, &[&graphs::INDIRECT_SUBJECT, controller, controller, &graphs::REPOSITORY]);
}
