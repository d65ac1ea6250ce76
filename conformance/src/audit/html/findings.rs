//! What is wrong: an overview by rule, then each finding.

use std::collections::BTreeMap;

use pilot_core::value::Time;

use super::super::report::{Class, Finding, MAX_CHART, Report};
use super::super::wording;
use super::{chart, code, escape, name};
use crate::plain::{grouped, moment, rfc3339};

/// How many findings get a chart; a page with more would be too large to open.
const MAX_CHARTS: usize = 100;
/// With fewer findings there is no overview.
const MIN_OVERVIEW: usize = 5;

fn body(report: &Report) -> String {
    if report.findings.is_empty() {
        return String::new();
    }
    let mut body = overview(report);
    for (at, finding) in report.findings.iter().enumerate() {
        body += &article(report, finding, at + 1);
    }
    if report.findings.len() > MAX_CHARTS {
        body += &format!("<p class=\"note\">Charts are drawn for the first {MAX_CHARTS} findings only.</p>\n");
    }
    let more = report.more;
    if more.violations + more.integrity > 0 {
        let more = wording::findings(more);
        body += &format!("<p class=\"note\">And {more} more, which are counted but not shown.</p>\n");
    }
    body
}

pub(super) fn section(report: &Report) -> String {
    super::section("findings", "What is wrong", &body(report))
}

/// How many findings each rule has, on each device.
fn overview(report: &Report) -> String {
    if report.findings.len() < MIN_OVERVIEW {
        return String::new();
    }
    let mut counts: BTreeMap<(&str, &str), (usize, u64)> = BTreeMap::new();
    for (at, finding) in report.findings.iter().enumerate() {
        counts.entry((&finding.rule, &finding.device)).or_insert((at + 1, 0)).1 += 1;
    }
    let rows = counts.iter().map(|((rule, device), (first, count))| {
        format!(
            "<tr><th scope=\"row\">{}</th><td data-label=\"Device\">{}</td>\
             <td data-label=\"Findings\" class=\"number\">{}</td>\
             <td data-label=\"First\"><a href=\"#finding-{first}\">No. {first}</a></td></tr>\n",
            code(rule),
            name(device),
            grouped(*count),
        )
    });
    format!(
        "<table>\n<caption>By rule and device</caption>\n<thead><tr><th scope=\"col\">Rule</th>\
         <th scope=\"col\">Device</th><th scope=\"col\" class=\"number\">Findings</th><th scope=\"col\">First</th></tr>\
         </thead>\n<tbody>\n{}</tbody>\n</table>\n",
        rows.collect::<String>()
    )
}

fn time(time: Time) -> String {
    let (datetime, time) = (escape(&rfc3339(time)), escape(&moment(time)));
    format!("<dt>Time</dt><dd><time datetime=\"{datetime}\">{time}</time></dd>\n")
}

fn article(report: &Report, finding: &Finding, number: usize) -> String {
    let class = match finding.class {
        Class::Violation => "Violation",
        Class::Integrity => "Fault in the trace",
    };
    let policy = finding.policy.and_then(|digest| report.policies.iter().find(|policy| policy.digest == digest));
    let policy = match policy {
        Some(policy) => format!("<dt>Policy</dt><dd class=\"policy\">{}</dd>\n", escape(&policy.english)),
        None => String::new(),
    };
    let meaning = match wording::rule(&finding.rule) {
        Some(meaning) => format!("<span class=\"meaning\">{meaning}</span>"),
        None => String::new(),
    };
    let drawn = if number <= MAX_CHARTS { chart::figure(finding, number, MAX_CHART) } else { String::new() };
    format!(
        "<article id=\"finding-{number}\" class=\"finding\">\n<h3><span class=\"count\">No. {number}</span> {class}</h3>\n\
         <p class=\"sentence\">{text}</p>\n<dl class=\"facts\">\n\
         <dt>Device</dt><dd>{device}, record {record}</dd>\n\
         {time}\
         <dt>Rule</dt><dd>{rule} {meaning}</dd>\n\
         <dt>Does not hold</dt><dd><code class=\"premise\">{premise}</code></dd>\n\
         {policy}</dl>\n{drawn}</article>\n",
        text = escape(&finding.text),
        device = name(&finding.device),
        record = finding.record,
        time = finding.time.map(time).unwrap_or_default(),
        rule = code(&finding.rule),
        premise = escape(&finding.premise),
    )
}
