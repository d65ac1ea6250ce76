//! Evidence: what the devices of a mesh sign, as pure values with their verification. A daemon signs and verifies, an
//! auditor verifies, and neither needs the other.
//!
//! * [`keys`]: Ed25519 keys that verify, X25519 keys to seal to, and [`Signer`], behind which secrets stay elsewhere.
//! * [`cose`]: COSE_Sign1 in exactly one byte form, with a domain for each kind of thing that is signed.
//! * [`consent`]: what a subject signs for a controller.
//! * [`form`]: versioned arrays that are read strictly.
//! * [`hex`]: bytes as digits, in one form.
//! * [`mesh`]: the operator's mesh file: the shared vocabulary, and who the controllers and repositories are.
//! * [`statement`]: a controller's policy, or its withdrawal, as repositories hand it on unchanged.
//! * [`envelope`]: what carries a message from one device to another.
//! * [`trace`]: what a device did, step by step, for an auditor; it names items by [`pseudonym`] only.
//!
//! Trust has one root: the operator's key in a daemon's configuration. It opens the mesh file, and everything else is
//! opened with an opened mesh file, so that nothing can be believed before its signer is known.
//!
//! What must be remembered between calls is the caller's: the serial of the last mesh file, the highest version of each
//! device's statements.

pub mod consent;
pub mod cose;
pub mod envelope;
pub mod form;
pub mod hex;
pub mod keys;
pub mod mesh;
pub mod pseudonym;
pub mod statement;
pub mod trace;

pub use self::envelope::Envelope;
pub use self::form::FormError;
pub use self::keys::{SealingKey, Signature, Signer, Unverified, VerifyingKey};
pub use self::mesh::{DeviceName, MeshDevice, MeshDraft, MeshFile};
pub use self::pseudonym::{AuditKey, Pseudonym};
pub use self::statement::{PolicyStatement, StatementId};
