//! A report as one page that needs nothing else: no script, no font, no picture from anywhere.
//!
//! A lawyer reads the sentences, an engineer the rest. It is well-formed XML as well as HTML, so that tools can read it.
//! Everything that comes from a trace goes through `escape`; nothing else may put foreign text on the page.
//!
//! * this file: the page from top to bottom;
//! * `findings`: what is wrong, each with a message sequence chart from `chart`;
//! * `timeline`: what happened when;
//! * `tables`: evidence, what could not be judged, figures, traces, what it was judged with, what is held;
//! * `glossary`: how to read it.

mod chart;
mod findings;
mod glossary;
mod tables;
mod timeline;

use pilot_core::value::Time;

use super::report::{Findings, Report, Verdict};
use super::wording;
use crate::plain::{counted, moment, rfc3339, visible};

const STYLE: &str = include_str!("html/style.css");
/// Nothing is loaded and nothing is run, whatever a name in a trace says.
const CONTENT_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/// The report as a page.
pub fn html(report: &Report) -> String {
    let verdict = report.verdict();
    let sections = [
        filtered(report),
        findings::section(report),
        tables::evidence(report),
        tables::unjudged(report),
        timeline::section(report),
        tables::figures(report),
        tables::traces(report),
        tables::inputs(report),
        tables::holdings(report),
        glossary::section(),
    ];
    format!(
        "<!DOCTYPE html>\n\
         <html lang=\"en\">\n<head>\n\
         <meta charset=\"utf-8\" />\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{CONTENT_POLICY}\" />\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\" />\n\
         <meta name=\"color-scheme\" content=\"light dark\" />\n\
         <meta name=\"referrer\" content=\"no-referrer\" />\n\
         <title>Audit report: {word}</title>\n\
         <style>\n{STYLE}</style>\n\
         </head>\n<body class=\"{word}\">\n<header>\n{header}</header>\n<main>\n{sections}</main>\n\
         <footer><p>Made by <code>conform audit</code> {version}. Times are in UTC, by the devices' own clocks.</p></footer>\n\
         </body>\n</html>\n",
        word = verdict.word(),
        version = env!("CARGO_PKG_VERSION"),
        header = header(report),
        sections = sections.concat(),
    )
}

fn header(report: &Report) -> String {
    let (title, mark) = match report.verdict() {
        Verdict::Conforms => ("Conforms", "M6 12.5l4 4 8-9"),
        Verdict::Violates => ("Violates", "M7.5 7.5l9 9m0-9l-9 9"),
        Verdict::Unjudgeable => ("Unjudgeable", "M8.8 9.3a3.2 3.2 0 1 1 4.6 2.9c-1 .5-1.4 1-1.4 2.1m0 2.9v.2"),
    };
    let meaning = match report.verdict() {
        Verdict::Conforms => {
            "Nothing that was judged goes against a policy, a rule of the semantics or a privacy requirement."
        }
        Verdict::Violates => "At least one device did what no policy, rule or requirement allows.",
        Verdict::Unjudgeable if report.total() == Findings::default() && report.figures.records > 0 => {
            "What could not be judged is listed below, with the reason."
        }
        Verdict::Unjudgeable => {
            "The traces are damaged, missing or empty. That is no proof that something went wrong, and none that \
             everything went right."
        }
    };
    format!(
        "<p class=\"kind\">Audit report</p>\n\
         <h1><svg class=\"mark\" viewBox=\"0 0 24 24\" aria-hidden=\"true\"><circle cx=\"12\" cy=\"12\" r=\"11\" />\
         <path d=\"{mark}\" /></svg>{title}</h1>\n\
         <p class=\"lead\">{} {meaning}</p>\n{}",
        escape(&wording::sentence(report)),
        period(report),
    )
}

/// Not everything is shown.
fn filtered(report: &Report) -> String {
    wording::filtered(report).map(|text| format!("<p class=\"note\">{}</p>\n", escape(&text))).unwrap_or_default()
}

/// From when to when, and how many traces.
fn period(report: &Report) -> String {
    let first = report.traces.iter().filter_map(|trace| Some(trace.period?.0)).min();
    let last = report.traces.iter().filter_map(|trace| Some(trace.period?.1)).max();
    let (Some(first), Some(last)) = (first, last) else { return String::new() };
    let open = match report.open().count() {
        0 => String::new(),
        1 => ", 1 of them open".to_string(),
        open => format!(", {open} of them open"),
    };
    format!(
        "<p class=\"period\">{}{open}, from {} to {}.</p>\n",
        counted(report.judged().count() as u64, "trace"),
        escape(&moment(first)),
        escape(&moment(last)),
    )
}

/// A section with a heading; none if it has nothing to say.
fn section(id: &str, title: &str, body: &str) -> String {
    if body.is_empty() {
        return String::new();
    }
    format!("<section id=\"{id}\">\n<h2>{title}</h2>\n{body}</section>\n")
}

/// A text from outside, safe in elements and in attributes, with nothing hidden in it.
fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in visible(text).chars() {
        match character {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            // No characters of XML, nor of anything else.
            '\u{fffe}' | '\u{ffff}' => safe.extend(character.escape_unicode()),
            other => safe.push(other),
        }
    }
    safe
}

/// Up to this many characters, a name is not broken over lines.
const MAX_UNBROKEN: usize = 24;

/// A name from outside: it is set apart, so that one written from right to left does not turn its surroundings around.
fn name(text: &str) -> String {
    let class = if text.chars().count() <= MAX_UNBROKEN { "name whole" } else { "name" };
    format!("<bdi class=\"{class}\">{}</bdi>", escape(text))
}

/// A word of the semantics.
fn code(text: &str) -> String {
    let class = if text.chars().count() <= MAX_UNBROKEN { " class=\"whole\"" } else { "" };
    format!("<code{class}>{}</code>", escape(text))
}

/// A moment in a table, whose heading says that it is UTC.
fn moment_cell(time: Time) -> String {
    let shown = moment(time);
    let shown = shown.strip_suffix(" UTC").unwrap_or(&shown);
    format!("<time class=\"whole\" datetime=\"{}\">{}</time>", escape(&rfc3339(time)), escape(shown))
}
