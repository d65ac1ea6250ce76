//! What the repository does: it lists what controllers upload, and answers.

use pilot_core::graph::{Action, Body, Message};
use pilot_core::semantics::PolicyId;
use pilot_core::value::Time;
use pilot_core::vocabulary::Id as _;

use super::SimulateError;
use super::actor::Envelope;
use super::agenda::Letter;
use super::world::{Mind, World};

/// What it thinks of besides its graph's variables.
#[derive(Default)]
pub(super) struct Repository {
    /// What came for it while it was off; controllers say again what was not acknowledged.
    pub(super) waiting: Vec<Letter>,
}

impl Repository {
    /// Every policy that waits.
    pub(super) fn policies(&self) -> impl Iterator<Item = PolicyId> {
        self.waiting.iter().flat_map(Letter::policies)
    }
}

impl World<'_> {
    /// An upload, a withdrawal of a policy, or a request, which is answered at once.
    pub(super) fn answer(&mut self, letter: Letter, now: Time) -> Result<(), SimulateError> {
        let is_request = matches!(letter.message.body, Body::RequestPolicies);
        let me = letter.to;
        if !self.is_up(me) {
            // Nobody repeats a question, but what controllers say is said until it is acknowledged.
            if let (Some(Mind::Repository(repository)), false) = (self.minds.get_mut(me.index()), is_request) {
                repository.waiting.push(letter);
            }
            return Ok(());
        }
        let (asker, at, connection, envelope) =
            (letter.message.sender, letter.instance, letter.connection, Envelope::of(&letter));
        self.act_with(me, 0, &Action::Receive(letter.message), envelope, now)?;
        if !is_request {
            return Ok(());
        }
        let body = Body::DownloadPolicies { offers: Vec::new() };
        let message = Message { sender: me, receiver: asker, body };
        let answer = self.send(0, message, Envelope { connection, ..Envelope::default() }, now)?;
        match answer {
            Some(letter) if !self.one_in(24) => {
                let seconds = self.rng.u64(..2);
                self.post(Letter { instance: at, ..letter }, seconds, now);
            }
            _ => {}
        }
        Ok(())
    }
}
