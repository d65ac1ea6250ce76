//! The one way policies and conditions are written.

use alloc::string::String;
use core::fmt::{self, Write as _};

use super::{Attached, RuleComments, SourcePolicy};
use crate::condition::{Condition, Formula, Term};
use crate::diagnostic::is_invisible;
use crate::policy::{Choice, CommunicationRule};
use crate::value::Value;
use crate::vocabulary::Vocabulary;

/// A condition as the formatter writes it; it parses back to the same condition.
pub fn condition_text(condition: &Condition, vocabulary: &Vocabulary) -> String {
    let mut text = String::new();
    // Writing to a `String` cannot fail.
    let _ = write_formula(&mut text, condition.formula(), vocabulary, Binding::Or);
    text
}

/// Policies as a file; comments are kept.
pub fn file_text(policies: &[SourcePolicy], end_comments: &[String], vocabulary: &Vocabulary) -> String {
    let mut text = String::new();
    for (at, source) in policies.iter().enumerate() {
        if at > 0 {
            text.push('\n');
        }
        let _ = write_policy(&mut text, source, vocabulary);
    }
    if !policies.is_empty() && !end_comments.is_empty() {
        text.push('\n');
    }
    for comment in end_comments {
        let _ = writeln!(text, "{comment}");
    }
    text
}

/// One policy under a name, without comments.
pub fn policy_text(name: &str, choice: &Choice, vocabulary: &Vocabulary) -> String {
    let mut text = String::new();
    let _ = write_policy(&mut text, &SourcePolicy::new(name, choice.clone()), vocabulary);
    text
}

fn write_policy(out: &mut String, source: &SourcePolicy, vocabulary: &Vocabulary) -> fmt::Result {
    let comments = &source.comments;
    line(out, "", &comments.policy, &alloc::format!("policy {} {{", source.name))?;
    match &source.choice {
        Choice::Nothing => line(out, "  ", &comments.collection.head, "nothing")?,
        Choice::Policy(policy) => {
            let datatype = vocabulary.datatypes.name(policy.datatype());
            let entity = vocabulary.entities.name(policy.collection().entity);
            let head = alloc::format!("collect {datatype} by {entity}");
            line(out, "  ", &comments.collection.head, &head)?;
            write_rule(out, policy.collection(), &comments.collection, vocabulary)?;
            let no_comments = RuleComments::default();
            for (at, rule) in policy.transfers().iter().enumerate() {
                let comments = comments.transfers.get(at).unwrap_or(&no_comments);
                let head = alloc::format!("transfer to {}", vocabulary.entities.name(rule.entity));
                line(out, "  ", &comments.head, &head)?;
                write_rule(out, rule, comments, vocabulary)?;
            }
        }
    }
    line(out, "", &comments.end, "}")
}

fn write_rule(
    out: &mut String,
    rule: &CommunicationRule,
    comments: &RuleComments,
    vocabulary: &Vocabulary,
) -> fmt::Result {
    if rule.condition.is_always() {
        // `when true` is not written, what was said about it is.
        for comment in comments.when.before.iter().chain(&comments.when.after) {
            writeln!(out, "    {comment}")?;
        }
    } else {
        let condition = condition_text(&rule.condition, vocabulary);
        line(out, "    ", &comments.when, &alloc::format!("when {condition}"))?;
    }
    let mut purposes = String::from("for ");
    if rule.usage.purposes().is_empty() {
        purposes.push_str("nothing");
    }
    for (at, purpose) in rule.usage.purposes().iter().enumerate() {
        purposes.push_str(if at > 0 { ", " } else { "" });
        purposes.push_str(vocabulary.purposes.name(*purpose));
    }
    line(out, "    ", &comments.purposes, &purposes)?;
    line(out, "    ", &comments.until, &alloc::format!("until {}", rule.usage.retention()))
}

fn line(out: &mut String, indent: &str, comments: &Attached, text: &str) -> fmt::Result {
    // Comments stand one level deeper than a closing brace, where they were written.
    let comment_indent = if text == "}" { "  " } else { indent };
    for comment in &comments.before {
        writeln!(out, "{comment_indent}{comment}")?;
    }
    write!(out, "{indent}{text}")?;
    for comment in &comments.after {
        write!(out, " {comment}")?;
    }
    out.push('\n');
    Ok(())
}

/// How tightly the place binds in which a formula is written.
#[derive(PartialEq, Eq, PartialOrd, Ord, Clone, Copy)]
enum Binding {
    Or,
    And,
    Not,
}

fn write_formula(out: &mut String, formula: &Formula, vocabulary: &Vocabulary, place: Binding) -> fmt::Result {
    let binding = match formula {
        Formula::Or(..) => Binding::Or,
        Formula::And(..) => Binding::And,
        _ => Binding::Not,
    };
    let parenthesised = binding < place || (matches!(formula, Formula::Compare(..)) && place == Binding::Not);
    if parenthesised {
        out.push('(');
    }
    match formula {
        Formula::True => out.push_str("true"),
        Formula::False => out.push_str("false"),
        Formula::Compare(left, comparison, right) => {
            write_term(out, left, vocabulary)?;
            write!(out, " {} ", comparison.symbol())?;
            write_term(out, right, vocabulary)?;
        }
        Formula::Not(inner) => {
            out.push_str("not ");
            write_formula(out, inner, vocabulary, Binding::Not)?;
        }
        // Chains associate to the left: the right side of an equal operator needs parentheses.
        Formula::And(left, right) => {
            write_formula(out, left, vocabulary, Binding::And)?;
            out.push_str(" and ");
            write_right(out, right, vocabulary)?;
        }
        Formula::Or(left, right) => {
            write_formula(out, left, vocabulary, Binding::Or)?;
            out.push_str(" or ");
            write_formula(out, right, vocabulary, Binding::And)?;
        }
    }
    if parenthesised {
        out.push(')');
    }
    Ok(())
}

/// The right side of `and`: a comparison stands bare, an `and` or `or` in parentheses.
fn write_right(out: &mut String, formula: &Formula, vocabulary: &Vocabulary) -> fmt::Result {
    let place = if matches!(formula, Formula::And(..) | Formula::Or(..)) { Binding::Not } else { Binding::And };
    write_formula(out, formula, vocabulary, place)
}

fn write_term(out: &mut String, term: &Term, vocabulary: &Vocabulary) -> fmt::Result {
    match term {
        Term::Variable(variable, _) => out.push_str(vocabulary.variable_name(*variable)),
        Term::Constant(Value::Number(number)) => write!(out, "{number}")?,
        Term::Constant(Value::Time(time)) => write!(out, "{time}")?,
        Term::Constant(Value::Boolean(value)) => write!(out, "{value}")?,
        Term::Constant(Value::String(text)) => write_string(out, text)?,
        Term::Call(function, arguments) => {
            write!(out, "{}(", function.name())?;
            for (at, argument) in arguments.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                write_term(out, argument, vocabulary)?;
            }
            out.push(')');
        }
    }
    Ok(())
}

/// A text constant as it is written, in quotes.
pub(crate) fn write_string(out: &mut String, text: &str) -> fmt::Result {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            character if is_invisible(character) => write!(out, "\\u{{{:x}}}", u32::from(character))?,
            character => out.push(character),
        }
    }
    out.push('"');
    Ok(())
}
