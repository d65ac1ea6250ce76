//! What one device can do: a step reads and changes one device, and a message says everything else that it needs.
//!
//! A *cell* is all there is to know of one device: its variables, its graph instances, its clock, and its ghosts. The
//! functions here run the graphs on a cell, alone or with a message that has arrived, and judge every step. Whatever
//! explores a system is built on them.

use pilot_core::graph::message::Release;
use pilot_core::graph::{Action, Body, Device, Instance, Label, Message, MessageKind, enabled, offers, take};
use pilot_core::semantics::{Claim, Context, DeviceState, Event, Ghosts};
use pilot_core::subsumption::Judge;

use crate::coverage::Coverage;
use crate::refine::{Evidence, Taken, Violation, meets_requirements, refines};
use crate::scenario::{Party, Role, Scenario};

/// All there is to know of one device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cell {
    /// Which party it is.
    pub party: usize,
    /// Its variables.
    pub device: Device,
    /// Its graph instances.
    pub instances: Vec<Instance>,
    /// What its clock shows, by its place in the scenario's times.
    pub clock: usize,
    /// How often its user may still change her policies.
    pub changes: u8,
    /// How often it may still restart.
    pub restarts: u8,
    /// How what it holds came about.
    pub ghosts: Ghosts,
}

/// A message in transit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Transit {
    /// The message.
    pub message: Message,
    /// What goes with it.
    pub evidence: Evidence,
}

/// Something a cell can do.
#[derive(Debug, Clone)]
pub struct Move {
    /// What it is.
    pub deed: Deed,
    /// The cell after it.
    pub after: Cell,
    /// The message that it sends.
    pub sent: Option<Transit>,
    /// The abstract events that it stands for.
    pub events: Vec<Event>,
    /// What is wrong with it.
    pub violation: Option<Violation>,
    /// The edges and events that it is an example of.
    pub covers: Coverage,
}

/// What a cell does in a move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    /// An action of its graphs.
    Act(Action),
    /// Its clock goes on, and what is overdue is erased.
    Tick,
}

impl Cell {
    /// A party's device at the start.
    pub fn new(place: usize, party: &Party) -> Self {
        let mut device = Device::new(party.device);
        device.state.values.clone_from(&party.values);
        let instances = vec![Instance::new(&party.graph); party.items.len().max(1)];
        let (changes, restarts) = (party.changes, party.restarts);
        Self { party: place, device, instances, clock: 0, changes, restarts, ghosts: Ghosts::default() }
    }
}

/// Runs and judges the graphs of one scenario.
#[derive(Clone, Copy)]
pub struct Runner<'s> {
    /// Who takes part.
    pub scenario: &'s Scenario,
    /// Who judges.
    pub judge: &'s Judge<'s>,
}

/// An action of one instance; which edge it takes, where there is a choice.
type Act = (usize, Action, Option<usize>);

impl<'s> Runner<'s> {
    /// What judgements read, when a clock shows this.
    pub fn context(&self, clock: usize) -> Context<'s> {
        Context {
            judge: self.judge,
            directory: self.scenario.vocabulary.directory(),
            policies: &self.scenario.policies,
            contacts: &self.scenario.contacts,
            now: self.scenario.times.get(clock).copied().unwrap_or_default(),
            attested: None,
        }
    }

    /// Everything that a cell can do without a message.
    pub fn alone(&self, cell: &Cell) -> Vec<Move> {
        let mut moves = Vec::new();
        let Some(party) = self.scenario.parties.get(cell.party) else { return moves };
        self.decisions(cell, party, &mut moves);
        let cx = self.context(cell.clock);
        for (at, instance) in cell.instances.iter().enumerate() {
            let mut actions = offers(&party.graph, instance, &cell.device, &cx);
            if self.scenario.tries_everything {
                actions.extend(self.everything(cell).filter(|action| !actions.contains(action)).collect::<Vec<_>>());
            }
            for action in actions.into_iter().filter(|action| self.scenario.withdrawals || !is_withdrawal(action)) {
                for edge in enabled(&party.graph, instance, &cell.device, &action, &cx) {
                    let act = [(at, action.clone(), Some(edge))];
                    moves.extend(self.perform(cell, party, cell.clone(), &act, &Evidence::default()));
                }
            }
        }
        moves.extend(self.tick(cell, party));
        moves
    }

    /// Every a↑ but withdraw↑, and every housekeeping action, with any parameters: what a driver might try that does not
    /// keep to the graph's offers. (Withdrawing more than one has released is nobody's harm.)
    fn everything(&self, cell: &Cell) -> impl Iterator<Item = Action> {
        let sender = cell.device.id;
        let scenario = self.scenario;
        let items = || scenario.vocabulary.directory().items();
        let release = |item| scenario.policies.iter().map(move |(policy, _)| Release::new(item, policy));
        let bodies = move || {
            let with_policy = scenario.policies.iter().flat_map(|(policy, _)| {
                [Body::Request { policy }, Body::UploadPolicy { policy }, Body::WithdrawPolicy { policy }]
            });
            let with_item = items().flat_map(move |item| {
                release(item).flat_map(|release| [Body::Send(release.clone()), Body::Broadcast(release)])
            });
            let others = [Body::RequestPolicies, Body::DownloadPolicies { offers: Vec::new() }];
            with_policy.chain(with_item).chain(others)
        };
        let receivers = scenario.parties.iter().map(|party| party.device);
        let sends = receivers
            .flat_map(move |receiver| bodies().map(move |body| Action::Send(Message { sender, receiver, body })));
        sends.chain(items().flat_map(|item| [Action::Expire { item }, Action::Forget { item }]))
    }

    /// Everything that a cell can do with a message. It goes to the device once, and to all instances that can take it.
    pub fn receive(&self, cell: &Cell, transit: &Transit) -> Vec<Move> {
        let Some(party) = self.scenario.parties.get(cell.party) else { return Vec::new() };
        let cx = self.context(cell.clock);
        let action = Action::Receive(transit.message.clone());
        let mut choices: Vec<Vec<Act>> = vec![Vec::new()];
        for (at, instance) in cell.instances.iter().enumerate() {
            let edges: Vec<usize> = enabled(&party.graph, instance, &cell.device, &action, &cx).collect();
            if !edges.is_empty() {
                let along = |choice: &Vec<Act>, edge| [choice.as_slice(), &[(at, action.clone(), Some(edge))]].concat();
                choices = choices.iter().flat_map(|choice| edges.iter().map(|edge| along(choice, *edge))).collect();
            }
        }
        choices.retain(|acts| !acts.is_empty());
        choices.iter().filter_map(|acts| self.perform(cell, party, cell.clone(), acts, &transit.evidence)).collect()
    }

    /// What the user may decide: her policies, at first for all instances at once, and later if she may change them;
    /// and when the device restarts.
    fn decisions(&self, cell: &Cell, party: &Party, moves: &mut Vec<Move>) {
        if party.role == Role::Repository {
            return;
        }
        let nothing = Evidence::default();
        let is_new = cell.instances.iter().all(|instance| instance.location == party.graph.initial);
        if is_new {
            for own in &party.first_choices {
                let init = |item| Action::Init { own: own.clone(), item };
                moves.extend(self.perform(cell, party, cell.clone(), &for_each_item(party, init), &nothing));
            }
            return;
        }
        for own in party.choices.iter().filter(|own| cell.changes > 0 && !own.iter().eq(&cell.device.memory.current)) {
            let change = [(0, Action::ChangeOwn { own: own.clone() }, None)];
            let changed = Cell { changes: cell.changes - 1, ..cell.clone() };
            moves.extend(self.perform(cell, party, changed, &change, &nothing));
        }
        for entity in cell.device.memory.refused.iter().filter(|_| self.scenario.withdrawals) {
            let admit = [(0, Action::Admit { entity: *entity }, None)];
            moves.extend(self.perform(cell, party, cell.clone(), &admit, &nothing));
        }
        if cell.restarts > 0 && party.graph.edges.iter().any(|edge| edge.label == Label::Restore) {
            moves.extend(self.restart(cell, party));
        }
    }

    /// The device restarts with what it had written down: own policies, offers, and what it remembers of items.
    fn restart(&self, cell: &Cell, party: &Party) -> Option<Move> {
        let (device, me) = (&cell.device, cell.device.id);
        let own: Vec<_> = device.memory.current.iter().copied().collect();
        let offers: Vec<_> = device.state.policies.iter().copied().filter(|(of, _)| *of != me).collect();
        let listed =
            offers.iter().map(|(sender, policy)| Claim::Request { sender: *sender, policy: *policy }).collect();
        let mut fresh = Cell { restarts: cell.restarts - 1, clock: cell.clock, ..Cell::new(cell.party, party) };
        fresh.changes = cell.changes;
        fresh.device.memory.clone_from(&device.memory);
        fresh.device.memory.current.clear();
        let restore = |item| Action::Restore { own: own.clone(), item, offers: offers.clone() };
        let evidence = Evidence { listed, ..Evidence::default() };
        self.perform(&fresh, party, fresh.clone(), &for_each_item(party, restore), &evidence)
    }

    /// The clock goes on. Erasing what is overdue comes before everything else, so it is part of the same move.
    fn tick(&self, cell: &Cell, party: &Party) -> Option<Move> {
        self.scenario.times.get(cell.clock + 1)?;
        let later = Cell { clock: cell.clock + 1, ..cell.clone() };
        let (cx, instance) = (self.context(later.clock), later.instances.first()?);
        let offered = offers(&party.graph, instance, &later.device, &cx).into_iter();
        let sweep: Vec<Act> =
            offered.filter(|action| action.label() == Label::Expire).map(|action| (0, action, None)).collect();
        let done = self.perform(&later, party, later.clone(), &sweep, &Evidence::default())?;
        Some(Move { deed: Deed::Tick, ..done })
    }

    /// Takes actions one after the other as one move, and judges it. `None` if one of them cannot be taken.
    fn perform(
        &self,
        before: &Cell,
        party: &Party,
        mut after: Cell,
        acts: &[Act],
        came_with: &Evidence,
    ) -> Option<Move> {
        let cx = self.context(after.clock);
        let (mut events, mut sent, mut violation) = (Vec::new(), None, None);
        let mut covers = Coverage::default();
        let mut state: DeviceState = before.device.state.clone();
        for (at, action, edge) in acts {
            let instance = after.instances.get_mut(*at)?;
            let edge = edge.or_else(|| enabled(&party.graph, instance, &after.device, action, &cx).next())?;
            let step = take(&party.graph, edge, instance, &mut after.device, action, &cx)?;
            let (device, instance) = (&after.device, &*instance);
            let taken = Taken { device, instance, action, step: &step };
            match refines(&taken, &mut state, &mut after.ghosts, came_with, &cx) {
                Ok(_) if state != device.state => violation = violation.or(Some(Violation::Difference)),
                Ok(evidence) => sent = step.message.map(|message| Transit { message, evidence }),
                Err(found) => violation = violation.or(Some(found)),
            }
            covers.add(party.role, edge, &step.events);
            events.extend(step.events);
            state.clone_from(&after.device.state);
        }
        violation = violation.or_else(|| meets_requirements(&after.device.state, &after.ghosts, &cx).err());
        if !self.scenario.withdrawals {
            // Only withdraw notices ask who may have an item: without them, what is remembered of it is read by nothing.
            after.device.memory.recipients.clear();
        }
        let act = acts.first().map_or(Action::Tau, |(_, action, _)| action.clone());
        // A message as it leaves, with what the step put into it.
        let deed = Deed::Act(sent.as_ref().map_or(act, |transit: &Transit| Action::Send(transit.message.clone())));
        Some(Move { deed, after, sent, events, violation, covers })
    }
}

/// One action per item of the party, or one without an item.
fn for_each_item(party: &Party, action: impl Fn(Option<pilot_core::vocabulary::ItemId>) -> Action) -> Vec<Act> {
    let with_items = party.items.iter().enumerate().map(|(at, item)| (at, action(Some(*item)), None));
    if party.items.is_empty() { vec![(0, action(None), None)] } else { with_items.collect() }
}

fn is_withdrawal(action: &Action) -> bool {
    let kind = action.message().map(Message::kind);
    matches!(kind, Some(MessageKind::Withdraw | MessageKind::WithdrawPolicy))
}

impl Transit {
    /// Whether a party hears it: it is addressed to it, or a broadcast, which every controller hears.
    pub fn reaches(&self, party: &Party) -> bool {
        let is_broadcast = self.message.kind() == MessageKind::Broadcast;
        self.message.receiver == party.device || (is_broadcast && party.role == Role::Controller)
    }
}
