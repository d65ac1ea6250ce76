//! §2, Basic Definitions: entities ℰ, datatypes 𝒯 and purposes 𝒫 with their orders, the attributes that
//! conditions may use, and, where a file names them, devices 𝒟 and items ℐ with entity(d), type(i), owner(i).
//!
//! The orders are graphs with several parents, as in the W3C Data Privacy Vocabulary. Devices and items of
//! subjects are not part of a shared vocabulary: a gateway adds its own to its own [`Directory`].

mod file;
mod order;
mod write;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

pub use self::file::{DEFAULT_VOCABULARY, Declarations, MAX_VOCABULARY_BYTES};
pub use self::order::{Id, MAX_NAMES, MAX_PARENTS, Order};
use crate::diagnostic::{Hint, Located, Quoted};
use crate::name::{NameError, nearest};
use crate::slots::Slots;
use crate::value::Kind;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident($inner:ty);)*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub(crate) $inner);

        impl Id for $name {
            fn from_index(index: usize) -> Self {
                // INVARIANT: tables are bounded far below the inner type's range where they are built.
                Self(<$inner>::try_from(index).unwrap_or(<$inner>::MAX))
            }

            fn index(self) -> usize {
                self.0 as usize
            }
        }
    )* };
}

ids! {
    /// e ∈ ℰ: a person or an organisation.
    Entity(u16);
    /// t ∈ 𝒯: what a data item means.
    DataType(u16);
    /// A purpose ∈ 𝒫.
    Purpose(u16);
    /// A name that conditions may use, read in the sender's ν.
    Attribute(u16);
    /// d ∈ 𝒟.
    DeviceId(u32);
    /// i ∈ ℐ.
    ItemId(u32);
}

/// What ν gives a value to: an attribute of the context, or a data item.
///
/// The paper makes no difference ("age may be the data item to be sent or contextual information");
/// we keep them apart because attributes are shared words and items belong to somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variable {
    /// A context attribute.
    Attribute(Attribute),
    /// A data item.
    Item(ItemId),
}

/// The words policies are made of, closed and interned.
#[derive(Debug, Clone)]
pub struct Vocabulary {
    /// ℰ with ≤_E.
    pub entities: Order<Entity>,
    /// 𝒯 with ≤_T.
    pub datatypes: Order<DataType>,
    /// 𝒫 with ≤_P.
    pub purposes: Order<Purpose>,
    attributes: Names<Kind>,
    devices: Names<()>,
    items: Names<Kind>,
    directory: Directory,
}

impl Vocabulary {
    /// Reads a vocabulary from TOML.
    pub fn from_toml(source: &str) -> Result<Self, VocabularyError> {
        file::read(source).map(|(_, vocabulary)| vocabulary)
    }

    /// The vocabulary that comes with the library: purposes and personal data of the W3C Data Privacy Vocabulary.
    pub fn built_in() -> Result<Self, VocabularyError> {
        Self::from_toml(DEFAULT_VOCABULARY)
    }

    /// What a name in a condition stands for, and the kind of its values.
    pub fn variable(&self, name: &str) -> Option<(Variable, Kind)> {
        let attribute = |(index, kind): (usize, &Kind)| (Variable::Attribute(Attribute::from_index(index)), *kind);
        let item = |(index, kind): (usize, &Kind)| (Variable::Item(ItemId::from_index(index)), *kind);
        self.attributes.find(name).map(attribute).or_else(|| self.items.find(name).map(item))
    }

    /// The name of a variable.
    pub fn variable_name(&self, variable: Variable) -> &str {
        match variable {
            Variable::Attribute(attribute) => self.attributes.name(attribute.index()),
            Variable::Item(item) => self.items.name(item.index()),
        }
    }

    /// "; did you mean …?" for a name that no condition can use.
    pub fn variable_hint(&self, wanted: &str) -> Hint {
        Hint(nearest(wanted, self.attributes.names().chain(self.items.names())))
    }

    /// The declared attributes and their kinds, in the byte order of their names.
    pub fn attributes(&self) -> impl Iterator<Item = (&str, Kind)> {
        self.attributes.0.iter().map(|(name, kind)| (&**name, *kind))
    }

    /// The declared device of this name.
    pub fn device(&self, name: &str) -> Option<DeviceId> {
        self.devices.find(name).map(|(index, ())| DeviceId::from_index(index))
    }

    /// The declared item of this name.
    pub fn item(&self, name: &str) -> Option<ItemId> {
        self.items.find(name).map(|(index, _)| ItemId::from_index(index))
    }

    /// The name of a declared device; of any other, `?`.
    pub fn device_name(&self, device: DeviceId) -> &str {
        self.devices.name(device.index())
    }

    /// The name of a declared item; of any other, `?`.
    pub fn item_name(&self, item: ItemId) -> &str {
        self.items.name(item.index())
    }

    /// entity(d), type(i) and owner(i) of the declared devices and items.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }
}

/// The functions `entity`, `type` and `owner` of the paper, for the devices and items somebody knows of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Directory {
    /// `None` for somebody of whom only the device is known.
    devices: Slots<Option<Entity>>,
    items: Slots<Item>,
}

/// A data item: what it means and where it was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    /// type(i).
    pub datatype: DataType,
    /// owner(i).
    pub owner: DeviceId,
}

impl Directory {
    /// entity(d), if it is known.
    #[inline]
    pub fn entity(&self, device: DeviceId) -> Option<Entity> {
        self.devices.at(device.index()).copied().flatten()
    }

    /// type(i) and owner(i).
    #[inline]
    pub fn item(&self, item: ItemId) -> Option<Item> {
        self.items.at(item.index()).copied()
    }

    /// Learns of a device. Ids of devices that were removed are given again.
    pub fn add_device(&mut self, entity: Entity) -> DeviceId {
        DeviceId::from_index(self.devices.insert(Some(entity)))
    }

    /// Learns of a device and not whose it is: subjects are in no shared vocabulary. No policy names it.
    pub fn add_stranger(&mut self) -> DeviceId {
        DeviceId::from_index(self.devices.insert(None))
    }

    /// Learns of an item. Ids of items that were removed are given again.
    pub fn add_item(&mut self, item: Item) -> ItemId {
        ItemId::from_index(self.items.insert(item))
    }

    /// Learns more about an item.
    pub fn set_item(&mut self, item: ItemId, about: Item) {
        self.items.set(item.index(), about);
    }

    /// Forgets a device. The caller knows that nothing refers to it: neither a state, nor a message, nor an item.
    pub fn remove_device(&mut self, device: DeviceId) {
        self.devices.remove(device.index());
    }

    /// Forgets an item. The caller knows that nothing refers to it.
    pub fn remove_item(&mut self, item: ItemId) -> Option<Item> {
        self.items.remove(item.index())
    }

    /// Every device.
    pub fn devices(&self) -> impl Iterator<Item = DeviceId> + Clone {
        self.devices.iter().map(|(place, _)| DeviceId::from_index(place))
    }

    /// Every item.
    pub fn items(&self) -> impl Iterator<Item = ItemId> + Clone {
        self.items.iter().map(|(place, _)| ItemId::from_index(place))
    }
}

/// Names with something said about each, in byte order.
#[derive(Debug, Clone)]
struct Names<T>(Vec<(Box<str>, T)>);

impl<T> Names<T> {
    fn find(&self, name: &str) -> Option<(usize, &T)> {
        let index = self.0.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
        self.0.get(index).map(|(_, about)| (index, about))
    }

    fn name(&self, index: usize) -> &str {
        self.0.get(index).map_or("?", |(name, _)| name)
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| &**name)
    }
}

/// Why a vocabulary was refused, with the place.
pub type VocabularyError = Located<VocabularyProblem>;

/// Why a vocabulary was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VocabularyProblem {
    /// More bytes than [`MAX_VOCABULARY_BYTES`].
    #[error("a vocabulary has at most {MAX_VOCABULARY_BYTES} bytes")]
    TooLarge,
    /// Not TOML, or not of our form.
    #[error("{0}")]
    Toml(String),
    /// An order with more than [`MAX_NAMES`] names, or as many attributes, devices or items.
    #[error("a section has at most {MAX_NAMES} names")]
    TooManyNames,
    /// A name with more than [`MAX_PARENTS`] direct parents.
    #[error("a name has at most {MAX_PARENTS} parents")]
    TooManyParents,
    /// Not a name.
    #[error("bad name {0}: {1}")]
    Name(Quoted, NameError),
    /// The same name twice.
    #[error("{0} is named twice")]
    Duplicate(Quoted),
    /// A parent that is no name of the order.
    #[error("unknown parent {0}{1}")]
    UnknownParent(Quoted, Hint),
    /// Names that are each more general than the other.
    #[error("cycle: {}", shorten(.0))]
    Cycle(Vec<String>),
    /// An attribute of a kind that does not exist.
    #[error("unknown kind {0}: an attribute is a number, string, boolean or time")]
    UnknownKind(Quoted),
    /// A device of an entity that is not declared.
    #[error("unknown entity {0}{1}")]
    UnknownEntity(Quoted, Hint),
    /// An item of a type that is not declared.
    #[error("unknown datatype {0}{1}")]
    UnknownDatatype(Quoted, Hint),
    /// An item of a device that is not declared.
    #[error("unknown device {0}{1}")]
    UnknownDevice(Quoted, Hint),
    /// An item that is called like an attribute.
    #[error("{0} names an attribute already")]
    ItemIsAttribute(Quoted),
    /// `extends` something other than the built-in vocabulary.
    #[error("unknown vocabulary {0}: only `default` can be extended")]
    UnknownBase(Quoted),
}

/// A cycle in words; of a long one, the beginning and the end.
fn shorten(cycle: &[String]) -> String {
    const SHOWN: usize = 8;
    match (cycle.get(..SHOWN), cycle.last()) {
        (Some(first), Some(last)) if cycle.len() > SHOWN + 1 => alloc::format!("{} ≤ … ≤ {last}", first.join(" ≤ ")),
        _ => cycle.join(" ≤ "),
    }
}
