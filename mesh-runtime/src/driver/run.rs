//! A driver in real time: waits for shutdown, the user, messages and deadlines, and hands on what it did.

use std::future::Future;
use std::pin::pin;

use pilot_core::value::Time;
use tokio::sync::mpsc;

use super::clock::{Clock, ClockProblem};
use super::pacing::after;
use super::{DriveError, Driver, Outcome, Record, RecordError};

/// The most due steps between two looks at the user and the network. More are due at once: they come after that look.
pub const MAX_STEPS_AT_ONCE: usize = 64;

/// The most inputs between two looks at what is due, and the most that share one [`Host::settle`].
pub const MAX_INPUTS_AT_ONCE: usize = 256;

/// The most due steps taken after shutdown was asked for. More: they are left for the next start.
pub const MAX_DRAIN_STEPS: usize = 1_024;

/// The daemon around a driver: it knows what bytes mean, who may send them, and where messages go.
///
/// None of its methods waits. What it sends goes into a queue of its own (a link, an advertiser).
pub trait Host<R> {
    /// Something from outside, not yet verified.
    type Input;
    /// Something that the user wants, with a way to answer her.
    type Command;

    /// Verifies an input and gives it to [`Driver::receive`], or drops it.
    fn receive(
        &mut self,
        input: Self::Input,
        driver: &mut Driver<'_, R>,
        now: Time,
    ) -> Result<Option<Outcome>, DriveError>;

    /// Does what the user wants, by [`Driver::decide`] or otherwise, and answers her, also when it fails.
    fn command(
        &mut self,
        command: Self::Command,
        driver: &mut Driver<'_, R>,
        now: Time,
    ) -> Result<Option<Outcome>, DriveError>;

    /// Something happened and is recorded: sends its messages, and forgets guests that are gone.
    fn happened(&mut self, outcome: Outcome, driver: &mut Driver<'_, R>);

    /// All inputs at hand were taken, and everything that was due: the time for what is done once for many steps, such as
    /// syncing the trace before what it says is acknowledged. Returns when to be called again at the latest.
    fn settle(&mut self, driver: &mut Driver<'_, R>, now: Time) -> Result<Option<Time>, DriveError>;

    /// The clock is not believed, or is again. Said once per change.
    fn clock_changed(&mut self, problem: Option<ClockProblem>);

    /// The daemon is about to end, all is done that was due: a closing checkpoint.
    fn checkpoint(&mut self, driver: &mut Driver<'_, R>, now: Time) -> Result<(), RecordError>;
}

/// Where a running driver's work comes from.
#[derive(Debug)]
pub struct Sources<I, C> {
    /// What comes from outside. The sender's bound is the bound; what does not fit there is the sender's to drop.
    pub inputs: mpsc::Receiver<I>,
    /// What the user wants; comes first.
    pub commands: mpsc::Receiver<C>,
}

/// What to do next.
enum Next<I, C> {
    Stop,
    Input(I),
    Command(C),
    Look,
}

/// Runs a driver until shutdown, then finishes what is due and writes a checkpoint. Fails only if a step or checkpoint
/// cannot be recorded, and then without having sent the step's message: the daemon must end.
pub async fn run<R: Record, H: Host<R>>(
    driver: &mut Driver<'_, R>,
    host: &mut H,
    mut sources: Sources<H::Input, H::Command>,
    clock: &impl Clock,
    shutdown: impl Future<Output = ()>,
) -> Result<(), RecordError> {
    let mut shutdown = pin!(shutdown);
    let mut problem = None;
    loop {
        let now = clock.now();
        let settled = work(driver, host, now, MAX_STEPS_AT_ONCE).and_then(|()| host.settle(driver, now));
        let (found, wake) = match settled {
            Ok(wake) => (None, wake.map_or(driver.next_due(now), |wake| wake.min(driver.next_due(now)))),
            Err(DriveError::Clock(found)) => (Some(found), after(now, 1)),
            Err(fatal) => return Err(into_record_error(fatal)),
        };
        if found.is_some() != problem.is_some() {
            host.clock_changed(found);
        }
        problem = found;
        let next = tokio::select! {
            biased;
            () = &mut shutdown => Next::Stop,
            Some(command) = sources.commands.recv() => Next::Command(command),
            Some(input) = sources.inputs.recv() => Next::Input(input),
            () = clock.wait_until(wake) => Next::Look,
        };
        let now = clock.now();
        match next {
            Next::Stop => break,
            Next::Command(command) => {
                let done = host.command(command, driver, now);
                hand_on(done, driver, host)?;
            }
            Next::Input(input) => {
                let mut input = input;
                for left in (0..MAX_INPUTS_AT_ONCE).rev() {
                    let done = host.receive(input, driver, now);
                    hand_on(done, driver, host)?;
                    // Answers leave before the next question is asked. The head of the loop says if the clock is wrong.
                    hand_on(work(driver, host, now, MAX_STEPS_AT_ONCE).map(|()| None), driver, host)?;
                    let next = if left > 0 { sources.inputs.try_recv().ok() } else { None };
                    let Some(next) = next else { break };
                    input = next;
                }
            }
            Next::Look => {}
        }
    }
    let now = clock.now();
    match work(driver, host, now, MAX_DRAIN_STEPS).and_then(|()| host.settle(driver, now)) {
        Ok(_) | Err(DriveError::Clock(_)) => host.checkpoint(driver, now),
        Err(fatal) => Err(into_record_error(fatal)),
    }
}

/// Lets the host send what happened. A clock that is not believed is said at the head of the loop.
fn hand_on<R: Record, H: Host<R>>(
    done: Result<Option<Outcome>, DriveError>,
    driver: &mut Driver<'_, R>,
    host: &mut H,
) -> Result<(), RecordError> {
    match done {
        Ok(Some(outcome)) => host.happened(outcome, driver),
        Ok(None) | Err(DriveError::Clock(_)) => {}
        Err(fatal) => return Err(into_record_error(fatal)),
    }
    Ok(())
}

/// Does what is due, up to a number of steps.
fn work<R: Record, H: Host<R>>(
    driver: &mut Driver<'_, R>,
    host: &mut H,
    now: Time,
    most: usize,
) -> Result<(), DriveError> {
    for _ in 0..most {
        let Some(outcome) = driver.poll(now)? else { break };
        host.happened(outcome, driver);
    }
    Ok(())
}

fn into_record_error(error: DriveError) -> RecordError {
    match error {
        DriveError::Record(error) => error,
        other => RecordError::new(other),
    }
}
