//! `consent-mesh example`: the paper's running example, from the files in `examples/flights`.
//!
//! Nothing here knows the answers: the vocabulary, the offers and Alice's policy are read, and ⊑ and activity decide.

use std::io::{self, Write as _};

use pilot_core::active::{Communication, active_policy};
use pilot_core::english::{self, Moment, refusal};
use pilot_core::evaluate::Values;
use pilot_core::explain::explain;
use pilot_core::policy::Choice;
use pilot_core::subsumption::Judge;
use pilot_core::syntax::SourcePolicy;
use pilot_core::syntax::format::policy_text;
use pilot_core::value::{Time, Value};
use pilot_core::vocabulary::Vocabulary;

use crate::console::{Answer, Console, Failure};
use crate::input::{Origin, Words};
use crate::vocabulary;

const VOCABULARY: &str = include_str!("../../examples/flights/vocabulary.toml");
const BANNER: &str = include_str!("../../examples/flights/banner.pilot");
const ALICE: &str = include_str!("../../examples/flights/alice.pilot");

/// When Alice visits the website: 2024-01-01, before the deadlines of the example.
const VISIT: Time = Time::from_unix(1_704_067_200);

/// Columns of a terminal that everybody has.
const WIDTH: usize = 80;

pub(crate) fn run(console: &mut Console) -> Result<Answer, Failure> {
    let words = Words::parse(VOCABULARY, Origin::BuiltIn("examples/flights/vocabulary.toml"))?;
    let offers = words.policies_in_text(BANNER, Origin::BuiltIn("examples/flights/banner.pilot"))?.policies;
    let own = words.policies_in_text(ALICE, Origin::BuiltIn("examples/flights/alice.pilot"))?.policies;
    let vocabulary = &words.vocabulary;

    heading("A cookie banner, and what Alice may choose", console)?;
    paragraph(
        "The running example of Pardo and Le Métayer, \"Model-Checking the Implementation of Consent\". \
         flights.com, a flight search engine, shows special offers and would like to pass data on to hotels.com. \
         Its cookie banner lets visitors choose. What may Alice choose?",
        console,
    )?;

    heading("1. The words", console)?;
    paragraph("Everybody speaks of the same entities, datatypes, purposes and attributes.", console)?;
    let mut shown = Vec::new();
    vocabulary::show(vocabulary, &mut shown)?;
    indented(&String::from_utf8_lossy(&shown), 2, console)?;

    heading("2. What flights.com offers", console)?;
    for (number, offer) in (1..).zip(&offers) {
        let title = format!("Option {number}");
        writeln!(console, "  {}", painted(&title, Paint::Bold, console))?;
        show_policy(offer, vocabulary, console)?;
    }

    heading("3. What Alice accepts", console)?;
    paragraph("She likes special offers, but her cookies must travel over HTTPS.", console)?;
    for policy in &own {
        show_policy(policy, vocabulary, console)?;
    }

    heading("4. What she may choose", console)?;
    paragraph(
        "An option may be chosen if it is active and at least as restrictive as a policy of Alice that is active, too. \
         The empty policy may always be chosen.",
        console,
    )?;
    for is_secure in [true, false] {
        let with = if is_secure { "With a secure cookie" } else { "With a cookie that is not secure" };
        let title = format!("{with}, on {}:", Moment(VISIT));
        writeln!(console, "  {}", painted(&title, Paint::Bold, console))?;
        let state = alice_with_cookie(is_secure, vocabulary)?;
        let communication = cookie_to_flights(&state, vocabulary)?;
        for (number, offer) in (1..).zip(&offers) {
            let verdict = may_choose(&offer.choice, &own, &communication, &Judge::new(vocabulary));
            show_verdict(number, &offer.name, verdict, console)?;
        }
        writeln!(console)?;
    }

    heading("Go on", console)?;
    indented(
        "consent-mesh --help                 all commands\n\
         consent-mesh policy check --help    write policies of your own\n\
         consent-mesh vocabulary show        the built-in vocabulary\n",
        2,
        console,
    )?;
    Ok(Answer::Yes)
}

/// ν of Alice's laptop.
fn alice_with_cookie(is_secure: bool, vocabulary: &Vocabulary) -> Result<Values, Failure> {
    let (secure, _) = vocabulary.variable("cookie.secure").ok_or(Failure::Example("attribute `cookie.secure`"))?;
    Ok(Values::from([(secure, Value::Boolean(is_secure))]))
}

/// send(Alice's laptop, the server of flights.com, Alice's cookie).
fn cookie_to_flights<'s>(values: &'s Values, vocabulary: &Vocabulary) -> Result<Communication<'s>, Failure> {
    let directory = vocabulary.directory();
    let item = vocabulary.item("alice-cookie").and_then(|item| directory.item(item));
    let receiver = vocabulary.device("flights-server").and_then(|device| directory.entity(device));
    Ok(Communication {
        datatype: item.ok_or(Failure::Example("item `alice-cookie`"))?.datatype,
        receiver: receiver.ok_or(Failure::Example("device `flights-server`"))?,
        time: VISIT,
        values,
    })
}

/// Whether an option may be chosen, and why, or why not.
fn may_choose(
    offer: &Choice,
    own: &[SourcePolicy],
    communication: &Communication<'_>,
    judge: &Judge<'_>,
) -> Result<String, String> {
    let vocabulary = judge.vocabulary;
    let Choice::Policy(policy) = offer else { return Ok("asks for nothing".to_string()) };
    if let Err(reason) = active_policy(policy, communication, vocabulary) {
        let reason = refusal::inactive(reason, policy.collection(), vocabulary);
        return Err(format!("is not active: {reason}"));
    }
    let mut objections = Vec::new();
    for SourcePolicy { name, choice, .. } in own {
        let Choice::Policy(accepted) = choice else { continue };
        if let Err(reason) = active_policy(accepted, communication, vocabulary) {
            let reason = refusal::inactive(reason, accepted.collection(), vocabulary);
            objections.push(format!("the policy `{name}` is not active: {reason}"));
        } else if let Some(why) = explain(offer, choice, judge) {
            objections.push(refusal::explanation(&why, offer, name, vocabulary));
        } else {
            return Ok(format!("accepted under `{name}`"));
        }
    }
    Err(objections.join("; "))
}

fn show_policy(policy: &SourcePolicy, vocabulary: &Vocabulary, console: &mut Console) -> io::Result<()> {
    indented(&policy_text(&policy.name, &policy.choice, vocabulary), 4, console)?;
    wrapped(&english::sentence(&policy.choice, vocabulary), 4, console)?;
    writeln!(console)
}

fn show_verdict(number: usize, name: &str, verdict: Result<String, String>, console: &mut Console) -> io::Result<()> {
    let (mark, paint, reason) = match verdict {
        Ok(reason) => ("yes", Paint::Green, reason),
        Err(reason) => ("no ", Paint::Red, reason),
    };
    let mark = painted(mark, paint, console);
    writeln!(console, "    {mark}  option {number}, {name}")?;
    wrapped(&reason, 9, console)
}

fn heading(text: &str, console: &mut Console) -> io::Result<()> {
    let text = painted(text, Paint::Heading, console);
    writeln!(console, "{text}\n")
}

fn paragraph(text: &str, console: &mut Console) -> io::Result<()> {
    wrapped(text, 2, console)?;
    writeln!(console)
}

fn indented(text: &str, indent: usize, console: &mut Console) -> io::Result<()> {
    text.lines().try_for_each(|line| writeln!(console, "{:indent$}{line}", ""))?;
    writeln!(console)
}

/// Breaks a text between words.
fn wrapped(text: &str, indent: usize, console: &mut Console) -> io::Result<()> {
    let mut line = String::new();
    for word in text.split(' ') {
        if !line.is_empty() && indent + line.chars().count() + 1 + word.chars().count() > WIDTH {
            writeln!(console, "{:indent$}{line}", "")?;
            line.clear();
        }
        line += if line.is_empty() { "" } else { " " };
        line += word;
    }
    writeln!(console, "{:indent$}{line}", "")
}

#[derive(Clone, Copy)]
enum Paint {
    Heading,
    Bold,
    Green,
    Red,
}

fn painted(text: &str, paint: Paint, console: &Console) -> String {
    let code = match paint {
        Paint::Heading => "1;36",
        Paint::Bold => "1",
        Paint::Green => "32",
        Paint::Red => "31",
    };
    if console.has_colour() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
}
