//! The TOML form of a vocabulary; strict, so that a misspelt section is an error and not an empty order.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;
use serde::Deserialize;
use toml::Spanned;

use super::order::Declared;
use super::{Directory, Item, MAX_NAMES, Names, Order, Vocabulary, VocabularyError, VocabularyProblem};
use crate::diagnostic::{Hint, Located, Quoted, foreign_message};
use crate::name::{check_name, nearest};
use crate::value::Kind;
use crate::vocabulary::{DeviceId, Id};

/// The largest vocabulary file.
pub const MAX_VOCABULARY_BYTES: usize = 4 << 20;

/// The built-in vocabulary's file.
pub const DEFAULT_VOCABULARY: &str = include_str!("../default-vocabulary.toml");

type Section = BTreeMap<Spanned<String>, Vec<Spanned<String>>>;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct File {
    extends: Option<Spanned<String>>,
    entities: Section,
    datatypes: Section,
    purposes: Section,
    attributes: BTreeMap<Spanned<String>, Spanned<String>>,
    devices: BTreeMap<Spanned<String>, Spanned<String>>,
    items: BTreeMap<Spanned<String>, DeclaredItem>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeclaredItem {
    r#type: Spanned<String>,
    owner: Spanned<String>,
}

type Problem = (Range<usize>, VocabularyProblem);

pub(super) fn read(source: &str) -> Result<Vocabulary, VocabularyError> {
    if source.len() > MAX_VOCABULARY_BYTES {
        return Err(Located::new("", 0..0, VocabularyProblem::TooLarge));
    }
    parse(source).and_then(build).map_err(|(span, problem)| Located::new(source, span, problem))
}

fn parse(source: &str) -> Result<File, Problem> {
    toml::from_str(source)
        .map_err(|error| (error.span().unwrap_or(0..0), VocabularyProblem::Toml(foreign_message(error.message()))))
}

fn build(file: File) -> Result<Vocabulary, Problem> {
    let base = match &file.extends {
        None => File::default(),
        Some(name) if name.as_ref() == "default" => parse(DEFAULT_VOCABULARY)?,
        Some(name) => return Err((name.span(), VocabularyProblem::UnknownBase(Quoted::new(name.as_ref())))),
    };
    let entities = Order::build(declared(base.entities, file.entities))?;
    let datatypes: Order<super::DataType> = Order::build(declared(base.datatypes, file.datatypes))?;
    let purposes = Order::build(declared(base.purposes, file.purposes))?;

    let mut kinds = Vec::new();
    for (name, word) in base.attributes.into_iter().chain(file.attributes) {
        let kind = Kind::ALL.into_iter().find(|kind| kind.word() == word.as_ref());
        let unknown = || (word.span(), VocabularyProblem::UnknownKind(Quoted::new(word.as_ref())));
        kinds.push((name, kind.ok_or_else(unknown)?));
    }
    let attributes = names(kinds)?;

    let mut directory = Directory::default();
    let mut devices = Vec::new();
    for (name, entity) in file.devices {
        let unknown = || {
            let hint = entities.hint(entity.as_ref());
            (entity.span(), VocabularyProblem::UnknownEntity(Quoted::new(entity.as_ref()), hint))
        };
        // In the byte order of the names, as `Names` numbers them.
        directory.add_device(entities.id(entity.as_ref()).ok_or_else(unknown)?);
        devices.push((name, ()));
    }
    let devices = names(devices)?;

    let mut items = Vec::new();
    for (name, item) in file.items {
        if attributes.find(name.as_ref()).is_some() {
            return Err((name.span(), VocabularyProblem::ItemIsAttribute(Quoted::new(name.as_ref()))));
        }
        let datatype = datatypes.id(item.r#type.as_ref()).ok_or_else(|| {
            let hint = datatypes.hint(item.r#type.as_ref());
            (item.r#type.span(), VocabularyProblem::UnknownDatatype(Quoted::new(item.r#type.as_ref()), hint))
        })?;
        let (owner, ()) = devices.find(item.owner.as_ref()).ok_or_else(|| {
            let hint = Hint(nearest(item.owner.as_ref(), devices.names()));
            (item.owner.span(), VocabularyProblem::UnknownDevice(Quoted::new(item.owner.as_ref()), hint))
        })?;
        directory.add_item(Item { datatype, owner: DeviceId::from_index(owner) });
        // An item has values of its type's kind: the kind of the attribute called like the type, if there is one.
        let kind = attributes.find(item.r#type.as_ref()).map_or(Kind::String, |(_, kind)| *kind);
        items.push((name, kind));
    }
    let items = names(items)?;
    Ok(Vocabulary { entities, datatypes, purposes, attributes, devices, items, directory })
}

fn declared(base: Section, own: Section) -> Vec<Declared> {
    let declare = |(name, parents): (Spanned<String>, Vec<Spanned<String>>)| Declared {
        span: name.span(),
        name: name.into_inner(),
        parents: parents
            .into_iter()
            .map(|parent| {
                let span = parent.span();
                (parent.into_inner(), span)
            })
            .collect(),
    };
    // Of a name that both declare, the place in the user's own file is the one to show.
    let from_base = base.into_iter().map(|(name, parents)| Declared { span: 0..0, ..declare((name, parents)) });
    from_base.chain(own.into_iter().map(declare)).collect()
}

fn names<T>(declared: Vec<(Spanned<String>, T)>) -> Result<Names<T>, Problem> {
    if let Some((name, _)) = declared.get(MAX_NAMES) {
        return Err((name.span(), VocabularyProblem::TooManyNames));
    }
    let mut declared = declared;
    declared.sort_by(|(a, _), (b, _)| a.as_ref().cmp(b.as_ref()));
    let mut names: Vec<(alloc::boxed::Box<str>, T)> = Vec::with_capacity(declared.len());
    for (name, about) in declared {
        let quoted = || Quoted::new(name.as_ref());
        check_name(name.as_ref()).map_err(|error| (name.span(), VocabularyProblem::Name(quoted(), error)))?;
        if names.last().is_some_and(|(last, _)| **last == **name.as_ref()) {
            return Err((name.span(), VocabularyProblem::Duplicate(quoted())));
        }
        names.push((name.into_inner().into_boxed_str(), about));
    }
    Ok(Names(names))
}
