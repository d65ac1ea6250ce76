//! Fig. 3a: the data subject gateway for direct communication.
//!
//! s₁ waits for a request; s₂ has one and decides.

use super::{HAND_OVER, SUBJECT_RELEASES};
use crate::graph::Label::{Admit, ChangeOwn, Forget, Init, Receive, Send, Tau};
use crate::graph::Location::{S0, S1, S2};
use crate::graph::MessageKind as M;
use crate::graph::{Effect, Graph, Guard, anywhere, edge};

/// Fig. 3a.
pub const DIRECT_SUBJECT: Graph<'static> = Graph {
    name: "direct-subject",
    figure: "3a",
    initial: S0,
    edges: &[
        edge(S0, Init, &[], &[Effect::AdoptOwn, Effect::AdoptItem], S1),
        edge(S1, Receive(M::Request), &[], &[Effect::StoreOffer, Effect::BeginExchange], S2),
        edge(S2, Tau, &[Guard::Unless(Send(M::Send))], &[Effect::EndExchange], S1),
        edge(S2, Send(M::Send), &[Guard::WithinOwn], HAND_OVER, S1).also(SUBJECT_RELEASES),
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
