//! The words that every form of a report has in common.

use super::report::{Class, Evidence, Figures, Filter, Findings, Inputs, Report, Verdict, rules};
use crate::plain::{counted, grouped, moment, visible};

/// The verdict in a sentence.
pub fn sentence(report: &Report) -> String {
    let total = report.total();
    match report.verdict() {
        Verdict::Conforms => {
            let records = counted(report.figures.records, "record");
            let traces = counted(report.judged().count() as u64, "trace");
            let all = if report.unjudged.is_empty() { "" } else { " that could be judged" };
            format!("Everything in {records} of {traces}{all} is allowed by the policies.")
        }
        Verdict::Violates => format!("{} found.", were(total)),
        Verdict::Unjudgeable if report.figures.records == 0 => {
            "There is no record that can be believed, so nobody can tell.".to_string()
        }
        Verdict::Unjudgeable if total == Findings::default() => {
            "Nothing is wrong with what could be judged, but that was not everything, which `--strict` asks for."
                .to_string()
        }
        Verdict::Unjudgeable => {
            format!("{} found, so nobody can tell whether the rest is complete.", were(total))
        }
    }
}

/// "1 violation was", "2 violations and 1 fault in the traces were".
fn were(total: Findings) -> String {
    let verb = if total.violations + total.integrity == 1 { "was" } else { "were" };
    format!("{} {verb}", findings(total))
}

/// "2 violations and 1 fault in the traces".
pub fn findings(total: Findings) -> String {
    let violations = counted(total.violations, "violation");
    let faults = format!("{} in the traces", counted(total.integrity, "fault"));
    match (total.violations, total.integrity) {
        (_, 0) => violations,
        (0, _) => faults,
        _ => format!("{violations} and {faults}"),
    }
}

/// The word for a class.
pub const fn class(class: Class) -> &'static str {
    match class {
        Class::Violation => "violation",
        Class::Integrity => "integrity",
    }
}

/// How well a consent is known.
pub struct Level {
    /// Its name.
    pub name: &'static str,
    /// How many consents are known so well.
    pub count: u64,
    /// What it means, in a few words.
    pub short: &'static str,
    /// What it is worth.
    pub long: &'static str,
}

/// The levels of evidence, the best first.
pub const fn levels(evidence: &Evidence) -> [Level; 3] {
    [
        Level {
            name: "witnessed",
            count: evidence.witnessed,
            short: "the subject's own trace has the release",
            long: "Both sides recorded the consent independently of each other. To invent it, both would have to lie, or the \
                   subject would have to be made up: her opening should come from herself.",
        },
        Level {
            name: "signed",
            count: evidence.signed,
            short: "the subject's signature was shown and verified",
            long: "The controller has shown a signature by a key that was made for it and this address. It proves that \
                   one holder of that key consented, not who she is. Her own trace was not there to compare.",
        },
        Level {
            name: "attested",
            count: evidence.attested,
            short: "only the controller says so",
            long: "There is nothing but the controller's signed word that the subject released the item.",
        },
    ]
}

/// What the evidence rests on besides the traces, if nobody has vouched for it.
pub fn openings(report: &Report) -> Option<String> {
    let Inputs { openings, are_openings_found, .. } = report.inputs;
    let found = counted(openings, "opening");
    let text = format!("{found} lay beside the traces: whoever put them there says whose they are (`--opening`)");
    (are_openings_found && report.evidence.witnessed > 0).then_some(text)
}

/// What the report rests on besides the traces.
pub fn inputs(inputs: &Inputs) -> Vec<String> {
    let serials = inputs.meshes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let verified = match &inputs.operator {
        Some(operator) => format!("verified with {operator}"),
        None => "taken at its word".to_owned(),
    };
    let meshes = match inputs.meshes.len() {
        0 => None,
        1 => Some(format!("mesh file {serials}, {verified}")),
        _ => Some(format!("mesh files {serials}, {verified}")),
    };
    let given = [(inputs.keys, "audit key"), (inputs.openings, "opening"), (inputs.consents, "signed consent")];
    let given = given.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| counted(count, what));
    let given = given.collect::<Vec<_>>().join(", ");
    meshes.into_iter().chain((!given.is_empty()).then_some(given)).collect()
}

/// That some violations are not shown, if so.
pub fn filtered(report: &Report) -> Option<String> {
    let Filter { since, devices } = &report.filter;
    if since.is_none() && devices.is_empty() {
        return None;
    }
    let of = (!devices.is_empty()).then(|| format!(" of {}", visible(&devices.join(", "))));
    let since = since.map(|since| format!(" since {}", moment(since)));
    let only = format!("Of violations, only those{}{} are shown", of.unwrap_or_default(), since.unwrap_or_default());
    let others = match report.elsewhere {
        0 => "there are no others".to_owned(),
        1 => "there is 1 other".to_owned(),
        others => format!("there are {} others", grouped(others)),
    };
    Some(format!("{only}; {others}. The verdict is that of everything."))
}

/// The figures, each with its name.
pub fn figures(figures: &Figures) -> [(&'static str, u64); 11] {
    [
        ("records", figures.records),
        ("steps", figures.steps),
        ("events", figures.events),
        ("accepted", figures.accepted),
        ("transferred", figures.transferred),
        ("erased", figures.erased),
        ("withdrawn", figures.withdrawn),
        ("elided", figures.elided),
        ("matched", figures.matched),
        ("attested conditions", figures.attested_conditions),
        ("signatures", figures.signatures),
    ]
}

/// What a figure counts.
pub fn figure(name: &str) -> &'static str {
    match name {
        "records" => "entries of traces that were judged",
        "steps" => "steps of the program graphs among them",
        "events" => "events of the abstract semantics that they stand for",
        "accepted" => "items taken from their owners",
        "transferred" => "items received from other controllers",
        "erased" => "items erased at their deadline or before",
        "withdrawn" => "withdraw notices delivered",
        "elided" => "steps that changed nothing and were only counted",
        "matched" => "messages of which both ends are known",
        "attested conditions" => "conditions for which only the device that evaluated them vouches",
        _ => "checkpoints whose signatures were verified",
    }
}

/// What a rule about traces themselves demands of one.
pub fn premise(rule: &str) -> String {
    let premise = match rule {
        rules::SEQUENCE => "no record is missing",
        rules::SIGNATURE => "the device has signed it",
        rules::FILE => "the file can be read",
        rules::MESH => "the mesh file that it names is here, and has its words",
        _ => "the trace is as a device writes it",
    };
    premise.to_owned()
}

/// The rules that a report can name, each with what it demands.
pub const RULES: [(&str, &str); 21] = [
    (rules::R1, "Table 2: a request adds a policy of the sender where the receiver knows no comparable one."),
    (rules::R2, "Table 2: a request replaces a comparable policy of the same sender."),
    (rules::SEND, "Table 2: an owner sends an item only where the receiver's policy is at least as strict as hers."),
    (rules::TRANSFER, "Table 2: an item is handed on only where one of its policy's transfer rules allows it."),
    (rules::GRAPH, "A device takes only steps that its program graph has, and all their guards hold."),
    (rules::STATE, "After each step the device knows exactly what the abstract semantics says it knows."),
    (rules::MESSAGE, "What was received was sent, and sent like that."),
    (rules::CONSENT, "A signature that a record names is of the consent that it is named for."),
    (
        rules::RESUME,
        "A run begins with nothing that the one before did not have, and with every withdrawal that it had.",
    ),
    (rules::CLOCK, "A device's clock does not go back."),
    (rules::CHAIN, "Each record carries the hash of the one before, so none can be changed unnoticed."),
    (rules::SEQUENCE, "Records are numbered without a gap."),
    (rules::SIGNATURE, "The device has signed its checkpoints, with a key that is known."),
    (rules::FILE, "Every file of a trace can be read."),
    (rules::MESH, "The mesh file that a trace names is here, and has the words that the trace uses."),
    (rules::ANCHOR, "A device has one history: what other devices saw of it is what its trace says."),
    ("requirement-1", "What is held is within what its owner's own policy allowed when she released it."),
    ("requirement-2", "She had been shown the policy under which it was collected."),
    (
        "requirement-3",
        "It was handed on only where a transfer rule of the policy that she released it under covers the receiver.",
    ),
    ("requirement-4", "Nothing is held past its deadline by more than a minute."),
    ("requirement-5", "What was taken back is gone, and stays gone."),
];

/// What a rule demands, if it is one of [`RULES`].
pub fn rule(name: &str) -> Option<&'static str> {
    RULES.iter().find(|(known, _)| *known == name).map(|(_, meaning)| *meaning)
}
