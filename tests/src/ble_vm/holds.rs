//! What daemons that run say themselves, and waiting for it.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use mesh_runtime::daemon::control::ask;
use pilot_core::evidence::{AuditKey, Pseudonym};
use serde_json::{Value, json};

use super::cast::{Device, PEOPLE};

/// How items are named in the files of a controller.
pub fn audit_key(root: &Path, controller: &str) -> AuditKey {
    let file = root.join("audit").join(format!("{controller}.key"));
    let key = mesh_runtime::keys::secret_file::load(&file).unwrap();
    AuditKey::new(key.expect("an audit key"))
}

/// Whether it holds items of exactly these people, each of them also under the policy that it has published last.
pub fn holds(root: &Path, controller: &str, people: &[String]) -> bool {
    let asked = |command: &str| ask(&root.join("data").join(controller), &json!({ "command": command }));
    let (Ok(held), Ok(status)) = (asked("held"), asked("status")) else { return false };
    let key = audit_key(root, controller);
    let records: Vec<&Value> = held["held"].as_array().into_iter().flatten().collect();
    let digest = &status["policy"]["digest"];
    let all: BTreeSet<&str> = records.iter().filter_map(|record| record["pseudonym"].as_str()).collect();
    let current: BTreeSet<&str> = records
        .iter()
        .filter(|record| record["policy"] == *digest)
        .filter_map(|record| record["pseudonym"].as_str())
        .collect();
    let pseudonym = |person: &Device| Pseudonym::of(&person.address, &key).to_string();
    let wanted: BTreeSet<String> =
        PEOPLE.iter().filter(|person| people.iter().any(|name| name == person.name)).map(pseudonym).collect();
    assert_eq!(wanted.len(), people.len(), "who is {people:?}?");
    let wanted: BTreeSet<&str> = wanted.iter().map(String::as_str).collect();
    all == wanted && current == wanted
}

/// Whether the repository lists policies of so many devices.
pub fn lists(root: &Path, count: u64) -> bool {
    let status = ask(&root.join("data/registry"), &json!({ "command": "status" }));
    status.is_ok_and(|status| status["listed"] == count)
}

/// Waits until something is so; how many seconds that took. One process that asks often costs less than many that ask once.
pub fn until(within: Duration, is_so: impl Fn() -> bool) -> Option<f64> {
    let begun = Instant::now();
    while begun.elapsed() < within {
        if is_so() {
            return Some(begun.elapsed().as_secs_f64());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    None
}
