//! From the bytes of an advertisement to the verdict of a controller's filter. The first 14 bytes are the time and the
//! address.

#![no_main]

#[path = "../../dc-gateway/tests/filter/fuzz_body.rs"]
mod fuzz_body;

use std::cell::RefCell;

use mesh_runtime::air::Address;
use pilot_core::value::Time;

thread_local! {
    static GATE: RefCell<fuzz_body::Gate> = RefCell::default();
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((time, rest)) = data.split_first_chunk() else { return };
    let Some((address, advertisement)) = rest.split_first_chunk() else { return };
    let (now, address) = (Time::from_unix(u64::from_be_bytes(*time)), Address::new(*address));
    GATE.with_borrow_mut(|gate| gate.hear(advertisement, address, now));
});
