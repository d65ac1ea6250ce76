//! What she asks and decides, over the control socket: one JSON object each way.
//!
//! | `command` | parameters | answer |
//! | --- | --- | --- |
//! | `status` | | how things are |
//! | `decide` | | each controller known: yes or no, and why |
//! | `withdraw` | `controller`, optional | from whom |
//! | `admit` | `controller` | whom |
//! | `reload` | | who holds something that she would not give any more |

use std::collections::BTreeSet;

use mesh_runtime::daemon::control::Asked;
use mesh_runtime::driver::run::Host as _;
use mesh_runtime::driver::{Decision, DriveError, Driver, Fate, RecordError};
use mesh_runtime::journal::Journal;
use pilot_core::diagnostic::Quoted;
use pilot_core::evidence::DeviceName;
use pilot_core::evidence::mesh::Role;
use pilot_core::graph::Label;
use pilot_core::graph::message::Withdrawal;
use pilot_core::semantics::Epoch;
use pilot_core::value::Time;
use pilot_core::vocabulary::{DeviceId, Entity};
use serde_json::{Value, json};

use super::Gateway;
use crate::decide;

/// Why a command is not done.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    /// She is told why.
    #[error("{0}")]
    Refused(String),
    /// The driver cannot go on, or not now.
    #[error(transparent)]
    Drive(#[from] DriveError),
}

/// A controller, as answers name it.
struct Party {
    controller: Option<DeviceName>,
    entity: Option<String>,
}

impl From<Party> for Value {
    fn from(party: Party) -> Self {
        json!({ "controller": party.controller.as_ref().map(DeviceName::as_str), "entity": party.entity })
    }
}

impl Gateway<'_> {
    /// Does what is asked and answers, also when it fails.
    pub(super) fn answer(
        &mut self,
        asked: Asked,
        driver: &mut Driver<'_, Journal>,
        now: Time,
    ) -> Result<(), DriveError> {
        match self.obey(&asked.request, driver, now) {
            Ok(answer) => asked.answer(answer),
            Err(Trouble::Refused(reason)) => asked.refuse(reason),
            Err(Trouble::Drive(error)) => {
                asked.refuse(&error);
                return Err(error);
            }
        }
        Ok(())
    }

    fn obey(&mut self, request: &Value, driver: &mut Driver<'_, Journal>, now: Time) -> Result<Value, Trouble> {
        let controller = match request.get("controller") {
            None | Some(Value::Null) => None,
            Some(Value::String(name)) => Some(name.as_str()),
            Some(_) => return Err(Trouble::Refused("`controller` is a name".to_owned())),
        };
        if !self.is_started {
            return Err(Trouble::Refused("the gateway has not begun: is the clock right?".to_owned()));
        }
        match (request.get("command").and_then(Value::as_str), controller) {
            (Some("status"), None) => Ok(self.status(driver, now)),
            (Some("decide"), None) => Ok(self.decisions(driver, now)),
            (Some("withdraw"), controller) => self.withdraw(controller, driver, now),
            (Some("admit"), Some(controller)) => self.admit(controller, driver, now),
            (Some("reload"), None) => {
                self.look(driver, now, true);
                let reloaded = self.reload(driver, now)?;
                // Policies are asked for as well.
                self.is_news = true;
                Ok(reloaded)
            }
            _ => Err(Trouble::Refused(
                "the commands are `status`, `decide`, `withdraw`, `admit` with a controller, and `reload`".to_owned(),
            )),
        }
    }

    fn status(&self, driver: &mut Driver<'_, Journal>, now: Time) -> Value {
        let advertised = self.advertised_for(driver, now);
        let advertised: Vec<Value> = advertised.into_iter().map(|id| self.party(id, driver, now).into()).collect();
        let refused = driver.device().memory.refused.iter();
        let refused: Vec<&str> = refused.map(|entity| self.about.vocabulary.entities.name(*entity)).collect();
        let age = self.catalogue.completed().map(|time| now.unix().saturating_sub(time.unix()));
        let waiting: Vec<&str> = self.remembered.notices.keys().map(|name| name.as_str()).collect();
        let policies = driver.device().state.policies.iter().filter(|(of, _)| *of != driver.device().id).count();
        let accepted = self.accepted(driver, now).iter().filter(|(_, decision)| decision.accepted).count();
        let withdrawn = driver.device().memory.tombstones.get(&self.about.item);
        let just_withdrawn = withdrawn.is_some_and(|withdrawn| Epoch::of(now) <= withdrawn.epoch);
        json!({
            "connected": self.is_connected,
            "radio": self.radio.health.is_up(),
            "mesh_in_force": self.is_in_force,
            "repository": self.repository.name.as_str(),
            "location": Self::location(driver).to_string(),
            "policies": { "count": policies, "revision": self.catalogue.head(), "age_seconds": age },
            "own_policies": self.own.policies().len(),
            "accepted": accepted,
            "just_withdrawn": just_withdrawn,
            "advertising": advertised,
            "refused_entities": refused,
            "notices_waiting": waiting,
            "complaints": self.post.complaints.counts(),
        })
    }

    fn party(&self, id: DeviceId, driver: &mut Driver<'_, Journal>, now: Time) -> Party {
        let controller = driver.recorder().names.name_of(id).cloned();
        let entity = driver.context(now).directory.entity(id);
        Party { controller, entity: entity.map(|entity| self.about.vocabulary.entities.name(entity).to_owned()) }
    }

    /// Every controller in π, with yes or no.
    fn accepted(&self, driver: &Driver<'_, Journal>, now: Time) -> Vec<(DeviceId, decide::Decision)> {
        let (device, context) = (driver.device(), driver.context(now));
        let others = device.state.policies.iter().filter(|(of, _)| *of != device.id);
        let decision = |(controller, policy): &(DeviceId, _)| {
            let (item, controller, policy) = (self.about.item, *controller, *policy);
            let question = decide::Question { device, item, controller, policy, context };
            (controller, decide::why(&question, self.own.policies()))
        };
        others.map(decision).collect()
    }

    fn decisions(&self, driver: &mut Driver<'_, Journal>, now: Time) -> Value {
        let decided = self.accepted(driver, now);
        let described = decided.into_iter().map(|(controller, decision)| {
            let Party { controller, entity } = self.party(controller, driver, now);
            let expired = controller.as_ref().and_then(|name| self.no_longer_stated(name, now));
            let accepted = decision.accepted && expired.is_none();
            let (device, why) = (controller.as_ref().map(DeviceName::as_str), expired.unwrap_or(decision.why));
            json!({ "controller": device, "entity": entity, "accepted": accepted, "why": why })
        });
        json!({ "decisions": described.collect::<Vec<_>>() })
    }

    /// Why the statement behind a policy does not count any more.
    fn no_longer_stated(&self, name: &DeviceName, now: Time) -> Option<String> {
        let device = self.membership.mesh().device(name.as_str());
        let Some(device) = device else { return Some("it is no device of the mesh any more".to_owned()) };
        if let Err(invalid) = device.check_valid(now) {
            return Some(format!("it may not act: {invalid}"));
        }
        let is_stated = self.catalogue.offer(name).is_some_and(|offer| now < offer.expires);
        (!is_stated).then(|| "its statement has expired".to_owned())
    }

    /// Takes back what was released to a controller and to whoever else is of its entity, or to everybody.
    fn withdraw(
        &mut self,
        controller: Option<&str>,
        driver: &mut Driver<'_, Journal>,
        now: Time,
    ) -> Result<Value, Trouble> {
        let recipients: BTreeSet<DeviceId> =
            driver.device().memory.recipients_of(self.about.item).map(|(id, _)| id).collect();
        let from: BTreeSet<DeviceId> = match controller {
            None => {
                let accepted = self.accepted(driver, now).into_iter().filter(|(_, decision)| decision.accepted);
                recipients.into_iter().chain(accepted.map(|(id, _)| id)).collect()
            }
            Some(name) => {
                let (entity, devices) = self.whom(name, driver)?;
                let directory = driver.context(now).directory;
                // She refuses the entity as a whole from now on, so all of it that may have the item is told.
                let is_of_entity = |id: &DeviceId| {
                    directory.entity(*id).is_some_and(|of| self.about.vocabulary.entities.le(of, entity))
                };
                devices.into_iter().chain(recipients.into_iter().filter(is_of_entity)).collect()
            }
        };
        let mut told = Vec::new();
        for controller in from {
            let outcome = driver.decide(Decision::Withdraw { controller }, now)?;
            if outcome.steps.iter().any(|taken| matches!(taken.action.label(), Label::Send(_))) {
                told.push(Value::from(self.party(controller, driver, now)));
            }
            self.happened(outcome, driver);
        }
        self.persist(driver, now)?;
        tracing::info!(notices = told.len(), "withdrawn");
        let missing: Vec<&str> = match controller {
            None => self.remembered.unknown_recipients().collect(),
            Some(_) => Vec::new(),
        };
        Ok(json!({
            "withdrawn_from": told,
            "notices_waiting": self.remembered.notices.len(),
            "not_in_the_mesh": missing,
        }))
    }

    /// An entity and its controllers' devices, by the name of either.
    fn whom(&self, name: &str, driver: &mut Driver<'_, Journal>) -> Result<(Entity, Vec<DeviceId>), Trouble> {
        let (mesh, entities) = (self.membership.mesh(), &self.about.vocabulary.entities);
        let names = &driver.recorder().names;
        if let Some(device) = mesh.device(name) {
            if device.role != Role::Controller {
                return Err(Trouble::Refused(format!("`{}` is no controller", device.name)));
            }
            let known = names.id_of(&device.name).and_then(|id| Some((entities.id(&device.entity)?, vec![id])));
            return known.ok_or_else(|| Trouble::Refused(format!("`{}` is known after a restart", device.name)));
        }
        let Some(entity) = entities.id(name) else {
            let shown = Quoted::new(name);
            let hint = mesh.device_hint(name);
            return Err(Trouble::Refused(format!("there is neither a device nor an entity {shown}{hint}")));
        };
        let controllers = mesh.devices().iter().filter(|device| device.role == Role::Controller);
        let of_it = controllers.filter(|device| entities.id(&device.entity).is_some_and(|of| entities.le(of, entity)));
        let devices: Vec<DeviceId> = of_it.filter_map(|device| names.id_of(&device.name)).collect();
        if devices.is_empty() {
            return Err(Trouble::Refused(format!("no controller of `{name}` is in the mesh")));
        }
        Ok((entity, devices))
    }

    /// Lets a controller have data again.
    fn admit(&mut self, name: &str, driver: &mut Driver<'_, Journal>, now: Time) -> Result<Value, Trouble> {
        let entities = &self.about.vocabulary.entities;
        let entity = match entities.id(name) {
            Some(entity) if self.membership.mesh().device(name).is_none() => entity,
            _ => self.whom(name, driver)?.0,
        };
        let was_refused = driver.device().memory.refused.contains(&entity);
        let outcome = driver.decide(Decision::Admit { entity }, now)?;
        self.happened(outcome, driver);
        self.persist(driver, now)?;
        let still = driver.device().memory.refused.iter().filter(|refused| entities.le(entity, **refused));
        let still: Vec<&str> = still.map(|refused| entities.name(*refused)).collect();
        Ok(json!({ "admitted": entities.name(entity), "was_refused": was_refused, "still_refused": still }))
    }

    /// Reads her policies again. Nothing is withdrawn by that: she is told who may hold what she no longer accepts.
    fn reload(&mut self, driver: &mut Driver<'_, Journal>, now: Time) -> Result<Value, Trouble> {
        let again = self.own.read_again(self.about.vocabulary);
        let again = again.map_err(|error| Trouble::Refused(format!("{error}\nyour policies are as they were")))?;
        let before = std::mem::replace(&mut self.own, again);
        let own = self.own_ids(driver).map_err(|error| DriveError::from(RecordError::new(error)))?;
        let outcome = match driver.decide(Decision::ChangeOwn { own }, now) {
            Ok(outcome) => outcome,
            Err(error) => {
                self.own = before;
                return Err(error.into());
            }
        };
        if let Fate::Full(limit) = outcome.fate {
            self.own = before;
            return Err(Trouble::Refused(format!("{limit}; your policies are as they were")));
        }
        self.happened(outcome, driver);
        let holding = self.not_covered(driver, now);
        let holding: Vec<Value> = holding.into_iter().map(|id| self.party(id, driver, now).into()).collect();
        tracing::info!(policies = self.own.policies().len(), "own policies were read again");
        Ok(json!({ "own_policies": self.own.policies().len(), "may_still_hold": holding }))
    }

    /// Who may hold the item although she would not release it to them now. Whoever was told to erase is not among them.
    fn not_covered(&self, driver: &Driver<'_, Journal>, now: Time) -> Vec<DeviceId> {
        let accepted = self.accepted(driver, now).into_iter().filter(|(_, decision)| decision.accepted);
        let accepted: BTreeSet<DeviceId> = accepted.map(|(id, _)| id).collect();
        let (memory, directory) = (&driver.device().memory, driver.context(now).directory);
        let entities = &self.about.vocabulary.entities;
        let was_told = |id: DeviceId| {
            let entity = directory.entity(id);
            entity.is_some_and(|entity| memory.refused.iter().any(|refused| entities.le(entity, *refused)))
        };
        // What was taken back up to an epoch is gone, or a notice says so until it is.
        let withdrawn = memory.tombstones.get(&self.about.item).map(|withdrawn| withdrawn.epoch);
        let is_given = |span: &Withdrawal| now < span.until && withdrawn.is_none_or(|epoch| span.epoch > epoch);
        let holding = memory.recipients_of(self.about.item).filter(|(_, span)| is_given(span)).map(|(id, _)| id);
        holding.filter(|id| !accepted.contains(id) && !was_told(*id)).collect()
    }
}
