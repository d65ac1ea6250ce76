//! `policy show`: the forms of a policy.

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use pilot_core::codec::{digest, encode};
use pilot_core::diagnostic::Quoted;
use pilot_core::english;
use pilot_core::syntax::format::file_text;
use pilot_core::syntax::{SourceFile, SourcePolicy, json};

use crate::console::{Answer, Console, Failure};
use crate::input::{Origin, VocabularyOption};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  consent-mesh policy show examples/flights/banner.pilot --as english
  consent-mesh policy show examples/flights/banner.pilot --as json
  consent-mesh policy show examples/flights/banner.pilot --as cbor --policy offers > offers.cbor
  consent-mesh policy show offers.cbor --as digest

JSON form, one policy per line (⊥ is null). A file of several such lines can be read as well; its policies are called \
like the file, with their numbers: offers-1, offers-2, …
  {\"datatype\":\"cookie\",
   \"collection\":{\"condition\":\"cookie.secure = true\",\"entity\":\"flights.com\",
                 \"purposes\":[\"special_offers\"],\"retention\":1734739200},
   \"transfers\":[{\"condition\":\"true\",\"entity\":\"hotels.com\",\"purposes\":[\"hotel_ads\"],
                 \"retention\":1713484800}]}")]
pub(crate) struct Show {
    /// Policy file: text (*.pilot), JSON (*.json, *.jsonl), canonical CBOR (*.cbor), or `-` for text on standard input
    file: PathBuf,
    /// The form to show
    #[arg(long = "as", value_enum, default_value_t = Form::Text)]
    form: Form,
    /// Only the policy of this name
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    #[command(flatten)]
    vocabulary: VocabularyOption,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// The policy language, formatted
    Text,
    /// One line of JSON per policy
    Json,
    /// The canonical bytes of one policy; in hexadecimal on a terminal
    Cbor,
    /// What it means, for a person
    English,
    /// SHA-256 of the canonical bytes, and the name
    Digest,
}

pub(crate) fn run(arguments: &Show, console: &mut Console) -> Result<Answer, Failure> {
    let words = arguments.vocabulary.load(&arguments.file)?;
    let vocabulary = &words.vocabulary;
    let SourceFile { mut policies, mut end_comments } = words.policies(&arguments.file)?;
    if let Some(name) = &arguments.policy {
        policies.retain(|policy| policy.name == *name);
        end_comments.clear();
        if policies.is_empty() {
            return Err(Failure::NoSuchPolicy(Origin::from(arguments.file.as_path()), Quoted::new(name)));
        }
    }
    match arguments.form {
        Form::Text => console.write_all(file_text(&policies, &end_comments, vocabulary).as_bytes())?,
        Form::Json => {
            for policy in &policies {
                writeln!(console, "{}", json::text(&policy.choice, vocabulary))?;
            }
        }
        Form::English => {
            let several = policies.len() > 1;
            for SourcePolicy { name, choice, .. } in &policies {
                let name = if several { format!("{name}: ") } else { String::new() };
                writeln!(console, "{name}{}", english::sentence(choice, vocabulary))?;
            }
        }
        Form::Digest => {
            for SourcePolicy { name, choice, .. } in &policies {
                writeln!(console, "{}  {name}", digest(choice, vocabulary))?;
            }
        }
        Form::Cbor => {
            let origin = Origin::from(arguments.file.as_path());
            let policy = match policies.as_slice() {
                [] => return Err(Failure::NoPolicy(origin)),
                [policy] => policy,
                several => return Err(Failure::SeveralPolicies(origin, several.len())),
            };
            let bytes = encode(&policy.choice, vocabulary);
            if console.is_terminal() {
                bytes.iter().try_for_each(|byte| write!(console, "{byte:02x}"))?;
                writeln!(console)?;
            } else {
                console.write_all(&bytes)?;
            }
        }
    }
    Ok(Answer::Yes)
}
