//! How to read the report.

use super::super::wording::RULES;
use super::section as page_section;

const TERMS: [(&str, &str); 9] = [
    ("Data subject", "A person whose data it is. Her device says, in policies, who may have what."),
    ("Controller", "An organisation that collects data. It publishes policies that say what it intends to do."),
    (
        "Policy",
        "Who may collect which data, on which condition, for which purposes, until when, and who may get it next.",
    ),
    (
        "p ⊑ q",
        "Policy p is at least as strict as policy q. Data may flow where the controller's policy is at least as strict as \
         the subject's.",
    ),
    ("Trace", "What one device recorded of itself, step by step. Data itself is not in it."),
    (
        "Record",
        "An entry of a trace. It carries the hash of the one before, and from time to time the device signs where it stands.",
    ),
    ("Item", "One piece of data of one person, for example the address of her phone."),
    ("Premise", "A condition of a rule. A finding names the premise that does not hold, in the words of the paper."),
    (
        "Verdict",
        "Conforms: nothing is wrong with what was judged. Violates: a rule was broken. Unjudgeable: the traces are \
         damaged, missing or empty, or something could not be judged where everything must be.",
    ),
];

pub(super) fn section() -> String {
    let entry = |(term, meaning): &(&str, &str)| format!("<div><dt>{term}</dt><dd>{meaning}</dd></div>\n");
    let rule = |(name, meaning): &(&str, &str)| format!("<div><dt><code>{name}</code></dt><dd>{meaning}</dd></div>\n");
    let body = format!(
        "<p>An auditor reads the traces of all devices, checks that nobody has changed them, and then takes every step \
         again, by the rules of the model and under the policies that applied. What the devices did not record, nobody \
         can audit.</p>\n\
         <h3>Words</h3>\n<dl class=\"words\">\n{}</dl>\n<h3>Rules</h3>\n<dl class=\"words\">\n{}</dl>\n",
        TERMS.iter().map(entry).collect::<String>(),
        RULES.iter().map(rule).collect::<String>(),
    );
    page_section("reading", "How to read this report", &body)
}
