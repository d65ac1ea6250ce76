//! `consent-mesh demo`: a shopping mall, its daemons as processes of this machine, and what becomes of five people's
//! addresses in fifteen seconds.
//!
//! Nothing here knows the answers: the daemons decide, and the demo asks them what they did.

mod audit;
mod cast;
mod children;
mod report;
mod table;

use std::fs::Permissions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use consent_mesh::layout::Layout;
use mesh_runtime::air::simulated::{Hub, World};
use mesh_runtime::broker::Broker;
use mesh_runtime::daemon::control::ask;
use mesh_runtime::daemon::state_file;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use self::cast::{Attitude, Cast, MAX_CAST, Person, REPOSITORY};
use self::children::Daemon;
use self::report::Report;
use self::table::{Size, Table};
use crate::console::{Answer, Console, Failure};

/// How long everybody together may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How often the table is brought up to date.
const REFRESH: Duration = Duration::from_millis(500);

#[derive(Debug, Args)]
#[command(after_help = "\
A repository, three controllers (the mall, a shop, an advertiser) and five people, each a process of its own, over an \
MQTT broker and a simulated radio inside this process. Controllers publish what they would like to do; each phone decides \
for itself and says yes on the air, or stays silent; controllers keep what they were given, and nothing else.

Examples:
  consent-mesh demo
  consent-mesh demo --seconds 60 --subjects 12
  consent-mesh demo --keep mall            keep everything: traces, configurations, data
  consent-mesh demo --tamper               somebody changes a record before the audit
  consent-mesh demo --json

At the end the traces of all of them are audited, as `conform audit` does.

Exit codes: 0 done and conforms, 1 a daemon failed or the audit found a violation, 2 errors or damaged traces.")]
pub(crate) struct Demo {
    /// How long it runs
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u64).range(3..=86_400))]
    seconds: u64,
    /// How many people there are
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=MAX_CAST as i64))]
    subjects: u32,
    /// How many controllers there are
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=MAX_CAST as i64))]
    controllers: u32,
    /// Keep everything in this directory, which must not exist yet
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Change one record of a trace before the audit, which must find it
    #[arg(long)]
    tamper: bool,
    /// Print one JSON object at the end, and nothing else
    #[arg(long)]
    json: bool,
}

impl Default for Demo {
    fn default() -> Self {
        Self { seconds: 15, subjects: 5, controllers: 3, keep: None, tamper: false, json: false }
    }
}

/// A directory that goes with the demo, for nobody else to read.
fn temporary_directory() -> Result<tempfile::TempDir, Failure> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("consent-mesh-").permissions(Permissions::from_mode(0o700)).tempdir().map_err(failed)
}

/// What the demo cannot go on without.
fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Demo(error.to_string())
}

pub(crate) fn run(demo: &Demo, console: &mut Console) -> Result<Answer, Failure> {
    let temporary = match &demo.keep {
        Some(directory) => {
            std::fs::create_dir(directory).map_err(|error| match error.kind() {
                ErrorKind::AlreadyExists => failed(format_args!("{} exists already", directory.display())),
                _ => failed(format_args!("{}: {error}", directory.display())),
            })?;
            None
        }
        None => Some(temporary_directory()?),
    };
    let root = match (&demo.keep, &temporary) {
        (Some(directory), _) => directory.canonicalize().map_err(failed)?,
        (None, Some(directory)) => directory.path().to_owned(),
        (None, None) => return Err(failed("no directory")),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(failed)?;
    let mut ended = runtime.block_on(async { Ended::new() }).map_err(failed)?;
    let broker = runtime.block_on(Broker::start(([127, 0, 0, 1], 0).into())).map_err(failed)?;
    let hub = runtime.block_on(Hub::start(World::default())).map_err(failed)?;
    let (controllers, people) = (cast::controllers(demo.controllers), cast::people(demo.subjects));
    let mut layout = Layout::new(&root, &cast::vocabulary(&controllers), &broker.url(), &hub.address().to_string())
        .map_err(failed)?;
    cast::lay_out(&mut layout, &controllers, &people).map_err(failed)?;

    let mut play = Play { demo, layout, controllers, people, daemons: Vec::new(), runtime: &runtime };
    if !demo.json {
        play.introduce(console)?;
    }
    let outcome = play.start().and_then(|()| play.watch(&mut ended, console));
    let report = outcome.and_then(|()| play.ask_everybody());
    let shown = play.show_consents();
    let killed = children::end(std::mem::take(&mut play.daemons));
    runtime.block_on(async {
        hub.stop().await;
        broker.stop().await;
    });
    let report = report?;
    shown?;
    let openings = cast::write_openings(&play.layout, &play.people).map_err(failed)?;
    if !killed.is_empty() {
        console.complain(format_args!("{} had to be killed", killed.join(", ")));
    }
    let gate = play.controllers.first().map(|cast| cast.name.clone()).filter(|_| demo.tamper);
    let tampered = gate.map(|gate| audit::tamper(&play.layout, &gate)).transpose().map_err(failed)?;
    let audited = audit::judge(&play.layout, openings).map_err(failed)?;
    if demo.json {
        writeln!(console, "{}", report.json(&play.layout, demo.keep.is_some(), &audited))?;
    } else {
        report.print(&play.layout, demo.keep.is_some(), console)?;
        if let Some(tampered) = tampered {
            let audit::Tampered { device, record } = tampered;
            writeln!(console, "\nSomebody has changed a bit in record {record} of the trace of {device}.")?;
        }
        writeln!(console, "\nThe audit of what they recorded:\n\n{}", conformance::audit::text::text(&audited))?;
    }
    Ok(match audited.exit_code() {
        0 if killed.is_empty() => Answer::Yes,
        2 => Answer::BadInput,
        _ => Answer::No,
    })
}

/// Ctrl-C or SIGTERM: both end the demo in order.
struct Ended {
    interrupt: Signal,
    terminate: Signal,
}

impl Ended {
    fn new() -> std::io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn by_somebody(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// The demo under way.
struct Play<'d> {
    demo: &'d Demo,
    layout: Layout,
    controllers: Vec<Cast>,
    people: Vec<Person>,
    daemons: Vec<Daemon>,
    runtime: &'d Runtime,
}

impl Play<'_> {
    fn introduce(&self, console: &mut Console) -> Result<(), Failure> {
        writeln!(console, "A shopping mall. Its gates hear phones; whose address may they keep?\n")?;
        for Person { name, attitude, .. } in &self.people {
            writeln!(console, "  {name:<10} {}", attitude.describe())?;
        }
        writeln!(console)?;
        console.flush()?;
        Ok(())
    }

    fn start(&mut self) -> Result<(), Failure> {
        let gates = self.controllers.iter().map(|cast| ("dc-gateway", cast.name.clone()));
        let phones = self.people.iter().map(|person| ("ds-gateway", person.name.clone()));
        let all: Vec<_> = [("repository", REPOSITORY.to_owned())].into_iter().chain(gates).chain(phones).collect();
        for (kind, name) in all {
            let (config, log) = (self.layout.config(&name), self.layout.log(&name));
            self.daemons.push(Daemon::start(kind, &name, &config, &log).map_err(failed)?);
        }
        let begun = Instant::now();
        let mut waiting: Vec<String> = self.daemons.iter().map(|daemon| daemon.name.clone()).collect();
        while !waiting.is_empty() {
            waiting.retain(|name| self.ask(name, "status").is_none());
            self.check_alive()?;
            if begun.elapsed() > START_TIMEOUT {
                return Err(failed(format_args!("{} did not start in time", waiting.join(", "))));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn check_alive(&mut self) -> Result<(), Failure> {
        match self.daemons.iter_mut().find_map(|daemon| daemon.has_ended().then(|| daemon.name.clone())) {
            None => Ok(()),
            Some(name) => {
                let log = std::fs::read_to_string(self.layout.log(&name)).unwrap_or_default();
                let last = log.lines().last().unwrap_or("it said nothing").to_owned();
                Err(failed(format_args!("{name} has ended: {last}")))
            }
        }
    }

    /// Shows what happens, until the time is over or somebody presses Ctrl-C.
    fn watch(&mut self, ended: &mut Ended, console: &mut Console) -> Result<(), Failure> {
        let (begun, lasts) = (Instant::now(), Duration::from_secs(self.demo.seconds));
        let mut table = Table::default();
        let mut has_changed_minds = false;
        while begun.elapsed() < lasts {
            self.check_alive()?;
            if !self.demo.json {
                let report = self.ask_everybody()?;
                let left = lasts.saturating_sub(begun.elapsed()).as_secs();
                table.show(report.lines(), Some(left), Size::of_terminal(), console)?;
            }
            if !has_changed_minds && begun.elapsed() >= lasts / 2 {
                has_changed_minds = true;
                self.change_minds(&mut table, console)?;
            }
            let wait = REFRESH.min(lasts.saturating_sub(begun.elapsed()));
            let is_interrupted = async { tokio::time::timeout(wait, ended.by_somebody()).await.is_ok() };
            if self.runtime.block_on(is_interrupted) {
                break;
            }
        }
        if !self.demo.json {
            table.show(self.ask_everybody()?.lines(), None, Size::of_terminal(), console)?;
        }
        Ok(())
    }

    fn change_minds(&self, table: &mut Table, console: &mut Console) -> Result<(), Failure> {
        for person in self.people.iter().filter(|person| person.attitude == Attitude::ChangesHerMind) {
            if !self.demo.json {
                let what = format!("  {} changes her mind: ds-gateway withdraw\n", person.name);
                table.say(&what, Size::of_terminal(), console)?;
            }
            ask(&self.layout.data(&person.name), &json!({ "command": "withdraw" })).map_err(failed)?;
        }
        Ok(())
    }

    fn ask(&self, name: &str, command: &str) -> Option<Value> {
        ask(&self.layout.data(name), &json!({ "command": command })).ok()
    }

    /// Controllers show an auditor what people have signed, which they can do only while they run.
    fn show_consents(&self) -> Result<(), Failure> {
        for cast in &self.controllers {
            let answer = self.ask(&cast.name, "consents").unwrap_or_default();
            let lines = dc_gateway::status::consents_in_lines(&answer);
            state_file::store_bytes(&self.layout.consents(&cast.name), lines.as_bytes()).map_err(failed)?;
        }
        Ok(())
    }

    fn ask_everybody(&self) -> Result<Report, Failure> {
        Report::gather(&self.layout, &self.controllers, &self.people, |name, command| self.ask(name, command))
            .map_err(failed)
    }
}
