//! One connection to a broker, from CONNECT to its end.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use rumqttc::tokio_rustls::rustls;
use rumqttc::{
    AsyncClient, ConnAck, ConnectReturnCode, ConnectionError, EventLoop, MqttOptions, NetworkOptions, Packet, Publish,
    PublishOptions, QoS, StateError, SubscribeFilterInput, SubscribeReasonCode, TlsError, Transport, mqttbytes,
};
use tokio::sync::{mpsc, oneshot};

use super::super::outbox::{Command, Outbox};
use super::super::{Disconnection, Event, Filter, MAX_PACKET_BYTES, Message, Topic};
use super::{CLIENT_REQUESTS, CLOSE_TIMEOUT, CONNECT_TIMEOUT, Endpoint, KEEP_ALIVE};

/// Filters in one SUBSCRIBE packet: with the longest filters it stays below a quarter of the smallest packet limit of
/// common brokers.
const FILTERS_PER_PACKET: usize = 8;

/// Publications that wait for the broker's acknowledgement. None of ours do, at QoS 0; but the client library has a slot
/// for each that might, 65,535 unless told otherwise, which are megabytes, and looks at all of them after each packet.
const MAX_IN_FLIGHT: u16 = 1;

/// How a connection ended.
pub(super) struct End {
    pub(super) reason: Disconnection,
    pub(super) was_connected: bool,
}

/// Runs one connection. Returns when it has ended or, if the link is closing, when the outbox has left.
pub(super) async fn run(endpoint: &Endpoint, outbox: &Outbox, events: &mpsc::Sender<Event>) -> End {
    let options = match options(endpoint) {
        Ok(options) => options,
        Err(reason) => return End { reason, was_connected: false },
    };
    let (client, event_loop) = AsyncClient::builder(options).capacity(CLIENT_REQUESTS).build();
    let connected = AtomicBool::new(false);
    let (announce, announced) = oneshot::channel();
    // Reading and writing are two futures beside each other, so that neither is ever cut off in the middle of a step.
    let reason = tokio::select! {
        reason = read(event_loop, outbox, events, &connected, announce) => reason,
        reason = write(client, outbox, events, announced) => reason,
        () = give_up(outbox, &connected) => Disconnection::Closed,
        () = events.closed() => Disconnection::Closed,
    };
    End { reason, was_connected: connected.load(Ordering::Relaxed) }
}

/// Returns some time after the link began to close: at once if there is no connection to drain the outbox into.
async fn give_up(outbox: &Outbox, connected: &AtomicBool) {
    outbox.closing().await;
    if connected.load(Ordering::Relaxed) {
        tokio::time::sleep(CLOSE_TIMEOUT).await;
    }
}

fn options(endpoint: &Endpoint) -> Result<MqttOptions, Disconnection> {
    let mut options = MqttOptions::new(random_client_id()?, (endpoint.host(), endpoint.port()));
    options.set_clean_start(true);
    options.set_keep_alive(u16::try_from(KEEP_ALIVE.as_secs()).unwrap_or(u16::MAX));
    options.set_connect_timeout(CONNECT_TIMEOUT);
    options.set_max_packet_size(u32::try_from(MAX_PACKET_BYTES).ok());
    options.set_outgoing_inflight_upper_limit(MAX_IN_FLIGHT);
    if let Some((user, password)) = endpoint.credentials() {
        options.set_credentials(user, password);
    }
    if let Some(tls) = endpoint.tls() {
        options.set_transport(Transport::tls_with_config(rumqttc::TlsConfiguration::Rustls(tls)));
    }
    let mut network = NetworkOptions::new();
    // Otherwise small messages wait for acknowledgements of earlier ones: 40 ms instead of less than one.
    network.set_tcp_nodelay(true);
    network.set_connection_timeout(CONNECT_TIMEOUT.as_secs());
    options.set_network_options(network);
    Ok(options)
}

/// Twenty hexadecimal digits: within the 23 characters that every broker must accept (MQTT 5, §3.1.3.1). New for each
/// connection, so that the broker cannot follow a subject from one to the next, and nobody can guess it and take over.
fn random_client_id() -> Result<String, Disconnection> {
    let mut bytes = [0; 10];
    getrandom::fill(&mut bytes).map_err(|error| Disconnection::Unreachable(format!("no randomness: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Reads packets until the connection ends. Waits while the daemon does not take its events.
async fn read(
    mut event_loop: EventLoop,
    outbox: &Outbox,
    events: &mpsc::Sender<Event>,
    connected: &AtomicBool,
    announce: oneshot::Sender<Vec<Filter>>,
) -> Disconnection {
    let mut announce = Some(announce);
    loop {
        match event_loop.poll().await {
            Ok(rumqttc::Event::Incoming(Packet::ConnAck(answer))) => {
                connected.store(true, Ordering::Relaxed);
                let filters = outbox.connected(packet_limit(&answer));
                if let Some(announce) = announce.take() {
                    let _ = announce.send(filters);
                }
            }
            Ok(rumqttc::Event::Incoming(Packet::Publish(publication))) => match message(publication) {
                Some(message) => {
                    if events.send(Event::Message(message)).await.is_err() {
                        return Disconnection::Closed;
                    }
                }
                None => outbox.count_dropped(),
            },
            Ok(_) => {}
            Err(error) => return disconnection(&error, connected.load(Ordering::Relaxed)),
        }
    }
}

/// Why `write` stops.
enum Stop {
    /// The broker refused a subscription.
    Refused(Disconnection),
    /// The connection is gone; `read` knows why.
    Gone,
}

/// Writes until the link closes. Then, or when the connection is gone, leaves it to `read` to say how it ended.
async fn write(
    client: AsyncClient,
    outbox: &Outbox,
    events: &mpsc::Sender<Event>,
    announced: oneshot::Receiver<Vec<Filter>>,
) -> Disconnection {
    match write_all(&client, outbox, events, announced).await {
        Err(Stop::Refused(reason)) => return reason,
        Err(Stop::Gone) => {}
        Ok(()) => {
            let _ = client.disconnect().await;
        }
    }
    std::future::pending().await
}

/// Subscribes to everything, says so, then hands over what is in the outbox until the link closes. Each subscription is
/// waited for, because the client library sends publications before subscriptions that were asked for earlier.
async fn write_all(
    client: &AsyncClient,
    outbox: &Outbox,
    events: &mpsc::Sender<Event>,
    announced: oneshot::Receiver<Vec<Filter>>,
) -> Result<(), Stop> {
    let filters = announced.await.map_err(|_| Stop::Gone)?;
    for some in filters.chunks(FILTERS_PER_PACKET) {
        subscribe(client, some).await?;
    }
    events.send(Event::Connected).await.map_err(|_| Stop::Gone)?;
    while let Some(command) = outbox.next().await {
        match command {
            Command::Publish(Message { topic, payload }) => {
                let handed_over = client.publish(topic.as_str(), payload, PublishOptions::at_most_once()).await;
                handed_over.map_err(|_| Stop::Gone)?;
            }
            Command::Subscribe(filter) => subscribe(client, &[filter]).await?,
            Command::Unsubscribe(filter) => {
                let notice = client.unsubscribe_tracked(filter.as_str()).await.map_err(|_| Stop::Gone)?;
                notice.wait_async().await.map_err(|_| Stop::Gone)?;
            }
        }
    }
    Ok(())
}

async fn subscribe(client: &AsyncClient, filters: &[Filter]) -> Result<(), Stop> {
    let inputs = filters.iter().map(|filter| SubscribeFilterInput::new(filter.as_str(), QoS::AtMostOnce));
    let notice = client.subscribe_many_tracked(inputs).await.map_err(|_| Stop::Gone)?;
    let answer = notice.wait_async().await.map_err(|_| Stop::Gone)?;
    match answer.return_codes.iter().find(|code| !matches!(code, SubscribeReasonCode::Success(_))) {
        Some(code) => Err(Stop::Refused(Disconnection::SubscriptionRefused(format!("{code:?}")))),
        None => Ok(()),
    }
}

fn packet_limit(answer: &ConnAck) -> usize {
    let announced = answer.properties.as_ref().and_then(|properties| properties.max_packet_size);
    announced.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(MAX_PACKET_BYTES)
}

fn message(publication: Publish) -> Option<Message> {
    let topic = Topic::new(std::str::from_utf8(&publication.topic).ok()?).ok()?;
    Some(Message { topic, payload: publication.payload })
}

/// Translates the library's error. Only codes, and words of the operating system and of rustls, are passed on: never
/// text that the broker wrote, and nothing of the endpoint.
fn disconnection(error: &ConnectionError, connected: bool) -> Disconnection {
    match error {
        ConnectionError::ConnectionRefused(code)
        | ConnectionError::MqttState(StateError::ConnFail { reason: code }) => refused(*code),
        ConnectionError::Tls(TlsError::Io(error))
        | ConnectionError::Io(error)
        | ConnectionError::MqttState(
            StateError::Io(error) | StateError::Deserialization(mqttbytes::Error::Io(error)),
        ) => broken(error, connected),
        ConnectionError::Tls(error) => Disconnection::Tls(error.to_string()),
        ConnectionError::Timeout(_) => Disconnection::Unreachable("no answer in time".to_owned()),
        ConnectionError::RequestsDone => Disconnection::Closed,
        ConnectionError::MqttState(StateError::ServerDisconnect { reason_code, .. }) => {
            Disconnection::Lost(format!("the broker says {reason_code:?}"))
        }
        ConnectionError::MqttState(StateError::ConnectionAborted) => lost("closed by the broker", connected),
        _ => lost("the broker broke the rules of MQTT", connected),
    }
}

fn refused(code: ConnectReturnCode) -> Disconnection {
    use ConnectReturnCode::{BadAuthenticationMethod, BadUserNamePassword, Banned, NotAuthorized};
    match code {
        BadUserNamePassword | NotAuthorized | Banned | BadAuthenticationMethod => {
            Disconnection::NotAuthorised(format!("{code:?}"))
        }
        _ => Disconnection::Refused(format!("{code:?}")),
    }
}

fn broken(error: &io::Error, connected: bool) -> Disconnection {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(error) => Disconnection::Tls(error.to_string()),
        None => lost(&error.to_string(), connected),
    }
}

fn lost(words: &str, connected: bool) -> Disconnection {
    if connected { Disconnection::Lost(words.to_owned()) } else { Disconnection::Unreachable(words.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each connection has an id of its own, a clean session, no delay for small packets, and our limit on packets.
    #[test]
    fn options_of_a_connection() {
        let endpoint = Endpoint::plain("127.0.0.1:1883".parse().unwrap());
        let (first, second) = (options(&endpoint).unwrap(), options(&endpoint).unwrap());
        assert_ne!(first.client_id(), second.client_id());
        assert!(first.client_id().len() <= 23 && first.client_id().chars().all(|digit| digit.is_ascii_hexdigit()));
        assert!(first.clean_start());
        assert_eq!(first.session_expiry_interval(), None);
        assert_eq!(first.max_packet_size(), Some(262_144));
        assert_eq!(first.keep_alive(), KEEP_ALIVE);
        assert!(format!("{:?}", first.network_options()).contains("tcp_nodelay: true"));
    }
}
