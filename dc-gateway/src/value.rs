//! What is sealed in the vault: the address, and by which signature its owner consented, if she signed.
//!
//! ```text
//! kind (0 public, 1 random) ‖ address (6 bytes) [‖ key (32 bytes) ‖ signature (64 bytes) [‖ 1, if others consented, too]]
//! ```
//!
//! The signature belongs to the value: addresses are so few that whoever has it could try them all out.

use mesh_runtime::air::{Address, AddressKind};
use pilot_core::evidence::consent::ConsentSignature;

use crate::vault::{Secret, ValueTooLong};

/// Stands at the end if the same consent was heard otherwise.
const CONTESTED: u8 = 1;

/// A value as it was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// The address.
    pub address: Address,
    /// What sort of address it is.
    pub kind: AddressKind,
    /// How its owner signed her consent, if she did.
    pub signature: Option<ConsentSignature>,
    /// Whether the same consent was also heard without this key. A signature proves who signed, and not whose the address is:
    /// nobody can tell then which of them is the owner.
    pub is_contested: bool,
}

impl Heard {
    /// A consent as it was heard first.
    pub const fn new(address: Address, kind: AddressKind, signature: Option<ConsentSignature>) -> Self {
        Self { address, kind, signature, is_contested: false }
    }

    /// The key without which the consent cannot be taken back, if there is one.
    pub fn signer(&self) -> Option<[u8; 32]> {
        self.signature.filter(|_| !self.is_contested).map(|signature| signature.key)
    }

    /// To be sealed.
    pub fn to_secret(&self) -> Result<Secret, ValueTooLong> {
        let kind = match self.kind {
            AddressKind::Public => 0,
            AddressKind::Random => 1,
        };
        // Room for all of it: a buffer that grows leaves copies behind.
        let mut bytes = Vec::with_capacity(128);
        bytes.push(kind);
        bytes.extend(self.address.reveal());
        if let Some(ConsentSignature { key, signature }) = &self.signature {
            bytes.extend(key);
            bytes.extend(signature);
            if self.is_contested {
                bytes.push(CONTESTED);
            }
        }
        Secret::new(bytes)
    }

    /// What was sealed; `None` if it was something else.
    pub fn from_secret(secret: &Secret) -> Option<Self> {
        let (kind, rest) = secret.expose().split_first()?;
        let kind = match kind {
            0 => AddressKind::Public,
            1 => AddressKind::Random,
            _ => return None,
        };
        let (address, rest) = rest.split_first_chunk::<6>()?;
        let mut heard = Self::new(Address::new(*address), kind, None);
        if rest.is_empty() {
            return Some(heard);
        }
        let (key, rest) = rest.split_first_chunk::<32>()?;
        let (signature, rest) = rest.split_first_chunk::<64>()?;
        heard.signature = Some(ConsentSignature { key: *key, signature: *signature });
        heard.is_contested = match rest {
            [] => false,
            [CONTESTED] => true,
            _ => return None,
        };
        Some(heard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was sealed is read back, and nothing shorter or longer.
    #[test]
    fn values_have_one_form() {
        let address = Address::new([1, 2, 3, 4, 5, 6]);
        let signature = ConsentSignature { key: [7; 32], signature: [8; 64] };
        let unsigned = Heard::new(address, AddressKind::Public, None);
        let signed = Heard::new(address, AddressKind::Random, Some(signature));
        let contested = Heard { is_contested: true, ..signed };
        assert_eq!([unsigned, signed, contested].map(|heard| heard.signer()), [None, Some([7; 32]), None]);
        for heard in [unsigned, signed, contested] {
            let secret = heard.to_secret().unwrap();
            assert_eq!(Heard::from_secret(&secret), Some(heard));
            let bytes = secret.expose();
            let shorter = &bytes[..bytes.len() - 1 - usize::from(heard.is_contested)];
            for other in [shorter, &[bytes, &[0]].concat(), &[2, 1, 2, 3, 4, 5, 6], &[]] {
                assert_eq!(Heard::from_secret(&Secret::new(other.to_vec()).unwrap()), None);
            }
        }
    }
}
