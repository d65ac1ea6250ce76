//! Who takes part: four people, two gates, and a lamp.

use std::fs;
use std::path::Path;

use consent_mesh::layout::{Controller, Layout, Subject};
use pilot_core::value::Time;

use crate::{VOCABULARY, policy};

/// Something with a radio.
#[derive(Debug, Clone, Copy)]
pub struct Device {
    /// Its name.
    pub name: &'static str,
    /// Its address, as people write it: made of bytes that appear nowhere by chance.
    pub address: [u8; 6],
    /// Whose adapter it is, `hci0` for 0.
    pub adapter: usize,
    /// Whether its controller is one of Bluetooth 4.
    pub is_legacy: bool,
}

impl Device {
    /// The address in words.
    pub fn address_text(&self) -> String {
        let [a, b, c, d, e, f] = self.address;
        format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
    }
}

const fn device(name: &'static str, adapter: usize, address: [u8; 6], is_legacy: bool) -> Device {
    Device { name, address, adapter, is_legacy }
}

/// Accepts the mall, with the best frame there is.
pub const ALICE: Device = device("alice", 0, [0x3c, 0x5a, 0xb4, 0x71, 0x9e, 0xa1], false);
/// Accepts the mall; has an old radio.
pub const BOB: Device = device("bob", 1, [0x70, 0x4f, 0x57, 0xc3, 0x18, 0xb2], true);
/// Accepts only the bookshop.
pub const CAROL: Device = device("carol", 2, [0xa8, 0x66, 0x7f, 0x2d, 0x94, 0xc3], false);
/// Accepts nobody.
pub const DAVE: Device = device("dave", 3, [0xdc, 0x53, 0x60, 0x8e, 0xb7, 0xd4], false);
/// The mall's.
pub const MALL_GATE: Device = device("mall-gate", 4, [0x94, 0xe9, 0x79, 0x35, 0xca, 0xe5], false);
/// The bookshop's.
pub const BOOKSHOP_TILL: Device = device("bookshop-till", 5, [0xb8, 0x27, 0xeb, 0xd9, 0x42, 0xf6], false);
/// Everybody with an adapter, in their order.
pub const ADAPTERS: [Device; 6] = [ALICE, BOB, CAROL, DAVE, MALL_GATE, BOOKSHOP_TILL];
/// The people.
pub const PEOPLE: [Device; 4] = [ALICE, BOB, CAROL, DAVE];
/// The gates.
pub const GATES: [Device; 2] = [MALL_GATE, BOOKSHOP_TILL];
/// Has never heard of consent. `adapter` means nothing: it is no device of this machine.
pub const LAMP: Device = device("lamp", usize::MAX, [0xd1, 0x4c, 0xe2, 0x0b, 0xf8, 0x69], true);
/// What the lamp says: flags and its name.
const LAMP_SAYS: &str = "020106050948616c6c";

/// After each of these disturbances the mall publishes another policy, and everybody decides anew.
pub const DISTURBANCES: [&str; 3] = ["bluetoothd", "plugs", "loss"];

const BROKER: &str = "mqtt://127.0.0.1:1883";
/// Replaced in each configuration; the layout is one for a simulated air.
const PLACEHOLDER: &str = "127.0.0.1:1/0000000000000000";
const MALL_PURPOSE: &str = "ServiceUsageAnalytics";
/// So many that a frame with this policy has no room for a signature.
const BOOKSHOP_PURPOSES: &str =
    "ServiceUsageAnalytics, ImproveExistingProductsAndServices, InternalResourceOptimisation, OptimiseUserInterface";
const HOUR: u64 = 3600;

/// Writes the files of the mesh, and for the script: `adapters`, `lamp` and the mall's next policies.
pub fn prepare(root: &Path) -> std::io::Result<()> {
    let failed = |error: &dyn std::fmt::Display| std::io::Error::other(error.to_string());
    fs::create_dir_all(root)?;
    let mut layout = Layout::new(root, VOCABULARY, BROKER, PLACEHOLDER).map_err(|error| failed(&error))?;
    layout.repository("registry", "registrar").map_err(|error| failed(&error))?;
    for (gate, entity, purposes) in [(MALL_GATE, "mall", MALL_PURPOSE), (BOOKSHOP_TILL, "bookshop", BOOKSHOP_PURPOSES)]
    {
        let policy = policy(entity, entity, purposes, 2 * HOUR);
        let controller = Controller { name: gate.name, entity, policy: &policy, settings: "" };
        layout.controller(&controller).map_err(|error| failed(&error))?;
        on_bluetooth(&layout, gate)?;
    }
    layout.sign().map_err(|error| failed(&error))?;
    let nothing = "policy nobody { nothing }\n".to_owned();
    let accepts = |entity: &str, purposes: &str| policy("mine", entity, purposes, 24 * HOUR);
    for (person, policies) in [
        (ALICE, accepts("mall", MALL_PURPOSE)),
        (BOB, accepts("mall", MALL_PURPOSE)),
        (CAROL, accepts("bookshop", BOOKSHOP_PURPOSES)),
        (DAVE, nothing),
    ] {
        let address = person.address_text();
        let subject = Subject { name: person.name, address: &address, policies: &policies, settings: "" };
        layout.subject(&subject).map_err(|error| failed(&error))?;
        on_bluetooth(&layout, person)?;
    }
    for (number, disturbance) in (3..).zip(DISTURBANCES) {
        let next = policy("mall", "mall", MALL_PURPOSE, number * HOUR);
        fs::write(root.join(format!("config/mall-gate.{disturbance}.pilot")), next)?;
    }
    let adapter = |device: Device| device.address_text() + if device.is_legacy { "=legacy" } else { "" };
    fs::write(root.join("adapters"), ADAPTERS.map(adapter).join(" "))?;
    fs::write(root.join("lamp"), format!("random {} {LAMP_SAYS}", LAMP.address_text()))
}

fn on_bluetooth(layout: &Layout, device: Device) -> std::io::Result<()> {
    let file = layout.config(device.name);
    let text = fs::read_to_string(&file)?;
    let bluez = text.replace(&format!("simulated = {PLACEHOLDER:?}"), &format!("bluez = \"hci{}\"", device.adapter));
    assert_ne!(text, bluez, "the layout has no simulated air");
    fs::write(file, bluez)
}

/// The clock.
pub(super) fn now() -> Time {
    crate::now()
}
