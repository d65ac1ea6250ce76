//! The JSON form of policies, for other programs:
//!
//! ```json
//! {"datatype":"cookie",
//!  "collection":{"condition":"cookie.secure = true","entity":"flights.com","purposes":["special_offers"],"retention":1734739200},
//!  "transfers":[{"condition":"true","entity":"hotels.com","purposes":["hotel_ads"],"retention":1713484800}]}
//! ```
//!
//! ⊥ is `null`. Names are resolved while reading, so that an unknown one is reported where it stands.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::format::condition_text;
use super::parse_condition;
use crate::condition::Condition;
use crate::diagnostic::{Located, Quoted, foreign_message};
use crate::policy::{Choice, CommunicationRule, Policy, UsageRule};
use crate::value::Time;
use crate::vocabulary::{Id, Order, Vocabulary};

/// The largest JSON text of a policy, or of a pair of policies.
pub const MAX_JSON_BYTES: usize = 1 << 20;

/// Why a JSON text is no policy, with the place.
pub type JsonError = Located<JsonProblem>;

/// Why a JSON text is no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonProblem {
    /// More than [`MAX_JSON_BYTES`].
    #[error("the JSON of a policy has at most {MAX_JSON_BYTES} bytes")]
    TooLarge,
    /// Not JSON, not of our form, or naming something unknown.
    #[error("{0}")]
    Malformed(String),
}

/// Reads one policy.
pub fn parse(source: &str, vocabulary: &Vocabulary) -> Result<Choice, JsonError> {
    read(source, ChoiceSeed(vocabulary))
}

/// Reads `{"p":…,"q":…}`: the question whether p ⊑ q.
pub fn parse_pair(source: &str, vocabulary: &Vocabulary) -> Result<(Choice, Choice), JsonError> {
    read(source, PairSeed(vocabulary))
}

/// Writes one policy, on one line.
pub fn text(choice: &Choice, vocabulary: &Vocabulary) -> String {
    let rule = |rule: &CommunicationRule| RuleOut {
        condition: condition_text(&rule.condition, vocabulary),
        entity: vocabulary.entities.name(rule.entity).to_string(),
        purposes: rule.usage.purposes().iter().map(|p| vocabulary.purposes.name(*p).to_string()).collect(),
        retention: rule.usage.retention().unix(),
    };
    let policy = choice.policy().map(|policy| PolicyOut {
        datatype: vocabulary.datatypes.name(policy.datatype()),
        collection: rule(policy.collection()),
        transfers: policy.transfers().iter().map(rule).collect(),
    });
    // INVARIANT: strings, numbers and arrays of them always serialise.
    serde_json::to_string(&policy).unwrap_or_default()
}

#[derive(Serialize)]
struct PolicyOut<'v> {
    datatype: &'v str,
    collection: RuleOut,
    transfers: Vec<RuleOut>,
}

#[derive(Serialize)]
struct RuleOut {
    condition: String,
    entity: String,
    purposes: Vec<String>,
    retention: u64,
}

fn read<'s, S: DeserializeSeed<'s>>(source: &'s str, seed: S) -> Result<S::Value, JsonError> {
    if source.len() > MAX_JSON_BYTES {
        return Err(Located::new("", 0..0, JsonProblem::TooLarge));
    }
    let mut deserializer = serde_json::Deserializer::from_str(source);
    let value = seed.deserialize(&mut deserializer).and_then(|value| deserializer.end().map(|()| value));
    value.map_err(|error| {
        let line_start: usize = source.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
        let at = line_start + error.column().saturating_sub(1);
        let message = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        let message = foreign_message(message.strip_suffix(place.as_str()).unwrap_or(&message));
        Located::new(source, at..at + 1, JsonProblem::Malformed(message))
    })
}

struct PairSeed<'v>(&'v Vocabulary);

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum PairKey {
    P,
    Q,
}

impl<'de> DeserializeSeed<'de> for PairSeed<'_> {
    type Value = (Choice, Choice);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for PairSeed<'_> {
    type Value = (Choice, Choice);

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object with the policies `p` and `q`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut p, mut q) = (None, None);
        while let Some(key) = map.next_key()? {
            let (slot, name) = match key {
                PairKey::P => (&mut p, "p"),
                PairKey::Q => (&mut q, "q"),
            };
            once(slot, name, || map.next_value_seed(ChoiceSeed(self.0)))?;
        }
        Ok((p.ok_or_else(|| A::Error::missing_field("p"))?, q.ok_or_else(|| A::Error::missing_field("q"))?))
    }
}

/// Fills a slot that must be empty.
fn once<T, E: serde::de::Error>(
    slot: &mut Option<T>,
    name: &'static str,
    value: impl FnOnce() -> Result<T, E>,
) -> Result<(), E> {
    if slot.is_some() {
        return Err(E::duplicate_field(name));
    }
    *slot = Some(value()?);
    Ok(())
}

struct ChoiceSeed<'v>(&'v Vocabulary);

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum PolicyKey {
    Datatype,
    Collection,
    Transfers,
}

impl<'de> DeserializeSeed<'de> for ChoiceSeed<'_> {
    type Value = Choice;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Choice, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ChoiceSeed<'_> {
    type Value = Choice;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a policy or null")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Choice, E> {
        Ok(Choice::Nothing)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Choice, A::Error> {
        let (mut datatype, mut collection, mut transfers) = (None, None, None);
        while let Some(key) = map.next_key()? {
            match key {
                PolicyKey::Datatype => once(&mut datatype, "datatype", || {
                    map.next_value_seed(NameSeed { what: "datatype", order: &self.0.datatypes })
                })?,
                PolicyKey::Collection => once(&mut collection, "collection", || map.next_value_seed(RuleSeed(self.0)))?,
                PolicyKey::Transfers => once(&mut transfers, "transfers", || {
                    map.next_value_seed(SeqSeed { what: "transfer rules", element: || RuleSeed(self.0) })
                })?,
            }
        }
        let datatype = datatype.ok_or_else(|| A::Error::missing_field("datatype"))?;
        let collection = collection.ok_or_else(|| A::Error::missing_field("collection"))?;
        let transfers = transfers.ok_or_else(|| A::Error::missing_field("transfers"))?;
        Policy::new(datatype, collection, transfers, self.0).map(Choice::Policy).map_err(A::Error::custom)
    }
}

struct RuleSeed<'v>(&'v Vocabulary);

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum RuleKey {
    Condition,
    Entity,
    Purposes,
    Retention,
}

impl<'de> DeserializeSeed<'de> for RuleSeed<'_> {
    type Value = CommunicationRule;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<CommunicationRule, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RuleSeed<'_> {
    type Value = CommunicationRule;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a communication rule")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<CommunicationRule, A::Error> {
        let (mut condition, mut entity, mut purposes, mut retention) = (None, None, None, None);
        while let Some(key) = map.next_key()? {
            match key {
                RuleKey::Condition => once(&mut condition, "condition", || map.next_value_seed(ConditionSeed(self.0)))?,
                RuleKey::Entity => once(&mut entity, "entity", || {
                    map.next_value_seed(NameSeed { what: "entity", order: &self.0.entities })
                })?,
                RuleKey::Purposes => once(&mut purposes, "purposes", || {
                    let element = || NameSeed { what: "purpose", order: &self.0.purposes };
                    map.next_value_seed(SeqSeed { what: "purposes", element })
                })?,
                RuleKey::Retention => once(&mut retention, "retention", || map.next_value::<u64>())?,
            }
        }
        let condition = condition.ok_or_else(|| A::Error::missing_field("condition"))?;
        let entity = entity.ok_or_else(|| A::Error::missing_field("entity"))?;
        let purposes = purposes.ok_or_else(|| A::Error::missing_field("purposes"))?;
        let retention = retention.ok_or_else(|| A::Error::missing_field("retention"))?;
        let usage = UsageRule::new(purposes, Time::from_unix(retention)).map_err(A::Error::custom)?;
        Ok(CommunicationRule { condition, entity, usage })
    }
}

struct ConditionSeed<'v>(&'v Vocabulary);

impl<'de> DeserializeSeed<'de> for ConditionSeed<'_> {
    type Value = Condition;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Condition, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for ConditionSeed<'_> {
    type Value = Condition;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the text of a condition")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Condition, E> {
        parse_condition(text, self.0)
            .map_err(|error| E::custom(format_args!("character {} of the condition: {}", error.column, error.problem)))
    }
}

struct NameSeed<'v, I> {
    what: &'static str,
    order: &'v Order<I>,
}

impl<'de, I: Id> DeserializeSeed<'de> for NameSeed<'_, I> {
    type Value = I;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<I, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<I: Id> Visitor<'_> for NameSeed<'_, I> {
    type Value = I;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "the name of a {}", self.what)
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<I, E> {
        self.order.id(name).ok_or_else(|| {
            E::custom(format_args!("unknown {} {}{}", self.what, Quoted::new(name), self.order.hint(name)))
        })
    }
}

/// An array, each element read with a seed of its own.
struct SeqSeed<F> {
    what: &'static str,
    element: F,
}

impl<'de, S: DeserializeSeed<'de>, F: Fn() -> S> DeserializeSeed<'de> for SeqSeed<F> {
    type Value = Vec<S::Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, S: DeserializeSeed<'de>, F: Fn() -> S> Visitor<'de> for SeqSeed<F> {
    type Value = Vec<S::Value>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "an array of {}", self.what)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = sequence.next_element_seed((self.element)())? {
            elements.push(element);
        }
        Ok(elements)
    }
}
