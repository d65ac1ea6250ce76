//! What must be true of a scenario that was played.
//!
//! Most of it is that something arrived, and with the air cut must be found not to have: otherwise the check would pass
//! whatever happens. The rest is that something did not, with or without an air.

use std::collections::BTreeSet;
use std::path::Path;

use conformance::audit::report::Verdict;
use conformance::audit::text::text as report_text;

use super::cast::{ALICE, BOB, BOOKSHOP_TILL, CAROL, DAVE, DISTURBANCES, Device, GATES, LAMP, MALL_GATE, PEOPLE};
use super::evidence::{Evidence, Holding, digest_of, forms, pseudonyms};
use crate::audit::report_of;
use crate::{files_below, files_with};

/// So long after a disturbance is over, at most, everything works again: bluetoothd and the adapter are tried again every 8
/// seconds at the latest, frames take turns every 2, and the emulated machine is slow.
pub const RECOVERY_SECONDS: f64 = 30.0;

/// What was played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Played {
    /// Whether BlueZ is one that declines extended advertising.
    pub is_old: bool,
    /// Whether there were disturbances.
    pub is_disturbed: bool,
    /// Whether nobody could hear anybody.
    pub is_cut: bool,
}

/// Something that must be true.
struct Check {
    what: String,
    /// Whether it says that something arrived.
    arrives: bool,
    found: Result<(), String>,
}

/// Checks everything; a line for each; how many passed and failed.
pub fn check(out: &Path, played: Played) -> std::io::Result<(usize, usize)> {
    let evidence = Evidence::read(out)?;
    let mut checks = collection(&evidence);
    checks.extend(strangers(&evidence));
    checks.extend(frames(&evidence, played));
    if played.is_disturbed {
        checks.extend(disturbances(&evidence));
    }
    checks.extend(withdrawal(&evidence));
    checks.push(audit(&evidence));
    let mut failed = 0;
    for Check { what, arrives, found } in &checks {
        let must_fail = played.is_cut && *arrives;
        match (found, must_fail) {
            (Ok(()), false) => println!("ok      {what}"),
            (Err(why), true) => println!("ok      with the air cut it is not so that {what}: {why}"),
            (Err(why), false) => println!("FAILED  {what}: {why}"),
            (Ok(()), true) => println!("FAILED  even with the air cut, {what}"),
        }
        failed += usize::from(found.is_ok() == must_fail);
    }
    Ok((checks.len() - failed, failed))
}

/// Something arrived.
fn arrives(what: &str, found: Result<(), String>) -> Check {
    Check { what: what.to_owned(), arrives: true, found }
}

/// Something is so in any case.
fn always(what: &str, found: Result<(), String>) -> Check {
    Check { what: what.to_owned(), arrives: false, found }
}

fn so(condition: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(otherwise()) }
}

/// Whose addresses are among these, by name, and whether all are public.
fn names(held: &BTreeSet<Holding>) -> Result<BTreeSet<&'static str>, String> {
    let name = |(address, is_public, _): &Holding| {
        let known = PEOPLE.iter().find(|person| person.address == *address);
        known
            .filter(|_| *is_public)
            .map(|person| person.name)
            .ok_or_else(|| format!("holds {address:02x?}, public: {is_public}"))
    };
    held.iter().map(name).collect()
}

fn holds_exactly(held: &Result<BTreeSet<Holding>, String>, people: &[Device]) -> Result<(), String> {
    let names = names(held.as_ref().map_err(Clone::clone)?)?;
    let wanted: BTreeSet<&str> = people.iter().map(|person| person.name).collect();
    so(names == wanted, || format!("it holds {names:?}"))
}

fn collection(evidence: &Evidence) -> Vec<Check> {
    let first = |gate: Device| evidence.vault(&evidence.out.join("collected").join(gate.name));
    let (mall, bookshop) = (first(MALL_GATE), first(BOOKSHOP_TILL));
    let under = |held: &Result<BTreeSet<Holding>, String>, gate: Device| {
        let policy = digest_of(&evidence.mesh().join(format!("config/{}.first.pilot", gate.name)));
        let held = held.as_ref().map_err(Clone::clone)?;
        so(!held.is_empty() && held.iter().all(|(_, _, under)| *under == policy), || {
            "nothing, or another policy".into()
        })
    };
    let adapters_true = PEOPLE.iter().try_for_each(|person| {
        let wrong = evidence.air.iter().find(|line| {
            line.is_sent
                && line.controller == Some(person.adapter)
                && (line.address != person.address || line.is_random)
        });
        so(wrong.is_none(), || format!("{} advertises from another address", person.name))
    });
    vec![
        arrives(
            "the mall holds the addresses of Alice's and Bob's adapters, and nothing else",
            holds_exactly(&mall, &[ALICE, BOB]),
        ),
        arrives("it holds them under its own policy", under(&mall, MALL_GATE)),
        arrives("the bookshop holds Carol's, and nothing else", holds_exactly(&bookshop, &[CAROL])),
        arrives("it holds it under its own policy", under(&bookshop, BOOKSHOP_TILL)),
        always("everybody advertises from the adapter's own public address", adapters_true),
    ]
}

/// Of whom nothing may be on the mall's disk.
fn strangers(evidence: &Evidence) -> Vec<Check> {
    let root = evidence.mesh();
    let captured = std::fs::read(evidence.out.join("btmon.snoop")).unwrap_or_default();
    let seen = |device: Device| {
        let mut on_air = device.address;
        on_air.reverse();
        so(evidence.heard(MALL_GATE, device), || "its controller did not report it".into())?;
        so(captured.windows(6).any(|window| window == on_air), || "btmon did not see it".into())
    };
    let mut checks = vec![
        arrives("the mall's adapter hears Carol, who accepts only the bookshop", seen(CAROL)),
        arrives("the mall's adapter hears a lamp that has no frame", seen(LAMP)),
        always(
            "Dave, who accepts nobody, never advertises",
            so(evidence.sent_by(DAVE).next().is_none(), || "he does".into()),
        ),
    ];
    let files_of = |gate: Device, needles: &[Vec<u8>]| {
        let places = ["data", "traces", "logs", "config"].map(|part| root.join(part));
        let found = needles.iter().flat_map(|needle| places.iter().flat_map(|place| files_with(place, needle)));
        let ours = |path: &std::path::PathBuf| path.to_string_lossy().contains(gate.name);
        let collected =
            needles.iter().flat_map(|needle| files_with(&evidence.out.join("collected").join(gate.name), needle));
        found.filter(ours).chain(collected).collect::<BTreeSet<_>>()
    };
    let leaves_nothing = |gate: Device, device: Device| {
        let needles = [forms(device), pseudonyms(&root, gate, device)].concat();
        let found = files_of(gate, &needles);
        so(found.is_empty(), || format!("found in {found:?}"))
    };
    for stranger in [CAROL, DAVE, LAMP] {
        let what = format!(
            "no form and no pseudonym of the address of {} is in any file of the mall's gateway",
            stranger.name
        );
        checks.push(always(&what, leaves_nothing(MALL_GATE, stranger)));
    }
    for consenting in [ALICE, BOB] {
        let what = format!("no form of the address of {} is there either: what is held is encrypted", consenting.name);
        let found = files_of(MALL_GATE, &forms(consenting));
        checks.push(always(&what, so(found.is_empty(), || format!("found in {found:?}"))));
    }
    let remembered = |part: &str| {
        let lamp = LAMP.address_text().to_uppercase();
        files_below(&evidence.out.join(part)).iter().any(|path| path.to_string_lossy().contains(&lamp))
    };
    let in_memory = so(remembered("bluetoothd-memory"), || "it does not".into());
    checks.push(arrives("bluetoothd by itself remembers the lamp", in_memory));
    let on_disk = so(!remembered("bluetoothd-disk"), || "on disk, too".into());
    checks.push(always("what bluetoothd remembers is in memory only, as it is set up here", on_disk));
    let found = files_of(MALL_GATE, &pseudonyms(&root, MALL_GATE, BOB));
    checks.push(arrives(
        "Bob's pseudonym is found in them, by the same search",
        so(!found.is_empty(), || "it is not".into()),
    ));
    checks
}

fn frames(evidence: &Evidence, played: Played) -> Vec<Check> {
    let kinds = |device: Device| {
        evidence.sent_by(device).map(|line| (line.is_legacy, line.frame_kind())).collect::<BTreeSet<_>>()
    };
    let only = |device: Device, kind: (bool, u8)| {
        let kinds = kinds(device);
        so(kinds == BTreeSet::from([(kind.0, Some(kind.1))]), || format!("{kinds:02x?}"))
    };
    const LEGACY: (bool, u8) = (true, 0x11);
    let mut checks = vec![always("Bob's old radio sends legacy frames", only(BOB, LEGACY))];
    if played.is_old {
        checks.push(always("Alice sends legacy frames, too: this BlueZ declines longer ones", only(ALICE, LEGACY)));
        for person in [ALICE, BOB] {
            let log = evidence.text(&format!("logs/{}.log", person.name));
            let what = format!("the log of {} says so", person.name);
            checks.push(always(&what, so(log.contains("extended advertising is declined"), || "it does not".into())));
        }
        checks.push(always("so does Carol", only(CAROL, LEGACY)));
    } else {
        checks.push(always("Alice sends signed frames, in extended advertisements", only(ALICE, (false, 0x13))));
        checks.push(always(
            "Carol sends extended frames without signature, for which the bookshop's policy is too long",
            only(CAROL, (false, 0x12)),
        ));
    }
    checks
}

fn disturbances(evidence: &Evidence) -> Vec<Check> {
    let again = |name: &str| match evidence.phases.get(name) {
        Some(Some(seconds)) => so(*seconds <= RECOVERY_SECONDS, || format!("it took {seconds} s")),
        _ => Err("it did not".to_owned()),
    };
    let what = |name: &str| match name {
        "bluetoothd" => "bluetoothd was killed and restarted",
        "plugs" => "the mall's and Alice's adapters were unplugged and plugged in",
        _ => "30 % of all advertisements get lost",
    };
    DISTURBANCES
        .iter()
        .map(|name| {
            let seconds = evidence.phases.get(*name).copied().flatten();
            let seconds = seconds.map_or(String::new(), |seconds| format!(" ({seconds} s)"));
            let what = format!(
                "{}: within {RECOVERY_SECONDS} s Alice and Bob are collected under a new policy{seconds}",
                what(name)
            );
            arrives(&what, again(name))
        })
        .collect()
}

fn withdrawal(evidence: &Evidence) -> Vec<Check> {
    let held = evidence.vault(&evidence.mesh().join("data").join(MALL_GATE.name));
    let later = evidence.sent_by(ALICE).any(|line| line.mark == "withdrawn");
    let told = match evidence.phases.get("withdrawn") {
        Some(Some(_)) => Ok(()),
        _ => Err("the mall still held something of her".to_owned()),
    };
    vec![
        arrives("when Alice withdraws, the mall erases what is hers while it runs", told),
        arrives("in the end the mall holds Bob's address, and nothing else", holds_exactly(&held, &[BOB])),
        always("after her withdrawal Alice is silent", so(!later, || "she is not".into())),
        always("Bob is not", so(evidence.sent_by(BOB).any(|line| line.mark == "withdrawn"), || "he is, too".into())),
    ]
}

fn audit(evidence: &Evidence) -> Check {
    let found = match report_of(&evidence.mesh(), &evidence.mesh().join("operator.pub")) {
        None => Err("nothing was recorded".to_owned()),
        Some(report) => {
            let devices = report.traces.len();
            let conforms = report.verdict() == Verdict::Conforms && devices == 1 + GATES.len() + PEOPLE.len();
            so(conforms, || format!("{devices} traces\n{}", report_text(&report)))
        }
    };
    always("what all seven daemons recorded conforms", found)
}
