//! A report for programs.

use serde_json::{Value, json};

use super::report::{Figures, Filter, Finding, Inputs, Report, Trace, Unjudged};
use super::wording::class;
use crate::plain::rfc3339;

/// The report, with times as RFC 3339. Names are as they stand in the traces: who prints them must escape them.
pub fn json(report: &Report) -> Value {
    let open = report.open().map(|(trace, tail)| {
        json!({
            "device": trace.device, "directory": trace.directory, "records": tail.records, "bytes": tail.bytes,
        })
    });
    let evidence = report.evidence;
    json!({
        "verdict": report.verdict().word(),
        "strict": report.is_strict,
        "findings": report.findings.iter().map(finding).collect::<Vec<_>>(),
        "more": {"violations": report.more.violations, "integrity": report.more.integrity},
        "filter": filter(&report.filter),
        "elsewhere": report.elsewhere,
        "evidence": {
            "witnessed": evidence.witnessed, "signed": evidence.signed, "attested": evidence.attested,
        },
        "inputs": inputs(&report.inputs),
        "unjudged": report.unjudged.iter().map(unjudged).collect::<Vec<_>>(),
        "open": open.collect::<Vec<_>>(),
        "traces": report.traces.iter().map(trace).collect::<Vec<_>>(),
        "figures": figures(&report.figures),
    })
}

fn filter(Filter { since, devices }: &Filter) -> Value {
    json!({"since": since.map(rfc3339), "devices": devices})
}

fn inputs(inputs: &Inputs) -> Value {
    json!({
        "mesh_serials": inputs.meshes, "operator": inputs.operator, "audit_keys": inputs.keys, "openings": inputs.openings,
        "openings_found": inputs.are_openings_found, "consents": inputs.consents,
    })
}

fn finding(finding: &Finding) -> Value {
    json!({
        "device": finding.device, "record": finding.record, "rule": finding.rule, "premise": finding.premise,
        "text": finding.text, "class": class(finding.class), "time": finding.time.map(rfc3339),
    })
}

fn unjudged(unjudged: &Unjudged) -> Value {
    json!({
        "device": unjudged.device, "premise": unjudged.premise, "why": unjudged.why, "count": unjudged.count,
    })
}

fn trace(trace: &Trace) -> Value {
    let (first, last) = trace.period.unzip();
    json!({
        "device": trace.device, "directory": trace.directory, "graph": trace.graph, "records": trace.records,
        "first": first.map(rfc3339), "last": last.map(rfc3339), "head": trace.head, "end": trace.end.word(), "other": trace.end.other(),
    })
}

fn figures(figures: &Figures) -> Value {
    json!({
        "records": figures.records, "steps": figures.steps, "events": figures.events, "accepted": figures.accepted,
        "transferred": figures.transferred, "erased": figures.erased, "withdrawn": figures.withdrawn,
        "elided": figures.elided, "matched": figures.matched, "attested_conditions": figures.attested_conditions,
        "signatures": figures.signatures,
    })
}
