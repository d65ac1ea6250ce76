//! Opens many statements with all processors: a signature takes longer than everything else together.

use std::num::NonZero;
use std::thread;

use pilot_core::evidence::statement::StatementError;
use pilot_core::evidence::{MeshFile, PolicyStatement, StatementId};
use pilot_core::value::Time;
use pilot_core::vocabulary::Vocabulary;

/// The most threads.
pub const MAX_THREADS: usize = 4;
/// Fewer statements than this are not worth another thread.
const FEW: usize = 16;

/// What it takes to open a statement.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'r> {
    /// Who may state what.
    pub mesh: &'r MeshFile,
    /// The words.
    pub vocabulary: &'r Vocabulary,
    /// When.
    pub now: Time,
}

/// A statement that was looked at.
#[derive(Debug)]
pub enum Opened {
    /// It was opened before.
    Known(StatementId),
    /// It is to be believed.
    New(Box<Statement>),
}

/// A statement that is to be believed.
#[derive(Debug)]
pub struct Statement {
    /// Its id.
    pub id: StatementId,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// What it says.
    pub statement: PolicyStatement,
}

/// Opens statements, in their order; those that are `known` were opened before.
pub fn open_all(
    statements: Vec<Vec<u8>>,
    known: &(impl Fn(&StatementId) -> bool + Sync),
    reader: &Reader<'_>,
) -> Vec<Result<Opened, StatementError>> {
    let open = |bytes: Vec<u8>| -> Result<Opened, StatementError> {
        let id = StatementId::of(&bytes);
        if known(&id) {
            return Ok(Opened::Known(id));
        }
        let statement = PolicyStatement::open(&bytes, reader.mesh, reader.vocabulary, reader.now)?;
        Ok(Opened::New(Box::new(Statement { id, bytes, statement })))
    };
    let processors = thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS);
    let share = statements.len().div_ceil(processors);
    if share < FEW {
        return statements.into_iter().map(open).collect();
    }
    let mut shares: Vec<Vec<Vec<u8>>> = Vec::new();
    let mut rest = statements.into_iter();
    loop {
        let next: Vec<Vec<u8>> = rest.by_ref().take(share).collect();
        if next.is_empty() {
            break;
        }
        shares.push(next);
    }
    let open = &open;
    thread::scope(|scope| {
        let open_share = |share: Vec<Vec<u8>>| move || share.into_iter().map(open).collect::<Vec<_>>();
        let workers: Vec<_> = shares.into_iter().map(|share| scope.spawn(open_share(share))).collect();
        // A worker that panicked has opened nothing, so its share is left out.
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
    })
}
