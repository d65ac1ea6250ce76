//! Writes policies as a person might, careless about blanks, comments, parentheses and the forms of constants.

use pilot_core::value::Time;

use super::choices::Choices;
use super::named::{Formula, Policy, Rule, Term, Value};

/// A file of these policies, and the comments in it.
pub fn careless_file(policies: &[Option<Policy>], choices: &mut Choices) -> (String, Vec<String>) {
    let mut tokens = Vec::new();
    for (at, choice) in policies.iter().enumerate() {
        tokens.extend(["policy".to_string(), format!("p{at}"), "{".to_string()]);
        match choice {
            None => tokens.push("nothing".to_string()),
            Some(policy) => write_policy(policy, &mut tokens, choices),
        }
        tokens.push("}".to_string());
    }
    let (mut text, mut comments) = (String::new(), Vec::new());
    for token in tokens {
        text.push_str(&blanks(&text, &token, &mut comments, choices));
        text.push_str(&token);
    }
    text.push_str(&blanks("x", "x", &mut comments, choices));
    (text, comments)
}

/// What stands before a token.
fn blanks(before: &str, token: &str, comments: &mut Vec<String>, choices: &mut Choices) -> String {
    let is_sign = |c: char| matches!(c, '{' | '}' | '(' | ')' | ',');
    match choices.below(16) {
        0 if before.is_empty() || before.ends_with(is_sign) || token.starts_with(is_sign) => String::new(),
        0..=8 => " ".to_string(),
        9..=11 => "\n".to_string(),
        12 => "\r\n\t ".to_string(),
        style => {
            let comment = format!("{} note {}. {{ \"é", choices.pick(&["//", "#", "///", "# //"]), comments.len());
            let around = match style {
                13 => (" ", "\n"),
                14 => ("\n\n", "  \r\n"),
                _ => (" \t", " \t\n\n"),
            };
            comments.push(comment.clone());
            format!("{}{comment}{}", around.0, around.1)
        }
    }
}

fn write_policy(policy: &Policy, tokens: &mut Vec<String>, choices: &mut Choices) {
    tokens.extend(["collect", &policy.datatype, "by"].map(String::from));
    write_rule(&policy.collection, tokens, choices);
    for rule in &policy.transfers {
        tokens.extend(["transfer", "to"].map(String::from));
        write_rule(rule, tokens, choices);
    }
}

fn write_rule(rule: &Rule, tokens: &mut Vec<String>, choices: &mut Choices) {
    tokens.push(rule.entity.clone());
    if rule.condition != Formula::True || choices.one_in(4) {
        tokens.push("when".to_string());
        write_formula(&rule.condition, tokens, choices);
    }
    tokens.push("for".to_string());
    if rule.purposes.is_empty() {
        tokens.push("nothing".to_string());
    }
    // Sets have no order: the last name first.
    for (at, purpose) in rule.purposes.iter().rev().enumerate() {
        if at > 0 {
            tokens.push(",".to_string());
        }
        tokens.push(purpose.clone());
    }
    tokens.push("until".to_string());
    tokens.push(match choices.below(3) {
        0 => rule.retention.to_string(),
        _ => moment(Time::from_unix(rule.retention), choices),
    });
}

/// Every part in parentheses, unless it is a comparison and luck lets it go bare.
fn write_formula(formula: &Formula, tokens: &mut Vec<String>, choices: &mut Choices) {
    let part = |formula: &Formula, tokens: &mut Vec<String>, choices: &mut Choices| {
        let is_bare = matches!(formula, Formula::Compare(..) | Formula::True | Formula::False) && choices.one_in(2);
        if !is_bare {
            tokens.push("(".to_string());
        }
        write_formula(formula, tokens, choices);
        if !is_bare {
            tokens.push(")".to_string());
        }
    };
    match formula {
        Formula::True => tokens.push("true".to_string()),
        Formula::False => tokens.push("false".to_string()),
        Formula::Compare(term, "=", Term::Constant(Value::Boolean(true)))
            if !matches!(term, Term::Constant(_)) && choices.one_in(2) =>
        {
            write_term(term, tokens, choices);
        }
        Formula::Compare(left, symbol, right) => {
            write_term(left, tokens, choices);
            tokens.push(symbol.to_string());
            write_term(right, tokens, choices);
        }
        Formula::Not(inner) => {
            tokens.push("not".to_string());
            part(inner, tokens, choices);
        }
        Formula::And(left, right) | Formula::Or(left, right) => {
            part(left, tokens, choices);
            tokens.push(if matches!(formula, Formula::And(..)) { "and" } else { "or" }.to_string());
            part(right, tokens, choices);
        }
    }
}

fn write_term(term: &Term, tokens: &mut Vec<String>, choices: &mut Choices) {
    match term {
        Term::Variable(name) => tokens.push(name.clone()),
        Term::Constant(Value::Boolean(truth)) => tokens.push(truth.to_string()),
        Term::Constant(Value::Number(number)) => tokens.push(decimal(*number, choices)),
        Term::Constant(Value::Time(time)) => tokens.push(moment(Time::from_unix(*time), choices)),
        Term::Constant(Value::String(text)) => tokens.push(quoted(text, choices)),
        Term::Call(function, arguments) => {
            tokens.extend([function.to_string(), "(".to_string()]);
            for (at, argument) in arguments.iter().enumerate() {
                if at > 0 {
                    tokens.push(",".to_string());
                }
                write_term(argument, tokens, choices);
            }
            tokens.push(")".to_string());
        }
    }
}

/// With zeros at both ends, or as short as it goes.
fn decimal(millionths: i64, choices: &mut Choices) -> String {
    let sign = if millionths < 0 { "-" } else { "" };
    let (whole, fraction) = (millionths.unsigned_abs() / 1_000_000, millionths.unsigned_abs() % 1_000_000);
    match choices.below(3) {
        0 if fraction == 0 => format!("{sign}{whole}"),
        1 => format!("{sign}{whole}.{fraction:06}"),
        _ => format!("{sign}00{whole}.{fraction:06}000"),
    }
}

/// In one time zone or another; beyond the year 9999, in seconds.
fn moment(time: Time, choices: &mut Choices) -> String {
    let shifted = Time::from_unix(time.unix().saturating_add(5_400));
    if shifted < Time::LAST_WRITABLE && !shifted.is_midnight() && choices.one_in(2) {
        shifted.to_string().replace('Z', "+01:30")
    } else {
        time.to_string()
    }
}

/// With escapes where they are needed, and here and there where they are not.
fn quoted(text: &str, choices: &mut Choices) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        let is_plain = character.is_ascii_graphic() || character == ' ' || character == 'é';
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            character if is_plain && !choices.one_in(8) => quoted.push(character),
            character => quoted.push_str(&format!("\\u{{{:04X}}}", u32::from(character))),
        }
    }
    quoted.push('"');
    quoted
}
