//! Frames for controllers: which kind, and the key that signs them.

use ed25519_dalek::SigningKey;
use hmac::{Hmac, KeyInit as _, Mac as _};
use mesh_runtime::air::frame::{ControllerTag, Frame, Kind};
use mesh_runtime::air::{Address, FrameBytes};
use mesh_runtime::keys::secret_file::SECRET_BYTES;
use pilot_core::codec::Digest;
use pilot_core::evidence::mesh::FrameTag;
use pilot_core::semantics::Epoch;
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::config::FrameSetting;

/// SHA-256 works on blocks of this length, and HMAC fills its key up to it with zeros.
const BLOCK_BYTES: usize = 64;
const DOMAIN: &[u8] = b"consent-mesh consent key";

/// Makes a key for each controller and address: HMAC-SHA256(secret, "consent-mesh consent key" ‖ tag ‖ address). Nobody who
/// sees two of them can tell that they belong to one person, and none has to be stored.
pub struct ConsentKeys(Zeroizing<[u8; SECRET_BYTES]>);

impl ConsentKeys {
    /// From a secret.
    pub const fn new(secret: Zeroizing<[u8; SECRET_BYTES]>) -> Self {
        Self(secret)
    }

    /// The key for a controller and an address.
    pub fn key(&self, controller: FrameTag, address: Address) -> SigningKey {
        let mut block = Zeroizing::new([0; BLOCK_BYTES]);
        block.iter_mut().zip(self.0.iter()).for_each(|(to, from)| *to = *from);
        let block: &[u8; BLOCK_BYTES] = &block;
        let mut hmac = <Hmac<Sha256>>::new(block.into());
        for part in [DOMAIN, &controller.0, &address.reveal()] {
            hmac.update(part);
        }
        let seed = Zeroizing::new(<[u8; 32]>::from(hmac.finalize().into_bytes()));
        SigningKey::from_bytes(&seed)
    }
}

/// Says that there is one.
impl std::fmt::Debug for ConsentKeys {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("ConsentKeys(..)")
    }
}

/// What a frame says.
#[derive(Debug, Clone, Copy)]
pub struct Saying<'s> {
    /// For whom it is.
    pub controller: FrameTag,
    /// Its policy.
    pub policy: Digest,
    /// The policy's canonical bytes.
    pub bytes: &'s [u8],
    /// When it was released.
    pub epoch: Epoch,
    /// The address it will be advertised with.
    pub address: Address,
}

/// The frame of the first of the wanted kinds that fits into the policy's and the radio's room, if any does.
pub fn make(saying: &Saying<'_>, setting: FrameSetting, room: usize, keys: &ConsentKeys) -> Option<(Kind, FrameBytes)> {
    let Saying { policy, bytes, epoch, address, .. } = *saying;
    let tag = ControllerTag(saying.controller.0);
    setting.kinds().iter().find_map(|kind| {
        let frame = match kind {
            Kind::Legacy => Frame::legacy(tag, policy, epoch),
            Kind::Extended => Frame::extended(tag, bytes, epoch).ok()?,
            Kind::Signed => Frame::signed(tag, bytes, epoch, address, &keys.key(saying.controller, address)).ok()?,
        };
        let frame = frame.encode();
        (frame.as_slice().len() <= room).then_some((*kind, frame))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::Digest as _;

    const TAG: FrameTag = FrameTag([1, 2, 3, 4]);
    const ADDRESS: Address = Address::new([0xc0, 0xff, 0xee, 1, 2, 3]);

    fn kind(setting: FrameSetting, length: usize, room: usize) -> Option<Kind> {
        let bytes = vec![7; length];
        let policy = Digest(Sha256::digest(&bytes).into());
        let saying = Saying { controller: TAG, policy, bytes: &bytes, epoch: Epoch(5), address: ADDRESS };
        let (kind, frame) = make(&saying, setting, room, &ConsentKeys::new(Zeroizing::new([9; 32])))?;
        assert_eq!(Frame::decode(frame.as_slice()).unwrap().header().kind, kind);
        Some(kind)
    }

    /// The best is the one that proves most: it depends on the policy's length and on the radio.
    #[test]
    fn the_best_frame_is_the_one_that_fits() {
        use FrameSetting::{Best, Extended, Legacy, Signed};
        for (setting, length, room, expected) in [
            (Best, 124, 244, Some(Kind::Signed)),
            (Best, 125, 244, Some(Kind::Extended)),
            (Best, 220, 244, Some(Kind::Extended)),
            (Best, 221, 244, Some(Kind::Legacy)),
            (Best, 50, 24, Some(Kind::Legacy)),
            (Best, 50, 100, Some(Kind::Extended)),
            (Legacy, 50, 244, Some(Kind::Legacy)),
            (Extended, 50, 244, Some(Kind::Extended)),
            (Extended, 221, 244, None),
            (Signed, 125, 244, None),
            (Signed, 50, 24, None),
        ] {
            assert_eq!(kind(setting, length, room), expected, "{setting:?} {length} {room}");
        }
    }

    /// Each controller and each address gets a key of its own, always the same.
    ///
    /// Reference: Python's `hmac.new(bytes([9] * 32), b"consent-mesh consent key" + tag + address, "sha256")`
    #[test]
    fn keys_link_nothing() {
        let keys = ConsentKeys::new(Zeroizing::new([9; 32]));
        let key = keys.key(TAG, ADDRESS);
        assert_eq!(pilot_core::evidence::hex::Hex(&key.to_bytes()).to_string(), SEED);
        assert_ne!(key.to_bytes(), keys.key(FrameTag([1, 2, 3, 5]), ADDRESS).to_bytes());
        assert_ne!(key.to_bytes(), keys.key(TAG, Address::new([0; 6])).to_bytes());
    }

    const SEED: &str = "ab3dfbd75639f55926be5db80be27a30b18717a90ebf081f15372a2589ab86cc";
}
