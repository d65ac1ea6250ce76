//! SVG with a layout of our own: a drawing of the locations, in which edges carry their numbers and actions, and below
//! it a table in which each edge has all its guards and effects.
//!
//! The layout uses no more than sums and square roots, and a monospaced font whose widths are known, so the same table
//! gives the same bytes everywhere.

mod diagram;
mod table;

use super::{Arrow, Picture};

/// The width of a character, for the font size in [`STYLE`]. Monospaced fonts have 0.55 to 0.6 of their size.
const CHARACTER: f64 = 7.25;
/// Around the page and between its blocks.
const MARGIN: f64 = 24.0;
/// The radius of the circle around an edge's number.
const BADGE: f64 = 10.0;
/// Between a badge and its text, and on both sides of them.
const GAP: f64 = 5.0;

const STYLE: &str = "\
text { font: 12px 'DejaVu Sans Mono', Menlo, Consolas, monospace; fill: #1b1f24; }
.title { font: bold 18px sans-serif; }
.summary, .head { font: 12px sans-serif; fill: #57606a; }
.location { font: italic 17px serif; text-anchor: middle; }
.number { font: bold 11px sans-serif; fill: #fff; text-anchor: middle; }
.page { fill: #fff; }
.circle { fill: #fff; stroke: #1b1f24; stroke-width: 1.6; }
.rule { stroke: #d0d7de; }
.box { fill: none; stroke: #8a4b08; stroke-width: 1.2; stroke-dasharray: 6 4; }
.edge { fill: none; stroke: #1f4e79; stroke-width: 1.6; }
.badge, .tip { fill: #1f4e79; }
.beyond .edge { stroke: #8a4b08; stroke-dasharray: 6 4; }
.beyond .badge, .tip.beyond { fill: #8a4b08; }
.untaken .edge { stroke: #767676; }
.untaken .badge, .tip.untaken { fill: #767676; }
.untaken text { fill: #767676; }
.untaken .number { fill: #fff; }
";

/// A part of the page, drawn from its own upper left corner.
struct Block {
    body: String,
    width: f64,
    height: f64,
}

pub(super) fn draw(picture: &Picture<'_>) -> String {
    let name = picture.graph.name;
    let blocks: Vec<Block> = [
        Some(heading(picture)),
        Some(diagram::draw(picture)),
        elsewhere(picture),
        Some(legend(picture)),
        Some(table::draw(picture)),
    ]
    .into_iter()
    .flatten()
    .collect();
    let width = blocks.iter().map(|block| block.width).fold(0.0, f64::max) + 2.0 * MARGIN;
    let height = blocks.iter().map(|block| block.height + MARGIN).sum::<f64>() + MARGIN;
    let mut y = MARGIN;
    let mut body = String::new();
    for block in &blocks {
        body += &format!("<g transform=\"translate({MARGIN} {y:.1})\">\n{}</g>\n", block.body);
        y += block.height + MARGIN;
    }
    let title = escape(&picture.title());
    let summary = escape(&picture.summary());
    let tips: String = ["figure", "beyond", "untaken"].map(|kind| tip(name, kind)).concat();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-labelledby=\"{name}-title {name}-summary\">\n\
         <title id=\"{name}-title\">{title}</title>\n\
         <desc id=\"{name}-summary\">{summary}</desc>\n\
         <style>\n{STYLE}</style>\n\
         <defs>\n{tips}</defs>\n\
         <rect class=\"page\" width=\"100%\" height=\"100%\"/>\n\
         {body}</svg>\n"
    )
}

fn heading(picture: &Picture<'_>) -> Block {
    let body = text(0.0, 16.0, "title", &picture.title()) + &text(0.0, 36.0, "summary", &picture.summary());
    Block { body, width: 0.0, height: 36.0 }
}

/// The edges that can be taken everywhere but in the initial location, in a box that stands for those locations.
fn elsewhere(picture: &Picture<'_>) -> Option<Block> {
    const COLUMNS: usize = 4;
    const LINE: f64 = 28.0;
    let arrows = picture.elsewhere();
    let column = arrows.iter().map(|arrow| tag_width(arrow)).reduce(f64::max)? + MARGIN;
    let rows = arrows.len().div_ceil(COLUMNS);
    let columns = arrows.len().div_ceil(rows);
    let mut body = text(12.0, 24.0, "", &format!("{}:", picture.elsewhere_title()));
    for (at, arrow) in arrows.iter().enumerate() {
        let (row, place) = ((at / columns) as f64, (at % columns) as f64);
        body += &group(arrow, &tag(arrow, 12.0 + place * column, 46.0 + row * LINE));
    }
    let width = column * columns as f64 + 12.0;
    let height = 36.0 + rows as f64 * LINE;
    let outline = format!("<rect class=\"box\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"10\"/>\n");
    Some(Block { body: outline + &body, width, height })
}

/// What the strokes and brackets mean.
fn legend(picture: &Picture<'_>) -> Block {
    const SAMPLE: f64 = 40.0;
    let mut samples = vec![("figure", "edge of the figure"), ("beyond", "edge beyond the figure")];
    if picture.arrows.iter().any(Arrow::is_untaken) {
        samples.push(("untaken", "untaken in the run"));
    }
    let (mut x, mut body) = (0.0, String::new());
    for (class, meaning) in samples {
        let sample = format!("<path class=\"edge\" d=\"M{x:.1} 8H{:.1}\"/>\n", x + SAMPLE);
        body += &format!("<g class=\"{class}\">\n{sample}</g>\n");
        body += &text(x + SAMPLE + GAP, 12.0, "", meaning);
        x += SAMPLE + GAP + text_width(meaning) + MARGIN;
    }
    let brackets = "[…] reason for what the figure does not have";
    body += &text(x, 12.0, "", brackets);
    Block { body, width: x + text_width(brackets), height: 16.0 }
}

/// What belongs to an edge: its stroke, badge and text.
fn group(arrow: &Arrow<'_>, body: &str) -> String {
    format!("<g class=\"{}\">\n{body}</g>\n", class(arrow))
}

/// By which the edges of the figure, those beyond it and the untaken ones look different.
fn class(arrow: &Arrow<'_>) -> &'static str {
    match (arrow.edge.beyond.is_some(), arrow.is_untaken()) {
        (false, false) => "figure",
        (false, true) => "figure untaken",
        (true, false) => "beyond",
        (true, true) => "beyond untaken",
    }
}

/// The tip of an arrow; `kind` is a class.
fn tip(name: &str, kind: &str) -> String {
    format!(
        "<marker id=\"{name}-{kind}\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"10\" markerHeight=\"10\" \
         markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path class=\"tip {kind}\" d=\"M0 0L10 5L0 10z\"/></marker>\n"
    )
}

/// An edge's number and heading, from x on and with y in the middle.
fn tag(arrow: &Arrow<'_>, x: f64, y: f64) -> String {
    badge(arrow, x + GAP + BADGE, y) + &text(x + 2.0 * GAP + 2.0 * BADGE, y + 4.0, "", &arrow.heading())
}

fn tag_width(arrow: &Arrow<'_>) -> f64 {
    3.0 * GAP + 2.0 * BADGE + text_width(&arrow.heading())
}

/// An edge's number in a circle.
fn badge(arrow: &Arrow<'_>, x: f64, y: f64) -> String {
    let circle = format!("<circle class=\"badge\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{BADGE}\"/>\n");
    circle + &text(x, y + 4.0, "number", &arrow.number.to_string())
}

fn text(x: f64, y: f64, class: &str, content: &str) -> String {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    format!("<text{class} x=\"{x:.1}\" y=\"{y:.1}\">{}</text>\n", escape(content))
}

fn text_width(content: &str) -> f64 {
    content.chars().count() as f64 * CHARACTER
}

fn escape(content: &str) -> String {
    content.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn text_cannot_leave_its_element() {
        assert_eq!(escape("a < b & \"p\" ⊑ q"), "a &lt; b &amp; &quot;p&quot; ⊑ q");
    }
}
