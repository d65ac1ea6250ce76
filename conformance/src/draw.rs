//! Pictures of the program graphs, drawn from the tables that the daemons run.
//!
//! A picture shows what its table says and nothing else: every edge with its number, its action, its guards and its
//! effects, in the table's words, whose meaning stands at [`Guard`] and [`pilot_core::graph::Effect`]. What the paper's
//! figure does not have carries its reason in brackets, as in `[S3] AddressedToMe`, and an edge beyond the figure is
//! dashed. After a run, edges are marked as taken or untaken, in words and not by colour alone.
//!
//! * this file: what every picture says;
//! * `mermaid`, `dot`: for the tools that lay it out themselves;
//! * `svg`: our own layout, for the documentation.

mod dot;
mod mermaid;
mod svg;

use std::collections::BTreeSet;
use std::fmt;

use pilot_core::graph::{Edge, Graph, Guard, Location};

/// In which language a picture is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A Mermaid flowchart.
    Mermaid,
    /// Graphviz.
    Dot,
    /// A drawing with a table of its edges.
    Svg,
}

/// Draws a graph. `taken` says of each edge, by its place in the table, whether a run took it; without it there are no
/// marks.
pub fn draw(graph: &Graph<'_>, taken: Option<&dyn Fn(usize) -> bool>, format: Format) -> String {
    let picture = Picture::new(graph, taken);
    match format {
        Format::Mermaid => mermaid::draw(&picture),
        Format::Dot => dot::draw(&picture),
        Format::Svg => svg::draw(&picture),
    }
}

/// A graph, as pictures show it.
struct Picture<'g> {
    graph: &'g Graph<'g>,
    locations: BTreeSet<Location>,
    arrows: Vec<Arrow<'g>>,
}

/// An edge, as pictures show it.
struct Arrow<'g> {
    /// Its place in the table, counted from 1.
    number: usize,
    edge: &'g Edge<'g>,
    /// Whether a run took it, if there was a run.
    mark: Option<Mark>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Taken,
    Untaken,
}

impl<'g> Picture<'g> {
    fn new(graph: &'g Graph<'g>, taken: Option<&dyn Fn(usize) -> bool>) -> Self {
        let ends = graph.edges.iter().flat_map(|edge| [edge.from, edge.to]).flatten();
        let mark = |at: usize| taken.map(|taken| if taken(at) { Mark::Taken } else { Mark::Untaken });
        let arrow = |(at, edge)| Arrow { number: at + 1, edge, mark: mark(at) };
        Self {
            graph,
            locations: ends.chain([graph.initial]).collect(),
            arrows: graph.edges.iter().enumerate().map(arrow).collect(),
        }
    }

    fn title(&self) -> String {
        format!("Fig. {}, {}", self.graph.figure, self.graph.name)
    }

    /// How many edges there are of which kind.
    fn summary(&self) -> String {
        let beyond = self.arrows.iter().filter(|arrow| arrow.edge.beyond.is_some()).count();
        let untaken = self.arrows.iter().filter(|arrow| arrow.is_untaken()).count();
        let figure = self.arrows.len() - beyond;
        let run = match self.arrows.iter().any(|arrow| arrow.mark.is_some()) {
            true => format!("; {untaken} untaken in the run"),
            false => String::new(),
        };
        format!("{figure} edges of the figure, {beyond} beyond it{run}")
    }

    /// The edges between two locations.
    fn between(&self) -> impl Iterator<Item = (Location, &Arrow<'g>, Location)> {
        self.arrows.iter().filter_map(|arrow| Some((arrow.edge.from?, arrow, arrow.edge.to?)))
    }

    /// The edges that start everywhere but in the initial location.
    fn elsewhere(&self) -> Vec<&Arrow<'g>> {
        self.arrows.iter().filter(|arrow| arrow.edge.from.is_none()).collect()
    }

    /// What stands above those edges.
    fn elsewhere_title(&self) -> String {
        format!("in every location but {}, staying there", self.graph.initial)
    }
}

impl Arrow<'_> {
    /// Its action, the reason if the edge is beyond the figure, and the mark if a run did not take it.
    fn heading(&self) -> String {
        let reason = self.edge.beyond.map(|reason| format!(" [{reason}]")).unwrap_or_default();
        let mark = if self.is_untaken() { " untaken" } else { "" };
        format!("{}{reason}{mark}", self.edge.label)
    }

    /// The figure's guards, then those beyond it with their reasons.
    fn guards(&self) -> Vec<String> {
        let word = |guard: &Guard| match guard {
            Guard::Unless(label) => format!("unless {label}"),
            guard => format!("{guard:?}"),
        };
        let figure = self.edge.guards.iter().map(word);
        figure.chain(self.edge.also.iter().map(|(reason, guard)| format!("[{reason}] {}", word(guard)))).collect()
    }

    fn effects(&self) -> Vec<String> {
        self.edge.effects.iter().map(|effect| format!("{effect:?}")).collect()
    }

    /// Everything about it in short lines: action / guards, as the figures write it, then its effects.
    fn caption(&self) -> Vec<String> {
        const WIDTH: usize = 44;
        let guards = wrap(&self.guards(), " ∧", WIDTH);
        let effects = wrap(&self.effects(), ";", WIDTH);
        let lead = |word: &str, lines: Vec<String>| match lines.as_slice() {
            [] => Vec::new(),
            [first, rest @ ..] => [format!("{word} {first}")].into_iter().chain(rest.iter().cloned()).collect(),
        };
        let taken = if self.mark == Some(Mark::Taken) { " taken" } else { "" };
        let heading = format!("({}) {}{taken}", self.number, self.heading());
        [heading].into_iter().chain(lead("/", guards)).chain(lead("do", effects)).collect()
    }

    fn is_untaken(&self) -> bool {
        self.mark == Some(Mark::Untaken)
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Taken => "taken",
            Self::Untaken => "untaken",
        })
    }
}

/// Lines of at most this many characters where the parts allow it; a part is never broken.
fn wrap(parts: &[String], separator: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let is_last = at + 1 == parts.len();
        let part = format!("{part}{}", if is_last { "" } else { separator });
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + part.chars().count() <= width => {
                line.push(' ');
                line.push_str(&part);
            }
            _ => lines.push(part),
        }
    }
    lines
}

/// The name of a location in languages that know letters and digits only.
fn ascii(location: Location) -> String {
    format!("{location:?}").to_lowercase()
}
