//! Looking for places: every step of every trace with what the device was like before it, and where messages went.

use pilot_core::codec::Digest;
use pilot_core::evidence::DeviceName;
use pilot_core::evidence::envelope::MessageId;
use pilot_core::evidence::trace::action::{Body as Said, Message, Party};
use pilot_core::evidence::trace::{Action, Content, GraphName, Record, Step};
use pilot_core::graph::Graph;
use pilot_core::semantics::Epoch;
use pilot_core::value::Time;
use pilot_core::vocabulary::ItemId;
use std::collections::BTreeMap;

use super::directory::{Directory, Trace};
use super::replica::{Replica, World};
use super::rewrite::replay;

/// A record: which trace, and which of its records.
pub type Place = (usize, usize);

/// A broadcast: whose item, for whom, under which policy, when.
pub type Key = (ItemId, DeviceName, Digest, Epoch);

/// The graph of a trace.
pub fn graph_of(trace: &Trace) -> Option<&'static Graph<'static>> {
    GraphName::new(trace.graph)?.graph()
}

/// A step as it stands in its trace.
#[derive(Clone, Copy)]
pub struct Seen<'s> {
    /// Where.
    pub place: Place,
    /// When.
    pub time: Time,
    /// What.
    pub step: &'s Step,
}

/// Shows every step of a trace with the device before it.
pub fn scan(
    files: &Directory,
    number: usize,
    world: &mut World<'_>,
    mut see: impl FnMut(Seen<'_>, &mut Replica, &mut World<'_>),
) {
    scan_all(files, number, world, |place, time, content, replica, world| {
        if let Content::Step(step) = content {
            see(Seen { place, time, step }, replica, world);
        }
    });
}

/// Likewise, every record.
pub fn scan_all(
    files: &Directory,
    number: usize,
    world: &mut World<'_>,
    mut see: impl FnMut(Place, Time, &Content, &mut Replica, &mut World<'_>),
) {
    let Some(trace) = files.traces.get(number) else { return };
    let Some(graph) = graph_of(trace) else { return };
    let mut replica = Replica::new(&trace.device, graph, world);
    for at in 0..trace.len() {
        let Some(Record { time, content, .. }) = trace.record(at) else { continue };
        if matches!(content, Content::Step(_)) {
            replica.begin();
        }
        see((number, at), time, &content, &mut replica, world);
        replay(&mut replica, &content, time, world);
    }
}

/// Where messages left and arrived.
#[derive(Default)]
pub struct Index {
    /// Broadcasts that were sent.
    pub on_air: BTreeMap<Key, Vec<(Place, Time)>>,
    /// Broadcasts that were accepted.
    pub heard: BTreeMap<Key, Vec<Place>>,
    /// What was sent in an envelope.
    pub sent: BTreeMap<MessageId, Place>,
    /// What came in one.
    pub received: BTreeMap<MessageId, Vec<Place>>,
    /// What each controller has uploaded.
    pub uploads: BTreeMap<DeviceName, Vec<Digest>>,
    /// When devices were interrupted, or their traces end without a close.
    pub interrupted: BTreeMap<usize, Vec<Time>>,
}

impl Index {
    /// Looks at every record of every trace.
    pub fn new(files: &Directory, world: &World<'_>) -> Self {
        let mut index = Self::default();
        for (number, trace) in files.traces.iter().enumerate() {
            let mut last: Option<(Time, bool)> = None;
            for at in 0..trace.len() {
                let Some(Record { time, content, .. }) = trace.record(at) else { continue };
                if let (Content::Open(_), Some((before, false))) = (&content, last) {
                    index.interrupted.entry(number).or_default().extend([before, time]);
                }
                last = Some((time, matches!(content, Content::Close { .. })));
                let Content::Step(step) = content else { continue };
                if let Action::Send(Message { body: Said::UploadPolicy { policy, .. }, .. }) = &step.action {
                    index.uploads.entry(trace.device.clone()).or_default().push(*policy);
                }
                match &step.action {
                    Action::Send(message) => match (key(message, world), message.id) {
                        (Some(key), _) => index.on_air.entry(key).or_default().push(((number, at), time)),
                        (None, Some(id)) => drop(index.sent.insert(id, (number, at))),
                        (None, None) => {}
                    },
                    Action::Receive(message, _) => match (key(message, world), message.id) {
                        (Some(key), _) => index.heard.entry(key).or_default().push((number, at)),
                        (None, Some(id)) => index.received.entry(id).or_default().push((number, at)),
                        (None, None) => {}
                    },
                    _ => {}
                }
            }
            if let Some((time, false)) = last {
                index.interrupted.entry(number).or_default().push(time);
            }
        }
        index
    }

    /// Whether a trace says everything that the device did around a time.
    pub fn is_whole(&self, number: usize, time: Time) -> bool {
        let gaps = self.interrupted.get(&number).map_or(&[][..], Vec::as_slice);
        gaps.iter().all(|gap| gap.unix().abs_diff(time.unix()) > GAP_SECONDS)
    }
}

/// How far from an interruption a missing message says nothing, in seconds: more than clocks may differ.
const GAP_SECONDS: u64 = 600;

/// By what a broadcast is known.
pub fn key(message: &Message, world: &World<'_>) -> Option<Key> {
    let Said::Broadcast(release) = &message.body else { return None };
    let Party::Device(controller) = &message.receiver else { return None };
    Some((world.opened(&release.item.pseudonym)?, controller.clone(), release.policy, release.epoch))
}
