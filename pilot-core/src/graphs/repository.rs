//! Fig. 4b: the policy repository. It stores and hands out policies and does not modify them.
//!
//! s₀ waits; s₁ has a request for policies and answers it.

use crate::graph::Label::{Receive, Send};
use crate::graph::Location::{S0, S1};
use crate::graph::MessageKind as M;
use crate::graph::{Effect, Graph, Guard, beyond, edge};

/// Fig. 4b.
pub const REPOSITORY: Graph<'static> = Graph {
    name: "repository",
    figure: "4b",
    initial: S0,
    edges: &[
        edge(S0, Receive(M::UploadPolicy), &[], &[Effect::List], S0).also(&[("S19", Guard::NamesSender)]),
        edge(S0, Receive(M::RequestPolicies), &[], &[Effect::BeginExchange], S1),
        edge(S1, Send(M::DownloadPolicies), &[], &[Effect::CarryCatalogue, Effect::EndExchange], S0)
            .also(&[("Def. 4", Guard::InExchange)]),
        beyond("S19", edge(S0, Receive(M::UploadPolicy), &[Guard::Unless(Receive(M::UploadPolicy))], &[], S0)),
        beyond("S19", edge(S0, Receive(M::WithdrawPolicy), &[], &[Effect::Unlist], S0)),
    ],
};
