//! `[attributes]`: what conditions can ask about a person, in the kinds that the mesh's vocabulary declares.

use std::collections::BTreeMap;

use pilot_core::diagnostic::Quoted;
use pilot_core::value::{Kind, Number, Time, Value};
use pilot_core::vocabulary::{Attribute, Variable, Vocabulary};

/// The attribute whose value is the clock's.
pub const NOW: &str = "now";

/// Reads every attribute. Errors name attributes and never repeat values: they are personal.
pub(super) fn read(
    file: &BTreeMap<String, toml::Value>,
    vocabulary: &Vocabulary,
) -> Result<Vec<(Attribute, Value)>, String> {
    file.iter().map(|(name, value)| read_one(name, value, vocabulary)).collect()
}

fn read_one(name: &str, value: &toml::Value, vocabulary: &Vocabulary) -> Result<(Attribute, Value), String> {
    let quoted = Quoted::new(name);
    let (attribute, kind) = match vocabulary.variable(name) {
        Some((Variable::Attribute(_), _)) if name == NOW => {
            return Err(format!("{quoted} is what the clock says, and cannot be set"));
        }
        Some((Variable::Attribute(attribute), kind)) => (attribute, kind),
        Some((Variable::Item(_), _)) => return Err(format!("{quoted} is an item, not an attribute")),
        None => {
            let hint = vocabulary.variable_hint(name);
            return Err(format!("the mesh's vocabulary has no attribute {quoted}{hint}"));
        }
    };
    let value = typed(value, kind).ok_or_else(|| format!("the value of {quoted} is no {kind}"))?;
    Ok((attribute, value))
}

/// The value as one of this kind.
fn typed(value: &toml::Value, kind: Kind) -> Option<Value> {
    match (kind, value) {
        // As it is written, to be exact: 0.1 is 100,000 millionths.
        (Kind::Number, toml::Value::Integer(number)) => number.to_string().parse::<Number>().ok().map(Value::Number),
        (Kind::Number, toml::Value::Float(number)) => number.to_string().parse::<Number>().ok().map(Value::Number),
        (Kind::String, toml::Value::String(text)) => Some(Value::String(text.as_str().into())),
        (Kind::Boolean, toml::Value::Boolean(truth)) => Some(Value::Boolean(*truth)),
        (Kind::Time, toml::Value::String(text)) => text.parse::<Time>().ok().map(Value::Time),
        (Kind::Time, toml::Value::Datetime(moment)) => moment.to_string().parse::<Time>().ok().map(Value::Time),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Vec<(Attribute, Value)>, String> {
        let vocabulary = Vocabulary::from_toml(
            "entities = { mall = [] }\ndatatypes = { mac = [] }\npurposes = { ads = [] }\n\
             attributes = { age = 'number', place = 'string', adult = 'boolean', since = 'time', now = 'time' }",
        );
        read(&toml::from_str(text).unwrap(), &vocabulary.unwrap())
    }

    /// Each kind is read, numbers exactly.
    #[test]
    fn attributes_have_the_kind_of_the_vocabulary() {
        let read = read_text("age = 34.1\nplace = 'museum'\nadult = true\nsince = 2024-12-21").unwrap();
        let values: Vec<Value> = read.into_iter().map(|(_, value)| value).collect();
        let time = Value::Time("2024-12-21".parse().unwrap());
        let age = Value::Number("34.1".parse().unwrap());
        assert!(values == [Value::Boolean(true), age, Value::String("museum".into()), time]);
    }

    /// What is wrong is named, and the value is not repeated.
    #[test]
    fn bad_attributes_are_refused_without_their_values() {
        for (text, error) in [
            ("age = 'secret'", "the value of `age` is no number"),
            ("adult = 1", "the value of `adult` is no boolean"),
            ("since = 'yesterday'", "the value of `since` is no time"),
            ("plaice = 'sea'", "the mesh's vocabulary has no attribute `plaice`; did you mean `place`?"),
            ("now = 2024-12-21", "`now` is what the clock says, and cannot be set"),
        ] {
            assert_eq!(read_text(text).unwrap_err(), error);
        }
    }
}
