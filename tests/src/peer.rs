//! A participant made of the protocol's parts, to say what no daemon would say.

use std::sync::Arc;
use std::time::Duration;

use mesh_runtime::keys::SecretKeys;
use mesh_runtime::link::mqtt::{self, Settings};
use mesh_runtime::link::{Event, Events, Filter, Link, Topic};
use mesh_runtime::mesh_file::SignedMesh;
use mesh_runtime::protocol::message::Message;
use mesh_runtime::protocol::post::{Opened, Post};
use pilot_core::evidence::envelope::{MessageId, Sender};
use pilot_core::evidence::statement::Content;
use pilot_core::evidence::{DeviceName, MeshFile, PolicyStatement};
use pilot_core::policy::{Choice, Policy};
use pilot_core::value::Time;

use crate::{Mesh, PATIENCE, now};

/// How often a question is asked. Not more often than necessary: tests count what is refused.
const ATTEMPTS: u32 = 6;

/// Somebody on the broker.
pub struct Peer {
    /// Its post.
    pub post: Post,
    events: Events,
    /// The mesh file, as the peer sees it.
    pub mesh: MeshFile,
}

impl Peer {
    /// A device of the mesh, with its keys.
    pub async fn device(files: &Mesh, name: &str) -> Self {
        let keys = Arc::new(SecretKeys::load(&files.layout.keys(name)).unwrap());
        Self::device_with(files, name, keys).await
    }

    /// Somebody who says to be a device of the mesh.
    pub async fn device_with(files: &Mesh, name: &str, keys: Arc<SecretKeys>) -> Self {
        let (link, events) = connect(files);
        Self::begin(files, Post::of_device(link, DeviceName::new(name).unwrap(), keys), events).await
    }

    /// A subject.
    pub async fn subject(files: &Mesh) -> Self {
        let (link, events) = connect(files);
        Self::begin(files, Post::of_subject(link).unwrap(), events).await
    }

    async fn begin(files: &Mesh, post: Post, events: Events) -> Self {
        let signed = SignedMesh::read(&files.layout.root().join("mesh.toml")).unwrap();
        let mesh = signed.open(&files.layout.operator().signing, now(), None).unwrap();
        let mut peer = Self { post, events, mesh };
        let topic = peer.post.my_topic(&peer.mesh).unwrap();
        peer.post.link().subscribe(Filter::from(topic)).unwrap();
        loop {
            if peer.next().await == Event::Connected {
                return peer;
            }
        }
    }

    /// The next event of the link.
    pub async fn next(&mut self) -> Event {
        tokio::time::timeout(PATIENCE, self.events.next()).await.expect("an event in time").expect("a link")
    }

    /// Publishes bytes as they are.
    pub fn publish(&self, topic: Topic, bytes: Vec<u8>) {
        self.post.link().publish(topic, bytes).unwrap();
    }

    /// Waits until everything has left.
    pub async fn flush(&self) {
        while self.post.link().waiting() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }

    /// Says something to a device.
    pub fn say(&mut self, to: &str, id: MessageId, message: &Message) {
        let to = Sender::Device(DeviceName::new(to).unwrap());
        self.post.send(&to, id, None, message, &self.mesh, now());
    }

    /// Asks a device, again and again, until it answers.
    pub async fn ask(&mut self, to: &str, message: &Message) -> Message {
        let id = new_id();
        for _ in 0..ATTEMPTS {
            self.say(to, id, message);
            if let Some(answer) = self.answer_within(id, PATIENCE / ATTEMPTS).await {
                return answer;
            }
        }
        panic!("{to} does not answer {message:?}");
    }

    /// The answer to a question, if it comes in time.
    pub async fn answer_within(&mut self, id: MessageId, time: Duration) -> Option<Message> {
        let search = async {
            loop {
                if let Some(opened) = self.opened().await
                    && opened.message.answers() == Some(id)
                {
                    return opened.message;
                }
            }
        };
        tokio::time::timeout(time, search).await.ok()
    }

    async fn opened(&mut self) -> Option<Opened> {
        match self.events.next().await.expect("a link") {
            Event::Message(came) => self.post.open(&came, &self.mesh, false, now()),
            _ => None,
        }
    }

    /// A policy under the mesh's vocabulary.
    pub fn policy(&self, text: &str) -> Policy {
        let parsed = pilot_core::syntax::parse_file(text, self.mesh.vocabulary()).unwrap();
        let choice = parsed.policies.into_iter().next().expect("a policy").choice;
        let Choice::Policy(policy) = choice else { panic!("no policy") };
        policy
    }

    /// A statement of a device, signed with any keys.
    pub fn statement(&self, device: &str, version: u64, policy: Option<&str>, keys: &SecretKeys) -> Vec<u8> {
        let listed = self.mesh.device(device).expect("a device of the mesh");
        let content = policy.map_or(Content::Withdrawal, |policy| Content::Policy(self.policy(policy)));
        let (issued, expires) = (now(), Time::from_unix(now().unix() + 3600));
        let (device, entity) = (listed.name.clone(), self.mesh.entity(listed).unwrap());
        PolicyStatement { device, entity, version, content, issued, expires }.sign(self.mesh.vocabulary(), keys)
    }
}

/// Sixteen random bytes.
pub fn new_id() -> MessageId {
    mesh_runtime::journal::new_id().unwrap()
}

fn connect(files: &Mesh) -> (Link, Events) {
    let settings = Settings { url: files.layout.broker.clone(), ..Settings::default() };
    mqtt::connect(settings.load().unwrap())
}
