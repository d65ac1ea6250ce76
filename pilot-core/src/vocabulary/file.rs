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

/// What a vocabulary file says, before it is closed: a mesh file contains it, and an operator's tool writes it again.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Declarations {
    pub(super) extends: Option<Spanned<String>>,
    pub(super) entities: Section,
    pub(super) datatypes: Section,
    pub(super) purposes: Section,
    pub(super) attributes: BTreeMap<Spanned<String>, Spanned<String>>,
    pub(super) devices: BTreeMap<Spanned<String>, Spanned<String>>,
    pub(super) items: BTreeMap<Spanned<String>, DeclaredItem>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeclaredItem {
    pub(super) r#type: Spanned<String>,
    pub(super) owner: Spanned<String>,
}

type Problem = (Range<usize>, VocabularyProblem);

impl Declarations {
    /// Reads a vocabulary file whose vocabulary can be built.
    pub fn from_toml(source: &str) -> Result<Self, VocabularyError> {
        read(source).map(|(declarations, _)| declarations)
    }

    /// What a mesh shares of it: all but the devices and items; and whether there were any.
    #[must_use]
    pub fn into_shared(self) -> (Self, bool) {
        let has_more = self.first_device_or_item().is_some();
        (Self { devices: BTreeMap::new(), items: BTreeMap::new(), ..self }, has_more)
    }

    /// The place of the first device or item, if there is one.
    pub(crate) fn first_device_or_item(&self) -> Option<Range<usize>> {
        self.devices.keys().chain(self.items.keys()).map(Spanned::span).min_by_key(|span| span.start)
    }

    /// The vocabulary; problems are placed in the text that this was read from.
    pub(crate) fn build(self) -> Result<Vocabulary, Problem> {
        build(self)
    }
}

/// A vocabulary file, and the vocabulary.
pub(super) fn read(source: &str) -> Result<(Declarations, Vocabulary), VocabularyError> {
    if source.len() > MAX_VOCABULARY_BYTES {
        return Err(Located::new("", 0..0, VocabularyProblem::TooLarge));
    }
    let declarations = parse(source).map_err(|(span, problem)| Located::new(source, span, problem))?;
    match build(declarations.clone()) {
        Ok(vocabulary) => Ok((declarations, vocabulary)),
        Err((span, problem)) => Err(Located::new(source, span, problem)),
    }
}

fn parse(source: &str) -> Result<Declarations, Problem> {
    toml::from_str(source)
        .map_err(|error| (error.span().unwrap_or(0..0), VocabularyProblem::Toml(foreign_message(error.message()))))
}

fn build(file: Declarations) -> Result<Vocabulary, Problem> {
    let base = match &file.extends {
        None => Declarations::default(),
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
