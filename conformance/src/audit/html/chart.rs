//! A message sequence chart: one lifeline per device, time downwards, what is wrong marked.
//!
//! The layout uses a monospaced font whose widths are known, so the same report gives the same bytes everywhere.

use super::super::report::{Arrow, Finding};
use super::escape;
use crate::plain::{time_of_day, visible};

/// The width of a character, for the font sizes in `style.css`. Monospaced fonts have 0.55 to 0.61 of their size.
const CHARACTER: f64 = 7.3;
/// Times and records, on the left.
const LEFT: f64 = 150.0;
/// The names, on top.
const TOP: f64 = 46.0;
/// From one line of the chart to the next.
const ROW: f64 = 42.0;
/// The least distance between two lifelines.
const COLUMN: f64 = 130.0;
/// How far a step of one device reaches to the right.
const LOOP: f64 = 26.0;
/// Longer names are cut; the whole name is in the title.
const MAX_NAME_CHARS: usize = 20;
/// Longer numbers of records are cut, likewise.
const MAX_RECORD_CHARS: usize = 9;
/// Longer labels are cut, likewise.
const MAX_LABEL_CHARS: usize = 36;

/// The chart of a finding, with at most `most` lines; nothing if it has none.
pub(super) fn figure(finding: &Finding, number: usize, most: usize) -> String {
    let skipped = finding.chart.len().saturating_sub(most);
    let arrows: Vec<&Arrow> = finding.chart.iter().skip(skipped).collect();
    if arrows.is_empty() {
        return String::new();
    }
    let chart = Chart::new(finding, &arrows);
    format!(
        "<figure>\n<div class=\"chart\" role=\"region\" tabindex=\"0\" aria-label=\"Messages before finding {number}\">\n\
         {}</div>\n<figcaption>What the device did and heard last. Time runs downwards; the line in question is \
         marked ✗.</figcaption>\n</figure>\n",
        chart.svg(number)
    )
}

struct Chart<'f> {
    names: Vec<&'f str>,
    arrows: &'f [&'f Arrow],
    /// Which line is in question.
    marked: usize,
    column: f64,
    width: f64,
}

impl<'f> Chart<'f> {
    fn new(finding: &'f Finding, arrows: &'f [&'f Arrow]) -> Self {
        let mut names: Vec<&str> = vec![&finding.device];
        for arrow in arrows {
            for party in [Some(&arrow.device), arrow.peer.as_ref()].into_iter().flatten() {
                if !names.contains(&party.as_str()) {
                    names.push(party);
                }
            }
        }
        let is_it = |arrow: &&Arrow| arrow.record == finding.record && arrow.device == finding.device;
        let marked = arrows.iter().rposition(is_it).unwrap_or(arrows.len().saturating_sub(1));
        let mut chart = Self { names, arrows, marked, column: COLUMN, width: 0.0 };
        let widest_name = chart.names.iter().map(|name| width(&cut(name, MAX_NAME_CHARS)) + 24.0);
        let widest_label = arrows.iter().map(|arrow| {
            let (from, to) = chart.ends(arrow);
            let label = width(&label(arrow)) + 2.0 * CHARACTER + 24.0;
            if from == to { label + LOOP } else { label / from.abs_diff(to) as f64 }
        });
        chart.column = widest_name.chain(widest_label).fold(COLUMN, f64::max);
        chart.width = LEFT + chart.column * chart.names.len() as f64;
        chart
    }

    fn svg(&self, number: usize) -> String {
        let height = TOP + ROW * self.arrows.len() as f64 + 14.0;
        let rows: String = self.arrows.iter().enumerate().map(|(at, arrow)| self.row(at, arrow)).collect();
        let lines: String = (0..self.names.len()).map(|at| self.lifeline(at, height)).collect();
        let told: Vec<String> = self.arrows.iter().map(|arrow| told(arrow)).collect();
        format!(
            "<svg viewBox=\"0 0 {w:.0} {height:.0}\" width=\"{w:.0}\" height=\"{height:.0}\" role=\"img\" \
             aria-labelledby=\"chart-{number}-title chart-{number}-desc\">\n\
             <title id=\"chart-{number}-title\">Message sequence chart of finding {number}</title>\n\
             <desc id=\"chart-{number}-desc\">{}.</desc>\n\
             <rect class=\"band\" x=\"0\" y=\"{:.1}\" width=\"{w:.0}\" height=\"{ROW:.0}\" />\n\
             <text class=\"when\" x=\"8\" y=\"24\">time</text>\
             <text class=\"when\" x=\"{:.1}\" y=\"24\" text-anchor=\"end\">record</text>\n{lines}{rows}</svg>\n",
            escape(&told.join("; ")),
            TOP + ROW * self.marked as f64,
            LEFT - 6.0,
            w = self.width,
        )
    }

    fn lifeline(&self, at: usize, height: f64) -> String {
        let (name, x) = (self.names.get(at).copied().unwrap_or_default(), self.x(at));
        let shown = cut(name, MAX_NAME_CHARS);
        let half = width(&shown) / 2.0 + 8.0;
        format!(
            "<line class=\"life\" x1=\"{x:.1}\" y1=\"32\" x2=\"{x:.1}\" y2=\"{height:.0}\" />\n\
             <g><title>{}</title><rect class=\"party\" x=\"{:.1}\" y=\"8\" width=\"{:.1}\" height=\"24\" rx=\"4\" />\
             <text class=\"who\" x=\"{x:.1}\" y=\"24\">{}</text></g>\n",
            escape(name),
            x - half,
            2.0 * half,
            escape(&shown),
        )
    }

    fn row(&self, at: usize, arrow: &Arrow) -> String {
        let (middle, is_marked) = (TOP + ROW * (at as f64 + 0.5), at == self.marked);
        let y = middle + 8.0;
        let (from, to) = self.ends(arrow);
        let (class, mark) = if is_marked { (" class=\"marked\"", "✗ ") } else { ("", "") };
        let (x1, x2) = (self.x(from), self.x(to));
        let shown = format!("{mark}{}", escape(&label(arrow)));
        let drawn = if from == to {
            let (right, top) = (x1 + LOOP, y - 16.0);
            format!(
                "<path class=\"arrow\" d=\"M{x1:.1} {top:.1}H{right:.1}V{y:.1}H{:.1}\" />{}\
                 <text class=\"label own\" x=\"{:.1}\" y=\"{:.1}\">{shown}</text>",
                x1 + 8.0,
                tip(x1, y, -1.0),
                right + 7.0,
                y - 4.0,
            )
        } else {
            let way = if x2 > x1 { 1.0 } else { -1.0 };
            format!(
                "<line class=\"arrow\" x1=\"{x1:.1}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" />{}\
                 <circle class=\"start\" cx=\"{x1:.1}\" cy=\"{y:.1}\" r=\"3\" />\
                 <text class=\"label\" x=\"{:.1}\" y=\"{:.1}\">{shown}</text>",
                x2 - 8.0 * way,
                tip(x2, y, way),
                f64::midpoint(x1, x2),
                y - 8.0,
            )
        };
        format!(
            "<g{class}><title>{}</title><text class=\"when\" x=\"8\" y=\"{:.1}\">{}</text>\
             <text class=\"when\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>{drawn}</g>\n",
            escape(&told(arrow)),
            middle + 4.0,
            time_of_day(arrow.time),
            LEFT - 6.0,
            middle + 4.0,
            cut(&arrow.record.to_string(), MAX_RECORD_CHARS),
        )
    }

    /// Where the arrow begins and ends.
    fn ends(&self, arrow: &Arrow) -> (usize, usize) {
        let device = self.place(&arrow.device);
        let peer = arrow.peer.as_ref().map_or(device, |peer| self.place(peer));
        if arrow.is_sent { (device, peer) } else { (peer, device) }
    }

    fn place(&self, name: &str) -> usize {
        self.names.iter().position(|known| *known == name).unwrap_or(0)
    }

    fn x(&self, at: usize) -> f64 {
        LEFT + self.column * (at as f64 + 0.5)
    }
}

/// The head of an arrow that ends at (x, y) and comes from the left (`way` 1) or the right (−1).
fn tip(x: f64, y: f64, way: f64) -> String {
    let back = x - 9.0 * way;
    format!("<path class=\"tip\" d=\"M{x:.1} {y:.1}L{back:.1} {:.1}V{:.1}Z\" />", y - 4.5, y + 4.5)
}

/// A line of the chart in words.
fn told(arrow: &Arrow) -> String {
    let (device, record) = (&arrow.device, arrow.record);
    let way = match &arrow.peer {
        Some(peer) if arrow.is_sent => format!("{device} to {peer}"),
        Some(peer) => format!("{peer} to {device}"),
        None => device.clone(),
    };
    format!("{} {way}: {} (record {record} of {device})", time_of_day(arrow.time), arrow.label)
}

fn label(arrow: &Arrow) -> String {
    cut(&arrow.label, MAX_LABEL_CHARS)
}

fn cut(text: &str, most: usize) -> String {
    let text = visible(text);
    if text.chars().count() <= most {
        return text;
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

fn width(text: &str) -> f64 {
    text.chars().count() as f64 * CHARACTER
}
