//! Simulations of any length take the same memory. In a process of its own, because a process has one peak.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use conformance::memory::peak;
use conformance::simulate::{Settings, simulate};

#[test]
fn memory_is_bounded_by_the_devices_and_not_by_the_events() {
    let directory = tempfile::tempdir().unwrap();
    let run = |events: u64| {
        let settings = Settings { subjects: 20, controllers: 4, events, ..Settings::default() };
        let out = directory.path().join(events.to_string());
        simulate(&settings, &out, |_| {}).unwrap();
        std::fs::remove_dir_all(out).unwrap();
        peak()
    };
    // Long enough that policies and items have come and gone many times.
    let (short, long) = (run(40_000), run(400_000));
    assert!(long < short + (2 << 20), "{short} bytes, then {long}");
}
