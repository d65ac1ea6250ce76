//! One checked step: what a step of a graph means, judged against the abstract semantics.
//!
//! α maps a device to its share of ⟨ν, π, ρ⟩. The step's claim is judged on α(s); its events are judged and applied to
//! α(s), one after the other; the result must be α(s'), and what is held then must meet the requirements. A step
//! changes one device, so only that device is looked at: a step costs the same in a large system.

use pilot_core::graph::Step;
use pilot_core::semantics::rules::{self, Premise};
use pilot_core::semantics::{Context, DeviceState, Event, Ghosts, Provenance, Receipt, Requirement};

/// A step that the abstract semantics does not allow, or a requirement that does not hold after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// What the sender vouched for is not so.
    Claim(Premise),
    /// An event that the step stands for is not allowed.
    Event(Event, Premise),
    /// The events lead to another state than the step.
    Difference,
    /// A requirement does not hold for something that is held.
    Requirement(Requirement, Receipt),
}

impl Violation {
    /// The verdict that it decides: `refinement` or `requirement-N`.
    pub fn property(&self) -> String {
        match self {
            Self::Claim(_) | Self::Event(..) | Self::Difference => "refinement".to_string(),
            Self::Requirement(requirement, _) => requirement.to_string(),
        }
    }
}

/// Checks a step and brings the ghosts up to date. Returns the provenance of what the step sends.
pub fn check(
    before: &DeviceState,
    after: &DeviceState,
    ghosts: &mut Ghosts,
    step: &Step,
    came_with: Option<Provenance>,
    cx: &Context<'_>,
) -> Result<Option<Provenance>, Violation> {
    let mut goes_with = None;
    if let Some(claim) = &step.claim {
        rules::claim(claim, before, cx).map_err(Violation::Claim)?;
        goes_with = claim.handover().and_then(|handover| rules::provenance(handover, before, ghosts, cx));
    }
    let mut expected = before.clone();
    for event in &step.events {
        rules::premises(event, &expected, cx).map_err(|premise| Violation::Event(event.clone(), premise))?;
        rules::apply(event, came_with, &mut expected, ghosts);
    }
    if expected != *after {
        return Err(Violation::Difference);
    }
    for requirement in Requirement::ALL {
        let broken = after.received.iter().find(|receipt| !requirement.holds(receipt, ghosts, 0, cx));
        if let Some(receipt) = broken {
            return Err(Violation::Requirement(requirement, *receipt));
        }
    }
    Ok(goes_with)
}
