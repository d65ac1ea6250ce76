//! BlueZ and the adapter.

use mesh_runtime::air::bluez::room::{Declined, FIRST_EXTENDED};
use mesh_runtime::air::bluez::{AdapterName, BluezError, Facts, inspect};

use super::Finding;

/// Whether the adapter will do; for a subject's gateway, it must advertise under an address of its own.
pub(super) async fn look(name: &AdapterName, is_subject: bool) -> Vec<Finding> {
    match inspect(name).await {
        Err(error) => vec![missing(&error)],
        Ok(facts) => findings(name, &facts, is_subject),
    }
}

/// There is no radio: why, and what to do.
fn missing(error: &BluezError) -> Finding {
    let advice = match error {
        BluezError::NoBus => "BlueZ needs D-Bus: `apt install dbus bluez`, then `systemctl enable --now bluetooth`",
        BluezError::NoBluez => "`apt install bluez`, then `systemctl enable --now bluetooth`",
        BluezError::Denied => "`adduser USER bluetooth` for the user that runs this, and log in again",
        BluezError::NoAdapter(_) => {
            "`bluetoothctl list` shows the adapters; on a Pi, see that nothing switches Bluetooth off (dtoverlay=disable-bt)"
        }
        BluezError::Silent => "`systemctl restart bluetooth`, and look at `journalctl -u bluetooth`",
        _ => "look at `journalctl -u bluetooth`",
    };
    Finding::bad(error.to_string(), advice)
}

/// There is one: will it do?
fn findings(name: &AdapterName, facts: &Facts, is_subject: bool) -> Vec<Finding> {
    let Facts { state, offer } = facts;
    let mut findings = vec![match offer.version {
        Some(version) => Finding::fine(format!("BlueZ {version} answers, and has the adapter {name}")),
        None => Finding::fine(format!("BlueZ answers, and has the adapter {name}")),
    }];
    findings.push(match state.check_power(name) {
        Ok(()) => Finding::fine("it is switched on"),
        Err(error) => Finding::bad(error.to_string(), "`rfkill unblock bluetooth`, then `bluetoothctl power on`"),
    });
    findings.push(match state.check_address(name, None) {
        Ok(()) => Finding::fine("it has an address of its own, and shows it"),
        Err(error @ BluezError::Private { .. }) => Finding::bad_if(
            is_subject,
            error.to_string(),
            "a controller's gateway can use it; for a subject's, set `Privacy = off` there and restart bluetooth",
        ),
        Err(error) => Finding::bad_if(
            is_subject,
            error.to_string(),
            "a controller's gateway can use it; for a subject's, take an adapter with a public address",
        ),
    });
    findings.push(match state.advertisements {
        Some((_, 0)) => Finding::bad_if(
            is_subject,
            "other programs use all its advertisements",
            "end them, or use another adapter: a subject's gateway needs one",
        ),
        Some((_, more)) => Finding::fine(format!("it can advertise: {more} more at the same time")),
        None => Finding::bad_if(
            is_subject,
            "it cannot advertise",
            "a controller's gateway can use it; a subject's needs another",
        ),
    });
    findings.push(match offer.room() {
        Ok(room) => Finding::fine(format!("extended advertising: frames of up to {room} bytes, signed ones included")),
        Err(declined) => Finding::note(format!("only legacy frames, unsigned: {declined}"), advice(declined)),
    });
    findings
}

fn advice(declined: Declined) -> &'static str {
    debug_assert_eq!(FIRST_EXTENDED.minor, 76, "as the advice says");
    match declined {
        Declined::OldBluez(_) => "BlueZ 5.76 or newer (Debian 13) takes longer ones",
        Declined::UnknownBluez => "leave `DeviceID` in /etc/bluetooth/main.conf at its default",
        Declined::OldController | Declined::Short(_) => "an adapter with Bluetooth 5 sends longer ones",
        Declined::UnknownLength => {
            "an adapter that knows its transmit power (LE Read Transmit Power) sends longer ones"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;
    use mesh_runtime::air::bluez::adapter::State;
    use mesh_runtime::air::bluez::room::{Offer, Version};
    use mesh_runtime::air::{Address, AddressKind};

    fn facts() -> Facts {
        let state = State {
            address: Address::new([0xc0, 0xff, 0xee, 1, 2, 3]),
            address_kind: AddressKind::Public,
            is_powered: true,
            is_discovering: false,
            advertisements: Some((0, 4)),
        };
        let version = Some(Version { major: 5, minor: 82 });
        Facts { state, offer: Offer { version, has_secondary_channel: true, longest: Some(251) } }
    }

    fn verdicts(facts: &Facts, is_subject: bool) -> Vec<Verdict> {
        let name = AdapterName::new("hci0").unwrap();
        let findings = findings(&name, facts, is_subject);
        // Whatever is found, the address is not in it, and what is not fine comes with advice.
        assert!(findings.iter().all(|finding| !finding.to_string().to_lowercase().contains("c0:ff")));
        assert!(findings.iter().all(|finding| (finding.verdict == Verdict::Fine) == finding.advice.is_none()));
        findings.iter().map(|finding| finding.verdict).collect()
    }

    #[test]
    fn each_thing_has_its_line() {
        use Verdict::{Bad, Fine, Note};
        assert_eq!(verdicts(&facts(), true), [Fine; 5]);
        let mut off = facts();
        off.state.is_powered = false;
        assert_eq!(verdicts(&off, false), [Fine, Bad, Fine, Fine, Fine]);
        let mut random = facts();
        random.state.address_kind = AddressKind::Random;
        assert_eq!(verdicts(&random, false), [Fine, Fine, Note, Fine, Fine]);
        assert_eq!(verdicts(&random, true), [Fine, Fine, Bad, Fine, Fine]);
        let mut old = facts();
        old.state.advertisements = Some((5, 0));
        old.offer.version = Some(Version { major: 5, minor: 66 });
        assert_eq!(verdicts(&old, false), [Fine, Fine, Fine, Note, Note]);
        assert_eq!(verdicts(&old, true), [Fine, Fine, Fine, Bad, Note]);
    }

    #[test]
    fn what_is_missing_is_said_with_what_to_do() {
        let name = AdapterName::new("hci0").unwrap();
        for error in [BluezError::NoBus, BluezError::NoBluez, BluezError::Denied, BluezError::NoAdapter(name)] {
            let finding = missing(&error);
            assert!(finding.verdict == Verdict::Bad && finding.advice.is_some(), "{finding}");
        }
    }
}
