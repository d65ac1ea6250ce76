//! What the disk has follows the trace, which is written first. A crash can leave the rest of the disk behind: then what
//! the trace says since is done before anything else.
//!
//! What was kept and is not in the vault is lost, and the next run begins without it. What was erased or taken back must
//! not come back, so that is done again.

use std::sync::Arc;

use mesh_runtime::daemon::Failure;
use mesh_runtime::journal::Sent;
use mesh_runtime::keys::SecretKeys;
use mesh_runtime::recorder::{OpenError, Position, Recorder};
use pilot_core::codec::Digest;
use pilot_core::evidence::trace::action::{Action, Body};
use pilot_core::evidence::trace::{Content, Record};
use pilot_core::value::Time;

use crate::vault::{Change, Swept, Unswept, Vault};

type TraceRecorder = Recorder<Arc<SecretKeys>>;

/// Brings a vault to where the trace is, and erases what is due.
///
/// If the trace is not the one that the vault has followed, nobody could tell how what is held came here, or whether it was
/// taken back since. Then it is all erased. Tombstones stay.
pub(crate) fn catch_up(
    mut vault: Unswept,
    recorder: &mut TraceRecorder,
    now: Time,
) -> Result<(Vault, Swept, Position), Failure> {
    let from = vault.position().map_err(Failure::runtime)?;
    let mut changes = Vec::new();
    let follows = recorder.follow(from, |record, _| changes.extend(change_of(&record)));
    let follows = follows.map_err(Failure::runtime)?;
    // The vault is never ahead of the trace, also after a power failure.
    recorder.sync().map_err(Failure::runtime)?;
    let position = recorder.position();
    if follows {
        vault.follow(&changes, position).map_err(Failure::runtime)?;
        if !changes.is_empty() {
            tracing::info!(count = changes.len(), "what the trace says to be erased or withdrawn is done again");
        }
    } else {
        let erased = vault.erase_all(position).map_err(Failure::runtime)?;
        tracing::error!(
            erased,
            record = from.next,
            "the trace does not have the record up to which the vault has followed it: it was lost, cut off or replaced. \
             Nothing tells how what is held came here, so it is erased"
        );
    }
    let (vault, swept) = vault.sweep(now).map_err(Failure::runtime)?;
    Ok((vault, swept, position))
}

/// What a record means for the vault, except for what is kept: only the vault had that.
fn change_of(record: &Record) -> Option<Change> {
    let Content::Step(step) = &record.content else { return None };
    match &step.action {
        Action::Expire { item } => Some(Change::Erase(*item)),
        Action::Receive(message, _) => match message.body {
            Body::Withdraw { item, withdrawal } => Some(Change::Withdraw(item, withdrawal.counted_at(record.time))),
            _ => None,
        },
        _ => None,
    }
}

/// Which policies were withdrawn after a position, in this order, and the envelopes that say so; `None` if the trace does
/// not have the position.
pub(crate) fn withdrawn_after(
    from: Position,
    recorder: &TraceRecorder,
) -> Result<Option<Vec<(Digest, Sent)>>, OpenError> {
    let mut withdrawn = Vec::new();
    let follows = recorder.follow(from, |record, head| {
        let Content::Step(step) = record.content else { return };
        let Action::Send(message) = step.action else { return };
        if let (Body::WithdrawPolicy { policy }, Some(id)) = (message.body, message.id) {
            withdrawn.push((policy, Sent { id, head }));
        }
    })?;
    Ok(follows.then_some(withdrawn))
}
