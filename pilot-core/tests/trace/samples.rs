//! Records of every kind, and a small trace.

use std::collections::BTreeSet;

use ed25519_dalek::SigningKey;
use pilot_core::codec::Digest;
use pilot_core::evidence::envelope::{ChainHead, MessageId};
use pilot_core::evidence::pseudonym::ConsentMark;
use pilot_core::evidence::trace::action::{
    Action, Body, CatalogueDigest, Cause, Connection, Handle, Item, Message, Offer, Party, Release, Word,
};
use pilot_core::evidence::trace::frame::Rest;
use pilot_core::evidence::trace::resume::{Held, Remembered, Resume};
use pilot_core::evidence::trace::verify::VerifyError;
use pilot_core::evidence::trace::{
    Chain, Content, Elided, GraphName, Open, Outcome, PolicyBytes, Reader, Reason, Record, Rule, Standing, Step,
    Verifier,
};
use pilot_core::evidence::{AuditKey, DeviceName, Pseudonym, Signer, StatementId};
use pilot_core::graph::Location;
use pilot_core::graph::message::Withdrawal;
use pilot_core::graphs;
use pilot_core::semantics::Epoch;
use pilot_core::sorted::Sorted;
use pilot_core::value::Time;

pub(crate) const NOW: Time = Time::from_unix(1_780_272_000);
pub(crate) const ADDRESS: [u8; 6] = [0xC0, 0xFF, 0xEE, 0x12, 0x34, 0x56];

pub(crate) fn signer() -> SigningKey {
    SigningKey::from_bytes(&[2; 32])
}

pub(crate) fn audit_key() -> AuditKey {
    AuditKey::new([9; 32].into())
}

pub(crate) fn device(name: &str) -> DeviceName {
    DeviceName::new(name).unwrap()
}

pub(crate) fn gate() -> DeviceName {
    device("mall-gate")
}

pub(crate) fn open() -> Open {
    let graphs = vec![GraphName::of(&graphs::INDIRECT_CONTROLLER), GraphName::of(&graphs::REPOSITORY)];
    Open { device: gate(), graphs, mesh_serial: 7, torn: 0 }
}

pub(crate) fn policy() -> PolicyBytes {
    PolicyBytes::new(b"\xf6 stands for a policy".to_vec()).unwrap()
}

pub(crate) fn pseudonym() -> Pseudonym {
    Pseudonym::of(&ADDRESS, &audit_key())
}

fn release(handle: Option<Handle>) -> Release {
    let item = Item { pseudonym: pseudonym(), datatype: Word::new("mac-address").unwrap() };
    Release { item, policy: policy().digest(), epoch: Epoch(27_816_750), handle }
}

fn offers(statement: Option<StatementId>) -> BTreeSet<Offer> {
    let offer = |name: &str, byte| Offer { device: device(name), policy: Digest([byte; 32]), statement };
    [offer("shop", 3), offer("mall", 4), offer("mall", 2)].into()
}

fn message(sender: Party, body: Body) -> Message {
    Message { sender, receiver: Party::Device(gate()), body, id: Some(MessageId([8; 16])) }
}

/// A broadcast that the gate accepted.
pub(crate) fn accepted() -> Step {
    let message = Message { id: None, ..message(Party::Owner, Body::Broadcast(release(None))) };
    let consent = Some(ConsentMark::of(&[5; 32], &[6; 64], &audit_key()));
    step(Location::S2, Action::Receive(message, Cause { head: None, consent }), Location::S3)
}

pub(crate) fn step(from: Location, action: Action, to: Location) -> Step {
    Step { graph: 0, instance: 0, from, action, to, outcomes: Sorted::new() }
}

/// Every action and every message, with and without what is optional.
pub(crate) fn actions() -> Vec<Action> {
    let (own, item) = (BTreeSet::from([policy().digest(), Digest([0; 32])]), release(None).item);
    let phone = || Party::Connection(Connection::of(&Signer::verifying_key(&signer())));
    let withdrawal = Withdrawal { epoch: Epoch(u64::MAX), until: NOW };
    let bodies = vec![
        Body::Request { policy: policy().digest() },
        Body::Send(release(Some(Handle([7; 16])))),
        Body::RequestPolicies,
        Body::DownloadPolicies {
            catalogue: CatalogueDigest::of(&BTreeSet::new()),
            added: offers(None),
            removed: offers(Some(StatementId([1; 32]))),
        },
        Body::UploadPolicy { policy: policy().digest(), statement: None },
        Body::UploadPolicy { policy: policy().digest(), statement: Some(StatementId([1; 32])) },
        Body::WithdrawPolicy { policy: policy().digest() },
        Body::Broadcast(release(None)),
        Body::Withdraw { item: pseudonym(), withdrawal },
    ];
    let mut actions = vec![
        Action::Init { own: own.clone(), item: Some(item.clone()) },
        Action::Init { own: BTreeSet::new(), item: None },
        Action::Restore { own: own.clone(), item: Some(item), offers: offers(None) },
        Action::ChangeOwn { own },
        Action::Admit { entity: Word::new("flights.com").unwrap() },
        Action::Tau,
        Action::Expire { item: pseudonym() },
        Action::Forget { item: pseudonym() },
        accepted().action,
    ];
    let cause = Cause { head: Some(ChainHead([3; 32])), consent: None };
    actions.extend(bodies.iter().map(|body| Action::Send(message(Party::Device(device("shop")), body.clone()))));
    actions.extend(bodies.into_iter().map(|body| Action::Receive(message(phone(), body), cause.clone())));
    actions
}

/// A record of each kind, and a step with each action.
pub(crate) fn contents() -> Vec<Content> {
    let outcome = |rule, holds| Outcome { policy: Digest([1; 32]), rule, holds };
    let mut judged = accepted();
    judged.outcomes =
        [outcome(Rule::Collection, true), outcome(Rule::Transfer(0), false), outcome(Rule::Transfer(255), true)]
            .into_iter()
            .collect();
    let mut contents = vec![Content::Open(open()), Content::Policy(policy()), Content::Step(Box::new(judged))];
    let steps = actions().into_iter().map(|action| step(Location::S0, action, Location::S4));
    contents.extend(steps.map(|step| Content::Step(Box::new(step))));
    contents.push(Content::Resume(Box::default()));
    contents.push(Content::Resume(Box::new(resume())));
    contents
}

/// With something in every list.
pub(crate) fn resume() -> Resume {
    let (item, policy) = (release(None).item, policy().digest());
    let (phone, shop) = (Party::Owner, Party::Device(device("shop")));
    let withdrawal = Withdrawal { epoch: Epoch(7), until: NOW };
    let remembered = |party| Remembered { item: item.clone(), party, withdrawal };
    let held = |sender| Held { sender, item: item.clone(), policy, epoch: Epoch(27_816_750) };
    Resume {
        policies: offers(None),
        current: [policy].into(),
        published: [policy, Digest([0; 32])].into(),
        catalogue: offers(Some(StatementId([1; 32]))),
        received: [held(phone.clone()), held(shop.clone())].into(),
        asked: [(phone, policy)].into(),
        recipients: [remembered(shop.clone())].into(),
        notices: [remembered(shop)].into(),
        tombstones: [(item.clone(), withdrawal)].into(),
        refused: [Word::new("flights.com").unwrap()].into(),
    }
}

pub(crate) fn elided() -> Elided {
    let mut elided = Elided::default();
    for (times, reason) in Reason::ALL.into_iter().enumerate() {
        (0..times).for_each(|_| elided.count(reason));
    }
    elided
}

/// The records of a small trace, each apart: it was closed after two checkpoints.
pub(crate) fn small() -> Vec<Vec<u8>> {
    let mut chain = Chain::new();
    let append = |chain: &mut Chain, content| chain.append(NOW, content).unwrap();
    let mut records = vec![append(&mut chain, Content::Open(open())), append(&mut chain, Content::Policy(policy()))];
    records.push(append(&mut chain, Content::Step(Box::new(accepted()))));
    records.push(append(&mut chain, Content::Step(Box::new(step(Location::S3, Action::Tau, Location::S2)))));
    records.push(chain.checkpoint(NOW, &gate(), elided(), &signer()).unwrap());
    let expire = step(Location::S2, Action::Expire { item: pseudonym() }, Location::S2);
    records.push(append(&mut chain, Content::Step(Box::new(expire))));
    records.push(chain.close(NOW, &gate(), Elided::default(), false, &signer()).unwrap());
    records
}

/// Verifies files and collects their records.
pub(crate) fn verify_files(files: &[&[u8]]) -> Result<(Standing, Vec<Record>), VerifyError> {
    let mut verifier = Verifier::new(|open: &Open| (open.device == gate()).then(|| Signer::verifying_key(&signer())));
    let mut records = Vec::new();
    for file in files {
        verifier.file(file, |_, record| records.push(record))?;
    }
    Ok((verifier.standing(), records))
}

pub(crate) fn verify(bytes: &[u8]) -> Result<(Standing, Vec<Record>), VerifyError> {
    verify_files(&[bytes])
}

/// How many bytes each record has when the stream comes in pieces of this length, and what is left.
pub(crate) fn lengths(bytes: &[u8], piece: usize) -> (Vec<usize>, Rest) {
    let (mut reader, mut lengths) = (Reader::new(), Vec::new());
    for piece in bytes.chunks(piece) {
        reader.feed(piece);
        while let Some((offset, frame)) = reader.frame().unwrap() {
            assert_eq!(offset, lengths.iter().sum::<usize>() as u64);
            lengths.push(frame.length);
        }
    }
    (lengths, reader.finish().unwrap())
}
