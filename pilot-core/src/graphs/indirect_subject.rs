//! Fig. 4a: the data subject gateway for indirect communication.
//!
//! s₁ wants the controllers' policies; s₂ waits for them; s₃ broadcasts for those it accepts.

use crate::graph::Label::{Admit, ChangeOwn, Forget, Init, Receive, Restore, Send, Tau};
use crate::graph::Location::{S0, S1, S2, S3};
use crate::graph::MessageKind as M;
use crate::graph::{Effect, Graph, Guard, anywhere, beyond, edge};

const BROADCAST: &[Effect] = &[Effect::CarryItem, Effect::RememberRecipient];

/// Fig. 4a.
pub const INDIRECT_SUBJECT: Graph<'static> = Graph {
    name: "indirect-subject",
    figure: "4a",
    initial: S0,
    edges: &[
        edge(S0, Init, &[], &[Effect::AdoptOwn, Effect::AdoptItem], S1),
        edge(S1, Send(M::RequestPolicies), &[], &[], S2).also(&[("Def. 4", Guard::MyRepository)]),
        edge(S2, Receive(M::DownloadPolicies), &[], &[Effect::ReplaceOffers], S3)
            .also(&[("Def. 4", Guard::MyRepository)]),
        edge(S3, Tau, &[], &[], S1),
        edge(S3, Send(M::Broadcast), &[Guard::OfferKnown, Guard::WithinOwn], BROADCAST, S3).also(&[
            ("Def. 4", Guard::OwnItem),
            ("Def. 9", Guard::OfferActive),
            ("S16", Guard::ItemOwned),
            ("Table 2", Guard::ItemHeld),
            ("Withdraw", Guard::NotRefused),
            ("Withdraw", Guard::PastWithdrawal),
        ]),
        beyond("S8", edge(S0, Restore, &[], &[Effect::AdoptOwn, Effect::AdoptItem, Effect::RestoreOffers], S1)),
        beyond("S8", edge(S2, Tau, &[], &[], S3)),
        anywhere("S11", ChangeOwn, &[], &[Effect::ReplaceOwn]),
        anywhere(
            "Withdraw",
            Send(M::Withdraw),
            &[Guard::OwnItem, Guard::ItemOwned],
            &[Effect::CarryWithdrawal, Effect::LeaveTombstone, Effect::Refuse],
        ),
        anywhere("Withdraw", Admit, &[], &[Effect::Admit]),
        anywhere("Withdraw", Forget, &[Guard::Outdated], &[Effect::ForgetOutdated]),
    ],
};
