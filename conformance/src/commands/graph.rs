//! `conform graph`.

use clap::{Args, ValueEnum};
use conformance::draw::{self, draw};
use conformance::scenario::Role;
use conformance::verify::Kind;
use pilot_core::graph::Graph;
use pilot_core::graphs;

use super::model::{ModelOptions, explore};
use super::{CommandError, print};

/// Draw a program graph from its table
///
/// With --run, a model is explored first, and the picture shows which edges real runs took.
#[derive(Args)]
pub(crate) struct Draw {
    /// Which graph
    #[arg(value_parser = graphs::ALL.map(|graph| graph.name))]
    graph: String,
    /// In which language
    #[arg(long, value_enum)]
    format: FormatName,
    /// Explore a model first (the options below describe it) and mark the edges as taken or untaken
    #[arg(long)]
    run: bool,
    #[command(flatten)]
    options: ModelOptions,
}

#[derive(Clone, Copy, ValueEnum)]
enum FormatName {
    Mermaid,
    Dot,
    Svg,
}

impl Draw {
    pub(crate) fn run(&self) -> Result<u8, CommandError> {
        let known = graphs::ALL.into_iter().find(|graph| graph.name == self.graph);
        let graph = known.ok_or(CommandError::Usage("there is no such graph"))?;
        let format = match self.format {
            FormatName::Mermaid => draw::Format::Mermaid,
            FormatName::Dot => draw::Format::Dot,
            FormatName::Svg => draw::Format::Svg,
        };
        let picture = if self.run {
            let (kind, role) = part_of(graph);
            let report = explore(&self.options.settings(Some(kind))?)?;
            if report.is_out_of_memory {
                eprintln!("error: the memory limit is reached, so what was taken is not known");
                return Ok(report.exit_code());
            }
            draw(graph, Some(&|edge| report.covered.has_edge(role, edge)), format)
        } else {
            draw(graph, None, format)
        };
        print(&picture)?;
        Ok(0)
    }
}

/// The models in which a graph occurs, and whose graph it is there.
fn part_of(graph: &Graph<'_>) -> (Kind, Role) {
    let kind = if graph.name.starts_with("direct") { Kind::Direct } else { Kind::Indirect };
    let role = match graph.name {
        "direct-subject" | "indirect-subject" => Role::Subject,
        "repository" => Role::Repository,
        _ => Role::Controller,
    };
    (kind, role)
}
