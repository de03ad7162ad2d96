//! Parts of a call that run at the same time.

use std::{thread, time::Duration};

use crate::{
    engine::{ExecutedBy, JobControl, add_stages},
    error::{Error, Result},
    exec::{AwaitedElements, RunOperands, RunReport},
};

/// The parts go on for this long before the server may run another job on the thread.
pub const TIME_SLICE: Duration = Duration::from_millis(10);

/// A part of a call. `operands` are those of the whole call.
pub trait ConcurrentPart: Send {
    /// Whether it is not done, and what it reads next has arrived.
    fn is_ready(&self, operands: &RunOperands<'_>) -> bool;

    /// Goes on until it needs elements that have not arrived, or for [`TIME_SLICE`].
    fn advance(&mut self, operands: &RunOperands<'_>, control: &JobControl) -> Result<()>;
}

/// Advances all parts that are ready, each on its own thread.
///
/// Errors: that of the first part that fails.
pub fn advance_ready<P: ConcurrentPart>(
    parts: &mut [P],
    operands: &RunOperands<'_>,
    control: &JobControl,
) -> Result<()> {
    thread::scope(|scope| {
        let mut ready = parts.iter_mut().filter(|part| part.is_ready(operands));
        let own = ready.next();
        let others: Vec<_> =
            ready.map(|part| scope.spawn(move || part.advance(operands, control))).collect();
        let own = own.map_or(Ok(()), |part| part.advance(operands, control));
        let panicked = |_| Err(Error::Internal("a part of a call panicked".into()));
        let joined = others.into_iter().map(|other| other.join().unwrap_or_else(panicked));
        // All are joined before the first error is returned.
        let joined: Vec<_> = joined.collect();
        own.and(joined.into_iter().collect())
    })
}

pub fn not_begun() -> Error {
    Error::Internal("the parts of a call were not begun, or have ended".into())
}

/// Whether these elements of the call's inputs have arrived.
pub fn have_arrived(awaited: &AwaitedElements, operands: &RunOperands<'_>) -> bool {
    operands.inputs.get(awaited.input).is_some_and(|input| {
        let width = input.encoding.width() as u64;
        let elements = &awaited.elements;
        input.source.has_received(elements.start * width..elements.end * width)
    })
}

/// What computed the whole call: `gpu_engine` is the name of the engine that uses GPUs. The stages
/// are added; `None` if there are no reports.
pub fn executed_by(reports: &[RunReport], gpu_engine: &str) -> Option<ExecutedBy> {
    let on_gpu = |report: &&RunReport| report.executor.engine == gpu_engine;
    let gpus = reports.iter().filter(on_gpu).count();
    let shown = &reports.iter().find(on_gpu).or(reports.first())?.executor;
    let device = match gpus {
        0 | 1 => shown.device.clone(),
        _ => format!("{gpus} GPUs: {}", shown.device),
    };
    let checked_on_device = reports.iter().all(|report| report.executor.checked_on_device);
    let mut stages = Vec::new();
    reports.iter().for_each(|report| add_stages(&mut stages, &report.executor.stages));
    Some(ExecutedBy { engine: shown.engine, device, stages, checked_on_device })
}
