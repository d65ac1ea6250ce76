//! Downloads: the catalogue in parts, to whoever asks.

use mesh_runtime::driver::{DriveError, Outcome};
use mesh_runtime::journal::{self, Origin, Sent, new_id};
use mesh_runtime::link::MAX_OUTBOX_BYTES;
use mesh_runtime::protocol::message::{MAX_STATEMENTS_BYTES, Message, Refusal};
use pilot_core::evidence::envelope::{MAX_MESSAGE_BYTES, Sender};
use pilot_core::evidence::trace::action::{Cause, Connection, Party};
use pilot_core::graph::{self, Body};
use pilot_core::value::Time;

use super::{Driving, RETRY_AFTER, Repository, Request};
use crate::catalogue::Part;

/// The most answers on their way to the broker before those who ask are told to come again: a small question has a large
/// answer, and nobody shall make us keep many of them.
pub const MAX_ANSWERS_WAITING: usize = MAX_OUTBOX_BYTES / MAX_MESSAGE_BYTES / 2;
/// How many downloads are completed per second in the long run: each is two records of the trace, and anybody may ask.
/// More: they are told to come again.
pub const DOWNLOADS_PER_SECOND: u64 = 256;
/// How many may come at once after a quiet time.
pub const DOWNLOAD_BURST: u64 = 4_096;

impl Repository {
    /// Hands out a part of the catalogue; the last part is the graph's download.
    pub(super) fn fetch(
        &mut self,
        request: Request,
        since: u64,
        driver: &mut Driving<'_>,
        now: Time,
    ) -> Result<Option<Outcome>, DriveError> {
        if self.post.link().waiting() >= MAX_ANSWERS_WAITING {
            self.post.complaints.complain("busy", None, &"too many answers wait for the broker", now);
            self.refuse(&request, Refusal::Busy { retry_after: RETRY_AFTER }, now);
            return Ok(None);
        }
        let part = self.catalogue.part(since, MAX_STATEMENTS_BYTES);
        if !part.is_last() {
            // Not a step yet, so no record names it.
            let sent = Sent { id: new_id()?, head: driver.recorder().recorder().head() };
            self.answer_part(&request, since, part, sent, now);
            return Ok(None);
        }
        if !self.has_room_for_download(now) {
            self.post.complaints.complain("busy", None, &"too many downloads", now);
            self.refuse(&request, Refusal::Busy { retry_after: RETRY_AFTER }, now);
            return Ok(None);
        }
        let subject = match &request.sender {
            Sender::Device(name) => driver.recorder().names.id_of(name),
            Sender::Anonymous(key) => {
                let party = Party::Connection(Connection::of(key));
                driver.introduce(None).ok().map(|guest| {
                    driver.recorder().names.guest(guest.device, party);
                    guest.device
                })
            }
        };
        let Some(sender) = subject.filter(|subject| !self.downloads.contains_key(subject)) else {
            self.refuse(&request, Refusal::Busy { retry_after: RETRY_AFTER }, now);
            return Ok(None);
        };
        let origin = Origin { id: Some(request.id), cause: Cause { head: request.head, consent: None } };
        self.downloads.insert(sender, (request, since, part));
        let message = graph::Message { sender, receiver: self.me, body: Body::RequestPolicies };
        let received = journal::receive(driver, message, origin, now);
        if received.is_err() {
            self.downloads.remove(&sender);
        }
        received.map(Some)
    }

    /// Takes one of the downloads that are left; they come back with time.
    fn has_room_for_download(&mut self, now: Time) -> bool {
        let (left, since) = self.downloads_left;
        let back = now.unix().saturating_sub(since.unix()).saturating_mul(DOWNLOADS_PER_SECOND);
        let left = left.saturating_add(back).min(DOWNLOAD_BURST);
        self.downloads_left = (left.saturating_sub(1), now);
        left > 0
    }

    /// Hands out a part, under the id that its record has.
    pub(super) fn answer_part(&mut self, request: &Request, since: u64, part: Part, sent: Sent, now: Time) {
        let Part { statements, until, head } = part;
        let message = Message::Policies { request: request.id, since, until, head, statements };
        self.post.send(&request.sender, sent.id, Some(sent.head), &message, self.membership.mesh(), now);
    }
}
