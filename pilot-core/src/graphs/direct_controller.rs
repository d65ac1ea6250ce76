//! Fig. 3b: the data controller gateway for direct communication.
//!
//! s₁ wants data; s₂ has requested it; s₃ holds it; s₄ has a request from another controller and decides.

use super::{CONTROLLER_RECEIVES, CONTROLLER_TRANSFERS, HAND_OVER};
use crate::graph::Label::{ChangeOwn, Expire, Forget, Init, Receive, Send, Tau};
use crate::graph::Location::{S0, S1, S2, S3, S4};
use crate::graph::MessageKind as M;
use crate::graph::{Effect, Graph, Guard, anywhere, beyond, edge};

/// Fig. 3b, with TRANSFER's premises in place of the printed guard of send↑ (S1).
pub const DIRECT_CONTROLLER: Graph<'static> = Graph {
    name: "direct-controller",
    figure: "3b",
    initial: S0,
    edges: &[
        edge(S0, Init, &[], &[Effect::AdoptOwn], S1),
        edge(S1, Send(M::Request), &[], &[Effect::Publish, Effect::RememberAsking], S2)
            .also(&[("Table 2", Guard::CurrentPolicy)]),
        edge(S2, Receive(M::Send), &[], &[Effect::Keep], S3).also(CONTROLLER_RECEIVES),
        edge(S3, Receive(M::Request), &[], &[Effect::StoreOffer, Effect::BeginExchange], S4),
        edge(S4, Tau, &[Guard::Unless(Send(M::Send))], &[Effect::EndExchange], S3),
        edge(S4, Send(M::Send), &[Guard::WithinTransferRule], HAND_OVER, S3).also(CONTROLLER_TRANSFERS),
        beyond("S5", edge(S2, Receive(M::Send), &[Guard::Unless(Receive(M::Send))], &[], S2)),
        beyond("S8", edge(S2, Tau, &[], &[], S1)),
        beyond("S8", edge(S3, Tau, &[], &[], S1)),
        anywhere("S11", ChangeOwn, &[], &[Effect::ReplaceOwn]),
        anywhere("Erase", Expire, &[Guard::DeadlineReached], &[Effect::Erase]),
        anywhere("Withdraw", Receive(M::Withdraw), &[], &[Effect::Erase, Effect::OweNotices, Effect::LeaveTombstone]),
        anywhere("Withdraw", Send(M::Withdraw), &[Guard::NoticeDue], &[Effect::SettleNotice]),
        anywhere("Withdraw", Forget, &[Guard::Outdated], &[Effect::ForgetOutdated]),
    ],
};
