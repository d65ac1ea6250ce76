//! A frame in words.

use mesh_runtime::air::Address;
use mesh_runtime::air::frame::{Frame, Header, Kind};
use pilot_core::codec::Digest;
use pilot_core::evidence::hex::Hex;
use pilot_core::semantics::Epoch;
use pilot_core::value::Time;

use super::Names;

/// What these bytes mean at a moment. A signature can be verified only with the address that it is for.
pub(super) fn frame(bytes: &[u8], address: Option<Address>, now: Time, names: &Names) -> String {
    let frame = match Frame::decode(bytes) {
        Ok(frame) => frame,
        Err(error) => return format!("no frame: {error}"),
    };
    let Header { kind, controller, policy, epoch } = *frame.header();
    let tag = Hex(&controller.0);
    let controller = names.of(controller).map_or_else(|| tag.to_string(), |name| format!("{name} ({tag})"));
    let policy = match frame.policy() {
        Some(policy) => format!("the policy {} of {} bytes", Shown(policy.digest()), policy.bytes().len()),
        None => format!("the policy {}…", Hex(&policy.0)),
    };
    let meant = epoch.fresh_at(now);
    let age = match meant {
        Some(epoch) if epoch == Epoch::of(now) => "said now".to_owned(),
        Some(epoch) => format!("said in epoch {}, and accepted", relative(epoch, now)),
        None => "stale: nobody accepts it".to_owned(),
    };
    let signature = match (kind, address, meant) {
        (Kind::Signed, Some(address), Some(epoch)) => match frame.verify(address, epoch) {
            Ok(_) => ", its signature holds",
            Err(_) => ", its signature does NOT hold",
        },
        (Kind::Signed, ..) => ", its signature was not verified",
        _ => "",
    };
    format!("{kind} frame for {controller}, {policy}, {age}{signature}")
}

/// How many epochs ago, or ahead.
fn relative(epoch: Epoch, now: Time) -> String {
    let present = Epoch::of(now).0;
    if epoch.0 < present { format!("−{}", present - epoch.0) } else { format!("+{}", epoch.0 - present) }
}

/// The part of a digest that frames have, as for frames that have no more.
struct Shown(Digest);

impl std::fmt::Display for Shown {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}…", Hex(self.0.0.get(..16).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mesh_runtime::air::frame::ControllerTag;

    const NOW: Time = Time::from_unix(1_893_456_000);
    const MALL: ControllerTag = ControllerTag(*b"mall");

    #[test]
    fn frames_are_said_in_words() {
        let names = Names(vec![(MALL, "mall-gate".to_owned())]);
        let now = Epoch::of(NOW);
        let legacy = |epoch| Frame::legacy(MALL, Digest([0xab; 32]), epoch).encode();
        let say = |bytes: &[u8], names: &Names| frame(bytes, None, NOW, names);
        assert_eq!(
            say(legacy(now).as_slice(), &names),
            "legacy frame for mall-gate (6d616c6c), the policy abababababababababababababababab…, said now"
        );
        let words = say(legacy(Epoch(now.0 - 1)).as_slice(), &Names::default());
        assert!(
            words.starts_with("legacy frame for 6d616c6c,") && words.ends_with("in epoch −1, and accepted"),
            "{words}"
        );
        assert!(say(legacy(Epoch(now.0 - 3)).as_slice(), &names).ends_with("stale: nobody accepts it"));
        assert_eq!(say(&[0x21], &names), "no frame: frame version 2 is not known, only 1");
    }

    #[test]
    fn signatures_are_verified_for_an_address() {
        let (address, other) = (Address::new([1; 6]), Address::new([2; 6]));
        let key = ed25519_dalek::SigningKey::from_bytes(&[7; 32]);
        let signed = Frame::signed(MALL, &[1, 2, 3], Epoch::of(NOW), address, &key).unwrap().encode();
        let say = |address| frame(signed.as_slice(), address, NOW, &Names::default());
        assert!(say(Some(address)).ends_with(", its signature holds"));
        assert!(say(Some(other)).ends_with(", its signature does NOT hold"));
        assert!(say(None).ends_with(", its signature was not verified"));
    }
}
