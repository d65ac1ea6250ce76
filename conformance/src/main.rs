//! `conform`: verifies models of the program graphs.

use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use conformance::scenario::Opaque;
use conformance::system::Network;
use conformance::verify::{Kind, verify};

/// Verify the program graphs that the daemons run.
#[derive(Parser)]
#[command(name = "conform", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Explore every reachable state of a model and judge it
    ///
    /// Policies are opaque, p1, p2, …, as in the paper, and realised as concrete ones in the given order.
    /// Exit codes: 0 holds, 1 violated or vacuous, 2 bad input, 3 memory limit reached.
    Verify(Verify),
}

#[derive(clap::Args)]
struct Verify {
    /// The abstract semantics, or the graphs of Fig. 3 (direct) or Fig. 4 (indirect)
    model: ModelName,
    /// Data subjects
    #[arg(long, default_value_t = 1)]
    subjects: usize,
    /// Data controllers
    #[arg(long, default_value_t = 2)]
    controllers: usize,
    /// Items; item k belongs to subject k modulo the number of subjects
    #[arg(long, default_value_t = 1)]
    items: usize,
    /// Policies
    #[arg(long, default_value_t = 3)]
    policies: usize,
    /// Which policies are more restrictive than which, as in `p1<p2,p3<p4`; without it, p1<p2
    #[arg(long)]
    order: Option<String>,
    /// Whether a delivered message is gone or may be delivered again
    #[arg(long, value_enum, default_value_t = NetworkName::Once)]
    network: NetworkName,
    /// Who may choose its policy once more
    #[arg(long, value_delimiter = ',')]
    changes: Vec<Changing>,
    /// Let subjects withdraw data and controllers policies, and judge requirement 5 as well
    #[arg(long)]
    withdrawals: bool,
    /// Memory for states, in GiB
    #[arg(long, default_value_t = 4)]
    memory: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum ModelName {
    Abstract,
    Direct,
    Indirect,
}

#[derive(Clone, Copy, ValueEnum)]
enum NetworkName {
    Once,
    Duplicating,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Changing {
    Subject,
    Controller,
}

fn main() -> ExitCode {
    let Command::Verify(asked) = Arguments::parse().command;
    let changes = |who| u8::from(asked.changes.contains(&who));
    let opaque = Opaque {
        subjects: asked.subjects,
        controllers: asked.controllers,
        items: asked.items,
        policies: asked.policies,
        order: asked.order.unwrap_or_else(|| if asked.policies > 1 { "p1<p2".into() } else { String::new() }),
        subject_changes: changes(Changing::Subject),
        controller_changes: changes(Changing::Controller),
        withdrawals: asked.withdrawals,
    };
    let kind = match asked.model {
        ModelName::Abstract => Kind::Abstract,
        ModelName::Direct => Kind::Direct,
        ModelName::Indirect => Kind::Indirect,
    };
    let network = match asked.network {
        NetworkName::Once => Network::Once,
        NetworkName::Duplicating => Network::Duplicating,
    };
    match verify(kind, &opaque, network, asked.memory.saturating_mul(1 << 30)) {
        Ok(report) if asked.json => {
            println!("{}", serde_json::to_string(&report).unwrap_or_default());
            ExitCode::from(report.exit_code())
        }
        Ok(report) => {
            print!("{report}");
            ExitCode::from(report.exit_code())
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
