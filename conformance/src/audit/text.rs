//! A report for a terminal: the verdict first, then what it rests on.

use super::report::{Ending, Finding, Open, Report, Trace, Unjudged};
use super::wording::{self, levels};
use crate::plain::{counted, grouped, moment, visible};

/// How wide the text is, in characters.
const WIDTH: usize = 100;

/// The report in at most 100 columns, where names allow it.
pub fn text(report: &Report) -> String {
    let mut out = wrapped(&format!("{}: {}", report.verdict().word(), wording::sentence(report)), 0, 0);
    for (at, found) in report.findings.iter().enumerate() {
        out += &finding(at + 1, found);
    }
    let more = report.more;
    if more.violations + more.integrity > 0 {
        out += &format!("\n   and {} more\n", wording::findings(more));
    }
    out += &wording::filtered(report).map(|text| format!("\n{}", wrapped(&text, 0, 0))).unwrap_or_default();
    out += &evidence(report);
    out += &unjudged(report);
    out += &open(report);
    out += &set_aside(report);
    out += &figures(report);
    out += &list("judged with", wording::inputs(&report.inputs).into_iter());
    out
}

fn finding(number: usize, finding: &Finding) -> String {
    let Finding { device, record, time, rule, premise, text, .. } = finding;
    let time = time.map(|time| format!(", {}", moment(time))).unwrap_or_default();
    let place = format!("{}, record {record}{time}", visible(device));
    let indent = format!("{number}.").chars().count() + 1;
    let mut out = format!("\n{number}. {place}\n");
    out += &wrapped(&format!("{}, does not hold: {}", visible(rule), visible(premise)), indent, 0);
    out += &wrapped(&visible(text), indent, 0);
    out
}

fn evidence(report: &Report) -> String {
    let levels = levels(&report.evidence);
    if levels.iter().all(|level| level.count == 0) {
        let nothing = if report.figures.records == 0 { "nothing could be judged" } else { "nothing was accepted" };
        return format!("\nevidence: {nothing}\n");
    }
    let width = levels.iter().map(|level| grouped(level.count).len()).max().unwrap_or(0);
    let line =
        |level: &wording::Level| format!("  {:>width$} {:<9}  {}\n", grouped(level.count), level.name, level.short);
    let openings = wording::openings(report).map(|text| wrapped(&text, 2, 0)).unwrap_or_default();
    format!(
        "\nevidence of consent to what was accepted, each item at its best level\n{}{openings}",
        levels.iter().map(line).collect::<String>()
    )
}

fn unjudged(report: &Report) -> String {
    let line = |it: &Unjudged| {
        let (device, premise, why) = (visible(&it.device), visible(&it.premise), visible(&it.why));
        // Some things are nobody's in particular, and so once.
        if device.is_empty() {
            format!("{premise}: {why}")
        } else {
            format!("{device}: {premise}, {}: {why}", counted(it.count, "time"))
        }
    };
    list("not judged", report.unjudged.iter().map(line))
}

fn open(report: &Report) -> String {
    let line = |(trace, tail): (&Trace, Open)| {
        let ignored = match (tail.records, tail.bytes) {
            (0, 0) => "nothing".to_string(),
            (records, bytes) => format!("{}, {}", counted(records, "record"), counted(bytes, "byte")),
        };
        format!("{}: {ignored} ignored, in {}", visible(&trace.device), visible(&trace.directory))
    };
    list("open traces: what stands after the last signature is ignored", report.open().map(line))
}

fn set_aside(report: &Report) -> String {
    let line = |trace: &Trace| {
        let relation = match &trace.end {
            Ending::CopyOf(other) => format!("a copy of {}", visible(other)),
            Ending::Contradicts(other) => format!("contradicts {}", visible(other)),
            Ending::Closed | Ending::Open(_) | Ending::Missing | Ending::Damaged | Ending::Unread => return None,
        };
        Some(format!("{}: {}, {relation}", visible(&trace.device), visible(&trace.directory)))
    };
    list("set aside: of each device one history is judged, once", report.traces.iter().filter_map(line))
}

/// Lines under a heading; nothing if there are none.
fn list(heading: &str, lines: impl Iterator<Item = String>) -> String {
    let lines: String = lines.map(|line| wrapped(&line, 2, 2)).collect();
    if lines.is_empty() { lines } else { format!("\n{heading}\n{lines}") }
}

/// Those that are not zero.
fn figures(report: &Report) -> String {
    let some = wording::figures(&report.figures).into_iter().filter(|(_, count)| *count > 0);
    let one = |name: &'static str, count| if count == 1 { name.strip_suffix('s').unwrap_or(name) } else { name };
    let some: Vec<String> = some.map(|(name, count)| format!("{} {}", grouped(count), one(name, count))).collect();
    if some.is_empty() {
        return String::new();
    }
    format!("\nfigures\n{}", wrapped(&some.join(", "), 2, 0))
}

/// Lines of at most [`WIDTH`] characters, the first indented, the others `hanging` more. A word is never broken.
fn wrapped(text: &str, indent: usize, hanging: usize) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > 0 && column + 1 + length <= WIDTH {
            out.push(' ');
            column += 1;
        } else {
            let deep = if column == 0 { indent } else { indent + hanging };
            if column > 0 {
                out.push('\n');
            }
            out.extend(std::iter::repeat_n(' ', deep));
            column = deep;
        }
        out += word;
        column += length;
    }
    if column > 0 {
        out.push('\n');
    }
    out
}
