//! An *opening*: what a subject gives an auditor, so that her item is found among the pseudonyms of her trace.
//!
//! ```json
//! {"device": "alice", "datatype": "MACAddress", "item": "c0ffee000001",
//!  "audit_key": "<32 bytes>", "signing_key": "ed25519:<32 bytes>"}
//! ```
//!
//! It has her address, the key of the pseudonyms in her trace, and the public key that her trace is signed with, which no
//! mesh file has. Whoever gets it knows which device is hers, and all that her trace says.

use mesh_runtime::keys::{SecretKeys, secret_file};
use pilot_core::evidence::hex::Hex;
use serde::Serialize;
use zeroize::{Zeroize as _, Zeroizing};

use crate::NO_ADDRESS;
use crate::config::Config;
use crate::start::keys_path;

/// See the [module](self). It has a secret, so it has no `Debug`.
#[derive(Serialize)]
pub struct Opening {
    device: String,
    datatype: String,
    item: String,
    audit_key: String,
    signing_key: String,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum OpeningError {
    /// The gateway makes its keys when it runs for the first time.
    #[error("the gateway has not run yet: there is no `{0}`")]
    NotYet(std::path::PathBuf),
    /// The adapter has it, and nobody has asked.
    #[error("{NO_ADDRESS}")]
    NoAddress,
    /// A key file cannot be used.
    #[error("{0}")]
    Key(String),
}

impl Opening {
    /// Of the gateway with this configuration.
    pub fn of(config: &Config) -> Result<Self, OpeningError> {
        let key = |error: &dyn std::fmt::Display| OpeningError::Key(error.to_string());
        let audit_key = secret_file::load(&config.audit_key).map_err(|error| key(&error))?;
        let audit_key = audit_key.ok_or_else(|| OpeningError::NotYet(config.audit_key.clone()))?;
        let path = keys_path(config);
        if !path.exists() {
            return Err(OpeningError::NotYet(path));
        }
        let keys = SecretKeys::load(&path).map_err(|error| key(&error))?;
        let address = config.address.ok_or(OpeningError::NoAddress)?;
        Ok(Self {
            device: config.name.to_string(),
            datatype: config.vocabulary.datatypes.name(config.datatype).to_owned(),
            item: Hex(&address.reveal()).to_string(),
            audit_key: Hex(&*audit_key).to_string(),
            signing_key: keys.public().signing.to_string(),
        })
    }

    /// As it is written.
    pub fn to_json(&self) -> Result<Zeroizing<String>, OpeningError> {
        serde_json::to_string(self).map(Zeroizing::new).map_err(|error| OpeningError::Key(error.to_string()))
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.item.zeroize();
        self.audit_key.zeroize();
    }
}
