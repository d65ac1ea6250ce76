//! §3, the abstract operational semantics: system state (Def. 2), events, the rules of Table 2 and the privacy
//! requirements of §5.
//!
//! * [`state`]: ⟨ν, π, ρ⟩, one share per device, and the ghosts that requirements speak of;
//! * [`event`]: what can happen, and what a sender claims when it lets a message go;
//! * [`rules`]: premises and effects of Table 2, apart;
//! * [`requirements`]: requirements 1 to 5, each a named function.

pub mod context;
pub mod event;
pub mod requirements;
pub mod rules;
pub mod state;

pub use self::context::{Attested, Contacts, Context, Policies, PolicyId};
pub use self::event::{Claim, Delivery, Event, Handover};
pub use self::requirements::Requirement;
pub use self::rules::Premise;
pub use self::state::{DeviceState, Epoch, Ghosts, Provenance, Receipt, State};
