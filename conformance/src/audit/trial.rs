//! A step: run again, compared with what the device says it did, and judged by the abstract semantics.

use pilot_core::condition::Condition;
use pilot_core::evidence::trace::action::Body as Said;
use pilot_core::evidence::trace::{self, Action as SaidAction, Rule};
use pilot_core::graph::{Action, Body, Edge, Graph, Guard, Instance, Message, Step, enabled, hindrance, take};
use pilot_core::semantics::rules as table2;
use pilot_core::semantics::rules::Premise;
use pilot_core::semantics::{Attested, Claim, Context, Delivery, DeviceState, Event, Handover, Receipt, Requirement};
use pilot_core::vocabulary::ItemId;

use super::court::{Court, Place};
use super::mail::Vouch;
use super::note::{ENDS, Named};
use super::post::Mark;
use super::replay::{Beat, Replay, STAND_IN, Stage};
use super::report::{Class, rules};
use super::runs::presumed;
use super::words;
use super::world::{self, World};
use crate::refine::{Evidence, Taken, Violation, refines};

/// What is wrong with a step.
struct Wrong {
    rule: String,
    premise: String,
    because: String,
}

impl Court<'_> {
    /// A step.
    pub(super) fn step(&mut self, place: Place, step: &trace::Step, named: &Named, mark: &Mark) -> Vouch {
        let Place { trace: at, record, time } = place;
        self.figures.steps += 1;
        if !self.is_begun(place) {
            return Vouch::default();
        }
        let (world, replays) = (&mut self.world, &mut self.replays);
        let Some(replay) = replays.get_mut(at) else { return Vouch::default() };
        let prepared = replay.graph(step.graph).and_then(|graph| Ok((graph, replay.instance(step, graph)?)));
        let prepared =
            prepared.and_then(|(graph, instance)| Ok((graph, instance, replay.action(&step.action, named, world)?)));
        let (graph, mut instance, action) = match prepared {
            Ok(prepared) => prepared,
            Err(untold) => {
                self.untold(place, &untold);
                return Vouch::default();
            }
        };
        let is_late = time < replay.latest;
        replay.latest = replay.latest.max(time);
        replay.since_compared += 1;
        let peer = action.message().map(|m| if m.sender == replay.id { m.receiver } else { m.sender });
        let peer = peer.map(|peer| world.is_named(peer).then_some(peer));
        replay.beat(Beat { record, time, label: action.label(), peer });
        if is_late {
            let text = format!("{}, earlier than what it did before", words::deed(&action, replay, world, time));
            let premise = "time never goes back".to_owned();
            self.found(Class::Violation, place, rules::CLOCK, premise, text, None);
        }
        let came_with = self.came_with(place, &step.action, &action, mark);
        let vouch = self.run_again(place, step, (graph, &mut instance), &action, &came_with);
        if let Some(replay) = self.replays.get_mut(at) {
            replay.put_back(step, instance);
            replay.forget(action.item(), &mut self.world);
        }
        vouch
    }

    /// Whether the run has begun in order, so that its steps can be judged.
    fn is_begun(&mut self, place: Place) -> bool {
        self.end_of_resumes(place);
        let Some(replay) = self.replays.get_mut(place.trace) else { return false };
        match (replay.run.stage, replay.run.unknown) {
            (Stage::Due | Stage::Lost, Some(why)) => {
                self.unjudged_at(place.trace, "steps before the next `resume`", why);
                return false;
            }
            (Stage::Due, None) => {}
            (Stage::Resuming | Stage::Running | Stage::Lost, _) => return true,
        }
        replay.run.stage = Stage::Running;
        let text = format!("{} does not say with what it began to run at {}", replay.name, place.time);
        let premise = "a run begins with a `resume`".to_owned();
        self.found(Class::Violation, place, rules::RESUME, premise, text, None);
        true
    }

    /// Takes the step again and judges it; if it cannot be taken, says why, and goes on as if it could. Returns what is vouched
    /// for with the message that it sends.
    fn run_again(
        &mut self,
        place: Place,
        step: &trace::Step,
        (graph, instance): (&Graph<'_>, &mut Instance),
        action: &Action,
        came_with: &Evidence,
    ) -> Vouch {
        let attested = attested(step, &self.world);
        self.figures.attested_conditions += attested.0.len() as u64;
        let repository = action.message().and_then(|message| {
            let both = [message.sender, message.receiver];
            both.into_iter().find(|device| self.world.is_repository(*device))
        });
        let contacts = world::contacts(repository);
        let (world, replays) = (&self.world, &mut self.replays);
        let cx = world.context(&contacts, &attested, place.time);
        let Some(replay) = replays.get_mut(place.trace) else { return Vouch::default() };
        let mut wrong = Vec::new();
        let mut vouch = Vouch::default();
        let erased = erased_by(action, replay);
        let taken = match again(replay, step, (graph, instance), action, &cx) {
            Ok(taken) => taken,
            Err(why) => {
                wrong.push(why);
                if let Some(taken) = force(replay, step, (graph, instance), action, &cx) {
                    adopt(replay, &taken, came_with);
                    self.after(place, &taken, &erased);
                }
                self.blame(place, action, wrong);
                // It was wrong to send it, so nothing is vouched for; who received it did not invent it.
                return Vouch::default();
            }
        };
        if changes_policies(action, &taken) {
            replay.policies_changed();
        }
        wrong.extend(unlike(replay, step, &taken, world));
        match judge(replay, instance, action, &taken, came_with, &cx) {
            Ok(Evidence { provenance: Some(provenance), .. }) => vouch = Vouch::Item(provenance),
            Ok(Evidence { withdrawn: Some(withdrawn), .. }) => vouch = Vouch::Notice(withdrawn),
            Ok(_) => {}
            Err(violation) => {
                wrong.push(wrong_by(&violation, action, world));
                adopt(replay, &taken, came_with);
            }
        }
        wrong.extend(unmet(replay, &taken, &cx, world));
        self.after(place, &taken, &erased);
        self.blame(place, action, wrong);
        vouch
    }

    fn blame(&mut self, place: Place, action: &Action, wrong: Vec<Wrong>) {
        for Wrong { rule, premise, because } in wrong {
            let Some(replay) = self.replays.get(place.trace) else { return };
            let text = format!("{}, {because}", words::deed(action, replay, &self.world, place.time));
            let policy = action.message().and_then(Message::policy).and_then(|id| self.world.policies.digest(id));
            self.found(Class::Violation, place, &rule, premise, text, policy);
        }
    }

    /// What a step leaves behind: figures and deadlines.
    fn after(&mut self, place: Place, step: &Step, erased: &[Receipt]) {
        let Some(replay) = self.replays.get_mut(place.trace) else { return };
        let (mut accepted, mut gone) = (0, 0);
        self.figures.events += step.events.len() as u64;
        for event in &step.events {
            match event {
                Event::Send(delivery) | Event::Transfer(delivery) => {
                    let receipt = delivery.handover.receipt();
                    self.world.deadline(&receipt).into_iter().for_each(|deadline| replay.due.keep(receipt, deadline));
                    accepted += 1;
                    match event {
                        Event::Send(_) => self.figures.accepted += 1,
                        _ => self.figures.transferred += 1,
                    }
                }
                Event::Erase { withdrawn, .. } => {
                    for receipt in erased {
                        self.world
                            .deadline(receipt)
                            .into_iter()
                            .for_each(|deadline| replay.due.gone(receipt, deadline));
                        replay.presumed.remove(receipt);
                        gone += 1;
                    }
                    self.figures.withdrawn += u64::from(withdrawn.is_some());
                }
                Event::Own { .. } | Event::Request { .. } | Event::Retract { .. } => {}
            }
        }
        self.figures.erased += gone;
        self.timeline.step(place.time, accepted, gone);
    }
}

/// How conditions came out, as the device says: sorted, each once. There are few of them, and in every other step.
#[derive(Debug)]
struct Outcomes<'w>(Vec<(&'w Condition, bool)>);

impl Attested for Outcomes<'_> {
    fn outcome(&self, condition: &Condition) -> Option<bool> {
        // Mostly it is the very condition of the policy.
        let is_it = |(known, _): &(&Condition, bool)| std::ptr::eq(*known, condition);
        if let Some((_, holds)) = self.0.iter().find(|outcome| is_it(outcome)) {
            return Some(*holds);
        }
        let place = self.0.binary_search_by(|(known, _)| (*known).cmp(condition)).ok()?;
        self.0.get(place).map(|(_, holds)| *holds)
    }
}

fn attested<'w>(step: &trace::Step, world: &'w World<'_>) -> Outcomes<'w> {
    let condition = |outcome: &trace::Outcome| {
        let policy = world.policies.policy(world.policy(&outcome.policy)?)?;
        let rule = match outcome.rule {
            Rule::Collection => policy.collection(),
            Rule::Transfer(place) => policy.transfers().get(usize::from(place))?,
        };
        Some((&rule.condition, outcome.holds))
    };
    let mut outcomes: Vec<_> = step.outcomes.iter().filter_map(condition).collect();
    outcomes.sort_by_key(|(condition, _)| *condition);
    outcomes.dedup_by(|later, earlier| {
        let is_same = later.0 == earlier.0;
        if is_same {
            earlier.1 = later.1;
        }
        is_same
    });
    Outcomes(outcomes)
}

/// What an action erases if it is taken.
fn erased_by(action: &Action, replay: &Replay) -> Vec<Receipt> {
    let item = match action {
        Action::Expire { item } => *item,
        Action::Receive(Message { body: Body::Withdraw { item, .. }, .. }) => *item,
        _ => return Vec::new(),
    };
    replay.state.receipts_of(item).copied().collect()
}

/// Takes the step as the device says it did, or says why the graph does not allow it.
fn again(
    replay: &mut Replay,
    step: &trace::Step,
    (graph, instance): (&Graph<'_>, &mut Instance),
    action: &Action,
    cx: &Context<'_>,
) -> Result<Step, Wrong> {
    let wrong = |premise: String, because: String| Wrong { rule: rules::GRAPH.into(), premise, because };
    if instance.location != step.from {
        let premise = format!("σ = {}", step.from);
        return Err(wrong(premise, format!("although Fig. {} was at {}", graph.figure, instance.location)));
    }
    let edge = enabled(graph, instance, &replay.device, action, cx).next();
    let leads = |at: &usize| graph.edges.get(*at).is_some_and(|edge| edge.to.unwrap_or(step.from) == step.to);
    let taken = edge.filter(leads).and_then(|edge| take(graph, edge, instance, &mut replay.device, action, cx));
    taken.ok_or_else(|| {
        let otherwise = || match edge {
            Some(_) => wrong(
                format!("⟶ {}", step.to),
                format!("although Fig. {} does not lead to {} then", graph.figure, step.to),
            ),
            None => wrong(
                action.label().to_string(),
                format!("which Fig. {} does not allow at {}", graph.figure, step.from),
            ),
        };
        unguarded(replay, (graph, instance), action, cx).unwrap_or_else(otherwise)
    })
}

/// Why a step cannot be taken: a premise of Table 2, or else a guard.
#[cold]
fn unguarded(
    replay: &Replay,
    (graph, instance): (&Graph<'_>, &Instance),
    action: &Action,
    cx: &Context<'_>,
) -> Option<Wrong> {
    let owner = "its owner";
    if let Some((rule, premise)) = premise_of(replay, action, cx) {
        let because = words::premise(&premise, owner);
        return Some(Wrong { rule: rule.into(), premise: premise.to_string(), because });
    }
    let guard = hindrance(graph, instance, &replay.device, action, cx)?;
    let rule = match guard {
        Guard::NotWithdrawn => Requirement::Withdrawal.to_string(),
        _ => rules::GRAPH.to_owned(),
    };
    Some(Wrong { rule, premise: format!("{guard:?}"), because: words::guard(guard).into() })
}

/// An item that changes hands.
pub(super) fn handover(message: &Message) -> Option<Handover> {
    let release = message.release()?;
    let (sender, receiver) = (message.sender, message.receiver);
    Some(Handover { sender, receiver, item: release.item, policy: release.policy })
}

/// The premise of Table 2 that does not hold.
#[cold]
fn premise_of(replay: &Replay, action: &Action, cx: &Context<'_>) -> Option<(&'static str, Premise)> {
    let message = action.message()?;
    let handover = handover(message);
    let is_owner = handover.is_some_and(|handover| cx.owner(handover.item) == Some(handover.sender));
    let rule = if is_owner { rules::SEND } else { rules::TRANSFER };
    let premise = match (action, handover, &message.body) {
        (Action::Send(_), Some(handover), _) => {
            let claim = if is_owner { Claim::Send(handover) } else { Claim::Transfer(handover) };
            table2::claim(&claim, &replay.state, cx)
        }
        (Action::Send(_), None, Body::UploadPolicy { policy } | Body::Request { policy }) => {
            let claim = Claim::Request { sender: message.sender, policy: *policy };
            return table2::claim(&claim, &replay.state, cx).err().map(|premise| (rules::R1, premise));
        }
        (Action::Receive(_), Some(handover), _) if handover.receiver == replay.id => {
            let delivery = Delivery { handover, value: Some(STAND_IN) };
            let event = if is_owner { Event::Send(delivery) } else { Event::Transfer(delivery) };
            table2::premises(&event, &replay.state, cx)
        }
        _ => return None,
    };
    premise.err().map(|premise| (rule, premise))
}

/// Whether a step changes what is known of policies, or what is listed.
fn changes_policies(action: &Action, taken: &Step) -> bool {
    let is_listing = matches!(
        action,
        Action::Receive(Message { body: Body::UploadPolicy { .. } | Body::WithdrawPolicy { .. }, .. })
    );
    is_listing || taken.events.iter().any(|event| matches!(event, Event::Request { .. } | Event::Retract { .. }))
}

/// Takes the step along the edge that it looks like, whatever the guards say.
#[cold]
fn force(
    replay: &mut Replay,
    step: &trace::Step,
    (graph, instance): (&Graph<'_>, &mut Instance),
    action: &Action,
    cx: &Context<'_>,
) -> Option<Step> {
    let looks_like = |edge: &Edge<'_>| {
        let is_here = edge.from.is_none_or(|from| from == step.from) && edge.to.unwrap_or(step.from) == step.to;
        is_here && edge.label == action.label()
    };
    let candidates = graph.edges.iter().enumerate().filter(|(_, edge)| looks_like(edge));
    let (edge, _) = candidates.max_by_key(|(_, edge)| edge.effects.len())?;
    let taken = take(graph, edge, instance, &mut replay.device, action, cx);
    instance.location = step.to;
    taken
}

/// Takes the device's word for where it stands after something that was wrong.
#[cold]
fn adopt(replay: &mut Replay, step: &Step, came_with: &Evidence) {
    replay.state.clone_from(&replay.device.state);
    let held = &replay.state.received;
    replay.ghosts.provenance.retain(|receipt, _| held.contains(receipt));
    for event in &step.events {
        if let Event::Send(delivery) | Event::Transfer(delivery) = event {
            let receipt = delivery.handover.receipt();
            let epoch = replay.device.memory.released.get(&receipt).copied().unwrap_or_default();
            let provenance = came_with.provenance.unwrap_or_else(|| presumed(&receipt, epoch));
            replay.ghosts.provenance.insert(receipt, provenance);
            replay.presumed.insert(receipt);
        }
    }
}

/// What the record says beyond the action itself: what the message took along.
fn unlike(replay: &mut Replay, step: &trace::Step, taken: &Step, world: &World<'_>) -> Option<Wrong> {
    let wrong = |premise: &str, because: &str| {
        Some(Wrong { rule: rules::GRAPH.into(), premise: premise.into(), because: because.into() })
    };
    match (&step.action, &taken.message) {
        (SaidAction::Receive(said, _), _) => match &said.body {
            Said::DownloadPolicies { catalogue, .. } if !replay.is_catalogue(catalogue, true, world) => {
                wrong("π = Π", "and what it knows then is not what was listed")
            }
            _ => None,
        },
        (SaidAction::Send(said), Some(message)) => match (&said.body, &message.body) {
            (Said::Send(said), Body::Send(release)) | (Said::Broadcast(said), Body::Broadcast(release))
                if said.epoch != release.epoch =>
            {
                wrong("epoch", "with another epoch than that of the release")
            }
            (Said::Withdraw { withdrawal: said, .. }, Body::Withdraw { withdrawal, .. }) if said != withdrawal => {
                wrong("withdrawal", "taking back another part than it had released")
            }
            (Said::DownloadPolicies { catalogue, .. }, _) if !replay.is_catalogue(catalogue, false, world) => {
                wrong("Π", "handing out other policies than it lists")
            }
            _ => None,
        },
        _ => None,
    }
}

/// The step by the rules, and whether they lead where the graph led.
fn judge(
    replay: &mut Replay,
    instance: &Instance,
    action: &Action,
    taken: &Step,
    came_with: &Evidence,
    cx: &Context<'_>,
) -> Result<Evidence, Violation> {
    let Replay { device, state, ghosts, .. } = replay;
    let evidence = refines(&Taken { device, instance, action, step: taken }, state, ghosts, came_with, cx)?;
    let mut is_same = true;
    let mut has_policies = false;
    for event in &taken.events {
        match event {
            Event::Send(Delivery { handover, .. }) | Event::Transfer(Delivery { handover, .. }) => {
                is_same &= is_same_item(handover.item, state, &device.state);
            }
            Event::Erase { item, .. } => is_same &= is_same_item(*item, state, &device.state),
            Event::Own { .. } | Event::Request { .. } | Event::Retract { .. } => has_policies = true,
        }
    }
    is_same &= !has_policies || state.policies == device.state.policies;
    if is_same { Ok(evidence) } else { Err(Violation::Difference) }
}

fn is_same_item(item: ItemId, one: &DeviceState, other: &DeviceState) -> bool {
    one.receipts_of(item).eq(other.receipts_of(item)) && one.value(item) == other.value(item)
}

/// What the checker found wrong, in the words of the report.
#[cold]
fn wrong_by(violation: &Violation, action: &Action, world: &World<'_>) -> Wrong {
    let owner = words::owner(action.item(), world);
    let wrong = |rule: &str, premise: String, because: String| Wrong { rule: rule.into(), premise, because };
    let by_rule = |rule: &str, premise: &Premise| wrong(rule, premise.to_string(), words::premise(premise, owner));
    match violation {
        Violation::Claim(premise) => {
            let is_owner = action.item().and_then(|item| world.directory.item(item)).map(|item| item.owner)
                == action.message().map(|message| message.sender);
            let rule = match action.message().map(|message| &message.body) {
                Some(Body::Send(_) | Body::Broadcast(_)) if is_owner => rules::SEND,
                Some(Body::Send(_) | Body::Broadcast(_)) => rules::TRANSFER,
                _ => rules::R1,
            };
            by_rule(rule, premise)
        }
        Violation::Unvouched(Event::Request { sender, policy, .. }) => {
            let because = format!(
                "among them policy {} of {}, under which that has not said that it works",
                words::policy(*policy, world),
                world.name(*sender)
            );
            wrong(rules::R1, Premise::SenderHasPolicy.to_string(), because)
        }
        Violation::Unvouched(_) => wrong(rules::MESSAGE, ENDS.into(), "which nobody had sent".into()),
        Violation::Event(event, premise) => {
            let rule = match event {
                Event::Request { replaced: Some(_), .. } => rules::R2,
                Event::Send(_) => rules::SEND,
                Event::Transfer(_) => rules::TRANSFER,
                _ => rules::R1,
            };
            by_rule(rule, premise)
        }
        Violation::Difference => wrong(rules::STATE, words::STATE.into(), "and ended in another state".into()),
        Violation::Undone(undone) => wrong(rules::GRAPH, undone.to_string(), format!("but {undone}")),
        Violation::Requirement(requirement, _) => {
            wrong(&requirement.to_string(), requirement.to_string(), words::requirement(*requirement, owner))
        }
    }
}

/// The requirements that what was received does not meet. Deadlines are watched as time goes by.
fn unmet(replay: &Replay, taken: &Step, cx: &Context<'_>, world: &World<'_>) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    for event in &taken.events {
        let (Event::Send(delivery) | Event::Transfer(delivery)) = event else { continue };
        let receipt = delivery.handover.receipt();
        let is_presumed = replay.presumed.contains(&receipt);
        for requirement in Requirement::ALL {
            let is_judged = match requirement {
                Requirement::StorageLimitation => false,
                Requirement::Withdrawal => true,
                Requirement::Compliance | Requirement::InformedCollection | Requirement::InformedTransfer => {
                    !is_presumed
                }
            };
            if is_judged && !requirement.holds(&receipt, &replay.ghosts, 0, cx) {
                wrong.push(wrong_by(
                    &Violation::Requirement(requirement, receipt),
                    &Action::Expire { item: receipt.item },
                    world,
                ));
            }
        }
    }
    wrong
}
