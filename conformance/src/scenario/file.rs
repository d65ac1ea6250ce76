//! Scenarios with real policies: the built-in ones, and TOML files of the user's own.
//!
//! ```toml
//! vocabulary = "vocabulary.toml"          # beside this file; declares the devices and items
//! policies = ["banner.pilot"]             # likewise
//! repository = "registry"                 # a device; only indirect models need one
//! times = ["2024-04-01", "2024-04-19"]    # what each device's clock goes through; one moment if it stands still
//! withdrawals = false                     # whether data and policies may be withdrawn
//!
//! [[subjects]]
//! device = "alice-laptop"                 # with the items that it owns
//! own = [["alice"]]                       # the sets of policies among which its user chooses
//! values = { "cookie.secure" = true }     # ν at the start, besides the items
//! changes = 0                             # how often she may choose again
//! restarts = 0                            # how often the device may restart
//!
//! [[controllers]]
//! device = "flights-server"
//! own = [["offers"], ["offers-and-hotels"]]
//! ```

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use pilot_core::diagnostic::{Hint, Located, Quoted, foreign_message};
use pilot_core::name::nearest;
use pilot_core::policy::Choice;
use pilot_core::semantics::{Policies, PolicyId};
use pilot_core::syntax::parse_file;
use pilot_core::value::{Kind, Number, Time, Value};
use pilot_core::vocabulary::{DeviceId, Vocabulary};
use serde::Deserialize;
use toml::Spanned;

use super::{Architecture, MAX_COUNT, Party, Role, Scenario, ScenarioError};

/// The largest file that a scenario consists of.
pub const MAX_SCENARIO_BYTES: u64 = 1 << 20;

/// The scenarios that come with the program, each with its files.
const BUILT_IN: [(&str, &[(&str, &str)]); 3] = [
    (
        "flights",
        &[
            ("scenario.toml", include_str!("../../../examples/flights/scenario.toml")),
            ("vocabulary.toml", include_str!("../../../examples/flights/vocabulary.toml")),
            ("banner.pilot", include_str!("../../../examples/flights/banner.pilot")),
            ("visitors.pilot", include_str!("../../../examples/flights/visitors.pilot")),
            ("alice.pilot", include_str!("../../../examples/flights/alice.pilot")),
            ("hotels.pilot", include_str!("../../../examples/flights/hotels.pilot")),
        ],
    ),
    (
        "alphabet",
        &[
            ("scenario.toml", include_str!("../../../examples/alphabet/scenario.toml")),
            ("vocabulary.toml", include_str!("../../../examples/alphabet/vocabulary.toml")),
            ("policies.pilot", include_str!("../../../examples/alphabet/policies.pilot")),
        ],
    ),
    (
        "mall",
        &[
            ("scenario.toml", include_str!("../../../examples/mall/scenario.toml")),
            ("vocabulary.toml", include_str!("../../../examples/mall/vocabulary.toml")),
            ("offers.pilot", include_str!("../../../examples/mall/offers.pilot")),
            ("partners.pilot", include_str!("../../../examples/mall/partners.pilot")),
            ("visitor.pilot", include_str!("../../../examples/mall/visitor.pilot")),
        ],
    ),
];

/// The names of the scenarios that come with the program.
pub fn built_in() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name)
}

/// The built-in scenario of this name, or the one in this file.
pub fn find(name: &str, architecture: Architecture) -> Result<Scenario, ScenarioError> {
    let built_in = BUILT_IN.iter().find(|(known, _)| *known == name);
    let (place, main) = match built_in {
        Some((_, files)) => (Place::BuiltIn(name, files), PathBuf::from("scenario.toml")),
        None => {
            let path = Path::new(name);
            let is_file = path.components().count() > 1 || path.extension().is_some() || path.exists();
            if !is_file {
                let known = built_in_names();
                return Err(ScenarioError::UnknownScenario(Quoted::new(name), known));
            }
            let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
            (Place::Folder(folder), path.file_name().map(PathBuf::from).unwrap_or_default())
        }
    };
    let origin = place.name(&main);
    let source = place.read(&main)?;
    let wrong = |span, problem| ScenarioError::File(origin.clone(), Box::new(Located::new(&source, span, problem)));
    let form: Form = toml::from_str(&source)
        .map_err(|error| wrong(error.span().unwrap_or(0..0), Problem::Toml(foreign_message(error.message()))))?;
    let builder = Builder::new(&place, &form)?;
    builder.build(&form, architecture).map_err(|(span, problem)| wrong(span, problem))
}

fn built_in_names() -> String {
    built_in().collect::<Vec<_>>().join(", ")
}

/// Where the files of a scenario are.
enum Place<'p> {
    BuiltIn(&'p str, &'p [(&'p str, &'p str)]),
    Folder(PathBuf),
}

impl Place<'_> {
    /// A file, as messages name it.
    fn name(&self, file: &Path) -> String {
        match self {
            Self::BuiltIn(name, _) => format!("{name}/{}", file.display()),
            Self::Folder(folder) => Quoted::new(&folder.join(file).to_string_lossy()).to_string(),
        }
    }

    fn read(&self, file: &Path) -> Result<String, ScenarioError> {
        let unreadable = |why: String| ScenarioError::Unreadable(self.name(file), why);
        match self {
            Self::BuiltIn(_, files) => {
                let found = files.iter().find(|(name, _)| Path::new(name) == file);
                found.map(|(_, text)| (*text).to_string()).ok_or_else(|| unreadable("there is no such file".into()))
            }
            Self::Folder(folder) => {
                let text = read_bounded(&folder.join(file)).map_err(|error| unreadable(error.to_string()))?;
                String::from_utf8(text).map_err(|_| unreadable("it is not UTF-8".into()))
            }
        }
    }
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_SCENARIO_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_SCENARIO_BYTES {
        return Err(io::Error::other(format!("it has more than {MAX_SCENARIO_BYTES} bytes")));
    }
    Ok(bytes)
}

/// The form of a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    vocabulary: PathBuf,
    policies: Vec<PathBuf>,
    repository: Option<Spanned<String>>,
    #[serde(default)]
    times: Vec<Spanned<toml::Value>>,
    #[serde(default)]
    withdrawals: bool,
    subjects: Spanned<Vec<PartyForm>>,
    controllers: Spanned<Vec<PartyForm>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PartyForm {
    device: Spanned<String>,
    own: Spanned<Vec<Vec<Spanned<String>>>>,
    #[serde(default)]
    values: BTreeMap<Spanned<String>, Spanned<toml::Value>>,
    #[serde(default)]
    changes: u8,
    #[serde(default)]
    restarts: u8,
}

/// What is wrong with a scenario's file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Not TOML, or not of this form.
    #[error("{0}")]
    Toml(String),
    /// A name that the vocabulary or the policies do not have.
    #[error("unknown {0} {1}{2}")]
    Unknown(&'static str, Quoted, Hint),
    /// A value of another kind than the vocabulary says, or a time that is none.
    #[error("{0} is no {1}")]
    Value(Quoted, &'static str),
    /// None, or too many, of something.
    #[error("a scenario has 1 to {MAX_COUNT} {0}")]
    Count(&'static str),
    /// Times that do not go forward.
    #[error("times go forward")]
    Backwards,
    /// Indirect communication without a repository.
    #[error("indirect communication needs a repository: name its device, `repository = \"…\"`")]
    NoRepository,
    /// The same device twice.
    #[error("{0} takes part already")]
    Twice(Quoted),
}

type Wrong = (std::ops::Range<usize>, Problem);

/// The words and policies of a scenario, by which its parties are read.
struct Builder {
    vocabulary: Vocabulary,
    policies: Policies,
    /// Policies by name; ⊥ has no id.
    by_name: BTreeMap<String, Option<PolicyId>>,
    names: Vec<String>,
}

impl Builder {
    fn new(place: &Place<'_>, form: &Form) -> Result<Self, ScenarioError> {
        let words = place.read(&form.vocabulary)?;
        let vocabulary = Vocabulary::from_toml(&words)
            .map_err(|error| ScenarioError::Vocabulary(place.name(&form.vocabulary), Box::new(error)))?;
        let (mut policies, mut by_name, mut names) = (Policies::default(), BTreeMap::new(), Vec::new());
        for path in &form.policies {
            let text = place.read(path)?;
            let file = parse_file(&text, &vocabulary)
                .map_err(|error| ScenarioError::Policies(place.name(path), Box::new(error)))?;
            for source in file.policies {
                let id = match source.choice {
                    Choice::Nothing => None,
                    Choice::Policy(policy) => Some(policies.intern(policy, &vocabulary)),
                };
                // Of two names for one policy, the first is shown.
                if policies.iter().count() > names.len() {
                    names.push(source.name.clone());
                }
                if by_name.insert(source.name.clone(), id).is_some_and(|known| known != id) {
                    return Err(ScenarioError::PolicyTwice(place.name(path), Quoted::new(&source.name)));
                }
            }
        }
        Ok(Self { vocabulary, policies, by_name, names })
    }

    fn build(self, form: &Form, architecture: Architecture) -> Result<Scenario, Wrong> {
        let times = self.times(form)?;
        let mut parties: Vec<Party> = Vec::new();
        for (role, what, forms) in
            [(Role::Subject, "subjects", &form.subjects), (Role::Controller, "controllers", &form.controllers)]
        {
            if !(1..=MAX_COUNT).contains(&forms.get_ref().len()) {
                return Err((forms.span(), Problem::Count(what)));
            }
            for form in forms.get_ref() {
                let party = self.party(role, architecture, form)?;
                if parties.iter().any(|known| known.device == party.device) {
                    return Err((form.device.span(), Problem::Twice(Quoted::new(form.device.get_ref()))));
                }
                parties.push(party);
            }
        }
        if architecture == Architecture::Indirect {
            let name = form.repository.as_ref().ok_or((form.subjects.span(), Problem::NoRepository))?;
            let device = self.device(name)?;
            if parties.iter().any(|known| known.device == device) {
                return Err((name.span(), Problem::Twice(Quoted::new(name.get_ref()))));
            }
            parties.push(Party::new(device, Role::Repository, architecture, &self.vocabulary));
        }
        let mut scenario = Scenario::new(self.vocabulary, self.policies, self.names, times);
        scenario.withdrawals = form.withdrawals;
        for party in parties {
            scenario.add(party);
        }
        Ok(scenario)
    }

    fn times(&self, form: &Form) -> Result<Vec<Time>, Wrong> {
        if form.times.len() > MAX_COUNT {
            let span = form.times.last().map(Spanned::span).unwrap_or_default();
            return Err((span, Problem::Count("times")));
        }
        let mut times = Vec::new();
        for text in &form.times {
            let Value::Time(time) = value(text, Kind::Time)? else { continue };
            if times.last().is_some_and(|last| *last >= time) {
                return Err((text.span(), Problem::Backwards));
            }
            times.push(time);
        }
        Ok(if times.is_empty() { vec![Time::default()] } else { times })
    }

    fn party(&self, role: Role, architecture: Architecture, form: &PartyForm) -> Result<Party, Wrong> {
        let mut party = Party::new(self.device(&form.device)?, role, architecture, &self.vocabulary);
        (party.changes, party.restarts) = (form.changes, form.restarts);
        if !(1..=MAX_COUNT).contains(&form.own.get_ref().len()) {
            return Err((form.own.span(), Problem::Count("sets of own policies for each party")));
        }
        for set in form.own.get_ref() {
            let mut own = Vec::new();
            for name in set {
                let known = self.by_name.get(name.get_ref());
                own.extend(known.ok_or_else(|| unknown("policy", name, self.by_name.keys().map(String::as_str)))?);
            }
            own.sort_unstable();
            own.dedup();
            party.choices.push(own);
        }
        for (name, text) in &form.values {
            let (variable, kind) = self.vocabulary.variable(name.get_ref()).ok_or_else(|| {
                let hint = self.vocabulary.variable_hint(name.get_ref());
                (name.span(), Problem::Unknown("attribute or item", Quoted::new(name.get_ref()), hint))
            })?;
            party.values.insert(variable, value(text, kind)?);
        }
        Ok(party)
    }

    fn device(&self, name: &Spanned<String>) -> Result<DeviceId, Wrong> {
        let devices = self.vocabulary.directory().devices().map(|device| self.vocabulary.device_name(device));
        self.vocabulary.device(name.get_ref()).ok_or_else(|| unknown("device", name, devices))
    }
}

fn unknown<'n>(what: &'static str, name: &Spanned<String>, known: impl Iterator<Item = &'n str>) -> Wrong {
    let hint = Hint(nearest(name.get_ref(), known));
    (name.span(), Problem::Unknown(what, Quoted::new(name.get_ref()), hint))
}

/// A value of a kind, from the TOML that comes closest to it.
fn value(form: &Spanned<toml::Value>, kind: Kind) -> Result<Value, Wrong> {
    let text = match form.get_ref() {
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let value = match (kind, form.get_ref()) {
        (Kind::Boolean, toml::Value::Boolean(value)) => Some(Value::Boolean(*value)),
        (Kind::String, toml::Value::String(text)) => Some(Value::String(text.as_str().into())),
        (Kind::Number, toml::Value::Integer(_) | toml::Value::Float(_)) => {
            text.parse::<Number>().ok().map(Value::Number)
        }
        (Kind::Time, toml::Value::String(_) | toml::Value::Datetime(_)) => text.parse::<Time>().ok().map(Value::Time),
        _ => None,
    };
    value.ok_or_else(|| (form.span(), Problem::Value(Quoted::new(&text), kind.word())))
}
