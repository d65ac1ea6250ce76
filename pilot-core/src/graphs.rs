//! The five program graphs of Figs. 3 and 4, as tables.
//!
//! Each table has the figure's edges in the figure's order, then the edges beyond it. A guard or an edge that the
//! figure does not have carries its reason: the number of a decision (S1 to S21, listed in ARCHITECTURE.md under
//! Deviations), a definition of the paper that the figure leaves out, or `Erase`, `Withdraw` and `Elided`, which are
//! ours.

pub mod direct_controller;
pub mod direct_subject;
pub mod indirect_controller;
pub mod indirect_subject;
pub mod repository;

pub use self::direct_controller::DIRECT_CONTROLLER;
pub use self::direct_subject::DIRECT_SUBJECT;
pub use self::indirect_controller::INDIRECT_CONTROLLER;
pub use self::indirect_subject::INDIRECT_SUBJECT;
pub use self::repository::REPOSITORY;
use crate::graph::{Effect, Graph, Guard};

/// All five, in the order of the figures.
pub const ALL: [&Graph<'static>; 5] =
    [&DIRECT_SUBJECT, &DIRECT_CONTROLLER, &INDIRECT_SUBJECT, &REPOSITORY, &INDIRECT_CONTROLLER];

/// What SEND asks of a subject beyond the figure's ⊑.
const SUBJECT_RELEASES: &[(&str, Guard)] = &[
    ("Def. 4", Guard::OwnItem),
    ("Def. 4", Guard::InExchange),
    ("S13", Guard::OfferKnown),
    ("Def. 9", Guard::OfferActive),
    ("S16", Guard::ItemOwned),
    ("Table 2", Guard::ItemHeld),
    ("Withdraw", Guard::NotRefused),
    ("Withdraw", Guard::PastWithdrawal),
];

/// What TRANSFER asks of a controller beyond the figures' ⊑, wherever it hands an item on.
const CONTROLLER_TRANSFERS: &[(&str, Guard)] = &[
    ("Def. 4", Guard::InExchange),
    ("S13", Guard::OfferKnown),
    ("Def. 9", Guard::OfferActive),
    ("Table 2", Guard::ItemHeld),
];

/// What a controller checks of an item that is handed to it (S5), wherever it comes from.
const CONTROLLER_RECEIVES: &[(&str, Guard)] = &[
    ("Def. 4", Guard::AskedFor),
    ("S4", Guard::PublishedByMe),
    ("S5", Guard::AboutItem),
    ("S5", Guard::NamesMe),
    ("S5", Guard::InTime),
    ("Withdraw", Guard::NotWithdrawn),
    ("Withdraw", Guard::NotFromFuture),
];

/// How an item leaves a device at the end of an exchange.
const HAND_OVER: &[Effect] = &[Effect::CarryItem, Effect::RememberRecipient, Effect::EndExchange];
