//! What her trace says and the state on the disk does not. A step is recorded before the state is stored, and a crash can
//! come between: then what she has taken back is taken from the trace, so that it is never forgotten.
//!
//! A broadcast that was recorded and not stored is not among it: its frame never left.

use std::sync::Arc;

use mesh_runtime::daemon::Failure;
use mesh_runtime::journal::Names;
use mesh_runtime::keys::SecretKeys;
use mesh_runtime::recorder::{Position, Recorder};
use pilot_core::evidence::DeviceName;
use pilot_core::evidence::envelope::ChainHead;
use pilot_core::evidence::trace::action::{Action, Body, Message, Party};
use pilot_core::evidence::trace::{Content, Record};
use pilot_core::graph::Memory;
use pilot_core::vocabulary::Directory;

use crate::state::{About, Owed, Remembered};

/// The state, to be brought to where the trace is.
pub(crate) struct Behind<'f> {
    pub(crate) memory: &'f mut Memory,
    pub(crate) remembered: &'f mut Remembered,
    pub(crate) names: &'f Names,
    pub(crate) directory: &'f Directory,
    pub(crate) about: &'f About<'f>,
}

impl Behind<'_> {
    /// Does what the trace says after a position; whether the state is to be stored for that.
    pub(crate) fn catch_up(&mut self, from: Position, recorder: &Recorder<Arc<SecretKeys>>) -> Result<bool, Failure> {
        let mut count = 0_u64;
        let follows = recorder.follow(from, |record, hash| count += u64::from(self.redo(record, hash)));
        let follows = follows.map_err(Failure::runtime)?;
        if !follows {
            tracing::error!(
                record = from.next,
                "the trace does not have the record up to which the state has followed it: it was lost, cut off or \
                 replaced. What the state remembers stays"
            );
        }
        if count > 0 {
            tracing::info!(count, "what was withdrawn or admitted just before the last run ended is done again");
        }
        Ok(count > 0 || !follows)
    }

    /// Whether the record is of something to remember.
    fn redo(&mut self, record: Record, hash: ChainHead) -> bool {
        let Content::Step(step) = record.content else { return false };
        match step.action {
            Action::Send(Message { receiver: Party::Device(receiver), body, id: Some(id), .. }) => {
                let Body::Withdraw { item, withdrawal } = body else { return false };
                if item != self.about.pseudonym {
                    return false;
                }
                let known = self.memory.tombstones.entry(self.about.item).or_default();
                *known = known.and(withdrawal.counted_at(record.time));
                self.refuse(&receiver);
                self.remembered.notices.insert(receiver, Owed { id, head: hash, withdrawal });
                true
            }
            Action::Admit { entity } => {
                let known = self.about.vocabulary.entities.id(entity.as_str());
                known.is_some_and(|entity| self.memory.refused.remove(&entity))
                    || self.remembered.forget_entity(entity.as_str())
            }
            _ => false,
        }
    }

    fn refuse(&mut self, receiver: &DeviceName) {
        match self.names.id_of(receiver).and_then(|id| self.directory.entity(id)) {
            Some(entity) => drop(self.memory.refused.insert(entity)),
            None => tracing::warn!(
                "a withdrawal is from a device that the mesh file does not have any more: it will be told, but of which \
                 organisation it was is not known"
            ),
        }
    }
}
