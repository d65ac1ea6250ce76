//! Wrong variants: graphs, and readings of the paper, that look right and are not. The checker must refuse each of them.

use std::fmt;

use pilot_core::graph::{Edge, Effect, Graph, Guard, Label, MessageKind, Mistake};
use pilot_core::semantics::{Context, DeviceState, Event, Receipt, Requirement, rules};
use pilot_core::vocabulary::DeviceId;

use crate::refine::Violation;
use crate::scenario::{Opaque, Role, Scenario};
use crate::system::Network;
use crate::verify::{Cast, Kind, Settings};

/// A wrong variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// S1: transfers when p_dc' ⊑ p_i, as Fig. 3b prints it.
    PrintedTransferGuard,
    /// S2: every received item is bound by a policy ⊑ the owner's.
    PrintedRequirement1,
    /// S3: Fig. 4c filters by p ⊑ p_dc and does not ask whom a broadcast names.
    NoAddressee,
    /// S5: the sender's premises are judged when the message arrives.
    PremisesAtReceive,
    /// S10: ⊑ ignores the conditions of transfer rules.
    PrintedTransferConditions,
    /// S16: a controller sends what it collected, as if it owned it.
    ResendByCollector,
    /// S20: the controller's policy is in the owner's policy base now, rather than at release.
    PrintedRequirement2,
    /// Requirement 5: a withdraw notice leaves nothing behind.
    NoTombstone,
    /// q ⊑ p in place of p ⊑ q.
    FlippedSubsumption,
    /// Nobody compares policies.
    NoPolicyCheck,
}

impl Variant {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::PrintedTransferGuard,
        Self::PrintedRequirement1,
        Self::NoAddressee,
        Self::PremisesAtReceive,
        Self::PrintedTransferConditions,
        Self::ResendByCollector,
        Self::PrintedRequirement2,
        Self::NoTombstone,
        Self::FlippedSubsumption,
        Self::NoPolicyCheck,
    ];

    /// What it is called on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PrintedTransferGuard => "printed-transfer-guard",
            Self::PrintedRequirement1 => "printed-requirement-1",
            Self::NoAddressee => "no-addressee",
            Self::PremisesAtReceive => "premises-at-receive",
            Self::PrintedTransferConditions => "printed-transfer-conditions",
            Self::ResendByCollector => "resend-by-collector",
            Self::PrintedRequirement2 => "printed-requirement-2",
            Self::NoTombstone => "no-tombstone",
            Self::FlippedSubsumption => "flipped-subsumption",
            Self::NoPolicyCheck => "no-policy-check",
        }
    }

    /// The model that refutes it, of the kind asked for if there is one.
    pub fn refuting_model(self, kind: Option<Kind>) -> Settings {
        let usual = if self == Self::NoAddressee { Kind::Indirect } else { Kind::Direct };
        let two_policies = Opaque { policies: 2, ..Opaque::default() };
        let one_controller = Opaque { controllers: 1, ..two_policies.clone() };
        let scenario = |name: &str| Cast::Scenario(name.to_string());
        let cast = match self {
            Self::PrintedTransferGuard => scenario("alphabet"),
            Self::PrintedRequirement1 => scenario("flights"),
            Self::PrintedTransferConditions => scenario("mall"),
            Self::NoAddressee => Cast::Opaque(two_policies),
            Self::PremisesAtReceive => Cast::Opaque(Opaque { subject_changes: 1, ..one_controller }),
            Self::ResendByCollector => {
                Cast::Opaque(Opaque { controller_changes: 1, order: String::new(), ..two_policies })
            }
            Self::PrintedRequirement2 => Cast::Opaque(Opaque { controller_changes: 1, ..one_controller }),
            Self::NoTombstone => {
                Cast::Opaque(Opaque { policies: 1, order: String::new(), withdrawals: true, ..one_controller })
            }
            Self::FlippedSubsumption | Self::NoPolicyCheck => Cast::Opaque(one_controller),
        };
        let network = if self == Self::NoTombstone { Network::Duplicating } else { Network::Once };
        Settings { network, ..Settings::new(kind.unwrap_or(usual), cast) }
    }

    /// Changes the graphs of a scenario, if the variant is about graphs.
    pub fn apply(self, scenario: &mut Scenario) {
        let send = Label::Send(MessageKind::Send);
        for party in &mut scenario.parties {
            let mistake = |guard, mistake| replace_guard(&party.graph, guard, Some(Guard::Mistaken(mistake)));
            party.graph = match (self, party.role) {
                (Self::PrintedTransferGuard, Role::Controller) => {
                    mistake(Guard::WithinTransferRule, Mistake::WithinReceived)
                }
                (Self::NoAddressee, Role::Controller) => replace_guard(&party.graph, Guard::AddressedToMe, None),
                (Self::PrintedTransferConditions, Role::Subject) => {
                    mistake(Guard::WithinOwn, Mistake::WithinOwnUnconditionally)
                }
                (Self::ResendByCollector, Role::Controller) => {
                    replace_guard(&party.graph, Guard::WithinTransferRule, Some(Guard::WithinOwn))
                }
                (Self::NoTombstone, Role::Controller) => map_edges(&party.graph, |edge| {
                    let kept = edge.effects.iter().copied().filter(|effect| *effect != Effect::LeaveTombstone);
                    Edge { effects: kept.collect::<Vec<_>>().leak(), ..*edge }
                }),
                (Self::FlippedSubsumption, Role::Subject) => mistake(Guard::WithinOwn, Mistake::CoversOwn),
                (Self::NoPolicyCheck, Role::Subject) => replace_guard(&party.graph, Guard::WithinOwn, None),
                (Self::NoPolicyCheck, Role::Controller) => map_edges(&party.graph, |edge| match edge.label == send {
                    true => without_guard(edge, Guard::WithinTransferRule, None),
                    false => *edge,
                }),
                _ => party.graph,
            };
        }
    }

    /// The wrong reading, if the variant is about the requirements or premises.
    pub const fn state_check(self) -> Option<StateCheck> {
        match self {
            Self::PrintedRequirement1 => Some(StateCheck::Requirement1),
            Self::PrintedRequirement2 => Some(StateCheck::Requirement2),
            Self::PremisesAtReceive => Some(StateCheck::PremisesAtReceive),
            _ => None,
        }
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// A graph with other edges. The table stays for as long as the process: there are few, and they are small.
pub fn map_edges(graph: &Graph<'static>, change: impl Fn(&Edge<'static>) -> Edge<'static>) -> Graph<'static> {
    Graph { edges: graph.edges.iter().map(change).collect::<Vec<_>>().leak(), ..*graph }
}

/// A graph in which one guard gives way to another, or to none, wherever it occurs.
fn replace_guard(graph: &Graph<'static>, guard: Guard, by: Option<Guard>) -> Graph<'static> {
    map_edges(graph, |edge| without_guard(edge, guard, by))
}

fn without_guard(edge: &Edge<'static>, guard: Guard, by: Option<Guard>) -> Edge<'static> {
    let new = |known: Guard| if known == guard { by } else { Some(known) };
    let guards: Vec<Guard> = edge.guards.iter().filter_map(|known| new(*known)).collect();
    let also: Vec<(&str, Guard)> = edge.also.iter().filter_map(|(why, known)| Some((*why, new(*known)?))).collect();
    Edge { guards: guards.leak(), also: also.leak(), ..*edge }
}

/// A property of a state or a step that needs the states of several devices. Ours need none: these are as printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateCheck {
    /// ∀ (_, i, p_i) ∈ ρ_dc · p_i ⊑ p_owner(i).
    Requirement1,
    /// ∀ (owner(i), i, p_i) ∈ ρ_dc · (dc, p_i) ∈ π_owner(i).
    Requirement2,
    /// What a sender vouches for is so when its message arrives.
    PremisesAtReceive,
}

impl StateCheck {
    /// What is wrong after a step with these events.
    pub fn violation<'d>(
        self,
        events: &[Event],
        state: &dyn Fn(DeviceId) -> Option<&'d DeviceState>,
        scenario: &Scenario,
        cx: &Context<'_>,
    ) -> Option<Violation> {
        if self == Self::PremisesAtReceive {
            return events.iter().filter(|event| matches!(event, Event::Send(_) | Event::Transfer(_))).find_map(
                |event| {
                    let claim = event.claim()?;
                    let premise = rules::claim(&claim, state(claim.sender())?, cx).err()?;
                    Some(Violation::Event(event.clone(), premise))
                },
            );
        }
        let controllers = scenario.parties.iter().filter(|party| party.role == Role::Controller);
        controllers.map(|party| party.device).find_map(|controller| {
            let broken = state(controller)?.received.iter().find(|receipt| {
                let owner = cx.owner(receipt.item);
                owner.and_then(state).is_some_and(|owner| !self.holds(receipt, controller, owner, cx))
            })?;
            let requirement = match self {
                Self::Requirement1 => Requirement::Compliance,
                Self::Requirement2 | Self::PremisesAtReceive => Requirement::InformedCollection,
            };
            Some(Violation::Requirement(requirement, *broken))
        })
    }

    fn holds(self, receipt: &Receipt, controller: DeviceId, owner: &DeviceState, cx: &Context<'_>) -> bool {
        let Some(device) = cx.owner(receipt.item) else { return false };
        match self {
            Self::Requirement1 => owner.policies_of(device).any(|own| cx.subsumes(receipt.policy, own)),
            _ => receipt.sender != device || owner.knows(controller, receipt.policy),
        }
    }
}
