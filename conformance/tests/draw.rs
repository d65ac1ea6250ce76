//! Pictures of the graphs show what the tables say, all of it, and the ones in the documentation are up to date.

#![expect(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test may panic")]

use conformance::draw::{Format, draw};
use pilot_core::graph::Label::{Init, Tau};
use pilot_core::graph::Location::{S0, S1, S2, S3};
use pilot_core::graph::{Edge, Effect, Graph, Guard, beyond, edge};
use pilot_core::graphs;
use roxmltree::{Document, Node};

const FORMATS: [Format; 3] = [Format::Mermaid, Format::Dot, Format::Svg];

#[test]
fn every_location_is_shown() {
    for graph in graphs::ALL {
        for format in FORMATS {
            let picture = draw(graph, None, format);
            for location in graph.edges.iter().flat_map(|edge| [edge.from, edge.to]).flatten() {
                let shown = match format {
                    Format::Mermaid => format!("((\"{location}\"))"),
                    Format::Dot => format!("[label=\"{location}\"]"),
                    Format::Svg => format!(">{location}</text>"),
                };
                assert_eq!(picture.matches(&shown).count(), 1, "{} {format:?}: {location}", graph.name);
            }
        }
    }
}

/// The words of an edge are exactly its table's: none is missing, none is another edge's.
#[test]
fn every_edge_is_shown_with_its_guards_reasons_and_effects() {
    for graph in graphs::ALL {
        for format in FORMATS {
            let picture = draw(graph, None, format);
            for (at, edge) in graph.edges.iter().enumerate() {
                assert_eq!(words(&picture, graph, at, format), expected(edge), "{} {format:?} {}", graph.name, at + 1);
            }
        }
    }
}

#[test]
fn every_edge_joins_its_locations() {
    for graph in graphs::ALL {
        let [mermaid, dot, svg] = FORMATS.map(|format| draw(graph, None, format));
        for (at, edge) in graph.edges.iter().enumerate() {
            let number = at + 1;
            let (Some(from), Some(to)) = (edge.from, edge.to) else {
                assert!(svg_row(&svg, graph, at).contains(&format!("any but {}", graph.initial)));
                continue;
            };
            let ends = [from, to].map(|location| format!("{location:?}").to_lowercase());
            let link = line_with(&mermaid, &format!(" edge{number}["));
            let (line, tip) = if edge.beyond.is_some() { ("-.-", "-.->") } else { ("---", "-->") };
            assert!(link.starts_with(&format!("  {} {line} edge{number}[", ends[0])), "{link}");
            assert!(link.ends_with(&format!("] {tip} {}", ends[1])), "{link}");
            let link = line_with(&dot, &format!(" -> edge{number} "));
            assert!(link.starts_with(&format!("  {} -> edge{number} [dir=none", ends[0])), "{link}");
            assert!(link.contains(&format!("edge{number} -> {} [", ends[1])), "{link}");
            assert_eq!(link.matches("style=dashed").count(), if edge.beyond.is_some() { 2 } else { 0 }, "{link}");
            assert!(svg_row(&svg, graph, at).contains(&format!("{from} → {to}")));
        }
    }
}

#[test]
fn an_svg_is_well_formed_and_says_what_it_is() {
    for graph in graphs::ALL {
        let svg = draw(graph, Some(&|at| at % 2 == 0), Format::Svg);
        let document = Document::parse(&svg).expect("a strict parser reads it");
        let child = |name: &str| document.root_element().children().find(|node| node.has_tag_name(name));
        let title = format!("Fig. {}, {}", graph.figure, graph.name);
        assert_eq!(child_text(child("title")), title);
        assert!(child_text(child("desc")).ends_with(&format!("; {} untaken in the run", graph.edges.len() / 2)));
        let ids: Vec<&str> = document.descendants().filter_map(|node| node.attribute("id")).collect();
        let distinct: std::collections::BTreeSet<&str> = ids.iter().copied().collect();
        assert_eq!(ids.len(), distinct.len(), "every id is there once");
        assert!(ids.iter().all(|id| id.starts_with(graph.name)), "ids of several pictures on one page differ");
        for reference in document.descendants().filter_map(|node| node.attribute("marker-end")) {
            assert!(ids.iter().any(|id| reference == format!("url(#{id})")), "{reference} is defined");
        }
    }
}

/// Texts do not cover each other, whatever is drawn: the layout's rooms are as wide as the texts in them.
#[test]
fn texts_of_an_svg_do_not_overlap() {
    const LOOPS: &[Edge<'static>] = &[
        edge(S0, Init, &[], &[], S1),
        edge(S0, Tau, &[], &[], S0),
        edge(S0, Tau, &[Guard::Unless(Tau)], &[], S0),
        beyond("a very long reason", edge(S1, Tau, &[], &[Effect::Keep], S1)),
        beyond("a very long reason", edge(S0, Tau, &[], &[], S3)),
        edge(S1, Tau, &[], &[], S3),
        edge(S2, Tau, &[], &[], S0),
        edge(S2, Tau, &[], &[], S3),
        edge(S3, Tau, &[], &[], S2),
    ];
    let loops = Graph { name: "loops", figure: "0", initial: S0, edges: LOOPS };
    for graph in graphs::ALL.into_iter().chain([&loops]) {
        for taken in [None, Some(&(|_| false) as &dyn Fn(usize) -> bool)] {
            let svg = draw(graph, taken, Format::Svg);
            let document = Document::parse(&svg).expect("a strict parser reads it");
            let rooms: Vec<Room> = document.descendants().filter(|node| node.has_tag_name("text")).map(room).collect();
            let width: f64 = number(document.root_element(), "width");
            for (at, room) in rooms.iter().enumerate() {
                assert!(room.left >= 0.0 && room.right <= width, "`{}` is on the page", room.text);
                for other in &rooms[at + 1..] {
                    let apart = room.right <= other.left || other.right <= room.left;
                    let is_clear = apart || (room.y - other.y).abs() >= 14.0;
                    assert!(is_clear, "{}: `{}` covers `{}`", graph.name, room.text, other.text);
                }
            }
        }
    }
}

#[test]
fn a_run_marks_each_edge_in_words_and_greys_the_untaken() {
    for graph in graphs::ALL {
        let taken = |at: usize| at.is_multiple_of(3);
        for format in FORMATS {
            let picture = draw(graph, Some(&taken), format);
            for at in 0..graph.edges.len() {
                let words = words(&picture, graph, at, format);
                let marks = ["taken", "untaken"].map(|mark| words.iter().any(|word| word == mark));
                assert_eq!(marks, [taken(at), !taken(at)], "{} {format:?} {}", graph.name, at + 1);
            }
        }
        let [mermaid, dot, svg] = FORMATS.map(|format| draw(graph, Some(&taken), format));
        let links = graph.edges.iter().enumerate().filter(|(_, edge)| edge.from.is_some());
        for (place, (at, _)) in links.enumerate() {
            let grey = format!("linkStyle {},{} stroke:#767676", 2 * place, 2 * place + 1);
            assert_eq!(mermaid.contains(&grey), !taken(at), "{grey}");
        }
        for at in 0..graph.edges.len() {
            let box_in_dot = line_with(&dot, &format!("  edge{} [label=", at + 1));
            assert_eq!(box_in_dot.contains("color=\"#767676\""), !taken(at), "{box_in_dot}");
            let style = mermaid.lines().find(|line| line.contains(&format!("style edge{} ", at + 1)));
            assert_eq!(style.is_some_and(|style| style.contains("stroke:#767676")), !taken(at));
            let document = Document::parse(&svg).expect("a strict parser reads it");
            let class = row(&document, graph, at).attribute("class").expect("a class");
            assert_eq!(class.contains("untaken"), !taken(at));
        }
    }
}

/// A changed table needs new pictures; docs/graphs/README.md says how to make them.
#[test]
fn the_pictures_in_the_documentation_are_what_the_tables_say() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/graphs");
    let page = std::fs::read_to_string(format!("{folder}/README.md")).expect("the page");
    for graph in graphs::ALL {
        let path = format!("{folder}/{}.svg", graph.name);
        let stored = std::fs::read_to_string(&path).expect("the picture");
        assert!(stored == draw(graph, None, Format::Svg), "{path} is out of date");
        assert!(page.contains(&format!("]({}.svg)", graph.name)), "the page shows {}", graph.name);
    }
}

/// What a picture must say about an edge, word by word, sorted.
fn expected(edge: &Edge<'_>) -> Vec<String> {
    let guard = |guard: &Guard| match guard {
        Guard::Unless(label) => format!("unless {label}"),
        guard => format!("{guard:?}"),
    };
    let also = edge.also.iter().map(|(reason, also)| format!("[{reason}] {}", guard(also)));
    let mut words: Vec<String> = edge.guards.iter().map(guard).chain(also).collect();
    words.extend(edge.effects.iter().map(|effect| format!("{effect:?}")));
    words.extend(edge.beyond.map(|reason| format!("[{reason}]")));
    words.push(edge.label.to_string());
    words.sort();
    words
}

/// What a picture says about an edge, likewise.
fn words(picture: &str, graph: &Graph<'_>, at: usize, format: Format) -> Vec<String> {
    let said = match format {
        // The first cell has its ends.
        Format::Svg => svg_row(picture, graph, at).split_once('\n').expect("several cells").1.to_string(),
        Format::Mermaid => caption(picture, &format!(" edge{}[\"", at + 1), "\"]").replace("<br/>", "\n"),
        Format::Dot => caption(picture, &format!(" edge{} [label=\"", at + 1), "\",").replace("\\l", "\n"),
    };
    let mut words = Vec::new();
    for (line_at, line) in said.lines().filter(|line| !line.is_empty()).enumerate() {
        let line = line.trim_start_matches("/ ").trim_start_matches("do ");
        let line = line.trim_start_matches(&format!("({}) ", at + 1));
        if line_at == 0 && format != Format::Svg {
            // The heading: action, reason in brackets, mark.
            let mark = ["untaken", "taken"].into_iter().find(|mark| line.ends_with(&format!(" {mark}")));
            let line = line.trim_end_matches(mark.unwrap_or_default()).trim_end();
            let (action, reason) = line.split_once(' ').map_or((line, None), |(action, reason)| (action, Some(reason)));
            words.extend([Some(action), reason, mark].into_iter().flatten().map(str::to_string));
        } else {
            let parts = line.split(" ∧").flat_map(|part| part.split(';')).map(str::trim);
            words.extend(parts.filter(|part| !part.is_empty()).map(str::to_string));
        }
    }
    words.sort();
    words
}

/// The texts of an edge in the table below the drawing, without its number, one in a line.
fn svg_row(svg: &str, graph: &Graph<'_>, at: usize) -> String {
    let document = Document::parse(svg).expect("a strict parser reads it");
    let texts = row(&document, graph, at).children().filter(|node| node.has_tag_name("text"));
    let texts: Vec<&str> = texts.filter_map(|node| node.text()).collect();
    assert_eq!(texts[0], (at + 1).to_string());
    texts[1..].join("\n")
}

fn row<'d>(document: &'d Document<'_>, graph: &Graph<'_>, at: usize) -> Node<'d, 'd> {
    let id = format!("{}-edge-{}", graph.name, at + 1);
    document.descendants().find(|node| node.attribute("id") == Some(&id)).expect("the edge has a row")
}

fn caption(picture: &str, start: &str, end: &str) -> String {
    let (_, rest) = picture.split_once(start).expect("the edge has a box");
    rest.split_once(end).expect("the box ends").0.to_string()
}

fn line_with<'p>(picture: &'p str, part: &str) -> &'p str {
    picture.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("no line has `{part}`"))
}

fn child_text(node: Option<Node<'_, '_>>) -> String {
    node.and_then(|node| node.text()).expect("an element with text").to_string()
}

/// Where a text stands on the page.
struct Room {
    left: f64,
    right: f64,
    y: f64,
    text: String,
}

fn room(node: Node<'_, '_>) -> Room {
    let text = node.text().expect("a text").to_string();
    // The widest of the fonts, and the larger ones of title and locations.
    let character = match node.attribute("class") {
        Some("title") => 11.0,
        Some("location" | "summary" | "number") => 7.0,
        _ => 7.2,
    };
    let width = text.chars().count() as f64 * character;
    let shifts = node.ancestors().filter_map(|node| node.attribute("transform")).map(|transform| {
        let shift = transform.trim_start_matches("translate(").trim_end_matches(')');
        let (x, y) = shift.split_once(' ').expect("two numbers");
        (x.parse::<f64>().expect("a number"), y.parse::<f64>().expect("a number"))
    });
    let (x, y) = shifts.fold((number(node, "x"), number(node, "y")), |(x, y), (dx, dy)| (x + dx, y + dy));
    let left = if matches!(node.attribute("class"), Some("location" | "number")) { x - width / 2.0 } else { x };
    Room { left, right: left + width, y, text }
}

fn number(node: Node<'_, '_>, attribute: &str) -> f64 {
    node.attribute(attribute).expect("the attribute").parse().expect("a number")
}
