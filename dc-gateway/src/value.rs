//! What is sealed in the vault: the address, and by which signature its owner consented, if she signed.
//!
//! ```text
//! kind (0 public, 1 random) ‖ address (6 bytes) [‖ key (32 bytes) ‖ signature (64 bytes)]
//! ```
//!
//! The signature belongs to the value: addresses are so few that whoever has it could try them all out.

use mesh_runtime::air::consent::ConsentSignature;
use mesh_runtime::air::{Address, AddressKind};

use crate::vault::{Secret, ValueTooLong};

/// A value as it was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// The address.
    pub address: Address,
    /// What sort of address it is.
    pub kind: AddressKind,
    /// How its owner signed her consent, if she did.
    pub signature: Option<ConsentSignature>,
}

impl Heard {
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
        let signature = match rest.split_first_chunk::<32>() {
            None if rest.is_empty() => None,
            None => return None,
            Some((key, rest)) => Some(ConsentSignature { key: *key, signature: rest.try_into().ok()? }),
        };
        Some(Self { address: Address::new(*address), kind, signature })
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
        for (kind, signature) in [(AddressKind::Public, None), (AddressKind::Random, Some(signature))] {
            let heard = Heard { address, kind, signature };
            let secret = heard.to_secret().unwrap();
            assert_eq!(Heard::from_secret(&secret), Some(heard));
            let bytes = secret.expose();
            for other in [&bytes[..bytes.len() - 1], &[bytes, &[0]].concat(), &[2, 1, 2, 3, 4, 5, 6], &[]] {
                assert_eq!(Heard::from_secret(&Secret::new(other.to_vec()).unwrap()), None);
            }
        }
    }
}
