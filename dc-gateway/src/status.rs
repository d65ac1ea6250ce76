//! What the user is told: in JSON over the control socket, in words on the command line.

use std::fmt::Write as _;

use mesh_runtime::daemon::asking::counted;
use pilot_core::english;
use pilot_core::evidence::hex::Hex;
use pilot_core::evidence::trace::Reason;
use pilot_core::policy::{Choice, Policy};
use pilot_core::value::Time;
use serde_json::{Value, json};

use crate::host::{Controller, Gateway};
use crate::upload::Standing;
use crate::value::Heard;
use crate::vault::{MAX_LISTED, Record, VaultError};

/// The most signed consents in one answer: they must fit into a line of the control socket.
pub const MAX_CONSENTS: usize = 200_000;

/// Why signed consents cannot be shown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConsentsError {
    #[error("more than {MAX_CONSENTS} signed consents are held")]
    TooMany,
    #[error(transparent)]
    Vault(#[from] VaultError),
}

/// Signed consents, one to a line, as `conform audit --consents` reads them.
pub fn consents_in_lines(answer: &Value) -> String {
    let shown = answer.get("consents").and_then(Value::as_array).into_iter().flatten();
    shown.map(|consent| format!("{consent}\n")).collect()
}

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
            json!({
                "up": health.is_up(), "heard": counts.heard, "missed": counts.missed,
                "malformed": counts.malformed, "stale": counts.stale, "limited": counts.limited,
            })
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

    /// The signed consents to what is held, for an auditor: they have the values, which nothing else that is told has.
    pub(crate) fn consents(&self, now: Time) -> Result<Value, ConsentsError> {
        let (mut shown, mut last) = (Vec::new(), None);
        loop {
            let records = self.vault.records(last, MAX_LISTED)?;
            let Some(end) = records.last() else { break };
            last = Some(end.handle);
            for record in &records {
                let heard = self.vault.reveal(record.handle, now)?.as_ref().and_then(Heard::from_secret);
                let Some((address, signed)) = heard.and_then(|heard| Some((heard.address, heard.signature?))) else {
                    continue;
                };
                if shown.len() == MAX_CONSENTS {
                    return Err(ConsentsError::TooMany);
                }
                shown.push(json!({
                    "item": Hex(&address.reveal()).to_string(),
                    "key": Hex(&signed.key).to_string(),
                    "signature": Hex(&signed.signature).to_string(),
                }));
            }
        }
        Ok(shown.into())
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

/// Why frames were let pass by, in plain words; a status has the word that traces have.
pub fn refusal_in_words(reason: &str) -> String {
    let known = Reason::ALL.into_iter().find(|known| known.name() == reason);
    let words = match known {
        Some(Reason::NotAddressed) => "for other controllers",
        Some(Reason::PolicyNotOurs) => "under a policy that is not its own",
        Some(Reason::NotCovered) => "not covered by the policy that they name",
        Some(Reason::PastDeadline) => "past the deadline of the policy",
        Some(Reason::Withdrawn) => "withdrawn by their owners",
        Some(Reason::NotFresh) => "too old or from the future",
        Some(Reason::AlreadyHeld) => "repeating what it holds",
        Some(Reason::NotAskedFor) => "that nobody had asked for",
        Some(Reason::Other) => "for other reasons",
        None => reason,
    };
    words.to_owned()
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
        "It holds {}, and accepted {} since its start.",
        counted(number(&part("held")), "item"),
        number(&part("accepted"))
    );
    let air = part("air");
    if !air.is_null() {
        words += if is(&of(&air, "up")) { "Its radio works: " } else { "Its radio does not work at the moment: " };
        let of_air = |name: &str| number(&of(&air, name));
        let (heard, missed) = (of_air("heard"), of_air("missed"));
        let dropped = ["malformed", "stale", "limited"].map(|name| format!("{} {name}", of_air(name)));
        let _ = writeln!(words, "{}, {missed} missed, {}.", counted(heard, "sighting"), dropped.join(", "));
    }
    let counted_by = |name: &str, say: fn(&str) -> String| -> Vec<String> {
        let counts = part(name);
        counts.as_object().into_iter().flatten().map(|(kind, count)| format!("{count} {}", say(kind))).collect()
    };
    let (refused, complaints) = (counted_by("refused", refusal_in_words), counted_by("complaints", str::to_owned));
    for (title, counts) in [("Let pass by", refused), ("Complaints", complaints)] {
        if !counts.is_empty() {
            let _ = writeln!(words, "{title}: {}.", counts.join(", "));
        }
    }
    let applications = part("applications");
    if !applications.is_null() {
        let (connected, dropped) = (number(&of(&applications, "connected")), number(&of(&applications, "dropped")));
        let listen = if connected == 1 { "application listens" } else { "applications listen" };
        let _ = writeln!(words, "{connected} {listen}; {dropped} dropped for being too slow.");
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
            "air": { "up": true, "heard": 9, "missed": 1, "malformed": 2, "stale": 3, "limited": 4 },
            "refused": { "not-fresh": 3, "withdrawn": 4 }, "complaints": {},
            "applications": { "connected": 1, "dropped": 0 },
        });
        let words = "gate collects for mall. It is not connected to its broker.\n\
            Its policy, fa55:\n  Data of type MACAddress can be collected.\n\
            The repository has not acknowledged its statement since 2030-01-01.\n\
            It holds 2 items, and accepted 1 since its start.\n\
            Its radio works: 9 sightings, 1 missed, 2 malformed, 3 stale, 4 limited.\n\
            Let pass by: 3 too old or from the future, 4 withdrawn by their owners.\n\
            1 application listens; 0 dropped for being too slow.\n";
        assert_eq!(in_words(&status), words);
        let revoked = json!({ "device": "gate", "entity": "mall", "member": false, "policy": null });
        let words = "gate collects for mall. It is no member of the mesh now, so it does nothing.\n\
            It has no policy, so it collects nothing.\nIt holds 0 items, and accepted 0 since its start.\n";
        assert_eq!(in_words(&revoked), words);
    }
}
