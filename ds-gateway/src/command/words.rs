//! A gateway's answers in words.

use std::fmt::Write as _;

use serde_json::Value;

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or("?")
}

fn number(value: &Value, name: &str) -> u64 {
    value.get(name).and_then(Value::as_u64).unwrap_or_default()
}

fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn truth(value: &Value, name: &str) -> bool {
    value.get(name).and_then(Value::as_bool).unwrap_or_default()
}

/// "mall-gate (mall)".
fn party(value: &Value) -> String {
    format!("{} ({})", text(value, "controller"), text(value, "entity"))
}

fn strings(values: &[Value]) -> String {
    values.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
}

/// How many, in words that fit: "1 policy", "3 policies".
fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Lines for a terminal. Writing to a `String` cannot fail.
struct Lines(String);

impl Lines {
    fn line(&mut self, line: &str) {
        let _ = writeln!(self.0, "{line}");
    }
}

/// How things are.
pub(super) fn status(answer: &Value) -> String {
    let mut lines = Lines(String::new());
    let repository = text(answer, "repository");
    lines.line(&match truth(answer, "connected") {
        true => format!("connected; policies come from `{repository}`"),
        false => "not connected; going on with what is known".to_owned(),
    });
    if !truth(answer, "mesh_in_force") {
        lines.line("the mesh file has expired: nobody is believed, nothing is sent");
    }
    if !truth(answer, "radio") {
        lines.line("the radio does not work");
    }
    let policies = answer.get("policies").unwrap_or(&Value::Null);
    let known = count(number(policies, "count"), "policy of a controller", "policies of controllers");
    lines.line(&match policies.get("age_seconds").and_then(Value::as_u64) {
        Some(age) => format!("{known} known, as of {} ago", count(age, "second", "seconds")),
        None => format!("{known} known; the repository has not answered yet"),
    });
    match list(answer, "advertising") {
        [] => lines.line(&format!("on the air: nothing, because {}", why_silent(answer))),
        some => {
            let names: Vec<String> = some.iter().map(party).collect();
            lines.line(&format!("on the air, in turn: for {}", names.join(", ")));
        }
    }
    if let some @ [_, ..] = list(answer, "refused_entities") {
        lines.line(&format!("you have withdrawn from: {}", strings(some)));
    }
    if let some @ [_, ..] = list(answer, "notices_waiting") {
        lines.line(&format!("not acknowledged yet, and repeated: the withdrawal from {}", strings(some)));
    }
    let refusals = answer.get("complaints").and_then(Value::as_object);
    for (kind, times) in refusals.into_iter().flatten() {
        lines.line(&format!("refused: {kind}, {}", count(times.as_u64().unwrap_or_default(), "time", "times")));
    }
    lines.0
}

/// Why nothing is on the air: the first of what is in the way.
fn why_silent(answer: &Value) -> &'static str {
    let known = answer.get("policies").map_or(0, |policies| number(policies, "count"));
    if !truth(answer, "mesh_in_force") {
        "the mesh file has expired"
    } else if !truth(answer, "radio") {
        "the radio does not work"
    } else if known == 0 {
        "no controller's policy is known yet"
    } else if number(answer, "accepted") == 0 {
        "you say yes to nobody at the moment; `ds-gateway decide` says why"
    } else if truth(answer, "just_withdrawn") {
        "you have just withdrawn; it goes on within two minutes"
    } else {
        "nothing was said yet to those whom you accept; it is about to begin, or the log says what is in the way"
    }
}

/// Each controller: yes or no, and why.
pub(super) fn decisions(answer: &Value) -> String {
    let decisions = list(answer, "decisions");
    let mut lines = Lines(String::new());
    if decisions.is_empty() {
        lines.line("no controller's policy is known yet");
    }
    for decision in decisions {
        let yes = if truth(decision, "accepted") { "yes" } else { "no" };
        lines.line(&format!("{}: {yes}: {}", party(decision), text(decision, "why")));
    }
    lines.0
}

/// From whom she has withdrawn.
pub(super) fn withdrawn(answer: &Value) -> String {
    let mut lines = Lines(String::new());
    match list(answer, "withdrawn_from") {
        [] if list(answer, "not_in_the_mesh").is_empty() => lines.line("nobody has anything of yours"),
        [] => {}
        some => {
            let names: Vec<String> = some.iter().map(party).collect();
            lines.line(&format!("withdrawn from {}", names.join(", ")));
            lines.line("nothing is sent to them any more, and they are told to erase what they have, until they say that it is gone");
        }
    }
    if let some @ [_, ..] = list(answer, "not_in_the_mesh") {
        lines.line(&format!(
            "{} may have something of yours, and cannot be told: the mesh file does not have it any more",
            strings(some)
        ));
        lines.line("restart the gateway and withdraw again once it does");
    }
    lines.0
}

/// Whom she lets have data again.
pub(super) fn admitted(answer: &Value) -> String {
    let mut lines = Lines(String::new());
    let name = text(answer, "admitted");
    lines.line(&match truth(answer, "was_refused") {
        true => format!("`{name}` may have your data again, where your policies allow it"),
        false => format!("you had not withdrawn from `{name}`"),
    });
    if let some @ [_, ..] = list(answer, "still_refused") {
        lines.line(&format!("but you have withdrawn from {}, of which it is part", strings(some)));
    }
    lines.0
}

/// What new policies mean for what was released before.
pub(super) fn reloaded(answer: &Value) -> String {
    let mut lines = Lines(String::new());
    let policies = count(number(answer, "own_policies"), "policy of yours is", "policies of yours are");
    lines.line(&format!("{policies} in force"));
    for holder in list(answer, "may_still_hold") {
        let name = text(holder, "controller");
        lines.line(&format!(
            "{} may still hold what you would not give any more: `ds-gateway withdraw --controller {name}` takes it back",
            party(holder)
        ));
    }
    lines.0
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Whoever hears nothing is told why.
    #[test]
    fn silence_has_a_reason() {
        let silent = |radio, known, accepted, just_withdrawn| {
            let policies = json!({ "count": known, "age_seconds": 1 });
            let answer = json!({
                "connected": true, "repository": "registry", "mesh_in_force": true, "radio": radio, "policies": policies,
                "accepted": accepted, "just_withdrawn": just_withdrawn, "advertising": [],
            });
            status(&answer).lines().last().map(str::to_owned)
        };
        for (answer, because) in [
            (silent(false, 0, 0, false), "the radio does not work"),
            (silent(true, 0, 0, false), "no controller's policy is known yet"),
            (silent(true, 1, 0, true), "you say yes to nobody at the moment; `ds-gateway decide` says why"),
            (silent(true, 1, 1, true), "you have just withdrawn; it goes on within two minutes"),
        ] {
            assert_eq!(answer, Some(format!("on the air: nothing, because {because}")));
        }
    }
}
