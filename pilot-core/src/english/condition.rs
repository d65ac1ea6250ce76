//! Conditions in words. Every grouping is marked, so that two readers cannot group them differently.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::Moment;
use crate::condition::{Comparison, Condition, Formula, Term};
use crate::function::Function;
use crate::syntax::format::write_string;
use crate::value::{Kind, Value};
use crate::vocabulary::Vocabulary;

/// What a condition asks, to be read after "if": "both age is at least 18 and cookie.secure is true".
pub fn condition(condition: &Condition, vocabulary: &Vocabulary) -> String {
    formula(condition.formula(), vocabulary)
}

fn formula(formula: &Formula, vocabulary: &Vocabulary) -> String {
    match formula {
        Formula::True => "in any case".to_string(),
        Formula::False => "in no case".to_string(),
        Formula::Compare(left, comparison, right) => compare(left, *comparison, right, vocabulary),
        Formula::Not(inner) => format!("it is not the case that ({})", self::formula(inner, vocabulary)),
        Formula::And(..) => join(formula, vocabulary, ["both", "and", "all of these hold"]),
        Formula::Or(..) => join(formula, vocabulary, ["either", "or", "at least one of these holds"]),
    }
}

/// "both A and B", "all of these hold (A; B; C)". Chains of the same word are one list: grouping them means nothing.
fn join(formula: &Formula, vocabulary: &Vocabulary, [pair, word, several]: [&str; 3]) -> String {
    let mut operands = Vec::new();
    list_operands(formula, matches!(formula, Formula::And(..)), &mut operands);
    if let [left, right] = operands.as_slice() {
        return format!("{pair} {} {word} {}", grouped(left, vocabulary), grouped(right, vocabulary));
    }
    let texts: Vec<String> = operands.into_iter().map(|operand| self::formula(operand, vocabulary)).collect();
    format!("{several} ({})", texts.join("; "))
}

fn list_operands<'f>(formula: &'f Formula, of_and: bool, operands: &mut Vec<&'f Formula>) {
    match formula {
        Formula::And(left, right) if of_and => {
            list_operands(left, of_and, operands);
            list_operands(right, of_and, operands);
        }
        Formula::Or(left, right) if !of_and => {
            list_operands(left, of_and, operands);
            list_operands(right, of_and, operands);
        }
        operand => operands.push(operand),
    }
}

/// One side of a pair: what has an "and" or "or" of its own stands in parentheses.
fn grouped(formula: &Formula, vocabulary: &Vocabulary) -> String {
    let text = self::formula(formula, vocabulary);
    if matches!(formula, Formula::And(..) | Formula::Or(..)) { format!("({text})") } else { text }
}

fn compare(left: &Term, comparison: Comparison, right: &Term, vocabulary: &Vocabulary) -> String {
    if let (Term::Call(function @ (Function::Contains | Function::StartsWith), arguments), Some(holds)) =
        (left, asserted(comparison, right))
    {
        return test(*function, arguments, holds, vocabulary);
    }
    let words = match (comparison, left.kind()) {
        (Comparison::Equal, _) => "is",
        (Comparison::NotEqual, _) => "is not",
        (Comparison::Less, Kind::Time) => "is before",
        (Comparison::LessOrEqual, Kind::Time) => "is not after",
        (Comparison::Greater, Kind::Time) => "is after",
        (Comparison::GreaterOrEqual, Kind::Time) => "is not before",
        (Comparison::Less, _) => "is less than",
        (Comparison::LessOrEqual, _) => "is at most",
        (Comparison::Greater, _) => "is greater than",
        (Comparison::GreaterOrEqual, _) => "is at least",
    };
    format!("{} {words} {}", term(left, vocabulary), term(right, vocabulary))
}

/// Whether a comparison with this constant says that the other side holds, or that it does not.
fn asserted(comparison: Comparison, right: &Term) -> Option<bool> {
    let Term::Constant(Value::Boolean(value)) = right else { return None };
    Some((comparison == Comparison::Equal) == *value)
}

fn term(term: &Term, vocabulary: &Vocabulary) -> String {
    match term {
        Term::Variable(variable, _) => vocabulary.variable_name(*variable).to_string(),
        Term::Constant(Value::Number(number)) => number.to_string(),
        Term::Constant(Value::Boolean(value)) => value.to_string(),
        Term::Constant(Value::Time(time)) => Moment(*time).to_string(),
        Term::Constant(Value::String(text)) => {
            let mut quoted = String::new();
            // Writing to a `String` cannot fail.
            let _ = write_string(&mut quoted, text);
            quoted
        }
        Term::Call(function, arguments) => call(*function, arguments, vocabulary),
    }
}

fn call(function: Function, arguments: &[Term], vocabulary: &Vocabulary) -> String {
    let texts: Vec<String> = arguments.iter().map(|argument| term(argument, vocabulary)).collect();
    match (function, texts.as_slice()) {
        (Function::Hour, [time]) => format!("the hour of {time} (UTC)"),
        (Function::Minute, [time]) => format!("the minute of {time}"),
        (Function::Weekday, [time]) => format!("the day of the week of {time} (UTC, Monday is 1)"),
        (Function::Length, [text]) => format!("the length of {text}"),
        (Function::Distance, [lat1, lon1, lat2, lon2]) => {
            format!("the distance in metres from ({lat1}, {lon1}) to ({lat2}, {lon2})")
        }
        (Function::Contains | Function::StartsWith, _) => {
            format!("the truth of ({})", test(function, arguments, true, vocabulary))
        }
        // INVARIANT: a condition's calls have the number of arguments their functions take.
        (Function::Hour | Function::Minute | Function::Weekday | Function::Length | Function::Distance, _) => {
            format!("{}({})", function.name(), texts.join(", "))
        }
    }
}

/// "place contains "hall"", "place does not start with "museum"".
fn test(function: Function, arguments: &[Term], holds: bool, vocabulary: &Vocabulary) -> String {
    let verb = match (function, holds) {
        (Function::StartsWith, true) => "starts with",
        (Function::StartsWith, false) => "does not start with",
        (_, true) => "contains",
        (_, false) => "does not contain",
    };
    let argument = |at: usize| arguments.get(at).map(|argument| term(argument, vocabulary)).unwrap_or_default();
    format!("{} {verb} {}", argument(0), argument(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::parse_condition;

    /// Every comparison, connective and function.
    #[test]
    fn conditions_read_as_english() {
        let vocabulary = Vocabulary::built_in().unwrap();
        for (text, english) in [
            ("cookie.secure = true", "cookie.secure is true"),
            ("place != \"a \\\"hall\\\"\"", "place is not \"a \\\"hall\\\"\""),
            ("age < -1.5", "age is less than -1.5"),
            ("age <= 18", "age is at most 18"),
            ("age > 18", "age is greater than 18"),
            ("18 >= age", "18 is at least age"),
            ("now < 2024-12-21", "now is before 21/12/2024"),
            ("now <= 2024-12-21T10:30:00Z", "now is not after 21/12/2024 at 10:30:00 UTC"),
            ("now > 2024-12-21", "now is after 21/12/2024"),
            ("now >= 2024-12-21", "now is not before 21/12/2024"),
            ("hour(now) >= 9", "the hour of now (UTC) is at least 9"),
            ("minute(now) = 30", "the minute of now is 30"),
            ("weekday(now) <= 5", "the day of the week of now (UTC, Monday is 1) is at most 5"),
            ("length(place) > 0", "the length of place is greater than 0"),
            (
                "distance(latitude, longitude, 48.86, 2.34) < 150",
                "the distance in metres from (latitude, longitude) to (48.86, 2.34) is less than 150",
            ),
            ("contains(place, \"hall\")", "place contains \"hall\""),
            ("contains(place, \"hall\") != true", "place does not contain \"hall\""),
            ("starts_with(place, \"hall\") = false", "place does not start with \"hall\""),
            ("starts_with(place, \"hall\") != false", "place starts with \"hall\""),
            ("contains(place, \"hall\") = cookie.secure", "the truth of (place contains \"hall\") is cookie.secure"),
        ] {
            let parsed = parse_condition(text, &vocabulary).unwrap();
            assert_eq!(condition(&parsed, &vocabulary), english);
        }
    }

    /// `and` binds tighter than `or`, parentheses say otherwise, and the English shows which it was.
    #[test]
    fn grouping_can_be_read_in_one_way_only() {
        let vocabulary = Vocabulary::from_toml("attributes = { a = \"boolean\", b = \"boolean\", c = \"boolean\" }");
        let vocabulary = vocabulary.unwrap();
        let (a, b, c) = ("a is true", "b is true", "c is true");
        for (text, english) in [
            ("a and b", format!("both {a} and {b}")),
            ("a or b", format!("either {a} or {b}")),
            ("a and b or c", format!("either (both {a} and {b}) or {c}")),
            ("a and (b or c)", format!("both {a} and (either {b} or {c})")),
            ("a and b and c", format!("all of these hold ({a}; {b}; {c})")),
            ("a and (b and c)", format!("all of these hold ({a}; {b}; {c})")),
            ("a or b or c", format!("at least one of these holds ({a}; {b}; {c})")),
            ("a or b or (a and c)", format!("at least one of these holds ({a}; {b}; both {a} and {c})")),
            ("not a and b", format!("both it is not the case that ({a}) and {b}")),
            ("not (a and b)", format!("it is not the case that (both {a} and {b})")),
            ("not (a and b and c) or c", {
                format!("either it is not the case that (all of these hold ({a}; {b}; {c})) or {c}")
            }),
            ("a and (true or false)", format!("both {a} and (either in any case or in no case)")),
        ] {
            let parsed = parse_condition(text, &vocabulary).unwrap();
            assert_eq!(condition(&parsed, &vocabulary), english, "{text}");
        }
    }
}
