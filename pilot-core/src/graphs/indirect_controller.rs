//! Fig. 4c: the data controller gateway for indirect communication, with transfers as in Fig. 3b.
//!
//! s₁ wants to publish its policy; s₂ listens; s₃ holds something; s₄ has a request from another controller and decides.

use super::{CONTROLLER_RECEIVES, CONTROLLER_TRANSFERS, HAND_OVER};
use crate::graph::Label::{ChangeOwn, Expire, Forget, Init, Receive, Send, Tau};
use crate::graph::Location::{S0, S1, S2, S3, S4};
use crate::graph::MessageKind as M;
use crate::graph::{Effect, Graph, Guard, anywhere, beyond, edge};

/// Fig. 4c.
pub const INDIRECT_CONTROLLER: Graph<'static> = Graph {
    name: "indirect-controller",
    figure: "4c",
    initial: S0,
    edges: &[
        edge(S0, Init, &[], &[Effect::AdoptOwn], S1),
        edge(S1, Send(M::UploadPolicy), &[], &[Effect::Publish], S2)
            .also(&[("Def. 4", Guard::MyRepository), ("S17", Guard::CurrentPolicy)]),
        edge(S2, Receive(M::Broadcast), &[Guard::Unless(Receive(M::Broadcast))], &[], S2),
        edge(S2, Receive(M::Broadcast), &[Guard::WithinCurrent], &[Effect::Keep], S3).also(&[
            ("S3", Guard::AddressedToMe),
            ("S16", Guard::FromOwner),
            ("S4", Guard::PublishedByMe),
            ("S5", Guard::AboutItem),
            ("S5", Guard::NamesMe),
            ("S5", Guard::InTime),
            ("Withdraw", Guard::NotWithdrawn),
            ("Withdraw", Guard::Fresh),
            ("Elided", Guard::NotYetHeld),
        ]),
        beyond(
            "S8",
            edge(S2, Send(M::UploadPolicy), &[Guard::MyRepository, Guard::CurrentPolicy], &[Effect::Publish], S2),
        ),
        beyond("S8", edge(S3, Tau, &[], &[], S2)),
        beyond("S8", edge(S3, Receive(M::Request), &[], &[Effect::StoreOffer, Effect::BeginExchange], S4)),
        beyond("S8", edge(S4, Tau, &[Guard::Unless(Send(M::Send))], &[Effect::EndExchange], S3)),
        beyond("S8", edge(S4, Send(M::Send), &[Guard::WithinTransferRule], HAND_OVER, S3).also(CONTROLLER_TRANSFERS)),
        beyond(
            "S8",
            edge(S2, Send(M::Request), &[Guard::CurrentPolicy], &[Effect::Publish, Effect::RememberAsking], S2),
        ),
        beyond("S8", edge(S2, Receive(M::Send), &[], &[Effect::Keep], S3).also(CONTROLLER_RECEIVES)),
        beyond("S5", edge(S2, Receive(M::Send), &[Guard::Unless(Receive(M::Send))], &[], S2)),
        anywhere("S11", ChangeOwn, &[], &[Effect::ReplaceOwn]),
        anywhere("S19", Send(M::WithdrawPolicy), &[Guard::MyRepository, Guard::PublishedByMe], &[Effect::Unpublish]),
        anywhere("Erase", Expire, &[Guard::DeadlineReached], &[Effect::Erase]),
        anywhere("Withdraw", Receive(M::Withdraw), &[], &[Effect::Erase, Effect::OweNotices, Effect::LeaveTombstone]),
        anywhere("Withdraw", Send(M::Withdraw), &[Guard::NoticeDue], &[Effect::SettleNotice]),
        anywhere("Withdraw", Forget, &[Guard::Outdated], &[Effect::ForgetOutdated]),
    ],
};
