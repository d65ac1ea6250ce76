//! ℱ: the functions that conditions may use. Pure and total, with one interpretation everywhere (Table 3).

use alloc::vec::Vec;

use crate::condition::{ConditionProblem, Term};
use crate::value::Kind::{self, Boolean, Number as N, String as S, Time as T};
use crate::value::{Number, Value};

/// f ∈ ℱ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Function {
    /// Hour of the day of a time, UTC.
    Hour,
    /// Minute of the hour of a time.
    Minute,
    /// Day of the week of a time, UTC, Monday = 1.
    Weekday,
    /// Metres between two places.
    Distance,
    /// Characters in a text.
    Length,
    /// Whether one text contains another.
    Contains,
    /// Whether one text starts with another.
    StartsWith,
}

/// Mean radius of the Earth in metres (IUGG).
const EARTH_RADIUS: f64 = 6_371_008.8;

impl Function {
    /// Every function.
    pub const ALL: [Self; 7] =
        [Self::Hour, Self::Minute, Self::Weekday, Self::Distance, Self::Length, Self::Contains, Self::StartsWith];

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Minute => "minute",
            Self::Weekday => "weekday",
            Self::Distance => "distance",
            Self::Length => "length",
            Self::Contains => "contains",
            Self::StartsWith => "starts_with",
        }
    }

    /// The function of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|function| function.name() == name)
    }

    /// The kinds of its arguments.
    pub const fn parameters(self) -> &'static [Kind] {
        match self {
            Self::Hour | Self::Minute | Self::Weekday => &[T],
            Self::Distance => &[N, N, N, N],
            Self::Length => &[S],
            Self::Contains | Self::StartsWith => &[S, S],
        }
    }

    /// The kind of its result.
    pub const fn result(self) -> Kind {
        match self {
            Self::Hour | Self::Minute | Self::Weekday | Self::Distance | Self::Length => N,
            Self::Contains | Self::StartsWith => Boolean,
        }
    }

    /// One line for a person who writes policies.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Hour => "hour of the day of a time, UTC, 0 to 23",
            Self::Minute => "minute of the hour of a time, 0 to 59",
            Self::Weekday => "day of the week of a time, UTC, Monday 1 to Sunday 7",
            Self::Distance => {
                "metres between two places on the globe: latitude and longitude of the first, then of the second, in degrees"
            }
            Self::Length => "number of characters in a text",
            Self::Contains => "whether the first text contains the second",
            Self::StartsWith => "whether the first text starts with the second",
        }
    }

    /// Accepts arguments of the right number and kinds.
    pub fn check(self, arguments: &[Term]) -> Result<(), ConditionProblem> {
        let (function, expected) = (self.name(), self.parameters().len());
        if arguments.len() != expected {
            return Err(ConditionProblem::Arity { function, expected, found: arguments.len() });
        }
        for (at, (argument, kind)) in arguments.iter().zip(self.parameters()).enumerate() {
            if argument.kind() != *kind {
                let (argument, found) = (at + 1, argument.kind());
                return Err(ConditionProblem::Argument { function, argument, expected: *kind, found });
            }
        }
        Ok(())
    }

    /// f̂: the value for these arguments; ⊥ only if an argument has the wrong kind.
    pub fn apply(self, arguments: &[Value]) -> Option<Value> {
        let number = |n: u32| Value::Number(Number::whole(n));
        Some(match (self, arguments) {
            (Self::Hour, [Value::Time(time)]) => number(time.hour()),
            (Self::Minute, [Value::Time(time)]) => number(time.minute()),
            (Self::Weekday, [Value::Time(time)]) => number(time.weekday()),
            (Self::Length, [Value::String(text)]) => number(u32::try_from(text.chars().count()).unwrap_or(u32::MAX)),
            (Self::Contains, [Value::String(text), Value::String(part)]) => Value::Boolean(text.contains(&**part)),
            (Self::StartsWith, [Value::String(text), Value::String(part)]) => Value::Boolean(text.starts_with(&**part)),
            (Self::Distance, places) => {
                let degrees: Vec<f64> = places
                    .iter()
                    .filter_map(|value| if let Value::Number(number) = value { Some(number.to_f64()) } else { None })
                    .collect();
                let [lat1, lon1, lat2, lon2] = degrees[..] else { return None };
                Value::Number(Number::from_f64(great_circle(lat1, lon1, lat2, lon2)))
            }
            _ => return None,
        })
    }
}

/// The haversine formula. `libm` and not the platform's functions, so that a Pi and a server agree to the last bit.
fn great_circle(lat1: f64, lon1: f64, lat2: f64, lon2: f64) -> f64 {
    let half_chord = |a: f64, b: f64| {
        let sine = libm::sin((b - a).to_radians() / 2.0);
        sine * sine
    };
    let across = libm::cos(lat1.to_radians()) * libm::cos(lat2.to_radians()) * half_chord(lon1, lon2);
    let square = (half_chord(lat1, lat2) + across).clamp(0.0, 1.0);
    2.0 * EARTH_RADIUS * libm::asin(libm::sqrt(square))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn distance_is_in_metres() {
        let degrees = |text: &str| Value::Number(text.parse().unwrap());
        let metres = |a: &str, b: &str, c: &str, d: &str| {
            let Some(Value::Number(n)) = Function::Distance.apply(&[degrees(a), degrees(b), degrees(c), degrees(d)])
            else {
                panic!("no distance")
            };
            n
        };
        assert_eq!(metres("48.86", "2.33", "48.86", "2.33").to_string(), "0");
        // A degree of latitude is 111.2 km; half the way round is half the circumference.
        assert_eq!(metres("0", "0", "1", "0").to_f64().round(), 111_195.0);
        assert_eq!(metres("0", "0", "0", "180").to_f64().round(), 20_015_114.0);
    }

    #[test]
    fn text_functions_count_characters() {
        let text = |text: &str| Value::String(text.into());
        assert_eq!(Function::Length.apply(&[text("né")]), Some(Value::Number(Number::whole(2))));
        assert_eq!(Function::Contains.apply(&[text("museum hall"), text("hall")]), Some(Value::Boolean(true)));
        assert_eq!(Function::StartsWith.apply(&[text("museum hall"), text("hall")]), Some(Value::Boolean(false)));
        assert_eq!(Function::Length.apply(&[]), None);
    }
}
