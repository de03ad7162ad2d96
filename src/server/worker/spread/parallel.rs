//! Advances the parts of a call at the same time.

use std::{
    panic::resume_unwind,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::{
    engine::JobControl,
    error::{EngineError as Error, EngineResult as Result},
    exec::RunOperands,
};

/// The parts go on for this long before the server may run another job on the thread.
const TIME_SLICE: Duration = Duration::from_millis(10);
/// While a part waits for an answer, the others go on for longer, because all are joined.
const TIME_SLICE_MAX: Duration = Duration::from_millis(200);

/// A part of a call. `operands` are those of the whole call.
pub trait ConcurrentPart: Send {
    fn is_over(&self) -> bool;

    /// Whether what the part reads next has arrived.
    fn has_next_elements(&self, operands: &RunOperands<'_>) -> bool;

    /// Advances the part's run by one step.
    fn step(&mut self, operands: &RunOperands<'_>, control: &JobControl) -> Result<()>;
}

/// Advances all parts whose elements have arrived, each on its own thread.
///
/// Errors: that of the first part that fails. The others are cancelled.
pub fn advance<P: ConcurrentPart>(
    parts: &mut [P],
    operands: &RunOperands<'_>,
    control: &JobControl,
) -> Result<()> {
    let is_ready = |part: &P| !part.is_over() && part.has_next_elements(operands);
    let mut ready: Vec<_> = parts.iter_mut().filter(|part| is_ready(part)).collect();
    let begun = Instant::now();
    let control = control.child();
    let busy = AtomicUsize::new(ready.len());
    let advance = |part: &mut P| {
        let may_go_on = || match begun.elapsed() {
            time if time <= TIME_SLICE => true,
            time => time <= TIME_SLICE_MAX && busy.load(Ordering::Relaxed) > 1,
        };
        let mut advanced = Ok(());
        while advanced.is_ok() && is_ready(part) && may_go_on() {
            advanced = part.step(operands, &control);
        }
        busy.fetch_sub(1, Ordering::Relaxed);
        if advanced.is_err() {
            control.cancel();
        }
        advanced
    };
    let advance = &advance;
    let results: Vec<Result<()>> = thread::scope(|scope| {
        let own = ready.pop();
        let others: Vec<_> =
            ready.into_iter().map(|part| scope.spawn(move || advance(part))).collect();
        let own = own.map(advance);
        // All are joined before the first error is returned.
        let joined = others
            .into_iter()
            .map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        joined.chain(own).collect()
    });
    let mut errors = results.into_iter().filter_map(Result::err);
    let Some(first) = errors.next() else { return Ok(()) };
    // A part that was cancelled is not the cause.
    let cause = (first == Error::Cancelled).then(|| errors.find(|error| *error != first));
    Err(cause.flatten().unwrap_or(first))
}
