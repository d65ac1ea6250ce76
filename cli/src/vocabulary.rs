//! `consent-mesh vocabulary`: the words that policies are made of.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use pilot_core::vocabulary::{Id, Order, Vocabulary};
use serde::Serialize;

use crate::console::{Answer, Console, Failure};
use crate::input::Words;

/// Deeper names are not indented further, so that the longest chain of names stays readable and small.
const MAX_INDENT: usize = 32;

/// The form of a vocabulary file.
pub(crate) const FORM: &str = "\
A vocabulary file:
  extends = \"default\"              # optional: add to the built-in vocabulary
  [entities]                       # name = direct parents, the more general names
  alphabet = []
  google = [\"alphabet\"]
  [datatypes]
  address = []
  city = [\"address\"]
  [purposes]
  advertisement = []
  newsletter = [\"advertisement\"]
  [attributes]                     # what conditions may use: number, string, boolean, time
  age = \"number\"
  [devices]                        # optional: device = entity
  alice-phone = \"alphabet\"
  [items]                          # optional
  alice-city = { type = \"city\", owner = \"alice-phone\" }";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show a vocabulary: its orders as trees, its attributes, devices and items
    Show(Show),
    /// Check a vocabulary file
    Check(Check),
}

#[derive(Debug, Args)]
#[command(after_help = "\
A name stands below the first of its parents; the others are named beside it.

Examples:
  consent-mesh vocabulary show
  consent-mesh vocabulary show examples/flights/vocabulary.toml
  consent-mesh vocabulary show --json | jq '.purposes.Advertising'")]
pub(crate) struct Show {
    /// Vocabulary file, `-` for standard input [default: the built-in vocabulary]
    file: Option<PathBuf>,
    /// As one JSON object, in the shape of the TOML file
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
What is in such a file: see `consent-mesh vocabulary --help`.

Exit codes: 0 the file is good, 2 it is not.")]
pub(crate) struct Check {
    /// Vocabulary file, `-` for standard input
    file: PathBuf,
}

pub(crate) fn run(command: Command, console: &mut Console) -> Result<Answer, Failure> {
    match command {
        Command::Show(Show { file, json }) => {
            let words = file.map_or_else(Words::built_in, |file| Words::load(&file))?;
            if json { show_json(&words.vocabulary, console)? } else { show(&words.vocabulary, console)? }
        }
        Command::Check(Check { file }) => {
            let words = Words::load(&file)?;
            writeln!(console, "{}: good: {}", words.origin, summary(&words.vocabulary))?;
        }
    }
    Ok(Answer::Yes)
}

/// "3 entities, 1 datatype, …".
fn summary(vocabulary: &Vocabulary) -> String {
    let directory = vocabulary.directory();
    [
        count(vocabulary.entities.len(), "entity", "entities"),
        count(vocabulary.datatypes.len(), "datatype", "datatypes"),
        count(vocabulary.purposes.len(), "purpose", "purposes"),
        count(vocabulary.attributes().count(), "attribute", "attributes"),
        count(directory.devices().count(), "device", "devices"),
        count(directory.items().count(), "item", "items"),
    ]
    .join(", ")
}

/// "1 policy", "2 policies".
pub(crate) fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Writes the whole vocabulary for a person.
pub(crate) fn show(vocabulary: &Vocabulary, out: &mut impl Write) -> io::Result<()> {
    show_order("entities", &vocabulary.entities, out)?;
    show_order("datatypes", &vocabulary.datatypes, out)?;
    show_order("purposes", &vocabulary.purposes, out)?;

    let attributes = vocabulary.attributes().map(|(name, kind)| format!("{name}: {kind}"));
    show_list("attributes", attributes.collect(), out)?;
    let directory = vocabulary.directory();
    let devices = directory.devices().map(|device| {
        let entity = directory.entity(device).map_or("?", |entity| vocabulary.entities.name(entity));
        format!("{}: of {entity}", vocabulary.device_name(device))
    });
    show_list("devices", devices.collect(), out)?;
    let items = directory.items().map(|id| {
        let (datatype, owner) = directory
            .item(id)
            .map_or(("?", "?"), |item| (vocabulary.datatypes.name(item.datatype), vocabulary.device_name(item.owner)));
        format!("{}: {datatype} of {owner}", vocabulary.item_name(id))
    });
    show_list("items", items.collect(), out)
}

/// An order as a tree, the more general above the more special.
fn show_order<I: Id>(title: &str, order: &Order<I>, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{title} ({})", order.len())?;
    let mut children: BTreeMap<Option<I>, Vec<I>> = BTreeMap::new();
    for id in order.ids() {
        children.entry(order.parents(id).first().copied()).or_default().push(id);
    }
    // The names still to write, the next one last. Not recursive: a chain may have thousands of names.
    let mut waiting: Vec<(usize, I)> = Vec::new();
    let expand = |parent: Option<I>, depth: usize, waiting: &mut Vec<(usize, I)>| {
        waiting.extend(children.get(&parent).into_iter().flatten().rev().map(|child| (depth, *child)));
    };
    expand(None, 1, &mut waiting);
    while let Some((depth, id)) = waiting.pop() {
        let indent = 2 * depth.min(MAX_INDENT);
        write!(out, "{:indent$}{}", "", order.name(id))?;
        let others: Vec<&str> = order.parents(id).iter().skip(1).map(|parent| order.name(*parent)).collect();
        if !others.is_empty() {
            write!(out, " (also in {})", others.join(", "))?;
        }
        writeln!(out)?;
        expand(Some(id), depth + 1, &mut waiting);
    }
    Ok(())
}

fn show_list(title: &str, lines: Vec<String>, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{title} ({})", lines.len())?;
    lines.into_iter().try_for_each(|line| writeln!(out, "  {line}"))
}

type OrderOut<'v> = BTreeMap<&'v str, Vec<&'v str>>;

#[derive(Serialize)]
struct VocabularyOut<'v> {
    entities: OrderOut<'v>,
    datatypes: OrderOut<'v>,
    purposes: OrderOut<'v>,
    attributes: BTreeMap<&'v str, &'static str>,
    devices: BTreeMap<&'v str, &'v str>,
    items: BTreeMap<&'v str, ItemOut<'v>>,
}

#[derive(Serialize)]
struct ItemOut<'v> {
    r#type: &'v str,
    owner: &'v str,
}

fn show_json(vocabulary: &Vocabulary, out: &mut impl Write) -> io::Result<()> {
    let directory = vocabulary.directory();
    let object = VocabularyOut {
        entities: order_out(&vocabulary.entities),
        datatypes: order_out(&vocabulary.datatypes),
        purposes: order_out(&vocabulary.purposes),
        attributes: vocabulary.attributes().map(|(name, kind)| (name, kind.word())).collect(),
        devices: directory
            .devices()
            .filter_map(|id| Some((vocabulary.device_name(id), vocabulary.entities.name(directory.entity(id)?))))
            .collect(),
        items: directory
            .items()
            .filter_map(|id| {
                let item = directory.item(id)?;
                let (r#type, owner) = (vocabulary.datatypes.name(item.datatype), vocabulary.device_name(item.owner));
                Some((vocabulary.item_name(id), ItemOut { r#type, owner }))
            })
            .collect(),
    };
    serde_json::to_writer(&mut *out, &object)?;
    writeln!(out)
}

fn order_out<I: Id>(order: &Order<I>) -> OrderOut<'_> {
    let parents = |id| order.parents(id).iter().map(|parent| order.name(*parent)).collect();
    order.ids().map(|id| (order.name(id), parents(id))).collect()
}
