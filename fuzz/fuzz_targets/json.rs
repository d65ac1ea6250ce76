//! The JSON form of policies.

#![no_main]

#[path = "../../pilot-core/tests/support/fuzz_bodies.rs"]
#[allow(dead_code, reason = "one body of four")]
mod fuzz_bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    fuzz_bodies::json(data);
});
