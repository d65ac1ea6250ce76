//! From the interpreter's words to a trace's: real steps of the mall, and nothing personal in what is written.

use pilot_core::codec::{self, Digest};
use pilot_core::evidence::envelope::MessageId;
use pilot_core::evidence::trace::action::{Action, Body, CatalogueDigest, Cause, Handle, Item, Message, Party, Word};
use pilot_core::evidence::trace::naming::{Naming, Unnamed};
use pilot_core::evidence::trace::{Chain, Content};
use pilot_core::evidence::{Pseudonym, StatementId};
use pilot_core::graph::{self, Location};
use pilot_core::policy::Choice;
use pilot_core::semantics::{Epoch, PolicyId};
use pilot_core::vocabulary::{DeviceId, Entity, ItemId, Vocabulary};

use super::fixture::mall::{MALL, broadcast, broadcasting, download, listening};
use super::fixture::{NEW_YEAR, World, time};
use super::samples::{NOW, audit_key, device, step};

/// A controller's view: it knows controllers and the repository by name, and subjects not at all.
struct Gate<'w>(&'w World);

const VALUE: &[u8] = b"02:00:00:00:00:01";

impl Gate<'_> {
    fn vocabulary(&self) -> &Vocabulary {
        &self.0.vocabulary
    }
}

impl Naming for Gate<'_> {
    fn party(&self, id: DeviceId) -> Option<Party> {
        let names = ["mall-gate", "shop-gate", "policy-repository"];
        let name = names.into_iter().find(|name| self.0.device(name) == id);
        Some(name.map_or(Party::Owner, |name| Party::Device(device(name))))
    }

    fn policy(&self, policy: PolicyId) -> Option<Digest> {
        self.0.policies.digest(policy)
    }

    fn item(&self, item: ItemId) -> Option<Item> {
        (item == self.0.item("mac-alice")).then(|| Item {
            pseudonym: Pseudonym::of(VALUE, &audit_key()),
            datatype: Word::new("mac-address").unwrap(),
        })
    }

    fn entity(&self, entity: Entity) -> Option<Word> {
        Word::new(self.vocabulary().entities.name(entity)).ok()
    }

    fn statement(&self, _: DeviceId, _: PolicyId) -> Option<StatementId> {
        None
    }

    fn handle(&self, _: ItemId) -> Option<Handle> {
        None
    }
}

/// Reference: evidence without secrets. What was broadcast is in ν afterwards, and nowhere in the record.
#[test]
fn an_accepted_broadcast_leaves_no_value() {
    let world = World::new(MALL);
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let gate = world.device("mall-gate");
    let mut alice = broadcasting(&world, &["all"], ("mall-gate", "mall"), &cx);
    let mut mall = listening(&world, "mall-gate", "mall", &cx);
    let heard = broadcast(&mut alice, gate, &world, "mall", &cx).unwrap();
    let taken = mall.receive(&heard, &cx).unwrap();
    let received = graph::Action::Receive(heard);
    let action = Action::of(&received, &taken, (None, Cause::default()), &Gate(&world)).unwrap();
    assert_eq!(action.label(), received.label());

    let Action::Receive(Message { sender, receiver, body: Body::Broadcast(release), id: None }, _) = &action else {
        panic!("{action:?}")
    };
    assert_eq!((sender, receiver), (&Party::Owner, &Party::Device(device("mall-gate"))));
    assert_eq!(release.epoch, Epoch::of(time(NEW_YEAR)));
    assert_eq!(release.policy, codec::digest(&world.choices["mall"], &world.vocabulary));
    assert!(matches!(world.choices["mall"], Choice::Policy(_)));

    let bytes = Chain::new().append(NOW, Content::Step(Box::new(step(Location::S2, action, Location::S3)))).unwrap();
    for secret in [VALUE, b"mac-alice", b"alice", &[9; 32]] {
        assert!(!bytes.windows(secret.len()).any(|window| window == secret), "{}", secret.escape_ascii());
    }
    assert!(bytes.windows(32).any(|window| window == Pseudonym::of(VALUE, &audit_key()).as_bytes()));
}

/// What a message takes along is recorded as it leaves: the epoch of a broadcast, the catalogue of a download.
#[test]
fn a_message_is_recorded_as_it_leaves() {
    let world = World::new(MALL);
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let mut mall = listening(&world, "mall-gate", "mall", &cx);
    let (policy, repository) = (world.id("mall"), world.device("policy-repository"));
    let body = graph::Body::UploadPolicy { policy };
    let message = graph::Message { sender: world.device("mall-gate"), receiver: repository, body };
    let upload = graph::Action::Send(message);
    let taken = mall.take(upload.clone(), &cx).unwrap();
    let id = Some(MessageId([4; 16]));
    let action = Action::of(&upload, &taken, (id, Cause::default()), &Gate(&world)).unwrap();
    let Action::Send(message) = &action else { panic!("{action:?}") };
    assert_eq!(message.id, id);
    let mut named = Vec::new();
    step(Location::S2, action, Location::S2).for_each_policy(|policy| named.push(*policy));
    assert_eq!(named, [world.policies.digest(policy).unwrap()]);
}

/// Reference: S19 (e). A download says what it changed, and a digest of all that was listed.
#[test]
fn a_download_says_what_it_changed() {
    let world = World::new(MALL);
    let judge = world.judge();
    let cx = world.cx(&judge, NEW_YEAR);
    let mut alice = broadcasting(&world, &["all"], ("mall-gate", "mall"), &cx);
    alice.take(graph::Action::Tau, &cx).unwrap();
    alice.send(world.device("policy-repository"), graph::Body::RequestPolicies, &cx).unwrap();
    let listed = [("mall-gate", "mall-other"), ("shop-gate", "shop")];
    let received = graph::Action::Receive(download(&world, &listed));
    let taken = alice.take(received.clone(), &cx).unwrap();
    let action = Action::of(&received, &taken, (None, Cause::default()), &Gate(&world)).unwrap();
    let Action::Receive(Message { body: Body::DownloadPolicies { catalogue, added, removed }, .. }, _) = action else {
        panic!("a download")
    };
    let digest = |name| world.policies.digest(world.id(name)).unwrap();
    let all = listed.map(|(of, policy)| (device(of), digest(policy)));
    assert_eq!(catalogue, CatalogueDigest::of(&all.clone().into()));
    assert!(added.iter().map(|offer| (offer.device.clone(), offer.policy)).eq(all));
    assert!(
        removed.iter().map(|offer| (offer.device.clone(), offer.policy)).eq([(device("mall-gate"), digest("mall"))])
    );
}

/// A step about something without a name is not recorded under a wrong one.
#[test]
fn unknown_items_are_an_error() {
    let world = World::new(MALL);
    let taken = graph::Step { edge: 0, message: None, claim: None, events: Vec::new() };
    let expire = graph::Action::Expire { item: world.item("age-alice") };
    let refused = Action::of(&expire, &taken, (None, Cause::default()), &Gate(&world));
    assert_eq!(refused, Err(Unnamed::Item));
}
