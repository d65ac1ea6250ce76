//! Links over an MQTT 5 broker.
//!
//! Each connection is a new session: clean start, a random client id, nothing kept by the broker. All messages go at
//! QoS 0, because acknowledgements are end to end: a PUBACK would only say that the broker has it, at the price of a
//! round trip. The client library is used for one connection at a time; connecting again, with which delay, and
//! subscribing again are decided here.

mod endpoint;
mod session;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::backoff::Backoff;

use super::outbox::Outbox;
use super::{Disconnection, Event, Events, Link};
pub use endpoint::{Endpoint, MAX_CERTIFICATE_BYTES, MAX_PASSWORD_BYTES, Settings, SettingsError};

/// How long name resolution, TCP, TLS and the broker's answer to CONNECT may take together.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// After so long without traffic the client pings; a broker gives a silent client up after one and a half times this.
pub const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How long closing a link may wait for the outbox to leave.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Delay before the second attempt to connect. Doubles with each failure.
pub const FIRST_RETRY: Duration = Duration::from_millis(100);

/// Longest delay between attempts to connect. The jitter takes up to half of a delay away.
pub const LAST_RETRY: Duration = Duration::from_secs(5);

/// A connection that held for so long makes the next delay [`FIRST_RETRY`] again. A shorter one counts as a failure,
/// or a broker that accepts and then throws out would be asked without pause.
pub const STABLE_AFTER: Duration = Duration::from_secs(1);

/// Requests that the client library may hold besides the outbox; they are lost with the connection.
const CLIENT_REQUESTS: usize = 16;

/// Starts a link to a broker. It connects in the background and never gives up; [`Events`] says how it goes. Must be
/// called inside a tokio runtime.
#[must_use]
pub fn connect(endpoint: Endpoint) -> (Link, Events) {
    let (link, receiver, outbox, events) = Link::open();
    tokio::spawn(run(endpoint, outbox, events));
    (link, receiver)
}

/// Connects again and again until the link is closed or nobody listens.
async fn run(endpoint: Endpoint, outbox: Arc<Outbox>, events: mpsc::Sender<Event>) {
    let mut backoff = Backoff::new(FIRST_RETRY, LAST_RETRY, fastrand::Rng::new());
    let mut said = None;
    loop {
        let started = Instant::now();
        let end = session::run(&endpoint, &outbox, &events).await;
        outbox.disconnected();
        if end.reason == Disconnection::Closed || outbox.is_closing() {
            break;
        }
        if end.was_connected && started.elapsed() >= STABLE_AFTER {
            backoff.reset();
        }
        if end.was_connected || said.as_ref() != Some(&end.reason) {
            said = Some(end.reason.clone());
            if events.send(Event::Disconnected { reason: end.reason }).await.is_err() {
                break;
            }
        }
        tokio::select! {
            () = tokio::time::sleep(backoff.next_delay()) => {}
            () = outbox.closing() => break,
            () = events.closed() => break,
        }
    }
    // Nobody may be listening any more, which is fine.
    let _ = events.send(Event::Disconnected { reason: Disconnection::Closed }).await;
}
