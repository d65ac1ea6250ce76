//! What needs a broker with access control: passwords, certificates, limits, permissions.

use std::io::{Read, Write};
use std::net::TcpListener;

use mesh_runtime::link::mqtt::{self, Settings};
use mesh_runtime::link::{Disconnection, Event, Events, Link, PublishError};
use tempfile::TempDir;

use crate::support::{
    Authority, LOOPBACK, Mosquitto, await_connected, await_message, filter, mosquitto_passwords, plain, secret_file,
    topic,
};

async fn echo(link: &Link, events: &mut Events) {
    link.subscribe(filter("echo")).unwrap();
    await_connected(events).await;
    link.publish(topic("echo"), &b"hello"[..]).unwrap();
    assert_eq!(await_message(events).await.payload, b"hello"[..]);
}

/// The right password connects. A wrong one gives an event that says so, once, and contains neither password.
#[tokio::test]
async fn passwords() {
    let passwords = mosquitto_passwords("shop", "correct horse");
    let mosquitto = Mosquitto::start_with_files(
        "allow_anonymous false\npassword_file DIRECTORY/passwords\n",
        &[("passwords", &passwords)],
    );
    let directory = TempDir::new().unwrap();
    let settings = |content: &str| Settings {
        url: mosquitto.url("mqtt"),
        user: Some("shop".to_owned()),
        password_file: Some(secret_file(directory.path(), "password", content)),
        ..Settings::default()
    };
    let (link, mut events) = mqtt::connect(settings("correct horse\n").load().unwrap());
    echo(&link, &mut events).await;

    let endpoint = settings("battery staple").load().unwrap();
    assert!(!format!("{endpoint:?}").contains("staple"));
    let (_link, mut events) = mqtt::connect(endpoint);
    let first = events.next().await.unwrap();
    let Event::Disconnected { reason: reason @ Disconnection::NotAuthorised(_) } = &first else {
        panic!("{first:?}");
    };
    let words = format!("{reason} {first:?}");
    assert!(words.contains("password") && !words.contains("staple"), "{words}");
    // Several attempts later the same reason has not been said again.
    let again = tokio::time::timeout(mqtt::FIRST_RETRY * 8, events.next()).await;
    assert!(again.is_err(), "{again:?}");
}

/// A broker's smaller limit is learnt on connecting; messages beyond it are refused with that limit, or dropped and
/// counted if they were waiting already. The connection survives both.
#[tokio::test]
async fn the_brokers_limit_holds() {
    let mosquitto = Mosquitto::start("allow_anonymous true\nmax_packet_size 2000\n");
    let (link, mut events) = plain(&mosquitto.url("mqtt"));
    link.publish(topic("echo"), vec![0; 3000]).unwrap();
    echo(&link, &mut events).await;
    assert_eq!(link.dropped(), 1);
    let refused = link.publish(topic("echo"), vec![0; 3000]).unwrap_err();
    assert_eq!(refused, PublishError::TooLarge { packet: 3012, limit: 2000 });
    link.publish(topic("echo"), vec![7; 2000 - 12]).unwrap();
    assert_eq!(await_message(&mut events).await.payload.len(), 1988);
}

/// A message larger than our own limit, from a peer that has none, does not reach us and does not cost the connection.
#[tokio::test]
async fn a_ten_megabyte_message_is_not_delivered() {
    let mosquitto = Mosquitto::start("allow_anonymous true\n");
    let (link, mut events) = plain(&mosquitto.url("mqtt"));
    echo(&link, &mut events).await;
    let port = mosquitto.url("mqtt").rsplit_once(':').unwrap().1.parse().unwrap();
    let mut options = rumqttc::MqttOptions::new("giant", ("127.0.0.1", port));
    options.set_incoming_packet_size_limit(rumqttc::IncomingPacketSizeLimit::Unlimited);
    let (client, mut event_loop) = rumqttc::AsyncClient::builder(options).capacity(10).build();
    let at_least_once = rumqttc::PublishOptions::at_least_once();
    client.publish("echo", vec![0_u8; 10 << 20], at_least_once.clone()).await.unwrap();
    client.publish("echo", "small", at_least_once).await.unwrap();
    let speaking = tokio::spawn(async move { while event_loop.poll().await.is_ok() {} });
    let next = events.next().await.unwrap();
    assert!(matches!(&next, Event::Message(message) if message.payload == b"small"[..]), "{next:?}");
    speaking.abort();
}

/// A subscription that the broker forbids is an event with that reason, not silence. (Mosquitto's access control files
/// cannot forbid one, so the broker is three packets of our own.)
///
/// Reference: MQTT 5, §3.2 and §3.9: 0x87 is "not authorised".
#[tokio::test]
async fn a_refused_subscription_is_said() {
    let listener = TcpListener::bind(LOOPBACK).unwrap();
    let (link, mut events) = plain(&format!("mqtt://{}", listener.local_addr().unwrap()));
    link.subscribe(filter("forbidden")).unwrap();
    let broker = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = [0; 512];
        assert_eq!((stream.read(&mut buffer).unwrap() > 0, buffer[0]), (true, 0x10), "CONNECT");
        stream.write_all(&[0x20, 3, 0, 0, 0]).unwrap();
        assert_eq!((stream.read(&mut buffer).unwrap() > 0, buffer[0]), (true, 0x82), "SUBSCRIBE");
        stream.write_all(&[0x90, 4, buffer[2], buffer[3], 0, 0x87]).unwrap();
        stream
    });
    let first = events.next().await.unwrap();
    let expected = Disconnection::SubscriptionRefused("NotAuthorized".to_owned());
    assert_eq!(first, Event::Disconnected { reason: expected });
    broker.join().unwrap();
}

struct Secure {
    mosquitto: Mosquitto,
    authority: Authority,
    directory: TempDir,
}

impl Secure {
    /// A broker that shows a certificate for 127.0.0.1 and wants to see one.
    fn new() -> Self {
        let authority = Authority::new("the mesh");
        let (certificate, key) = authority.issue("127.0.0.1");
        let mosquitto = Mosquitto::start_with_files(
            "allow_anonymous true\ncafile DIRECTORY/ca.pem\ncertfile DIRECTORY/server.pem\n\
             keyfile DIRECTORY/server.key\nrequire_certificate true\n",
            &[
                ("ca.pem", authority.pem().as_bytes()),
                ("server.pem", certificate.as_bytes()),
                ("server.key", key.as_bytes()),
            ],
        );
        Self { mosquitto, authority, directory: TempDir::new().unwrap() }
    }

    fn settings(&self, trusted: &Authority, issuer: Option<&Authority>) -> Settings {
        let write = |name: &str, content: &str| secret_file(self.directory.path(), name, content);
        let own = issuer.map(|issuer| issuer.issue("shop"));
        Settings {
            url: self.mosquitto.url("mqtts"),
            authority_file: Some(write("ca.pem", &trusted.pem())),
            certificate_file: own.as_ref().map(|(certificate, _)| write("own.pem", certificate)),
            key_file: own.as_ref().map(|(_, key)| write("own.key", key)),
            ..Settings::default()
        }
    }

    async fn first_event(&self, settings: &Settings) -> Event {
        let (_link, mut events) = mqtt::connect(settings.load().unwrap());
        events.next().await.unwrap()
    }
}

/// With the authority and a certificate of ours, messages flow.
#[tokio::test]
async fn tls_with_a_client_certificate() {
    let secure = Secure::new();
    let settings = secure.settings(&secure.authority, Some(&secure.authority));
    let (link, mut events) = mqtt::connect(settings.load().unwrap());
    echo(&link, &mut events).await;
}

/// A server whose certificate comes from another authority is refused, though that authority has the same name.
#[tokio::test]
async fn tls_refuses_a_server_of_another_authority() {
    let secure = Secure::new();
    let other = Authority::new("the mesh");
    let event = secure.first_event(&secure.settings(&other, Some(&secure.authority))).await;
    let Event::Disconnected { reason: Disconnection::Tls(words) } = &event else { panic!("{event:?}") };
    assert!(words.contains("certificate"), "{words}");
}

/// A server that shows a good certificate of somebody else is refused: the name is checked.
#[tokio::test]
async fn tls_refuses_another_name() {
    let secure = Secure::new();
    let mut settings = secure.settings(&secure.authority, Some(&secure.authority));
    settings.url = settings.url.replace("127.0.0.1", "localhost");
    let event = secure.first_event(&settings).await;
    assert!(matches!(&event, Event::Disconnected { reason: Disconnection::Tls(_) }), "{event:?}");
}

/// The broker refuses who shows no certificate, or one of another authority.
#[tokio::test]
async fn tls_refuses_clients_without_a_good_certificate() {
    let secure = Secure::new();
    let other = Authority::new("the mesh");
    for issuer in [None, Some(&other)] {
        let event = secure.first_event(&secure.settings(&secure.authority, issuer)).await;
        assert!(matches!(&event, Event::Disconnected { reason: Disconnection::Tls(_) }), "{event:?}");
    }
}

/// Neither side falls back to a connection without TLS.
#[tokio::test]
async fn tls_and_plain_do_not_mix() {
    let secure = Secure::new();
    let plain = Settings { url: secure.mosquitto.url("mqtt"), ..Settings::default() };
    let event = secure.first_event(&plain).await;
    assert!(matches!(&event, Event::Disconnected { reason: Disconnection::Unreachable(_) }), "{event:?}");

    let mosquitto = Mosquitto::start("allow_anonymous true\n");
    let mut settings = secure.settings(&secure.authority, None);
    settings.url = mosquitto.url("mqtts");
    let event = secure.first_event(&settings).await;
    assert!(matches!(&event, Event::Disconnected { .. }), "{event:?}");
}
