//! Why guards and effects stay that no model needs.

use pilot_core::graph::{Label, MessageKind as M};

/// Why a word stays on the edges with a label, although no court refuses a graph without it.
pub(super) fn reason(graph: &str, label: Label, word: &str) -> Option<&'static str> {
    let is_subject = graph.ends_with("subject");
    Some(match (word, label) {
        // Def. 4: the parameters of a message are the variables of its sender.
        ("OwnItem", Label::Send(M::Withdraw)) => {
            "an instance speaks for its own item; withdrawing another, too, would erase more, which no requirement forbids"
        }
        ("OwnItem", _) => {
            "the item of a message is the instance's (Def. 4); another item of the same subject meets the same premises"
        }
        ("ItemOwned", _) => "OwnItem implies it, because subjects are given their own items; S16 asks for it by name",
        ("InExchange", Label::Send(M::DownloadPolicies)) => {
            "the answer goes to who asked (Def. 4); policies are public, and a subject takes them only when it waits for them"
        }
        ("InExchange", _) => {
            "receiver and policy are those of the exchange (Def. 4); Table 2's premises are judged for whatever they are"
        }
        ("MyRepository", _) => {
            "a device trusts one repository to be complete; each policy is vouched for by its controller, whoever lists it (S17)"
        }
        // What is safe to leave undone, and should be done.
        ("Unless(Send(Send))", Label::Tau) => "who may hand over does so; declining is always safe",
        (_, Label::Receive(_)) if word.starts_with("Unless") => {
            "the loop is for what is refused; refusing what may be kept is always safe"
        }
        ("EndExchange", _) => "what is over is forgotten; the next exchange overwrites it anyway",
        ("SettleNotice", _) => "a notice may be repeated without harm, but not for ever",
        ("DeadlineReached", _) => "erasing early breaks no requirement, only the service",
        ("Outdated", _) => "ForgetOutdated forgets nothing else; a step without effect is not worth a record",
        ("ForgetOutdated", _) => "what is out of date harms nobody, but memory is finite",
        ("Unlist", _) => {
            "a controller refuses data under a policy that it has withdrawn (PublishedByMe); it should not be listed, either"
        }
        ("Publish", _) => {
            "what is not published is refused (PublishedByMe), which is safe; another edge publishes, too"
        }
        ("PublishedByMe", Label::Send(_)) => "withdrawing what was never published tells nobody anything",
        // Withdrawals, beyond Table 2.
        ("NotRefused", _) => {
            "her policies still allow what she releases; that a withdrawal is a no for the future as well is ours"
        }
        ("PastWithdrawal", _) => "the controller's tombstone refuses such a release; it would be sent in vain",
        ("LeaveTombstone", Label::Send(_)) => "PastWithdrawal reads it, which see",
        // What receivers check again (S5), although senders in a model are honest.
        ("AboutItem" | "NamesMe", _) => {
            "the sender has checked it (OfferActive); a receiver checks again what it can (S5)"
        }
        ("NamesSender", _) => "subjects check it (OfferActive); a repository lists nothing in another's name",
        ("AskedFor", _) => "honest senders answer requests only; a receiver does not rely on that",
        ("FromOwner", _) => "honest devices broadcast only what they own; a receiver does not rely on that (S16)",
        ("PublishedByMe", Label::Receive(_)) => {
            "honest senders know published policies only, and p binds whatever its controller does later (S4)"
        }
        ("Fresh" | "NotFromFuture", _) => {
            "it ends replays by strangers and bounds how far clocks may differ; the network of a model forges nothing"
        }
        ("WithinCurrent", _) => {
            "p binds (S4); a controller that has become stricter does not want more than it would ask for"
        }
        // What other words of the same edge imply.
        ("OfferKnown", _) if !is_subject => {
            "the exchange has just stored the policy, and a controller has one exchange at a time"
        }
        ("ItemHeld", _) if !is_subject => "what was received has a value; Table 2 asks for it by name",
        ("NotYetHeld", _) => "keeping again what is held changes nothing; such a step is not worth a record (Elided)",
        _ => return None,
    })
}
