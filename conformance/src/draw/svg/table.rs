//! The table of edges: from and to, action, guards, effects, reason, mark.

use super::super::{Arrow, Picture, wrap};
use super::{BADGE, Block, CHARACTER, GAP, MARGIN, badge, class, text};

/// In characters, where the words allow it.
const GUARDS_WIDTH: usize = 54;
const EFFECTS_WIDTH: usize = 34;
const LINE: f64 = 17.0;
/// Above and below the lines of a row.
const PADDING: f64 = 6.0;

/// A cell is a list of lines.
type Cell = Vec<String>;

pub(super) fn draw(picture: &Picture<'_>) -> Block {
    let rows: Vec<Vec<Cell>> = picture.arrows.iter().map(|arrow| cells(arrow, picture)).collect();
    let heads = ["edge", "action", "guards", "effects", "beyond the figure", "run"];
    let columns = heads.iter().enumerate().map(|(at, head)| {
        let lines = rows.iter().filter_map(|row| row.get(at)).flatten();
        let longest = lines.map(|line| line.chars().count()).max();
        longest.map(|longest| (*head, longest.max(head.chars().count()) as f64 * CHARACTER + MARGIN))
    });
    let columns: Vec<(&str, f64)> = columns.flatten().collect();
    let first = 2.0 * (BADGE + GAP);
    let width = first + columns.iter().map(|(_, width)| width).sum::<f64>();

    let mut body = String::new();
    let mut x = first;
    for (head, width) in &columns {
        body += &text(x, 12.0, "head", head);
        x += width;
    }
    let mut y = 20.0;
    for (arrow, row) in picture.arrows.iter().zip(&rows) {
        body += &format!("<path class=\"rule\" d=\"M0 {y:.1}H{width:.1}\"/>\n");
        let lines = row.iter().map(Vec::len).max().unwrap_or(0).max(1);
        let name = picture.graph.name;
        body += &format!("<g id=\"{name}-edge-{}\" class=\"{}\">\n", arrow.number, class(arrow));
        body += &badge(arrow, BADGE, y + PADDING + LINE / 2.0);
        let mut x = first;
        for (cell, (_, width)) in row.iter().zip(&columns) {
            for (at, line) in cell.iter().enumerate() {
                body += &text(x, y + PADDING + 13.0 + at as f64 * LINE, "", line);
            }
            x += width;
        }
        body += "</g>\n";
        y += 2.0 * PADDING + lines as f64 * LINE;
    }
    Block { body, width, height: y }
}

fn cells(arrow: &Arrow<'_>, picture: &Picture<'_>) -> Vec<Cell> {
    let ends = match (arrow.edge.from, arrow.edge.to) {
        (Some(from), Some(to)) => format!("{from} → {to}"),
        _ => format!("any but {}", picture.graph.initial),
    };
    vec![
        vec![ends],
        vec![arrow.edge.label.to_string()],
        wrap(&arrow.guards(), " ∧", GUARDS_WIDTH),
        wrap(&arrow.effects(), ";", EFFECTS_WIDTH),
        arrow.edge.beyond.iter().map(|reason| format!("[{reason}]")).collect(),
        arrow.mark.iter().map(ToString::to_string).collect(),
    ]
}
