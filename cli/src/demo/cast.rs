//! Who takes part in the demo: a shopping mall that would like to know which phones are near, and people who have
//! opinions about that.

use std::path::PathBuf;

use consent_mesh::layout::{Controller, Layout, LayoutError, Subject};
use mesh_runtime::driver::clock::{Clock as _, SystemClock};

/// How long the demo's policies allow data to be kept, in seconds.
const RETENTION: u64 = 3600;

/// The most of each: they are processes of this machine.
pub(super) const MAX_CAST: u32 = 64;

pub(super) const REPOSITORY: &str = "registry";

/// A controller of the demo.
#[derive(Debug, Clone)]
pub(super) struct Cast {
    /// Its device.
    pub(super) name: String,
    entity: String,
    /// Its policy's name.
    pub(super) policy: String,
    purpose: &'static str,
}

/// What a subject of the demo is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attitude {
    AcceptsAll,
    AcceptsTheShop,
    WhileAdult { age: u8 },
    AcceptsNothing,
    ChangesHerMind,
}

/// A subject of the demo.
#[derive(Debug, Clone)]
pub(super) struct Person {
    pub(super) name: String,
    pub(super) attitude: Attitude,
    pub(super) address: [u8; 6],
}

impl Attitude {
    pub(super) const fn describe(self) -> &'static str {
        match self {
            Self::AcceptsAll => "accepts everybody",
            Self::AcceptsTheShop => "accepts the shop only",
            Self::WhileAdult { age: 18.. } => "accepts the mall and the shop while an adult carries the phone",
            Self::WhileAdult { .. } => "the same, and a child carries the phone",
            Self::AcceptsNothing => "accepts nobody",
            Self::ChangesHerMind => "accepts everybody, and changes her mind",
        }
    }
}

/// The mall, a shop, an advertiser, and further shops.
pub(super) fn controllers(count: u32) -> Vec<Cast> {
    let first = [
        ("mall", "mall", "footfall", "ServiceUsageAnalytics"),
        ("shop", "shop", "vouchers", "PersonalisedBenefits"),
        ("advertiser", "advertiser", "advertising", "TargetedAdvertising"),
    ];
    let cast = |(name, entity, policy, purpose): (&str, &str, &str, &'static str)| Cast {
        name: format!("{name}-gate"),
        entity: entity.into(),
        policy: policy.into(),
        purpose,
    };
    let more = (4..=count).map(|number| Cast {
        name: format!("shop-{number}-gate"),
        entity: format!("shop-{number}"),
        policy: format!("vouchers-{number}"),
        purpose: "PersonalisedBenefits",
    });
    first.into_iter().take(count as usize).map(cast).chain(more).collect()
}

/// Five people, and others like them.
pub(super) fn people(count: u32) -> Vec<Person> {
    let attitudes = [
        Attitude::AcceptsAll,
        Attitude::AcceptsTheShop,
        Attitude::WhileAdult { age: 34 },
        Attitude::AcceptsNothing,
        Attitude::ChangesHerMind,
        Attitude::WhileAdult { age: 12 },
    ];
    let names = ["alice", "bob", "carol", "dave", "erin", "frank"];
    let person = |(number, (name, attitude)): (u32, (&&str, &Attitude))| {
        let round = number / 6;
        let name = if round == 0 { (*name).to_owned() } else { format!("{name}-{}", round + 1) };
        let [.., high, low] = number.to_be_bytes();
        Person { name, attitude: *attitude, address: [0xc0, 0xff, 0xee, 0, high, low] }
    };
    (0..count).zip(names.iter().zip(&attitudes).cycle()).map(person).collect()
}

/// The words of the demo.
pub(super) fn vocabulary(controllers: &[Cast]) -> String {
    let mut text = "extends = \"default\"\n\n[entities]\nregistrar = []\nshop = []\n".to_owned();
    for Cast { entity, .. } in controllers.iter().filter(|cast| cast.entity != "shop") {
        let parent = if entity.starts_with("shop-") { "\"shop\"" } else { "" };
        text += &format!("{entity} = [{parent}]\n");
    }
    for entity in ["mall", "advertiser"] {
        if !controllers.iter().any(|cast| cast.entity == entity) {
            text += &format!("{entity} = []\n");
        }
    }
    text
}

/// Lays everybody out on disk.
pub(super) fn lay_out(layout: &mut Layout, controllers: &[Cast], people: &[Person]) -> Result<(), LayoutError> {
    let until = SystemClock.now().unix().saturating_add(RETENTION);
    layout.repository(REPOSITORY, "registrar")?;
    for cast in controllers {
        let Cast { name, entity, policy, purpose } = cast;
        let policy =
            format!("policy {policy} {{\n  collect MACAddress by {entity}\n    for {purpose}\n    until {until}\n}}\n");
        layout.controller(&Controller { name, entity, policy: &policy, settings: "" })?;
    }
    layout.sign()?;
    for person in people {
        let (policies, settings) = wishes(person.attitude, until + 1);
        let address = address_text(person.address);
        let subject = Subject { name: &person.name, address: &address, policies: &policies, settings: &settings };
        layout.subject(&subject)?;
    }
    Ok(())
}

fn wishes(attitude: Attitude, until: u64) -> (String, String) {
    let policy = |name: &str, entity: &str, condition: &str, purposes: &str| {
        format!(
            "policy {name} {{\n  collect MACAddress by {entity}\n{condition}    for {purposes}\n    until {until}\n}}\n"
        )
    };
    let all = ["ServiceUsageAnalytics", "PersonalisedBenefits", "TargetedAdvertising"].join(", ");
    let (adult, always) = ("    when age >= 18\n", "");
    match attitude {
        Attitude::AcceptsAll | Attitude::ChangesHerMind => {
            let entities = ["mall", "shop", "advertiser"];
            (entities.map(|entity| policy(&format!("yes-{entity}"), entity, always, &all)).concat(), String::new())
        }
        Attitude::AcceptsTheShop => (policy("vouchers-please", "shop", always, &all), String::new()),
        Attitude::WhileAdult { age } => {
            let entities = ["mall", "shop"];
            let policies = entities.map(|entity| policy(&format!("adult-{entity}"), entity, adult, &all)).concat();
            (policies, format!("attributes = {{ age = {age} }}"))
        }
        Attitude::AcceptsNothing => ("policy leave-me-alone { nothing }\n".into(), String::new()),
    }
}

/// As people write it.
pub(super) fn address_text(address: [u8; 6]) -> String {
    address.map(|byte| format!("{byte:02x}")).join(":")
}

/// What the demo's people give an auditor, so that she can find their items in the controllers' traces: `audit/NAME.opening`.
/// Returns which there are.
pub(super) fn write_openings(layout: &Layout, people: &[Person]) -> Result<Vec<PathBuf>, String> {
    for person in people {
        layout.open(&person.name).map_err(|error| error.to_string())?;
    }
    Ok(people.iter().map(|person| layout.opening(&person.name)).filter(|path| path.exists()).collect())
}
