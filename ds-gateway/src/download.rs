//! A download of Π, which comes in parts: each is asked for with the same id, until one reaches the repository's head.

use std::collections::BTreeSet;

use pilot_core::evidence::DeviceName;
use pilot_core::evidence::envelope::{ChainHead, MessageId};
use pilot_core::value::Time;

use crate::catalogue::Catalogue;

/// Where a download is.
#[derive(Debug)]
pub struct Download {
    /// The id of the request, the same for each part.
    pub id: MessageId,
    /// The head of the trace when it was first asked.
    pub head: Option<ChainHead>,
    /// What is known already.
    since: u64,
    /// For a download of everything: the devices that are listed.
    seen: Option<BTreeSet<DeviceName>>,
}

/// What a part means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// It came before; a question was asked twice.
    Repeated,
    /// There is more to ask for.
    More,
    /// This was the last one.
    Complete,
    /// The repository has lost what it had: everything is asked for again.
    Anew,
}

/// A part that leads nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a part of a download that leads nowhere")]
pub struct Nowhere;

impl Download {
    /// Goes on from what is known, or starts from nothing if that is due.
    pub fn begin(id: MessageId, head: Option<ChainHead>, catalogue: &Catalogue, now: Time) -> Self {
        if catalogue.is_full_due(now) {
            Self { id, head, since: 0, seen: Some(BTreeSet::new()) }
        } else {
            Self { id, head, since: catalogue.head(), seen: None }
        }
    }

    /// What to ask for.
    pub const fn since(&self) -> u64 {
        self.since
    }

    /// The devices that a download of everything lists.
    pub const fn seen(&mut self) -> Option<&mut BTreeSet<DeviceName>> {
        self.seen.as_mut()
    }

    /// A part with so many statements came: whoever knew everything up to `since` knows everything up to `until`, of
    /// `head`.
    pub fn advance(&mut self, (since, until, head): (u64, u64, u64), statements: usize) -> Result<Progress, Nowhere> {
        if since != self.since {
            return Ok(Progress::Repeated);
        }
        if head < since {
            (self.since, self.seen) = (0, Some(BTreeSet::new()));
            return Ok(Progress::Anew);
        }
        let is_empty = until == since || statements == 0;
        if until < since || until > head || (is_empty && until < head) {
            return Err(Nowhere);
        }
        self.since = until;
        Ok(if until == head { Progress::Complete } else { Progress::More })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn download(since: u64) -> Download {
        Download { id: MessageId([1; 16]), head: None, since, seen: None }
    }

    /// Parts are taken in their order, each once.
    #[test]
    fn parts_come_in_order() {
        let mut download = download(5);
        assert_eq!(download.advance((5, 8, 10), 1), Ok(Progress::More));
        assert_eq!(download.advance((5, 8, 10), 1), Ok(Progress::Repeated));
        assert_eq!(download.since(), 8);
        assert_eq!(download.advance((8, 11, 11), 1), Ok(Progress::Complete), "it grew meanwhile");
        assert_eq!(download.advance((11, 11, 11), 1), Ok(Progress::Complete), "nothing new");
    }

    /// A repository cannot keep a subject busy with parts that lead nowhere.
    #[test]
    fn every_part_leads_somewhere() {
        for (since, until, head) in [(5, 5, 6), (5, 4, 6), (5, 7, 6)] {
            assert_eq!(download(5).advance((since, until, head), 1), Err(Nowhere), "{since} {until} {head}");
        }
        assert_eq!(download(5).advance((5, 6, 7), 0), Err(Nowhere), "revisions without statements");
        assert_eq!(download(5).advance((5, 7, 7), 0), Ok(Progress::Complete), "what there was has been replaced");
    }

    /// A repository that has lost its revisions is asked for everything.
    #[test]
    fn a_repository_can_start_anew() {
        let mut download = download(5);
        assert_eq!(download.advance((5, 5, 3), 1), Ok(Progress::Anew));
        assert_eq!((download.since(), download.seen().is_some()), (0, true));
    }
}
