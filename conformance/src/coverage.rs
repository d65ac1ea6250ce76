//! Which edges and events an exploration has seen: a verdict about a model in which nothing happens says nothing.

use pilot_core::graph::{Edge, Graph, Label, MessageKind};
use pilot_core::semantics::Event;

use crate::scenario::{Party, Role, Scenario};

/// A set of edges, per role, and of kinds of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Coverage {
    edges: [u32; ROLES.len()],
    events: u32,
}

const ROLES: [Role; 3] = [Role::Subject, Role::Controller, Role::Repository];

const EVENTS: [&str; 7] = ["own", "request (R1)", "request (R2)", "retract", "send", "transfer", "erase"];

impl Coverage {
    /// Adds an edge of a role's graph and the events of its step.
    pub fn add(&mut self, role: Role, edge: usize, events: &[Event]) {
        if let Some(seen) = ROLES.iter().zip(&mut self.edges).find(|(known, _)| **known == role).map(|(_, seen)| seen) {
            *seen |= 1 << edge;
        }
        self.add_events(events);
    }

    /// Adds kinds of events.
    pub fn add_events(&mut self, events: &[Event]) {
        for event in events {
            self.events |= 1 << kind(event);
        }
    }

    /// Adds what another has seen.
    pub fn merge(&mut self, other: &Self) {
        self.events |= other.events;
        for (seen, more) in self.edges.iter_mut().zip(other.edges) {
            *seen |= more;
        }
    }

    /// Numbers that tell sets apart.
    pub fn as_numbers(&self) -> [u32; 4] {
        let [subject, controller, repository] = self.edges;
        [subject, controller, repository, self.events]
    }

    /// Whether an edge of a role's graph was taken.
    pub fn has_edge(&self, role: Role, edge: usize) -> bool {
        ROLES.iter().zip(self.edges).any(|(known, seen)| *known == role && seen & (1 << edge) != 0)
    }

    /// What a model of these graphs must show and did not: the events of Table 2, every edge of its figures, and those
    /// of S8 that a running system needs.
    pub fn missing(&self, scenario: &Scenario, with_graphs: bool) -> Vec<String> {
        let events = EVENTS.iter().enumerate().filter(|(at, name)| {
            let of_table_2 = !matches!(**name, "request (R2)" | "retract" | "erase");
            of_table_2 && self.events & (1 << at) == 0
        });
        let mut missing: Vec<String> = events.map(|(_, name)| format!("event {name}")).collect();
        for role in ROLES.into_iter().filter(|_| with_graphs) {
            let Some(party) = scenario.parties.iter().find(|party| party.role == role) else { continue };
            let graph = &party.graph;
            let untaken = graph
                .edges
                .iter()
                .enumerate()
                .filter(|(at, edge)| is_needed(edge, party, scenario) && !self.has_edge(role, *at));
            missing.extend(untaken.map(|(at, _)| edge_name(graph, at)));
        }
        missing
    }
}

/// What is beyond the figures is needed where the model lets it happen.
fn is_needed(edge: &Edge<'_>, party: &Party, scenario: &Scenario) -> bool {
    let clocks_go = scenario.times.len() > 1;
    match edge.label {
        Label::ChangeOwn => party.changes > 0,
        Label::Restore => party.restarts > 0,
        Label::Expire => clocks_go,
        Label::Forget => scenario.withdrawals && clocks_go,
        Label::Admit
        | Label::Send(MessageKind::Withdraw | MessageKind::WithdrawPolicy)
        | Label::Receive(MessageKind::Withdraw | MessageKind::WithdrawPolicy) => scenario.withdrawals,
        _ => matches!(edge.beyond, None | Some("S8")),
    }
}

const fn kind(event: &Event) -> usize {
    match event {
        Event::Own { .. } => 0,
        Event::Request { replaced: None, .. } => 1,
        Event::Request { .. } => 2,
        Event::Retract { .. } => 3,
        Event::Send(_) => 4,
        Event::Transfer(_) => 5,
        Event::Erase { .. } => 6,
    }
}

/// An edge, by its figure, ends, label, and the reason why it is there if the figure does not have it.
pub fn edge_name(graph: &Graph<'_>, at: usize) -> String {
    let Some(edge) = graph.edges.get(at) else { return format!("Fig. {} edge {at}", graph.figure) };
    let place = |location: Option<pilot_core::graph::Location>| location.map_or("·".to_string(), |l| l.to_string());
    let reason = edge.beyond.map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("Fig. {} {} {} {}{reason}", graph.figure, place(edge.from), edge.label, place(edge.to))
}
