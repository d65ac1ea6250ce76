//! The five tables next to the printed figures: every printed edge is there with its label and guard, in the figure's
//! order, and what is there beyond the figures is marked and listed here in full.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use pilot_core::graph::Guard::{self, OfferKnown, Unless, WithinCurrent, WithinOwn, WithinTransferRule};
use pilot_core::graph::Label::{self, Init, Receive, Send, Tau};
use pilot_core::graph::Location::{self, S0, S1, S2, S3, S4};
use pilot_core::graph::{Edge, Graph, MessageKind as M};
use pilot_core::graphs;

/// An edge as the paper prints it; the guard in the paper's notation.
type Printed = (Location, Label, &'static str, Location);

const FIG_3A: &[Printed] = &[
    (S0, Init, "", S1),
    (S1, Receive(M::Request), "", S2),
    (S2, Tau, "p_dc ⋢ p_ds", S1),
    (S2, Send(M::Send), "p_dc ⊑ p_ds", S1),
];

const FIG_3B: &[Printed] = &[
    (S0, Init, "", S1),
    (S1, Send(M::Request), "", S2),
    (S2, Receive(M::Send), "", S3),
    (S3, Receive(M::Request), "", S4),
    (S4, Tau, "p_dc' ⋢ p_i", S3),
    (S4, Send(M::Send), "p_dc' ⊑ p_i", S3),
];

const FIG_4A: &[Printed] = &[
    (S0, Init, "", S1),
    (S1, Send(M::RequestPolicies), "", S2),
    (S2, Receive(M::DownloadPolicies), "", S3),
    (S3, Tau, "", S1),
    (S3, Send(M::Broadcast), "(dc,p) ∈ Π_DCs ∧ p ⊑ p_ds", S3),
];

const FIG_4B: &[Printed] = &[
    (S0, Receive(M::UploadPolicy), "", S0),
    (S0, Receive(M::RequestPolicies), "", S1),
    (S1, Send(M::DownloadPolicies), "", S0),
];

const FIG_4C: &[Printed] = &[
    (S0, Init, "", S1),
    (S1, Send(M::UploadPolicy), "", S2),
    (S2, Receive(M::Broadcast), "p ⋢ p_dc", S2),
    (S2, Receive(M::Broadcast), "p ⊑ p_dc", S3),
];

/// What a printed guard is in our tables, and the decision that changed it.
fn ours(figure: &str, printed: &str) -> &'static [Guard] {
    match (figure, printed) {
        (_, "") => &[],
        ("3a", "p_dc ⊑ p_ds") => &[WithinOwn], // S12: some active own policy
        ("3a", "p_dc ⋢ p_ds") => &[Unless(Send(M::Send))], // the negation of all that send↑ asks
        ("3b", "p_dc' ⊑ p_i") => &[WithinTransferRule], // S1: TRANSFER's premises
        ("3b", "p_dc' ⋢ p_i") => &[Unless(Send(M::Send))], // likewise
        ("4a", "(dc,p) ∈ Π_DCs ∧ p ⊑ p_ds") => &[OfferKnown, WithinOwn], // S19: read in π_ds; S12
        ("4c", "p ⊑ p_dc") => &[WithinCurrent], // S4: some current own policy
        ("4c", "p ⋢ p_dc") => &[Unless(Receive(M::Broadcast))], // likewise
        other => panic!("not printed: {other:?}"),
    }
}

/// Reference: Figs. 3a, 3b, 4a, 4b, 4c.
#[test]
fn every_printed_edge_is_in_the_table_and_every_other_is_marked() {
    for (graph, figure, printed) in [
        (&graphs::DIRECT_SUBJECT, "3a", FIG_3A),
        (&graphs::DIRECT_CONTROLLER, "3b", FIG_3B),
        (&graphs::INDIRECT_SUBJECT, "4a", FIG_4A),
        (&graphs::REPOSITORY, "4b", FIG_4B),
        (&graphs::INDIRECT_CONTROLLER, "4c", FIG_4C),
    ] {
        assert_eq!(graph.figure, figure);
        assert_eq!(graph.initial, S0);
        let unmarked: Vec<_> = graph.edges.iter().filter(|edge| edge.beyond.is_none()).collect();
        assert_eq!(unmarked.len(), printed.len(), "Fig. {figure}");
        for (edge, (from, label, guard, to)) in unmarked.iter().zip(printed) {
            assert_eq!((edge.from, edge.label, edge.to), (Some(*from), *label, Some(*to)), "Fig. {figure}");
            assert_eq!(edge.guards, ours(figure, guard), "Fig. {figure}, {from:?} {label:?}");
        }
    }
}

/// Everything beyond the figures, with its reason: edges with their guards, then guards on the figures' own edges.
fn additions(graph: &Graph<'_>) -> Vec<String> {
    let place = |location: Option<Location>| location.map_or("anywhere".into(), |location| format!("{location:?}"));
    let edges = graph.edges.iter().filter_map(|edge| {
        let guards: Vec<_> = edge.all_guards().map(|guard| format!("{guard:?}")).collect();
        let guards = if guards.is_empty() { String::new() } else { format!(" / {}", guards.join(" ")) };
        edge.beyond.map(|reason| format!("{reason}: {} {} {}{guards}", place(edge.from), edge.label, place(edge.to)))
    });
    let guards = graph.edges.iter().filter(|edge| edge.beyond.is_none()).flat_map(|edge| {
        edge.also
            .iter()
            .map(move |(reason, guard)| format!("{reason}: {} {} / {guard:?}", place(edge.from), edge.label))
    });
    edges.chain(guards).collect()
}

/// The effects of each edge, in order; the figures print none, the text says them in words.
fn effects(graph: &Graph<'_>) -> Vec<String> {
    let words = |edge: &Edge<'_>| edge.effects.iter().map(|e| format!(" {e:?}")).collect::<String>();
    graph.edges.iter().map(|edge| format!("{}:{}", edge.label, words(edge))).collect()
}

/// Reference: Fig. 3a.
#[test]
fn additions_to_figure_3a() {
    assert_eq!(
        additions(&graphs::DIRECT_SUBJECT),
        [
            "S11: anywhere change anywhere",
            "Withdraw: anywhere withdraw↑ anywhere / OwnItem ItemOwned",
            "Withdraw: anywhere admit anywhere",
            "Withdraw: anywhere forget anywhere / Outdated",
            "Def. 4: S2 send↑ / OwnItem",
            "Def. 4: S2 send↑ / InExchange",
            "S13: S2 send↑ / OfferKnown",
            "Def. 9: S2 send↑ / OfferActive",
            "S16: S2 send↑ / ItemOwned",
            "Table 2: S2 send↑ / ItemHeld",
            "Withdraw: S2 send↑ / NotRefused",
            "Withdraw: S2 send↑ / PastWithdrawal",
        ]
    );
    assert_eq!(
        effects(&graphs::DIRECT_SUBJECT),
        [
            "init: AdoptOwn AdoptItem",
            "request↓: StoreOffer BeginExchange",
            "τ: EndExchange",
            "send↑: CarryItem RememberRecipient EndExchange",
            "change: ReplaceOwn",
            "withdraw↑: CarryWithdrawal LeaveTombstone Refuse",
            "admit: Admit",
            "forget: ForgetOutdated",
        ]
    );
}

/// Reference: Fig. 3b.
#[test]
fn additions_to_figure_3b() {
    assert_eq!(
        additions(&graphs::DIRECT_CONTROLLER),
        [
            "S5: S2 send↓ S2 / Unless(Receive(Send))",
            "S8: S2 τ S1",
            "S8: S3 τ S1",
            "S11: anywhere change anywhere",
            "Erase: anywhere expire anywhere / DeadlineReached",
            "Withdraw: anywhere withdraw↓ anywhere",
            "Withdraw: anywhere withdraw↑ anywhere / NoticeDue",
            "Withdraw: anywhere forget anywhere / Outdated",
            "Table 2: S1 request↑ / CurrentPolicy",
            "Def. 4: S2 send↓ / AskedFor",
            "S4: S2 send↓ / PublishedByMe",
            "S5: S2 send↓ / AboutItem",
            "S5: S2 send↓ / NamesMe",
            "S5: S2 send↓ / InTime",
            "Withdraw: S2 send↓ / NotWithdrawn",
            "Withdraw: S2 send↓ / NotFromFuture",
            "Def. 4: S4 send↑ / InExchange",
            "S13: S4 send↑ / OfferKnown",
            "Def. 9: S4 send↑ / OfferActive",
            "Table 2: S4 send↑ / ItemHeld",
        ]
    );
    assert_eq!(
        effects(&graphs::DIRECT_CONTROLLER),
        [
            "init: AdoptOwn",
            "request↑: Publish RememberAsking",
            "send↓: Keep",
            "request↓: StoreOffer BeginExchange",
            "τ: EndExchange",
            "send↑: CarryItem RememberRecipient EndExchange",
            "send↓:",
            "τ:",
            "τ:",
            "change: ReplaceOwn",
            "expire: Erase",
            "withdraw↓: Erase OweNotices LeaveTombstone",
            "withdraw↑: SettleNotice",
            "forget: ForgetOutdated",
        ]
    );
}

/// Reference: Fig. 4a.
#[test]
fn additions_to_figure_4a() {
    assert_eq!(
        additions(&graphs::INDIRECT_SUBJECT),
        [
            "S8: S0 restore S1",
            "S8: S2 τ S3",
            "S11: anywhere change anywhere",
            "Withdraw: anywhere withdraw↑ anywhere / OwnItem ItemOwned",
            "Withdraw: anywhere admit anywhere",
            "Withdraw: anywhere forget anywhere / Outdated",
            "Def. 4: S1 requestPolicies↑ / MyRepository",
            "Def. 4: S2 downloadPolicies↓ / MyRepository",
            "Def. 4: S3 broadcast↑ / OwnItem",
            "Def. 9: S3 broadcast↑ / OfferActive",
            "S16: S3 broadcast↑ / ItemOwned",
            "Table 2: S3 broadcast↑ / ItemHeld",
            "Withdraw: S3 broadcast↑ / NotRefused",
            "Withdraw: S3 broadcast↑ / PastWithdrawal",
        ]
    );
    assert_eq!(
        effects(&graphs::INDIRECT_SUBJECT),
        [
            "init: AdoptOwn AdoptItem",
            "requestPolicies↑:",
            "downloadPolicies↓: ReplaceOffers",
            "τ:",
            "broadcast↑: CarryItem RememberRecipient",
            "restore: AdoptOwn AdoptItem RestoreOffers",
            "τ:",
            "change: ReplaceOwn",
            "withdraw↑: CarryWithdrawal LeaveTombstone Refuse",
            "admit: Admit",
            "forget: ForgetOutdated",
        ]
    );
}

/// Reference: Fig. 4b.
#[test]
fn additions_to_figure_4b() {
    assert_eq!(
        additions(&graphs::REPOSITORY),
        [
            "S19: S0 uploadPolicy↓ S0 / Unless(Receive(UploadPolicy))",
            "S19: S0 withdrawPolicy↓ S0",
            "S19: S0 uploadPolicy↓ / NamesSender",
            "Def. 4: S1 downloadPolicies↑ / InExchange",
        ]
    );
    assert_eq!(
        effects(&graphs::REPOSITORY),
        [
            "uploadPolicy↓: List",
            "requestPolicies↓: BeginExchange",
            "downloadPolicies↑: CarryCatalogue EndExchange",
            "uploadPolicy↓:",
            "withdrawPolicy↓: Unlist",
        ]
    );
}

/// Reference: Fig. 4c.
#[test]
fn additions_to_figure_4c() {
    assert_eq!(
        additions(&graphs::INDIRECT_CONTROLLER),
        [
            "S8: S2 uploadPolicy↑ S2 / MyRepository CurrentPolicy",
            "S8: S3 τ S2",
            "S8: S3 request↓ S4",
            "S8: S4 τ S3 / Unless(Send(Send))",
            "S8: S4 send↑ S3 / WithinTransferRule InExchange OfferKnown OfferActive ItemHeld",
            "S8: S2 request↑ S2 / CurrentPolicy",
            "S8: S2 send↓ S3 / AskedFor PublishedByMe AboutItem NamesMe InTime NotWithdrawn NotFromFuture",
            "S5: S2 send↓ S2 / Unless(Receive(Send))",
            "S11: anywhere change anywhere",
            "S19: anywhere withdrawPolicy↑ anywhere / MyRepository PublishedByMe",
            "Erase: anywhere expire anywhere / DeadlineReached",
            "Withdraw: anywhere withdraw↓ anywhere",
            "Withdraw: anywhere withdraw↑ anywhere / NoticeDue",
            "Withdraw: anywhere forget anywhere / Outdated",
            "Def. 4: S1 uploadPolicy↑ / MyRepository",
            "S17: S1 uploadPolicy↑ / CurrentPolicy",
            "S3: S2 broadcast↓ / AddressedToMe",
            "S16: S2 broadcast↓ / FromOwner",
            "S4: S2 broadcast↓ / PublishedByMe",
            "S5: S2 broadcast↓ / AboutItem",
            "S5: S2 broadcast↓ / NamesMe",
            "S5: S2 broadcast↓ / InTime",
            "Withdraw: S2 broadcast↓ / NotWithdrawn",
            "Withdraw: S2 broadcast↓ / Fresh",
            "Elided: S2 broadcast↓ / NotYetHeld",
        ]
    );
    assert_eq!(
        effects(&graphs::INDIRECT_CONTROLLER),
        [
            "init: AdoptOwn",
            "uploadPolicy↑: Publish",
            "broadcast↓:",
            "broadcast↓: Keep",
            "uploadPolicy↑: Publish",
            "τ:",
            "request↓: StoreOffer BeginExchange",
            "τ: EndExchange",
            "send↑: CarryItem RememberRecipient EndExchange",
            "request↑: Publish RememberAsking",
            "send↓: Keep",
            "send↓:",
            "change: ReplaceOwn",
            "withdrawPolicy↑: Unpublish",
            "expire: Erase",
            "withdraw↓: Erase OweNotices LeaveTombstone",
            "withdraw↑: SettleNotice",
            "forget: ForgetOutdated",
        ]
    );
}

/// Reference: Def. 3: with the same label from the same place, at most one edge can be taken, so that equal inputs
/// give equal steps: two such edges exclude each other by `Unless`.
#[test]
fn edges_with_the_same_label_from_the_same_place_exclude_each_other() {
    for graph in graphs::ALL {
        for (at, edge) in graph.edges.iter().enumerate() {
            for other in
                graph.edges.iter().skip(at + 1).filter(|other| other.from == edge.from && other.label == edge.label)
            {
                let is_otherwise = |guards: &[Guard]| guards == [Unless(edge.label)];
                assert!(is_otherwise(edge.guards) ^ is_otherwise(other.guards), "{}: {:?}", graph.name, edge.label);
            }
        }
    }
}
