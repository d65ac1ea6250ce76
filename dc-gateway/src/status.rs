//! What the user is told: in JSON over the control socket, in words on the command line.

use std::fmt::Write as _;

use pilot_core::english;
use pilot_core::policy::{Choice, Policy};
use pilot_core::value::Time;
use serde_json::{Value, json};

use crate::host::{Controller, Gateway};
use crate::upload::Standing;
use crate::vault::{MAX_LISTED, Record, VaultError};

impl Gateway {
    /// What is going on.
    pub(crate) fn status(&mut self, driver: &Controller<'_>, now: Time) -> Value {
        let policy = self.current(driver, now).map(|(digest, policy)| {
            json!({
                "digest": digest.to_string(),
                "sentence": english::sentence(&Choice::Policy(policy.clone()), &self.vocabulary),
                "until": policy.collection().usage.retention().to_string(),
            })
        });
        let repository = match self.standing {
            Standing::Silent => json!({ "told": false }),
            Standing::Waiting { since } => json!({ "waiting_since": since.to_string() }),
            Standing::Acknowledged { version, since } => {
                json!({ "acknowledged": version, "since": since.to_string() })
            }
        };
        let air = self.health.as_ref().map(|health| {
            let counts = health.counts();
            json!({ "up": health.is_up(), "heard": counts.heard, "missed": counts.missed })
        });
        let applications = self
            .applications
            .as_ref()
            .map(|applications| json!({ "connected": applications.connected(), "dropped": applications.dropped() }));
        json!({
            "device": self.name.as_str(),
            "entity": self.vocabulary.entities.name(self.entity),
            "member": self.is_member(now),
            "connected": self.is_connected,
            "policy": policy,
            "repository": repository,
            "held": driver.device().state.received.len(),
            "withdrawn": driver.device().memory.tombstones.len(),
            "accepted": self.accepted,
            "refused": self.refused,
            "complaints": self.post.complaints.counts(),
            "air": air,
            "applications": applications,
            "steps": driver.counts().steps,
        })
    }

    /// Everything that is held, without values.
    pub(crate) fn held(&self) -> Result<Value, VaultError> {
        let (mut held, mut last) = (Vec::new(), None);
        loop {
            let records = self.vault.records(last, MAX_LISTED)?;
            let Some(end) = records.last() else { break };
            last = Some(end.handle);
            held.extend(records.iter().map(|Record { handle, description }| {
                json!({
                    "handle": handle.to_string(),
                    "pseudonym": description.pseudonym.to_string(),
                    "datatype": description.datatype,
                    "policy": description.policy.to_string(),
                    "until": description.until.unix(),
                })
            }));
        }
        Ok(held.into())
    }

    /// What applications are told of a new record.
    pub(crate) fn observation(&self, record: &Record) -> Value {
        let Record { handle, description } = record;
        let policy = self.published.policy(&description.policy);
        let purposes = policy.map(Policy::collection).map_or(&[][..], |rule| rule.usage.purposes());
        let purposes: Vec<&str> = purposes.iter().map(|purpose| self.vocabulary.purposes.name(*purpose)).collect();
        json!({
            "handle": handle.to_string(),
            "datatype": description.datatype,
            "policy": description.policy.to_string(),
            "purposes": purposes,
            "until": description.until.unix(),
        })
    }
}

/// The status as sentences.
pub(crate) fn in_words(status: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let is = |value: &Value| value.as_bool().unwrap_or_default();
    let part = |name: &str| status.get(name).cloned().unwrap_or_default();
    let of = |value: &Value, name: &str| value.get(name).cloned().unwrap_or_default();
    let mut words = format!("{} collects for {}. ", text(&part("device")), text(&part("entity")));
    words += match (is(&part("member")), is(&part("connected"))) {
        (false, _) => "It is no member of the mesh now, so it does nothing.\n",
        (true, true) => "It is connected to its broker.\n",
        (true, false) => "It is not connected to its broker.\n",
    };
    let policy = part("policy");
    if policy.is_null() {
        words += "It has no policy, so it collects nothing.\n";
    } else {
        let _ = writeln!(words, "Its policy, {}:\n  {}", text(&of(&policy, "digest")), text(&of(&policy, "sentence")));
    }
    let repository = part("repository");
    if let Some(version) = of(&repository, "acknowledged").as_u64() {
        let _ =
            writeln!(words, "The repository has its statement {version}, since {}.", text(&of(&repository, "since")));
    } else if let Some(since) = of(&repository, "waiting_since").as_str() {
        let _ = writeln!(words, "The repository has not acknowledged its statement since {since}.");
    }
    let _ = writeln!(
        words,
        "It holds {} items, and accepted {} since its start.",
        number(&part("held")),
        number(&part("accepted"))
    );
    for (title, name) in [("Refused", "refused"), ("Complaints", "complaints")] {
        let counts = part(name);
        let counts: Vec<String> =
            counts.as_object().into_iter().flatten().map(|(kind, count)| format!("{kind} {count}")).collect();
        if !counts.is_empty() {
            let _ = writeln!(words, "{title}: {}.", counts.join(", "));
        }
    }
    let applications = part("applications");
    if !applications.is_null() {
        let (connected, dropped) = (number(&of(&applications, "connected")), number(&of(&applications, "dropped")));
        let _ = writeln!(words, "{connected} applications listen; {dropped} were too slow and dropped.");
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every part of a status has its words, and what is missing is not invented.
    #[test]
    fn a_status_is_said_in_words() {
        let status = json!({
            "device": "gate", "entity": "mall", "member": true, "connected": false,
            "policy": { "digest": "fa55", "sentence": "Data of type MACAddress can be collected." },
            "repository": { "waiting_since": "2030-01-01" },
            "held": 2, "accepted": 1,
            "refused": { "not-fresh": 3, "withdrawn": 4 }, "complaints": {},
            "applications": { "connected": 1, "dropped": 0 },
        });
        let words = "gate collects for mall. It is not connected to its broker.\n\
            Its policy, fa55:\n  Data of type MACAddress can be collected.\n\
            The repository has not acknowledged its statement since 2030-01-01.\n\
            It holds 2 items, and accepted 1 since its start.\n\
            Refused: not-fresh 3, withdrawn 4.\n\
            1 applications listen; 0 were too slow and dropped.\n";
        assert_eq!(in_words(&status), words);
        let revoked = json!({ "device": "gate", "entity": "mall", "member": false, "policy": null });
        let words = "gate collects for mall. It is no member of the mesh now, so it does nothing.\n\
            It has no policy, so it collects nothing.\nIt holds 0 items, and accepted 0 since its start.\n";
        assert_eq!(in_words(&revoked), words);
    }
}
