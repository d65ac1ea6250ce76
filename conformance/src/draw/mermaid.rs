//! A Mermaid flowchart: its state diagrams can neither dash nor colour a single edge. The text of an edge is a box on
//! its way, because Mermaid keeps boxes apart but lets the labels of edges cover each other.

use super::{Arrow, Picture, ascii};

/// How what a run did not take looks.
const UNTAKEN: &str = "stroke:#767676,color:#767676";

pub(super) fn draw(picture: &Picture<'_>) -> String {
    let mut lines = vec![
        "---".to_string(),
        format!("title: {}", quoted(&picture.title())),
        "config: { flowchart: { wrappingWidth: 500 } }".to_string(),
        "---".to_string(),
        format!("%% {}; what is beyond the figure is dashed or has its reason in brackets", picture.summary()),
        "flowchart LR".to_string(),
    ];
    for location in &picture.locations {
        lines.push(format!("  {}(({}))", ascii(*location), quoted(&location.to_string())));
    }
    let mut styles = Vec::new();
    for (at, (from, arrow, to)) in picture.between().enumerate() {
        let (line, tip) = if arrow.edge.beyond.is_some() { ("-.-", "-.->") } else { ("---", "-->") };
        lines.push(format!("  {} {line} {} {tip} {}", ascii(from), node(arrow), ascii(to)));
        if arrow.is_untaken() {
            styles.push(format!("  linkStyle {},{} {UNTAKEN}", 2 * at, 2 * at + 1));
        }
    }
    // INVARIANT: links are styled by their place in the file, so this one comes after the edges.
    lines.push(format!("  start((\" \")) --> {}", ascii(picture.graph.initial)));
    let elsewhere = picture.elsewhere();
    if !elsewhere.is_empty() {
        lines.push(format!("  subgraph elsewhere[{}]", quoted(&picture.elsewhere_title())));
        lines.push("    direction LR".to_string());
        lines.extend(elsewhere.iter().map(|arrow| format!("    {}", node(arrow))));
        lines.push("  end".to_string());
    }
    for arrow in &picture.arrows {
        let dashes = arrow.edge.beyond.map(|_| "stroke-dasharray:6 4");
        let style: Vec<&str> = dashes.into_iter().chain(arrow.is_untaken().then_some(UNTAKEN)).collect();
        if !style.is_empty() {
            styles.push(format!("  style edge{} {}", arrow.number, style.join(",")));
        }
    }
    lines.extend(styles);
    lines.join("\n") + "\n"
}

fn node(arrow: &Arrow<'_>) -> String {
    format!("edge{}[{}]", arrow.number, quoted(&arrow.caption().join("\n")))
}

/// Text in quotes. Mermaid writes entities with `#` and reads HTML in labels.
fn quoted(text: &str) -> String {
    let entities = text.chars().map(|character| match character {
        '#' => "#35;".to_string(),
        '"' => "#quot;".to_string(),
        '&' => "#amp;".to_string(),
        '<' => "#lt;".to_string(),
        '>' => "#gt;".to_string(),
        '\n' => "<br/>".to_string(),
        other => other.to_string(),
    });
    format!("\"{}\"", entities.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn text_cannot_leave_its_quotes() {
        assert_eq!(quoted("\"p\" ⊑ q & a < b\n#1"), "\"#quot;p#quot; ⊑ q #amp; a #lt; b<br/>#35;1\"");
    }
}
