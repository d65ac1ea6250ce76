//! What the daemons say they did, with the demo's names in place of pseudonyms, as a table and as JSON.

use std::collections::BTreeMap;
use std::io::Write as _;

use conformance::audit::report::Report as Audited;
use consent_mesh::layout::Layout;
use dc_gateway::status::refusal_in_words;
use mesh_runtime::keys::secret_file;
use pilot_core::evidence::{AuditKey, Pseudonym};
use pilot_core::value::Time;
use serde_json::{Value, json};

use super::cast::{Cast, Person};
use crate::console::{Console, Failure};

/// Everybody's answers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Report {
    controllers: Vec<ControllerReport>,
    subjects: Vec<SubjectReport>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct ControllerReport {
    name: String,
    held: Vec<Held>,
    refused: BTreeMap<String, u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    subject: String,
    policy: String,
    until: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct SubjectReport {
    name: String,
    decisions: Vec<Decision>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Decision {
    controller: String,
    accepted: bool,
    why: String,
}

impl Report {
    /// Asks everybody.
    pub(super) fn gather(
        layout: &Layout,
        controllers: &[Cast],
        people: &[Person],
        ask: impl Fn(&str, &str) -> Option<Value>,
    ) -> Result<Self, String> {
        let controllers = controllers.iter().map(|cast| ControllerReport::gather(layout, cast, people, &ask));
        let subjects = people.iter().map(|person| SubjectReport::gather(person, &ask));
        Ok(Self { controllers: controllers.collect::<Result<_, _>>()?, subjects: subjects.collect() })
    }

    /// For programs.
    pub(super) fn json(&self, layout: &Layout, is_kept: bool, audited: &Audited) -> Value {
        let held = |held: &Held| json!({ "subject": held.subject, "policy": held.policy, "until": held.until });
        let controller = |report: &ControllerReport| json!({ "id": report.name, "held": report.held.iter().map(held).collect::<Vec<_>>(), "refused": report.refused });
        let decision = |decision: &Decision| json!({ "controller": decision.controller, "accepted": decision.accepted, "why": decision.why });
        let subject = |report: &SubjectReport| json!({ "id": report.name, "decisions": report.decisions.iter().map(decision).collect::<Vec<_>>() });
        json!({
            "controllers": self.controllers.iter().map(controller).collect::<Vec<_>>(),
            "subjects": self.subjects.iter().map(subject).collect::<Vec<_>>(),
            "traces": is_kept.then(|| layout.root().join("traces")),
            "audit": conformance::audit::json::json(audited),
        })
    }

    /// For people.
    pub(super) fn print(&self, layout: &Layout, is_kept: bool, console: &mut Console) -> Result<(), Failure> {
        writeln!(console, "\nWhat each controller holds at the end:\n")?;
        for ControllerReport { name, held, refused } in &self.controllers {
            if held.is_empty() {
                writeln!(console, "  {name} holds nothing.")?;
            }
            for Held { subject, policy, until } in held {
                let until = Time::from_unix(*until);
                writeln!(console, "  {name} holds the address of {subject} under `{policy}`, until {until}.")?;
            }
            let counted: Vec<String> =
                refused.iter().map(|(why, count)| format!("{count} {}", refusal_in_words(why))).collect();
            writeln!(
                console,
                "    frames it let pass by: {}",
                if counted.is_empty() { "none".into() } else { counted.join(", ") }
            )?;
        }
        writeln!(console, "\nWhat each phone decided:\n")?;
        for SubjectReport { name, decisions } in &self.subjects {
            for Decision { controller, accepted, why } in decisions {
                let says = if *accepted { "yes" } else { "no " };
                writeln!(console, "  {name:<10} {says} to {controller}: {why}")?;
            }
        }
        let root = layout.root().display();
        if is_kept {
            writeln!(console, "\nEvery step of every daemon is in {root}/traces; what they kept is in {root}/data.")?;
        } else {
            writeln!(
                console,
                "\nEvery step of every daemon was recorded; `consent-mesh demo --keep DIR` keeps the traces."
            )?;
        }
        Ok(())
    }

    /// The rows of the live table.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for SubjectReport { name, decisions } in &self.subjects {
            for Decision { controller, accepted, why } in decisions {
                let gate = self.controllers.iter().find(|report| report.name == *controller);
                let is_held = gate.is_some_and(|gate| gate.held.iter().any(|held| held.subject == *name));
                let holds = if is_held { "holds it" } else { "" };
                let says = if *accepted { "yes" } else { "no" };
                let why = why.lines().next().unwrap_or_default();
                lines.push(format!("  {name:<10} {controller:<16} {says:<4} {holds:<9} {why}"));
            }
        }
        lines
    }
}

impl ControllerReport {
    fn gather(
        layout: &Layout,
        cast: &Cast,
        people: &[Person],
        ask: &impl Fn(&str, &str) -> Option<Value>,
    ) -> Result<Self, String> {
        let key = secret_file::load(&layout.audit_key(&cast.name)).map_err(|error| error.to_string())?;
        let key = AuditKey::new(key.ok_or("a controller has no audit key")?);
        let names: BTreeMap<String, &str> = people
            .iter()
            .map(|person| (Pseudonym::of(&person.address, &key).to_string(), person.name.as_str()))
            .collect();
        let answer = ask(&cast.name, "held").unwrap_or_default();
        let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let held = answer.get("held").and_then(Value::as_array).into_iter().flatten().map(|held| Held {
            subject: names.get(&text(held, "pseudonym")).map_or("a stranger", |name| *name).to_owned(),
            policy: cast.policy.clone(),
            until: held.get("until").and_then(Value::as_u64).unwrap_or_default(),
        });
        let mut held: Vec<Held> = held.collect();
        held.sort();
        let status = ask(&cast.name, "status").unwrap_or_default();
        let refused = status.get("refused").and_then(Value::as_object).cloned().unwrap_or_default();
        let refused = refused.into_iter().filter_map(|(reason, count)| Some((reason, count.as_u64()?))).collect();
        Ok(Self { name: cast.name.clone(), held, refused })
    }
}

impl SubjectReport {
    fn gather(person: &Person, ask: &impl Fn(&str, &str) -> Option<Value>) -> Self {
        let answer = ask(&person.name, "decide").unwrap_or_default();
        let decisions = answer.get("decisions").and_then(Value::as_array).into_iter().flatten();
        let decision = |decision: &Value| {
            let text = |name: &str| decision.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            let accepted = decision.get("accepted").and_then(Value::as_bool).unwrap_or_default();
            Decision { controller: text("controller"), accepted, why: text("why") }
        };
        Self { name: person.name.clone(), decisions: decisions.map(decision).collect() }
    }
}
