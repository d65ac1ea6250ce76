//! Evidence, what could not be judged, figures, traces, and what is held.

use super::super::report::{Ending, Holding, Report, Trace};
use super::super::wording::{self, levels};
use super::{code, escape, moment_cell, name, section};
use crate::plain::{counted, grouped};

/// How well consents are known: a bar, and what each level is worth.
pub(super) fn evidence(report: &Report) -> String {
    let levels = levels(&report.evidence);
    let total = levels.iter().map(|level| level.count).fold(0, u64::saturating_add);
    if total == 0 {
        return section("evidence", "How well consents are known", "<p>Nothing was accepted.</p>\n");
    }
    let (mut bar, mut list, mut x) = (String::new(), String::new(), 0.0);
    for level in &levels {
        let width = level.count as f64 / total as f64 * 1000.0;
        bar += &format!("<rect class=\"{}\" x=\"{x:.1}\" y=\"0\" width=\"{width:.1}\" height=\"20\" />", level.name);
        x += width;
        list += &format!(
            "<div class=\"{name}\"><dt><svg class=\"key\" viewBox=\"0 0 10 10\" aria-hidden=\"true\">\
             <rect class=\"{name}\" width=\"10\" height=\"10\" /></svg> {count} {name}</dt><dd>{}. {}</dd></div>\n",
            capital(level.short),
            level.long,
            name = level.name,
            count = grouped(level.count),
        );
    }
    let openings = wording::openings(report).map(|text| format!("<p class=\"note\">{}</p>\n", escape(&text)));
    let openings = openings.unwrap_or_default();
    let told = levels.map(|level| format!("{} {}", grouped(level.count), level.name)).join(", ");
    let body = format!(
        "<p>Each item that a controller accepted from its owner counts once, at its best level.</p>\n\
         <svg class=\"levels\" viewBox=\"0 0 1000 20\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-labelledby=\"levels-title levels-desc\"><title id=\"levels-title\">Levels of evidence</title>\
         <desc id=\"levels-desc\">{told}</desc>{bar}</svg>\n<dl class=\"keyed\">\n{list}</dl>\n{openings}"
    );
    section("evidence", "How well consents are known", &body)
}

pub(super) fn unjudged(report: &Report) -> String {
    if report.unjudged.is_empty() {
        return String::new();
    }
    let rows =
        report.unjudged.iter().map(|it| vec![name(&it.device), code(&it.premise), escape(&it.why), grouped(it.count)]);
    let heads = [("Device", false), ("Premise", false), ("Why not", false), ("How often", true)];
    let body = format!(
        "<p>Nobody can say whether these premises held. They count neither for nor against the devices.</p>\n{}",
        table("Premises that could not be judged", &heads, rows)
    );
    section("unjudged", "What could not be judged", &body)
}

pub(super) fn figures(report: &Report) -> String {
    let tiles = wording::figures(&report.figures).map(|(title, count)| {
        format!("<div><dt>{}</dt><dd><b>{}</b> {}</dd></div>\n", capital(title), grouped(count), wording::figure(title))
    });
    section("figures", "Figures", &format!("<dl class=\"tiles\">\n{}</dl>\n", tiles.concat()))
}

pub(super) fn traces(report: &Report) -> String {
    if report.traces.is_empty() {
        return section("traces", "Traces", "<p>No trace was read.</p>\n");
    }
    let rows = report.traces.iter().map(|trace| {
        let period = trace.period.map(|(first, last)| format!("{}<br />{}", moment_cell(first), moment_cell(last)));
        let head = trace.head.as_ref().map(|head| format!("<br /><small>head {head}</small>")).unwrap_or_default();
        vec![
            format!("{}<br /><small>{}</small>{head}", name(&trace.device), escape(&trace.directory)),
            escape(&trace.graph),
            grouped(trace.records),
            period.unwrap_or_default(),
            ending(trace),
        ]
    });
    let heads =
        [("Device", false), ("Graph", false), ("Records", true), ("First and last, UTC", false), ("End", false)];
    let mut body = table("Traces that were read", &heads, rows);
    if report.open().next().is_some() {
        body += "<p class=\"note\">An open trace has no closing signature at its end: the device is running, has crashed, \
                 or the end was cut off. What stands after the last signature is ignored.</p>\n";
    }
    section("traces", "Traces", &body)
}

fn ending(trace: &Trace) -> String {
    match &trace.end {
        Ending::Closed => "closed".to_string(),
        Ending::Open(tail) if tail.bytes == 0 => "<b>open</b>, nothing ignored".to_string(),
        Ending::Open(tail) => {
            format!("<b>open</b>, {} and {} ignored", counted(tail.records, "record"), counted(tail.bytes, "byte"))
        }
        Ending::Missing => "in a file that is <b>missing</b>".to_string(),
        Ending::Damaged => "<b>damaged</b>; what comes after that is not judged".to_string(),
        Ending::Unread => "<b>not judged</b>, it has no signature by a known key".to_string(),
        Ending::CopyOf(other) => format!("a copy of {}", escape(other)),
        Ending::Contradicts(other) => format!("<b>not judged</b>, contradicts {}", escape(other)),
    }
}

pub(super) fn inputs(report: &Report) -> String {
    let lines = wording::inputs(&report.inputs);
    if lines.is_empty() {
        return String::new();
    }
    let lines: String = lines.iter().map(|line| format!("<li>{}</li>\n", escape(line))).collect();
    section("inputs", "Judged with", &format!("<ul>\n{lines}</ul>\n"))
}

pub(super) fn holdings(report: &Report) -> String {
    if report.holdings.is_empty() {
        return section("held", "What is held", "<p>Nothing was held in the end.</p>\n");
    }
    let rows = report.holdings.iter().map(|Holding { device, policy, items, until }| {
        let known = report.policies.iter().find(|known| known.digest == *policy);
        let english = known.map_or_else(|| "A policy that is not in the traces.".to_string(), |it| escape(&it.english));
        vec![name(device), grouped(*items), moment_cell(*until), english]
    });
    let heads = [("Device", false), ("Items", true), ("Gone by, UTC", false), ("Under the policy", false)];
    section("held", "What is held", &table("What the devices held in the end", &heads, rows))
}

/// A table whose first cell heads its row. Its caption is for those who hear the page; others see the heading above it. On a narrow page each cell says to which column it belongs.
fn table(caption: &str, heads: &[(&str, bool)], rows: impl Iterator<Item = Vec<String>>) -> String {
    let class = |is_number: bool| if is_number { " class=\"number\"" } else { "" };
    let head = heads.iter().map(|(title, number)| format!("<th scope=\"col\"{}>{title}</th>", class(*number)));
    let row = |cells: Vec<String>| {
        let cell = |(at, (cell, (title, number))): (usize, (&String, &(&str, bool)))| match at {
            0 => format!("<th scope=\"row\">{cell}</th>"),
            // One element, so that a narrow page can put it beside its title.
            _ => format!("<td data-label=\"{title}\"{}><span>{cell}</span></td>", class(*number)),
        };
        format!("<tr>{}</tr>\n", cells.iter().zip(heads).enumerate().map(cell).collect::<String>())
    };
    format!(
        "<table>\n<caption class=\"unseen\">{caption}</caption>\n<thead><tr>{}</tr></thead>\n<tbody>\n{}</tbody>\n</table>\n",
        head.collect::<String>(),
        rows.map(row).collect::<String>(),
    )
}

/// With a capital letter in front.
fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}
