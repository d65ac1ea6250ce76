//! A report for programs.

use serde_json::{Value, json};

use super::report::{Figures, Finding, Report, Trace, Unjudged};
use super::wording::class;
use crate::plain::rfc3339;

/// The report, with times as RFC 3339. Names are as they stand in the traces: who prints them must escape them.
pub fn json(report: &Report) -> Value {
    let open = report.open().map(|(trace, tail)| {
        json!({
            "device": trace.device, "directory": trace.directory, "records": tail.records, "bytes": tail.bytes,
        })
    });
    let Report { evidence, more, .. } = report;
    json!({
        "verdict": report.verdict().word(),
        "findings": report.findings.iter().map(finding).collect::<Vec<_>>(),
        "more": {"violations": more.violations, "integrity": more.integrity},
        "evidence": {
            "witnessed": evidence.witnessed, "signed": evidence.signed, "attested": evidence.attested,
        },
        "found_openings": report.found_openings,
        "unjudged": report.unjudged.iter().map(unjudged).collect::<Vec<_>>(),
        "open": open.collect::<Vec<_>>(),
        "traces": report.traces.iter().map(trace).collect::<Vec<_>>(),
        "figures": figures(&report.figures),
    })
}

fn finding(finding: &Finding) -> Value {
    json!({
        "device": finding.device, "record": finding.record, "rule": finding.rule, "premise": finding.premise,
        "text": finding.text, "class": class(finding.class), "time": rfc3339(finding.time),
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
        "first": first.map(rfc3339), "last": last.map(rfc3339), "end": trace.end.word(), "other": trace.end.other(),
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
