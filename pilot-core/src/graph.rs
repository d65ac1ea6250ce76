//! Def. 3: program graphs. A graph is data, a table of edges whose guards and effects come from two closed enums,
//! and one interpreter executes it: in the daemon, in the model checker and in the auditor alike.
//!
//! * this file: what a graph is;
//! * [`message`]: what travels between devices, and actions with their parameters;
//! * [`device`]: the variables that guards read and effects change;
//! * `guards`, `effects`: what each word of the tables means;
//! * [`interpreter`]: `step` and `offers`, the only code that moves a location.

pub mod device;
mod effects;
mod guards;
pub mod interpreter;
pub mod message;

pub use self::device::{Device, Instance, Memory};
pub use self::interpreter::{Step, enabled, hindrance, offers, offers_of, step, take};
pub use self::message::{Action, Body, Message, MessageKind};

use core::fmt;

/// A program graph: (Loc, Act, Effect, →, Loc₀, g₀). g₀ is always true.
#[derive(Debug, Clone, Copy)]
pub struct Graph<'g> {
    /// What it is called in files and on the command line.
    pub name: &'static str,
    /// The figure of the paper that it implements.
    pub figure: &'static str,
    /// Loc₀.
    pub initial: Location,
    /// →, the figure's edges in the figure's order, then those beyond it.
    pub edges: &'g [Edge<'g>],
}

/// A location, as the figures name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Location {
    /// s₀.
    S0,
    /// s₁.
    S1,
    /// s₂.
    S2,
    /// s₃.
    S3,
    /// s₄.
    S4,
}

/// One edge of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge<'g> {
    /// Where it starts; `None` is every location but the initial one, and the edge stays there.
    pub from: Option<Location>,
    /// The action that takes it.
    pub label: Label,
    /// The figure's guards, where necessary corrected by a decision (ARCHITECTURE.md, Deviations); all must hold.
    pub guards: &'g [Guard],
    /// Guards beyond the figure, each with its reason; all must hold.
    pub also: &'g [(&'static str, Guard)],
    /// What it changes, in this order.
    pub effects: &'g [Effect],
    /// Where it leads.
    pub to: Option<Location>,
    /// The reason, if the whole edge is beyond the figure.
    pub beyond: Option<&'static str>,
}

/// An action without its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Label {
    /// init: policies and item from the user.
    Init,
    /// init with a policy base kept from before (S8).
    Restore,
    /// The user changes her policies (S11).
    ChangeOwn,
    /// The user lets a controller have data again that she had withdrawn.
    Admit,
    /// τ.
    Tau,
    /// An item's deadline is reached.
    Expire,
    /// What was remembered about an item is of no more use.
    Forget,
    /// a↑.
    Send(MessageKind),
    /// a↓.
    Receive(MessageKind),
}

/// The conditions of edges. *Self* is the device, *the message* the action's parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Guard {
    /// i is the item of the instance (Def. 4: the parameters of a↑ are its variables).
    OwnItem,
    /// The receiver and p are those of the current exchange (likewise).
    InExchange,
    /// The other side is the repository that self trusts (likewise).
    MyRepository,
    /// The message's policy is a current own policy of self.
    CurrentPolicy,
    /// (receiver, p) ∈ π_self.
    OfferKnown,
    /// activePolicy(p, send(self, receiver, i)).
    OfferActive,
    /// Some own policy q is active for the same communication and p ⊑ q (S12).
    WithinOwn,
    /// owner(i) = self.
    ItemOwned,
    /// ν(self, i) ≠ ⊥.
    ItemHeld,
    /// The subject has not withdrawn from the receiver, nor from anybody to whom p allows a transfer.
    NotRefused,
    /// The subject has not withdrawn releases of the item in this epoch: a new one would count as withdrawn, too.
    PastWithdrawal,
    /// Self has the item under a policy with an active transfer rule tr, and p ⊑ (p_i.t, tr, p_i.TR) (S1).
    WithinTransferRule,
    /// The receiver that the message names is self.
    AddressedToMe,
    /// owner(i) is the sender.
    FromOwner,
    /// Self has asked the sender for data under p.
    AskedFor,
    /// Self has published p and not withdrawn it (S4).
    PublishedByMe,
    /// p ⊑ some current own policy of self.
    WithinCurrent,
    /// type(i) ≤ p.t.
    AboutItem,
    /// entity(self) ≤ p.dcr.e.
    NamesMe,
    /// entity(sender) ≤ p.dcr.e.
    NamesSender,
    /// now < p.dcr.rt.
    InTime,
    /// The owner has not withdrawn releases of the message's epoch.
    NotWithdrawn,
    /// The message's epoch is near the present one.
    Fresh,
    /// The message's epoch is not beyond the present one by more than clocks may differ.
    NotFromFuture,
    /// Self does not have the item from this sender under this policy yet.
    NotYetHeld,
    /// Self holds the item under a policy whose deadline is reached.
    DeadlineReached,
    /// Self owes the receiver this notice.
    NoticeDue,
    /// What self remembers about the item is out of date.
    Outdated,
    /// No other edge from here with this label can be taken.
    Unless(Label),
    /// A mistake, printed or easily made. No graph here has one: the model checker must refuse graphs that do.
    Mistaken(Mistake),
}

/// Guards that look right and are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mistake {
    /// p ⊑ p_i in place of [`Guard::WithinTransferRule`], as Fig. 3b prints it (S1).
    WithinReceived,
    /// q ⊑ p in place of [`Guard::WithinOwn`].
    CoversOwn,
    /// [`Guard::WithinOwn`] by Def. 7 as printed, which ignores the conditions of transfer rules (S10).
    WithinOwnUnconditionally,
}

/// The changes that edges make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// policy_init(): the user's policies become own policies of the device.
    AdoptOwn,
    /// data_init(): the user's item becomes the instance's.
    AdoptItem,
    /// Offers kept from before go into π.
    RestoreOffers,
    /// The user's policies replace the own policies of the device, which keeps what it has published (S17).
    ReplaceOwn,
    /// The sender's policy goes into π, by R1 or R2.
    StoreOffer,
    /// The exchange is with the sender, about its policy.
    BeginExchange,
    /// There is no exchange any more.
    EndExchange,
    /// π becomes what the repository lists (S19).
    ReplaceOffers,
    /// The policy counts as published.
    Publish,
    /// Self remembers that it has asked the receiver for data under p.
    RememberAsking,
    /// The policy is withdrawn: no longer published, current or own.
    Unpublish,
    /// Π gets the sender's policy, in place of an earlier version (S19).
    List,
    /// Π loses the sender's policy.
    Unlist,
    /// The message takes ν(self, i) along, and when the owner released i.
    CarryItem,
    /// The message takes back all releases of the item so far.
    CarryWithdrawal,
    /// The message takes Π along.
    CarryCatalogue,
    /// Self remembers that the receiver may have the item.
    RememberRecipient,
    /// ρ and ν get the item.
    Keep,
    /// ρ and ν lose the item.
    Erase,
    /// Self remembers which releases of the item are withdrawn.
    LeaveTombstone,
    /// Self owes everybody to whom it passed the item the same notice.
    OweNotices,
    /// The notice is given.
    SettleNotice,
    /// The subject stops consenting to the receiver.
    Refuse,
    /// The subject no longer refuses a controller.
    Admit,
    /// What is out of date is forgotten.
    ForgetOutdated,
}

impl<'g> Edge<'g> {
    /// Every guard, the figure's and those beyond.
    pub fn all_guards(&self) -> impl Iterator<Item = Guard> + use<'g> {
        self.guards.iter().copied().chain(self.also.iter().map(|(_, guard)| *guard))
    }

    /// The same edge with more guards than the figure has, each with its reason.
    pub const fn also(mut self, also: &'g [(&'static str, Guard)]) -> Self {
        self.also = also;
        self
    }
}

/// An edge of the figure.
pub const fn edge<'g>(
    from: Location,
    label: Label,
    guards: &'g [Guard],
    effects: &'g [Effect],
    to: Location,
) -> Edge<'g> {
    Edge { from: Some(from), label, guards, also: &[], effects, to: Some(to), beyond: None }
}

/// An edge that the figure does not have, with the reason.
pub const fn beyond<'g>(reason: &'static str, edge: Edge<'g>) -> Edge<'g> {
    Edge { beyond: Some(reason), ..edge }
}

/// An edge that can be taken everywhere after the initial location and leads nowhere else, with the reason.
pub const fn anywhere<'g>(reason: &'static str, label: Label, guards: &'g [Guard], effects: &'g [Effect]) -> Edge<'g> {
    Edge { from: None, label, guards, also: &[], effects, to: None, beyond: Some(reason) }
}

impl fmt::Display for Location {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::S0 => "s₀",
            Self::S1 => "s₁",
            Self::S2 => "s₂",
            Self::S3 => "s₃",
            Self::S4 => "s₄",
        })
    }
}

impl fmt::Display for Label {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Init => out.write_str("init"),
            Self::Restore => out.write_str("restore"),
            Self::ChangeOwn => out.write_str("change"),
            Self::Admit => out.write_str("admit"),
            Self::Tau => out.write_str("τ"),
            Self::Expire => out.write_str("expire"),
            Self::Forget => out.write_str("forget"),
            Self::Send(kind) => write!(out, "{}↑", kind.name()),
            Self::Receive(kind) => write!(out, "{}↓", kind.name()),
        }
    }
}
