//! Questions that wait for their answers. A link promises nothing, so who needs an answer asks again, with the same id and
//! a fresh time, until it comes. Waiting times double up to [`LAST_REPEAT`]; a peer that is busy says when to ask again.

use std::collections::BTreeMap;

use pilot_core::evidence::envelope::{ChainHead, MessageId};
use pilot_core::value::Time;

/// The first time a question is asked again, in seconds.
pub const FIRST_REPEAT: u64 = 1;
/// The longest time between two repetitions, in seconds.
pub const LAST_REPEAT: u64 = 30;
/// The longest time that a peer can ask us to wait, in seconds; whoever says more is asked after this.
pub const MAX_RETRY_AFTER: u64 = 300;
/// The most questions that wait. Full: a further one is not asked, and its sender is told so.
pub const MAX_WAITING: usize = 1_024;

/// Questions of one device, each with `about`: what the asker needs to ask it again and to understand the answer.
#[derive(Debug)]
pub struct Requests<T> {
    waiting: BTreeMap<MessageId, Waiting<T>>,
}

#[derive(Debug)]
struct Waiting<T> {
    about: T,
    head: Option<ChainHead>,
    due: Time,
    pause: u64,
}

/// [`MAX_WAITING`] questions wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{MAX_WAITING} questions wait for an answer already")]
pub struct TooMany;

/// A question to be asked now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due<'r, T> {
    /// Its id, the same each time.
    pub id: MessageId,
    /// What it is about.
    pub about: &'r T,
    /// The head of the trace when it was first asked.
    pub head: Option<ChainHead>,
}

impl<T> Default for Requests<T> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new() }
    }
}

impl<T> Requests<T> {
    /// A new question, due at once.
    pub fn ask(&mut self, id: MessageId, about: T, head: Option<ChainHead>, now: Time) -> Result<(), TooMany> {
        if self.waiting.len() >= MAX_WAITING && !self.waiting.contains_key(&id) {
            return Err(TooMany);
        }
        self.waiting.insert(id, Waiting { about, head, due: now, pause: FIRST_REPEAT });
        Ok(())
    }

    /// Every question that is to be asked now; each is due again later.
    pub fn due(&mut self, now: Time) -> impl Iterator<Item = Due<'_, T>> {
        self.waiting.iter_mut().filter(move |(_, waiting)| waiting.due <= now).map(move |(id, waiting)| {
            waiting.due = later(now, waiting.pause);
            waiting.pause = waiting.pause.saturating_mul(2).min(LAST_REPEAT);
            Due { id: *id, about: &waiting.about, head: waiting.head }
        })
    }

    /// When the next question is due, if any waits.
    pub fn next_due(&self) -> Option<Time> {
        self.waiting.values().map(|waiting| waiting.due).min()
    }

    /// What a question that waits is about.
    pub fn about(&self, id: &MessageId) -> Option<&T> {
        self.waiting.get(id).map(|waiting| &waiting.about)
    }

    /// The question is answered: it is not asked again.
    pub fn answered(&mut self, id: &MessageId) -> Option<T> {
        self.waiting.remove(id).map(|waiting| waiting.about)
    }

    /// The peer is busy: ask again later.
    pub fn postpone(&mut self, id: &MessageId, retry_after: u64, now: Time) {
        if let Some(waiting) = self.waiting.get_mut(id) {
            waiting.due = later(now, retry_after.clamp(FIRST_REPEAT, MAX_RETRY_AFTER));
        }
    }

    /// The network is back: whatever waits is asked at once.
    pub fn hasten(&mut self, now: Time) {
        for waiting in self.waiting.values_mut() {
            (waiting.due, waiting.pause) = (now, FIRST_REPEAT);
        }
    }

    /// Gives up what does not matter any more.
    pub fn retain(&mut self, mut matters: impl FnMut(&T) -> bool) {
        self.waiting.retain(|_, waiting| matters(&waiting.about));
    }
}

fn later(time: Time, seconds: u64) -> Time {
    Time::from_unix(time.unix().saturating_add(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(requests: &mut Requests<u8>, now: u64) -> Vec<u8> {
        requests.due(Time::from_unix(now)).map(|due| due.id.0[0]).collect()
    }

    /// Asked at once, then after 1, 2, 4, … seconds, until it is answered; after a new connection, at once.
    #[test]
    fn questions_are_repeated_until_answered() {
        let (mut requests, id) = (Requests::default(), MessageId([1; 16]));
        requests.ask(id, 5, None, Time::from_unix(100)).unwrap();
        let asked: Vec<u64> = (100..200).filter(|now| !ids(&mut requests, *now).is_empty()).collect();
        assert_eq!(asked, [100, 101, 103, 107, 115, 131, 161, 191]);
        requests.hasten(Time::from_unix(195));
        assert_eq!(ids(&mut requests, 195), [1]);
        requests.postpone(&id, 1_000_000, Time::from_unix(195));
        assert_eq!(requests.next_due(), Some(Time::from_unix(195 + MAX_RETRY_AFTER)));
        assert_eq!(requests.answered(&id), Some(5));
        assert_eq!(requests.answered(&id), None, "an answer counts once");
        assert_eq!(requests.next_due(), None);
    }

    /// There is a limit.
    #[test]
    fn there_are_not_too_many() {
        let mut requests = Requests::default();
        let id = |n: usize| MessageId(u128::to_be_bytes(n as u128));
        for n in 0..MAX_WAITING {
            requests.ask(id(n), (), None, Time::default()).unwrap();
        }
        assert_eq!(requests.ask(id(MAX_WAITING), (), None, Time::default()), Err(TooMany));
    }
}
