//! Graphviz. The text of an edge is a box on its way, because Graphviz keeps boxes apart but lets the labels of loops
//! cover each other.

use super::{Arrow, Picture, ascii};

pub(super) fn draw(picture: &Picture<'_>) -> String {
    let mut lines = vec![
        format!("digraph {} {{", quoted(picture.graph.name)),
        format!("  label={};", quoted(&format!("{}: {}", picture.title(), picture.summary()))),
        "  labelloc=t; rankdir=LR; node [shape=circle];".to_string(),
        format!("  start [shape=point]; start -> {};", ascii(picture.graph.initial)),
    ];
    for location in &picture.locations {
        lines.push(format!("  {} [label={}];", ascii(*location), quoted(&location.to_string())));
    }
    for (from, arrow, to) in picture.between() {
        let (from, number, to, look) = (ascii(from), arrow.number, ascii(to), look(arrow));
        lines.push(format!("  {}", node(arrow)));
        lines.push(format!("  {from} -> edge{number} [dir=none{look}]; edge{number} -> {to} [dir=forward{look}];"));
    }
    let elsewhere = picture.elsewhere();
    if !elsewhere.is_empty() {
        let title = quoted(&picture.elsewhere_title());
        lines.push(format!("  subgraph cluster_elsewhere {{ label={title}; style=dashed;"));
        lines.extend(elsewhere.iter().map(|arrow| format!("    {}", node(arrow))));
        lines.push("  }".to_string());
    }
    lines.push("}".to_string());
    lines.join("\n") + "\n"
}

fn node(arrow: &Arrow<'_>) -> String {
    let caption: String = arrow.caption().iter().map(|line| format!("{line}\n")).collect();
    let font = "shape=box, fontname=\"monospace\", fontsize=10";
    format!("edge{} [label={}, {font}{}];", arrow.number, quoted(&caption), look(arrow))
}

/// The attributes by which edges beyond the figure and untaken ones look different.
fn look(arrow: &Arrow<'_>) -> String {
    let style = if arrow.edge.beyond.is_some() { ", style=dashed" } else { "" };
    let colour = if arrow.is_untaken() { ", color=\"#767676\", fontcolor=\"#767676\"" } else { "" };
    format!("{style}{colour}")
}

/// Text in quotes; each of its lines is set flush left.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\l"))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn text_cannot_leave_its_quotes() {
        assert_eq!(quoted("\"p\" ⊑ \\q\n"), r#""\"p\" ⊑ \\q\l""#);
    }
}
